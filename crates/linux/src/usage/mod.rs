// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who is using a block device or a file.
//!
//! | use | where it is found |
//! | --- | --- |
//! | mounts, swap space | `/proc/self/mountinfo`, `/proc/swaps` |
//! | device mapper, md | `holders` in sysfs, through all layers and their partitions |
//! | loop devices over a device, or over a file | `loop/backing_file` in sysfs, and the loop driver itself |
//! | exclusive users of any kind | the kernel's own claim (`O_EXCL`), in any mount namespace |
//! | open descriptors of other processes | `/proc/PID/fd`, as far as this user may see them |
//!
//! A loop device claims neither its device nor its file, so only the look-up finds it. This module
//! only reports; [`Claim`](crate::Claim) refuses, and keeps others out afterwards.

mod processes;
mod tables;

pub(crate) use processes::{Node, holders};
pub(crate) use tables::{FileId, block_name};

use crate::pci::Controller;
use crate::sysfs;
use crate::{Error, Result, Roots};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fmt;
use std::fs::File;
use std::path::Path;
use tables::Tables;

/// One use of a block device or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// A file system on it is mounted.
    Mounted {
        /// The device or a partition of it.
        device: String,
        /// The mount point.
        at: String,
    },
    /// The system's root file system is on it.
    Root {
        /// The device or a partition of it.
        device: String,
    },
    /// It is swap space.
    Swap {
        /// The device, a partition of it, or the file.
        device: String,
    },
    /// Another block device (device mapper, md) is made of it.
    Held {
        /// The device or a partition of it.
        device: String,
        /// The other device.
        by: String,
    },
    /// A loop device shows it as a block device.
    Loop {
        /// The device, a partition of it, or the file.
        device: String,
        /// The loop device.
        by: String,
    },
    /// Files are open on CharIO's device.
    OpenFiles {
        /// The device.
        device: String,
        /// How many.
        count: usize,
    },
    /// It is open exclusively.
    OpenExclusively {
        /// The device or a partition of it.
        device: String,
    },
    /// A process has it open.
    Open {
        /// The device, a partition of it, or the file.
        device: String,
        /// The process.
        pid: u32,
        /// Its command.
        command: String,
        /// Whether it can write.
        writes: bool,
    },
    /// Another process has locked it with `flock`.
    Locked {
        /// The device or the file.
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
            Use::Loop { device, by } => write!(f, "{device} is the backing store of {by}"),
            Use::OpenFiles { device, count } => {
                write!(f, "open files on {device}: {count}")
            }
            Use::OpenExclusively { device } => {
                write!(f, "{device} is open exclusively in another process")
            }
            Use::Open {
                device,
                pid,
                command,
                writes,
            } => {
                let how = if *writes { "open for writing" } else { "open" };
                write!(f, "{device} is {how} in process {pid} ({command})")
            }
            Use::Locked { device } => write!(f, "{device} is locked by another process"),
        }
    }
}

/// Each use of the block device `name` (such as `nvme0n1`), of its partitions and of what is made
/// of them. Processes that only read it are not included.
///
/// # Errors
/// [`Error::NotPermitted`] if the device may not be opened, so that its uses are unknown.
pub fn of_block_device(roots: &Roots, name: &str) -> Result<Vec<Use>> {
    let mut uses = layers_on(roots, name);
    if uses.is_empty() {
        for device in with_partitions(roots, name) {
            if claim(roots, &device)?.is_busy() {
                uses.push(Use::OpenExclusively { device });
            }
        }
    }
    uses.extend(writers_of(roots, name));
    Ok(uses)
}

/// Each use of the controller's namespaces.
///
/// # Errors
/// Those of [`of_block_device`].
pub fn of_controller(roots: &Roots, controller: &Controller) -> Result<Vec<Use>> {
    let mut uses = Vec::new();
    for namespace in &controller.namespaces {
        if let Some(block) = &namespace.block {
            uses.extend(of_block_device(roots, block)?);
        }
    }
    uses.extend(of_chario(roots, controller));
    Ok(uses)
}

/// Open files of CharIO's devices: unbinding the drive would fail their owners' I/O.
pub(crate) fn of_chario(roots: &Roots, controller: &Controller) -> Vec<Use> {
    let shown = controller.namespaces.iter().filter_map(|one| {
        let device = one.chario.clone()?;
        let count = open_files(roots, &device);
        (count > 0).then_some(Use::OpenFiles { device, count })
    });
    shown.collect()
}

/// Each use of the file at `path`, other than by processes that only read it. Empty if there is no
/// such file.
pub fn of_file(roots: &Roots, path: &Path) -> Vec<Use> {
    let Some(id) = FileId::of(path) else {
        return Vec::new();
    };
    let mut uses = layers_on_file(roots, path, id);
    uses.extend(holders(roots, &file_nodes(path, id), true));
    uses
}

/// What is mounted on a device, swaps to it or is made of it, through all layers.
pub(crate) fn layers_on(roots: &Roots, name: &str) -> Vec<Use> {
    let tables = Tables::read(roots);
    let mut uses = Vec::new();
    tables.uses_with_partitions(name, &mut uses);
    if let Some(whole) = whole_disk(roots, name) {
        // The kernel keeps a disk's and its partitions' claims apart; a loop device claims nothing.
        tables.loops_over(&whole, &mut uses);
    }
    uses
}

/// The same for a file.
pub(crate) fn layers_on_file(roots: &Roots, path: &Path, id: FileId) -> Vec<Use> {
    let mut uses = Vec::new();
    Tables::read(roots).uses_of_file(&path.display().to_string(), id, &mut uses);
    uses
}

/// Other processes that can write to a device, through any of its nodes.
pub(crate) fn writers_of(roots: &Roots, name: &str) -> Vec<Use> {
    holders(roots, &nodes_of(roots, name), true)
}

/// Other processes that have any node of the controller's namespaces open.
pub(crate) fn openers_of(roots: &Roots, controller: &Controller) -> Vec<Use> {
    let blocks = controller
        .namespaces
        .iter()
        .filter_map(|n| n.block.as_ref());
    let nodes: Vec<_> = blocks.flat_map(|name| nodes_of(roots, name)).collect();
    holders(roots, &nodes, false)
}

/// The nodes by which a block device is reached: its own, those of its partitions, that of its
/// disk, and the namespace's for passthrough.
fn nodes_of(roots: &Roots, name: &str) -> Vec<(Node, String)> {
    let mut names = with_partitions(roots, name);
    let whole = whole_disk(roots, name);
    names.extend(whole.clone());
    let mut nodes: Vec<(Node, String)> = names
        .into_iter()
        .filter_map(|name| {
            let dev = roots.sys.join("class/block").join(&name).join("dev");
            Some((Node::block(&sysfs::text(&dev)?)?, name))
        })
        .collect();
    let disk = whole.as_deref().unwrap_or(name);
    if let Some(name) = disk.strip_prefix("nvme").map(|rest| format!("ng{rest}")) {
        let folder = sysfs::canonical(&roots.sys.join("class/block").join(disk));
        let beside = folder.parent().map(|parent| parent.join(&name).join("dev"));
        let generic = roots.sys.join("class/nvme-generic").join(&name).join("dev");
        let dev = sysfs::text(&generic).or_else(|| sysfs::text(&beside?));
        if let Some(node) = dev.and_then(|dev| Node::character(&dev)) {
            nodes.push((node, name));
        }
    }
    nodes
}

/// The identity by which a file's descriptors are found.
pub(crate) fn file_nodes(path: &Path, id: FileId) -> [(Node, String); 1] {
    [(Node::File(id), path.display().to_string())]
}

/// How many files are open on CharIO's device `name`, such as `chardisk0n1`.
fn open_files(roots: &Roots, name: &str) -> usize {
    let folder = roots.sys.join("class/chario").join(name);
    sysfs::number(&folder.join("open_files")).unwrap_or(0)
}

/// The kernel's answer to an exclusive open of a block device.
pub(crate) enum Exclusive {
    /// Granted until the file is closed.
    Ours(File),
    /// Another process has it.
    Busy,
    /// It has no node.
    Absent,
}

impl Exclusive {
    fn is_busy(&self) -> bool {
        matches!(self, Exclusive::Busy)
    }
}

/// Opens a block device exclusively.
pub(crate) fn claim(roots: &Roots, name: &str) -> Result<Exclusive> {
    claim_at(&roots.dev.join(name))
}

/// The same, by any path.
pub(crate) fn claim_at(path: &Path) -> Result<Exclusive> {
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(descriptor) => Ok(Exclusive::Ours(descriptor.into())),
        Err(Errno::BUSY) => Ok(Exclusive::Busy),
        Err(Errno::NOENT | Errno::NXIO | Errno::NOMEDIUM) => Ok(Exclusive::Absent),
        Err(error) => Err(Error::io("finding out who uses", path, error)),
    }
}

fn with_partitions(roots: &Roots, name: &str) -> Vec<String> {
    let mut names = vec![name.to_owned()];
    names.extend(tables::partitions(roots, name));
    names
}

/// The disk of a partition.
fn whole_disk(roots: &Roots, name: &str) -> Option<String> {
    let folder = sysfs::canonical(&roots.sys.join("class/block").join(name));
    if folder.join("partition").exists() {
        sysfs::name_of(folder.parent()?)
    } else {
        None
    }
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
    fn a_mounted_loop_device_over_a_drive_is_found_also_from_its_partition() {
        let tree = Tree::with_drive();
        tree.file("sys/class/block/loop3/loop/backing_file", "/dev/nvme0n1\n")
            .file("sys/class/block/loop3/dev", "7:3\n")
            .file("sys/class/block/loop3/loop3p1/partition", "1\n")
            .file("sys/class/block/loop3p1/dev", "259:9\n")
            .file(
                "proc/self/mountinfo",
                "9 1 259:9 / /data rw - ext4 /dev/loop3p1 rw\n",
            );
        let expected = [
            "nvme0n1 is the backing store of loop3",
            "loop3p1 is mounted at /data",
        ];
        assert_eq!(uses(&tree), expected);
        let from_partition = layers_on(&tree.roots(), "nvme0n1p1");
        let texts: Vec<String> = from_partition.iter().map(Use::to_string).collect();
        assert_eq!(texts, expected);
    }

    #[test]
    fn a_loop_device_over_a_file_is_found_by_any_of_the_file_s_names() {
        let tree = Tree::new();
        tree.file("disk.img", "x").file("nvme0n1", "y");
        let (disk, other) = (tree.path().join("disk.img"), tree.path().join("other"));
        std::fs::hard_link(&disk, &other).unwrap();
        tree.file(
            "sys/class/block/loop0/loop/backing_file",
            &format!("{}\n", other.display()),
        );
        let uses = of_file(&tree.roots(), &disk);
        let by = "loop0".to_owned();
        let device = disk.display().to_string();
        assert_eq!(uses, [Use::Loop { device, by }]);
        assert!(of_file(&tree.roots(), &tree.path().join("nvme0n1")).is_empty());
    }

    #[test]
    fn a_writer_is_found_by_the_node_that_it_has_open() {
        let tree = Tree::with_drive();
        // /dev/null, device 1:3, stands for the namespace's passthrough node.
        let generic = "sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/ng0n1/dev";
        tree.file(generic, "1:3\n").file("proc/77/comm", "fio\n");
        std::fs::create_dir_all(tree.path().join("proc/77/fd")).unwrap();
        std::os::unix::fs::symlink("/dev/null", tree.path().join("proc/77/fd/5")).unwrap();
        assert_eq!(
            uses(&tree),
            ["ng0n1 is open for writing in process 77 (fio)"]
        );
    }
}
