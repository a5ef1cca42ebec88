// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings of which not one byte comes.

use crate::support::{Folder, get, names, run, run_with_input, stderr, volume};

#[test]
fn a_source_of_which_nothing_comes_stores_nothing_and_fails() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let (udp, tcp) = ("udp://127.0.0.1:0", "tcp://127.0.0.1:0");
    let empty = folder.file("empty", 0);
    let samples = ["--format", "sigmf", "--sigmf-datatype", "cu8"];
    let samples = [&samples[..], &["--sample-rate", "1M"]].concat();
    let sources: [(&str, &[&str]); 9] = [
        ("standard input", &[]),
        ("standard input", &["--segment", "1M", "--policy", "drop"]),
        ("standard input", &["--format", "mcap", "--segment", "1M"]),
        ("standard input", &samples),
        (&empty, &["--from", &empty, "--rate", "1M"]),
        (udp, &["--from", udp, "--for", "200ms", "--policy", "drop"]),
        (tcp, &["--from", tcp, "--for", "200ms"]),
        (tcp, &["--from", tcp, "--for", "200ms", "--once"]),
        (
            tcp,
            &[
                "--from",
                tcp,
                "--for",
                "200ms",
                "--format",
                "mcap",
                "--segment",
                "1M",
            ],
        ),
    ];
    for (source, words) in sources {
        let output = run_with_input(&[&["record", &device, "take"], words].concat(), &[]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        let what = match source {
            tcp if tcp.starts_with("tcp") => format!("no sender came to {tcp} within 200ms"),
            other => format!("nothing came from {other}"),
        };
        assert!(said.contains(&what), "{said}");
        assert!(said.contains("nothing was recorded\nhint: "), "{said}");
        assert_eq!(names(&device), [""; 0], "{words:?}");
    }
    let quiet = run_with_input(&["--quiet", "record", &device, "take", "--json"], &[]);
    assert!(
        stderr(&quiet).contains("nothing came"),
        "{}",
        stderr(&quiet)
    );
    let report: serde_json::Value = serde_json::from_slice(&quiet.stdout).unwrap();
    assert_eq!(report["nothing_came"], true);
    // What is there stays as it is.
    let data = [7; 64 << 10];
    assert!(
        run_with_input(&["record", &device, "take"], &data)
            .status
            .success()
    );
    let more = run_with_input(&["record", &device, "take", "--append"], &[]);
    assert_eq!(more.status.code(), Some(1));
    assert!(
        stderr(&more).contains("nothing was added"),
        "{}",
        stderr(&more)
    );
    assert_eq!(get(&device, "take", &[]), data);
}

#[test]
fn a_block_that_takes_longer_than_the_recording_has_a_hint() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let words = [
        "record", &device, "r", "--from", "pattern", "--for", "100ms", "--rate", "1K",
    ];
    let output = run(&words);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let hint = "hint: a block of 1 MiB takes longer at this rate: a smaller --block, or a longer recording";
    assert!(said.contains(hint), "{said}");
}

#[test]
fn a_recording_says_what_it_takes_a_word_for() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    // Seconds are not a size.
    let output = run_with_input(&["record", &device, "s", "--segment", "60"], &[1; 8192]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--segment 60s for a time"), "{said}");
    let append = ["record", &device, "take", "--append"];
    let said = stderr(&run_with_input(&append, &[1; 8192]));
    let what = "`take` does not exist: a new recording begins";
    assert!(said.contains(what), "{said}");
    let said = stderr(&run_with_input(&append, &[1; 8192]));
    assert!(!said.contains(what), "{said}");
    let rehearse = [
        "record",
        &device,
        "take",
        "--rehearse",
        "100ms",
        "--rate",
        "1M",
    ];
    let what = "`take` exists: a recording of this name will be refused";
    let said = stderr(&run(&rehearse));
    assert!(said.contains(what), "{said}");
    let said = stderr(&run(&[&rehearse[..], &["--append"]].concat()));
    assert!(!said.contains(what), "{said}");
}
