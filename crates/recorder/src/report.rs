// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A stream's counters as text and JSON.

use crate::replay::Replayed;
use crate::segments::segment::Segment;
use devices::Progress;
use files::shown;
use files::tree::some;
use remedy::{Setting, Value, Words, words};
#[cfg(feature = "reports")]
use schemars::JsonSchema;
#[cfg(feature = "reports")]
use serde::Serialize;
use std::time::Duration;
use stream::{Histogram, RecordReport};
use units::{counted, exact, exact_rate, rounded};

/// Latencies in powers of two.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "reports", derive(Serialize, JsonSchema))]
pub struct Bucket {
    /// Upper bound (exclusive); null for the last bucket.
    pub below_us: Option<u64>,
    /// Number of latencies below the bound and at least half of it.
    pub count: u64,
}

/// The buckets that are not empty.
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

/// The counters of a stream.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "reports", derive(Serialize, JsonSchema))]
pub struct Counted {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// The resolved name of the device.
    pub device: String,
    /// The path that was used.
    pub path: String,
    /// The recording's name in the volume.
    pub name: String,
    /// Bytes that were played, or recorded and are durable.
    pub length_bytes: u64,
    /// Duration from the first block to the last byte.
    pub elapsed_us: u64,
    /// Blocks that were played, or arrived when a buffer was empty.
    pub blocks: u64,
    /// Blocks completed after their deadline.
    pub misses: u64,
    /// The longest time past a deadline.
    pub lateness_max_us: u64,
    /// The longest latency of a block, from its arrival or its due time.
    pub latency_max_us: u64,
    /// The distribution of the latencies.
    pub latencies: Vec<Bucket>,
    /// Number of buffers.
    pub buffers: u64,
    /// Number of buffers that would have been enough, including the one at the other end; null:
    /// more than there were.
    pub smallest_buffers: Option<u64>,
    /// Retried commands.
    pub retries: u64,
}

impl Counted {
    /// Prints the summary after the word `done`: the rate and, if it `has_times`, the latencies and
    /// the number of buffers that would have been enough, unless it did not go well; with `lost`
    /// some blocks were lost.
    fn say(&self, progress: &Progress, done: &str, has_times: bool, lost: bool, failed: bool) {
        let seconds = self.elapsed_us.max(1) as f64 / 1e6;
        let rate = rounded((self.length_bytes as f64 / seconds) as u64);
        progress.say(format_args!(
            "{done} `{}`: {} in {} and {seconds:.3} s, {rate}/s",
            shown(&self.name),
            exact(self.length_bytes),
            counted(self.blocks, "block")
        ));
        if !has_times {
            return;
        }
        progress.say(self.latency_text(lost));
        let buffers = self.buffers;
        let has_failed = failed || lost || self.misses > 0;
        progress.say(match self.smallest_buffers {
            Some(most) if has_failed => format!("{most} of {buffers} buffers were used at most"),
            Some(smallest) => format!("{smallest} of {buffers} buffers would have been enough"),
            None => format!("{buffers} buffers were too few"),
        });
    }

    fn latency_text(&self, lost: bool) -> String {
        let total: u64 = self.latencies.iter().map(|bucket| bucket.count).sum();
        let mut seen = 0;
        let half = self.latencies.iter().find(|bucket| {
            seen += bucket.count;
            seen * 2 >= total
        });
        let longest = format!("longest {} us", self.latency_max_us);
        let latency = match half.and_then(|bucket| bucket.below_us) {
            // The bound of the bucket is above all latencies: it says nothing.
            Some(below) if below > self.latency_max_us => format!("latency: {longest}"),
            Some(below) => format!("latency: half below {below} us, {longest}"),
            None => format!("latency: half above half an hour, {longest}"),
        };
        match self.misses {
            0 if lost => {
                format!(
                    "no deadline missed by the blocks that arrived, but NOT ALL ARRIVED; {latency}"
                )
            }
            0 => format!("every deadline met; {latency}"),
            misses => format!(
                "{} MISSED, by up to {} us; {latency}",
                counted(misses, "DEADLINE").to_uppercase(),
                self.lateness_max_us
            ),
        }
    }
}

/// A recording.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "reports", derive(Serialize, JsonSchema))]
pub struct RecordedFile {
    /// The common counters.
    #[cfg_attr(feature = "reports", serde(flatten))]
    pub counted: Counted,
    /// Where it begins in the file: 0, or with --append the size that the file had.
    pub begin_bytes: u64,
    /// Reason for the end: length, source, stopped (by the user) or failed.
    pub ended_by: &'static str,
    /// The same in bytes.
    pub smallest_buffer_bytes: Option<u64>,
    /// Blocks for which no buffer was empty.
    pub lost_blocks: u64,
    /// Their bytes.
    pub lost_bytes: u64,
    /// Number of gaps: runs of lost blocks.
    pub gaps: u64,
    /// Bytes that arrived in a buffer and could not be written, because the recording failed.
    pub abandoned_bytes: u64,
    /// Datagrams that the kernel dropped before they could be read.
    pub dropped_datagrams: u64,
    /// Datagrams that were longer than a block of packets has room for, whose end is lost.
    pub cut_datagrams: u64,
    /// Blocks that came from the source later than the rate requires.
    pub tardy_blocks: u64,
    /// Number of commits.
    pub commits: u64,
    /// Number of reservations during the recording.
    pub reservations: u64,
    /// The recording's segments that the volume has; empty for a recording in one file.
    pub segments: Vec<Segment>,
    /// Segments that were removed, because they were the oldest.
    pub removed_segments: u64,
    /// Those of them that were removed although the others had less than is kept, because the next
    /// one had no slot.
    pub removed_early_segments: u64,
    /// Not one byte came from the source: nothing was stored, or added with --append.
    pub nothing_came: bool,
    /// What a rehearsal found; null for a recording.
    pub rehearsal: Option<Rehearsal>,
}

/// What a rehearsal found besides the counters of its recording, which was removed.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "reports", derive(Serialize, JsonSchema))]
pub struct Rehearsal {
    /// Whether nothing would be lost, and no deadline that the user gave was missed.
    pub holds: bool,
    /// The deadline of a block.
    pub deadline_us: u64,
    /// The user gave the deadline. That a usual one was missed does not count.
    pub deadline_was_given: bool,
    /// The rate, in bytes per second.
    pub bytes_per_second: u64,
    /// The volume's free space.
    pub free_bytes: u64,
    /// How long the free space lasts at this rate.
    pub lasts_s: u64,
    /// The longest that a loss of the network holds up writes; 0 for a device of this machine.
    pub network_stall_s: u64,
    /// Buffers that hold what arrives during that.
    pub network_stall_buffers: u64,
}

/// What a loss of the network takes, if `buffers` do not hold what arrives while it holds up
/// writes.
pub fn network_stall_text(stall_s: u64, needed: u64, buffers: u64) -> Option<Words> {
    let is_short = stall_s != 0 && needed > buffers;
    is_short.then(|| {
        words![
            format!("a loss of the network holds up writes for up to {stall_s} s: "),
            Setting::Buffers.to(Value::Number(needed)),
            format!(" would hold that, there are {buffers}")
        ]
    })
}

impl RecordedFile {
    /// Whether nothing was late, nothing was lost, and a ring kept what it was to keep.
    pub fn is_good(&self) -> bool {
        self.counted.misses == 0 && !self.has_lost() && self.removed_early_segments == 0
    }

    /// Whether anything was lost.
    pub(crate) const fn has_lost(&self) -> bool {
        self.lost_blocks > 0 || self.dropped_datagrams > 0 || self.cut_datagrams > 0
    }

    /// What a rehearsal says in one line.
    pub fn verdict(&self, found: &Rehearsal) -> Words {
        let rate = exact_rate(found.bytes_per_second);
        let lasts = format!(
            "{} are free, which last {}",
            rounded(found.free_bytes),
            humantime::format_duration(Duration::from_secs(found.lasts_s))
        );
        let stall = network_stall_text(
            found.network_stall_s,
            found.network_stall_buffers,
            self.counted.buffers,
        );
        let lasts = match stall {
            Some(stall) => words![lasts, "; ", stall],
            None => lasts.into(),
        };
        let stall_ms = self.counted.latency_max_us as f64 / 1e3;
        let lasts = words![
            format!(
                "longest stall {stall_ms:.1} ms; {}; ",
                self.late_text(found)
            ),
            lasts
        ];
        if self.has_lost() {
            let what = format!(
                "DOES NOT HOLD {rate} with {} buffers: {} WOULD BE LOST ({}); ",
                self.counted.buffers,
                counted(self.lost_blocks, "block").to_uppercase(),
                counted(self.lost_bytes, "byte"),
            );
            return words![what, lasts];
        }
        let buffers = match (self.counted.smallest_buffers, self.smallest_buffer_bytes) {
            (Some(buffers), Some(bytes)) => {
                format!(
                    "{buffers} of {} buffers, {}",
                    self.counted.buffers,
                    rounded(bytes)
                )
            }
            _ => format!("{} buffers", self.counted.buffers),
        };
        let what = format!("holds {rate} with {buffers}: nothing would be lost; ");
        words![what, lasts]
    }

    /// Whether deadlines were kept, apart from what was lost.
    fn late_text(&self, found: &Rehearsal) -> String {
        let deadline = humantime::format_duration(Duration::from_micros(found.deadline_us));
        match (self.counted.misses, found.deadline_was_given) {
            (0, _) => format!("every block met the deadline of {deadline}"),
            (misses, true) => format!(
                "{} LATER than the deadline of {deadline}",
                counted(misses, "BLOCK").to_uppercase()
            ),
            (misses, false) => format!(
                "{} later than {deadline}, the usual deadline, which was not given",
                counted(misses, "block")
            ),
        }
    }

    /// Prints the report as text; `gaps_name` is the companion file that lists the gaps.
    pub fn say(&self, progress: &Progress, gaps_name: Option<&str>) {
        let lost = self.has_lost();
        let has_times = !self.counted.latencies.is_empty();
        let failed = self.ended_by == "failed";
        if self.nothing_came {
            return;
        }
        self.counted
            .say(progress, "recorded", has_times, lost, failed);
        let say = |text: Words| progress.say(text);
        if self.lost_blocks > 0 {
            let with_gaps = self.segments.iter().filter(|segment| segment.gaps > 0);
            let of_segments: Vec<String> = with_gaps
                .map(|segment| crate::segments::files::gaps_name(&segment.name))
                .collect();
            let named = match (gaps_name, of_segments.as_slice()) {
                (None, _) => String::new(),
                (Some(name), []) if self.segments.is_empty() => {
                    format!("; `{}` lists them", shown(name))
                }
                (Some(_), []) => String::new(),
                (Some(_), [one]) => format!("; `{}` lists them", shown(one)),
                (Some(_), several) => {
                    format!("; {} list them", some(several.iter().map(String::as_str)))
                }
            };
            say(format!(
                "{} LOST ({}) in {}{named}",
                counted(self.lost_blocks, "block").to_uppercase(),
                counted(self.lost_bytes, "byte"),
                counted(self.gaps, "gap")
            )
            .into());
        }
        if self.abandoned_bytes > 0 {
            say(format!(
                "{} bytes arrived and COULD NOT BE WRITTEN",
                self.abandoned_bytes
            )
            .into());
        }
        if self.dropped_datagrams > 0 {
            say(format!(
                "{} LOST in the kernel before being read",
                counted(self.dropped_datagrams, "datagram").to_uppercase()
            )
            .into());
        }
        if self.cut_datagrams > 0 {
            say(words![
                format!(
                    "{} CUT: longer than a block, whose end is lost; ",
                    counted(self.cut_datagrams, "datagram").to_uppercase()
                ),
                Setting::Block.to(Value::Bytes(128 << 10)),
                " has room for each"
            ]);
        }
        if let (Some(first), Some(last)) = (self.segments.first(), self.segments.last()) {
            let early = match self.removed_early_segments {
                0 => String::new(),
                early => format!(", {early} of them EARLY, for a slot"),
            };
            say(format!(
                "{} from `{}` to `{}`; {} removed{early}",
                counted(self.segments.len() as u64, "segment"),
                shown(&first.name),
                shown(&last.name),
                self.removed_segments,
            )
            .into());
        }
        if self.tardy_blocks > 0 {
            say(words![
                format!("{} came later than ", counted(self.tardy_blocks, "block")),
                Setting::Rate,
                " requires"
            ]);
        }
    }
}

/// A recording so far, for the line that a terminal shows.
pub fn status(report: &RecordReport, buffers: u16) -> String {
    let lost = match report.lost_blocks {
        0 => "nothing lost".to_owned(),
        lost => format!(
            "{} LOST in {}",
            counted(lost, "block").to_uppercase(),
            counted(report.gaps, "gap")
        ),
    };
    let late = match report.misses {
        0 => "none late".to_owned(),
        misses => format!("{misses} LATE"),
    };
    let most = report.waiting_max_blocks;
    format!("{lost}, {late}, {most} of {buffers} buffers at most")
}

/// A playback.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "reports", derive(Serialize, JsonSchema))]
pub struct PlayedFile {
    /// The common counters.
    #[cfg_attr(feature = "reports", serde(flatten))]
    pub counted: Counted,
    /// Blocks that had not been read when they were due.
    pub underruns: u64,
    /// Bytes whose checksums were verified.
    pub verified_bytes: u64,
    /// The recording has gaps, which NAME.gaps lists.
    pub has_gaps: bool,
    /// Datagrams of which the other side said that nothing received them (ICMP port unreachable):
    /// the least that were lost.
    pub refused_datagrams: u64,
    /// What a replay sent; null without one.
    pub replayed: Option<Replayed>,
    /// The user ended it.
    pub stopped: bool,
}

impl PlayedFile {
    /// Prints the report as text; `device` is the user's name of the device.
    pub fn say(&self, progress: &Progress, device: &str) {
        let has_times = !self.counted.latencies.is_empty();
        self.counted
            .say(progress, "played", has_times, false, false);
        let say = |text: String| progress.say(text);
        if let Some(replayed) = &self.replayed {
            let cut = match replayed.cut_datagrams {
                0 => String::new(),
                cut => format!("; {cut} that are not whole were left out"),
            };
            let lost = match replayed.lost_datagrams {
                0 => String::new(),
                lost => format!("; the recording lacks {lost} that were lost when it was made"),
            };
            say(format!(
                "{} sent, at most {} us late{cut}{lost}",
                counted(replayed.datagrams, "datagram"),
                replayed.lateness_max_us
            ));
        }
        if self.refused_datagrams > 0 {
            say(format!(
                "AT LEAST {} REFUSED: nothing listened there",
                counted(self.refused_datagrams, "datagram")
            ));
        }
        if self.has_gaps {
            say(format!(
                "the recording has gaps: straightway get {device} '{}.gaps' -",
                self.counted.name
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_line_shouts_only_about_losses() {
        let mut report = RecordReport {
            waiting_max_blocks: 3,
            ..RecordReport::default()
        };
        assert_eq!(
            status(&report, 16),
            "nothing lost, none late, 3 of 16 buffers at most"
        );
        (report.lost_blocks, report.gaps, report.misses) = (2, 1, 7);
        assert_eq!(
            status(&report, 16),
            "2 BLOCKS LOST in 1 gap, 7 LATE, 3 of 16 buffers at most"
        );
    }
}
