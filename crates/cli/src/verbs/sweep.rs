// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway sweep DEVICE`: measures every path over block sizes, patterns, operations and
//! depths.

use crate::Context;
use crate::exit::Exit;
use crate::measuring::compared::{Cells, compare, largest, verdict};
use crate::measuring::setup::{Ready, Subject, Wants};
use bench::BenchHost;
use bench::fio::{self, FioCell};
use clap::Args;
use devices::error::Result;
use devices::path::PathChoice;
use measure::Settings;
use measure::fio::{Agreement, FioRound};
use measure::run_info::{Request, RunInfo};
use measure::sweep::Sweep as Swept;
use paths::PathKind;
use std::time::Duration;
use units::Size;

/// The sizes of a sweep that names none, in ascending order.
const SIZES: [Size; 9] = [
    Size(512),
    Size(4 << 10),
    Size(32 << 10),
    Size(128 << 10),
    Size(512 << 10),
    Size(1 << 20),
    Size(16 << 20),
    Size(64 << 20),
    Size(256 << 20),
];

/// Measure every path over block sizes, patterns, operations and queue depths.
#[derive(Clone, Debug, Args)]
pub struct Sweep {
    /// What to measure
    #[command(flatten)]
    pub subject: Subject,
    /// Bytes per operation [default: those of 512,4K,32K,128K,512K,1M,16M,64M,256M that fit]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub sizes: Vec<Size>,
    /// The accesses, and the duration
    #[command(flatten)]
    pub cells: Cells,
    /// Operations in flight; pread and pwrite do one at a time
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub depths: Vec<u16>,
    /// Threads, each with the queue depth's number of operations in flight; for pread, pwrite and
    /// the straight path, where each has a queue of its own
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Vec<u16>,
    /// Paths [default: all, and memory]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = crate::path_options::path())]
    pub paths: Vec<PathChoice>,
    /// Also measure the kernel's paths with fio, alternating with our own loop in each cell
    #[arg(long)]
    pub fio: bool,
}

impl Sweep {
    /// Runs the verb.
    ///
    /// # Errors
    /// The arguments are invalid, permission is missing, or the drive failed during preparation.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        self.subject.saving.check(context, "sweep")?;
        if self.fio {
            context.say(format_args!("comparing with {}", fio::version()?));
        }
        let most = |list: &[u16]| list.iter().copied().max().unwrap_or(1);
        let wants = if self.sizes.is_empty() {
            Wants::new(&self.paths, largest(&SIZES[..1])).offering(&SIZES)
        } else {
            Wants::new(&self.paths, largest(&self.sizes))
        };
        let wants = wants.many();
        let wants = wants.writing(&self.cells.operations);
        let wants = wants.depth(most(&self.depths)).threads(most(&self.threads));
        let ready = self.subject.ready(context, wants)?;
        let mut kinds = ready.kinds.clone();
        if self.paths.is_empty() {
            kinds.extend(paths::named(paths::RAM).filter(|ram| !kinds.contains(ram)));
        }
        let mut host = BenchHost::new(&ready.bench);
        let mut swept = Swept {
            run: RunInfo::begin("sweep", &mut host, &ready.request),
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
            context.say(format_args!("{threads} threads, {depth} in flight"));
            let settings = Settings {
                threads,
                ..self.settings(&ready, depth)
            };
            let compared = compare(context, &ready, &ready.request, &kinds, &settings)?;
            swept.comparisons.push(compared);
        }
        if self.fio {
            self.beside_fio(context, &ready, &kinds, &mut swept)?;
        }
        swept.run.complete = !context.cancel.is_set();
        swept.conclude();
        let files = [("sweep.csv", swept.to_csv())];
        self.subject.saving.leave(context, &swept, &files)?;
        verdict(&swept.run, swept.results().map(|(_, result)| result))
    }

    fn settings(&self, ready: &Ready, queue_depth: u16) -> Settings {
        let named = !self.sizes.is_empty();
        let sizes = if named { &self.sizes } else { &ready.sizes };
        self.cells.settings(ready, sizes, queue_depth)
    }

    /// Measures each cell by our loop and by fio in turns, so that both run under the same
    /// conditions.
    fn beside_fio(
        &self,
        context: &Context,
        ready: &Ready,
        kinds: &[&'static PathKind],
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
                    let accesses = settings.accesses().into_iter();
                    cells.extend(accesses.map(|access| (depth, access)));
                }
            }
            for (depth, access) in cells {
                let (mut ours, mut theirs) = (Vec::new(), Vec::new());
                for round in 0..self.cells.rounds {
                    if context.cancel.is_set() {
                        return Ok(());
                    }
                    let settings = Settings {
                        operations: vec![access.operation],
                        patterns: vec![access.pattern],
                        block_sizes_bytes: vec![access.block_size_bytes],
                        rounds: 1,
                        idle_duration: Duration::ZERO,
                        ..self.settings(ready, depth)
                    };
                    let request = Request {
                        seed: self.subject.seed.wrapping_add(u64::from(round)),
                        ..ready.request.clone()
                    };
                    let cell = FioCell {
                        kind,
                        engine,
                        access,
                        queue_depth: depth,
                        duration: settings.cell_duration,
                        warm_up: settings.warm_up,
                        seed: request.seed,
                        has_tsc: swept.run.environment_before.clock_source.as_deref()
                            == Some("tsc"),
                    };
                    let measured = compare(context, ready, &request, &[kind], &settings)?;
                    let Some(result) = measured.results.first() else {
                        let why = measured.missing.first().map(|one| one.reason.clone());
                        let why = why.unwrap_or_else(|| format!("{name} could not be measured"));
                        if !swept.fio_missing.contains(&why) {
                            swept.fio_missing.push(why);
                        }
                        break;
                    };
                    ours.push(result.throughput_mib_s);
                    theirs.push(FioRound::from(&fio::run(&ready.bench, &cell)?));
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
