// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A stream's counters, as plain values.

use crate::Histogram;

/// A recording's counters so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordReport {
    /// Blocks that were handed in.
    pub blocks: u64,
    /// Bytes that were handed in.
    pub bytes: u64,
    /// Bytes of blocks that are wholly written.
    pub written_bytes: u64,
    /// The size up to which the file is known to be durable: everything before it survives a power
    /// cut.
    pub durable_bytes: u64,
    /// Blocks that were written after their deadline.
    pub misses: u64,
    /// The longest by which a deadline was missed.
    pub lateness_max_us: u64,
    /// The longest time from a block's intended arrival until it was written.
    pub latency_max_us: u64,
    /// The distribution of those times.
    pub latencies: Histogram,
    /// Most blocks that waited or were being written at one time.
    pub waiting_max_blocks: u64,
    /// Most bytes in such blocks.
    pub waiting_max_bytes: u64,
    /// The longest block.
    pub block_max_bytes: u64,
    /// Blocks that found no empty buffer, and are lost.
    pub lost_blocks: u64,
    /// Their bytes.
    pub lost_bytes: u64,
    /// Runs of lost blocks with none written between.
    pub gaps: u64,
    /// The first of them.
    pub first_gap: Option<Gap>,
    /// Bytes that were handed in and could not be written, because the stream failed.
    pub abandoned_bytes: u64,
    /// Writes that failed and were repeated.
    pub retries: u64,
    /// How often the size was made durable.
    pub commits: u64,
    /// How often space was reserved.
    pub reservations: u64,
}

impl RecordReport {
    /// Adds the counters of the file that a recording went on in. The durable size is then that of
    /// both.
    pub fn add(&mut self, later: &RecordReport) {
        self.first_gap = self.first_gap.or(later.first_gap);
        self.latencies.add_all(&later.latencies);
        for (most, other) in [
            (&mut self.lateness_max_us, later.lateness_max_us),
            (&mut self.latency_max_us, later.latency_max_us),
            (&mut self.waiting_max_blocks, later.waiting_max_blocks),
            (&mut self.waiting_max_bytes, later.waiting_max_bytes),
            (&mut self.block_max_bytes, later.block_max_bytes),
        ] {
            *most = other.max(*most);
        }
        for (sum, other) in [
            (&mut self.blocks, later.blocks),
            (&mut self.bytes, later.bytes),
            (&mut self.written_bytes, later.written_bytes),
            (&mut self.durable_bytes, later.durable_bytes),
            (&mut self.misses, later.misses),
            (&mut self.lost_blocks, later.lost_blocks),
            (&mut self.lost_bytes, later.lost_bytes),
            (&mut self.gaps, later.gaps),
            (&mut self.abandoned_bytes, later.abandoned_bytes),
            (&mut self.retries, later.retries),
            (&mut self.commits, later.commits),
            (&mut self.reservations, later.reservations),
        ] {
            *sum = sum.saturating_add(other);
        }
    }

    /// The smallest ring in which no block would have been lost: as many buffers as were occupied
    /// at the worst moment, and the one that the producer fills. None: the ring was too small.
    pub const fn smallest_ring_blocks(&self) -> Option<u64> {
        if self.lost_blocks > 0 {
            return None;
        }
        Some(self.waiting_max_blocks + 1)
    }

    /// The same in bytes.
    pub const fn smallest_ring_bytes(&self) -> Option<u64> {
        if self.lost_blocks > 0 {
            return None;
        }
        Some(self.waiting_max_bytes + self.block_max_bytes)
    }
}

/// A run of blocks that were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// Where in the file they are missing: between the byte before this offset and the byte at it.
    pub offset_bytes: u64,
    /// How many bytes are missing.
    pub lost_bytes: u64,
    /// When the first of them arrived, counted from the recording's first block; of a segment, from
    /// the segment's.
    pub at_us: u64,
    /// 1, or how many gaps this represents where there were too many to list separately. It then
    /// has the offset of the first one and the bytes of all.
    pub count: u32,
}

/// A playback's counters so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlayReport {
    /// Blocks that were delivered.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Blocks that were delivered after their deadline.
    pub misses: u64,
    /// The longest by which a deadline was missed.
    pub lateness_max_us: u64,
    /// The longest time from a block's due time until it was delivered.
    pub latency_max_us: u64,
    /// The distribution of those times.
    pub latencies: Histogram,
    /// Deliveries for which the block had not been read when it was due.
    pub underruns: u64,
    /// Fewest further blocks that were ready when one was delivered and more were to come. None:
    /// the whole file fitted into the ring.
    pub ready_min_blocks: Option<u64>,
    /// Places in the ring.
    pub ring_blocks: u64,
    /// Bytes whose checksums were compared.
    pub verified_bytes: u64,
    /// Reads that failed and were repeated.
    pub retries: u64,
}

impl PlayReport {
    /// The smallest ring that would have been enough. None: this one was too small.
    pub const fn smallest_ring_blocks(&self) -> Option<u64> {
        if self.underruns > 0 {
            return None;
        }
        match self.ready_min_blocks {
            Some(ready) => Some(self.ring_blocks.saturating_sub(ready)),
            None => Some(self.ring_blocks),
        }
    }
}
