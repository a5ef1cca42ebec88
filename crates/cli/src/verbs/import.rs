// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway import FILE`: results of fio as a table, a report, JSON and CSV.

use crate::Context;
use crate::exit::Exit;
use crate::output::Saving;
use clap::Args;
use devices::error::{Error, Result};
use std::path::PathBuf;

/// Show results of fio as a table, a report, JSON or CSV.
#[derive(Clone, Debug, Args)]
pub struct Import {
    /// The output of `fio --output-format=json`
    pub file: PathBuf,
    /// Where the report is saved
    #[command(flatten)]
    pub saving: Saving,
}

impl Import {
    /// Runs the verb.
    ///
    /// # Errors
    /// The file cannot be read, or was not written by fio.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        self.saving.check(context, "fio")?;
        let text = std::fs::read_to_string(&self.file)
            .map_err(|error| Error::io("reading", &self.file, &error))?;
        let name = self.file.display().to_string();
        let comparison = measure::fio::to_comparison(&text, &name).map_err(|error| {
            Error::usage(format!("{name}: {error}"))
                .hint("fio --output-format=json --output=FILE ...")
        })?;
        if comparison.results.is_empty() {
            return Err(Error::usage(format!("{name}: no job moved any data")));
        }
        let files = [("fio.csv", measure::csv::of_results(&comparison.results))];
        self.saving.leave(context, &comparison, &files)?;
        Ok(Exit::Done)
    }
}
