// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What other processes see of a volume on which one records.

use crate::formats::{SAMPLES, mcap};
use crate::support::{Folder, code, command, json, noise, ok, refused, run, stderr, volume};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::channel;

/// A recording from a pipe, whose commits are awaited.
pub struct Take {
    child: Child,
    input: ChildStdin,
    lines: BufReader<std::process::ChildStdout>,
    written: usize,
}

impl Take {
    pub fn start(device: &str, words: &[&str]) -> Self {
        Self::committed(device, "64K", words)
    }

    /// With a commit after each part of this size.
    pub fn committed(device: &str, size: &str, words: &[&str]) -> Self {
        Self::in_blocks(device, "64K", size, words)
    }

    /// The same in blocks of this size.
    pub fn in_blocks(device: &str, block: &str, size: &str, words: &[&str]) -> Self {
        let record = [
            "record",
            device,
            "take",
            "--block",
            block,
            "--commit-bytes",
            size,
        ];
        let mut child = command(&[&record[..], &["--acknowledge"], words].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take().unwrap(),
            lines: BufReader::new(child.stdout.take().unwrap()),
            child,
            written: 0,
        }
    }

    /// The recording's process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends data, and waits until all of it is durable.
    pub fn write(&mut self, data: &[u8]) {
        self.send(data);
        self.wait_durable(self.written);
    }

    /// Sends data.
    pub fn send(&mut self, data: &[u8]) {
        self.input.write_all(data).unwrap();
        self.written += data.len();
    }

    /// Waits until just so many bytes are durable.
    pub fn wait_durable(&mut self, bytes: usize) {
        let wanted = format!("durable {bytes}\n");
        let mut line = String::new();
        while line != wanted {
            line.clear();
            assert!(
                self.lines.read_line(&mut line).unwrap() > 0,
                "it ended before {wanted}"
            );
        }
    }

    /// Whether it has the volume; false: another process had it for this moment, and it has ended.
    pub fn is_recording(&mut self) -> bool {
        let stderr = self.child.stderr.as_mut().unwrap();
        // It says its path once it has the drive, or why it does not; the rest is read at its end.
        let mut line = Vec::new();
        let mut byte = [0];
        while stderr.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
            line.push(byte[0]);
        }
        line.starts_with(b"straightway: path:")
    }

    /// Kills it, and waits until it is gone.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// How it ends.
    pub fn ended(self) -> Output {
        drop(self.input);
        drop(self.lines);
        self.child.wait_with_output().unwrap()
    }

    /// What it says.
    pub fn end(self) -> String {
        let output = self.ended();
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
    }
}

fn follow(device: &str, words: &[&str]) -> Child {
    let mut child = command(&[&["get", device, "take", "-", "--follow"], words].concat());
    child
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn delivered(child: &mut Child, len: usize) -> Vec<u8> {
    let mut data = vec![0; len];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut data)
        .unwrap();
    data
}

fn rest(child: Child) -> Vec<u8> {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    output.stdout
}

/// How often the threads of a process have gone to sleep.
fn sleeps(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |task: std::fs::DirEntry| {
        // One that has ended meanwhile counts no more.
        let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let line = status.lines().find_map(|line| {
            let count = line.strip_prefix("voluntary_ctxt_switches:")?;
            count.trim().parse::<u64>().ok()
        });
        line.unwrap_or(0)
    };
    tasks.map(|task| of(task.unwrap())).sum()
}

// partner: Linux | host kernel
#[test]
fn a_recording_to_which_nothing_comes_sleeps() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let mut take = Take::start(&device, &["--deadline", "1min"]);
    take.write(&noise(1, 64 << 10));
    let pid = take.child.id();
    // A reader that only stays does not keep it awake either.
    let mut follow = command(&["get", &device, "take", "-", "--follow", "--quiet"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 1 << 10];
    follow
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut first)
        .unwrap();
    follow.kill().unwrap();
    follow.wait().unwrap();
    let (began, before) = (std::time::Instant::now(), sleeps(pid));
    std::thread::sleep(std::time::Duration::from_secs(3));
    let (elapsed, woken) = (began.elapsed(), sleeps(pid) - before);
    let most = (elapsed.as_secs_f64() * 20.0) as u64 + 5;
    println!("{woken} times in {elapsed:?}");
    assert!(woken <= most, "{woken} of {most} in {elapsed:?}");
    take.end();
}

#[test]
fn a_file_that_is_being_recorded_is_fetched_with_a_word() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let mut take = Take::start(&device, &[]);
    take.write(&noise(7, 128 << 10));
    let copy = folder.path("copy");
    let fetch = ["get", &device, "take", &copy, "--force"];
    let said = stderr(&run(&fetch));
    let what = "; the file is still being recorded, and this is what was committed: --follow";
    assert!(said.contains(what), "{said}");
    let report = json(&[&fetch[..], &["--json"]].concat());
    assert_eq!(report["growing"], true);
    // Who names a length knows how much there is.
    let report = json(&[&fetch[..], &["--json", "--length", "64K"]].concat());
    assert_eq!(report["growing"], false);
    let into = folder.path("into");
    std::fs::create_dir(&into).unwrap();
    let many = ["get", &device, "take", "take", &into, "--force"];
    let said = stderr(&run(&many));
    let what = "; still being recorded, fetched as far as committed: `take`";
    assert!(said.contains(what), "{said}");
    let report = json(&[&many[..], &["--json"]].concat());
    assert_eq!(report["files"][0]["growing"], true);
    take.end();
    let report = json(&[&fetch[..], &["--json"]].concat());
    assert_eq!(report["growing"], false);
    assert!(!stderr(&run(&fetch)).contains("still"));
}

#[test]
fn others_see_what_is_committed_and_follow_it_to_the_end() {
    let folder = Folder::new();
    for words in [&["--force"][..], &["--force", "--checksums"]] {
        let device = volume(&folder, "disk", words);
        let other = folder.file("other", 70_001);
        ok(&["put", &device, &other]);
        let data = noise(7, 5 << 19);
        let (first, second) = data.split_at(1 << 20);
        let mut take = Take::start(&device, &[]);
        take.write(first);

        assert_eq!(ok(&["ls", &device]), "other\ntake\n");
        let stat = json(&["stat", &device, "take", "--json"]);
        assert_eq!(stat["file"]["size_bytes"], 1 << 20);
        assert!(stat["file"]["extents"].as_u64().unwrap() >= 1, "{stat}");
        let space = json(&["df", &device, "--json"]);
        assert_eq!(space["volumes"][0]["files"], 2);
        let copy = folder.path("copy");
        let report = json(&["get", &device, "take", &copy, "--json", "--force"]);
        assert_eq!(report["verified"], words.len() == 2);
        assert!(std::fs::read(&copy).unwrap() == first);
        let part = [
            "get", &device, "take", "-", "--offset", "70001", "--length", "70002",
        ];
        assert!(run(&part).stdout == first[70_001..140_003]);
        assert!(run(&["get", &device, "other", "-"]).stdout == std::fs::read(&other).unwrap());

        refused(&["get", &device, "none", "-"], 10, "none");
        refused(&["stat", &device, "none"], 10, "none");
        refused(
            &["get", &device, "take", "-", "--offset", "2M"],
            2,
            "1048576",
        );
        refused(
            &["get", &device, "take", "-", "--follow", "--length", "1"],
            2,
            "--length",
        );
        refused(
            &["get", &device, "take", &device, "--force"],
            2,
            "the source itself",
        );
        refused(&["put", &device, &other, "more"], 3, "in use");

        let mut follower = follow(&device, &[]);
        let from = follow(&device, &["--offset", "1M"]);
        assert!(delivered(&mut follower, 1 << 20) == first);
        take.write(second);
        assert!(delivered(&mut follower, second.len()) == second);
        take.end();
        assert_eq!(rest(follower), b"");
        assert!(rest(from) == second);
        assert!(
            rest(follow(&device, &[])) == data,
            "of a file that is complete"
        );
        assert_eq!(code(&["--quiet", "check", &device]), 0);
    }
}

#[test]
fn what_a_killed_recording_had_committed_is_delivered_and_its_end_is_told() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let data = noise(8, 1 << 20);
    let mut take = Take::start(&device, &[]);
    take.write(&data);
    let mut follower = follow(&device, &[]);
    assert!(delivered(&mut follower, data.len()) == data);
    let copy = folder.path("copy");
    let to_file = ["get", &device, "take", &copy, "--follow", "--json"];
    let mut to_file = command(&to_file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut path = [0; b"straightway: path: the recording's process".len()];
    let read = to_file.stderr.as_mut().unwrap().read_exact(&mut path);
    read.unwrap();
    assert!(path.ends_with(b"the recording's process"));
    take.child.kill().unwrap();
    for (follower, rest) in [(follower, 0), (to_file, data.len())] {
        let output = follower.wait_with_output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("`take` did not end in order"), "{said}");
        match rest {
            0 => assert_eq!(output.stdout, b"", "{said}"),
            // What there is, is there: under its name, and reported.
            _ => assert_eq!(
                serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()["length_bytes"],
                rest
            ),
        }
    }
    assert!(std::fs::read(copy).unwrap() == data);
    let _ = take.child.wait();
    assert!(run(&["get", &device, "take", "-"]).stdout == data);
}

/// A volume that another command has recovered in the meantime is clean; the connection was lost
/// without a last word.
#[test]
fn the_end_of_a_killed_recording_is_told_whoever_comes_next() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let mut take = Take::start(&device, &[]);
    take.write(&noise(8, 1 << 20));
    let mut follower = follow(&device, &[]);
    delivered(&mut follower, 1 << 20);
    let pid = rustix::process::Pid::from_child(&follower);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    take.child.kill().unwrap();
    take.child.wait().unwrap();
    ok(&["put", &device, &folder.file("other", 1000)]);
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    let output = follower.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
}

#[test]
fn a_ring_goes_on_whoever_reads_its_oldest_file() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let ring = [
        "record",
        &device,
        "ring",
        "--segment",
        "256K",
        "--keep",
        "1M",
    ];
    let mut child = command(&[&ring[..], &["--block", "64K", "--json"]].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    // It says its path when it has the volume: a reader before that would keep it out.
    let mut said = BufReader::new(child.stderr.take().unwrap());
    said.read_line(&mut String::new()).unwrap();
    let seen = std::thread::scope(|scope| {
        // A segment for each look at the ring: a source of its own pace would outrun the readers of
        // a busy machine, or they it.
        let (segment_wanted, wanted) = channel::<()>();
        scope.spawn(move || {
            let segment = noise(9, 256 << 10);
            // What ends it early is told below.
            while wanted.recv().is_ok() && input.write_all(&segment).is_ok() {}
        });
        let (mut seen, mut has_removed) = (0, false);
        while !(seen > 5 && has_removed) && child.try_wait().unwrap().is_none() {
            let _ = segment_wanted.send(());
            let listed = run(&["ls", &device]);
            let names = String::from_utf8(listed.stdout).unwrap();
            let Some(oldest) = names.lines().next() else {
                continue;
            };
            has_removed |= oldest > "ring.000001";
            let got = run(&["get", &device, oldest, "-"]);
            // The recording may have removed it.
            match got.status.code() {
                Some(0) => seen += 1,
                status => assert_eq!(status, Some(10), "{}", stderr(&got)),
            }
        }
        seen
    });
    let output = child.wait_with_output().unwrap();
    let mut failure = String::new();
    said.read_to_string(&mut failure).unwrap();
    assert!(output.status.success(), "{failure}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let removed = report["removed_segments"].as_u64().unwrap();
    println!("{seen} segments read, {removed} removed");
    assert!(removed > 0, "{report}");
    assert_eq!(code(&["--quiet", "check", &device]), 0);
}

#[test]
fn what_is_committed_is_exported_and_printed_while_the_recording_goes_on() {
    let folder = Folder::new();
    let read = |name: &str| std::fs::read(folder.path(name)).unwrap();
    let messages = mcap(10_000);
    let data = [noise(10, 4 << 20), messages.clone()];
    for (words, whole, format) in [
        (&["--checksums"][..], &data[0], "raw"),
        (&SAMPLES, &data[0], "sigmf"),
        (&["--format", "mcap"], &data[1], "mcap"),
    ] {
        let device = volume(&folder, "disk", &["--force", "--checksums"]);
        let other = folder.file("other", 70_001);
        ok(&["put", &device, &other]);
        let mut take = Take::start(&device, words);
        let committed = &whole[..256 << 10];
        take.write(committed);
        let target = folder.path("out");
        let export = ["export", &device, "take", &target, "--force", "--json"];
        let report = json(&export);
        assert_eq!(
            (&report["format"], &report["length_bytes"]),
            (&format.into(), &committed.len().into())
        );
        assert_eq!(report["verified"], true);
        match format {
            "raw" => assert!(read("out") == committed),
            "sigmf" => assert!(read("out.sigmf-data") == committed),
            _ => assert!(report["mcap"]["messages"].as_u64().unwrap() > 1000),
        }
        let printed = run(&["cat", &device, "other", "take"]);
        assert!(printed.stdout == [&read("other"), committed].concat());
        let several = folder.path("several");
        let fetched = json(&[
            "get", &device, "take", "other", &several, "--force", "--json",
        ]);
        assert_eq!(fetched["path"], "the recording's process");
        assert!(read("several/take") == committed && read("several/other") == read("other"));
        let archive = folder.path("all.tar");
        ok(&["get", &device, "take", &archive, "--tar", "--force"]);
        let unpacked = Command::new("tar")
            .args(["-xOf", &archive, "take"])
            .output();
        assert!(unpacked.unwrap().stdout == committed);
        refused(
            &["get", &device, "none", "other", &several],
            10,
            "nothing was fetched",
        );
        refused(&["cat", &device, "none"], 10, "nothing was printed");
        refused(&["export", &device, "none", &target], 10, "none");
        refused(&export[..export.len() - 2], 9, "exists");
        take.write(&whole[256 << 10..320 << 10]);
        take.end();
        let report = json(&export);
        assert_eq!(report["length_bytes"], 320 << 10);
        assert_eq!(code(&["--quiet", "check", &device]), 0);
    }
}

#[test]
fn what_was_begun_while_recording_is_printed_to_its_end() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &["--checksums"]);
    let data = noise(11, 8 << 20);
    let (first, second) = data.split_at(7 << 20);
    let mut take = Take::start(&device, &[]);
    take.write(first);
    let mut cat = command(&["cat", &device, "take"]);
    let mut cat = cat
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begin = delivered(&mut cat, 1);
    // It has the size of now, and waits for this reader; what follows comes from the volume.
    take.write(second);
    take.end();
    assert!([begin, rest(cat)].concat() == first);
}

#[test]
fn what_is_being_written_is_not_final_and_no_pattern_takes_it() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    ok(&[
        "put",
        &device,
        &folder.file("old", 1000),
        "--name",
        "take.old",
    ]);
    let mut take = Take::start(&device, &["--segment", "256K"]);
    let finals = || {
        let listing = json(&["ls", &device, "--json"]);
        let mut files = [Vec::new(), Vec::new()];
        for file in listing["files"].as_array().unwrap() {
            let name = file["name"].as_str().unwrap().to_owned();
            let size = file["size_bytes"].as_u64().unwrap();
            files[usize::from(file["final"].as_bool().unwrap())].push((name, size));
        }
        files
    };
    // Segments are completed and made beside the recording.
    let (written, complete) = loop {
        take.write(&noise(1, 64 << 10));
        let [written, complete] = finals();
        let has_data = |(_, size): &(String, u64)| *size > 0;
        if complete.len() > 1 && written.iter().any(has_data) {
            break (written, complete);
        }
    };
    let growing = written[0].0.as_str();
    assert_eq!(complete[0].0, "take.000001");
    assert_eq!(complete.last().unwrap(), &("take.old".to_owned(), 1000));
    let stat = |name: &str| json(&["stat", &device, name, "--json"])["file"]["final"].clone();
    assert_eq!(
        (stat("take.000001"), stat(growing)),
        (true.into(), false.into())
    );
    let sizes = |path: &str| -> Vec<(String, u64)> {
        let entries = std::fs::read_dir(folder.path(path))
            .unwrap()
            .map(Result::unwrap);
        let mut sizes: Vec<_> = entries
            .map(|entry| {
                (
                    entry.file_name().into_string().unwrap(),
                    entry.metadata().unwrap().len(),
                )
            })
            .collect();
        sizes.sort();
        sizes
    };
    let done = run(&["get", &device, "take.*", &folder.path("some")]);
    let said = stderr(&done);
    assert!(
        done.status.success() && said.contains(&format!("being written: `{growing}`")),
        "{said}"
    );
    assert_eq!(sizes("some"), complete);
    ok(&["get", &device, "--all", &folder.path("all")]);
    assert_eq!(sizes("all"), complete);
    let tar = run(&["get", &device, "take.*", "-", "--tar"]).stdout;
    let has = |name: &str| tar.windows(name.len()).any(|part| part == name.as_bytes());
    assert!(has("take.000001") && !has(growing));
    // One that is named is fetched as far as it is committed.
    ok(&["get", &device, growing, "take.old", &folder.path("named")]);
    assert_eq!(sizes("named")[0], written[0]);
    let pattern = format!("{growing}*");
    refused(
        &[
            "get",
            &device,
            &format!("[t]{}", &pattern[1..]),
            &folder.path("none"),
        ],
        10,
        "nothing was fetched",
    );
    take.end();
    assert!(finals()[0].is_empty());
}

/// Abstract sockets have no owner, so any user can take the name between two recordings.
#[test]
fn a_stranger_at_the_recording_s_socket_is_named() {
    const STRANGER: &str = "
import os, socket, sys
data = os.stat(sys.argv[1])
digest = 0x6c62272e07bb014262b821756295c58d
for byte in b'file %d:%d' % (data.st_dev, data.st_ino):
    digest = (digest ^ byte) * 0x1000000000000000000013b % 2**128
os.setuid(65534)
listener = socket.socket(socket.AF_UNIX)
listener.bind('\\0straightway/live/' + '%032x' % digest)
listener.listen()
print('up', flush=True)
sys.stdin.read()
";
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    if !rustix::process::getuid().is_root() {
        println!("SKIPPED: only root can be another user");
        return;
    }
    let stranger = Command::new("python3")
        .args(["-c", STRANGER, &device])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut stranger) = stranger else {
        println!("SKIPPED: python3 is not installed");
        return;
    };
    let mut line = String::new();
    BufReader::new(stranger.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "up\n");
    let mut take = Take::start(&device, &[]);
    take.write(&noise(1, 64 << 10));
    let done = run(&["ls", &device]);
    let said = stderr(&done);
    assert_eq!(done.status.code(), Some(3));
    assert!(
        said.contains("is ignored: a process of user 65534 has it"),
        "{said}"
    );
    let said = take.end();
    assert!(
        said.contains("warning: another process has the socket"),
        "{said}"
    );
    drop(stranger.stdin.take());
    stranger.wait().unwrap();
    // Without it.
    assert!(ok(&["ls", &device]).contains("take"));
}
