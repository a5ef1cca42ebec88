// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the verbs of volumes print: JSON that a published schema describes, and nothing if they are
//! to be quiet.

use crate::support::{Folder, json, run, schema_names_all_keys, stderr, stdout};

#[test]
fn every_report_is_json_with_a_published_schema() {
    let folder = Folder::new();
    let disk = folder.path("disk.img");
    let small = folder.file("small", 1000);
    let out = folder.path("out");
    let exported = folder.path("exported");
    let reports: [(&str, &[&str]); 17] = [
        (
            "format",
            &["format", &disk, "--size", "8M", "--checksums", "--json"],
        ),
        (
            "put",
            &[
                "put",
                &disk,
                &small,
                "file",
                "--checksums",
                "--verify",
                "--json",
            ],
        ),
        ("get", &["get", &disk, "file", &out, "--verify", "--json"]),
        ("ls", &["ls", &disk, "--json"]),
        ("stat", &["stat", &disk, "--json"]),
        ("stat", &["stat", &disk, "file", "--json"]),
        ("check", &["check", &disk, "--read-data", "--json"]),
        ("mv", &["mv", &disk, "file", "other", "--json"]),
        ("cp", &["cp", &disk, "other", "third", "--json"]),
        ("export", &["export", &disk, "third", &exported, "--json"]),
        ("rm", &["rm", &disk, "other", "--json"]),
        ("df", &["df", &disk, "--json"]),
        ("label", &["label", &disk, "new", "--json"]),
        ("resize", &["resize", &disk, "9M", "--json"]),
        ("upgrade", &["upgrade", &disk, "--json"]),
        ("trim", &["trim", &disk, "--json"]),
        (
            "selftest",
            &["selftest", "model:8M", "--size", "64K", "--json"],
        ),
    ];
    for (verb, words) in reports {
        let report = json(words);
        assert_eq!(report["schema_version"], 2, "{verb}");
        schema_names_all_keys(&report, &stdout(&run(&["schema", verb])));
    }
}

#[test]
fn a_quiet_command_says_nothing_but_errors() {
    let folder = Folder::new();
    let disk = folder.path("disk");
    let input = folder.file("input", 5_000);
    for words in [
        &["format", &disk, "--size", "32M"][..],
        &["put", &disk, &input, "a"],
        &["check", &disk, "--read-data"],
        &["rm", &disk, "a"],
        &["label", &disk, "quiet"],
        &["resize", &disk, "33M"],
        &["trim", &disk],
    ] {
        let output = run(&[&["--quiet"], words].concat());
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
        assert_eq!(stdout(&output) + &stderr(&output), "", "{words:?}");
    }
    std::fs::write(&disk, vec![0; 32 << 20]).unwrap();
    let output = run(&["--quiet", "check", &disk]);
    assert!(!output.status.success() && !stderr(&output).is_empty());
}
