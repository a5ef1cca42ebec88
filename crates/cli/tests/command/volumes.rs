// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Volumes on plain files and on the model controller.

use crate::support::{
    Folder, code, command, free_bytes, get, json, names, noise, ok, refused, run, run_with_input,
    stderr, volume,
};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

#[test]
fn what_is_put_is_got_and_every_verb_agrees() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &["--checksums"]);
    let model_file = folder.path("model.img");
    let model = format!("model:32M,file={model_file}");
    ok(&["format", &model, "--checksums", "--unit", "4K"]);
    let input = folder.path("input");
    for device in [disk.as_str(), model.as_str()] {
        let sizes = [
            0,
            1,
            511,
            512,
            513,
            65_535,
            65_536,
            65_537,
            3 << 20,
            9_000_001,
        ];
        for (index, size) in sizes.into_iter().enumerate() {
            let data = noise(size as u64, size);
            std::fs::write(&input, &data).unwrap();
            let name = format!("file {index}");
            for (block, more) in [
                ("512", "--verify"),
                ("96K", "--no-checksums"),
                ("1M", "--force"),
            ] {
                let put = [
                    "put",
                    device,
                    &input,
                    &name,
                    "--force",
                    "--block-size",
                    block,
                ];
                ok(&[&put[..], &[more][..usize::from(more != "--force")]].concat());
                for block in ["4K", "1M"] {
                    let got = get(device, &name, &["--block-size", block]);
                    assert!(got == data, "{device}: {size} bytes by {block}");
                }
            }
            let status = json(&["stat", device, &name, "--json"]);
            assert_eq!(status["file"]["size_bytes"], size);
            let extents = status["file"]["extents"].as_u64().unwrap();
            // What fits an allocation group is contiguous here, a small file always.
            assert!((extents == 0) == (size == 0), "{status}");
            assert!(extents <= 1 || size > 1 << 20, "{status}");
            ok(&["mv", device, &name, &format!("moved {index}")]);
        }
        let expected: Vec<String> = (0..sizes.len()).map(|i| format!("moved {i}")).collect();
        assert_eq!(names(device), expected);
        assert!(ok(&["check", device, "--read-data"]).contains("sound: 10 files"));
        let long = ok(&["ls", device, "--long"]);
        assert!(long.contains("9000001") && long.contains("Z c"), "{long}");
        let all: Vec<&str> = expected.iter().map(String::as_str).collect();
        ok(&[&["rm", device], &all[..]].concat());
        let status = json(&["stat", device, "--json"])["volume"].clone();
        assert_eq!(status["files"], 0);
        assert_eq!(status["clean"], true);
        assert_eq!(status["free_bytes"], status["capacity_bytes"]);
    }
}

#[test]
fn standard_input_of_any_length_is_put() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &["--checksums"]);
    for (index, len) in [0, 1, 100_000, 21_000_003].into_iter().enumerate() {
        let data = noise(7, len);
        let name = format!("in {index}");
        let mut words = vec!["put", &disk, "-", &name];
        words.extend(["--no-checksums"].iter().filter(|_| index % 2 == 1));
        let output = run_with_input(&words, &data);
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(get(&disk, &name, &[]) == data, "{len}");
        ok(&["rm", &disk, &name]);
    }
    // No unused reservation is left.
    assert_eq!(
        free_bytes(&disk),
        json(&["stat", &disk, "--json"])["volume"]["capacity_bytes"]
    );
}

#[test]
fn any_part_of_a_file_is_got_exactly() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &["--checksums"]);
    let data = noise(3, 1_000_003);
    std::fs::write(folder.path("data"), &data).unwrap();
    ok(&[
        "put",
        &disk,
        &folder.path("data"),
        "plain",
        "--no-checksums",
    ]);
    ok(&["put", &disk, &folder.path("data"), "summed", "--checksums"]);
    let end = data.len();
    let parts = [
        (0, 1),
        (1, 1),
        (511, 2),
        (65_535, 2),
        (65_536, 65_536),
        (100_000, 777_777),
        (end - 1, 1),
        (end, 0),
        (0, end),
    ];
    for name in ["plain", "summed"] {
        for (offset, length) in parts {
            let (from, len) = (offset.to_string(), length.to_string());
            let words = ["--offset", &from, "--length", &len, "--block-size", "64K"];
            let got = get(&disk, name, &words);
            assert!(
                got == data[offset..offset + length],
                "{name}: {offset}, {length}"
            );
        }
        let past = (end + 1).to_string();
        refused(
            &["get", &disk, name, "-", "--offset", &past],
            2,
            "past the end",
        );
        refused(
            &["get", &disk, name, "-", "--length", &past],
            2,
            "--length 1000003",
        );
    }
}

#[test]
fn get_makes_a_file_that_is_whole_or_none() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    let data = noise(5, 100_000);
    std::fs::write(folder.path("data"), &data).unwrap();
    ok(&["put", &disk, &folder.path("data")]);
    let out = folder.path("out");
    std::fs::create_dir(&out).unwrap();
    ok(&["get", &disk, "data", &out]);
    assert_eq!(std::fs::read(folder.0.join("out/data")).unwrap(), data);
    refused(&["get", &disk, "none", &out], 10, "no file has this name");
    let verify = ["get", &disk, "data", "-", "--verify"];
    refused(&verify, 1, "no checksums to verify");
    refused(
        &["get", &disk, "data", &folder.path("none/x")],
        10,
        "making",
    );
    let files = std::fs::read_dir(&out).unwrap().count();
    assert_eq!(files, 1, "only what was fetched is there");
    let text = ok(&["put", &disk, &folder.path("data"), "a/../b"]);
    assert_eq!(text, "");
    refused(&["get", &disk, "a/../b"], 2, "name of a local file");
}

#[test]
fn rot_is_found_and_named() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &["--checksums"]);
    let data = noise(11, 1 << 20);
    std::fs::write(folder.path("data"), &data).unwrap();
    ok(&["put", &disk, &folder.path("data"), "summed", "--checksums"]);
    ok(&["put", &disk, &folder.path("data"), "second", "--checksums"]);
    let mut image = std::fs::read(&disk).unwrap();
    let first = image
        .windows(4096)
        .position(|window| *window == data[..4096])
        .unwrap();
    for offset in [200_000, 900_000] {
        image[first + offset] ^= 0x10;
    }
    std::fs::write(&disk, &image).unwrap();
    let rotten = if get_code(&disk, "summed") == 6 {
        "summed"
    } else {
        "second"
    };
    let sound = if rotten == "summed" {
        "second"
    } else {
        "summed"
    };
    assert!(get(&disk, sound, &["--verify"]) == data);
    for words in [
        &["get", &disk, rotten, "-"][..],
        &["get", &disk, rotten, "-", "--verify"],
        &["cat", &disk, rotten],
        &["play", &disk, rotten],
        &["play", &disk, rotten, "--block", "64K", "--buffers", "2"],
        &[
            "play",
            &disk,
            rotten,
            "--rate",
            "100M",
            "--deadline",
            "1min",
        ],
    ] {
        let output = run(words);
        assert_eq!(output.status.code(), Some(6), "{words:?}");
        let said = stderr(&output);
        assert!(said.contains(rotten) && said.contains("196608"), "{said}");
        // All before the bad chunk, and nothing of it or after it.
        assert!(output.stdout == data[..196_608]);
    }
    let out = folder.path("out");
    refused(&["get", &disk, rotten, &out], 6, "196608");
    assert!(!std::path::Path::new(&out).exists());
    let after = get(&disk, rotten, &["--offset", "256K", "--length", "512K"]);
    assert!(after == data[262_144..786_432]);
    let output = run(&["check", &disk, "--read-data", "--json"]);
    assert_eq!(output.status.code(), Some(6));
    let checked: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let offsets: Vec<_> = checked["rot"].as_array().unwrap().iter().collect();
    assert_eq!(offsets.len(), 2, "{checked}");
    assert_eq!(offsets[0]["offset_bytes"], 196_608);
    assert_eq!(offsets[1]["offset_bytes"], 13 * 65_536);
    assert_eq!(offsets[1]["name"], rotten);
    assert_eq!(code(&["check", &disk]), 0, "the volume itself is sound");
    assert_eq!(std::fs::read(&disk).unwrap(), image, "nothing was changed");
}

fn get_code(device: &str, name: &str) -> i32 {
    code(&["get", device, name, "-"])
}

#[test]
fn an_older_file_is_replaced_only_when_asked() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    let (old, new) = (folder.file("old", 5000), folder.file("new", 12_000_000));
    ok(&["put", &disk, &old, "file"]);
    let before = std::fs::read(&disk).unwrap();
    refused(&["put", &disk, &new, "file"], 9, "--force");
    assert!(
        std::fs::read(&disk).unwrap() == before,
        "nothing was changed"
    );
    ok(&["put", &disk, &new, "file", "--force", "--verify"]);
    assert_eq!(names(&disk), ["file"]);
    assert!(get(&disk, "file", &[]) == std::fs::read(&new).unwrap());
    // There is no space for a second copy, so the first file is kept.
    let large = folder.file("large", 25_000_000);
    refused(
        &["put", &disk, &large, "file", "--force"],
        8,
        "not enough free space",
    );
    assert_eq!(names(&disk), ["file"]);
    assert!(get(&disk, "file", &[]) == std::fs::read(&new).unwrap());
    // A check reports what a power cut left of a replacement.
    ok(&["mv", &disk, "file", "file.new~"]);
    ok(&["put", &disk, &old, "file"]);
    let checked = json(&["check", &disk, "--json"]);
    assert_eq!(checked["sound"], true);
    let finding = checked["findings"][0].as_str().unwrap();
    assert!(finding.contains("`file.new~`"));
    // It is whole, so a user says what it is.
    refused(
        &["put", &disk, &old, "file", "--force"],
        9,
        "nothing was done",
    );
    ok(&["rm", &disk, "file.new~"]);
    ok(&["put", &disk, &old, "file", "--force"]);
    assert_eq!(names(&disk), ["file"]);
    // The hint for an existing name matches the verb's options.
    ok(&["put", &disk, &old, "other"]);
    let output = run(&["mv", &disk, "file", "other"]);
    assert_eq!(output.status.code(), Some(9));
    let said = stderr(&output);
    assert!(
        said.contains("straightway rm") && !said.contains("--force"),
        "{said}"
    );
}

/// The second word is a second file if it is a local file, as with a shell's pattern, and a name
/// otherwise.
#[test]
fn a_second_file_is_not_taken_for_a_name() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    for name in ["a.dat", "b.dat"] {
        folder.file(name, 1000);
    }
    let put = |words: &[&str]| {
        let mut command = command(&[&["put", &disk], words].concat());
        command.current_dir(&folder.0).output().unwrap()
    };
    assert!(put(&["a.dat", "b.dat"]).status.success());
    assert_eq!(names(&disk), ["a.dat", "b.dat"]);
    ok(&["rm", &disk, "*.dat"]);
    // An explicit --name, a name without a local file, and the file's own name.
    assert!(put(&["a.dat", "--name", "b.dat"]).status.success());
    assert!(put(&["a.dat", "other"]).status.success());
    assert!(put(&["./a.dat", "a.dat"]).status.success());
    assert_eq!(names(&disk), ["a.dat", "b.dat", "other"]);
    assert_eq!(put(&["a.dat", "x", "--name", "y"]).status.code(), Some(2));
}

#[test]
fn a_volume_made_for_checksums_gives_them_to_every_file() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &["--checksums"]);
    let data = noise(13, 300_000);
    std::fs::write(folder.path("data"), &data).unwrap();
    let put = json(&["put", &disk, &folder.path("data"), "summed", "--json"]);
    assert_eq!(put["checksums"], true);
    ok(&[
        "put",
        &disk,
        &folder.path("data"),
        "plain",
        "--no-checksums",
    ]);
    // This is not about the default deadline, which a busy machine misses.
    let pattern = "--from pattern --rate 64M --size 1M --deadline 1min";
    let record = |name: &str, more: &str| {
        let words = pattern.split(' ').chain(more.split_whitespace());
        ok(&["record", &disk, name]
            .into_iter()
            .chain(words)
            .collect::<Vec<_>>());
    };
    record("taken", "");
    record("bare", "--no-checksums");
    let files = json(&["ls", &disk, "--json"])["files"].clone();
    let with: Vec<_> = files
        .as_array()
        .unwrap()
        .iter()
        .map(|file| &file["checksums"])
        .collect();
    assert_eq!(
        with,
        [false, false, true, true],
        "bare, plain, summed, taken"
    );
    // What was not verified is reported.
    let text = ok(&["check", &disk, "--read-data"]);
    assert!(
        text.contains("2 files have no checksums: not verified"),
        "{text}"
    );
    let checked = json(&["check", &disk, "--read-data", "--json"]);
    assert_eq!(checked["compared_bytes"], 300_000 + (1 << 20));
    assert_eq!(checked["not_compared_files"], 2);
    assert_eq!(checked["not_compared_bytes"], 300_000 + (1 << 20));
    let said = |name| {
        stderr(&run(&[
            "get",
            &disk,
            name,
            &folder.path(&format!("{name}.out")),
        ]))
    };
    assert!(said("plain").contains("not verified: the file has no checksums"));
    assert!(!said("summed").contains("not verified"));
    // A flipped bit is found in a file that was stored without an explicit --checksums.
    let mut image = std::fs::read(&disk).unwrap();
    let is_data = |window: &[u8]| *window == data[..4096];
    let copies: Vec<usize> = image
        .windows(4096)
        .step_by(512)
        .enumerate()
        .filter(|(_, window)| is_data(window))
        .map(|(at, _)| at * 512)
        .collect();
    assert_eq!(copies.len(), 2);
    for at in copies {
        image[at + 100_000] ^= 1;
    }
    std::fs::write(&disk, &image).unwrap();
    assert_eq!(code(&["check", &disk, "--read-data"]), 6);
    refused(&["get", &disk, "summed", &folder.path("out")], 6, "65536");
    // On a volume without them nothing changes.
    let bare = volume(&folder, "bare.img", &[]);
    let put = json(&["put", &bare, &folder.path("data"), "data", "--json"]);
    assert_eq!(put["checksums"], false);
}

#[test]
fn a_recording_was_modified_when_it_ended() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    let mut child = command(&["record", &disk, "taken", "--acknowledge"])
        .args(["--commit-ms", "1", "--block", "64K"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let now_ns = || {
        let since = std::time::UNIX_EPOCH.elapsed().unwrap();
        since.as_nanos() as u64
    };
    let mut begin_ns = 0;
    for _ in 0..2 {
        begin_ns = now_ns();
        input.write_all(&noise(1, 65_536)).unwrap();
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.starts_with("durable"), "{line}");
    }
    // Killed: the time is that of the last commit, which is after the second block.
    child.kill().unwrap();
    child.wait().unwrap();
    let modified_ns = json(&["ls", &disk, "--json"])["files"][0]["modified_ns"]
        .as_u64()
        .unwrap();
    assert!(
        modified_ns >= begin_ns,
        "{} ms before the last block",
        (begin_ns - modified_ns) / 1_000_000
    );
}

#[test]
fn a_volume_that_is_full_says_so_and_loses_nothing() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &["--slots", "8"]);
    let small = folder.file("small", 1000);
    let free = free_bytes(&disk);
    let large = folder.file("large", 33 << 20);
    refused(&["put", &disk, &large], 8, "not enough free space");
    let endless = run_with_input(&["put", &disk, "-", "x"], &noise(1, 33 << 20));
    assert_eq!(endless.status.code(), Some(8));
    assert!(stderr(&endless).contains("not enough free space"));
    let kept = run_with_input(
        &["put", &disk, "-", "x", "--keep-partial"],
        &noise(1, 33 << 20),
    );
    assert!(stderr(&kept).contains("`x` has 3"), "{}", stderr(&kept));
    assert_eq!(names(&disk), ["x"]);
    let got = get(&disk, "x", &[]);
    assert!(got.len() > 30 << 20 && got == noise(1, 33 << 20)[..got.len()]);
    ok(&["rm", &disk, "x"]);
    assert_eq!(free_bytes(&disk), free);
    for index in 0..8 {
        ok(&["put", &disk, &small, &index.to_string()]);
    }
    // The table grows where there is space for it, and no name is refused then.
    ok(&["put", &disk, &small, "ninth"]);
    ok(&["mv", &disk, "0", "tenth"]);
    assert_eq!(names(&disk).len(), 9);
    assert_eq!(get(&disk, "tenth", &[]), std::fs::read(&small).unwrap());
    assert_eq!(code(&["check", &disk]), 0);
}

#[test]
fn bad_names_and_files_are_refused_before_anything_is_written() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    let small = folder.file("small", 1000);
    ok(&["put", &disk, &small, "there"]);
    let before = std::fs::read(&disk).unwrap();
    let longer = ["x".repeat(256), "x".repeat(300)];
    for bad in ["", &longer[0], &longer[1]] {
        refused(&["put", &disk, &small, bad], 2, "1 to 255 bytes");
        refused(&["get", &disk, bad, "-"], 2, "1 to 255 bytes");
        refused(&["mv", &disk, "there", bad], 2, "1 to 255 bytes");
        refused(&["mv", &disk, bad, "there"], 2, "1 to 255 bytes");
        refused(&["rm", &disk, "there", bad], 2, "1 to 255 bytes");
        refused(&["stat", &disk, bad], 2, "1 to 255 bytes");
    }
    use std::os::unix::ffi::OsStrExt;
    let not_utf8 = std::ffi::OsStr::from_bytes(b"a\xff");
    let output = command(&["put", &disk, &small])
        .arg(not_utf8)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let odd = folder.0.join(not_utf8);
    std::fs::write(&odd, "x").unwrap();
    let output = command(&["put", &disk]).arg(&odd).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no name in UTF-8"));
    refused(&["put", &disk, "-"], 2, "standard input has no name");
    refused(&["put", &disk, &folder.path("none")], 10, "opening");
    refused(
        &["put", &disk, folder.0.to_str().unwrap()],
        2,
        "no name in UTF-8",
    );
    refused(
        &["put", &disk, &small, "--block-size", "1000"],
        2,
        "block-size",
    );
    refused(
        &["put", &disk, &small, "--checksums"],
        2,
        "without checksums",
    );
    refused(&["rm", &disk, "none"], 10, "no file has this name");
    refused(&["mv", &disk, "none", "other"], 10, "no file has this name");
    refused(&["stat", &disk, "none"], 10, "no file has this name");
    refused(&["ls", &folder.path("none.img")], 3, "there is no file");
    assert!(
        std::fs::read(&disk).unwrap() == before,
        "nothing was changed"
    );
    // A missing name does not prevent the removal of the others.
    refused(&["rm", &disk, "none", "there"], 10, "`none`");
    assert!(names(&disk).is_empty());
    let odd = "a\nb\u{1b}[31m";
    ok(&["put", &disk, &small, odd]);
    assert_eq!(ok(&["ls", &disk]), "a\\nb\\u{1b}[31m\n");
    assert!(get(&disk, odd, &[]) == std::fs::read(&small).unwrap());
}

/// The image with a change to its superblocks and corrected checksums.
fn patched(image: &[u8], change: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut image = image.to_vec();
    for address in [0, volume::layout::SUPERBLOCK_B] {
        let bytes = &mut image[address as usize..][..volume::layout::SUPERBLOCK_BYTES];
        change(bytes);
        let crc = volume::checksum::crc32c(0, &address.to_le_bytes());
        let crc = volume::checksum::crc32c(crc, &bytes[..8]);
        let crc = volume::checksum::crc32c(crc, &bytes[12..]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
    }
    image
}

#[test]
fn what_is_no_volume_that_this_command_knows_is_left_alone() {
    use volume::layout::superblock;
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    let small = folder.file("small", 1000);
    ok(&["put", &disk, &small, "file"]);
    let good = std::fs::read(&disk).unwrap();
    assert!(
        patched(&good, |_| {}) == good,
        "the checksum is the format's"
    );
    let newer = patched(&good, |bytes| bytes[superblock::MAJOR] = 9);
    let features = patched(&good, |bytes| bytes[superblock::INCOMPAT + 3] = 0x80);
    let larger = patched(&good, |bytes| {
        let size = 64u64 << 20;
        bytes[superblock::VOLUME_BYTES..][..8].copy_from_slice(&size.to_le_bytes());
    });
    let mut both_bad = good.clone();
    both_bad[30] ^= 1;
    both_bad[65_536 + 30] ^= 1;
    let cases: [(&str, Vec<u8>, i32, &str); 7] = [
        ("noise", noise(1, 1 << 20), 3, "no Straightway volume"),
        ("zeroes", vec![0; 1 << 20], 3, "no Straightway volume"),
        ("short", vec![0; 512], 3, "no Straightway volume"),
        ("newer", newer, 4, "use newer software"),
        ("features", features, 4, "does not know"),
        ("truncated", good[..20 << 20].to_vec(), 1, "cut short"),
        ("both", both_bad, 3, "no Straightway volume"),
    ];
    for (name, image, expected, words) in cases {
        let device = folder.path(name);
        std::fs::write(&device, &image).unwrap();
        let out = folder.path("out");
        let commands: [&[&str]; 8] = [
            &["ls", &device],
            &["stat", &device],
            &["check", &device],
            &["check", &device, "--repair"],
            &["get", &device, "file", &out],
            &["put", &device, &small, "other"],
            &["rm", &device, "file"],
            &["mv", &device, "file", "other"],
        ];
        for command in commands {
            refused(command, expected, words);
        }
        assert!(
            std::fs::read(&device).unwrap() == image,
            "{name} was changed"
        );
        assert!(!std::path::Path::new(&out).exists());
    }
    // The other regions no longer match such a size: the superblock is inconsistent.
    let device = folder.path("larger");
    std::fs::write(&device, &larger).unwrap();
    let output = run(&["ls", &device]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(std::fs::read(&device).unwrap() == larger);
    // One superblock is enough.
    let mut one_bad = good;
    one_bad[30] ^= 1;
    std::fs::write(&disk, &one_bad).unwrap();
    assert_eq!(names(&disk), ["file"]);
    assert!(ok(&["check", &disk]).contains("one copy of the superblock"));
    // It is rewritten by the mount already.
    let repaired = ok(&["check", &disk, "--repair"]);
    assert!(
        repaired.contains("one copy of the superblock is invalid")
            && repaired.contains("repaired: 1 node was written")
            && repaired.contains("1 harmless finding"),
        "{repaired}"
    );
    assert!(!ok(&["check", &disk]).contains("one copy"));
    refused(&["ls", "ram:1M"], 3, "no Straightway volume");
}

#[test]
fn format_makes_a_file_and_destroys_none_unasked() {
    let folder = Folder::new();
    let new = folder.path("new.img");
    let text = ok(&[
        "format",
        &new,
        "--size",
        "64M",
        "--label",
        "mine",
        "--checksums",
    ]);
    assert!(
        text.contains("`mine`") && text.contains("metadata"),
        "{text}"
    );
    assert_eq!(std::fs::metadata(&new).unwrap().len(), 64 << 20);
    refused(&["format", &new], 2, "holds a Straightway volume");
    ok(&["format", &new, "--force", "--size", "16M"]);
    let status = json(&["stat", &new, "--json"])["volume"].clone();
    assert_eq!(status["volume_bytes"], 16 << 20);
    let photograph = folder.file("photograph", 1 << 20);
    let before = std::fs::read(&photograph).unwrap();
    refused(&["format", &photograph], 2, "holds data");
    let model = format!("model:1M,file={photograph}");
    refused(&["format", &model], 2, "holds data");
    refused(
        &["format", &photograph, "--destroy-data", "other"],
        2,
        "names `other`",
    );
    refused(
        &["format", &photograph, "--size", "2M", "--force"],
        2,
        "--size",
    );
    let bad = [
        ["--unit", "3000"],
        ["--node", "100"],
        ["--node", "32K"],
        ["--unit", "256"],
        ["--slots", "0"],
        ["--slots", "4000000"],
        ["--size", "64K"],
    ];
    for words in bad {
        let words = [&["format", &photograph, "--force"], &words[..]].concat();
        assert_eq!(code(&words), 2, "{words:?}");
    }
    let label = "x".repeat(33);
    refused(
        &["format", &photograph, "--force", "--label", &label],
        2,
        "33 bytes",
    );
    assert!(
        std::fs::read(&photograph).unwrap() == before,
        "nothing was changed"
    );
    let none = folder.path("none.img");
    refused(&["format", &none], 3, "--size 1G");
    refused(&["format", &none, "--size", "64K"], 2, "too few");
    assert!(
        !std::path::Path::new(&none).exists(),
        "an unusable file is removed"
    );
    assert_eq!(code(&["format", "/dev/nonexistent", "--size", "1M"]), 3);
    assert_eq!(code(&["format", "nvme77n1", "--size", "1M"]), 3);
    assert!(ok(&["format", "ram:8M"]).contains("made a volume"));
}

#[test]
fn check_tells_harmless_from_damaged_and_mends_what_it_can() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    let small = folder.file("small", 100_000);
    ok(&["put", &disk, &small, "file"]);
    let good = std::fs::read(&disk).unwrap();
    let slot = json(&["stat", &disk, "file", "--json"])["file"]["slot"]
        .as_u64()
        .unwrap();
    let status = json(&["stat", &disk, "--json"])["volume"].clone();
    let node = status["node_bytes"].as_u64().unwrap();
    let shape = volume::Shape {
        volume_bytes: 32 << 20,
        unit_log2: status["unit_bytes"].as_u64().unwrap().trailing_zeros() as u8,
        node_log2: node.trailing_zeros() as u8,
        buckets_log2: (status["slots"].as_u64().unwrap() / 8).trailing_zeros() as u8,
        lba_log2: 9,
        table_groups: 0,
    };
    let a = (shape.slots_a() + slot * node) as usize;
    let b = (shape.slots_b() + slot * node) as usize;
    let bitmap = shape.bitmap_a() as usize..shape.slots_b() as usize;
    let mut one = good.clone();
    one[a + 100] ^= 1;
    std::fs::write(&disk, &one).unwrap();
    assert!(ok(&["check", &disk]).contains("one copy of file slot"));
    assert!(get(&disk, "file", &[]) == std::fs::read(&small).unwrap());
    assert!(ok(&["check", &disk, "--repair"]).contains("repaired"));
    assert!(ok(&["check", &disk]).starts_with("sound"));
    let mut both = good.clone();
    both[a + 100] ^= 1;
    both[b + 100] ^= 1;
    std::fs::write(&disk, &both).unwrap();
    for words in [&["check", &disk][..], &["check", &disk, "--repair"][..]] {
        let output = run(words);
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stdout).contains("is damaged"));
    }
    refused(&["ls", &disk], 1, "cannot be read: file slot");
    refused(&["get", &disk, "file", "-"], 1, "damaged");
    // Bitmaps are rebuilt from the files.
    let mut no_bitmap = good;
    no_bitmap[bitmap.clone()].fill(0xff);
    let other = shape.bitmap_b() as usize;
    no_bitmap[other..other + bitmap.len()].fill(0xff);
    std::fs::write(&disk, &no_bitmap).unwrap();
    assert_eq!(code(&["check", &disk]), 1);
    assert!(ok(&["check", &disk, "--repair"]).contains("repaired"));
    assert!(ok(&["check", &disk]).starts_with("sound"));
    assert!(get(&disk, "file", &[]) == std::fs::read(&small).unwrap());
}

/// Of a file in many groups, the name is removed by a step of its own, before the units.
#[test]
fn a_removal_is_whole_or_names_what_is_not_free() {
    let folder = Folder::new();
    let disk = folder.path("disk.img");
    ok(&["--quiet", "format", &disk, "--size", "64M"]);
    for (name, len) in [("many", 40 << 20), ("few", 100_000)] {
        let file = folder.file(name, len);
        ok(&["put", &disk, &file]);
    }
    let status = json(&["stat", &disk, "--json"])["volume"].clone();
    let shape = volume::Shape {
        volume_bytes: 64 << 20,
        unit_log2: status["unit_bytes"].as_u64().unwrap().trailing_zeros() as u8,
        node_log2: status["node_bytes"].as_u64().unwrap().trailing_zeros() as u8,
        buckets_log2: (status["slots"].as_u64().unwrap() / 8).trailing_zeros() as u8,
        lba_log2: 9,
        table_groups: 0,
    };
    let mut image = std::fs::read(&disk).unwrap();
    let len = (shape.slots_b() - shape.bitmap_a()) as usize;
    for begin in [shape.bitmap_a(), shape.bitmap_b()] {
        image[begin as usize..][..len].fill(0xff);
    }
    std::fs::write(&disk, &image).unwrap();
    // All of it is one step: nothing is done.
    let few = run(&["rm", &disk, "few"]);
    assert_eq!(few.status.code(), Some(1), "{}", stderr(&few));
    assert_eq!(names(&disk), ["few", "many"]);
    let many = run(&["rm", &disk, "many", "--json"]);
    let said = stderr(&many);
    assert_eq!(many.status.code(), Some(0), "{said}");
    let what = "warning: `many` is removed, but not all of its space is free: ";
    assert!(
        said.contains(what) && said.contains("straightway check"),
        "{said}"
    );
    let report: serde_json::Value = serde_json::from_slice(&many.stdout).unwrap();
    assert_eq!(report["removed"], serde_json::json!(["many"]));
    assert_eq!(report["not_freed"], serde_json::json!(["many"]));
    assert_eq!(names(&disk), ["few"]);
    assert_eq!(code(&["check", &disk]), 1);
    assert!(ok(&["check", &disk, "--repair"]).contains("repaired"));
    assert!(ok(&["check", &disk]).starts_with("sound"));
    assert_eq!(code(&["--quiet", "rm", &disk, "few"]), 0);
}
