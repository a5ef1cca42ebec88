// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The whole comparison, over simulated paths and over a real RAM disk.

use crate::simulated::{Profile, SimulatedHost, compared};
use block::{Buffer, Device, RamDisk};
use measure::run_info::Request;
use measure::{
    CompareError, Comparison, Counters, Environment, Host, Missing, Operation, Path, Pattern,
    Progress, Settings, compare,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use straightway_reports::{Reportable, table};

fn request() -> Request {
    Request {
        seed: 42,
        ..Request::default()
    }
}

fn settings() -> Settings {
    Settings {
        operations: vec![Operation::Read, Operation::Write],
        block_sizes_bytes: vec![4 << 10, 1 << 20, 3 << 20],
        rounds: 6,
        cell_duration: Duration::from_millis(100),
        warm_up: Duration::from_millis(10),
        ..Settings::default()
    }
}

fn profiles() -> [Profile; 3] {
    let poll = Profile {
        name: "straightway-poll".to_owned(),
        group: "user-space".to_owned(),
        polls: true,
        ..Profile::default()
    };
    let direct = Profile {
        name: "ext4-direct".to_owned(),
        group: "kernel".to_owned(),
        request_cpu_ns: 9_000,
        kib_cpu_ns: 40,
        ..Profile::default()
    };
    let buffered = Profile {
        name: "ext4-buffered".to_owned(),
        buffered: true,
        kib_cpu_ns: 400,
        ..direct.clone()
    };
    [poll, direct, buffered]
}

fn run(host: &mut SimulatedHost, profiles: impl IntoIterator<Item = Profile>) -> Comparison {
    let mut paths: Vec<Box<dyn Path>> = profiles.into_iter().map(|p| host.path(p)).collect();
    compared(host, &mut paths, &request(), &settings()).unwrap()
}

fn find<'a>(
    comparison: &'a Comparison,
    path: &str,
    operation: Operation,
    bytes: u64,
) -> &'a measure::PathResult {
    let is_it = |result: &&measure::PathResult| {
        result.path == path
            && result.access.operation == operation
            && result.access.pattern == Pattern::Random
            && result.access.block_size_bytes == bytes
    };
    comparison.results.iter().find(is_it).unwrap()
}

#[test]
fn numbers_are_frozen_and_repeat() {
    let first = run(&mut SimulatedHost::new(), profiles());
    let second = run(&mut SimulatedHost::new(), profiles());
    assert_eq!(first, second);
    assert_eq!(first.results.len(), 3 * 2 * 2 * 3);
    assert!(first.run.valid && first.run.complete && first.missing.is_empty());

    // 2 + 1 + 0.02 us of processor, 4 KiB at 3,000 MiB/s, 70 us of latency: 74.3 us.
    let poll = find(&first, "straightway-poll", Operation::Read, 4096);
    assert!((poll.throughput_mib_s - 52.6).abs() < 0.2, "{poll:?}");
    assert!((poll.iops / 256.0 - poll.throughput_mib_s).abs() < 0.01);
    assert!(
        (poll.cpu_percent - 100.0).abs() < 3.0,
        "{}",
        poll.cpu_percent
    );
    assert_eq!(poll.interrupts, Some(0));
    assert_eq!(poll.device_commands, Some(poll.operations));
    let direct = find(&first, "ext4-direct", Operation::Read, 4096);
    assert!(direct.cpu_percent < 20.0);
    assert!(direct.mib_s_per_cpu_percent > 2.0 * poll.mib_s_per_cpu_percent);
    assert_eq!(direct.interrupts, direct.device_commands);
    // A flush is neither a read nor a write command.
    let write = find(&first, "ext4-direct", Operation::Write, 4096);
    assert_eq!(write.device_commands_per_operation, Some(1.0));
}

#[test]
fn a_block_becomes_ceil_block_by_largest_commands() {
    let profile = Profile {
        max_transfer_bytes: 128 << 10,
        ..Profile::default()
    };
    let comparison = run(&mut SimulatedHost::new(), [profile]);
    for (bytes, expected) in [(4 << 10, 1.0), (1 << 20, 8.0), (3 << 20, 24.0)] {
        let result = find(&comparison, "simulated", Operation::Read, bytes);
        assert_eq!(result.device_commands_per_operation, Some(expected));
        assert_eq!(result.interrupts_per_operation, Some(expected));
        assert_eq!(
            result.device_commands_per_operation_ci95,
            Some([expected, expected])
        );
    }
}

#[test]
fn groups_are_entered_and_left_once_a_round_and_caches_dropped() {
    let mut host = SimulatedHost::new();
    run(&mut host, profiles());
    let count = |what: &str| host.log.iter().filter(|line| *line == what).count();
    // Neighbouring rounds may share a visit.
    let kernel = count("prepare kernel");
    assert!((3..=6).contains(&kernel), "{kernel}");
    assert_eq!(kernel, count("leave kernel"));
    assert_eq!(count("prepare user-space"), count("leave user-space"));
    // Once after each of 12 buffered cells a round, and once before the first of each visit.
    assert!(count("drop caches") >= 6 * 12);
    assert!(host.log.last().unwrap().starts_with("leave"));
}

#[test]
fn a_missing_path_and_a_missing_group_are_reported_and_the_rest_is_measured() {
    let [poll, direct, buffered] = profiles();
    let direct = Profile {
        missing: Some(Missing::new("no file system", "mkfs.ext4 /dev/x")),
        ..direct
    };
    let mut host = SimulatedHost::new();
    host.missing_groups.insert(
        "user-space".to_owned(),
        Missing::new("vfio-pci is not loaded", "modprobe vfio-pci"),
    );
    let comparison = run(&mut host, [poll, direct, buffered]);
    assert_eq!(comparison.path_names(), ["ext4-buffered"]);
    assert!(comparison.run.valid && comparison.run.complete);
    let mut missing: Vec<&str> = comparison.missing.iter().map(|m| m.path.as_str()).collect();
    missing.sort_unstable();
    assert_eq!(missing, ["ext4-direct", "straightway-poll"]);
    let table = straightway_reports::table(&comparison);
    assert!(table.contains("ext4-direct: no file system"));
    assert!(table.contains("hint: modprobe vfio-pci"));
    let page = comparison.page().html().unwrap();
    assert!(page.contains("modprobe vfio-pci"));
    // A group that failed is cleaned up, and not tried again.
    let prepared = host.log.iter().filter(|line| *line == "prepare user-space");
    assert_eq!(prepared.count(), 1);
    assert!(host.log.contains(&"leave user-space".to_owned()));
}

#[test]
fn a_changed_environment_makes_the_run_invalid() {
    let mut host = SimulatedHost::new();
    host.environment_after = Some(Environment {
        cpu_governor: Some("powersave".to_owned()),
        ..Environment::default()
    });
    let comparison = run(&mut host, [Profile::default()]);
    assert!(!comparison.run.valid);
    assert!(comparison.run.invalid_reasons[0].contains("frequency governor changed"));
    assert!(straightway_reports::table(&comparison).contains("NOT VALID"));
}

#[test]
fn busy_other_programs_make_the_run_invalid_and_table_and_report_say_so() {
    let mut host = SimulatedHost::new();
    host.others_permille = 1_990;
    let comparison = run(&mut host, profiles());
    assert!(!comparison.run.valid);
    let [reason] = comparison.run.invalid_reasons.as_slice() else {
        panic!("{:?}", comparison.run.invalid_reasons)
    };
    assert!(reason.contains("other programs took 199 %"), "{reason}");
    assert!(straightway_reports::table(&comparison).contains(&format!("NOT VALID: {reason}")));
    let page = comparison.page().html().unwrap();
    assert!(page.contains("Not valid.") && page.contains("other programs took 199 %"));
    host.others_permille = 200;
    assert!(run(&mut host, profiles()).run.valid);
}

#[test]
fn cancellation_keeps_what_was_measured() {
    let mut host = SimulatedHost::new();
    let mut paths: Vec<Box<dyn Path>> = profiles().into_iter().map(|p| host.path(p)).collect();
    let cancel = AtomicBool::new(false);
    let mut last = 0;
    let comparison = compare(
        &mut host,
        &mut paths,
        &request(),
        &settings(),
        &mut |progress| {
            last = progress.done_cells;
            if progress.done_cells == 80 {
                cancel.store(true, Ordering::Relaxed);
            }
        },
        &cancel,
    )
    .unwrap();
    assert!(!comparison.run.complete && comparison.run.valid);
    assert_eq!(last, 80);
    let samples: usize = comparison.results.iter().map(|r| r.samples.len()).sum();
    assert_eq!(samples, 80);
    // Two or three rounds do not give an interval.
    let few = |r: &measure::PathResult| r.throughput_mib_s_ci95.is_none();
    assert!(comparison.results.iter().all(few));
    assert!(host.log.last().unwrap().starts_with("leave"));
    assert!(straightway_reports::table(&comparison).contains("INCOMPLETE"));
    assert!(comparison.page().html().unwrap().contains("Incomplete."));
}

#[test]
fn json_is_valid_against_the_published_schema_and_reads_back() {
    let mut uncounted = profiles();
    uncounted[0].counts_commands = false;
    uncounted[1].missing = Some(Missing::new("r", "m"));
    for comparison in [
        run(&mut SimulatedHost::new(), profiles()),
        run(&mut SimulatedHost::new(), uncounted),
    ] {
        let text = serde_json::to_string_pretty(&comparison).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let schema = schemars::schema_for!(Comparison).to_value();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(&value)
            .map(|e| e.to_string())
            .collect();
        assert_eq!(errors, Vec::<String>::new());
        assert_eq!(
            serde_json::from_str::<Comparison>(&text).unwrap(),
            comparison
        );
        for result in value["results"].as_array().unwrap() {
            for key in [
                "block_size_bytes",
                "queue_depth",
                "throughput_mib_s",
                "cpu_percent",
                "mib_s_per_cpu_percent",
                "iops",
                "operations",
                "errors",
            ] {
                assert!(result[key].is_number(), "{key}");
            }
            let is_uncounted = result["device_commands"].is_null();
            assert_eq!(is_uncounted, result["uncounted_reason"].is_string());
            assert!(is_uncounted || result["device_commands"].is_u64());
            assert!(result["throughput_mib_s_ci95"].as_array().unwrap().len() == 2);
        }
        let mut broken = value;
        broken["results"][0]["operations"] = "many".into();
        assert!(!validator.is_valid(&broken));
    }
}

#[test]
fn the_report_needs_nothing_from_outside() {
    let page = run(&mut SimulatedHost::new(), profiles())
        .page()
        .html()
        .unwrap();
    for outside in [
        "<script", "http://", "https://", "src=", "@import", "url(", "<link",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("<svg class=\"plot\"").count(), 3 * 4);
    assert!(!page.contains("NaN"));
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let refuse = |settings: Settings, count: usize| {
        let mut host = SimulatedHost::new();
        let mut paths: Vec<Box<dyn Path>> =
            (0..count).map(|_| host.path(Profile::default())).collect();
        compared(&mut host, &mut paths, &request(), &settings).unwrap_err()
    };
    assert_eq!(refuse(settings(), 0), CompareError::NothingToDo);
    let none = Settings {
        rounds: 0,
        ..settings()
    };
    assert_eq!(refuse(none, 1), CompareError::NothingToDo);
    let small = Settings {
        span_bytes: 4096,
        ..settings()
    };
    assert!(matches!(
        refuse(small, 1),
        CompareError::SpanTooSmall { .. }
    ));
    assert!(matches!(
        refuse(settings(), 2),
        CompareError::SameName { .. }
    ));
}

/// A path over a RAM disk, on the real clock.
struct Ram {
    buffers_out: usize,
}

impl Path for Ram {
    fn name(&self) -> &str {
        "ram"
    }
    fn group(&self) -> &str {
        "memory"
    }
    fn queue_depth(&self) -> u16 {
        4
    }
    fn open(&mut self) -> Result<Box<dyn Device>, Missing> {
        let disk = RamDisk::<_, 4>::new(vec![0u8; 1 << 20], 9);
        let disk = disk.map_err(|error| Missing::new(error.to_string(), "use more memory"))?;
        Ok(Box::new(disk))
    }
    fn close(&mut self, device: Box<dyn Device>) {
        assert_eq!((self.buffers_out, device.outstanding()), (0, 0));
    }
    fn allocate(&mut self, len_bytes: usize) -> Result<Buffer, Missing> {
        self.buffers_out += 1;
        Ok(Buffer::from_static(vec![0; len_bytes].leak()))
    }
    fn release(&mut self, _buffer: Buffer) {
        self.buffers_out -= 1;
    }
    fn counters(&mut self) -> Counters {
        Counters::uncounted("a RAM disk has no commands")
    }
}

/// This machine, as it is.
struct Here;

impl Host for Here {
    fn environment(&mut self) -> Environment {
        Environment::default()
    }
}

#[test]
fn a_ram_disk_is_measured_on_the_real_clock_in_milliseconds() {
    let mut paths: Vec<Box<dyn Path>> = vec![Box::new(Ram { buffers_out: 0 })];
    let settings = Settings {
        block_sizes_bytes: vec![512, 65_536],
        span_bytes: 1 << 20,
        cell_duration: Duration::from_millis(2),
        warm_up: Duration::from_millis(1),
        idle_duration: Duration::from_millis(20),
        queue_depth: 4,
        ..settings()
    };
    let comparison = compared(&mut Here, &mut paths, &request(), &settings).unwrap();
    assert_eq!(comparison.results.len(), 8);
    for result in &comparison.results {
        assert_eq!((result.queue_depth, result.samples.len()), (4, 6));
        assert!(result.throughput_mib_s > 1.0 && result.errors == 0);
        assert!(result.service_time_p99_ns >= result.service_time_p50_ns);
    }
    let text = serde_json::to_string_pretty(&comparison).unwrap();
    assert!(text.contains("a RAM disk has no commands"));
}

#[test]
fn a_region_too_small_for_the_span_is_reported_with_its_remedy() {
    let mut paths: Vec<Box<dyn Path>> = vec![Box::new(Ram { buffers_out: 0 })];
    let settings = Settings {
        block_sizes_bytes: vec![512],
        span_bytes: 1 << 21,
        idle_duration: Duration::ZERO,
        ..settings()
    };
    let comparison = compared(&mut Here, &mut paths, &request(), &settings).unwrap();
    assert!(comparison.results.is_empty());
    assert!(comparison.missing[0].hint.contains("at most 1048576 bytes"));
    // An empty comparison still has a table and a report.
    assert!(straightway_reports::table(&comparison).contains("Not measured"));
    assert!(comparison.page().html().is_ok());
}

#[test]
fn a_comparison_of_one_path_is_valid_and_whole_and_has_a_table() {
    let mut host = SimulatedHost::new();
    let mut paths = vec![host.path(Profile::default())];
    let settings = Settings {
        block_sizes_bytes: vec![4096],
        ..Settings::default()
    };
    let mut progress = |step: &Progress<'_>| assert!(step.done_cells <= step.total_cells);
    let cancel = AtomicBool::new(false);
    let request = Request::default();
    let compared = compare(
        &mut host,
        &mut paths,
        &request,
        &settings,
        &mut progress,
        &cancel,
    );
    let comparison = compared.unwrap();
    assert!(comparison.run.valid && comparison.run.complete);
    assert!(table(&comparison).contains("Random read, 4 KiB"));
}
