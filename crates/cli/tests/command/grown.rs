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
