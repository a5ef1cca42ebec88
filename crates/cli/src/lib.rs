// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `straightway` command: one tool for every path to an NVMe drive.
//!
//! | module | contents |
//! | --- | --- |
//! | `arguments`, `examples`, `manual` | the command line, examples for help, and the manual pages |
//! | `advice` | what to write instead of unknown words |
//! | `verbs` | one file per verb |
//! | `path_options`, `recording_options`, `choices` | options that several verbs have |
//! | `measuring`, `output` | what the verbs that measure have in common; the results of a run |
//! | `grave` | which options may lose data |
//! | `working_set` | the ranges of a mapped file that a run had in memory |
//! | `exit` | exit statuses |
//! | `console`, `remedies` | messages and results; how remedies are worded |
//!
//! The verbs fill the plain settings of the libraries below (`devices`, `files`, `recorder` and
//! others) and print what these return.
//!
//! Data goes to standard output, everything else to standard error. Nothing is changed on a drive
//! unless `--destroy-data` names its serial number, and a drive is always returned to its driver.
#![forbid(unsafe_code)]

mod advice;
mod arguments;
#[cfg(feature = "measuring")]
mod choices;
mod console;
mod examples;
mod exit;
mod grave;
mod manual;
#[cfg(feature = "measuring")]
mod measuring;
#[cfg(feature = "measuring")]
mod output;
mod path_options;
mod recording_options;
mod remedies;
mod verbs;
mod working_set;

use crate::exit::Exit;
use arguments::Arguments;

use clap::{ArgMatches, FromArgMatches};
use console::Console;
use devices::{Cancel, Progress};
use linux::Roots;
use std::ffi::OsString;
use std::io::IsTerminal;

/// What every verb needs.
pub(crate) struct Context {
    /// What the operations need.
    operation: devices::Context,
    /// Where messages and results go.
    pub console: Console,
}

impl Context {
    /// For a verb: messages go to `console`, and signals end it.
    fn new(console: Console) -> Self {
        Self {
            operation: devices::Context {
                roots: Roots::system(),
                cancel: Cancel::listen(),
                progress: Progress::to(console),
                wording: &remedies::CommandLine,
            },
            console,
        }
    }
}

impl std::ops::Deref for Context {
    type Target = devices::Context;

    fn deref(&self) -> &devices::Context {
        &self.operation
    }
}

/// Parses the command line, runs the verb, and reports failures. Returns the exit status.
pub fn start(words: impl IntoIterator<Item = OsString>) -> u8 {
    let words: Vec<OsString> = words.into_iter().collect();
    // Determined before parsing, so that errors of the command line are JSON too.
    let mut options = words.iter().take_while(|word| *word != "--");
    let json = options.any(|word| word == "--json");
    if words.len() < 2 {
        eprint!("{}", arguments::first_screen());
        return Exit::Usage as u8;
    }
    let parsed = arguments::command_for(&words)
        .try_get_matches_from(&words)
        .and_then(|matches| Ok((Arguments::from_arg_matches(&matches)?, matches)));
    match parsed {
        Ok((arguments, matches)) => run(&arguments, device(&matches), json),
        Err(error) => {
            let error = advice::advise(error, &words);
            let console = Console { quiet: true, json };
            match answer(&console, &error) {
                Ok(exit) => exit,
                Err(failure) => {
                    let exit = Exit::from(failure.kind()) as u8;
                    console.fail(&failure, exit);
                    exit
                }
            }
        }
    }
}

/// Prints what the parser gives instead of arguments: help, the version, or what is wrong with the
/// command line. Returns the exit status.
///
/// # Errors
/// Standard output is closed, or cannot take the help; the command line is wrong, and errors are
/// JSON.
fn answer(console: &Console, error: &clap::Error) -> devices::Result<u8> {
    if error.use_stderr() && console.json {
        return Err(arguments::failure(error));
    }
    // Only a terminal gets colours.
    if error.use_stderr() || std::io::stdout().is_terminal() {
        let _ = error.print();
    } else {
        console.print(&error.render().to_string())?;
    }
    Ok(u8::try_from(error.exit_code()).unwrap_or(Exit::Usage as u8))
}

/// The verb's device as the user named it; none if the verb takes the file of a run.
fn device(matches: &ArgMatches) -> Option<&str> {
    let (_, verb) = matches.subcommand()?;
    let device = verb.try_get_one::<String>("device").ok()??;
    #[cfg(feature = "measuring")]
    if output::is_run(device) {
        return None;
    }
    Some(device)
}

/// Runs the verb and prints its error, as JSON if `json`. Returns the exit status.
fn run(arguments: &Arguments, device: Option<&str>, json: bool) -> u8 {
    let console = Console {
        quiet: arguments.common.quiet,
        json,
    };
    let context = Context::new(console);
    let status = |exit: Exit| match exit {
        Exit::Interrupted => exit::of_signal(context.cancel.signal()),
        exit => exit as u8,
    };
    match verbs::run(&context, &arguments.verb) {
        Ok(exit) => status(exit),
        Err(failure) => {
            let failure = match device {
                Some(device) => failure.on(device),
                None => failure,
            };
            let exit = status(Exit::from(failure.kind()));
            console.fail(&failure, exit);
            exit
        }
    }
}
