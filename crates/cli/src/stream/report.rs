//! What a stream counted, in words and in JSON.

use crate::units::rounded;
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
        "{} ({bytes} bytes) in {blocks} blocks and {seconds:.3} s, {rate}/s",
        rounded(bytes)
    )
}

/// How late blocks were.
pub fn latency_text(latencies: &[Bucket], max_us: u64, misses: u64, late_us: u64) -> String {
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
