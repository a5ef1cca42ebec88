// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `get PATTERN --follow`: each segment of a running recorder once it is final.

use crate::live::Take;
use crate::support::{Folder, command, json, noise, ok, refused, run, stderr, volume};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const BLOCK: usize = 64 << 10;

fn start(device: &str, words: &[&str], target: &str) -> Child {
    let words = [&["get", device, "take.*", target, "--follow"], words].concat();
    command(&words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Ends it as a service manager does.
fn ended(child: Child) -> Output {
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    child.wait_with_output().unwrap()
}

/// Waits at most a minute until something holds.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "not {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The files of a folder, without those that are being made.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name.starts_with('.') {
            continue;
        }
        // Whoever takes files out of the folder may have this one already.
        if let Ok(data) = std::fs::read(&path) {
            files.insert(name, data);
        }
    }
    files
}

/// The number of the newest segment that is final, as another process sees it.
fn newest(device: &str) -> usize {
    let mut listed = run(&["ls", device, "--json"]);
    // A recorder that has the volume is not heard yet.
    while !listed.status.success() {
        listed = run(&["ls", device, "--json"]);
    }
    let listing: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let files = listing["files"].as_array().into_iter().flatten();
    let finals = files.filter(|file| file["final"] == true);
    let number = |file: &serde_json::Value| {
        let name = file["name"].as_str()?;
        name.strip_prefix("take.")?.parse().ok()
    };
    finals.filter_map(number).max().unwrap_or(0)
}

/// A recorder that goes on until another segment is final; what it recorded is in `source`.
fn another(device: &str, take: &mut Take, source: &mut Vec<u8>, seed: &mut u64) {
    let before = newest(device);
    while newest(device) == before {
        let data = noise(*seed, BLOCK);
        *seed += 1;
        take.write(&data);
        source.extend(data);
    }
}

/// A recorder that has the volume: whoever looks at it, or follows it, has it for a moment.
fn recorder(device: &str, words: &[&str]) -> Take {
    loop {
        let mut take = Take::start(device, words);
        if take.is_recording() {
            return take;
        }
    }
}

const SEGMENTS: [&str; 2] = ["--segment", "256K"];

// partner: Linux | host kernel
#[test]
fn a_pattern_is_followed_past_the_ends_of_recorders_and_is_what_they_recorded() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &["--checksums"]);
    let mut follower = start(&device, &[], "-");
    let mut stream = follower.stdout.take().unwrap();
    let got = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&got);
    let reader = std::thread::spawn(move || {
        let mut part = [0; 1 << 16];
        while let Ok(len @ 1..) = stream.read(&mut part) {
            into.lock().unwrap().extend(&part[..len]);
        }
    });
    let (mut source, mut seed) = (Vec::new(), 1);
    for round in 0..4 {
        // The follower may have the volume for a moment: it looks once after each end.
        let mut take = recorder(&device, &SEGMENTS);
        for _ in 0..2 {
            another(&device, &mut take, &mut source, &mut seed);
        }
        if round % 2 == 0 {
            take.end();
        } else {
            // All that it acknowledged is on the volume.
            take.kill();
        }
    }
    let stored = || run(&["cat", &device, "take.*"]).stdout;
    until("stored", || stored().len() == source.len());
    // The next recorder has those of the last one.
    let mut take = recorder(&device, &SEGMENTS);
    let whole = source.len();
    another(&device, &mut take, &mut source, &mut seed);
    until("delivered", || got.lock().unwrap().len() > whole);
    // The next one is final only with the recorder's end.
    let mut once = start(&device, &["--once"], &folder.path("once"));
    take.end();
    assert!(once.wait().unwrap().success());
    let taken: usize = files(&folder.0.join("once")).values().map(Vec::len).sum();
    assert_eq!(taken, source.len());
    let output = ended(follower);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    reader.join().unwrap();
    assert!(source.starts_with(&got.lock().unwrap()), "{said}");
}

#[test]
fn a_follower_goes_on_where_it_stopped_although_others_take_its_files() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let (to, state) = (folder.path("to"), folder.path("state"));
    let words = ["--state", &state, "--json"];
    let ring = ["--segment", "256K", "--keep", "2M"];
    let mut take = recorder(&device, &ring);
    let (mut source, mut seed) = (Vec::new(), 1);
    let mut moved = BTreeMap::new();
    let mut take_out = || {
        for (name, data) in files(Path::new(&to)) {
            std::fs::remove_file(Path::new(&to).join(&name)).unwrap();
            assert!(moved.insert(name, data).is_none(), "fetched twice");
        }
        moved.len()
    };
    another(&device, &mut take, &mut source, &mut seed);
    let mut lines = String::new();
    for _ in 0..3 {
        let follower = start(&device, &words, &to);
        for _ in 0..4 {
            another(&device, &mut take, &mut source, &mut seed);
            let count = newest(&device);
            until("fetched", || take_out() == count);
        }
        let output = ended(follower);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        lines += &String::from_utf8(output.stdout).unwrap();
    }
    // Each line is of a file.
    let names = lines.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["growing"], false);
        line["name"].as_str().unwrap().to_owned()
    });
    let names: Vec<String> = names.collect();
    let numbers = 1..=names.len();
    let expected: Vec<String> = numbers.map(|number| format!("take.{number:06}")).collect();
    assert_eq!(names, expected);
    let begin: u64 = lines
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|line| line["length_bytes"].as_u64().unwrap())
        .sum();
    let begin = begin as usize;
    let refused_state = |words: &[&str], code, what: &str| {
        let words = [&["get", &device, "take.*"], words, &["--follow"]].concat();
        refused(&words, code, what);
    };
    refused_state(&["-", "--state", &state], 2, "--state is for files");
    refused_state(&["-", "--json"], 2, "--json");
    refused_state(&[&state], 2, "is not a folder");
    refused_state(&[&to, "--offset", "1"], 2, "for one file");
    refused_state(&["s3://bucket/there"], 2, "is an address");
    let one = ["get", &device, "take.000009", &to, "--follow"];
    for words in [["--once"].as_slice(), &["--state", &state]] {
        refused(&[&one[..], words].concat(), 2, "is for a pattern");
    }
    // The ring goes on without it, and removes what it has not fetched.
    for _ in 0..20 {
        another(&device, &mut take, &mut source, &mut seed);
    }
    take.end();
    let rest = [
        &["get", &device, "take.*", &to, "--follow", "--once"],
        &words[..],
    ]
    .concat();
    let output = run(&rest);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(7), "{said}");
    let first = format!("`take.{:06}` to `take.", names.len() + 1);
    assert!(
        said.contains(&first) && said.contains("removed before being fetched"),
        "{said}"
    );
    take_out();
    let fetched: Vec<u8> = moved.into_values().flatten().collect();
    // A busy machine makes some segments longer than they shall be.
    assert!(fetched.starts_with(&source[..begin]));
    assert!(source.ends_with(&fetched[begin..]) && fetched.len() < source.len());
    // Nothing is left to fetch, and what is missing was said.
    let output = run(&rest);
    assert_eq!((output.status.code(), output.stdout), (Some(0), Vec::new()));
    let other = volume(&folder, "other", &[]);
    refused(
        &["get", &other, "take.*", &to, "--follow", "--state", &state],
        2,
        "is the state of another volume",
    );
}

#[test]
fn the_folder_is_the_state_and_what_differs_is_left_and_named() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let mut take = recorder(&device, &SEGMENTS);
    let (mut source, mut seed) = (Vec::new(), 1);
    another(&device, &mut take, &mut source, &mut seed);
    another(&device, &mut take, &mut source, &mut seed);
    take.end();
    let to = folder.0.join("to");
    let fetch = |words: &[&str]| {
        let to = to.to_str().unwrap();
        let follow = ["get", &device, "take.*", to, "--follow", "--once", "--json"];
        run(&[&follow[..], words].concat())
    };
    let names = |output: &Output| {
        let lines = String::from_utf8(output.stdout.clone()).unwrap();
        let names = lines.lines().map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["name"].as_str().unwrap().to_owned()
        });
        names.collect::<Vec<_>>()
    };
    let all = fetch(&[]);
    assert!(
        all.status.success() && names(&all).len() == 3,
        "{}",
        stderr(&all)
    );
    assert!(
        files(&to)
            .into_values()
            .flatten()
            .eq(source.iter().copied())
    );
    assert_eq!(names(&fetch(&[])), [""; 0]);
    // Another file of that name, and one that was removed.
    std::fs::write(to.join("take.000001"), "mine").unwrap();
    std::fs::remove_file(to.join("take.000003")).unwrap();
    let again = fetch(&[]);
    let said = stderr(&again);
    assert_eq!(again.status.code(), Some(9), "{said}");
    assert!(said.contains("take.000001 exists"), "{said}");
    assert_eq!(names(&again), ["take.000003"]);
    assert_eq!(std::fs::read(to.join("take.000001")).unwrap(), b"mine");
    assert_eq!(names(&fetch(&["--force"])).len(), 3);
    assert!(
        files(&to)
            .into_values()
            .flatten()
            .eq(source.iter().copied())
    );
}

/// What a recorder that was killed had made ahead, and what it has not committed, are not files.
/// It waits on a volume without files and does not run while a ring begins.
#[test]
fn what_a_ring_removes_before_a_waiting_follower_runs_again_is_named() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let target = folder.path("target");
    let mut follower = start(&device, &[], &target);
    let mut said = BufReader::new(follower.stderr.take().unwrap());
    let mut text = String::new();
    while !text.contains("waits for one") {
        assert_ne!(said.read_line(&mut text).unwrap(), 0, "{text}");
    }
    let pid = Pid::from_child(&follower);
    kill_process(pid, Signal::STOP).unwrap();
    let words = [&SEGMENTS[..], &["--keep", "1M"]].concat();
    let mut take = recorder(&device, &words);
    let (mut source, mut seed) = (Vec::new(), 5);
    while newest(&device) < 8 {
        another(&device, &mut take, &mut source, &mut seed);
    }
    kill_process(pid, Signal::CONT).unwrap();
    while !text.contains("fetched `") {
        assert_ne!(said.read_line(&mut text).unwrap(), 0, "{text}");
    }
    take.end();
    kill_process(pid, Signal::TERM).unwrap();
    said.read_to_string(&mut text).unwrap();
    assert_eq!(follower.wait().unwrap().code(), Some(7), "{text}");
    let named = "`take.000001` to `take.";
    assert!(
        text.contains(named) && text.contains("removed before"),
        "{text}"
    );
    assert!(!files(Path::new(&target)).contains_key("take.000001"));
}

#[test]
fn nothing_is_fetched_as_a_file_of_no_bytes() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let mut take = recorder(&device, &SEGMENTS);
    let (mut source, mut seed) = (Vec::new(), 1);
    another(&device, &mut take, &mut source, &mut seed);
    // Up to the segment that is made ahead.
    let unfinished = loop {
        let listing = json(&["ls", &device, "--json"]);
        let files = listing["files"].as_array().unwrap();
        let empty = files.iter().find(|file| file["size_bytes"] == 0);
        if let Some(empty) = empty {
            break empty["name"].as_str().unwrap().to_owned();
        }
        let data = noise(seed, BLOCK);
        seed += 1;
        take.write(&data);
        source.extend(data);
    };
    let long = ok(&["ls", "-l", &device]);
    let line = |name: &str| {
        let mut lines = long.lines();
        lines.find(|line| line.ends_with(name)).unwrap().to_owned()
    };
    assert!(line(&unfinished).contains("-* take"), "{long}");
    assert!(line("take.000001").contains("- take"), "{long}");
    let to = folder.path("to");
    let nothing = "is committed yet";
    refused(
        &["get", &device, &unfinished, &folder.path("one")],
        10,
        nothing,
    );
    refused(
        &["get", &device, &unfinished, "take.000001", &to],
        10,
        nothing,
    );
    assert!(!Path::new(&folder.path("one")).exists());
    std::fs::remove_dir_all(&to).unwrap();
    // A pattern takes what is final, unless it is to take the rest too.
    let finals = run(&["cat", &device, "take.*"]);
    assert!(
        stderr(&finals).contains("being written: `take."),
        "{}",
        stderr(&finals)
    );
    let listing = json(&["ls", &device, "--json"]);
    let listed = listing["files"].as_array().unwrap().iter();
    let finals_bytes = listed
        .filter(|file| file["final"] == true)
        .map(|file| file["size_bytes"].as_u64().unwrap())
        .sum::<u64>();
    assert!(finals_bytes > 0 && finals.stdout == source[..finals_bytes as usize]);
    let all = run(&["cat", &device, "take.*", "--partial"]);
    assert!(all.stdout == source);
    let (file, long) = (folder.path("export"), folder.path("long"));
    let report = json(&["export", &device, "take.*", &file, "--json"]);
    assert_eq!(report["length_bytes"], finals_bytes);
    let partial = ["export", &device, "take.*", &long, "--json", "--partial"];
    assert_eq!(json(&partial)["length_bytes"], source.len());
    let pattern = format!("[t]{}", &unfinished[1..]);
    for words in [
        &["cat", &device, &pattern][..],
        &["get", &device, &pattern, &to],
        &["export", &device, &pattern, &folder.path("none")],
    ] {
        refused(words, 10, "being written: `take.");
    }
    let partial = run(&["get", &device, "take.*", &to, "--partial"]);
    assert!(partial.status.success(), "{}", stderr(&partial));
    assert!(files(Path::new(&to)).into_values().flatten().eq(source));
    std::fs::remove_dir_all(&to).unwrap();
    take.kill();
    let listing = json(&["ls", &device, &unfinished, "--json"]);
    assert_eq!(listing["files"][0]["size_bytes"], 0);
    let fetched = run(&["get", &device, "take.*", &to]);
    let said = stderr(&fetched);
    assert!(fetched.status.success(), "{said}");
    let what = format!("without data, as its recorder was killed: `{unfinished}`");
    assert!(said.contains(&what), "{said}");
    assert!(files(Path::new(&to)).values().all(|data| !data.is_empty()));
    refused(&["get", &device, &pattern, &to], 10, "without data");
    refused(&["cat", &device, &pattern], 10, "without data");
}

/// Recorders and followers are killed at random moments: what was fetched is always what was sent.
#[test]
fn what_is_fetched_is_what_was_sent_whoever_is_killed_when() {
    let moments: u64 = match std::env::var("STRAIGHTWAY_BUDGET") {
        Ok(budget) => budget.parse().unwrap_or(50),
        Err(_) => 5,
    };
    let seed = std::env::var("STRAIGHTWAY_SEED").ok();
    let seed: u64 = seed.and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("STRAIGHTWAY_SEED={seed}, {moments} moments");
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let (to, state) = (folder.path("to"), folder.path("state"));
    let words = ["--state", &state];
    let ring = ["--segment", "256K", "--keep", "4M"];
    let begin = || recorder(&device, &ring);
    let mut sent: Vec<u8> = Vec::new();
    let mut moved: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let (mut take, mut follower) = (begin(), start(&device, &words, &to));
    for moment in 0..moments {
        let dice = noise(seed * 1000 + moment, 4);
        for block in 0..1 + u64::from(dice[0] % 12) {
            let data = noise((seed << 32) + (moment << 8) + block, BLOCK);
            take.write(&data);
            sent.extend(data);
        }
        if dice[1] % 2 == 0 {
            follower.kill().unwrap();
            let output = follower.wait_with_output().unwrap();
            assert!(!stderr(&output).contains("warning"), "{}", stderr(&output));
            if dice[2] % 2 == 0 {
                for (name, data) in files(Path::new(&to)) {
                    std::fs::remove_file(Path::new(&to).join(&name)).unwrap();
                    // Fetched again after the kill, at most, and then the same.
                    let before = moved.insert(name, data.clone());
                    assert!(before.is_none_or(|before| before == data));
                }
            }
            follower = start(&device, &words, &to);
        }
        if dice[3] % 3 == 0 {
            take.kill();
            take = begin();
        }
    }
    let data = noise(seed << 48, BLOCK);
    take.write(&data);
    sent.extend(data);
    take.end();
    follower.kill().unwrap();
    follower.wait().unwrap();
    let last = [
        &["get", &device, "take.*", &to, "--follow", "--once"],
        &words[..],
    ]
    .concat();
    let output = run(&last);
    // A ring that was faster than a follower that was killed says so.
    let said = stderr(&output);
    let is_whole = match output.status.code() {
        Some(0) => true,
        status => {
            assert_eq!(status, Some(7), "{said}");
            false
        }
    };
    moved.extend(files(Path::new(&to)));
    let mut at = 0;
    for (name, data) in &moved {
        assert!(!data.is_empty(), "{name}");
        let rest = &sent[at..];
        let found = (0..rest.len())
            .step_by(BLOCK)
            .find(|from| rest[*from..].starts_with(data));
        let from = found.unwrap_or_else(|| panic!("{name} was not sent"));
        assert!(!is_whole || from == 0, "{name} leaves {from} bytes out");
        at += from + data.len();
    }
    assert!(at == sent.len(), "the end is missing");
    println!("{} files of {} bytes", moved.len(), sent.len());
}
