//! Takes a profile: a closed loop on one path while a sampler looks on.

use super::stacks::Stack;
use super::{Profiled, shares};
use crate::access::{Access, Offsets, Operation, Pattern};
use crate::cell::ClosedLoop;
use crate::host::Host;
use crate::path::{Missing, Path};
use crate::random::Random;
use crate::run_info::{Open, Request, RunInfo, on_stage};
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
    /// Read or write.
    pub operation: Operation,
    /// Sequential or random.
    pub pattern: Pattern,
    /// Bytes of an operation.
    pub block_size_bytes: u64,
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
    let shares = shares(&taken.stacks);
    Ok(Profiled {
        run,
        path: path.name().to_owned(),
        operation: plan.operation,
        pattern: plan.pattern,
        block_size_bytes: plan.block_size_bytes,
        queue_depth: taken.queue_depth,
        operations: taken.operations,
        throughput_mib_s: taken.throughput_mib_s,
        busy_samples: shares.busy,
        idle_samples: shares.idle,
        kinds: shares.kinds,
        functions: shares.functions,
        tree: shares.tree,
    })
}

fn take(
    open: &mut Open<'_>,
    plan: &Plan,
    seed: u64,
    sampler: &mut dyn Sampler,
    cancel: &AtomicBool,
) -> Result<Taken, Missing> {
    let access = Access {
        operation: plan.operation,
        pattern: plan.pattern,
        block_size_bytes: plan.block_size_bytes,
    };
    let queue_depth = open.depth(plan.queue_depth);
    let mut buffers = open.buffers(queue_depth, plan.block_size_bytes)?;
    let mut random = Random::derived(seed, &[0x7066]);
    for buffer in &mut buffers {
        random.fill(buffer);
    }
    let geometry = *open.device.geometry();
    let region = open.path.region(&geometry);
    let offsets = Offsets::new(access, plan.span_bytes, seed, 0);
    let made = ClosedLoop::new(access, offsets, plan.span_bytes, region, &geometry, buffers);
    let mut closed = match made {
        Ok(closed) => closed,
        Err((error, buffers)) => {
            open.release(buffers);
            return Err(Missing::new(error.to_string(), "another --block or --span"));
        }
    };
    let duration_ns = u64::try_from(plan.duration.as_nanos()).unwrap_or(u64::MAX);
    let done = sampler.start().and_then(|()| {
        let tally = closed.run(open.device, open.host.clock(), duration_ns, cancel);
        Ok((tally, sampler.stop()?))
    });
    open.release(closed.into_buffers());
    let (tally, stacks) = done?;
    match tally.first_error {
        Some(error) => Err(Missing::new(format!("a request failed: {error}"), "dmesg")),
        None => Ok(Taken {
            stacks,
            operations: tally.operations,
            throughput_mib_s: tally.bytes as f64
                / f64::from(1u32 << 20)
                / (tally.elapsed_ns.max(1) as f64 / 1e9),
            queue_depth,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::stacks::parse;
    use crate::simulated::{Profile, SimulatedHost};

    struct Canned(bool);

    impl Sampler for Canned {
        fn start(&mut self) -> Result<(), Missing> {
            match self.0 {
                true => Ok(()),
                false => Err(Missing::new("perf is not permitted", "root")),
            }
        }
        fn stop(&mut self) -> Result<Vec<Stack>, Missing> {
            Ok(parse("a\n\tff nvme_queue_rq ([nvme])\n"))
        }
    }

    fn plan() -> Plan {
        Plan {
            operation: Operation::Read,
            pattern: Pattern::Random,
            block_size_bytes: 4096,
            queue_depth: 1,
            duration: Duration::from_millis(5),
            span_bytes: 1 << 20,
        }
    }

    #[test]
    fn the_loop_runs_while_samples_are_taken_and_a_refusal_leaves_no_buffer_out() {
        let mut host = SimulatedHost::new();
        let mut path = host.path(Profile::default());
        let (request, cancel) = (Request::default(), AtomicBool::new(false));
        let mut refused = Canned(false);
        let none = profile(
            &mut host,
            path.as_mut(),
            &request,
            &plan(),
            &mut refused,
            &cancel,
        );
        assert!(none.unwrap_err().to_string().contains("not permitted"));
        let mut sampler = Canned(true);
        let found = profile(
            &mut host,
            path.as_mut(),
            &request,
            &plan(),
            &mut sampler,
            &cancel,
        );
        let found = found.unwrap();
        assert!(found.operations > 0 && found.throughput_mib_s > 0.0);
        assert_eq!((found.busy_samples, found.run.complete), (1, true));
        assert_eq!(found.functions[0].name, "nvme_queue_rq");
    }
}
