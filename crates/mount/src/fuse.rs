// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's requests. Names, attributes and folders are answered from the tree; the rest goes
//! to the service.

use super::asks::{Answer, Ask, Change, Place, Renaming, Space};
use super::files::MOVE_BYTES;
use super::stale::Stale;
use super::tree::{Node, Number};
use super::view::{View, number, text};
use files::{now_ns, ns_of};
use fuser::{
    BsdFileFlags, Errno, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    KernelConfig, LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request,
    TimeOrNow, WriteFlags,
};
use rustix::fs::OFlags;
use std::ffi::OsStr;
use std::io;
use std::sync::mpsc::Sender;
use std::time::SystemTime;
use volume::NAME_BYTES;

/// Reads ahead that the kernel may have under way.
const BACKGROUND: u16 = 16;
/// The handle of a file that is open to read.
const READS: FileHandle = FileHandle(0);
/// The handle of a file that is open to write.
const WRITES: FileHandle = FileHandle(1);
/// The handle of a file that is open to read and write, past the page cache.
const BOTH: FileHandle = FileHandle(2);
/// fallocate(2) with this mode reserves space and leaves the size (FALLOC_FL_KEEP_SIZE).
const KEEP_SIZE: i32 = 1;
/// Numbers of `.` and `..` in a listing; a node has its own after these.
const DOTS: u64 = 2;

/// The file system.
pub struct Folder {
    /// Its names.
    pub view: View,
    /// The thread that has mounted the volume.
    pub asks: Sender<Ask>,
    /// The longest read ahead.
    pub read_ahead_bytes: u32,
    /// Ends what asks for everything to be made durable, when it is dropped.
    pub saver: Option<Sender<()>>,
    /// Drops pages that a write has made stale.
    pub stale: Stale,
}

impl Folder {
    /// Sends a request. If no one takes it, it is dropped, and the kernel gets EIO.
    fn ask(&self, ask: Ask) {
        drop(self.asks.send(ask));
    }
}

fn ends(reply: ReplyEmpty) -> Answer<()> {
    Box::new(move |result| match result {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    })
}

/// The handle of a file that is opened like this, and how the kernel keeps its data.
fn handle(flags: OpenFlags) -> (FileHandle, FopenFlags) {
    // What the page cache has of it stays right.
    let keeps = FopenFlags::FOPEN_KEEP_CACHE;
    match flags.acc_mode() {
        OpenAccMode::O_RDONLY => (READS, keeps),
        OpenAccMode::O_WRONLY => (WRITES, keeps),
        // A shared mapping that can be stored to needs this one, and is ENODEV: what it stores
        // before the end would be refused when the program has gone on.
        OpenAccMode::O_RDWR => (BOTH, keeps | FopenFlags::FOPEN_DIRECT_IO),
    }
}

impl Filesystem for Folder {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Each returns the nearest value that the kernel takes, if it does not take this one.
        if let Err(nearest) = config.set_max_readahead(self.read_ahead_bytes) {
            let _ = config.set_max_readahead(nearest);
        }
        let _ = config.set_max_background(BACKGROUND);
        let _ = config.set_max_write(MOVE_BYTES as u32);
        Ok(())
    }

    fn destroy(&mut self) {
        drop(self.saver.take());
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let find = |name| self.view.tree.with(|tree| tree.find(number(parent), name));
        match name.to_str().and_then(find) {
            // It is too long in every folder. What is too long only in this one is absent.
            None if name.len() > NAME_BYTES => reply.error(Errno::ENAMETOOLONG),
            found => self.view.entry(found, reply),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.view.answer_attributes(number(inode), reply);
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size_bytes: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let number = number(inode);
        let Some(attributes) = self.view.attributes(number) else {
            reply.error(Errno::ENOENT);
            return;
        };
        if let Err(errno) = self.view.refuse_owner_and_mode(&attributes, mode, uid, gid) {
            reply.error(errno);
            return;
        }
        let ns = |time: TimeOrNow| match time {
            TimeOrNow::SpecificTime(time) => ns_of(time),
            TimeOrNow::Now => now_ns(),
        };
        let change = Change {
            size_bytes,
            modified_ns: mtime.map(ns),
            accessed_ns: atime.map(ns),
        };
        let view = self.view.clone();
        let is_kept = size_bytes.is_some() || mtime.is_some();
        if attributes.kind == FileType::Directory || !is_kept {
            view.tree.with(|tree| change.mark(tree, number));
            view.answer_attributes(number, reply);
            return;
        }
        let answer = Box::new(move |result| match result {
            Ok(()) => view.answer_attributes(number, reply),
            Err(errno) => reply.error(errno),
        });
        self.ask(Ask::Change(number, change, answer));
    }

    fn mknod(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        match self.view.make_folder(number(parent), name) {
            Ok(number) => self.view.entry(Some(number), reply),
            Err(errno) => reply.error(errno),
        }
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        ends(reply)(self.view.remove_folder(number(parent), name));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        match text(name) {
            Ok(name) => self.ask(Ask::Remove(number(parent), name.to_owned(), ends(reply))),
            Err(errno) => reply.error(errno),
        }
    }

    fn symlink(&self, _: &Request, _: INodeNo, _: &OsStr, _: &std::path::Path, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn link(&self, _: &Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let renaming = match (text(name), text(new_name)) {
            _ if !RenameFlags::RENAME_NOREPLACE.contains(flags) => Err(Errno::EINVAL),
            (Ok(name), Ok(new_name)) => Ok(Renaming {
                from: number(parent),
                name: name.to_owned(),
                to: number(new_parent),
                new_name: new_name.to_owned(),
                keeps_existing: flags.contains(RenameFlags::RENAME_NOREPLACE),
            }),
            (Err(errno), _) | (_, Err(errno)) => Err(errno),
        };
        match renaming {
            Ok(renaming) => self.ask(Ask::Rename(renaming, ends(reply))),
            Err(errno) => reply.error(errno),
        }
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let name = match text(name) {
            Ok(name) => name.to_owned(),
            Err(errno) => {
                reply.error(errno);
                return;
            }
        };
        let is_new = OFlags::from_bits_retain(flags as u32).contains(OFlags::EXCL);
        let (handle, keeps) = match handle(OpenFlags(flags)) {
            // A file can be made without being open to write.
            (READS, keeps) => (WRITES, keeps),
            opened => opened,
        };
        let view = self.view.clone();
        let answer = Box::new(move |made: Result<Number, Errno>| {
            let made = made.and_then(|number| view.attributes(number).ok_or(Errno::ENOENT));
            match made {
                Ok(attributes) => {
                    let kept = view.kept();
                    reply.created(&kept, &attributes, Generation(0), handle, keeps);
                }
                Err(errno) => reply.error(errno),
            }
        });
        self.ask(Ask::Create(number(parent), name, is_new, answer));
    }

    fn open(&self, _: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let (handle, keeps) = handle(flags);
        let answer = Box::new(move |result| match result {
            Ok(()) => reply.opened(handle, keeps),
            Err(errno) => reply.error(errno),
        });
        self.ask(Ask::Open(number(inode), handle != READS, answer));
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let data = Box::new(move |result: Result<&[u8], Errno>| match result {
            Ok(data) => reply.data(data),
            Err(errno) => reply.error(errno),
        });
        self.ask(Ask::Read(number(inode), offset, size as usize, data));
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let appends = OFlags::from_bits_retain(flags.0 as u32).contains(OFlags::APPEND);
        // A page that was stored to through a map has its own place.
        let is_mapped = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let place = if appends && !is_mapped {
            Place::End
        } else {
            Place::At(offset)
        };
        let len = data.len() as u32;
        let (stale, number) = (self.stale.clone(), number(inode));
        let answer = Box::new(move |result| match result {
            Ok(()) if handle == BOTH => {
                stale.drop_from(number, offset, Box::new(move || reply.written(len)));
            }
            Ok(()) => reply.written(len),
            Err(errno) => reply.error(errno),
        });
        self.ask(Ask::Write(number, place, data.to_vec(), answer));
    }

    fn flush(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        _: LockOwner,
        reply: ReplyEmpty,
    ) {
        if handle != READS {
            self.ask(Ask::Commit(number(inode), false, ends(reply)))
        } else {
            reply.ok()
        }
    }

    fn fsync(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        if self.view.is_writable {
            self.ask(Ask::Commit(number(inode), true, ends(reply)))
        } else {
            reply.ok()
        }
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        // A name is durable when its request has been answered.
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        if mode == KEEP_SIZE {
            let end = offset.saturating_add(length);
            self.ask(Ask::Reserve(number(inode), end, ends(reply)));
        } else {
            reply.error(Errno::EOPNOTSUPP)
        }
    }

    fn release(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.ask(Ask::Close(number(inode), handle != READS, ends(reply)));
    }

    fn readdir(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let number = number(inode);
        let is_folder = self.view.tree.with(|tree| {
            let Some(inside) = tree.folder(number) else {
                return false;
            };
            let dots = [(1, number, "."), (DOTS, inside.parent, "..")];
            let dots = dots.into_iter().filter(|(place, ..)| *place > offset);
            let rest = inside.from((offset + 1).saturating_sub(DOTS));
            let rest = rest.map(|(number, name)| (number + DOTS, number, name));
            for (place, number, name) in dots.chain(rest) {
                let kind = match tree.node(number) {
                    Some(Node::File(_)) => FileType::RegularFile,
                    _ => FileType::Directory,
                };
                if reply.add(super::view::inode(number), place, kind, name) {
                    break;
                }
            }
            true
        });
        if is_folder {
            reply.ok()
        } else {
            reply.error(Errno::ENOTDIR)
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let answer = Box::new(move |space: Result<Space, Errno>| match space {
            Ok(space) => {
                let unit = space.unit_bytes.max(1);
                let free = space.free_bytes / unit;
                let unit_bytes = u32::try_from(unit).unwrap_or(u32::MAX);
                reply.statfs(
                    space.capacity_bytes / unit,
                    free,
                    free,
                    space.files,
                    space.free_files,
                    unit_bytes,
                    NAME_BYTES as u32,
                    unit_bytes,
                );
            }
            Err(errno) => reply.error(errno),
        });
        self.ask(Ask::Space(answer));
    }
}
