// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's tables: mounts, swap, the layers of block devices, loop devices.

use super::Use;
use crate::sys::ioctl;
use crate::{Roots, sysfs};
use std::fs::File;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// How many layers of device mapper, md and loop devices may be stacked.
const MAX_LAYERS: u32 = 8;

/// A regular file, whatever its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    pub device: u64,
    pub inode: u64,
}

impl FileId {
    /// The regular file at `path`, if there is one.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let data = std::fs::metadata(path).ok()?;
        data.is_file().then(|| Self {
            device: data.dev(),
            inode: data.ino(),
        })
    }
}

/// What is used, as named in a table.
#[derive(Debug, PartialEq, Eq)]
enum Used {
    /// A block device, by the kernel's name.
    Device(String),
    File(FileId),
}

impl Used {
    /// What is at a path from one of the kernel's tables.
    fn at(roots: &Roots, text: &str) -> Option<Self> {
        let path = PathBuf::from(unescape(text));
        if !path.is_absolute() {
            return None;
        }
        match std::fs::metadata(&path) {
            Ok(data) if data.is_file() => FileId::of(&path).map(Used::File),
            Ok(data) if data.file_type().is_block_device() => {
                let named = block_name(roots, data.rdev());
                named.or_else(|| device_name(text)).map(Used::Device)
            }
            _ => device_name(text).map(Used::Device),
        }
    }
}

struct Mount {
    /// `major:minor`; an anonymous one on file systems that span devices, as btrfs.
    number: String,
    at: String,
    /// The kernel's name of the device that was mounted, if it is one.
    source: Option<String>,
}

/// The mounts, the swap space, and the loop devices.
pub(super) struct Tables<'a> {
    roots: &'a Roots,
    mounts: Vec<Mount>,
    swaps: Vec<Used>,
    /// Each with the loop device's name.
    loops: Vec<(Used, String)>,
}

impl<'a> Tables<'a> {
    pub(super) fn read(roots: &'a Roots) -> Self {
        let mounts = sysfs::text(&roots.proc.join("self/mountinfo")).unwrap_or_default();
        let swaps = sysfs::text(&roots.proc.join("swaps")).unwrap_or_default();
        let swaps = swaps.lines().skip(1);
        Self {
            roots,
            mounts: mounts.lines().filter_map(parse_mount).collect(),
            swaps: swaps
                .filter_map(|line| Used::at(roots, line.split_ascii_whitespace().next()?))
                .collect(),
            loops: loops(roots),
        }
    }

    /// Each use of a device and of its partitions.
    pub(super) fn uses_with_partitions(&self, device: &str, uses: &mut Vec<Use>) {
        self.with_partitions(device, MAX_LAYERS, uses);
    }

    /// Each use of a file.
    pub(super) fn uses_of_file(&self, name: &str, id: FileId, uses: &mut Vec<Use>) {
        self.swap_and_loops(&Used::File(id), name, MAX_LAYERS, uses);
    }

    /// The loop devices over `device`, and what they are used for.
    pub(super) fn loops_over(&self, device: &str, uses: &mut Vec<Use>) {
        self.loops_of(&Used::Device(device.to_owned()), device, MAX_LAYERS, uses);
    }

    fn with_partitions(&self, device: &str, layers: u32, uses: &mut Vec<Use>) {
        self.uses(device, layers, uses);
        for partition in partitions(self.roots, device) {
            self.uses(&partition, layers, uses);
        }
    }

    fn uses(&self, device: &str, layers: u32, uses: &mut Vec<Use>) {
        let folder = self.roots.sys.join("class/block").join(device);
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
        let used = Used::Device(device.to_owned());
        self.swap_and_loops(&used, device, layers, uses);
        for by in sysfs::names(&folder.join("holders")) {
            let device = device.to_owned();
            uses.push(Use::Held {
                device,
                by: by.clone(),
            });
            if layers > 0 {
                self.with_partitions(&by, layers - 1, uses);
            }
        }
    }

    fn swap_and_loops(&self, used: &Used, name: &str, layers: u32, uses: &mut Vec<Use>) {
        if self.swaps.contains(used) {
            let device = name.to_owned();
            uses.push(Use::Swap { device });
        }
        self.loops_of(used, name, layers, uses);
    }

    fn loops_of(&self, used: &Used, name: &str, layers: u32, uses: &mut Vec<Use>) {
        for (_, by) in self.loops.iter().filter(|(backing, _)| backing == used) {
            uses.push(Use::Loop {
                device: name.to_owned(),
                by: by.clone(),
            });
            if layers > 0 {
                self.with_partitions(by, layers - 1, uses);
            }
        }
    }
}

pub(super) fn partitions(roots: &Roots, name: &str) -> Vec<String> {
    let folder = roots.sys.join("class/block").join(name);
    sysfs::names(&folder)
        .into_iter()
        .filter(|entry| folder.join(entry).join("partition").exists())
        .collect()
}

/// The loop devices that have a backing store.
fn loops(roots: &Roots) -> Vec<(Used, String)> {
    let attached = |name: &String| {
        let folder = roots.sys.join("class/block").join(name);
        sysfs::text(&folder.join("loop/backing_file"))
    };
    sysfs::names(&roots.sys.join("class/block"))
        .into_iter()
        .filter(|name| name.starts_with("loop"))
        .filter_map(|name| {
            let path = attached(&name)?;
            let used = backing(roots, &name).or_else(|| Used::at(roots, &path))?;
            Some((used, name))
        })
        .collect()
}

/// The backing store of a loop device according to the loop driver: its path may have been renamed
/// or removed, or be from another mount namespace.
fn backing(roots: &Roots, name: &str) -> Option<Used> {
    let node = File::open(roots.dev.join(name)).ok()?;
    let backing = ioctl::loop_backing(&node).ok()?;
    match backing.rdev {
        0 => Some(Used::File(FileId {
            device: backing.device,
            inode: backing.inode,
        })),
        rdev => block_name(roots, rdev).map(Used::Device),
    }
}

/// The kernel's name of a block device.
pub(crate) fn block_name(roots: &Roots, rdev: u64) -> Option<String> {
    let (major, minor) = (rustix::fs::major(rdev), rustix::fs::minor(rdev));
    let link = roots.sys.join(format!("dev/block/{major}:{minor}"));
    sysfs::name_of(&std::fs::canonicalize(link).ok()?)
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

/// The kernel's name of the device at a path, with links followed; `None` if it is not a path.
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

    #[test]
    fn escapes_are_undone_and_broken_ones_kept() {
        assert_eq!(unescape("a\\040b\\134c"), "a b\\c");
        assert_eq!(unescape("a\\9b\\"), "a\\9b\\");
    }
}
