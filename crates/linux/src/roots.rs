// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The locations of the kernel's files: the real ones, or a tree made for a test.

use std::path::{Path, PathBuf};

/// The folders that this crate reads and writes, apart from the drives themselves.
#[derive(Clone, Debug)]
pub struct Roots {
    /// `/sys`.
    pub sys: PathBuf,
    /// `/proc`.
    pub proc: PathBuf,
    /// `/dev`.
    pub dev: PathBuf,
    /// Folders for the records of borrowed devices, best first; the first writable one is used, and
    /// all are searched.
    pub state: Vec<PathBuf>,
    /// The command that loads a kernel module.
    pub modprobe: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self::system()
    }
}

impl Roots {
    /// The folders of this machine.
    pub fn system() -> Self {
        let mut state = vec![PathBuf::from("/run/straightway")];
        if let Some(folder) = std::env::var_os("XDG_RUNTIME_DIR") {
            state.push(Path::new(&folder).join("straightway"));
        }
        Self {
            sys: "/sys".into(),
            proc: "/proc".into(),
            dev: "/dev".into(),
            state,
            modprobe: "modprobe".into(),
        }
    }

    /// A tree with the folders `sys`, `proc`, `dev` and `run`, in which no module can be loaded.
    pub fn under(folder: &Path) -> Self {
        Self {
            sys: folder.join("sys"),
            proc: folder.join("proc"),
            dev: folder.join("dev"),
            state: vec![folder.join("run/straightway")],
            modprobe: folder.join("no-modprobe"),
        }
    }

    /// The folder of a PCI device.
    pub(crate) fn pci_device(&self, address: impl std::fmt::Display) -> PathBuf {
        self.sys.join(format!("bus/pci/devices/{address}"))
    }

    /// The folder of a PCI driver.
    pub(crate) fn pci_driver(&self, name: &str) -> PathBuf {
        self.sys.join("bus/pci/drivers").join(name)
    }
}
