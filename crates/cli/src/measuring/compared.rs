// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Comparisons by a bench: the common options and output of all verbs that make one.

use super::setup::Ready;
use crate::choices;
use crate::exit::Exit;
use crate::output::valid;
use bench::BenchHost;
use clap::Args;
use devices::Context;
use devices::error::{Error, Result};
use measure::run_info::{Request, RunInfo};
use measure::{CompareError, Comparison, Operation, PathResult, Pattern, Progress, Settings};
use paths::PathKind;
use remedy::words;
use std::path::PathBuf;
use units::{Size, Time};

/// What is measured on each path, and for how long.
#[derive(Clone, Debug, Args)]
pub struct Cells {
    /// Operations [default: both with --destroy-data, read without]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = choices::operation())]
    pub operations: Vec<Operation>,
    /// The order of offsets
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = choices::pattern(), default_value = "sequential,random")]
    pub patterns: Vec<Pattern>,
    /// Rounds; at least 5 for confidence intervals
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Duration of each path with each size in each round
    #[arg(long, value_name = "TIME", default_value = "200ms")]
    pub cell_duration: Time,
}

impl Cells {
    /// Settings with these sizes and this queue depth.
    pub fn settings(&self, ready: &Ready, sizes: &[Size], queue_depth: u16) -> Settings {
        let usual = Settings::default();
        Settings {
            operations: operations(&self.operations, ready.bench.plan.destroys),
            patterns: self.patterns.clone(),
            rounds: self.rounds,
            queue_depth,
            cell_duration: self.cell_duration.0,
            warm_up: self.cell_duration.0 / 5,
            // As long as ten cells: a longer one would be more exact than they are.
            idle_duration: usual
                .idle_duration
                .min(self.cell_duration.0.saturating_mul(10)),
            block_sizes_bytes: sizes.iter().map(|size| size.0).collect(),
            span_bytes: ready.bench.plan.span_bytes,
            ..usual
        }
    }
}

/// The requested operations; by default what the user allows.
pub fn operations(named: &[Operation], destroys: bool) -> Vec<Operation> {
    match (named.is_empty(), destroys) {
        (false, _) => named.to_vec(),
        (true, true) => vec![Operation::Read, Operation::Write],
        (true, false) => vec![Operation::Read],
    }
}

/// Measures the named paths, and shows the progress.
///
/// # Errors
/// A path is unknown, the settings are invalid, or the kernel does not report processor time.
pub fn compare(
    context: &Context,
    ready: &Ready,
    request: &Request,
    kinds: &[&'static PathKind],
    settings: &Settings,
) -> Result<Comparison> {
    let mut paths = bench::paths(&ready.bench, kinds);
    let counts = std::env::var_os(bench::COUNTS).map(PathBuf::from);
    let bar = context.steps_bar(0);
    let mut progress = |step: &Progress<'_>| {
        bar.set_length(step.total_cells as u64);
        bar.set_position(step.done_cells as u64);
        bar.set_message(message(step));
    };
    let comparison = measure::compare(
        &mut BenchHost::new(&ready.bench).counting(counts),
        &mut paths,
        request,
        settings,
        &mut progress,
        context.cancel.flag(),
    );
    bar.finish_and_clear();
    comparison.map_err(|error| match error {
        CompareError::CpuTime(_) => Error::unsupported(error.to_string()),
        _ => Error::usage(error.to_string()),
    })
}

fn message(step: &Progress<'_>) -> String {
    let left = step
        .remaining
        .map_or(String::new(), |left| format!(", {} s left", left.as_secs()));
    match step.next {
        Some((path, access)) => format!("{path} {access}{left}"),
        None => String::new(),
    }
}

/// The largest of some sizes.
pub fn largest(sizes: &[Size]) -> u64 {
    sizes.iter().map(|size| size.0).max().unwrap_or(0)
}

/// The exit of a comparison.
///
/// # Errors
/// There is no result, or the run is not valid, or operations failed.
pub fn verdict<'r>(run: &RunInfo, results: impl Iterator<Item = &'r PathResult>) -> Result<Exit> {
    let errors: Vec<u64> = results.map(|result| result.errors).collect();
    if errors.is_empty() {
        return Err(Error::unsupported("no path could be measured")
            .hint("straightway doctor shows what is missing"));
    }
    valid(run)?;
    match errors.iter().sum() {
        0u64 => Ok(Exit::Done),
        errors => Err(
            Error::other(format!("{errors} operations failed")).hint(words![
                "dmesg; straightway info ",
                remedy::Device,
                " shows the drive's error log"
            ]),
        ),
    }
}
