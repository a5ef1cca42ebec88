// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The access to measure: operation, pattern and block size, and the resulting offsets.

use crate::random::{Quick, Random};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Read or write.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// From the drive to memory.
    Read,
    /// From memory to the drive, followed by one flush.
    Write,
}

/// The order of offsets.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Consecutive blocks, starting again at the end.
    Sequential,
    /// Uniformly distributed blocks.
    Random,
}

shown_as_in_json!(Operation, Pattern);

/// One kind of access.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct Access {
    /// Read or write.
    pub operation: Operation,
    /// Sequential or random.
    pub pattern: Pattern,
    /// Bytes that one operation moves.
    pub block_size_bytes: u64,
}

impl Access {
    /// Operations of this kind, in blocks of `block_size_bytes`.
    pub const fn new(operation: Operation, pattern: Pattern, block_size_bytes: u64) -> Self {
        Self {
            operation,
            pattern,
            block_size_bytes,
        }
    }

    /// The access without its block size.
    pub const fn kind(self) -> (Operation, Pattern) {
        (self.operation, self.pattern)
    }
}

/// `random read of 4 KiB`.
impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = crate::format::size(self.block_size_bytes);
        write!(f, "{} {} of {bytes}", self.pattern, self.operation)
    }
}

/// The offsets of successive operations, in bytes from the start of the region. They depend on the
/// seed, the access and the round, but not on the path: all paths use the same offsets.
#[derive(Clone, Debug)]
pub struct Offsets {
    pattern: Pattern,
    block_size_bytes: u64,
    slot_count: u64,
    next: u64,
    random: Quick,
}

impl Offsets {
    /// The sequence of one cell over the first `span_bytes` of a region. If the span is shorter
    /// than a block, all offsets are 0.
    pub fn new(access: Access, span_bytes: u64, seed: u64, round: u32) -> Self {
        let salts = [
            access.operation as u64,
            access.pattern as u64,
            access.block_size_bytes,
            u64::from(round),
        ];
        let block_size_bytes = access.block_size_bytes.max(1);
        Self {
            pattern: access.pattern,
            block_size_bytes,
            slot_count: (span_bytes / block_size_bytes).max(1),
            next: 0,
            random: Quick::from(&mut Random::derived(seed, &salts)),
        }
    }

    /// The next operation's offset.
    #[inline]
    pub fn next_offset(&mut self) -> u64 {
        self.next_index() * self.block_size_bytes
    }

    /// The next operation's offset, in blocks of the operation's size.
    #[inline]
    pub(crate) fn next_index(&mut self) -> u64 {
        match self.pattern {
            Pattern::Sequential => {
                let index = self.next;
                self.next = if index + 1 == self.slot_count {
                    0
                } else {
                    index + 1
                };
                index
            }
            Pattern::Random => self.random.below(self.slot_count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(pattern: Pattern) -> Access {
        Access {
            operation: Operation::Read,
            pattern,
            block_size_bytes: 4096,
        }
    }

    #[test]
    fn sequential_offsets_wrap_before_a_partial_block() {
        let mut offsets = Offsets::new(access(Pattern::Sequential), 3 * 4096 + 100, 1, 0);
        let taken: Vec<u64> = (0..4).map(|_| offsets.next_offset()).collect();
        assert_eq!(taken, [0, 4096, 8192, 0]);
    }

    #[test]
    fn random_offsets_repeat_by_seed_and_change_by_round() {
        let take = |seed, round| {
            let mut offsets = Offsets::new(access(Pattern::Random), 1 << 20, seed, round);
            (0..50).map(|_| offsets.next_offset()).collect::<Vec<_>>()
        };
        assert_eq!(take(1, 0), take(1, 0));
        assert_ne!(take(1, 0), take(1, 1));
        assert_ne!(take(1, 0), take(2, 0));
        assert!(take(1, 0).iter().all(|o| o % 4096 == 0 && *o < 1 << 20));
    }
}
