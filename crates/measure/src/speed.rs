// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How each path depends on the processor's speed.
//!
//! The same cells are measured at several speeds. The time of an operation is split into a part
//! that grows as the processor slows down, and a constant part: `T(s) = work / s + rest`, with the
//! fastest speed as `s = 1`. The split is a least-squares fit of relative errors over the speeds,
//! neither part below 0; its interval comes from resampled rounds.
//!
//! A speed is measured, never read from a label: a loop of a fixed number of dependent operations
//! is timed before each point. So points of one board at several frequencies and points of a
//! virtual machine at several `--icount` shifts are joined in the same way.

use crate::access::Access;
use crate::format::distinct;
use crate::host::Clock;
use crate::random::Random;
use crate::run_info::RunInfo;
use crate::schema::{Ci95, PathResult};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::hint::black_box;

/// Number of dependent operations of the loop that measures the speed.
const LOOP_OPERATIONS: u64 = 200_000;
/// Number of repetitions; the shortest time counts, because disturbances only make it longer.
const LOOP_TURNS: u32 = 15;
/// Two points have the same speed if their loops differ by less than this.
const SAME_SPEED: f64 = 0.02;
/// Number of resampled sets of rounds.
const RESAMPLES: usize = 400;
/// Minimum number of rounds at each speed for an interval, as everywhere.
const MIN_ROUNDS: usize = 5;

/// The measurements at one speed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// What sets the speed, such as `600000 kHz`.
    pub label: String,
    /// Time of the fixed loop.
    pub loop_ns: u64,
    /// Each path and access.
    pub results: Vec<PathResult>,
}

/// One path and access over the speeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Scaling {
    /// The path.
    pub path: String,
    /// The access.
    #[serde(flatten)]
    pub access: Access,
    /// Operations in flight.
    pub queue_depth: u16,
    /// Speed, 1 is the fastest; rate in MiB/s.
    pub rates: Vec<(f64, f64)>,
    /// The rate at the fastest speed over that at the slowest.
    pub gain: f64,
    /// The part of an operation's time that grows as the processor slows down, at the fastest
    /// speed.
    pub work_ns: f64,
    /// The constant part.
    pub rest_ns: f64,
    /// The share of the first part: 1 is a path that only the processor limits.
    pub work_share: f64,
    /// Its interval; null with fewer than 5 rounds at a speed.
    pub work_share_ci95: Ci95,
    /// The largest relative deviation of a measured time from the model: above 0.1 the two parts do
    /// not describe the path.
    pub misfit: f64,
}

/// How each path depends on the processor's speed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Speed {
    /// The record of the run; of the first run, if several were joined.
    #[serde(flatten)]
    pub run: RunInfo,
    /// The speeds, the fastest first.
    pub points: Vec<Point>,
    /// One entry for each path and access that was measured at two speeds or more.
    pub scalings: Vec<Scaling>,
}

/// Times a loop of a fixed number of dependent operations.
pub fn loop_ns(clock: &dyn Clock) -> u64 {
    let one = || {
        let begin_ns = clock.now_ns();
        let mut state = black_box(1u64);
        for _ in 0..LOOP_OPERATIONS {
            // Each multiplication waits for the previous one: no processor can overlap them.
            state = state.wrapping_mul(6_364_136_223_846_793_005) ^ (state >> 29);
        }
        black_box(state);
        clock.now_ns().saturating_sub(begin_ns).max(1)
    };
    (0..LOOP_TURNS).map(|_| one()).min().unwrap_or(1)
}

/// The key of a scaling.
type Key<'a> = (&'a str, Access, u16);

fn key(result: &PathResult) -> Key<'_> {
    (&result.path, result.access, result.queue_depth)
}

impl Speed {
    /// Orders the points and computes the scalings.
    pub fn of(run: RunInfo, mut points: Vec<Point>) -> Self {
        points.sort_by_key(|point| point.loop_ns);
        let results = points.iter().flat_map(|point| &point.results);
        let scalings = distinct(results.map(key))
            .into_iter()
            .filter_map(|key| scaling(&points, key, run.seed))
            .collect();
        Self {
            run,
            points,
            scalings,
        }
    }

    /// Number of different speeds.
    pub fn speeds(&self) -> usize {
        let mut last = 0.0;
        let mut count = 0;
        for point in &self.points {
            let now = point.loop_ns as f64;
            if count == 0 || now > last * (1.0 + SAME_SPEED) {
                count += 1;
                last = now;
            }
        }
        count
    }

    /// CSV with one line for each path, access and speed, and a heading.
    pub fn to_csv(&self) -> String {
        let mut text = String::from(
            "path,operation,pattern,block_size_bytes,queue_depth,speed,throughput_mib_s,work_ns,rest_ns\n",
        );
        for one in &self.scalings {
            for (speed, rate) in &one.rates {
                text += &format!(
                    "{},{},{},{},{},{speed},{rate},{},{}\n",
                    one.path,
                    one.access.operation,
                    one.access.pattern,
                    one.access.block_size_bytes,
                    one.queue_depth,
                    one.work_ns,
                    one.rest_ns
                );
            }
        }
        text
    }
}

/// Times of one operation at one speed, one for each round.
struct Rounds {
    speed: f64,
    rate: f64,
    times_ns: Vec<f64>,
}

fn scaling(points: &[Point], wanted: Key<'_>, seed: u64) -> Option<Scaling> {
    let fastest = points.iter().map(|point| point.loop_ns).min()?.max(1) as f64;
    let rounds: Vec<Rounds> = points
        .iter()
        .filter_map(|point| {
            let result = point.results.iter().find(|one| key(one) == wanted)?;
            let counted = result.samples.iter().filter(|one| one.operations > 0);
            let times_ns: Vec<f64> = counted
                .map(|one| one.elapsed_ns as f64 / one.operations as f64)
                .collect();
            (!times_ns.is_empty()).then_some(Rounds {
                speed: fastest / point.loop_ns.max(1) as f64,
                rate: result.throughput_mib_s,
                times_ns,
            })
        })
        .collect();
    let (first, last) = (rounds.first()?, rounds.last()?);
    if first.speed / last.speed < 1.0 + SAME_SPEED {
        return None;
    }
    let means: Vec<(f64, f64)> = rounds
        .iter()
        .map(|one| (one.speed, mean(one.times_ns.iter().copied())))
        .collect();
    let split = Split::fit(&means)?;
    let misfit = means
        .iter()
        .map(|(speed, time)| (split.at(*speed) / time - 1.0).abs())
        .fold(0.0, f64::max);
    let (path, access, queue_depth) = wanted;
    Some(Scaling {
        path: path.to_owned(),
        access,
        queue_depth,
        rates: rounds.iter().map(|one| (one.speed, one.rate)).collect(),
        gain: first.rate / last.rate.max(f64::MIN_POSITIVE),
        work_ns: split.work,
        rest_ns: split.rest,
        work_share: split.share(),
        work_share_ci95: interval(&rounds, seed),
        misfit,
    })
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}

/// `T(s) = work / s + rest`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Split {
    work: f64,
    rest: f64,
}

impl Split {
    /// Least squares of relative errors, both parts at least 0. `None` for fewer than two points.
    fn fit(points: &[(f64, f64)]) -> Option<Self> {
        if points.len() < 2 || points.iter().any(|(s, t)| *s <= 0.0 || *t <= 0.0) {
            return None;
        }
        // In units of T: (work / s + rest) / T should be 1.
        let sum = |f: fn(f64, f64) -> f64| points.iter().map(|(s, t)| f(*s, *t)).sum::<f64>();
        let a = sum(|s, t| 1.0 / (s * t * s * t));
        let b = sum(|s, t| 1.0 / (s * t * t));
        let c = sum(|_, t| 1.0 / (t * t));
        let (u, v) = (sum(|s, t| 1.0 / (s * t)), sum(|_, t| 1.0 / t));
        let determinant = a * c - b * b;
        if determinant <= 1e-12 * a * c {
            return None;
        }
        let work = (u * c - v * b) / determinant;
        let rest = (a * v - b * u) / determinant;
        Some(match (work < 0.0, rest < 0.0) {
            (_, true) => Self {
                work: u / a,
                rest: 0.0,
            },
            (true, _) => Self {
                work: 0.0,
                rest: v / c,
            },
            _ => Self { work, rest },
        })
    }

    fn at(self, speed: f64) -> f64 {
        self.work / speed + self.rest
    }

    fn share(self) -> f64 {
        self.work / self.at(1.0).max(f64::MIN_POSITIVE)
    }
}

/// The 95 % interval of the share of work, over resampled rounds of each speed.
fn interval(rounds: &[Rounds], seed: u64) -> Ci95 {
    if rounds.iter().any(|one| one.times_ns.len() < MIN_ROUNDS) {
        return None;
    }
    let mut random = Random::derived(seed, &[0x7370]);
    let mut shares: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            let points: Vec<(f64, f64)> = rounds
                .iter()
                .map(|one| {
                    let count = one.times_ns.len();
                    let drawn = (0..count).map(|_| {
                        let index = random.below(count as u64) as usize;
                        one.times_ns.get(index).copied().unwrap_or(0.0)
                    });
                    (one.speed, mean(drawn))
                })
                .collect();
            Split::fit(&points).map(Split::share)
        })
        .collect();
    shares.sort_by(f64::total_cmp);
    let at = |share: usize| shares.get(shares.len() * share / 1000).copied();
    Some([at(25)?, at(975)?])
}

#[cfg(test)]
#[path = "speed_tests.rs"]
mod tests;
