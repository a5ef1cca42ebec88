// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings of which not one byte comes.

use crate::support::{Folder, get, names, run_with_input, stderr, volume};

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
