// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All lines, and what is in the way of a request.

use crate::line::{Line, State};
use block::Error;

/// What happens to a request that must not pass gathered data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// Nothing is in its way.
    Yes,
    /// It waits until lines have been written.
    Wait,
    /// A line in its way could not be written.
    Failed(Error),
}

/// How much of a range is in lines that hold what the device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cached {
    /// All of it.
    Now,
    /// All of it, when the device has read it.
    Soon,
    /// Not all of it.
    No,
}

/// The lines, with counts of their states so that a request with nothing in its way sees that at
/// once.
#[derive(Debug)]
pub(crate) struct Lines<const LINES: usize> {
    pub(crate) all: [Line; LINES],
    /// Blocks of a line.
    pub(crate) line_blocks: u32,
    /// Lines that hold data which the device does not have.
    pub(crate) dirty: usize,
    /// Lines that may still grow.
    pub(crate) open: usize,
    /// Lines to be submitted.
    pub(crate) closed: usize,
    /// Lines that hold what the device has, or will.
    pub(crate) copies: usize,
    /// The sequence of the next line.
    pub(crate) sequence: u64,
    /// Bytes that were read ahead and dropped.
    pub(crate) unused_blocks: u64,
}

impl<const LINES: usize> Lines<LINES> {
    /// Changes a line's state, and the counts.
    pub(crate) fn set(&mut self, index: usize, state: State) {
        let Some(line) = self.all.get_mut(index) else {
            return;
        };
        let counts = |line: &Line| {
            let is = |state| usize::from(line.state == state);
            let is_copy = usize::from(matches!(line.state, State::Reading | State::Clean));
            (
                usize::from(line.is_dirty()),
                is(State::Open),
                is(State::Closed),
                is_copy,
            )
        };
        let before = counts(line);
        if line.state == State::Clean && state != State::Clean {
            self.unused_blocks += u64::from(line.blocks.saturating_sub(line.used_blocks));
        }
        line.state = state;
        let after = counts(line);
        self.dirty = self.dirty + after.0 - before.0;
        self.open = self.open + after.1 - before.1;
        self.closed = self.closed + after.2 - before.2;
        self.copies = self.copies + after.3 - before.3;
    }

    /// The block after the aligned range of a line's length that `lba` is in.
    pub(crate) const fn boundary(&self, lba: u64) -> u64 {
        let line = self.line_blocks as u64;
        (lba / line).saturating_add(1).saturating_mul(line)
    }

    /// The open line that a write at `lba` continues or overwrites.
    pub(crate) fn open_at(&self, lba: u64) -> Option<usize> {
        if self.open == 0 {
            return None;
        }
        self.all.iter().position(|line| {
            line.state == State::Open
                && line.lba <= lba
                && lba <= line.end()
                && lba < line.lba + u64::from(line.room_blocks)
        })
    }

    /// Prepares for an access to the range, or to everything older than `mark`: lines in its way,
    /// but for `except`, are closed, and failed ones are tried once more.
    pub(crate) fn settle(
        &mut self,
        range: Option<(u64, u32)>,
        mark: u64,
        except: Option<usize>,
        has_retried: &mut bool,
    ) -> Settled {
        if self.dirty == 0 {
            return Settled::Yes;
        }
        let mut settled = Settled::Yes;
        for index in 0..LINES {
            let Some(line) = self.all.get(index) else {
                break;
            };
            let is_in_the_way = match range {
                Some((lba, blocks)) => line.overlaps(lba, blocks),
                None => line.sequence < mark,
            };
            if !line.is_dirty() || !is_in_the_way || except == Some(index) {
                continue;
            }
            match line.state {
                State::Failed(error) if *has_retried => {
                    if settled == Settled::Yes {
                        settled = Settled::Failed(error);
                    }
                    continue;
                }
                State::Failed(_) | State::Open => self.set(index, State::Closed),
                _ => {}
            }
            settled = Settled::Wait;
        }
        if settled == Settled::Wait {
            *has_retried = true;
        }
        settled
    }

    /// Forgets what was read of this range, which is being changed.
    pub(crate) fn invalidate(&mut self, lba: u64, blocks: u32) {
        if self.copies == 0 {
            return;
        }
        for index in 0..LINES {
            match self.all.get_mut(index) {
                Some(line) if line.overlaps(lba, blocks) => match line.state {
                    State::Clean => self.set(index, State::Free),
                    State::Reading => line.is_stale = true,
                    _ => {}
                },
                _ => {}
            }
        }
    }

    /// The line that holds block `lba` as the device has it, or will.
    pub(crate) fn copy_at(&self, lba: u64) -> Option<usize> {
        if self.copies == 0 {
            return None;
        }
        let mut all = self.all.iter();
        all.position(|line| line.is_copy() && line.covers(lba, 1))
    }

    /// How much of the range is in such lines.
    pub(crate) fn cached(&self, lba: u64, blocks: u32) -> Cached {
        let (mut at, end) = (lba, lba + u64::from(blocks));
        let mut cached = Cached::Now;
        while at < end {
            let Some(line) = self.copy_at(at).and_then(|index| self.all.get(index)) else {
                return Cached::No;
            };
            if line.state == State::Reading {
                cached = Cached::Soon;
            }
            at = line.end();
        }
        cached
    }

    /// Whether a line holds data of this range which the device does not have.
    pub(crate) fn is_dirty(&self, lba: u64, blocks: u32) -> bool {
        let mut all = self.all.iter();
        self.dirty > 0 && all.any(|line| line.is_dirty() && line.overlaps(lba, blocks))
    }

    /// The first block from `lba` on, up to `end`, which a dirty line holds; `end` if none does.
    pub(crate) fn clean_until(&self, lba: u64, end: u64) -> u64 {
        let dirty = self.all.iter().filter(|line| line.is_dirty());
        let starts = dirty.filter(|line| line.end() > lba).map(|line| line.lba);
        starts.fold(end, |least, start| least.min(start.max(lba)))
    }

    /// How many lines could be used for something else.
    pub(crate) fn reusable(&self) -> usize {
        self.all.iter().filter(|line| line.is_reusable()).count()
    }

    /// A line for something else: a free one, or else the oldest of those that hold a copy. It is
    /// free then, begins at `lba`, and has room up to the next boundary.
    pub(crate) fn begin(&mut self, lba: u64, now: u64) -> Option<usize> {
        let usable = self
            .all
            .iter()
            .enumerate()
            .filter(|(_, line)| line.is_reusable());
        let (index, _) =
            usable.min_by_key(|(_, line)| (line.state != State::Free, line.sequence))?;
        self.set(index, State::Free);
        let room_blocks = (self.boundary(lba) - lba) as u32;
        let sequence = self.sequence;
        self.sequence += 1;
        let line = self.all.get_mut(index)?;
        line.lba = lba;
        line.blocks = 0;
        line.room_blocks = room_blocks;
        line.sequence = sequence;
        line.since = now;
        line.is_stale = false;
        line.used_blocks = 0;
        Some(index)
    }

    /// Closes the oldest open line but for `except`. Whether there was one.
    pub(crate) fn close_oldest(&mut self, except: Option<usize>) -> bool {
        let open = self.all.iter().enumerate();
        let open = open.filter(|(index, line)| line.state == State::Open && except != Some(*index));
        match open
            .min_by_key(|(_, line)| line.sequence)
            .map(|(index, _)| index)
        {
            Some(index) => {
                self.set(index, State::Closed);
                true
            }
            None => false,
        }
    }

    /// Closes lines that were opened before `before`. How many.
    pub(crate) fn expire(&mut self, before: u64) -> u64 {
        let mut count = 0;
        for index in 0..LINES {
            let line = self.all.get(index);
            if line.is_some_and(|line| line.state == State::Open && line.since <= before) {
                self.set(index, State::Closed);
                count += 1;
            }
        }
        count
    }

    /// Whether the device has the buffer of a dirty line, or will get it.
    pub(crate) fn is_writing(&self) -> bool {
        let mut all = self.all.iter();
        all.any(|line| matches!(line.state, State::Closed | State::Writing))
    }
}
