// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings in segments, and rings of them, as a user runs them, on files.
//!
//! A busy machine may make a segment longer; it never makes one incomplete. So the tests compare
//! what the segments hold.

use crate::live::Take;
use crate::support::{
    Folder, code, end_of_pattern, json, noise, run, run_with_input, schema_names_all_keys, stderr,
    stdout,
};

fn volume(folder: &Folder) -> String {
    volume_of(folder, "64M")
}

fn volume_of(folder: &Folder, size: &str) -> String {
    let device = format!("file:{}", folder.path("disk"));
    let format = ["--quiet", "format", &device, "--size", size, "--force"];
    assert_eq!(code(&format), 0);
    device
}

fn get(device: &str, name: &str, folder: &Folder) -> Vec<u8> {
    let copy = folder.path("copy");
    let get = ["--quiet", "get", device, name, &copy, "--force"];
    assert_eq!(code(&get), 0, "{name}");
    std::fs::read(copy).unwrap()
}

/// The words that `record` takes, without what the test is about.
fn record<'w>(device: &'w str, name: &'w str, more: &[&'w str]) -> Vec<&'w str> {
    let words = [
        "record",
        device,
        name,
        "--block",
        "64K",
        "--deadline",
        "1min",
        "--json",
    ];
    [&words, more].concat()
}

fn segments(report: &serde_json::Value) -> Vec<(String, u64)> {
    let segments = report["segments"].as_array().unwrap();
    let each = segments.iter().map(|segment| {
        let name = segment["name"].as_str().unwrap().to_owned();
        (name, segment["length_bytes"].as_u64().unwrap())
    });
    each.collect()
}

/// Each word of the pattern is its own offset.
fn is_pattern(data: &[u8], offset: u64) -> bool {
    let mut words = data.chunks(8).zip((offset..).step_by(8));
    words.all(|(word, at)| word == at.to_le_bytes())
}

const PATTERN: [&str; 8] = [
    "--from",
    "pattern",
    "--rate",
    "16M",
    "--size",
    "12M",
    "--buffers",
    "200",
];

#[test]
fn a_recording_goes_on_from_file_to_file() {
    let folder = Folder::new();
    // A file keeps what was reserved for it until it is ended, which a busy machine does late.
    let device = volume_of(&folder, "1G");
    for (name, limit) in [("take", "1M"), ("by-time", "100ms")] {
        let words = record(
            &device,
            name,
            &[&PATTERN[..], &["--segment", limit]].concat(),
        );
        let report = json(&words);
        schema_names_all_keys(&report, &stdout(&run(&["schema", "record"])));
        assert_eq!(
            (&report["misses"], &report["lost_blocks"]),
            (&0.into(), &0.into())
        );
        assert_eq!(report["length_bytes"], 12 << 20);
        assert_eq!(report["removed_segments"], 0);
        let segments = segments(&report);
        assert!(segments.len() > 1, "{segments:?}");
        let mut offset = 0;
        for (index, (segment, length)) in segments.iter().enumerate() {
            assert_eq!(segment, &format!("{name}.{:06}", index + 1));
            let data = get(&device, segment, &folder);
            assert_eq!(data.len() as u64, *length);
            assert!(is_pattern(&data, offset), "{segment}");
            offset += length;
        }
        assert_eq!(offset, 12 << 20);
    }
    assert_eq!(code(&["--quiet", "check", &device]), 0);
}

#[test]
fn a_stream_that_waits_is_in_the_segments_whole() {
    let folder = Folder::new();
    let device = volume(&folder);
    let data = std::fs::read(folder.file("data", 5_000_001)).unwrap();
    let words = record(&device, "%n-take", &["--segment", "1M"]);
    let output = run_with_input(&words, &data);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = serde_json::from_slice(&output.stdout).unwrap();
    let mut all = Vec::new();
    for (name, _) in segments(&report) {
        assert!(name.ends_with("-take"), "{name}");
        all.extend(get(&device, &name, &folder));
    }
    assert!(all == data);
}

#[test]
fn a_ring_keeps_the_newest_and_goes_on_in_the_next_recording() {
    let folder = Folder::new();
    let device = volume(&folder);
    // Neither is of the ring.
    for other in ["take.1", "take.000001.txt"] {
        let put = ["--quiet", "put", &device, &folder.file("other", 10), other];
        assert_eq!(code(&put), 0);
    }
    let pattern: Vec<u8> = (0..12 << 20)
        .step_by(8)
        .flat_map(u64::to_le_bytes)
        .collect();
    let mut number = 1;
    for _ in 0..2 {
        // No part is sent before the one before it is durable: a slow drive does not make the
        // segments longer.
        let ring = ["--segment", "1M", "--keep", "4M"];
        let mut take = Take::committed(&device, "512K", &ring);
        for part in pattern.chunks(512 << 10) {
            take.write(part);
        }
        let said = take.end();
        let listed = json(&["ls", &device, "take.0*", "--json"]);
        let files = listed["files"].as_array().unwrap().iter();
        let segments: Vec<(String, u64)> = files
            .map(|file| {
                let name = file["name"].as_str().unwrap().to_owned();
                (name, file["size_bytes"].as_u64().unwrap())
            })
            .filter(|(name, _)| !name.ends_with("txt"))
            .collect();
        let [(first, _), .., (last, _)] = &segments[..] else {
            unreachable!("{segments:?}");
        };
        let told = format!("{} segments from `{first}` to `{last}`; ", segments.len());
        assert!(said.contains(&told) && said.contains(" removed"), "{said}");
        let kept: u64 = segments.iter().map(|(_, length)| length).sum();
        // A segment that became longer was expected to have 1 MiB when the next one was made.
        let is_longer = segments.iter().any(|(_, length)| *length > 1 << 20);
        assert!(kept <= 4 << 20 || is_longer, "{segments:?}");
        let mut offset = (12 << 20) - kept;
        for (name, length) in &segments {
            let data = get(&device, name, &folder);
            assert!(is_pattern(&data, offset), "{name}");
            offset += length;
        }
        let first: u64 = segments[0].0.rsplit('.').next().unwrap().parse().unwrap();
        assert!(first > number, "numbers go on");
        number = first + segments.len() as u64 - 1;
    }
    assert_eq!(get(&device, "take.1", &folder).len(), 10);
    assert_eq!(get(&device, "take.000001.txt", &folder).len(), 10);
    assert_eq!(code(&["--quiet", "check", &device]), 0);
}

#[test]
fn a_ring_on_a_full_volume_takes_the_oldest() {
    let folder = Folder::new();
    let device = volume(&folder);
    let put = [
        "--quiet",
        "put",
        &device,
        &folder.file("other", 30 << 20),
        "other",
    ];
    assert_eq!(code(&put), 0);
    let data = std::fs::read(folder.file("data", 60 << 20)).unwrap();
    let words = record(
        &device,
        "take",
        &["--segment", "4M", "--keep", "1T", "--buffers", "32"],
    );
    let output = run_with_input(&words, &data);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["length_bytes"], 60 << 20);
    assert!(
        report["removed_segments"].as_u64().unwrap() >= 7,
        "{report}"
    );
    let mut kept = Vec::new();
    for (name, _) in segments(&report) {
        kept.extend(get(&device, &name, &folder));
    }
    assert!(kept.len() >= 8 << 20 && data.ends_with(&kept));
    assert_eq!(get(&device, "other", &folder).len(), 30 << 20);
}

#[test]
fn without_a_ring_a_full_volume_ends_the_recording_and_keeps_it() {
    let folder = Folder::new();
    let device = volume(&folder);
    let data = std::fs::read(folder.file("data", 70 << 20)).unwrap();
    let words = record(&device, "take", &["--segment", "16M"]);
    let output = run_with_input(&words, &data);
    assert_eq!(output.status.code(), Some(8), "{}", stderr(&output));
    let says = stderr(&output);
    assert!(says.contains("; the file before it goes on"), "{says}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut kept = Vec::new();
    for (name, _) in segments(&report) {
        kept.extend(get(&device, &name, &folder));
    }
    assert!(
        kept.len() > 56 << 20 && data.starts_with(&kept),
        "{}",
        kept.len()
    );
    assert_eq!(report["length_bytes"], kept.len());
}

#[test]
fn each_segment_names_its_own_gaps() {
    let folder = Folder::new();
    volume(&folder);
    // The source has a terabyte per second; the drive takes 5 ms for each block.
    let device = format!("model:64MiB,file={},latency=5ms", folder.path("disk"));
    let slow = [
        "--from",
        "pattern",
        "--rate",
        "1T",
        "--size",
        "40M",
        "--buffers",
        "2",
        "--policy",
        "drop",
        "--segment",
        "256K",
    ];
    let output = run(&record(&device, "take", &slow));
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let lost = report["lost_bytes"].as_u64().unwrap();
    assert_eq!(report["length_bytes"].as_u64().unwrap() + lost, 40 << 20);
    let (mut source, mut gaps_seen) = (0, 0);
    for segment in report["segments"].as_array().unwrap() {
        let name = segment["name"].as_str().unwrap();
        let data = get(&device, name, &folder);
        let gaps = segment["gaps"].as_u64().unwrap();
        gaps_seen += gaps;
        let lines = match gaps {
            0 => {
                assert_ne!(
                    code(&["--quiet", "stat", &device, &format!("{name}.gaps")]),
                    0
                );
                Vec::new()
            }
            _ => get(&device, &format!("{name}.gaps"), &folder),
        };
        source = end_of_pattern(&data, &lines, source);
    }
    assert_eq!(source, 40 << 20);
    assert_eq!(report["gaps"], gaps_seen);
    // As text, it names the lists that there are.
    let mut words = record(&device, "more", &slow);
    words.retain(|word| *word != "--json");
    let said = stderr(&run(&words));
    assert!(
        said.contains("; `more.0") && !said.contains("`more.gaps`"),
        "{said}"
    );
    assert!(said.contains("buffers were too few"), "{said}");
}

#[test]
fn names_have_the_time() {
    let folder = Folder::new();
    let device = volume(&folder);
    let data = folder.file("data", 100);
    let words = record(
        &device,
        "cam-%Y%m%d-%H%M%S-100%%",
        &["--from", &data, "--rate", "1M"],
    );
    let name = json(&words)["name"].as_str().unwrap().to_owned();
    assert_eq!(name.len(), "cam-20261126-010203-100%".len(), "{name}");
    assert!(
        name.starts_with("cam-20") && name.ends_with("-100%"),
        "{name}"
    );
    assert_eq!(get(&device, &name, &folder).len(), 100);
}

#[test]
fn bad_input_is_refused_and_records_nothing() {
    let folder = Folder::new();
    let device = volume(&folder);
    for (name, words, says) in [
        ("a", &["--keep", "1G"][..], "--segment"),
        ("a", &["--segment", "4M", "--keep", "7M"], "two segments"),
        ("a", &["--segment", "32K"], "shorter than a block"),
        ("a", &["--segment", "0"], "at least a block"),
        ("a", &["--segment", "soon"], "--segment"),
        ("a%n", &[], "--segment"),
        ("a%q", &[], "%%"),
        ("%Y%", &["--segment", "4M"], "%%"),
        ("a1%n", &["--segment", "4M"], "a letter between them: a1.%n"),
        (&"x".repeat(249), &["--segment", "4M"], "1 to 255 bytes"),
        (
            &"x".repeat(244),
            &["--segment", "4M", "--policy", "drop"],
            "NAME.gaps",
        ),
    ] {
        let output = run(&record(&device, name, &[&PATTERN[..], words].concat()));
        assert_eq!(
            output.status.code(),
            Some(2),
            "{name} {words:?}: {}",
            stderr(&output)
        );
        assert!(
            stderr(&output).contains(says),
            "{name} {words:?}: {}",
            stderr(&output)
        );
    }
    assert_eq!(stdout(&run(&["ls", &device])), "");
}

/// The number after 2^64 - 1 would be 0, and a ring would remove the newest files for the oldest.
#[test]
fn segments_do_not_follow_the_last_number() {
    let folder = Folder::new();
    let device = volume(&folder);
    let some = folder.file("some", 1000);
    let numbered = |number: u64| format!("cam.{number}");
    for last in [u64::MAX - 1, u64::MAX] {
        let name = numbered(last);
        assert_eq!(code(&["put", &device, &some, &name]), 0);
        let words = ["--segment", "64K", "--keep", "1M"];
        let output = run(&record(&device, "cam", &[&words, &PATTERN[..]].concat()));
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(9), "{said}");
        assert!(
            said.contains(&format!("no segment can follow `{name}`"))
                && said.contains("straightway mv"),
            "{said}"
        );
        assert_eq!(stdout(&run(&["ls", &device])), format!("{name}\n"));
        assert_eq!(code(&["rm", &device, &name]), 0);
    }
    // One that gets there while it records keeps the rest in the last file.
    let numbered = |number: u64| format!("take.{number}");
    assert_eq!(code(&["put", &device, &some, &numbered(u64::MAX - 3)]), 0);
    let mut take = Take::committed(&device, "64K", &["--segment", "64K"]);
    let part = noise(11, 64 << 10);
    take.write(&part);
    let mut parts = 1;
    // A recording makes the next file in its own time, and says when it cannot.
    let has_last = || stdout(&run(&["ls", &device])).contains(&numbered(u64::MAX - 1));
    while !has_last() {
        take.write(&part);
        parts += 1;
    }
    for _ in 0..4 {
        take.write(&part);
        parts += 1;
    }
    let output = take.ended();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(9), "{said}");
    assert!(
        said.contains(&format!(
            "no segment can follow `{}`",
            numbered(u64::MAX - 1)
        )),
        "{said}"
    );
    let mut stored = Vec::new();
    for number in [u64::MAX - 2, u64::MAX - 1] {
        stored.extend(get(&device, &numbered(number), &folder));
    }
    assert!(stored == part.repeat(parts), "{said}");
    assert!(!stdout(&run(&["ls", &device])).contains(&numbered(0)));
}

/// Removes files, and says what `cat`, `get` and `export` of the pattern do then: their statuses,
/// and the bytes that `cat` printed.
fn without(device: &str, names: &[&str], folder: &Folder) -> ([i32; 3], Vec<u8>, String) {
    if !names.is_empty() {
        assert_eq!(code(&[&["rm", device], names].concat()), 0);
    }
    let cat = run(&["cat", device, "take.*"]);
    let to = folder.path(&format!("got{}", names.join("-")));
    let get = run(&["get", device, "take.*", &to]);
    let export = run(&["export", device, "take.*", &folder.path("out"), "--force"]);
    let status = |output: &std::process::Output| output.status.code().unwrap();
    let statuses = [status(&cat), status(&get), status(&export)];
    let said = format!("{}{}{}", stderr(&cat), stderr(&get), stdout_of(&export));
    (statuses, cat.stdout, said)
}

fn stdout_of(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_pattern_names_the_segments_that_are_missing_and_prints_no_lists() {
    let folder = Folder::new();
    let device = volume(&folder);
    let mut take = Take::committed(&device, "64K", &["--segment", "192K"]);
    let data: Vec<u8> = (0..1 << 20).map(|at: u32| (at >> 12) as u8).collect();
    for part in data.chunks(64 << 10) {
        take.write(part);
    }
    take.end();
    let listed = json(&["ls", &device, "--json"])["files"].clone();
    let sizes: Vec<usize> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["size_bytes"].as_u64().unwrap() as usize)
        .collect();
    assert!(sizes.len() >= 5, "{sizes:?}");
    let begin = |segment: usize| sizes[..segment].iter().sum::<usize>();
    let last = format!("take.{:06}", sizes.len());
    // A list of gaps beside it is no part of the stream.
    let line = format!("{:>20} {:>20} {:>16} {:>4}\n", 4096, 0, 7, 1);
    let put = ["--quiet", "put", &device, "-", "take.000002.gaps"];
    assert_eq!(run_with_input(&put, line.as_bytes()).status.code(), Some(0));
    let (statuses, printed, said) = without(&device, &[], &folder);
    assert_eq!(statuses, [0, 0, 0], "{said}");
    assert!(printed == data);
    assert!(said.contains("left out: `take.000002.gaps`"), "{said}");
    // Alone it is what was asked for.
    let gaps = run(&["cat", &device, "*.gaps"]);
    assert_eq!(stdout(&gaps), line);
    // The last one is missing: the one before it says so.
    let (statuses, printed, said) = without(&device, &[&last], &folder);
    assert_eq!(statuses, [7, 7, 7], "{said}");
    assert!(printed == data[..begin(sizes.len() - 1)]);
    let what = format!(
        "segment {}, and any behind it, is missing on the volume",
        sizes.len()
    );
    assert_eq!(said.matches(&what).count(), 3, "{said}");
    let listed = std::fs::read_to_string(folder.path("out.gaps.json")).unwrap();
    assert!(listed.contains("\"and_later\": true"), "{listed}");
    // One in the middle, too.
    let (statuses, printed, said) = without(&device, &["take.000003"], &folder);
    assert_eq!(statuses, [7, 7, 7], "{said}");
    assert!(printed == [&data[..begin(2)], &data[begin(3)..begin(sizes.len() - 1)]].concat());
    assert!(
        said.contains("segment 3 is missing on the volume; "),
        "{said}"
    );
    // Every file, whatever there is, ends in the same way; one by its name is whole.
    let all = run(&["get", &device, "--all", &folder.path("all")]);
    assert_eq!(all.status.code(), Some(7));
    assert!(
        stderr(&all).contains("segment 3 is missing"),
        "{}",
        stderr(&all)
    );
    assert_eq!(code(&["cat", &device, "take.000002"]), 0);
    // Files that no recording made say nothing.
    for name in ["shot.000001", "shot.000003"] {
        let put = ["--quiet", "put", &device, "-", name];
        assert_eq!(run_with_input(&put, b"shot").status.code(), Some(0));
    }
    assert_eq!(stdout(&run(&["cat", &device, "shot.*"])), "shotshot");
}

/// Each segment's offsets and times count from its own beginning.
#[test]
fn a_recording_in_segments_that_stops_says_where_in_its_segment() {
    let folder = Folder::new();
    let device = volume(&folder);
    let file = device.trim_start_matches("file:");
    let model = format!("model:64MiB,file={file},latency=20ms");
    let words = [
        "record", &model, "take", "--from", "pattern", "--rate", "1T",
    ];
    let words = [
        &words[..],
        &["--size", "8M", "--buffers", "2", "--block", "64K"],
    ]
    .concat();
    for (more, what) in [
        (&["--segment", "1M"][..], " of this segment, "),
        (&[][..], " us after the start, "),
    ] {
        let output = run(&[&words[..], more].concat());
        assert_eq!(output.status.code(), Some(7));
        let said = stderr(&output);
        assert!(
            said.contains("the drive did not keep up: at offset "),
            "{said}"
        );
        assert!(said.contains(what), "{said}");
        assert_eq!(code(&["rm", &device, "take*"]), 0);
    }
}
