// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts of commands.

use crate::command::{Command, CommandKind};
use std::ops::Sub;

/// Counts of one kind of command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Commands.
    pub commands: u64,
    /// Blocks that they addressed.
    pub blocks: u64,
    /// Those blocks in bytes.
    pub bytes: u64,
}

impl Tally {
    fn add(&mut self, blocks: u64, block_size_log2: u8) {
        self.commands += 1;
        self.blocks += blocks;
        self.bytes += blocks << block_size_log2;
    }
}

impl Sub for Tally {
    type Output = Tally;

    fn sub(self, earlier: Tally) -> Tally {
        Tally {
            commands: self.commands - earlier.commands,
            blocks: self.blocks - earlier.blocks,
            bytes: self.bytes - earlier.bytes,
        }
    }
}

/// Counts of the commands that a device accepted. The difference of two counts is what happened in
/// between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads.
    pub reads: Tally,
    /// Writes, FUA or not.
    pub writes: Tally,
    /// Write-zeroes, FUA or not.
    pub write_zeroes: Tally,
    /// Discards.
    pub discards: Tally,
    /// Flushes.
    pub flushes: u64,
    /// Writes and write-zeroes that were FUA.
    pub fua: u64,
    /// Completions with an error.
    pub errors: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, command: &Command, block_size_log2: u8) {
        let blocks = u64::from(command.block_count);
        self.fua += u64::from(command.fua);
        match command.kind {
            CommandKind::Read => self.reads.add(blocks, block_size_log2),
            CommandKind::Write => self.writes.add(blocks, block_size_log2),
            CommandKind::WriteZeroes => self.write_zeroes.add(blocks, block_size_log2),
            CommandKind::Discard => self.discards.add(blocks, block_size_log2),
            CommandKind::Flush => self.flushes += 1,
        }
    }

    /// All commands.
    pub fn commands(&self) -> u64 {
        let tallies = [self.reads, self.writes, self.write_zeroes, self.discards];
        tallies.iter().map(|tally| tally.commands).sum::<u64>() + self.flushes
    }
}

impl Sub for Counts {
    type Output = Counts;

    fn sub(self, earlier: Counts) -> Counts {
        Counts {
            reads: self.reads - earlier.reads,
            writes: self.writes - earlier.writes,
            write_zeroes: self.write_zeroes - earlier.write_zeroes,
            discards: self.discards - earlier.discards,
            flushes: self.flushes - earlier.flushes,
            fua: self.fua - earlier.fua,
            errors: self.errors - earlier.errors,
        }
    }
}
