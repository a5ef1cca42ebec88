// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random requests, several in flight, on devices that complete in any order and fail, against a
//! model.
//!
//! The model knows for each block which contents a read may return: the newest completed write, and
//! those of writes that were in flight since then.

use super::support::{self, BLOCK, FIXED, TestClock, buffer, hybrid, seed};
use block::{Device, Error, Operation, Request};
use crash::{Budget, Completions, Config, CrashDisk, Fault, Faulty, Medium, On, Rule};
use fastrand::Rng;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use straightway_hybrid::{Bytes, Cache, CacheLine, HybridOptions};

const BLOCKS: u64 = 160;

/// What a block may hold.
#[derive(Clone, Default)]
struct Block {
    values: HashSet<u32>,
    /// Writes in flight, by value, and whether no other one was in flight at any time with it.
    flying: HashMap<u32, bool>,
}

enum Flight {
    Read(Vec<HashSet<u32>>, u64),
    Write(u64, usize, u32),
    Flush,
}

struct Model {
    blocks: Vec<Block>,
    flights: HashMap<u32, Flight>,
    next_tag: u32,
    next_value: u32,
}

fn fill(buffer: &mut [u8], value: u32) {
    for word in buffer.chunks_exact_mut(4) {
        word.copy_from_slice(&value.to_le_bytes());
    }
}

fn value_of(block: &[u8]) -> u32 {
    let value = u32::from_le_bytes(block[..4].try_into().unwrap());
    assert!(
        block.chunks_exact(4).all(|word| word == &block[..4]),
        "a torn block"
    );
    value
}

impl Model {
    fn new() -> Self {
        let block = Block {
            values: HashSet::from([0]),
            flying: HashMap::new(),
        };
        Self {
            blocks: vec![block; BLOCKS as usize],
            flights: HashMap::new(),
            next_tag: 0,
            next_value: 1,
        }
    }

    /// Another possible content, also for the reads in flight.
    fn may_be(&mut self, lba: u64, blocks: usize, value: u32) {
        for lba in lba..lba + blocks as u64 {
            let block = &mut self.blocks[lba as usize];
            block.values.insert(value);
            let is_alone = block.flying.is_empty();
            block.flying.values_mut().for_each(|alone| *alone = false);
            block.flying.insert(value, is_alone);
            for flight in self.flights.values_mut() {
                if let Flight::Read(allowed, first) = flight {
                    if let Some(values) = lba
                        .checked_sub(*first)
                        .and_then(|at| allowed.get_mut(at as usize))
                    {
                        values.insert(value);
                    }
                }
            }
        }
    }

    fn submit(&mut self, device: &mut impl Device, random: &mut Rng, at: &mut u64) {
        let tag = self.next_tag;
        self.next_tag += 1;
        // Mostly on from the last place, in short steps.
        if random.u8(..) < 60 {
            *at = random.u64(0..BLOCKS);
        }
        let most = if random.u8(..) < 40 { 32 } else { 5 };
        let blocks = random.u64(1..=most).min(BLOCKS - *at) as usize;
        let (operation, flight) = match random.u8(0..20) {
            0 => (Operation::Flush, Flight::Flush),
            kind @ 1..=10 => {
                let value = self.next_value;
                self.next_value += 1;
                let mut data = buffer(blocks * BLOCK, 0);
                fill(&mut data, value);
                let operation = Operation::Write {
                    lba: *at,
                    buffer: data,
                    fua: kind == 1,
                };
                (operation, Flight::Write(*at, blocks, value))
            }
            11 => {
                // One at a time: all zeroes are the same value.
                let flight = Flight::Write(*at, blocks, 0);
                if self
                    .flights
                    .values()
                    .any(|flight| matches!(flight, Flight::Write(_, _, 0)))
                {
                    return;
                }
                let operation = Operation::WriteZeroes {
                    lba: *at,
                    block_count: blocks as u32,
                    fua: false,
                };
                (operation, flight)
            }
            _ => {
                let allowed = self.blocks[*at as usize..][..blocks].iter();
                let allowed = allowed.map(|block| block.values.clone()).collect();
                let operation = Operation::Read {
                    lba: *at,
                    buffer: buffer(blocks * BLOCK, 0xdd),
                };
                (operation, Flight::Read(allowed, *at))
            }
        };
        let lba = *at;
        *at = (*at + blocks as u64) % (BLOCKS - 1);
        if device.submit(Request { tag, operation }).is_err() {
            return;
        }
        if let Flight::Write(_, blocks, value) = flight {
            self.may_be(lba, blocks, value);
        }
        self.flights.insert(tag, flight);
    }

    fn complete(&mut self, completion: block::Completion) -> Result<(), Error> {
        let flight = self
            .flights
            .remove(&completion.tag)
            .expect("a completion of nothing");
        match (flight, completion.result) {
            (Flight::Read(allowed, first), Ok(())) => {
                let data = completion.buffer.unwrap();
                for (index, (values, block)) in
                    allowed.iter().zip(data.chunks_exact(BLOCK)).enumerate()
                {
                    let value = value_of(block);
                    let lba = first + index as u64;
                    assert!(
                        values.contains(&value),
                        "block {lba} reads {value}, not one of {values:?}"
                    );
                }
            }
            (Flight::Write(lba, blocks, value), result) => {
                for block in &mut self.blocks[lba as usize..][..blocks] {
                    // A failed write may have changed any of its blocks, so nothing is ruled out.
                    if block.flying.remove(&value) == Some(true) && result.is_ok() {
                        block.values = HashSet::from([value]);
                    }
                }
            }
            _ => {}
        }
        completion.result
    }
}

fn options(random: &mut Rng) -> HybridOptions {
    HybridOptions {
        dirty_lines: random.u8(1..=5),
        hold_us: random.u32(1..2_000),
        ahead_lines: random.u8(0..=4),
        fixed_border_blocks: Some(random.u32(0..=16)),
        ..FIXED
    }
}

/// A disk that completes in any order, and what fails of it.
fn disk(random: &mut Rng, fails: bool) -> (CrashDisk, Faulty<CrashDisk>) {
    let config = Config {
        completions: Completions::Shuffled(random.u64(..)),
        hold_polls: random.u32(0..6),
        queue_depth: random.u16(1..20),
        max_transfer_blocks: 64,
        ..Config::default()
    };
    let disk = CrashDisk::new(Medium::new(9, BLOCKS).unwrap(), config);
    let rule = |nth| Rule::once(On::Any, nth, Fault::Fail(Error::TimedOut));
    let rules = (0..if fails { 40 } else { 0 }).map(|_| rule(random.u64(1..400)));
    let rules: Vec<Rule> = rules.collect();
    (disk.clone(), Faulty::new(disk, rules))
}

/// Random requests, at most `depth` outstanding; returns whether one failed.
fn requests(
    device: &mut impl Device,
    model: &mut Model,
    random: &mut Rng,
    depth: usize,
    mut time_passes: impl FnMut(&mut Rng),
) -> bool {
    let (mut at, mut failed) = (0, false);
    let mut poll = |device: &mut _, model: &mut Model| {
        if let Some(completion) = Device::poll(device) {
            failed |= model.complete(completion).is_err();
        }
    };
    for _ in 0..600 {
        while device.outstanding() < depth && random.bool() {
            model.submit(device, random, &mut at);
        }
        device.kick();
        time_passes(random);
        for _ in 0..random.u8(0..4) {
            poll(device, model);
        }
        while depth == 1 && device.outstanding() > 0 {
            poll(device, model);
        }
    }
    while device.outstanding() > 0 {
        poll(device, model);
    }
    failed
}

fn storm(seed: u64, depth: usize, fails: bool) {
    let mut random = Rng::with_seed(seed);
    let (disk, faulty) = disk(&mut random, fails);
    let clock = TestClock::default();
    let mut device = hybrid(faulty, &clock, options(&mut random));
    let mut model = Model::new();
    let failed = requests(&mut device, &mut model, &mut random, depth, |random| {
        clock.advance(random.u64(0..200));
    });
    assert!(fails || !failed, "nothing fails by itself");
    // Flush until it succeeds: then the medium has what the hybrid shows.
    let flushed = (0..60).any(|_| support::run(&mut device, Operation::Flush).1.is_ok());
    assert!(flushed);
    assert_eq!(device.gathered_bytes(), 0);
    while device.next_deadline().is_some() {
        device.kick();
    }
    for lba in 0..BLOCKS {
        let mut stored = vec![0; BLOCK];
        disk.durable().read(lba, &mut stored).unwrap();
        let value = value_of(&stored);
        assert!(
            model.blocks[lba as usize].values.contains(&value),
            "block {lba} is {value} on the medium"
        );
        let read = (0..60).find_map(|_| {
            let data = buffer(BLOCK, 0);
            let (data, result) = support::run(&mut device, Operation::Read { lba, buffer: data });
            result.ok().and(data)
        });
        assert_eq!(value_of(&read.unwrap()), value, "block {lba}");
    }
}

/// A cache of few lines, so that they are often replaced; returns how many reads were answered from
/// it.
fn cached_storm(seed: u64, depth: usize, fails: bool) -> u64 {
    let mut random = Rng::with_seed(seed);
    let (_, faulty) = disk(&mut random, fails);
    let lines = random.usize(8..24);
    let (memory, entries) = (vec![0u8; lines << 12], vec![CacheLine::default(); lines]);
    let most_bytes = random.usize(1..40) * BLOCK;
    let mut device = Cache::<_, _, _, 16>::new(faulty, memory, entries, most_bytes).unwrap();
    let failed = requests(&mut device, &mut Model::new(), &mut random, depth, |_| {});
    assert!(fails || !failed, "nothing fails by itself");
    device.kept().hits
}

fn storms(depth: usize, fails: bool) {
    each(|seed| storm(seed, depth, fails));
}

fn each(storm: impl Fn(u64)) {
    let first = seed();
    let budget = Budget::or(Budget::of_states(120)).unwrap();
    let mut count = 0;
    while budget.allows(count) {
        println!("storm {}", first.wrapping_add(count));
        storm(first.wrapping_add(count));
        count += 1;
    }
}

#[test]
fn a_cache_returns_nothing_older_than_the_device_would() {
    for (depth, fails) in [(1, false), (12, false), (1, true), (8, true)] {
        let hits = Cell::new(0);
        each(|seed| hits.set(hits.get() + cached_storm(seed, depth, fails)));
        assert!(hits.get() > 0, "no read was kept");
    }
}

#[test]
fn one_request_at_a_time_reads_exactly_what_was_written_last() {
    storms(1, false);
}

#[test]
fn many_requests_at_a_time_read_nothing_older_than_promised() {
    storms(12, false);
}

#[test]
fn a_device_that_fails_loses_nothing_that_was_accepted() {
    storms(1, true);
    storms(8, true);
}

#[test]
fn bytes_are_read_and_written_at_any_offset() {
    let first = seed();
    for turn in 0..60 {
        let mut random = Rng::with_seed(first.wrapping_add(turn));
        println!("turn {turn}");
        let disk = CrashDisk::new(Medium::new(9, BLOCKS).unwrap(), Config::default());
        let clock = TestClock::default();
        let device = hybrid(disk.clone(), &clock, options(&mut random));
        let mut bytes = Bytes::new(device, buffer(random.usize(2..20) * BLOCK, 0)).unwrap();
        let mut model = vec![0u8; BLOCKS as usize * BLOCK];
        let mut at = 0;
        for step in 0..300u32 {
            if random.u8(..) < 40 {
                at = random.usize(0..model.len());
            }
            let most = if random.bool() { 300 } else { 9_000 };
            let len = random.usize(0..most).min(model.len() - at);
            if random.u8(..) < 160 {
                let data: Vec<u8> = (0..len).map(|i| (step as usize + i) as u8).collect();
                bytes.write_at(at as u64, &data).unwrap();
                model[at..at + len].copy_from_slice(&data);
            } else {
                let mut data = vec![0xdd; len];
                bytes.read_at(at as u64, &mut data).unwrap();
                assert_eq!(
                    data,
                    model[at..at + len],
                    "step {step}: {len} bytes at {at}"
                );
            }
            at = (at + len) % model.len();
            clock.advance(random.u64(0..300));
        }
        bytes.flush().unwrap();
        let mut stored = vec![0; BLOCK];
        for (lba, expected) in model.chunks_exact(BLOCK).enumerate() {
            disk.durable().read(lba as u64, &mut stored).unwrap();
            assert_eq!(stored, expected, "block {lba}");
        }
        let end = model.len() as u64;
        assert_eq!(bytes.write_at(end - 1, &[1, 2]), Err(Error::OutOfRange));
        assert_eq!(bytes.read_at(u64::MAX, &mut [0]), Err(Error::OutOfRange));
        bytes.into_device().unwrap();
    }
}
