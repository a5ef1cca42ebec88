// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Dumps of events as a timeline, and as the parts of requests.

use super::events::{TraceEvent, What};
use super::parts::{PARTS, Split, by_events, by_marks, by_stamps};
use super::{Mark, Recorded};
use crate::format::{count, duration};
use crate::trace::parts::Stamps;
use events::{Lane, Names, application, chario, timeline};
use remedy::{Setting, Wording};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;

/// Version of the schema of [`Timeline`].
pub const TIMELINE_SCHEMA_VERSION: u32 = 1;

/// What the project's own tags mean. Interrupt lines are interrupts.
pub fn recorded(lanes: &[Lane]) -> Recorded {
    let mut recorded = Recorded {
        lost: lanes.iter().map(|lane| lane.lost).sum(),
        ..Recorded::default()
    };
    for stamp in timeline(lanes) {
        let at_ns = stamp.at_ns;
        let mut event = |what| recorded.events.push(TraceEvent { at_ns, what });
        if stamp.event.is_line {
            event(What::Interrupt);
            continue;
        }
        match stamp.event.tag {
            application::BEGIN => recorded.marks.push((at_ns, Mark::Begin)),
            application::STARTED => recorded.marks.push((at_ns, Mark::Started)),
            application::SEEN => recorded.marks.push((at_ns, Mark::Seen)),
            application::END => recorded.marks.push((at_ns, Mark::End)),
            chario::ENTER => event(What::Enter),
            chario::EXIT => event(What::Exit),
            chario::SUBMIT => event(What::Submit),
            chario::INTERRUPT => event(What::Interrupt),
            chario::COMPLETE => event(What::Complete),
            chario::WAKE => event(What::Wake),
            chario::SLEEP => event(What::Sleep),
            chario::RESUME => event(What::Resume),
            _ => {}
        }
    }
    recorded
}

/// A lane of a dump.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TimelineLane {
    /// Its name.
    pub name: String,
    /// Its thread or processor.
    pub number: u32,
    /// Number of its events.
    pub events: u64,
    /// Number of events that found no room.
    pub lost: u64,
}

/// An event of a timeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TimelineEvent {
    /// Nanoseconds since the first event.
    pub at_ns: u64,
    /// Nanoseconds since the event before it.
    pub since_ns: u64,
    /// The name of its lane.
    pub lane: String,
    /// The name of what happened.
    pub name: String,
    /// Its tag, or the number of its line.
    pub tag: u32,
    /// Whether an interrupt line caused it.
    pub is_line: bool,
}

/// A dump of events.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Timeline {
    /// Version of this schema: 1.
    pub schema_version: u32,
    /// The lanes.
    pub lanes: Vec<TimelineLane>,
    /// The first events, by time.
    pub events: Vec<TimelineEvent>,
    /// Number of events that are not shown.
    pub omitted: u64,
    /// The parts of each request that the dump has from its beginning to its end, in nanoseconds:
    /// `straightway trace` names them.
    pub requests: Vec<[f64; 6]>,
}

/// The requests of a dump: those that the application stamped, or the calls of CharIO.
fn requests(recorded: &Recorded) -> Vec<Split> {
    let has_calls = recorded
        .events
        .iter()
        .any(|event| event.what == What::Enter);
    let marked = by_marks(&recorded.marks);
    let mut stamps = marked;
    if stamps.is_empty() {
        let mut begin = None;
        for event in &recorded.events {
            match event.what {
                What::Enter => begin = Some(event.at_ns),
                What::Exit => stamps.extend(begin.take().map(|begin_ns| Stamps {
                    begin_ns,
                    end_ns: event.at_ns,
                    ..Stamps::default()
                })),
                _ => {}
            }
        }
    }
    let split = |stamps: &Stamps| {
        if has_calls {
            by_events(stamps, &recorded.events, true)
        } else {
            by_stamps(stamps)
        }
    };
    stamps.iter().map(split).collect()
}

impl Timeline {
    /// The timeline of a dump's lanes, with at most `most` events.
    pub fn new(lanes: &[Lane], names: &Names, most: usize) -> Self {
        let stamps = timeline(lanes);
        let first_ns = stamps.first().map_or(0, |stamp| stamp.at_ns);
        let before = std::iter::once(first_ns).chain(stamps.iter().map(|stamp| stamp.at_ns));
        let event = |(stamp, before_ns): (&events::Stamp, u64)| TimelineEvent {
            at_ns: stamp.at_ns - first_ns,
            since_ns: stamp.at_ns - before_ns,
            lane: lanes
                .get(stamp.lane)
                .map_or(String::new(), |lane| lane.name.clone()),
            name: if stamp.event.is_line {
                format!("line {}", stamp.event.tag)
            } else {
                names.of(stamp.event.tag)
            },
            tag: stamp.event.tag,
            is_line: stamp.event.is_line,
        };
        Self {
            schema_version: TIMELINE_SCHEMA_VERSION,
            lanes: lanes
                .iter()
                .map(|lane| TimelineLane {
                    name: lane.name.clone(),
                    number: lane.number,
                    events: lane.events.len() as u64,
                    lost: lane.lost,
                })
                .collect(),
            events: stamps.iter().zip(before).take(most).map(event).collect(),
            omitted: stamps.len().saturating_sub(most) as u64,
            requests: requests(&recorded(lanes))
                .iter()
                .map(|split| split.parts)
                .collect(),
        }
    }

    /// The timeline as text.
    pub fn text(&self, wording: &dyn Wording) -> String {
        let mut text = String::new();
        for lane in self.lanes.iter().filter(|lane| lane.events + lane.lost > 0) {
            let lost = match lane.lost {
                0 => String::new(),
                lost => format!(", {} lost", count(lost)),
            };
            let _ = writeln!(
                text,
                "{} ({}): {} events{lost}",
                lane.name,
                lane.number,
                count(lane.events)
            );
        }
        let widest = |of: fn(&TimelineEvent) -> &str| {
            let widths = self.events.iter().map(|event| of(event).chars().count());
            widths.max().unwrap_or(0)
        };
        let (lane, name) = (widest(|event| &event.lane), widest(|event| &event.name));
        if !self.events.is_empty() {
            let _ = writeln!(text, "\n{:>14}  {:>12}", "µs", "since");
        }
        for event in &self.events {
            let (at, since) = (event.at_ns as f64 / 1e3, event.since_ns as f64 / 1e3);
            let _ = writeln!(
                text,
                "{at:>14.3}  {since:>+12.3}  {:<lane$}  {:<name$}",
                event.lane, event.name
            );
        }
        if self.omitted > 0 {
            let _ = writeln!(
                text,
                "{} more events: {}",
                count(self.omitted),
                wording.setting(Setting::Events)
            );
        }
        if !self.requests.is_empty() {
            let _ = writeln!(
                text,
                "\nmean of {} requests",
                count(self.requests.len() as u64)
            );
            for (index, part) in PARTS.iter().enumerate() {
                let sum: f64 = self.requests.iter().map(|parts| parts[index]).sum();
                let mean_ns = sum / self.requests.len() as f64;
                let _ = writeln!(text, "  {part:<26} {:>10}", duration(mean_ns as u64));
            }
        }
        // Names may end lines with spaces.
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        lines.join("\n") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::{Anchor, LaneEvent as Stamped};

    fn lane(name: &str, events: &[(u64, u32)]) -> Lane {
        let event = |&(at, tag)| Stamped {
            at,
            tag,
            is_line: tag < 8,
        };
        Lane {
            name: name.into(),
            // A tick is 2 ns.
            begin: Anchor {
                counter: 0,
                ns: 1000,
            },
            end: Anchor {
                counter: 1000,
                ns: 3000,
            },
            events: events.iter().map(event).collect(),
            ..Lane::default()
        }
    }

    #[test]
    fn a_dump_of_two_lanes_is_one_timeline_with_the_parts_of_its_request() {
        let user = lane(
            "user",
            &[
                (10, application::BEGIN),
                (15, application::STARTED),
                (500, application::SEEN),
                (510, application::END),
            ],
        );
        let mut cpu = lane(
            "cpu0",
            &[
                (20, chario::ENTER),
                (30, chario::SUBMIT),
                (40, chario::SLEEP),
                (430, 3),
                (440, chario::COMPLETE),
                (441, chario::WAKE),
                (460, chario::RESUME),
                (480, chario::EXIT),
                (490, 0x99),
            ],
        );
        cpu.lost = 2;
        let shown = Timeline::new(&[user, cpu], &Names::default(), 100);
        let names: Vec<&str> = shown.events.iter().map(|event| &*event.name).collect();
        assert_eq!(
            names.join(" "),
            "begin started call submit sleep line 3 complete wake resume return 0x99 seen end"
        );
        assert_eq!(
            (shown.events[5].at_ns, shown.events[5].since_ns),
            (840, 780)
        );
        // Application: 10..20 and 480..510. After: 440..441 and 460..480.
        assert_eq!(shown.requests, [[80.0, 20.0, 800.0, 20.0, 42.0, 38.0]]);
        let text = shown.text(&remedy::Members);
        assert!(text.contains("cpu0 (0): 9 events, 2 lost"), "{text}");
        assert!(text.contains("mean of 1 requests"), "{text}");
    }

    #[test]
    fn the_module_alone_has_its_calls_as_requests_and_events_above_the_limit_are_counted() {
        let cpu = lane(
            "cpu0",
            &[
                (1, chario::EXIT),
                (20, chario::ENTER),
                (30, chario::SUBMIT),
                (440, chario::COMPLETE),
                (480, chario::EXIT),
                (490, chario::ENTER),
            ],
        );
        let shown = Timeline::new(&[cpu], &Names::default(), 2);
        assert_eq!((shown.events.len(), shown.omitted), (2, 4));
        assert_eq!(shown.requests, [[0.0, 20.0, 820.0, 0.0, 80.0, 0.0]]);
        let nothing = Timeline::new(&[], &Names::default(), 2);
        assert!(nothing.events.is_empty() && nothing.requests.is_empty());
    }
}
