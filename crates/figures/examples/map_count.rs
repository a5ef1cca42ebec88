// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a random access to 4 KiB costs whose data is in no memory yet: for `make figures ONLY=map`.
//!
//! `map_count WAY CALLS` does so many, each between the markers of lab/count; `map_count time CALLS
//! ROUNDS` prints a line `WAY NANOSECONDS`, of processor time, for each way and round. WAY:
//! `empty`; `read`, a request to a RAM disk; `thread`, a load from its map; `spinning`, the same,
//! whose server looks for faults for 50 us before it sleeps; `local`, a load from a map that its
//! own thread serves; `signal`, a load of a page that does not exist, whose signal's handler steps
//! over it: what the kernel takes for a signal, at least.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, unsafe_code)]

use block::{Buffer, RamDisk, blocking};
use map::{PagerOptions, Range, map, map_local};
use rustix::time::{ClockId, clock_gettime};
use std::thread;
use std::time::Duration;

const PAGE: usize = 4096;
const PAGES: usize = 16 << 10;

/// Runs an access between the markers (lab/count/marker.h), which do nothing without the plugin.
#[inline(always)]
fn counted<T>(access: impl FnOnce() -> T) -> T {
    // SAFETY: no operation of these instructions accesses memory.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("nop dword ptr [rax + 1398210560 + 256 + 1]");
    }
    let result = access();
    // SAFETY: as above.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("nop dword ptr [rax + 1398210560 + 256 + 2]");
    }
    result
}

/// Each page once, in an order that no read-ahead guesses.
fn order(calls: usize) -> impl Iterator<Item = usize> {
    (0..calls).map(|call| call * 7919 % PAGES)
}

fn disk() -> RamDisk<Vec<u8>, 8> {
    RamDisk::new(vec![1; PAGES * PAGE], 12).unwrap()
}

fn buffer() -> Buffer {
    Buffer::from_static(vec![0; PAGE].leak())
}

fn whole() -> (Range, PagerOptions) {
    let size_bytes = (PAGES * PAGE) as u64;
    let options = PagerOptions {
        page_bytes: PAGE,
        resident_bytes: PAGES * PAGE,
        ..PagerOptions::default()
    };
    (Range { lba: 0, size_bytes }, options)
}

/// Processor time of all threads so far, so that other work on the machine does not count.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Makes an access for each page of [`order`]; returns the processor time that all took.
fn timed(calls: usize, mut access: impl FnMut(usize)) -> Duration {
    let began = processor_time();
    order(calls).for_each(&mut access);
    processor_time() - began
}

/// Loads a byte of each page.
///
/// # Safety
/// `start` has [`PAGES`] pages that may be read.
unsafe fn load_each(start: *const u8, calls: usize) -> Duration {
    timed(calls, |page| {
        // SAFETY: a page of the caller's.
        let byte = counted(|| unsafe { start.add(page * PAGE).read_volatile() });
        assert_eq!(byte, 1, "page {page}");
    })
}

/// Steps over the load of [`load_nothing`].
#[cfg(target_arch = "x86_64")]
extern "C" fn step_over(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the third argument of the handler is the context, whole.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    registers[libc::REG_RIP as usize] += 2;
}

/// An access to a page past the end of a file.
///
/// # Safety
/// `byte` is such a page's, and [`step_over`] handles SIGBUS.
#[cfg(target_arch = "x86_64")]
unsafe fn load_nothing(byte: *const u8) {
    // SAFETY: the instruction has two bytes, over which the handler steps.
    unsafe { std::arch::asm!("mov al, byte ptr [rdi]", in("rdi") byte, out("al") _) };
}

#[cfg(target_arch = "x86_64")]
fn signals(calls: usize) -> Duration {
    use rustix::mm::{MapFlags, ProtFlags, mmap};
    let file = rustix::fs::memfd_create("nothing", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let (read, shared) = (ProtFlags::READ, MapFlags::SHARED);
    // SAFETY: no address is requested, and the structure of the signal's action is whole.
    let (start, before) = unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = step_over;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(
            libc::sigaction(libc::SIGBUS, &raw const action, &raw mut before),
            0
        );
        let start = mmap(std::ptr::null_mut(), PAGES * PAGE, read, shared, &file, 0).unwrap();
        (start, before)
    };
    let took = timed(calls, |page| {
        // SAFETY: the file has no bytes.
        counted(|| unsafe { load_nothing(start.cast::<u8>().add(page * PAGE)) });
    });
    // Maps have a handler of their own, once in the process.
    // SAFETY: the structure is what the call above has returned.
    let restored =
        unsafe { libc::sigaction(libc::SIGBUS, &raw const before, std::ptr::null_mut()) };
    assert_eq!(restored, 0);
    took
}

fn run(way: &str, calls: usize) -> Duration {
    let (range, options) = whole();
    match way {
        "empty" => timed(calls, |page| assert!(counted(|| page) < PAGES)),
        "read" => {
            let (mut disk, mut memory) = (disk(), Some(buffer()));
            timed(calls, |page| {
                let buffer = memory.take().unwrap();
                let read = counted(|| blocking::read(&mut disk, page as u64, buffer));
                assert_eq!(read.result, Ok(()));
                memory = Some(read.buffer);
            })
        }
        "local" => {
            let map = map_local(disk(), range, &options, vec![buffer()]).unwrap();
            // SAFETY: the map has these pages, and this thread serves them.
            unsafe { load_each(map.as_ptr().as_ptr(), calls) }
        }
        "thread" | "spinning" => {
            let options = PagerOptions {
                spin: Duration::from_micros(if way == "thread" { 0 } else { 50 }),
                ..options
            };
            let (map, server) = map(disk(), range, &options, vec![buffer()]).unwrap();
            thread::scope(|scope| {
                let user = scope.spawn(move || {
                    // SAFETY: the map has these pages, and the server runs.
                    unsafe { load_each(map.as_ptr().as_ptr(), calls) }
                });
                server.run().unwrap();
                user.join().unwrap()
            })
        }
        #[cfg(target_arch = "x86_64")]
        "signal" => signals(calls),
        way => panic!("unknown way {way}"),
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse().ok());
    let (Some(way), Some(calls)) = (words.first(), number(1)) else {
        panic!("map_count WAY CALLS, or map_count time CALLS ROUNDS");
    };
    if way != "time" {
        run(way, calls);
        return;
    }
    for _ in 0..number(2).unwrap_or(5) {
        for way in ["read", "local", "thread", "spinning", "signal"] {
            let nanoseconds = run(way, calls).as_nanos() as f64 / calls as f64;
            println!("{way} {nanoseconds:.0}");
        }
    }
}
