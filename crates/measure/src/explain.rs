// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What limits a path, and the experiment that shows it.
//!
//! A high processor load or a busy device is a suspicion. It becomes a statement only if an
//! experiment confirms it, by how the rate responds to a change:
//!
//! | limit | evidence |
//! | --- | --- |
//! | queue depth | more operations in flight increase the rate |
//! | interrupts | polling increases the rate |
//! | each operation's processor time | larger blocks increase the rate, more operations in flight do not |
//! | copying | bypassing the page cache increases the rate per processor time, larger blocks do not |
//! | device or link | none of these increases the rate, but the same loop on memory does |
//!
//! "Increase" means by at least a quarter, with 95 % intervals that do not overlap.

use crate::access::Access;
use crate::environment::Environment;
use crate::findings::Merit;
use crate::run_info::RunInfo;
use crate::schema::PathResult;
use crate::stats::overlap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The factor that counts as an increase.
const MORE: f64 = 1.25;
/// A processor that is busy to this per cent of one core may be the limit.
const BUSY_PERCENT: f64 = 60.0;
/// A link that carries this share of its capacity is the limit.
const LINK_FULL: f64 = 0.75;

named! {
    /// What limits a path.
    pub enum Limit {
        /// Too few operations in flight.
        QueueDepth = "the queue depth",
        /// The drive's interrupts and the wake-ups after them.
        Interrupts = "interrupts",
        /// Processor time of each operation: system calls, the driver, the file system.
        EachOperation = "processor time of each operation",
        /// Copying through the page cache.
        Copying = "processor time in copying",
        /// The device itself.
        Device = "the device",
        /// The PCIe link.
        Link = "the PCIe link",
        /// Memory and the processor: a loop on memory is no faster.
        Processor = "the processor and its memory",
        /// The trials are not conclusive.
        Unknown = "not known",
    }
}

/// An experiment: a change and its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// The change.
    pub change: String,
    /// The rate after the change.
    pub throughput_mib_s: f64,
    /// Ratio to the rate before.
    pub ratio: f64,
    /// The same ratio of the throughput per per cent of a core.
    pub efficiency_ratio: f64,
    /// Whether the intervals of the rates do not overlap.
    pub certain: bool,
}

/// What limits one path under one access.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// The path.
    pub path: String,
    /// The access.
    #[serde(flatten)]
    pub access: Access,
    /// Operations in flight.
    pub queue_depth: u16,
    /// Its rate.
    pub throughput_mib_s: f64,
    /// Processor time; 100 is one core.
    pub cpu_percent: f64,
    /// What limits it.
    pub limit: Limit,
    /// Whether an experiment confirmed it.
    pub confirmed: bool,
    /// The reason in a sentence or two.
    pub reason: String,
    /// The change.
    pub trials: Vec<Trial>,
}

/// What limits each path of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explained {
    /// The record of the run, or of the saved run that was read.
    #[serde(flatten)]
    pub run: RunInfo,
    /// One entry per path.
    pub explanations: Vec<Explanation>,
}

struct Trials<'a> {
    baseline: &'a PathResult,
    list: Vec<(Kind, Trial)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Deeper,
    Larger,
    Polled,
    Unbuffered,
    Memory,
}

impl Trials<'_> {
    fn add(&mut self, kind: Kind, change: String, result: Option<&PathResult>) {
        let Some(result) = result else { return };
        let base = self.baseline;
        let over = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
        let apart = |merit: Merit| overlap(merit.of(base).1, merit.of(result).1) == Some(false);
        let merit = match kind {
            Kind::Unbuffered => Merit::Efficiency,
            _ => Merit::Speed,
        };
        let trial = Trial {
            change,
            throughput_mib_s: result.throughput_mib_s,
            ratio: over(result.throughput_mib_s, base.throughput_mib_s),
            efficiency_ratio: over(result.mib_s_per_cpu_percent, base.mib_s_per_cpu_percent),
            certain: apart(merit),
        };
        self.list.push((kind, trial));
    }

    fn of(&self, kind: Kind) -> Option<&Trial> {
        self.list
            .iter()
            .find(|(one, _)| *one == kind)
            .map(|(_, trial)| trial)
    }

    /// Whether the change increased the rate; `None` if it was not tried or the intervals overlap.
    fn moves_more(&self, kind: Kind) -> Option<bool> {
        let trial = self.of(kind)?;
        match (trial.ratio >= MORE, trial.certain) {
            (true, true) => Some(true),
            (true, false) => None,
            (false, _) => Some(false),
        }
    }
}

/// What limits `path`, from all results of it and of its siblings. `None` if the path was not
/// measured with that access and depth.
pub fn explain(
    results: &[&PathResult],
    path: &str,
    access: Access,
    queue_depth: u16,
    environment: &Environment,
) -> Option<Explanation> {
    let find = |name: &str, bytes: &dyn Fn(u64) -> bool, depth: &dyn Fn(u16) -> bool| {
        let mut all = results.iter().copied();
        all.find(|r| {
            r.path == name
                && r.access.kind() == access.kind()
                && bytes(r.access.block_size_bytes)
                && depth(r.queue_depth)
        })
    };
    let size = access.block_size_bytes;
    let same_size = |bytes: u64| bytes == size;
    let same_depth = |depth: u16| depth == queue_depth;
    let any_depth = |_: u16| true;
    let larger = |bytes: u64| (2 * size..=8 * size).contains(&bytes);
    let deeper = |depth: u16| depth >= queue_depth.saturating_mul(4);
    let baseline = find(path, &same_size, &same_depth)?;
    let mut trials = Trials {
        baseline,
        list: Vec::new(),
    };
    if let Some(deep) = find(path, &same_size, &deeper) {
        trials.add(
            Kind::Deeper,
            format!("{} in flight", deep.queue_depth),
            Some(deep),
        );
    }
    if let Some(large) = find(path, &larger, &same_depth) {
        let bytes = crate::format::size(large.access.block_size_bytes);
        trials.add(Kind::Larger, format!("blocks of {bytes}"), Some(large));
    }
    let kind = paths::named(path);
    if let Some(name) = kind.and_then(|kind| kind.polled) {
        let polled =
            find(name, &same_size, &same_depth).or_else(|| find(name, &same_size, &any_depth));
        trials.add(Kind::Polled, format!("polling, by {name}"), polled);
    }
    if let Some(name) = kind.and_then(|kind| kind.unbuffered) {
        let change = format!("bypassing the page cache, by {name}");
        trials.add(Kind::Unbuffered, change, find(name, &same_size, &any_depth));
    }
    if path != paths::RAM {
        let memory = find(paths::RAM, &same_size, &same_depth)
            .or_else(|| find(paths::RAM, &same_size, &any_depth));
        trials.add(Kind::Memory, "the same loop on memory".to_owned(), memory);
    }
    let (limit, confirmed, reason) = judge(&trials, environment);
    Some(Explanation {
        path: path.to_owned(),
        access,
        queue_depth,
        throughput_mib_s: baseline.throughput_mib_s,
        cpu_percent: baseline.cpu_percent,
        limit,
        confirmed,
        reason,
        trials: trials.list.into_iter().map(|(_, trial)| trial).collect(),
    })
}

fn judge(trials: &Trials<'_>, environment: &Environment) -> (Limit, bool, String) {
    let cpu = trials.baseline.cpu_percent;
    let polls = trials.baseline.polls;
    let says = |kind: Kind| {
        trials.of(kind).map_or(String::new(), |trial| {
            format!("{}: {:.2} times the rate", trial.change, trial.ratio)
        })
    };
    let deeper = trials.moves_more(Kind::Deeper);
    let polled = trials.moves_more(Kind::Polled);
    let larger = trials.moves_more(Kind::Larger);
    if deeper == Some(true) {
        return (Limit::QueueDepth, true, says(Kind::Deeper));
    }
    if polled == Some(true) {
        return (Limit::Interrupts, true, says(Kind::Polled));
    }
    if let Some(trial) = trials.of(Kind::Unbuffered) {
        if trial.certain
            && trial.efficiency_ratio >= MORE
            && cpu >= BUSY_PERCENT
            && larger != Some(true)
        {
            let reason = format!(
                "{}: {:.2} times the rate for each per cent of a core; larger blocks do not increase the rate",
                trial.change, trial.efficiency_ratio
            );
            return (Limit::Copying, true, reason);
        }
    }
    if larger == Some(true) && deeper == Some(false) {
        let reason = format!("{}; {}", says(Kind::Larger), says(Kind::Deeper));
        return (Limit::EachOperation, true, reason);
    }
    if larger == Some(false) && deeper == Some(false) {
        let reason = format!(
            "{}; {}; {}",
            says(Kind::Deeper),
            says(Kind::Larger),
            says(Kind::Memory)
        );
        return match trials.moves_more(Kind::Memory) {
            Some(true) => match link_mib_s(environment) {
                Some(link) if trials.baseline.throughput_mib_s >= LINK_FULL * link => {
                    let reason = format!("{reason}; the link carries {link:.0} MiB/s at most");
                    (Limit::Link, true, reason)
                }
                _ => (Limit::Device, true, reason),
            },
            Some(false) => (Limit::Processor, true, reason),
            None => (suspicion(cpu, polls), false, reason),
        };
    }
    let limit = suspicion(cpu, polls);
    let reason = if polls {
        "too few trials: a path that polls is always busy".to_owned()
    } else {
        format!("a suspicion, from {cpu:.0} % of a core: too few trials to confirm it")
    };
    (limit, false, reason)
}

fn suspicion(cpu_percent: f64, polls: bool) -> Limit {
    match (polls, cpu_percent >= BUSY_PERCENT) {
        (true, _) => Limit::Unknown,
        (false, true) => Limit::EachOperation,
        (false, false) => Limit::Device,
    }
}

/// The capacity of the drive's PCIe link, less its encoding and about a tenth for packet headers.
fn link_mib_s(environment: &Environment) -> Option<f64> {
    let speed = environment.pcie_link_speed.as_deref()?;
    let transfers: f64 = speed.split_ascii_whitespace().next()?.parse().ok()?;
    let encoding = if transfers <= 5.0 { 0.8 } else { 128.0 / 130.0 };
    let lanes = f64::from(environment.pcie_link_width?);
    Some(transfers * 1e9 * encoding / 8.0 * lanes * 0.9 / f64::from(1u32 << 20))
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
