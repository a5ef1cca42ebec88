// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A long crash search: random runs from every start, on every core, until STATES states were seen.
//!
//! Usage: `soak [STATES] [SEED]`; the seed is printed; give it again to repeat a run.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

#[path = "../tests/harness/mod.rs"]
mod harness;

use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use harness::long;
use harness::search::{Depth, Search};
use harness::starts::{self, Start};

/// Operations in a run.
const STEPS: usize = 40;

/// Every start, of 1.0 and of 1.1.
fn worlds() -> Vec<Start> {
    let mut starts = starts::all();
    let mut growing = starts::crowded();
    growing.oracle.grows = true;
    starts.push(growing);
    starts.extend(starts::with_long_names());
    starts.extend(starts::of_two_blocks());
    starts
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| {
        let argument = arguments.next();
        argument.map_or(default, |text| text.parse().expect("a number"))
    };
    let wanted: u64 = number(10_000_000);
    let first_seed: u64 = number(fastrand::u64(..1 << 48));
    let workers = thread::available_parallelism().map_or(1, usize::from);
    println!("soak: {wanted} states from seed {first_seed}, {workers} at a time");
    let began = Instant::now();
    let (next_seed, states) = (AtomicU64::new(first_seed), AtomicU64::new(0));
    let is_broken = AtomicBool::new(false);
    let work = || {
        let starts = worlds();
        while states.load(Ordering::Relaxed) < wanted && !is_broken.load(Ordering::Relaxed) {
            let seed = next_seed.fetch_add(1, Ordering::Relaxed);
            // A separate search for each seed, so that each can be repeated alone.
            let search = Rc::new(RefCell::new(Search::new(Depth::default())));
            let start = &starts[(seed % starts.len() as u64) as usize];
            if let Err(why) = long::run(&search, start, seed, STEPS) {
                println!("FAILED: {why}\nrepeat with: soak 1 {seed}");
                is_broken.store(true, Ordering::Relaxed);
            }
            let found = search.borrow().total();
            let total = states.fetch_add(found, Ordering::Relaxed) + found;
            let seconds = began.elapsed().as_secs();
            println!("seed {seed}: {total} states, {seconds} s");
        }
    };
    thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    if is_broken.into_inner() {
        return ExitCode::FAILURE;
    }
    let states = states.into_inner();
    println!("soak: {states} states, no violation, nothing leaked, nothing lost");
    ExitCode::SUCCESS
}
