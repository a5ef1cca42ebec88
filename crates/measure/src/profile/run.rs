// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Takes a profile: runs a closed loop on one path under a sampler.

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

/// A sampler.
pub trait Sampler {
    /// Starts sampling, and returns when samples are being taken.
    ///
    /// # Errors
    /// Something is missing.
    fn start(&mut self) -> Result<(), Missing>;

    /// Stops sampling, and returns the samples.
    ///
    /// # Errors
    /// Something is missing.
    fn stop(&mut self) -> Result<Vec<Stack>, Missing>;
}

/// The load to profile.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The access.
    pub access: Access,
    /// Operations in flight, up to the path's maximum.
    pub queue_depth: u16,
    /// Duration of the sampling.
    pub duration: Duration,
    /// Length of the range of offsets.
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
/// Something is missing, or does not fit.
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
