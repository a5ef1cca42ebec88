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
//! | `hardware` | a volume that a file system in hardware serves |
//! | `stream` | where a recording comes from, where a playback goes |
//! | `bench` | every path as the instrument wants it, for all verbs that measure |
//! | `output` | what a run leaves |
//! | `facts`, `guard` | what a drive is; what protects it |
//! | `console`, `signals`, `failure` | messages, Ctrl-C, exit codes |
//!
//! Data goes to standard output, all else to standard error. Nothing is changed on a drive unless
//! `--destroy-data` names its serial number, and a drive goes back to its driver whatever happens.
#![forbid(unsafe_code)]

mod arguments;
mod bench;
mod console;
mod drive;
mod examples;
mod facts;
mod failure;
mod guard;
mod hardware;
mod manual;
mod output;
mod path;
mod signals;
mod stream;
mod transfer;
mod units;
mod verbs;
mod volume;

use arguments::Arguments;
use failure::{Exit, Failure};

use clap::{ArgMatches, FromArgMatches};
use console::Console;
use linux::Roots;
use signals::Cancel;
use std::ffi::OsString;

/// The version of the JSON that the verbs print, but `compare`, which has its own.
pub(crate) const SCHEMA_VERSION: u32 = 2;

/// What every verb needs.
pub(crate) struct Context {
    /// Where the kernel's files are.
    pub roots: Roots,
    /// Where messages go.
    pub console: Console,
    /// Whether the user wants an end.
    pub cancel: Cancel,
}

impl Context {
    /// A remark on standard error.
    pub fn say(&self, text: impl std::fmt::Display) {
        self.console.say(text);
    }
}

/// Parses the command line, does what it asks for, and reports what failed. Returns the exit status.
pub fn start(words: impl IntoIterator<Item = OsString>) -> u8 {
    let words: Vec<OsString> = words.into_iter().collect();
    // Known before the command line is: its own errors are JSON too.
    let mut options = words.iter().take_while(|word| *word != "--");
    let json = options.any(|word| word == "--json");
    let parsed = arguments::command()
        .try_get_matches_from(&words)
        .and_then(|matches| Ok((Arguments::from_arg_matches(&matches)?, matches)));
    match parsed {
        Ok((arguments, matches)) => run(&arguments, device(&matches), json) as u8,
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

/// The device that the verb works on, as the user named it; none where that is a run's file.
fn device(matches: &ArgMatches) -> Option<&str> {
    let (_, verb) = matches.subcommand()?;
    let device = verb.try_get_one::<String>("device").ok()??;
    (!device.ends_with(".json")).then_some(device)
}

/// Does what the user asked for; says what went wrong, as JSON if `json`.
fn run(arguments: &Arguments, device: Option<&str>, json: bool) -> Exit {
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
            let failure = match device {
                Some(device) => failure.about(device),
                None => failure,
            };
            console.fail(&failure);
            failure.exit()
        }
    }
}
