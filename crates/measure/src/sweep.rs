//! A sweep: comparisons at several queue depths, and fio beside our loops.

use crate::fio::Agreement;
use crate::run_info::RunInfo;
use crate::schema::{Comparison, PathResult};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was measured over block sizes, patterns, operations and depths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sweep {
    /// Where and when.
    #[serde(flatten)]
    pub run: RunInfo,
    /// One comparison for each number of threads and queue depth.
    pub comparisons: Vec<Comparison>,
    /// Cells that fio measured too.
    pub agreements: Vec<Agreement>,
    /// Why fio was not asked for some of them.
    pub fio_missing: Vec<String>,
}

/// A place in the ranking.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked<'a> {
    /// The path.
    pub path: &'a str,
    /// Its best throughput, and where.
    pub best: &'a PathResult,
    /// Its best throughput for each per cent of a core, and where.
    pub leanest: &'a PathResult,
}

impl Sweep {
    /// All results with their comparison.
    pub fn results(&self) -> impl Iterator<Item = (&Comparison, &PathResult)> {
        self.comparisons
            .iter()
            .flat_map(|one| one.results.iter().map(move |result| (one, result)))
    }

    /// The paths, the one with the highest throughput first.
    pub fn ranking(&self) -> Vec<Ranked<'_>> {
        let mut ranking: Vec<Ranked<'_>> = Vec::new();
        for (_, result) in self.results() {
            match ranking.iter_mut().find(|one| one.path == result.path) {
                Some(one) => {
                    if result.throughput_mib_s > one.best.throughput_mib_s {
                        one.best = result;
                    }
                    if result.mib_s_per_cpu_percent > one.leanest.mib_s_per_cpu_percent {
                        one.leanest = result;
                    }
                }
                None => ranking.push(Ranked {
                    path: &result.path,
                    best: result,
                    leanest: result,
                }),
            }
        }
        ranking.sort_by(|a, b| b.best.throughput_mib_s.total_cmp(&a.best.throughput_mib_s));
        ranking
    }

    /// The depths that were measured.
    pub fn depths(&self) -> Vec<u16> {
        self.comparisons.iter().map(|one| one.queue_depth).collect()
    }

    /// Takes what the comparisons say of validity and completeness.
    pub fn conclude(&mut self) {
        if let Some(last) = self.comparisons.last() {
            self.run.environment_after = last.environment_after.clone();
        }
        let changes = self
            .run
            .environment_before
            .changes(&self.run.environment_after);
        let reasons = self
            .comparisons
            .iter()
            .flat_map(|one| one.invalid_reasons.clone());
        let reasons = reasons.chain(changes.iter().map(ToString::to_string));
        for reason in reasons {
            if !self.run.invalid_reasons.contains(&reason) {
                self.run.invalid_reasons.push(reason);
            }
        }
        self.run.valid = self.run.invalid_reasons.is_empty();
        self.run.complete &= self.comparisons.iter().all(|one| one.complete);
    }

    /// Each result, a line.
    pub fn to_csv(&self) -> String {
        let mut text = String::new();
        for (index, comparison) in self.comparisons.iter().enumerate() {
            let table = crate::csv::of_comparison(comparison);
            let skip = usize::from(index > 0);
            for line in table.lines().skip(skip) {
                text += line;
                text.push('\n');
            }
        }
        text
    }
}
