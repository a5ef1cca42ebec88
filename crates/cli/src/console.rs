//! What the user sees: data on standard output, everything else on standard error.

use crate::failure::{Failure, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use schemars::JsonSchema;
use serde::Serialize;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;

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

/// Standard output as a file, without the library's buffer, which also takes what a descriptor that cannot be written loses.
///
/// # Errors
/// It was closed when the command started; or there is no descriptor.
pub fn standard_output() -> std::io::Result<File> {
    if linux::was_closed(1) {
        return Err(rustix::io::Errno::BADF.into());
    }
    let owned = std::io::stdout().as_fd().try_clone_to_owned();
    owned.map(File::from)
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
        written.map_err(|error| Failure::stdout(&error))
    }

    /// Reports an outcome on standard output; with `--quiet` only the exit status reports it.
    ///
    /// # Errors
    /// Standard output was closed.
    pub fn print_outcome(&self, text: &str) -> Result<()> {
        match self.quiet {
            true => Ok(()),
            false => self.print(text),
        }
    }

    /// Prints JSON on standard output.
    ///
    /// # Errors
    /// Standard output was closed.
    pub fn json(&self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| Failure::other(format!("making JSON: {error}")))?;
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

    /// Prints the error of a command that failed.
    pub fn fail(&self, failure: &Failure) {
        if failure.is_silent() {
            return;
        }
        if self.json {
            let report = ErrorReport {
                schema_version: crate::SCHEMA_VERSION,
                error: failure.to_string(),
                hint: failure.remedy().map(str::to_owned),
                exit: failure.exit() as u8,
            };
            let line = serde_json::to_string(&report).unwrap_or_default() + "\n";
            let _ = std::io::stderr().write_all(line.as_bytes());
            return;
        }
        let mut text = format!("straightway: {failure}\n");
        if let Some(hint) = failure.remedy() {
            text += &format!("hint: {hint}\n");
        }
        let _ = std::io::stderr().write_all(text.as_bytes());
    }

    /// A bar for `total_bytes` on a terminal; hidden otherwise.
    pub fn bytes_bar(&self, total_bytes: Option<u64>) -> ProgressBar {
        let template = match total_bytes {
            Some(_) => "{bar:30} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}",
            None => "{spinner} {binary_bytes} {binary_bytes_per_sec}",
        };
        self.bar(total_bytes, template)
    }

    /// A bar for a stream of `total_bytes`, with a message.
    pub fn stream_bar(&self, total_bytes: Option<u64>) -> ProgressBar {
        let template = match total_bytes {
            Some(_) => "{bar:20} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {msg}",
            None => "{spinner} {elapsed} {binary_bytes} {binary_bytes_per_sec} {msg}",
        };
        self.bar(total_bytes, template)
    }

    /// A bar for `total` steps, each with a message.
    pub fn steps_bar(&self, total: u64) -> ProgressBar {
        self.bar(Some(total), "{bar:20} {pos}/{len} {msg}")
    }

    fn bar(&self, total: Option<u64>, template: &str) -> ProgressBar {
        let target = match !self.quiet && std::io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr_with_hz(5),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(total, target);
        match ProgressStyle::with_template(template) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        }
    }
}
