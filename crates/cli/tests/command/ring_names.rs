// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rings whose next segment has no slot, or cannot be made: what was removed for it is said.

use crate::live::Take;
use crate::support::{Folder, names, noise, ok, run_with_input, stderr, volume};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::process::Command;

/// Damages both copies of the slot that has this name, beside the process that mounted the volume.
fn damage_slot_of(device: &str, name: &str) {
    // The table stands in front of the data.
    let mut image = std::fs::read(device).unwrap();
    image.truncate(1 << 20);
    let file = OpenOptions::new().write(true).open(device).unwrap();
    let mut copies = 0;
    for (at, bytes) in image.windows(name.len() + 1).enumerate() {
        if bytes.starts_with(name.as_bytes()) && bytes[name.len()] == 0 {
            file.write_all_at(&[bytes[0] ^ 1], at as u64).unwrap();
            copies += 1;
        }
    }
    assert!(copies >= 2, "{copies} copies of `{name}`");
}

/// Segments that were recorded.
fn segments(device: &str) -> Vec<String> {
    let mut all = names(device);
    all.retain(|name| name.starts_with("take."));
    all
}

#[test]
fn what_a_ring_removed_for_a_segment_that_cannot_be_made_is_reported() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &["--slots", "8"]);
    ok(&["put", &device, &folder.file("mine", 1000), "mine"]);
    let data = noise(1, 12 << 20);
    let ring = ["--segment", "1M", "--keep", "4M", "--deadline", "1min"];
    let mut take = Take::committed(&device, "64K", &ring);
    let mut parts = data.chunks(64 << 10);
    parts.by_ref().take(50).for_each(|part| take.write(part));
    assert!(segments(&device).contains(&"take.000001".to_owned()));
    damage_slot_of(&device, "mine");
    parts.for_each(|part| take.write(part));
    let output = take.ended();
    let says = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{says}");
    assert!(
        says.contains("file slot 0 is damaged: run a check; the file before it goes on"),
        "{says}"
    );
    // The first one was removed before that failed.
    assert!(
        says.contains("3 segments from `take.000002` to `take.000004`; 1 removed"),
        "{says}"
    );
}

/// A volume whose table of slots cannot grow, as its free space is pieces of two units: some names
/// have a slot, and some have none. A model of a drive, whose many flushes cost nothing.
fn crowded(folder: &Folder) -> String {
    let device = format!("model:4MiB,file={}", folder.path("crowded"));
    ok(&["--quiet", "format", &device, "--slots", "8"]);
    for (name, count, bytes) in [("data", 900, 4096), ("empty", 900, 0)] {
        let path = folder.path(name);
        std::fs::create_dir(&path).unwrap();
        for number in 0..count {
            std::fs::write(format!("{path}/{number:04}"), vec![0; bytes]).unwrap();
        }
        // An archive as a stream does not say how many files it has.
        let mut tar = Command::new("tar");
        let archive = tar
            .args(["-C", &folder.path(""), "-c", "--sort=name", name])
            .output();
        let archive = archive.expect("Debian has tar").stdout;
        let put = run_with_input(&["--quiet", "put", &device, "-", "--tar"], &archive);
        assert_eq!(put.status.code(), Some(8), "{}", stderr(&put));
        if bytes > 0 {
            ok(&["--quiet", "rm", &device, "data/*[0145]"]);
        }
    }
    // One after the other, each takes a slot if there is one for its name.
    let mut refused = 0;
    for number in 0..100 {
        let name = format!("more/{number}");
        let put = run_with_input(&["--quiet", "put", &device, "-", &name], &[]);
        refused += usize::from(put.status.code() == Some(8));
    }
    assert!(refused > 50, "{refused}");
    device
}

#[test]
fn a_ring_whose_next_segment_has_no_slot_says_so_at_once_and_ends_with_a_status() {
    let folder = Folder::new();
    let device = crowded(&folder);
    let image = std::fs::read(folder.path("crowded")).unwrap();
    let data = noise(1, 768 << 10);
    let (mut long, mut early, mut good) = (0, 0, 0);
    // Slots for some of the names that a ring makes.
    for (free, names) in [
        ("empty/000[1-3]", ["take", "a", "b"]),
        ("empty/000[1-4]", ["take", "c", "d"]),
    ] {
        for name in names {
            std::fs::write(folder.path("crowded"), &image).unwrap();
            ok(&["--quiet", "rm", &device, free]);
            let words = [
                "record",
                &device,
                name,
                "--segment",
                "128K",
                "--keep",
                "512K",
                "--block",
                "64K",
                "--commit-bytes",
                "64K",
                "--deadline",
                "1min",
                "--json",
            ];
            let output = run_with_input(&words, &data);
            let says = format!("{free} {name}: {}", stderr(&output));
            let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(report["length_bytes"], data.len(), "{report}");
            let lengths = report["segments"].as_array().unwrap().iter();
            let kept: u64 = lengths
                .map(|one| one["length_bytes"].as_u64().unwrap())
                .sum();
            let removed_early = report["removed_early_segments"].as_u64().unwrap();
            // Of the one that was not made, all is in the one before.
            if kept > 512 << 10 {
                assert_eq!(output.status.code(), Some(8), "{says}");
                assert!(
                    says.contains("; the file before it goes on until it has one"),
                    "{says}"
                );
                long += 1;
            } else if removed_early > 0 {
                assert!(matches!(output.status.code(), Some(7 | 8)), "{says}");
                assert!(says.contains(" had no slot: removed `"), "{says}");
                early += 1;
            } else {
                assert_eq!(output.status.code(), Some(0), "{says}");
                assert!(!says.contains("no slot"), "{says}");
                good += 1;
            }
        }
    }
    println!("{long} too long, {early} with early removals, {good} without");
    assert!(long > 0 && early > 0 && good > 0);
}
