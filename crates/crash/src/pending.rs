// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The volatile write cache: what was written and may not survive.
//!
//! A write is pending from its submission until it is durable. Completed writes are in order of
//! completion, which is the order in which they took effect; outstanding ones follow.

use crate::command::Command;
use crate::content::Content;
use crate::medium::Medium;

/// A change that a power cut now may leave, lose or tear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The write, write-zeroes or discard.
    pub command: Command,
    /// Whether it has completed.
    pub is_completed: bool,
}

/// A pending change and the blocks that it writes; no content is the medium's background.
#[derive(Clone, Debug)]
pub(crate) struct Cached {
    pub(crate) command: Command,
    /// When it completed, counted in completions.
    pub(crate) completed: Option<u64>,
    pub(crate) blocks: Vec<(u64, Option<Content>)>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Cache {
    writes: Vec<Cached>,
    completions: u64,
}

impl Cache {
    pub(crate) fn writes(&self) -> &[Cached] {
        &self.writes
    }

    /// The current time, in completions: a flush submitted now covers what completed up to here.
    pub(crate) fn now(&self) -> u64 {
        self.completions
    }

    pub(crate) fn submit(&mut self, command: Command, blocks: Vec<(u64, Option<Content>)>) {
        self.writes.push(Cached {
            command,
            completed: None,
            blocks,
        });
    }

    /// Applies the write with this number to `current`.
    pub(crate) fn complete(&mut self, number: u64, current: &mut Medium) {
        let Some(at) = self.find(number) else {
            return;
        };
        let mut write = self.writes.remove(at);
        self.completions += 1;
        write.completed = Some(self.completions);
        for (lba, content) in &write.blocks {
            current.set(*lba, content.clone());
        }
        let under_way = self
            .writes
            .iter()
            .position(|write| write.completed.is_none());
        self.writes
            .insert(under_way.unwrap_or(self.writes.len()), write);
    }

    /// Marks the completed write with this number as durable; what it overwrote cannot come back.
    pub(crate) fn settle(&mut self, number: u64, durable: &mut Medium) {
        let Some(at) = self.find(number) else {
            return;
        };
        let settled = self.writes.remove(at);
        for (lba, content) in settled.blocks {
            durable.set(lba, content);
            for older in self.writes.iter_mut().take(at) {
                older.blocks.retain(|(other, _)| *other != lba);
            }
        }
        self.writes
            .retain(|write| write.completed.is_none() || !write.blocks.is_empty());
    }

    /// Marks what completed up to `mark` as durable.
    pub(crate) fn settle_all(&mut self, mark: u64, durable: &mut Medium) {
        self.writes.retain_mut(|write| {
            if write.completed.is_none_or(|completed| completed > mark) {
                return true;
            }
            for (lba, content) in write.blocks.drain(..) {
                durable.set(lba, content);
            }
            false
        });
    }

    fn find(&self, number: u64) -> Option<usize> {
        self.writes
            .iter()
            .position(|write| write.command.number == number)
    }
}
