//! The kernel's requests. Names and attributes do not change while the volume is mounted to read, so they are answered at once.

use super::reads::{Ask, Refusal};
use super::tree::{Node, Number, Tree};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, Request,
};
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long the kernel may keep what does not change.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// Reads ahead that the kernel may have under way.
const BACKGROUND: u16 = 16;
/// The longest name of a file in a folder: the volume's names have at most 64 bytes.
const NAME_BYTES: u32 = 64;

/// The volume as the kernel sees it.
#[derive(Clone, Copy, Debug)]
pub struct Space {
    /// Bytes that files can have.
    pub capacity_bytes: u64,
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Files that it can have.
    pub files: u64,
    /// Its allocation unit.
    pub unit_bytes: u64,
}

/// The file system.
pub struct Folder {
    /// Its names.
    pub tree: Arc<Tree>,
    /// Its space.
    pub space: Space,
    /// The thread that has mounted the volume.
    pub asks: Sender<Ask>,
    /// The longest read ahead.
    pub read_ahead_bytes: u32,
    /// The time of the mount, which folders have.
    pub since: SystemTime,
}

impl Folder {
    fn attributes(&self, number: Number) -> Option<FileAttr> {
        let (kind, perm, size, allocated, time) = match self.tree.node(number)? {
            Node::Folder(..) => (FileType::Directory, 0o555, 0, 0, self.since),
            Node::File(facts) => {
                let time = UNIX_EPOCH + Duration::from_nanos(facts.mtime_ns);
                let allocated = facts.allocated_bytes;
                (
                    FileType::RegularFile,
                    0o444,
                    facts.size_bytes,
                    allocated,
                    time,
                )
            }
        };
        Some(FileAttr {
            ino: inode(number),
            size,
            blocks: allocated.div_ceil(512),
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind,
            perm,
            nlink: 1,
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            rdev: 0,
            blksize: 1 << 20,
            flags: 0,
        })
    }
}

/// The kernel's root is 1.
fn inode(number: Number) -> INodeNo {
    INodeNo(number as u64 + 1)
}

fn number(inode: INodeNo) -> Number {
    usize::try_from(inode.0.wrapping_sub(1)).unwrap_or(usize::MAX)
}

fn errno(refusal: Refusal) -> Errno {
    match refusal {
        Refusal::Io => Errno::EIO,
        Refusal::TooManyOpen => Errno::ENFILE,
        Refusal::Gone => Errno::ENODEV,
    }
}

impl Filesystem for Folder {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Each returns the nearest value that the kernel takes, if it does not take this one.
        if let Err(nearest) = config.set_max_readahead(self.read_ahead_bytes) {
            let _ = config.set_max_readahead(nearest);
        }
        let _ = config.set_max_background(BACKGROUND);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = name
            .to_str()
            .and_then(|name| self.tree.find(number(parent), name));
        match found.and_then(|number| self.attributes(number)) {
            Some(attributes) => reply.entry(&KEPT, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(number(inode)) {
            Some(attributes) => reply.attr(&KEPT, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let asked = self.asks.send(Ask::Open(
            number(inode),
            Box::new(move |result| match result {
                // What the page cache has of it stays right.
                Ok(()) => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
                Err(refusal) => reply.error(errno(refusal)),
            }),
        ));
        // A request that is dropped is answered with EIO.
        drop(asked);
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
        let data = Box::new(move |result: Result<&[u8], Refusal>| match result {
            Ok(data) => reply.data(data),
            Err(refusal) => reply.error(errno(refusal)),
        });
        drop(
            self.asks
                .send(Ask::Read(number(inode), offset, size as usize, data)),
        );
    }

    fn release(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let answer = Box::new(move |result: Result<(), Refusal>| match result {
            Ok(()) => reply.ok(),
            Err(refusal) => reply.error(errno(refusal)),
        });
        drop(self.asks.send(Ask::Close(number(inode), answer)));
    }

    fn readdir(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let folder = number(inode);
        let Some(Node::Folder(parent, inside)) = self.tree.node(folder) else {
            reply.error(Errno::ENOTDIR);
            return;
        };
        let dots = [(".", folder), ("..", *parent)].into_iter();
        let inside = inside.iter().map(|(name, number)| (name.as_str(), *number));
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        for (index, (name, number)) in dots.chain(inside).enumerate().skip(from) {
            let kind = match self.tree.node(number) {
                Some(Node::File(_)) => FileType::RegularFile,
                _ => FileType::Directory,
            };
            if reply.add(self::inode(number), index as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let space = &self.space;
        let unit = space.unit_bytes.max(1);
        let free = space.free_bytes / unit;
        let free_files = space.files.saturating_sub(self.tree.file_count() as u64);
        let unit_bytes = u32::try_from(unit).unwrap_or(u32::MAX);
        let blocks = space.capacity_bytes / unit;
        reply.statfs(
            blocks,
            free,
            free,
            space.files,
            free_files,
            unit_bytes,
            NAME_BYTES,
            unit_bytes,
        );
    }
}
