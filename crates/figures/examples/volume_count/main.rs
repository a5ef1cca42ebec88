// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts the instructions of data requests to a volume, and of the same requests to the driver
//! alone, for `make figures ONLY=volume`.
//!
//! `volume_count TARGET KIND LENGTH DEPTH ROUNDS` under Callgrind. TARGET is `driver`; `file`, one
//! contiguous file; `scattered`, files whose four units are four extents; or `checksums`. KIND is
//! `write` (an append, on a volume) or `read`. The first dump is the cost of the markers; then each
//! round has one for each submission and one for each poll that finds a completion, the newest
//! command's first.
//!
//! Everything that a caller pays is included: the volume's checks, the search for the extent, the
//! driver's own work, the bookkeeping of completions, and handing the buffer back.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

extern crate alloc;

#[path = "../support/callgrind.rs"]
mod callgrind;
mod keeping;
#[path = "../support/plain.rs"]
mod plain;

use block::{Buffer, Device, Operation, Request};
use keeping::Keeping;
use nvme::{Controller, QueuePair, controller_memory_bytes};
use volume::{
    CreateOptions, Error, File, FormatOptions, MountOptions, OpenFile, Volume, blocking, format,
};

const DEPTH: usize = 64;
const MAX_TRANSFER: usize = 128 << 10;
const UNIT: u64 = 128 << 10;
/// One allocation group, so that reservations of two files alternate.
const VOLUME_BYTES: u64 = 240 << 20;
const READ_SPAN: u64 = 16 << 20;

type Queue<'c> = QueuePair<Keeping, &'c Controller<Keeping>, DEPTH>;
type Files<'v, 'c> = Volume<'v, Queue<'c>>;

/// The target: requests with or without a volume.
trait Target {
    fn submit(&mut self, request: Wanted, buffer: Buffer) -> bool;
    fn poll(&mut self) -> Option<Buffer>;
}

#[derive(Clone, Copy)]
enum Wanted {
    Write { at: u64 },
    Read { at: u64 },
}

struct Bare<'q, 'c>(&'q mut Queue<'c>);

impl Target for Bare<'_, '_> {
    #[inline(always)]
    fn submit(&mut self, request: Wanted, buffer: Buffer) -> bool {
        let operation = match request {
            Wanted::Write { at } => Operation::Write {
                lba: at / 512,
                buffer,
                fua: false,
            },
            Wanted::Read { at } => Operation::Read {
                lba: at / 512,
                buffer,
            },
        };
        let taken = self.0.submit(Request { tag: 1, operation }).is_ok();
        self.0.kick();
        taken
    }

    #[inline(always)]
    fn poll(&mut self) -> Option<Buffer> {
        let completion = self.0.poll()?;
        completion.result.ok()?;
        completion.buffer
    }
}

struct InFile<'f, 'v, 'c> {
    volume: &'f Files<'v, 'c>,
    file: File,
}

impl Target for InFile<'_, '_, '_> {
    #[inline(always)]
    fn submit(&mut self, request: Wanted, buffer: Buffer) -> bool {
        let len = buffer.len();
        let taken = match request {
            Wanted::Write { .. } => self.volume.append(self.file, buffer, len, 1).is_ok(),
            Wanted::Read { at } => self.volume.read(self.file, at, buffer, 1).is_ok(),
        };
        self.volume.kick();
        taken
    }

    #[inline(always)]
    fn poll(&mut self) -> Option<Buffer> {
        let event = self.volume.poll()?;
        event.result.ok()?;
        event.buffer
    }
}

#[inline(never)]
fn count_submit(target: &mut impl Target, request: Wanted, buffer: Buffer) -> bool {
    callgrind::begin();
    let taken = target.submit(request, buffer);
    callgrind::end();
    callgrind::dump();
    taken
}

#[inline(never)]
fn count_poll(target: &mut impl Target) -> Option<Buffer> {
    callgrind::begin();
    let buffer = target.poll();
    callgrind::end();
    callgrind::dump();
    buffer
}

/// The cost of the markers themselves, to be subtracted.
#[inline(never)]
fn count_nothing() {
    callgrind::begin();
    callgrind::end();
    callgrind::dump();
}

/// Submits `requests` one by one, completes them in reverse order, polls as often.
fn burst(target: &mut impl Target, drive: &Keeping, requests: &[Wanted], pool: &mut Vec<Buffer>) {
    drive.answer_at_once(false);
    for &request in requests {
        let buffer = pool.pop().expect("a buffer for each request");
        assert!(
            count_submit(target, request, buffer),
            "a request was refused"
        );
    }
    drive.answer(true);
    for _ in requests {
        pool.push(count_poll(target).expect("each request ends well"));
    }
    drive.answer_at_once(true);
}

fn run<D: Device, T>(volume: &Volume<'_, D>, future: impl Future<Output = Result<T, Error>>) -> T {
    blocking::run(volume, future).expect("the operation ends well")
}

/// What to count.
struct Job<'j> {
    target: &'j str,
    reads: bool,
    len: usize,
    depth: usize,
    rounds: u64,
}

impl Job<'_> {
    /// The requests of a round: consecutive writes, or scattered reads in `span` bytes.
    fn requests(&self, round: u64, span: u64) -> Vec<Wanted> {
        let len = self.len as u64;
        let number = |index| round * self.depth as u64 + index;
        let wanted = |index| {
            if self.reads {
                Wanted::Read {
                    at: number(index) * 7919 * len % span,
                }
            } else {
                Wanted::Write {
                    at: number(index) * len % span,
                }
            }
        };
        (0..self.depth as u64).map(wanted).collect()
    }

    fn in_driver(&self, queue: &mut Queue<'_>, drive: &Keeping, pool: &mut Vec<Buffer>) {
        for round in 0..self.rounds {
            let requests = self.requests(round, VOLUME_BYTES);
            burst(&mut Bare(queue), drive, &requests, pool);
        }
    }

    fn in_file(&self, volume: &Files<'_, '_>, drive: &Keeping, pool: &mut Vec<Buffer>) {
        let reserve_bytes = if self.reads {
            READ_SPAN
        } else {
            self.rounds * (self.depth * self.len) as u64
        };
        let options = CreateOptions {
            reserve_bytes,
            checksums: self.target == "checksums",
            app_tag: 0,
        };
        let file = run(volume, volume.create("a", &options));
        if self.reads {
            fill(volume, file, READ_SPAN, drive);
        }
        for round in 0..self.rounds {
            let requests = self.requests(round, READ_SPAN);
            burst(&mut InFile { volume, file }, drive, &requests, pool);
            if options.checksums {
                run(volume, volume.commit(file));
            }
        }
        run(volume, volume.close(file));
    }

    /// A new file of four extents for each round, interleaved with reservations of another file.
    fn in_extents(&self, volume: &Files<'_, '_>, drive: &Keeping, pool: &mut Vec<Buffer>) {
        assert_eq!(self.depth, 4, "one request for each extent");
        let plain = CreateOptions::default();
        for round in 0..self.rounds {
            let between = run(volume, volume.create("between", &plain));
            let file = run(volume, volume.create("a", &plain));
            for unit in 1..=4 {
                run(volume, volume.reserve(file, unit * UNIT));
                run(volume, volume.reserve(between, unit * UNIT));
            }
            let mut requests = self.requests(round, READ_SPAN);
            if self.reads {
                fill(volume, file, 4 * UNIT, drive);
                run(volume, volume.prepare(file, 0));
                requests = (0..4)
                    .map(|unit| Wanted::Read { at: unit * UNIT })
                    .collect();
            }
            burst(&mut InFile { volume, file }, drive, &requests, pool);
            for (file, name) in [(file, "a"), (between, "between")] {
                run(volume, volume.close(file));
                run(volume, volume.remove(name));
            }
            let mut from = Some(0);
            while let Some(slot) = from {
                from = run(volume, volume.reap(slot));
            }
        }
    }
}

/// Appends `bytes` of zeroes and commits them.
fn fill(volume: &Files<'_, '_>, file: File, bytes: u64, drive: &Keeping) {
    let mut buffer = drive.take(MAX_TRANSFER);
    for _ in 0..bytes / MAX_TRANSFER as u64 {
        let appended = blocking::append(volume, file, buffer, MAX_TRANSFER);
        appended.result.expect("the append ends well");
        buffer = appended.buffer;
    }
    run(volume, volume.commit(file));
    run(volume, volume.prepare(file, 0));
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [target, kind @ ("read" | "write"), len, depth, rounds] = words[..] else {
        eprintln!(
            "usage: volume_count driver|file|scattered|checksums write|read LENGTH DEPTH ROUNDS"
        );
        std::process::exit(2);
    };
    let job = Job {
        target,
        reads: kind == "read",
        len: len.parse().expect("a length"),
        depth: depth.parse().expect("a depth"),
        rounds: rounds.parse().expect("a number of rounds"),
    };
    let drive = Keeping::new(64 << 20);
    let admin_memory = drive.take(controller_memory_bytes(4096));
    let queue_memory = drive.take(Queue::memory_bytes(MAX_TRANSFER, 4096));
    let controller = Controller::enable(drive, admin_memory, Default::default());
    let controller = controller.map_err(|failed| failed.error);
    let controller = controller.expect("the plain drive enables");
    let drive = controller.platform();
    let namespace = controller.namespace(1).expect("it has one namespace");
    let queue = QueuePair::create(&controller, &namespace, queue_memory, MAX_TRANSFER);
    let mut queue: Queue<'_> = queue.map_err(|f| f.error).expect("it has a queue");
    let mut pool: Vec<_> = (0..job.depth).map(|_| drive.take(job.len)).collect();

    count_nothing();
    if job.target == "driver" {
        job.in_driver(&mut queue, drive, &mut pool);
        return;
    }
    let options = FormatOptions {
        volume_bytes: Some(VOLUME_BYTES),
        unit_bytes: Some(UNIT),
        checksums: job.target == "checksums",
        uuid: [7; 16],
        ..FormatOptions::default()
    };
    let made = format(&mut queue, drive.take(1 << 16), &options);
    made.0.expect("the volume is made");
    let nodes = [0; 3].map(|_| drive.take(512));
    let mut files = [const { OpenFile::new() }; 4];
    let mounted = Volume::mount(queue, nodes, &mut files, &MountOptions::default());
    let volume = mounted.map_err(|failed| failed.result);
    let volume = volume.expect("the volume is mounted");
    match job.target {
        "scattered" => job.in_extents(&volume, drive, &mut pool),
        _ => job.in_file(&volume, drive, &mut pool),
    }
    volume.unmount().result.expect("everything was written");
}
