// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the command must never overwrite: files, its own source, a volume that another process has.

use crate::support::{Folder, code, command, get, names, run, run_with_input, stderr};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

fn refused(words: &[&str], expected: i32, why: &str) {
    let output = run(words);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(expected), "{words:?}: {said}");
    assert!(said.contains(why), "{words:?}: {said}");
}

/// A volume in `disk.img` with a file `a` of 100,000 bytes.
fn volume(folder: &Folder) -> String {
    let (disk, data) = (folder.path("disk.img"), folder.file("data", 100_000));
    assert_eq!(code(&["--quiet", "format", &disk, "--size", "32M"]), 0);
    assert_eq!(code(&["--quiet", "put", &disk, &data, "a"]), 0);
    disk
}

/// A put that has locked the volume and waits for more input.
fn waiting_put(disk: &str) -> Child {
    let mut child = command(&["put", disk, "-", "slow"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    said.read_line(&mut line).unwrap();
    assert!(line.contains("path:"), "{line}");
    child.stderr = Some(said.into_inner());
    child
}

#[test]
fn the_source_is_never_the_target() {
    let folder = Folder::new();
    let disk = volume(&folder);
    let link = folder.path("link");
    std::os::unix::fs::symlink(&disk, &link).unwrap();
    let hard = folder.path("hard");
    std::fs::hard_link(&disk, &hard).unwrap();
    assert_eq!(
        code(&["--quiet", "put", &disk, &folder.path("data"), "disk.img"]),
        0
    );
    let before = std::fs::read(&disk).unwrap();
    let here = std::path::Path::new(&disk).parent().unwrap();
    for force in [&[][..], &["--force"][..]] {
        for target in [&disk, &link, &hard] {
            let model = format!("model:32M,file={disk}");
            let commands: [&[&str]; 5] = [
                &["get", &disk, "a", target],
                &["get", &model, "a", target],
                &["get", &disk, "disk.img", here.to_str().unwrap()],
                &["read", &disk, "--length", "1M", "--output", target],
                &["play", &disk, "a", "--to", target],
            ];
            for words in commands {
                refused(&[words, force].concat(), 2, "the source itself");
            }
        }
    }
    for source in [&disk, &link, &hard] {
        let commands: [&[&str]; 3] = [
            &["put", &disk, source, "b"],
            &["write", &disk, "--destroy-data", &disk, "--input", source],
            &["record", &disk, "b", "--from", source, "--rate", "1M"],
        ];
        for words in commands {
            refused(words, 2, "itself");
        }
    }
    // By a redirection of the shell too.
    let open = || std::fs::File::options().append(true).open(&disk).unwrap();
    for words in [
        &["read", &disk][..],
        &["get", &disk, "a", "-"],
        &["play", &disk, "a"],
    ] {
        let output = command(words).stdout(open()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}");
    }
    assert!(std::fs::read(&disk).unwrap() == before);
}

#[test]
fn a_file_that_exists_is_replaced_with_force_alone() {
    let folder = Folder::new();
    let disk = volume(&folder);
    let notes = folder.path("notes");
    let commands: [&[&str]; 3] = [
        &["--quiet", "get", &disk, "a", &notes],
        &[
            "--quiet", "read", &disk, "--length", "1M", "--output", &notes,
        ],
        &["--quiet", "play", &disk, "a", "--to", &notes],
    ];
    for words in commands {
        std::fs::write(&notes, "newer").unwrap();
        refused(words, 9, "--force");
        assert_eq!(std::fs::read(&notes).unwrap(), b"newer", "{words:?}");
        assert_eq!(code(&[words, &["--force"]].concat()), 0);
        assert!(std::fs::metadata(&notes).unwrap().len() >= 100_000);
        std::fs::remove_file(&notes).unwrap();
        assert_eq!(code(words), 0);
    }
    // A failure leaves the existing file.
    std::fs::write(&notes, "newer").unwrap();
    let past = ["get", &disk, "a", &notes, "--force", "--offset", "1G"];
    assert_ne!(code(&past), 0);
    refused(
        &["play", &disk, "none", "--to", &notes, "--force"],
        10,
        "none",
    );
    assert_eq!(std::fs::read(&notes).unwrap(), b"newer");
    let left = std::fs::read_dir(&folder.0).unwrap().count();
    assert_eq!(left, 3, "disk.img, data and notes");
}

#[test]
fn streams_are_written_as_they_are() {
    let folder = Folder::new();
    let disk = volume(&folder);
    let fifo = folder.path("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    let data = std::fs::read(folder.path("data")).unwrap();
    let commands: [&[&str]; 3] = [
        &["--quiet", "get", &disk, "a"],
        &["--quiet", "play", &disk, "a", "--to"],
        &["--quiet", "read", &disk, "--length", "4K", "--output"],
    ];
    for words in commands {
        assert_eq!(code(&[words, &["/dev/null"]].concat()), 0, "{words:?}");
        let mut child = command(&[words, &[&fifo]].concat()).spawn().unwrap();
        let mut got = Vec::new();
        std::fs::File::open(&fifo)
            .unwrap()
            .read_to_end(&mut got)
            .unwrap();
        assert!(child.wait().unwrap().success(), "{words:?}");
        assert!(got == data || got.len() == 4096, "{words:?}");
        if words[1] != "get" {
            let here = folder.0.to_str().unwrap();
            refused(&[words, &[here]].concat(), 2, "is a directory");
        }
    }
}

#[test]
fn nothing_else_writes_or_measures_a_volume_that_is_being_written() {
    let folder = Folder::new();
    let disk = volume(&folder);
    let mut first = waiting_put(&disk);
    let destroy = ["--destroy-data", &disk];
    let words = |text: &str| -> Vec<String> {
        let words = text.split(' ').map(|word| match word {
            "DISK" => disk.clone(),
            word => word.to_owned(),
        });
        words.collect()
    };
    let short = "--path file-direct --span 1M";
    let writers = [
        "write DISK --length 4K".to_owned(),
        format!(
            "sustain DISK --rate 1M --block 4K --deadline 1s --duration 10ms --operation write {short}"
        ),
        "compare DISK --operations write --rounds 1 --cell-duration 10ms --sizes 4K --span 1M"
            .to_owned(),
        "sweep DISK --operations write --sizes 4K --rounds 1 --cell-duration 10ms --span 1M"
            .to_owned(),
    ];
    let readers = [
        "read DISK --checksum".to_owned(),
        "compare DISK --operations read --rounds 1 --cell-duration 10ms --sizes 4K --span 1M"
            .to_owned(),
        "workload varmail DISK --dataset 1M --duration 10ms".to_owned(),
        "format DISK --force".to_owned(),
    ];
    for (verbs, named) in [(writers, true), (readers, false)] {
        for verb in verbs {
            let mut all = words(&verb);
            if named {
                all.extend(destroy.map(str::to_owned));
            }
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            refused(&all, 3, "(straightway)");
        }
    }
    drop(first.stdin.take());
    assert_eq!(first.wait().unwrap().code(), Some(0));
    assert_eq!(code(&["--quiet", "check", &disk, "--read-data"]), 0);
}

#[test]
fn a_volume_is_not_replaced_while_another_process_writes_it() {
    let folder = Folder::new();
    let (disk, other) = (volume(&folder), folder.path("other.img"));
    assert_eq!(code(&["--quiet", "format", &other, "--size", "32M"]), 0);
    let before = std::fs::read(&other).unwrap();
    let mut first = waiting_put(&other);
    refused(&["get", &disk, "a", &other, "--force"], 3, "(straightway)");
    drop(first.stdin.take());
    assert_eq!(first.wait().unwrap().code(), Some(0));
    assert!(std::fs::read(&other).unwrap().len() == before.len());
    let done = run_with_input(&["--quiet", "get", &disk, "a", &other, "--force"], b"");
    assert_eq!(done.status.code(), Some(0));
}

/// Each verb that saves a report, with arguments that would run.
const REPORTS: [&str; 11] = [
    "compare ram:32M --sizes 4K --patterns sequential --rounds 1 --cell-duration 5ms",
    "sweep ram:32M --sizes 4K --rounds 1 --cell-duration 5ms",
    "sustain ram:32M --rate 1M --block 4K --deadline 10s --duration 10ms",
    "periodic ram:32M --period 5ms --firings 10 --block 64K --priorities normal --loads none",
    "speed ram:32M --one --rounds 5 --cell-duration 5ms",
    "explain ram:32M --rounds 5 --cell-duration 5ms",
    "trace model:32M --requests 50",
    "profile ram:32M",
    "workload varmail FOLDER --dataset 1M --duration 10ms",
    "import FIO",
    "man",
];

#[test]
fn a_report_replaces_an_earlier_one_of_its_verb_and_nothing_else() {
    let folder = Folder::new();
    let fio = folder.path("fio.json");
    let results = r#"{"fio version": "fio-3.33", "jobs": [{"jobname": "a", "error": 0, "job options": {"rw": "randread",
        "bs": "4k"}, "read": {"io_bytes": 41943040, "runtime": 2000, "total_ios": 10240}}]}"#;
    std::fs::write(&fio, results).unwrap();
    let words = |text: &str, place: &str| -> Vec<String> {
        let text = text
            .replace("FOLDER", &folder.path(""))
            .replace("FIO", &fio);
        let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        if words[0] == "man" {
            words.push(place.to_owned())
        } else {
            words.extend(["--output".to_owned(), place.to_owned()])
        }
        words
    };
    let refuse = |text: &str, place: &str, status: i32, why: &str| {
        let words = words(text, place);
        refused(
            &words.iter().map(String::as_str).collect::<Vec<_>>(),
            status,
            why,
        );
    };
    let foreign = folder.path("foreign");
    std::fs::create_dir(&foreign).unwrap();
    let files = ["report.html", "straightway-write.1"];
    for file in files {
        std::fs::write(format!("{foreign}/{file}"), "mine").unwrap();
    }
    for text in REPORTS {
        refuse(text, &foreign, 9, "exists; nothing was done");
        refuse(text, &fio, 2, "is not a directory");
    }
    for file in files {
        assert_eq!(std::fs::read(format!("{foreign}/{file}")).unwrap(), b"mine");
    }
    assert_eq!(std::fs::read_dir(&foreign).unwrap().count(), files.len());

    // fio's own results, whose name the imported results have.
    refuse("import FIO", &folder.path(""), 9, "fio.json exists");
    assert_eq!(std::fs::read_to_string(&fio).unwrap(), results);
    let run = |text: &str, place: &str, more: &[&str]| {
        let mut words = words(text, place);
        words.extend(more.iter().map(|&word| word.to_owned()));
        code(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    for text in ["import FIO", "man"] {
        let place = folder.path(&format!("new-{}/folder", &text[..3]));
        for _ in 0..2 {
            assert_eq!(run(text, &place, &[]), 0, "{text}");
        }
        assert_eq!(run(text, &foreign, &["--force"]), 0, "{text}");
    }
    // A page of another verb is not an earlier page of this verb.
    refuse(
        REPORTS[0],
        &folder.path("new-imp/folder"),
        9,
        "report.html exists",
    );
    for file in files {
        assert_ne!(std::fs::read(format!("{foreign}/{file}")).unwrap(), b"mine");
    }
}

#[test]
fn the_image_in_a_folder_that_is_stored_is_left_out_and_named() {
    let folder = Folder::new();
    for name in ["a", "z"] {
        folder.file(name, 5000);
    }
    let disk = folder.path("disk");
    assert_eq!(code(&["--quiet", "format", &disk, "--size", "32M"]), 0);
    let all = folder.0.to_str().unwrap().to_owned() + "/.";
    let output = run(&["put", &disk, &all]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("itself"), "{said}");
    assert!(
        said.contains("2 of 3 files are stored, whole; not stored: "),
        "{said}"
    );
    assert!(!said.contains("nothing was done"), "{said}");
    let names = names(&disk);
    assert_eq!(names.len(), 2, "{names:?}");
    for name in names {
        assert_eq!(get(&disk, &name, &[]).len(), 5000);
    }
}
