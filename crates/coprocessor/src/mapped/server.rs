// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The frames: which page is in which, and which one makes space for another.
//!
//! ```text
//!            load                   store                 write failed
//!   free ----------> clean <------------------> dirty ------------------> kept
//!     ^                |      written (evicted    |                         |
//!     +--- evicted ----+      or synced)          +-------- by a sync ------+
//! ```
//!
//! These are the states of `crates/map`, without those of a transfer in progress: the hart whose
//! accesses change a page's state waits during each call. That one learns of an access by unmapping
//! a page, this one from the entry's A bit. A page is writable only while it is dirty or kept, so a
//! store to any other page is a fault, and the D bit needs no help from the hardware.

use core::sync::atomic::{AtomicU64, Ordering};

use block::{Buffer, Error};

use super::sv39::{ACCESSED, DIRTY, READ, Table, VALID, WRITE, leaf, physical};
use super::{CONTEXTS, PAGE_BYTES};
use crate::status::{Code, CompletionStatus};

/// What the pages of the contexts are stored on.
pub trait Backing {
    /// Fills `buffer` with a page; zeroes where the page is past the end. A buffer that is not
    /// returned whole is lost.
    fn read(
        &mut self,
        context: usize,
        page: u32,
        buffer: Buffer,
    ) -> (Buffer, Result<(), CompletionStatus>);

    /// Stores a page, except what is past the end.
    fn write(
        &mut self,
        context: usize,
        page: u32,
        buffer: Buffer,
    ) -> (Buffer, Result<(), CompletionStatus>);

    /// Makes what was written durable.
    ///
    /// # Errors
    /// The drive's or the volume's.
    fn flush(&mut self, context: usize) -> Result<(), CompletionStatus>;
}

/// The window of a context.
#[derive(Clone, Copy, Debug, Default)]
pub struct Space<'m> {
    /// The last level of its tables.
    pub tables: &'m [Table],
    /// Its length in pages.
    pub pages: u32,
    /// Whether the application may store to it.
    pub writable: bool,
}

impl<'m> Space<'m> {
    fn entry(&self, page: u64) -> Option<&'m AtomicU64> {
        if page >= u64::from(self.pages) {
            return None;
        }
        let page = page as usize;
        self.tables.get(page >> 9).map(|table| table.entry(page))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum State {
    /// Without a page.
    Free,
    /// The same as stored. Not writable.
    Clean,
    /// Stored to since it was read or written.
    Dirty,
    /// The same, and its last write failed: only a sync tries again.
    Kept,
    /// The device did not return the memory.
    Lost,
}

/// The memory of a page, and the page.
#[derive(Debug)]
pub struct Frame {
    /// Only lent to devices: the application's hart may use the memory while it is mapped.
    buffer: Option<Buffer>,
    pub(super) state: State,
    pub(super) context: usize,
    pub(super) page: u32,
}

impl Frame {
    /// A frame without memory, for [`Server::new`].
    pub const fn new() -> Self {
        Self {
            buffer: None,
            state: State::Lost,
            context: 0,
            page: 0,
        }
    }
}

impl Default for Frame {
    fn default() -> Self {
        Self::new()
    }
}

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Faults of the window that were served.
    pub faults: u64,
    /// Pages read.
    pub reads: u64,
    /// Pages written.
    pub writes: u64,
    /// Pages whose frame was taken.
    pub evictions: u64,
    /// The most pages that had a frame at once.
    pub most_resident: u64,
}

/// Serves the faults of all contexts with one pool of frames.
#[derive(Debug)]
pub struct Server<'m> {
    spaces: [Space<'m>; CONTEXTS],
    pub(super) frames: &'m mut [Frame],
    first_address: u64,
    pub(super) hand: usize,
    resident: u64,
    counts: Counts,
    /// Why the last write failed.
    failure: CompletionStatus,
    /// After a flush failed it is unknown what the drive has lost, so no later sync succeeds.
    flush_failure: CompletionStatus,
}

impl<'m> Server<'m> {
    /// As many frames as `memory` has pages, at most `frames.len()`; `memory` is aligned to a page.
    pub fn new(frames: &'m mut [Frame], memory: Buffer, spaces: [Space<'m>; CONTEXTS]) -> Self {
        debug_assert_eq!(memory.address() % PAGE_BYTES, 0);
        let first_address = memory.address() as u64;
        let mut rest = memory;
        for frame in frames.iter_mut() {
            let (buffer, others) = rest.split_at(PAGE_BYTES);
            rest = others;
            *frame = Frame::new();
            if buffer.len() == PAGE_BYTES {
                frame.state = State::Free;
                frame.buffer = Some(buffer);
            }
        }
        Self {
            spaces,
            frames,
            first_address,
            hand: 0,
            resident: 0,
            counts: Counts::default(),
            failure: Error::Gone.into(),
            flush_failure: CompletionStatus::OK,
        }
    }

    /// The counters.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    #[cfg(test)]
    pub(super) const fn resident(&self) -> u64 {
        self.resident
    }

    #[cfg(test)]
    pub(super) const fn set_resident(&mut self, resident: u64) {
        self.resident = resident;
    }

    /// Lets a context load from a page, or store to it.
    ///
    /// # Errors
    /// [`Code::OutsideGrant`] beyond the window, [`Code::NoRight`] for a store to a window that is
    /// read-only, the error of reading the page, or, if no page can make space, that of the last
    /// write.
    pub fn fault<B: Backing>(
        &mut self,
        backing: &mut B,
        context: usize,
        page: u64,
        is_store: bool,
    ) -> Result<(), CompletionStatus> {
        let space = self.spaces.get(context).copied().unwrap_or_default();
        let entry = space.entry(page).ok_or(Code::OutsideGrant)?;
        if is_store && !space.writable {
            return Err(Code::NoRight.into());
        }
        self.counts.faults += 1;
        let before = entry.load(Ordering::Relaxed);
        if before & VALID == 0 {
            return self.bring(backing, context, page as u32, entry, is_store);
        }
        // Hardware that does not set A itself faults when it is clear (Svade).
        let mut after = before | ACCESSED;
        if is_store {
            after |= WRITE | DIRTY;
            if let Some(frame) = self.frame_of(before) {
                if frame.state == State::Clean {
                    frame.state = State::Dirty;
                }
            }
        }
        entry.store(after, Ordering::Relaxed);
        Ok(())
    }

    fn frame_of(&mut self, entry: u64) -> Option<&mut Frame> {
        let offset = physical(entry).checked_sub(self.first_address)? as usize;
        self.frames.get_mut(offset / PAGE_BYTES)
    }

    /// Reads an absent page and maps it.
    fn bring<B: Backing>(
        &mut self,
        backing: &mut B,
        context: usize,
        page: u32,
        entry: &AtomicU64,
        is_store: bool,
    ) -> Result<(), CompletionStatus> {
        let index = self.take_frame(backing)?;
        let frame = self.frames.get_mut(index).ok_or(Error::Gone)?;
        let buffer = frame.buffer.take().ok_or(Error::Gone)?;
        let address = buffer.address() as u64;
        let (buffer, result) = backing.read(context, page, buffer);
        if buffer.len() != PAGE_BYTES {
            frame.state = State::Lost;
            return Err(result.err().unwrap_or(Error::Gone.into()));
        }
        frame.buffer = Some(buffer);
        result?;
        self.counts.reads += 1;
        self.resident += 1;
        self.counts.most_resident = self.counts.most_resident.max(self.resident);
        (frame.context, frame.page) = (context, page);
        let (state, rights) = if is_store {
            (State::Dirty, READ | WRITE | DIRTY)
        } else {
            (State::Clean, READ)
        };
        frame.state = state;
        entry.store(leaf(address, rights), Ordering::Relaxed);
        Ok(())
    }

    /// A free frame: the hand passes each page twice at most, and takes the first that was not
    /// accessed since it passed before. A page that cannot be written keeps its frame.
    fn take_frame<B: Backing>(&mut self, backing: &mut B) -> Result<usize, CompletionStatus> {
        for _ in 0..2 * self.frames.len() {
            let index = self.hand;
            self.hand = (index + 1) % self.frames.len();
            let Some(frame) = self.frames.get(index) else {
                break;
            };
            match frame.state {
                State::Free => return Ok(index),
                State::Kept | State::Lost => continue,
                State::Clean | State::Dirty => {}
            }
            let is_dirty = frame.state == State::Dirty;
            let Some(entry) = self.entry_of(index) else {
                continue;
            };
            let bits = entry.load(Ordering::Relaxed);
            if bits & ACCESSED != 0 {
                entry.store(bits & !ACCESSED, Ordering::Relaxed);
            } else if !is_dirty || self.write(backing, index).is_ok() {
                self.release(index);
                return Ok(index);
            }
        }
        Err(self.failure)
    }

    fn entry_of(&self, index: usize) -> Option<&'m AtomicU64> {
        let frame = self.frames.get(index)?;
        self.spaces.get(frame.context)?.entry(u64::from(frame.page))
    }

    /// Unmaps a page.
    fn release(&mut self, index: usize) {
        if let Some(entry) = self.entry_of(index) {
            entry.store(0, Ordering::Relaxed);
        }
        if let Some(frame) = self.frames.get_mut(index) {
            frame.state = State::Free;
        }
        self.resident -= 1;
        self.counts.evictions += 1;
    }

    /// Writes a page. It is not writable afterwards, so the next store to it is noticed.
    fn write<B: Backing>(&mut self, backing: &mut B, index: usize) -> Result<(), CompletionStatus> {
        let entry = self.entry_of(index).ok_or(Error::Gone)?;
        let frame = self.frames.get_mut(index).ok_or(Error::Gone)?;
        let buffer = frame.buffer.take().ok_or(Error::Gone)?;
        let protected = entry.load(Ordering::Relaxed) & !(WRITE | DIRTY);
        entry.store(protected, Ordering::Relaxed);
        let (buffer, result) = backing.write(frame.context, frame.page, buffer);
        if buffer.len() == PAGE_BYTES {
            frame.buffer = Some(buffer);
        }
        frame.state = match result {
            Ok(()) if frame.buffer.is_some() => State::Clean,
            _ => State::Kept,
        };
        match result {
            Ok(()) => self.counts.writes += 1,
            Err(status) => self.failure = status,
        }
        result
    }

    /// Writes what a context stored, and makes it durable.
    ///
    /// # Errors
    /// Of the first page that cannot be written, which stays in memory and is tried again by the
    /// next sync; or that of a flush, now or earlier.
    pub fn sync<B: Backing>(
        &mut self,
        backing: &mut B,
        context: usize,
    ) -> Result<(), CompletionStatus> {
        if !self.spaces.get(context).is_some_and(|space| space.writable) {
            return Ok(());
        }
        let mut result = Ok(());
        for index in 0..self.frames.len() {
            let differs = self.frames.get(index).is_some_and(|frame| {
                frame.context == context && matches!(frame.state, State::Dirty | State::Kept)
            });
            if differs {
                result = result.and(self.write(backing, index));
            }
        }
        if self.flush_failure == CompletionStatus::OK {
            self.flush_failure = backing.flush(context).err().unwrap_or(CompletionStatus::OK);
        }
        match self.flush_failure {
            CompletionStatus::OK => result,
            failure => result.and(Err(failure)),
        }
    }

    /// A context has ended: writes what it stored, and takes its frames.
    ///
    /// # Errors
    /// As of [`sync`](Self::sync); the pages that could not be written are lost.
    pub fn end<B: Backing>(
        &mut self,
        backing: &mut B,
        context: usize,
    ) -> Result<(), CompletionStatus> {
        let result = self.sync(backing, context);
        for index in 0..self.frames.len() {
            let has_page = self.frames.get(index).is_some_and(|frame| {
                frame.context == context && !matches!(frame.state, State::Free | State::Lost)
            });
            if has_page {
                self.release(index);
                if let Some(frame) = self.frames.get_mut(index) {
                    if frame.buffer.is_none() {
                        frame.state = State::Lost;
                    }
                }
            }
        }
        result
    }
}
