// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reads whose instructions are counted, between markers: by Callgrind on this machine
//! (`driver_count`), by QEMU on others (`firmware/count`).
//!
//! Everything that a real path does is included: range and alignment checks, command tracking,
//! address look-up, PRPs, the deadline stamp, the doorbell, the phase and status checks, and
//! handing the buffer back.

use alloc::vec;
use alloc::vec::Vec;

use block::{Buffer, Device, Operation, Request};
use nvme::{Controller, ControllerOptions, QueuePair, Statistics, controller_memory_bytes};

use crate::callgrind;
use crate::plain::Plain;

const DEPTH: usize = 64;
const MAX_TRANSFER: usize = 128 << 10;

type Queue<'c> = QueuePair<Plain, &'c Controller<Plain>, DEPTH>;

#[inline(always)]
fn read(queue: &mut Queue<'_>, lba: u64, buffer: Buffer) {
    let operation = Operation::Read { lba, buffer };
    let request = Request { tag: 1, operation };
    queue.submit(request).expect("the queue has room");
}

#[cold]
fn read_failed(error: block::Error) -> ! {
    panic!("a read failed: {error}");
}

/// Submits and starts one read, as a caller at queue depth 1 does.
#[inline(always)]
fn submit_one(queue: &mut Queue<'_>, lba: u64, buffer: &mut Option<Buffer>) {
    if let Some(buffer) = buffer.take() {
        read(queue, lba, buffer);
    }
    queue.kick();
}

/// Polls for its completion.
#[inline(always)]
fn reap_one(queue: &mut Queue<'_>, buffer: &mut Option<Buffer>) {
    if let Some(completion) = queue.poll() {
        match completion.result {
            Ok(()) => *buffer = completion.buffer,
            Err(error) => read_failed(error),
        }
    }
}

/// Submits and starts a burst.
#[inline(always)]
fn submit(queue: &mut Queue<'_>, lbas: &[u64], buffers: &mut [Option<Buffer>]) {
    for (&lba, buffer) in lbas.iter().zip(buffers) {
        if let Some(buffer) = buffer.take() {
            read(queue, lba, buffer);
        }
    }
    queue.kick();
}

/// Polls for a burst's completions.
#[inline(always)]
fn reap(queue: &mut Queue<'_>, buffers: &mut [Option<Buffer>]) {
    for place in buffers {
        let Some(completion) = queue.poll() else {
            break;
        };
        match completion.result {
            Ok(()) => *place = completion.buffer,
            Err(error) => read_failed(error),
        }
    }
}

/// `polls` is a multiple of ten; unrolled, so that the loop itself costs little.
#[inline(always)]
fn find_nothing(queue: &mut Queue<'_>, polls: usize) -> bool {
    for _ in 0..polls / 10 {
        let found = queue.poll().is_some()
            || queue.poll().is_some()
            || queue.poll().is_some()
            || queue.poll().is_some()
            || queue.poll().is_some()
            || queue.poll().is_some()
            || queue.poll().is_some()
            || queue.poll().is_some()
            || queue.poll().is_some()
            || queue.poll().is_some();
        if found {
            return true;
        }
    }
    false
}

#[inline(never)]
fn count_submit(queue: &mut Queue<'_>, lbas: &[u64], buffers: &mut [Option<Buffer>]) {
    callgrind::begin();
    match (lbas, buffers) {
        ([lba], [buffer]) => submit_one(queue, *lba, buffer),
        (lbas, buffers) => submit(queue, lbas, buffers),
    }
    callgrind::end();
    callgrind::dump();
}

#[inline(never)]
fn count_reap(queue: &mut Queue<'_>, buffers: &mut [Option<Buffer>]) {
    callgrind::begin();
    match buffers {
        [buffer] => reap_one(queue, buffer),
        buffers => reap(queue, buffers),
    }
    callgrind::end();
    callgrind::dump();
}

#[inline(never)]
fn count_empty(queue: &mut Queue<'_>, polls: usize) -> bool {
    callgrind::begin();
    let found = find_nothing(queue, polls);
    callgrind::end();
    callgrind::dump();
    found
}

/// The cost of the markers themselves, to be subtracted.
#[inline(never)]
fn count_nothing() {
    callgrind::begin();
    callgrind::end();
    callgrind::dump();
}

/// The scenario's queue depth and length of reads; `None` if there is no such scenario.
pub fn scenario(name: &str) -> Option<(usize, usize)> {
    match name {
        "qd1" | "empty" => Some((1, 4096)),
        "qd32" => Some((32, 4096)),
        "large" => Some((1, MAX_TRANSFER)),
        _ => None,
    }
}

/// The cost of the markers is the first count; then submission and reaping alternate, or each is
/// 1,000 polls that find nothing.
pub fn run(is_empty: bool, (depth, len): (usize, usize), bursts: usize) -> Statistics {
    let drive = Plain::new(16 << 20);
    let admin_memory = drive.take(controller_memory_bytes(4096));
    let queue_memory = drive.take(Queue::memory_bytes(MAX_TRANSFER, 4096));
    let mut buffers: Vec<_> = (0..depth).map(|_| Some(drive.take(len))).collect();
    let options = ControllerOptions::default();
    let controller = Controller::enable(drive, admin_memory, options).map_err(|f| f.error);
    let controller = controller.expect("the plain drive enables");
    let namespace = controller.namespace(1).expect("it has one namespace");
    let queue = QueuePair::create(&controller, &namespace, queue_memory, MAX_TRANSFER);
    let mut queue: Queue<'_> = queue.map_err(|f| f.error).expect("it has a queue");

    let mut lbas = vec![0; depth];
    count_nothing();
    for burst in 0..bursts as u64 {
        if is_empty {
            assert!(!count_empty(&mut queue, 1000));
            continue;
        }
        for (index, lba) in lbas.iter_mut().enumerate() {
            *lba = (burst * 7919 + index as u64 * 104_729) % ((1 << 20) - 256);
        }
        count_submit(&mut queue, &lbas, &mut buffers);
        controller.platform().answer(burst % 2 == 1, |_| {});
        count_reap(&mut queue, &mut buffers);
        assert!(buffers.iter().all(Option::is_some), "a read was lost");
    }
    let statistics = *queue.statistics();
    // Their end would wait for a shutdown that this drive does not report.
    core::mem::forget(queue);
    core::mem::forget(controller);
    statistics
}
