// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crates/figures/examples/driver_count` for other processors: a program of Linux without a
//! library, which QEMU runs in user mode.
//!
//! It counts each scenario once, one after the other, without arguments: BURSTS has their order and
//! lengths.
#![no_std]
#![no_main]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

extern crate alloc;

#[path = "../../../crates/figures/examples/support/driver_bursts.rs"]
mod bursts;
#[path = "../../../crates/figures/examples/support/callgrind.rs"]
mod callgrind;
mod linux;
#[path = "../../../crates/figures/examples/support/plain.rs"]
mod plain;

use core::fmt::Write;

/// The same as tools/figure_areas/nvme.py has for this machine.
const BURSTS: [(&str, usize); 4] = [("qd32", 140), ("qd1", 300), ("large", 140), ("empty", 20)];

/// Where the linker starts.
#[unsafe(no_mangle)]
pub extern "C" fn _start() -> ! {
    for (name, count) in BURSTS {
        let scenario = bursts::scenario(name).expect("it is one of them");
        let statistics = bursts::run(name == "empty", scenario, count);
        let commands = statistics.submission_doorbells;
        let _ = writeln!(linux::Output, "{name} {count} {commands}");
    }
    linux::exit(0)
}
