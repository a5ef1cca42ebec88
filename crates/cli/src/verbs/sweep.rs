//! `straightway sweep DEVICE`: block sizes, patterns, operations and depths over every path.

use crate::Context;
use crate::bench::BenchHost;
use crate::bench::compared::{compare, operations, settings};
use crate::bench::fio::{self, FioCell};
use crate::bench::setup::{Ready, Subject, Wants};
use crate::failure::{Exit, Failure, Result};
use crate::output::Artefacts;
use crate::path::PathChoice;
use crate::units::{Size, Time};
use clap::Args;
use measure::fio::{Agreement, FioRound};
use measure::kind::{self, Kind};
use measure::run_info::RunInfo;
use measure::sweep::Sweep as Swept;
use measure::{Operation, Pattern, Settings};
use std::time::Duration;

/// Measure every path over block sizes, patterns, operations and queue depths.
#[derive(Clone, Debug, Args)]
pub struct Sweep {
    /// What to measure
    #[command(flatten)]
    pub subject: Subject,
    /// How much one operation moves
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "512,4K,32K,128K,512K,1M,16M,64M,256M"
    )]
    pub sizes: Vec<Size>,
    /// read, write [default: both with --destroy-data, read without]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = super::compare::operation)]
    pub operations: Vec<Operation>,
    /// The order of offsets: sequential, random
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = super::compare::pattern, default_value = "sequential,random")]
    pub patterns: Vec<Pattern>,
    /// Operations in flight; pread and pwrite do one at a time
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub depths: Vec<u16>,
    /// Threads, each with that many operations in flight; for pread and pwrite
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Vec<u16>,
    /// Rounds; at least 5 for confidence intervals
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// How long each path is measured with each size in each round
    #[arg(long, value_name = "TIME", default_value = "200ms")]
    pub cell_duration: Time,
    /// Paths [default: all, and memory]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = PathChoice::parser())]
    pub paths: Vec<PathChoice>,
    /// Ask fio for the kernel paths too, cell by cell in turns with our own loop
    #[arg(long)]
    pub fio: bool,
}

impl Sweep {
    /// Runs it.
    ///
    /// # Errors
    /// It is not permitted, makes no sense, or the drive fails while it is prepared.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        self.subject.saving.check(context, "sweep")?;
        if self.fio {
            context
                .console
                .say(format_args!("beside {}", fio::version()?));
        }
        let writes = self.operations.contains(&Operation::Write);
        let most = |list: &[u16]| list.iter().copied().max().unwrap_or(1);
        // Memory for the buffers of all threads.
        let deepest = most(&self.depths).saturating_mul(most(&self.threads));
        let largest = self.sizes.iter().map(|size| size.0).max().unwrap_or(0);
        let ready = self.subject.ready(
            context,
            &Wants {
                paths: &self.paths,
                many: true,
                writes,
                largest_bytes: largest,
                queue_depth: deepest,
            },
        )?;
        let mut kinds = ready.kinds.clone();
        if self.paths.is_empty() {
            kinds.extend(kind::named(kind::RAM).filter(|ram| !kinds.contains(ram)));
        }
        let request = self.subject.request(&ready);
        let mut host = BenchHost::new(&ready.bench);
        let mut swept = Swept {
            run: RunInfo::begin("sweep", &mut host, &request),
            comparisons: Vec::new(),
            agreements: Vec::new(),
            fio_missing: Vec::new(),
        };
        let passes = self
            .threads
            .iter()
            .flat_map(|threads| self.depths.iter().map(|depth| (*threads, *depth)));
        for (threads, depth) in passes {
            if context.cancel.is_set() {
                break;
            }
            context
                .console
                .say(format_args!("{threads} threads, {depth} in flight"));
            let settings = Settings {
                threads,
                ..self.settings(&ready, depth)
            };
            swept.comparisons.push(compare(
                context,
                &ready.bench,
                &ready.device,
                &kinds,
                &settings,
            )?);
        }
        if self.fio {
            self.beside_fio(context, &ready, &kinds, &mut swept)?;
        }
        swept.run.complete = !context.cancel.is_set();
        swept.conclude();
        let files = vec![("sweep.csv".to_owned(), swept.to_csv())];
        Artefacts::of("sweep", &swept, files)?.leave(
            context,
            &self.subject.saving,
            self.subject.json,
        )?;
        verdict(&swept)
    }

    fn settings(&self, ready: &Ready, queue_depth: u16) -> Settings {
        Settings {
            operations: operations(&self.operations, ready.plan.destroys),
            patterns: self.patterns.clone(),
            block_sizes_bytes: self.sizes.iter().map(|size| size.0).collect(),
            rounds: self.rounds,
            queue_depth,
            ..settings(
                self.cell_duration.0,
                ready.plan.span_bytes,
                self.subject.seed,
            )
        }
    }

    /// Each cell by our loop and by fio, in turns, so that both see the same machine.
    fn beside_fio(
        &self,
        context: &Context,
        ready: &Ready,
        kinds: &[&'static Kind],
        swept: &mut Swept,
    ) -> Result<()> {
        for &kind in kinds {
            let name = kind.name;
            let engine = match fio::engine(&ready.bench, kind) {
                Ok(engine) => engine,
                Err(why) => {
                    swept.fio_missing.push(why);
                    continue;
                }
            };
            let mut cells = Vec::new();
            for &depth in &self.depths {
                // A synchronous path has one depth.
                if kind.is_ring() || depth == self.depths.first().copied().unwrap_or(1) {
                    let settings = self.settings(ready, depth);
                    cells.extend(
                        settings
                            .accesses()
                            .into_iter()
                            .map(|access| (depth, access)),
                    );
                }
            }
            for (depth, access) in cells {
                let (mut ours, mut theirs) = (Vec::new(), Vec::new());
                for round in 0..self.rounds {
                    if context.cancel.is_set() {
                        return Ok(());
                    }
                    let settings = Settings {
                        operations: vec![access.operation],
                        patterns: vec![access.pattern],
                        block_sizes_bytes: vec![access.block_size_bytes],
                        rounds: 1,
                        idle_duration: Duration::ZERO,
                        seed: self.subject.seed.wrapping_add(u64::from(round)),
                        ..self.settings(ready, depth)
                    };
                    let cell = FioCell {
                        kind,
                        engine,
                        access,
                        queue_depth: depth,
                        duration: settings.cell_duration,
                        warm_up: settings.warm_up,
                        seed: settings.seed,
                        has_tsc: swept.run.environment_before.clock_source.as_deref()
                            == Some("tsc"),
                    };
                    let measured =
                        compare(context, &ready.bench, &ready.device, &[kind], &settings)?;
                    let Some(result) = measured.results.first() else {
                        let why = measured.missing.first().map(|one| one.reason.clone());
                        let why = why.unwrap_or_else(|| format!("{name} could not be measured"));
                        if !swept.fio_missing.contains(&why) {
                            swept.fio_missing.push(why);
                        }
                        break;
                    };
                    ours.push(result.throughput_mib_s);
                    theirs.push(FioRound::from(&fio::run(ready, &cell)?));
                }
                if !ours.is_empty() {
                    let seed = self.subject.seed;
                    swept
                        .agreements
                        .push(Agreement::of(name, access, depth, ours, &theirs, seed));
                }
            }
        }
        Ok(())
    }
}

fn verdict(swept: &Swept) -> Result<Exit> {
    if swept.results().next().is_none() {
        return Err(Failure::unsupported("no path could be measured")
            .hint("straightway doctor tells what is missing"));
    }
    if !swept.run.valid {
        return Err(Failure::invalid(&swept.run.invalid_reasons));
    }
    let errors: u64 = swept.results().map(|(_, result)| result.errors).sum();
    if errors > 0 {
        return Err(
            Failure::new(Exit::No, format!("{errors} operations failed"))
                .hint("dmesg; straightway info DEVICE shows the drive's error log"),
        );
    }
    Ok(Exit::Done)
}
