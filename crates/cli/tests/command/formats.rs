//! Recordings as files that other tools open.

use crate::support::{
    Folder, code, json, noise, ok, run, run_with_input, schema_names_all_keys, stderr, stdout,
    volume,
};
use serde_json::{Value, json};

pub const SAMPLES: [&str; 6] = [
    "--format",
    "sigmf",
    "--sigmf-datatype",
    "ci16_le",
    "--sample-rate",
    "1M",
];

/// What a command that is refused says; its status is `status`.
fn refused(words: &[&str], status: i32) -> String {
    let output = run(words);
    assert_eq!(
        output.status.code(),
        Some(status),
        "{words:?}: {}",
        stderr(&output)
    );
    stderr(&output)
}

fn put(device: &str, name: &str, data: &[u8]) {
    stdout(&run_with_input(
        &["--quiet", "put", device, "-", name],
        data,
    ));
}

fn record(device: &str, name: &str, options: &[&str], data: &[u8]) -> std::process::Output {
    run_with_input(&[&["record", device, name], options].concat(), data)
}

fn meta_of(path: &str) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// A record of MCAP.
fn mcap_record(opcode: u8, content: &[u8]) -> Vec<u8> {
    [
        &[opcode][..],
        &(content.len() as u64).to_le_bytes(),
        content,
    ]
    .concat()
}

/// A stream of MCAP with this many messages and no end.
pub fn mcap(messages: u64) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
    let channel = [vec![1, 0, 0, 0], text("/a"), text("json"), text("")].concat();
    let mut stream = b"\x89MCAP0\r\n".to_vec();
    stream.extend(mcap_record(1, &[text("ros2"), text("")].concat()));
    stream.extend(mcap_record(4, &channel));
    for number in 0..messages {
        let times = [number.to_le_bytes(), number.to_le_bytes()].concat();
        stream.extend(mcap_record(
            5,
            &[&[1, 0, 0, 0, 0, 0][..], &times, b"{}"].concat(),
        ));
    }
    stream
}

#[test]
fn samples_are_exported_with_what_describes_them() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &["--checksums"]);
    let data = noise(1, 100_003);
    let options = [
        &SAMPLES[..],
        &["--frequency", "433.92M", "--hardware", "a \"receiver\""],
    ]
    .concat();
    assert!(record(&device, "band", &options, &data).status.success());
    // It is described before its first sample, for other tools too.
    let stored = meta_of_file(&device, "band.sigmf-meta", &folder);
    assert_eq!(stored["global"]["core:hw"], json!("a \"receiver\""));
    let target = folder.path("band");
    let words = ["export", &device, "band", &target, "--json"];
    let report = json(&words);
    schema_names_all_keys(&report, &ok(&["schema", "export"]));
    assert_eq!(report["format"], "sigmf");
    assert_eq!(report["sigmf"]["samples"], 25_000);
    assert_eq!(report["sigmf"]["cut_bytes"], 3);
    assert_eq!(report["verified"], true);
    let samples = std::fs::read(folder.path("band.sigmf-data")).unwrap();
    assert!(samples == data[..100_000]);
    let meta = meta_of(&folder.path("band.sigmf-meta"));
    assert_eq!(meta["global"]["core:sha512"], report["sigmf"]["sha512"]);
    assert_eq!(meta["captures"][0]["core:frequency"], 433_920_000);
    assert_eq!(meta["captures"][0], stored["captures"][0]);
    // Either file that exists is enough to refuse both.
    for name in ["band.sigmf-data", "band.sigmf-meta"] {
        let (other, kept) = (folder.path(name), folder.path("kept"));
        std::fs::rename(&other, &kept).unwrap();
        assert!(refused(&words, 9).contains("exists"));
        assert!(!std::fs::exists(&other).unwrap());
        std::fs::rename(&kept, &other).unwrap();
    }
    ok(&[&words[..], &["--force"]].concat());
    // The names are the same with an extension.
    ok(&[
        "export",
        &device,
        "band",
        &folder.path("band.sigmf-meta"),
        "--force",
    ]);
    assert!(
        ok(&["export", &device, "band", &target, "--force"])
            .contains("3 bytes at the end left out")
    );
}

fn meta_of_file(device: &str, name: &str, folder: &Folder) -> Value {
    let path = folder.path("stored");
    ok(&["get", device, name, &path, "--force"]);
    meta_of(&path)
}

#[test]
fn each_gap_begins_a_capture() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    put(&device, "a", &noise(1, 40_000));
    let line = |offset: u64, lost: u64| format!("{offset:>20} {lost:>20} {:>16} {:>4}\n", 7, 1);
    put(
        &device,
        "a.gaps",
        (line(8_000, 4_000) + &line(40_000, 4_000)).as_bytes(),
    );
    let target = folder.path("a");
    // Raw bytes have their gaps beside them.
    let report = json(&["export", &device, "a", &target, "--json"]);
    assert_eq!(
        (&report["format"], &report["gaps"], &report["lost_bytes"]),
        (&json!("raw"), &json!(1), &json!(4_000))
    );
    let gaps = meta_of(&folder.path("a.gaps.json"));
    assert_eq!(
        gaps["gaps"],
        json!([{"offset_bytes": 8_000, "lost_bytes": 4_000, "arrival_us": 7}])
    );
    // Metadata of another program, stored later.
    let meta = json!({
        "global": {"core:datatype": "ci16_le", "core:sample_rate": 1000},
        "captures": [{"core:sample_start": 0, "core:datetime": "2026-01-01T00:00:00Z"}],
        "annotations": []});
    put(&device, "a.sigmf-meta", meta.to_string().as_bytes());
    let report = json(&["export", &device, "a", &target, "--json"]);
    assert_eq!(report["sigmf"]["captures"], 2);
    let captures = &meta_of(&folder.path("a.sigmf-meta"))["captures"];
    assert_eq!(
        captures[1],
        json!({"core:sample_start": 2_000, "core:global_index": 3_000, "core:datetime": "2026-01-01T00:00:03.000000000Z"})
    );
    put(&device, "b", &noise(1, 40_000));
    put(&device, "b.sigmf-meta", meta.to_string().as_bytes());
    put(&device, "b.gaps", line(8_001, 4_000).as_bytes());
    assert!(
        refused(&["export", &device, "b", &folder.path("b")], 1)
            .contains("whole number of samples")
    );
    assert!(!std::fs::exists(folder.path("b.sigmf-data")).unwrap());
}

#[test]
fn a_stream_of_messages_becomes_a_whole_file() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let stream = mcap(100);
    let cut = &stream[..stream.len() - 3];
    assert!(
        record(&device, "bag", &["--format", "mcap"], cut)
            .status
            .success()
    );
    let target = folder.path("bag.mcap");
    let report = json(&["export", &device, "bag", &target, "--json"]);
    schema_names_all_keys(&report, &ok(&["schema", "export"]));
    let mcap = &report["mcap"];
    assert_eq!(
        (&mcap["messages"], &mcap["chunks"], &mcap["was_whole"]),
        (&json!(99), &json!(1), &json!(false))
    );
    let file = std::fs::read(&target).unwrap();
    assert!(file.ends_with(b"\x89MCAP0\r\n"));
    assert!(refused(&["export", &device, "bag", "/dev/full"], 8).contains("/dev/full"));
    // Behind a gap there is no record that is known to begin.
    put(&device, "gap", &stream);
    put(
        &device,
        "gap.gaps",
        format!("{:>20} {:>20} {:>16} {:>4}\n", stream.len() - 60, 5, 7, 1).as_bytes(),
    );
    let output = run(&["export", &device, "gap", &folder.path("gap")]);
    assert!(
        stdout(&output).contains("98 messages")
            && stderr(&output).contains("60 bytes behind it are left out")
    );
    // What is damaged is left out, and the status says so.
    let chunk = [
        &[0; 16][..],
        &1_u64.to_le_bytes(),
        &[9; 4],
        &[0; 4],
        &1_u64.to_le_bytes(),
        &[7],
    ]
    .concat();
    put(
        &device,
        "bad",
        &[&stream[..], &mcap_record(6, &chunk)].concat(),
    );
    assert_eq!(code(&["export", &device, "bad", &folder.path("bad")]), 6);
    assert_eq!(
        json(&["ls", &device, "--json"])["files"]
            .as_array()
            .unwrap()
            .len(),
        4
    );
}

/// What was recorded in segments is exported as if it had been one file.
#[test]
fn segments_become_one_export() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let target = folder.path("whole");
    // Messages in segments of a block: records, and chunks, go from one to the next.
    let stream = mcap(2000);
    let words = ["--format", "mcap", "--segment", "4K", "--block", "4K"];
    assert!(record(&device, "bag", &words, &stream).status.success());
    let report = json(&["export", &device, "bag.0*", &target, "--json"]);
    assert!(report["segments"].as_u64().unwrap() > 1, "{report}");
    assert_eq!(
        (&report["mcap"]["messages"], &report["name"]),
        (&json!(2000), &json!("bag.000001"))
    );
    let in_one = folder.path("in one");
    put(&device, "one", &stream);
    ok(&["export", &device, "one", &in_one]);
    assert_eq!(
        std::fs::read(&target).unwrap(),
        std::fs::read(in_one).unwrap()
    );
    let again = record(&device, "bag", &words, &stream);
    assert!(
        stderr(&again).contains("earlier recording"),
        "{}",
        stderr(&again)
    );

    // Samples: a drive that is busy makes a segment longer, so how many there are is not known.
    let samples = noise(1, 40 * 4096);
    let words = [&SAMPLES[..], &["--segment", "32K", "--block", "16K"]].concat();
    let output = record(&device, "radio", &words, &samples);
    assert!(output.status.success(), "{}", stderr(&output));
    let report = json(&[
        "export",
        &device,
        "radio.0*",
        &folder.path("radio"),
        "--json",
    ]);
    assert_eq!(
        (&report["format"], &report["sigmf"]["samples"]),
        (&json!("sigmf"), &json!(10 * 4096))
    );
    assert_eq!(
        std::fs::read(folder.path("radio.sigmf-data")).unwrap(),
        samples
    );
    // A gap of a later segment is counted from the first one's beginning.
    ok(&["mv", &device, "radio.sigmf-meta", "other.sigmf-meta"]);
    let (first, second) = samples.split_at(65_536);
    put(&device, "other.000001", first);
    put(&device, "other.000002", second);
    let line = format!("{:>20} {:>20} {:>16} {:>4}\n", 4_000, 8_000, 7, 1);
    put(&device, "other.000002.gaps", line.as_bytes());
    let target = folder.path("other");
    let report = json(&["export", &device, "other.*", &target, "--json"]);
    assert_eq!(
        (&report["segments"], &report["gaps"]),
        (&json!(2), &json!(1))
    );
    let captures = &meta_of(&folder.path("other.sigmf-meta"))["captures"];
    let sample = (65_536 + 4_000) / 4;
    assert_eq!(
        (
            &captures[1]["core:sample_start"],
            &captures[1]["core:global_index"]
        ),
        (&json!(sample), &json!(sample + 2_000))
    );
    // Without the first segment nothing says when a sample was taken.
    let elsewhere = folder.path("elsewhere");
    let rest = [
        "export",
        &device,
        "other.000002",
        &elsewhere,
        "--format",
        "sigmf",
    ];
    assert!(refused(&rest, 10).contains("sigmf-meta"));
    let none = ["export", &device, "no*", &target];
    assert!(refused(&none, 10).contains("nothing was exported"));
}

#[test]
fn what_cannot_be_exported_is_refused_with_a_reason() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let target = folder.path("out");
    let export = |name: &str, options: &[&str], status: i32| {
        let said = refused(
            &[&["export", &device, name, &target], options].concat(),
            status,
        );
        assert!(said.contains("hint: "), "{said}");
        let left = std::fs::read_dir(&folder.0).unwrap().filter(|entry| {
            entry
                .as_ref()
                .unwrap()
                .file_name()
                .to_str()
                .unwrap()
                .contains("out")
        });
        assert_eq!(left.count(), 0, "{said}");
        said
    };
    put(&device, "a", b"RIFF and more");
    assert!(export("a", &["--format", "mcap"], 2).contains("not MCAP"));
    assert!(export("a", &["--format", "sigmf"], 10).contains("a.sigmf-meta"));
    for (meta, why) in [
        ("{\"global\": {\"core:da", "EOF"),
        (
            "{\"global\": {\"core:datatype\": \"ci12\"}}",
            "unknown datatype `ci12`",
        ),
    ] {
        put(&device, "a.sigmf-meta", meta.as_bytes());
        assert!(export("a", &[], 1).contains(why));
        ok(&["rm", &device, "a.sigmf-meta"]);
    }
    put(&device, "none", b"123");
    put(
        &device,
        "none.sigmf-meta",
        b"{\"global\": {\"core:datatype\": \"ci16_le\"}}",
    );
    assert!(export("none", &[], 1).contains("no whole sample"));
    put(&device, "a.gaps", &[b'x'; 64]);
    assert!(export("a", &[], 1).contains("line 1 of `a.gaps` is not a gap"));
    assert!(export("absent", &[], 10).contains("no file"));
    assert!(refused(&["export", &device, "a", "-"], 2).contains("NAME - writes"));
    let there = folder.0.to_str().unwrap();
    assert!(
        refused(&["export", &device, "a", there, "--format", "sigmf"], 2)
            .contains("is a directory")
    );
}

#[test]
fn what_cannot_be_described_is_not_recorded() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let long = "n".repeat(55);
    let samples = |more: &[&'static str]| [&SAMPLES[..], more].concat();
    let cases: [(&str, Vec<&str>, &str); 14] = [
        ("a", vec!["--format", "sigmf"], "--sigmf-datatype"),
        (
            "a",
            vec!["--format", "sigmf", "--sigmf-datatype", "cu8"],
            "--sample-rate",
        ),
        (
            "a",
            vec!["--format", "sigmf", "--sigmf-datatype", "ci12"],
            "unknown datatype",
        ),
        (
            "a",
            vec!["--sample-rate", "1M"],
            "--sample-rate is for --format sigmf",
        ),
        ("a", samples(&["--append"]), "without --append"),
        ("a", samples(&["--segment", "4M", "--keep", "8M"]), "--keep"),
        ("a%S", samples(&["--segment", "4M"]), "without %"),
        ("a", samples(&["--channels", "3"]), "inside a sample"),
        ("a", samples(&["--frequency", "1e6"]), "not a frequency"),
        (&long, samples(&[]), "NAME.sigmf-meta"),
        (
            "a",
            vec!["--format", "mcap", "--policy", "drop"],
            "without --policy drop",
        ),
        (
            "a",
            vec!["--format", "mcap", "--from", "pattern", "--rate", "1M"],
            "needs a stream of MCAP",
        ),
        (
            "a",
            vec!["--format", "mcap", "--hardware", "x"],
            "--hardware is for --format sigmf",
        ),
        (
            "a",
            vec![
                "--format",
                "mcap",
                "--from",
                "/proc/self/cmdline",
                "--rate",
                "1M",
            ],
            "not MCAP",
        ),
    ];
    for (name, options, why) in cases {
        let output = record(&device, name, &options, b"");
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(
            stderr(&output).contains(why),
            "{options:?}: {}",
            stderr(&output)
        );
    }
    assert_eq!(ok(&["ls", &device]), "");
    // A stream that turns out not to be MCAP leaves nothing.
    let output = record(&device, "a", &["--format", "mcap"], b"RIFF and more");
    assert!(!output.status.success() && stderr(&output).contains("not MCAP"));
    assert_eq!(ok(&["ls", &device]), "");
    // Metadata says when its recording began.
    assert!(record(&device, "a", &SAMPLES, &[0; 4096]).status.success());
    let output = record(&device, "a", &["--append"], &[0; 4096]);
    assert!(
        stderr(&output).contains("began once"),
        "{}",
        stderr(&output)
    );
    ok(&["rm", &device, "a"]);
    let output = record(&device, "a", &SAMPLES, &[0; 4096]);
    assert_eq!(output.status.code(), Some(9));
}
