// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `status --events` and `--textfile`: what happens in a recording, for programs that watch it.

use crate::live::Take;
use crate::support::{Folder, command, json, noise, ok, refused, run, stderr, volume};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Output, Stdio};

fn watch(device: &str, words: &[&str]) -> Child {
    command(&[&["status", device], words].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The lines of one that has ended, whose numbers follow one another.
fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for (number, line) in lines.iter().enumerate() {
        assert_eq!(line["number"], number, "{text}");
    }
    lines
}

fn of<'l>(lines: &'l [Value], event: &str) -> Vec<&'l Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

#[test]
fn each_segment_is_an_event_when_it_is_final_and_when_it_is_removed() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let mut take = Take::start(&device, &["--segment", "256K", "--keep", "1M"]);
    assert!(take.is_recording());
    let mut early = watch(&device, &["--events"]);
    // It is heard before anything is recorded.
    let mut begin = String::new();
    let mut said = BufReader::new(early.stdout.take().unwrap());
    while begin.is_empty() {
        if said.read_line(&mut begin).unwrap() == 0 {
            // The recorder was not heard yet.
            early.wait().unwrap();
            early = watch(&device, &["--events"]);
            said = BufReader::new(early.stdout.take().unwrap());
        }
    }
    let first: Value = serde_json::from_str(&begin).unwrap();
    assert_eq!(
        (&first["event"], &first["name"]),
        (&"started".into(), &"take".into())
    );
    assert_eq!(
        (&first["number"], &first["device"]),
        (&0.into(), &device.clone().into())
    );
    for part in noise(3, 4 << 20).chunks(64 << 10) {
        take.write(part);
    }
    let mut late = watch(&device, &["--events"]);
    let mut heard = BufReader::new(late.stdout.take().unwrap());
    let mut text = String::new();
    assert_ne!(heard.read_line(&mut text).unwrap(), 0);
    take.end();
    heard.read_to_string(&mut text).unwrap();
    let late = late.wait_with_output().unwrap();
    assert!(late.status.success(), "{}", stderr(&late));
    assert!(stderr(&late).contains("the recording has ended"));
    let late = Output {
        stdout: text.into_bytes(),
        ..late
    };
    let all = lines(&late);
    let rest: Vec<String> = said.lines().map(Result::unwrap).collect();
    assert!(early.wait().unwrap().success());
    // One that was there from the beginning and one that came late have the same.
    let text = String::from_utf8(late.stdout.clone()).unwrap();
    assert_eq!(
        begin.trim_end().to_owned() + "\n" + &rest.join("\n"),
        text.trim_end()
    );
    let names = |event: &str| -> Vec<String> {
        let events = of(&all, event).into_iter();
        let names = events.map(|line| line["file"].as_str().unwrap().to_owned());
        names.collect()
    };
    let (finals, removed) = (names("final"), names("removed"));
    let kept: Vec<String> = ok(&["ls", &device]).lines().map(str::to_owned).collect();
    let numbered = (1..=finals.len()).map(|number| format!("take.{number:06}"));
    assert!(finals.iter().eq(&numbered.collect::<Vec<_>>()), "{text}");
    assert_eq!([removed, kept].concat(), finals);
    let bytes = of(&all, "final").into_iter();
    let bytes: u64 = bytes
        .map(|line| line["length_bytes"].as_u64().unwrap())
        .sum();
    assert_eq!(bytes, 4 << 20);
    let tail: Vec<&Value> = all.iter().rev().take(2).collect();
    assert_eq!(tail[0]["event"], "ended");
    assert_eq!(
        (&tail[0]["durable_bytes"], &tail[0]["failure"]),
        (&(4 << 20).into(), &Value::Null)
    );
    assert_eq!(of(&all, "stopping").len(), 1);
    refused(&["status", &device, "--events"], 1, "no process records");
    refused(&["status", &device, "--events", "--watch"], 2, "--watch");
    refused(&["status", &device, "--every", "2s"], 2, "--every needs");
}

#[test]
fn losses_and_late_blocks_are_events_whose_sums_are_those_of_the_report() {
    let folder = Folder::new();
    let device = format!("model:64MiB,latency=20ms,file={}", folder.path("disk"));
    ok(&["--quiet", "format", &device]);
    let words = [
        "--from",
        "pattern",
        "--rate",
        "40M",
        "--buffers",
        "2",
        "--block",
        "64K",
    ];
    let ends = ["--policy", "drop", "--deadline", "1ms", "--json"];
    let recorder = command(&[&["record", &device, "take"], &words[..], &ends].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let watched = loop {
        let mut watched = watch(&device, &["--events"]);
        let mut said = BufReader::new(watched.stdout.take().unwrap());
        let mut all = String::new();
        let mut is_enough = false;
        while said.read_line(&mut all).unwrap() > 0 {
            // It has lost something twice, and something was late.
            if !is_enough && all.matches("\"gap\"").count() > 1 && all.contains("\"late\"") {
                is_enough = true;
                let pid = Pid::from_child(&recorder);
                kill_process(pid, Signal::INT).unwrap();
            }
        }
        let status = watched.wait().unwrap();
        if !all.is_empty() {
            assert!(status.success());
            break all;
        }
    };
    let output = recorder.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let output = Output {
        stdout: watched.into_bytes(),
        ..output
    };
    let all = lines(&output);
    let gap = *of(&all, "gap").last().unwrap();
    for key in ["gaps", "lost_blocks", "lost_bytes"] {
        assert_eq!(gap[key], report[key], "{key}");
    }
    let late = *of(&all, "late").last().unwrap();
    for key in ["misses", "lateness_max_us"] {
        assert_eq!(late[key], report[key], "{key}");
    }
    let ended = *of(&all, "ended").last().unwrap();
    assert_eq!(ended["lost_bytes"], report["lost_bytes"]);
    assert_eq!(ended["durable_bytes"], report["length_bytes"]);
}

#[test]
fn a_textfile_is_replaced_until_the_recording_ends_and_no_other_file_is() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let file = folder.path("cam.prom");
    let words = ["--textfile", &file, "--every", "10ms"];
    let text = || std::fs::read_to_string(&file).unwrap_or_default();
    let alone = ["status", &device, "--textfile", &file];
    assert_eq!(run(&alone).status.code(), Some(1));
    assert!(
        text().ends_with(&format!("up{{device=\"{device}\"}} 0\n")),
        "{}",
        text()
    );
    let mut take = Take::start(&device, &[]);
    take.write(&noise(5, 64 << 10));
    let free = json(&["status", &device, "--json"])["free_bytes"].clone();
    let known = json(&["stat", &device, "--json"])["volume"]["free_bytes"].clone();
    assert_eq!(free, known);
    let writer = watch(&device, &words);
    while !text().contains("received_bytes_total{") {
        std::thread::yield_now();
    }
    assert!(text().contains("# TYPE straightway_recording_received_bytes_total counter\n"));
    take.write(&noise(6, 64 << 10));
    while !text().contains("} 131072\n") {
        std::thread::yield_now();
    }
    take.end();
    let ended = writer.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", stderr(&ended));
    assert!(
        text().contains("up{") && text().ends_with(" 0\n"),
        "{}",
        text()
    );
    let own = folder.path("own");
    std::fs::write(&own, "mine").unwrap();
    refused(&["status", &device, "--textfile", &own], 9, "exists");
    assert_eq!(std::fs::read(&own).unwrap(), b"mine");
}

#[test]
fn the_events_of_a_recorder_that_is_killed_end_with_1() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let mut take = Take::start(&device, &[]);
    take.write(&noise(7, 64 << 10));
    let mut watched = watch(&device, &["--events"]);
    let mut line = String::new();
    let mut said = BufReader::new(watched.stdout.take().unwrap());
    said.read_line(&mut line).unwrap();
    take.kill();
    let output = watched.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("was killed"),
        "{}",
        stderr(&output)
    );
}
