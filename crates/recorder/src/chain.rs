// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recording's recorders: one, or two that take turns from segment to segment.

use crate::exchange::IDLE;
use crate::producer::{Loss, Message};
use crate::segments::Limit;
use crate::segments::files::{Ended, Files, Open, Removed};
use crate::segments::ring::Coming;
use crate::segments::segment::Segment;
use block::{Buffer, Clock, Device};
use files::Mounted;
use linux::TscClock;
use live::events::Events;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use stream::{Error, GapFile, RecordReport, Recorder};
use units::micros;
use volume::{DataEvent, File};

/// How long before the end of a segment the next one is made.
const AHEAD_US: u64 = 1_000_000;

type Result<T> = std::result::Result<T, Error>;
type Upkeep<'c> = Pin<Box<dyn Future<Output = Result<()>> + 'c>>;
/// A recorder on a volume that this process mounted.
pub type LocalRecorder<'r, 'a, C = TscClock> = Recorder<'r, 'a, &'a mut (dyn Device + 'static), C>;

/// Where a recording goes.
pub enum Target<'s, 'a> {
    /// A file and its companion.
    File(File, Option<File>),
    /// A file after another.
    Segments(Box<Segments<'s, 'a>>),
}

/// The segments of a recording.
pub struct Segments<'s, 'a> {
    /// Their files.
    pub files: Files<'s, 'a>,
    /// When each ends.
    pub limit: Limit,
    /// What a ring may take of the volume; `None` if it is none.
    pub ring_bytes: Option<u64>,
    /// The first.
    pub first: Open,
}

/// The current segment.
pub struct Turn<'s, 'a> {
    files: Files<'s, 'a>,
    limit: Limit,
    /// What a ring may take of the volume.
    ring_bytes: Option<u64>,
    /// The length of the whole recording, if it is known.
    total_bytes: Option<u64>,
    /// The current file, and the one before it until it has ended.
    names: [(String, File, Option<File>); 2],
    /// What arrived in the current file, and in all of them; when its first block arrived.
    bytes: u64,
    all_bytes: u64,
    /// What lies before the current file in the recording, those bytes counted that were lost.
    offset_bytes: u64,
    began: Option<u64>,
    /// The length of the file before.
    last_bytes: u64,
    /// The current file has all the space of a ring, which only ends with it: it is removed once it
    /// is whole.
    fills_volume: bool,
    /// The end of the file before the current one is missing: nothing of the current one is stored.
    is_void: bool,
}

/// The recorders.
pub struct Chain<'c, 'r, 's, 'a, C = TscClock> {
    mounted: &'c Mounted<'c, 'a>,
    clock: C,
    recorders: [&'c LocalRecorder<'r, 'a, C>; 2],
    upkeeps: [Option<Upkeep<'c>>; 2],
    /// The one that gets blocks.
    now: usize,
    /// The counters of the files before those of the two.
    earlier: RecordReport,
    failure: Option<Error>,
    turn: Option<Turn<'s, 'a>>,
    /// The only file, and its number for applications once something was lost in it.
    one: Option<(File, u64)>,
    /// How long the next sleep may be: longer and longer while nothing comes.
    pub(crate) nap: Duration,
    /// A block that waits for space: what [`holds`](Chain::holds) says is for it.
    pub(crate) held: Option<Message>,
}

impl<'s, 'a> Turn<'s, 'a> {
    /// Begins with the first segment; the companion's buffer is its recorder's.
    pub fn new(
        segments: Segments<'s, 'a>,
        total_bytes: Option<u64>,
    ) -> (Self, File, Option<GapFile>) {
        let Segments {
            files,
            limit,
            ring_bytes,
            first,
        } = segments;
        let Open { name, file, gaps } = first;
        let gap_file = gaps.as_ref().map(|gaps| gaps.file);
        let turn = Self {
            files,
            limit,
            ring_bytes,
            total_bytes,
            names: [(name, file, gap_file), (String::new(), file, None)],
            bytes: 0,
            all_bytes: 0,
            offset_bytes: 0,
            began: None,
            last_bytes: 0,
            fills_volume: false,
            is_void: false,
        };
        (turn, file, gaps)
    }

    /// Whether a block that arrives now belongs into the next segment.
    fn is_over(&self, len: u64, arrival: u64, clock: &impl Clock) -> bool {
        if self.fills_volume && self.bytes > 0 {
            return true;
        }
        match (self.limit, self.began) {
            (Limit::Bytes(bytes), _) => self.bytes > 0 && self.bytes + len > bytes,
            (Limit::Time(time), Some(began)) => {
                arrival.saturating_sub(began) >= clock.ticks_from_us(micros(time.0))
            }
            (Limit::Time(_), None) => false,
        }
    }

    /// Whether the current file is over, and has a quarter of the ring already.
    fn is_long(&self, len: u64, arrival: u64, clock: &impl Clock) -> bool {
        let most = self.ring_bytes.map_or(u64::MAX, |bytes| bytes / 4);
        self.bytes >= most && self.is_over(len, arrival, clock)
    }

    /// Begins to make the next file when it will be needed soon, with the space that it will need.
    /// `ending_bytes`: of the file before, if its recorder has not ended.
    fn prepare(&mut self, arrival: u64, clock: &impl Clock, ending_bytes: u64) {
        let began = *self.began.get_or_insert(arrival);
        let passed = arrival.saturating_sub(began);
        let passed_us = stream::us_from_ticks(passed, clock.ticks_per_second());
        let (is_soon, reserve_bytes) = match self.limit {
            Limit::Bytes(most) => {
                let left = most.saturating_sub(self.bytes);
                let is_last = self
                    .total_bytes
                    .is_some_and(|total| self.all_bytes + left >= total);
                let is_soon = u128::from(left) * u128::from(passed_us)
                    <= u128::from(self.bytes) * u128::from(AHEAD_US);
                (is_soon && left <= most / 2 && !is_last, most)
            }
            Limit::Time(time) => {
                let most_us = micros(time.0);
                let left_us = most_us.saturating_sub(passed_us);
                let expected = self.last_bytes.max(self.bytes);
                (left_us <= AHEAD_US.min(most_us / 2), expected)
            }
        };
        if is_soon || self.fills_volume {
            self.files.prepare(Coming {
                ending_bytes,
                current_bytes: reserve_bytes.max(self.bytes),
                next_bytes: reserve_bytes,
            });
        }
    }

    /// Whether the oldest segments are removed for others.
    pub const fn is_ring(&self) -> bool {
        self.files.is_ring()
    }

    /// The length of a segment, if it is fixed.
    pub const fn segment_bytes(&self) -> Option<u64> {
        match self.limit {
            Limit::Bytes(bytes) => Some(bytes),
            Limit::Time(_) => None,
        }
    }
}

impl<'c, 'r, 's, 'a, C: Clock> Chain<'c, 'r, 's, 'a, C> {
    /// The first recorder has begun; the second one is its partner.
    pub fn new(
        mounted: &'c Mounted<'c, 'a>,
        clock: C,
        first: &'c LocalRecorder<'r, 'a, C>,
        second: &'c LocalRecorder<'r, 'a, C>,
        turn: Option<Turn<'s, 'a>>,
    ) -> Self {
        Self {
            mounted,
            clock,
            recorders: [first, second],
            upkeeps: [Some(Box::pin(first.upkeep())), None],
            now: 0,
            earlier: RecordReport::default(),
            failure: None,
            turn,
            one: None,
            nap: IDLE,
            held: None,
        }
    }

    /// Has the only file of a recording keep this number once something was lost in it.
    pub const fn keep_losses_of(&mut self, file: File, app_tag: u64) {
        self.one = Some((file, app_tag));
    }

    const fn now(&self) -> &'c LocalRecorder<'r, 'a, C> {
        self.recorders[self.now]
    }

    const fn before(&self) -> &'c LocalRecorder<'r, 'a, C> {
        self.recorders[1 - self.now]
    }

    /// An empty buffer for the producer.
    pub fn take(&self) -> Option<Buffer> {
        self.now().take()
    }

    /// Takes back a buffer that the producer does not need.
    pub fn give_back(&self, buffer: Buffer) {
        let _ = self.now().give_back(buffer);
    }

    /// Whether a block of `len` should wait for space or for the next file. [`step`](Chain::step)
    /// brings both nearer; without either to come the block is not held. A source that cannot wait
    /// fills the other buffers meanwhile, so its block is held only where a file that got it might
    /// be left without space for it, and could then neither be left behind nor removed: on a full
    /// volume, or in a file that is over and has a quarter of the ring.
    pub fn holds(&mut self, len: u64, can_wait: bool) -> bool {
        let (ending_bytes, now) = (self.ending_bytes(), self.now());
        let can_change = self.upkeeps[1 - self.now].is_none();
        let Some(turn) = &mut self.turn else {
            return false;
        };
        if !turn.is_ring() || now.has_ended() || now.has_space_for(len) {
            return false;
        }
        let arrival = self.clock.ticks();
        if !can_wait && !now.is_full() && !turn.is_long(len, arrival, &self.clock) {
            return false;
        }
        turn.fills_volume = now.is_full() && turn.files.has_none_whole();
        turn.prepare(arrival, &self.clock, ending_bytes);
        if !can_change || turn.files.is_busy() {
            return true;
        }
        if turn.is_over(len, arrival, &self.clock) {
            turn.files.is_ready() && !now.has_space_for(0)
        } else {
            // It is being reserved, or freed.
            !now.is_full() || !turn.files.has_none_whole()
        }
    }

    /// The length of the file before the current one, until it has ended.
    fn ending_bytes(&self) -> u64 {
        match (&self.upkeeps[1 - self.now], &self.turn) {
            (Some(_), Some(turn)) => turn.last_bytes,
            _ => 0,
        }
    }

    /// Hands in a block, and what was lost inside it. It begins the next segment if the current one
    /// is over. A recorder that has ended gives its buffer back.
    pub fn hand_in(&mut self, buffer: Buffer, len: usize, arrival: u64, losses: &[Loss]) {
        self.arrived(len as u64, arrival);
        for loss in losses {
            let now = self.now();
            now.begin(arrival);
            // The recording ends by itself if it must.
            let ahead_bytes = loss.ahead_bytes as u64;
            let _ = now.overrun_within(ahead_bytes, loss.messages, loss.lost_bytes, loss.arrival);
            self.keep_that_it_has_gaps();
        }
        let refused = match len {
            0 => Some(buffer),
            _ => self
                .now()
                .hand_in(buffer, len, arrival)
                .err()
                .map(|(_, buffer)| buffer),
        };
        if let Some(buffer) = refused {
            self.give_back(buffer);
        }
    }

    /// A block for which no buffer was empty. The recording ends by itself if it must.
    pub fn overrun(&mut self, len: usize, arrival: u64) {
        self.arrived(len as u64, arrival);
        let _ = self.now().overrun(len as u64, arrival);
        self.keep_that_it_has_gaps();
    }

    /// Has the current file keep that something was lost in it, with the first commit of what comes
    /// behind the first loss. A later segment's place is not known until the one before it has
    /// ended, and is kept then together with this.
    fn keep_that_it_has_gaps(&self) {
        if self.upkeeps[1 - self.now].is_some() || self.now().report().gaps != 1 {
            return;
        }
        let (file, tag) = match (&self.turn, self.one) {
            (Some(turn), _) => {
                let tag = turn.files.tag_at(turn.offset_bytes, false, true);
                (turn.names[0].1, tag)
            }
            (None, Some(one)) => one,
            (None, None) => return,
        };
        // The file is open and writable.
        let _ = self.mounted.volume.set_app_tag(file, tag);
    }

    /// Ends the input.
    pub fn finish(&self) {
        self.now().finish();
    }

    /// Makes progress, like [`Recorder::step`]; `others` gets the events of other files.
    pub fn step(&mut self, others: &mut dyn FnMut(DataEvent)) -> Poll<Result<()>> {
        let (now, before) = (self.now(), self.before());
        let is_two = self.upkeeps[1 - self.now].is_some();
        while let Some(event) = self.mounted.volume.poll() {
            let left = now.accept(event);
            let left = left.and_then(|event| {
                if is_two {
                    before.accept(event)
                } else {
                    Some(event)
                }
            });
            if let Some(event) = left {
                others(event);
            }
        }
        if let Some(upkeep) = &mut self.upkeeps[1 - self.now] {
            let ended = before.advance(upkeep.as_mut());
            before.pass_buffers(now);
            if let Poll::Ready(result) = ended {
                self.upkeeps[1 - self.now] = None;
                match result {
                    // Its first commit stores the tag too.
                    Ok(()) => {
                        self.tag(before);
                        now.follow_on();
                    }
                    Err(error) => {
                        self.failure.get_or_insert(error);
                        now.give_up(error);
                        if let Some(turn) = &mut self.turn {
                            turn.is_void = true;
                        }
                    }
                }
                self.close(1);
            }
        }
        self.step_files();
        let Some(upkeep) = &mut self.upkeeps[self.now] else {
            return Poll::Ready(Ok(()));
        };
        let Poll::Ready(result) = now.advance(upkeep.as_mut()) else {
            return Poll::Pending;
        };
        self.upkeeps[self.now] = None;
        self.close(0);
        Poll::Ready(self.failure.map_or(result, Err))
    }

    /// Makes, closes and removes files; frees space for a recorder that waits for it.
    fn step_files(&mut self) {
        let (now, before) = (self.now(), self.before());
        let is_two = self.upkeeps[1 - self.now].is_some();
        let is_ending = is_two && !before.wants_space();
        let is_durable = now.durable_bytes() > 0 || is_two && before.durable_bytes() > 0;
        // The newest whole file is removed for data only: lines of what was lost may be the last
        // that comes.
        let has_data = self.held.is_some() || now.has_more() || is_two && before.has_more();
        let Some(turn) = &mut self.turn else { return };
        turn.files.set_durable(is_durable);
        turn.files.step();
        if !now.wants_space() && !before.wants_space() {
            // Before it is needed.
            let is_coming = is_ending || now.will_commit();
            if turn.is_ring()
                && now.is_full()
                && turn.files.has_removed_ahead(is_coming || !has_data)
            {
                now.space_was_freed();
            }
            return;
        }
        // The earlier bytes first: the later ones are nothing without them.
        let first = if before.wants_space() { before } else { now };
        let is_coming = is_ending || !is_durable && first.will_commit();
        let is_coming = is_coming || !has_data && !now.has_ended();
        let Poll::Ready(has_freed) = turn.files.make_room(is_coming, has_data) else {
            return;
        };
        if has_freed {
            first.space_was_freed()
        } else {
            first.no_space_left()
        }
    }

    /// Has the current file keep how much of the recording lies before it; the file before it has
    /// ended.
    fn tag(&mut self, before: &LocalRecorder<'_, '_, C>) {
        let Some(turn) = &mut self.turn else { return };
        let report = before.report();
        turn.offset_bytes += report.durable_bytes + report.lost_bytes;
        let (_, file, _) = turn.names[0];
        let has_gaps = self.recorders[self.now].report().gaps > 0;
        let tag = turn.files.tag_at(turn.offset_bytes, false, has_gaps);
        // The file is open and writable.
        let _ = self.mounted.volume.set_app_tag(file, tag);
    }

    /// A block of the current file, or of the next one.
    fn arrived(&mut self, len: u64, arrival: u64) {
        let can_change = self.upkeeps[1 - self.now].is_none() && !self.now().has_ended();
        let Some(turn) = &mut self.turn else { return };
        if len == 0 {
            return;
        }
        turn.fills_volume =
            turn.is_ring() && self.recorders[self.now].is_full() && turn.files.has_none_whole();
        // A block that was held is over by now, whenever it arrived.
        let has_no_space = turn.is_ring() && !self.recorders[self.now].has_space_for(len);
        let at = if has_no_space {
            self.clock.ticks()
        } else {
            arrival
        };
        if can_change && turn.is_over(len, at, &self.clock) && turn.files.is_ready() {
            // Nothing could be removed for a file that is left behind without the space for its
            // last blocks: it is the oldest.
            if !turn.is_ring() || self.recorders[self.now].has_space_for(0) {
                self.change();
            }
        }
        let ending_bytes = self.ending_bytes();
        if let Some(turn) = &mut self.turn {
            turn.bytes += len;
            turn.all_bytes += len;
            turn.prepare(arrival, &self.clock, ending_bytes);
        }
    }

    /// Goes on in the next file, which is ready.
    fn change(&mut self) {
        let (old, next) = (self.now(), self.before());
        let Some(turn) = &mut self.turn else { return };
        let Some(Open { name, file, gaps }) = turn.files.take_next() else {
            return;
        };
        let gap_file = gaps.as_ref().map(|gaps| gaps.file);
        match next.restart(file, gaps, turn.segment_bytes()) {
            Ok(report) => self.earlier.add(&report),
            Err(error) => {
                self.failure.get_or_insert(error);
                old.finish();
                return;
            }
        }
        old.hand_over(next);
        // Its last commit stores it.
        let (_, ending, _) = turn.names[0];
        let has_gaps = old.report().gaps > 0;
        let tag = turn.files.tag_at(turn.offset_bytes, true, has_gaps);
        let _ = self.mounted.volume.set_app_tag(ending, tag);
        turn.names.swap(0, 1);
        turn.names[0] = (name, file, gap_file);
        (turn.last_bytes, turn.bytes, turn.began) = (turn.bytes, 0, None);
        turn.fills_volume = false;
        self.now = 1 - self.now;
        self.upkeeps[self.now] = Some(Box::pin(next.upkeep()));
    }

    /// Has the current file (0) or the one before it (1), whose recorder has ended, closed.
    fn close(&mut self, which: usize) {
        let recorder = self.recorders[(self.now + which) % 2];
        if let Some(buffer) = recorder.take_gap_buffer() {
            self.mounted.memory.give_back(buffer);
        }
        let Some(turn) = &mut self.turn else { return };
        // To close it would store what was written.
        if which == 0 && turn.is_void {
            return;
        }
        let report = recorder.report();
        let (name, file, gap_file) = &mut turn.names[which];
        turn.files.end(Ended {
            name: std::mem::take(name),
            file: *file,
            gaps: gap_file.map(|file| (file, report.gaps)),
            length_bytes: report.durable_bytes,
            lost_bytes: report.lost_bytes,
        });
    }

    /// The counters so far.
    pub fn report(&self) -> RecordReport {
        let mut report = self.earlier;
        report.add(&self.before().report());
        report.add(&self.now().report());
        report
    }

    /// How much of the recording is durable.
    pub fn durable_bytes(&self) -> u64 {
        self.earlier.durable_bytes + self.before().durable_bytes() + self.now().durable_bytes()
    }

    /// Blocks that wait for the drive.
    pub fn waiting_blocks(&self) -> u64 {
        self.before().waiting_blocks() + self.now().waiting_blocks()
    }

    /// Free space of the volume, where it is known without reading.
    pub fn free_bytes(&self) -> Option<u64> {
        let volume = self.mounted.volume;
        let usage = volume.known_usage()?;
        Some(usage.free_units * volume.status().shape.unit_bytes())
    }

    /// Segments that are complete, and those that a ring removed.
    pub fn segments(&self) -> [u64; 2] {
        self.turn
            .as_ref()
            .map_or([0; 2], |turn| turn.files.counts())
    }

    /// Whether the device works.
    pub fn is_working(&self) -> bool {
        self.mounted.volume.outstanding() > 0
    }

    /// How long nothing is to be done unless a block comes; `None`: not even that long.
    pub fn idle(&self) -> Option<Duration> {
        let is_busy = self.turn.as_ref().is_some_and(|turn| turn.files.is_busy());
        let is_ending = self.upkeeps[1 - self.now].is_some();
        let may_sleep = !is_busy && !is_ending && !self.is_working();
        may_sleep.then(|| Duration::from_micros(self.now().idle_us()))
    }

    /// Sleeps until something may have finished, at most `timeout_us` microseconds.
    pub fn wait(&self, timeout_us: u32) {
        self.mounted.volume.wait(timeout_us);
    }

    /// What has happened, for readers of the recording.
    pub fn events(&self) -> Arc<Events> {
        let of_segments = self.turn.as_ref().map(|turn| turn.files.events());
        of_segments.unwrap_or_default()
    }

    /// Ends the segments: which of them the volume has, how many were removed, and the first
    /// failure.
    pub fn end(self) -> (Vec<Segment>, Removed, devices::error::Result<()>) {
        match self.turn {
            Some(turn) => turn.files.finish(),
            None => (Vec::new(), Removed::default(), Ok(())),
        }
    }
}
