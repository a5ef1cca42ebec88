// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a path sustains a rate with a deadline.
//!
//! Blocks arrive by the clock ([`crate::open_loop`]). A block that is not done by its deadline,
//! counted from its intended arrival, is a miss; so is a block that failed or never started. The
//! verdict is about the *rate of misses*, because a run without misses proves only that they are
//! rare: 0 in N leave a rate of 3/N possible.
//!
//! * SUSTAINS: the rate of misses is at most the tolerated one, with 95 % confidence.
//! * DOES NOT: it is more, with 95 % confidence.
//! * NOT ENOUGH DATA: neither; the run length that would decide is given.
//! * CANNOT TELL: the run is not valid, as on a busy machine: no statement about the drive.

use crate::access::Access;
use crate::format::{nanos, share};
use crate::host::Host;
use crate::open_loop::{OpenLoop, OpenRun, Schedule};
use crate::path::{Missing, Path};
use crate::run_info::{Request, RunInfo};
use crate::stage::{Load, on_stage};
use crate::tail;
use crate::trend;
use crate::warm_up::{WarmUp, warm_up};
use crate::why::{Lateness, Watch, explain};
use remedy::{Remedy, Setting};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::shape::{density, exceedance};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Points of the timeline.
const TIMELINE_POINTS: usize = 200;
/// Number of batches for the drift test.
const DRIFT_BATCHES: usize = 20;

/// The question.
#[derive(Clone, Debug)]
pub struct Question {
    /// The access.
    pub access: Access,
    /// Arrivals per second.
    pub arrivals_per_s: f64,
    /// From the intended arrival to completion.
    pub deadline: Duration,
    /// Measured time.
    pub duration: Duration,
    /// Warm-up time before it.
    pub warm_up: Duration,
    /// Maximum number of operations in flight.
    pub queue_depth: u16,
    /// Length of the range of offsets.
    pub span_bytes: u64,
    /// The rate of misses that is tolerated.
    pub miss_rate: f64,
    /// Whether to look for why blocks are late.
    pub why: bool,
}

named! {
    /// The answer.
    pub enum Verdict {
        /// Misses are as rare as required.
        Sustains = "SUSTAINS",
        /// Misses are more frequent.
        DoesNot = "DOES NOT",
        /// The run was too short.
        NotEnoughData = "NOT ENOUGH DATA",
        /// The run is not valid, and says nothing about the path.
        CannotTell = "CANNOT TELL",
    }
}

/// Times of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Times {
    /// Half took at most this long.
    pub p50_ns: u64,
    /// Its 95 % interval; null if too few independent samples.
    pub p50_ns_ci95: Option<[u64; 2]>,
    /// 99 %.
    pub p99_ns: u64,
    /// Its interval.
    pub p99_ns_ci95: Option<[u64; 2]>,
    /// 99.9 %; null if no sample is above it.
    pub p999_ns: Option<u64>,
    /// Its interval.
    pub p999_ns_ci95: Option<[u64; 2]>,
    /// The longest.
    pub max_ns: u64,
    /// The share that took longer: time in ns, share.
    pub exceedance: Vec<(f64, f64)>,
    /// Shape only: time in ns, density per decade.
    pub density: Vec<(f64, f64)>,
}

impl Times {
    /// Computes the figures of a series in the order of time.
    pub fn of(series: &[u64]) -> Self {
        let at = |q| tail::quantile(series, q);
        let interval = |q| tail::percentile_in_time(series, q).map(|p| p.ci95);
        Self {
            p50_ns: at(0.5).unwrap_or(0),
            p50_ns_ci95: interval(0.5),
            p99_ns: at(0.99).unwrap_or(0),
            p99_ns_ci95: interval(0.99),
            p999_ns: at(0.999).filter(|_| series.len() > 1000),
            p999_ns_ci95: interval(0.999),
            max_ns: series.iter().copied().max().unwrap_or(0),
            exceedance: exceedance(series),
            density: density(series),
        }
    }
}

/// A section of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stretch {
    /// Its first arrival, from the start.
    pub from_ns: u64,
    /// The median of its response times.
    pub p50_ns: u64,
    /// The longest of them.
    pub max_ns: u64,
}

/// Whether one path sustained the rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sustained {
    /// Where and when.
    #[serde(flatten)]
    pub run: RunInfo,
    /// The path.
    pub path: String,
    /// Whether a processor spins.
    pub polls: bool,
    /// The access.
    #[serde(flatten)]
    pub access: Access,
    /// Arrivals per second.
    pub arrivals_per_s: f64,
    /// The resulting rate.
    pub rate_mib_s: f64,
    /// From the intended arrival to completion.
    pub deadline_ns: u64,
    /// The rate of misses that is tolerated.
    pub tolerated_miss_rate: f64,
    /// Maximum number of operations in flight.
    pub queue_depth: u16,
    /// The answer.
    pub verdict: Verdict,
    /// The reason in a sentence.
    pub reason: String,
    /// Arrivals that were counted.
    pub arrivals: u64,
    /// Misses among them.
    pub misses: u64,
    /// Operations that failed.
    pub errors: u64,
    /// The first failure.
    pub first_error: Option<String>,
    /// Arrivals that had not started when the run was given up.
    pub unserved: u64,
    /// The rate of misses, one-sided 95 % bounds: at least, at most.
    pub miss_rate_bounds: [f64; 2],
    /// Number of misses that count as one, because they come in bursts; 1 if they are independent.
    pub burstiness: f64,
    /// The run length that would decide; null if this run decided, or if the rate of misses is so
    /// close to the tolerated one that no length would.
    pub needed_duration_s: Option<f64>,
    /// Maximum number of blocks that had arrived and were not done.
    pub peak_backlog_blocks: u64,
    /// The smallest buffer that would have lost nothing: those blocks plus the one being filled;
    /// null if the device fell behind and no buffer is large enough.
    pub smallest_safe_buffer_bytes: Option<u64>,
    /// From the intended arrival to completion: what a periodic task sees.
    pub response: Times,
    /// From submission to completion: what a closed loop sees.
    pub service: Times,
    /// Operations at the start that were still warming up; null if this cannot be determined.
    pub warming_up: Option<u64>,
    /// Whether response times drifted over the run.
    pub drifting: bool,
    /// The run in sections.
    pub timeline: Vec<Stretch>,
    /// Why blocks were late; null if that was not asked for.
    #[serde(default)]
    pub why: Option<Lateness>,
}

/// The raw samples.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Response times in the order of arrivals.
    pub response_ns: Vec<u64>,
    /// Service times.
    pub service_ns: Vec<u64>,
    /// When each was due, from the start.
    pub due_ns: Vec<u64>,
}

impl Samples {
    /// CSV with one line per arrival, and a heading.
    pub fn to_csv(&self) -> String {
        let mut text = String::from("arrival,due_ns,response_ns,service_ns\n");
        let rows = self
            .due_ns
            .iter()
            .zip(&self.response_ns)
            .zip(&self.service_ns);
        for (index, ((due, response), service)) in rows.enumerate() {
            text.push_str(&format!("{index},{due},{response},{service}\n"));
        }
        text
    }
}

/// Measures one path.
///
/// # Errors
/// Something is missing, or does not fit.
pub fn sustain(
    host: &mut dyn Host,
    path: &mut dyn Path,
    request: &Request,
    question: &Question,
    cancel: &AtomicBool,
) -> Result<(Sustained, Samples), Missing> {
    let deadline_ns = nanos(question.deadline);
    let grace_ns = 1_000_000_000u64
        .max(deadline_ns.saturating_mul(2))
        .saturating_add(nanos(question.duration) / 10);
    let schedule = |duration| {
        Schedule::new(question.arrivals_per_s, nanos(duration), grace_ns).ok_or_else(|| {
            Missing::new(
                "the run has no arrival, or more than can be recorded",
                Remedy::one_of([
                    Remedy::More(Setting::Duration),
                    Remedy::from("a rate that suits the block size"),
                ]),
            )
        })
    };
    let counted = schedule(question.duration)?;
    let before = if question.warm_up.is_zero() {
        None
    } else {
        Some(schedule(question.warm_up)?)
    };
    let mut info = RunInfo::begin("sustain", host, request);
    let (depth, run, why) = on_stage(host, path, |open| {
        let depth = open.depth(question.queue_depth);
        let load = Load::new(question.access, question.span_bytes, depth, request.seed);
        open.with(&load, OpenLoop::new, |open, open_loop| {
            let mut gauge = question.why.then(|| open.host.gauge());
            let clock = open.host.clock();
            if let Some(before) = &before {
                open_loop.run(open.device, clock, before, cancel);
            }
            let Some(gauge) = &mut gauge else {
                let run = open_loop.run(open.device, clock, &counted, cancel);
                return Ok((depth, run, None));
            };
            let duration_ns = counted.duration_ns().saturating_add(grace_ns);
            let mut watch = Watch::new(gauge.as_mut(), deadline_ns, duration_ns);
            let run = open_loop.run_watched(open.device, clock, &counted, cancel, &mut watch);
            let readings = (watch.start_ns, watch.readings.as_slice());
            let why = explain(&run, &counted, deadline_ns, depth, readings);
            Ok((depth, run, Some(why)))
        })
    })?;
    info.end(host);
    info.complete = !run.tally.cancelled;
    let samples = Samples {
        due_ns: (0..run.response_ns.len() as u64)
            .map(|index| counted.at(index))
            .collect(),
        response_ns: run.response_ns.clone(),
        service_ns: run.service_ns.clone(),
    };
    let names = (path.name().to_owned(), path.polls());
    let mut sustained = judge(info, question, names, depth, &counted, &run);
    sustained.why = why;
    Ok((sustained, samples))
}

/// Whether each arrival was missed.
fn misses(run: &OpenRun, deadline_ns: u64) -> Vec<f64> {
    let rows = run.response_ns.iter().zip(&run.failed);
    rows.map(|(ns, failed)| f64::from(u8::from(*failed || *ns > deadline_ns)))
        .collect()
}

fn judge(
    info: RunInfo,
    question: &Question,
    (path, polls): (String, bool),
    queue_depth: u16,
    schedule: &Schedule,
    run: &OpenRun,
) -> Sustained {
    let deadline_ns = nanos(question.deadline);
    let missed = misses(run, deadline_ns);
    let arrivals = missed.len() as u64;
    let count = missed.iter().sum::<f64>();
    let burstiness = tail::inflation(&missed);
    let (n, k) = (arrivals as f64 / burstiness, count / burstiness);
    let bounds = [
        tail::miss_rate_at_least(k, n),
        tail::miss_rate_at_most(k, n),
    ];
    let tolerated = question.miss_rate;
    let mut verdict = match bounds {
        [low, _] if low > tolerated => Verdict::DoesNot,
        [_, high] if high <= tolerated => Verdict::Sustains,
        _ => Verdict::NotEnoughData,
    };
    let fell_behind = run.unserved > 0;
    if fell_behind && !run.tally.cancelled {
        verdict = Verdict::DoesNot;
    }
    if !info.valid {
        verdict = Verdict::CannotTell;
    }
    let needed = needed_arrivals(arrivals, count, burstiness, tolerated);
    let needed_duration_s = (verdict == Verdict::NotEnoughData)
        .then_some(needed)
        .flatten()
        .map(|needed| needed * schedule.interval_ns() / 1e9);
    let reason = match verdict {
        Verdict::CannotTell => {
            format!("the run is not valid: {}", info.invalid_reasons.join("; "))
        }
        Verdict::DoesNot if fell_behind => format!(
            "it fell behind: {} of {arrivals} arrivals had not started when the run was given up",
            run.unserved
        ),
        Verdict::NotEnoughData => format!(
            "{count} of {arrivals} arrivals missed the deadline, so the rate may be {} to {}, and \
             {} is tolerated",
            share(bounds[0]),
            share(bounds[1]),
            share(tolerated)
        ),
        Verdict::DoesNot => format!(
            "{count} of {arrivals} arrivals missed the deadline: a rate of at least {}, but {} is tolerated",
            share(bounds[0]),
            share(tolerated)
        ),
        Verdict::Sustains => format!(
            "{count} of {arrivals} arrivals missed the deadline: a rate of at most {}, and {} is tolerated",
            share(bounds[1]),
            share(tolerated)
        ),
    };
    let is_bounded =
        !fell_behind && run.end_backlog <= run.peak_backlog / 2 + u64::from(queue_depth);
    let floats: Vec<f64> = run.response_ns.iter().map(|ns| *ns as f64).collect();
    Sustained {
        run: info,
        path,
        polls,
        access: question.access,
        arrivals_per_s: question.arrivals_per_s,
        rate_mib_s: question.arrivals_per_s * question.access.block_size_bytes as f64
            / (1u64 << 20) as f64,
        deadline_ns,
        tolerated_miss_rate: tolerated,
        queue_depth,
        verdict,
        reason,
        arrivals,
        misses: count as u64,
        errors: run.tally.errors,
        first_error: run.tally.first_error.map(|error| error.to_string()),
        unserved: run.unserved,
        miss_rate_bounds: bounds,
        burstiness,
        needed_duration_s,
        peak_backlog_blocks: run.peak_backlog,
        smallest_safe_buffer_bytes: is_bounded
            .then(|| (run.peak_backlog + 1) * question.access.block_size_bytes),
        response: Times::of(&run.response_ns),
        service: Times::of(&run.service_ns),
        warming_up: match warm_up(&floats) {
            WarmUp::Over(operations) => Some(operations as u64),
            WarmUp::NeverSettled | WarmUp::TooFew => None,
        },
        drifting: is_drifting(&floats),
        timeline: timeline(&run.response_ns, schedule),
        why: None,
    }
}

/// Drift of the medians of batches: single stalls do not move them.
fn is_drifting(series: &[f64]) -> bool {
    let batch = series.len() / DRIFT_BATCHES;
    if batch < 5 {
        return false;
    }
    let medians: Vec<f64> = series
        .chunks_exact(batch)
        .filter_map(crate::stats::median)
        .collect();
    trend::is_drifting(&medians)
}

/// The minimum number of arrivals that would decide if misses continued at this rate.
fn needed_arrivals(arrivals: u64, misses: f64, burstiness: f64, tolerated: f64) -> Option<f64> {
    if misses == 0.0 {
        return Some(tail::samples_for_rate(tolerated) as f64);
    }
    let share = misses / arrivals.max(1) as f64;
    let mut n = arrivals.max(1) as f64;
    // Doubling, then halving the last step: 40 steps reach a million million arrivals.
    let tells = |n: f64| {
        let (n, k) = (n / burstiness, n * share / burstiness);
        tail::miss_rate_at_most(k, n) <= tolerated || tail::miss_rate_at_least(k, n) > tolerated
    };
    for _ in 0..24 {
        if tells(n) {
            break;
        }
        n *= 2.0;
    }
    if !tells(n) {
        return None;
    }
    let (mut low, mut high) = (n / 2.0, n);
    for _ in 0..20 {
        let middle = (low + high) / 2.0;
        if tells(middle) {
            high = middle
        } else {
            low = middle
        }
    }
    Some(high.ceil())
}

fn timeline(response_ns: &[u64], schedule: &Schedule) -> Vec<Stretch> {
    let size = response_ns.len().div_ceil(TIMELINE_POINTS).max(1);
    let stretches = response_ns.chunks(size).enumerate();
    stretches
        .map(|(index, chunk)| Stretch {
            from_ns: schedule.at((index * size) as u64),
            p50_ns: tail::quantile(chunk, 0.5).unwrap_or(0),
            max_ns: chunk.iter().copied().max().unwrap_or(0),
        })
        .collect()
}

#[cfg(test)]
#[path = "sustain_tests.rs"]
mod tests;
