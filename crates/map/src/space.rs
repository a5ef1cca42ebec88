//! The memory of a map as its pager sees it: pages that appear, disappear and are protected.

use std::io;

/// A thread that waits because it touched a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Number of the page.
    pub page: u64,
    /// Whether it is about to store.
    pub store: bool,
    /// The page has its memory, and no mapping: it was unmapped, perhaps by the kernel.
    pub unmapped: bool,
}

/// Memory whose pages are given and taken by the pager. Each call but the first three lets the
/// threads that wait for the page continue, if it changes what they wait for.
///
/// Errors are those of the system calls.
pub trait Space {
    /// Whether a store to a page that was given protected is a fault. If not, a protected page has no
    /// mapping, so each access to it is a fault.
    fn tells_stores(&self) -> bool;

    /// The next thread that waits, if any.
    fn next_fault(&mut self) -> io::Result<Option<Fault>>;

    /// Copies the content of a page that no thread can store to.
    fn copy_out(&mut self, page: u64, data: &mut [u8]) -> io::Result<()>;

    /// Gives an absent page this content.
    fn install(&mut self, page: u64, data: &[u8], protected: bool) -> io::Result<()>;

    /// Maps a page again whose memory was not taken.
    fn remap(&mut self, page: u64, protected: bool) -> io::Result<()>;

    /// Lets threads store to the page.
    fn unprotect(&mut self, page: u64) -> io::Result<()>;

    /// Lets no thread store to the page until [`unprotect`](Space::unprotect).
    fn protect(&mut self, page: u64) -> io::Result<()>;

    /// Makes the next access to a page that is not writable a fault, and keeps its memory.
    fn unmap(&mut self, page: u64) -> io::Result<()>;

    /// Takes the memory of an unmapped page.
    fn evict(&mut self, page: u64) -> io::Result<()>;

    /// Makes each access to the page an error (SIGBUS) for this reason, and takes its memory.
    fn poison(&mut self, page: u64, error: block::Error) -> io::Result<()>;

    /// Lets the threads that wait for the page try again.
    fn wake(&mut self, page: u64) -> io::Result<()>;

    /// Makes each access to each page an error, now and later.
    fn close(&mut self) -> io::Result<()>;
}
