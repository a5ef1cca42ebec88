// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The border between small accesses and large ones.
//!
//! For each power of two it keeps the time of a direct command, and beside it the time of a line's
//! command and of copying a line. An access is gathered if its share of a line costs less than a
//! command of its own. The caller's requests in flight are in the numbers: a command's time is
//! divided by the commands that the device had at once.

/// Sizes: 2^0 to 2^19 blocks.
const CLASSES: usize = 20;
/// Times are kept in sixteenths of a tick.
const FRACTION: u64 = 16;
/// A new time has this share in the average: 1/4.
const WEIGHT_LOG2: u32 = 2;
/// A time counts as at most so many averages: a preemption is not the device's.
const MOST_AVERAGES: u64 = 4;

/// Which way data moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the device.
    Read,
    /// To the device.
    Write,
}

/// The times of one direction.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// Of a direct command of each size; 0 where none was seen.
    direct: [u64; CLASSES],
    /// Of a line's command.
    line: u64,
    border_blocks: u32,
}

/// The border, for each direction.
#[derive(Clone, Copy, Debug)]
pub struct Border {
    read: Times,
    write: Times,
    /// Of copying a line.
    copy: u64,
    line_blocks: u32,
    /// Whether the device works while a line is copied.
    overlaps: bool,
    /// The border does not move.
    is_fixed: bool,
    pub(crate) moves: u64,
}

impl Border {
    pub(crate) fn new(line_blocks: u32, overlaps: bool, fixed: Option<u32>) -> Self {
        let times = Times {
            border_blocks: fixed.unwrap_or(0).min(line_blocks),
            ..Times::default()
        };
        Self {
            read: times,
            write: times,
            copy: 0,
            line_blocks,
            overlaps,
            is_fixed: fixed.is_some(),
            moves: 0,
        }
    }

    /// Accesses of fewer blocks are gathered; 0 or 1 if none is, at most a line.
    #[inline]
    pub const fn blocks(&self, direction: Direction) -> u32 {
        match direction {
            Direction::Read => self.read.border_blocks,
            Direction::Write => self.write.border_blocks,
        }
    }

    const fn times(&mut self, direction: Direction) -> &mut Times {
        match direction {
            Direction::Read => &mut self.read,
            Direction::Write => &mut self.write,
        }
    }

    /// The measurements of the opening: reads stand for writes until the first write is seen,
    /// because nothing may be written for a measurement.
    pub(crate) fn measured(&mut self, copy_ticks: u64) {
        self.copy = copy_ticks * FRACTION;
        // What was computed from a part of the measurements has no say.
        if !self.is_fixed {
            self.read.border_blocks = 0;
            self.write = self.read;
        }
        self.move_to(Direction::Read);
        self.move_to(Direction::Write);
        self.moves = 0;
    }

    /// A direct command of `blocks` took `ticks`, divided by the number of commands at once.
    pub(crate) fn saw_direct(&mut self, direction: Direction, blocks: u32, ticks: u64) {
        if let Some(time) = self.times(direction).direct.get_mut(class(blocks)) {
            average(time, ticks);
        }
        self.move_to(direction);
    }

    /// A line's command of `blocks` took `ticks`, divided by the number of commands at once.
    pub(crate) fn saw_line(&mut self, direction: Direction, blocks: u32, ticks: u64) {
        let whole = ticks.saturating_mul(u64::from(self.line_blocks)) / u64::from(blocks.max(1));
        average(&mut self.times(direction).line, whole);
        self.move_to(direction);
    }

    /// The time of a direct command of a size: as seen, or else that of the nearest shorter size
    /// with a line's time for each further block, or else that of the nearest longer one.
    fn direct(times: &Times, class: usize, line_blocks: u64) -> Option<u64> {
        let below = (0..=class).rev().find_map(|other| {
            let time = *times.direct.get(other)?;
            let further_blocks = (1u64 << class) - (1u64 << other);
            let further = times.line.saturating_mul(further_blocks) / line_blocks;
            (time > 0).then(|| time.saturating_add(further))
        });
        below.or_else(|| {
            let mut above = times.direct.iter().skip(class);
            above.find(|time| **time > 0).copied()
        })
    }

    /// Computes the border again.
    fn move_to(&mut self, direction: Direction) {
        if self.is_fixed {
            return;
        }
        let (line_blocks, copy) = (u64::from(self.line_blocks), self.copy);
        let overlaps = self.overlaps;
        let times = self.times(direction);
        if times.line == 0 {
            return;
        }
        let line = if overlaps {
            times.line.max(copy)
        } else {
            times.line + copy
        };
        let before = times.border_blocks;
        let mut border = 0;
        for class in 0..CLASSES {
            let blocks = 1u64 << class;
            if blocks >= line_blocks {
                break;
            }
            let Some(direct) = Self::direct(times, class, line_blocks) else {
                break;
            };
            let gathered = line.saturating_mul(blocks) / line_blocks;
            // An eighth in favour of the side where the size is, or noise would move the border.
            let is_small = blocks < u64::from(before);
            let is_better = if is_small {
                gathered - gathered / 8 < direct
            } else {
                gathered < direct - direct / 8
            };
            if !is_better {
                break;
            }
            border = (blocks * 2).min(line_blocks) as u32;
        }
        times.border_blocks = border;
        self.moves += u64::from(border != before);
    }
}

/// The class of a length: the largest power of two that is not above it.
const fn class(blocks: u32) -> usize {
    let class = (31 - (blocks | 1).leading_zeros()) as usize;
    if class < CLASSES { class } else { CLASSES - 1 }
}

fn average(time: &mut u64, ticks: u64) {
    let new = ticks.saturating_mul(FRACTION).max(1);
    *time = match *time {
        0 => new,
        old if new >= old => {
            let new = new.min(old.saturating_mul(MOST_AVERAGES));
            old + ((new - old) >> WEIGHT_LOG2)
        }
        old => old - ((old - new) >> WEIGHT_LOG2),
    }
    .max(1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{Read, Write};

    /// A device with a fixed cost of a command and a cost of a block, and a copy's cost of a block.
    fn border(command: u64, block: u64, copy: u64, overlaps: bool) -> Border {
        let mut border = Border::new(1024, overlaps, None);
        for class in 0..=10 {
            border.saw_direct(Read, 1 << class, command + (block << class));
        }
        border.saw_line(Read, 1024, command + block * 1024);
        border.measured(copy * 1024);
        border
    }

    #[test]
    fn the_border_is_where_a_command_of_its_own_becomes_cheaper() {
        // A command costs as much as 100 blocks. With no copy to pay, half a line still gains.
        assert_eq!(border(1000, 10, 0, true).blocks(Read), 512);
        // A copy of twice the transfer: 20 a block against 1000 + 10 a block, equal at 100.
        assert_eq!(border(1000, 10, 20, true).blocks(Read), 128);
        // A command that costs nothing, or a copy that costs most: nothing is gathered.
        assert_eq!(border(0, 10, 0, true).blocks(Read), 0);
        assert_eq!(border(100, 10, 500, true).blocks(Read), 0);
        // Without overlap the copy is added.
        assert!(border(1000, 10, 8, false).blocks(Read) < border(1000, 10, 8, true).blocks(Read));
    }

    #[test]
    fn the_border_follows_what_is_seen_in_one_direction() {
        let mut border = border(1000, 10, 20, true);
        assert_eq!(border.blocks(Write), 128);
        // Many writes at once make commands cheap.
        for _ in 0..40 {
            for class in 0..10 {
                border.saw_direct(Write, 1 << class, 5 + (10 << class));
            }
        }
        assert_eq!((border.blocks(Write), border.blocks(Read)), (0, 128));
        assert!(border.moves > 0);
        // And dear again.
        for _ in 0..40 {
            for class in 0..10 {
                border.saw_direct(Write, 1 << class, 1000 + (10 << class));
            }
        }
        assert_eq!(border.blocks(Write), 128);
    }

    #[test]
    fn noise_does_not_move_the_border_and_a_fixed_one_stays() {
        let mut border = border(1000, 10, 20, true);
        for turn in 0..1000 {
            let time = 1000 + (10 << 6) + if turn % 2 == 0 { 90 } else { 0 };
            border.saw_direct(Read, 64, time);
        }
        assert_eq!(border.moves, 0);
        let mut fixed = Border::new(1024, true, Some(77));
        fixed.saw_direct(Read, 1, 1);
        fixed.saw_line(Read, 1024, 1 << 40);
        assert_eq!((fixed.blocks(Read), fixed.blocks(Write)), (77, 77));
    }
}
