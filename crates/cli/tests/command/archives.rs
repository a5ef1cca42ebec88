// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Archives: `put --tar` of what tar makes, and `get --tar` for tar to read.

use crate::support::{Folder, json, ok, refused, run, run_with_input, stderr, volume};
use std::fs;
use std::process::Command;

/// An archive of the folder `src`, made by tar with these options.
fn archive(folder: &Folder, name: &str, options: &[&str]) -> String {
    let path = folder.path(name);
    let words = ["-C", folder.0.to_str().unwrap(), "-cf", &path];
    let done = Command::new("tar").args(words).args(options).output();
    let done = done.expect("Debian has tar");
    assert!(done.status.success(), "{}", stderr(&done));
    path
}

fn source(folder: &Folder) {
    fs::create_dir_all(folder.0.join("src/deep")).unwrap();
    for (name, len) in [
        ("src/a", 1000),
        ("src/deep/empty", 0),
        ("src/deep/b", 300_000),
    ] {
        folder.file(name, len);
    }
}

// partner: tar | reader, writer
#[test]
fn an_archive_of_each_format_goes_in_and_comes_out() {
    let folder = Folder::new();
    source(&folder);
    // What is left out needs no name that a volume can have.
    std::os::unix::fs::symlink("a", folder.0.join("src").join("l".repeat(70))).unwrap();
    for format in ["gnu", "posix", "ustar", "v7"] {
        let disk = volume(&folder, &format!("{format}.img"), &["--checksums"]);
        let made = archive(
            &folder,
            "in.tar",
            &["--format", format, "--mtime=@1700000000.123456789", "./src"],
        );
        // As a file, and as a stream.
        let stored = match format {
            "gnu" => json(&["put", &disk, &made, "--tar", "--verify", "--json"]),
            _ => {
                let done = run_with_input(
                    &["put", &disk, "-", "--tar", "--json"],
                    &fs::read(&made).unwrap(),
                );
                serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{}", stderr(&done)))
            }
        };
        assert_eq!(stored["files"].as_array().unwrap().len(), 3, "{format}");
        assert_eq!(stored["skipped"].as_array().unwrap().len(), 1, "{format}");
        let listed = json(&["ls", &disk, "--json"]);
        let fraction = if format == "posix" { 123_456_789 } else { 0 };
        for (file, name) in listed["files"].as_array().unwrap().iter().zip([
            "src/a",
            "src/deep/b",
            "src/deep/empty",
        ]) {
            assert_eq!(file["name"], name, "{format}");
            assert_eq!(
                file["modified_ns"],
                1_700_000_000_000_000_000u64 + fraction,
                "{format} {name}"
            );
        }
        let out = folder.path(&format!("{format}.tar"));
        ok(&["get", &disk, "--all", &out, "--tar"]);
        let compared = Command::new("tar")
            .args([
                "-C",
                folder.0.to_str().unwrap(),
                "--mtime=@1700000000",
                "-df",
                &out,
            ])
            .output()
            .unwrap();
        // Modes, owners and times differ from those of the folder; contents, sizes and names do
        // not.
        let said = String::from_utf8_lossy(&compared.stdout).into_owned() + &stderr(&compared);
        for word in ["Contents", "Size", "No such", "error", "Unexpected"] {
            assert!(!said.contains(word), "{format}: {said}");
        }
        let piped = run(&["get", &disk, "src/deep/*", "-", "--tar"]);
        assert!(piped.status.success(), "{}", stderr(&piped));
        fs::write(folder.0.join("piped.tar"), piped.stdout).unwrap();
        let list = Command::new("tar")
            .args(["-tf", &folder.path("piped.tar")])
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8_lossy(&list.stdout),
            "src/deep/b\nsrc/deep/empty\n"
        );
        ok(&["check", &disk, "--read-data"]);
    }
}

/// With the slots that all files need, as `put` of their folder adds them: of a stream they are not
/// known before the table is seven eighths full.
#[test]
fn an_archive_of_many_files_gets_its_slots_together() {
    let folder = Folder::new();
    fs::create_dir_all(folder.0.join("src")).unwrap();
    for number in 0..400 {
        let content = format!("{number}").repeat(number);
        fs::write(folder.0.join(format!("src/{number:03}")), content).unwrap();
    }
    folder.file("src/long", 200_000);
    let made = archive(&folder, "in.tar", &["src"]);
    let bytes = fs::read(&made).unwrap();
    let slots = |disk: &str| {
        let check = json(&["stat", disk, "--json"]);
        (
            check["volume"]["slots"].clone(),
            check["volume"]["files"].clone(),
        )
    };
    for (is_stream, expected) in [(false, 1024), (true, 2048)] {
        let disk = volume(&folder, &format!("disk {is_stream}"), &["--slots", "64"]);
        let put = if is_stream {
            run_with_input(&["put", &disk, "-", "--tar"], &bytes)
        } else {
            run(&["put", &disk, &made, "--tar"])
        };
        assert!(put.status.success(), "{}", stderr(&put));
        assert_eq!(slots(&disk), (expected.into(), 401.into()));
        // Names that exist need none.
        ok(&["put", &disk, &made, "--tar", "--skip-existing"]);
        ok(&["put", &disk, &made, "--tar", "--force"]);
        assert_eq!(slots(&disk), (expected.into(), 401.into()));
        let out = folder.path(&format!("out {is_stream}"));
        ok(&["get", &disk, "--all", &out]);
        for number in [0, 7, 399] {
            let name = format!("src/{number:03}");
            let expected = fs::read(folder.0.join(&name)).unwrap();
            assert_eq!(fs::read(format!("{out}/{name}")).unwrap(), expected);
        }
    }
}

#[test]
fn what_is_no_archive_or_ends_too_early_keeps_the_whole_files_only() {
    let folder = Folder::new();
    source(&folder);
    let disk = volume(&folder, "disk.img", &[]);
    let made = archive(&folder, "in.tar", &["src/a", "src/deep/b"]);
    let bytes = fs::read(&made).unwrap();
    fs::write(folder.0.join("cut.tar"), &bytes[..200_000]).unwrap();
    refused(
        &["put", &disk, &folder.path("cut.tar"), "--tar"],
        1,
        "ends in the middle of `src/deep/b`",
    );
    refused(
        &["put", &disk, &folder.path("cut.tar"), "--tar"],
        9,
        "stored of the archive, whole: 0 files",
    );
    assert_eq!(
        json(&["ls", &disk, "--json"])["files"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let whole = json(&["put", &disk, &made, "--tar", "--skip-existing", "--json"]);
    assert_eq!(whole["files"][0]["name"], "src/deep/b");
    ok(&["put", &disk, &made, "--tar", "--force"]);
    for (name, content) in [
        ("zip", b"PK\x03\x04 and more".repeat(100)),
        ("short", b"x".to_vec()),
    ] {
        fs::write(folder.0.join(name), content).unwrap();
        refused(
            &["put", &disk, &folder.path(name), "--tar"],
            1,
            "not compressed",
        );
    }
    fs::write(folder.0.join("zeroes"), vec![0; 10240]).unwrap();
    refused(
        &["put", &disk, &folder.path("zeroes"), "--tar"],
        1,
        "has no files",
    );
    let mut damaged = bytes.clone();
    damaged[5] ^= 1;
    fs::write(folder.0.join("damaged"), damaged).unwrap();
    refused(
        &["put", &disk, &folder.path("damaged"), "--tar"],
        1,
        "no header",
    );
    ok(&["check", &disk]);
}

#[test]
fn names_and_words_that_an_archive_cannot_have_are_refused() {
    let folder = Folder::new();
    source(&folder);
    let disk = volume(&folder, "disk.img", &[]);
    for (transform, status, words) in [
        ("s,src/a,../up,", 2, "leads out of it"),
        (
            &format!("s,src/a,{},", "long/".repeat(60)) as &str,
            2,
            "tar --transform",
        ),
    ] {
        let made = archive(
            &folder,
            "in.tar",
            &["-P", "--transform", transform, "src/a"],
        );
        refused(&["put", &disk, &made, "--tar"], status, words);
    }
    fs::write(folder.0.join("src/holes"), vec![0; 1 << 20]).unwrap();
    let hole = fs::File::options()
        .write(true)
        .open(folder.0.join("src/holes"))
        .unwrap();
    hole.set_len(0)
        .and_then(|()| hole.set_len(8 << 20))
        .unwrap();
    for format in ["gnu", "posix"] {
        let made = archive(
            &folder,
            "in.tar",
            &["--format", format, "--sparse", "src/holes"],
        );
        refused(&["put", &disk, &made, "--tar"], 1, "without --sparse");
    }
    refused(
        &["put", &disk, &folder.path("src/a"), "b", "--tar"],
        2,
        "one archive",
    );
    ok(&["put", &disk, &folder.path("src/a"), "--name", "../up"]);
    let out = folder.path("out.tar");
    refused(
        &["get", &disk, "--all", &out, "--tar"],
        2,
        "cannot be a name in an archive",
    );
    // The archive has the others.
    fs::remove_file(&out).unwrap();
    refused(&["get", &disk, &out, "--tar"], 2, "last word");
    refused(
        &["get", &disk, "x", &out, "--tar"],
        10,
        "nothing was fetched",
    );
    refused(
        &["get", &disk, "*", &out, "--tar", "--offset", "1K"],
        2,
        "for one file",
    );
    refused(&["get", &disk, "*", "-", "--tar", "--json"], 2, "would mix");
    assert!(!folder.0.join("out.tar").exists());
    ok(&["mv", &disk, "../up", "up"]);
    ok(&["get", &disk, "--all", &out, "--tar"]);
    refused(&["get", &disk, "--all", &out, "--tar"], 9, "exists");
}

#[test]
fn another_name_of_a_file_in_an_archive_is_named() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    fs::create_dir(folder.0.join("src")).unwrap();
    fs::write(folder.0.join("src/a"), "data").unwrap();
    fs::hard_link(folder.0.join("src/a"), folder.0.join("src/b")).unwrap();
    let archive = folder.path("a.tar");
    let tar = Command::new("tar")
        .args(["cf", &archive, "-C", &folder.path("src"), "a", "b"])
        .status();
    assert!(tar.unwrap().success());
    refused(
        &["put", &disk, &archive, "--tar"],
        4,
        "1 of 2 files are stored, whole; not stored: `b`",
    );
}

/// The archive with the type of its first member changed.
fn with_type(bytes: &[u8], letter: u8) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[156] = letter;
    bytes[148..156].fill(b' ');
    let sum: u32 = bytes[..512].iter().map(|byte| u32::from(*byte)).sum();
    bytes[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    bytes
}

/// GNU's tar extracts what it does not know as a file (POSIX demands it), and warns.
// partner: tar | writer
#[test]
fn a_member_of_any_type_with_data_is_stored_or_named() {
    let folder = Folder::new();
    source(&folder);
    let made = archive(&folder, "in.tar", &["src/a", "src/deep/empty"]);
    let made = fs::read(made).unwrap();
    let put = |letter: u8| {
        let disk = volume(&folder, &format!("{letter}.img"), &[]);
        let done = run_with_input(&["put", &disk, "-", "--tar"], &with_type(&made, letter));
        let stored = ok(&["ls", &disk]);
        (done.status.code(), stderr(&done), stored)
    };
    for letter in *b"8ZNA" {
        let (code, said, stored) = put(letter);
        assert_eq!(code, Some(0), "{said}");
        let told = format!("stored as files: `src/a (type {})`", char::from(letter));
        assert!(said.contains(&told), "{said}");
        assert_eq!(stored, "src/a\nsrc/deep/empty\n");
    }
    // The rest of a file is not the file.
    let (code, said, stored) = put(b'M');
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("`src/a` begins in another archive"), "{said}");
    assert_eq!(stored, "src/deep/empty\n");
    // Labels, and folders with their names as GNU's tar keeps them, have no data of files.
    for letter in *b"VD" {
        let (code, said, stored) = put(letter);
        assert_eq!(
            (code, stored.as_str()),
            (Some(0), "src/deep/empty\n"),
            "{said}"
        );
    }
    // Before POSIX a folder had no type, and a link had its file's size without the data.
    let mut old = with_type(&made, 0);
    old[5] = b'/';
    let old = with_type(&old, 0);
    let disk = volume(&folder, "old.img", &[]);
    fs::write(folder.0.join("old.tar"), old).unwrap();
    ok(&["put", &disk, &folder.path("old.tar"), "--tar"]);
    assert_eq!(ok(&["ls", &disk]), "src/deep/empty\n");
    let mut link = with_type(&made[..512], b'1');
    link.extend(&made[1536..]);
    fs::write(folder.0.join("link.tar"), link).unwrap();
    let disk = volume(&folder, "link.img", &[]);
    refused(
        &["put", &disk, &folder.path("link.tar"), "--tar"],
        4,
        "another name",
    );
    assert_eq!(ok(&["ls", &disk]), "src/deep/empty\n");
}

/// Where GNU's tar 1.34 ends with 0 and leaves out what it has not read, or cannot know of.
// partner: tar | writer
#[test]
fn an_archive_without_its_end_or_with_more_behind_it_is_an_error() {
    let folder = Folder::new();
    source(&folder);
    let made = archive(&folder, "in.tar", &["src/a", "src/deep/empty"]);
    let made = fs::read(made).unwrap();
    // Two headers and two blocks of data.
    let members = 2048;
    assert!(made[members..].iter().all(|byte| *byte == 0) && made.len() == 10240);
    let lone = [&made[..members + 512], &made].concat();
    let joined = [&made[..], &made].concat();
    for (name, bytes, status, words) in [
        (
            "member",
            &made[..1536],
            1,
            "it was cut, and files may be missing; stored of the archive, whole: 1 file",
        ),
        (
            "members",
            &made[..members],
            1,
            "it was cut, and files may be missing; stored of the archive, whole: 2 files",
        ),
        (
            "marked",
            &made[..members + 512],
            0,
            "ends with one block of zeroes instead of two",
        ),
        ("end", &made[..members + 1024], 0, "stored 2 files"),
        (
            "lone",
            &lone,
            1,
            "it ends at byte 2560, and what begins at byte 2560 is not stored",
        ),
        (
            "joined",
            &joined,
            1,
            "it ends at byte 2560, and what begins at byte 10240 is not stored; stored of the archive, whole: 2 files",
        ),
    ] {
        let disk = volume(&folder, &format!("{name}.img"), &[]);
        let path = folder.path(name);
        fs::write(&path, bytes).unwrap();
        let streamed = run_with_input(&["put", &disk, "-", "--tar"], bytes);
        let read = run(&["put", &disk, &path, "--tar", "--force"]);
        for done in [streamed, read] {
            let said = stderr(&done);
            assert_eq!(done.status.code(), Some(status), "{name}: {said}");
            assert!(said.contains(words), "{name}: {said}");
        }
        ok(&["check", &disk]);
    }
}
