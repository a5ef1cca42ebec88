// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway profile DEVICE`: which functions take the processor's time.

use crate::Context;
use crate::exit::Exit;
use crate::measuring::setup::{Asked, Subject};
use crate::output::valid;
use bench::BenchHost;
use bench::perf::Perf;
use clap::Args;
use devices::error::{Error, Result};
use measure::profile::FEWEST_SAMPLES;
use measure::profile::run::{Plan, profile};
use units::{Size, Time};

/// Show which functions take the processor's time: copying, flushing, locking, each layer.
///
/// Samples the whole machine with perf while one path is kept busy; --output also saves a flame
/// graph and a call graph.
#[derive(Clone, Debug, Args)]
pub struct Profile {
    /// What to measure
    #[command(flatten)]
    pub subject: Subject,
    /// The operation and the path
    #[command(flatten)]
    pub asked: Asked,
    /// Bytes per operation
    #[arg(long, value_name = "SIZE", default_value = "128K")]
    pub block: Size,
    /// Operations in flight; pread and pwrite do one at a time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub queue_depth: u16,
    /// Duration of the sampling
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub duration: Time,
    /// Samples per second and processor
    #[arg(long, value_name = "N", default_value_t = 997, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub frequency: u32,
}

impl Profile {
    /// Runs the verb.
    ///
    /// # Errors
    /// Permission, the path or perf is missing.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        self.subject.saving.check(context, "profile")?;
        if self.block.0 == 0 || self.duration.0.is_zero() {
            return Err(Error::usage("block and duration must be more than 0"));
        }
        let mut perf = Perf::new(&context.roots, self.frequency)?;
        let ready = self.subject.ready(
            context,
            self.asked.wants(self.block).depth(self.queue_depth),
        )?;
        let (_, mut path) = ready.path()?;
        let plan = Plan {
            access: self.asked.access(self.block),
            queue_depth: self.queue_depth,
            duration: self.duration.0,
            span_bytes: ready.bench.plan.span_bytes,
        };
        let mut host = BenchHost::new(&ready.bench);
        let cancel = context.cancel.flag();
        let profiled = profile(
            &mut host,
            path.as_mut(),
            &ready.request,
            &plan,
            &mut perf,
            cancel,
        )
        .map_err(bench::failed)?;
        let files = [("callgraph.dot", profiled.to_dot())];
        self.subject.saving.leave(context, &profiled, &files)?;
        valid(&profiled.run)?;
        if profiled.shares.busy_samples >= FEWEST_SAMPLES {
            Ok(Exit::Done)
        } else {
            Err(Error::inconclusive(format!(
                "{} samples of busy processors are too few for shares: {FEWEST_SAMPLES} are \
                     needed",
                profiled.shares.busy_samples
            ))
            .hint("a longer --duration, or a higher --frequency"))
        }
    }
}
