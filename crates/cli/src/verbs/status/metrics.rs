// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recording's status in the text format of OpenMetrics 1.0, and in the older one of Prometheus.

use live::RecordingStatus;
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Whether a process records: 1, or 0 and nothing else.
const UP: &str = "straightway_recording_up";

/// A metric: its name, its unit, whether it is a counter, what it says, and its value.
type Metric = (&'static str, &'static str, bool, &'static str, f64);

/// The text in OpenMetrics; without a recording it says only that there is none.
pub fn text(device: &str, status: Option<&RecordingStatus>) -> String {
    body(device, status, true) + "# EOF\n"
}

/// The same in Prometheus' text format, which names a counter as its sample, and has no units.
pub fn for_node_exporter(device: &str, status: Option<&RecordingStatus>) -> String {
    body(device, status, false)
}

/// Whether this verb wrote a file.
pub fn is_own(path: &Path) -> bool {
    let begin = format!("# HELP {UP} ").into_bytes();
    let mut found = vec![0; begin.len()];
    // Another kind of file may not end, or not begin.
    let is_file = std::fs::metadata(path).is_ok_and(|about| about.is_file());
    let mut read = || File::open(path)?.read_exact(&mut found);
    is_file && read().is_ok() && found == begin
}

fn body(device: &str, status: Option<&RecordingStatus>, is_open: bool) -> String {
    let mut text = String::new();
    let device = escaped(device);
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "# HELP {UP} Whether a process records on the volume.\n# TYPE {UP} gauge\n\
         {UP}{{device=\"{device}\"}} {}",
        u8::from(status.is_some())
    );
    for (name, unit, is_counter, help, value) in status.map(metrics).into_iter().flatten() {
        let name = match unit {
            "" => format!("straightway_recording_{name}"),
            unit => format!("straightway_recording_{name}_{unit}"),
        };
        let (kind, end) = if is_counter {
            ("counter", "_total")
        } else {
            ("gauge", "")
        };
        let sample = format!("{name}{end}");
        let family = if is_open { &name } else { &sample };
        let _ = writeln!(text, "# TYPE {family} {kind}");
        if is_open && !unit.is_empty() {
            let _ = writeln!(text, "# UNIT {name} {unit}");
        }
        let recording = status.map_or_else(String::new, |status| escaped(&status.name));
        let _ = writeln!(
            text,
            "# HELP {family} {help}\n{sample}{{device=\"{device}\",recording=\"{recording}\"}} {value}"
        );
    }
    text
}

fn metrics(of: &RecordingStatus) -> [Metric; 20] {
    let counter = |name, unit, help, value: u64| (name, unit, true, help, value as f64);
    let gauge = |name, unit, help, value: f64| (name, unit, false, help, value);
    [
        gauge(
            "start_time",
            "seconds",
            "When the recording began, since 1970.",
            of.began_ns as f64 / 1e9,
        ),
        gauge(
            "elapsed",
            "seconds",
            "How long the recording has gone on.",
            of.elapsed_us as f64 / 1e6,
        ),
        counter(
            "received",
            "bytes",
            "Bytes that arrived in a buffer.",
            of.bytes,
        ),
        gauge(
            "durable",
            "bytes",
            "Bytes of the recording that are durable, with those that the file had before.",
            of.durable_bytes as f64,
        ),
        counter(
            "blocks",
            "",
            "Blocks that arrived when a buffer was empty.",
            of.blocks,
        ),
        counter(
            "lost_blocks",
            "",
            "Blocks for which no buffer was empty.",
            of.lost_blocks,
        ),
        counter(
            "lost",
            "bytes",
            "Bytes of the blocks for which no buffer was empty.",
            of.lost_bytes,
        ),
        counter("gaps", "", "Runs of lost blocks.", of.gaps),
        counter(
            "dropped_datagrams",
            "",
            "Datagrams that the kernel dropped before they were read.",
            of.dropped_datagrams,
        ),
        counter(
            "cut_datagrams",
            "",
            "Datagrams that were longer than a block, whose end is lost.",
            of.cut_datagrams,
        ),
        counter(
            "missed_deadlines",
            "",
            "Blocks that were written after their deadline.",
            of.misses,
        ),
        gauge(
            "lateness_max",
            "seconds",
            "The longest time past a deadline.",
            of.lateness_max_us as f64 / 1e6,
        ),
        gauge("buffers", "", "Buffers.", of.buffers as f64),
        gauge(
            "waiting_blocks",
            "",
            "Blocks that wait for the drive.",
            of.waiting_blocks as f64,
        ),
        gauge(
            "waiting_blocks_max",
            "",
            "The most blocks that waited at one time.",
            of.waiting_max_blocks as f64,
        ),
        counter("retries", "", "Commands that were repeated.", of.retries),
        counter("commits", "", "Commits.", of.commits),
        counter(
            "finished_segments",
            "",
            "Segments that are final.",
            of.finished_segments,
        ),
        counter(
            "removed_segments",
            "",
            "Segments that the ring removed.",
            of.removed_segments,
        ),
        gauge(
            "free",
            "bytes",
            "Free space of the volume; NaN while it is not known.",
            of.free_bytes.map_or(f64::NAN, |bytes| bytes as f64),
        ),
    ]
}

/// A label's value.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_escaped() {
        let text = text("a\\b\"c\nd", None);
        assert!(
            text.contains("{device=\"a\\\\b\\\"c\\nd\"} 0\n# EOF\n"),
            "{text}"
        );
    }
}
