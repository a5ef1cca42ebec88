// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the tests share: buffers, a seed, a clock that they move, and a hybrid over a crash disk.
#![allow(dead_code, clippy::unwrap_used)]

use block::{Buffer, Clock, Device, Operation, Request};
use std::cell::Cell;
use straightway_hybrid::{Hybrid, HybridOptions};

pub const BLOCK: usize = 512;
pub const LINES: usize = 6;
pub const LINE_BLOCKS: usize = 16;

pub fn buffer(len: usize, value: u8) -> Buffer {
    Buffer::from_static(Box::leak(vec![value; len].into_boxed_slice()))
}

pub fn lines() -> [Buffer; LINES] {
    std::array::from_fn(|_| buffer(LINE_BLOCKS * BLOCK, 0xee))
}

/// The seed of this run, which is printed; set with `STRAIGHTWAY_SEED`.
pub fn seed() -> u64 {
    let given = std::env::var("STRAIGHTWAY_SEED").ok();
    let seed = given
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| fastrand::u64(..));
    println!("STRAIGHTWAY_SEED={seed}");
    seed
}

/// Microseconds that only a test moves.
#[derive(Debug, Default)]
pub struct TestClock(pub Cell<u64>);

impl TestClock {
    pub fn advance(&self, us: u64) {
        self.0.set(self.0.get() + us);
    }
}

impl Clock for TestClock {
    fn ticks(&self) -> u64 {
        self.0.get()
    }

    fn ticks_per_second(&self) -> u64 {
        1_000_000
    }
}

pub type Tested<'c, D> = Hybrid<D, &'c TestClock, LINES, 16>;

/// Accesses of fewer than 8 blocks are small.
pub const FIXED: HybridOptions = HybridOptions {
    dirty_lines: 3,
    hold_us: 1_000,
    ahead_lines: 2,
    probe_us: 0,
    fixed_border_blocks: Some(8),
};

pub fn hybrid<'c, D: Device>(
    device: D,
    clock: &'c TestClock,
    options: HybridOptions,
) -> Tested<'c, D> {
    Hybrid::open(device, clock, lines(), options).unwrap()
}

pub fn write(lba: u64, blocks: usize, value: u8, fua: bool) -> Operation {
    Operation::Write {
        lba,
        buffer: buffer(blocks * BLOCK, value),
        fua,
    }
}

/// Submits an operation and polls it to its end.
pub fn run(
    device: &mut impl Device,
    operation: Operation,
) -> (Option<Buffer>, Result<(), block::Error>) {
    device.submit(Request { tag: 9, operation }).unwrap();
    device.kick();
    for _ in 0..10_000 {
        if let Some(completion) = device.poll() {
            assert_eq!(completion.tag, 9);
            return (completion.buffer, completion.result);
        }
    }
    unreachable!("a request did not end");
}

pub fn read(device: &mut impl Device, lba: u64, blocks: usize) -> Vec<u8> {
    let buffer = buffer(blocks * BLOCK, 0xdd);
    let (buffer, result) = run(device, Operation::Read { lba, buffer });
    result.unwrap();
    buffer.unwrap().to_vec()
}
