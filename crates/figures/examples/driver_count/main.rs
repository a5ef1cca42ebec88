//! Counts the driver's instructions per request, for `make figures ONLY=nvme`.
//!
//! Callgrind counts between two markers and writes a dump after each pair, so that every burst is
//! counted separately and the worst can be distinguished from the typical. Run as `count NAME
//! BURSTS`; the first dump is the cost of the markers, then submission and reaping alternate.
//!
//! Everything that a real path does is included: range and alignment checks, command tracking,
//! address look-up, PRPs, the deadline stamp, the doorbell, the phase and status checks, and
//! handing the buffer back.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

#[path = "../support/callgrind.rs"]
mod callgrind;
#[path = "../support/plain.rs"]
mod plain;

use block::{Buffer, Device, Operation, Request};
use nvme::{Controller, Options, QueuePair, controller_memory_bytes};
use plain::Plain;

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
    eprintln!("a read failed: {error}");
    std::process::exit(1);
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

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let bursts = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(100);
    let (depth, len) = match name.as_str() {
        "qd1" | "empty" => (1, 4096),
        "qd32" => (32, 4096),
        "large" => (1, MAX_TRANSFER),
        _ => {
            eprintln!("usage: count qd1|qd32|large|empty BURSTS");
            std::process::exit(2);
        }
    };
    let drive = Plain::new(16 << 20);
    let admin_memory = drive.take(controller_memory_bytes(4096));
    let queue_memory = drive.take(Queue::memory_bytes(MAX_TRANSFER, 4096));
    let mut buffers: Vec<_> = (0..depth).map(|_| Some(drive.take(len))).collect();
    let options = Options::default();
    let controller = Controller::enable(drive, admin_memory, options).map_err(|f| f.error);
    let controller = controller.expect("the plain drive enables");
    let namespace = controller.namespace(1).expect("it has one namespace");
    let queue = QueuePair::create(&controller, &namespace, queue_memory, MAX_TRANSFER);
    let mut queue: Queue<'_> = queue.map_err(|f| f.error).expect("it has a queue");

    let mut lbas = vec![0; depth];
    count_nothing();
    for burst in 0..bursts as u64 {
        if name == "empty" {
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
    let statistics = queue.statistics();
    println!("commands {}", bursts * depth);
    println!("submission_doorbells {}", statistics.submission_doorbells);
    println!("completion_doorbells {}", statistics.completion_doorbells);
}
