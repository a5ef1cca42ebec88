// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rings on volumes that are full: a recording ends for want of space only if nothing of it may be
//! removed.

use crate::support::{Folder, code, get, names, ok, run_with_input, stderr};

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
        .filter(|name| name.starts_with("take."))
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

#[test]
fn segments_are_removed_by_their_numbers_whatever_the_clock_says() {
    let folder = Folder::new();
    volume(&folder, 16, 0);
    let device = format!("file:{}", folder.path("disk"));
    // The clock was set back after the first one, and forward and back after the second.
    for (name, since_1970) in [
        ("take.000001", 2_000_000_000),
        ("take.000002", 2_100_000_000),
        ("take.000003", 1_000),
    ] {
        let file = folder.file(name, 1 << 20);
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(since_1970);
        std::fs::File::options()
            .write(true)
            .open(&file)
            .unwrap()
            .set_modified(time)
            .unwrap();
        ok(&["--quiet", "put", &device, &file, name]);
    }
    let output = run_with_input(&ring(&device, "1M", "3M"), &[7; 1 << 17]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let left: Vec<String> = names(&device);
    assert_eq!(left, ["take.000002", "take.000003", "take.000004"]);
}
