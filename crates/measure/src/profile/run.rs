//! Takes a profile: a closed loop on one path while a sampler looks on.

use super::stacks::Stack;
use super::{Profiled, shares};
use crate::access::Access;
use crate::cell::ClosedLoop;
use crate::format::nanos;
use crate::host::Host;
use crate::path::{Missing, Path};
use crate::run_info::{Request, RunInfo};
use crate::stage::{Load, Open, on_stage};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What looks on.
pub trait Sampler {
    /// Begins to take samples, and returns when it does.
    ///
    /// # Errors
    /// What is missing.
    fn start(&mut self) -> Result<(), Missing>;

    /// Ends, and gives what was taken.
    ///
    /// # Errors
    /// What is missing.
    fn stop(&mut self) -> Result<Vec<Stack>, Missing>;
}

/// What is profiled.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What is asked of it.
    pub access: Access,
    /// Operations in flight, as far as the path can.
    pub queue_depth: u16,
    /// How long samples are taken.
    pub duration: Duration,
    /// Offsets are spread over this much.
    pub span_bytes: u64,
}

struct Taken {
    stacks: Vec<Stack>,
    operations: u64,
    throughput_mib_s: f64,
    queue_depth: u16,
}

/// Profiles one path.
///
/// # Errors
/// What is missing, or does not fit.
pub fn profile(
    host: &mut dyn Host,
    path: &mut dyn Path,
    request: &Request,
    plan: &Plan,
    sampler: &mut dyn Sampler,
    cancel: &AtomicBool,
) -> Result<Profiled, Missing> {
    let mut run = RunInfo::begin("profile", host, request);
    let taken = on_stage(host, path, |open| {
        take(open, plan, request.seed, sampler, cancel)
    })?;
    run.end(host);
    run.complete = !cancel.load(Ordering::Relaxed);
    Ok(Profiled {
        run,
        path: path.name().to_owned(),
        access: plan.access,
        queue_depth: taken.queue_depth,
        operations: taken.operations,
        throughput_mib_s: taken.throughput_mib_s,
        shares: shares(&taken.stacks),
    })
}

fn take(
    open: &mut Open<'_>,
    plan: &Plan,
    seed: u64,
    sampler: &mut dyn Sampler,
    cancel: &AtomicBool,
) -> Result<Taken, Missing> {
    let queue_depth = open.depth(plan.queue_depth);
    let load = Load::new(plan.access, plan.span_bytes, queue_depth, seed);
    let (tally, stacks) = open.with(&load, ClosedLoop::new, |open, closed| {
        sampler.start()?;
        let tally = closed.run(open.device, open.host.clock(), nanos(plan.duration), cancel);
        Ok((tally, sampler.stop()?))
    })?;
    match tally.first_error {
        Some(error) => Err(Missing::new(format!("a request failed: {error}"), "dmesg")),
        None => Ok(Taken {
            stacks,
            operations: tally.operations,
            throughput_mib_s: tally.mib_s(),
            queue_depth,
        }),
    }
}
