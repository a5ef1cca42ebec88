// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a comparison measures, and for how long.

use crate::access::{Access, Operation, Pattern};
use crate::path::Missing;
use std::time::Duration;

/// Why a comparison did not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// No path, operation, pattern, block size, round or queue slot was requested.
    #[error("nothing to measure: name at least one path, operation, pattern, block size and round")]
    NothingToDo,
    /// Two paths have one name.
    #[error("two paths are called {name}")]
    SameName {
        /// The name.
        name: String,
    },
    /// A block is larger than the span, or empty.
    #[error("blocks of {block_size_bytes} bytes need a larger span than {span_bytes} bytes")]
    SpanTooSmall {
        /// The span.
        span_bytes: u64,
        /// The largest block.
        block_size_bytes: u64,
    },
    /// Processor time cannot be read.
    #[error("processor time cannot be measured: {0}")]
    CpuTime(Missing),
}

/// What is measured, and for how long.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Reads, writes or both. Writes destroy the data in each path's region.
    pub operations: Vec<Operation>,
    /// Sequential, random or both.
    pub patterns: Vec<Pattern>,
    /// Bytes per operation; multiples of every device's logical block.
    pub block_sizes_bytes: Vec<u64>,
    /// Rounds; at least 5 for intervals, at least 6 to detect drift.
    pub rounds: u32,
    /// Measured time of a cell.
    pub cell_duration: Duration,
    /// Warm-up time before it.
    pub warm_up: Duration,
    /// How long the idle machine is observed.
    pub idle_duration: Duration,
    /// Operations in flight; a path with a lower limit uses its limit.
    pub queue_depth: u16,
    /// Threads, each with this number of operations in flight.
    pub threads: u16,
    /// Length of the range of offsets in each path's region: at most the smallest region.
    pub span_bytes: u64,
}

impl Default for Settings {
    /// Reads only: random and sequential, 4 KiB to 16 MiB, 7 rounds of 1 s over 1 GiB.
    fn default() -> Self {
        Self {
            operations: vec![Operation::Read],
            patterns: vec![Pattern::Sequential, Pattern::Random],
            block_sizes_bytes: vec![4 << 10, 32 << 10, 128 << 10, 1 << 20, 16 << 20],
            rounds: 7,
            cell_duration: Duration::from_secs(1),
            warm_up: Duration::from_millis(200),
            idle_duration: Duration::from_secs(2),
            queue_depth: 1,
            threads: 1,
            span_bytes: 1 << 30,
        }
    }
}

impl Settings {
    /// All accesses without duplicates, in order.
    pub fn accesses(&self) -> Vec<Access> {
        let mut accesses = Vec::new();
        for &operation in &self.operations {
            for &pattern in &self.patterns {
                for &block_size_bytes in &self.block_sizes_bytes {
                    accesses.push(Access::new(operation, pattern, block_size_bytes));
                }
            }
        }
        accesses.sort_unstable();
        accesses.dedup();
        accesses
    }

    /// How long the cells take without opening, closing and switching drivers.
    pub fn least_duration(&self, path_count: usize) -> Duration {
        let cells = self.accesses().len().saturating_mul(path_count);
        let cells = u32::try_from(cells).unwrap_or(u32::MAX);
        let cell = self.cell_duration.saturating_add(self.warm_up);
        cell.saturating_mul(cells.saturating_mul(self.rounds))
            .saturating_add(self.idle_duration)
    }

    /// The accesses, if the settings are valid.
    pub(crate) fn check(&self) -> Result<Vec<Access>, CompareError> {
        let accesses = self.accesses();
        if accesses.is_empty() || self.rounds == 0 || self.queue_depth == 0 || self.threads == 0 {
            return Err(CompareError::NothingToDo);
        }
        let largest = self.block_sizes_bytes.iter().copied().max().unwrap_or(0);
        if largest > self.span_bytes || self.block_sizes_bytes.contains(&0) {
            return Err(CompareError::SpanTooSmall {
                span_bytes: self.span_bytes,
                block_size_bytes: largest,
            });
        }
        Ok(accesses)
    }
}
