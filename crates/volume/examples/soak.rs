//! The crash search for hours: random lives over every start, until so many states were seen.
//!
//! Usage: `soak [STATES] [SEED]`; the seed is printed, and taken back to repeat a run.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

#[path = "../tests/harness/mod.rs"]
mod harness;

use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Instant;

use harness::search::{Depth, Search};
use harness::{long, starts};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| {
        let argument = arguments.next();
        argument.map_or(default, |text| text.parse().expect("a number"))
    };
    let wanted: u64 = number(10_000_000);
    let first_seed: u64 = number(fastrand::u64(..1 << 48));
    println!("soak: {wanted} states from seed {first_seed}");
    let began = Instant::now();
    let starts = starts::all();
    let mut states = 0;
    for seed in first_seed.. {
        // A search of its own for each seed, so that each can be repeated alone.
        let search = Rc::new(RefCell::new(Search::new(Depth::default())));
        let start = &starts[(seed % starts.len() as u64) as usize];
        if let Err(why) = long::run(&search, start, seed, 40) {
            println!("FAILED: {why}\nrepeat with: soak 1 {seed}");
            return ExitCode::FAILURE;
        }
        states += search.borrow().total();
        let seconds = began.elapsed().as_secs();
        println!("seed {seed}: {states} states, {seconds} s");
        if states >= wanted {
            break;
        }
    }
    println!("soak: {states} states, no violation, nothing leaked, nothing lost");
    ExitCode::SUCCESS
}
