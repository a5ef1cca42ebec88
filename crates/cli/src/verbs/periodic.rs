// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway periodic DEVICE`: a periodic task with several priorities, loads and paths.

use crate::Context;
use crate::choices;
use crate::exit::Exit;
use crate::measuring::compared::operations;
use crate::measuring::setup::{Subject, Wants};
use crate::output::valid;
use bench::{self, BenchHost};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use devices::error::{Error, Result};
use devices::path::PathChoice;
use linux::RealTime;
use measure::periodic::{Conditions, Load, Plan, Priority, periodic};
use measure::{Missing, Operation};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use units::{Size, Time};

/// The priority of a task under SCHED_FIFO.
const FIFO_PRIORITY: i32 = 10;

const PRIORITIES: [Priority; 2] = [Priority::Normal, Priority::Fifo];
const LOADS: [Load; 3] = [Load::None, Load::Medium, Load::High];
/// Whether writes are synchronous.
fn mode() -> impl TypedValueParser<Value = bool> {
    PossibleValuesParser::new(["sync", "async"]).map(|mode| mode == "sync")
}

/// Time a periodic task that transfers a buffer, with several priorities and loads.
#[derive(Clone, Debug, Args)]
pub struct Periodic {
    /// What to measure
    #[command(flatten)]
    pub subject: Subject,
    /// Paths [default: the straight path, or the target's first]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = crate::path_options::path())]
    pub paths: Vec<PathChoice>,
    /// Bytes per firing
    #[arg(long, value_name = "SIZE", default_value = "256K")]
    pub block: Size,
    /// Periods
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "25ms"
    )]
    pub period: Vec<Time>,
    /// Firings under each condition
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(10..=1_000_000))]
    pub firings: u64,
    /// Operations [default: both with --destroy-data, read without]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = choices::operation())]
    pub operations: Vec<Operation>,
    /// normal, fifo (SCHED_FIFO, priority 10)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = choices::choice(&PRIORITIES), default_value = "normal,fifo")]
    pub priorities: Vec<Priority>,
    /// none, medium (one busy thread), high (two per processor)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = choices::choice(&LOADS), default_value = "none,medium,high")]
    pub loads: Vec<Load>,
    /// sync (a write is durable when it completes), async
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = mode(), default_value = "sync,async")]
    pub modes: Vec<bool>,
}

/// Busy threads, which end when it is dropped.
struct Busy {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Busy {
    fn new(count: usize) -> std::io::Result<Self> {
        let mut busy = Self {
            stop: Arc::new(AtomicBool::new(false)),
            threads: Vec::new(),
        };
        for _ in 0..count {
            let stop = Arc::clone(&busy.stop);
            let spin = move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::black_box(0);
                }
            };
            let thread = std::thread::Builder::new()
                .name("load".into())
                .spawn(spin)?;
            busy.threads.push(thread);
        }
        Ok(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// This machine's conditions.
struct Machine;

impl Conditions for Machine {
    fn load(&mut self, load: Load) -> std::result::Result<Box<dyn Any>, Missing> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let count = match load {
            Load::None => 0,
            Load::Medium => 1,
            Load::High => 2 * processors,
        };
        let busy = Busy::new(count).map_err(|error| {
            Missing::new(format!("no threads for a load: {error}"), "ulimit -u")
        })?;
        Ok(Box::new(busy))
    }

    fn priority(&mut self, priority: Priority) -> std::result::Result<Box<dyn Any>, Missing> {
        match priority {
            Priority::Normal => Ok(Box::new(())),
            Priority::Fifo => {
                let entered = RealTime::enter(FIFO_PRIORITY).map_err(|error| {
                    Missing::new(
                        format!("SCHED_FIFO is not available: {error}"),
                        "run it as root, or with CAP_SYS_NICE",
                    )
                })?;
                Ok(Box::new(entered))
            }
        }
    }
}

impl Periodic {
    /// Runs the verb.
    ///
    /// # Errors
    /// Permission is missing, or no path is available.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        self.subject.saving.check(context, "periodic")?;
        let operations = operations(&self.operations, self.subject.destroy_data.is_some());
        if self.block.0 == 0 || self.period.iter().any(|period| period.0.is_zero()) {
            return Err(Error::usage("block and period must be more than 0"));
        }
        let ready = self.subject.ready(
            context,
            Wants::new(&self.paths, self.block.0).writing(&operations),
        )?;
        let mut paths = bench::paths(&ready.bench, &ready.kinds);
        let plan = Plan {
            operations,
            block_size_bytes: self.block.0,
            periods: self.period.iter().map(|period| period.0).collect(),
            firings: self.firings,
            priorities: self.priorities.clone(),
            loads: self.loads.clone(),
            synchronous: self.modes.clone(),
            span_bytes: ready.bench.plan.span_bytes,
        };
        let bar = context.steps_bar(0);
        let mut progress = |done: usize, total: usize| {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
        };
        let measured = periodic(
            &mut BenchHost::new(&ready.bench),
            &mut paths,
            &mut Machine,
            &ready.request,
            &plan,
            &mut progress,
            context.cancel.flag(),
        );
        bar.finish_and_clear();
        let files = [("periodic.csv", measured.to_csv())];
        self.subject.saving.leave(context, &measured, &files)?;
        if measured.cells.is_empty() {
            return Err(match measured.missing.first() {
                Some(one) => Error::unsupported(one.reason.clone()).hint(one.hint.clone()),
                None => Error::unsupported("nothing was measured"),
            });
        }
        valid(&measured.run)?;
        Ok(Exit::Done)
    }
}
