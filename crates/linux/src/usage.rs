//! Who is using a block device.
//!
//! Mounts, swap and the root device are looked up to say where; what decides is the kernel's own
//! exclusive claim (`O_EXCL`), which a mounted file system, a member of a RAID and a device mapper
//! target all hold, in whichever mount namespace they are.

use crate::pci::Controller;
use crate::sysfs;
use crate::{Error, Result, Roots};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::path::PathBuf;

/// How many layers of device mapper and md may lie upon each other.
const MAX_LAYERS: u32 = 8;

/// One use of a block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// A file system on it is mounted.
    Mounted {
        /// The device or a partition of it.
        device: String,
        /// Where.
        at: String,
    },
    /// The system's root file system is on it.
    Root {
        /// The device or a partition of it.
        device: String,
    },
    /// It is swap space.
    Swap {
        /// The device or a partition of it.
        device: String,
    },
    /// Another block device (device mapper, md) is made of it.
    Held {
        /// The device or a partition of it.
        device: String,
        /// The other device.
        by: String,
    },
    /// Files are open on CharIO's device.
    OpenFiles {
        /// The device.
        device: String,
        /// How many.
        count: usize,
    },
    /// Something has it open for itself alone.
    OpenExclusively {
        /// The device or a partition of it.
        device: String,
    },
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Use::Mounted { device, at } => write!(f, "{device} is mounted at {at}"),
            Use::Root { device } => write!(f, "{device} holds the root file system"),
            Use::Swap { device } => write!(f, "{device} is swap space"),
            Use::Held { device, by } => write!(f, "{device} is part of {by}"),
            Use::OpenFiles { device, count } => {
                write!(f, "open files on {device}: {count}")
            }
            Use::OpenExclusively { device } => {
                write!(f, "{device} is open exclusively in another process")
            }
        }
    }
}

/// Each use of the block device `name` (as `nvme0n1`), of its partitions and of what is made of
/// them.
///
/// # Errors
/// [`Error::NotPermitted`] if the device may not be opened, so that nobody can tell.
pub fn of_block_device(roots: &Roots, name: &str) -> Result<Vec<Use>> {
    let mut uses = Vec::new();
    let tables = Tables::read(roots);
    let mut devices = vec![name.to_owned()];
    devices.extend(partitions(roots, name));
    for device in &devices {
        tables.uses(roots, device, MAX_LAYERS, &mut uses);
    }
    if uses.is_empty() {
        for device in &devices {
            if claim(roots, device)?.is_busy() {
                let device = device.clone();
                uses.push(Use::OpenExclusively { device });
            }
        }
    }
    Ok(uses)
}

/// Each use of the controller's namespaces.
///
/// # Errors
/// As [`of_block_device`].
pub fn of_controller(roots: &Roots, controller: &Controller) -> Result<Vec<Use>> {
    let mut uses = Vec::new();
    for namespace in &controller.namespaces {
        if let Some(block) = &namespace.block {
            uses.extend(of_block_device(roots, block)?);
        }
        // To take a drive from under an open file would fail that file's owner.
        if let Some(device) = &namespace.chario {
            let (device, count) = (device.clone(), open_files(roots, device));
            if count > 0 {
                uses.push(Use::OpenFiles { device, count });
            }
        }
    }
    Ok(uses)
}

/// How many files are open on CharIO's device `name`, such as `chardisk0n1`.
fn open_files(roots: &Roots, name: &str) -> usize {
    let folder = roots.sys.join("class/chario").join(name);
    sysfs::number(&folder.join("open_files")).unwrap_or(0)
}

/// Claims each namespace for this process, so that nobody can mount one while it is unbound.
///
/// # Errors
/// [`Error::InUse`] with each use, or [`Error::NotPermitted`].
pub(crate) fn claim_controller(roots: &Roots, controller: &Controller) -> Result<Vec<File>> {
    let device = match &controller.kernel_name {
        Some(name) => format!("{} ({name})", controller.address),
        None => controller.address.to_string(),
    };
    let uses = of_controller(roots, controller)?;
    if !uses.is_empty() {
        let reasons = uses.iter().map(Use::to_string).collect();
        return Err(Error::InUse { device, reasons });
    }
    let mut claims = Vec::new();
    for block in controller
        .namespaces
        .iter()
        .filter_map(|n| n.block.as_ref())
    {
        claims.extend(claim_block_device(roots, block)?);
    }
    Ok(claims)
}

/// Claims one block device for this process; `None` if it has no node.
///
/// # Errors
/// As [`claim_controller`].
pub(crate) fn claim_block_device(roots: &Roots, name: &str) -> Result<Option<File>> {
    let refuse = |uses: &[Use]| {
        Err(Error::InUse {
            device: name.to_owned(),
            reasons: uses.iter().map(Use::to_string).collect(),
        })
    };
    let uses = of_block_device(roots, name)?;
    if !uses.is_empty() {
        return refuse(&uses);
    }
    match claim(roots, name)? {
        Claim::Ours(file) => Ok(Some(file)),
        Claim::Absent => Ok(None),
        Claim::Busy => {
            let device = name.to_owned();
            refuse(&[Use::OpenExclusively { device }])
        }
    }
}

enum Claim {
    Ours(File),
    Busy,
    Absent,
}

impl Claim {
    fn is_busy(&self) -> bool {
        matches!(self, Claim::Busy)
    }
}

fn claim(roots: &Roots, name: &str) -> Result<Claim> {
    let path = roots.dev.join(name);
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::open(&path, flags, Mode::empty()) {
        Ok(descriptor) => Ok(Claim::Ours(descriptor.into())),
        Err(Errno::BUSY) => Ok(Claim::Busy),
        Err(Errno::NOENT | Errno::NXIO | Errno::NOMEDIUM) => Ok(Claim::Absent),
        Err(error) => Err(Error::io("finding out who uses", &path, error)),
    }
}

fn partitions(roots: &Roots, name: &str) -> Vec<String> {
    let folder = roots.sys.join("class/block").join(name);
    sysfs::names(&folder)
        .into_iter()
        .filter(|entry| folder.join(entry).join("partition").exists())
        .collect()
}

/// What is mounted and what is swapped to.
struct Tables {
    mounts: Vec<Mount>,
    /// Kernel names of swap devices.
    swaps: BTreeSet<String>,
}

struct Mount {
    /// `major:minor`; an anonymous one on file systems that span devices, as btrfs.
    number: String,
    at: String,
    /// The kernel's name of the device that was mounted, if it is one.
    source: Option<String>,
}

impl Tables {
    fn read(roots: &Roots) -> Self {
        let mounts = sysfs::text(&roots.proc.join("self/mountinfo")).unwrap_or_default();
        let swaps = sysfs::text(&roots.proc.join("swaps")).unwrap_or_default();
        Self {
            mounts: mounts.lines().filter_map(parse_mount).collect(),
            swaps: swaps
                .lines()
                .skip(1)
                .filter_map(|line| device_name(line.split_ascii_whitespace().next()?))
                .collect(),
        }
    }

    fn uses(&self, roots: &Roots, device: &str, layers: u32, uses: &mut Vec<Use>) {
        let folder = roots.sys.join("class/block").join(device);
        let number = sysfs::text(&folder.join("dev"));
        for mount in &self.mounts {
            let by_number = number.as_ref() == Some(&mount.number);
            if !by_number && mount.source.as_deref() != Some(device) {
                continue;
            }
            let device = device.to_owned();
            uses.push(match mount.at.as_str() {
                "/" => Use::Root { device },
                at => Use::Mounted {
                    device,
                    at: at.to_owned(),
                },
            });
        }
        if self.swaps.contains(device) {
            uses.push(Use::Swap {
                device: device.to_owned(),
            });
        }
        for holder in sysfs::names(&folder.join("holders")) {
            uses.push(Use::Held {
                device: device.to_owned(),
                by: holder.clone(),
            });
            if layers > 0 {
                self.uses(roots, &holder, layers - 1, uses);
            }
        }
    }
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw` (proc(5), mountinfo).
fn parse_mount(line: &str) -> Option<Mount> {
    let (head, tail) = line.split_once(" - ")?;
    let mut words = head.split(' ').skip(2);
    let number = words.next()?.to_owned();
    let at = unescape(words.nth(1)?);
    let source = tail.split(' ').nth(1).and_then(device_name);
    Some(Mount { number, at, source })
}

/// The kernel's name of the device at a path, links followed; `None` for what is no path.
fn device_name(text: &str) -> Option<String> {
    let path = PathBuf::from(unescape(text));
    if !path.is_absolute() {
        return None;
    }
    sysfs::name_of(&sysfs::canonical(&path))
}

/// The kernel writes space, tab, line feed and backslash as `\` and three octal digits.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let code = after
            .get(..3)
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                plain.push(char::from(code));
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                plain.push('\\');
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::fake::Tree;

    fn uses(tree: &Tree) -> Vec<String> {
        let uses = of_block_device(&tree.roots(), "nvme0n1").unwrap();
        uses.iter().map(Use::to_string).collect()
    }

    #[test]
    fn an_idle_drive_has_no_use() {
        assert!(uses(&Tree::with_drive()).is_empty());
    }

    #[test]
    fn mounts_are_found_on_partitions_and_by_source() {
        let tree = Tree::with_drive();
        tree.file(
            "proc/self/mountinfo",
            "30 1 259:1 / /mnt/my\\040disk rw shared:1 - ext4 /dev/sdz1 rw\n\
             31 1 0:40 /sub /pool rw - btrfs /dev/nvme0n1 rw\n\
             32 1 259:1 / / rw - ext4 /dev/root rw\n\
             nonsense\n",
        );
        assert_eq!(
            uses(&tree),
            [
                "nvme0n1 is mounted at /pool",
                "nvme0n1p1 is mounted at /mnt/my disk",
                "nvme0n1p1 holds the root file system",
            ]
        );
    }

    #[test]
    fn swap_and_holders_are_found_through_the_layers() {
        let tree = Tree::with_drive();
        let disk = "sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1";
        tree.file(
            "proc/swaps",
            "Filename Type\n/dev/nvme0n1p1 partition 100 0 -2\n",
        )
        .file(&format!("{disk}/nvme0n1p1/holders/dm-0"), "")
        .file("sys/class/block/dm-0/dev", "253:0\n")
        .file(
            "proc/self/mountinfo",
            "9 1 253:0 / /data rw - xfs /dev/mapper/d rw\n",
        );
        assert_eq!(
            uses(&tree),
            [
                "nvme0n1p1 is swap space",
                "nvme0n1p1 is part of dm-0",
                "dm-0 is mounted at /data",
            ]
        );
    }

    #[test]
    fn escapes_are_undone_and_broken_ones_kept() {
        assert_eq!(unescape("a\\040b\\134c"), "a b\\c");
        assert_eq!(unescape("a\\9b\\"), "a\\9b\\");
    }
}
