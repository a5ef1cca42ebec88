// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the time of each request goes.
//!
//! One operation at a time is stamped before and after its submission, at the start of the poll
//! that found it done, and at its return. On kernel paths a [`Probe`] (tracefs) adds the kernel's
//! events in between; on this project's paths there are only the stamps. A probe may also stamp the
//! application's own points ([`Mark`]), by a profiling timer or the processor's counter. The
//! probe's overhead is measured by alternating the same operations with and without it.

pub mod events;
pub mod parts;
pub mod timeline;

use crate::access::Access;
use crate::host::{Clock, Host};
use crate::operations::Operations;
use crate::path::{Missing, Path};
use crate::run_info::{Request, RunInfo};
use crate::schema::Ci95;
use crate::stage::{Load, Open, on_stage};
use crate::stats;
use crate::tail;
use crate::tally::Tally;
use block::Device;
use events::TraceEvent;
use parts::{PARTS, Split, Stamps, by_events, by_marks, by_stamps};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::shape::{density, exceedance};
use std::sync::atomic::{AtomicBool, Ordering};

/// Minimum number of turns with and without the probe.
const TURNS: u32 = 10;
/// Maximum number of requests in a turn: the kernel's buffer holds the events of this many.
const MOST_A_TURN: u32 = 2000;
/// Number of requests that are shown individually.
const SHOWN: usize = 20;
/// How long one wait may last.
const WAIT_US: u32 = 100_000;

/// A point of a request in the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Before it is submitted.
    Begin,
    /// It was started.
    Started,
    /// It was found done.
    Seen,
    /// It has returned.
    End,
}

/// What a probe recorded.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// The kernel's events.
    pub events: Vec<TraceEvent>,
    /// The application's points and their times, if the probe stamps them.
    pub marks: Vec<(u64, Mark)>,
    /// Number of lost events.
    pub lost: u64,
}

/// What a probe knows of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sees {
    /// The application's own points.
    Marks,
    /// Also system calls, interrupts and sleeps.
    Calls,
    /// Also each command of the driver.
    Commands,
}

/// Records the events of requests.
pub trait Probe {
    /// Starts recording.
    ///
    /// # Errors
    /// Something is missing.
    fn start(&mut self) -> Result<(), Missing>;

    /// Stops, and returns what was recorded.
    ///
    /// # Errors
    /// Something is missing.
    fn stop(&mut self) -> Result<Recorded, Missing>;

    /// What it knows of a request.
    fn sees(&self) -> Sees;

    /// Its name in the result.
    fn source(&self) -> &'static str {
        "tracefs"
    }

    /// Whether it stamps the application's points. Otherwise the host's clock does.
    fn has_marks(&self) -> bool {
        false
    }

    /// Stamps a point of the application, if it [does so](Self::has_marks).
    fn mark(&mut self, mark: Mark) {
        let _ = mark;
    }
}

/// The requests to trace.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The access.
    pub access: Access,
    /// Number of requests with the probe.
    pub requests: u32,
    /// Whether a write is durable when it completes.
    pub durable: bool,
    /// Length of the range of offsets.
    pub span_bytes: u64,
}

/// A part over all requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// Mean.
    pub mean_ns: f64,
    /// Its share of the total.
    pub share: f64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
}

/// Where the time of requests goes on one path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Traced {
    /// Where and when.
    #[serde(flatten)]
    pub run: RunInfo,
    /// The path.
    pub path: String,
    /// The access.
    #[serde(flatten)]
    pub access: Access,
    /// Whether a write is durable when it completes.
    pub durable: bool,
    /// The source of the times: `tracefs`, `timer` (a profiling timer), `counter` (the processor's)
    /// or `driver`.
    pub source: String,
    /// Number of traced requests.
    pub requests: u64,
    /// Mean time of a request.
    pub total_mean_ns: f64,
    /// The parts.
    pub parts: Vec<Part>,
    /// The parts' share of the total.
    pub coverage: f64,
    /// Events that the kernel lost.
    pub lost_events: u64,
    /// Mean number of commands per request; null if unknown.
    pub commands_per_request: Option<f64>,
    /// The probe's overhead on the median request.
    pub probe_cost_ns: f64,
    /// Its interval over turns; null with too few.
    pub probe_cost_ns_ci95: Ci95,
    /// Individual requests: nanoseconds of each part.
    pub shown: Vec<[f64; 6]>,
    /// Total times: share that took longer.
    pub exceedance: Vec<(f64, f64)>,
    /// Total times: shape only.
    pub density: Vec<(f64, f64)>,
}

/// Traces requests on one path; without a probe only by the driver's stamps.
///
/// # Errors
/// Something is missing, or does not fit.
pub fn trace(
    host: &mut dyn Host,
    path: &mut dyn Path,
    request: &Request,
    plan: &Plan,
    mut probe: Option<&mut dyn Probe>,
    cancel: &AtomicBool,
) -> Result<Traced, Missing> {
    let mut run = RunInfo::begin("trace", host, request);
    let seed = request.seed;
    let taken = on_stage(host, path, |open| match &mut probe {
        Some(probe) => turns(open, plan, seed, Some(&mut **probe), cancel),
        None => turns(open, plan, seed, None, cancel),
    })?;
    run.end(host);
    run.complete = !cancel.load(Ordering::Relaxed);
    let source = probe.map(|probe| probe.source());
    Ok(summary(run, path.name(), plan, source, &taken))
}

#[derive(Default)]
struct Taken {
    splits: Vec<Split>,
    with_ns: Vec<f64>,
    without_ns: Vec<f64>,
    lost: u64,
}

fn turns(
    open: &mut Open<'_>,
    plan: &Plan,
    seed: u64,
    mut probe: Option<&mut (dyn Probe + '_)>,
    cancel: &AtomicBool,
) -> Result<Taken, Missing> {
    let load = Load::new(plan.access, plan.span_bytes, 1, seed);
    let make = |all: Operations| all.durable(plan.durable);
    let mut taken = Taken::default();
    let turns = plan.requests.div_ceil(MOST_A_TURN).max(TURNS);
    let each = plan.requests.div_ceil(turns).max(1);
    let mut stamps = vec![Stamps::default(); each as usize];
    open.with(&load, make, |open, operations| {
        let mut take = |stamps: &mut [Stamps], probe: Option<&mut (dyn Probe + '_)>| {
            let clock = open.host.clock();
            stamp(operations, open.device, clock, stamps, probe, cancel)
        };
        take(&mut stamps, None)?;
        for turn in 0..turns {
            // The order alternates from turn to turn.
            for with in [turn % 2 == 0, turn % 2 != 0] {
                let probe = probe.as_deref_mut().filter(|_| with);
                let Some(probe) = probe else {
                    if !take(&mut stamps, None)? {
                        return Ok(());
                    }
                    taken.without_ns.extend(median(&stamps));
                    if with {
                        taken.splits.extend(stamps.iter().map(by_stamps));
                        taken.with_ns.extend(median(&stamps));
                    }
                    continue;
                };
                probe.start()?;
                let looped = take(&mut stamps, Some(&mut *probe));
                let recorded = probe.stop()?;
                if !looped? {
                    // Some stamps are of an earlier turn.
                    return Ok(());
                }
                taken.lost += recorded.lost;
                let marked = by_marks(&recorded.marks);
                let stamps = if marked.is_empty() { &stamps } else { &marked };
                taken.with_ns.extend(median(stamps));
                let sees = probe.sees();
                let split = |stamps| match sees {
                    Sees::Marks => by_stamps(stamps),
                    sees => by_events(stamps, &recorded.events, sees == Sees::Commands),
                };
                taken.splits.extend(stamps.iter().map(split));
            }
        }
        Ok(())
    })?;
    Ok(taken)
}

fn median(stamps: &[Stamps]) -> Option<f64> {
    let totals: Vec<f64> = stamps
        .iter()
        .map(|one| one.end_ns.saturating_sub(one.begin_ns) as f64)
        .collect();
    stats::median(&totals)
}

/// Runs one request for each entry of `stamps`; returns whether all were done.
fn stamp(
    operations: &mut Operations,
    device: &mut dyn Device,
    clock: &dyn Clock,
    stamps: &mut [Stamps],
    mut probe: Option<&mut (dyn Probe + '_)>,
    cancel: &AtomicBool,
) -> Result<bool, Missing> {
    operations.prepare(device.geometry());
    let has_marks = probe.as_ref().is_some_and(|probe| probe.has_marks());
    let mut now_ns = |mark| match &mut probe {
        Some(probe) if has_marks => {
            probe.mark(mark);
            0
        }
        _ => clock.now_ns(),
    };
    let mut tally = Tally::default();
    for place in stamps {
        if cancel.load(Ordering::Relaxed) {
            return Ok(false);
        }
        if !operations.flight.has_idle() {
            return Err(Missing::new("the device kept a buffer", "dmesg"));
        }
        let begin_ns = now_ns(Mark::Begin);
        let (mut started_ns, mut seen_ns) = (begin_ns, begin_ns);
        operations.begin::<false>(device, 0, &mut tally);
        let flight = &mut operations.flight;
        // Bounded: each pass submits a request or takes one back.
        while !flight.is_empty::<false>() {
            flight.submit::<false>(device, &mut tally);
            if flight.kick(device) {
                started_ns = now_ns(Mark::Started);
            }
            let polled_ns = if has_marks { 0 } else { clock.now_ns() };
            if let Some(completion) = device.poll() {
                // A mark of each empty poll would fill the probe's memory.
                seen_ns = if has_marks {
                    now_ns(Mark::Seen)
                } else {
                    polled_ns
                };
                flight.take_back::<false>(completion, &mut tally);
            } else if flight.outstanding() > 0 {
                device.wait(WAIT_US);
            }
        }
        *place = Stamps {
            begin_ns,
            started_ns,
            seen_ns,
            end_ns: now_ns(Mark::End),
        };
        if let Some(error) = tally.first_error {
            return Err(Missing::new(format!("a request failed: {error}"), "dmesg"));
        }
    }
    Ok(true)
}

fn summary(run: RunInfo, path: &str, plan: &Plan, source: Option<&str>, taken: &Taken) -> Traced {
    let probed = source.is_some();
    let count = taken.splits.len().max(1) as f64;
    let total: f64 = taken.splits.iter().map(|split| split.total_ns).sum();
    let explained: f64 = taken.splits.iter().flat_map(|split| split.parts).sum();
    let part = |(index, name): (usize, &&str)| {
        let of_part = |split: &Split| split.parts.get(index).copied().unwrap_or(0.0);
        let sum: f64 = taken.splits.iter().map(of_part).sum();
        let splits = taken.splits.iter();
        let series: Vec<u64> = splits.map(|split| of_part(split) as u64).collect();
        Part {
            name: (*name).to_owned(),
            mean_ns: sum / count,
            share: sum / total.max(1.0),
            p50_ns: tail::quantile(&series, 0.5).unwrap_or(0),
            p99_ns: tail::quantile(&series, 0.99).unwrap_or(0),
        }
    };
    let pairs = taken.with_ns.iter().zip(&taken.without_ns);
    let differences: Vec<f64> = pairs.filter(|_| probed).map(|(a, b)| a - b).collect();
    let probe_cost_ns_ci95 = stats::mean_interval(&differences, run.seed);
    let splits = || taken.splits.iter();
    let totals: Vec<u64> = splits().map(|split| split.total_ns as u64).collect();
    let commands: f64 = splits().map(|split| f64::from(split.commands)).sum();
    Traced {
        run,
        path: path.to_owned(),
        access: plan.access,
        durable: plan.durable,
        source: source.unwrap_or("driver").to_owned(),
        requests: taken.splits.len() as u64,
        total_mean_ns: total / count,
        parts: PARTS.iter().enumerate().map(part).collect(),
        coverage: explained / total.max(1.0),
        lost_events: taken.lost,
        commands_per_request: (probed && commands > 0.0).then_some(commands / count),
        probe_cost_ns: stats::mean(&differences).unwrap_or(0.0),
        probe_cost_ns_ci95,
        shown: splits().take(SHOWN).map(|split| split.parts).collect(),
        exceedance: exceedance(&totals),
        density: density(&totals),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Operation, Pattern};
    use crate::simulated::{Profile, SimulatedHost};

    fn plan() -> Plan {
        Plan {
            access: Access {
                operation: Operation::Read,
                pattern: Pattern::Random,
                block_size_bytes: 4096,
            },
            requests: 100,
            durable: false,
            span_bytes: 1 << 20,
        }
    }

    #[test]
    fn the_driver_s_stamps_cover_a_request_and_cost_nothing_more() {
        let mut host = SimulatedHost::new();
        let mut path = host.path(Profile::default());
        let cancel = AtomicBool::new(false);
        let request = Request::default();
        let traced = trace(&mut host, path.as_mut(), &request, &plan(), None, &cancel).unwrap();
        assert_eq!((traced.requests, traced.source.as_str()), (100, "driver"));
        assert!(traced.coverage > 0.999, "{}", traced.coverage);
        assert_eq!(traced.probe_cost_ns, 0.0);
        assert_eq!(traced.shown.len(), SHOWN);
        let sum: f64 = traced.parts.iter().map(|part| part.mean_ns).sum();
        assert!((sum / traced.total_mean_ns - 1.0).abs() < 1e-6);
    }

    /// A probe that records nothing.
    struct Blind;

    impl Probe for Blind {
        fn start(&mut self) -> Result<(), Missing> {
            Ok(())
        }
        fn stop(&mut self) -> Result<Recorded, Missing> {
            Ok(Recorded {
                lost: 3,
                ..Recorded::default()
            })
        }
        fn sees(&self) -> Sees {
            Sees::Commands
        }
    }

    /// A probe that stamps the application's points by a clock of its own, 10 ns apart.
    #[derive(Default)]
    struct Marking {
        now_ns: u64,
        marks: Vec<(u64, Mark)>,
    }

    impl Probe for Marking {
        fn start(&mut self) -> Result<(), Missing> {
            self.marks.clear();
            Ok(())
        }
        fn stop(&mut self) -> Result<Recorded, Missing> {
            Ok(Recorded {
                marks: self.marks.clone(),
                ..Recorded::default()
            })
        }
        fn sees(&self) -> Sees {
            Sees::Marks
        }
        fn source(&self) -> &'static str {
            "timer"
        }
        fn has_marks(&self) -> bool {
            true
        }
        fn mark(&mut self, mark: Mark) {
            self.now_ns += 10;
            self.marks.push((self.now_ns, mark));
        }
    }

    #[test]
    fn a_probe_that_stamps_the_application_gives_all_times() {
        let mut host = SimulatedHost::new();
        let mut path = host.path(Profile::default());
        let cancel = AtomicBool::new(false);
        let request = Request::default();
        let mut probe = Marking::default();
        let probe: Option<&mut dyn Probe> = Some(&mut probe);
        let traced = trace(&mut host, path.as_mut(), &request, &plan(), probe, &cancel).unwrap();
        assert_eq!((traced.requests, traced.source.as_str()), (100, "timer"));
        assert_eq!((traced.total_mean_ns, traced.coverage), (30.0, 1.0));
        assert_eq!(traced.shown[0], [0.0, 10.0, 10.0, 0.0, 10.0, 0.0]);
    }

    #[test]
    fn what_was_not_seen_is_not_covered() {
        let mut host = SimulatedHost::new();
        let mut path = host.path(Profile::default());
        let cancel = AtomicBool::new(false);
        let request = Request::default();
        let mut probe = Blind;
        let probe: Option<&mut dyn Probe> = Some(&mut probe);
        let traced = trace(&mut host, path.as_mut(), &request, &plan(), probe, &cancel).unwrap();
        assert_eq!((traced.coverage, traced.lost_events), (0.0, 30));
        assert!(traced.probe_cost_ns_ci95.is_some());
    }
}
