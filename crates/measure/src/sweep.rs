// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A sweep: comparisons at several queue depths, optionally with fio.

use crate::advice::advise;
use crate::findings::{Merit, Win, win};
use crate::fio::Agreement;
use crate::run_info::RunInfo;
use crate::schema::{Comparison, PathResult};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Measurements over block sizes, patterns, operations and depths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sweep {
    /// The record of the run.
    #[serde(flatten)]
    pub run: RunInfo,
    /// One comparison for each number of threads and queue depth.
    pub comparisons: Vec<Comparison>,
    /// Cells that fio also measured.
    pub agreements: Vec<Agreement>,
    /// Why fio did not measure some of them.
    pub fio_missing: Vec<String>,
}

/// An entry of the ranking.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked<'a> {
    /// The path.
    pub path: &'a str,
    /// Its best throughput, and where.
    pub best: &'a PathResult,
    /// Its best throughput per per cent of a core, and where.
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

    /// The winner by the best result of each path, and the paths level with it.
    pub fn winner(&self, merit: Merit) -> Option<Win> {
        let mut results: Vec<&PathResult> = self
            .ranking()
            .iter()
            .map(|one| match merit {
                Merit::Speed => one.best,
                Merit::Efficiency => one.leanest,
            })
            .collect();
        results.sort_by(|a, b| merit.of(b).0.total_cmp(&merit.of(a).0));
        win(&results, merit, None)
    }

    /// Takes over the validity and completeness of the comparisons.
    pub fn conclude(&mut self) {
        if let Some(last) = self.comparisons.last() {
            self.run.environment_after = last.run.environment_after.clone();
        }
        for one in &self.comparisons {
            self.run.absorb(&one.run);
        }
        let run = &mut self.run;
        for change in run.environment_before.changes(&run.environment_after) {
            run.invalidate(change.to_string());
        }
        // What makes the sweep not valid is true of each of its parts.
        for one in &mut self.comparisons {
            one.advice = advise(&Comparison {
                run: RunInfo {
                    valid: one.run.valid && self.run.valid,
                    ..one.run.clone()
                },
                ..one.clone()
            });
        }
    }

    /// CSV with one line per result.
    pub fn to_csv(&self) -> String {
        crate::csv::of_results(self.results().map(|(_, result)| result))
    }
}
