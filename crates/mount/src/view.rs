// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel sees of the tree: attributes, and folders, which are only there.

use super::files::MOVE_BYTES;
use super::names::check_name;
use super::tree::{Node, Number, SharedTree};
use fuser::{Errno, FileAttr, FileType, Generation, INodeNo, ReplyAttr, ReplyEntry};
use std::ffi::OsStr;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// How long the kernel may keep what does not change, or only by its own requests.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// How long it may keep attributes that a commit changes.
const KEPT_IF_WRITTEN: Duration = Duration::from_secs(1);

/// What the kernel sees of the tree.
#[derive(Clone, Debug)]
pub struct View {
    /// The names.
    pub tree: Arc<SharedTree>,
    /// Files can be changed.
    pub is_writable: bool,
    /// Other users see it, too.
    pub is_shared: bool,
}

impl View {
    fn permissions(&self, kind: FileType) -> u16 {
        match (kind, self.is_writable) {
            (FileType::Directory, true) => 0o755,
            (FileType::Directory, false) => 0o555,
            (_, true) => 0o644,
            (_, false) => 0o444,
        }
    }

    /// How long the kernel may keep a file's attributes.
    pub(super) fn kept(&self) -> Duration {
        if self.is_writable {
            KEPT_IF_WRITTEN
        } else {
            KEPT
        }
    }

    /// The attributes of a node.
    pub(super) fn attributes(&self, number: Number) -> Option<FileAttr> {
        let at = |ns| UNIX_EPOCH + Duration::from_nanos(ns);
        let (kind, size, allocated, links, times) =
            self.tree.with(|tree| match tree.node(number)? {
                Node::Folder(inside) => Some((FileType::Directory, 0, 0, 1, inside.times)),
                Node::File(facts) => {
                    let links = u32::from(!facts.is_removed);
                    let (size, allocated) = (facts.size_bytes, facts.allocated_bytes);
                    Some((FileType::RegularFile, size, allocated, links, facts.times))
                }
            })?;
        Some(FileAttr {
            ino: inode(number),
            size,
            blocks: allocated.div_ceil(512),
            atime: at(times.accessed_ns),
            mtime: at(times.modified_ns),
            ctime: at(times.changed_ns),
            crtime: UNIX_EPOCH,
            kind,
            perm: self.permissions(kind),
            nlink: links,
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            rdev: 0,
            blksize: MOVE_BYTES as u32,
            flags: 0,
        })
    }

    /// A volume keeps neither owners nor permissions. Many programs set permissions, which protect
    /// nothing while only one user sees the folder: then they stay as they are. Anything else is
    /// refused.
    pub(super) fn refuse_owner_and_mode(
        &self,
        attributes: &FileAttr,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> Result<(), Errno> {
        let is_mode = mode.is_none_or(|mode| mode & 0o7777 == u32::from(attributes.perm));
        let is_owner = uid.is_none_or(|uid| uid == attributes.uid)
            && gid.is_none_or(|gid| gid == attributes.gid);
        if is_owner && (is_mode || !self.is_shared) {
            Ok(())
        } else {
            Err(Errno::EPERM)
        }
    }

    /// Answers with a node.
    pub(super) fn entry(&self, number: Option<Number>, reply: ReplyEntry) {
        match number.and_then(|number| self.attributes(number)) {
            Some(attributes) => {
                reply.entry_with_ttls(&self.kept(), &KEPT, &attributes, Generation(0));
            }
            None => reply.error(Errno::ENOENT),
        }
    }

    /// Answers with the attributes of a node.
    pub(super) fn answer_attributes(&self, number: Number, reply: ReplyAttr) {
        match self.attributes(number) {
            Some(attributes) => reply.attr(&self.kept(), &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    /// Makes a folder, of which the volume learns with its first file.
    pub(super) fn make_folder(&self, folder: Number, name: &OsStr) -> Result<Number, Errno> {
        let name = text(name)?;
        self.tree.with(|tree| {
            let whole = tree.name_in(folder, name).ok_or(Errno::ENOENT)?;
            // It must have room for a file.
            check_name(&format!("{whole}/x"))?;
            tree.add_folder(folder, name).ok_or(Errno::EEXIST)
        })
    }

    /// Removes a folder without files.
    pub(super) fn remove_folder(&self, folder: Number, name: &OsStr) -> Result<(), Errno> {
        let name = text(name)?;
        self.tree.with(|tree| {
            let number = tree.find(folder, name).ok_or(Errno::ENOENT)?;
            match tree.folder(number) {
                None => return Err(Errno::ENOTDIR),
                Some(inside) if !inside.is_empty() => return Err(Errno::ENOTEMPTY),
                Some(_) => {}
            }
            tree.detach(folder, name);
            tree.forget(number);
            Ok(())
        })
    }
}

/// The kernel's root is 1.
pub(super) fn inode(number: Number) -> INodeNo {
    INodeNo(number + 1)
}

/// The node that the kernel means.
pub(super) fn number(inode: INodeNo) -> Number {
    inode.0.wrapping_sub(1)
}

/// A name as a volume can have it.
pub(super) fn text(name: &OsStr) -> Result<&str, Errno> {
    name.to_str().ok_or(Errno::EINVAL)
}
