// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The records of borrowed devices: one small file for each, written before its driver changes.
//!
//! A record names the process that borrowed the device, so that the next run can tell a running
//! borrower from one that died. A process is identified by its number and its start time, because
//! numbers are reused.

use crate::pci::PciAddress;
use crate::sysfs;
use crate::{Error, Result, Roots};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

const SUFFIX: &str = ".borrowed";
const LOCK: &str = "lock";

/// A process, distinguishable from a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub pid: u32,
    /// In clock ticks since boot (proc(5), field 22 of `stat`).
    pub start_ticks: u64,
}

impl Process {
    /// The process that outlives all others: init.
    pub(crate) const KEEPER: u32 = 1;

    pub(crate) fn keeper(roots: &Roots) -> Self {
        let pid = Self::KEEPER;
        let start_ticks = start_ticks(roots, pid).unwrap_or(0);
        Self { pid, start_ticks }
    }

    pub(crate) fn this(roots: &Roots) -> Self {
        let pid = std::process::id();
        let start_ticks = start_ticks(roots, pid).unwrap_or(0);
        Self { pid, start_ticks }
    }

    pub(crate) fn is_alive(&self, roots: &Roots) -> bool {
        // A device kept for init stays kept even if /proc does not show init.
        self.pid == Self::KEEPER || start_ticks(roots, self.pid) == Some(self.start_ticks)
    }
}

fn start_ticks(roots: &Roots, pid: u32) -> Option<u64> {
    let stat = sysfs::text(&roots.proc.join(format!("{pid}/stat")))?;
    // The second field is the command in brackets and may contain anything, including brackets and
    // spaces.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    // A zombie has released everything.
    if matches!(fields.next(), Some("Z" | "X")) {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// The information that is needed to give a device back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub address: PciAddress,
    pub owner: Process,
    /// The driver that it had.
    pub driver: Option<String>,
    /// The `driver_override` that it had.
    pub driver_override: Option<String>,
}

impl Record {
    fn to_text(&self) -> String {
        let mut text = format!(
            "straightway 1\npid {}\nstart {}\ndevice {}\n",
            self.owner.pid, self.owner.start_ticks, self.address
        );
        if let Some(driver) = &self.driver {
            text += &format!("driver {driver}\n");
        }
        if let Some(name) = &self.driver_override {
            text += &format!("override {name}\n");
        }
        text
    }

    fn parse(text: &str) -> Option<Self> {
        let (address, owner) = head(text)?;
        Some(Self {
            address,
            owner,
            driver: field(text, "driver"),
            driver_override: field(text, "override"),
        })
    }

    /// Writes the record atomically.
    pub(crate) fn save(&self, folder: &Path) -> Result<()> {
        save(&self.path(folder), &self.to_text())
    }

    pub(crate) fn remove(&self, folder: &Path) -> Result<()> {
        let path = self.path(folder);
        fs::remove_file(&path).map_err(|source| Error::io("removing the record", &path, source))
    }

    fn path(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}{SUFFIX}", self.address))
    }
}

/// The device of a record of any kind, and the process that made it.
pub(crate) fn head(text: &str) -> Option<(PciAddress, Process)> {
    if field(text, "straightway")? != "1" {
        return None;
    }
    let owner = Process {
        pid: field(text, "pid")?.parse().ok()?,
        start_ticks: field(text, "start")?.parse().ok()?,
    };
    Some((field(text, "device")?.parse().ok()?, owner))
}

/// The value of a field of a record, each of which is a line.
pub(crate) fn field(text: &str, key: &str) -> Option<String> {
    let value = |line: &str| Some(line.strip_prefix(key)?.strip_prefix(' ')?.to_owned());
    text.lines().find_map(value)
}

/// Writes a record's text atomically.
pub(crate) fn save(path: &Path, text: &str) -> Result<()> {
    let temporary = path.with_extension("new");
    let write = || {
        let mut file = File::create(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|source| Error::io("writing the record", path, source))
}

/// Each record, with its folder. Unreadable records are ignored.
pub(crate) fn records(roots: &Roots) -> Vec<(PathBuf, Record)> {
    read_all(roots, SUFFIX, Record::parse)
}

/// The same for records of any kind, whose files' names end with `suffix`.
pub(crate) fn read_all<T>(
    roots: &Roots,
    suffix: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Vec<(PathBuf, T)> {
    let parse = &parse;
    let read = |folder: &PathBuf| -> Vec<(PathBuf, T)> {
        sysfs::names(folder)
            .iter()
            .filter(|name| name.ends_with(suffix))
            .filter_map(|name| parse(&sysfs::text(&folder.join(name))?))
            .map(|record| (folder.clone(), record))
            .collect()
    };
    roots.state.iter().flat_map(read).collect()
}

/// The first writable folder for records, with a lock that is held until this is dropped: our
/// processes change drivers one after the other.
pub(crate) fn lock(roots: &Roots) -> Result<(PathBuf, File)> {
    let mut failure = None;
    for folder in &roots.state {
        let open = || -> std::io::Result<File> {
            fs::create_dir_all(folder)?;
            let file = File::options()
                .create(true)
                .truncate(false)
                .write(true)
                .open(folder.join(LOCK))?;
            flock(&file, FlockOperation::LockExclusive)?;
            Ok(file)
        };
        match open() {
            Ok(file) => return Ok((folder.clone(), file)),
            Err(source) => {
                let error = Error::io("keeping records in", folder, source);
                failure.get_or_insert(error);
            }
        }
    }
    Err(failure.unwrap_or_else(|| Error::Unsupported {
        what: "binding",
        why: "there is no folder to keep records in".into(),
        hint: None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::fake::Tree;

    fn record() -> Record {
        Record {
            address: "01:00.0".parse().unwrap(),
            owner: Process {
                pid: 12,
                start_ticks: 345,
            },
            driver: Some("nvme".into()),
            driver_override: None,
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_a_broken_one_is_skipped() {
        let tree = Tree::new();
        let roots = tree.roots();
        let (folder, _lock) = lock(&roots).unwrap();
        record().save(&folder).unwrap();
        tree.file("run/straightway/x.borrowed", "straightway 1\npid x\n");
        tree.file(
            "run/straightway/y.borrowed",
            "straightway 2\npid 1\nstart 1\ndevice 1:0.0\n",
        );
        assert_eq!(records(&roots), [(folder.clone(), record())]);
        record().remove(&folder).unwrap();
        assert!(records(&roots).is_empty());
    }

    #[test]
    fn a_process_is_known_by_number_and_start_time() {
        let tree = Tree::new();
        let stat = |state: char| {
            let zeroes = "0 ".repeat(18);
            format!("12 (a) b (c) {state} {zeroes}345 0 0\n")
        };
        let (roots, owner) = (tree.roots(), record().owner);
        assert!(!owner.is_alive(&roots));
        tree.file("proc/12/stat", &stat('S'));
        assert!(owner.is_alive(&roots));
        let earlier = Process {
            start_ticks: 344,
            ..owner
        };
        assert!(!earlier.is_alive(&roots));
        tree.file("proc/12/stat", &stat('Z'));
        assert!(!owner.is_alive(&roots));
        let system = Roots::system();
        assert!(Process::this(&system).is_alive(&system));
    }

    #[test]
    fn the_second_folder_serves_where_the_first_cannot() {
        let tree = Tree::new();
        tree.file("file", "");
        let mut roots = tree.roots();
        roots.state.insert(0, tree.path().join("file/below"));
        assert_eq!(lock(&roots).unwrap().0, roots.state[1]);
    }
}
