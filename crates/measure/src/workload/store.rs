//! The interface of a workload to the place of its files.

use super::Op;
use std::io;

/// Lengths of files and of pieces are multiples of this, so that they suit direct access.
pub const UNIT: u64 = 4096;
/// The longest single transfer.
pub const LONGEST: u64 = 1 << 20;

/// An operation on a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask<'a> {
    /// The operation; never [`Op::Pause`].
    pub op: Op,
    /// The set of the file.
    pub set: &'a str,
    /// The number of the file in its set.
    pub number: u64,
    /// The length of a new file in bytes, a multiple of [`UNIT`].
    pub len_bytes: u64,
    /// Bytes of a piece, a multiple of [`UNIT`], at most [`LONGEST`].
    pub piece_bytes: u64,
    /// The piece, for an operation at a random offset: this number modulo the number of pieces of
    /// the file.
    pub pick: u64,
    /// Whether it is durable when it completes.
    pub sync: bool,
}

/// The place of a workload's files. Several threads use it concurrently.
pub trait Store: Sync {
    /// Its name, for the report.
    fn place(&self) -> String;

    /// Checks whether a workload can begin.
    ///
    /// # Errors
    /// Files of an earlier run exist, or the place cannot be written.
    fn begin(&self) -> io::Result<()>;

    /// Performs the operation, and returns how many bytes were moved. `buffer` belongs to the
    /// thread and holds data to write or receives data; a store with its own memory does not use
    /// it.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if another thread has removed the file; other errors of the
    /// store.
    fn act(&self, ask: &Ask<'_>, buffer: &mut [u8]) -> io::Result<u64>;

    /// Removes everything created since [`begin`](Store::begin).
    ///
    /// # Errors
    /// Something remains.
    fn clear(&self) -> io::Result<()>;
}
