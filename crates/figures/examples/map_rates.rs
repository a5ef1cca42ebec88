// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What loads from a map achieve, by the side of the kernel's own paths to the same file: for `make
//! figures ONLY=map`. The map's device is io_uring, with O_DIRECT.
//!
//! `map_rates sequential FILE` loads from each 4 KiB of 128 MiB in order; `random FILE` from 4 KiB
//! at random by four threads, for which two others serve, `random-one` one other, and
//! `random-local` they themselves with a pread each; `random-pread FILE` reads them; `latency FILE`
//! at random while another thread stores, and `latency-mmap FILE` the same through the page cache.
//! FILE has at least 128 MiB, and gets other data. Each prints lines `NAME VALUE`.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, unsafe_code)]

use block::{Buffer, Device, blocking};
use linux::{Claim, HostMemory, RingOptions, Roots, SyncFile, Uring};
use map::{Map, PagerOptions, Range, map_lanes, map_local};
use std::fs::OpenOptions;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
const LEN: usize = 128 << 20;
const THREADS: usize = 4;
/// Threads that serve a map.
const SERVERS: usize = 2;
/// Loads of each thread at random.
const CALLS: usize = 1500;

/// Pages of a half of the memory, each once, in an order that no read-ahead guesses.
fn order(first: usize, calls: usize) -> impl Iterator<Item = usize> {
    let pages = LEN / PAGE / 2;
    (0..calls).map(move |call| (first + call) * 7919 % pages)
}

/// # Safety
/// `start` has [`LEN`] bytes that can be loaded from.
unsafe fn load(start: usize, page: usize) -> u8 {
    assert!(page < LEN / PAGE);
    // SAFETY: inside the caller's memory.
    unsafe { ((start + page * PAGE) as *const u8).read_volatile() }
}

/// A ring on the file, with buffers of a page.
fn lane(claim: &Claim, buffers: usize, options: &PagerOptions) -> (Uring, Vec<Buffer>) {
    let memory = HostMemory::new(buffers * options.page_bytes).unwrap();
    let ring = RingOptions {
        fixed_memory: Some(memory.clone()),
        ..RingOptions::default()
    };
    let device = Uring::open(claim, &ring).unwrap();
    let buffers = (0..buffers).map(|_| memory.allocate(options.page_bytes).unwrap());
    (device, buffers.collect())
}

const WHOLE: Range = Range {
    lba: 0,
    size_bytes: LEN as u64,
};

/// Runs `body` with a map of the file that so many threads serve, and prints how much memory it
/// took at most.
fn with_map(
    name: &str,
    options: PagerOptions,
    (servers, buffers): (usize, usize),
    body: impl FnOnce(&Map) + Send,
) {
    let claim = Claim::to_write(&Roots::system(), Path::new(name)).unwrap();
    let lanes = (0..servers).map(|_| lane(&claim, buffers, &options));
    let (map, servers) = map_lanes(lanes.collect(), WHOLE, &options).unwrap();
    thread::scope(|scope| {
        let user = scope.spawn(move || {
            body(&map);
            let resident = map.resident_bytes().unwrap();
            println!(
                "resident_percent {}",
                100 * resident / options.resident_bytes as u64
            );
            assert_eq!(map.take_failures(), []);
        });
        for server in servers {
            scope.spawn(move || drop(server.run().unwrap()));
        }
        user.join().unwrap();
    });
}

fn sequential(name: &str) {
    let options = PagerOptions {
        page_bytes: 512 << 10,
        read_ahead_bytes: 2 << 20,
        resident_bytes: 16 << 20,
        ..PagerOptions::default()
    };
    with_map(name, options, (SERVERS, 8), |map| {
        let (start, began) = (map.as_ptr().as_ptr() as usize, Instant::now());
        for page in 0..LEN / PAGE {
            // SAFETY: the map's memory, while it is served.
            unsafe { load(start, page) };
        }
        let mib = (LEN >> 20) as f64;
        println!("mib_per_s {:.1}", mib / began.elapsed().as_secs_f64());
    });
}

/// Prints how many loads there were in a second, and how often threads of this process slept for
/// one.
fn print_rate(began: Instant) {
    let (loads, seconds) = ((THREADS * CALLS) as f64, began.elapsed().as_secs_f64());
    // SAFETY: all zeroes is a valid structure, and the call writes one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, &raw mut usage), 0);
        usage
    };
    println!("loads_per_s {:.0}", loads / seconds);
    println!("switches {:.3}", usage.ru_nvcsw as f64 / loads);
}

/// Each thread serves itself.
fn random_local(name: &str) {
    let options = PagerOptions {
        resident_bytes: 16 << 20,
        ..PagerOptions::default()
    };
    let claim = Claim::to_read(&Roots::system(), Path::new(name)).unwrap();
    let own = || {
        let memory = HostMemory::new(PAGE).unwrap();
        let device = SyncFile::open_direct(&claim).unwrap();
        (device, vec![memory.allocate(PAGE).unwrap()])
    };
    let (device, buffers) = own();
    let map = map_local(device, WHOLE, &options, buffers).unwrap();
    let (lanes, began) = (map.lanes(), Instant::now());
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (lanes, own) = (&lanes, &own);
            scope.spawn(move || {
                let (device, buffers) = own();
                let lane = lanes.join(device, buffers).unwrap();
                let start = lane.as_ptr().as_ptr() as usize;
                for page in order(thread * CALLS, CALLS) {
                    // SAFETY: the map's memory, whose faults this thread serves.
                    unsafe { load(start, page) };
                }
            });
        }
    });
    print_rate(began);
    let resident = map.resident_bytes().unwrap();
    println!(
        "resident_percent {}",
        100 * resident / options.resident_bytes as u64
    );
    assert_eq!(map.take_failures(), []);
}

/// Other threads serve.
fn random(name: &str, servers: usize) {
    let options = PagerOptions {
        resident_bytes: 16 << 20,
        ..PagerOptions::default()
    };
    with_map(name, options, (servers, 8), |map| {
        let (start, began) = (map.as_ptr().as_ptr() as usize, Instant::now());
        thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || {
                    for page in order(thread * CALLS, CALLS) {
                        // SAFETY: as above.
                        unsafe { load(start, page) };
                    }
                });
            }
        });
        print_rate(began);
    });
}

fn random_pread(name: &str) {
    let claim = Claim::to_read(&Roots::system(), Path::new(name)).unwrap();
    let began = Instant::now();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let claim = &claim;
            scope.spawn(move || {
                let mut device = SyncFile::open_direct(claim).unwrap();
                let memory = HostMemory::new(PAGE).unwrap();
                let mut buffer = Some(memory.allocate(PAGE).unwrap());
                let blocks = (PAGE / device.geometry().block_size_bytes()) as u64;
                for page in order(thread * CALLS, CALLS) {
                    let lba = page as u64 * blocks;
                    let read = blocking::read(&mut device, lba, buffer.take().unwrap());
                    read.result.unwrap();
                    buffer = Some(read.buffer);
                }
            });
        }
    });
    print_rate(began);
}

/// Times loads of one half while a thread stores to the other, one store for each load.
///
/// # Safety
/// `start` has [`LEN`] bytes that can be loaded from and stored to.
unsafe fn latency(start: usize, calls: usize) {
    let (loaded, has_ended) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut times: Vec<Duration> = thread::scope(|scope| {
        scope.spawn(|| {
            for (stored, page) in order(0, usize::MAX / 7919 - 1).enumerate() {
                while stored as u64 >= loaded.load(Ordering::Acquire) {
                    if has_ended.load(Ordering::Acquire) {
                        return;
                    }
                    thread::yield_now();
                }
                let at = start + LEN / 2 + page * PAGE;
                // SAFETY: inside the caller's memory, of which no other thread uses this half.
                unsafe { (at as *mut u64).write_volatile(stored as u64) };
            }
        });
        let times = order(0, calls).map(|page| {
            let began = Instant::now();
            // SAFETY: the caller's memory.
            unsafe { load(start, page) };
            loaded.fetch_add(1, Ordering::Release);
            began.elapsed()
        });
        let times = times.collect();
        has_ended.store(true, Ordering::Release);
        times
    });
    times.sort_unstable();
    let at = |share: f64| {
        times[(share * (times.len() - 1) as f64).round() as usize].as_nanos() as f64 / 1e3
    };
    println!("p50_us {:.1}\np99_9_us {:.1}", at(0.5), at(0.999));
    println!("most_us {:.1}", at(1.0));
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [way, name] = &words[..] else {
        panic!("map_rates sequential|random|random-pread|latency|latency-mmap FILE");
    };
    let calls = THREADS * CALLS;
    match way.as_str() {
        "sequential" => sequential(name),
        "random" => random(name, SERVERS),
        "random-one" => random(name, 1),
        "random-local" => random_local(name),
        "random-pread" => random_pread(name),
        "latency" => {
            let options = PagerOptions {
                writable: true,
                resident_bytes: 16 << 20,
                dirty_bytes: 4 << 20,
                ..PagerOptions::default()
            };
            // SAFETY: the map's memory, while it is served.
            with_map(name, options, (SERVERS, 8), |map| unsafe {
                latency(map.as_ptr().as_ptr() as usize, calls);
            });
        }
        "latency-mmap" => {
            let file = OpenOptions::new().read(true).write(true).open(name);
            let file = file.unwrap();
            let protection = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
            let flags = rustix::mm::MapFlags::SHARED;
            // SAFETY: no address is requested, and the mapping stays until the end.
            unsafe {
                let start =
                    rustix::mm::mmap(std::ptr::null_mut(), LEN, protection, flags, &file, 0);
                let start = start.unwrap();
                rustix::mm::madvise(start, LEN, rustix::mm::Advice::Random).unwrap();
                latency(start as usize, calls);
            }
        }
        way => panic!("unknown way {way}"),
    }
}
