// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the power states of a drive at the kernel's driver may delay a command by, limited for a
//! while.
//!
//! The driver has an attribute for it, `power/pm_qos_latency_tolerance_us` (Linux,
//! Documentation/ABI/testing/sysfs-devices-power), and makes its table of autonomous transitions by
//! it, again after each of its resets. Before it is changed, a record of its value and of this
//! process is written: if the process is killed, the next run's [`restore_stale`] puts the value
//! back.

use crate::pci::{Controller, PciAddress};
use crate::state::{self, Process};
use crate::sysfs;
use crate::{Error, Result, Roots};
use std::path::{Path, PathBuf};

const SUFFIX: &str = ".latency";

/// The attribute of a controller that the kernel's driver holds; `None` where there is none.
fn attribute(roots: &Roots, address: PciAddress) -> Option<PathBuf> {
    let name = Controller::at(roots, address).ok()?.kernel_name?;
    let folder = roots.sys.join("class/nvme").join(name);
    let file = folder.join("power/pm_qos_latency_tolerance_us");
    file.exists().then_some(file)
}

/// The attribute's value, from before the first change until it is put back.
#[derive(Debug)]
pub struct Tolerance {
    roots: Roots,
    folder: PathBuf,
    record: Record,
    released: bool,
}

impl Tolerance {
    /// Remembers the value; `None` if the kernel's driver has no such attribute for this drive: it
    /// has no autonomous transitions, or another driver holds it. Of several in one process, the
    /// first one puts it back.
    ///
    /// # Errors
    /// [`Error::Owned`] if another process has changed it, [`Error::NotPermitted`] if no record can
    /// be kept.
    pub fn remember(roots: &Roots, address: PciAddress) -> Result<Option<Self>> {
        let Some(file) = attribute(roots, address) else {
            return Ok(None);
        };
        let (folder, _lock) = state::lock(roots)?;
        for (folder, record) in records(roots) {
            if record.address != address {
                continue;
            }
            if record.owner == Process::this(roots) {
                return Ok(Some(Self {
                    roots: roots.clone(),
                    folder,
                    record,
                    released: true,
                }));
            }
            if record.owner.is_alive(roots) {
                return Err(Error::Owned {
                    device: address.to_string(),
                    pid: record.owner.pid,
                });
            }
            record.put_back(roots, &folder)?;
        }
        let Some(before) = sysfs::text(&file) else {
            return Ok(None);
        };
        let record = Record {
            address,
            owner: Process::this(roots),
            before,
        };
        state::save(&record.path(&folder), &record.to_text())?;
        Ok(Some(Self {
            roots: roots.clone(),
            folder,
            record,
            released: false,
        }))
    }

    /// The value before: a number of microseconds, `auto` or `any`.
    pub fn before(&self) -> &str {
        &self.record.before
    }

    /// Limits the delay to `limit_us` microseconds; 0 switches the transitions off. The driver then
    /// sets the drive, before this returns, and reports no error of it: ask the drive
    /// ([`admin::power`](crate::admin::power)).
    ///
    /// # Errors
    /// [`Error::NotPermitted`], or the driver no longer holds the drive.
    pub fn limit(&self, limit_us: u32) -> Result<()> {
        // The attribute's numbers are those of an s32.
        let limit_us = limit_us.min(i32::MAX as u32 - 1);
        match attribute(&self.roots, self.record.address) {
            Some(file) => sysfs::write(&file, &limit_us.to_string()),
            None => Err(Error::NotBound {
                device: self.record.address.to_string(),
                driver: Controller::at(&self.roots, self.record.address)?.driver,
            }),
        }
    }

    /// Puts the value back, also where the driver was bound again since and has its default. The
    /// record stays.
    ///
    /// # Errors
    /// [`Error::NotPermitted`].
    pub fn put_back(&self) -> Result<()> {
        self.record.write_value(&self.roots)
    }

    /// Puts the value back for good.
    ///
    /// # Errors
    /// Those of [`put_back`](Tolerance::put_back); the record stays then.
    pub fn release(mut self) -> Result<()> {
        self.undo()
    }

    fn undo(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.released, true) {
            return Ok(());
        }
        let _lock = state::lock(&self.roots)?;
        self.record.put_back(&self.roots, &self.folder)
    }
}

impl Drop for Tolerance {
    fn drop(&mut self) {
        // If this fails, the record stays and states what is left to do.
        let _ = self.undo();
    }
}

/// A value that was put back after the process that had changed it had died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The drive.
    pub address: PciAddress,
    /// The value that it has again.
    pub value: String,
    /// The process that had changed it.
    pub dead_pid: u32,
}

/// Whether a dead process has left a value to put back.
pub fn is_stale(roots: &Roots) -> bool {
    let mut all = records(roots).into_iter();
    all.any(|(_, record)| !record.owner.is_alive(roots))
}

/// Puts back what dead processes had changed.
///
/// # Errors
/// That of the first value that could not be put back; the others are still tried.
pub fn restore_stale(roots: &Roots) -> Result<Vec<Restored>> {
    let (_, _lock) = state::lock(roots)?;
    let mut restored = Vec::new();
    let mut failure = None;
    for (folder, record) in records(roots) {
        if record.owner.is_alive(roots) {
            continue;
        }
        match record.put_back(roots, &folder) {
            Ok(()) => restored.push(Restored {
                address: record.address,
                value: record.before,
                dead_pid: record.owner.pid,
            }),
            Err(error) => {
                failure.get_or_insert(error);
            }
        }
    }
    failure.map_or(Ok(restored), Err)
}

/// What is needed to put a value back.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    address: PciAddress,
    owner: Process,
    before: String,
}

impl Record {
    fn to_text(&self) -> String {
        format!(
            "straightway 1\npid {}\nstart {}\ndevice {}\nbefore {}\n",
            self.owner.pid, self.owner.start_ticks, self.address, self.before
        )
    }

    fn parse(text: &str) -> Option<Self> {
        let (address, owner) = state::head(text)?;
        Some(Self {
            address,
            owner,
            before: state::field(text, "before")?,
        })
    }

    fn path(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}{SUFFIX}", self.address))
    }

    /// A drive that is gone, or at another driver, has no value: it gets the kernel's default when
    /// the driver gets it again.
    fn write_value(&self, roots: &Roots) -> Result<()> {
        match attribute(roots, self.address) {
            Some(file) if sysfs::text(&file).as_ref() != Some(&self.before) => {
                sysfs::write(&file, &self.before)
            }
            _ => Ok(()),
        }
    }

    /// The lock is held.
    fn put_back(&self, roots: &Roots, folder: &Path) -> Result<()> {
        self.write_value(roots)?;
        let path = self.path(folder);
        std::fs::remove_file(&path)
            .map_err(|source| Error::io("removing the record", &path, source))
    }
}

fn records(roots: &Roots) -> Vec<(PathBuf, Record)> {
    state::read_all(roots, SUFFIX, Record::parse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::fake::Tree;

    const FILE: &str =
        "sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/power/pm_qos_latency_tolerance_us";
    const RECORD: &str = "run/straightway/0000:01:00.0.latency";

    fn address() -> PciAddress {
        "01:00.0".parse().unwrap()
    }

    /// This process is alive in the tree.
    fn tree(value: &str) -> Tree {
        let tree = Tree::with_drive();
        let zeroes = "0 ".repeat(18);
        let pid = std::process::id();
        tree.file(
            &format!("proc/{pid}/stat"),
            &format!("{pid} (x) S {zeroes}7 0\n"),
        );
        tree.file(FILE, value);
        tree
    }

    #[test]
    fn the_value_before_is_put_back_however_it_ends() {
        for value in ["100000", "auto", "any"] {
            let tree = tree(&format!("{value}\n"));
            let roots = tree.roots();
            let tolerance = Tolerance::remember(&roots, address()).unwrap().unwrap();
            assert_eq!(tolerance.before(), value);
            tolerance.limit(250).unwrap();
            assert_eq!(tree.read(FILE), "250");
            tolerance.put_back().unwrap();
            assert_eq!(tree.read(FILE), value);
            tolerance.limit(u32::MAX).unwrap();
            assert_eq!(tree.read(FILE), "2147483646");
            assert!(tree.path().join(RECORD).exists());
            drop(tolerance);
            assert_eq!(tree.read(FILE), value);
            assert!(!tree.path().join(RECORD).exists());
        }
    }

    #[test]
    fn the_next_run_puts_back_what_a_dead_process_left() {
        let tree = tree("100000\n");
        let roots = tree.roots();
        let tolerance = Tolerance::remember(&roots, address()).unwrap().unwrap();
        tolerance.limit(0).unwrap();
        drop(Tolerance::remember(&roots, address()).unwrap());
        assert_eq!(tree.read(FILE), "0");
        assert!(!is_stale(&roots) && restore_stale(&roots).unwrap().is_empty());
        assert_eq!(tree.read(FILE), "0");
        // As if it had been killed: it puts nothing back, and its number is another process's.
        std::mem::forget(tolerance);
        tree.file(&format!("proc/{}/stat", std::process::id()), "gone");
        assert!(is_stale(&roots));
        let restored = restore_stale(&roots).unwrap();
        assert_eq!(restored.len(), 1);
        assert_eq!(restored[0].value, "100000");
        assert_eq!(tree.read(FILE), "100000");
        assert!(!is_stale(&roots));
    }

    #[test]
    fn the_limit_of_another_process_is_left_alone() {
        let tree = tree("20\n");
        let roots = tree.roots();
        let text = "straightway 1\npid 3\nstart 9\ndevice 0000:01:00.0\nbefore 100000\n";
        tree.file(RECORD, text);
        tree.file("proc/3/stat", &format!("3 (x) S {}9 0\n", "0 ".repeat(18)));
        let other = Tolerance::remember(&roots, address()).unwrap_err();
        assert!(matches!(other, Error::Owned { pid: 3, .. }), "{other}");
        assert_eq!(tree.read(FILE), "20\n");
    }

    #[test]
    fn a_drive_without_the_attribute_is_left_alone() {
        let tree = Tree::with_drive();
        let roots = tree.roots();
        assert!(Tolerance::remember(&roots, address()).unwrap().is_none());
        assert!(!tree.path().join("run/straightway").exists());
    }

    #[test]
    fn a_drive_that_is_gone_needs_nothing_and_a_broken_record_is_skipped() {
        let tree = tree("5\n");
        let roots = tree.roots();
        let tolerance = Tolerance::remember(&roots, address()).unwrap().unwrap();
        std::fs::remove_file(tree.path().join(FILE)).unwrap();
        assert!(matches!(tolerance.limit(1), Err(Error::NotBound { .. })));
        tolerance.release().unwrap();
        tree.file("run/straightway/x.latency", "straightway 2\n");
        assert!(!is_stale(&roots));
    }
}
