// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts the main CPU's instructions of a command over the ring, for `make figures ONLY=firmware`.
//!
//! The coprocessor's side runs between the counted parts, in the same process, over a RAM disk. Run
//! as `coprocessor_count read|write ROUNDS`; the first dump is the cost of the markers, then
//! submission (with its doorbell) and completion alternate.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, unsafe_code)]

#[path = "../support/callgrind.rs"]
mod callgrind;

use std::ptr::NonNull;

use block::{Buffer, Clock, Device, Operation, RamDisk, Request};
use coprocessor::layout::data_part;
use coprocessor::{Access, Client, ClientOptions, CoprocessorDisk, Drive, Grant, Service, Window};

const WINDOW_BYTES: usize = 4 << 20;
const COMMAND_BYTES: usize = 128 << 10;

struct Still;

impl Clock for Still {
    fn ticks(&self) -> u64 {
        1
    }

    fn ticks_per_second(&self) -> u64 {
        1_000_000
    }
}

#[repr(C, align(4096))]
#[derive(Clone)]
struct Page([u8; 4096]);

/// The three calls of a command; a caller with a concrete device type gets all of them inlined.
#[inline(always)]
fn submit(device: &mut CoprocessorDisk<Still>, write: bool, lba: u64, buffer: &mut Option<Buffer>) {
    if let Some(buffer) = buffer.take() {
        let operation = if write {
            Operation::Write {
                lba,
                buffer,
                fua: false,
            }
        } else {
            Operation::Read { lba, buffer }
        };
        device
            .submit(Request { tag: 1, operation })
            .expect("there is a credit");
    }
    device.kick();
}

#[inline(always)]
fn reap(device: &mut CoprocessorDisk<Still>, buffer: &mut Option<Buffer>) {
    if let Some(completion) = device.poll() {
        if completion.result.is_ok() {
            *buffer = completion.buffer;
        }
    }
}

fn main() {
    let mut words = std::env::args().skip(1);
    let write = words.next().as_deref() == Some("write");
    let rounds: u32 = words.next().map_or(64, |word| word.parse().unwrap());

    let pages = Box::leak(vec![Page([0; 4096]); WINDOW_BYTES / 4096].into_boxed_slice());
    // SAFETY: leaked, aligned, and accessed only through the window.
    let window = unsafe { Window::new(NonNull::from(pages).cast(), WINDOW_BYTES) };
    let mut disk = RamDisk::<_, 16>::new(vec![0; 8 << 20], 9).unwrap();
    let geometry = *disk.geometry();
    let grants =
        std::array::from_fn(|index| Grant::whole(WINDOW_BYTES, index, geometry.block_count));
    Service::announce(&window);
    let drive = Drive::default();
    let mut service = Service::new(&window, geometry, &drive, grants, &Still).unwrap();
    let options = ClientOptions {
        access: Access::WriteBlocks,
        ..ClientOptions::default()
    };
    // Attaching waits for the other side, so that takes a thread; counting does not.
    let client = std::thread::scope(|scope| {
        let attached = scope.spawn(move || Client::attach(window, Still, options));
        while !attached.is_finished() {
            service.step(&mut disk, &Still);
        }
        attached.join().unwrap().unwrap()
    });
    let mut device = CoprocessorDisk::new(client, Access::WriteBlocks);
    let start = data_part(WINDOW_BYTES, 0).0;
    let mut buffer = window.buffer(start, COMMAND_BYTES);
    let step = (COMMAND_BYTES / 512) as u64;

    callgrind::begin();
    callgrind::end();
    callgrind::dump();
    for round in 0..u64::from(rounds) {
        let lba = round * step % (geometry.block_count - step);
        callgrind::begin();
        submit(&mut device, write, lba, &mut buffer);
        callgrind::end();
        callgrind::dump();
        while service.step(&mut disk, &Still) {}
        callgrind::begin();
        reap(&mut device, &mut buffer);
        callgrind::end();
        callgrind::dump();
        assert!(buffer.is_some(), "a command did not come back");
    }
}
