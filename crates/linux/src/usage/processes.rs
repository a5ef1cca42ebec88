// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which processes have a device or a file open.

use super::{FileId, Use};
use crate::{Roots, sysfs};
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Standard input, output and error: descriptors of this process that another process opened.
const STANDARD: u32 = 3;

/// What an open descriptor refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// A block device, by major and minor number.
    Block(u32, u32),
    /// A character device.
    Character(u32, u32),
    /// A regular file.
    File(FileId),
}

impl Node {
    /// From sysfs's `major:minor`.
    pub(crate) fn block(text: &str) -> Option<Self> {
        let (major, minor) = numbers(text)?;
        Some(Node::Block(major, minor))
    }

    /// From sysfs's `major:minor`.
    pub(crate) fn character(text: &str) -> Option<Self> {
        let (major, minor) = numbers(text)?;
        Some(Node::Character(major, minor))
    }

    /// What is at `path`, with links followed. Does not contact a network server, which might never
    /// answer.
    fn at(path: &Path) -> Option<Self> {
        let wanted = StatxFlags::TYPE | StatxFlags::INO;
        let stat = rustix::fs::statx(CWD, path, AtFlags::STATX_DONT_SYNC, wanted).ok()?;
        let (major, minor) = (stat.stx_rdev_major, stat.stx_rdev_minor);
        match FileType::from_raw_mode(stat.stx_mode.into()) {
            FileType::BlockDevice => Some(Node::Block(major, minor)),
            FileType::CharacterDevice => Some(Node::Character(major, minor)),
            FileType::RegularFile => Some(Node::File(FileId {
                device: rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor),
                inode: stat.stx_ino,
            })),
            _ => None,
        }
    }
}

fn numbers(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The other processes that have one of `nodes` open, each with the node's name; with
/// `writers_alone` only those that can write to it. Of this process only its standard streams
/// count.
pub(crate) fn holders(roots: &Roots, nodes: &[(Node, String)], writers_alone: bool) -> Vec<Use> {
    let mut found = Vec::new();
    if nodes.is_empty() {
        return found;
    }
    for process in sysfs::names(&roots.proc) {
        let Ok(pid) = process.parse::<u32>() else {
            continue;
        };
        let folder = roots.proc.join(&process);
        let is_this = pid == std::process::id();
        for name in sysfs::names(&folder.join("fd")) {
            let is_standard = name.parse::<u32>().is_ok_and(|number| number < STANDARD);
            if is_this && !is_standard {
                continue;
            }
            let path = folder.join("fd").join(&name);
            let Some(node) = Node::at(&path) else {
                continue;
            };
            let Some((_, device)) = nodes.iter().find(|(wanted, _)| *wanted == node) else {
                continue;
            };
            // The link's own permissions are those that the file was opened with; one that was
            // opened as a mere name (O_PATH) has neither.
            let Ok(link) = std::fs::symlink_metadata(&path) else {
                continue;
            };
            let mode = link.permissions().mode();
            let (reads, writes) = (mode & 0o400 != 0, mode & 0o200 != 0);
            if !writes && (writers_alone || !reads) {
                continue;
            }
            let one = Use::Open {
                device: device.clone(),
                pid,
                command: if is_this {
                    "this command's standard streams".to_owned()
                } else {
                    sysfs::text(&folder.join("comm")).unwrap_or_default()
                },
                writes,
            };
            if !found.contains(&one) {
                found.push(one);
            }
        }
    }
    found
}
