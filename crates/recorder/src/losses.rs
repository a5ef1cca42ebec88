// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is said of losses while a recording goes on: a line at the first, and then at most one a
//! minute; and an event for each time that there are more.

use live::events::{Events, Happened};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use stream::RecordReport;
use units::counted;

/// The least time between two lines.
const BETWEEN: Duration = Duration::from_secs(60);

/// What the thread that reads the source counts.
#[derive(Debug, Default)]
pub struct Tally {
    dropped_datagrams: AtomicU64,
    cut_datagrams: AtomicU64,
    senders_left: AtomicU64,
}

impl Tally {
    /// Sets the counts: datagrams that the kernel dropped, and those that were cut.
    pub fn set(&self, [dropped, cut]: [u64; 2]) {
        self.dropped_datagrams.store(dropped, Ordering::Relaxed);
        self.cut_datagrams.store(cut, Ordering::Relaxed);
    }

    /// Datagrams that the kernel dropped, and those that were cut.
    pub fn counts(&self) -> [u64; 2] {
        [&self.dropped_datagrams, &self.cut_datagrams].map(|count| count.load(Ordering::Relaxed))
    }

    /// A sender left.
    pub fn sender_left(&self) {
        self.senders_left.fetch_add(1, Ordering::Relaxed);
    }
}

/// What was said.
#[derive(Debug, Default)]
pub struct Losses {
    said: Option<Duration>,
    counts: [u64; 4],
}

impl Losses {
    /// What is to be said at this time since the beginning, if anything is.
    pub fn line(&mut self, now: Duration, report: &RecordReport, tally: &Tally) -> Option<String> {
        let counts = [
            report.lost_blocks,
            tally.dropped_datagrams.load(Ordering::Relaxed),
            tally.cut_datagrams.load(Ordering::Relaxed),
            tally.senders_left.load(Ordering::Relaxed),
        ];
        let is_early = self.said.is_some_and(|said| now < said + BETWEEN);
        if is_early || counts == self.counts {
            return None;
        }
        (self.said, self.counts) = (Some(now), counts);
        let [blocks, dropped, cut, left] = counts;
        let lost_bytes = report.lost_bytes;
        let parts = [
            (
                blocks,
                format!("{} LOST ({lost_bytes} bytes)", counted(blocks, "block")),
            ),
            (
                dropped,
                format!("{} LOST in the kernel", counted(dropped, "datagram")),
            ),
            (cut, format!("{} CUT", counted(cut, "datagram"))),
            (
                left,
                format!(
                    "{} left, and others are waited for",
                    counted(left, "sender")
                ),
            ),
        ];
        let parts = parts.into_iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts.map(|(_, text)| text).collect();
        Some(format!("so far {}", parts.join(", ")))
    }
}

/// What readers of the recording have as events.
#[derive(Debug, Default)]
pub struct Noted {
    lost: [u64; 5],
    late: [u64; 2],
}

impl Noted {
    /// Adds what was lost or late since the last time.
    pub fn note(
        &mut self,
        events: &Events,
        report: &RecordReport,
        tally: &Tally,
        wall_ns: impl Fn() -> u64,
    ) {
        let [dropped, cut] = tally.counts();
        let lost = [
            report.gaps,
            report.lost_blocks,
            report.lost_bytes,
            dropped,
            cut,
        ];
        if lost != self.lost {
            self.lost = lost;
            let [
                gaps,
                lost_blocks,
                lost_bytes,
                dropped_datagrams,
                cut_datagrams,
            ] = lost;
            let gap = Happened::Gap {
                gaps,
                lost_blocks,
                lost_bytes,
                dropped_datagrams,
                cut_datagrams,
            };
            events.add(wall_ns(), gap);
        }
        let late = [report.misses, report.lateness_max_us];
        if late != self.late {
            self.late = late;
            let [misses, lateness_max_us] = late;
            let late = Happened::Late {
                misses,
                lateness_max_us,
            };
            events.add(wall_ns(), late);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_loss_is_said_at_once_and_others_each_minute() {
        let mut losses = Losses::default();
        let (mut report, tally) = (RecordReport::default(), Tally::default());
        let mut line = |s, report: &RecordReport, tally: &Tally| {
            losses.line(Duration::from_secs(s), report, tally)
        };
        assert_eq!(line(5, &report, &tally), None);
        (report.lost_blocks, report.lost_bytes) = (1, 4096);
        let first = line(6, &report, &tally);
        assert_eq!(first.as_deref(), Some("so far 1 block LOST (4096 bytes)"));
        tally.set([7, 0]);
        tally.sender_left();
        assert_eq!(line(65, &report, &tally), None);
        let next = line(66, &report, &tally).unwrap();
        assert!(
            next.contains("7 datagrams LOST in the kernel, 1 sender left"),
            "{next}"
        );
        // Nothing new.
        assert_eq!(line(999, &report, &tally), None);
    }
}
