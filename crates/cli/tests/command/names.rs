// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of more than 64 bytes, through every verb that takes or gives one.

use crate::support::{Folder, command, json, ok, refused, run, run_with_input, stderr, volume};
use std::fs;

/// The byte of a superblock with the features that a reader must know.
const INCOMPAT: [usize; 2] = [56, 65_536 + 56];
const LONG_NAMES: u8 = 16;

fn has_long_names(disk: &str) -> bool {
    let bytes = fs::read(disk).unwrap();
    INCOMPAT.iter().any(|at| bytes[*at] & LONG_NAMES != 0)
}

#[test]
fn every_verb_takes_a_name_of_255_bytes() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &["--checksums"]);
    let source = folder.file("source", 3000);
    let short = "s".repeat(64);
    ok(&["put", &disk, &source, "--name", &short]);
    ok(&["put", &disk, &source, "--name", &short, "--force"]);
    ok(&["mv", &disk, &short, "other"]);
    assert!(!has_long_names(&disk), "nothing needs them");
    // Two that agree in all that an older version compares, in a folder each.
    let part = "p".repeat(120);
    let [one, two] = ["1", "2"].map(|end| format!("{part}/{part}/{}{end}", "n".repeat(12)));
    assert_eq!(one.len(), 255);
    ok(&["mv", &disk, "other", &one]);
    assert!(has_long_names(&disk));
    ok(&["cp", &disk, &one, &two]);
    ok(&["put", &disk, &source, "--name", &one, "--force"]);
    let content = fs::read(&source).unwrap();
    for name in [&one, &two] {
        assert_eq!(run(&["get", &disk, name, "-"]).stdout, content);
        assert_eq!(
            json(&["stat", &disk, name, "--json"])["file"]["name"],
            **name
        );
        refused(&["put", &disk, &source, "--name", name], 9, "--force");
    }
    let out = folder.path("out");
    ok(&["get", &disk, "--all", &out]);
    assert_eq!(fs::read(format!("{out}/{two}")).unwrap(), content);
    // A folder and an archive give the names back.
    let again = volume(&folder, "again.img", &[]);
    ok(&["put", &again, &format!("{out}/{part}")]);
    let archive = folder.path("all.tar");
    fs::write(&archive, run(&["get", &disk, "--all", "-", "--tar"]).stdout).unwrap();
    let third = volume(&folder, "third.img", &[]);
    ok(&["put", &third, &archive, "--tar"]);
    for disk in [&again, &third] {
        let listed = json(&["ls", disk, "--json"]);
        let names = [0, 1].map(|at| listed["files"][at]["name"].as_str().unwrap());
        assert_eq!(names, [&*one, &*two]);
        ok(&["check", disk, "--read-data"]);
    }
    ok(&["rm", &disk, &one]);
    refused(&["stat", &disk, &one], 10, "straightway ls");
    ok(&["rm", &disk, &two]);
    ok(&["check", &disk]);
}

#[test]
fn the_segments_of_a_recording_have_long_names() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    let name = "r".repeat(238);
    let words =
        "--block 64K --deadline 1min --from pattern --rate 8M --size 8M --segment 4M --buffers 200";
    let words: Vec<&str> = words.split(' ').collect();
    ok(&[&["record", &disk, &name][..], &words].concat());
    let listed = json(&["ls", &disk, "--json"]);
    let first = listed["files"][0]["name"].as_str().unwrap();
    assert_eq!(first, format!("{name}.000001"));
    ok(&["check", &disk]);
}

#[test]
fn a_file_and_a_folder_of_one_name_are_warned_of_and_get_says_what_to_do() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let file = folder.file("h", 100);
    let said = |words: &[&str], status: i32| {
        let output = run(words);
        assert_eq!(
            output.status.code(),
            Some(status),
            "{words:?}: {}",
            stderr(&output)
        );
        stderr(&output)
    };
    let warning = "warning: `dir` is a file, and `dir/x` in a folder of that name";
    said(&["put", &device, &file, "dir"], 0);
    assert!(said(&["put", &device, &file, "dir/x"], 0).contains(warning));
    said(&["mv", &device, "dir", "x"], 0);
    assert!(said(&["mv", &device, "x", "dir"], 0).contains(warning));
    assert!(!said(&["mv", &device, "dir", "dir2"], 0).contains("warning"));
    let local = folder.path("dir");
    std::fs::write(&local, "dir").unwrap();
    assert!(said(&["put", &device, &local, &file], 0).contains(warning));
    let to = folder.path("to");
    let failed = said(&["get", &device, "--all", &to], 9);
    assert!(
        failed.contains("hint: `dir` is there: straightway mv "),
        "{failed}"
    );
    assert!(std::fs::exists(format!("{to}/dir2")).unwrap());
    said(&["rm", &device, "dir/x"], 0);
    assert!(said(&["cp", &device, "dir2", "dir/x"], 0).contains(warning));
    said(&["rm", &device, "dir/x"], 0);
    let tree = folder.path("tree");
    std::fs::create_dir_all(format!("{tree}/dir")).unwrap();
    std::fs::write(format!("{tree}/dir/x"), "x").unwrap();
    let archive = folder.path("archive.tar");
    let made = std::process::Command::new("tar")
        .args(["-C", &tree, "-cf", &archive, "dir"])
        .status();
    assert!(made.unwrap().success());
    assert!(said(&["put", &device, &archive, "--tar"], 0).contains(warning));
}

#[test]
fn a_folder_s_name_is_answered_with_what_is_in_it() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let file = folder.file("h", 100);
    ok(&["put", &device, &file, "docs/a"]);
    let hint = format!("hint: 'docs/*' is what is in the folder: straightway ls {device} 'docs/*'");
    for words in [
        &["rm", &device, "docs"][..],
        &["mv", &device, "docs", "texts"],
        &["cp", &device, "docs", "texts"],
        &["stat", &device, "docs/"],
        &["ls", &device, "docs"],
        &["cat", &device, "docs"],
    ] {
        refused(words, 10, &hint);
    }
    refused(
        &["rm", &device, "doc"],
        10,
        &format!("hint: straightway ls {device}"),
    );
    refused(&["rm", &device, "docs/*", "doc"], 10, "removed: 1 file\n");
}

#[test]
fn a_local_file_that_is_missing_has_a_hint() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let here = folder.path("nothing");
    let shows = format!(
        "hint: ls {} shows what is there",
        folder.path("").trim_end_matches('/')
    );
    refused(&["put", &device, &here], 10, &shows);
    let image = folder.path("none/disk.img");
    let parent = folder.path("none");
    let makes = format!("hint: there is no folder {parent}: mkdir -p {parent}");
    refused(&["format", &image, "--size", "8M"], 10, &makes);
}

#[test]
fn a_single_name_has_its_folder_made_and_a_folder_is_no_name() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let file = folder.file("h", 1000);
    ok(&["put", &device, &file, "docs/guide.md"]);
    let here = folder.path("here");
    std::fs::create_dir(&here).unwrap();
    for words in [&["docs/guide.md"][..], &["docs/guide.md", "there"]] {
        std::fs::create_dir_all(format!("{here}/there")).unwrap();
        let words = [&["get", &device], words].concat();
        let output = command(&words).current_dir(&here).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
    for name in ["docs/guide.md", "there/docs/guide.md"] {
        let got = std::fs::read(format!("{here}/{name}")).unwrap();
        assert!(got == std::fs::read(&file).unwrap(), "{name}");
    }
    // Nothing is made for a name that does not exist.
    let output = command(&["get", &device, "other/none"])
        .current_dir(&here)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(10));
    assert!(!std::fs::exists(format!("{here}/other")).unwrap());
    refused(
        &["put", &device, &file, ".."],
        2,
        "is a folder here, and no NAME",
    );
}

#[test]
fn a_plain_file_beyond_its_file_system_s_room_is_warned_of() {
    // A file system in memory: it has little room, and frees a long file at once.
    let memory = "/dev/shm";
    let Ok(shm) = rustix::fs::statvfs(memory) else {
        println!("SKIPPED: there is no {memory}");
        return;
    };
    let beyond = (shm.f_blocks * shm.f_frsize + (1 << 30)).to_string();
    let scratch = Scratch(format!("{memory}/straightway-{}.img", std::process::id()));
    let disk = &scratch.0;
    let warned = |words: &[&str]| {
        let output = run(words);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stderr(&output).contains("writes will fail there before the volume is full")
    };
    assert!(!warned(&["format", disk, "--size", "8M"]));
    assert!(warned(&["resize", disk, &beyond]));
    assert!(!warned(&["resize", disk, "--least"]));
    fs::remove_file(disk).unwrap();
    assert!(warned(&["format", disk, "--size", &beyond]));
}

/// A file that is removed at the end.
struct Scratch(String);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn names_that_commands_take_for_something_else_are_warned_of() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let file = folder.file("t.*", 1000);
    let plain = folder.file("plain", 1000);
    let warned = |words: &[&str], name: &str, what: &str| {
        let output = run_with_input(words, &[1; 4096]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(0), "{said}");
        let warning = format!("warning: commands take `{name}` for {what}");
        assert!(said.contains(&warning), "{words:?}: {said}");
    };
    let stream = "standard input or output; straightway mv renames it";
    let pattern = "a pattern, which fits other files too; straightway mv renames it";
    warned(&["put", &device, &plain, "--name", "-"], "-", stream);
    warned(&["put", &device, &file], "t.*", pattern);
    warned(&["put", &device, &file, &plain, "--force"], "t.*", pattern);
    warned(&["record", &device, "q?"], "q?", pattern);
    warned(&["mv", &device, "q?", "[q]"], "[q]", pattern);
    warned(&["cp", &device, "plain", "*"], "*", pattern);
    // What belongs to a recording by its name.
    for name in ["cam.gaps", "cam.sigmf-meta"] {
        let output = run_with_input(&["record", &device, name], &[1; 4096]);
        let warning = format!("warning: commands take `{name}` for what belongs to the recording");
        assert!(stderr(&output).contains(&warning), "{}", stderr(&output));
    }
    // And a file that is there already is not added to, nor taken for a list.
    let output = run_with_input(&["record", &device, "cam", "--policy", "drop"], &[1; 4096]);
    assert_eq!(output.status.code(), Some(9), "{}", stderr(&output));
    let output = run_with_input(&["record", &device, "cam"], &[1; 4096]);
    let said = stderr(&output);
    assert!(
        said.contains("`cam.gaps`") && said.contains("`cam.sigmf-meta`"),
        "{said}"
    );
    for name in ["-", "t.*", "[q]", "*"] {
        let new = format!("plain{}", name.len());
        ok(&["mv", &device, name, &new]);
        ok(&["rm", &device, &new]);
    }
}

#[test]
fn a_file_that_gets_the_name_of_a_recording_s_list_is_warned_of() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let record = ["record", &device, "cam"];
    assert_eq!(run_with_input(&record, &[7; 8192]).status.code(), Some(0));
    let mine = folder.file("cam.gaps", 100);
    let other = folder.file("other", 100);
    let what = "commands take `cam.gaps` for the list of gaps of the recording `cam`";
    let said = |words: &[&str]| {
        let output = run(words);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stderr(&output).contains(what)
    };
    let from = folder.path("from");
    std::fs::create_dir(&from).unwrap();
    std::fs::copy(&mine, format!("{from}/cam.gaps")).unwrap();
    assert!(!said(&["put", &device, &other, "other"]));
    for words in [
        &["put", &device, &mine][..],
        &["put", &device, &mine, &other, "--force"],
        &["put", &device, &other, "cam.gaps", "--force"],
        &["cp", &device, "other", "cam.gaps"],
        &["mv", &device, "other", "cam.gaps"],
    ] {
        if words[0] != "put" {
            ok(&["rm", &device, "cam.gaps"]);
        }
        assert!(said(words), "{words:?}");
    }
    // Of no recording; and no list of one.
    assert!(!said(&["put", &device, &mine, "other.gaps"]));
    assert!(!said(&["put", &device, &mine, "cam.gaps.old"]));
}
