//! `straightway explain DEVICE|RUN.json`: what limits a path, shown by changing something.

use crate::Context;
use crate::bench::BenchHost;
use crate::bench::compared::{compare, settings};
use crate::bench::setup::{Ready, Subject, Wants};
use crate::failure::{Exit, Failure, Result};
use crate::output::Artefacts;
use crate::path::PathChoice;
use crate::units::{Size, Time};
use clap::Args;
use measure::explain::{Explained, explain};
use measure::kind::{self, Kind};
use measure::run_info::{RUN_SCHEMA_VERSION, RunInfo};
use measure::sweep::Sweep;
use measure::{Access, Comparison, Environment, Operation, PathResult, Pattern, Settings};
use std::path::Path;
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
    /// read or write
    #[arg(long, value_name = "OPERATION", value_parser = super::compare::operation, default_value = "read")]
    pub operation: Operation,
    /// sequential or random
    #[arg(long, value_name = "PATTERN", value_parser = super::compare::pattern, default_value = "random")]
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
            true => self.read(Path::new(&self.subject.device))?,
            false => self.measure(context)?,
        };
        Artefacts::of("explain", &explained, Vec::new())?.leave(
            context,
            &self.subject.saving,
            self.subject.json,
        )?;
        if !explained.run.valid {
            return Err(Failure::invalid(&explained.run.invalid_reasons));
        }
        match explained.explanations.iter().all(|one| one.confirmed) {
            true => Ok(Exit::Done),
            false => Err(Failure::new(Exit::Invalid, "a limit was not confirmed").hint(
                "more --rounds or a longer --cell-duration; from a run: straightway explain DEVICE",
            )),
        }
    }

    fn read(&self, file: &Path) -> Result<Explained> {
        let text =
            std::fs::read_to_string(file).map_err(|error| Failure::io("reading", file, &error))?;
        let (comparisons, run) = runs_of(&text, &file.display().to_string())?;
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
                r.path == *name && (r.operation, r.pattern) == (self.operation, self.pattern)
            });
            let sizes = of_path.clone().map(|r| r.block_size_bytes);
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
            &Wants {
                paths: self.path.as_slice(),
                many: false,
                writes: self.operation == Operation::Write,
                largest_bytes: block.saturating_mul(LARGER),
                queue_depth: deep,
            },
        )?;
        let Some(&kind) = ready.kinds.first() else {
            return Err(Failure::usage("no path was named"));
        };
        let name = kind.name;
        let siblings = [kind.polled, kind.unbuffered, Some(kind::RAM)];
        let mut kinds = vec![kind];
        kinds.extend(siblings.into_iter().flatten().filter_map(kind::named));
        kinds.dedup();
        let sizes = vec![block, block.saturating_mul(LARGER)];
        let mut run = RunInfo::begin(
            "explain",
            &mut BenchHost::new(&ready.bench),
            &self.subject.request(&ready),
        );
        context
            .console
            .say("as it is, with larger blocks, and by its siblings");
        let first = self.compare(context, &ready, &kinds, sizes, self.queue_depth)?;
        context.console.say(format_args!("{deep} in flight"));
        let second = self.compare(context, &ready, &[kind], vec![block], deep)?;
        run.end(&mut BenchHost::new(&ready.bench));
        for reason in first.invalid_reasons.iter().chain(&second.invalid_reasons) {
            run.invalidate(reason.clone());
        }
        run.complete = first.complete && second.complete;
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
        block_sizes_bytes: Vec<u64>,
        queue_depth: u16,
    ) -> Result<Comparison> {
        let settings = Settings {
            operations: vec![self.operation],
            patterns: vec![self.pattern],
            block_sizes_bytes,
            rounds: self.rounds,
            idle_duration: Duration::from_secs(1),
            queue_depth,
            ..settings(
                self.cell_duration.0,
                ready.plan.span_bytes,
                self.subject.seed,
            )
        };
        compare(context, &ready.bench, &ready.device, kinds, &settings)
    }
}

/// The comparisons of a run, and its record.
fn runs_of(text: &str, name: &str) -> Result<(Vec<Comparison>, RunInfo)> {
    let wrong = |why: String| {
        Failure::usage(format!("{name}: {why}")).hint("the JSON of straightway compare or sweep")
    };
    let value: serde_json::Value =
        serde_json::from_str(text).map_err(|error| wrong(format!("no JSON: {error}")))?;
    let version = value
        .get("schema_version")
        .and_then(serde_json::Value::as_u64);
    let version = version.ok_or_else(|| wrong("it has no schema_version".to_owned()))?;
    let known = u64::from(RUN_SCHEMA_VERSION.max(measure::schema::SCHEMA_VERSION));
    if version > known {
        return Err(Failure::usage(format!(
            "{name} has schema version {version}, and this straightway knows up to {known}"
        ))
        .hint("use the version of straightway that wrote it, or a newer one"));
    }
    if value.get("comparisons").is_some() {
        let sweep: Sweep =
            serde_json::from_value(value).map_err(|error| wrong(format!("no sweep: {error}")))?;
        return Ok((sweep.comparisons, sweep.run));
    }
    let comparison: Comparison =
        serde_json::from_value(value).map_err(|error| wrong(format!("no comparison: {error}")))?;
    let run = RunInfo {
        schema_version: RUN_SCHEMA_VERSION,
        kind: "explain".to_owned(),
        tool_version: comparison.tool_version.clone(),
        started_unix_s: comparison.started_unix_s,
        commands: comparison.commands.clone(),
        device: comparison.device.clone(),
        environment_before: comparison.environment_before.clone(),
        environment_after: comparison.environment_after.clone(),
        valid: comparison.valid,
        invalid_reasons: comparison.invalid_reasons.clone(),
        complete: comparison.complete,
        seed: comparison.seed,
        figures: Vec::new(),
        others: None,
    };
    Ok((vec![comparison], run))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_no_runs_are_refused_with_the_reason() {
        let said = |text: &str| runs_of(text, "x.json").map(|_| ()).unwrap_err();
        assert!(said("no").to_string().contains("no JSON"));
        assert!(said("{}").to_string().contains("schema_version"));
        assert!(
            said("{\"schema_version\": 1}")
                .to_string()
                .contains("no comparison")
        );
        let newer = said("{\"schema_version\": 99}");
        assert_eq!(newer.exit(), Exit::Usage);
        assert!(newer.to_string().contains("99") && newer.remedy().is_some());
    }
}
