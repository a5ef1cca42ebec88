// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a request goes: into a line, out of a line, straight through, or to wait.

use crate::border::Direction;
use crate::hybrid::Hybrid;
use crate::line::State;
use crate::lines::{Cached, Settled};
use crate::waiting::Waiting;
use block::{Clock, Device, Operation, Refused};

impl<D: Device, C: Clock, const LINES: usize, const DEPTH: usize> Hybrid<D, C, LINES, DEPTH> {
    /// Whether an access continues a stream. Large ones are noted too: the border may move.
    #[inline]
    pub(crate) fn note(&mut self, operation: &Operation) -> Option<usize> {
        let size = self.geometry.block_size_log2;
        match operation {
            Operation::Read { lba, buffer } => {
                self.reads.note(*lba, (buffer.len() >> size) as u32, 0)
            }
            Operation::Write {
                lba,
                buffer,
                fua: false,
            } => {
                // A partial block is written again when more of it is known.
                let blocks = (buffer.len() >> size) as u32;
                self.writes.note(*lba, blocks, blocks)
            }
            _ => None,
        }
    }

    /// Starts a request, or returns it if it must wait.
    #[allow(clippy::result_large_err)]
    pub(crate) fn admit(&mut self, waiting: Waiting) -> Result<Option<Waiting>, Refused> {
        let size = self.geometry.block_size_log2;
        match &waiting.request.operation {
            Operation::Read { lba, buffer } => {
                let (lba, blocks) = (*lba, (buffer.len() >> size) as u32);
                self.read(waiting, lba, blocks)
            }
            Operation::Flush => self.barrier(waiting),
            change => {
                if let Some(error) = self.untold.take() {
                    self.complete(waiting.request, Err(error));
                    return Ok(None);
                }
                match change {
                    Operation::Write { fua: true, .. }
                    | Operation::WriteZeroes { fua: true, .. } => self.barrier(waiting),
                    Operation::Write { lba, buffer, .. } => {
                        let (lba, blocks) = (*lba, (buffer.len() >> size) as u32);
                        let is_small = blocks < self.border.blocks(Direction::Write);
                        if is_small {
                            self.gather(waiting, lba, blocks)
                        } else {
                            self.straight(waiting)
                        }
                    }
                    _ => self.straight(waiting),
                }
            }
        }
    }

    /// A flush or a write with `fua`: everything older that was gathered is written first.
    #[allow(clippy::result_large_err)]
    fn barrier(&mut self, mut waiting: Waiting) -> Result<Option<Waiting>, Refused> {
        let mark = waiting.mark;
        match self
            .lines
            .settle(None, mark, None, &mut waiting.has_retried)
        {
            Settled::Wait => Ok(Some(waiting)),
            Settled::Failed(error) => {
                self.untold = None;
                self.complete(waiting.request, Err(error));
                Ok(None)
            }
            Settled::Yes => self.straight(waiting),
        }
    }

    /// Passes a request on, when no gathered data is in its way.
    #[allow(clippy::result_large_err)]
    fn straight(&mut self, mut waiting: Waiting) -> Result<Option<Waiting>, Refused> {
        let size = self.geometry.block_size_log2;
        let Some((lba, blocks, is_change)) =
            crate::waiting::range(&waiting.request.operation, size)
        else {
            return self.pass(waiting);
        };
        let range = Some((lba, blocks));
        match self.lines.settle(range, 0, None, &mut waiting.has_retried) {
            Settled::Wait => return Ok(Some(waiting)),
            Settled::Failed(error) => {
                if is_change {
                    self.untold = None;
                }
                self.complete(waiting.request, Err(error));
                return Ok(None);
            }
            Settled::Yes => {}
        }
        if is_change {
            self.lines.invalidate(lba, blocks);
        }
        self.pass(waiting)
    }

    /// A small write: into the line that it continues, or into a new one if it continues a stream.
    #[allow(clippy::result_large_err)]
    fn gather(
        &mut self,
        mut waiting: Waiting,
        lba: u64,
        blocks: u32,
    ) -> Result<Option<Waiting>, Refused> {
        let end = lba + u64::from(blocks);
        let open = self.lines.open_at(lba);
        let continues = waiting.stream.is_some() && !self.explores_at(open);
        if open.is_none() && !continues {
            return self.straight(waiting);
        }
        let room_end = open.and_then(|index| self.lines.all.get(index));
        let first_end =
            room_end.map_or(lba, |line| end.min(line.lba + u64::from(line.room_blocks)));
        let range = Some((lba, blocks));
        match self.lines.settle(range, 0, open, &mut waiting.has_retried) {
            Settled::Wait => return Ok(Some(waiting)),
            Settled::Failed(error) => {
                self.complete(waiting.request, Err(error));
                return Ok(None);
            }
            Settled::Yes => {}
        }
        let (mut new_lines, mut at) = (0, first_end);
        while at < end {
            at = self.lines.boundary(at);
            new_lines += 1;
        }
        if new_lines > 0 && !self.has_room(new_lines, open) {
            // With every line failed there is nothing to wait for.
            return if self.lines.is_writing() || self.lines.copies > self.clean_lines() {
                Ok(Some(waiting))
            } else {
                self.straight(waiting)
            };
        }
        self.lines.invalidate(lba, blocks);
        self.put(waiting, lba, open, first_end);
        Ok(None)
    }

    fn explores_at(&mut self, open: Option<usize>) -> bool {
        open.is_none() && self.explores(Direction::Write)
    }

    /// Lines that hold what was read and can be dropped.
    fn clean_lines(&self) -> usize {
        let all = self.lines.all.iter();
        all.filter(|line| line.state == State::Clean).count()
    }

    /// Whether so many lines can be opened; otherwise begins to make room.
    fn has_room(&mut self, new_lines: usize, except: Option<usize>) -> bool {
        let most = usize::from(self.options.dirty_lines);
        // A single write may need two lines although one is the limit.
        let is_below =
            self.lines.dirty + new_lines <= most.max(new_lines + usize::from(except.is_some()));
        if is_below && self.lines.reusable() >= new_lines {
            return true;
        }
        self.lines.close_oldest(except);
        false
    }

    /// Copies a write into lines that are known to have room.
    fn put(&mut self, waiting: Waiting, lba: u64, open: Option<usize>, first_end: u64) {
        let size = self.geometry.block_size_log2;
        let Operation::Write { buffer, .. } = &waiting.request.operation else {
            return;
        };
        let (mut rest, mut at): (&[u8], u64) = (buffer, lba);
        let mut line = open;
        let mut part_end = first_end;
        while !rest.is_empty() {
            if part_end > at {
                let len = ((part_end - at) << size) as usize;
                let (part, after) = rest.split_at(len.min(rest.len()));
                if let Some(index) = line {
                    let target = self.lines.all.get_mut(index);
                    let is_full = target.is_some_and(|target| {
                        let is_put = target.put(at, part, size);
                        debug_assert!(is_put, "a line has no buffer");
                        target.blocks >= target.room_blocks
                    });
                    if is_full {
                        self.lines.set(index, State::Closed);
                    }
                }
                (rest, at) = (after, part_end);
                continue;
            }
            let now = self.clock.ticks();
            line = self.lines.begin(at, now);
            debug_assert!(line.is_some(), "room was checked");
            if let Some(index) = line {
                self.lines.set(index, State::Open);
            }
            part_end = self.lines.boundary(at);
        }
        self.statistics.gathered_writes += 1;
        self.complete(waiting.request, Ok(()));
    }

    /// A read: from gathered data, from what was read ahead, or from the device.
    #[allow(clippy::result_large_err)]
    fn read(
        &mut self,
        mut waiting: Waiting,
        lba: u64,
        blocks: u32,
    ) -> Result<Option<Waiting>, Refused> {
        if self.lines.is_dirty(lba, blocks) {
            let holds = |line: &crate::line::Line| {
                line.is_dirty() && line.state != State::Writing && line.covers(lba, blocks)
            };
            return match self.lines.all.iter().position(holds) {
                Some(index) => {
                    self.serve(&mut waiting, lba, Some(index));
                    self.complete(waiting.request, Ok(()));
                    Ok(None)
                }
                None => self.straight(waiting),
            };
        }
        if blocks >= self.border.blocks(Direction::Read) {
            return self.pass(waiting);
        }
        match self.lines.cached(lba, blocks) {
            Cached::Now if !self.explores(Direction::Read) => {
                self.serve(&mut waiting, lba, None);
                self.complete(waiting.request, Ok(()));
                return Ok(None);
            }
            Cached::Soon => {
                waiting.has_waited = true;
                return Ok(Some(waiting));
            }
            Cached::Now => return self.pass(waiting),
            Cached::No => {}
        }
        // A second time it goes straight, so that a block that cannot be read fails its own reader
        // only.
        match waiting.stream {
            Some(stream) if !waiting.has_waited && self.read_ahead(stream, lba, blocks) => {
                waiting.has_waited = true;
                Ok(Some(waiting))
            }
            _ => self.pass(waiting),
        }
    }

    /// Copies to a read's buffer from the dirty line `from`, or from the lines that hold it.
    fn serve(&mut self, waiting: &mut Waiting, lba: u64, from: Option<usize>) {
        let size = self.geometry.block_size_log2;
        let Operation::Read { buffer, .. } = &mut waiting.request.operation else {
            return;
        };
        let blocks = (buffer.len() >> size) as u32;
        let (mut rest, mut at): (&mut [u8], u64) = (buffer, lba);
        let mut entered = None;
        while !rest.is_empty() {
            let index = from.or_else(|| self.lines.copy_at(at));
            let Some(line) = index.and_then(|index| self.lines.all.get_mut(index)) else {
                debug_assert!(false, "the range was in lines");
                break;
            };
            let data = line.data(at, size);
            let len = data.len().min(rest.len());
            let (part, after) = rest.split_at_mut(len);
            part.copy_from_slice(data.get(..len).unwrap_or_default());
            let part_blocks = (len >> size) as u32;
            let is_first_use = line.used_blocks == 0;
            line.used_blocks += part_blocks;
            let end = line.end();
            (rest, at) = (after, at + u64::from(part_blocks));
            if let (None, Some(index)) = (from, index) {
                if at == end {
                    self.lines.set(index, State::Free);
                }
                if is_first_use {
                    entered = Some(end);
                }
            }
            if len == 0 {
                break;
            }
        }
        self.statistics.served_reads += u64::from(from.is_none());
        // Only now: what is read ahead may take the place of a line that this read needed.
        if let (Some(end), Some(stream)) = (entered, waiting.stream) {
            self.extend(stream, end, blocks);
        }
    }
}
