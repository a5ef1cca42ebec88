// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rings on volumes that are full: a recording ends for want of space only if nothing of it may be
//! removed.

use crate::live::Take;
use crate::support::{
    Folder, code, command, free_bytes, get, names, noise, ok, run_with_input, stderr,
};
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

/// A volume of so many MiB whose free space is what another file leaves.
fn volume(folder: &Folder, mib: usize, other_mib: usize) {
    let device = format!("file:{}", folder.path("disk"));
    let size = format!("{mib}M");
    ok(&["--quiet", "format", &device, "--size", &size]);
    if other_mib > 0 {
        let other = folder.file("other", other_mib << 20);
        ok(&["--quiet", "put", &device, &other, "other"]);
    }
}

/// The words that record a ring, in small blocks.
fn ring<'w>(device: &'w str, segment: &'w str, keep: &'w str) -> Vec<&'w str> {
    vec![
        "record",
        device,
        "take",
        "--segment",
        segment,
        "--keep",
        keep,
        "--block",
        "128K",
        "--deadline",
        "1min",
        "--json",
    ]
}

/// Records `data` and checks that the ring has the end of it, and what it reports.
fn records(words: &[&str], data: &[u8]) {
    let device = words[1];
    let output = run_with_input(words, data);
    let says = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{words:?}: {says}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["length_bytes"], data.len(), "{report}");
    assert_eq!(
        (&report["abandoned_bytes"], &report["lost_blocks"]),
        (&0.into(), &0.into())
    );
    // Nothing was lost in those that there were.
    let buffers = report["buffers"].as_u64();
    assert!(report["smallest_buffers"].as_u64() <= buffers, "{report}");
    assert!(report["removed_segments"].as_u64().unwrap() > 0, "{report}");
    let segments: Vec<String> = names(device)
        .into_iter()
        .filter(|name| name.starts_with("take.") && !name.ends_with("meta"))
        .collect();
    let kept: Vec<u8> = segments
        .iter()
        .flat_map(|name| get(device, name, &[]))
        .collect();
    assert!(
        !kept.is_empty() && data.ends_with(&kept),
        "{} bytes of {segments:?}",
        kept.len()
    );
    assert_eq!(report["segments"].as_array().unwrap().len(), segments.len());
    assert_eq!(code(&["--quiet", "check", device, "--read-data"]), 0);
}

#[test]
fn a_ring_goes_on_when_its_share_is_more_than_what_is_free() {
    let folder = Folder::new();
    let data = std::fs::read(folder.file("data", 24 << 20)).unwrap();
    for (mib, other_mib, segment, keep) in [
        // More than another file has left of the volume, and more than the volume.
        (16, 8, "1M", "12M"),
        (16, 0, "1M", "64M"),
        // Not even two segments fit: the next one begins with less than its length.
        (16, 8, "5M", "10M"),
        // By time: nothing is reserved for a length, and the time is longer than what is free.
        (16, 8, "1min", "64M"),
        (16, 8, "50ms", "64M"),
    ] {
        volume(&folder, mib, other_mib);
        let device = format!("file:{}", folder.path("disk"));
        records(&ring(&device, segment, keep), &data);
        std::fs::remove_file(folder.path("disk")).unwrap();
    }
}

#[test]
fn a_ring_of_a_source_that_does_not_wait_goes_on() {
    let folder = Folder::new();
    let data = std::fs::read(folder.file("data", 24 << 20)).unwrap();
    volume(&folder, 16, 8);
    let device = format!("file:{}", folder.path("disk"));
    let mut words = ring(&device, "1M", "12M");
    // A machine that is busy may lose blocks, but not for want of space.
    words.extend(["--rate", "20M", "--policy", "drop"]);
    let output = run_with_input(&words, &data);
    let says = stderr(&output);
    assert!(matches!(output.status.code(), Some(0 | 7)), "{says}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let lost = report["lost_bytes"].as_u64().unwrap();
    assert_eq!(report["length_bytes"], data.len() as u64 - lost, "{report}");
    assert_eq!(report["abandoned_bytes"], 0, "{report}");
}

#[test]
fn a_ring_on_a_slow_drive_waits_in_its_buffers_for_a_removal() {
    let folder = Folder::new();
    volume(&folder, 16, 8);
    let data = std::fs::read(folder.file("data", 12 << 20)).unwrap();
    let device = format!("model:16M,file={},latency=3ms", folder.path("disk"));
    let mut words = ring(&device, "1M", "12M");
    words.extend(["--buffers", "64"]);
    let output = run_with_input(&words, &data);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["length_bytes"], data.len(), "{report}");
}

/// Records 3 MiB in segments of 1 MiB that keep 2 MiB: what it says.
fn small_ring(device: &str, more: &[&str]) -> String {
    let mut words = ring(device, "1M", "2M");
    words.extend(more);
    let output = run_with_input(&words, &vec![7; 3 << 20]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stderr(&output)
}

#[test]
fn a_ring_removes_nothing_that_was_put() {
    let folder = Folder::new();
    volume(&folder, 32, 0);
    let device = format!("file:{}", folder.path("disk"));
    let put = |name: &str, bytes: &[u8]| {
        let put = ["--quiet", "put", &device, "-", name];
        assert_eq!(run_with_input(&put, bytes).status.code(), Some(0));
    };
    // Names of its form, a list of a segment that it will make, and a description of one.
    let mine: Vec<(&str, Vec<u8>)> = vec![
        ("take.000001", vec![1; 1 << 20]),
        ("take.000002", vec![2; 1 << 20]),
        ("take.000003.gaps", vec![3; 128]),
        ("take.000005.sigmf-meta", vec![4; 128]),
    ];
    for (name, bytes) in &mine {
        put(name, bytes);
    }
    let said = small_ring(&device, &[]);
    assert!(
        said.contains("not of this ring, which keeps them: `take.000001`, `take.000002` (hint: "),
        "{said}"
    );
    assert_eq!(said.matches("not of this ring").count(), 1);
    small_ring(&device, &["--policy", "drop"]);
    for (name, bytes) in &mine {
        assert!(get(&device, name, &[]) == *bytes, "{name}");
    }
    // Its own are removed, and no new one got a list or a description that is not its own.
    let made = |name: &String| !mine.iter().any(|(own, _)| own == name);
    let made: Vec<String> = names(&device).into_iter().filter(made).collect();
    assert!(
        made.len() <= 2 && made.iter().all(|name| name.as_str() > "take.000006"),
        "{made:?}"
    );
    // What was recorded and fetched, and is put again, is of the user.
    let back = get(&device, &made[0], &[]);
    ok(&["rm", &device, &made[0]]);
    put(&made[0], &back);
    small_ring(&device, &[]);
    assert!(get(&device, &made[0], &[]) == back);
    // A list that was put beside one of its own, which it removes.
    let own = names(&device).pop().unwrap();
    let list = format!("{own}.gaps");
    put(&list, &[5; 64]);
    small_ring(&device, &[]);
    assert!(!names(&device).contains(&own), "{own}");
    assert!(get(&device, &list, &[]) == [5; 64]);
    ok(&["check", &device, "--read-data"]);
}

/// Records a SigMF ring, and checks that the oldest file is described as what it is.
fn records_described(mib: usize, keep: &str, length_bytes: usize) {
    let folder = Folder::new();
    volume(&folder, mib, 0);
    let device = format!("file:{}", folder.path("disk"));
    let mut words = ring(&device, "512K", keep);
    words.extend([
        "--format",
        "sigmf",
        "--sigmf-datatype",
        "cu8",
        "--sample-rate",
        "1M",
    ]);
    let data: Vec<u8> = (0..length_bytes).map(|at| (at / 4096) as u8).collect();
    records(&words, &data);
    let all = names(&device);
    let is_segment = |name: &&String| name.starts_with("take.") && !name.ends_with("meta");
    let segments: Vec<&String> = all.iter().filter(is_segment).collect();
    let kept = segments.iter().map(|name| get(&device, name, &[]).len());
    let kept_bytes: usize = kept.sum();
    let meta = get(&device, &format!("{}.sigmf-meta", segments[0]), &[]);
    let meta: serde_json::Value = serde_json::from_slice(&meta).unwrap();
    // Two bytes are a sample.
    let removed = (length_bytes - kept_bytes) / 2;
    assert_eq!(
        meta["captures"][0]["core:global_index"], removed,
        "{meta} {all:?}"
    );
    let described = all.iter().filter(|name| name.ends_with("meta")).count();
    assert_eq!(described, 1, "{all:?}");
}

#[test]
fn the_oldest_segment_is_described_however_few_there_are() {
    for keep in ["1536K", "1792K", "2M"] {
        for length_bytes in [4 << 20, (4 << 20) + (512 << 10), 5 << 20] {
            records_described(16, keep, length_bytes);
        }
    }
}

#[test]
fn a_described_ring_on_a_full_volume_goes_on() {
    for length_bytes in [9 << 20, (9 << 20) + (768 << 10)] {
        records_described(4, "400M", length_bytes);
    }
}

#[test]
fn a_ring_of_two_segments_turns_although_nothing_of_the_current_one_is_durable_yet() {
    for keep in ["2M", "2200K", "3M"] {
        let folder = Folder::new();
        volume(&folder, 16, 0);
        let device = format!("file:{}", folder.path("disk"));
        let data = std::fs::read(folder.file("data", 30 << 20)).unwrap();
        records(&ring(&device, "1M", keep), &data);
        let kept: Vec<usize> = names(&device)
            .iter()
            .map(|name| get(&device, name, &[]).len())
            .collect();
        assert!(
            kept.iter().all(|bytes| *bytes <= 1 << 20),
            "{keep}: {kept:?}"
        );
        assert!(kept.len() <= 3, "{keep}: {kept:?}");
    }
}

#[test]
fn a_ring_keeps_numbers_that_it_does_not_write() {
    let folder = Folder::new();
    volume(&folder, 32, 0);
    let device = format!("file:{}", folder.path("disk"));
    let record = [
        "record",
        &device,
        "take.00%n",
        "--segment",
        "1M",
        "--block",
        "128K",
    ];
    assert_eq!(
        run_with_input(&record, &vec![9; 3 << 20]).status.code(),
        Some(0)
    );
    let others = names(&device);
    assert!(others.contains(&"take.00000001".to_owned()), "{others:?}");
    for _ in 0..2 {
        small_ring(&device, &[]);
    }
    let all = names(&device);
    assert!(others.iter().all(|name| all.contains(name)), "{all:?}");
    let kept: Vec<u8> = others
        .iter()
        .flat_map(|name| get(&device, name, &[]))
        .collect();
    assert!(kept == vec![9; 3 << 20]);
}

/// A running ring that has recorded the first 32 of these parts, on a slow drive.
fn running<'d>(folder: &Folder, data: &'d [u8]) -> (String, Take, std::slice::Chunks<'d, u8>) {
    volume(folder, 32, 0);
    let device = format!("model:32MiB,file={},latency=2ms", folder.path("disk"));
    let words = ["--segment", "128K", "--keep", "2M", "--deadline", "1min"];
    let mut take = Take::committed(&device, "64K", &words);
    let mut parts = data.chunks(64 << 10);
    parts.by_ref().take(32).for_each(|part| take.write(part));
    (device, take, parts)
}

/// An export begins again without the segments that the ring removes before they are read.
#[test]
fn an_export_of_a_running_ring_has_what_is_kept_and_no_status_of_its_own() {
    let folder = Folder::new();
    let data = noise(11, 22 << 20);
    let (device, mut take, mut parts) = running(&folder, &data);
    let out = folder.path("out");
    let mut again = 0;
    for round in 0..10 {
        let mut export = command(&["export", &device, "take.0*", &out, "--force"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(export.stderr.take().unwrap());
        let mut lines = String::new();
        // It has found the ring, and lists it next.
        said.read_line(&mut lines).unwrap();
        parts.by_ref().take(32).for_each(|part| take.write(part));
        said.read_to_string(&mut lines).unwrap();
        let status = export.wait().unwrap().code();
        assert!(
            matches!(status, Some(0 | 7)),
            "{round}: {status:?}: {lines}"
        );
        again += lines.matches("was removed before it was read").count();
        if !lines.contains("nothing was exported") {
            let exported = std::fs::read(&out).unwrap();
            let first = data
                .windows(64)
                .position(|bytes| exported.starts_with(bytes));
            let rest = &data[first.unwrap()..];
            assert!(rest.starts_with(&exported), "{round}: {lines}");
        }
    }
    println!("began again {again} times");
    take.end();
}

/// A pattern of a running ring may fit what is removed before it is read: 7, and which.
#[test]
fn what_a_ring_removes_before_it_is_read_is_named() {
    let folder = Folder::new();
    let data = noise(12, 24 << 20);
    let (device, mut take, mut parts) = running(&folder, &data);
    let out = folder.path("out");
    let archive = folder.path("out.tar");
    let verbs = [
        vec!["cat", &device, "take.0*"],
        vec!["get", &device, "take.0*", &out, "--force"],
        vec!["get", &device, "--all", "--tar", &archive, "--force"],
    ];
    let mut removed = 0;
    for round in 0..9 {
        let mut reader = command(&verbs[round % 3])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(reader.stderr.take().unwrap());
        let mut lines = String::new();
        said.read_line(&mut lines).unwrap();
        parts.by_ref().take(32).for_each(|part| take.write(part));
        said.read_to_string(&mut lines).unwrap();
        let status = reader.wait().unwrap().code();
        let is_removed = lines.contains("was removed before it could be read");
        let expected = if is_removed { 7 } else { 0 };
        assert_eq!(status, Some(expected), "{round}: {lines}");
        removed += usize::from(is_removed);
    }
    println!("removed in {removed} rounds");
    take.end();
}

/// The reader of the pipe waits while the ring removes what comes next.
#[test]
fn cat_goes_on_behind_segments_that_a_ring_has_removed() {
    let folder = Folder::new();
    let data = noise(13, 4 << 20);
    let (device, mut take, mut parts) = running(&folder, &data);
    let written = 32 * (64 << 10);
    let mut reader = command(&["cat", &device, "take.0*", "--partial"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = reader.stdout.take().unwrap();
    let mut got = vec![0; 1];
    output.read_exact(&mut got).unwrap();
    parts.by_ref().take(16).for_each(|part| take.write(part));
    output.read_to_end(&mut got).unwrap();
    let ended = reader.wait_with_output().unwrap();
    let said = stderr(&ended);
    assert_eq!(ended.status.code(), Some(7), "{said}");
    for what in [
        "was removed before it could be read",
        "the others were printed",
    ] {
        assert!(said.contains(what), "{said}");
    }
    let kept = names(&device);
    let first = kept.iter().find(|name| name.starts_with("take.0"));
    let rest = get(&device, first.unwrap(), &[]);
    let at = data.windows(64).position(|bytes| rest.starts_with(bytes));
    let behind = &data[at.unwrap()..written];
    assert!(!behind.is_empty() && got.ends_with(behind), "{said}");
    assert!(got.len() < written, "{said}");
    take.end();
}

/// On a full volume less than `--keep`, by what the guide says.
#[test]
fn a_ring_keeps_what_its_segments_and_its_buffers_leave_of_a_full_volume() {
    const UNIT: usize = 4096;
    let folder = Folder::new();
    let device = folder.path("disk");
    for (units, segment, buffers) in [(20, 4, 16), (40, 4, 16), (40, 2, 2), (24, 1, 2)] {
        let words = ["--size", "2M", "--unit", "4K", "--slots", "16", "--force"];
        ok(&[&["--quiet", "format", &device][..], &words].concat());
        let fill = free_bytes(&device) as usize - units * UNIT;
        ok(&[
            "--quiet",
            "put",
            &device,
            &folder.file("fill", fill),
            "fill",
        ]);
        let [segment, keep, buffers] =
            [segment * UNIT, 2 * units * UNIT, buffers].map(|number| number.to_string());
        let words = ["--block", "4K", "--policy", "drop", "--buffers", &buffers];
        let words = [&words[..], &["--segment", &segment, "--keep", &keep]].concat();
        let data = noise(14, 256 << 10);
        let words = [&["record", &device, "take"][..], &words].concat();
        let output = run_with_input(&words, &data);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let kept: Vec<u8> = names(&device)
            .iter()
            .filter(|name| name.starts_with("take.0"))
            .flat_map(|name| get(&device, name, &[]))
            .collect();
        assert!(data.ends_with(&kept));
        let longest: usize = names(&device)
            .iter()
            .filter(|name| name.starts_with("take.0"))
            .map(|name| get(&device, name, &[]).len())
            .max()
            .unwrap();
        let ahead = (units * UNIT / 4).min((buffers.parse::<usize>().unwrap() + 8) * UNIT);
        let least = (units * UNIT).saturating_sub(2 * longest + 2 * UNIT + ahead);
        assert!(kept.len() >= least, "{} of {least}: {words:?}", kept.len());
    }
}
