// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A ring of events in memory, stamped by the processor's counter.
//!
//! "Ring" as in a buffer that is cleared and used again: it does not wrap, because the first events
//! of a run are those that explain it. The page before the events is a lane's header, so that the
//! memory, or the file, is itself a dump.

use crate::Recorder;
use crate::lane::{Anchor, HEADER_BYTES, Header, Lane, RECORD_BYTES, offset, parse};
use crate::memory::{Cursor, Mapping, counter, monotonic_ns};
use std::fs::File;
use std::io;
use std::path::Path;

/// Whether events are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Recording,
    Paused,
    Armed,
}

/// A thread's events.
#[derive(Debug)]
pub struct Ring {
    cursor: Cursor,
    mode: Mode,
    /// Events that the pause keeps from being stored: the cursor has no room then.
    held: usize,
    lost: u64,
    header: Header,
    mapping: Mapping,
}

/// The counter and the clock at one moment: of five readings the one that took the shortest time.
fn anchor() -> Anchor {
    let once = || {
        let (before, ns, after) = (counter(), monotonic_ns(), counter());
        (
            after.wrapping_sub(before),
            Anchor {
                counter: before.wrapping_add(after.wrapping_sub(before) / 2),
                ns,
            },
        )
    };
    let mut best = once();
    for _ in 0..4 {
        let again = once();
        if again.0 < best.0 {
            best = again;
        }
    }
    best.1
}

impl Ring {
    /// A ring of `capacity` events in memory of this process. It is paused, and empty.
    ///
    /// # Errors
    /// There is not enough memory, or `capacity` is 0 or too large.
    pub fn anonymous(name: &str, capacity: u32) -> io::Result<Self> {
        let bytes = bytes_of(capacity)?;
        Self::over(name, capacity, Mapping::anonymous(bytes)?)
    }

    /// A ring of `capacity` events in a file (best on a file system in memory: `/dev/shm`), which
    /// is a dump at any time. The file is created, and never overwritten.
    ///
    /// # Errors
    /// The file exists or cannot be created, there is not enough memory, or `capacity` is 0 or too
    /// large.
    pub fn create(path: &Path, name: &str, capacity: u32) -> io::Result<Self> {
        let bytes = bytes_of(capacity)?;
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        // Space that is missing is an error here, not a signal at a store.
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes as u64)?;
        Self::over(name, capacity, Mapping::of(&file, bytes)?)
    }

    fn over(name: &str, capacity: u32, mapping: Mapping) -> io::Result<Self> {
        let header = Header::thread(name, capacity, rustix::thread::gettid().as_raw_pid() as u32);
        // Also makes each page present.
        mapping.zero(HEADER_BYTES, bytes_of(capacity)?);
        mapping.put(0, &header.bytes());
        let mut ring = Self {
            cursor: mapping.cursor(HEADER_BYTES, HEADER_BYTES),
            mode: Mode::Paused,
            held: capacity as usize,
            lost: 0,
            header,
            mapping,
        };
        ring.clear()?;
        Ok(ring)
    }

    /// Number of events that found no room.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// No room: the ring is full or not recording.
    #[cold]
    #[inline(never)]
    fn refused(&mut self) {
        if self.mode == Mode::Recording {
            self.lost += 1;
            self.header.lost = self.lost;
            // Two words, where one is torn for a reader in between only each 2^32 events.
            self.mapping.write(offset::LOST, self.lost as u32);
            self.mapping
                .write(offset::LOST + 4, (self.lost >> 32) as u32);
        }
    }

    fn show_header(&self) {
        self.mapping.put(0, &self.header.bytes());
    }

    /// The room that the ring has, whether it is paused or not.
    fn room(&self) -> usize {
        match self.mode {
            Mode::Recording => self.cursor.room(),
            Mode::Paused | Mode::Armed => self.held,
        }
    }

    fn change(&mut self, mode: Mode) {
        let room = self.room();
        let end = HEADER_BYTES + self.header.capacity as usize * RECORD_BYTES;
        let next = end - room * RECORD_BYTES;
        self.held = room;
        self.mode = mode;
        self.cursor = match mode {
            Mode::Recording => self.mapping.cursor(next, end),
            Mode::Paused | Mode::Armed => self.mapping.cursor(next, next),
        };
    }
}

impl Recorder for Ring {
    #[inline(always)]
    fn stamp(&mut self, tag: u32) -> io::Result<()> {
        if self.cursor.has_room() {
            self.cursor.store(tag);
        } else {
            self.refused();
        }
        Ok(())
    }

    fn record(&mut self) -> io::Result<()> {
        if self.header.begin == Anchor::default() {
            self.header.begin = anchor();
            self.show_header();
        }
        self.change(Mode::Recording);
        Ok(())
    }

    fn pause(&mut self) -> io::Result<()> {
        self.change(Mode::Paused);
        self.header.end = anchor();
        self.show_header();
        Ok(())
    }

    fn arm(&mut self) -> io::Result<()> {
        self.change(Mode::Armed);
        Ok(())
    }

    fn trigger(&mut self) -> io::Result<()> {
        match self.mode {
            Mode::Armed => self.record(),
            Mode::Recording | Mode::Paused => Ok(()),
        }
    }

    fn clear(&mut self) -> io::Result<()> {
        let used = self.header.capacity as usize - self.room();
        self.mapping
            .zero(HEADER_BYTES, HEADER_BYTES + used * RECORD_BYTES);
        let mode = self.mode;
        self.mode = Mode::Paused;
        self.held = self.header.capacity as usize;
        self.lost = 0;
        self.header.lost = 0;
        self.header.end = Anchor::default();
        self.header.begin = match mode {
            Mode::Recording => anchor(),
            Mode::Paused | Mode::Armed => Anchor::default(),
        };
        self.show_header();
        self.change(mode);
        Ok(())
    }

    fn take(&mut self) -> io::Result<Lane> {
        self.pause()?;
        let mut lanes = parse(&self.mapping.bytes()).map_err(io::Error::other)?;
        lanes
            .pop()
            .ok_or_else(|| io::Error::other("the ring has no lane"))
    }
}

/// The length of a ring's memory in bytes.
fn bytes_of(capacity: u32) -> io::Result<usize> {
    let bytes = (capacity as usize)
        .checked_mul(RECORD_BYTES)
        .and_then(|bytes| bytes.checked_add(HEADER_BYTES));
    bytes.filter(|_| capacity > 0).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "a ring has room for 1 to 2^32 - 1 events",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(lane: &Lane) -> Vec<u32> {
        lane.events.iter().map(|event| event.tag).collect()
    }

    #[test]
    fn the_first_events_survive_and_the_others_are_counted() {
        let mut ring = Ring::anonymous("r", 3).unwrap();
        ring.stamp(9).unwrap();
        ring.record().unwrap();
        for tag in 0..8 {
            ring.stamp(tag).unwrap();
        }
        let lane = ring.take().unwrap();
        assert_eq!((tags(&lane), lane.lost), (vec![0, 1, 2], 5));
        assert!(lane.events.windows(2).all(|two| two[0].at <= two[1].at));
        // Paused: not stored and not lost.
        ring.stamp(7).unwrap();
        assert_eq!(ring.lost(), 5);
        ring.clear().unwrap();
        let lane = ring.take().unwrap();
        assert_eq!((tags(&lane), lane.lost), (vec![], 0));
    }

    #[test]
    fn it_records_only_when_it_should_and_continues_after_a_pause() {
        let mut ring = Ring::anonymous("r", 8).unwrap();
        ring.trigger().unwrap();
        ring.stamp(1).unwrap();
        ring.arm().unwrap();
        ring.stamp(2).unwrap();
        ring.trigger().unwrap();
        ring.stamp(3).unwrap();
        ring.pause().unwrap();
        ring.stamp(4).unwrap();
        ring.record().unwrap();
        ring.stamp(5).unwrap();
        let lane = ring.take().unwrap();
        assert_eq!((tags(&lane), lane.lost), (vec![3, 5], 0));
        // A clear while it records keeps recording.
        ring.record().unwrap();
        ring.clear().unwrap();
        ring.stamp(6).unwrap();
        assert_eq!(tags(&ring.take().unwrap()), [6]);
    }

    #[test]
    fn a_ring_s_file_is_a_dump_and_what_is_written_into_it_does_no_harm() {
        let path = std::env::temp_dir().join(format!("events-ring-{}", std::process::id()));
        let mut ring = Ring::create(&path, "file", 16).unwrap();
        assert!(Ring::create(&path, "file", 16).is_err());
        ring.record().unwrap();
        ring.stamp(11).unwrap();
        ring.stamp(12).unwrap();
        let lanes = parse(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(tags(&lanes[0]), [11, 12]);
        assert_eq!((lanes[0].name.as_str(), lanes[0].lost), ("file", 0));
        // Another process spoils the header: the ring still stores only inside its memory.
        use std::os::unix::fs::FileExt;
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(&[0xff; HEADER_BYTES], 0).unwrap();
        for tag in 0..100 {
            ring.stamp(tag).unwrap();
        }
        assert_eq!(ring.take().unwrap().events.len(), 16);
        assert_eq!(ring.lost(), 86);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_ring_without_room_is_refused() {
        assert!(Ring::anonymous("r", 0).is_err());
    }

    #[test]
    fn the_anchors_bracket_the_events() {
        let mut ring = Ring::anonymous("r", 8).unwrap();
        ring.record().unwrap();
        let before = monotonic_ns();
        ring.stamp(1).unwrap();
        let after = monotonic_ns();
        let lane = ring.take().unwrap();
        let at = lane.ns(lane.events[0].at);
        assert!(lane.begin.counter <= lane.events[0].at);
        assert!(lane.events[0].at <= lane.end.counter);
        assert!(at >= lane.begin.ns && at <= lane.end.ns && before <= after);
    }
}
