// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why blocks were late: each cause that can be played without a lab, in a real run.

use crate::support::{Folder, run, stdout};
use serde_json::Value;
use std::process::{Child, Command, Output, Stdio};

fn sustain(words: &str) -> Value {
    let words = format!("sustain {words} --span 8M --warm-up 200ms --why --json");
    let words: Vec<&str> = words.split_ascii_whitespace().collect();
    value(&run(&words))
}

fn value(output: &Output) -> Value {
    // A busy machine makes the verdict void; what kept each block is told all the same.
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(value["why"]["late"].is_u64(), "{value}");
    value["why"].clone()
}

fn causes(why: &Value) -> Vec<&str> {
    let causes = why["causes"].as_array().unwrap();
    causes
        .iter()
        .map(|one| one["cause"].as_str().unwrap())
        .collect()
}

/// Keeps a processor busy until it is dropped.
struct Spinner(Child);

impl Spinner {
    fn on(processor: &str) -> Self {
        let mut spinner = Command::new("taskset");
        spinner.args(["-c", processor, "sh", "-c", "while :; do :; done"]);
        Self(spinner.stdin(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The first processor that this process may run on.
fn a_processor() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = status.lines();
    let list = lines
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .unwrap();
    let first = list.trim().split(['-', ',']).next().unwrap();
    first.to_owned()
}

#[test]
fn a_processor_that_others_have_is_named() {
    let processor = a_processor();
    let spinners = [(); 3].map(|()| Spinner::on(&processor));
    let mut run = Command::new("taskset");
    run.args(["-c", &processor])
        .arg(env!("CARGO_BIN_EXE_straightway"));
    run.args([
        "sustain",
        "ram:32M",
        "--rate",
        "500iops",
        "--block",
        "4K",
        "--deadline",
        "1ms",
    ]);
    run.args([
        "--duration",
        "3s",
        "--warm-up",
        "10ms",
        "--span",
        "8M",
        "--why",
        "--json",
    ]);
    let output = run.output().unwrap();
    drop(spinners);
    let why = value(&output);
    assert!(why["late"].as_u64() > Some(0), "{why}");
    assert_eq!(causes(&why).first(), Some(&"processor"), "{why}");
    let worst = &why["worst"][0];
    assert!(
        worst["evidence"]["waited_ns"].as_u64() > Some(500_000),
        "{worst}"
    );
}

#[test]
fn a_drive_that_takes_longer_than_the_deadline_is_named() {
    let why =
        sustain("model:16M,latency=40ms --rate 10iops --block 4K --deadline 5ms --duration 2s");
    assert_eq!(why["late"], 20, "{why}");
    let causes = causes(&why);
    assert!(causes.contains(&"device"), "{why}");
    // What the machine does beside it may keep a block, and nothing else.
    let others = causes
        .iter()
        .filter(|cause| !["device", "processor", "memory"].contains(cause));
    assert_eq!(others.count(), 0, "{why}");
}

/// 40 blocks a second, each of which takes 100 ms, two at a time.
#[test]
fn a_rate_that_the_path_does_not_serve_is_named() {
    let why = sustain(
        "model:16M,latency=100ms --rate 40iops --block 4K --deadline 150ms --duration 2s \
         --queue-depth 2",
    );
    assert!(causes(&why).contains(&"rate"), "{why}");
    let rows = why["causes"].as_array().unwrap();
    let rate = rows.iter().find(|one| one["cause"] == "rate").unwrap();
    assert!(rate["blocks"].as_u64() > Some(20), "{why}");
}

#[test]
fn the_report_has_the_causes_and_without_late_blocks_says_so() {
    let folder = Folder::new();
    let place = folder.path("out");
    let words = [
        "sustain",
        "model:16M,latency=40ms",
        "--rate",
        "10iops",
        "--block",
        "4K",
        "--deadline",
        "5ms",
        "--duration",
        "1s",
        "--span",
        "8M",
        "--warm-up",
        "200ms",
        "--why",
        "--output",
        &place,
    ];
    let output = run(&words);
    let told = stdout_of(&output);
    assert!(
        told.contains("Why blocks were late") && told.contains("what helps"),
        "{told}"
    );
    let page = std::fs::read_to_string(folder.path("out/report.html")).unwrap();
    assert!(page.contains("The worst blocks") && !page.contains("NaN"));
    let calm = sustain("ram:32M --rate 100iops --block 4K --deadline 60s --duration 500ms");
    assert_eq!((&calm["late"], causes(&calm).len()), (&0.into(), 0));
    // Without the word nothing is read, and the field is null.
    let words = "sustain ram:32M --rate 100iops --block 4K --deadline 60s --duration 300ms --span 8M --json";
    let words: Vec<&str> = words.split_ascii_whitespace().collect();
    let output = run(&words);
    let plain: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(plain["why"].is_null());
    assert!(stdout(&run(&["schema", "sustain"])).contains("usual_response_ns"));
}

fn stdout_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}
