//! `straightway explain DEVICE|RUN.json`: what limits a path, shown by changing something.

use crate::Context;
use crate::bench::BenchHost;
use crate::bench::compared::{compare, settings};
use crate::bench::setup::{Ready, Subject, Wants};
use crate::failure::{Exit, Failure, Result};
use crate::output::{load, valid};
use crate::path::PathChoice;
use crate::units::{self, Size, Time};
use clap::Args;
use measure::explain::{Explained, explain};
use measure::kind::{self, Kind};
use measure::run_info::RunInfo;
use measure::sweep::Sweep;
use measure::{Access, Comparison, Environment, Operation, PathResult, Pattern, Settings};
use std::time::Duration;

/// Tell what limits a path: the queue depth, interrupts, each operation, copying, the device.
///
/// Give a drive and a --path to measure now, or the JSON of a `compare` or `sweep` to read.
#[derive(Clone, Debug, Args)]
pub struct Explain {
    /// What to measure, or the JSON of a run
    #[command(flatten)]
    pub subject: Subject,
    /// The path [default: the straight path, or the target's first]
    #[arg(long, value_name = "PATH", value_parser = PathChoice::parser())]
    pub path: Option<PathChoice>,
    /// How much one operation moves [in a run: the smallest that was measured]
    #[arg(long, value_name = "SIZE")]
    pub block: Option<Size>,
    /// What is asked
    #[arg(long, value_name = "OPERATION", value_parser = units::operation(), default_value = "read")]
    pub operation: Operation,
    /// The order of offsets
    #[arg(long, value_name = "PATTERN", value_parser = units::pattern(), default_value = "random")]
    pub pattern: Pattern,
    /// Operations in flight
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=512))]
    pub queue_depth: u16,
    /// Rounds; at least 5, for nothing is confirmed without intervals
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(5..))]
    pub rounds: u32,
    /// How long each trial is measured in each round
    #[arg(long, value_name = "TIME", default_value = "200ms")]
    pub cell_duration: Time,
}

/// How much deeper the queue is in the trial.
const DEEPER: u16 = 8;
/// How much larger the blocks are.
const LARGER: u64 = 4;

impl Explain {
    /// Runs it.
    ///
    /// # Errors
    /// It is not permitted, the path is missing, or the file is no run that can be read.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        self.subject.saving.check(context, "explain")?;
        let explained = match self.subject.device.ends_with(".json") {
            true => self.read(&self.subject.device)?,
            false => self.measure(context)?,
        };
        self.subject.saving.leave(context, &explained, &[])?;
        valid(&explained.run)?;
        match explained.explanations.iter().all(|one| one.confirmed) {
            true => Ok(Exit::Done),
            false => Err(Failure::new(Exit::Invalid, "a limit was not confirmed").hint(
                "more --rounds or a longer --cell-duration; from a run: straightway explain DEVICE",
            )),
        }
    }

    fn read(&self, file: &str) -> Result<Explained> {
        let (comparisons, run) = runs_of(file)?;
        let run = RunInfo {
            kind: "explain".to_owned(),
            ..run
        };
        let results = comparisons.iter().flat_map(|one| &one.results);
        // What several threads do is another question.
        let results: Vec<&PathResult> = results.filter(|one| one.threads == 1).collect();
        let mut names: Vec<&str> = results.iter().map(|r| r.path.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        if let Some(path) = self.path {
            let meant = |name: &str| path.kind(|kind| kind.name == name).map(|kind| kind.name);
            names.retain(|name| meant(name) == Some(name));
        }
        let explanations = names.iter().filter_map(|name| {
            let of_path = results.iter().filter(|r| {
                r.path == *name
                    && (r.access.operation, r.access.pattern) == (self.operation, self.pattern)
            });
            let sizes = of_path.clone().map(|r| r.access.block_size_bytes);
            let block_size_bytes = self
                .block
                .map_or_else(|| sizes.min(), |size| Some(size.0))?;
            let depth = of_path.map(|r| r.queue_depth).min()?;
            self.of(
                &results,
                name,
                block_size_bytes,
                depth,
                &run.environment_before,
            )
        });
        let explanations: Vec<_> = explanations.collect();
        match explanations.is_empty() {
            true => Err(Failure::usage("the run has no such result")
                .hint("another --path, --operation, --pattern or --block")),
            false => Ok(Explained { run, explanations }),
        }
    }

    fn of(
        &self,
        results: &[&PathResult],
        path: &str,
        block_size_bytes: u64,
        depth: u16,
        environment: &Environment,
    ) -> Option<measure::explain::Explanation> {
        let access = Access {
            operation: self.operation,
            pattern: self.pattern,
            block_size_bytes,
        };
        explain(results, path, access, depth, environment)
    }

    fn measure(&self, context: &Context) -> Result<Explained> {
        let block = self.block.map_or(4096, |size| size.0);
        let deep = self.queue_depth.saturating_mul(DEEPER).min(4096);
        let ready = self.subject.ready(
            context,
            Wants::new(self.path.as_slice(), block.saturating_mul(LARGER))
                .writing(&[self.operation])
                .depth(deep),
        )?;
        let Some(&kind) = ready.kinds.first() else {
            return Err(Failure::usage("no path was named"));
        };
        let name = kind.name;
        let siblings = [kind.polled, kind.unbuffered, Some(kind::RAM)];
        let mut kinds = vec![kind];
        kinds.extend(siblings.into_iter().flatten().filter_map(kind::named));
        kinds.dedup();
        let sizes = [block, block.saturating_mul(LARGER)].map(Size);
        let mut run = RunInfo::begin("explain", &mut BenchHost::new(&ready.bench), &ready.request);
        context
            .console
            .say("as it is, with larger blocks, and by its siblings");
        let first = self.compare(context, &ready, &kinds, &sizes, self.queue_depth)?;
        context.console.say(format_args!("{deep} in flight"));
        let second = self.compare(context, &ready, &[kind], &[Size(block)], deep)?;
        run.end(&mut BenchHost::new(&ready.bench));
        run.absorb(&first.run);
        run.absorb(&second.run);
        let mut results: Vec<PathResult> = first.results;
        results.extend(second.results.into_iter().map(|result| PathResult {
            // A synchronous path was asked for more and does one: that is the trial.
            queue_depth: deep,
            ..result
        }));
        let all: Vec<&PathResult> = results.iter().collect();
        let depth = all.iter().find(|r| r.path == name).map(|r| r.queue_depth);
        let found =
            depth.and_then(|depth| self.of(&all, name, block, depth, &run.environment_before));
        let Some(found) = found else {
            let missing = first.missing.into_iter().find(|one| one.path == name);
            return Err(match missing {
                Some(one) => Failure::unsupported(one.reason).hint(one.hint),
                None if context.cancel.is_set() => {
                    Failure::interrupted("interrupted; the drive was given back")
                }
                None => Failure::unsupported(format!("{name} could not be measured")),
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
        kinds: &[&'static Kind],
        sizes: &[Size],
        queue_depth: u16,
    ) -> Result<Comparison> {
        let settings = Settings {
            operations: vec![self.operation],
            patterns: vec![self.pattern],
            rounds: self.rounds,
            idle_duration: Duration::from_secs(1),
            queue_depth,
            ..settings(self.cell_duration, sizes, ready)
        };
        compare(context, ready, &ready.request, kinds, &settings)
    }
}

/// The comparisons of a saved run.
fn runs_of(file: &str) -> Result<(Vec<Comparison>, RunInfo)> {
    let value = load(file, &["compare", "sweep", "fio"])?;
    let wrong = |error| Failure::usage(format!("{file}: not a comparison: {error}"));
    if value.get("comparisons").is_some() {
        let sweep: Sweep = serde_json::from_value(value).map_err(wrong)?;
        return Ok((sweep.comparisons, sweep.run));
    }
    let comparison: Comparison = serde_json::from_value(value).map_err(wrong)?;
    let run = comparison.run.clone();
    Ok((vec![comparison], run))
}
