// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parts of a request's time.
//!
//! From the application's call to its return each instant belongs to one part, determined by the
//! preceding events. So the parts of a request add up to its total if its system calls were
//! recorded; otherwise the request counts as not covered.

use super::Mark;
use super::events::{TraceEvent, What};

/// Names of the parts, in order.
pub const PARTS: [&str; 6] = [
    "application",
    "kernel or driver, before",
    "device",
    "interrupt to completion",
    "kernel or driver, after",
    "resume",
];

const APPLICATION: usize = 0;
const BEFORE: usize = 1;
const DEVICE: usize = 2;
const INTERRUPT: usize = 3;
const AFTER: usize = 4;
const RESUME: usize = 5;

/// Our own stamps of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// Before it was submitted.
    pub begin_ns: u64,
    /// After it was started.
    pub started_ns: u64,
    /// Start of the poll that found it done.
    pub seen_ns: u64,
    /// When it returned.
    pub end_ns: u64,
}

/// One request, in parts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Split {
    /// Nanoseconds of each part.
    pub parts: [f64; 6],
    /// From the call to its return.
    pub total_ns: f64,
    /// Number of commands that it submitted to the drive.
    pub commands: u32,
}

impl Split {
    /// The parts' share of the total, from 0 to 1.
    pub fn coverage(&self) -> f64 {
        let sum: f64 = self.parts.iter().sum();
        (sum / self.total_ns.max(1.0)).min(1.0)
    }
}

/// The stamps of each request that has both its first and its last point. A request whose points
/// were lost in part is left out.
pub fn by_marks(marks: &[(u64, Mark)]) -> Vec<Stamps> {
    let mut all = Vec::new();
    let mut open: Option<Stamps> = None;
    for &(at_ns, mark) in marks {
        match (mark, &mut open) {
            (Mark::Begin, open) => {
                *open = Some(Stamps {
                    begin_ns: at_ns,
                    started_ns: at_ns,
                    seen_ns: at_ns,
                    end_ns: at_ns,
                });
            }
            (Mark::Started, Some(stamps)) => stamps.started_ns = at_ns,
            (Mark::Seen, Some(stamps)) => stamps.seen_ns = at_ns,
            (Mark::End, Some(stamps)) => {
                stamps.end_ns = at_ns;
                all.extend(open.take());
            }
            (_, None) => {}
        }
    }
    all
}

/// A request by the driver's own stamps: the driver before the doorbell, the device, and the driver
/// after the completion.
pub fn by_stamps(stamps: &Stamps) -> Split {
    let between = |from: u64, to: u64| to.saturating_sub(from) as f64;
    let mut parts = [0.0; 6];
    parts[BEFORE] = between(stamps.begin_ns, stamps.started_ns);
    parts[DEVICE] = between(stamps.started_ns, stamps.seen_ns);
    parts[AFTER] = between(stamps.seen_ns, stamps.end_ns);
    Split {
        parts,
        total_ns: between(stamps.begin_ns, stamps.end_ns),
        commands: 1,
    }
}

/// A request by the events during it. `knows_commands` is whether the driver has events for each
/// command; if not, the device's time is the time that our process sleeps.
pub fn by_events(stamps: &Stamps, events: &[TraceEvent], knows_commands: bool) -> Split {
    let first = events.partition_point(|event| event.at_ns < stamps.begin_ns);
    let mut state = State {
        knows_commands,
        ..State::default()
    };
    let mut split = Split {
        total_ns: stamps.end_ns.saturating_sub(stamps.begin_ns) as f64,
        ..Split::default()
    };
    let mut at_ns = stamps.begin_ns;
    for event in events.iter().skip(first) {
        if event.at_ns > stamps.end_ns {
            break;
        }
        split.give(state.part(), at_ns, event.at_ns);
        at_ns = event.at_ns;
        state.take(event.what);
        split.commands += u32::from(event.what == What::Submit);
    }
    split.give(state.part(), at_ns, stamps.end_ns);
    if !state.entered || state.in_call {
        // Its calls were not recorded completely: the parts are unknown.
        split.parts = [0.0; 6];
    }
    split
}

impl Split {
    fn give(&mut self, part: usize, from_ns: u64, to_ns: u64) {
        if let Some(place) = self.parts.get_mut(part) {
            *place += to_ns.saturating_sub(from_ns) as f64;
        }
    }
}

#[derive(Default)]
struct State {
    knows_commands: bool,
    entered: bool,
    in_call: bool,
    submitted: bool,
    outstanding: u32,
    in_handler: bool,
    woken: bool,
}

impl State {
    fn part(&self) -> usize {
        if !self.in_call {
            APPLICATION
        } else if self.in_handler {
            INTERRUPT
        } else if self.outstanding > 0 {
            DEVICE
        } else if self.woken {
            RESUME
        } else if self.submitted {
            AFTER
        } else {
            BEFORE
        }
    }

    fn take(&mut self, what: What) {
        match what {
            What::Enter => {
                self.entered = true;
                self.in_call = true;
            }
            What::Exit => {
                self.in_call = false;
                self.woken = false;
            }
            What::Submit => {
                self.submitted = true;
                self.outstanding += 1;
            }
            What::Complete => {
                self.outstanding = self.outstanding.saturating_sub(1);
                self.in_handler = false;
            }
            // It belongs to another request if none of ours is in flight.
            What::Interrupt => self.in_handler = self.outstanding > 0,
            What::Sleep => {
                if !self.knows_commands && self.in_call {
                    self.submitted = true;
                    self.outstanding = 1;
                }
            }
            What::Wake => {
                if !self.knows_commands {
                    self.outstanding = 0;
                    self.in_handler = false;
                }
                self.woken = self.outstanding == 0;
            }
            What::Resume => self.woken = false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(list: &[(u64, What)]) -> Vec<TraceEvent> {
        let event = |&(at_ns, what)| TraceEvent { at_ns, what };
        list.iter().map(event).collect()
    }

    const STAMPS: Stamps = Stamps {
        begin_ns: 100,
        started_ns: 0,
        seen_ns: 0,
        end_ns: 1000,
    };

    #[test]
    fn each_instant_of_a_read_has_its_part() {
        use What::*;
        let list = events(&[
            (50, Exit),
            (110, Enter),
            (160, Submit),
            (700, Interrupt),
            (720, Complete),
            (730, Wake),
            (800, Resume),
            (980, Exit),
            (2000, Enter),
        ]);
        let split = by_events(&STAMPS, &list, true);
        // After: 720 to 730, and 800 to 980.
        assert_eq!(split.parts, [30.0, 50.0, 540.0, 20.0, 190.0, 70.0]);
        assert_eq!((split.coverage(), split.commands), (1.0, 1));
    }

    #[test]
    fn two_commands_and_a_hit_in_memory() {
        use What::*;
        let list = events(&[
            (110, Enter),
            (200, Submit),
            (210, Submit),
            (500, Interrupt),
            (510, Complete),
            (600, Interrupt),
            (620, Complete),
            (990, Exit),
        ]);
        let split = by_events(&STAMPS, &list, true);
        assert_eq!(split.parts[DEVICE], 300.0 + 90.0);
        assert_eq!(split.parts[INTERRUPT], 30.0);
        assert_eq!(split.commands, 2);
        let hit = by_events(&STAMPS, &events(&[(110, Enter), (900, Exit)]), true);
        assert_eq!(hit.parts, [110.0, 790.0, 0.0, 0.0, 0.0, 0.0]);
        // The interrupt of another request changes nothing.
        let other = events(&[(110, Enter), (300, Interrupt), (900, Exit)]);
        assert_eq!(by_events(&STAMPS, &other, true).parts, hit.parts);
    }

    #[test]
    fn without_the_driver_s_events_the_device_is_what_the_caller_sleeps() {
        use What::*;
        let list = events(&[
            (110, Enter),
            (200, Sleep),
            (700, Interrupt),
            (720, Wake),
            (800, Resume),
            (980, Exit),
        ]);
        let split = by_events(&STAMPS, &list, false);
        assert_eq!(split.parts, [30.0, 90.0, 500.0, 20.0, 180.0, 80.0]);
        assert_eq!((split.coverage(), split.commands), (1.0, 0));
    }

    #[test]
    fn lost_calls_are_not_covered() {
        use What::*;
        assert_eq!(by_events(&STAMPS, &[], true).coverage(), 0.0);
        let half = events(&[(110, Enter), (200, Submit)]);
        assert_eq!(by_events(&STAMPS, &half, true).coverage(), 0.0);
    }

    #[test]
    fn a_request_without_its_end_or_its_beginning_is_left_out() {
        use Mark::*;
        let marks = [
            (5, End),
            (10, Begin),
            (20, Begin),
            (30, Started),
            (40, Seen),
            (50, End),
            (60, Begin),
        ];
        let stamps = by_marks(&marks);
        assert_eq!(stamps.len(), 1);
        assert_eq!(
            by_stamps(&stamps[0]).parts,
            [0.0, 10.0, 10.0, 0.0, 10.0, 0.0]
        );
    }

    #[test]
    fn stamps_alone_cover_all() {
        let stamps = Stamps {
            begin_ns: 100,
            started_ns: 150,
            seen_ns: 900,
            end_ns: 930,
        };
        let split = by_stamps(&stamps);
        assert_eq!(split.parts, [0.0, 50.0, 750.0, 0.0, 30.0, 0.0]);
        assert_eq!(split.coverage(), 1.0);
    }
}
