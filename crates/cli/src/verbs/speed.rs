// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway speed DEVICE|RUN.json...`: how each path depends on the processor's speed.

use crate::Context;
use crate::exit::Exit;
use crate::measuring::compared::{Cells, compare, largest};
use crate::measuring::setup::{Ready, Subject, Wants};
use crate::output::{is_run, load, valid};
use bench::BenchHost;
use clap::Args;
use devices::error::{Error, Result};
use devices::path::PathChoice;
use linux::cpufreq::Cpufreq;
use measure::run_info::RunInfo;
use measure::speed::{Point, Speed as Speeds, loop_ns};
use measure::{Comparison, Host, Settings};
use std::time::Duration;
use units::Size;

/// Show how much of each path's time depends on the processor's speed.
///
/// On a board with cpufreq all frequencies are tried in turn. Elsewhere measure with --one at one
/// speed, then at another, and join the runs: straightway speed A.json B.json.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("operations", |all| all.default_value("read").help("Operations")))]
#[command(mut_arg("patterns", |all| all.default_value("random")))]
pub struct Speed {
    /// What to measure, or the JSON of a run
    #[command(flatten)]
    pub subject: Subject,
    /// Further runs, to join with the first
    pub runs: Vec<String>,
    /// Measure only at the current speed, to join with another run later
    #[arg(long)]
    pub one: bool,
    /// Paths [default: the target's first, and memory]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = crate::path_options::path())]
    pub paths: Vec<PathChoice>,
    /// Bytes per operation
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "4K")]
    pub sizes: Vec<Size>,
    /// The accesses, and the duration
    #[command(flatten)]
    pub cells: Cells,
    /// Operations in flight
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub queue_depth: u16,
}

impl Speed {
    /// Runs the verb.
    ///
    /// # Errors
    /// Permission is missing, a path is not available, or a file is not a run of this verb.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        self.subject.saving.check(context, "speed")?;
        let first = &self.subject.device;
        if !is_run(first) && !self.runs.is_empty() {
            return Err(Error::usage("only runs can be joined: name .json files")
                .hint("straightway speed A.json B.json"));
        }
        let speeds = if is_run(first) {
            self.join()?
        } else {
            self.measure(context)?
        };
        let files = [("speed.csv", speeds.to_csv())];
        self.subject.saving.leave(context, &speeds, &files)?;
        valid(&speeds.run)?;
        if self.one || speeds.speeds() > 1 {
            Ok(Exit::Done)
        } else {
            Err(Error::inconclusive(
                "there is only one speed, so nothing can be concluded about others",
            )
            .hint("--one at each of two speeds, then straightway speed A.json B.json"))
        }
    }

    fn join(&self) -> Result<Speeds> {
        let mut points = Vec::new();
        let mut run: Option<RunInfo> = None;
        for name in std::iter::once(&self.subject.device).chain(&self.runs) {
            let one: Speeds = serde_json::from_value(load(name, &["speed"])?)
                .map_err(|error| Error::usage(format!("{name}: not a run of speed: {error}")))?;
            points.extend(one.points);
            match &mut run {
                None => run = Some(one.run),
                Some(run) => {
                    run.commands.extend(one.run.commands.clone());
                    run.absorb(&one.run);
                }
            }
        }
        self.subject.saving.make_folder()?;
        Ok(Speeds::of(run.unwrap_or_default(), points))
    }

    fn measure(&self, context: &Context) -> Result<Speeds> {
        let cpufreq = if self.one {
            None
        } else {
            Some(Cpufreq::new(&context.roots).map_err(|error| {
                Error::unsupported(format!("this machine's frequency cannot be set: {error}"))
                    .hint("--one at each of two speeds, then straightway speed A.json B.json")
            })?)
        };
        let ready = self.subject.ready(
            context,
            Wants::new(&self.paths, largest(&self.sizes))
                .writing(&self.cells.operations)
                .depth(self.queue_depth),
        )?;
        let mut host = BenchHost::new(&ready.bench);
        let mut run = RunInfo::begin("speed", &mut host, &ready.request);
        let mut points = Vec::new();
        let frequencies: Vec<Option<u64>> = match &cpufreq {
            None => vec![None],
            Some(cpufreq) => cpufreq.frequencies_khz().into_iter().map(Some).collect(),
        };
        for khz in frequencies {
            if context.cancel.is_set() {
                break;
            }
            if let (Some(cpufreq), Some(khz)) = (&cpufreq, khz) {
                let pinned = cpufreq.pin(khz);
                pinned.map_err(|error| {
                    Error::missing(format!("pinning {khz} kHz: {error}"))
                        .hint("run it as root; cpupower frequency-info")
                })?;
            }
            let loop_ns = loop_ns(host.clock());
            let label = match khz {
                Some(khz) => format!("{khz} kHz"),
                None => format!("fixed loop of {loop_ns} ns"),
            };
            context.say(&label);
            let compared = self.compare(context, &ready)?;
            run.absorb(&compared.run);
            if let Some(missing) = compared.missing.first() {
                return Err(
                    Error::unsupported(format!("{}: {}", missing.path, missing.reason))
                        .hint(missing.hint.clone()),
                );
            }
            points.push(Point {
                label,
                loop_ns,
                results: compared.results,
            });
        }
        drop(cpufreq);
        run.end(&mut host);
        run.complete &= !context.cancel.is_set();
        Ok(Speeds::of(run, points))
    }

    fn compare(&self, context: &Context, ready: &Ready) -> Result<Comparison> {
        let mut kinds = ready.kinds.clone();
        if self.paths.is_empty() {
            kinds.extend(paths::named(paths::RAM));
            kinds.dedup();
        }
        let settings = Settings {
            idle_duration: Duration::from_secs(1),
            ..self.cells.settings(ready, &self.sizes, self.queue_depth)
        };
        compare(context, ready, &ready.request, &kinds, &settings)
    }
}
