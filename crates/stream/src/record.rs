// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recording: from a producer with its own clock to a file, through a ring of buffers.

use core::cell::{Cell, RefCell, RefMut};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use block::{Buffer, Clock, Device};
use volume::{DataEvent, File, FileStatus, Transfer, Volume};

use crate::gaps::{GAP_LINE_BYTES, GapFile, Gaps};
use crate::place::{self, RingPlace};
use crate::record_state::{Held, Limits, RecordState, Space};
use crate::{Error, RecordReport};

/// How to record.
#[derive(Clone, Copy, Debug)]
pub struct RecordOptions {
    /// How long after its intended arrival a block must be written.
    pub deadline_us: u64,
    /// The size is made durable when this many written bytes are not covered yet.
    pub commit_bytes: u64,
    /// The size is made durable when written bytes have not been covered for this long.
    pub commit_us: u64,
    /// Space is reserved when less than this is left.
    pub low_water_bytes: u64,
    /// How much is reserved at a time, beyond `low_water_bytes`.
    pub reserve_bytes: u64,
    /// How much will be recorded, if known: no more is reserved.
    pub total_bytes: Option<u64>,
    /// How often a failed write is repeated.
    pub retries: u8,
    /// A full volume does not end the recording: it waits in its buffers while
    /// [`wants_space`](Recorder::wants_space) is true, until the caller has freed some.
    pub waits_for_space: bool,
}

impl Default for RecordOptions {
    /// A deadline of 100 ms, durable every 8 MiB and every second, 16 to 80 MiB reserved ahead.
    fn default() -> Self {
        Self {
            deadline_us: 100_000,
            commit_bytes: 8 << 20,
            commit_us: 1_000_000,
            low_water_bytes: 16 << 20,
            reserve_bytes: 64 << 20,
            total_bytes: None,
            retries: 3,
            waits_for_space: false,
        }
    }
}

/// A recording. Calls [`take`](Recorder::take) and [`hand_in`](Recorder::hand_in) move blocks into
/// it; [`step`](Recorder::step) writes them.
#[derive(Debug)]
pub struct Recorder<'r, 'v, D, C> {
    pub(crate) volume: &'r Volume<'v, D>,
    file: Cell<File>,
    pub(crate) clock: C,
    pub(crate) limits: Limits,
    state: RefCell<RecordState<'r>>,
}

impl<'r, 'v, D: Device, C: Clock> Recorder<'r, 'v, D, C> {
    /// Prepares a recording that continues at the end of `file`, which is open for writing and
    /// whose size is a multiple of the device's block.
    ///
    /// With `gaps`, a block that finds no empty buffer is dropped and the gap is recorded there;
    /// otherwise the recording ends.
    ///
    /// # Errors
    /// [`Error::BadRing`]: `places` is empty, a buffer (including that of `gaps`) has the wrong
    /// length, or `gaps` does not fit its file. [`Error::Volume`]: a file is not open.
    pub fn new(
        volume: &'r Volume<'v, D>,
        file: File,
        clock: C,
        places: &'r mut [RingPlace],
        gaps: Option<GapFile>,
        options: &RecordOptions,
    ) -> Result<Self, Error> {
        if !place::are_good(places, volume.geometry().block_size_bytes()) {
            return Err(Error::BadRing);
        }
        let status = checked(volume, file, gaps.as_ref())?;
        let limits = Limits {
            device_block: volume.geometry().block_size_bytes(),
            ticks_per_second: clock.ticks_per_second(),
            deadline_ticks: clock.ticks_from_us(options.deadline_us),
            commit_ticks: clock.ticks_from_us(options.commit_us),
            commit_bytes: options.commit_bytes.max(1),
            low_water_bytes: options.low_water_bytes,
            reserve_bytes: options.reserve_bytes,
            retries: options.retries,
            waits_for_space: options.waits_for_space,
        };
        // Built in one step: an embedded stack has no room for a second one.
        Ok(Self {
            volume,
            file: Cell::new(file),
            state: RefCell::new(RecordState {
                gaps: Gaps::new(gaps),
                ending: false,
                last_commit: clock.ticks(),
                next_offset: status.appended_bytes,
                end_offset: end_of(&status, options.total_bytes),
                report: RecordReport {
                    durable_bytes: status.committed_bytes,
                    ..RecordReport::default()
                },
                ..RecordState::ended(places, limits.retries)
            }),
            clock,
            limits,
        })
    }

    /// A recorder that has ended.
    pub(crate) fn ended(
        volume: &'r Volume<'v, D>,
        file: File,
        clock: C,
        limits: Limits,
        places: &'r mut [RingPlace],
    ) -> Self {
        Self {
            volume,
            file: Cell::new(file),
            clock,
            limits,
            state: RefCell::new(RecordState::ended(places, limits.retries)),
        }
    }

    /// The file that it records into.
    pub fn file(&self) -> File {
        self.file.get()
    }

    pub(crate) fn set_file(&self, file: File) {
        self.file.set(file);
    }

    /// The state. It is only ever borrowed briefly, and never during a call that could borrow it
    /// again.
    pub(crate) fn state(&self) -> RefMut<'_, RecordState<'r>> {
        self.state.borrow_mut()
    }

    /// An empty buffer for the producer to fill. `None`: the ring is full, or the recording is
    /// ending. The producer may have several.
    pub fn take(&self) -> Option<Buffer> {
        let mut state = self.state();
        if state.ending || state.ring.failure.is_some() {
            return None;
        }
        if state.taken - state.done >= state.ring.places.len() as u64 {
            return None;
        }
        let buffer = state.take_free()?;
        state.taken += 1;
        Some(buffer)
    }

    /// Hands in a block: the first `len_bytes` of a buffer from [`take`](Recorder::take). Its
    /// intended arrival is `arrival` on the recorder's clock, and its deadline counts from then.
    /// Only the last block of a recording may have a length that is not a multiple of the device's
    /// block.
    ///
    /// # Errors
    /// With the buffer: [`Error::NotTaken`]; [`Error::Ended`] after a failure (which
    /// [`step`](Recorder::step) reports).
    pub fn hand_in(
        &self,
        buffer: Buffer,
        len_bytes: usize,
        arrival: u64,
    ) -> Result<(), (Error, Buffer)> {
        let mut state = self.state();
        if state.ring.failure.is_some() {
            return Err((Error::Ended, buffer));
        }
        if state.handed == state.taken || len_bytes > buffer.len() || len_bytes == 0 {
            return Err((Error::NotTaken, buffer));
        }
        state.start.get_or_insert(arrival);
        state.gaps.close();
        let (offset_bytes, gaps_before) = (state.next_offset, state.gaps.closed);
        let handed = state.handed;
        let tag = (handed % state.ring.places.len().max(1) as u64) as u16;
        let Some(place) = state.ring.place(handed) else {
            return Err((Error::NotTaken, buffer));
        };
        let block_bytes = buffer.len() as u64;
        place.begin(Transfer::append(self.file(), buffer, len_bytes, tag));
        place.time = arrival;
        place.offset_bytes = offset_bytes;
        place.gaps_before = gaps_before;
        state.handed += 1;
        state.next_offset += len_bytes as u64;
        let (before_blocks, before_bytes) = state.before;
        let waiting_blocks = before_blocks + state.handed - state.done;
        let report = &mut state.report;
        report.blocks += 1;
        report.bytes += len_bytes as u64;
        report.block_max_bytes = report.block_max_bytes.max(block_bytes);
        report.waiting_max_blocks = report.waiting_max_blocks.max(waiting_blocks);
        let waiting_bytes = before_bytes + report.bytes - report.written_bytes;
        report.waiting_max_bytes = report.waiting_max_bytes.max(waiting_bytes);
        Ok(())
    }

    /// Takes back a buffer that the producer does not need.
    ///
    /// # Errors
    /// [`Error::NotTaken`], with the buffer.
    pub fn give_back(&self, buffer: Buffer) -> Result<(), (Error, Buffer)> {
        let mut state = self.state();
        if state.handed == state.taken {
            return Err((Error::NotTaken, buffer));
        }
        let last = state.taken - 1;
        match state.ring.place(last) {
            Some(place) => place.buffer = Some(buffer),
            None => return Err((Error::NotTaken, buffer)),
        }
        state.taken = last;
        Ok(())
    }

    /// Reports that a block of `len_bytes` arrived at `arrival` and the producer had no buffer for
    /// it. It is lost: the gap is recorded if gaps are, otherwise the recording ends.
    ///
    /// # Errors
    /// [`Error::Overrun`] if the recording ends; what was handed in is still written. The earlier
    /// error if it had already ended.
    pub fn overrun(&self, len_bytes: u64, arrival: u64) -> Result<(), Error> {
        self.overrun_by(1, len_bytes, arrival)
    }

    /// The same for several consecutive blocks: `len_bytes` is their total, and the first of them
    /// arrived at `arrival`.
    ///
    /// # Errors
    /// Those of [`overrun`](Recorder::overrun).
    pub fn overrun_by(&self, blocks: u64, len_bytes: u64, arrival: u64) -> Result<(), Error> {
        self.overrun_within(0, blocks, len_bytes, arrival)
    }

    /// The same inside the block that is handed in next, before it is: `ahead_bytes` of it came
    /// before what is lost. Where the whole recording begins with that block, tell its arrival
    /// first, by [`begin`](Recorder::begin).
    ///
    /// # Errors
    /// Those of [`overrun`](Recorder::overrun).
    pub fn overrun_within(
        &self,
        ahead_bytes: u64,
        blocks: u64,
        len_bytes: u64,
        arrival: u64,
    ) -> Result<(), Error> {
        let mut state = self.state();
        if let Some(error) = state.ring.failure {
            return Err(error);
        }
        let at_us = state.at_us(arrival, &self.limits);
        let offset_bytes = state.next_offset.saturating_add(ahead_bytes);
        state.lose(offset_bytes, blocks, len_bytes, at_us);
        if state.gaps.file.is_some() {
            return Ok(());
        }
        let error = Error::Overrun {
            offset_bytes,
            at_us,
        };
        state.ring.failure = Some(error);
        state.ending = true;
        Err(error)
    }

    /// The first block's arrival, from which the times of gaps count; nothing if it is known.
    pub fn begin(&self, arrival: u64) {
        self.state().start.get_or_insert(arrival);
    }

    /// Ends the input: the upkeep ends when everything is written and durable. Buffers that the
    /// producer has may be given back before or after.
    pub fn finish(&self) {
        let mut state = self.state();
        state.gaps.close();
        state.ending = true;
    }

    /// Makes progress: processes completed writes, submits new ones, and polls `upkeep`. Bounded
    /// work, no waiting. `others` gets the events of other files of the volume.
    ///
    /// Ready when the recording has ended, with its result: nothing is in flight then, everything
    /// that could be made durable is, and the file can be closed.
    pub fn step<F: Future<Output = Result<(), Error>> + ?Sized>(
        &self,
        upkeep: Pin<&mut F>,
        others: &mut dyn FnMut(DataEvent),
    ) -> Poll<Result<(), Error>> {
        while let Some(event) = self.volume.poll() {
            if let Some(event) = self.accept(event) {
                others(event);
            }
        }
        self.advance(upkeep)
    }

    /// [`step`](Recorder::step) for a caller that polls the volume itself and gives each event to
    /// [`accept`](Recorder::accept), because several streams share the volume.
    pub fn advance<F: Future<Output = Result<(), Error>> + ?Sized>(
        &self,
        upkeep: Pin<&mut F>,
    ) -> Poll<Result<(), Error>> {
        self.state().submit(self.volume, self.file());
        upkeep.poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Processes an event of this recording, where several streams share a volume; returns other
    /// events.
    pub fn accept(&self, event: DataEvent) -> Option<DataEvent> {
        let mut state = self.state();
        if event.file == self.file() {
            let now = self.clock.ticks();
            state.finished(event, now, &self.limits);
            return None;
        }
        if state.gaps.file != Some(event.file) {
            return Some(event);
        }
        state.gaps.buffer = event.buffer;
        state.gaps.written = Some(event.result);
        None
    }

    /// The counters so far.
    pub fn report(&self) -> RecordReport {
        self.state().report
    }

    /// The size up to which the file is durable.
    pub fn durable_bytes(&self) -> u64 {
        self.state().report.durable_bytes
    }

    /// Whether the volume is full and nothing can be written before the caller has freed space, of
    /// other files for example. Only with [`RecordOptions::waits_for_space`].
    pub fn wants_space(&self) -> bool {
        self.state().space == Space::Wanted
    }

    /// Whether space is reserved for all that was handed in and `more_bytes`, so that only a
    /// failure of the device can keep them from being written.
    pub fn has_space_for(&self, more_bytes: u64) -> bool {
        let status = self.volume.file_status(self.file());
        status.is_ok_and(|status| {
            let end = status.appended_bytes.saturating_add(status.reserved_bytes);
            end >= self.state().next_offset.saturating_add(more_bytes)
        })
    }

    /// Whether no more space can be reserved ahead: the volume is nearly full.
    pub fn is_full(&self) -> bool {
        self.state().full
    }

    /// Whether more will be durable without more space.
    pub fn will_commit(&self) -> bool {
        let state = self.state();
        let waits = state.committing && state.space == Space::Wanted;
        let status = self.volume.file_status(self.file());
        let has_more =
            status.is_ok_and(|status| status.appended_bytes > state.report.durable_bytes);
        has_more && !waits && state.held == Held::No && !state.ring.stopped
    }

    /// Whether there is data that is not durable yet: of blocks that were handed in, or written
    /// since the last commit.
    pub fn has_more(&self) -> bool {
        let state = self.state();
        let status = self.volume.file_status(self.file());
        state.done < state.handed
            || status.is_ok_and(|status| status.appended_bytes > state.report.durable_bytes)
    }

    /// Answers [`wants_space`](Recorder::wants_space) and [`is_full`](Recorder::is_full): some
    /// space was freed, and is tried.
    pub fn space_was_freed(&self) {
        let mut state = self.state();
        state.full = false;
        state.answer_space(Space::Enough);
    }

    /// Answers [`wants_space`](Recorder::wants_space): there is nothing to free, so that the
    /// recording ends with [`volume::Error::NoSpace`].
    pub fn no_space_left(&self) {
        self.state().answer_space(Space::UsedUp);
    }

    /// Whether no more blocks are accepted: it was finished, or failed.
    pub fn has_ended(&self) -> bool {
        let state = self.state();
        state.ending || state.ring.failure.is_some()
    }

    /// Blocks whose buffers are empty again, from the first one handed in without exception.
    pub fn written_blocks(&self) -> u64 {
        self.state().done
    }

    /// Blocks that were handed in and are not written yet.
    pub fn waiting_blocks(&self) -> u64 {
        let state = self.state();
        state.handed - state.done
    }

    /// Deadlines missed so far.
    pub fn misses(&self) -> u64 {
        self.state().report.misses
    }

    /// The buffer supplied for the gaps, once the recording has ended.
    pub fn take_gap_buffer(&self) -> Option<Buffer> {
        self.state().gaps.buffer.take()
    }
}

/// The status of `file`, if a recording can go into it.
pub(crate) fn checked<D: Device>(
    volume: &Volume<'_, D>,
    file: File,
    gaps: Option<&GapFile>,
) -> Result<FileStatus, Error> {
    let closed = |error| Error::Volume {
        offset_bytes: 0,
        error,
    };
    if let Some(gaps) = gaps {
        let device_block = volume.geometry().block_size_bytes();
        let status = volume.file_status(gaps.file).map_err(closed)?;
        let fits = gaps.buffer.len() == device_block && device_block % GAP_LINE_BYTES == 0;
        let held = status.appended_bytes % device_block as u64;
        if !fits || held != gaps.filled_bytes as u64 || gaps.filled_bytes % GAP_LINE_BYTES != 0 {
            return Err(Error::BadRing);
        }
    }
    volume.file_status(file).map_err(closed)
}

/// Where a recording into a file of this status is expected to end.
pub(crate) fn end_of(status: &FileStatus, total_bytes: Option<u64>) -> u64 {
    let total = total_bytes.unwrap_or(u64::MAX);
    status.appended_bytes.saturating_add(total)
}
