//! Where a workload keeps its files, as the workload sees it.

use super::Op;
use std::io;

/// Lengths of files and of pieces are multiples of this, so that they suit direct access.
pub const UNIT: u64 = 4096;
/// The longest single transfer.
pub const LONGEST: u64 = 1 << 20;

/// What is asked of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask<'a> {
    /// What is to be done; never [`Op::Pause`].
    pub op: Op,
    /// The set of the file.
    pub set: &'a str,
    /// Which of its files.
    pub number: u64,
    /// The length that a file gets that is made, in bytes, a multiple of [`UNIT`].
    pub len_bytes: u64,
    /// Bytes of a piece, a multiple of [`UNIT`], at most [`LONGEST`].
    pub piece_bytes: u64,
    /// Which piece, for an operation at a random place: this number modulo the pieces of the file.
    pub pick: u64,
    /// Whether it lasts when it is done.
    pub sync: bool,
}

/// Where a workload keeps its files. Several threads ask at once.
pub trait Store: Sync {
    /// Where it is, for the report.
    fn place(&self) -> String;

    /// Finds out whether a workload can begin.
    ///
    /// # Errors
    /// Files of an earlier run are there, or it cannot be written.
    fn begin(&self) -> io::Result<()>;

    /// Does it, and says how many bytes moved. `buffer` is the thread's own: data to be written, or
    /// room for what is read. A store with memory of its own leaves it alone.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] where another thread has removed the file; the store's.
    fn act(&self, ask: &Ask<'_>, buffer: &mut [u8]) -> io::Result<u64>;

    /// Removes all that was made since [`begin`](Store::begin).
    ///
    /// # Errors
    /// Something is left.
    fn clear(&self) -> io::Result<()>;
}
