// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A drive with a volatile write cache, whose power can be cut at any command.
//!
//! A change takes effect when it completes: reads that complete later see it. It is durable when a
//! flush completes that was submitted after that, or at its own completion if it is FUA. From its
//! submission until then it is pending, and a power cut may lose, apply or tear it.
//!
//! Flushes promise nothing about outstanding requests, and completions may be delayed and out of
//! order, as the interface allows: a caller that relies on more is caught.

use crate::command::{Command, CommandKind};
use crate::config::{Completions, Config, Discarded};
use crate::content::Content;
use crate::images::{Images, Sampling};
use crate::lock;
use crate::medium::{Medium, garbage};
use crate::pending::{Cache, Pending};
use block::{Completion, Device, Error, Geometry, Operation, Refused, Request};
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

/// When, relative to a command, the power is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Before the device has seen it.
    Before,
    /// While it is outstanding: it is pending. The images are those of `Before` and more.
    During,
    /// When it has completed, with success.
    After,
}

/// A write, write-zeroes, discard or flush that was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logged {
    /// The command.
    pub command: Command,
    /// The number of completions (of any command) up to and including this one; `None` while it is
    /// outstanding or if the power was cut first.
    pub completed_at: Option<u64>,
}

/// An outstanding request.
#[derive(Debug)]
struct Flight {
    request: Request,
    /// 0 for a read.
    number: u64,
    /// The number of polls after which it may complete; `None` before the kick.
    due: Option<u64>,
    /// For a flush: what it covers.
    mark: u64,
    cut_after: bool,
}

#[derive(Debug)]
struct State {
    config: Config,
    geometry: Geometry,
    durable: Medium,
    current: Medium,
    cache: Cache,
    flights: VecDeque<Flight>,
    log: Vec<Logged>,
    stop: Option<(u64, Cut)>,
    is_off: bool,
    polls: u64,
    completions: u64,
    random: fastrand::Rng,
}

/// A device over a [`Medium`] that loses its power on purpose. Clones are handles to one disk.
#[derive(Clone, Debug)]
pub struct CrashDisk {
    geometry: Geometry,
    state: Arc<Mutex<State>>,
}

impl CrashDisk {
    /// A disk whose blocks are `medium`, all durable.
    pub fn new(medium: Medium, config: Config) -> Self {
        let geometry = Geometry {
            block_size_log2: medium.block_size_log2(),
            block_count: medium.block_count(),
            max_transfer_blocks: config.max_transfer_blocks.max(1),
            queue_depth: config.queue_depth.max(1),
            buffer_align_bytes: 1,
            features: config.features,
        };
        let seed = match config.completions {
            Completions::InOrder => 0,
            Completions::Shuffled(seed) => seed,
        };
        let state = State {
            config,
            geometry,
            current: medium.clone(),
            durable: medium,
            cache: Cache::default(),
            flights: VecDeque::new(),
            log: Vec::new(),
            stop: None,
            is_off: false,
            polls: 0,
            completions: 0,
            random: fastrand::Rng::with_seed(seed),
        };
        Self {
            geometry,
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Cuts the power at change number `number` (from 1, counted from the disk's opening at
    /// submission: writes, write-zeroes, discards and flushes). From then on each request,
    /// including outstanding ones, completes with [`Error::Gone`].
    ///
    /// To test every moment, increment `number` with [`Cut::During`] until the disk no longer
    /// [`is_off`](CrashDisk::is_off); the other variants test what is acknowledged in between.
    pub fn stop_after(&self, number: u64, cut: Cut) {
        lock(&self.state).stop = Some((number, cut));
    }

    /// Cuts the power now.
    pub fn cut(&self) {
        lock(&self.state).is_off = true;
    }

    /// Whether the power was cut.
    pub fn is_off(&self) -> bool {
        lock(&self.state).is_off
    }

    /// How many changes were submitted, as [`stop_after`](CrashDisk::stop_after) counts them.
    pub fn changes(&self) -> u64 {
        lock(&self.state).log.len() as u64
    }

    /// Each change that was submitted, in order.
    pub fn log(&self) -> Vec<Logged> {
        lock(&self.state).log.clone()
    }

    /// The changes that a power cut now may lose: completed ones in order of completion, then
    /// those under way.
    pub fn pending(&self) -> Vec<Pending> {
        let state = lock(&self.state);
        let writes = state.cache.writes().iter();
        writes
            .map(|write| Pending {
                command: write.command,
                is_completed: write.completed.is_some(),
            })
            .collect()
    }

    /// What certainly survives: the image with all pending changes lost.
    pub fn durable(&self) -> Medium {
        lock(&self.state).durable.clone()
    }

    /// What a read sees now.
    pub fn current(&self) -> Medium {
        lock(&self.state).current.clone()
    }

    /// The images that a power cut now, or the one that happened, may leave. Each is listed once.
    pub fn images(&self, sampling: &Sampling) -> Images {
        let state = lock(&self.state);
        Images::new(&state.durable, state.cache.writes(), sampling)
    }

    /// The device as another program finds it after the one that used it died: the power stayed on,
    /// and what the cache holds is still not durable. Outstanding requests have taken effect. The
    /// new disk has its own state; the numbers of its changes continue from here.
    pub fn fork(&self) -> CrashDisk {
        let state = lock(&self.state);
        let mut cache = state.cache.clone();
        let mut current = state.current.clone();
        for flight in &state.flights {
            cache.complete(flight.number, &mut current);
        }
        let state = State {
            config: state.config,
            geometry: state.geometry,
            durable: state.durable.clone(),
            current,
            cache,
            flights: VecDeque::new(),
            log: state.log.clone(),
            stop: None,
            is_off: false,
            polls: 0,
            completions: state.completions,
            random: state.random.clone(),
        };
        Self {
            geometry: self.geometry,
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Inverts a stored bit, durable and as read: rot. Pending versions stay as they are.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn rot(&self, lba: u64, bit: u32) -> Result<(), Error> {
        let mut state = lock(&self.state);
        state.durable.flip_bit(lba, bit)?;
        state.current.flip_bit(lba, bit)
    }
}

impl State {
    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        if let Err(error) = self.geometry.check(&request.operation) {
            return Err(Refused { error, request });
        }
        if self.flights.len() >= usize::from(self.geometry.queue_depth) {
            let error = Error::QueueFull;
            return Err(Refused { error, request });
        }
        let mut flight = Flight {
            request,
            number: 0,
            due: None,
            mark: self.cache.now(),
            cut_after: false,
        };
        let operation = &flight.request.operation;
        if !matches!(operation, Operation::Read { .. }) {
            let number = self.log.len() as u64 + 1;
            let command = Command::new(number, operation, self.geometry.block_size_log2);
            let stop = self.stop.filter(|(at, _)| *at == number);
            self.is_off |= matches!(stop, Some((_, Cut::Before)));
            if command.kind != CommandKind::Flush && !self.is_off {
                let blocks = self.blocks(operation);
                self.cache.submit(command, blocks);
            }
            self.is_off |= matches!(stop, Some((_, Cut::During)));
            flight.number = number;
            flight.cut_after = matches!(stop, Some((_, Cut::After)));
            self.log.push(Logged {
                command,
                completed_at: None,
            });
        }
        self.flights.push_back(flight);
        Ok(())
    }

    /// The blocks that a change writes.
    fn blocks(&self, operation: &Operation) -> Vec<(u64, Option<Content>)> {
        let block_size = self.geometry.block_size_bytes();
        match operation {
            Operation::Write { lba, buffer, .. } => (*lba..)
                .zip(buffer.chunks_exact(block_size))
                .map(|(lba, block)| (lba, self.durable.content(block)))
                .collect(),
            Operation::WriteZeroes {
                lba, block_count, ..
            } => self.zeroes(*lba, *block_count),
            Operation::Discard { lba, block_count } => match self.config.discarded {
                Discarded::Kept => Vec::new(),
                Discarded::Zeroes => self.zeroes(*lba, *block_count),
                Discarded::Garbage(seed) => {
                    let mut block = vec![0; block_size];
                    let range = *lba..*lba + u64::from(*block_count);
                    range
                        .map(|lba| {
                            garbage(seed, lba, &mut block);
                            (lba, self.durable.content(&block))
                        })
                        .collect()
                }
            },
            Operation::Read { .. } | Operation::Flush => Vec::new(),
        }
    }

    fn zeroes(&self, lba: u64, block_count: u32) -> Vec<(u64, Option<Content>)> {
        let range = lba..lba + u64::from(block_count);
        let zeroes = self
            .durable
            .content(&vec![0; self.geometry.block_size_bytes()]);
        if zeroes.is_some() {
            return range.map(|lba| (lba, zeroes.clone())).collect();
        }
        // Zeroes are the background: only what is or may become something else changes.
        let mut lbas: BTreeSet<u64> = self.current.held(range.clone()).into_iter().collect();
        lbas.extend(self.durable.held(range.clone()));
        let pending = self.cache.writes().iter().flat_map(|write| &write.blocks);
        lbas.extend(
            pending
                .map(|(lba, _)| *lba)
                .filter(|lba| range.contains(lba)),
        );
        lbas.into_iter().map(|lba| (lba, None)).collect()
    }

    fn kick(&mut self) {
        for flight in self.flights.iter_mut().rev() {
            if flight.due.is_some() {
                break;
            }
            let hold = match self.config.completions {
                Completions::InOrder => self.config.hold_polls,
                Completions::Shuffled(_) => self.random.u32(0..=self.config.hold_polls),
            };
            flight.due = Some(self.polls.saturating_add(u64::from(hold)));
        }
    }

    fn poll(&mut self) -> Option<Completion> {
        self.polls += 1;
        if self.is_off {
            let flight = self.flights.pop_front()?;
            return Some(complete(flight.request, Err(Error::Gone)));
        }
        let polls = self.polls;
        let is_due = |flight: &Flight| flight.due.is_some_and(|due| polls > due);
        let index = match self.config.completions {
            Completions::InOrder => self.flights.front().is_some_and(is_due).then_some(0),
            Completions::Shuffled(_) => {
                let due = self.flights.iter().enumerate().filter(|(_, f)| is_due(f));
                let due: Vec<usize> = due.map(|(index, _)| index).collect();
                self.random.choice(due)
            }
        };
        let flight = self.flights.remove(index?)?;
        Some(self.run(flight))
    }

    fn run(&mut self, flight: Flight) -> Completion {
        let number = flight.number;
        let mut request = flight.request;
        self.completions += 1;
        let mut result = Ok(());
        match &mut request.operation {
            Operation::Read { lba, buffer } => result = self.current.read(*lba, buffer),
            Operation::Flush => self.cache.settle_all(flight.mark, &mut self.durable),
            Operation::Write { fua, .. } | Operation::WriteZeroes { fua, .. } => {
                let is_durable = *fua || !self.config.features.volatile_write_cache;
                self.change(number, is_durable);
            }
            Operation::Discard { .. } => {
                self.change(number, !self.config.features.volatile_write_cache);
            }
        }
        if let Some(logged) = self.log.get_mut((number as usize).wrapping_sub(1)) {
            logged.completed_at = Some(self.completions);
        }
        self.is_off |= flight.cut_after;
        complete(request, result)
    }

    fn change(&mut self, number: u64, is_durable: bool) {
        self.cache.complete(number, &mut self.current);
        if is_durable {
            self.cache.settle(number, &mut self.durable);
        }
    }
}

/// The completion of `request`. A failed read leaves a pattern in its buffer, so that a caller that
/// uses the data is caught.
pub(crate) fn complete(request: Request, result: Result<(), Error>) -> Completion {
    let is_read = matches!(request.operation, Operation::Read { .. });
    let mut buffer = request.operation.into_buffer();
    if let (true, Err(_), Some(buffer)) = (is_read, result, &mut buffer) {
        buffer.fill(POISON);
    }
    Completion {
        tag: request.tag,
        buffer,
        result,
    }
}

/// What a failed read leaves in its buffer.
pub(crate) const POISON: u8 = 0xa5;

impl Device for CrashDisk {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        lock(&self.state).submit(request)
    }

    fn kick(&mut self) {
        lock(&self.state).kick();
    }

    fn poll(&mut self) -> Option<Completion> {
        lock(&self.state).poll()
    }

    fn outstanding(&self) -> usize {
        lock(&self.state).flights.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::buffer;
    use block::blocking;

    fn disk(config: Config) -> CrashDisk {
        Medium::new(6, 16).unwrap().open(config)
    }

    fn write(disk: &CrashDisk, lba: u64, value: u8, fua: bool) -> Result<(), Error> {
        let outcome = blocking::write(&mut disk.clone(), lba, buffer(64, value), fua);
        assert_eq!(outcome.buffer[..], [value; 64]);
        outcome.result
    }

    /// The first byte of a block, in each image that a cut may leave, in order.
    fn left(disk: &CrashDisk, lba: u64) -> Vec<u8> {
        let sampling = Sampling {
            tears: 0,
            ..Sampling::default()
        };
        let mut values: Vec<u8> = disk
            .images(&sampling)
            .map(|image| {
                let mut block = [0; 64];
                image.medium.read(lba, &mut block).unwrap();
                block[0]
            })
            .collect();
        values.sort_unstable();
        values.dedup();
        values
    }

    #[test]
    fn a_write_is_pending_until_a_flush() {
        let disk = disk(Config::default());
        write(&disk, 3, 1, false).unwrap();
        write(&disk, 3, 2, false).unwrap();
        assert_eq!(left(&disk, 3), [0, 1, 2]);
        assert_eq!(disk.pending().len(), 2);
        blocking::flush(&mut disk.clone()).unwrap();
        assert_eq!(left(&disk, 3), [2]);
        write(&disk, 3, 3, false).unwrap();
        assert_eq!(left(&disk, 3), [2, 3]);
        // A FUA write is durable, and what it overwrote cannot come back.
        write(&disk, 3, 4, true).unwrap();
        assert_eq!(left(&disk, 3), [4]);
        assert!(disk.pending().is_empty());
        assert_eq!(disk.durable(), disk.current());
    }

    #[test]
    fn a_flush_does_not_cover_what_was_under_way() {
        let disk = disk(Config::default());
        let mut device = disk.clone();
        let write = |lba| Operation::Write {
            lba,
            buffer: buffer(64, 9),
            fua: false,
        };
        let operations = [write(1), Operation::Flush, write(2), Operation::Flush];
        for (tag, operation) in (0..).zip(operations) {
            device.submit(Request { tag, operation }).unwrap();
        }
        assert!(device.poll().is_none(), "not kicked");
        device.kick();
        for tag in 0..4 {
            let is_completed: Vec<_> = disk.pending().iter().map(|p| p.is_completed).collect();
            let expected = [vec![false, false], vec![true, false]];
            assert_eq!(is_completed, expected[usize::from(tag > 0)][..]);
            assert_eq!(device.poll().unwrap().tag, tag);
            if tag == 2 {
                break;
            }
        }
        assert_eq!(disk.pending().len(), 2);
        assert_eq!(device.poll().unwrap().tag, 3);
        assert_eq!((left(&disk, 1), left(&disk, 2)), (vec![0, 9], vec![0, 9]));
        blocking::flush(&mut device).unwrap();
        assert_eq!((left(&disk, 1), left(&disk, 2)), (vec![9], vec![9]));
    }

    #[test]
    fn the_power_is_cut_before_during_or_after_a_command() {
        let cases = [
            (2, Cut::Before, false, vec![0, 1]),
            (2, Cut::During, false, vec![0, 1, 2]),
            (2, Cut::After, true, vec![0, 1, 2]),
            // The third is a flush.
            (3, Cut::Before, true, vec![0, 1, 2]),
            (3, Cut::During, true, vec![0, 1, 2]),
            (3, Cut::After, true, vec![2]),
            // The fourth is FUA.
            (4, Cut::Before, true, vec![2]),
            (4, Cut::During, true, vec![2, 3]),
            (4, Cut::After, true, vec![3]),
        ];
        for (number, cut, is_second_done, expected) in cases {
            let disk = disk(Config::default());
            disk.stop_after(number, cut);
            assert_eq!(write(&disk, 5, 1, false), Ok(()));
            assert_eq!(write(&disk, 5, 2, false).is_ok(), is_second_done);
            let flushed = blocking::flush(&mut disk.clone());
            assert_eq!(flushed.is_ok(), (number, cut == Cut::After) >= (3, true));
            let last = write(&disk, 5, 3, true);
            assert_eq!(last.is_ok(), (number, cut) == (4, Cut::After));
            assert!(disk.is_off());
            assert_eq!(write(&disk, 5, 4, true), Err(Error::Gone));
            assert_eq!(left(&disk, 5), expected, "{number} {cut:?}");
        }
    }

    #[test]
    fn at_a_cut_everything_under_way_comes_back() {
        let config = Config {
            hold_polls: 10,
            ..Config::default()
        };
        let disk = disk(config);
        let mut device = disk.clone();
        for tag in 0..5 {
            let buffer = buffer(64, 7);
            let lba = u64::from(tag);
            let operation = if tag == 2 {
                Operation::Read { lba, buffer }
            } else {
                let fua = false;
                Operation::Write { lba, buffer, fua }
            };
            device.submit(Request { tag, operation }).unwrap();
        }
        device.kick();
        assert!((0..10).all(|_| device.poll().is_none()));
        assert_eq!(device.poll().unwrap().result, Ok(()));
        disk.cut();
        for tag in 1..5 {
            let completion = device.poll().unwrap();
            assert_eq!((completion.tag, completion.result), (tag, Err(Error::Gone)));
            let value = if tag == 2 { POISON } else { 7 };
            assert_eq!(completion.buffer.unwrap()[..], [value; 64]);
        }
        assert_eq!((device.poll().is_none(), device.outstanding()), (true, 0));
        assert_eq!(
            (left(&disk, 0), left(&disk, 2), left(&disk, 4)),
            (vec![0, 7], vec![0], vec![0, 7])
        );
        let completed: Vec<_> = disk
            .log()
            .iter()
            .map(|logged| logged.completed_at)
            .collect();
        assert_eq!(completed, [Some(1), None, None, None]);
    }

    #[test]
    fn shuffled_completions_come_in_another_order_and_the_same_for_a_seed() {
        let order = |seed| {
            let config = Config {
                completions: Completions::Shuffled(seed),
                hold_polls: 3,
                ..Config::default()
            };
            let mut device = disk(config);
            for tag in 0..10 {
                let operation = Operation::Flush;
                device.submit(Request { tag, operation }).unwrap();
            }
            device.kick();
            let mut tags = Vec::new();
            while device.outstanding() > 0 {
                tags.extend(device.poll().map(|completion| completion.tag));
            }
            tags
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let mut tags = order(3);
        tags.sort_unstable();
        assert_eq!(tags, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn discards_and_zeroes_are_pending_and_cost_nothing_where_nothing_is() {
        let zeroes = |block_count| Operation::WriteZeroes {
            lba: 0,
            block_count,
            fua: false,
        };
        let mut device = Medium::new(9, 1 << 40).unwrap().open(Config::default());
        let disk = device.clone();
        let lba = 1 << 30;
        let _ = blocking::write(&mut device, lba, buffer(512, 5), true);
        blocking::command(&mut device, zeroes(u32::MAX)).unwrap();
        assert_eq!(disk.images(&Sampling::default()).combinations(), 3);
        // An outstanding write to an unwritten block may still take effect before or after the
        // zeroes.
        let submitted = [
            Operation::Write {
                lba: 7,
                buffer: buffer(512, 6),
                fua: false,
            },
            zeroes(8),
        ];
        for (tag, operation) in (0..).zip(submitted) {
            device.submit(Request { tag, operation }).unwrap();
        }
        device.kick();
        while device.poll().is_some() {}
        blocking::flush(&mut device).unwrap();
        assert!(disk.durable().held(0..8).is_empty());
        let discard = |lba| Operation::Discard {
            lba,
            block_count: 2,
        };
        for (discarded, expected) in [(Discarded::Zeroes, vec![0, 8]), (Discarded::Kept, vec![8])] {
            let disk = self::disk(Config {
                discarded,
                ..Config::default()
            });
            write(&disk, 6, 8, true).unwrap();
            blocking::command(&mut disk.clone(), discard(5)).unwrap();
            assert_eq!(left(&disk, 6), expected);
        }
        let disk = self::disk(Config {
            discarded: Discarded::Garbage(1),
            ..Config::default()
        });
        blocking::command(&mut disk.clone(), discard(5)).unwrap();
        assert_eq!(disk.images(&Sampling::default()).pending_blocks(), 2);
        blocking::flush(&mut disk.clone()).unwrap();
        assert_eq!(disk.durable().held(0..16), [5, 6]);
    }

    #[test]
    fn without_a_cache_a_completed_write_is_durable_and_rot_stays() {
        let mut config = Config::default();
        config.features.volatile_write_cache = false;
        let disk = disk(config);
        write(&disk, 1, 4, false).unwrap();
        assert_eq!(left(&disk, 1), [4]);
        disk.rot(1, 0).unwrap();
        assert_eq!(left(&disk, 1), [5]);
        assert_eq!(disk.current(), disk.durable());
        assert_eq!(disk.rot(16, 0), Err(Error::OutOfRange));
    }
}
