// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads that no thread waits for: read-ahead, prefetched ranges, and pages that are pinned.
//!
//! A range that is read ahead has a marker in its middle: a page that has its content and no
//! mapping. A thread that reaches it faults once more, is given the page at once, and the next
//! range is read while the thread is busy with the second half.

use super::{Job, LEAST_PAGES, Pager, Room};
use crate::error::{Error, Result};
use crate::numbers::Numbers;
use crate::pages::State;
use crate::space::Space;
use block::{Device, Operation};
use std::collections::{HashSet, VecDeque};
use std::io;
use std::ops::Range;

/// The most ranges that wait to be read when another one comes, for which the oldest is dropped: of
/// a user, such as a working set, and of a thread that reads in order.
const MOST_ASKED: usize = 16 << 10;
const MOST_AHEAD: usize = 64;

/// What is to be read without a waiting thread.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// Pages, by number.
    wanted: VecDeque<Range<u64>>,
    /// Pages at which the next range is read.
    markers: HashSet<u64, Numbers>,
    pins: VecDeque<Pin>,
    pinned: VecDeque<(u64, Result<()>)>,
}

/// Pages that must be in memory before the user goes on.
#[derive(Debug)]
struct Pin {
    ticket: u64,
    pages: Range<u64>,
    /// All pages before are in memory.
    done: u64,
    /// The read of all pages before has begun.
    begun: u64,
    failed: Option<(u64, block::Error)>,
    /// When the last of its pages arrived.
    moved_us: u64,
    is_late: bool,
}

impl Ahead {
    /// Whether a user waits for a pin.
    pub(super) fn has_pins(&self) -> bool {
        !self.pins.is_empty() || !self.pinned.is_empty()
    }

    /// Ends the pins for which nothing has arrived since; returns whether there are any.
    pub(super) fn end_late(&mut self, since_us: u64) -> bool {
        for pin in &mut self.pins {
            pin.is_late |= pin.moved_us <= since_us;
        }
        self.pins.iter().any(|pin| pin.is_late)
    }
}

impl<D: Device, S: Space> Pager<'_, D, S> {
    /// Number of pages of the map.
    fn page_count(&self) -> u64 {
        let page_bytes = self.shared.limits.page_bytes as u64;
        self.shared.range.size_bytes.div_ceil(page_bytes)
    }

    /// Reads these pages soon, as many as there is memory for.
    pub fn prefetch(&mut self, pages: Range<u64>) {
        self.want(pages, MOST_ASKED);
    }

    fn want(&mut self, pages: Range<u64>, most_wanted: usize) {
        let end = pages.end.min(self.page_count());
        let most = pages.start.saturating_add(self.core.pages.limit() as u64);
        if pages.start < end {
            if self.core.ahead.wanted.len() >= most_wanted {
                self.core.ahead.wanted.pop_front();
            }
            self.core.ahead.wanted.push_back(pages.start..end.min(most));
        }
    }

    /// Keeps these pages in memory once they are there: see [`take_pinned`](Self::take_pinned).
    pub fn begin_pin(&mut self, ticket: u64, pages: Range<u64>) {
        debug_assert!(pages.start <= pages.end && pages.end <= self.page_count());
        for page in pages.clone() {
            if !self.core.pages.pin(page, LEAST_PAGES) {
                self.unpin(pages.start..page);
                let why = "pinned pages leave less than four pages of memory for the others";
                let refused = (ticket, Err(Error::Options(why)));
                return self.core.ahead.pinned.push_back(refused);
            }
        }
        self.core.ahead.pins.push_back(Pin {
            ticket,
            done: pages.start,
            begun: pages.start,
            pages,
            failed: None,
            moved_us: self.shared.now_us(),
            is_late: false,
        });
    }

    /// The result of a pin, once. Pages whose pin failed are not pinned.
    pub fn take_pinned(&mut self) -> Option<(u64, Result<()>)> {
        self.core.ahead.pinned.pop_front()
    }

    /// Lets the memory of these pages be taken again.
    pub fn unpin(&mut self, pages: Range<u64>) {
        pages.for_each(|page| self.core.pages.unpin(page));
    }

    /// Takes the memory of these pages, except those that are pinned or in use by a transfer, or
    /// that differ from the device.
    ///
    /// # Errors
    /// A system call failed.
    pub fn evict(&mut self, pages: &Range<u64>) -> io::Result<()> {
        let resident = self.core.pages.resident_pages();
        let within: Vec<u64> = resident.filter(|page| pages.contains(page)).collect();
        for page in within {
            if self.core.pages.take(page) {
                self.take_memory(page)?;
            }
        }
        Ok(())
    }

    /// Pages with memory, in ascending order.
    pub fn resident_pages(&self) -> Vec<u64> {
        let mut pages: Vec<u64> = self.core.pages.resident_pages().collect();
        pages.sort_unstable();
        pages
    }

    /// A thread's fault on a page begins its read.
    pub(super) fn read_ahead_of(&mut self, page: u64) {
        let count = self.shared.limits.read_ahead_pages as u64;
        if count == 0 {
            return;
        }
        self.want(page + 1..page.saturating_add(1 + count), MOST_AHEAD);
        // A marker whose page is never read would stay.
        if self.core.ahead.markers.len() > self.core.pages.limit() {
            self.core.ahead.markers.clear();
        }
        self.core.ahead.markers.insert(page + 1 + count / 2);
    }

    /// A thread faults on a page that is in memory or on its way.
    pub(super) fn reached(&mut self, page: u64) {
        if self.core.ahead.markers.remove(&page) {
            self.read_ahead_of(page);
        }
    }

    pub(super) fn is_marker(&self, page: u64) -> bool {
        self.core.ahead.markers.contains(&page)
    }

    /// The read of a page failed, and accesses to it are errors.
    pub(super) fn fail_pins(&mut self, page: u64, error: block::Error) {
        for pin in &mut self.core.ahead.pins {
            if pin.pages.contains(&page) {
                pin.failed.get_or_insert((page, error));
            }
        }
    }

    /// Begins reads that no thread waits for, while there are buffers and memory.
    pub(super) fn read_ahead(&mut self) -> io::Result<bool> {
        let mut has_moved = self.settle_pins();
        while let Some(page) = self.next_ahead() {
            let Some(slot) = self.spare_slot() else {
                break;
            };
            match self.make_room(slot)? {
                Room::Ready => {}
                Room::Later => break,
                Room::Full => {
                    let error = block::Error::Os {
                        errno: libc::ENOMEM,
                    };
                    self.core.ahead.wanted.clear();
                    for pin in &mut self.core.ahead.pins {
                        pin.failed.get_or_insert((page, error));
                    }
                    return Ok(self.settle_pins() || has_moved);
                }
            }
            self.core.pages.begin_read_ahead(page);
            self.core.counters.reads += 1;
            self.core.counters.reads_ahead += 1;
            let (lba, len) = self.place(page);
            self.submit(slot, Job::Read(page), len, |buffer| Operation::Read {
                lba,
                buffer,
            })?;
            has_moved = true;
        }
        Ok(has_moved)
    }

    /// Whether this lane leaves reads to others, which are called now.
    pub(super) fn has_ahead_left(&mut self) -> bool {
        let calls = !self.core.ahead.wanted.is_empty() && !self.core.has_called;
        self.core.has_called |= calls;
        calls
    }

    /// A buffer for a read ahead: one stays free for a thread that waits, if there are several.
    pub(super) fn spare_slot(&self) -> Option<usize> {
        let free = self.free_slots();
        let is_spare = free > 1 || self.lane.slots.len() == 1 && self.core.waiting.is_empty();
        is_spare.then(|| self.free_slot())?
    }

    /// The next absent page that is wanted; for a pin it comes first.
    fn next_ahead(&mut self) -> Option<u64> {
        let core = &mut *self.core;
        let (ahead, pages) = (&mut core.ahead, &core.pages);
        for pin in &mut ahead.pins {
            while pin.begun < pin.pages.end
                && !matches!(pages.state(pin.begun), None | Some(State::Leaving))
            {
                pin.begun += 1;
            }
            let is_absent = pin.begun < pin.pages.end && pages.state(pin.begun).is_none();
            if is_absent && pin.failed.is_none() && !pin.is_late {
                return Some(pin.begun);
            }
        }
        while let Some(range) = ahead.wanted.front_mut() {
            if let Some(page) = range.find(|&page| pages.state(page).is_none()) {
                // Asked for again if there is no memory for it now.
                range.start = page;
                return Some(page);
            }
            ahead.wanted.pop_front();
        }
        None
    }

    /// Ends pins whose pages are all in memory, or of which one cannot be read.
    fn settle_pins(&mut self) -> bool {
        let mut has_moved = false;
        for _ in 0..self.core.ahead.pins.len() {
            let Some(mut pin) = self.core.ahead.pins.pop_front() else {
                break;
            };
            while pin.done < pin.pages.end && pin.failed.is_none() {
                match self.core.pages.state(pin.done) {
                    None | Some(State::Reading { .. } | State::Leaving) => break,
                    // It could not be read before, and its error was reported then.
                    Some(State::Poisoned) => {
                        let errno = libc::EIO;
                        pin.failed = Some((pin.done, block::Error::Os { errno }));
                    }
                    Some(_) => (pin.done, pin.moved_us) = (pin.done + 1, self.lane.now_us),
                }
            }
            let result = match pin.failed {
                Some((page, error)) => {
                    self.unpin(pin.pages);
                    let offset_bytes = page * self.shared.limits.page_bytes as u64;
                    Err(Error::Unread {
                        offset_bytes,
                        error,
                    })
                }
                None if pin.is_late => {
                    self.unpin(pin.pages);
                    Err(Error::Late("the pin"))
                }
                None if pin.done < pin.pages.end => {
                    self.core.ahead.pins.push_back(pin);
                    continue;
                }
                None => Ok(()),
            };
            self.core.ahead.pinned.push_back((pin.ticket, result));
            has_moved = true;
        }
        has_moved
    }
}
