// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which path wins, and where this is uncertain.
//!
//! A path is *level* with the leader if the 95 % interval of the ratio of their speeds, from rounds
//! of both taken in pairs, contains 1; by other merits, and where accesses differ, if their
//! intervals overlap. Without intervals (too few rounds) a leader is named but not called certain.

use crate::access::{Access, Operation, Pattern};
use crate::schema::{Ci95, Comparison, PathResult};
use crate::stats::{self, overlap};

/// A criterion for winning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merit {
    /// Throughput.
    Speed,
    /// Throughput per per cent of a core.
    Efficiency,
}

impl Merit {
    /// The figure of a result, and its interval.
    pub fn of(self, result: &PathResult) -> (f64, Ci95) {
        match self {
            Merit::Speed => (result.throughput_mib_s, result.throughput_mib_s_ci95),
            Merit::Efficiency => (
                result.mib_s_per_cpu_percent,
                result.mib_s_per_cpu_percent_ci95,
            ),
        }
    }
}

/// The winner over neighbouring block sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Win {
    /// The smallest block.
    pub from_bytes: u64,
    /// The largest block.
    pub to_bytes: u64,
    /// The path with the best mean.
    pub leader: String,
    /// The lowest of the best means over these blocks.
    pub lowest: f64,
    /// The highest of them.
    pub highest: f64,
    /// Paths that are level with it, the one with the best mean first.
    pub level: Vec<String>,
    /// The smallest lead over the next path that is not level: 0.25 means that the leader does a
    /// quarter more.
    pub lead: Option<f64>,
    /// Whether intervals confirm it.
    pub certain: bool,
}

impl Win {
    /// The leader and those level with it, sorted by name, because their order is random.
    pub fn best(&self) -> Vec<&str> {
        let level = self.level.iter().map(String::as_str);
        let mut best: Vec<&str> = level.chain([self.leader.as_str()]).collect();
        best.sort_unstable();
        best
    }
}

/// The winners for one kind of access, from small blocks to large.
pub fn wins(
    comparison: &Comparison,
    operation: Operation,
    pattern: Pattern,
    merit: Merit,
) -> Vec<Win> {
    let mut wins: Vec<Win> = Vec::new();
    for access in comparison.accesses() {
        if access.kind() != (operation, pattern) {
            continue;
        }
        let seed = comparison.run.seed;
        let Some(win) = win(&ranked(comparison, access, merit), merit, Some(seed)) else {
            continue;
        };
        match wins.last_mut() {
            Some(last) if last.best() == win.best() && last.certain == win.certain => {
                last.to_bytes = win.to_bytes;
                last.lowest = last.lowest.min(win.lowest);
                last.highest = last.highest.max(win.highest);
                last.lead = match (last.lead, win.lead) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
            }
            _ => wins.push(win),
        }
    }
    wins
}

/// The results of one cell, best first.
pub fn ranked(comparison: &Comparison, access: Access, merit: Merit) -> Vec<&PathResult> {
    let is_of_cell = |result: &&PathResult| result.access == access;
    let mut results: Vec<&PathResult> = comparison.results.iter().filter(is_of_cell).collect();
    results.sort_by(|a, b| merit.of(b).0.total_cmp(&merit.of(a).0));
    results
}

/// The ratio of the speeds of two paths with one access, from rounds of both: a disturbance of a
/// round affects both.
pub(crate) fn paired(ours: &PathResult, theirs: &PathResult, seed: u64) -> Ci95 {
    let pairs = ours.samples.iter().filter_map(|one| {
        let mut samples = theirs.samples.iter();
        let other = samples.find(|other| other.round == one.round)?;
        Some((one.throughput_mib_s, other.throughput_mib_s))
    });
    let (ours, theirs): (Vec<f64>, Vec<f64>) = pairs.unzip();
    stats::ratio_interval(&ours, &theirs, f64::MIN_POSITIVE, seed)
}

/// Whether neither of two paths with one access is shown to be faster.
pub(crate) fn is_level(one: &PathResult, other: &PathResult, seed: u64) -> bool {
    paired(one, other, seed).is_some_and(|[low, high]| low <= 1.0 && high >= 1.0)
}

/// The winner of `results`, which are sorted: best first. With a seed they have one access, and
/// their speeds are compared in pairs of rounds.
pub(crate) fn win(results: &[&PathResult], merit: Merit, seed: Option<u64>) -> Option<Win> {
    let (first, rest) = results.split_first()?;
    let (best, best_ci95) = merit.of(first);
    let is_level = |result: &PathResult| match (merit, seed) {
        (Merit::Speed, Some(seed)) => is_level(first, result, seed),
        _ => overlap(best_ci95, merit.of(result).1) == Some(true),
    };
    let mut level: Vec<String> = Vec::new();
    let mut lead = None;
    for result in rest {
        if is_level(result) {
            level.push(result.path.clone());
        } else if lead.is_none() && merit.of(result).0 > 0.0 {
            lead = Some(best / merit.of(result).0 - 1.0);
        }
    }
    Some(Win {
        from_bytes: first.access.block_size_bytes,
        to_bytes: first.access.block_size_bytes,
        leader: first.path.clone(),
        lowest: best,
        highest: best,
        level,
        lead,
        certain: results.iter().all(|result| merit.of(result).1.is_some()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{comparison, comparison_of_block_sizes};

    #[test]
    fn equals_are_level_and_the_slow_is_behind() {
        let comparison = comparison(6);
        let wins = wins(&comparison, Operation::Read, Pattern::Random, Merit::Speed);
        let [win] = wins.as_slice() else {
            panic!("{wins:?}")
        };
        assert_eq!(win.best(), ["a", "b"]);
        assert_eq!((win.from_bytes, win.to_bytes), (4 << 10, 8 << 10));
        assert!(win.certain && win.lead.unwrap() > 0.5);
    }

    #[test]
    fn neighbouring_blocks_give_the_range_of_their_figures() {
        let comparison = comparison_of_block_sizes();
        let one = &comparison.results[0];
        let wins = wins(
            &comparison,
            one.access.operation,
            one.access.pattern,
            Merit::Speed,
        );
        let [win] = wins.as_slice() else {
            panic!("{wins:?}")
        };
        assert_eq!((win.lowest, win.highest), (720.0, 2077.0));
    }

    #[test]
    fn without_intervals_nothing_is_certain() {
        let wins = wins(
            &comparison(2),
            Operation::Read,
            Pattern::Random,
            Merit::Speed,
        );
        assert!(wins.iter().all(|win| !win.certain && win.level.is_empty()));
    }
}
