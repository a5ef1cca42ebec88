// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway-simulator`: runs seeds, and prints the shortest script of one that breaks a
//! promise.

use simulator::report::Report;
use simulator::run::run;
use simulator::script::Script;
use simulator::setup::Only;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: straightway-simulator --seed N [--steps N | --seconds N] [--only KIND] [--report FOLDER]
       straightway-simulator --script FILE

Runs the product in simulated worlds, beginning with the seed N (0x... is hexadecimal), for a number
of steps or seconds, or once. A run that breaks a promise is shortened and printed; --script repeats
it. The last line has a hash of all steps, which is the same on every machine.

kinds:";

/// Runs to shorten a script.
const SHORTENING: usize = 600;

#[derive(Default)]
struct Arguments {
    seed: u64,
    steps: Option<u64>,
    seconds: Option<u64>,
    only: Option<Only>,
    report: Option<String>,
    script: Option<String>,
    is_repeated: bool,
}

fn number(word: &str) -> Result<u64, String> {
    // A commit's hash is a seed, too: its first digits count.
    let parsed = match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex.get(..16).unwrap_or(hex), 16),
        None => word.parse(),
    };
    parsed.map_err(|_| format!("invalid number `{word}`"))
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments::default();
    let mut has_work = false;
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--seed" => (arguments.seed, has_work) = (number(&value()?)?, true),
            "--steps" => arguments.steps = Some(number(&value()?)?),
            "--seconds" => arguments.seconds = Some(number(&value()?)?),
            "--only" => arguments.only = Some(value()?.parse()?),
            "--report" => arguments.report = Some(value()?),
            "--script" => (arguments.script, has_work) = (Some(value()?), true),
            _ => return Err(format!("unknown argument `{word}`")),
        }
    }
    arguments.is_repeated = arguments.steps.is_some() || arguments.seconds.is_some();
    if has_work {
        Ok(arguments)
    } else {
        Err("--seed or --script is missing".to_owned())
    }
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("straightway-simulator: {why}\n\n{USAGE}");
            for (_, word, text) in Only::ALL {
                eprintln!("  {word:10}{text}");
            }
            return ExitCode::from(2);
        }
    };
    let ended = match &arguments.script {
        Some(file) => repeat(file),
        None => search(&arguments),
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("straightway-simulator: {why}");
            ExitCode::from(2)
        }
    }
}

/// Runs a script again.
fn repeat(file: &str) -> Result<bool, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let outcome = run(&text.parse()?);
    match &outcome.violation {
        Some(what) => println!("{}broken: {what}", outcome.last),
        None => println!("nothing is broken"),
    }
    println!("{} steps, hash {:016x}", outcome.steps, outcome.hash);
    Ok(outcome.violation.is_none())
}

/// Runs seeds until the steps or the time are used up, or one breaks a promise.
fn search(arguments: &Arguments) -> Result<bool, String> {
    let began = Instant::now();
    let mut report = Report::new(arguments.seed);
    let mut failed = None;
    for number in 0.. {
        let seed = arguments.seed.wrapping_add(number);
        let script = Script::new(seed, arguments.only);
        let outcome = run(&script);
        report.add(script.setup.only, &outcome, seed);
        if let Some(what) = outcome.violation {
            println!("seed {seed} breaks a promise: {what}");
            let short = script.shortened(|script| run(script).violation.is_some(), SHORTENING);
            let outcome = run(&short);
            let what = outcome.violation.unwrap_or_default();
            println!("shortest script, {} steps:\n{short}", short.steps.len());
            println!(
                "the last steps of the world:\n{}broken: {what}",
                outcome.last
            );
            report.failed(seed, &short, &what);
            failed = Some(seed);
            break;
        }
        let has_steps = arguments.steps.is_some_and(|most| report.steps() >= most);
        let seconds = arguments.seconds.map(Duration::from_secs);
        let has_time = seconds.is_some_and(|most| began.elapsed() >= most);
        if !arguments.is_repeated || has_steps || has_time {
            break;
        }
    }
    report.took(began.elapsed());
    println!("{}", report.text());
    if let Some(folder) = &arguments.report {
        std::fs::create_dir_all(folder).map_err(|error| format!("{folder}: {error}"))?;
        let file = format!("{folder}/report.json");
        std::fs::write(&file, report.json()).map_err(|error| format!("{file}: {error}"))?;
    }
    Ok(failed.is_none())
}
