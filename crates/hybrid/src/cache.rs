// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A cache of short reads: a [`block::Device`] over any other.
//!
//! Reads of at most [`Cache::most_bytes`] are copied into lines when they complete, and later reads
//! of the same blocks are answered from there. Nothing is read that was not asked for, writes go
//! straight through, and their data is kept too. So a completed write promises what it promises
//! below, and a power cut loses nothing that it would not have lost.
//!
//! A line is valid only if nothing that could contradict it was in flight while it was filled: a
//! write, a discard or zeroes invalidate their lines when they are submitted, and whatever overlaps
//! one of them in flight fills no line. A line of which a write covers a part is held until the
//! write has completed, and has its data then; a second such write in flight invalidates it.

use block::{Buffer, Completion, Device, Error, Geometry, Operation, Refused, Request, Tag};

use crate::waiting::range;

/// Lines that a block may be in.
const WAYS: usize = 8;
/// The length of a line, or a block of the device if that is longer.
const LINE_LOG2: u32 = 12;
/// Of [`CacheLine::line`]: a write to a part of the line is in flight, and no read is answered from
/// it.
const HELD: u64 = 1 << 63;

/// What a line holds. The default is nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct CacheLine {
    /// The number of the line's bytes on the device, in lines, and 1 more: 0 is none. With [`HELD`]
    /// in it.
    line: u64,
    /// When it was used.
    used: u64,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Reads that were answered from lines.
    pub hits: u64,
    /// Short reads that went to the device.
    pub misses: u64,
}

/// A request in flight below.
#[derive(Clone, Copy, Debug)]
struct Flight {
    tag: Tag,
    first: u64,
    end: u64,
    writes: bool,
    /// Its data may fill lines.
    fills: bool,
}

/// A device whose short reads are kept. At most `DEPTH` requests are outstanding.
#[derive(Debug)]
pub struct Cache<M, E, D, const DEPTH: usize> {
    device: D,
    memory: M,
    entries: E,
    geometry: Geometry,
    line_log2: u32,
    most_bytes: usize,
    flights: [Option<Flight>; DEPTH],
    /// Reads that were answered from lines and have not been polled.
    ready: [Option<(Tag, Buffer)>; DEPTH],
    ready_count: usize,
    flying_count: usize,
    now: u64,
    kept: Kept,
}

impl<M: AsMut<[u8]>, E: AsMut<[CacheLine]>, D: Device, const DEPTH: usize> Cache<M, E, D, DEPTH> {
    /// A cache in `memory`, with one of `entries` for each line; what one has more than the other
    /// is not used. Reads of more than `most_bytes` pass.
    ///
    /// # Errors
    /// The device, given back: there is not room for a set of eight lines, or it has a request
    /// outstanding.
    pub fn new(device: D, mut memory: M, mut entries: E, most_bytes: usize) -> Result<Self, D> {
        let geometry = *device.geometry();
        let line_log2 = LINE_LOG2.max(u32::from(geometry.block_size_log2));
        let lines = (memory.as_mut().len() >> line_log2).min(entries.as_mut().len());
        if lines < WAYS || device.outstanding() > 0 {
            return Err(device);
        }
        entries.as_mut().fill(CacheLine::default());
        Ok(Self {
            device,
            memory,
            entries,
            geometry,
            line_log2,
            most_bytes,
            flights: [None; DEPTH],
            ready: [const { None }; DEPTH],
            ready_count: 0,
            flying_count: 0,
            now: 0,
            kept: Kept::default(),
        })
    }

    /// The longest read that is kept.
    pub const fn most_bytes(&self) -> usize {
        self.most_bytes
    }

    /// What happened so far.
    pub const fn kept(&self) -> Kept {
        self.kept
    }

    /// The device and the memory.
    ///
    /// # Errors
    /// The cache, while requests are outstanding.
    #[allow(clippy::result_large_err)]
    pub fn into_parts(self) -> Result<(D, M), Self> {
        match self.outstanding() {
            0 => Ok((self.device, self.memory)),
            _ => Err(self),
        }
    }

    fn sets(&mut self) -> usize {
        let lines = self.memory.as_mut().len() >> self.line_log2;
        lines.min(self.entries.as_mut().len()) / WAYS
    }

    /// The first entry of the set that a line may be in.
    fn set_of(&mut self, line: u64) -> usize {
        // The golden ratio spreads what is near and what is far.
        let hash = line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (hash as usize % self.sets()) * WAYS
    }

    fn place_of(&mut self, line: u64) -> Option<usize> {
        self.place(line, line + 1)
    }

    fn held_place_of(&mut self, line: u64) -> Option<usize> {
        self.place(line, (line + 1) | HELD)
    }

    fn place(&mut self, line: u64, word: u64) -> Option<usize> {
        let first = self.set_of(line);
        let set = self.entries.as_mut().get(first..first + WAYS)?;
        let way = set.iter().position(|entry| entry.line == word)?;
        Some(first + way)
    }

    /// The lines that blocks touch: the first, and the one after the last.
    const fn lines(&self, first: u64, end: u64) -> (u64, u64) {
        let shift = self.line_log2 - self.geometry.block_size_log2 as u32;
        (first >> shift, (end + (1 << shift) - 1) >> shift)
    }

    /// Answers a read if all of its lines are there.
    fn answer(&mut self, first: u64, end: u64, buffer: &mut [u8]) -> bool {
        let (from, to) = self.lines(first, end);
        if (from..to).any(|line| self.place_of(line).is_none()) {
            return false;
        }
        self.now += 1;
        let block_log2 = self.geometry.block_size_log2;
        let line_len = 1usize << self.line_log2;
        let mut offset = ((first << block_log2) & (line_len as u64 - 1)) as usize;
        let mut left = buffer;
        for line in from..to {
            let Some(place) = self.place_of(line) else {
                return false;
            };
            if let Some(entry) = self.entries.as_mut().get_mut(place) {
                entry.used = self.now;
            }
            let begin = place << self.line_log2;
            let len = (line_len - offset).min(left.len());
            let (piece, rest) = left.split_at_mut(len);
            let kept = self
                .memory
                .as_mut()
                .get(begin + offset..begin + offset + len);
            piece.copy_from_slice(kept.unwrap_or_default());
            (left, offset) = (rest, 0);
        }
        true
    }

    /// Copies the whole lines of a completed request.
    fn keep(&mut self, first: u64, end: u64, data: &[u8]) {
        let shift = self.line_log2 - u32::from(self.geometry.block_size_log2);
        let line_blocks = 1u64 << shift;
        let line_len = 1usize << self.line_log2;
        self.now += 1;
        let mut line = (first + line_blocks - 1) >> shift;
        while (line + 1) << shift <= end {
            let at = (((line << shift) - first) << self.geometry.block_size_log2) as usize;
            let place = self.room_for(line);
            let begin = place << self.line_log2;
            let to = self.memory.as_mut().get_mut(begin..begin + line_len);
            if let (Some(to), Some(from)) = (to, data.get(at..at + line_len)) {
                to.copy_from_slice(from);
                if let Some(entry) = self.entries.as_mut().get_mut(place) {
                    *entry = CacheLine {
                        line: line + 1,
                        used: self.now,
                    };
                }
            }
            line += 1;
        }
    }

    /// The place that a line has, or gets instead of the longest unused one of its set.
    fn room_for(&mut self, line: u64) -> usize {
        if let Some(place) = self.place_of(line) {
            return place;
        }
        let first = self.set_of(line);
        let set = self.entries.as_mut().get(first..first + WAYS);
        let oldest = set.unwrap_or_default().iter().enumerate();
        first
            + oldest
                .min_by_key(|(_, entry)| entry.used)
                .map_or(0, |(way, _)| way)
    }

    /// Invalidates the lines that blocks touch; those of which they are a part are held instead, if
    /// `holds`.
    fn forget(&mut self, first: u64, end: u64, holds: bool) {
        let (from, to) = self.lines(first, end);
        for line in from..to {
            let is_part = self.part(line, first, end).is_some();
            let valid = self.place_of(line);
            let found = valid.or_else(|| self.held_place_of(line));
            let entry = found.and_then(|place| self.entries.as_mut().get_mut(place));
            match entry {
                Some(entry) if holds && is_part && valid.is_some() => entry.line |= HELD,
                Some(entry) => *entry = CacheLine::default(),
                None => {}
            }
        }
    }

    /// Ends the hold of the lines of which a completed write was a part: they have its data, if it
    /// is known what the device has.
    fn release(&mut self, first: u64, end: u64, data: Option<&[u8]>) {
        let (from, to) = self.lines(first, end);
        for line in from..to {
            let Some((block, blocks)) = self.part(line, first, end) else {
                continue;
            };
            let Some(place) = self.held_place_of(line) else {
                continue;
            };
            let block_log2 = self.geometry.block_size_log2;
            let at = ((block - first) << block_log2) as usize;
            let len = (blocks << block_log2) as usize;
            let line_start = line << (self.line_log2 - u32::from(block_log2));
            let to = (place << self.line_log2) + ((block - line_start) << block_log2) as usize;
            let kept = self.memory.as_mut().get_mut(to..to + len);
            let written = data.and_then(|data| data.get(at..at + len));
            let word = match (kept, written) {
                (Some(kept), Some(written)) => {
                    kept.copy_from_slice(written);
                    line + 1
                }
                _ => 0,
            };
            if let Some(entry) = self.entries.as_mut().get_mut(place) {
                entry.line = word;
            }
        }
    }

    /// The blocks from `first` to `end` in a line, if they are only a part of it: the first one,
    /// and how many.
    fn part(&self, line: u64, first: u64, end: u64) -> Option<(u64, u64)> {
        let shift = self.line_log2 - u32::from(self.geometry.block_size_log2);
        let (begin, after) = (first.max(line << shift), end.min((line + 1) << shift));
        (after - begin < 1 << shift).then_some((begin, after - begin))
    }

    /// A new flight, and what it contradicts.
    fn flight(&mut self, tag: Tag, operation: &Operation) -> Flight {
        let is_short = match operation {
            Operation::Read { buffer, .. } | Operation::Write { buffer, .. } => {
                buffer.len() <= self.most_bytes
            }
            _ => false,
        };
        let Some((first, blocks, _)) = range(operation, self.geometry.block_size_log2) else {
            return Flight {
                tag,
                first: 0,
                end: 0,
                writes: false,
                fills: false,
            };
        };
        let mut flight = Flight {
            tag,
            first,
            end: first + u64::from(blocks),
            writes: !matches!(operation, Operation::Read { .. }),
            fills: is_short,
        };
        for other in self.flights.iter_mut().flatten() {
            let overlaps = other.first < flight.end && flight.first < other.end;
            if overlaps && (other.writes || flight.writes) {
                (other.fills, flight.fills) = (false, false);
            }
        }
        flight
    }

    /// Answers a short read from lines; otherwise gives the request back.
    #[allow(clippy::result_large_err)]
    fn hit(&mut self, request: Request) -> Result<(), Request> {
        let Operation::Read { lba, mut buffer } = request.operation else {
            return Err(request);
        };
        let blocks = (buffer.len() >> self.geometry.block_size_log2) as u64;
        let free = self.ready.iter().position(Option::is_none);
        if buffer.len() <= self.most_bytes && self.answer(lba, lba + blocks, &mut buffer) {
            if let Some(place) = free.and_then(|index| self.ready.get_mut(index)) {
                *place = Some((request.tag, buffer));
                self.ready_count += 1;
                self.kept.hits += 1;
                return Ok(());
            }
        }
        Err(Request {
            tag: request.tag,
            operation: Operation::Read { lba, buffer },
        })
    }
}

impl<M, E, D, const DEPTH: usize> Device for Cache<M, E, D, DEPTH>
where
    M: AsMut<[u8]>,
    E: AsMut<[CacheLine]>,
    D: Device,
{
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        if let Err(error) = self.geometry.check(&request.operation) {
            return Err(Refused { error, request });
        }
        let free = self.flights.iter().position(Option::is_none);
        let (Some(index), true) = (free, self.outstanding() < DEPTH) else {
            let error = Error::QueueFull;
            return Err(Refused { error, request });
        };
        let Request { tag, operation } = match self.hit(request) {
            Ok(()) => return Ok(()),
            Err(request) => request,
        };
        let flight = self.flight(tag, &operation);
        let request = Request {
            tag: index as Tag,
            operation,
        };
        if let Err(mut refused) = self.device.submit(request) {
            refused.request.tag = tag;
            return Err(refused);
        }
        if flight.writes {
            self.forget(flight.first, flight.end, flight.fills);
        } else if flight.end > flight.first && flight.fills {
            self.kept.misses += 1;
        }
        if let Some(place) = self.flights.get_mut(index) {
            *place = Some(flight);
            self.flying_count += 1;
        }
        Ok(())
    }

    fn kick(&mut self) {
        self.device.kick();
    }

    fn poll(&mut self) -> Option<Completion> {
        if self.ready_count > 0 {
            let (tag, buffer) = self.ready.iter_mut().find_map(Option::take)?;
            self.ready_count -= 1;
            return Some(Completion {
                tag,
                buffer: Some(buffer),
                result: Ok(()),
            });
        }
        let mut completion = self.device.poll()?;
        let flight = self.flights.get_mut(completion.tag as usize)?.take()?;
        self.flying_count -= 1;
        completion.tag = flight.tag;
        let data = match (completion.result, &completion.buffer, flight.fills) {
            (Ok(()), Some(buffer), true) => Some(&buffer[..]),
            _ => None,
        };
        if flight.writes {
            self.release(flight.first, flight.end, data);
        }
        if let Some(data) = data {
            self.keep(flight.first, flight.end, data);
        }
        Some(completion)
    }

    fn outstanding(&self) -> usize {
        self.ready_count + self.flying_count
    }

    fn wait(&mut self, timeout_us: u32) {
        if self.ready_count == 0 {
            self.device.wait(timeout_us);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use block::{RamDisk, blocking};
    use std::boxed::Box;
    use std::vec;
    use std::vec::Vec;

    type Tested = Cache<Vec<u8>, Vec<CacheLine>, RamDisk<Vec<u8>, 8>, 8>;

    fn cache(lines: usize, most_bytes: usize) -> Tested {
        let content = (0..1 << 20).map(|at: u32| (at >> 9) as u8).collect();
        let disk = RamDisk::new(content, 9).unwrap();
        let memory = vec![0; lines << LINE_LOG2];
        Cache::new(disk, memory, vec![CacheLine::default(); lines], most_bytes).unwrap()
    }

    fn buffer(len: usize) -> Buffer {
        Buffer::from_static(Box::leak(vec![0xdd; len].into_boxed_slice()))
    }

    fn read(cache: &mut Tested, lba: u64, len: usize) -> Vec<u8> {
        let done = blocking::read(cache, lba, buffer(len));
        done.result.unwrap();
        done.buffer.to_vec()
    }

    fn expected(lba: u64, len: usize) -> Vec<u8> {
        (0..len).map(|at| (lba + (at >> 9) as u64) as u8).collect()
    }

    #[test]
    fn a_second_read_is_answered_from_memory_at_any_block() {
        let mut cache = cache(64, 64 << 10);
        assert_eq!(read(&mut cache, 8, 16 << 10), expected(8, 16 << 10));
        for (lba, len) in [(8, 16 << 10), (9, 512), (12, 8192), (39, 512)] {
            assert_eq!(read(&mut cache, lba, len), expected(lba, len));
        }
        assert_eq!(cache.kept(), Kept { hits: 4, misses: 1 });
        // The first block of the next line was not read.
        assert_eq!(read(&mut cache, 39, 1024), expected(39, 1024));
        assert_eq!(cache.kept().misses, 2);
    }

    #[test]
    fn long_reads_pass_and_the_longest_unused_line_makes_room() {
        let mut cache = cache(WAYS, 4096);
        read(&mut cache, 0, 8192);
        assert_eq!(cache.kept(), Kept::default());
        for line in 0..=WAYS as u64 {
            read(&mut cache, line * 8, 4096);
            // The first is used again and again.
            read(&mut cache, 0, 4096);
        }
        let before = cache.kept().hits;
        read(&mut cache, 0, 4096);
        assert_eq!(cache.kept().hits, before + 1);
        read(&mut cache, 8, 4096);
        assert_eq!(cache.kept().hits, before + 1);
    }

    #[test]
    fn what_was_written_is_read_from_whole_lines_and_from_parts() {
        let mut cache = cache(64, 64 << 10);
        read(&mut cache, 0, 4096);
        let hits = cache.kept().hits;
        let done = blocking::write(&mut cache, 1, buffer(512), false);
        done.result.unwrap();
        let mut now = expected(0, 4096);
        now[512..1024].fill(0xdd);
        assert_eq!(read(&mut cache, 0, 4096), now);
        assert_eq!(cache.kept().hits, hits + 1);
        // A whole line is kept as it was written.
        let hits = cache.kept().hits;
        blocking::write(&mut cache, 16, buffer(4096), true)
            .result
            .unwrap();
        assert_eq!(read(&mut cache, 16, 4096), vec![0xdd; 4096]);
        assert_eq!(cache.kept().hits, hits + 1);
    }

    #[test]
    fn there_is_no_cache_without_room_and_a_full_queue_says_so() {
        let disk = RamDisk::<_, 8>::new(vec![0u8; 1 << 16], 9).unwrap();
        let few = vec![CacheLine::default(); WAYS - 1];
        let refused = Cache::<_, _, _, 4>::new(disk, vec![0u8; 1 << 20], few, 4096);
        assert!(refused.is_err());
        let mut cache = cache(64, 4096);
        for tag in 0..8 {
            let operation = Operation::Flush;
            cache.submit(Request { tag, operation }).unwrap();
        }
        let operation = Operation::Flush;
        let refused = cache.submit(Request { tag: 9, operation }).unwrap_err();
        assert_eq!((refused.error, refused.request.tag), (Error::QueueFull, 9));
        let mut cache = cache.into_parts().unwrap_err();
        cache.kick();
        while cache.outstanding() > 0 {
            cache.poll();
        }
        assert_eq!(cache.into_parts().unwrap().1.len(), 64 << LINE_LOG2);
    }
}
