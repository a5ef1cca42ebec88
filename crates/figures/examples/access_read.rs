// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads 4 KiB of a block device, one after another, through the crates: `access_read DEVICE
//! COUNT`. For `make figures ONLY=access`, beside `access_read.c`, which reads the same blocks.
#![allow(clippy::unwrap_used)]

use block::{Device, blocking};
use linux::{Claim, HostMemory, RingOptions, Roots, Uring};
use std::path::Path;

const READ_BYTES: usize = 4096;

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let claim = Claim::to_read(&Roots::default(), Path::new(&words[1])).unwrap();
    let mut device = Uring::open(&claim, &RingOptions::default()).unwrap();
    let memory = HostMemory::new(READ_BYTES).unwrap();
    let blocks = READ_BYTES as u64 >> device.geometry().block_size_log2;
    let places = device.geometry().block_count / blocks;
    let mut buffer = memory.allocate(READ_BYTES).unwrap();
    for number in 0..words[2].parse().unwrap() {
        let done = blocking::read(&mut device, number * 7919 % places * blocks, buffer);
        done.result.unwrap();
        buffer = done.buffer;
    }
}
