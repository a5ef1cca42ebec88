// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What has happened in a recording, for readers that follow it: the last of it, numbered.
//!
//! The recording's loop adds to it; the threads of the readers answer from it, without the loop and
//! without the drive.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// How many are kept for readers that come late, or are slow.
const MOST: usize = 4096;
/// How many an answer has.
const MOST_IN_ANSWER: usize = 512;

/// Something that happened in a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "reports", derive(schemars::JsonSchema))]
pub struct Event {
    /// Its number in the recording, from 0.
    pub number: u64,
    /// When, in nanoseconds since 1970.
    pub at_ns: u64,
    /// What.
    #[serde(flatten)]
    pub what: Happened,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "reports", derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Happened {
    /// The recording began.
    Started {
        /// Its name, without the number of a segment.
        name: String,
    },
    /// A segment is final.
    Final {
        /// Its name.
        file: String,
        /// Its length.
        length_bytes: u64,
        /// Gaps in it.
        gaps: u64,
        /// Bytes that are missing there.
        lost_bytes: u64,
    },
    /// A ring removed its oldest segment.
    Removed {
        /// Its name.
        file: String,
        /// Its length.
        length_bytes: u64,
    },
    /// Something was lost: the sums so far.
    Gap {
        /// Runs of lost blocks.
        gaps: u64,
        /// Blocks for which no buffer was empty.
        lost_blocks: u64,
        /// Their bytes.
        lost_bytes: u64,
        /// Datagrams that the kernel dropped.
        dropped_datagrams: u64,
        /// Datagrams that were cut.
        cut_datagrams: u64,
    },
    /// Blocks were late: the sums so far.
    Late {
        /// Blocks completed after their deadline.
        misses: u64,
        /// The longest time past a deadline.
        lateness_max_us: u64,
    },
    /// Nothing more arrives; what has arrived is being written.
    Stopping,
    /// The recording has ended.
    Ended {
        /// Bytes of it that are durable.
        durable_bytes: u64,
        /// Bytes that were lost.
        lost_bytes: u64,
        /// Why it ended early.
        failure: Option<String>,
    },
}

#[derive(Debug, Default)]
struct Log {
    next: u64,
    last: VecDeque<Event>,
}

/// The events of a recording.
#[derive(Debug, Default)]
pub struct Events(Mutex<Log>);

impl Events {
    /// Adds one.
    pub fn add(&self, at_ns: u64, what: Happened) {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = log.next;
        log.next += 1;
        if log.last.len() == MOST {
            log.last.pop_front();
        }
        log.last.push_back(Event {
            number,
            at_ns,
            what,
        });
    }

    /// Those from number `from` on that are kept, the first ones of them, and the number of the
    /// next one.
    pub fn since(&self, from: u64) -> (Vec<Event>, u64) {
        let log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = log.next - log.last.len() as u64;
        let skipped = usize::try_from(from.saturating_sub(first)).unwrap_or(usize::MAX);
        let events = log.last.iter().skip(skipped).take(MOST_IN_ANSWER);
        let events: Vec<Event> = events.cloned().collect();
        let next = events
            .last()
            .map_or(from.max(first), |event| event.number + 1);
        (events, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_has_each_event_once_and_sees_that_it_was_too_slow() {
        let events = Events::default();
        assert_eq!(events.since(0), (Vec::new(), 0));
        for at_ns in 0..600 {
            events.add(at_ns, Happened::Stopping);
        }
        let mut seen = Vec::new();
        let mut from = 0;
        loop {
            let (some, next) = events.since(from);
            if some.is_empty() {
                break;
            }
            seen.extend(some);
            from = next;
        }
        assert!(seen.iter().map(|event| event.number).eq(0..600));
        assert_eq!(events.since(600), (Vec::new(), 600));
        for at_ns in 600..5000 {
            events.add(at_ns, Happened::Stopping);
        }
        let (some, _) = events.since(600);
        assert_eq!(some[0].number, 5000 - MOST as u64);
        assert_eq!(some[0].at_ns, some[0].number);
        // Of another recording that began since: it has fewer.
        assert_eq!(events.since(9000).1, 9000);
    }

    #[test]
    fn an_event_is_one_object() {
        let events = Events::default();
        let name = "cam.%n".to_owned();
        events.add(7, Happened::Started { name });
        let (some, _) = events.since(0);
        let line = serde_json::to_string(&some[0]).unwrap();
        assert_eq!(
            line,
            r#"{"number":0,"at_ns":7,"event":"started","name":"cam.%n"}"#
        );
        assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), some[0]);
    }
}
