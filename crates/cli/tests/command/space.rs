// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The verbs around a volume's files: `trim`, `resize`, `df`, `label`, `cat` and `cp`; and the
//! times that files keep.

use crate::support::{Folder, free_bytes, get, json, names, noise, ok, refused, run, volume};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Bytes that an image occupies on its file system.
fn stored(image: &str) -> u64 {
    fs::metadata(image).unwrap().blocks() * 512
}

#[test]
fn trim_makes_holes_of_removed_files_and_keeps_the_others() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    let kept = noise(3, 300_000);
    fs::write(folder.path("kept"), &kept).unwrap();
    fs::write(folder.path("gone"), noise(4, 4 << 20)).unwrap();
    ok(&["put", &disk, &folder.path("kept")]);
    ok(&["put", &disk, &folder.path("gone")]);
    ok(&["rm", &disk, "gone"]);
    let before = stored(&disk);
    let none = json(&["trim", &disk, "--minimum", "1T", "--json"]);
    // At most 1 GiB is one range.
    assert_eq!(
        (&none["trimmed_bytes"], &none["ranges"]),
        (&0.into(), &0.into())
    );
    let done = json(&["trim", &disk, "--json"]);
    assert_eq!(done["trimmed_bytes"], done["free_bytes"]);
    assert!(done["ranges"].as_u64().unwrap() >= 1);
    assert!(
        stored(&disk) + (4 << 20) <= before,
        "{before} {}",
        stored(&disk)
    );
    assert_eq!(get(&disk, "kept", &[]), kept);
    ok(&["check", &disk, "--read-data"]);
    assert!(ok(&["trim", &disk]).contains(" free in "));
    refused(&["trim", &folder.path("kept")], 3, "no Straightway volume");
    refused(&["trim", &disk, "--minimum", "-1"], 2, "--minimum");
}

#[test]
fn a_volume_gets_longer_and_shorter_with_its_files() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    let kept = noise(3, 5_000_000);
    fs::write(folder.path("kept"), &kept).unwrap();
    ok(&["put", &disk, &folder.path("kept")]);
    let size = |disk: &str| fs::metadata(disk).unwrap().len();
    let before = size(&disk);
    let longer = json(&["resize", &disk, "300M", "--json"]);
    assert_eq!(
        (&longer["before_bytes"], size(&disk)),
        (&before.into(), 300 << 20)
    );
    assert_eq!(longer["volume_bytes"], 300 << 20);
    assert_eq!(longer["needs_newer_reader"], true);
    assert_eq!(
        json(&["df", &disk, "--json"])["volumes"][0]["free_bytes"],
        longer["free_bytes"]
    );
    ok(&["check", &disk]);
    fs::write(folder.path("big"), noise(4, 100 << 20)).unwrap();
    ok(&["put", &disk, &folder.path("big")]);

    // The least size is named, and it is the least.
    let image = fs::read(&disk).unwrap();
    refused(&["resize", &disk, "50M"], 8, "its files and tables need");
    ok(&["check", &disk]);
    assert!(
        fs::read(&disk).unwrap()[1 << 20..] == image[1 << 20..],
        "it was changed"
    );
    ok(&["rm", &disk, "big"]);
    let least = json(&["resize", &disk, "--least", "--json"]);
    let bytes = least["volume_bytes"].as_u64().unwrap();
    assert!(bytes < before && least["free_bytes"] == 0, "{least}");
    refused(
        &["resize", &disk, &(bytes - 512).to_string()],
        8,
        &bytes.to_string(),
    );
    // The rest of the file is of no use now.
    File::options()
        .write(true)
        .open(&disk)
        .unwrap()
        .set_len(bytes)
        .unwrap();
    assert_eq!(get(&disk, "kept", &[]), kept);
    ok(&["check", &disk, "--read-data"]);
    // To the end of the file, which has not changed.
    assert!(ok(&["resize", &disk]).contains("already"));

    let other = folder.path("kept");
    refused(&["resize", &other, "100M"], 3, "no Straightway volume");
    assert_eq!(size(&other), kept.len() as u64);
    refused(&["resize", "model:8M", "16M"], 3, "no Straightway volume");
}

#[test]
fn a_label_is_shown_changed_and_removed() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &["--label", "first"]);
    assert_eq!(ok(&["label", &disk]), "first\n");
    let set = json(&["label", &disk, "rack 7, bay 2", "--json"]);
    assert_eq!(
        (&set["label"], &set["changed"]),
        (&"rack 7, bay 2".into(), &true.into())
    );
    assert_eq!(
        json(&["stat", &disk, "--json"])["volume"]["label"],
        "rack 7, bay 2"
    );
    let long = "x".repeat(33);
    refused(&["label", &disk, &long], 2, "at most 32");
    refused(&["label", &disk, "a\nb"], 2, "control character");
    assert_eq!(ok(&["label", &disk]), "rack 7, bay 2\n");
    ok(&["label", &disk, ""]);
    assert_eq!(ok(&["label", &disk]), "\n");
    ok(&["check", &disk]);
}

#[test]
fn df_has_a_line_for_each_volume() {
    let folder = Folder::new();
    let full = volume(&folder, "full.img", &["--label", "full"]);
    let empty = volume(&folder, "empty.img", &[]);
    fs::write(folder.path("data"), noise(1, 1 << 20)).unwrap();
    ok(&["put", &full, &folder.path("data")]);
    let found = json(&["df", &full, &empty, "--json"]);
    let volumes = found["volumes"].as_array().unwrap();
    let used = |index: usize| {
        let number = |key: &str| volumes[index][key].as_u64().unwrap();
        number("capacity_bytes") - number("free_bytes")
    };
    assert_eq!((used(0), used(1)), (1 << 20, 0));
    let text = ok(&["df", &full, &empty]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("DEVICE") && lines.len() == 3, "{text}");
    assert!(
        lines[1].contains("full") && lines[1].contains("1.00 MiB"),
        "{text}"
    );
    assert!(lines[2].contains("0 %"), "{text}");
    refused(
        &["df", &full, &folder.path("data")],
        3,
        "no Straightway volume",
    );
    // What this machine has is not known; that none is an error is.
    json(&["df", "--json"]);
}

#[test]
fn cat_prints_files_in_the_order_of_the_words() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &["--checksums"]);
    let files: Vec<(&str, Vec<u8>)> = [("run-2", 70_000), ("run-1", 513), ("other", 0), ("z", 9)]
        .map(|(name, len)| (name, noise(len as u64, len)))
        .to_vec();
    for (name, data) in &files {
        fs::write(folder.path(name), data).unwrap();
        ok(&["put", &disk, &folder.path(name)]);
    }
    let of = |name: &str| files.iter().find(|file| file.0 == name).unwrap().1.clone();
    let printed = run(&["cat", &disk, "z", "run-*", "other", "z"]);
    assert!(printed.status.success());
    let expected = [of("z"), of("run-1"), of("run-2"), of("z")].concat();
    assert_eq!(printed.stdout, expected);
    let missing = run(&["cat", &disk, "z", "none"]);
    assert_eq!((missing.status.code(), missing.stdout.len()), (Some(10), 0));
    refused(&["cat", &disk, ""], 2, "1 to 255 bytes");
    refused(&["cat", &disk], 2, "NAME");
}

#[test]
fn a_file_keeps_its_time_on_the_way_in_and_out() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    let time = UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789);
    let path = folder.path("old");
    fs::write(&path, noise(5, 5000)).unwrap();
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(time)
        .unwrap();
    ok(&["put", &disk, &path]);
    let listed = json(&["ls", &disk, "--json"]);
    assert_eq!(
        listed["files"][0]["modified_ns"],
        1_700_000_000_123_456_789_u64
    );
    let modified = |name: &str| fs::metadata(folder.path(name)).unwrap().modified().unwrap();
    ok(&["get", &disk, "old", &folder.path("back")]);
    assert_eq!(modified("back"), time);
    let began = SystemTime::now() - Duration::from_secs(2);
    ok(&["get", &disk, "old", &folder.path("part"), "--length", "100"]);
    assert!(modified("part") > began, "a part is not the file");
}

#[test]
fn a_copy_has_all_of_the_file_and_replaces_nothing() {
    let folder = Folder::new();
    let disk = folder.path("disk.img");
    ok(&["format", &disk, "--size", "64M", "--checksums"]);
    // Longer than one part, and not whole blocks.
    for (name, len, options) in [
        ("long", (16 << 20) + 70_001, &[][..]),
        ("plain", 5_000, &["--no-checksums"]),
        ("empty", 0, &[]),
    ] {
        let data = noise(len as u64, len);
        fs::write(folder.path(name), &data).unwrap();
        ok(&[&["put", &disk, &folder.path(name)], options].concat());
        let copy = format!("{name} copy");
        ok(&["cp", &disk, name, &copy]);
        assert_eq!(get(&disk, &copy, &[]), data);
        let of = |name: &str| json(&["stat", &disk, name, "--json"])["file"].clone();
        for key in ["size_bytes", "modified_ns", "checksums", "app_tag"] {
            assert_eq!(of(name)[key], of(&copy)[key], "{name} {key}");
        }
    }
    ok(&["check", &disk, "--read-data"]);
    refused(&["cp", &disk, "long", "plain"], 9, "has this name");
    refused(&["cp", &disk, "long", "long"], 9, "has this name");
    refused(&["cp", &disk, "none", "x"], 10, "no file has this name");
    refused(&["cp", &disk, "long", ""], 2, "1 to 255 bytes");
}

#[test]
fn a_file_that_rotted_or_does_not_fit_is_not_copied() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &["--checksums"]);
    let data = noise(9, 300_000);
    fs::write(folder.path("data"), &data).unwrap();
    ok(&["put", &disk, &folder.path("data")]);
    let free = free_bytes(&disk);
    let file = json(&["stat", &disk, "data", "--json"])["file"].clone();
    let lba = file["extent_list"][0]["lba"].as_u64().unwrap();
    let block = file["block_size_bytes"].as_u64().unwrap();
    {
        let image = File::options().write(true).open(&disk).unwrap();
        let at = lba * block + 70_000;
        image.write_all_at(&[data[70_000] ^ 1], at).unwrap();
    }
    refused(
        &["cp", &disk, "data", "copy"],
        6,
        "do not match their checksum",
    );
    assert_eq!(
        (names(&disk), free_bytes(&disk)),
        (vec!["data".to_owned()], free)
    );
    let small = folder.path("small.img");
    ok(&["format", &small, "--size", "1M"]);
    let half = free_bytes(&small) / 2 + 65_536;
    fs::write(folder.path("half"), noise(2, half as usize)).unwrap();
    ok(&["put", &small, &folder.path("half")]);
    refused(&["cp", &small, "half", "copy"], 8, "not enough free space");
    assert_eq!(names(&small), ["half"]);
}
