// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway explain DEVICE|RUN.json`: finds what limits a path, and confirms it by experiments.

use crate::Context;
use crate::exit::Exit;
use crate::measuring::compared::{Cells, compare};
use crate::measuring::setup::{Asked, Ready, Subject};
use crate::output::{is_run, load, valid};
use bench::BenchHost;
use clap::Args;
use devices::error::{Error, Result};
use measure::explain::{Explained, explain};
use measure::run_info::RunInfo;
use measure::sweep::Sweep;
use measure::{Comparison, PathResult, Settings};
use paths::PathKind;
use remedy::words;
use std::time::Duration;
use units::{Size, Time};

/// Find what limits a path: the queue depth, interrupts, each operation, copying, the device.
///
/// Give a drive and a --path to measure now, or the JSON of a `compare` or `sweep` to read.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("pattern", |pattern| pattern.default_value("random")))]
pub struct Explain {
    /// What to measure, or the JSON of a run
    #[command(flatten)]
    pub subject: Subject,
    /// The operation and the path
    #[command(flatten)]
    pub asked: Asked,
    /// Bytes per operation [with a saved run: the smallest measured]
    #[arg(long, value_name = "SIZE")]
    pub block: Option<Size>,
    /// Operations in flight
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=512))]
    pub queue_depth: u16,
    /// Rounds; at least 5, because confirmation needs intervals
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(5..))]
    pub rounds: u32,
    /// Duration of each trial in each round
    #[arg(long, value_name = "TIME", default_value = "200ms")]
    pub cell_duration: Time,
}

/// Factor of the queue depth in the trial.
const DEEPER: u16 = 8;
/// Factor of the block size in the trial.
const LARGER: u64 = 4;

impl Explain {
    /// Runs the verb.
    ///
    /// # Errors
    /// Permission is missing, the path is not available, or the file is not a readable run.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        self.subject.saving.check(context, "explain")?;
        let explained = if is_run(&self.subject.device) {
            self.read(&self.subject.device)?
        } else {
            self.measure(context)?
        };
        self.subject.saving.leave(context, &explained, &[])?;
        valid(&explained.run)?;
        if explained.explanations.iter().all(|one| one.confirmed) {
            Ok(Exit::Done)
        } else {
            Err(
                Error::inconclusive("a limit was not confirmed").hint(words![
                    "more --rounds or a longer --cell-duration; from a run: straightway explain ",
                    remedy::Device
                ]),
            )
        }
    }

    fn read(&self, file: &str) -> Result<Explained> {
        let (comparisons, run) = runs_of(file)?;
        let run = RunInfo {
            kind: "explain".to_owned(),
            ..run
        };
        let results = comparisons.iter().flat_map(|one| &one.results);
        // Results of several threads are not considered.
        let results: Vec<&PathResult> = results.filter(|one| one.threads == 1).collect();
        let mut names: Vec<&str> = results.iter().map(|r| r.path.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        if let Some(path) = self.asked.path {
            let meant = |name: &str| path.kind(|kind| kind.name == name).map(|kind| kind.name);
            names.retain(|name| meant(name) == Some(name));
        }
        let explanations = names.iter().filter_map(|name| {
            let kind = (self.asked.operation, self.asked.pattern);
            let is_asked = |r: &&&PathResult| r.path == *name && r.access.kind() == kind;
            let of_path = results.iter().filter(is_asked);
            let sizes = of_path.clone().map(|r| Size(r.access.block_size_bytes));
            let block = self.block.or_else(|| sizes.min())?;
            let depth = of_path.map(|r| r.queue_depth).min()?;
            let access = self.asked.access(block);
            explain(&results, name, access, depth, &run.environment_before)
        });
        let explanations: Vec<_> = explanations.collect();
        if explanations.is_empty() {
            Err(Error::usage("the run has no such result")
                .hint("another --path, --operation, --pattern or --block"))
        } else {
            Ok(Explained { run, explanations })
        }
    }

    fn measure(&self, context: &Context) -> Result<Explained> {
        let block = self.block.unwrap_or(Size(4096));
        let larger = Size(block.0.saturating_mul(LARGER));
        let deep = self.queue_depth.saturating_mul(DEEPER).min(4096);
        let wants = self.asked.wants(larger).depth(deep);
        let ready = self.subject.ready(context, wants)?;
        let Some(&kind) = ready.kinds.first() else {
            return Err(Error::usage("missing --path"));
        };
        let name = kind.name;
        let siblings = [kind.polled, kind.unbuffered, Some(paths::RAM)];
        let mut kinds = vec![kind];
        kinds.extend(siblings.into_iter().flatten().filter_map(paths::named));
        kinds.dedup();
        let mut run = RunInfo::begin("explain", &mut BenchHost::new(&ready.bench), &ready.request);
        context.say("as it is, with larger blocks, and by its siblings");
        let first = self.compare(context, &ready, &kinds, &[block, larger], self.queue_depth)?;
        context.say(format_args!("{deep} in flight"));
        let second = self.compare(context, &ready, &[kind], &[block], deep)?;
        run.end(&mut BenchHost::new(&ready.bench));
        run.absorb(&first.run);
        run.absorb(&second.run);
        let mut results: Vec<PathResult> = first.results;
        results.extend(second.results.into_iter().map(|result| PathResult {
            // The requested depth: a synchronous path still does one operation at a time.
            queue_depth: deep,
            ..result
        }));
        let all: Vec<&PathResult> = results.iter().collect();
        let depth = all.iter().find(|r| r.path == name).map(|r| r.queue_depth);
        let access = self.asked.access(block);
        let found =
            depth.and_then(|depth| explain(&all, name, access, depth, &run.environment_before));
        let Some(found) = found else {
            let missing = first.missing.into_iter().find(|one| one.path == name);
            return Err(match missing {
                Some(one) => Error::unsupported(one.reason).hint(one.hint),
                None if context.cancel.is_set() => {
                    Error::interrupted("interrupted; the drive was returned to its driver")
                }
                None => Error::unsupported(format!("{name} could not be measured")),
            });
        };
        Ok(Explained {
            run,
            explanations: vec![found],
        })
    }

    fn compare(
        &self,
        context: &Context,
        ready: &Ready,
        kinds: &[&'static PathKind],
        sizes: &[Size],
        queue_depth: u16,
    ) -> Result<Comparison> {
        let cells = Cells {
            operations: vec![self.asked.operation],
            patterns: vec![self.asked.pattern],
            rounds: self.rounds,
            cell_duration: self.cell_duration,
        };
        let settings = Settings {
            idle_duration: Duration::from_secs(1),
            ..cells.settings(ready, sizes, queue_depth)
        };
        compare(context, ready, &ready.request, kinds, &settings)
    }
}

/// Reads the comparisons of a saved run.
fn runs_of(file: &str) -> Result<(Vec<Comparison>, RunInfo)> {
    let value = load(file, &["compare", "sweep", "fio"])?;
    let wrong = |error| Error::usage(format!("{file}: not a comparison: {error}"));
    if value.get("comparisons").is_some() {
        let sweep: Sweep = serde_json::from_value(value).map_err(wrong)?;
        return Ok((sweep.comparisons, sweep.run));
    }
    let comparison: Comparison = serde_json::from_value(value).map_err(wrong)?;
    let run = comparison.run.clone();
    Ok((vec![comparison], run))
}
