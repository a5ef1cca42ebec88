// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The requests to the thread that has mounted the volume, and the errors that the kernel gets.

use super::tree::{Number, Tree};
use files::now_ns;
use fuser::Errno;
use std::time::Duration;
use volume::Error;

/// What a device that is a file answers when its file system is full.
const FULL: [i32; 2] = [
    rustix::io::Errno::NOSPC.raw_os_error(),
    rustix::io::Errno::DQUOT.raw_os_error(),
];

/// Gets the answer to a request.
pub type Answer<T> = Box<dyn FnOnce(Result<T, Errno>) + Send>;
/// Gets the data of a read.
pub type Data = Box<dyn FnOnce(Result<&[u8], Errno>) + Send>;

/// Where a write begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At this byte.
    At(u64),
    /// At the end, wherever it is (O_APPEND).
    End,
}

/// A new name of a file.
#[derive(Clone, Debug)]
pub struct Renaming {
    /// The folder that it is in.
    pub from: Number,
    /// Its name there.
    pub name: String,
    /// The folder that it will be in.
    pub to: Number,
    /// Its name there.
    pub new_name: String,
    /// A file that has this name already is not replaced.
    pub keeps_existing: bool,
}

/// New attributes of a file.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// Its size.
    pub size_bytes: Option<u64>,
    /// The time of its last change, in nanoseconds since 1970.
    pub modified_ns: Option<u64>,
    /// The time of its last access.
    pub accessed_ns: Option<u64>,
}

impl Change {
    /// Notes the times in the tree, which has them for as long as the volume is mounted.
    pub fn mark(&self, tree: &mut Tree, number: Number) {
        let Some(times) = tree.times_mut(number) else {
            return;
        };
        times.changed_ns = now_ns();
        times.accessed_ns = self.accessed_ns.unwrap_or(times.accessed_ns);
        times.modified_ns = self.modified_ns.unwrap_or(times.modified_ns);
    }
}

/// The space of the volume.
#[derive(Clone, Copy, Debug)]
pub struct Space {
    /// Bytes that files can have.
    pub capacity_bytes: u64,
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Files that it can have.
    pub files: u64,
    /// Files that it has room for.
    pub free_files: u64,
    /// Its allocation unit.
    pub unit_bytes: u64,
}

/// A request to the thread that has mounted the volume.
pub enum Ask {
    /// Opens a file, once more if it is open, and to write if so.
    Open(Number, bool, Answer<()>),
    /// Closes a file that was opened like this.
    Close(Number, bool, Answer<()>),
    /// Reads from a byte on.
    Read(Number, u64, usize, Data),
    /// Writes.
    Write(Number, Place, Vec<u8>, Answer<()>),
    /// Makes what was written part of the file; durable, if so.
    Commit(Number, bool, Answer<()>),
    /// Sets the size of a file, and when it was modified.
    Change(Number, Change, Answer<()>),
    /// Reserves space up to a byte.
    Reserve(Number, u64, Answer<()>),
    /// Makes a file in a folder and opens it to write; one that exists is opened, unless it must be
    /// new.
    Create(Number, String, bool, Answer<Number>),
    /// Removes a file of a folder.
    Remove(Number, String, Answer<()>),
    /// Renames a file or a folder.
    Rename(Renaming, Answer<()>),
    /// The space.
    Space(Answer<Space>),
    /// Makes durable what was written and has not been for so long.
    Save(Duration),
    /// Makes everything that was written durable, and closes all files.
    End,
}

/// What the kernel gets for an error of the volume.
pub fn errno(error: Error) -> Errno {
    match error {
        Error::BadName => Errno::EINVAL,
        Error::NotFound => Errno::ENOENT,
        Error::Exists => Errno::EEXIST,
        Error::NoSpace | Error::TableFull => Errno::ENOSPC,
        Error::MapFull => Errno::EFBIG,
        Error::InUse => Errno::EBUSY,
        Error::TooManyOpen => Errno::ENFILE,
        Error::NotOpen | Error::NotWritable => Errno::EBADF,
        Error::Unsupported => Errno::EOPNOTSUPP,
        Error::ReadOnly => Errno::EROFS,
        Error::Device(error) => match error.error() {
            block::Error::Gone => Errno::ENODEV,
            // The file system that holds an image is full.
            block::Error::Os { errno } if FULL.contains(&errno) => Errno::ENOSPC,
            _ => Errno::EIO,
        },
        _ => Errno::EIO,
    }
}
