//! What a stream counted, in words and in JSON.

use crate::console::Console;
use crate::units::{exact, rounded};
use crate::volume::shown;
use schemars::JsonSchema;
use serde::Serialize;
use stream::Histogram;

/// Latencies in powers of two.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Bucket {
    /// They were less than this; null for the longest.
    pub below_us: Option<u64>,
    /// And at least half of it: so many.
    pub count: u64,
}

/// The buckets that have something.
pub fn buckets(histogram: &Histogram) -> Vec<Bucket> {
    let last = histogram.counts.len() - 1;
    let counts = histogram.counts.iter().enumerate();
    counts
        .filter(|(_, count)| **count > 0)
        .map(|(index, count)| Bucket {
            below_us: (index < last).then_some(1 << index),
            count: *count,
        })
        .collect()
}

/// Blocks, bytes, rate.
pub fn rate_text(bytes: u64, blocks: u64, elapsed_us: u64) -> String {
    let seconds = elapsed_us.max(1) as f64 / 1e6;
    let rate = rounded((bytes as f64 / seconds) as u64);
    format!(
        "{} in {blocks} blocks and {seconds:.3} s, {rate}/s",
        exact(bytes)
    )
}

/// How late blocks were; `lost` says that others did not arrive at all.
pub fn latency_text(
    latencies: &[Bucket],
    max_us: u64,
    misses: u64,
    late_us: u64,
    lost: bool,
) -> String {
    let total: u64 = latencies.iter().map(|bucket| bucket.count).sum();
    let mut seen = 0;
    let half = latencies.iter().find(|bucket| {
        seen += bucket.count;
        seen * 2 >= total
    });
    let median = match half.and_then(|bucket| bucket.below_us) {
        Some(below) => format!("half below {below} us"),
        None => "half above half an hour".to_owned(),
    };
    let latency = format!("latency: {median}, longest {max_us} us");
    match misses {
        0 if lost => format!("no deadline missed by what arrived, and NOT ALL ARRIVED; {latency}"),
        0 => format!("every deadline kept; {latency}"),
        _ => format!("{misses} DEADLINES MISSED, by up to {late_us} us; {latency}"),
    }
}

/// The ring that would have been enough.
pub fn ring_text(buffers: u64, smallest: Option<u64>) -> String {
    match smallest {
        Some(smallest) => format!("{smallest} of {buffers} buffers would have been enough"),
        None => format!("{buffers} buffers were too few"),
    }
}

/// What was recorded.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RecordedFile {
    /// Version of this form: 2.
    pub schema_version: u32,
    /// What the user called it, resolved.
    pub device: String,
    /// The path that was taken.
    pub path: String,
    /// The recording's name in the volume.
    pub name: String,
    /// Why it ended: length, source, stopped (by the user) or failed.
    pub ended_by: &'static str,
    /// Its size, all of it durable.
    pub length_bytes: u64,
    /// From the first block to the last byte's being durable.
    pub elapsed_us: u64,
    /// Blocks that arrived and found a buffer.
    pub blocks: u64,
    /// Blocks that were written after their deadline.
    pub misses: u64,
    /// The longest time after a deadline.
    pub lateness_max_us: u64,
    /// The longest time from a block's arrival until it was written.
    pub latency_max_us: u64,
    /// Those times.
    pub latencies: Vec<Bucket>,
    /// Buffers that there were.
    pub buffers: u64,
    /// How many would have been enough, with the one that the source fills; null: more.
    pub smallest_buffers: Option<u64>,
    /// The same in bytes.
    pub smallest_buffer_bytes: Option<u64>,
    /// Blocks that found no buffer.
    pub lost_blocks: u64,
    /// Their bytes.
    pub lost_bytes: u64,
    /// Runs of them.
    pub gaps: u64,
    /// Bytes that found a buffer and could not be written, because the recording failed.
    pub abandoned_bytes: u64,
    /// Datagrams that the kernel threw away before they could be read.
    pub dropped_datagrams: u64,
    /// Blocks that came from the source later than the rate says.
    pub tardy_blocks: u64,
    /// Writes that failed and were repeated.
    pub retries: u64,
    /// How often it was made durable.
    pub commits: u64,
    /// How often space was reserved while it ran.
    pub reservations: u64,
}

impl RecordedFile {
    /// Nothing was late and nothing was lost.
    pub fn is_good(&self) -> bool {
        self.misses == 0 && self.lost_blocks == 0 && self.dropped_datagrams == 0
    }

    fn latency_text(&self) -> String {
        latency_text(
            &self.latencies,
            self.latency_max_us,
            self.misses,
            self.lateness_max_us,
            self.lost_blocks > 0 || self.dropped_datagrams > 0,
        )
    }

    /// Says it in words; `gaps_name` is the companion that names what was lost.
    pub fn say(&self, console: &Console, gaps_name: Option<&str>) {
        let counted = rate_text(self.length_bytes, self.blocks, self.elapsed_us);
        let say = |text: String| console.say(text);
        say(format!("recorded `{}`: {counted}", shown(&self.name)));
        if self.blocks > 0 {
            say(self.latency_text());
            say(ring_text(self.buffers, self.smallest_buffers));
        }
        if self.lost_blocks > 0 {
            let named = gaps_name.map_or(String::new(), |name| {
                format!("; `{}` names them", shown(name))
            });
            say(format!(
                "{} BLOCKS LOST ({} bytes) in {} gaps{named}",
                self.lost_blocks, self.lost_bytes, self.gaps
            ));
        }
        if self.abandoned_bytes > 0 {
            say(format!(
                "{} bytes arrived and COULD NOT BE WRITTEN",
                self.abandoned_bytes
            ));
        }
        if self.dropped_datagrams > 0 {
            say(format!(
                "{} DATAGRAMS LOST in the kernel before they could be read",
                self.dropped_datagrams
            ));
        }
        if self.tardy_blocks > 0 {
            say(format!(
                "{} blocks came later than --rate says",
                self.tardy_blocks
            ));
        }
    }
}

/// What was played.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PlayedFile {
    /// Version of this form: 2.
    pub schema_version: u32,
    /// What the user called it, resolved.
    pub device: String,
    /// The path that was taken.
    pub path: String,
    /// The file's name in the volume.
    pub name: String,
    /// Bytes that were delivered.
    pub length_bytes: u64,
    /// How long that took.
    pub elapsed_us: u64,
    /// Blocks that were delivered.
    pub blocks: u64,
    /// Blocks that were delivered after their deadline.
    pub misses: u64,
    /// The longest time after a deadline.
    pub lateness_max_us: u64,
    /// The longest time after a block was due.
    pub latency_max_us: u64,
    /// Those times; empty without a rate.
    pub latencies: Vec<Bucket>,
    /// Blocks that had not been read when they were due.
    pub underruns: u64,
    /// Buffers that there were.
    pub buffers: u64,
    /// How many would have been enough; null: more.
    pub smallest_buffers: Option<u64>,
    /// Bytes whose checksums were compared.
    pub verified_bytes: u64,
    /// Reads that failed and were repeated.
    pub retries: u64,
    /// The recording has gaps: `get` NAME.gaps to see where.
    pub has_gaps: bool,
    /// The user ended it.
    pub stopped: bool,
}

impl PlayedFile {
    /// Says it in words; `device` is what the user called the device.
    pub fn say(&self, console: &Console, device: &str) {
        let counted = rate_text(self.length_bytes, self.blocks, self.elapsed_us);
        let say = |text: String| console.say(text);
        say(format!("played `{}`: {counted}", shown(&self.name)));
        if !self.latencies.is_empty() {
            let latency = latency_text(
                &self.latencies,
                self.latency_max_us,
                self.misses,
                self.lateness_max_us,
                false,
            );
            say(latency);
            say(ring_text(self.buffers, self.smallest_buffers));
        }
        if self.has_gaps {
            say(format!(
                "the recording has gaps: straightway get {device} '{}.gaps' -",
                self.name
            ));
        }
    }
}
