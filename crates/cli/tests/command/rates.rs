// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rates and deadlines as users write them, and what a rehearsal says of each.

use crate::support::{Folder, command, json, ok, refused, run, stderr, stdout, volume};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};

/// Without the deadline of an hour that other tests give.
fn rehearse(device: &str, words: &[&str]) -> Output {
    let all = [
        "record",
        device,
        "take",
        "--rehearse",
        "500ms",
        "--block",
        "16K",
    ];
    let mut command = Command::new(env!("CARGO_BIN_EXE_straightway"));
    command.args(all).args(words).stdin(Stdio::null());
    command.output().unwrap()
}

#[test]
fn a_rate_has_fractions_and_is_echoed_to_the_byte() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    for (rate, echo) in [
        ("1.5M", "1.50 MiB/s (1572864 bytes/s)"),
        ("1.2MB/s", "1.14 MiB/s (1200000 bytes/s)"),
        ("1.1M", "1.10 MiB/s (1153433 bytes/s)"),
    ] {
        let said = stdout(&rehearse(&device, &["--rate", rate, "--deadline", "60min"]));
        assert!(said.starts_with(&format!("holds {echo} with ")), "{said}");
    }
    let words = ["--from", "pattern", "--for", "1s", "--rate"];
    let record = [&["record", &device, "take"], &words[..]].concat();
    for (wrong, why) in [
        ("1.5", "a byte has no fraction"),
        ("1.M", "behind the point"),
    ] {
        refused(&[&record[..], &[wrong]].concat(), 2, why);
    }
    let disk = folder.path("other");
    ok(&["format", &disk, "--size", "1.5M"]);
    assert_eq!(std::fs::metadata(disk).unwrap().len(), 3 << 19);
}

#[test]
fn a_rate_follows_from_the_samples() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let samples = [
        "--format",
        "sigmf",
        "--sigmf-datatype",
        "ci16_le",
        "--sample-rate",
        "0.25M",
        "--channels",
        "2",
    ];
    // Four bytes of two channels.
    let said = stdout(&rehearse(
        &device,
        &[&samples[..], &["--deadline", "60min"]].concat(),
    ));
    assert!(said.contains("(2000000 bytes/s)"), "{said}");
    let words = [
        "--from", "pattern", "--for", "500ms", "--block", "16K", "--json",
    ];
    let report = json(&[&["record", &device, "take"], &samples[..], &words].concat());
    let bytes = report["length_bytes"].as_u64().unwrap();
    assert!((960_000..=1_000_000).contains(&bytes), "{report}");
    // What is given is taken.
    let rate = ["--rate", "4MB", "--deadline", "60min"];
    let said = stdout(&rehearse(&device, &[&samples[..], &rate].concat()));
    assert!(said.contains("(4000000 bytes/s)"), "{said}");
    refused(
        &[&["record", &device, "raw"], &words[..]].concat(),
        2,
        "--rate is required",
    );
}

#[test]
fn a_rehearsal_says_what_would_be_lost_and_apart_what_was_late() {
    let folder = Folder::new();
    let disk = folder.path("disk");
    ok(&["--quiet", "format", &disk, "--size", "32M"]);
    // Each command takes longer than the usual deadline.
    let slow = format!("model:32MiB,file={disk},latency=150ms");
    let words = ["--rate", "64K", "--buffers", "64"];
    let usual = rehearse(&slow, &words);
    let said = stdout(&usual);
    assert!(said.contains(": nothing would be lost; "), "{said}");
    assert!(
        said.contains("later than 100ms, the usual deadline, which was not given"),
        "{said}"
    );
    let given = [&words[..], &["--deadline", "100ms"]].concat();
    let output = rehearse(&slow, &given);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(
        said.contains(": nothing would be lost; ") && said.contains("LATER than"),
        "{said}"
    );
    let output = rehearse(&slow, &[&given[..], &["--json"]].concat());
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = &report["rehearsal"];
    assert_eq!(
        (&found["holds"], &report["lost_blocks"]),
        (&false.into(), &0.into())
    );
    assert_eq!(found["deadline_us"], 100_000);
    let met = rehearse(&disk, &[&words[..], &["--deadline", "1min"]].concat());
    let said = stdout(&met);
    assert!(
        said.contains("every block met the deadline of 1m"),
        "{said}"
    );
}

// partner: Linux | host kernel
#[test]
fn a_recorder_says_at_once_that_it_waits_for_a_sender() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    for (name, words) in [("one", &[][..]), ("many", &["--segment", "1M"])] {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let from = format!("tcp://127.0.0.1:{port}");
        let words = [&["record", &device, name, "--from", &from, "--once"], words].concat();
        let mut child = command(&words).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let wanted = format!("straightway: waits for a sender at {from}");
        assert!(said.any(|line| line.unwrap() == wanted));
        // It listens by then.
        let sender = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        std::io::Write::write_all(&mut &sender, &[7; 4096]).unwrap();
        drop(sender);
        assert!(said.all(|line| line.unwrap() != wanted));
        assert!(child.wait().unwrap().success());
    }
    let output = run(&["ls", &device]);
    assert_eq!(stdout(&output), "many.000001\none\n", "{}", stderr(&output));
}
