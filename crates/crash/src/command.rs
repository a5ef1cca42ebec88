// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A command in logs, rules and violations: an operation without its buffer.

use block::Operation;
use std::fmt;
use std::ops::Range;

/// The kinds of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommandKind {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Write zeroes.
    WriteZeroes,
    /// Discard.
    Discard,
    /// Flush.
    Flush,
}

/// A command that a device accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Command {
    /// From 1, in order of submission. [`CrashDisk`](crate::CrashDisk) numbers what may change
    /// the medium (all but reads); the wrappers number everything.
    pub number: u64,
    /// Its kind.
    pub kind: CommandKind,
    /// First logical block; 0 for a flush.
    pub lba: u64,
    /// Number of blocks; 0 for a flush.
    pub block_count: u32,
    /// Whether it completes only when durable.
    pub fua: bool,
}

impl Command {
    /// The command for `operation`, on a device with blocks of `1 << block_size_log2` bytes.
    pub(crate) fn new(number: u64, operation: &Operation, block_size_log2: u8) -> Self {
        let blocks = |len: usize| u32::try_from(len >> block_size_log2).unwrap_or(u32::MAX);
        let (kind, lba, block_count, fua) = match operation {
            Operation::Read { lba, buffer } => {
                (CommandKind::Read, *lba, blocks(buffer.len()), false)
            }
            Operation::Write { lba, buffer, fua } => {
                (CommandKind::Write, *lba, blocks(buffer.len()), *fua)
            }
            Operation::Flush => (CommandKind::Flush, 0, 0, false),
            Operation::Discard { lba, block_count } => {
                (CommandKind::Discard, *lba, *block_count, false)
            }
            Operation::WriteZeroes {
                lba,
                block_count,
                fua,
            } => (CommandKind::WriteZeroes, *lba, *block_count, *fua),
        };
        Self {
            number,
            kind,
            lba,
            block_count,
            fua,
        }
    }

    /// The blocks that it addresses.
    pub fn range(&self) -> Range<u64> {
        self.lba..self.lba.saturating_add(u64::from(self.block_count))
    }

    /// Whether it changes blocks: a write, write-zeroes or discard.
    pub fn changes_blocks(&self) -> bool {
        matches!(
            self.kind,
            CommandKind::Write | CommandKind::WriteZeroes | CommandKind::Discard
        )
    }

    /// Whether it addresses a block of `range`.
    pub fn touches(&self, range: &Range<u64>) -> bool {
        !intersection(&self.range(), range).is_empty()
    }
}

/// The blocks that are in both.
pub(crate) fn intersection(one: &Range<u64>, other: &Range<u64>) -> Range<u64> {
    one.start.max(other.start)..one.end.min(other.end)
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.kind {
            CommandKind::Read => "read",
            CommandKind::Write if self.fua => "FUA write",
            CommandKind::Write => "write",
            CommandKind::WriteZeroes if self.fua => "FUA write-zeroes",
            CommandKind::WriteZeroes => "write-zeroes",
            CommandKind::Discard => "discard",
            CommandKind::Flush => return write!(f, "#{} flush", self.number),
        };
        let (number, lba, count) = (self.number, self.lba, self.block_count);
        write!(f, "#{number} {name} of {count} at {lba}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_its_blocks() {
        let operation = Operation::WriteZeroes {
            lba: 10,
            block_count: 4,
            fua: true,
        };
        let command = Command::new(3, &operation, 9);
        assert_eq!(command.range(), 10..14);
        assert!(command.touches(&(13..20)) && !command.touches(&(14..20)));
        assert!(!command.touches(&(12..12)));
        assert_eq!(command.to_string(), "#3 FUA write-zeroes of 4 at 10");
        let flush = Command::new(4, &Operation::Flush, 9);
        assert!(!flush.changes_blocks() && !flush.touches(&(0..u64::MAX)));
    }
}
