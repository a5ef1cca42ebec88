// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lanes of events: their bytes, and the timeline of several.
//!
//! A dump is a sequence of lanes. A lane is a page that describes it and `capacity` records of 16
//! bytes, little-endian; a record whose last word has no valid bit is empty. [`Header`] is the one
//! table of offsets; `kernel/chario/swt_event.h` is tested against it.

use std::fmt;

/// Bytes before a lane's events.
pub const HEADER_BYTES: usize = 4096;
/// Bytes of an event: time (8), tag (4), source (4).
pub const RECORD_BYTES: usize = 16;

const MAGIC: u32 = u32::from_le_bytes(*b"SWEV");
const VERSION: u32 = 1;
const NAME_BYTES: usize = 32;
/// Source: bit 0 a line, 1 valid. The word of the timer's register SOURCE.
const IS_LINE: u32 = 1;
const IS_VALID: u32 = 2;

/// Offsets of a header's fields, in bytes.
pub(crate) mod offset {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const VERSION: usize = 4;
    pub(crate) const CAPACITY: usize = 8;
    pub(crate) const NUMBER: usize = 12;
    pub(crate) const LOST: usize = 16;
    pub(crate) const BEGIN_COUNTER: usize = 24;
    pub(crate) const BEGIN_NS: usize = 32;
    pub(crate) const END_COUNTER: usize = 40;
    pub(crate) const END_NS: usize = 48;
    pub(crate) const NAME: usize = 56;
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneEvent {
    /// The lane's counter.
    pub at: u64,
    /// What happened; of a line its number.
    pub tag: u32,
    /// Whether an interrupt line caused it.
    pub is_line: bool,
}

/// A counter and `CLOCK_MONOTONIC` at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anchor {
    /// The counter.
    pub counter: u64,
    /// The clock, in nanoseconds.
    pub ns: u64,
}

/// The events of one recorder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lane {
    /// Its name.
    pub name: String,
    /// Its thread or processor.
    pub number: u32,
    /// Number of events that found no room.
    pub lost: u64,
    /// When recording began.
    pub begin: Anchor,
    /// When it ended; zero if it has not.
    pub end: Anchor,
    /// The events, by their time.
    pub events: Vec<LaneEvent>,
}

/// The header of a lane.
#[derive(Clone, Debug, Default)]
pub(crate) struct Header {
    pub(crate) name: String,
    pub(crate) capacity: u32,
    pub(crate) number: u32,
    pub(crate) lost: u64,
    pub(crate) begin: Anchor,
    pub(crate) end: Anchor,
}

impl Header {
    pub(crate) fn thread(name: &str, capacity: u32, number: u32) -> Self {
        Self {
            name: name.to_owned(),
            capacity,
            number,
            ..Self::default()
        }
    }

    /// The fields' bytes, up to the end of the name.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; offset::NAME + NAME_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(offset::MAGIC, &MAGIC.to_le_bytes());
        put(offset::VERSION, &VERSION.to_le_bytes());
        put(offset::CAPACITY, &self.capacity.to_le_bytes());
        put(offset::NUMBER, &self.number.to_le_bytes());
        put(offset::LOST, &self.lost.to_le_bytes());
        put(offset::BEGIN_COUNTER, &self.begin.counter.to_le_bytes());
        put(offset::BEGIN_NS, &self.begin.ns.to_le_bytes());
        put(offset::END_COUNTER, &self.end.counter.to_le_bytes());
        put(offset::END_NS, &self.end.ns.to_le_bytes());
        let fits = (0..=NAME_BYTES.min(self.name.len()))
            .rev()
            .find(|&end| self.name.is_char_boundary(end));
        put(offset::NAME, &self.name.as_bytes()[..fits.unwrap_or(0)]);
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let name = bytes.get(offset::NAME..offset::NAME + NAME_BYTES)?;
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        let anchor = |counter, ns| {
            Some(Anchor {
                counter: quad(bytes, counter)?,
                ns: quad(bytes, ns)?,
            })
        };
        Some(Self {
            name: String::from_utf8_lossy(name).into_owned(),
            capacity: word(bytes, offset::CAPACITY)?,
            number: word(bytes, offset::NUMBER)?,
            lost: quad(bytes, offset::LOST)?,
            begin: anchor(offset::BEGIN_COUNTER, offset::BEGIN_NS)?,
            end: anchor(offset::END_COUNTER, offset::END_NS)?,
        })
    }
}

/// Why bytes are not a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadDump {
    /// No lane begins at this byte.
    NotALane {
        /// The byte.
        at: usize,
    },
    /// The lane at this byte has a format that this version does not know.
    Version {
        /// The byte.
        at: usize,
        /// Its version.
        version: u32,
    },
    /// The lane at this byte is longer than the dump.
    Truncated {
        /// The byte.
        at: usize,
    },
}

impl fmt::Display for BadDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotALane { at } => write!(f, "not a dump of events: no lane begins at byte {at}"),
            Self::Version { at, version } => {
                write!(f, "unknown version {version} of the lane at byte {at}")
            }
            Self::Truncated { at } => write!(f, "the lane at byte {at} is truncated"),
        }
    }
}

impl std::error::Error for BadDump {}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let part = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(part.try_into().ok()?))
}

fn quad(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from(word(bytes, at)?) | u64::from(word(bytes, at + 4)?) << 32)
}

/// The events of records as `rtl/timer` streams them: 16 bytes each. Empty ones are skipped.
pub fn records(bytes: &[u8]) -> Vec<LaneEvent> {
    let record = |part: &[u8]| {
        let source = word(part, 12)?;
        (source & IS_VALID != 0).then_some(LaneEvent {
            at: quad(part, 0)?,
            tag: word(part, 8)?,
            is_line: source & IS_LINE != 0,
        })
    };
    let mut events: Vec<LaneEvent> = bytes
        .chunks_exact(RECORD_BYTES)
        .filter_map(record)
        .collect();
    // In the kernel an interrupt may stamp between another event's record and its time.
    events.sort_by_key(|event| event.at);
    events
}

/// The lanes of a dump.
///
/// # Errors
/// The bytes are not a dump, or not a whole one.
pub fn parse(bytes: &[u8]) -> Result<Vec<Lane>, BadDump> {
    let mut lanes = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        if word(rest, offset::MAGIC) != Some(MAGIC) {
            return Err(BadDump::NotALane { at });
        }
        let header = Header::parse(rest).ok_or(BadDump::Truncated { at })?;
        match word(rest, offset::VERSION) {
            Some(VERSION) => {}
            version => {
                let version = version.unwrap_or(0);
                return Err(BadDump::Version { at, version });
            }
        }
        let len = (header.capacity as usize)
            .checked_mul(RECORD_BYTES)
            .and_then(|bytes| bytes.checked_add(HEADER_BYTES))
            .filter(|&len| len <= rest.len())
            .ok_or(BadDump::Truncated { at })?;
        lanes.push(Lane {
            name: header.name,
            number: header.number,
            lost: header.lost,
            begin: header.begin,
            end: header.end,
            events: records(&rest[HEADER_BYTES..len]),
        });
        at += len;
    }
    Ok(lanes)
}

impl Lane {
    /// The lane's bytes in a dump, without empty records.
    pub fn write(&self, dump: &mut Vec<u8>) {
        let header = Header {
            name: self.name.clone(),
            capacity: u32::try_from(self.events.len()).unwrap_or(u32::MAX),
            number: self.number,
            lost: self.lost,
            begin: self.begin,
            end: self.end,
        };
        let start = dump.len();
        dump.extend(header.bytes());
        dump.resize(start + HEADER_BYTES, 0);
        for event in self.events.iter().take(header.capacity as usize) {
            let source = IS_VALID | u32::from(event.is_line);
            dump.extend(event.at.to_le_bytes());
            dump.extend(event.tag.to_le_bytes());
            dump.extend(source.to_le_bytes());
        }
    }

    /// The time of a counter's value in nanoseconds of `CLOCK_MONOTONIC`. Without two anchors a
    /// tick counts as a nanosecond.
    pub fn ns(&self, counter: u64) -> u64 {
        let ticks = i128::from(self.end.counter) - i128::from(self.begin.counter);
        let since = i128::from(counter) - i128::from(self.begin.counter);
        let ns = match ticks {
            1.. => since * (i128::from(self.end.ns) - i128::from(self.begin.ns)) / ticks,
            _ => since,
        };
        let ns = i128::from(self.begin.ns) + ns;
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}

/// An event of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// The index of its lane.
    pub lane: usize,
    /// The event.
    pub event: LaneEvent,
}

/// The events of all lanes in the order of their time.
pub fn timeline(lanes: &[Lane]) -> Vec<Stamp> {
    let stamps = lanes.iter().enumerate().flat_map(|(index, lane)| {
        lane.events.iter().map(move |event| Stamp {
            at_ns: lane.ns(event.at),
            lane: index,
            event: *event,
        })
    });
    let mut stamps: Vec<Stamp> = stamps.collect();
    stamps.sort_by_key(|stamp| stamp.at_ns);
    stamps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(name: &str, hz: u64, at: &[u64]) -> Lane {
        let event = |&at| LaneEvent {
            at,
            tag: at as u32,
            is_line: at % 2 == 1,
        };
        Lane {
            name: name.into(),
            number: 7,
            lost: 3,
            begin: Anchor {
                counter: 100,
                ns: 1_000,
            },
            end: Anchor {
                counter: 100 + hz,
                ns: 1_000 + 1_000_000_000,
            },
            events: at.iter().map(event).collect(),
        }
    }

    #[test]
    fn a_dump_returns_its_lanes() {
        let lanes = [lane("one", 1000, &[100, 101]), lane("größer", 2000, &[])];
        let mut dump = Vec::new();
        lanes.iter().for_each(|lane| lane.write(&mut dump));
        assert_eq!(parse(&dump).unwrap(), lanes);
        assert!(parse(&[]).unwrap().is_empty());
    }

    #[test]
    fn what_is_not_a_dump_is_an_error_at_its_byte() {
        let mut dump = Vec::new();
        lane("one", 1, &[5]).write(&mut dump);
        let whole = dump.len();
        for len in 1..whole {
            assert!(parse(&dump[..len]).is_err(), "{len}");
        }
        dump.push(0);
        assert_eq!(parse(&dump), Err(BadDump::NotALane { at: whole }));
        dump.truncate(whole);
        dump[offset::VERSION] = 9;
        assert_eq!(parse(&dump), Err(BadDump::Version { at: 0, version: 9 }));
        dump[offset::VERSION] = 1;
        dump[offset::CAPACITY + 3] = 0xff;
        assert_eq!(parse(&dump), Err(BadDump::Truncated { at: 0 }));
    }

    #[test]
    fn lanes_of_different_counters_are_one_timeline() {
        // 1 kHz and 2 kHz: the second lane's event at 104 is 2 ms after the beginning, the first's
        // at 101 1 ms.
        let lanes = [lane("slow", 1000, &[101, 103]), lane("fast", 2000, &[104])];
        let times: Vec<(u64, usize)> = timeline(&lanes)
            .iter()
            .map(|stamp| (stamp.at_ns, stamp.lane))
            .collect();
        assert_eq!(times, [(1_001_000, 0), (2_001_000, 1), (3_001_000, 0)]);
        let mut open = lane("open", 1000, &[150]);
        open.end = Anchor::default();
        assert_eq!(open.ns(150), 1_050);
        assert_eq!(open.ns(0), 900);
    }
}
