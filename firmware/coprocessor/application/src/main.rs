// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs for a context of the storage coprocessor, which the tests and figures run: each loads
//! from and stores to its window of mapped storage, and reports numbers in the log.
//!
//! There is no operating system below: a context has this program, its stack and its window.
#![no_std]
#![no_main]

mod calls;

use core::panic::PanicInfo;

use calls::{instructions, jump, load, privileged, report, store, sync, waited, yields};

const PAGE_BYTES: u64 = 4096;
const ACCESSES: u64 = 400;
/// Loads of `cold`: no more than there can be frames.
const SAMPLES: usize = 64;
/// Of the firmware; not in any context's tables.
const FIRMWARE: u64 = 0x8000_0000;
const IMAGE: u64 = 0x4000_0000;
/// Where firmware with the feature `leak` maps its own first page.
const LEAK: u64 = IMAGE + (1 << 20);

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    report(b"panic\0\0\0", 0);
    loop {
        yields();
    }
}

/// An address space and what to do in it.
#[derive(Clone, Copy)]
struct Window {
    start: u64,
    bytes: u64,
    seed: u64,
}

/// Runs the program of this name: the context's exit status.
#[unsafe(no_mangle)]
extern "C" fn application_main(start: u64, bytes: u64, name: u64, seed: u64, context: u64) -> u64 {
    let window = Window {
        start,
        bytes,
        seed: seed.wrapping_add(context),
    };
    let program: fn(Window) -> u64 = match &name.to_le_bytes() {
        b"random\0\0" => random,
        b"store\0\0\0" => stores,
        b"each\0\0\0\0" => each,
        b"escape\0\0" => escape,
        b"crash\0\0\0" => crash,
        b"cold\0\0\0\0" => cold,
        b"hold\0\0\0\0" => hold,
        _ => return 1,
    };
    program(window)
}

/// splitmix64, as the tests have it.
fn mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

impl Window {
    /// A random place of eight bytes.
    fn place(&self, state: &mut u64) -> u64 {
        self.start + mix(state) % (self.bytes / 8) * 8
    }
}

fn hashed(hash: u64, value: u64) -> u64 {
    (hash.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Loads from random places, and reports a hash of what was there.
fn random(window: Window) -> u64 {
    let (mut state, mut hash) = (window.seed, 0);
    for access in 0..ACCESSES {
        match load(window.place(&mut state)) {
            Ok(value) => hash = hashed(hash, value),
            Err(status) => {
                report(b"failed\0\0", status);
                return 1;
            }
        }
        if access % 8 == 0 {
            yields();
        }
    }
    report(b"hash\0\0\0\0", hash);
    0
}

/// Stores to random places and makes it durable. A page's first store follows a load or not.
fn stores(window: Window) -> u64 {
    let mut state = window.seed;
    for access in 0..ACCESSES {
        let place = window.place(&mut state);
        let value = mix(&mut state);
        if access % 2 == 0 && load(place).is_err() || store(place, value).is_err() {
            report(b"failed\0\0", access);
            return 1;
        }
        if access % 8 == 0 {
            yields();
        }
        if access % 100 == 99 {
            report(b"sync\0\0\0\0", sync());
        }
    }
    0
}

/// Loads once from each page: how many failed, and the last status.
fn each(window: Window) -> u64 {
    let (mut failed, mut last, mut hash) = (0, 0, 0);
    for at in (0..window.bytes).step_by(PAGE_BYTES as usize) {
        match load(window.start + at) {
            Ok(value) => hash = hashed(hash, value),
            Err(status) => (failed, last) = (failed + 1, status),
        }
    }
    report(b"failed\0\0", failed);
    report(b"status\0\0", last);
    report(b"hash\0\0\0\0", hash);
    0
}

/// Touches what is not its own: each status.
fn escape(window: Window) -> u64 {
    let refused = |answer: Result<u64, u64>| answer.err().unwrap_or(0);
    let stored = |address| store(address, 1).err().unwrap_or(0);
    let pages = window.bytes.next_multiple_of(PAGE_BYTES);
    report(b"beyond\0\0", refused(load(window.start + pages)));
    report(b"far\0\0\0\0\0", refused(load(window.start + (1 << 30))));
    report(b"firmware", refused(load(FIRMWARE)));
    report(b"change\0\0", stored(FIRMWARE));
    report(b"leak\0\0\0\0", refused(load(LEAK)));
    report(b"image\0\0\0", stored(IMAGE));
    report(b"write\0\0\0", stored(window.start));
    report(b"jump\0\0\0\0", jump(window.start));
    report(b"register", privileged());
    report(b"null\0\0\0\0", refused(load(0)));
    // And what is its own, after all that; the rest of its last page is not.
    for at in (0..window.bytes).step_by(PAGE_BYTES as usize) {
        report(b"own\0\0\0\0\0", refused(load(window.start + at)));
    }
    let last = window.start + pages - 8;
    report(b"tail\0\0\0\0", load(last).unwrap_or(u64::MAX));
    0
}

/// Loads from beyond the window without a handler.
fn crash(window: Window) -> u64 {
    let beyond = (window.start + window.bytes + PAGE_BYTES) as *const u64;
    // SAFETY: it ends the context.
    unsafe { beyond.read_volatile() }
}

/// Reports the instructions of a load whose page is absent: trap to resumption, without the time
/// that the drive takes.
fn cold(window: Window) -> u64 {
    let mut costs = [0u64; SAMPLES];
    let address = window.start as *const u64;
    let measure = |page: u64| {
        let place = address.wrapping_add((page * PAGE_BYTES / 8) as usize);
        let waited_before = waited();
        let before = instructions();
        // SAFETY: inside the window.
        let value = unsafe { place.read_volatile() };
        let after = instructions();
        core::hint::black_box(value);
        (after - before) - (waited() - waited_before)
    };
    for (page, cost) in costs.iter_mut().enumerate() {
        *cost = measure(page as u64);
    }
    // The same of a page that is present: what the counting itself takes.
    let present = measure(SAMPLES as u64 - 1);
    costs.sort_unstable();
    report(b"present\0", present);
    let middle = costs.get(SAMPLES / 2).copied().unwrap_or(0);
    report(b"cold\0\0\0\0", middle);
    report(b"worst\0\0\0", costs.last().copied().unwrap_or(0));
    0
}

/// Stores a number to each page and makes it durable, for larger and larger numbers, until the
/// power is cut.
fn hold(window: Window) -> u64 {
    for number in 1.. {
        for at in (0..window.bytes).step_by(PAGE_BYTES as usize) {
            if store(window.start + at, number).is_err() {
                return 1;
            }
        }
        if sync() != 0 {
            return 2;
        }
        report(b"durable\0", number);
    }
    0
}
