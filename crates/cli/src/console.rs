// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the user sees: data on standard output, everything else on standard error.

use crate::remedies::CommandLine;
use devices::error::{Error, Result};
use devices::guard::standard_output;
use devices::progress::{Listener, Meter, Shape};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use remedy::Words;
use schemars::JsonSchema;
use serde::Serialize;
use std::io::{self, IsTerminal, Write};

/// Where messages go, and which of them are printed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Console {
    /// Errors only.
    pub quiet: bool,
    /// Errors are JSON, like results.
    pub json: bool,
}

/// A command's error under `--json`: one line, the last one of standard error.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ErrorReport {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// What failed, and why.
    pub error: String,
    /// A command or advice that may fix it.
    pub hint: Option<String>,
    /// The exit status.
    pub exit: u8,
}

impl Console {
    /// Prints a message on standard error.
    pub fn say(&self, text: impl std::fmt::Display) {
        if !self.quiet {
            // If standard error is closed, the message is lost.
            let line = format!("straightway: {text}\n");
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }

    /// Prints text on standard output. Every verb's result goes through here.
    ///
    /// # Errors
    /// Standard output is closed, or cannot take all of it.
    pub fn print(&self, text: &str) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let written = standard_output().and_then(|mut output| output.write_all(text.as_bytes()));
        match written {
            // Its reader has enough, as `head` has: the verb goes on, and its status is what it
            // did.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written.map_err(|error| Error::stdout(&error)),
        }
    }

    /// Reports an outcome on standard output; with `--quiet` only the exit status reports it.
    ///
    /// # Errors
    /// Standard output was closed.
    pub fn print_outcome(&self, text: &str) -> Result<()> {
        if self.quiet { Ok(()) } else { self.print(text) }
    }

    /// Prints JSON on standard output.
    ///
    /// # Errors
    /// Standard output was closed.
    pub fn json(&self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| Error::other(format!("making JSON: {error}")))?;
        self.print(&format!("{text}\n"))
    }

    /// Prints a verb's result: as JSON if requested, otherwise as text.
    ///
    /// # Errors
    /// Standard output was closed.
    pub fn report<R: Serialize>(
        &self,
        json: bool,
        report: &R,
        text: fn(&R) -> String,
    ) -> Result<()> {
        if json {
            return self.json(report);
        }
        self.print(&text(report))
    }

    /// Prints the error of a command that failed, and ends with this exit status.
    pub fn fail(&self, failure: &Error, exit: u8) {
        if failure.is_silent() {
            return;
        }
        if self.json {
            let report = ErrorReport {
                schema_version: devices::SCHEMA_VERSION,
                error: failure.what_in(&CommandLine),
                hint: failure.hint_in(&CommandLine),
                exit,
            };
            let line = serde_json::to_string(&report).unwrap_or_default() + "\n";
            let _ = std::io::stderr().write_all(line.as_bytes());
            return;
        }
        let mut text = format!("straightway: {}\n", failure.what_in(&CommandLine));
        if let Some(hint) = failure.hint_in(&CommandLine) {
            text += &format!("hint: {hint}\n");
        }
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

impl Listener for Console {
    fn say(&self, line: &Words) {
        Self::say(self, line.word(&CommandLine, None));
    }

    /// A bar on a terminal.
    fn meter(&self, shape: Shape, total: Option<u64>) -> Option<Box<dyn Meter>> {
        if self.quiet || !std::io::stderr().is_terminal() {
            return None;
        }
        let template = match (shape, total) {
            (Shape::Bytes, Some(_)) => {
                "{bar:30} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}"
            }
            (Shape::Bytes, None) => "{spinner} {binary_bytes} {binary_bytes_per_sec}",
            (Shape::Stream, Some(_)) => {
                "{bar:20} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {msg}"
            }
            (Shape::Stream, None) => {
                "{spinner} {elapsed} {binary_bytes} {binary_bytes_per_sec} {msg}"
            }
            (Shape::Steps, _) => "{bar:20} {pos}/{len} {msg}",
        };
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr_with_hz(5));
        Some(Box::new(TerminalBar(
            match ProgressStyle::with_template(template) {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            },
        )))
    }
}

/// A bar on the terminal.
struct TerminalBar(ProgressBar);

impl Meter for TerminalBar {
    fn set(&self, done: u64) {
        self.0.set_position(done);
    }

    fn set_total(&self, total: u64) {
        self.0.set_length(total);
    }

    fn set_message(&self, text: String) {
        self.0.set_message(text);
    }

    fn end(&self) {
        self.0.finish_and_clear();
    }
}
