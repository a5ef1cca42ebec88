// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which of the standard descriptors were closed when the program started.
//!
//! Rust's runtime opens `/dev/null` in their place before `main`, after which a closed input looks
//! like an empty one. So this looks before it does: functions of `.init_array` run before `main`
//! (System V ABI, "Initialization and Termination Functions").
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU8, Ordering};

/// A bit for each descriptor from 0 to 2.
static CLOSED: AtomicU8 = AtomicU8::new(0);

extern "C" fn look() {
    for descriptor in 0..3 {
        // SAFETY: F_GETFD takes no argument, and changes nothing whatever the descriptor is.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << descriptor, Ordering::Relaxed);
        }
    }
}

#[used]
// SAFETY: the section holds addresses of functions that take the C library's arguments or none;
// `look` needs neither Rust's runtime nor memory from a heap.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Whether this descriptor, 0 to 2, was closed when the program started.
pub fn was_closed(descriptor: u8) -> bool {
    CLOSED.load(Ordering::Relaxed) >> descriptor.min(7) & 1 == 1
}
