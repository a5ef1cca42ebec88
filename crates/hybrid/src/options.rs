// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings and counters.

use block::Buffer;
use core::fmt;

/// The settings of a [`Hybrid`](crate::Hybrid).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HybridOptions {
    /// The most lines that hold data which is not on the device yet: the bound of the write-behind
    /// in bytes is this times a line's length. At least 1, at most all lines but one.
    pub dirty_lines: u8,
    /// How long gathered data may wait for more, in microseconds.
    pub hold_us: u32,
    /// How many lines are read ahead of a sequential reader; 0 for none.
    pub ahead_lines: u8,
    /// How long the measurement of the border may take at the opening, in microseconds.
    pub probe_us: u32,
    /// A border in blocks that is used instead of a measured one, for tests and comparisons.
    pub fixed_border_blocks: Option<u32>,
}

impl Default for HybridOptions {
    /// Four dirty lines, 20 ms, three lines ahead, at most 50 ms of measuring.
    fn default() -> Self {
        Self {
            dirty_lines: 4,
            hold_us: 20_000,
            ahead_lines: 3,
            probe_us: 50_000,
            fixed_border_blocks: None,
        }
    }
}

/// What a [`Hybrid`](crate::Hybrid) has done. The difference of two is what happened in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Requests that were passed on without a copy.
    pub direct_requests: u64,
    /// Writes that were copied into a line.
    pub gathered_writes: u64,
    /// Commands that wrote a line.
    pub line_writes: u64,
    /// Bytes of those commands.
    pub line_write_bytes: u64,
    /// Reads that were served from a line.
    pub served_reads: u64,
    /// Commands that read ahead.
    pub line_reads: u64,
    /// Bytes of those commands.
    pub line_read_bytes: u64,
    /// Bytes that were read ahead and dropped without being used.
    pub unused_bytes: u64,
    /// Lines that were written because their time was up.
    pub expired_lines: u64,
    /// Commands for lines that failed: late errors, if they were writes.
    pub failed_lines: u64,
    /// How often the border has moved since the opening.
    pub border_moves: u64,
}

/// Why a [`Hybrid`](crate::Hybrid) was not opened, with everything that was given.
pub struct OpenError<D, const LINES: usize> {
    /// What to change.
    pub reason: &'static str,
    /// The device.
    pub device: D,
    /// The lines; one is missing if the device did not return it.
    pub lines: [Option<Buffer>; LINES],
}

impl<D, const LINES: usize> fmt::Debug for OpenError<D, LINES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason)
    }
}

impl<D, const LINES: usize> fmt::Display for OpenError<D, LINES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason)
    }
}
