// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway timeline DUMP...`: a dump of events.

use crate::Context;
use crate::exit::Exit;
use crate::remedies::CommandLine;
use bench::timer::names;
use clap::Args;
use devices::error::{Error, Result};
use measure::trace::timeline;
use std::path::PathBuf;

/// Show a dump of events as a timeline.
#[derive(Clone, Debug, Args)]
pub struct Timeline {
    /// Files of dumps: a ring's, `/dev/chario-events`, or what a profiling timer recorded
    #[arg(required = true, value_name = "DUMP")]
    pub dumps: Vec<PathBuf>,
    /// Names of tags, a line `TAG NAME` each
    #[arg(long, value_name = "FILE")]
    pub names: Option<PathBuf>,
    /// Number of events to show
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub events: usize,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

impl Timeline {
    /// Runs the verb.
    ///
    /// # Errors
    /// A file cannot be read, or is not a dump.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let names = names(self.names.as_deref())?;
        let mut lanes = Vec::new();
        for dump in &self.dumps {
            let bytes = std::fs::read(dump).map_err(|error| Error::io("reading", dump, &error))?;
            let read = events::parse(&bytes).map_err(|error| {
                Error::usage(format!("{}: {error}", dump.display()))
                    .hint("pause the recorder before its dump is copied")
            })?;
            lanes.extend(read);
        }
        let shown = timeline::Timeline::new(&lanes, &names, self.events);
        if self.json {
            context.console.json(&shown)?
        } else {
            context.console.print(&shown.text(&CommandLine))?
        }
        Ok(Exit::Done)
    }
}
