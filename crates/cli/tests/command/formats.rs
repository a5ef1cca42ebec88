// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings as files that other tools open.

use crate::live::Take;
use crate::support::{
    Folder, code, get, json, lossy, lossy_json, noise, ok, run, run_with_input,
    schema_names_all_keys, stderr, stdout, volume,
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
pub fn refused(words: &[&str], status: i32) -> String {
    let output = run(words);
    assert_eq!(
        output.status.code(),
        Some(status),
        "{words:?}: {}",
        stderr(&output)
    );
    stderr(&output)
}

pub fn put(device: &str, name: &str, data: &[u8]) {
    stdout(&run_with_input(
        &["--quiet", "put", device, "-", name],
        data,
    ));
}

pub fn record(device: &str, name: &str, options: &[&str], data: &[u8]) -> std::process::Output {
    run_with_input(&[&["record", device, name], options].concat(), data)
}

pub fn meta_of(path: &str) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// A record of MCAP.
pub fn mcap_record(opcode: u8, content: &[u8]) -> Vec<u8> {
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
    // The rest of the last sample is nowhere.
    let report = lossy_json(&words);
    schema_names_all_keys(&report, &ok(&["schema", "export"]));
    assert_eq!(report["format"], "sigmf");
    assert_eq!(report["sigmf"]["samples"], 25_000);
    assert_eq!(report["sigmf"]["cut_bytes"], 3);
    assert_eq!(report["sigmf"]["cut_at_end"], true);
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
    lossy(&[&words[..], &["--force"]].concat());
    // The names are the same with an extension.
    lossy(&[
        "export",
        &device,
        "band",
        &folder.path("band.sigmf-meta"),
        "--force",
    ]);
    assert!(
        lossy(&["export", &device, "band", &target, "--force"])
            .contains("3 bytes at the end left out")
    );
}

pub fn meta_of_file(device: &str, name: &str, folder: &Folder) -> Value {
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
    let report = lossy_json(&["export", &device, "a", &target, "--json"]);
    assert_eq!(
        (&report["format"], &report["gaps"], &report["lost_bytes"]),
        (&json!("raw"), &json!(2), &json!(8_000))
    );
    let gaps = meta_of(&folder.path("a.gaps.json"));
    assert_eq!(
        gaps["gaps"],
        json!([{"offset_bytes": 8_000, "lost_bytes": 4_000, "arrival_us": 7},
            {"offset_bytes": 40_000, "lost_bytes": 4_000, "arrival_us": 7}])
    );
    // Metadata of another program, stored later.
    let meta = json!({
        "global": {"core:datatype": "ci16_le", "core:sample_rate": 1000},
        "captures": [{"core:sample_start": 0, "core:datetime": "2026-01-01T00:00:00Z"}],
        "annotations": []});
    put(&device, "a.sigmf-meta", meta.to_string().as_bytes());
    let report = lossy_json(&["export", &device, "a", &target, "--json"]);
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
fn messages_go_on_behind_a_gap_between_records() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let stream = mcap(100);
    let line = |offset: usize, lost: u64| format!("{offset:>20} {lost:>20} {:>16} {:>4}\n", 7, 1);
    let export = |name: &str, data: &[u8], lines: &[String], status: i32| {
        put(&device, name, data);
        put(&device, &format!("{name}.gaps"), lines.concat().as_bytes());
        let output = run(&["export", &device, name, &folder.path(name)]);
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        let said = String::from_utf8(output.stdout.clone()).unwrap();
        (said, stderr(&output))
    };
    // A message is 33 bytes long.
    let (said, errors) = export("between", &stream, &[line(stream.len() - 66, 33)], 7);
    assert!(
        said.contains("100 messages") && !errors.contains("left out"),
        "{said}{errors}"
    );
    // It goes on with the next record, and what is left of the broken one is a loss.
    let (said, errors) = export("inside", &stream, &[line(stream.len() - 60, 5)], 7);
    assert!(said.contains("99 messages"), "{said}");
    assert!(said.contains("33 bytes left out beside gaps"), "{said}");
    let at = stream.len() - 60;
    assert!(
        errors.contains(&format!("gap at byte {at}, inside a record")),
        "{errors}"
    );
    // The recording that was continued has its own beginning.
    let both = [&stream[..], &mcap(10)].concat();
    let lines = [
        line(stream.len() - 60, 5),
        line(stream.len(), 0),
        line(both.len() - 33, 66),
    ];
    let (said, errors) = export("both", &both, &lines, 7);
    assert!(said.contains("109 messages"), "{said}");
    assert_eq!(errors.matches("inside a record").count(), 1, "{errors}");
    // What is missing at the end of the stream that a power cut ended is none of the next one's.
    let cut = &stream[..stream.len() - 5];
    let both = [cut, &mcap(10)].concat();
    let lines = [line(cut.len(), 5), line(cut.len(), 0)];
    let (said, errors) = export("cut", &both, &lines, 7);
    assert!(said.contains("109 messages"), "{said}");
    assert!(!errors.contains("left out"), "{errors}");
    // Before the first byte: the magic number is not where it is expected.
    let (said, _) = export("nothing", &stream, &[line(0, 5)], 7);
    assert!(said.contains("100 messages"), "{said}");
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
        2
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
    // Another recording of this name is another stream, which does not begin where the one before
    // it ended.
    assert!(record(&device, "bag", &words, &stream).status.success());
    let report = json(&["export", &device, "bag.0*", &target, "--json", "--force"]);
    assert_eq!(report["mcap"]["messages"], 4000, "{report}");

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
    let report = lossy_json(&["export", &device, "other.*", &target, "--json"]);
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
    // Each segment is a recording, too.
    let elsewhere = folder.path("elsewhere");
    let rest = ["export", &device, "other.000002", &elsewhere, "--json"];
    assert_eq!(lossy_json(&rest)["format"], "sigmf");
    let alone = &meta_of(&folder.path("elsewhere.sigmf-meta"))["captures"];
    for (capture, index) in alone
        .as_array()
        .unwrap()
        .iter()
        .zip([65_536 / 4, sample + 2_000])
    {
        assert_eq!(capture["core:global_index"], index);
    }
    // Without the first segment nothing says when a sample was taken.
    ok(&["rm", &device, "other.000001"]);
    let rest = [&rest[..], &["--force"]].concat();
    let said = refused(&rest, 7);
    assert!(
        said.contains("segment 1 is missing on the volume"),
        "{said}"
    );
    let alone = &meta_of(&folder.path("elsewhere.sigmf-meta"))["captures"];
    for capture in alone.as_array().unwrap() {
        assert!(capture.get("core:global_index").is_none(), "{capture}");
    }
    ok(&["rm", &device, "other.sigmf-meta"]);
    let rest = [&rest[..], &["--format", "sigmf"]].concat();
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
    let damaged = run(&["export", &device, "a", &folder.path("damaged")]);
    assert_eq!(damaged.status.code(), Some(7));
    let said = stderr(&damaged);
    assert!(
        said.contains("`a.gaps`: line 1 is damaged, so what was lost is not known of `a`"),
        "{said}"
    );
    ok(&["rm", &device, "a.gaps"]);
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
    let long = "n".repeat(245);
    let samples = |more: &[&'static str]| [&SAMPLES[..], more].concat();
    let cases: [(&str, Vec<&str>, &str); 13] = [
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
        (
            "a",
            vec!["--format", "mcap", "--segment", "4M", "--keep", "8M"],
            "--keep",
        ),
        ("a%S", samples(&["--segment", "4M"]), "without %"),
        (
            "a",
            samples(&["--channels", "3", "--block", "1M"]),
            "inside a sample",
        ),
        ("a", samples(&["--frequency", "1e6M"]), "not a frequency"),
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
    assert!(record(&device, "a", &SAMPLES, &[0; 4096]).status.success());
    ok(&["rm", &device, "a"]);
    let output = record(&device, "a", &SAMPLES, &[0; 4096]);
    assert_eq!(output.status.code(), Some(9));
}

/// Each capture's first sample and index, and its time in seconds after the first one's.
fn captures_of(path: &str) -> Vec<(u64, u64, f64)> {
    let meta = meta_of(path);
    let captures = meta["captures"].as_array().unwrap();
    let at = |one: &Value| {
        let time = one["core:datetime"].as_str().unwrap();
        let time = humantime::parse_rfc3339(time).unwrap();
        time.duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_secs_f64()
    };
    let index = |one: &Value| one["core:global_index"].as_u64().unwrap_or(0);
    let start = |one: &Value| one["core:sample_start"].as_u64().unwrap();
    captures
        .iter()
        .map(|one| (start(one), index(one), at(one) - at(&captures[0])))
        .collect()
}

#[test]
fn a_recording_of_samples_goes_on_with_another_capture() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &["--checksums"]);
    let data = noise(1, 3 * 65_536);
    let (first, rest) = data.split_at(65_536);
    let line = |offset: u64, lost: u64| format!("{offset:>20} {lost:>20} {:>16} {:>4}\n", 7, 1);
    let gaps = line(4_000, 8_000) + &line(65_536, 400);
    let words = [&SAMPLES[..], &["--frequency", "100M"]].concat();
    assert!(record(&device, "a", &words, first).status.success());
    // As an older version recorded them: neither keeps that it belongs to the other.
    let meta = get(&device, "a.sigmf-meta", &[]);
    ok(&["rm", &device, "a", "a.sigmf-meta"]);
    put(&device, "a", first);
    put(&device, "a.gaps", gaps.as_bytes());
    put(&device, "a.sigmf-meta", &meta);
    for (options, why) in [
        (
            &["--append", "--format", "sigmf", "--sigmf-datatype", "cu8"][..],
            "another type",
        ),
        (
            &["--append", "--format", "sigmf", "--sample-rate", "2M"],
            "another type",
        ),
        (&["--append", "--format", "mcap"], "described as samples"),
    ] {
        let output = record(&device, "a", options, &[0; 4096]);
        assert!(
            !output.status.success() && stderr(&output).contains(why),
            "{}",
            stderr(&output)
        );
    }
    // The second one has its frequency only; a power cut before its first sample leaves no capture
    // of it.
    let go_on = ["--append", "--format", "sigmf", "--frequency", "200M"];
    assert_eq!(record(&device, "a", &go_on, &[]).status.code(), Some(1));
    assert!(
        record(&device, "a", &["--append"], &rest[..65_536])
            .status
            .success()
    );
    let again = [
        &go_on[..],
        &["--sigmf-datatype", "ci16_le", "--sample-rate", "1M"],
    ]
    .concat();
    assert!(
        record(&device, "a", &again, &rest[65_536..])
            .status
            .success()
    );
    let target = folder.path("a");
    let report = lossy_json(&["export", &device, "a", &target, "--json"]);
    assert_eq!(report["sigmf"]["captures"], 4, "{report}");
    assert!(std::fs::read(folder.path("a.sigmf-data")).unwrap() == data);
    let meta = meta_of(&folder.path("a.sigmf-meta"));
    let frequencies: Vec<u64> = meta["captures"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["core:frequency"].as_u64().unwrap())
        .collect();
    assert_eq!(
        frequencies,
        [100_000_000, 100_000_000, 100_000_000, 200_000_000]
    );
    let captures = captures_of(&folder.path("a.sigmf-meta"));
    let places: Vec<(u64, u64)> = captures.iter().map(|one| (one.0, one.1)).collect();
    let lost = 2_000 + 100;
    assert_eq!(
        places,
        [
            (0, 0),
            (1_000, 3_000),
            (16_384, 16_384 + lost),
            (32_768, 32_768 + lost)
        ]
    );
    // The gap is three milliseconds behind the beginning; the others have the time at which they
    // began.
    assert!((captures[1].2 - 0.003).abs() < 1e-6, "{captures:?}");
    assert!(
        captures[3].2 > captures[2].2 && captures[2].2 > 0.0,
        "{captures:?}"
    );
    // While the description is replaced, the new one holds.
    ok(&["mv", &device, "a.sigmf-meta", "a.sigmf-meta.new~"]);
    lossy(&["export", &device, "a", &target, "--force"]);
    assert_eq!(captures_of(&folder.path("a.sigmf-meta")), captures);
    assert!(
        record(&device, "a", &["--append"], &[1; 4096])
            .status
            .success()
    );
    let report = lossy_json(&["export", &device, "a", &target, "--json", "--force"]);
    assert_eq!(report["sigmf"]["captures"], 5, "{report}");
    assert_eq!(code(&["--quiet", "check", &device]), 0);
}

#[test]
fn a_recording_of_messages_goes_on_with_another_stream() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let target = folder.path("bag");
    let stream = mcap(1000);
    // As a power cut leaves it: at the end of a block, in the middle of a message.
    let cut = &stream[..4096 * 4];
    let words = ["--format", "mcap", "--append", "--block", "4K"];
    assert!(record(&device, "bag", &words, cut).status.success());
    let report = json(&["export", &device, "bag", &target, "--json"]);
    let first = report["mcap"]["messages"].as_u64().unwrap();
    assert!(record(&device, "bag", &words, cut).status.success());
    assert!(record(&device, "bag", &words, &stream).status.success());
    let report = json(&["export", &device, "bag", &target, "--json", "--force"]);
    assert_eq!(report["mcap"]["messages"], 2 * first + 1000, "{report}");
    assert_eq!(
        (&report["gaps"], &report["format"]),
        (&json!(0), &json!("mcap"))
    );
    // What is not MCAP leaves the recording as it is.
    let output = record(&device, "bag", &words, b"RIFF and more");
    assert!(!output.status.success(), "{}", stderr(&output));
    let same = json(&["export", &device, "bag", &target, "--json", "--force"]);
    assert_eq!(same["mcap"], report["mcap"]);
}

#[test]
fn each_segment_of_a_ring_is_a_recording_of_samples() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &["--checksums"]);
    let words = [&SAMPLES[..], &["--segment", "256K", "--keep", "1M"]].concat();
    // Each sample says its place.
    let samples: Vec<u8> = (0..4 << 20).step_by(8).flat_map(u64::to_le_bytes).collect();
    let mut begin = None;
    // The second recording continues the ring.
    for round in 0..2 {
        // Each part is durable before the next one is sent: a slow drive drops none, and does not
        // make the segments longer.
        let mut take = Take::committed(&device, "128K", &words);
        for part in samples.chunks(128 << 10) {
            take.write(part);
        }
        let said = take.end();
        assert!(said.contains(" removed"), "{said}");
        let names = ok(&["ls", &device]);
        let described = names.lines().filter(|name| name.ends_with("meta"));
        assert_eq!(described.count(), 1, "{names}");
        let segments: Vec<&str> = names
            .lines()
            .filter(|name| !name.ends_with("meta"))
            .collect();
        assert!(!segments.contains(&"take.000001"), "{names}");
        let mut expected = None;
        for (at, segment) in segments.iter().enumerate() {
            let target = folder.path(&format!("{round}-{at}"));
            let report = json(&["export", &device, segment, &target, "--json"]);
            assert_eq!(report["format"], "sigmf");
            let data = std::fs::read(format!("{target}.sigmf-data")).unwrap();
            let place = u64::from_le_bytes(data[..8].try_into().unwrap());
            let meta = meta_of(&format!("{target}.sigmf-meta"));
            let capture = &meta["captures"][0];
            assert_eq!(
                capture["core:global_index"].as_u64().unwrap_or(0),
                place / 4
            );
            assert!(
                expected.is_none_or(|expected| expected == place),
                "{segment}"
            );
            expected = Some(place + data.len() as u64);
        }
        let all = folder.path(&format!("all {round}"));
        let report = json(&["export", &device, "take.0*", &all, "--json"]);
        assert_eq!(report["sigmf"]["captures"], 1, "{report}");
        // Each recording has a beginning of its own.
        let meta = meta_of(&format!("{all}.sigmf-meta"));
        let now = meta["captures"][0]["core:datetime"].to_string();
        assert!(begin.replace(now.clone()).is_none_or(|before| before < now));
    }
    assert_eq!(code(&["--quiet", "check", &device]), 0);
}

/// Each segment ends where its own file ends.
#[test]
fn lines_of_what_a_power_cut_took_are_no_gaps_of_the_next_segment() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let line = |offset: u64| format!("{offset:>20} {:>20} {:>16} {:>4}\n", 22, 7, 1);
    for name in ["take.000001", "take.000002"] {
        put(&device, name, &[1; 8192]);
        let lines = [line(4096), line(9000)].concat();
        put(&device, &format!("{name}.gaps"), lines.as_bytes());
    }
    let target = folder.path("take");
    let report = lossy_json(&["export", &device, "take.0*", &target, "--json"]);
    assert_eq!(
        (&report["segments"], &report["gaps"], &report["lost_bytes"]),
        (&json!(2), &json!(2), &json!(44))
    );
}

/// A line is durable before what follows its gap: a power cut may take that, and what comes instead
/// has no gap there.
#[test]
fn a_recording_goes_on_behind_lines_of_what_a_power_cut_took() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let line = |offset: u64, lost: u64| format!("{offset:>20} {lost:>20} {:>16} {:>4}\n", 7, 1);
    for (policy, number) in ["stop", "drop"].iter().zip(0..) {
        let name = format!("take-{number}");
        let companion = format!("{name}.gaps");
        put(&device, &name, &[1; 8192]);
        let lines = [line(4096, 11), line(20_000, 22), line(24_000, 33)];
        put(&device, &companion, lines.concat().as_bytes());
        let exported = || {
            let target = folder.path(&name);
            let report = lossy_json(&["export", &device, &name, &target, "--json", "--force"]);
            (report["gaps"].clone(), report["lost_bytes"].clone())
        };
        let known = (json!(1), json!(11));
        assert_eq!(exported(), known, "before");
        for _ in 0..2 {
            let output = record(
                &device,
                &name,
                &["--append", "--policy", policy],
                &[2; 32_768],
            );
            assert!(output.status.success(), "{}", stderr(&output));
            assert_eq!(exported(), known, "after");
        }
        let target = folder.path("lines");
        ok(&["get", &device, &companion, &target, "--force"]);
        let expected = [lines.concat().as_bytes(), &stream::restart_line(8192, 3)].concat();
        assert!(std::fs::read(&target).unwrap() == expected);
    }
}
