// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway compare DEVICE`: measures what each path to a drive costs.

use crate::Context;
use crate::exit::Exit;
use crate::measuring::compared::{Cells, compare, largest, verdict};
use crate::measuring::setup::{Subject, Wants};
use clap::Args;
use devices::error::Result;
use devices::path::PathChoice;
use measure::Settings;
use units::Size;

/// Measure what each path to a drive costs.
#[derive(Clone, Debug, Args)]
pub struct Compare {
    /// What to measure
    #[command(flatten)]
    pub subject: Subject,
    /// Bytes per operation
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "4K,128K,1M,16M"
    )]
    pub sizes: Vec<Size>,
    /// The accesses, and the duration
    #[command(flatten)]
    pub cells: Cells,
    /// Operations in flight; pread and pwrite do one at a time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub queue_depth: u16,
    /// Threads, each with --queue-depth operations in flight; for pread, pwrite and the straight
    /// path, where each has a queue of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: u16,
    /// Paths [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = crate::path_options::path())]
    pub paths: Vec<PathChoice>,
}

impl Compare {
    /// Runs the verb.
    ///
    /// # Errors
    /// The arguments are invalid, permission is missing, or the drive failed during preparation.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        self.subject.saving.check(context, "compare")?;
        let wants = Wants::new(&self.paths, largest(&self.sizes)).many();
        let wants = wants.writing(&self.cells.operations);
        let wants = wants.depth(self.queue_depth).threads(self.threads);
        let ready = self.subject.ready(context, wants)?;
        let kinds = &ready.kinds;
        let settings = Settings {
            threads: self.threads,
            ..self.cells.settings(&ready, &self.sizes, self.queue_depth)
        };
        let least = settings.least_duration(kinds.len());
        context.say(format_args!(
            "{} paths, each over {}, at least {} s",
            kinds.len(),
            Size(ready.bench.plan.span_bytes),
            least.as_secs()
        ));
        let comparison = compare(context, &ready, &ready.request, kinds, &settings)?;
        let files = [("compare.csv", measure::csv::of_results(&comparison.results))];
        self.subject.saving.leave(context, &comparison, &files)?;
        verdict(&comparison.run, comparison.results.iter())
    }
}
