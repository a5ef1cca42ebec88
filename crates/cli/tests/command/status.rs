// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a recording goes, asked while it does.

use crate::live::Take;
use crate::support::{
    Folder, command, json, noise, ok, refused, schema_names_all_keys, stderr, volume,
};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Stdio};

#[test]
fn a_recording_says_how_it_goes() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    for words in [&[][..], &["--segment", "128K"]] {
        let words = [&["--deadline", "1min", "--buffers", "9"], words].concat();
        let mut take = Take::committed(&device, "64K", &words);
        let data = noise(1, 256 << 10);
        let mut written = 0;
        for part in data.chunks(64 << 10) {
            take.write(part);
            written += part.len();
            let status = json(&["status", &device, "--json"]);
            schema_names_all_keys(&status, &ok(&["schema", "status"]));
            assert_eq!(status["name"], "take");
            for (key, wanted) in [
                ("bytes", written),
                ("durable_bytes", written),
                ("blocks", written >> 16),
                ("lost_blocks", 0),
                ("misses", 0),
                ("buffers", 9),
                ("waiting_blocks", 0),
            ] {
                assert_eq!(status[key], wanted, "{key}: {status}");
            }
        }
        let text = ok(&["status", &device]);
        assert!(
            text.starts_with("recording `take` for ")
                && text.contains("256 KiB (262144 bytes) are durable")
                && text.contains("nothing lost; none late; 0 of 9 buffers in use"),
            "{text}"
        );
        take.end();
        refused(&["status", &device], 1, "no process records on");
        let model = format!("model:64MiB,file={device}");
        refused(&["status", &model], 1, "no process records on");
        ok(&["rm", &device, "take*"]);
    }
}

/// One that watches, and prints a line of JSON each time.
fn watch(device: &str) -> (Child, BufReader<ChildStdout>) {
    let mut child = command(&["status", device, "--watch", "--every", "20ms", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    (child, lines)
}

fn next(lines: &mut BufReader<ChildStdout>) -> serde_json::Value {
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

#[test]
fn a_recording_is_watched_to_its_end() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let mut take = Take::committed(&device, "64K", &["--deadline", "60min"]);
    take.write(&noise(1, 64 << 10));
    let (mut ended, mut lines) = watch(&device);
    let (stopped, _reader) = watch(&device);
    let (left, mut reader) = watch(&device);
    next(&mut reader);
    // Its reader ends.
    drop(reader);
    assert_eq!(left.wait_with_output().unwrap().status.code(), Some(0));
    for count in 1..4u64 {
        while next(&mut lines)["durable_bytes"] != count << 16 {}
        take.write(&noise(1, 64 << 10));
    }
    let pid = Pid::from_raw(i32::try_from(stopped.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    assert_eq!(stopped.wait_with_output().unwrap().status.code(), Some(130));
    take.end();
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(ended.wait().unwrap().code(), Some(0));
    let output = ended.wait_with_output().unwrap();
    assert!(stderr(&output).contains("the recording has ended"));
    // One that is killed does not end in order.
    ok(&["rm", &device, "take"]);
    let mut take = Take::committed(&device, "64K", &["--deadline", "60min"]);
    take.write(&noise(1, 64 << 10));
    let (mut child, mut lines) = watch(&device);
    next(&mut lines);
    let pid = Pid::from_raw(i32::try_from(take.id()).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(stderr(&child.wait_with_output().unwrap()).contains("was killed"));
    assert_eq!(take.ended().status.code(), None);
}

#[test]
fn a_watch_for_people_has_the_rate_of_now() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let mut take = Take::committed(&device, "64K", &["--deadline", "60min"]);
    take.write(&noise(1, 64 << 10));
    let mut child = command(&["status", &device, "--watch", "--every", "20ms"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let is_now = |line: std::io::Result<String>| line.unwrap().ends_with(" arrived, now 0 B/s");
    assert!(lines.any(is_now));
    take.end();
    assert!(lines.count() > 0);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    refused(
        &["status", &device, "--watch", "--every", "9ms"],
        2,
        "--every",
    );
}

#[test]
fn metrics_without_a_recording_say_so() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let output = crate::support::run(&["status", &device, "--openmetrics"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    let line = format!("straightway_recording_up{{device=\"{device}\"}} 0\n# EOF\n");
    assert!(text.ends_with(&line), "{text}");
}

#[test]
fn what_is_not_a_volume_is_named_as_by_other_verbs() {
    let folder = Folder::new();
    let (file, none) = (folder.file("file", 1 << 20), folder.path("none"));
    for (device, what) in [
        (&file, "no Straightway volume is on this device"),
        (&none, "there is no file"),
    ] {
        refused(&["status", device], 3, what);
        refused(&["ls", device], 3, what);
    }
}

#[test]
fn losses_are_seen_while_it_records_and_are_those_of_the_report() {
    let folder = Folder::new();
    let device = format!("model:256MiB,file={},latency=20ms", folder.path("disk"));
    ok(&["--quiet", "format", &device]);
    let recording = command(&[
        "record",
        &device,
        "take",
        "--from",
        "pattern",
        "--rate",
        "40M",
        "--buffers",
        "2",
        "--block",
        "64K",
        "--policy",
        "drop",
        "--deadline",
        "1ms",
        "--json",
    ])
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let seen = loop {
        let output = crate::support::run(&["status", &device, "--json"]);
        // Before it listens no process records there.
        if output.status.success() {
            let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            if status["lost_blocks"].as_u64().unwrap() > 0 && status["misses"].as_u64() > Some(0) {
                break status;
            }
        }
    };
    let text = ok(&["status", &device]);
    assert!(
        text.contains(" LOST (") && text.contains(" LATE, "),
        "{text}"
    );
    let pid = Pid::from_raw(i32::try_from(recording.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let output = recording.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for key in [
        "lost_blocks",
        "lost_bytes",
        "gaps",
        "misses",
        "blocks",
        "commits",
    ] {
        assert!(
            report[key].as_u64() >= seen[key].as_u64(),
            "{key}: {seen} {report}"
        );
    }
}
