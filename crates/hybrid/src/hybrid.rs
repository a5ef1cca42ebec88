// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The device: requests in, completions out, and the commands for lines.

use crate::border::{Border, Direction};
use crate::line::{Line, State};
use crate::lines::Lines;
use crate::options::{HybridOptions, OpenError, Statistics};
use crate::streams::Streams;
use crate::waiting::{Queue, Waiting, range};
use block::{Buffer, Clock, Completion, Device, Error, Geometry, Operation, Refused, Request};

/// Every how many direct requests one is timed: reading the clock costs as much as passing it on.
const TIMED_LOG2: u32 = 4;
/// After so many lines of one direction, [`EXPLORED`] small requests go straight, to see their
/// times.
const LINES_PER_EXPLORATION: u32 = 256;
/// How many requests explore.
const EXPLORED: u32 = 16;

/// A direct request in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slot {
    tag: u32,
    lba: u64,
    /// None of a flush.
    blocks: u32,
    is_change: bool,
    direction: Option<Direction>,
    /// When it was submitted, and with how many at once, if it is timed.
    timed: Option<(u64, u32)>,
}

/// What [`Hybrid::into_parts`] returns: the device and the lines.
pub type Parts<D, const LINES: usize> = (D, [Option<Buffer>; LINES]);

/// `D`, with small sequential accesses gathered. `LINES` buffers gather or were read ahead, and at
/// most `DEPTH` requests are outstanding.
///
/// Dropping it loses what was gathered since the last flush, as the end of power does:
/// [`into_parts`](Hybrid::into_parts) refuses that.
#[derive(Debug)]
pub struct Hybrid<D, C, const LINES: usize, const DEPTH: usize> {
    pub(crate) device: D,
    pub(crate) clock: C,
    pub(crate) geometry: Geometry,
    pub(crate) options: HybridOptions,
    hold_ticks: u64,
    pub(crate) lines: Lines<LINES>,
    pub(crate) border: Border,
    pub(crate) reads: Streams,
    pub(crate) writes: Streams,
    pub(crate) waiting: Queue<DEPTH>,
    slots: [Slot; DEPTH],
    free_slots: [u16; DEPTH],
    free_count: usize,
    /// Completions to be polled: a ring.
    ready: [Option<Completion>; DEPTH],
    ready_first: usize,
    ready_count: usize,
    /// The error of a late write that no caller has seen.
    pub(crate) untold: Option<Error>,
    explored: [u32; 2],
    until_timed: u32,
    pub(crate) statistics: Statistics,
}

impl<D: Device, C: Clock, const LINES: usize, const DEPTH: usize> Hybrid<D, C, LINES, DEPTH> {
    /// Measures the border by reading from `device`, within [`HybridOptions::probe_us`], and opens
    /// it.
    ///
    /// `lines` are buffers that the device can reach, all of the same length: a power of two of
    /// blocks, at most the device's largest transfer.
    ///
    /// # Errors
    /// [`OpenError`] returns everything, if a length or a setting is not possible, or requests are
    /// outstanding.
    pub fn open(
        device: D,
        clock: C,
        lines: [Buffer; LINES],
        options: HybridOptions,
    ) -> Result<Self, OpenError<D, LINES>> {
        let inner = *device.geometry();
        let line_bytes = lines.first().map_or(0, Buffer::len);
        let line_blocks = line_bytes >> inner.block_size_log2;
        let is_aligned =
            |line: &Buffer| line.address() & (inner.buffer_align_bytes as usize - 1) == 0;
        let reason = if device.outstanding() != 0 {
            Some("requests are outstanding: poll them first")
        } else if LINES < 2 || DEPTH == 0 || DEPTH > 0x8000 || LINES > 64 {
            Some("give 2 to 64 lines and 1 to 32,768 requests")
        } else if lines.iter().any(|line| line.len() != line_bytes) {
            Some("all lines have the same length")
        } else if !line_blocks.is_power_of_two()
            || line_blocks << inner.block_size_log2 != line_bytes
        {
            Some("a line is a power of two of blocks")
        } else if line_blocks > inner.max_transfer_blocks as usize {
            Some("a line is at most the device's largest transfer")
        } else if !lines.iter().all(is_aligned) {
            Some("a line is aligned as the device requires")
        } else if options.dirty_lines == 0 || usize::from(options.dirty_lines) >= LINES {
            Some("dirty_lines is 1 to the number of lines less one")
        } else {
            None
        };
        let lines = lines.map(Line::new);
        if let Some(reason) = reason {
            let lines = lines.map(Line::into_buffer);
            return Err(OpenError {
                reason,
                device,
                lines,
            });
        }
        let line_blocks = line_blocks as u32;
        let mut features = inner.features;
        features.volatile_write_cache |= !features.read_only;
        let geometry = Geometry {
            queue_depth: inner.queue_depth.min(DEPTH as u16),
            features,
            ..inner
        };
        let mut free_slots = [0; DEPTH];
        for (index, slot) in free_slots.iter_mut().enumerate() {
            *slot = index as u16;
        }
        let mut hybrid = Self {
            hold_ticks: clock.ticks_from_us(u64::from(options.hold_us)),
            border: Border::new(
                line_blocks,
                inner.queue_depth > 1,
                options.fixed_border_blocks,
            ),
            lines: Lines {
                all: lines,
                line_blocks,
                dirty: 0,
                open: 0,
                closed: 0,
                copies: 0,
                sequence: 0,
                unused_blocks: 0,
            },
            device,
            clock,
            geometry,
            options,
            reads: Streams::default(),
            writes: Streams::default(),
            waiting: Queue::new(),
            slots: [Slot::default(); DEPTH],
            free_slots,
            free_count: DEPTH,
            ready: [const { None }; DEPTH],
            ready_first: 0,
            ready_count: 0,
            untold: None,
            explored: [0; 2],
            until_timed: 1,
            statistics: Statistics::default(),
        };
        if options.fixed_border_blocks.is_none() {
            hybrid.probe();
        }
        Ok(hybrid)
    }

    /// The border between small and large, as it is now.
    pub const fn border(&self) -> &Border {
        &self.border
    }

    /// What was done so far.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            unused_bytes: self.lines.unused_blocks << self.geometry.block_size_log2,
            border_moves: self.border.moves,
            ..self.statistics
        }
    }

    /// Bytes that were completed and are not on the device yet.
    pub fn gathered_bytes(&self) -> u64 {
        let dirty = self.lines.all.iter().filter(|line| line.is_dirty());
        let blocks: u64 = dirty.map(|line| u64::from(line.blocks)).sum();
        blocks << self.geometry.block_size_log2
    }

    /// The clock's ticks at which gathered data must be written: call [`kick`](Device::kick) then,
    /// if nothing else calls the device. `None` if nothing is gathered.
    pub fn next_deadline(&self) -> Option<u64> {
        let open = self
            .lines
            .all
            .iter()
            .filter(|line| line.state == State::Open);
        open.map(|line| line.since.saturating_add(self.hold_ticks))
            .min()
    }

    /// The device and the lines, once nothing is gathered and nothing is in flight: flush and poll
    /// first.
    ///
    /// # Errors
    /// Gives itself back otherwise.
    #[allow(clippy::result_large_err)]
    pub fn into_parts(self) -> Result<Parts<D, LINES>, Self> {
        if self.lines.dirty > 0 || self.outstanding() > 0 || self.device.outstanding() > 0 {
            return Err(self);
        }
        Ok((self.device, self.lines.all.map(Line::into_buffer)))
    }

    /// Drops what is gathered, and returns how many bytes that were. Only after a flush has failed,
    /// and what failed is not wanted any more.
    pub fn discard_gathered(&mut self) -> u64 {
        let before = self.gathered_bytes();
        for index in 0..LINES {
            let state = self.lines.all.get(index).map(|line| line.state);
            if matches!(state, Some(State::Open | State::Closed | State::Failed(_))) {
                self.lines.set(index, State::Free);
            }
        }
        self.untold = None;
        before - self.gathered_bytes()
    }

    /// Ends a request without the device.
    pub(crate) fn complete(&mut self, request: Request, result: Result<(), Error>) {
        debug_assert!(self.ready_count < DEPTH, "more completions than requests");
        let free = (self.ready_first + self.ready_count) % DEPTH;
        if let Some(place) = self.ready.get_mut(free) {
            *place = Some(Completion {
                tag: request.tag,
                buffer: request.operation.into_buffer(),
                result,
            });
            self.ready_count += 1;
        }
    }

    fn take_ready(&mut self) -> Option<Completion> {
        if self.ready_count == 0 {
            return None;
        }
        let completion = self.ready.get_mut(self.ready_first)?.take();
        self.ready_first = (self.ready_first + 1) % DEPTH;
        self.ready_count -= 1;
        completion
    }

    /// Passes a request to the device as it is. `Ok(Some)` gives it back if the device is full.
    #[allow(clippy::result_large_err)]
    pub(crate) fn pass(&mut self, waiting: Waiting) -> Result<Option<Waiting>, Refused> {
        let Waiting { request, .. } = waiting;
        let left = self.send(request)?;
        Ok(left.map(|request| Waiting { request, ..waiting }))
    }

    /// The same for a request that has not waited.
    #[allow(clippy::result_large_err)]
    fn send(&mut self, mut request: Request) -> Result<Option<Request>, Refused> {
        let size = self.geometry.block_size_log2;
        let (lba, blocks, is_change) = range(&request.operation, size).unwrap_or_default();
        let direction = match request.operation {
            Operation::Read { .. } => Some(Direction::Read),
            Operation::Write { .. } => Some(Direction::Write),
            _ => None,
        };
        let Some(index) = self.free_count.checked_sub(1) else {
            return Ok(Some(request));
        };
        let number = self.free_slots.get(index).copied().unwrap_or_default();
        let tag = request.tag;
        request.tag = u32::from(number);
        self.until_timed -= 1;
        let mut timed = None;
        if self.until_timed == 0 {
            self.until_timed = 1 << TIMED_LOG2;
            let now = || (self.clock.ticks(), self.device.outstanding() as u32 + 1);
            timed = direction.map(|_| now());
        }
        if let Err(mut refused) = self.device.submit(request) {
            refused.request.tag = tag;
            if refused.error == Error::QueueFull && self.device.outstanding() > 0 {
                return Ok(Some(refused.request));
            }
            return Err(refused);
        }
        self.free_count = index;
        self.statistics.direct_requests += 1;
        if let Some(slot) = self.slots.get_mut(usize::from(number)) {
            *slot = Slot {
                tag,
                lba,
                blocks,
                is_change,
                direction,
                timed,
            };
        }
        Ok(None)
    }

    /// Whether an access can go straight to the device, which checks it: nothing was gathered or
    /// read ahead, nothing waits, and it is long or continues no stream.
    fn goes_straight(&self, operation: &Operation, stream: Option<usize>) -> bool {
        let lines = &self.lines;
        if lines.dirty + lines.copies + self.waiting.len() > 0 || self.untold.is_some() {
            return false;
        }
        let (direction, buffer) = match operation {
            Operation::Read { buffer, .. } => (Direction::Read, buffer),
            Operation::Write {
                buffer, fua: false, ..
            } => (Direction::Write, buffer),
            _ => return false,
        };
        let blocks = (buffer.len() >> self.geometry.block_size_log2) as u32;
        stream.is_none() || blocks >= self.border.blocks(direction)
    }

    /// Whether the next small request of this direction goes straight, to see what that costs.
    pub(crate) fn explores(&mut self, direction: Direction) -> bool {
        let Some(left) = self.explored.get_mut(direction as usize) else {
            return false;
        };
        if *left < LINES_PER_EXPLORATION {
            return false;
        }
        *left += 1;
        if *left == LINES_PER_EXPLORATION + EXPLORED {
            *left = 0;
        }
        // All of them are timed.
        self.until_timed = 1;
        true
    }

    fn count_line(&mut self, direction: Direction) {
        if let Some(lines) = self.explored.get_mut(direction as usize) {
            *lines = (*lines + 1).min(LINES_PER_EXPLORATION);
        }
    }

    /// Submits a line's command. Whether the device took it.
    pub(crate) fn submit_line(&mut self, index: usize, direction: Direction) -> bool {
        let size = self.geometry.block_size_log2;
        let now = self.clock.ticks();
        let beside = self.device.outstanding() as u32 + 1;
        let Some(line) = self.lines.all.get_mut(index) else {
            return false;
        };
        let lba = line.lba;
        let Some(buffer) = line.lend(size) else {
            return false;
        };
        let bytes = buffer.len() as u64;
        let operation = match direction {
            Direction::Read => Operation::Read { lba, buffer },
            Direction::Write => Operation::Write {
                lba,
                buffer,
                fua: false,
            },
        };
        let tag = (DEPTH + index) as u32;
        if let Err(refused) = self.device.submit(Request { tag, operation }) {
            let is_whole = line.take_back(refused.request.operation.into_buffer());
            let is_full = refused.error == Error::QueueFull && self.device.outstanding() > 0;
            if direction == Direction::Write && !(is_full && is_whole) {
                self.fail(index, refused.error);
            }
            return false;
        }
        (line.since, line.beside) = (now, beside);
        self.count_line(direction);
        match direction {
            Direction::Read => {
                self.statistics.line_reads += 1;
                self.statistics.line_read_bytes += bytes;
                self.lines.set(index, State::Reading);
            }
            Direction::Write => {
                self.statistics.line_writes += 1;
                self.statistics.line_write_bytes += bytes;
                self.lines.set(index, State::Writing);
            }
        }
        true
    }

    fn fail(&mut self, index: usize, error: Error) {
        self.statistics.failed_lines += 1;
        self.untold = Some(error);
        self.lines.set(index, State::Failed(error));
    }

    /// Submits lines that are closed, oldest first.
    fn push(&mut self) {
        while self.lines.closed > 0 {
            let closed = self.lines.all.iter().enumerate();
            let closed = closed.filter(|(_, line)| line.state == State::Closed);
            let Some((index, _)) = closed.min_by_key(|(_, line)| line.sequence) else {
                return;
            };
            if !self.submit_line(index, Direction::Write)
                && self
                    .lines
                    .all
                    .get(index)
                    .is_some_and(|line| line.state == State::Closed)
            {
                return;
            }
        }
    }

    /// A line's command has ended.
    fn line_ended(&mut self, index: usize, completion: Completion) {
        let is_awaited = self.waiting.len() > 0;
        let Some(line) = self.lines.all.get_mut(index) else {
            return;
        };
        let is_whole = line.take_back(completion.buffer);
        let (since, beside, blocks) = (line.since, line.beside, line.blocks);
        let direction = match line.state {
            State::Reading => Direction::Read,
            _ => Direction::Write,
        };
        let is_stale = line.is_stale;
        // The device kept a part of the buffer: its data cannot be used any more.
        let result = if is_whole {
            completion.result
        } else {
            Err(Error::Gone)
        };
        // Only a line that a request waits for was polled as soon as it ended.
        if result.is_ok() && is_awaited && blocks >= self.lines.line_blocks / 2 {
            let ticks = self.clock.ticks().saturating_sub(since);
            self.border
                .saw_line(direction, blocks, ticks / u64::from(beside.max(1)));
        }
        match (direction, result) {
            (Direction::Read, Ok(())) if !is_stale => self.lines.set(index, State::Clean),
            (Direction::Read, result) => {
                self.statistics.failed_lines += u64::from(result.is_err());
                self.lines.set(index, State::Free);
            }
            (Direction::Write, Ok(())) => {
                self.lines.set(index, State::Free);
                let mut all = self.lines.all.iter();
                if !all.any(|line| matches!(line.state, State::Failed(_))) {
                    self.untold = None;
                }
            }
            (Direction::Write, Err(error)) => self.fail(index, error),
        }
    }

    /// The caller's completion of a request that was passed on.
    fn direct_ended(&mut self, mut completion: Completion) -> Completion {
        let number = completion.tag as usize;
        let Some(slot) = self.slots.get(number) else {
            return completion;
        };
        if let Some(place) = self.free_slots.get_mut(self.free_count) {
            *place = number as u16;
            self.free_count += 1;
        }
        completion.tag = slot.tag;
        if slot.is_change {
            // What was read while it was in flight may be older.
            self.lines.invalidate(slot.lba, slot.blocks);
        }
        if let (Some((since, beside)), Some(direction), Ok(())) =
            (slot.timed, slot.direction, completion.result)
        {
            let ticks = self.clock.ticks().saturating_sub(since) / u64::from(beside);
            self.border.saw_direct(direction, slot.blocks, ticks);
        }
        completion
    }

    /// Tries requests that wait, in their order.
    fn proceed(&mut self) {
        let size = self.geometry.block_size_log2;
        self.push();
        let count = self.waiting.len();
        let mut kept = 0;
        for index in 0..count {
            let Some(waiting) = self.waiting.take(index) else {
                continue;
            };
            let left = if self.waiting.holds_back(kept, &waiting.request, size) {
                Some(waiting)
            } else {
                match self.admit(waiting) {
                    Ok(left) => left,
                    Err(refused) => {
                        self.complete(refused.request, Err(refused.error));
                        None
                    }
                }
            };
            if let Some(waiting) = left {
                self.waiting.keep(kept, waiting);
                kept += 1;
            }
        }
        self.waiting.end(kept);
        self.push();
        self.device.kick();
    }

    fn expire(&mut self) {
        if self.lines.open > 0 {
            let before = self.clock.ticks().checked_sub(self.hold_ticks);
            self.statistics.expired_lines += before.map_or(0, |before| self.lines.expire(before));
        }
    }
}

impl<D: Device, C: Clock, const LINES: usize, const DEPTH: usize> Device
    for Hybrid<D, C, LINES, DEPTH>
{
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        let is_full = self.outstanding() >= usize::from(self.geometry.queue_depth);
        let stream = if is_full {
            None
        } else {
            self.note(&request.operation)
        };
        let mark = self.lines.sequence;
        let left = if !is_full && self.goes_straight(&request.operation, stream) {
            let left = self.send(request)?;
            left.map(|request| Waiting::new(request, stream, mark))
        } else {
            let checked = self.geometry.check(&request.operation);
            let full = if is_full {
                Err(Error::QueueFull)
            } else {
                Ok(())
            };
            if let Err(error) = checked.and(full) {
                return Err(Refused { error, request });
            }
            let waiting = Waiting::new(request, stream, mark);
            let count = self.waiting.len();
            let size = self.geometry.block_size_log2;
            if count > 0 && self.waiting.holds_back(count, &waiting.request, size) {
                Some(waiting)
            } else {
                self.admit(waiting)?
            }
        };
        if let Some(waiting) = left {
            self.waiting.push(waiting);
        }
        Ok(())
    }

    fn kick(&mut self) {
        self.expire();
        self.push();
        self.device.kick();
    }

    fn poll(&mut self) -> Option<Completion> {
        if let Some(completion) = self.take_ready() {
            return Some(completion);
        }
        loop {
            let Some(completion) = self.device.poll() else {
                self.expire();
                if self.waiting.len() > 0 || self.lines.closed > 0 {
                    self.proceed();
                }
                return self.take_ready();
            };
            let tag = completion.tag as usize;
            if tag < DEPTH {
                let completion = self.direct_ended(completion);
                if self.waiting.len() > 0 || self.lines.closed > 0 {
                    self.proceed();
                }
                return Some(completion);
            }
            self.line_ended(tag - DEPTH, completion);
            self.proceed();
            if let Some(completion) = self.take_ready() {
                return Some(completion);
            }
        }
    }

    fn outstanding(&self) -> usize {
        DEPTH - self.free_count + self.waiting.len() + self.ready_count
    }

    fn wait(&mut self, timeout_us: u32) {
        if self.ready_count == 0 && self.device.outstanding() > 0 {
            self.device.wait(timeout_us);
        }
    }
}
