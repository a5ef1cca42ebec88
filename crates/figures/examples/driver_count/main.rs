// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts the driver's instructions per request, for `make figures ONLY=nvme`.
//!
//! Callgrind counts between two markers and writes a dump after each pair, so that every burst is
//! counted separately and the worst can be distinguished from the typical. Run as `count NAME
//! BURSTS`; the first dump is the cost of the markers, then submission and reaping alternate.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

extern crate alloc;

#[path = "../support/driver_bursts.rs"]
mod bursts;
#[path = "../support/callgrind.rs"]
mod callgrind;
#[path = "../support/plain.rs"]
mod plain;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let count = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(100);
    let Some(scenario) = bursts::scenario(&name) else {
        eprintln!("usage: count qd1|qd32|large|empty BURSTS");
        std::process::exit(2);
    };
    let statistics = bursts::run(name == "empty", scenario, count);
    println!("commands {}", count * scenario.0);
    println!("submission_doorbells {}", statistics.submission_doorbells);
    println!("completion_doorbells {}", statistics.completion_doorbells);
}
