// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What pages and texts say of runs on simulated machines.

use crate::simulated::{
    Profile, SimulatedHost, comparison, comparison_of_block_sizes, question, sustained,
};
use measure::fio::to_comparison;
use measure::run_info::RunInfo;
use measure::schema::{Comparison, PathResult};
use measure::sustain::Verdict;
use measure::sweep::Sweep;
use straightway_reports::{Reportable, table};

fn sweep(rows: &[(&str, f64, Option<f64>)]) -> Sweep {
    let comparison = comparison(6);
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

#[test]
fn a_run_that_is_not_valid_recommends_nothing() {
    let mut all = comparison(6);
    assert!(all.page().text().contains("take "));
    all.run.invalidate("the machine was busy");
    for text in [all.page().text(), all.page().html().unwrap()] {
        let recommends = text.contains("take ") || text.contains("stay with");
        assert!(
            !recommends && text.contains("the machine was busy"),
            "{text}"
        );
    }
}

#[test]
fn neighbouring_blocks_give_the_range_of_their_figures() {
    let comparison = comparison_of_block_sizes();
    let page = comparison.page().html().unwrap();
    assert!(page.contains("720 – 2,077 MiB/s"));
}

#[test]
fn fio_s_results_are_a_table_and_a_page() {
    let text = r#"{"fio version": "fio-3.33", "global options": {"bs": "4k"}, "jobs": [
 {"jobname": "a", "error": 0, "usr_cpu": 1.5, "sys_cpu": 20.5,
  "job options": {"rw": "randread", "iodepth": "4"},
  "read": {"io_bytes": 41943040, "runtime": 2000, "total_ios": 10240,
   "clat_ns": {"percentile": {"50.000000": 120000, "99.000000": 900000}}},
  "write": {"io_bytes": 0, "runtime": 0, "total_ios": 0}}]}"#;
    let comparison = to_comparison(text, "/dev/nvme0n1").unwrap();
    assert!(table(&comparison).contains("fio"));
    assert!(comparison.page().html().is_ok());
}

#[test]
fn a_busy_machine_is_the_answer_and_not_the_buffers() {
    let mut host = SimulatedHost::new();
    host.others_permille = 1_990;
    let answer = sustained(&mut host, Profile::default(), &question());
    assert_eq!(answer.verdict, Verdict::CannotTell);
    let text = answer.page().text();
    assert!(text.starts_with("CANNOT TELL"), "{text}");
    assert!(!text.contains("uffer"), "{text}");
    let page = answer.page().html().unwrap();
    assert!(page.contains("Not valid.") && page.contains("CANNOT TELL"));
}
