// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What describes a recording's samples follows them into an export of some of its segments.

use crate::formats::{SAMPLES, mcap, mcap_record, meta_of, put, record, refused};
use crate::live::Take;
use crate::support::{
    Folder, code, command, get, json, lossy_json, names, ok, run, stderr, volume,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::process::Stdio;

/// Samples of four bytes that say their own place: the place of each second one.
fn samples(count: u64) -> Vec<u8> {
    let places = (0..count).step_by(2);
    places.flat_map(u64::to_le_bytes).collect()
}

/// Records in segments; each part is durable before the next one is sent. The samples of each.
fn segments(device: &str, words: &[&str], data: &[u8]) -> Vec<Range<u64>> {
    let mut take = Take::committed(device, "64K", &[words, &["--segment", "192K"]].concat());
    let (last, parts) = (data.len() % (64 << 10), data.len() >> 16);
    for part in data.chunks(64 << 10).take(parts) {
        take.write(part);
    }
    take.send(&data[data.len() - last..]);
    take.end();
    let mut begin = 0;
    let files = json(&["ls", device, "--json"])["files"].clone();
    let files = files.as_array().unwrap().iter();
    let files = files.filter(|file| !file["name"].as_str().unwrap().ends_with("meta"));
    let all: Vec<_> = files
        .map(|file| {
            let from = begin;
            begin += file["size_bytes"].as_u64().unwrap() / 4;
            from..begin
        })
        .collect();
    assert!(all.len() >= 5 && begin == data.len() as u64 / 4, "{all:?}");
    all
}

#[test]
fn a_description_that_is_missing_is_missed() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let data = samples(4096);
    let (out, meta) = (folder.path("out"), "take.sigmf-meta");
    assert!(record(&device, "take", &SAMPLES, &data).status.success());
    let described = get(&device, meta, &[]);
    ok(&["rm", &device, meta]);
    let export = ["export", &device, "take", &out, "--force"];
    let output = run(&export);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(7), "{said}");
    let what = "`take.sigmf-meta`: is missing: `take` was recorded as sigmf";
    assert!(said.contains(what), "{said}");
    assert!(std::fs::read(&out).unwrap() == data);
    // Whatever delivers or judges the file says it too.
    let missed = said_by(&folder, &device, &["take"]);
    assert_eq!(missed.len(), 5);
    for (verb, status, said) in missed {
        assert_eq!(status, Some(7), "{verb}: {said}");
        assert!(said.contains(what), "{verb}: {said}");
    }
    // Who asks for the bytes needs none.
    ok(&[&export[..], &["--format", "raw"]].concat());
    put(&device, meta, &described);
    ok(&export);
    // A description that has another name is no recording.
    ok(&["cp", &device, meta, "kept"]);
    for (verb, status, said) in said_by(&folder, &device, &["take"]) {
        assert_eq!(status, Some(0), "{verb}: {said}");
    }
    // Nothing shows what a copy was recorded as.
    put(&device, "copy", &data);
    ok(&["export", &device, "copy", &out, "--force"]);
}

/// What the verbs say that deliver files, or judge them, and their exit statuses.
fn said_by(folder: &Folder, device: &str, names: &[&str]) -> Vec<(String, Option<i32>, String)> {
    let (to, all) = (folder.path("to"), folder.path("all"));
    let verbs: [Vec<&str>; 5] = [
        vec!["check", device],
        [&["get", device], names, &[&to, "--force"]].concat(),
        [&["cat", device], names].concat(),
        vec!["get", device, "*", &all, "--force"],
        vec!["cat", device, "tak*"],
    ];
    let said = verbs.iter().map(|words| {
        let output = run(words);
        let said = format!(
            "{}{}",
            stderr(&output),
            String::from_utf8_lossy(&output.stdout)
        );
        (words.join(" "), output.status.code(), said)
    });
    said.collect()
}

#[test]
fn segments_that_nothing_describes_are_missed() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let data = samples(100_000);
    let words = [&SAMPLES[..], &["--segment", "64K", "--block", "16K"]].concat();
    assert!(record(&device, "take", &words, &data).status.success());
    let described = get(&device, "take.sigmf-meta", &[]);
    let said = |status: i32| {
        for words in [
            &["check", &device][..],
            &["cat", &device, "take.0*"],
            &["get", &device, "take.0*", &folder.path("got"), "--force"],
        ] {
            let output = run(words);
            let said = stderr(&output) + &String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.code(), Some(status), "{words:?}");
            let what = "`take.sigmf-meta`: is missing: `take.000001` was recorded as sigmf";
            assert_eq!(
                said.matches(what).count(),
                usize::from(status == 7),
                "{words:?}"
            );
        }
    };
    said(0);
    // What describes a later segment is named when that one gets another name.
    let back: [&[&str]; 2] = [
        &["rm", &device, "other"],
        &["mv", &device, "other", "take.000002"],
    ];
    for (verb, back) in ["cp", "mv"].into_iter().zip(back) {
        let output = run(&[verb, &device, "take.000002", "other"]);
        assert_eq!(output.status.code(), Some(0));
        let told = stderr(&output);
        assert!(told.contains("`take.sigmf-meta`"), "{verb}: {told}");
        ok(back);
    }
    ok(&["rm", &device, "take.sigmf-meta"]);
    said(7);
    // Its bytes are written all the same, as those of a recording in one file.
    let out = folder.path("out");
    let output = run(&["export", &device, "take.0*", &out]);
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(7), "{told}");
    assert!(told.contains("`take.sigmf-meta`: is missing"), "{told}");
    assert!(std::fs::read(&out).unwrap() == data);
    let words = ["export", &device, "take.0*", &out, "--force", "--format"];
    let output = run(&[&words[..], &["sigmf"]].concat());
    assert!(
        stderr(&output).contains("'take.sigmf-meta'"),
        "{}",
        stderr(&output)
    );
    put(&device, "take.sigmf-meta", &described);
    said(0);
    // One of a later segment describes those behind it only.
    ok(&["mv", &device, "take.sigmf-meta", "take.000002.sigmf-meta"]);
    said(7);
}

fn number(value: &Value, key: &str) -> Option<u64> {
    value[format!("core:{key}")].as_u64()
}

/// The sample behind an annotation's last one ("Annotation Segment Objects"): without a count it
/// ends with its capture.
fn end_of(annotation: &Value, captures: &[Value], end: u64) -> u64 {
    let start = number(annotation, "sample_start").unwrap();
    let next = captures
        .iter()
        .filter_map(|one| number(one, "sample_start"));
    let next = next.filter(|next| *next > start).min();
    match number(annotation, "sample_count") {
        Some(count) => start + count,
        None => next.unwrap_or(end),
    }
}

/// The labels of the annotations that a sample has.
fn labels(meta: &Value, sample: u64, end: u64) -> Vec<String> {
    let captures = meta["captures"].as_array().unwrap();
    let all = meta["annotations"].as_array().unwrap().iter();
    let has = all.filter(|one| {
        let start = number(one, "sample_start").unwrap();
        (start..end_of(one, captures, end)).contains(&sample)
    });
    has.map(|one| one["core:label"].to_string()).collect()
}

/// The capture of a sample.
fn capture_of(meta: &Value, sample: u64) -> &Value {
    let mut captures = meta["captures"].as_array().unwrap().iter();
    let is_before = |one: &&Value| number(one, "sample_start") <= Some(sample);
    captures.rfind(is_before).unwrap()
}

/// Each sample of an export is described as in the recording: its index, its frequency and its
/// annotations. `lost` is how many samples are missing before one.
fn check(target: &str, original: &Value, lost: &dyn Fn(u64) -> u64) {
    check_places(target, original, &|value| value, lost);
}

/// The same of samples whose values lead to their places in the recording.
fn check_places(
    target: &str,
    original: &Value,
    place_of: &dyn Fn(u64) -> u64,
    lost: &dyn Fn(u64) -> u64,
) {
    let data = std::fs::read(format!("{target}.sigmf-data")).unwrap();
    let meta = meta_of(&format!("{target}.sigmf-meta"));
    let captures = meta["captures"].as_array().unwrap();
    let first = number(&meta["global"], "offset").unwrap_or(0);
    let end = first + data.len() as u64 / 4;
    for key in ["captures", "annotations"] {
        let starts = meta[key].as_array().unwrap().iter();
        let starts: Vec<_> = starts
            .map(|one| number(one, "sample_start").unwrap())
            .collect();
        assert!(starts.is_sorted(), "{key}: {starts:?}");
        assert!(starts.iter().all(|at| (first..end).contains(at)), "{meta}");
    }
    assert_eq!(number(&captures[0], "sample_start"), Some(first), "{meta}");
    for one in meta["annotations"].as_array().unwrap() {
        assert!(end_of(one, captures, end) <= end, "{meta}");
    }
    let base = number(&original["global"], "offset").unwrap_or(0);
    // Around each border, and some others.
    let places: Vec<u64> = data
        .chunks_exact(8)
        .map(|bytes| base + place_of(u64::from_le_bytes(bytes.try_into().unwrap())))
        .collect();
    let all = |meta: &Value| {
        let both = ["captures", "annotations"].map(|key| meta[key].as_array().unwrap().clone());
        let all = both.concat().into_iter();
        all.flat_map(|one| {
            let start = number(&one, "sample_start").unwrap();
            [start, start + number(&one, "sample_count").unwrap_or(0)]
        })
        .collect::<Vec<_>>()
    };
    let (mut own, mut theirs) = (all(&meta), all(original));
    own.sort_unstable();
    theirs.sort_unstable();
    let is_near = |sample: u64, all: &[u64]| {
        let at = all.partition_point(|one| *one + 6 <= sample);
        all.get(at).is_some_and(|one| one.abs_diff(sample) < 6)
    };
    let mut before = None;
    for (&place, at) in places.iter().zip((first..).step_by(2)) {
        let is_next = before.replace(place) == place.checked_sub(2);
        if is_next && at % 1111 > 1 && !is_near(at, &own) && !is_near(place, &theirs) {
            continue;
        }
        let (found, expected) = (capture_of(&meta, at), capture_of(original, place));
        let start = number(found, "sample_start").unwrap();
        // "If omitted, this value SHOULD be treated as equal to sample_start."
        let index = number(found, "global_index").unwrap_or(start) + at - start;
        assert_eq!(index, place + lost(place), "sample {at}: {meta}");
        assert_eq!(
            (&found["core:frequency"], labels(&meta, at, end)),
            (
                &expected["core:frequency"],
                labels(original, place, u64::MAX)
            ),
            "sample {at}, {place} of the recording: {meta}"
        );
    }
}

fn text(meta: &Value) -> Vec<u8> {
    meta.to_string().into_bytes()
}

/// A description of captures and annotations on all sides of the borders at these samples.
fn description(borders: &[u64], offset: u64) -> Value {
    let at = |segment: usize, more: i64| (borders[segment] + offset).saturating_add_signed(more);
    let mut global =
        json!({"core:datatype": "ci16_le", "core:version": "1.2.0", "core:sample_rate": 1_000_000});
    if offset > 0 {
        global["core:offset"] = json!(offset);
    }
    let capture = |start: u64, frequency: u64| json!({"core:sample_start": start, "core:frequency": frequency});
    let note = |label: &str, start: u64, end: u64| json!({"core:sample_start": start, "core:sample_count": end - start, "core:label": label});
    let rest = |label: &str, start: u64| json!({"core:sample_start": start, "core:label": label});
    json!({
        "global": global,
        "captures": [capture(offset, 1), capture(at(1, 1000), 2), capture(at(2, 500), 3), capture(at(2, 700), 4), capture(at(3, 0), 5),
            capture(at(3, 4000), 6)],
        "annotations": [note("all", offset, at(4, 20)), note("first", at(0, 10), at(0, 20)), note("to the border", at(1, -30), at(1, 0)),
            note("over it", at(1, -8), at(1, 8)), note("from it", at(1, 0), at(1, 40)), rest("to the capture", at(1, 900)),
            rest("over the border", at(1, 2000)), note("over a segment", at(1, 3000), at(3, 50)), note("inside", at(2, 10), at(2, 90)),
            note("over captures", at(2, 400), at(2, 900)), rest("the rest", at(3, 5000)), note("last", at(4, 0), at(4, 2))],
    })
}

/// SigMF 1.2, "Capture Segment Objects" and "Annotation Segment Objects": numbers of samples are
/// those of the file.
#[test]
fn segments_have_their_part_of_the_description() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let data = samples(300_000);
    let segments = segments(&device, &SAMPLES, &data);
    let borders: Vec<u64> = segments.iter().map(|one| one.start).collect();
    let name = |at: usize| format!("take.{:06}", at + 1);
    let target = folder.path("out");
    for offset in [0, 7000] {
        let meta = description(&borders, offset);
        ok(&["rm", &device, "take.sigmf-meta"]);
        put(&device, "take.sigmf-meta", &text(&meta));
        let export = |chosen: &[usize]| {
            let names: Vec<String> = chosen.iter().map(|at| name(*at)).collect();
            let names = names.iter().map(String::as_str);
            let words = ["export", &device].into_iter().chain(names);
            let words: Vec<&str> = words.chain([&target[..], "--force", "--json"]).collect();
            let output = run(&words);
            assert!(output.status.success(), "{chosen:?}: {}", stderr(&output));
            check(&target, &meta, &|_| 0);
        };
        for at in 0..segments.len() {
            export(&[at]);
        }
        export(&[1, 2]);
        export(&[0, 2]);
        export(&[0, 3, 4]);
        export(&[1, 3]);
        export(&[0, 1, 2, 3, 4]);
    }
    // What is missing on the volume.
    let meta = description(&borders, 0);
    ok(&["rm", &device, "take.sigmf-meta", &name(1)]);
    put(&device, "take.sigmf-meta", &text(&meta));
    let words = ["export", &device, "take.0*", &target, "--force"];
    refused(&words, 7);
    check(&target, &meta, &|_| 0);
    refused(&["export", &device, &name(2), &target, "--force"], 7);
    check(&target, &meta, &|_| 0);
    ok(&["rm", &device, &name(0)]);
    refused(&words, 7);
    check(&target, &meta, &|_| 0);
}

/// The same of files that were put, beside gaps.
#[test]
fn segments_with_gaps_have_their_part_of_the_description() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let data = samples(5 * 8192);
    for (at, part) in data.chunks(8192 * 4).enumerate() {
        put(&device, &format!("put.{:06}", at + 1), part);
    }
    let line = |offset: u64, lost: u64| format!("{offset:>20} {lost:>20} {:>16} {:>4}\n", 7, 1);
    let gaps = [
        (0, 4000, 800),
        (1, 2000, 40),
        (1, 4400, 400),
        (2, 2000, 80),
        (3, 16_000, 4),
    ];
    for segment in 0..4 {
        let own = gaps.iter().filter(|gap| gap.0 == segment);
        let lines: String = own.map(|(_, at, lost)| line(*at, *lost)).collect();
        put(
            &device,
            &format!("put.{:06}.gaps", segment + 1),
            lines.as_bytes(),
        );
    }
    let lost = |place: u64| {
        let before = gaps
            .iter()
            .filter(|(segment, at, _)| segment * 8192 + at / 4 <= place);
        before.map(|(_, _, lost)| lost / 4).sum()
    };
    let meta = description(&[0, 8192, 16_384, 24_576, 32_768], 0);
    put(&device, "put.sigmf-meta", &text(&meta));
    let target = folder.path("out");
    for names in [
        "put.00000[1]",
        "put.000002",
        "put.000003",
        "put.000004",
        "put.000005",
        "put.00000[23]",
        "put.0*",
    ] {
        // Nothing was lost in the last one.
        let status = if names == "put.000005" { 0 } else { 7 };
        assert_eq!(
            code(&["export", &device, names, &target, "--force"]),
            status,
            "{names}"
        );
        check(&target, &meta, &lost);
    }
    // Annotations and captures behind the end are left out, and counted.
    let report = lossy_json(&[
        "export",
        &device,
        "put.000001",
        &target,
        "--force",
        "--json",
    ]);
    assert_eq!(report["sigmf"]["left_out_captures"], 5);
    assert_eq!(report["sigmf"]["left_out_annotations"], 8);
}

/// The same of a recording that drops blocks: each segment keeps its place, which counts them.
#[test]
fn segments_that_lost_blocks_have_their_part_of_the_description() {
    let folder = Folder::new();
    let device = format!("model:64M,file={},latency=5ms", folder.path("disk"));
    volume(&folder, "disk", &[]);
    let words = [
        &[
            "record", &device, "take", "--from", "pattern", "--rate", "8M",
        ][..],
        &["--policy", "drop", "--deadline", "60min", "--acknowledge"],
        &["--block", "64K", "--buffers", "2", "--segment", "256K"],
        &["--commit-bytes", "128K"],
        &SAMPLES,
    ]
    .concat();
    let mut child = command(&words);
    let child = child.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    // However long it takes on this machine: enough for some segments.
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut durable = lines.map(|line| {
        let line = line.unwrap();
        let bytes = line.strip_prefix("durable ").unwrap().parse::<u64>();
        bytes.unwrap()
    });
    assert!(durable.any(|bytes| bytes > 2 << 20));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    durable.for_each(drop);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    let device = format!("file:{}", folder.path("disk"));
    let files = json(&["ls", &device, "--json"])["files"].clone();
    let has_samples = |file: &&Value| {
        let name = file["name"].as_str().unwrap();
        let last = name.bytes().next_back();
        last.is_some_and(|last| last.is_ascii_digit()) && file["size_bytes"] != 0
    };
    let segments = files.as_array().unwrap().iter().filter(has_samples);
    let segments: Vec<&str> = segments
        .map(|file| file["name"].as_str().unwrap())
        .collect();
    assert!(segments.len() >= 3, "{segments:?}");
    // Where each sample was in the source, in the order in which they are stored.
    let (mut sources, mut borders) = (Vec::new(), Vec::new());
    let part = folder.path("part");
    for name in &segments {
        ok(&["get", &device, name, &part, "--force"]);
        let data = std::fs::read(&part).unwrap();
        let values = data.chunks_exact(8);
        sources.extend(values.map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())));
        borders.push(sources.len() as u64 * 2);
    }
    assert!(
        sources.last() > Some(&(sources.len() as u64 * 8)),
        "blocks are lost"
    );
    let place_of = |value: u64| sources.binary_search(&value).unwrap() as u64 * 2;
    let lost = |place: u64| sources[place as usize / 2] / 4 - place;
    let mut meta = json!({
        "global": {"core:datatype": "ci16_le", "core:version": "1.2.0", "core:sample_rate": 1_000_000},
        "captures": [{"core:sample_start": 0, "core:frequency": 0}], "annotations": []});
    for (at, border) in (1_u64..).zip(&borders[..borders.len() - 1]) {
        let near = border - 20 * at..border + 30;
        let captures = meta["captures"].as_array_mut().unwrap();
        captures.push(json!({"core:sample_start": near.start, "core:frequency": at}));
        let annotations = meta["annotations"].as_array_mut().unwrap();
        let count = near.end - near.start + 40_000 * (at % 2);
        let label = format!("over {at}");
        annotations.push(json!({"core:sample_start": near.start, "core:sample_count": count, "core:label": label}));
        annotations
            .push(json!({"core:sample_start": near.end, "core:label": format!("from {at}")}));
    }
    ok(&["rm", &device, "take.sigmf-meta"]);
    put(&device, "take.sigmf-meta", &text(&meta));
    let target = folder.path("out");
    let export = |words: &[&str]| {
        let output = run(&[&["export", &device], words, &[&target, "--force"]].concat());
        let status = output.status.code();
        assert!(
            matches!(status, Some(0 | 7)),
            "{words:?}: {}",
            stderr(&output)
        );
        check_places(&target, &meta, &place_of, &lost);
    };
    segments.iter().for_each(|name| export(&[name]));
    export(&[segments[1], segments[2]]);
    export(&[segments[0], segments[2]]);
    export(&["take.0*"]);
    // A segment that is missing has left its gaps.
    ok(&["rm", &device, segments[1]]);
    refused(&["export", &device, "take.0*", &target, "--force"], 7);
    check_places(&target, &meta, &place_of, &lost);
    refused(&["export", &device, segments[2], &target, "--force"], 7);
    check_places(&target, &meta, &place_of, &lost);
}

/// A segment may end inside a sample whose size is no part of 4 KiB: the next one's samples begin
/// behind its rest.
#[test]
fn a_segment_that_begins_inside_a_sample_is_exported_from_the_next_one() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let data: Vec<u8> = (0..360_000_u32)
        .step_by(4)
        .flat_map(u32::to_le_bytes)
        .collect();
    let words = [
        &SAMPLES[..],
        &[
            "--channels",
            "3",
            "--commit-interval",
            "10ms",
            "--segment",
            "128K",
        ],
    ]
    .concat();
    let mut take = Take::in_blocks(&device, "96K", "64K", &words);
    let mut parts = data.chunks(64 << 10);
    let last = parts.next_back().unwrap();
    parts.for_each(|part| take.write(part));
    take.send(last);
    take.end();
    let target = folder.path("out");
    let mut skipped_bytes = 0;
    let names = ok(&["ls", &device, "take.0*"]);
    assert!(names.lines().count() > 2, "{names}");
    for name in names.lines() {
        let report = json(&["export", &device, name, &target, "--force", "--json"]);
        let written = std::fs::read(format!("{target}.sigmf-data")).unwrap();
        let place = u32::from_le_bytes(written[..4].try_into().unwrap());
        let capture = &meta_of(&format!("{target}.sigmf-meta"))["captures"][0];
        let index = number(capture, "global_index").unwrap_or(0);
        assert_eq!(
            (place % 12, index),
            (0, u64::from(place / 12)),
            "{name}: {report}"
        );
        assert!(written == data[place as usize..][..written.len()]);
        skipped_bytes += report["sigmf"]["skipped_bytes"].as_u64().unwrap();
    }
    assert!(
        skipped_bytes > 0,
        "no segment ended inside a sample: {names}"
    );
    let report = json(&["export", &device, "take.0*", &target, "--force", "--json"]);
    assert_eq!(report["sigmf"]["samples"], 30_000);
    assert!(std::fs::read(format!("{target}.sigmf-data")).unwrap() == data);
}

#[test]
fn no_format_is_written_under_the_name_of_another() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    put(&device, "bag", &crate::formats::mcap(5));
    assert!(
        record(&device, "band", &SAMPLES, &[1; 8192])
            .status
            .success()
    );
    let files = [
        "a.mcap",
        "a.MCAP",
        "a.pcapng",
        "a.sigmf-data",
        "a.sigmf-meta",
        "a.sigmf",
    ];
    for (name, format) in [("bag", "mcap"), ("band", "sigmf")] {
        for file in files
            .iter()
            .filter(|file| !file.to_lowercase().contains(format))
        {
            let target = folder.path(file);
            for words in [&[][..], &["--format", format], &["--format", "pcapng"]] {
                if words.ends_with(&["pcapng"]) && file.ends_with("pcapng") {
                    continue;
                }
                let said = refused(&[&["export", &device, name, &target], words].concat(), 2);
                assert!(
                    said.contains("has the name of") && said.contains("hint: "),
                    "{said}"
                );
                let made = std::fs::read_dir(folder.path("")).unwrap();
                let made = made.filter(|one| {
                    let name = one.as_ref().unwrap().file_name();
                    name.to_string_lossy().starts_with("a.")
                });
                assert_eq!(made.count(), 0, "{file} {words:?}");
            }
        }
        for file in files {
            let target = folder.path(&format!("raw-{name}-{file}"));
            ok(&["export", &device, name, &target, "--format", "raw"]);
        }
    }
}

/// What is added to a container is its next part, whatever the options leave out.
#[test]
fn a_container_goes_on_as_what_it_is() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    // Whole blocks.
    let stream = mcap(200);
    let more = mcap_record(0x80, &vec![0; 512 - (stream.len() + 9) % 512]);
    let stream = [stream, more].concat();
    assert_eq!(stream.len() % 512, 0);
    let recorded = record(&device, "bag", &["--format", "mcap"], &stream);
    assert_eq!(recorded.status.code(), Some(0), "{}", stderr(&recorded));
    let output = record(&device, "bag", &["--append"], &mcap(50));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("goes on as with --format mcap"),
        "{}",
        stderr(&output)
    );
    let target = folder.path("bag.mcap");
    let report = json(&["export", &device, "bag", &target, "--json"]);
    assert_eq!(report["mcap"]["messages"], 250);
    // Nothing is added that is no part of it.
    put(&device, "bag2", &stream);
    put(
        &device,
        "wire",
        &[&[0x0a, 0x0d, 0x0d, 0x0a], &[0; 508][..]].concat(),
    );
    put(&device, "plain", &[7; 512]);
    for (name, words, why) in [
        ("bag2", &["--append"][..], "it is not MCAP"),
        (
            "bag2",
            &["--append", "--policy", "drop"],
            "cannot go on behind a dropped block",
        ),
        (
            "bag2",
            &[
                "--append",
                "--format",
                "pcapng",
                "--from",
                "udp://127.0.0.1:0",
            ],
            "is mcap, not pcapng",
        ),
        ("wire", &["--append"], "needs datagrams"),
        (
            "plain",
            &["--append", "--format", "mcap"],
            "does not begin as mcap",
        ),
    ] {
        let before = get(&device, name, &[]);
        let output = record(&device, name, words, b"these are no messages");
        let said = stderr(&output);
        assert!(
            !output.status.success() && said.contains(why),
            "{name} {words:?}: {said}"
        );
        assert!(said.contains("hint: "), "{said}");
        assert!(get(&device, name, &[]) == before, "{name} {words:?}");
    }
    assert_eq!(
        names(&device),
        ["bag", "bag.gaps", "bag2", "bag2.gaps", "plain", "wire"]
    );
}
