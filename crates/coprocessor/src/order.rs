// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parameters of a stream when it begins, and the report at its end: two tables in the client's
//! data (`docs/coprocessor.md`, "Record and play").
//!
//! The coprocessor copies the first out of the window once and checks it; this module only encodes
//! and decodes.

use stream::{BUCKETS, Error, Gap, Histogram, PlayReport, RecordReport};

use crate::layout::{ORDER_BYTES, REPORT_BYTES};
use crate::status::{Code, CompletionStatus, StreamEnd};

/// Lost blocks are dropped, and the gap is named in a companion file.
pub const ORDER_GAPS: u32 = 1;
/// Checksums are compared, if the file has them.
pub const ORDER_VERIFY: u32 = 2;

/// How to record or play.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// The offset of the ring of blocks in the client's data.
    pub ring_offset: u32,
    /// Length of a block, and of each place of the ring.
    pub block_bytes: u32,
    /// Places of the ring, 1 to [`STREAM_PLACES`](crate::layout::STREAM_PLACES).
    pub places: u32,
    /// `ORDER_...`.
    pub flags: u32,
    /// The rate at which blocks arrive or are due, in bytes per second from the first on. 0: a
    /// block arrives when it is handed in, and is due when it is requested.
    pub bytes_per_second: u64,
    /// How long after its arrival a block must be written, or after its due time delivered.
    pub deadline_us: u64,
    /// The size is made durable after this many bytes,
    pub commit_bytes: u64,
    /// and after this much time.
    pub commit_us: u64,
    /// Space is reserved when less than this is left,
    pub low_water_bytes: u64,
    /// and then this much beyond it.
    pub reserve_bytes: u64,
    /// How much will be recorded; 0: not known.
    pub total_bytes: u64,
    /// The companion file's number, for [`ORDER_GAPS`].
    pub gap_file: u64,
    /// A block of the drive in the client's data, for the companion's lines.
    pub gap_offset: u32,
    /// How often a failed transfer is repeated, at most 255.
    pub retries: u32,
}

impl Order {
    const WORDS: usize = ORDER_BYTES / 8;

    const fn words(&self) -> [u64; Self::WORDS] {
        [
            self.ring_offset as u64 | (self.block_bytes as u64) << 32,
            self.places as u64 | (self.flags as u64) << 32,
            self.bytes_per_second,
            self.deadline_us,
            self.commit_bytes,
            self.commit_us,
            self.low_water_bytes,
            self.reserve_bytes,
            self.total_bytes,
            self.gap_file,
            self.gap_offset as u64 | (self.retries as u64) << 32,
            0,
        ]
    }

    /// Encodes the table.
    pub fn encode(&self) -> [u8; ORDER_BYTES] {
        let mut bytes = [0; ORDER_BYTES];
        put(&mut bytes, &self.words());
        bytes
    }

    /// Decodes a table.
    ///
    /// # Errors
    /// [`Code::BadField`]: an unknown flag, more repetitions than can be counted, or a reserved
    /// word that is not zero.
    pub fn decode(bytes: &[u8; ORDER_BYTES]) -> Result<Self, Code> {
        let mut words = [0; Self::WORDS];
        take(bytes, &mut words);
        let [
            ring,
            places,
            rate,
            deadline,
            commit,
            commit_us,
            low,
            reserve,
            total,
            gaps,
            gap,
            rest,
        ] = words;
        let order = Self {
            ring_offset: ring as u32,
            block_bytes: (ring >> 32) as u32,
            places: places as u32,
            flags: (places >> 32) as u32,
            bytes_per_second: rate,
            deadline_us: deadline,
            commit_bytes: commit,
            commit_us,
            low_water_bytes: low,
            reserve_bytes: reserve,
            total_bytes: total,
            gap_file: gaps,
            gap_offset: gap as u32,
            retries: (gap >> 32) as u32,
        };
        let is_good =
            rest == 0 && order.retries <= 255 && order.flags & !(ORDER_GAPS | ORDER_VERIFY) == 0;
        is_good.then_some(order).ok_or(Code::BadField)
    }
}

fn put(bytes: &mut [u8], words: &[u64]) {
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}

fn take(bytes: &[u8], words: &mut [u64]) {
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = bytes.try_into().map_or(0, u64::from_le_bytes);
    }
}

/// Words of a report before the histogram: the result, then the counters.
const COUNTS: usize = (REPORT_BYTES / 8) - BUCKETS;
const END: usize = 3;

#[cfg_attr(not(feature = "service"), allow(dead_code))]
fn report_bytes(
    end: &StreamEnd,
    counts: &[&mut u64],
    histogram: &Histogram,
    bytes: &mut [u8; REPORT_BYTES],
) {
    let status = u64::from(end.status.code) | u64::from(end.status.detail) << 32;
    bytes.fill(0);
    put(bytes, &[status, end.offset_bytes, end.at_us]);
    let places = bytes.get_mut(8 * END..).unwrap_or_default();
    for (place, count) in places.chunks_exact_mut(8).zip(counts) {
        place.copy_from_slice(&count.to_le_bytes());
    }
    put(
        bytes.get_mut(8 * COUNTS..).unwrap_or_default(),
        &histogram.counts,
    );
}

/// The result, the counters, and the histogram.
fn report_parts(bytes: &[u8; REPORT_BYTES]) -> (Result<(), Error>, [u64; COUNTS - END], Histogram) {
    let mut end = [0; END];
    take(bytes, &mut end);
    let mut counts = [0; COUNTS - END];
    take(bytes.get(8 * END..).unwrap_or_default(), &mut counts);
    let mut histogram = Histogram::default();
    take(
        bytes.get(8 * COUNTS..).unwrap_or_default(),
        &mut histogram.counts,
    );
    let [status, offset_bytes, at_us] = end;
    let end = StreamEnd {
        status: CompletionStatus {
            code: status as u16,
            detail: (status >> 32) as u32,
        },
        offset_bytes,
        at_us,
    };
    (end.result(), counts, histogram)
}

/// A recording's numbers in the table's order, for both directions; the first gap's numbers are
/// separate.
fn record_counts<'r>(report: &'r mut RecordReport, gap: &'r mut [u64; 4]) -> [&'r mut u64; 21] {
    let [gap_offset, gap_lost, gap_at, gap_count] = gap;
    [
        &mut report.blocks,
        &mut report.bytes,
        &mut report.written_bytes,
        &mut report.durable_bytes,
        &mut report.misses,
        &mut report.lateness_max_us,
        &mut report.latency_max_us,
        &mut report.waiting_max_blocks,
        &mut report.waiting_max_bytes,
        &mut report.block_max_bytes,
        &mut report.lost_blocks,
        &mut report.lost_bytes,
        &mut report.gaps,
        gap_offset,
        gap_lost,
        gap_at,
        gap_count,
        &mut report.abandoned_bytes,
        &mut report.retries,
        &mut report.commits,
        &mut report.reservations,
    ]
}

/// The same for a playback, with the fewest blocks that were ahead.
fn play_counts<'r>(report: &'r mut PlayReport, ready_min: &'r mut u64) -> [&'r mut u64; 10] {
    [
        &mut report.blocks,
        &mut report.bytes,
        &mut report.misses,
        &mut report.lateness_max_us,
        &mut report.latency_max_us,
        &mut report.underruns,
        ready_min,
        &mut report.ring_blocks,
        &mut report.verified_bytes,
        &mut report.retries,
    ]
}

/// Writes a recording's report.
#[cfg_attr(not(feature = "service"), allow(dead_code))]
pub(crate) fn encode_record(
    end: &StreamEnd,
    mut report: RecordReport,
    bytes: &mut [u8; REPORT_BYTES],
) {
    let gap = report.first_gap.unwrap_or_default();
    let mut gap = [
        gap.offset_bytes,
        gap.lost_bytes,
        gap.at_us,
        u64::from(gap.count),
    ];
    let latencies = report.latencies;
    let counts = record_counts(&mut report, &mut gap);
    report_bytes(end, &counts, &latencies, bytes);
}

/// Reads a recording's report: the result, and the counters.
pub fn decode_record(bytes: &[u8; REPORT_BYTES]) -> (Result<(), Error>, RecordReport) {
    let (result, counts, latencies) = report_parts(bytes);
    let mut report = RecordReport {
        latencies,
        ..RecordReport::default()
    };
    let mut gap = [0; 4];
    let places = record_counts(&mut report, &mut gap).into_iter();
    places.zip(counts).for_each(|(place, count)| *place = count);
    let [offset_bytes, lost_bytes, at_us, count] = gap;
    report.first_gap = (count > 0).then_some(Gap {
        offset_bytes,
        lost_bytes,
        at_us,
        count: count as u32,
    });
    (result, report)
}

/// Writes a playback's report.
#[cfg_attr(not(feature = "service"), allow(dead_code))]
pub(crate) fn encode_play(end: &StreamEnd, mut report: PlayReport, bytes: &mut [u8; REPORT_BYTES]) {
    let mut ready_min = report.ready_min_blocks.unwrap_or(u64::MAX);
    let latencies = report.latencies;
    let counts = play_counts(&mut report, &mut ready_min);
    report_bytes(end, &counts, &latencies, bytes);
}

/// Reads a playback's report: the result, and the counters.
pub fn decode_play(bytes: &[u8; REPORT_BYTES]) -> (Result<(), Error>, PlayReport) {
    let (result, counts, latencies) = report_parts(bytes);
    let mut report = PlayReport {
        latencies,
        ..PlayReport::default()
    };
    let mut ready_min = 0;
    let places = play_counts(&mut report, &mut ready_min).into_iter();
    places.zip(counts).for_each(|(place, count)| *place = count);
    report.ready_min_blocks = (ready_min != u64::MAX).then_some(ready_min);
    (result, report)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each word is different.
    fn numbers() -> [u8; REPORT_BYTES] {
        let words: [u64; REPORT_BYTES / 8] = core::array::from_fn(|at| 1000 + at as u64);
        let mut bytes = [0; REPORT_BYTES];
        put(&mut bytes, &words);
        put(&mut bytes, &[0x8c, 77, 88]);
        bytes
    }

    #[test]
    fn reports_come_back_as_they_were() {
        let overrun = Error::Overrun {
            offset_bytes: 77,
            at_us: 88,
        };
        let (ended, record) = decode_record(&numbers());
        assert_eq!(ended, Err(overrun));
        let mut again = [0; REPORT_BYTES];
        encode_record(&StreamEnd::from(Err(overrun)), record, &mut again);
        assert_eq!(again, numbers());
        let (ended, play) = decode_play(&numbers());
        assert_eq!(ended, Err(overrun));
        encode_play(&StreamEnd::from(Ok(())), play, &mut again);
        assert_eq!(decode_play(&again), (Ok(()), play));
    }

    #[test]
    fn orders_come_back_as_they_were_and_unknown_ones_are_refused() {
        let mut bytes: [u8; ORDER_BYTES] = core::array::from_fn(|at| at as u8);
        for at in [0xc, 0xd, 0xe, 0xf, 0x55, 0x56, 0x57] {
            bytes[at] = 0;
        }
        assert_eq!(Order::decode(&bytes), Err(Code::BadField));
        bytes[0x58..].fill(0);
        let order = Order::decode(&bytes).unwrap();
        assert_eq!(order.encode(), bytes);
        for (at, value) in [(0xc, 4), (0xf, 0x80), (0x55, 1), (0x5f, 1)] {
            let mut bad = bytes;
            bad[at] = value;
            assert_eq!(Order::decode(&bad), Err(Code::BadField), "{at}");
        }
    }
}
