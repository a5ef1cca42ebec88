// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands that read a file of a volume, or a device, through memory.

use crate::support::{
    Folder, command, json, noise, ok, refused, run, schema_names_all_keys, stderr, volume,
};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[path = "../../../map/tests/permitted/mod.rs"]
mod permitted;

/// A volume with the file `data`, a folder, and the path at which commands see it.
struct Place {
    folder: Folder,
    disk: String,
    at: String,
    data: Vec<u8>,
}

impl Place {
    fn new(len: usize) -> Self {
        let folder = Folder::new();
        let disk = volume(&folder, "disk.img", &[]);
        let data = folder.file("source", len);
        ok(&["put", &disk, &data, "data"]);
        let at = folder.path("seen");
        let data = std::fs::read(data).unwrap();
        Self {
            folder,
            disk,
            at,
            data,
        }
    }

    fn words<'a>(&'a self, options: &[&'a str], command: &[&'a str]) -> Vec<&'a str> {
        let words = ["map", &self.disk, "data", "--at", &self.at];
        [&words, options, &["--"], command].concat()
    }
}

#[test]
fn a_command_reads_a_file_and_the_device_as_files() {
    let place = Place::new(1_000_003);
    let at = place.at.as_str();
    let read = run(&place.words(&["--memory", "256K", "--read-ahead", "64K"], &["cat", at]));
    assert!(read.status.success(), "{}", stderr(&read));
    assert!(read.stdout == place.data);
    assert!(
        stderr(&read).contains("16 pages of 64 KiB read"),
        "{}",
        stderr(&read)
    );

    let device = run(&[
        "map",
        &place.disk,
        "--at",
        at,
        "--page-size",
        "4K",
        "--",
        "cmp",
        at,
        &place.disk,
    ]);
    assert!(device.status.success(), "{}", stderr(&device));
    assert!(!place.folder.0.join("seen").exists());
}

#[test]
fn the_report_has_what_was_read_and_how_the_command_ended() {
    let place = Place::new(300_000);
    let script = "dd if=$0 bs=4096 skip=40 count=1 status=none | wc -c; exit 3";
    let output = run(&place.words(
        &["--page-size", "16K", "--json"],
        &["sh", "-c", script, &place.at],
    ));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    // What the command prints is apart from the report.
    assert!(
        stderr(&output).starts_with("straightway: path:"),
        "{}",
        stderr(&output)
    );
    assert!(stderr(&output).contains("4096\n"), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("sh ended with status 3"),
        "{}",
        stderr(&output)
    );
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    schema_names_all_keys(&report, &ok(&["schema", "map"]));
    assert_eq!(report["status"], 3);
    assert_eq!(report["size_bytes"], 300_000);
    assert_eq!(
        (&report["reads"], &report["faults"]),
        (&1.into(), &1.into())
    );

    let killed = run(&place.words(&[], &["sh", "-c", "kill -9 $$"]));
    assert!(
        stderr(&killed).contains("sh was ended by signal 9"),
        "{}",
        stderr(&killed)
    );
}

#[test]
fn the_pages_of_the_last_run_are_read_at_the_start_of_the_next() {
    let place = Place::new(20 * 65536 + 5);
    let set = place.folder.path("set");
    // Each second page, and no more memory than they need.
    let script = "for page in 1 3 5 7 9 11 13 15 17 20; do dd if=$0 bs=64K skip=$page count=1 status=none; done | cksum";
    let reads = |options: &[&str]| {
        let options = [options, &["--json", "--memory", "1M"]].concat();
        let output = run(&place.words(&options, &["sh", "-c", script, &place.at]));
        assert!(output.status.success(), "{}", stderr(&output));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        ["reads", "reads_ahead"].map(|key| report[key].as_u64().unwrap())
    };
    assert_eq!(reads(&["--working-set", &set]), [10, 0]);
    let kept = std::fs::read_to_string(&set).unwrap();
    assert!(
        kept.starts_with("straightway working set 1\n65536 65536\n196608 65536\n"),
        "{kept}"
    );
    assert!(kept.ends_with("\n1310720 512\n"), "{kept}");
    let [all, ahead] = reads(&["--working-set", &set]);
    assert!(all == 10 && ahead > 0, "{all} {ahead}");

    // A file that has become shorter has fewer pages; anything else is refused.
    std::fs::write(
        &set,
        "straightway working set 1\n1310720 65536\n9999999999 5\n",
    )
    .unwrap();
    assert_eq!(reads(&["--working-set", &set])[0], 10);
    for other in [
        "",
        "straightway working set 2\n",
        "straightway working set 1\n5\n",
        "\u{fe}",
    ] {
        std::fs::write(&set, other).unwrap();
        let options = ["--working-set", set.as_str()];
        refused(&place.words(&options, &["true"]), 2, "is not a working set");
    }
}

#[test]
fn what_is_not_possible_is_refused_before_the_command_begins() {
    let place = Place::new(5000);
    let (disk, at) = (place.disk.as_str(), place.at.as_str());
    let source = place.folder.path("source");
    ok(&["put", disk, "/dev/null", "empty"]);
    let ran = place.folder.path("ran");
    let touch = ["--", "touch", &ran];
    for (words, status, said) in [
        (
            &["map", disk, "data", "--at", &source][..],
            9,
            "would be hidden",
        ),
        (&["map", disk, "--at", &source], 9, "would be hidden"),
        (&["map", disk], 2, "no name as a file"),
        (
            &["map", disk, "data", "--at", "/"],
            2,
            "not the name of a file",
        ),
        (
            &["map", disk, "data", "--at", "/none/there"],
            10,
            "finding the folder",
        ),
        (&["map", disk, "none", "--at", at], 10, "none"),
        (&["map", disk, "empty", "--at", at], 2, "is empty"),
        (
            &["map", disk, "data", "--at", at, "--page-size", "5000"],
            2,
            "a power of two",
        ),
        (
            &["map", disk, "data", "--at", at, "--memory", "64K"],
            2,
            "at least four pages",
        ),
    ] {
        refused(&[words, &touch].concat(), status, said);
    }
    refused(&["map", disk, "data", "--at", at], 2, "COMMAND");
    refused(
        &place.words(&[], &["no-such-program"]),
        10,
        "no-such-program",
    );
    assert!(!place.folder.0.join("ran").exists());
}

#[test]
fn data_with_checksums_is_verified() {
    let place = Place::new(1000);
    let at = place.at.as_str();
    let disk = volume(&place.folder, "summed.img", &["--checksums"]);
    let source = place.folder.path("long");
    std::fs::write(&source, noise(5, 200_000)).unwrap();
    ok(&["put", &disk, &source, "data"]);
    let read = |words: &[&str]| {
        run(&[
            &["map", &disk, "data", "--at", at],
            words,
            &["--", "cmp", at, &source],
        ]
        .concat())
    };
    let good = read(&["--json"]);
    assert!(good.status.success(), "{}", stderr(&good));
    assert!(
        crate::support::stdout(&good).contains("\"verified\": true"),
        "{}",
        crate::support::stdout(&good)
    );
    assert!(stderr(&read(&["--page-size", "4K"])).contains("not verified"));

    let mut bytes = std::fs::read(&disk).unwrap();
    let content = std::fs::read(&source).unwrap();
    let part = &content[150_000..150_600];
    let place_of_it = bytes
        .windows(part.len())
        .position(|bytes| bytes == part)
        .unwrap();
    bytes[place_of_it] ^= 1;
    std::fs::write(&disk, bytes).unwrap();
    let bad = read(&[]);
    assert_eq!(bad.status.code(), Some(6), "{}", stderr(&bad));
    let said = stderr(&bad);
    assert!(
        said.contains("byte 131072 of") && said.contains("does not match its checksum"),
        "{said}"
    );
}

#[test]
fn several_commands_have_maps_at_the_same_time() {
    let places = [Place::new(70_000), Place::new(5000)];
    let hold = places[0].folder.path("hold");
    assert!(
        Command::new("mkfifo")
            .arg(&hold)
            .status()
            .unwrap()
            .success()
    );
    // The first reads when the second has begun, and the second then.
    let scripts = ["cat <$0 >&2; cat $1", "echo >$0; cat $1"];
    let first = [&*hold, &*places[0].at];
    let second = [&*hold, &*places[1].at];
    let first = places[0].words(&[], &[&["sh", "-c", scripts[0]], &first[..]].concat());
    let second = places[1].words(&[], &[&["sh", "-c", scripts[1]], &second[..]].concat());
    let first = command(&first)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let second = run(&second);
    let first = first.wait_with_output().unwrap();
    assert!(first.stdout == places[0].data, "{}", stderr(&first));
    assert!(second.stdout == places[1].data, "{}", stderr(&second));
}

#[test]
fn a_request_to_end_ends_the_command_first() {
    let place = Place::new(5000);
    let begun = place.folder.0.join("begun");
    let script = "trap 'echo ended; exit' TERM; : >$0; while :; do sleep 0.05; done";
    let begun_path = place.folder.path("begun");
    let words = place.words(&[], &["sh", "-c", script, &begun_path]);
    let mut child = command(&words).stdout(Stdio::piped()).spawn().unwrap();
    let limit = Instant::now() + Duration::from_secs(120);
    while !begun.exists() {
        assert!(Instant::now() < limit, "the command does not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut said).unwrap();
    assert_eq!(said, "ended\n");
}

/// As a shell has it: 128 and the signal's number.
#[test]
fn a_command_that_a_request_ended_has_the_status_of_the_signal() {
    let place = Place::new(5000);
    let begun = place.folder.0.join("begun");
    for (signal, status) in [("INT", 130), ("TERM", 143)] {
        let _ = std::fs::remove_file(&begun);
        let script = ": >$0; while :; do sleep 0.05; done";
        let begun_path = place.folder.path("begun");
        let words = place.words(&[], &["sh", "-c", script, &begun_path]);
        let child = command(&words).stderr(Stdio::piped()).spawn().unwrap();
        let limit = Instant::now() + Duration::from_secs(120);
        while !begun.exists() {
            assert!(Instant::now() < limit, "the command does not begin");
            std::thread::sleep(Duration::from_millis(10));
        }
        let pid = child.id().to_string();
        let mut kill = Command::new("kill");
        assert!(kill.args(["-s", signal, &pid]).status().unwrap().success());
        let done = child.wait_with_output().unwrap();
        let said = stderr(&done);
        assert_eq!(done.status.code(), Some(status), "{said}");
        assert!(said.contains("sh was ended by signal 15"), "{said}");
    }
}

#[test]
fn a_kernel_that_refuses_userfaultfd_is_reported_before_the_command_begins() {
    let place = Place::new(5000);
    let disk = std::fs::read(&place.disk).unwrap();
    let (ran, set) = (place.folder.path("ran"), place.folder.path("set"));
    let words = place.words(&["--working-set", &set], &["touch", &ran]);
    for (errno, hint) in [
        (libc::ENOSYS, "CONFIG_USERFAULTFD"),
        (libc::EPERM, "run it as root"),
    ] {
        let mut filtered = command(&words);
        // SAFETY: `refuse` allocates nothing and takes no lock.
        unsafe { filtered.pre_exec(move || permitted::refuse(errno)) };
        let output = filtered.output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(4), "{said}");
        assert!(said.contains("the kernel refuses userfaultfd"), "{said}");
        let hints = said.lines().find(|line| line.contains("hint:")).unwrap();
        assert!(hints.contains(hint) && hints.contains("seccomp"), "{said}");
    }
    for path in [&ran, &set] {
        assert!(!std::path::Path::new(path).exists(), "{path}");
    }
    assert!(std::fs::read(&place.disk).unwrap() == disk);
}

/// The bytes that the entries of a table name on `disk`.
fn through(table: &[u8], disk: &[u8], page: usize) -> Vec<u8> {
    let entries = table
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()));
    let pages = entries.map(|entry| {
        let at = (entry & ((1 << 29) - 1)) as usize * page;
        &disk[at..at + page]
    });
    pages.collect::<Vec<_>>().concat()
}

#[test]
fn what_is_mapped_is_not_changed_by_another_command() {
    let place = Place::new(100_000);
    let (disk, source) = (place.disk.as_str(), place.folder.path("source"));
    let script = "\"$@\"; echo \"rc $?\"";
    for words in [
        &["rm", disk, "data"][..],
        &["mv", disk, "data", "other"],
        &["put", disk, &source, "data", "--force"],
        &["format", disk, "--force"],
    ] {
        let command = [
            &["sh", "-c", script, "sh", env!("CARGO_BIN_EXE_straightway")],
            words,
        ]
        .concat();
        let output = run(&place.words(&[], &command));
        let said = stderr(&output);
        assert!(said.contains("is in use"), "{said}");
        assert_eq!(output.stdout, b"rc 3\n", "{said}");
    }
    let read = run(&place.words(&[], &["cat", &place.at]));
    assert!(read.stdout == place.data, "{}", stderr(&read));
}

#[test]
fn a_table_for_hardware_and_the_extents_say_where_a_file_is() {
    let folder = Folder::new();
    let disk = folder.path("disk.img");
    ok(&[
        "format",
        &disk,
        "--size",
        "4M",
        "--unit",
        "16K",
        "--checksums",
    ]);
    let source = folder.file("source", 300_001);
    let data = std::fs::read(&source).unwrap();
    ok(&["put", &disk, &source, "plain", "--no-checksums"]);
    ok(&["put", &disk, &source, "summed"]);
    let table = folder.path("table");
    let entries = run(&["table", &disk, "plain", "-"]);
    ok(&["table", &disk, "plain", &table]);
    assert_eq!(entries.stdout, std::fs::read(&table).unwrap());
    for (name, page, flags) in [
        ("plain", "4K", &["--writable"][..]),
        ("plain", "16K", &[]),
        ("summed", "8K", &[]),
    ] {
        let words = [
            "table",
            &disk,
            name,
            &table,
            "--page-size",
            page,
            "--force",
            "--json",
        ];
        let report = json(&[&words[..], flags].concat());
        schema_names_all_keys(&report, &ok(&["schema", "table"]));
        let page = report["page_bytes"].as_u64().unwrap() as usize;
        let entries = std::fs::read(&table).unwrap();
        assert_eq!(report["entries"], data.len().div_ceil(page));
        assert_eq!(entries.len(), 4 * data.len().div_ceil(page));
        let kind = if flags.is_empty() { 0b010 } else { 0b011 };
        assert!(
            entries.chunks(4).all(|word| word[3] >> 5 == kind),
            "{entries:?}"
        );
        let image = std::fs::read(&disk).unwrap();
        assert!(through(&entries, &image, page).starts_with(&data));

        let status = json(&["stat", &disk, name, "--json"]);
        schema_names_all_keys(&status, &ok(&["schema", "stat"]));
        let file = &status["file"];
        let block = file["block_size_bytes"].as_u64().unwrap();
        let mut found = Vec::new();
        for extent in file["extent_list"].as_array().unwrap() {
            let number = |key: &str| extent[key].as_u64().unwrap();
            assert_eq!(number("offset_bytes"), found.len() as u64);
            let at = (number("lba") * block) as usize;
            found.extend_from_slice(&image[at..at + (number("blocks") * block) as usize]);
        }
        assert!(found.starts_with(&data));
    }
}

#[test]
fn a_table_that_would_not_hold_is_refused_and_nothing_is_written() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &["--checksums", "--unit", "512"]);
    let source = folder.file("source", 1000);
    ok(&["put", &disk, &source, "summed"]);
    ok(&["put", &disk, "/dev/null", "empty"]);
    let table = folder.path("table");
    for (words, status, said) in [
        (&["none", &table][..], 10, "no file has this name"),
        (&["", &table], 2, "1 to 255 bytes"),
        (&["empty", &table], 2, "is empty"),
        (&["summed", &table], 2, "--unit"),
        (&["summed", &table, "--writable"], 2, "without --writable"),
        (
            &["summed", &table, "--page-size", "2K"],
            2,
            "--page-size 4K",
        ),
        (
            &["summed", &table, "--page-size", "128K"],
            2,
            "--page-size 4K",
        ),
        (&["summed", &source], 9, "--force"),
        (&["summed", "-", "--json"], 2, "would mix"),
        (&["summed", &disk, "--force"], 2, "is the source itself"),
    ] {
        refused(&[&["table", &disk], words].concat(), status, said);
    }
    assert!(!std::path::Path::new(&table).exists());
}
