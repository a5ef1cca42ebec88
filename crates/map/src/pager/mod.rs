//! Serves the page faults of a map from a device: one loop that never waits inside.
//!
//! Every fault is answered by [`Pages`]; what its answer says is done to the [`Space`] or asked of
//! the device. Reads and writes of many pages are under way at once, each with a buffer of its own.
//! A fault that lacks memory or a buffer waits in order and is tried again.

mod ahead;
mod contents;
mod late;
mod reports;
mod sync;

pub use reports::{Counters, Reports};

use crate::error::{Error, Failure, Result};
use crate::pages::{Answer, Loaded, Pages, State, Step};
use crate::space::{Fault, Space};
use ahead::Ahead;
use block::{Buffer, Completion, Device, Geometry, Lent, Operation, Request, Tag};
use contents::Contents;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use sync::{Sync, outcome};

/// The tag of a flush; the others are the numbers of buffers.
const FLUSH: Tag = Tag::MAX;

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
    /// The most pages in memory.
    pub resident_pages: usize,
    /// Above this number of pages that were stored to, the pager writes some of them.
    pub dirty_pages: usize,
    /// A page that was stored to this many microseconds ago is written.
    pub dirty_age_us: Option<u64>,
    /// An access that has waited for this many microseconds is an error.
    pub read_deadline_us: Option<u64>,
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

/// The pages of a map, its memory and its device.
#[derive(Debug)]
pub struct Pager<D, S> {
    device: D,
    space: S,
    pages: Pages,
    range: Range,
    limits: Limits,
    slots: Vec<Slot>,
    /// Faults that lack memory or a buffer, and since when.
    waiting: VecDeque<(Fault, u64)>,
    now_us: u64,
    /// When late reads are looked for again.
    late_us: u64,
    ahead: Ahead,
    /// Unless the memory tells stores.
    contents: Option<Contents>,
    sync: Option<Sync>,
    synced: Option<Result<()>>,
    counters: Counters,
    reports: Arc<Reports>,
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
    } else if limits.resident_pages == 0 {
        "a map has at least one page in memory"
    } else {
        return Ok(());
    };
    Err(Error::Options(problem))
}

impl<D: Device, S: Space> Pager<D, S> {
    /// A pager over `range` of `device`, with one buffer of a page for each request that may be
    /// under way. They have passed [`check`].
    pub fn new(
        device: D,
        space: S,
        range: Range,
        limits: Limits,
        buffers: Vec<Buffer>,
        reports: Arc<Reports>,
    ) -> Self {
        debug_assert!(check(device.geometry(), range, limits, &buffers).is_ok());
        let contents = (!space.tells_stores()).then(Contents::default);
        Self {
            device,
            space,
            contents,
            pages: Pages::new(limits.resident_pages),
            range,
            limits,
            slots: buffers.into_iter().map(Slot::Free).collect(),
            waiting: VecDeque::new(),
            now_us: 0,
            late_us: 0,
            ahead: Ahead::default(),
            sync: None,
            synced: None,
            counters: Counters::default(),
            reports,
        }
    }

    /// The memory.
    pub fn space_mut(&mut self) -> &mut S {
        &mut self.space
    }

    /// Whether the last fault on this page has been served.
    pub fn is_settled(&self, page: u64) -> bool {
        let is_reading = matches!(self.pages.state(page), Some(State::Reading { .. }));
        self.waiting.is_empty() && !is_reading
    }

    /// Whether each access to a page is an error.
    pub fn is_poisoned(&self, page: u64) -> bool {
        self.pages.state(page) == Some(State::Poisoned)
    }

    /// Whether requests are under way, and the device should be waited for rather than a fault.
    pub fn is_busy(&self) -> bool {
        self.device.outstanding() > 0
    }

    /// Sleeps until a request may have ended, at most about `timeout_us` microseconds.
    pub fn wait(&mut self, timeout_us: u32) {
        self.device.wait(timeout_us);
    }

    /// The time at which a page becomes too old, by the clock of [`turn`](Self::turn).
    pub fn due_us(&mut self) -> Option<u64> {
        let age_us = self.limits.dirty_age_us?;
        let (_, since_us) = self.pages.oldest()?;
        Some(since_us.saturating_add(age_us))
    }

    /// Serves what can be served now; returns whether there was something. `now_us` are
    /// microseconds of any clock that does not go back.
    ///
    /// # Errors
    /// A system call failed: the map has ended.
    pub fn turn(&mut self, now_us: u64) -> io::Result<bool> {
        self.pages.set_time(now_us);
        self.now_us = now_us;
        let mut has_moved = false;
        while let Some(completion) = self.device.poll() {
            has_moved = true;
            self.end(completion)?;
        }
        while let Some(fault) = self.space.next_fault()? {
            self.counters.faults += 1;
            // The thread's next access is no fault, so it may be a store.
            let store = fault.store || self.contents.is_some();
            self.waiting.push_back((Fault { store, ..fault }, now_us));
        }
        for _ in 0..self.waiting.len() {
            let Some((fault, since_us)) = self.waiting.pop_front() else {
                break;
            };
            match self.serve(fault)? {
                true => has_moved = true,
                false => self.waiting.push_back((fault, since_us)),
            }
        }
        has_moved |= self.end_late()?;
        has_moved |= self.go_on_with_sync()?;
        has_moved |= self.write_behind(now_us)?;
        has_moved |= self.read_ahead()?;
        self.device.kick();
        if has_moved {
            self.reports.publish(self.counters, None);
        }
        Ok(has_moved)
    }

    /// Serves a fault; false if it lacks memory or a buffer.
    fn serve(&mut self, fault: Fault) -> io::Result<bool> {
        let Fault {
            page,
            store,
            unmapped,
        } = fault;
        if self.pages.state(page).is_none() {
            let is_served = self.load(fault)?;
            if is_served {
                self.read_ahead_of(page);
            }
            return Ok(is_served);
        }
        self.reached(page);
        match self.pages.fault(page, store) {
            Answer::Load | Answer::Wait => {}
            Answer::Remap { protected } => self.space.remap(page, protected)?,
            Answer::Unprotect => self.space.unprotect(page)?,
            Answer::Wake if unmapped => self.map_again(page)?,
            Answer::Wake | Answer::Poison => self.space.wake(page)?,
        }
        Ok(true)
    }

    /// Maps a page in memory that the kernel has unmapped: it does so when memory is short, also if the
    /// page then stays because nothing can take its content.
    fn map_again(&mut self, page: u64) -> io::Result<()> {
        let protected = self.pages.is_protected(page);
        if protected && self.pages.is_pinned(page) {
            // A device may have this very memory, so it stays; this counts as a store.
            self.pages.fault(page, true);
            self.space.unprotect(page)?;
            return self.space.remap(page, false);
        }
        self.space.remap(page, protected)
    }

    /// Does for pages that are in memory what stores to them would.
    ///
    /// # Errors
    /// As [`turn`](Self::turn).
    pub fn store(&mut self, pages: std::ops::Range<u64>) -> io::Result<()> {
        for page in pages {
            let (store, unmapped) = (true, false);
            if self.pages.state(page).is_some() {
                self.serve(Fault {
                    page,
                    store,
                    unmapped,
                })?;
            }
        }
        Ok(())
    }

    fn load(&mut self, Fault { page, store, .. }: Fault) -> io::Result<bool> {
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
        self.pages.begin_read(page, store);
        self.counters.reads += 1;
        let (lba, len) = self.place(page);
        self.submit(slot, Job::Read(page), len, |buffer| Operation::Read {
            lba,
            buffer,
        })?;
        Ok(true)
    }

    /// Takes memory for a page that is absent, and the buffer if a page must be written before.
    fn make_room(&mut self, slot: usize) -> io::Result<Room> {
        while self.pages.is_full() {
            match self.pages.step() {
                Some(Step::Evict(page)) => self.take_memory(page)?,
                Some(Step::Unmap(page)) => self.space.unmap(page)?,
                Some(Step::Write(page)) => {
                    if self.submit_write(slot, page)? {
                        return Ok(Room::Later);
                    }
                }
                None if self.is_busy() => return Ok(Room::Later),
                None => return Ok(Room::Full),
            }
        }
        Ok(Room::Ready)
    }

    /// Takes the memory of a page that is absent.
    fn take_memory(&mut self, page: u64) -> io::Result<()> {
        self.space.evict(page)?;
        self.counters.evictions += 1;
        if let Some(contents) = &mut self.contents {
            contents.forget(page);
        }
        Ok(())
    }

    /// The first block of a page, and its length in bytes: the last one may be shorter.
    fn place(&self, page: u64) -> (u64, usize) {
        let bytes = self.limits.page_bytes as u64;
        let offset = page * bytes;
        let len = bytes.min(self.range.size_bytes.saturating_sub(offset));
        let block = self.device.geometry().block_size_log2;
        (self.range.lba + (offset >> block), len as usize)
    }

    /// The number of a buffer for a request that the device has a place for.
    fn free_slot(&self) -> Option<usize> {
        let has_place = self.device.outstanding() < usize::from(self.device.geometry().queue_depth);
        let is_free = |slot: &Slot| matches!(slot, Slot::Free(_));
        has_place.then(|| self.slots.iter().position(is_free))?
    }

    fn free_slots(&self) -> usize {
        let is_free = |slot: &&Slot| matches!(slot, Slot::Free(_));
        self.slots.iter().filter(is_free).count()
    }

    /// Writes a page whose state is [`State::Writing`]; false if the device has its content already.
    fn submit_write(&mut self, slot: usize, page: u64) -> io::Result<bool> {
        self.space.protect(page)?;
        let (lba, len) = self.place(page);
        if let Some(Slot::Free(buffer)) = self.slots.get_mut(slot) {
            self.space.copy_out(page, &mut buffer[..])?;
            let contents = self.contents.as_ref();
            if contents.is_some_and(|contents| contents.is(page, &buffer[..len])) {
                self.written(page, Ok(()), None);
                return Ok(false);
            }
        }
        self.counters.writes += 1;
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
        let Some(place) = self.slots.get_mut(slot) else {
            return Ok(());
        };
        let Slot::Free(buffer) = std::mem::replace(place, Slot::Lost) else {
            debug_assert!(false, "slot {slot} is not free");
            return Ok(());
        };
        let mut lent = Lent::new(buffer);
        let operation = operation(lent.lend(len));
        *place = Slot::Lent(job, lent, self.now_us);
        match self.device.submit(Request { tag, operation }) {
            Ok(()) => Ok(()),
            Err(refused) => self.end(Completion {
                tag,
                buffer: refused.request.operation.into_buffer(),
                result: Err(refused.error),
            }),
        }
    }

    /// A request has ended.
    fn end(
        &mut self,
        Completion {
            tag,
            buffer,
            result,
        }: Completion,
    ) -> io::Result<()> {
        if tag == FLUSH {
            let sync = self.sync.take().unwrap_or_default();
            self.synced = Some(outcome(&sync.failed, result));
            return Ok(());
        }
        let Some(place) = self.slots.get_mut(tag as usize) else {
            debug_assert!(false, "tag {tag}");
            return Ok(());
        };
        let Slot::Lent(job, mut lent, _) = std::mem::replace(place, Slot::Lost) else {
            debug_assert!(false, "slot {tag} is not lent");
            return Ok(());
        };
        let is_back = buffer.is_some_and(|buffer| lent.give_back(buffer).is_ok());
        let whole = if is_back {
            lent.into_whole().ok()
        } else {
            None
        };
        match job {
            // Its threads have their error.
            Job::Read(page) if self.is_poisoned(page) => {}
            Job::Read(page) => self.loaded(page, result, whole.as_deref())?,
            Job::Write(page) => self.written(page, result, whole.as_deref()),
        }
        if let (Some(place), Some(buffer)) = (self.slots.get_mut(tag as usize), whole) {
            *place = Slot::Free(buffer);
        }
        Ok(())
    }

    fn loaded(
        &mut self,
        page: u64,
        result: Result<(), block::Error>,
        data: Option<&[u8]>,
    ) -> io::Result<()> {
        let data = data.ok_or(block::Error::Gone);
        let data = result.and(data);
        let is_asked = self.pages.state(page)
            != Some(State::Reading {
                asked: false,
                stored: false,
            });
        let error = match (self.pages.end_read(page, data.is_ok()), data) {
            (Loaded::Forget, _) => return Ok(()),
            (Loaded::Install { protected }, Ok(data)) => {
                let (_, len) = self.place(page);
                if let Some(contents) = &mut self.contents {
                    contents.set(page, &data[..len]);
                }
                let installed = if len < data.len() {
                    // The rest of the last page.
                    let mut padded = data.to_vec();
                    padded[len..].fill(0);
                    self.space.install(page, &padded, protected)
                } else {
                    self.space.install(page, data, protected)
                };
                match installed {
                    Ok(()) if !is_asked && self.is_marker(page) => {
                        self.pages.hide(page);
                        return self.space.unmap(page);
                    }
                    Ok(()) => return Ok(()),
                    Err(_) if !is_asked => {
                        self.pages.take(page);
                        return self.space.evict(page);
                    }
                    Err(error) => {
                        // For example, no memory: an error for this page's threads, not for the whole map.
                        let errno = error.raw_os_error().unwrap_or_default();
                        self.pages.poison(page);
                        block::Error::Os { errno }
                    }
                }
            }
            (_, data) => data.err().unwrap_or(block::Error::Gone),
        };
        self.fail(page, false, error);
        self.space.poison(page, error)
    }

    /// A write has ended, of `data` if something was written.
    fn written(&mut self, page: u64, result: Result<(), block::Error>, data: Option<&[u8]>) {
        self.pages.end_write(page, result.is_ok());
        let (_, len) = self.place(page);
        match (&mut self.contents, result, data) {
            (Some(contents), Ok(()), Some(data)) => contents.set(page, &data[..len]),
            // A part may have been written.
            (Some(contents), Err(_), _) => contents.forget(page),
            _ => {}
        }
        let failure = result.err().map(|error| self.fail(page, true, error));
        if let Some(sync) = &mut self.sync {
            if sync.awaited.remove(&page) {
                sync.failed.extend(failure);
            }
        }
    }

    fn fail(&mut self, page: u64, write: bool, error: block::Error) -> Failure {
        if !write {
            self.fail_pins(page, error);
        }
        let failure = Failure {
            offset_bytes: page * self.limits.page_bytes as u64,
            write,
            error,
        };
        self.counters.failures += 1;
        self.reports.publish(self.counters, Some(failure));
        failure
    }

    /// Writes the oldest pages while more than the limit are dirty, and those that are too old.
    fn write_behind(&mut self, now_us: u64) -> io::Result<bool> {
        let mut has_moved = false;
        while self.pages.unwritten() > self.limits.dirty_pages
            || self.due_us().is_some_and(|due_us| due_us <= now_us)
        {
            let Some(slot) = self.free_slot() else { break };
            let Some(page) = self.pages.write_oldest() else {
                break;
            };
            self.submit_write(slot, page)?;
            has_moved = true;
        }
        Ok(has_moved)
    }

    /// Ends the map: each access is an error from now on. Returns the device and the buffers that
    /// came back.
    ///
    /// # Errors
    /// A system call failed.
    pub fn close(mut self) -> io::Result<(D, Vec<Buffer>)> {
        self.space.close()?;
        let back = self.slots.into_iter().filter_map(|slot| match slot {
            Slot::Free(buffer) => Some(buffer),
            _ => None,
        });
        Ok((self.device, back.collect()))
    }
}
