// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory of a map as its pager sees it: pages that appear, disappear and are protected.

use std::io;

/// A thread that waits because it touched a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Number of the page.
    pub page: u64,
    /// Number of the thread, or 0.
    pub thread: u64,
    /// Whether it is about to store.
    pub store: bool,
    /// The page has its memory, and no mapping: it was unmapped, perhaps by the kernel.
    pub unmapped: bool,
}

/// Memory whose pages are given and taken by the pager. Each call but the first three lets the
/// threads of this process that wait for the page continue, if it changes what they wait for.
///
/// Errors are those of the system calls.
pub trait Space {
    /// Whether a store to a page that was given protected is a fault. If not, a protected page has
    /// no mapping, so each access to it is a fault.
    fn tells_stores(&self) -> bool;

    /// Appends threads that wait to `faults`.
    fn take_faults(&self, faults: &mut Vec<Fault>) -> io::Result<()>;

    /// Copies the content of a page that no thread can store to.
    fn copy_out(&self, page: u64, data: &mut [u8]) -> io::Result<()>;

    /// Gives an absent page this content.
    fn install(&self, page: u64, data: &[u8], protected: bool) -> io::Result<()>;

    /// Wakes another lane that sleeps, if there is one.
    fn call_for_help(&self);

    /// Lets threads of other processes that wait for the page continue.
    fn appeared(&self, page: u64);

    /// Maps a page again whose memory was not taken.
    fn remap(&self, page: u64, protected: bool) -> io::Result<()>;

    /// Lets threads store to the page.
    fn unprotect(&self, page: u64) -> io::Result<()>;

    /// Lets no thread store to the page until [`unprotect`](Space::unprotect).
    fn protect(&self, page: u64) -> io::Result<()>;

    /// Makes the next access to a page that is not writable a fault, and keeps its memory.
    fn unmap(&self, page: u64) -> io::Result<()>;

    /// Takes the memory of an unmapped page.
    fn evict(&self, page: u64) -> io::Result<()>;

    /// Whether a part of a page has no memory.
    fn has_hole(&self, page: u64) -> io::Result<bool>;

    /// Gives these parts memory, with zeroes.
    fn fill_holes(&self, page: u64) -> io::Result<()>;

    /// Makes each access to the page an error (SIGBUS) for this reason, and takes its memory.
    fn poison(&self, page: u64, error: block::Error) -> io::Result<()>;

    /// Lets the threads that wait for the page try again.
    fn wake(&self, page: u64) -> io::Result<()>;

    /// Makes each access to each page an error, now and later.
    fn close(&self) -> io::Result<()>;
}
