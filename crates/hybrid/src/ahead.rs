// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reading ahead of a sequential reader.

use crate::border::Direction;
use crate::hybrid::Hybrid;
use crate::line::State;
use block::{Clock, Device};

impl<D: Device, C: Clock, const LINES: usize, const DEPTH: usize> Hybrid<D, C, LINES, DEPTH> {
    /// Starts to read lines that together hold the range. `false` if that is not possible, or off.
    pub(crate) fn read_ahead(&mut self, stream: usize, lba: u64, blocks: u32) -> bool {
        if self.options.ahead_lines == 0 {
            return false;
        }
        let (mut at, end) = (lba, lba + u64::from(blocks));
        while at < end {
            match self.read_line(stream, at, blocks) {
                Some(after) => at = after,
                None => return false,
            }
        }
        true
    }

    /// Keeps the lines after `lba` being read.
    pub(crate) fn extend(&mut self, stream: usize, lba: u64, blocks: u32) {
        let mut at = lba;
        for _ in 0..self.options.ahead_lines {
            match self.read_line(stream, at, blocks) {
                Some(after) => at = after,
                None => break,
            }
        }
    }

    /// Starts to read one line at `lba`, if no line has it. The block after that line.
    fn read_line(&mut self, stream: usize, lba: u64, access_blocks: u32) -> Option<u64> {
        if let Some(line) = self
            .lines
            .copy_at(lba)
            .and_then(|index| self.lines.all.get(index))
        {
            return Some(line.end());
        }
        let end = self.lines.boundary(lba).min(self.geometry.block_count);
        let end = self.lines.clean_until(lba, end);
        if end <= lba {
            return None;
        }
        let window = self
            .reads
            .window(stream, access_blocks, self.lines.line_blocks);
        let index = self.lines.begin(lba, 0)?;
        if let Some(line) = self.lines.all.get_mut(index) {
            line.blocks = ((end - lba) as u32).min(window);
        }
        if self.submit_line(index, Direction::Read) {
            self.lines.all.get(index).map(crate::line::Line::end)
        } else {
            self.lines.set(index, State::Free);
            None
        }
    }
}
