// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program for `make figures ONLY=measure`: counts the instructions of the measuring loops on
//! the timed path.
//!
//! `count_loops LOOP OPERATIONS` runs a loop over a device that does nothing, on a clock that
//! counts its own readings. Under Callgrind, two runs of different length differ by what the
//! operations between them cost; the cost of the device and the clock themselves is measured by the
//! loop `bare`, which calls them as the other loops do and does nothing else.
//!
//! | loop | contents |
//! | --- | --- |
//! | `closed` | `compare` and `sweep`, one operation in flight |
//! | `closed32` | the same with 32 in flight |
//! | `open` | `sustain` and `periodic` |
//! | `bare` | the device and the clock alone |
#![allow(clippy::unwrap_used, clippy::expect_used)]

use block::{Buffer, Completion, Device, Features, Geometry, Operation, Refused, Request};
use std::cell::Cell;
use std::sync::atomic::AtomicBool;
use straightway_measure::access::Offsets;
use straightway_measure::cell::ClosedLoop;
use straightway_measure::open_loop::{OpenLoop, Schedule};
use straightway_measure::{Access, Clock, Operations, Pattern, Region};

/// A device that has completed each request when it is polled.
struct Nothing {
    geometry: Geometry,
    done: [Option<Completion>; 32],
    count: usize,
}

impl Nothing {
    fn new() -> Self {
        Self {
            geometry: Geometry {
                block_size_log2: 9,
                block_count: 1 << 20,
                max_transfer_blocks: 256,
                queue_depth: 32,
                buffer_align_bytes: 1,
                features: Features::default(),
            },
            done: [const { None }; 32],
            count: 0,
        }
    }
}

impl Device for Nothing {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }
    #[inline(never)]
    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        let tag = request.tag;
        let completion = Completion {
            tag,
            buffer: request.operation.into_buffer(),
            result: Ok(()),
        };
        if let Some(place) = self.done.get_mut(self.count) {
            *place = Some(completion);
            self.count += 1;
        }
        Ok(())
    }
    #[inline(never)]
    fn kick(&mut self) {}
    #[inline(never)]
    fn poll(&mut self) -> Option<Completion> {
        let last = self.count.checked_sub(1)?;
        self.count = last;
        self.done.get_mut(last)?.take()
    }
    fn outstanding(&self) -> usize {
        self.count
    }
    fn wait(&mut self, _timeout_us: u32) {}
}

/// A clock that counts its readings.
struct Counting(Cell<u64>);

impl Clock for Counting {
    #[inline(never)]
    fn now_ns(&self) -> u64 {
        self.0.set(self.0.get() + 1000);
        self.0.get()
    }
    fn sleep_ns(&self, _duration_ns: u64) {}
}

fn buffers(count: usize) -> Vec<Buffer> {
    (0..count)
        .map(|_| Buffer::from_static(Box::leak(vec![0; 4096].into_boxed_slice())))
        .collect()
}

#[inline(never)]
fn bare(device: &mut dyn Device, clock: &dyn Clock, operations: u64) {
    let mut spare = buffers(1).pop();
    for lba in 0..operations {
        let Some(buffer) = spare.take() else { break };
        let operation = Operation::Read {
            lba: lba % 1000,
            buffer,
        };
        device
            .submit(Request { tag: 0, operation })
            .expect("it accepts all");
        device.kick();
        spare = device.poll().and_then(|completion| completion.buffer);
        clock.now_ns();
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let operations: u64 = arguments
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or(1000);
    let access = Access {
        operation: straightway_measure::Operation::Read,
        pattern: Pattern::Random,
        block_size_bytes: 4096,
    };
    let mut device = Nothing::new();
    let geometry = device.geometry;
    let region = Region::whole(&geometry);
    let span = 1 << 20;
    let offsets = Offsets::new(access, span, 1, 0);
    let operations_in = |buffers| {
        let made = Operations::new(access, offsets, span, region, &geometry, buffers);
        made.map_err(|(error, _)| error).expect("it fits")
    };
    let clock = Counting(Cell::new(0));
    let cancel = AtomicBool::new(false);
    let done = match name.as_str() {
        "bare" => {
            bare(&mut device, &clock, operations);
            operations
        }
        "closed" | "closed32" => {
            let depth = if name == "closed" { 1 } else { 32 };
            let mut closed = ClosedLoop::new(operations_in(buffers(depth)));
            // Each operation reads the clock once, and a reading is a microsecond.
            closed
                .run(&mut device, &clock, operations * 1000, &cancel)
                .operations
        }
        "open" => {
            // One arrival per reading: each is due when the one before is done, so the loop never
            // waits.
            let schedule =
                Schedule::new(1e9 / 1000.0, operations * 1000, 1_000_000).expect("it has arrivals");
            let mut open = OpenLoop::new(operations_in(buffers(4)));
            open.run(&mut device, &clock, &schedule, &cancel)
                .tally
                .operations
        }
        _ => {
            eprintln!("usage: count_loops closed|closed32|open|bare OPERATIONS");
            std::process::exit(2);
        }
    };
    println!("{done}");
}
