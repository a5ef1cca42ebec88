// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The split of times, on series with known parts.

use super::*;
use crate::schema::Sample;

fn result(path: &str, times_ns: &[f64]) -> PathResult {
    let samples = times_ns.iter().enumerate().map(|(round, time)| Sample {
        round: round as u32,
        operations: 1000,
        errors: 0,
        bytes: 4_096_000,
        elapsed_ns: (time * 1000.0) as u64,
        throughput_mib_s: 0.0,
        iops: 0.0,
        cpu_percent: 0.0,
        device_read_commands: None,
        device_write_commands: None,
        interrupts: None,
    });
    let samples: Vec<Sample> = samples.collect();
    let value = serde_json::json!({
        "path": path, "polls": false, "operation": "read", "pattern": "random",
        "block_size_bytes": 4096, "queue_depth": 1,
        "throughput_mib_s": 3906.25 / mean(times_ns.iter().copied()),
        "throughput_mib_s_ci95": null, "throughput_mib_s_stddev": null, "iops": 0.0, "iops_ci95": null,
        "cpu_percent": 0.0, "cpu_percent_ci95": null, "mib_s_per_cpu_percent": 0.0,
        "mib_s_per_cpu_percent_ci95": null, "operations": 0, "errors": 0, "first_error": null,
        "device_commands": null, "device_commands_per_operation": null,
        "device_commands_per_operation_ci95": null, "interrupts": null,
        "interrupts_per_operation": null, "interrupts_per_operation_ci95": null,
        "uncounted_reason": null, "service_time_p50_ns": null, "service_time_p50_ns_ci95": null,
        "service_time_p99_ns": null, "service_time_p99_ns_ci95": null, "drifting": false,
        "samples": samples,
    });
    serde_json::from_value(value).unwrap()
}

/// A path with this work and rest at several speeds, `noise` relative, in `rounds` rounds.
fn speed(work: f64, rest: f64, speeds: &[f64], noise: f64, rounds: usize, seed: u64) -> Speed {
    let mut random = Random::new(seed);
    let points = speeds.iter().map(|s| {
        let times: Vec<f64> = (0..rounds)
            .map(|_| (work / s + rest) * (1.0 + noise * random.normal()))
            .collect();
        Point {
            label: format!("{s}"),
            loop_ns: (1e6 / s) as u64,
            results: vec![result("a", &times)],
        }
    });
    Speed::of(RunInfo::default(), points.collect())
}

#[test]
fn a_split_that_is_known_is_found() {
    for (work, rest) in [
        (7000.0, 0.0),
        (7000.0, 80_000.0),
        (0.0, 50_000.0),
        (3000.0, 3000.0),
    ] {
        let found = speed(work, rest, &[0.25, 1.0, 0.5], 0.0, 5, 1);
        let [one] = found.scalings.as_slice() else {
            panic!("{} scalings", found.scalings.len())
        };
        assert!((one.work_ns - work).abs() < 2.0 + work * 1e-3, "{one:?}");
        assert!((one.rest_ns - rest).abs() < 2.0 + rest * 1e-3, "{one:?}");
        assert!(one.misfit < 1e-3 && found.speeds() == 3, "{one:?}");
        assert_eq!(one.rates.first().map(|rate| rate.0), Some(1.0));
        let gain = (work / 0.25 + rest) / (work + rest);
        assert!((one.gain / gain - 1.0).abs() < 1e-3, "{one:?}");
    }
}

#[test]
fn the_interval_of_the_share_holds_the_truth_as_often_as_it_says() {
    let (work, rest) = (10_000.0, 20_000.0);
    let truth = work / (work + rest);
    let held = (0..200u64).filter(|seed| {
        let found = speed(work, rest, &[1.0, 0.5, 0.25], 0.03, 12, 100 + seed);
        let [low, high] = found.scalings[0].work_share_ci95.unwrap();
        (low..=high).contains(&truth)
    });
    let held = held.count();
    println!("{held} of 200");
    // Resampling 12 rounds is a little narrow; 85 % would be a fault.
    assert!(held >= 176, "{held} of 200");
}

#[test]
fn one_speed_tells_nothing_and_few_rounds_have_no_interval() {
    let same = speed(5000.0, 5000.0, &[1.0, 0.995], 0.0, 5, 1);
    assert_eq!((same.speeds(), same.scalings.len()), (1, 0));
    let few = speed(5000.0, 5000.0, &[1.0, 0.5], 0.01, 4, 1);
    assert_eq!(few.scalings[0].work_share_ci95, None);
    assert!(Split::fit(&[(1.0, 5.0)]).is_none());
}

#[test]
fn what_is_no_such_split_is_seen_as_a_misfit() {
    // Faster at half the speed: the model cannot explain this.
    let points = [(1.0, 9000.0), (0.5, 4000.0), (0.25, 9000.0)].map(|(s, time)| Point {
        label: String::new(),
        loop_ns: (1e6 / s) as u64,
        results: vec![result("a", &[time; 5])],
    });
    let found = Speed::of(RunInfo::default(), points.to_vec());
    assert!(found.scalings[0].misfit > 0.1, "{:?}", found.scalings[0]);
}

#[test]
fn the_loop_takes_time_that_follows_the_clock() {
    let first = loop_ns(&crate::host::Monotonic);
    // 200,000 dependent multiplications: at least a few hundred thousand cycles.
    assert!(first > 20_000, "{first}");
}
