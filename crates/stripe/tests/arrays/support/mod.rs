// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the tests of arrays share: buffers, seeds, and a plain model of a device's content.
#![allow(dead_code)]

use block::{Buffer, Completion, Device, Operation, Request};
use crash::{Completions, Config, CrashDisk, Medium};
use straightway_stripe::{Label, read_label};

pub const BLOCK: usize = 512;

pub fn buffer(blocks: usize, fill: u8) -> Buffer {
    Buffer::from_static(Box::leak(vec![fill; blocks * BLOCK].into_boxed_slice()))
}

/// `STRAIGHTWAY_SEED`, or a new one; printed when the test fails.
pub fn seed() -> u64 {
    let seed = std::env::var("STRAIGHTWAY_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| fastrand::u64(..));
    println!("STRAIGHTWAY_SEED={seed}");
    seed
}

/// A disk whose requests complete in a random order, several polls late.
pub fn disk(blocks: u64, seed: u64) -> CrashDisk {
    open(&Medium::new(9, blocks).unwrap(), seed)
}

pub fn open(medium: &Medium, seed: u64) -> CrashDisk {
    let config = Config {
        queue_depth: 3 + (seed % 6) as u16,
        max_transfer_blocks: 5 + (seed % 20) as u32,
        completions: Completions::Shuffled(seed),
        hold_polls: (seed % 4) as u32,
        ..Config::default()
    };
    CrashDisk::new(medium.clone(), config)
}

pub fn label<D: Device>(device: &mut D) -> Option<Label> {
    read_label(device, buffer(8, 0)).1.unwrap()
}

/// Submits until the device accepts, polling in between.
pub fn submit(
    device: &mut dyn Device,
    tag: u32,
    operation: Operation,
    mut on: impl FnMut(Completion),
) {
    let mut request = Request { tag, operation };
    loop {
        match device.submit(request) {
            Ok(()) => return,
            Err(refused) => {
                assert_eq!(refused.error, block::Error::QueueFull);
                request = refused.request;
                device.kick();
                if let Some(completion) = device.poll() {
                    on(completion);
                }
            }
        }
    }
}

/// Polls until nothing is outstanding; a device that never completes fails the test.
pub fn drain(device: &mut dyn Device, mut on: impl FnMut(Completion)) {
    device.kick();
    let mut polls = 0;
    while device.outstanding() != 0 {
        polls += 1;
        assert!(polls < 1_000_000, "a request is never completed");
        if let Some(completion) = device.poll() {
            on(completion);
        }
    }
}
