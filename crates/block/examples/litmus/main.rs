// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the litmus tests of the barriers on this machine: `litmus ROUNDS`. A line for each: its
//! name, how often the forbidden outcome was seen with the barriers and without, and the rounds.
//! The exit status is 1 if one was seen with them.

mod cases;

fn main() -> std::process::ExitCode {
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let Some(rounds @ 1..=100_000_000) = rounds else {
        eprintln!("usage: litmus ROUNDS");
        return std::process::ExitCode::from(2);
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    println!("processors {processors}");
    let outcomes = cases::run(rounds);
    for outcome in outcomes {
        println!(
            "{} with {} without {} of {rounds}",
            outcome.name, outcome.with, outcome.without
        );
    }
    u8::from(outcomes.iter().any(|outcome| outcome.with > 0)).into()
}
