// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many files at once: `put` of folders, `get`, `ls` and `rm` with patterns.

use crate::support::{
    Folder, code, command, json, names, ok, refused, run, run_with_input, stderr, volume,
};
use std::fs;
use std::path::Path;

/// A folder `src` with files of these names, whose content is their name repeated.
fn tree(folder: &Folder, names: &[&str]) -> String {
    for name in names {
        let path = folder.0.join("src").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name.repeat(1 + name.len() * 700)).unwrap();
    }
    folder.path("src")
}

fn listed(disk: &str, patterns: &[&str]) -> Vec<String> {
    let report = json(&[&["ls", disk, "--json"], patterns].concat());
    let files = report["files"].as_array().unwrap();
    let name = |file: &serde_json::Value| file["name"].as_str().unwrap().to_owned();
    files.iter().map(name).collect()
}

fn same(one: &Path, other: &Path) {
    let names = |path: &Path| {
        let mut names: Vec<_> = fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(one), names(other), "{}", other.display());
    for name in names(one) {
        let (one, other) = (one.join(&name), other.join(&name));
        if one.is_dir() {
            same(&one, &other)
        } else {
            assert!(
                fs::read(one).unwrap() == fs::read(&other).unwrap(),
                "{other:?}"
            )
        }
    }
}

#[test]
fn a_folder_goes_into_a_volume_and_comes_back() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &["--checksums"]);
    let source = tree(
        &folder,
        &["a", "b.rs", "deep/c.rs", "deep/er/d", "empty/"].map(|name| name.trim_end_matches('/')),
    );
    folder.file("extra", 100_000);
    let put = json(&[
        "put",
        &disk,
        &source,
        &folder.path("extra"),
        "--json",
        "--verify",
    ]);
    assert_eq!(put["files"].as_array().unwrap().len(), 6);
    assert!(
        put["files"]
            .as_array()
            .unwrap()
            .iter()
            .all(|file| file["verified"] == true)
    );
    let all = [
        "extra",
        "src/a",
        "src/b.rs",
        "src/deep/c.rs",
        "src/deep/er/d",
        "src/empty",
    ];
    assert_eq!(listed(&disk, &[]), all);
    assert_eq!(listed(&disk, &["*.rs"]), ["src/b.rs", "src/deep/c.rs"]);
    assert_eq!(code(&["ls", &disk, "x*"]), 10);
    ok(&["get", &disk, "--all", &folder.path("out")]);
    same(&folder.0.join("src"), &folder.0.join("out/src"));
    let some = json(&[
        "get",
        &disk,
        "src/*.rs",
        "extra",
        &folder.path("some"),
        "--json",
    ]);
    assert_eq!(some["files"].as_array().unwrap().len(), 3);
    assert!(folder.0.join("some/src/deep/c.rs").exists() && !folder.0.join("some/src/a").exists());
    let removed = json(&["rm", &disk, "src/*", "--json"]);
    assert_eq!(removed["removed"].as_array().unwrap().len(), 5);
    assert_eq!(listed(&disk, &[]), ["extra"]);
    assert_eq!(code(&["rm", &disk, "src/*", "extra"]), 10);
    assert!(listed(&disk, &[]).is_empty());
    ok(&["get", &disk, "--all", &folder.path("none")]);
    ok(&["check", &disk]);
}

/// More than one operation takes, with one that needs its own, and a word that fits none.
#[test]
fn a_pattern_removes_thousands_of_files() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &["--unit", "4K", "--slots", "4096"]);
    let source = folder.0.join("src");
    fs::create_dir(&source).unwrap();
    for number in 0..1500 {
        let content = vec![7; number % 3 * 100];
        fs::write(source.join(format!("file-{number:04}")), content).unwrap();
    }
    fs::write(source.join("kept"), b"kept").unwrap();
    ok(&["put", &disk, source.to_str().unwrap()]);
    let big = folder.file("big", 200_000);
    ok(&["put", &disk, &big, "--name", "src/file-0700-a"]);
    let removed = run(&["rm", &disk, "src/file-*", "nothing", "--json"]);
    assert_eq!(removed.status.code(), Some(10));
    let report: serde_json::Value = serde_json::from_slice(&removed.stdout).unwrap();
    let removed = report["removed"].as_array().unwrap();
    assert_eq!(removed.len(), 1501);
    assert_eq!(removed[1500], "src/file-1499");
    assert_eq!(report["missing"], serde_json::json!(["nothing"]));
    assert_eq!(report["not_freed"], serde_json::json!([]));
    assert_eq!(listed(&disk, &[]), ["src/kept"]);
    let check = json(&["check", &disk, "--json"]);
    assert_eq!(check["findings"], serde_json::json!([]), "{check}");
}

#[test]
fn small_files_share_commands_and_each_one_is_whole() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &["--checksums", "--unit", "4K"]);
    let source = folder.0.join("src");
    fs::create_dir(&source).unwrap();
    let size = |number: usize| match number {
        7 => 70_000,
        8 => 65_535,
        9 => 0,
        _ => 4096 + number,
    };
    for number in 0..40 {
        let content = format!("{number} ").repeat(40_000);
        let path = source.join(format!("file-{number:02}"));
        fs::write(path, &content.as_bytes()[..size(number)]).unwrap();
    }
    let path = source.to_str().unwrap();
    let put = json(&["put", &disk, path, "--json", "--verify"]);
    let files = put["files"].as_array().unwrap();
    assert_eq!(files.len(), 40);
    for (number, file) in files.iter().enumerate() {
        assert_eq!(file["name"], format!("src/file-{number:02}"));
        assert_eq!(
            (&file["length_bytes"], &file["verified"]),
            (&size(number).into(), &true.into())
        );
    }
    let bytes: usize = (0..40).map(size).sum();
    assert_eq!(put["length_bytes"], bytes);
    assert!(put["requests"].as_u64().unwrap() > 0);
    ok(&["get", &disk, "--all", &folder.path("out"), "--verify"]);
    same(&source, &folder.0.join("out/src"));
    // Some are replaced, some are new.
    ok(&["rm", &disk, "src/file-1*"]);
    fs::write(source.join("file-00"), b"another").unwrap();
    refused(&["put", &disk, path], 9, "nothing was stored");
    // Left as it is, and not passed over.
    refused(
        &["put", &disk, path, "--skip-existing"],
        9,
        "10 of 11 files are stored, whole; not stored: `src/file-00`",
    );
    let put = json(&["put", &disk, path, "--json", "--force"]);
    assert_eq!(put["files"].as_array().unwrap().len(), 40);
    ok(&["get", &disk, "--all", &folder.path("again")]);
    same(&source, &folder.0.join("again/src"));
    // What a power cut left of a replacement, whole, may be the only one, or a file of its own.
    ok(&["mv", &disk, "src/file-03", "src/file-03.new~"]);
    ok(&["put", &disk, path, "--force"]);
    assert_eq!(listed(&disk, &[]).len(), 41);
    refused(
        &["put", &disk, path, "--force"],
        9,
        "`src/file-03.new~`, the name of the new file",
    );
    ok(&["rm", &disk, "src/file-03.new~"]);
    ok(&["check", &disk, "--read-data"]);
}

#[test]
fn a_file_without_space_says_what_of_it_and_of_the_others_is_there() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    let source = tree(&folder, &["a"]);
    let long = std::fs::File::create(folder.0.join("src/b")).unwrap();
    long.set_len(40 << 20).unwrap();
    let done = run(&["put", &disk, &source]);
    let said = stderr(&done);
    assert_eq!(done.status.code(), Some(8), "{said}");
    assert!(
        said.contains(
            "the file has 41943040 bytes; nothing of it was stored; 1 of 2 files are stored, whole"
        ),
        "{said}"
    );
}

#[test]
fn what_is_before_a_file_that_cannot_be_stored_is_there() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &["--slots", "8"]);
    let names: Vec<String> = (0..12).map(|number| format!("f{number:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let source = tree(&folder, &names);
    let large = fs::File::create(folder.0.join("src/f08")).unwrap();
    large.set_len(40 << 20).unwrap();
    let done = run(&["put", &disk, &source]);
    let said = stderr(&done);
    assert_eq!(done.status.code(), Some(8), "{said}");
    assert!(said.contains("8 of 12 files are stored, whole"), "{said}");
    assert!(
        said.contains("src/f08") && !said.contains("src/f07"),
        "{said}"
    );
    assert_eq!(listed(&disk, &[]).len(), 8);
    ok(&["check", &disk]);
}

#[test]
fn what_a_killed_put_left_is_not_taken_for_its_file() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    let source = tree(&folder, &["a", "b"]);
    let archive = folder.path("made.tar");
    ok(&["put", &disk, &source]);
    ok(&["get", &disk, "--all", &archive, "--tar"]);
    // As after SIGKILL: the file is there, and has no bytes yet.
    ok(&["rm", &disk, "src/a"]);
    let empty = folder.path("empty");
    fs::write(&empty, "").unwrap();
    ok(&["put", &disk, &empty, "--name", "src/a"]);
    for words in [&[source.as_str()][..], &[&archive, "--tar"]] {
        let words = [&["put", disk.as_str()], words, &["--skip-existing"]].concat();
        refused(&words, 9, "`src/a` has 0 bytes on the volume");
    }
    ok(&["rm", &disk, "src/b"]);
    let words = ["put", &disk, &archive, "--tar", "--skip-existing"];
    refused(
        &words,
        9,
        "1 of 2 files are stored, whole; not stored: `src/a`",
    );
    ok(&["put", &disk, &source, "--force"]);
    ok(&["put", &disk, &source, "--skip-existing"]);
}

#[test]
fn names_that_would_be_one_local_file_do_not_replace_each_other() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    let source = folder.path("one");
    for name in ["a/b", "a//b", "a/./b", "c/", "./d"] {
        fs::write(&source, name).unwrap();
        ok(&["put", &disk, &source, "--name", name]);
    }
    let out = folder.path("out");
    for words in [
        &["--all", &out, "--force"][..],
        &["--all", &folder.path("out.tar"), "--tar"],
    ] {
        let said = stderr(&run(&[&["get", &disk], words].concat()));
        assert!(said.contains("1 of 5 files are"), "{said}");
    }
    assert_eq!(fs::read(folder.0.join("out/a/b")).unwrap(), b"a/b");
}

#[test]
fn a_replacement_removes_no_file_of_another() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    let [old, new] = ["old", "new"].map(|text| {
        fs::write(folder.0.join(text), text).unwrap();
        folder.path(text)
    });
    let content = |name: &str| run(&["get", &disk, name, "-"]).stdout;
    // The longest name may end as a replacement's: of those that any version reads, and of all.
    let long = "x".repeat(250) + ".new~";
    ok(&["put", &disk, &old, "--name", &long]);
    ok(&["put", &disk, &new, "--name", &long, "--force"]);
    assert_eq!(content(&long), b"new");
    let long = "x".repeat(59) + ".new~";
    ok(&["put", &disk, &old, "--name", &long]);
    ok(&["put", &disk, &new, "--name", &long, "--force"]);
    assert_eq!(content(&long), b"new");
    // Names that are cut to one, and a whole file that only has such a name.
    let other = "x".repeat(59) + "aaaaa";
    ok(&["put", &disk, &old, "--name", &other]);
    refused(
        &["put", &disk, &new, "--name", &other, "--force"],
        9,
        "nothing was done",
    );
    assert_eq!(
        (content(&long), content(&other)),
        (b"new".to_vec(), b"old".to_vec())
    );
    ok(&["put", &disk, &old, "--name", "a.new~"]);
    ok(&["put", &disk, &new, "--name", "a", "--force"]);
    assert_eq!(
        (content("a.new~"), content("a")),
        (b"old".to_vec(), b"new".to_vec())
    );
    ok(&["check", &disk, "--read-data"]);
}

#[test]
fn a_fetched_file_may_be_called_as_a_temporary_one() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    let source = folder.file("source", 1000);
    for name in ["d/.q.straightway-5-5", "d/e/x", "d/zz"] {
        ok(&["put", &disk, &source, "--name", name]);
    }
    let out = folder.path("out");
    ok(&["get", &disk, "--all", &out]);
    ok(&["get", &disk, "d/zz", &folder.path("out/d/again")]);
    for name in ["d/.q.straightway-5-5", "d/e/x", "d/zz", "d/again"] {
        assert!(folder.0.join("out").join(name).is_file(), "{name}");
    }
}

#[test]
fn nothing_is_stored_if_a_name_cannot_be() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    // With its folder, 256 bytes.
    let long = "x".repeat(252);
    let source = tree(&folder, &["a", &long]);
    refused(&["put", &disk, &source], 2, "nothing was stored");
    refused(&["put", &disk, &source, "none"], 10, "nothing was stored");
    refused(&["put", &disk, &source, "-"], 2, "standard input");
    refused(&["put", &disk, &source, "--name", "x"], 2, "--name");
    fs::remove_file(folder.0.join("src").join(&long)).unwrap();
    std::os::unix::fs::symlink("a", folder.0.join("src/link")).unwrap();
    let put = json(&["put", &disk, &source, "--json"]);
    assert_eq!(put["skipped"].as_array().unwrap().len(), 1);
    refused(
        &["put", &disk, &source],
        9,
        "`src/a` exist already; nothing was stored",
    );
    fs::write(folder.0.join("src/b"), "b").unwrap();
    ok(&["put", &disk, &source, "--skip-existing"]);
    assert_eq!(listed(&disk, &[]), ["src/a", "src/b"]);
    fs::write(folder.0.join("src/a"), "new").unwrap();
    ok(&["put", &disk, &source, "--force"]);
    let get = run(&["get", &disk, "src/a", "-"]);
    assert_eq!(get.stdout, b"new");
}

#[test]
fn a_full_volume_keeps_what_is_there_and_names_the_rest() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    fs::create_dir(folder.0.join("big")).unwrap();
    for name in ["1", "2", "3", "4", "5"] {
        folder.file(&format!("big/{name}"), 8 << 20);
    }
    let done = run(&["put", &disk, &folder.path("big")]);
    let said = stderr(&done);
    assert_eq!(done.status.code(), Some(8), "{said}");
    let stored = listed(&disk, &[]);
    assert!(!stored.is_empty() && stored.len() < 5, "{stored:?}");
    assert!(
        said.contains(&format!("{} of 5 files are stored, whole", stored.len())),
        "{said}"
    );
    assert!(
        said.contains("not stored: ") && said.contains("`big/5`"),
        "{said}"
    );
    ok(&["check", &disk]);
    ok(&["get", &disk, "--all", &folder.path("out")]);
    for name in stored {
        let data = fs::read(folder.0.join(&name)).unwrap();
        assert!(
            fs::read(folder.0.join("out").join(&name)).unwrap() == data,
            "{name}"
        );
    }
}

#[test]
fn nothing_is_fetched_over_a_file_or_out_of_the_folder() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    folder.file("data", 1000);
    for name in ["a", "b", "../up", "/abs"] {
        ok(&["put", &disk, &folder.path("data"), "--name", name]);
    }
    let out = folder.path("out");
    refused(&["get", &disk, "a", "c*", &out], 10, "nothing was fetched");
    refused(&["get", &disk, "a", "b", "-"], 2, "standard output");
    refused(
        &["get", &disk, "a", "b", &folder.path("data")],
        2,
        "is not a folder",
    );
    refused(
        &["get", &disk, "[ab]", &out, "--offset", "1K"],
        2,
        "for one file",
    );
    assert!(!folder.0.join("out").exists());
    fs::create_dir(folder.0.join("out")).unwrap();
    fs::write(folder.0.join("out/b"), "mine").unwrap();
    refused(&["get", &disk, "[ab]", &out], 9, "exists; nothing was done");
    assert!(!folder.0.join("out/a").exists());
    ok(&["get", &disk, "[ab]", &out, "--force"]);
    assert_eq!(fs::read(folder.0.join("out/b")).unwrap().len(), 1000);
    // To the current folder, and by their own names where a file is called like a pattern.
    ok(&["put", &disk, &folder.path("data"), "--name", "[ab]"]);
    // What would lead out of the folder is left out and named.
    refused(
        &["get", &disk, "--all", &folder.path("all")],
        2,
        "not fetched: `../up`, `/abs`",
    );
    assert!(!folder.0.join("up").exists() && folder.0.join("all/b").exists());
    let here = command(&["get", &disk, "[ab]"])
        .current_dir(folder.0.join("out"))
        .output()
        .unwrap();
    assert!(here.status.success() && folder.0.join("out/[ab]").exists());
}

#[test]
fn all_files_are_fetched_where_one_has_the_name_of_a_pattern() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    let small = folder.file("small", 100);
    for name in ["*", "b", "c"] {
        ok(&["put", &disk, &small, name]);
    }
    let out = folder.path("out");
    ok(&["get", &disk, "--all", &out]);
    let mut found: Vec<String> = fs::read_dir(&out)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    assert_eq!(found, ["*", "b", "c"]);
}

#[test]
fn a_file_that_cannot_have_its_name_here_does_not_keep_the_others() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    let small = folder.file("small", 100);
    for name in ["..", "a", "a/b", "z"] {
        ok(&["put", &disk, &small, "--name", name]);
    }
    let out = folder.path("out");
    let failed = run(&["get", &disk, "--all", &out]);
    assert_eq!(failed.status.code(), Some(2));
    let text = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(
        text.contains("2 of 4 files are fetched, whole; not fetched: `..`, `a/b`"),
        "{text}"
    );
    for name in ["a", "z"] {
        assert_eq!(fs::read(Path::new(&out).join(name)).unwrap().len(), 100);
    }
    // The next one goes on where this one ended.
    fs::remove_file(Path::new(&out).join("z")).unwrap();
    let again = run(&["get", &disk, "--all", &out, "--skip-existing"]);
    assert_eq!(again.status.code(), Some(2));
    assert_eq!(fs::read(Path::new(&out).join("z")).unwrap().len(), 100);
}

#[test]
fn an_address_is_not_taken_for_a_folder() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    ok(&["put", &disk, &folder.file("small", 100)]);
    for words in [
        &["get", &disk, "s*", "s3://bucket/prefix/"][..],
        &["get", &disk, "small", "s3://bucket/small"],
        &["get", &disk, "--all", "gs://bucket"],
    ] {
        let refused = run(words);
        assert_eq!(refused.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&refused.stderr).contains("is an address"));
    }
    assert!(!Path::new("s3:").exists());
}

#[test]
fn a_rotted_file_does_not_keep_the_others_and_is_zeroes_in_an_archive() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &["--checksums"]);
    for name in ["a", "b", "c"] {
        ok(&["put", &disk, &folder.file("data", 200_000), "--name", name]);
    }
    let status = json(&["stat", &disk, "b", "--json"]);
    let lba = status["file"]["extent_list"][0]["lba"].as_u64().unwrap();
    let mut image = fs::read(&disk).unwrap();
    let at = lba as usize * 512 + 70_000;
    image[at..at + 3].copy_from_slice(b"ROT");
    fs::write(&disk, image).unwrap();
    let out = folder.path("out");
    let failed = run(&["get", &disk, "--all", &out]);
    assert_eq!(failed.status.code(), Some(6));
    let text = stderr(&failed);
    assert!(
        text.contains("2 of 3 files are fetched, whole; not fetched: `b`"),
        "{text}"
    );
    let whole = fs::read(folder.0.join("data")).unwrap();
    for name in ["a", "c"] {
        assert!(fs::read(Path::new(&out).join(name)).unwrap() == whole);
    }
    assert!(!Path::new(&out).join("b").exists());
    let archive = folder.path("out.tar");
    let failed = run(&["get", &disk, "--all", &archive, "--tar"]);
    assert_eq!(failed.status.code(), Some(6));
    assert!(
        stderr(&failed).contains("zeroes from byte"),
        "{}",
        stderr(&failed)
    );
    // Nothing is left of an archive that is not whole, unless it went to standard output.
    let streamed = run(&["get", &disk, "--all", "-", "--tar"]);
    assert_eq!(streamed.status.code(), Some(6));
    let mut archive = tar::Archive::new(streamed.stdout.as_slice());
    let mut found = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut data = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut data).unwrap();
        found.push((name, data == whole));
    }
    let expected = [("a", true), ("b", false), ("c", true)];
    assert_eq!(found, expected.map(|(name, same)| (name.to_owned(), same)));
}

#[test]
fn a_name_without_a_place_in_a_folder_is_warned_of_when_it_is_made() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    let source = folder.file("a", 5000);
    for name in ["..", "/abs", "../x", "a//b", "b/"] {
        for words in [
            &["put", &disk, &source, "--name", name][..],
            &["mv", &disk, name, "plain"],
            &["cp", &disk, "plain", name],
            &["mv", &disk, "plain", "other"],
            &["rm", &disk, name, "other"],
            &["record", &disk, name, "--from", &source, "--rate", "100M"],
            &["rm", &disk, name],
        ] {
            let done = run(words);
            let said = stderr(&done);
            assert_eq!(done.status.code(), Some(0), "{words:?}: {said}");
            let makes = (words[0] == "put" || words[0] == "record") || words.last() == Some(&name);
            let warned = said.contains(&format!("warning: `{name}` has no place in a folder"));
            assert_eq!(warned, makes && words[0] != "rm", "{words:?}: {said}");
        }
    }
    let said = stderr(&run(&["put", &disk, &source, "--name", "x/y"]));
    assert!(!said.contains("warning"), "{said}");
}

#[test]
fn a_name_is_not_shown_as_another() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    let source = folder.file("a", 5000);
    ok(&["put", &disk, &source, "--name", "photo\u{202e}gpj.exe"]);
    ok(&["put", &disk, &source, "--name", "a\u{200b}b"]);
    for words in [
        &["ls", &disk][..],
        &["ls", &disk, "-l"],
        &["check", &disk],
        &["stat", &disk, "a\u{200b}b"],
    ] {
        let shown = ok(words);
        assert!(
            !shown.contains(['\u{202e}', '\u{200b}']),
            "{words:?}: {shown}"
        );
    }
    let shown = ok(&["ls", &disk]);
    assert!(
        shown.contains("photo\\u{202e}gpj.exe") && shown.contains("a\\u{200b}b"),
        "{shown}"
    );
    // Programs get the name itself.
    assert_eq!(listed(&disk, &[]), ["a\u{200b}b", "photo\u{202e}gpj.exe"]);
}

#[test]
fn a_local_file_of_another_length_is_not_taken_for_the_volume_s() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    for name in ["a", "b", "c"] {
        ok(&["put", &disk, &folder.file(name, 1000)]);
    }
    let to = folder.path("to");
    std::fs::create_dir(&to).unwrap();
    let at = |name: &str| format!("{to}/{name}");
    std::fs::write(at("a"), vec![1; 1000]).unwrap();
    std::fs::write(at("b"), "cut").unwrap();
    let output = run(&["get", &disk, "--all", &to, "--skip-existing"]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(9), "{said}");
    assert!(
        said.contains("b has 3 bytes, and `b` has 1000 on the volume") && said.contains("--force"),
        "{said}"
    );
    // What it could do is done, and nothing is replaced.
    assert_eq!(
        fs::read(at("c")).unwrap(),
        fs::read(folder.path("c")).unwrap()
    );
    assert_eq!(std::fs::read(at("b")).unwrap(), b"cut");
    std::fs::remove_file(at("b")).unwrap();
    assert_eq!(code(&["get", &disk, "--all", &to, "--skip-existing"]), 0);
}

#[test]
fn what_is_in_a_folder_turns_no_file_elsewhere() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk", &[]);
    for name in ["a", "b", "sub/c"] {
        let put = ["--quiet", "put", &disk, "-", name];
        assert_eq!(run_with_input(&put, b"new").status.code(), Some(0));
    }
    let to = |name: &str| folder.path(&format!("to/{name}"));
    std::fs::create_dir_all(to("")).unwrap();
    std::fs::create_dir(folder.path("away")).unwrap();
    std::fs::write(folder.path("mine"), "mine").unwrap();
    let all = ["get", &disk, "--all", &to(""), "--force"];
    let refuse = |name: &str, what: &str| {
        let text = refused_text(&all, 9);
        assert!(text.contains(&format!("{name} {what}")), "{text}");
        assert!(text.contains("nothing was done\nhint: mv '"), "{text}");
        assert!(!std::fs::exists(to("a")).unwrap(), "{text}");
        std::fs::remove_file(to(name)).unwrap();
    };
    // To a file, to none, to a folder; and what would be waited for.
    std::os::unix::fs::symlink("../mine", to("b")).unwrap();
    refuse("b", "is a link, which may lead out of the folder");
    std::os::unix::fs::symlink("../none", to("b")).unwrap();
    refuse("b", "is a link");
    std::os::unix::fs::symlink("../away", to("sub")).unwrap();
    refuse("sub", "is a link");
    rustix::fs::mkfifoat(rustix::fs::CWD, to("b"), 0o600.into()).unwrap();
    refuse("b", "is not a file");
    assert_eq!(std::fs::read(folder.path("mine")).unwrap(), b"mine");
    assert!(!std::fs::exists(folder.path("none")).unwrap());
    assert_eq!(std::fs::read_dir(folder.path("away")).unwrap().count(), 0);
    // The folder itself may be one, and files in it are replaced.
    std::fs::write(to("b"), "old").unwrap();
    std::os::unix::fs::symlink("to", folder.path("link")).unwrap();
    ok(&["get", &disk, "--all", &folder.path("link"), "--force"]);
    assert_eq!(std::fs::read(to("b")).unwrap(), b"new");
    assert_eq!(std::fs::read(to("sub/c")).unwrap(), b"new");
}

/// What a refused command says.
fn refused_text(words: &[&str], status: i32) -> String {
    let output = run(words);
    assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
    stderr(&output)
}

#[test]
fn a_name_that_is_no_file_s_says_what_is_meant() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk", &[]);
    let put = ["--quiet", "put", &disk, "-", "sub/c"];
    assert_eq!(run_with_input(&put, &[7; 9000]).status.code(), Some(0));
    let here = folder.file("here", 3);
    for (words, status, what) in [
        (
            &["get", &disk, "sub", "-"][..],
            10,
            "hint: straightway get ",
        ),
        (&["get", &disk, "sub/", "-"], 10, " 'sub/*'\n"),
        (
            &["cat", &disk, "sub"],
            10,
            "hint: 'sub/*' is what is in the folder: ",
        ),
        (
            &["get", &disk, "sub", "x", &folder.path("to")],
            10,
            "'sub/*' is what is in the",
        ),
        (
            &["get", &disk, "*", "-"],
            10,
            " '*' prints what it fits; --tar makes",
        ),
        (
            &["get", &disk, "a", "b", "-"],
            2,
            " 'a' 'b' prints them one after the other; --tar",
        ),
        (
            &["get", &disk, "sub/c", &folder.path("new/")],
            2,
            "hint: mkdir -p '",
        ),
        // That it exists here says nothing of the volume.
        (&["get", &disk, "here", &here], 10, "no file has this name"),
        (
            &["get", &disk, "sub/c", &here],
            9,
            "exists; nothing was done",
        ),
    ] {
        let said = refused_text(words, status);
        assert!(said.contains(what), "{words:?}: {said}");
    }
    // setrlimit(2): a write beyond the limit fails with EFBIG where SIGXFSZ is caught.
    let limited = |target: &str| {
        let plain = crate::support::command(&["get", &disk, "sub/c", target]);
        let mut shell = std::process::Command::new("bash");
        shell.args(["-c", "ulimit -f 4; exec \"$0\" \"$@\""]);
        shell.arg(plain.get_program()).args(plain.get_args());
        let out = std::fs::File::create(folder.path("out")).unwrap();
        shell.stdout(out).output().unwrap()
    };
    for target in ["-", &folder.path("long")] {
        let output = limited(target);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{target}: {said}");
        assert!(
            said.contains("hint: a smaller size, ulimit -f unlimited"),
            "{said}"
        );
    }
    assert!(!std::fs::exists(folder.path("long")).unwrap());
}

/// Small files leave holes of one unit where new files go: a table that grew into these had used up
/// its extents after 128 more slots.
#[test]
fn more_files_than_a_new_volume_has_slots_are_put_beside_the_holes_that_they_leave() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &["--checksums"]);
    fs::create_dir(folder.0.join("in")).unwrap();
    for number in 0..1_500 {
        fs::write(folder.0.join(format!("in/f{number}")), number.to_string()).unwrap();
    }
    ok(&["put", &device, &folder.path("in")]);
    assert_eq!(names(&device).len(), 1_500);
    let out = folder.path("out");
    ok(&["get", &device, "--all", &out]);
    let got = fs::read_to_string(folder.0.join("out/in/f1234")).unwrap();
    assert_eq!(got, "1234");
    ok(&["check", &device, "--read-data"]);
}
