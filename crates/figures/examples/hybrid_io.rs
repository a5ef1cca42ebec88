// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Accesses of one size by one path, one at a time: what `make figures ONLY=hybrid` runs in the
//! lab.
//!
//! `hybrid_io FILE DISK PATH read|write sequential|random BYTES TOTAL` moves TOTAL bytes of FILE, a
//! block device or a file on one, by PATH: `buffered` and `direct` are pread and pwrite, `ring` is
//! io_uring, `hybrid` is hybrid direct I/O over it. Nothing is cached at the beginning, and what
//! was written is durable at the end, which is included. Prints `MICROSECONDS COMMANDS LINES`: the
//! commands that DISK (`nvme0n1`) completed, and those for lines. The same part is between the
//! markers of `lab/count`.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

use std::array;
use std::fs;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Instant;

use block::{Buffer, Device, Operation, Request, blocking};
use hybrid::{Hybrid, HybridOptions};
use linux::{CallOrRing, Claim, HostMemory, RingOptions, Roots, TscClock, Uring};
use rustix::fs::{Mode, OFlags};

const LINES: usize = 8;
const DEPTH: usize = 64;
const LINE_BYTES: usize = 1 << 20;
/// Offsets are within this part of the file, after the warm-up's.
const SPAN_BYTES: u64 = 224 << 20;
/// A first part of it, which is not measured, is a warm-up at other offsets.
const WARM_UP_BYTES: u64 = 32 << 20;

macro_rules! marker {
    ($kind:literal) => {
        // SAFETY: a no-operation that the counting plugin recognises (lab/count/marker.h), with
        // label 1.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!(concat!(
                "nop dword ptr [rax + 1398210560 + 256 + ",
                $kind,
                "]"
            ))
        }
    };
}

/// What one run moves.
#[derive(Clone, Copy)]
struct Work {
    /// Where it begins.
    first_byte: u64,
    /// Whether it is between the markers.
    is_measured: bool,
    is_write: bool,
    is_random: bool,
    bytes: usize,
    count: u64,
}

impl Work {
    fn offset(&self, turn: u64) -> u64 {
        let places = SPAN_BYTES / self.bytes as u64;
        let place = if self.is_random {
            (turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 17) % places
        } else {
            turn % places
        };
        self.first_byte + place * self.bytes as u64
    }
}

/// Reads or writes as an ordinary program does.
fn plain(file: &str, flags: OFlags, work: &Work, buffer: &mut [u8]) {
    let file = rustix::fs::open(file, OFlags::RDWR | flags, Mode::empty()).unwrap();
    if work.is_measured {
        marker!(1);
    }
    for turn in 0..work.count {
        let mut done = 0;
        while done < work.bytes {
            let at = work.offset(turn) + done as u64;
            let part = &mut buffer[done..work.bytes];
            let moved = if work.is_write {
                rustix::io::pwrite(file.as_fd(), part, at)
            } else {
                rustix::io::pread(file.as_fd(), part, at)
            };
            done += moved.unwrap();
        }
    }
    if work.is_write {
        rustix::fs::fdatasync(file.as_fd()).unwrap();
    }
    if work.is_measured {
        marker!(2);
    }
}

/// The same over a device.
fn device(device: &mut impl Device, work: &Work, mut buffer: Buffer) -> Buffer {
    let geometry = *device.geometry();
    if work.is_measured {
        marker!(1);
    }
    for turn in 0..work.count {
        let lba = work.offset(turn) >> geometry.block_size_log2;
        if buffer.len() > geometry.max_transfer_bytes() {
            let outcome = if work.is_write {
                blocking::write(device, lba, buffer, false)
            } else {
                blocking::read(device, lba, buffer)
            };
            outcome.result.unwrap();
            buffer = outcome.buffer;
            continue;
        }
        let operation = if work.is_write {
            Operation::Write {
                lba,
                buffer,
                fua: false,
            }
        } else {
            Operation::Read { lba, buffer }
        };
        device.submit(Request { tag: 0, operation }).unwrap();
        device.kick();
        buffer = loop {
            match device.poll() {
                Some(completion) => {
                    completion.result.unwrap();
                    break completion.buffer.unwrap();
                }
                None => device.wait(100_000),
            }
        };
    }
    if work.is_write {
        blocking::flush(device).unwrap();
    }
    if work.is_measured {
        marker!(2);
    }
    buffer
}

/// Reads and writes that the disk has completed.
fn commands(disk: &str) -> u64 {
    let stat = fs::read_to_string(format!("/sys/block/{disk}/stat")).unwrap();
    let fields: Vec<u64> = stat
        .split_whitespace()
        .map(|field| field.parse().unwrap())
        .collect();
    fields[0] + fields[4]
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [file, disk, path, operation, pattern, bytes, total] = words.as_slice() else {
        panic!("hybrid_io FILE DISK PATH read|write sequential|random BYTES TOTAL");
    };
    let bytes: usize = bytes.parse().unwrap();
    let work = Work {
        first_byte: WARM_UP_BYTES,
        is_measured: true,
        is_write: operation == "write",
        is_random: pattern == "random",
        bytes,
        count: total.parse::<u64>().unwrap() / bytes as u64,
    };
    let memory = HostMemory::new(bytes + (LINES + 1) * LINE_BYTES).unwrap();
    let mut buffer = memory.allocate(bytes).unwrap();
    buffer
        .iter_mut()
        .enumerate()
        .for_each(|(at, byte)| *byte = (at * 7 + at / 251) as u8);
    let options = RingOptions {
        queue_depth: 32,
        ..RingOptions::default()
    };
    let opened = || {
        Uring::open(
            &Claim::to_write(&Roots::system(), Path::new(file)).unwrap(),
            &options,
        )
        .unwrap()
    };
    // The hybrid's measurement of the border is its opening, not its use.
    let mut gathers = (path == "hybrid").then(|| {
        let claim = Claim::to_write(&Roots::system(), Path::new(file)).unwrap();
        let ring = CallOrRing::open(&claim, &options, DEPTH as u32).unwrap();
        let most = ring.ring_transfer_bytes().min(LINE_BYTES);
        let line_bytes = 1usize << most.ilog2();
        let lines = array::from_fn::<_, LINES, _>(|_| memory.allocate(line_bytes).unwrap());
        Hybrid::<_, _, LINES, DEPTH>::open(ring, TscClock::new(), lines, HybridOptions::default())
            .unwrap()
    });
    let mut ring = (path == "ring").then(opened);
    let mut run = |work: &Work, mut buffer: Buffer| {
        if let Some(gathers) = &mut gathers {
            buffer = device(gathers, work, buffer);
        } else if let Some(ring) = &mut ring {
            buffer = device(ring, work, buffer);
        } else {
            let flags = if path == "direct" {
                OFlags::DIRECT
            } else {
                OFlags::empty()
            };
            plain(file, flags, work, &mut buffer);
        }
        buffer
    };
    let warm_up = Work {
        first_byte: 0,
        is_measured: false,
        count: (WARM_UP_BYTES / 4 / bytes as u64).clamp(1, 256),
        ..work
    };
    buffer = run(&warm_up, buffer);
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3").unwrap();
    let (before, began) = (commands(disk), Instant::now());
    buffer = run(&work, buffer);
    let elapsed = began.elapsed().as_micros();
    let lines = gathers.as_ref().map_or(0, |gathers| {
        let statistics = gathers.statistics();
        statistics.line_reads + statistics.line_writes
    });
    println!("{elapsed} {} {lines}", commands(disk) - before);
    if let Some(gathers) = &gathers {
        eprintln!("{:?} {:?}", gathers.border(), gathers.statistics());
    }
    let _ = memory.give_back(buffer);
}
