//! `straightway profile DEVICE`: which functions the processor's time goes to.

use crate::Context;
use crate::bench::BenchHost;
use crate::bench::perf::Perf;
use crate::bench::setup::{Subject, Wants};
use crate::failure::{Exit, Failure, Result};
use crate::output::valid;
use crate::path::PathChoice;
use crate::units::{self, Size, Time};
use clap::Args;
use measure::profile::FEWEST_SAMPLES;
use measure::profile::run::{Plan, profile};
use measure::{Access, Operation, Pattern};

/// Tell which functions the processor's time goes to: copying, flushing, locking, each layer.
///
/// Samples the whole machine with perf while one path is kept busy; leaves a flame graph and a call
/// graph with --output.
#[derive(Clone, Debug, Args)]
pub struct Profile {
    /// What to measure
    #[command(flatten)]
    pub subject: Subject,
    /// The path [default: the straight path, or the target's first]
    #[arg(long, value_name = "PATH", value_parser = PathChoice::parser())]
    pub path: Option<PathChoice>,
    /// How much one operation moves
    #[arg(long, value_name = "SIZE", default_value = "128K")]
    pub block: Size,
    /// What is asked
    #[arg(long, value_name = "OPERATION", value_parser = units::operation(), default_value = "read")]
    pub operation: Operation,
    /// The order of offsets
    #[arg(long, value_name = "PATTERN", value_parser = units::pattern(), default_value = "sequential")]
    pub pattern: Pattern,
    /// Operations in flight; pread and pwrite do one at a time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub queue_depth: u16,
    /// How long samples are taken
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub duration: Time,
    /// Samples a second and processor
    #[arg(long, value_name = "N", default_value_t = 997, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub frequency: u32,
}

impl Profile {
    /// Runs it.
    ///
    /// # Errors
    /// It is not permitted, or the path or perf is missing.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        self.subject.saving.check(context, "profile")?;
        if self.block.0 == 0 || self.duration.0.is_zero() {
            return Err(Failure::usage("a block and a duration are more than 0"));
        }
        let mut perf = Perf::new(&context.roots, self.frequency)?;
        let ready = self.subject.ready(
            context,
            Wants::new(self.path.as_slice(), self.block.0)
                .writing(&[self.operation])
                .depth(self.queue_depth),
        )?;
        let (_, mut path) = ready.path()?;
        let plan = Plan {
            access: Access {
                operation: self.operation,
                pattern: self.pattern,
                block_size_bytes: self.block.0,
            },
            queue_depth: self.queue_depth,
            duration: self.duration.0,
            span_bytes: ready.plan.span_bytes,
        };
        let mut host = BenchHost::new(&ready.bench);
        let request = self.subject.request(&ready);
        let cancel = context.cancel.flag();
        let profiled = profile(&mut host, path.as_mut(), &request, &plan, &mut perf, cancel)?;
        let files = [("callgraph.dot", profiled.to_dot())];
        self.subject.leave(context, &profiled, &files)?;
        valid(&profiled.run)?;
        match profiled.busy_samples >= FEWEST_SAMPLES {
            true => Ok(Exit::Done),
            false => Err(Failure::new(
                Exit::Invalid,
                format!(
                    "{} samples of busy processors are too few to tell shares: {FEWEST_SAMPLES} are \
                     needed",
                    profiled.busy_samples
                ),
            )
            .hint("a longer --duration, or a higher --frequency")),
        }
    }
}
