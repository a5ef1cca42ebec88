// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writers of a volume that conflict with another, are interrupted, or are killed.

use crate::support::{
    Folder, code, command, free_bytes, get, json, names, noise, ok, refused, run, stderr, stdout,
    volume,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

/// A put that has locked the volume and waits for its input.
fn waiting_put(device: &str, words: &[&str]) -> Child {
    let mut child = command(&[&["put", device, "-", "slow"], words].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .as_mut()
        .unwrap()
        .write_all(&noise(2, 3_000_000))
        .unwrap();
    until_it_has_the_device(&mut child);
    child
}

/// It prints its path after it has locked the device.
fn until_it_has_the_device(child: &mut Child) {
    let mut line = String::new();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    said.read_line(&mut line).unwrap();
    assert!(line.contains("path:"), "{line}");
    child.stderr = Some(said.into_inner());
}

#[test]
fn two_processes_never_write_one_volume() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    let small = folder.file("small", 1000);
    let model = format!("model:32M,file={disk}");
    let mut first = waiting_put(&disk, &[]);
    for device in [&disk, &model] {
        let commands: [&[&str]; 6] = [
            &["put", device, &small],
            &["rm", device, "slow"],
            &["mv", device, "slow", "other"],
            &["check", device, "--repair"],
            &["format", device, "--force"],
            &["ls", device],
        ];
        for command in commands {
            refused(command, 3, "(straightway)");
        }
    }
    drop(first.stdin.take());
    assert_eq!(first.wait().unwrap().code(), Some(0));
    assert_eq!(names(&disk), ["slow"]);
    assert!(get(&disk, "slow", &[]) == noise(2, 3_000_000));
}

#[test]
fn an_interrupted_put_leaves_nothing_or_what_was_asked_for() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    let free = free_bytes(&disk);
    for (words, left) in [(&[][..], &[][..]), (&["--keep-partial"][..], &["slow"][..])] {
        let mut child = waiting_put(&disk, words);
        // The first Ctrl-C, which must work although the input is silent.
        interrupt(&child);
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert_eq!(names(&disk), left);
        assert_eq!(code(&["check", &disk]), 0);
    }
    let got = get(&disk, "slow", &[]);
    assert!(got == noise(2, 3_000_000)[..got.len()]);
    ok(&["rm", &disk, "slow"]);
    assert_eq!(free_bytes(&disk), free);
}

pub fn interrupt(child: &Child) {
    send(child, "-INT");
}

fn send(child: &Child, signal: &str) {
    let pid = child.id().to_string();
    let sent = std::process::Command::new("kill")
        .args([signal, &pid])
        .status();
    assert!(sent.unwrap().success());
}

/// As timeout(1) does: to the process and to its group.
#[test]
fn signals_that_come_together_are_one_request() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    let mut child = waiting_put(&disk, &["--keep-partial"]);
    interrupt(&child);
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(names(&disk), ["slow"]);
    assert_eq!(json(&["stat", &disk, "--json"])["volume"]["clean"], true);
}

/// Here it waits for a reader of its text, which the first signal does not interrupt.
#[test]
fn a_second_request_ends_at_once() {
    let mut child = command(&["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output = child.stdout.take().unwrap();
    output.read_exact(&mut [0]).unwrap();
    while child.try_wait().unwrap().is_none() {
        interrupt(&child);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// One signal, to a command whose output has a reader that does not read.
#[test]
fn the_first_request_ends_a_write_that_nobody_reads() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    // More than a pipe or a socket takes.
    ok(&["put", &disk, &folder.file("large", 9 << 20)]);
    let commands: [&[&str]; 5] = [
        &["get", &disk, "large", "-"],
        &["get", &disk, "--all", "--tar", "-"],
        &["cat", &disk, "large"],
        &["play", &disk, "large"],
        &["read", &disk],
    ];
    for words in commands {
        for is_socket in [false, true] {
            let (mut reader, output): (Box<dyn Read>, Stdio) = if is_socket {
                let (reader, writer) = UnixStream::pair().unwrap();
                (Box::new(reader), OwnedFd::from(writer).into())
            } else {
                let (reader, writer) = std::io::pipe().unwrap();
                (Box::new(reader), writer.into())
            };
            let mut child = command(words)
                .stdout(output)
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            // It writes, and there is more than fits.
            reader.read_exact(&mut [0]).unwrap();
            send(&child, "-TERM");
            let status = child.wait().unwrap();
            assert_eq!(status.code(), Some(143), "{words:?}, socket: {is_socket}");
        }
    }
    assert_eq!(code(&["check", &disk]), 0);
}

/// A FIFO that has no other end is waited for like one that is silent.
#[test]
fn the_first_request_ends_the_wait_for_the_other_end_of_a_fifo() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    ok(&["put", &disk, &folder.file("small", 1000)]);
    let fifo = folder.path("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    let commands: [&[&str]; 4] = [
        &["put", &disk, &fifo, "--tar"],
        &["get", &disk, "small", &fifo, "--force"],
        &["play", &disk, "small", "--to", &fifo],
        &["put", &disk, &fifo, "new"],
    ];
    for words in commands {
        let mut child = command(words)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        until_it_has_the_device(&mut child);
        send(&child, "-TERM");
        assert_eq!(child.wait().unwrap().code(), Some(143), "{words:?}");
        assert_eq!(names(&disk), ["small"]);
    }
    // And the other end comes later.
    let mut child = command(&["put", &disk, &fifo, "new"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until_it_has_the_device(&mut child);
    std::fs::write(&fifo, noise(3, 100_000)).unwrap();
    assert!(child.wait().unwrap().success());
    let mut child = command(&["get", &disk, "new", &fifo])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until_it_has_the_device(&mut child);
    assert!(std::fs::read(&fifo).unwrap() == noise(3, 100_000));
    assert!(child.wait().unwrap().success());
}

#[test]
fn what_a_killed_put_left_is_cleared_by_the_next_command() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &["--checksums"]);
    let small = folder.file("small", 1000);
    let free = free_bytes(&disk);
    let mut child = waiting_put(&disk, &["--checksums"]);
    child.kill().unwrap();
    child.wait().unwrap();
    let status = json(&["stat", &disk, "--json"])["volume"].clone();
    assert_eq!(status["files"], u64::from(status["clean"] == false));
    ok(&["put", &disk, &small, "slow", "--force"]);
    assert!(get(&disk, "slow", &[]) == std::fs::read(&small).unwrap());
    ok(&["rm", &disk, "slow"]);
    assert_eq!(free_bytes(&disk), free);
    assert!(ok(&["check", &disk]).starts_with("sound: 0 files"));
}

/// A put or a recording that was killed has reserved more than it wrote.
#[test]
fn what_a_killed_writer_reserved_is_free_again() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    let capacity = free_bytes(&disk);
    let stream = |words: &[&str]| {
        let mut child = command(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child
            .stdin
            .as_mut()
            .unwrap()
            .write_all(&noise(2, 1 << 20))
            .unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        assert!(line.starts_with("durable"), "{line}");
        child.kill().unwrap();
        child.wait().unwrap();
    };
    // 1 MiB of 20 that were announced.
    let record = [
        "record",
        &disk,
        "taken",
        "--size",
        "20M",
        "--commit-ms",
        "1",
        "--acknowledge",
    ];
    stream(&[&record[..], &["--block", "64K"]].concat());
    let killed = free_bytes(&disk);
    assert!(killed <= capacity - (20 << 20), "{killed} of {capacity}");
    // Nothing is wrong: the check reports this, and changes nothing.
    let text = ok(&["check", &disk]);
    assert!(
        text.contains("`taken`:") && text.contains("reserved by a writer that was interrupted"),
        "{text}"
    );
    assert!(
        text.contains("it recovers at the next write") && text.contains("sound"),
        "{text}"
    );
    let checked = json(&["check", &disk, "--json"]);
    assert_eq!(
        (&checked["damages"], &checked["recovers_at_next_write"]),
        (&0.into(), &true.into())
    );
    assert_eq!(free_bytes(&disk), killed);
    // The next command that writes gets the space: 20 MiB in addition to the recording.
    let large = folder.file("large", 20 << 20);
    ok(&["put", &disk, &large, "large"]);
    let taken = json(&["stat", &disk, "taken", "--json"])["file"].clone();
    let (size, allocated) = (&taken["size_bytes"], &taken["allocated_bytes"]);
    assert!(
        size.as_u64().unwrap() >= 65_536 && allocated.as_u64() < Some(2 << 20),
        "{taken}"
    );
    let data = get(&disk, "taken", &[]);
    assert!(data == noise(2, 1 << 20)[..data.len()]);
    let checked = json(&["check", &disk, "--json"]);
    assert_eq!(
        (&checked["harmless"], &checked["recovers_at_next_write"]),
        (&0.into(), &false.into())
    );
}

/// What a killed put leaves is not taken for its file, whatever asks for it.
#[test]
fn the_beginning_that_a_killed_put_left_is_refused_and_named() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    let whole = folder.file("whole", 1000);
    ok(&["put", &disk, &whole]);
    let mut child = waiting_put(&disk, &[]);
    let begun = std::time::Instant::now();
    while !std::fs::read(&disk)
        .unwrap()
        .windows(4)
        .any(|window| window == b"slow")
    {
        assert!(begun.elapsed().as_secs() < 120, "the put has not begun");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(names(&disk), ["slow", "whole"]);
    let (to, out) = (folder.path("to"), folder.path("out.tar"));
    for words in [
        &["get", &disk, "slow", "-"][..],
        &["get", &disk, "slow", &to],
        &["cat", &disk, "whole", "slow"],
        &["cp", &disk, "slow", "copy"],
        &["play", &disk, "slow", "--to", "-"],
        &["export", &disk, "slow", &to],
        &["map", &disk, "slow", "--", "cat", "slow"],
        &["serve", &disk, "slow", "--nbd", "unix:never"],
    ] {
        let output = run(words);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(said.contains("`slow` is not whole"), "{words:?}: {said}");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
    assert!(!folder.0.join("to").exists());
    refused(
        &["get", &disk, "--all", &to],
        1,
        "1 of 2 files are fetched, whole; not fetched: `slow`",
    );
    assert!(folder.0.join("to/whole").exists() && !folder.0.join("to/slow").exists());
    refused(
        &["get", &disk, "--all", &out, "--tar"],
        1,
        "1 of 2 files are in the archive, whole; not whole or not in it: `slow`",
    );
    let stat = json(&["stat", &disk, "slow", "--json"]);
    assert_eq!(stat["file"]["unfinished"], true, "{stat}");
    assert!(ok(&["stat", &disk, "slow"]).contains("a put was interrupted"));
    assert!(ok(&["check", &disk]).contains("`slow`: the beginning of a file"));
    // What there is can be fetched, and the name stored again.
    let size = stat["file"]["size_bytes"].to_string();
    ok(&[
        "get",
        &disk,
        "slow",
        &folder.path("part"),
        "--length",
        &size,
    ]);
    refused(&["put", &disk, &folder.path("part"), "slow"], 9, "--force");
    ok(&["put", &disk, &whole, "slow", "--force"]);
    assert!(get(&disk, "slow", &[]) == std::fs::read(&whole).unwrap());
    assert_eq!(
        json(&["stat", &disk, "slow", "--json"])["file"]["unfinished"],
        false
    );
    assert!(ok(&["check", &disk]).contains("0 harmless findings"));
}

/// What a killed cp leaves is not taken for a copy.
#[test]
fn the_beginning_that_a_killed_cp_left_is_refused_and_named() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk", &[]);
    ok(&["put", &disk, &folder.file("source", 12 << 20), "source"]);
    let has_copy = || {
        let mut tables = vec![0; 2 << 20];
        let mut image = std::fs::File::open(&disk).unwrap();
        image.read_exact(&mut tables).unwrap();
        tables.windows(8).any(|bytes| bytes == b"the-copy")
    };
    // On a slow drive, and a slower one if this machine was too busy to kill it in time.
    for latency_ms in [100, 400, 1600, 6400] {
        let slow = format!("model:32M,file={disk},latency={latency_ms}ms");
        let mut child = command(&["cp", &slow, "source", "the-copy"])
            .spawn()
            .unwrap();
        while !has_copy() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        let is_late = child.try_wait().unwrap().is_some();
        let _ = child.kill();
        child.wait().unwrap();
        if is_late {
            ok(&["rm", &disk, "the-copy"]);
            continue;
        }
        refused(
            &["get", &disk, "the-copy", &folder.path("got")],
            1,
            "is not whole: a put or cp that was killed",
        );
        let output = run(&["check", &disk]);
        assert!(stderr(&output).contains("put or cp") || stdout(&output).contains("put or cp"));
        ok(&["rm", &disk, "the-copy"]);
        ok(&["cp", &disk, "source", "the-copy"]);
        ok(&["get", &disk, "the-copy", &folder.path("got")]);
        return;
    }
    panic!("cp was not killed in time, four times");
}

/// A replacement that is killed leaves NAME.new~ with its reservation; --force starts again.
#[test]
fn a_killed_replacement_is_removed_by_the_next() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &["--checksums"]);
    let small = folder.file("small", 1000);
    ok(&["put", &disk, &small, "slow"]);
    let mut child = waiting_put(&disk, &["--force"]);
    // Until the replacement has its name there.
    let begun = std::time::Instant::now();
    while !std::fs::read(&disk)
        .unwrap()
        .windows(9)
        .any(|window| window == b"slow.new~")
    {
        assert!(
            begun.elapsed().as_secs() < 120,
            "the replacement has not begun"
        );
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(names(&disk).contains(&"slow.new~".to_owned()));
    assert_eq!(code(&["check", &disk]), 0);
    let large = folder.file("large", 25 << 20);
    ok(&["put", &disk, &large, "slow", "--force"]);
    assert_eq!(names(&disk), ["slow"]);
    assert!(get(&disk, "slow", &[]) == std::fs::read(&large).unwrap());
    assert!(ok(&["check", &disk, "--read-data"]).starts_with("sound: 1 file"));
}

#[test]
fn a_wrecked_table_is_a_range() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    let mut image = std::fs::read(&disk).unwrap();
    let data_start = 32 << 20 >> 1;
    image[131_072..data_start].fill(0xee);
    std::fs::write(&disk, &image).unwrap();
    let output = run(&["check", &disk]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("file slots 0 to "), "{text}");
    assert!(text.lines().count() < 10, "{text}");
    let output = run(&["ls", &disk]);
    assert!(
        stderr(&output).contains("cannot be read: file slots 0 to "),
        "{}",
        stderr(&output)
    );
}

/// A terminal's Ctrl-C ends both sides of a pipe: the producer that has written nothing yet, and
/// the put.
#[test]
fn the_end_of_a_stream_that_a_signal_ended_replaces_nothing() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    ok(&["put", &disk, &folder.file("notes", 9000)]);
    let before = get(&disk, "notes", &[]);
    for (signal, status) in [("-INT", 130), ("-TERM", 143), ("-HUP", 129)] {
        for (name, words) in [("notes", &["--force"][..]), ("new", &[])] {
            let mut child = command(&[&["put", &disk, "-", name], words].concat())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            until_it_has_the_device(&mut child);
            send(&child, signal);
            drop(child.stdin.take());
            assert_eq!(
                child.wait().unwrap().code(),
                Some(status),
                "{signal} {name}"
            );
            assert_eq!(names(&disk), ["notes"]);
            assert!(get(&disk, "notes", &[]) == before);
        }
    }
}

/// A source that never pauses: what it had handed over at the signal is recorded, and no more.
#[test]
fn a_recording_of_an_endless_stream_ends_at_a_signal() {
    let folder = Folder::new();
    for (signal, rate) in [("-INT", "1M"), ("-TERM", "20M")] {
        let disk = folder.path("disk.img");
        let _ = std::fs::remove_file(&disk);
        ok(&["format", &disk, "--size", "1G"]);
        let mut endless = Command::new("yes").stdout(Stdio::piped()).spawn().unwrap();
        let mut child = command(&["record", &disk, "r", "--block", "64K", "--rate", rate])
            .stdin(endless.stdout.take().unwrap())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        until_it_has_the_device(&mut child);
        send(&child, signal);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let _ = endless.kill();
        let _ = endless.wait();
        let used = json(&["ls", &disk, "--json"])["files"][0]["size_bytes"].as_u64();
        assert!(used.unwrap() < 1 << 29, "{signal}: {used:?}");
    }
}

#[test]
fn what_a_killed_get_left_is_removed_by_the_next_and_a_living_one_s_is_kept() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    ok(&[
        "put",
        &disk,
        &folder.file("big", 8_000_000),
        "--name",
        "big",
    ]);
    let small = folder.file("small", 1000);
    ok(&["put", &disk, &small, "--name", "small"]);
    let other = folder.path("other.img");
    std::fs::copy(&disk, &other).unwrap();
    let out = folder.path("out");
    std::fs::create_dir(&out).unwrap();
    let unfinished = || -> Vec<String> {
        let entries = std::fs::read_dir(&out).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names
            .filter(|name| name.contains(".straightway-"))
            .collect()
    };
    // A drive that takes minutes for the file.
    let slow = format!("model:32M,file={disk},latency=100ms");
    let to = format!("{out}/big");
    let mut child = command(&[
        "get",
        &slow,
        "big",
        &to,
        "--block-size",
        "4K",
        "--queue-depth",
        "1",
    ])
    .stderr(Stdio::null())
    .spawn()
    .unwrap();
    while unfinished().is_empty() {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::yield_now();
    }
    send(&child, "-STOP");
    let of_child = unfinished();
    assert!(
        of_child[0].starts_with(&format!(".big.straightway-{}-", child.id())),
        "{of_child:?}"
    );
    ok(&["get", &other, "small", &format!("{out}/first")]);
    assert_eq!(unfinished(), of_child, "its process lives");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(unfinished(), of_child);
    ok(&["get", &other, "small", &format!("{out}/second")]);
    assert!(unfinished().is_empty());
    assert!(!std::path::Path::new(&to).exists());
}

#[test]
fn a_signal_before_the_first_byte_of_an_archive_is_an_interruption() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    let mut child = command(&["put", &disk, "-", "--tar"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until_it_has_the_device(&mut child);
    interrupt(&child);
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(names(&disk).is_empty());
}

/// The runtime opens /dev/null in place of what is closed: an empty input, and an output that takes
/// everything.
#[test]
fn what_is_closed_is_not_empty() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    ok(&["put", &disk, &folder.file("notes", 9000)]);
    let shell = |words: &str| {
        let script = format!("exec \"$0\" {words}");
        let done = std::process::Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_straightway"), &disk])
            .output()
            .unwrap();
        (done.status.code(), stderr(&done))
    };
    for (words, stream) in [
        ("put \"$1\" - notes --force <&-", "standard input"),
        ("put \"$1\" - new <&-", "standard input"),
        ("put \"$1\" - --tar <&-", "standard input"),
        ("record \"$1\" new <&-", "standard input"),
        ("get \"$1\" notes - >&-", "standard output"),
        ("cat \"$1\" notes >&-", "standard output"),
    ] {
        let (code, said) = shell(words);
        assert_eq!(code, Some(1), "{words}: {said}");
        assert!(
            said.contains(stream) && said.contains("Bad file descriptor"),
            "{words}: {said}"
        );
        assert_eq!(names(&disk), ["notes"]);
        assert_eq!(get(&disk, "notes", &[]).len(), 9000);
    }
    // One that is empty is.
    assert_eq!(shell("put \"$1\" - notes --force </dev/null").0, Some(0));
    assert_eq!(shell("get \"$1\" notes - >/dev/null").0, Some(0));
    assert!(get(&disk, "notes", &[]).is_empty());
}

/// As of GNU's commands (close_stdout of gnulib): what is not delivered is an error, whatever it
/// is.
#[test]
fn a_result_that_standard_output_does_not_take_is_an_error() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    ok(&["put", &disk, &folder.file("notes", 9000)]);
    let shell = |words: &str| {
        let script = format!("exec \"$0\" {words}");
        let done = std::process::Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_straightway"), &disk])
            .output()
            .unwrap();
        (done.status.code(), stderr(&done))
    };
    let mut outputs = vec![
        (">&-", "Bad file descriptor", 1),
        ("1</dev/null", "Bad file descriptor", 1),
    ];
    if std::path::Path::new("/dev/full").exists() {
        outputs.push((">/dev/full", "No space left on device", 8))
    } else {
        println!("SKIPPED: this machine has no /dev/full")
    }
    for (output, why, status) in outputs {
        for words in [
            "ls \"$1\"",
            "ls \"$1\" --json",
            "stat \"$1\"",
            "stat \"$1\" notes --json",
            "df \"$1\"",
            "check \"$1\"",
            "check \"$1\" --json",
            "label \"$1\"",
            "list --json",
            "info model:64M",
            "schema ls",
            "completions bash",
            "man",
            "help",
            "help ls",
            "get \"$1\" notes -",
            "cat \"$1\" notes",
            "play \"$1\" notes",
            "get \"$1\" --all - --tar",
            "--help",
            "ls --help",
            "--version",
        ] {
            let (code, said) = shell(&format!("{words} {output}"));
            assert_eq!(code, Some(status), "{words} {output}: {said}");
            assert!(
                said.contains("writing to standard output: ") && said.contains(why),
                "{words} {output}: {said}"
            );
        }
        // Nothing is lost of what prints nothing.
        let (code, said) = shell(&format!("check \"$1\" --quiet {output}"));
        assert_eq!(code, Some(0), "{output}: {said}");
    }
    // A reader that has enough is no error: `| head -1`.
    let mut child = command(&["ls", &disk])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success() && !stderr(&done).contains("standard output"));
}

/// Runs the command with a standard output whose reader has ended.
fn unread(words: &[&str]) -> std::process::Output {
    let mut child = command(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    child.wait_with_output().unwrap()
}

/// Of data, unlike of text, the end matters: as where SIGPIPE ends a program.
#[test]
fn data_whose_reader_has_ended_are_not_delivered() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    for name in ["a", "b"] {
        ok(&["put", &disk, &folder.file(name, 1 << 20)]);
    }
    for words in [
        &["get", &disk, "a", "-"][..],
        &["cat", &disk, "a", "b"],
        &["play", &disk, "a"],
        &["get", &disk, "--all", "-", "--tar"],
        &["get", &disk, "a", "b", "-", "--tar"],
    ] {
        let output = unread(words);
        assert_eq!(output.status.code(), Some(141), "{words:?}");
        assert!(!stderr(&output).contains("standard output"), "{words:?}");
    }
}

#[test]
fn a_result_whose_reader_has_ended_leaves_the_verb_its_status() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &["--checksums"]);
    ok(&["put", &disk, &folder.file("a", 64 << 10)]);
    let mut bytes = std::fs::read(folder.path("disk.img")).unwrap();
    let data = std::fs::read(folder.path("a")).unwrap();
    let at = bytes
        .windows(512)
        .position(|part| part == &data[..512])
        .unwrap();
    bytes[at] ^= 1;
    std::fs::write(folder.path("disk.img"), bytes).unwrap();
    for words in [
        &["check", &disk, "--read-data"][..],
        &["check", &disk, "--read-data", "--json"],
    ] {
        let alone = code(words);
        assert!(alone != 0, "{words:?}");
        assert_eq!(unread(words).status.code(), Some(alone), "{words:?}");
    }
    // A recording continues when its acknowledgements are not read.
    let words = [
        "record",
        &disk,
        "r",
        "--from",
        "pattern",
        "--rate",
        "20M",
        "--block",
        "64K",
        "--size",
        "2M",
        "--commit-bytes",
        "256K",
        "--acknowledge",
    ];
    assert_eq!(unread(&words).status.code(), Some(0));
    assert_eq!(get(&disk, "r", &[]).len(), 2 << 20);
}
