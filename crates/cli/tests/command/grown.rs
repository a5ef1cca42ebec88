// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Volumes that use what version 1.1 of the format added.

use crate::support::{Folder, json, names, ok, run, stderr, volume};

fn version(device: &str) -> String {
    let version = json(&["stat", device, "--json"])["volume"]["format"].clone();
    let line = format!("format     {}\n", version.as_str().unwrap());
    assert!(ok(&["stat", device]).contains(&line));
    version.as_str().unwrap().to_owned()
}

/// A volume whose table of slots has grown.
fn grown(folder: &Folder) -> String {
    let device = volume(folder, "grown", &["--slots", "8"]);
    let small = folder.file("small", 1000);
    for number in 0..9 {
        assert_eq!(version(&device), "1.0");
        ok(&["put", &device, &small, &number.to_string()]);
    }
    device
}

#[test]
fn a_volume_has_version_1_1_once_it_needs_a_reader_of_it() {
    let folder = Folder::new();
    assert_eq!(version(&grown(&folder)), "1.1");
    let device = volume(&folder, "long", &[]);
    let small = folder.file("one", 1000);
    ok(&["put", &device, &small, &"x".repeat(64)]);
    assert_eq!(version(&device), "1.0");
    ok(&["put", &device, &small, &"x".repeat(65)]);
    assert_eq!(version(&device), "1.1");
}

/// The image with both members of its table node damaged.
fn without_table(image: &[u8]) -> Vec<u8> {
    use volume::layout::superblock;
    let number = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().unwrap());
    let unit = number(superblock::TABLE_UNIT - 4) >> 32;
    let start = (number(superblock::DATA_START) + unit * 4096) as usize;
    let mut damaged = image.to_vec();
    let mut members = 0;
    for node in damaged[start..start + 4096].chunks_mut(512) {
        if node.starts_with(b"SWsl") {
            node[16] ^= 1;
            members += 1;
        }
    }
    assert_eq!(members, 2, "at {start:x}");
    damaged
}

#[test]
fn no_hint_sends_to_a_check_that_cannot_help() {
    let folder = Folder::new();
    let device = grown(&folder);
    assert_eq!(names(&device).len(), 9);
    let image = without_table(&std::fs::read(&device).unwrap());
    std::fs::write(&device, &image).unwrap();
    for words in [
        &["ls", &device][..],
        &["stat", &device],
        &["check", &device],
        &["check", &device, "--repair"],
        &["get", &device, "1", "-"],
        &["rm", &device, "1"],
    ] {
        let output = run(words);
        let says = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {says}");
        assert!(
            says.contains("the node of the slot table is damaged"),
            "{says}"
        );
        assert!(says.contains("hint: no check can repair that: "), "{says}");
        assert!(!says.contains("straightway check"), "{says}");
        assert!(!says.contains("run a check"), "{says}");
    }
    assert!(std::fs::read(&device).unwrap() == image);
}

/// The volume is as it was, but for its superblocks and the counts in them.
fn is_unchanged(device: &str, image: &[u8]) -> bool {
    let now = std::fs::read(device).unwrap();
    now.len() == image.len() && now[131_072..] == image[131_072..]
}

#[test]
fn a_volume_goes_back_to_1_0_where_nothing_needs_1_1() {
    let folder = Folder::new();
    let device = volume(&folder, "grown", &["--slots", "16"]);
    let small = folder.file("small", 1000);
    for number in 0..17 {
        ok(&["put", &device, &small, &number.to_string()]);
    }
    assert_eq!(version(&device), "1.1");
    // Without --to nothing changes.
    let image = std::fs::read(&device).unwrap();
    let text = ok(&["upgrade", &device]);
    assert!(text.contains("has format 1.1: 24 slots now"), "{text}");
    assert!(std::fs::read(&device).unwrap() == image);
    let refused = |exit: i32, what: &str| {
        let image = std::fs::read(&device).unwrap();
        let output = run(&["upgrade", &device, "--to", "1.0"]);
        let says = stderr(&output);
        assert_eq!(output.status.code(), Some(exit), "{says}");
        assert!(says.contains(what), "{says}");
        assert!(is_unchanged(&device, &image), "{what}: it was changed");
        ok(&["check", &device]);
    };
    refused(8, "it has 17 files, and its table had 16 slots at first");
    ok(&["rm", &device, "0"]);
    let long = "y".repeat(65);
    ok(&["mv", &device, "1", &long]);
    refused(1, "has 65 bytes, and a name of format 1.0 at most 64");
    ok(&["mv", &device, &long, "1"]);
    // Two buckets with sixteen files: each has its place if no more than eight want the same.
    for number in 12..17 {
        ok(&["rm", &device, &number.to_string()]);
    }
    let free = |device: &str| json(&["df", device, "--json"])["volumes"][0]["free_bytes"].clone();
    let before = free(&device).as_u64().unwrap();
    let done = json(&["upgrade", &device, "--to", "1.0", "--json"]);
    assert_eq!(
        (&done["before"], &done["format"]),
        (&"1.1".into(), &"1.0".into())
    );
    assert_eq!(done["slots"], 16);
    assert_eq!(version(&device), "1.0");
    assert!(free(&device).as_u64().unwrap() > before);
    ok(&["check", &device, "--read-data"]);
    let mut left: Vec<String> = (1..12).map(|number| number.to_string()).collect();
    left.sort();
    assert_eq!(names(&device), left);
    let text = ok(&["upgrade", &device, "--to", "1.0"]);
    assert!(text.contains("has format 1.0: 16 slots now"), "{text}");
    // And it grows again.
    for number in 20..40 {
        ok(&["put", &device, &small, &number.to_string()]);
    }
    assert_eq!(version(&device), "1.1");
    ok(&["check", &device, "--read-data"]);
}

#[test]
fn what_cannot_go_back_is_refused_as_it_is() {
    let folder = Folder::new();
    let refused = |device: &str, exit: i32, what: &str| {
        let output = run(&["upgrade", device, "--to", "1.0"]);
        let says = stderr(&output);
        assert_eq!(output.status.code(), Some(exit), "{says}");
        assert!(says.contains(what), "{says}");
    };
    let device = grown(&folder);
    ok(&["rm", &device, "0"]);
    let image = std::fs::read(&device).unwrap();
    // Both members of every bitmap.
    let mut damaged = image.clone();
    let mut members = 0;
    for node in damaged.chunks_mut(512) {
        if node.starts_with(b"SWbm") {
            node[300] ^= 1;
            members += 1;
        }
    }
    assert!(members >= 2);
    std::fs::write(&device, &damaged).unwrap();
    refused(&device, 1, "the volume is damaged; nothing was changed");
    assert!(is_unchanged(&device, &damaged));
    // A feature that only a reader may ignore: the volume may only be read.
    let mut protected = image.clone();
    for at in [0, 65_536] {
        use volume::layout::superblock;
        let block = &mut protected[at..at + 256];
        block[superblock::RO_COMPAT] = 1;
        let mut bytes = (at as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(&block[..superblock::CRC]);
        bytes.extend_from_slice(&block[superblock::CRC + 4..]);
        let crc = volume::checksum::crc32c(0, &bytes);
        block[superblock::CRC..superblock::CRC + 4].copy_from_slice(&crc.to_le_bytes());
    }
    std::fs::write(&device, &protected).unwrap();
    refused(&device, 3, "read-only");
    assert!(std::fs::read(&device).unwrap() == protected);
    refused(&folder.path("small"), 3, "no Straightway volume");
    let output = run(&["upgrade", &device, "--to", "2.0"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}
