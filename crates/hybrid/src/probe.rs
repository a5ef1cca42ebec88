// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The measurement of the border when the device is opened. It only reads.

use crate::border::Direction;
use crate::hybrid::Hybrid;
use block::{Clock, Device, Operation, Request};

/// How often each size is read.
const READS_PER_SIZE: u32 = 4;
/// A device that does not answer is given up after this share of the time.
const WAIT_US: u32 = 1_000;

impl<D: Device, C: Clock, const LINES: usize, const DEPTH: usize> Hybrid<D, C, LINES, DEPTH> {
    /// Times reads of each size, lines with several in flight, and a copy. Sizes that there is no
    /// time for are derived from smaller ones; a read that fails is not counted, its reader will
    /// see it.
    pub(crate) fn probe(&mut self) {
        let began = self.clock.ticks();
        let until =
            began.saturating_add(self.clock.ticks_from_us(u64::from(self.options.probe_us)));
        let line_blocks = self.lines.line_blocks;
        // Far apart and never twice, or a cache would answer.
        let mut at = self.geometry.block_count / 3;
        let step = (self.geometry.block_count / 97).max(u64::from(line_blocks));
        let mut next = |count: u64, blocks: u32| {
            let room = count.saturating_sub(u64::from(blocks)) + 1;
            at = (at + step) % room;
            at - at % u64::from(blocks).min(room)
        };
        let count = self.geometry.block_count;
        let together = LINES
            .min(usize::from(self.device.geometry().queue_depth))
            .min(4);
        // The least time of each size: what is longer had other reasons.
        let mut least = None;
        for _ in 0..2 {
            let lbas = core::array::from_fn::<u64, 4, _>(|_| next(count, line_blocks));
            let lbas = lbas.get(..together).unwrap_or_default();
            least = shorter(least, self.timed(lbas, line_blocks));
        }
        if let Some(ticks) = least {
            let share = ticks / together.max(1) as u64;
            self.border.saw_line(Direction::Read, line_blocks, share);
        }
        let mut blocks = 1;
        while blocks <= line_blocks && self.clock.ticks() <= until {
            let mut least = None;
            for _ in 0..READS_PER_SIZE {
                least = shorter(least, self.timed(&[next(count, blocks)], blocks));
            }
            if let Some(ticks) = least {
                self.border.saw_direct(Direction::Read, blocks, ticks);
            }
            blocks *= 2;
        }
        let copied = self.timed_copy();
        self.border.measured(copied);
    }

    /// The ticks from the submission of reads at `lbas`, each to a line of its own, to the last
    /// one's end; `None` if any failed.
    fn timed(&mut self, lbas: &[u64], blocks: u32) -> Option<u64> {
        let size = self.geometry.block_size_log2;
        let mut result = Some(());
        let began = self.clock.ticks();
        for (index, (line, lba)) in self.lines.all.iter_mut().zip(lbas).enumerate() {
            line.blocks = blocks;
            let Some(buffer) = line.lend(size) else {
                continue;
            };
            let operation = Operation::Read { lba: *lba, buffer };
            let tag = index as u32;
            if let Err(refused) = self.device.submit(Request { tag, operation }) {
                line.take_back(refused.request.operation.into_buffer());
                result = None;
            }
        }
        self.device.kick();
        while self.device.outstanding() > 0 {
            match self.device.poll() {
                Some(completion) => {
                    let line = self.lines.all.get_mut(completion.tag as usize);
                    let is_whole = line.is_some_and(|line| line.take_back(completion.buffer));
                    result = result.filter(|()| is_whole && completion.result.is_ok());
                }
                None => self.device.wait(WAIT_US),
            }
        }
        let ticks = self.clock.ticks().saturating_sub(began);
        result.map(|()| ticks)
    }

    /// The ticks of copying a line, the better of two.
    fn timed_copy(&mut self) -> u64 {
        let (size, blocks) = (self.geometry.block_size_log2, self.lines.line_blocks);
        let [first, second, ..] = &mut self.lines.all[..] else {
            return 0;
        };
        (first.lba, first.blocks, second.lba) = (0, blocks, 0);
        let times = [(); 2].map(|()| {
            let began = self.clock.ticks();
            second.put(0, first.data(0, size), size);
            self.clock.ticks().saturating_sub(began)
        });
        times[0].min(times[1])
    }
}

fn shorter(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
