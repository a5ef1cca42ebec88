// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reading and writing the kernel's small text files.

use crate::{Error, Result};
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A file's text without the white space around it; `None` if it cannot be read.
pub(crate) fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// A decimal number.
pub(crate) fn number<T: std::str::FromStr>(path: &Path) -> Option<T> {
    text(path)?.parse().ok()
}

/// A number written as `0x...`.
pub(crate) fn hex(path: &Path) -> Option<u64> {
    parse_hex(&text(path)?)
}

/// A number written as `0x...`.
pub(crate) fn parse_hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// The last part of a path or of a link's target.
pub(crate) fn link_name(path: &Path) -> Option<String> {
    name_of(&fs::read_link(path).ok()?)
}

/// The last part of a path.
pub(crate) fn name_of(path: &Path) -> Option<String> {
    path.file_name().and_then(OsStr::to_str).map(str::to_owned)
}

/// The names in a folder, sorted; empty if it does not exist.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// Replaces the text of an existing file, in one system call as the kernel expects.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|source| Error::io("writing to", path, source))
}

/// A path with its links resolved, or unchanged if that fails.
pub(crate) fn canonical(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

#[cfg(test)]
pub(crate) mod fake {
    //! A small tree of the kernel's files for tests.

    use crate::Roots;
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::{env, fs, process};

    /// A folder that is removed at the end of its test.
    pub(crate) struct Tree(PathBuf);

    impl Tree {
        pub(crate) fn new() -> Self {
            static NUMBER: AtomicU32 = AtomicU32::new(0);
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let folder = env::temp_dir().join(format!("straightway-{}-{number}", process::id()));
            fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        pub(crate) fn path(&self) -> &Path {
            &self.0
        }

        pub(crate) fn roots(&self) -> Roots {
            Roots::under(&self.0)
        }

        pub(crate) fn file(&self, path: &str, text: &str) -> &Self {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
            self
        }

        pub(crate) fn link(&self, path: &str, target: &str) -> &Self {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::create_dir_all(self.0.join(target)).unwrap();
            std::os::unix::fs::symlink(self.0.join(target), path).unwrap();
            self
        }

        pub(crate) fn read(&self, path: &str) -> String {
            fs::read_to_string(self.0.join(path)).unwrap()
        }

        /// One drive as Linux 6.1 shows it: 0000:01:00.0, nvme0, nvme0n1 with one partition.
        pub(crate) fn with_drive() -> Self {
            let tree = Self::new();
            let device = "sys/devices/pci0000:00/0000:01:00.0";
            tree.file(&format!("{device}/class"), "0x010802\n")
                .file(&format!("{device}/vendor"), "0x1b36\n")
                .file(&format!("{device}/device"), "0x0010\n")
                .file(&format!("{device}/numa_node"), "-1\n")
                .file(&format!("{device}/driver_override"), "(null)\n")
                .file(
                    &format!("{device}/resource"),
                    "0x00000000febd0000 0x00000000febd3fff 0x0000000000140204\n0x0 0x0 0x0\n",
                )
                .file(&format!("{device}/nvme/nvme0/serial"), "abc 1   \n")
                .file(&format!("{device}/nvme/nvme0/model"), "Test Drive\n")
                .file(&format!("{device}/nvme/nvme0/transport"), "pcie\n")
                .file(&format!("{device}/nvme/nvme0/address"), "0000:01:00.0\n")
                .file(&format!("{device}/nvme/nvme0/nvme0n1/nsid"), "1\n")
                .file(&format!("{device}/nvme/nvme0/nvme0n1/dev"), "259:0\n")
                .file(
                    &format!("{device}/nvme/nvme0/nvme0n1/nvme0n1p1/dev"),
                    "259:1\n",
                )
                .file(
                    &format!("{device}/nvme/nvme0/nvme0n1/nvme0n1p1/partition"),
                    "1\n",
                )
                .file(&format!("{device}/nvme/nvme0/ng0n1/dev"), "240:0\n")
                .file("sys/bus/pci/drivers/nvme/unbind", "")
                .file("sys/bus/pci/drivers/nvme/bind", "")
                .file("sys/bus/pci/drivers_probe", "")
                .file("proc/self/mountinfo", "21 1 0:19 / / rw - tmpfs tmpfs rw\n")
                .file("proc/swaps", "Filename Type Size Used Priority\n")
                .link(
                    &format!("{device}/iommu_group"),
                    "sys/kernel/iommu_groups/4",
                )
                .link(&format!("{device}/driver"), "sys/bus/pci/drivers/nvme")
                .link("sys/kernel/iommu_groups/4/devices/0000:01:00.0", device)
                .link("sys/bus/pci/devices/0000:01:00.0", device)
                .link("sys/class/nvme/nvme0", &format!("{device}/nvme/nvme0"))
                .link(
                    "sys/class/block/nvme0n1",
                    &format!("{device}/nvme/nvme0/nvme0n1"),
                )
                .link(
                    "sys/class/block/nvme0n1p1",
                    &format!("{device}/nvme/nvme0/nvme0n1/nvme0n1p1"),
                );
            tree
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}
