// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The interface of a workload to the place of its files.

use std::fmt;
use std::io;

/// The longest single transfer.
pub const LONGEST: u64 = 1 << 20;

/// A file of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    /// Its set.
    pub set: &'a str,
    /// Its number in the set.
    pub number: u64,
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.set, self.number)
    }
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// To be read.
    Read,
    /// To be written, and perhaps read.
    Write,
    /// To be made, with this many bytes to come.
    Create(u64),
}

/// The place of a workload's files.
pub trait Store: Sync {
    /// Its name, for the report.
    fn place(&self) -> String;

    /// Lengths and offsets are multiples of this.
    fn unit_bytes(&self) -> u64;

    /// Checks whether a workload can begin.
    ///
    /// # Errors
    /// Files of an earlier run exist, or the place cannot be written.
    fn begin(&self) -> io::Result<()>;

    /// The open files of one thread.
    ///
    /// # Errors
    /// The place is no longer there.
    fn session(&self) -> io::Result<Box<dyn Session + '_>>;

    /// Removes everything created since [`begin`](Store::begin). No session is open.
    ///
    /// # Errors
    /// Something remains.
    fn clear(&self) -> io::Result<()>;
}

/// The open files of one thread, by the numbers that its steps give them. A store with memory of
/// its own moves data to and from that, and uses only the length of a buffer.
pub trait Session {
    /// Opens a file as `number`, which is free; returns its length.
    ///
    /// # Errors
    /// The file does not exist, or for [`Use::Create`] it does; those of the store.
    fn open(&mut self, number: u8, file: Named<'_>, how: Use) -> io::Result<u64>;

    /// Reads from `offset` on; returns how many bytes there were, up to the buffer's length.
    ///
    /// # Errors
    /// Those of the store.
    fn read(&mut self, number: u8, offset: u64, buffer: &mut [u8]) -> io::Result<u64>;

    /// Overwrites from `offset` on.
    ///
    /// # Errors
    /// Those of the store.
    fn write(&mut self, number: u8, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Writes at the file's end.
    ///
    /// # Errors
    /// Those of the store.
    fn append(&mut self, number: u8, data: &[u8]) -> io::Result<()>;

    /// Makes durable what was written.
    ///
    /// # Errors
    /// Those of the store.
    fn sync(&mut self, number: u8) -> io::Result<()>;

    /// Closes the file.
    ///
    /// # Errors
    /// Those of the store.
    fn close(&mut self, number: u8) -> io::Result<()>;

    /// Removes a file that is not open.
    ///
    /// # Errors
    /// The file does not exist; those of the store.
    fn remove(&mut self, file: Named<'_>) -> io::Result<()>;

    /// Queries a file's length.
    ///
    /// # Errors
    /// The file does not exist; those of the store.
    fn stat(&mut self, file: Named<'_>) -> io::Result<u64>;
}
