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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Report;

    fn sweep(rows: &[(&str, f64, Option<f64>)]) -> Sweep {
        let comparison = crate::findings::tests::comparison(6);
        let one = comparison.results[0].clone();
        let results = rows.iter().map(|(path, mib_s, half)| PathResult {
            path: (*path).to_owned(),
            throughput_mib_s: *mib_s,
            throughput_mib_s_ci95: half.map(|half| [mib_s - half, mib_s + half]),
            mib_s_per_cpu_percent: *mib_s,
            mib_s_per_cpu_percent_ci95: half.map(|half| [mib_s - half, mib_s + half]),
            ..one.clone()
        });
        Sweep {
            run: RunInfo::default(),
            comparisons: vec![Comparison {
                results: results.collect(),
                ..comparison
            }],
            agreements: Vec::new(),
            fio_missing: Vec::new(),
        }
    }

    #[test]
    fn what_is_not_valid_is_said_once_in_the_text() {
        let mut sweep = sweep(&[("poll", 1.0, None)]);
        assert!(!sweep.page().text().contains("NOT VALID"));
        sweep.run.invalidate("the governor changed");
        sweep.comparisons[0].run.invalid_reasons = vec!["the machine was busy".into()];
        sweep.conclude();
        let text = sweep.page().text();
        for reason in ["the governor changed", "the machine was busy"] {
            assert_eq!(
                text.matches(&format!("NOT VALID: {reason}")).count(),
                1,
                "{text}"
            );
        }
    }

    #[test]
    fn paths_whose_intervals_overlap_are_level_in_headline_and_ranking() {
        let page = |rows: &[_]| sweep(rows).page().html().unwrap();
        let level = page(&[
            ("poll", 7355.0, Some(6858.0)),
            ("ram", 5000.0, Some(2456.0)),
            ("slow", 10.0, Some(1.0)),
        ]);
        assert!(
            level.contains("poll and ram were the fastest and level with each other"),
            "{level}"
        );
        assert!(level.contains("1. ram") && level.contains("3. slow"));
        assert!(level.contains("7,355 ± 6858"));
        let clear = page(&[("poll", 7355.0, Some(1.0)), ("ram", 5000.0, Some(1.0))]);
        assert!(clear.contains("poll was the fastest; poll reached") && clear.contains("2. ram"));
        let unsure = page(&[("poll", 7355.0, None), ("ram", 5000.0, None)]);
        assert!(unsure.contains("too few rounds to be sure"));
    }
}
