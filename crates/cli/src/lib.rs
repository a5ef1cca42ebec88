//! The `straightway` command: one tool for every path to an NVMe drive.
//!
//! | module | what it is |
//! | --- | --- |
//! | `arguments`, `units`, `drive` | what the user writes |
//! | `examples`, `manual` | examples for help, and the manual pages |
//! | `verbs` | one file a verb |
//! | `path` | from a drive to an open block device |
//! | `transfer` | moving a stretch of it |
//! | `volume` | a mounted volume on it |
//! | `stream` | where a recording comes from, where a playback goes |
//! | `bench` | every path as the instrument wants it, for all verbs that measure |
//! | `output` | what a run leaves |
//! | `facts`, `guard` | what a drive is; what protects it |
//! | `console`, `signals`, `failure` | messages, Ctrl-C, exit codes |
//!
//! Data goes to standard output, all else to standard error. Nothing is changed on a drive unless
//! `--destroy-data` names its serial number, and a drive goes back to its driver whatever happens.
#![forbid(unsafe_code)]

pub mod arguments;
pub mod bench;
pub mod console;
pub mod drive;
pub mod examples;
pub mod facts;
pub mod failure;
pub mod guard;
pub mod manual;
pub mod output;
pub mod path;
pub mod signals;
pub mod stream;
pub mod transfer;
pub mod units;
pub mod verbs;
pub mod volume;

pub use arguments::{Arguments, Verb};
pub use failure::{Exit, Failure, Result};

use clap::FromArgMatches;
use console::Console;
use linux::Roots;
use signals::Cancel;
use std::ffi::OsString;

/// The version of the JSON that the verbs print, but `compare`, which has its own.
pub const SCHEMA_VERSION: u32 = 2;

/// What every verb needs.
pub struct Context {
    /// Where the kernel's files are.
    pub roots: Roots,
    /// Where messages go.
    pub console: Console,
    /// Whether the user wants an end.
    pub cancel: Cancel,
}

/// Parses the command line, does what it asks for, and reports what failed. Returns the exit status.
pub fn start(words: impl IntoIterator<Item = OsString>) -> u8 {
    let words: Vec<OsString> = words.into_iter().collect();
    // Known before the command line is: its own errors are JSON too.
    let mut options = words.iter().take_while(|word| *word != "--");
    let json = options.any(|word| word == "--json");
    let parsed = arguments::command()
        .try_get_matches_from(&words)
        .and_then(|matches| Arguments::from_arg_matches(&matches));
    match parsed {
        Ok(arguments) => run(&arguments, json) as u8,
        Err(error) if json && error.use_stderr() => {
            let failure = arguments::failure(&error);
            let console = Console { quiet: true, json };
            console.fail(&failure);
            failure.exit() as u8
        }
        Err(error) => {
            let _ = error.print();
            u8::try_from(error.exit_code()).unwrap_or(Exit::Usage as u8)
        }
    }
}

/// Does what the user asked for; says what went wrong, as JSON if `json`.
pub fn run(arguments: &Arguments, json: bool) -> Exit {
    let console = Console {
        quiet: arguments.quiet,
        json,
    };
    let context = Context {
        roots: Roots::system(),
        console,
        cancel: Cancel::listen(),
    };
    match verbs::run(&context, &arguments.verb) {
        Ok(exit) => exit,
        Err(failure) => {
            let failure = match arguments.verb.device() {
                Some(device) => failure.about(device),
                None => failure,
            };
            console.fail(&failure);
            failure.exit()
        }
    }
}
