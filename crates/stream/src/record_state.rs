// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recording's ring and its counters: where each block is, and what is submitted next.
//!
//! The ring is strict: blocks leave it in order of arrival. Four counters that only grow describe
//! it: `taken >= handed >= submitted >= done`, and block n is in place n modulo the ring's length.

use block::Device;
use volume::{DataEvent, File, Volume};

use crate::gaps::Gaps;
use crate::pace::us_from_ticks;
use crate::place::RingPlace;
use crate::ring::Ring;
use crate::{Gap, RecordReport};

#[derive(Debug)]
pub(crate) struct RecordState<'r> {
    pub ring: Ring<'r>,
    pub taken: u64,
    pub handed: u64,
    pub done: u64,
    /// Blocks, and their bytes, that the recorder before this one still holds.
    pub before: (u64, u64),
    pub gaps: Gaps,
    /// A commit is in progress: nothing after a gap that is not durable may be submitted.
    pub committing: bool,
    pub held: Held,
    pub ending: bool,
    /// No more space can be reserved ahead.
    pub full: bool,
    /// Whether the recording waits for the caller to free space.
    pub space: Space,
    pub last_commit: u64,
    /// When the first block was to arrive.
    pub start: Option<u64>,
    /// The next block's offset in the file.
    pub next_offset: u64,
    /// Where the recording is expected to end.
    pub end_offset: u64,
    pub report: RecordReport,
}

/// The constant parameters, in the units in which they are used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub device_block: usize,
    pub ticks_per_second: u64,
    pub deadline_ticks: u64,
    pub commit_ticks: u64,
    pub commit_bytes: u64,
    pub low_water_bytes: u64,
    pub reserve_bytes: u64,
    pub retries: u8,
    pub waits_for_space: bool,
}

/// The space of a full volume, where the caller can free some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// Nothing waits for it.
    Enough,
    /// The caller must free some.
    Wanted,
    /// There is nothing to free.
    UsedUp,
}

/// Whether commits wait for the file before this one: what comes after may not be durable first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    No,
    Yes,
    /// The recording ended in the file before: nothing of this one is committed.
    Forever,
}

impl<'r> RecordState<'r> {
    /// A recording that has ended.
    #[inline(always)]
    pub(crate) fn ended(places: &'r mut [RingPlace], retries: u8) -> Self {
        Self {
            ring: Ring::new(places, retries),
            taken: 0,
            handed: 0,
            done: 0,
            before: (0, 0),
            gaps: Gaps::new(None),
            committing: false,
            held: Held::No,
            ending: true,
            full: false,
            space: Space::Enough,
            last_commit: 0,
            start: None,
            next_offset: 0,
            end_offset: 0,
            report: RecordReport::default(),
        }
    }

    /// The numbers of the blocks whose places are free.
    fn free(&self) -> core::ops::Range<u64> {
        self.taken..self.done + self.ring.places.len() as u64
    }

    /// Takes a buffer out of a free place: the next one's, except after a hand-over.
    pub(crate) fn take_free(&mut self) -> Option<block::Buffer> {
        self.free()
            .find_map(|block| self.ring.place(block)?.buffer.take())
    }

    /// Puts a buffer into a free place that has none.
    pub(crate) fn put_free(&mut self, buffer: block::Buffer) -> Result<(), block::Buffer> {
        for block in self.free() {
            if let Some(place) = self
                .ring
                .place(block)
                .filter(|place| place.buffer.is_none())
            {
                place.buffer = Some(buffer);
                return Ok(());
            }
        }
        Err(buffer)
    }

    /// The caller's answer, if it was asked.
    pub(crate) fn answer_space(&mut self, space: Space) {
        if self.space == Space::Wanted {
            self.space = space;
        }
    }

    pub(crate) fn at_us(&mut self, time: u64, limits: &Limits) -> u64 {
        let start = *self.start.get_or_insert(time);
        us_from_ticks(time.saturating_sub(start), limits.ticks_per_second)
    }

    /// Counts lost blocks, which are missing at `offset_bytes`.
    pub(crate) fn lose(&mut self, offset_bytes: u64, blocks: u64, len_bytes: u64, at_us: u64) {
        if self
            .gaps
            .open
            .is_some_and(|gap| gap.offset_bytes != offset_bytes)
        {
            self.gaps.close();
        }
        self.report.lost_blocks = self.report.lost_blocks.saturating_add(blocks);
        self.report.lost_bytes = self.report.lost_bytes.saturating_add(len_bytes);
        match &mut self.gaps.open {
            Some(gap) => gap.lost_bytes = gap.lost_bytes.saturating_add(len_bytes),
            open @ None => {
                self.report.gaps += 1;
                *open = Some(Gap {
                    offset_bytes,
                    lost_bytes: len_bytes,
                    at_us,
                    count: 1,
                });
            }
        }
        if self.report.gaps == 1 {
            self.report.first_gap = self.gaps.open;
        }
    }

    /// Submits everything that can be submitted.
    pub(crate) fn submit<D: Device>(&mut self, volume: &Volume<'_, D>, file: File) {
        let mut any = false;
        let retry = |offset_bytes, buffer, tag| volume.retry(file, offset_bytes, buffer, tag);
        while self.ring.submit_retry(retry) {
            self.report.retries += 1;
            any = true;
        }
        // Without room for a retry there is none for anything else.
        while self.ring.may_submit()
            && self.ring.submitted < self.handed
            && !self.ring.retries.is_waiting()
        {
            let held = self.committing.then_some(self.gaps.durable);
            let next = self.ring.place(self.ring.submitted);
            let waits =
                |place: &mut RingPlace| held.is_some_and(|durable| place.gaps_before > durable);
            if next.is_none_or(waits) {
                break;
            }
            let (is_any, goes_on) = self.ring.submit_block(volume);
            any |= is_any;
            if !goes_on {
                break;
            }
        }
        if any {
            volume.kick();
        }
    }

    /// Processes a completed append of the file.
    pub(crate) fn finished(&mut self, event: DataEvent, now: u64, limits: &Limits) {
        self.ring.in_flight = self.ring.in_flight.saturating_sub(1);
        let offset_bytes = event.offset.unwrap_or(0);
        let Some(buffer) = event.buffer else {
            self.ring.lost(offset_bytes);
            return;
        };
        let buffer = match event.result {
            Ok(()) => {
                self.ring.retries.succeeded(offset_bytes);
                buffer
            }
            Err(error) => match self.ring.failed(offset_bytes, event.tag, buffer, error) {
                Some(buffer) => buffer,
                None => return,
            },
        };
        let Some(place) = self.ring.places.get_mut(usize::from(event.tag)) else {
            return;
        };
        place.give_back(buffer);
        if event.result.is_err() || !place.is_whole() {
            return;
        }
        let latency = now.saturating_sub(place.time);
        self.count_latency(latency, limits);
        self.leave();
    }

    fn count_latency(&mut self, latency: u64, limits: &Limits) {
        let latency_us = us_from_ticks(latency, limits.ticks_per_second);
        let report = &mut self.report;
        report.latencies.add(latency_us);
        report.latency_max_us = report.latency_max_us.max(latency_us);
        if latency > limits.deadline_ticks {
            let late = us_from_ticks(latency - limits.deadline_ticks, limits.ticks_per_second);
            report.misses += 1;
            report.lateness_max_us = report.lateness_max_us.max(late);
        }
    }

    /// Frees the places of the oldest blocks once they are written.
    fn leave(&mut self) {
        while self.done < self.ring.submitted {
            let done = self.done;
            let Some(place) = self.ring.place(done) else {
                break;
            };
            if place.buffer.is_none() {
                break;
            }
            self.report.written_bytes += place.len_bytes as u64;
            self.done += 1;
        }
    }
}
