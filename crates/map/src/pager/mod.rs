// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Serves the page faults of a map from a device: one loop that never waits inside.
//!
//! Every fault is answered by [`Pages`]; what its answer says is done to the [`Space`] or asked of
//! the device. Reads and writes of many pages are under way at once, each with a buffer of its own.
//! A fault that lacks memory or a buffer waits in order and is tried again.

mod ahead;
mod contents;
mod lane;
mod late;
mod reports;
mod shared;
mod sync;

pub use reports::{Counters, Reports};

use crate::error::{Error, PageError, Result};
use crate::pages::{Answer, Loaded, Pages, State, Step};
use crate::space::{Fault, Space};
use ahead::Ahead;
use block::{Buffer, Completion, Device, Geometry, Lent, Operation, Request, Tag};
use contents::Contents;
use shared::Early;
pub use shared::micros;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;
use sync::{Sync, outcome};

/// The lowest tag of a flush; the others are the numbers of buffers.
const FLUSH: Tag = 1 << 31;

/// One of this number of pages, and at most so many, have no memory until a fault needs it.
const SPARE_SHARE: usize = 64;
const MOST_SPARE: usize = 4;

/// How long a page that has come for a thread keeps its memory at the least: longer than it takes
/// to return to the instruction, and nothing where memory is larger than what is read in this time.
const HOLD_US: u64 = 100;

/// The fewest pages in memory: an instruction of x86 that copies or compares (`movs`, `cmps`) has
/// two operands, and each may cross the border of two pages. With fewer, each fault of that
/// instruction could take what it has just been given, for ever.
pub const LEAST_PAGES: usize = 4;

/// What is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First logical block of the device.
    pub lba: u64,
    /// Length in bytes, whole blocks.
    pub size_bytes: u64,
}

/// Sizes and limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a page, which is what a fault reads: a power of two from 4 KiB to 2 MiB.
    pub page_bytes: usize,
    /// The most pages in memory; at least [`LEAST_PAGES`].
    pub resident_pages: usize,
    /// Above this number of pages that were stored to, the pager writes some of them.
    pub dirty_pages: usize,
    /// A page that was stored to this many microseconds ago is written.
    pub dirty_age_us: Option<u64>,
    /// An access that has waited for this many microseconds is an error.
    pub read_deadline_us: Option<u64>,
    /// A sync or a pin for which the device has ended nothing for this many microseconds is an
    /// error.
    pub call_deadline_us: Option<u64>,
    /// Pages that are read behind one that a thread touched.
    pub read_ahead_pages: usize,
}

/// What the buffer of this number is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    Read(u64),
    Write(u64),
}

#[derive(Debug)]
enum Slot {
    Free(Buffer),
    /// For this, since this time.
    Lent(Job, Lent, u64),
    /// The device kept its buffer.
    Lost,
}

/// A device, or one of several queues of it, with the buffers for its requests: what one thread
/// works with at a time.
#[derive(Debug)]
pub struct Lane<D> {
    device: D,
    slots: Vec<Slot>,
    /// Faults that the next turn serves.
    reported: Vec<Fault>,
    now_us: u64,
    /// When late reads are looked for again.
    late_us: u64,
}

/// A map as all its lanes have it.
#[derive(Debug)]
pub struct Shared<S> {
    space: S,
    range: Range,
    limits: Limits,
    core: Mutex<Core>,
    reports: Arc<Reports>,
    started: Instant,
}

/// What is decided by one lane at a time.
#[derive(Debug)]
struct Core {
    pages: Pages,
    /// Faults that lack memory or a buffer, and since when. Any lane serves them.
    waiting: VecDeque<(Fault, u64)>,
    /// Buffers of all lanes that are lent to their devices.
    lent: usize,
    ahead: Ahead,
    /// Unless the memory tells stores.
    contents: Option<Contents>,
    sync: Option<Sync>,
    synced: Option<Result<()>>,
    /// Flushes so far.
    flushes: Tag,
    counters: Counters,
    has_ended: bool,
    /// Another lane was called for reads that no thread waits for, and has not turned yet.
    has_called: bool,
}

/// A lane that decides. It neither waits nor starts what it has submitted: that is [`Lane::turn`].
#[derive(Debug)]
pub struct Pager<'p, D, S> {
    lane: &'p mut Lane<D>,
    shared: &'p Shared<S>,
    core: MutexGuard<'p, Core>,
}

/// Whether a page can be read now.
enum Room {
    Ready,
    /// A page is being written, or all are in use.
    Later,
    /// All memory has data that the device refuses.
    Full,
}

/// Checks what is mapped, and how, against the device.
///
/// # Errors
/// [`Error::Options`].
pub fn check(geometry: &Geometry, range: Range, limits: Limits, buffers: &[Buffer]) -> Result<()> {
    let block = geometry.block_size_bytes();
    let end = range.size_bytes.checked_div(block as u64);
    let end = end.and_then(|blocks| blocks.checked_add(range.lba));
    let page = limits.page_bytes;
    let problem = if !page.is_power_of_two() || !(4 << 10..=2 << 20).contains(&page) {
        "a page has 4 KiB to 2 MiB, a power of two"
    } else if page < block || page > geometry.max_transfer_bytes() {
        "a page has at least a block of the device, and at most its largest transfer"
    } else if range.size_bytes == 0 || range.size_bytes % block as u64 != 0 {
        "a map has whole blocks of the device, at least one"
    } else if end.is_none_or(|end| end > geometry.block_count) {
        "the range ends past the device"
    } else if buffers.is_empty() || buffers.iter().any(|buffer| buffer.len() != page) {
        "a map has at least one buffer, each as long as a page"
    } else if limits.resident_pages < LEAST_PAGES {
        "a map has at least four pages in memory, because one instruction may touch as many"
    } else {
        return Ok(());
    };
    Err(Error::Options(problem))
}

impl<D: Device, S: Space> Pager<'_, D, S> {
    /// The memory.
    pub const fn space(&self) -> &S {
        &self.shared.space
    }

    /// The time at which a page becomes too old.
    pub fn due_us(&mut self) -> Option<u64> {
        let age_us = self.shared.limits.dirty_age_us?;
        let (_, since_us) = self.core.pages.oldest()?;
        Some(since_us.saturating_add(age_us))
    }

    /// How long this lane may sleep for what only time changes: memory of pages that have just
    /// come, which a fault or a write waits for.
    pub fn hold_us(&self) -> Option<u64> {
        let waits = !self.core.waiting.is_empty()
            || self.core.pages.unwritten() > self.shared.limits.dirty_pages;
        let hold_us = self.core.pages.holds().filter(|_| waits);
        hold_us.map(|hold_us| (hold_us / 4).max(HOLD_US))
    }

    fn turn(&mut self) -> io::Result<bool> {
        let now_us = self.lane.now_us;
        self.core.pages.set_time(now_us);
        let mut has_moved = false;
        for fault in self.lane.reported.drain(..) {
            self.core.report(fault, now_us);
        }
        for _ in 0..self.core.waiting.len() {
            let Some((fault, since_us)) = self.core.waiting.pop_front() else {
                break;
            };
            if self.serve(fault)? {
                has_moved = true
            } else {
                self.core.waiting.push_back((fault, since_us))
            }
        }
        has_moved |= self.end_late()?;
        has_moved |= self.end_late_calls();
        has_moved |= self.go_on_with_sync()?;
        has_moved |= self.write_behind(now_us)?;
        has_moved |= self.read_ahead()?;
        if has_moved && self.has_ahead_left() {
            self.shared.space.call_for_help();
        }
        if has_moved {
            self.shared.reports.publish(self.core.counters, None);
        }
        Ok(has_moved)
    }

    /// Serves a fault; false if it lacks memory or a buffer.
    fn serve(&mut self, fault: Fault) -> io::Result<bool> {
        let Fault { page, unmapped, .. } = fault;
        if self.core.pages.state(page).is_none() {
            let is_served = self.load(fault)?;
            if is_served {
                self.read_ahead_of(page);
            }
            return Ok(is_served);
        }
        self.reached(page);
        let was_clean = matches!(self.core.pages.state(page), Some(State::Clean { .. }));
        if !unmapped && self.was_removed(page)? {
            return self.restore(fault, was_clean);
        }
        match self.answer(fault) {
            // Another part of the page was removed than the one that was touched.
            Err(error)
                if error.raw_os_error() == Some(libc::EFAULT) && self.was_removed(page)? =>
            {
                self.restore(fault, was_clean)
            }
            answered => answered,
        }
    }

    /// Does what a fault on a page that is not absent needs; false if it must be tried again.
    fn answer(
        &mut self,
        Fault {
            page,
            store,
            unmapped,
            ..
        }: Fault,
    ) -> io::Result<bool> {
        match self.core.pages.fault(page, store) {
            Answer::Load | Answer::Wait => {}
            Answer::Later => return Ok(false),
            Answer::Remap { protected } => self.shared.space.remap(page, protected)?,
            Answer::Unprotect => {
                self.shared.space.unprotect(page)?;
                // Its state stays as it is, so the next fault would find the same if the kernel has
                // unmapped it.
                if unmapped && self.core.pages.state(page) == Some(State::Kept) {
                    self.shared.space.remap(page, false)?;
                }
            }
            Answer::Wake if unmapped => self.map_again(page)?,
            Answer::Wake | Answer::Poison => self.shared.space.wake(page)?,
        }
        Ok(true)
    }

    /// Whether a program has removed memory of a page that had some (MADV_REMOVE). The kernel
    /// reports a page without memory, which is also what two threads report that touch an absent
    /// one.
    fn was_removed(&self, page: u64) -> io::Result<bool> {
        match self.core.pages.state(page) {
            None | Some(State::Reading { .. } | State::Leaving | State::Poisoned) => Ok(false),
            Some(_) => self.shared.space.has_hole(page),
        }
    }

    /// Reads a page again of which a program has removed memory. What was stored to it there is
    /// zeroes, as in any memory that is removed.
    fn restore(&mut self, fault: Fault, was_clean: bool) -> io::Result<bool> {
        if was_clean {
            self.core.pages.removed(fault.page);
            self.take_memory(fault.page)?;
            return self.load(fault);
        }
        self.core.pages.fault(fault.page, true);
        self.shared.space.fill_holes(fault.page)?;
        self.shared.space.unprotect(fault.page)?;
        self.shared.space.remap(fault.page, false)?;
        Ok(true)
    }

    /// Maps a page in memory that the kernel has unmapped: it does so when memory is short, also if
    /// the page then stays because nothing can take its content.
    fn map_again(&mut self, page: u64) -> io::Result<()> {
        let protected = self.core.pages.is_protected(page);
        if protected && self.core.pages.is_pinned(page) {
            // A device may have this very memory, so it stays; this counts as a store.
            self.core.pages.fault(page, true);
            self.shared.space.unprotect(page)?;
            return self.shared.space.remap(page, false);
        }
        self.shared.space.remap(page, protected)
    }

    /// Does for pages that are in memory what stores to them would.
    ///
    /// # Errors
    /// As [`turn`](Self::turn).
    pub fn store(&mut self, pages: std::ops::Range<u64>) -> io::Result<()> {
        for page in pages {
            let (store, unmapped) = (true, false);
            if self.core.pages.state(page).is_some() {
                self.serve(Fault {
                    page,
                    thread: 0,
                    store,
                    unmapped,
                })?;
            }
        }
        Ok(())
    }

    fn load(
        &mut self,
        Fault {
            page,
            thread,
            store,
            ..
        }: Fault,
    ) -> io::Result<bool> {
        let Some(slot) = self.free_slot() else {
            return Ok(false);
        };
        match self.make_room(slot)? {
            Room::Ready => {}
            Room::Later => return Ok(false),
            Room::Full => {
                self.refuse(page, libc::ENOMEM)?;
                return Ok(true);
            }
        }
        self.core.pages.asked(page, thread);
        self.core.pages.begin_read(page, store);
        self.core.counters.reads += 1;
        let (lba, len) = self.place(page);
        self.submit(slot, Job::Read(page), len, |buffer| Operation::Read {
            lba,
            buffer,
        })?;
        Ok(true)
    }

    /// The next step towards memory that is free when a fault needs it. A write has begun when this
    /// returns.
    fn spare_step(&mut self) -> io::Result<Option<Step>> {
        let spare = self.core.pages.limit() / SPARE_SHARE;
        if self.core.pages.free() >= spare.min(MOST_SPARE) {
            return Ok(None);
        }
        let slot = self.spare_slot();
        // A step may be a write, which needs a buffer.
        if slot.is_none() && self.core.pages.unwritten() > 0 {
            return Ok(None);
        }
        let step = self.core.pages.step();
        if let (Some(Step::Write(page)), Some(slot)) = (step, slot) {
            self.submit_write(slot, page)?;
        }
        Ok(step)
    }

    fn left(&mut self, page: u64) {
        self.core.pages.left(page);
        self.forget_content(page);
    }

    /// Takes memory for a page that is absent, and the buffer if a page must be written before.
    fn make_room(&mut self, slot: usize) -> io::Result<Room> {
        while self.core.pages.is_full() {
            match self.core.pages.step() {
                Some(Step::Evict(page)) => {
                    self.take_memory(page)?;
                    self.core.pages.left(page);
                }
                Some(Step::Unmap(page)) => self.shared.space.unmap(page)?,
                Some(Step::Write(page)) => {
                    if self.submit_write(slot, page)? {
                        return Ok(Room::Later);
                    }
                }
                None if self.core.lent > 0 || self.core.pages.holds().is_some() => {
                    return Ok(Room::Later);
                }
                None => return Ok(Room::Full),
            }
        }
        Ok(Room::Ready)
    }

    /// Takes the memory of a page that is absent.
    fn take_memory(&mut self, page: u64) -> io::Result<()> {
        self.shared.space.evict(page)?;
        self.forget_content(page);
        Ok(())
    }

    fn forget_content(&mut self, page: u64) {
        self.core.counters.evictions += 1;
        if let Some(contents) = &mut self.core.contents {
            contents.forget(page);
        }
    }

    /// The first block of a page, and its length in bytes: the last one may be shorter.
    fn place(&self, page: u64) -> (u64, usize) {
        let bytes = self.shared.limits.page_bytes as u64;
        let offset = page * bytes;
        let len = bytes.min(self.shared.range.size_bytes.saturating_sub(offset));
        let block = self.lane.device.geometry().block_size_log2;
        (self.shared.range.lba + (offset >> block), len as usize)
    }

    /// The number of a buffer for a request that the device has a place for.
    fn free_slot(&self) -> Option<usize> {
        let has_place =
            self.lane.device.outstanding() < usize::from(self.lane.device.geometry().queue_depth);
        let is_free = |slot: &Slot| matches!(slot, Slot::Free(_));
        has_place.then(|| self.lane.slots.iter().position(is_free))?
    }

    fn free_slots(&self) -> usize {
        let is_free = |slot: &&Slot| matches!(slot, Slot::Free(_));
        self.lane.slots.iter().filter(is_free).count()
    }

    /// Writes a page whose state is [`State::Writing`]; false if the device has its content
    /// already.
    fn submit_write(&mut self, slot: usize, page: u64) -> io::Result<bool> {
        self.shared.space.protect(page)?;
        let (lba, len) = self.place(page);
        if let Some(Slot::Free(buffer)) = self.lane.slots.get_mut(slot) {
            self.shared.space.copy_out(page, &mut buffer[..])?;
            let contents = self.core.contents.as_ref();
            if contents.is_some_and(|contents| contents.is(page, &buffer[..len])) {
                self.written(page, Ok(()), None);
                return Ok(false);
            }
        }
        self.core.counters.writes += 1;
        let fua = false;
        self.submit(slot, Job::Write(page), len, |buffer| Operation::Write {
            lba,
            buffer,
            fua,
        })?;
        Ok(true)
    }

    /// Submits a request with the first `len` bytes of a free slot's buffer.
    fn submit(
        &mut self,
        slot: usize,
        job: Job,
        len: usize,
        operation: impl Fn(Buffer) -> Operation,
    ) -> io::Result<()> {
        let tag = slot as Tag;
        let Some(place) = self.lane.slots.get_mut(slot) else {
            return Ok(());
        };
        let Slot::Free(buffer) = std::mem::replace(place, Slot::Lost) else {
            debug_assert!(false, "slot {slot} is not free");
            return Ok(());
        };
        let mut lent = Lent::new(buffer);
        let operation = operation(lent.lend(len));
        *place = Slot::Lent(job, lent, self.lane.now_us);
        self.core.lent += 1;
        match self.lane.device.submit(Request { tag, operation }) {
            Ok(()) => Ok(()),
            Err(refused) => {
                let completion = Completion {
                    tag,
                    buffer: refused.request.operation.into_buffer(),
                    result: Err(refused.error),
                };
                self.end(completion, None)
            }
        }
    }

    /// A request has ended, and what it read was installed already or not.
    fn end(
        &mut self,
        Completion {
            tag,
            buffer,
            result,
        }: Completion,
        early: Option<Early>,
    ) -> io::Result<()> {
        self.core.pages.set_time(self.lane.now_us);
        if tag >= FLUSH {
            // The sync of another one has ended at its deadline.
            if let Some(sync) = self.core.sync.take_if(|sync| sync.flush == Some(tag)) {
                self.core.synced = Some(outcome(&sync.failed, result));
            }
            return Ok(());
        }
        let Some(place) = self.lane.slots.get_mut(tag as usize) else {
            debug_assert!(false, "tag {tag}");
            return Ok(());
        };
        let Slot::Lent(job, mut lent, _) = std::mem::replace(place, Slot::Lost) else {
            debug_assert!(false, "slot {tag} is not lent");
            return Ok(());
        };
        self.core.lent -= 1;
        let is_back = buffer.is_some_and(|buffer| lent.give_back(buffer).is_ok());
        let whole = if is_back {
            lent.into_whole().ok()
        } else {
            None
        };
        match job {
            // Its threads have their error.
            Job::Read(page) if self.core.pages.state(page) == Some(State::Poisoned) => {}
            Job::Read(page) => self.loaded(page, result, whole.as_deref(), early)?,
            Job::Write(page) => self.written(page, result, whole.as_deref()),
        }
        if let (Some(place), Some(buffer)) = (self.lane.slots.get_mut(tag as usize), whole) {
            *place = Slot::Free(buffer);
        }
        Ok(())
    }

    fn loaded(
        &mut self,
        page: u64,
        result: Result<(), block::Error>,
        data: Option<&[u8]>,
        early: Option<Early>,
    ) -> io::Result<()> {
        let data = data.ok_or(block::Error::Gone);
        let data = result.and(data);
        let is_asked = self.core.pages.state(page)
            != Some(State::Reading {
                asked: false,
                stored: false,
            });
        let error = match (self.core.pages.end_read(page, data.is_ok()), data, early) {
            (Loaded::Forget, _, None) => return Ok(()),
            (Loaded::Forget, _, Some(_)) => return self.shared.space.evict(page),
            (Loaded::Install { protected }, Ok(data), Some(early)) => {
                let (_, len) = self.place(page);
                if let Some(contents) = &mut self.core.contents {
                    contents.set(page, &data[..len]);
                }
                let installed = match early.installed {
                    // A thread has tried to store since.
                    Ok(()) if early.protected && !protected => self.shared.space.unprotect(page),
                    installed => installed,
                };
                match installed {
                    Ok(()) if !is_asked && self.is_marker(page) => {
                        self.core.pages.hide(page);
                        return self.shared.space.unmap(page);
                    }
                    Ok(()) => {
                        self.shared.space.appeared(page);
                        return Ok(());
                    }
                    Err(_) if !is_asked => {
                        self.core.pages.take(page);
                        return self.shared.space.evict(page);
                    }
                    Err(error) => {
                        // For example, no memory: an error for this page's threads, not for the
                        // whole map.
                        let errno = error.raw_os_error().unwrap_or_default();
                        self.core.pages.poison(page);
                        block::Error::Os { errno }
                    }
                }
            }
            (_, data, _) => data.err().unwrap_or(block::Error::Gone),
        };
        self.fail(page, false, error);
        self.shared.space.poison(page, error)
    }

    /// A write has ended, of `data` if something was written.
    fn written(&mut self, page: u64, result: Result<(), block::Error>, data: Option<&[u8]>) {
        self.core.pages.end_write(page, result.is_ok());
        let (_, len) = self.place(page);
        match (&mut self.core.contents, result, data) {
            (Some(contents), Ok(()), Some(data)) => contents.set(page, &data[..len]),
            // A part may have been written.
            (Some(contents), Err(_), _) => contents.forget(page),
            _ => {}
        }
        let failure = result.err().map(|error| self.fail(page, true, error));
        let now_us = self.lane.now_us;
        if let Some(sync) = &mut self.core.sync {
            if sync.awaited.remove(&page) {
                sync.moved_us = now_us;
                sync.failed.extend(failure);
            }
        }
    }

    fn fail(&mut self, page: u64, write: bool, error: block::Error) -> PageError {
        if !write {
            self.fail_pins(page, error);
        }
        let failure = PageError {
            offset_bytes: page * self.shared.limits.page_bytes as u64,
            write,
            error,
        };
        self.core.counters.failures += 1;
        self.shared
            .reports
            .publish(self.core.counters, Some(failure));
        failure
    }

    /// Writes the oldest pages while more than the limit are dirty, and those that are too old.
    fn write_behind(&mut self, now_us: u64) -> io::Result<bool> {
        let mut has_moved = false;
        while self.core.pages.unwritten() > self.shared.limits.dirty_pages
            || self.due_us().is_some_and(|due_us| due_us <= now_us)
        {
            let Some(slot) = self.free_slot() else { break };
            let Some(page) = self.core.pages.write_oldest() else {
                break;
            };
            self.submit_write(slot, page)?;
            has_moved = true;
        }
        Ok(has_moved)
    }
}
