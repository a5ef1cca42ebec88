// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `record` and `play` as a user runs them, on files.

use crate::support::{
    Folder, code, command, end_of_pattern, json, run, run_with_input, schema_names_all_keys,
    stderr, stdout,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Stdio};

const LATE: i32 = 7;

fn volume(folder: &Folder, words: &[&str]) -> String {
    let device = format!("file:{}", folder.path("disk"));
    let format = [&["--quiet", "format", &device, "--size", "64M"], words].concat();
    assert_eq!(code(&format), 0);
    device
}

fn get(device: &str, name: &str, folder: &Folder) -> Vec<u8> {
    let copy = folder.path("copy");
    assert_eq!(
        code(&["--quiet", "play", device, name, "--to", &copy, "--force"]),
        0
    );
    std::fs::read(copy).unwrap()
}

/// A port that is free now.
fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

fn start(words: &[&str]) -> Child {
    let mut command = command(words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn connect(port: u16, child: &mut Child) -> TcpStream {
    loop {
        if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
            return stream;
        }
        assert_eq!(child.try_wait().unwrap(), None, "it ended");
        std::thread::yield_now();
    }
}

#[test]
fn a_pattern_is_recorded_at_its_rate_and_played_back() {
    let folder = Folder::new();
    for words in [&[][..], &["--checksums"]] {
        let device = volume(&folder, &[words, &["--force"]].concat());
        let record = [
            &[
                "record", &device, "take", "--from", "pattern", "--rate", "20M", "--for", "500ms",
            ],
            &[
                "--block",
                "64K",
                "--buffers",
                "256",
                "--deadline",
                "10s",
                "--commit-bytes",
                "1M",
                "--json",
            ][..],
            words,
        ]
        .concat();
        let report = json(&record);
        assert_eq!(report["length_bytes"], 10 << 20);
        assert_eq!(report["ended_by"], "length");
        assert_eq!(
            (&report["misses"], &report["lost_blocks"]),
            (&0.into(), &0.into())
        );
        // One at the end at least: on a slow disk several become one.
        assert!(report["commits"].as_u64().unwrap() >= 1, "{report}");
        let elapsed_us = report["elapsed_us"].as_u64().unwrap();
        assert!(elapsed_us >= 500_000, "{elapsed_us}");
        schema_names_all_keys(&report, &stdout(&run(&["schema", "record"])));

        let play = [
            "play",
            &device,
            "take",
            "--to",
            "pattern",
            "--rate",
            "40M",
            "--deadline",
            "10s",
            "--json",
        ];
        let report = json(&play);
        assert_eq!(
            (&report["length_bytes"], &report["misses"]),
            (&(10 << 20).into(), &0.into())
        );
        let verified = if words.is_empty() { 0 } else { 10 << 20 };
        assert_eq!(report["verified_bytes"], verified);
        assert!(report["elapsed_us"].as_u64().unwrap() >= 200_000);
        schema_names_all_keys(&report, &stdout(&run(&["schema", "play"])));
        assert_eq!(code(&["--quiet", "check", &device]), 0);
    }
}

#[test]
fn standard_input_and_files_of_any_length() {
    let folder = Folder::new();
    let device = volume(&folder, &[]);
    let data = std::fs::read(folder.file("data", 3_000_001)).unwrap();
    let output = run_with_input(
        &[
            "record",
            &device,
            "a",
            "--acknowledge",
            "--commit-bytes",
            "1M",
        ],
        &data,
    );
    assert!(stdout(&output).ends_with("durable 3000001\n"));
    assert_eq!(get(&device, "a", &folder), data);
    let record = [
        "record",
        &device,
        "b",
        "--from",
        &folder.path("data"),
        "--rate",
        "20M",
        "--block",
        "16K",
        "--buffers",
        "512",
        "--deadline",
        "10s",
    ];
    assert_eq!(code(&record), 0);
    assert_eq!(get(&device, "b", &folder), data);
    let size = ["record", &device, "c", "--size", "12345"];
    assert!(run_with_input(&size, &data).status.success());
    assert_eq!(get(&device, "c", &folder), data[..12_345]);
    // Like a FIFO, at its writer's pace.
    let fifo = folder.path("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
    let child = start(&["record", &device, "e", "--from", &fifo]);
    std::fs::write(&fifo, &data).unwrap();
    assert_eq!(ended(child), Some(0));
    assert_eq!(get(&device, "e", &folder), data);
}

#[test]
fn a_sender_that_leaves_comes_again() {
    let folder = Folder::new();
    let device = volume(&folder, &[]);
    let port = port();
    let from = format!("tcp://127.0.0.1:{port}");
    let mut child = start(&["record", &device, "a", "--from", &from, "--size", "300K"]);
    let mut sent = Vec::new();
    for turn in 0..3_u8 {
        let data = vec![turn; 100 << 10];
        let mut sender = connect(port, &mut child);
        sender.write_all(&data).unwrap();
        sent.extend_from_slice(&data);
    }
    let output = child.wait_with_output().unwrap();
    let says = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{says}");
    assert!(get(&device, "a", &folder) == sent);
}

#[test]
fn a_loss_is_said_while_the_recording_goes_on() {
    let folder = Folder::new();
    let drive = format!("model:64M,file={},latency=40ms", folder.path("disk"));
    volume(&folder, &[]);
    let words = [
        "record", &drive, "a", "--from", "pattern", "--rate", "20M", "--policy", "drop",
    ];
    let options = ["--block", "64K", "--buffers", "2"];
    let mut child = start(&[&words[..], &options].concat());
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    // It comes while the recording goes on: only then it is ended.
    let found = lines.find(|line| line.as_ref().unwrap().contains("so far"));
    assert!(found.unwrap().unwrap().contains("LOST"));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    lines.for_each(drop);
    assert_eq!(child.wait().unwrap().code(), Some(7));
}

// systemd.exec(5): a service has the variable SYSTEMD_EXEC_PID.
#[test]
fn a_service_is_not_ended_by_sighup() {
    use rustix::process::{Pid, Signal, kill_process};
    let folder = Folder::new();
    let device = volume(&folder, &[]);
    let port = port();
    let from = format!("tcp://127.0.0.1:{port}");
    let words = ["record", &device, "a", "--from", &from];
    for (variable, ends) in [("SYSTEMD_EXEC_PID=$$", false), ("SYSTEMD_EXEC_PID=1", true)] {
        let plain = command(&words);
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &format!("{variable} exec \"$0\" \"$@\"")]);
        shell.arg(plain.get_program()).args(plain.get_args());
        let mut child = shell.stderr(std::process::Stdio::piped()).spawn().unwrap();
        let mut sender = connect(port, &mut child);
        let pid = Pid::from_child(&child);
        kill_process(pid, Signal::HUP).unwrap();
        if !ends {
            // It reads on, also behind a moment without data: more than the kernel's buffers hold.
            sender.write_all(&vec![7; 16 << 20]).unwrap();
            drop(sender);
            sender = connect(port, &mut child);
            sender.write_all(&vec![7; 16 << 20]).unwrap();
            kill_process(pid, Signal::TERM).unwrap();
        }
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(0),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        // Nothing was stored where nothing had come.
        let stored = code(&["--quiet", "rm", &device, "a"]);
        assert_eq!(stored, if ends { 10 } else { 0 });
    }
}

#[test]
fn a_network_source_and_a_network_sink() {
    let folder = Folder::new();
    let device = volume(&folder, &[]);
    let data = std::fs::read(folder.file("data", 2_500_000)).unwrap();
    let port = port();
    let from = format!("tcp://127.0.0.1:{port}");
    let mut child = start(&["record", &device, "a", "--from", &from, "--once"]);
    connect(port, &mut child).write_all(&data).unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    assert_eq!(get(&device, "a", &folder), data);

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("tcp://{}", listener.local_addr().unwrap());
    let child = start(&["play", &device, "a", "--to", &to]);
    let mut got = Vec::new();
    listener.accept().unwrap().0.read_to_end(&mut got).unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    assert_eq!(got, data);

    // Small enough for the kernel's buffer, so that nothing is lost on the way.
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let limit = std::time::Duration::from_secs(30);
    receiver.set_read_timeout(Some(limit)).unwrap();
    let address = receiver.local_addr().unwrap();
    let from = format!(
        "udp://127.0.0.1:{}",
        UdpSocket::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port()
    );
    let mut child = start(&[
        "record",
        &device,
        "b",
        "--from",
        &from,
        "--size",
        "20K",
        "--block",
        "4K",
        "--buffers",
        "64",
        "--json",
    ]);
    // There is no receiver at first, and the send after one without a receiver is refused. The rest
    // fits into the kernel's buffer for a listener that is late.
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.connect(from.trim_start_matches("udp://")).unwrap();
    let mut accepted = 0;
    while accepted < 25 && child.try_wait().unwrap().is_none() {
        match sender.send(&[7; 1_000]) {
            Ok(_) => accepted += 1,
            Err(_) => accepted = 0,
        }
        std::thread::yield_now();
    }
    let output = child.wait_with_output().unwrap();
    assert_ne!(output.status.code(), Some(2), "{}", stderr(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        report["length_bytes"],
        20 << 10,
        "{report}: {}",
        stderr(&output)
    );
    assert!(get(&device, "b", &folder).iter().all(|byte| *byte == 7));

    let mut child = start(&[
        "play",
        &device,
        "b",
        "--to",
        &format!("udp://{address}"),
        "--rate",
        "10M",
    ]);
    let mut datagram = [0; 2_048];
    let mut bytes = 0;
    while bytes < 20 << 10 {
        bytes += receiver.recv(&mut datagram).unwrap();
    }
    assert!(child.wait().unwrap().success());
}

#[test]
fn ctrl_c_ends_a_recording_in_good_order() {
    let folder = Folder::new();
    let device = volume(&folder, &[]);
    let record = [
        "record", &device, "a", "--from", "pattern", "--rate", "5M", "--for", "10s",
    ];
    let more = [
        "--block",
        "32K",
        "--buffers",
        "256",
        "--commit-interval",
        "20ms",
        "--deadline",
        "10s",
        "--acknowledge",
    ];
    let mut child = start(&[&record[..], &more].concat());
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    for _ in 0..3 {
        assert!(lines.next().unwrap().unwrap().starts_with("durable "));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let last = lines.map_while(Result::ok).last();
    assert!(child.wait().unwrap().success());
    let played = json(&["play", &device, "a", "--to", "pattern", "--json"]);
    let size = played["length_bytes"].as_u64().unwrap();
    assert!(size > 0 && last.is_none_or(|last| last == format!("durable {size}")));
    assert_eq!(code(&["--quiet", "check", &device]), 0);
}

#[test]
fn a_missed_deadline_has_its_exit_code() {
    let folder = Folder::new();
    let device = volume(&folder, &[]);
    let record = [
        "record", &device, "a", "--from", "pattern", "--rate", "50M", "--size", "4M",
    ];
    let output = run(&[
        &record[..],
        &["--block", "64K", "--buffers", "64", "--deadline", "0ns"],
    ]
    .concat());
    assert_eq!(output.status.code(), Some(LATE), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("64 DEADLINES MISSED"),
        "{}",
        stderr(&output)
    );
    let play = [
        "play",
        &device,
        "a",
        "--to",
        "null",
        "--rate",
        "50M",
        "--deadline",
        "0ns",
    ];
    assert_eq!(code(&play), LATE);
}

#[test]
fn what_a_drive_cannot_take_ends_the_recording_or_is_named() {
    let folder = Folder::new();
    volume(&folder, &[]);
    // The source has a terabyte per second; the drive takes 20 ms for each block, however busy the
    // machine is.
    let path = folder.path("disk");
    let device = format!("model:64MiB,file={path},latency=20ms");
    let record = [
        "record",
        &device,
        "a",
        "--from",
        "pattern",
        "--rate",
        "1T",
        "--size",
        "40M",
        "--block",
        "64K",
        "--buffers",
        "2",
    ];
    let output = run(&record);
    assert_eq!(output.status.code(), Some(LATE), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("the drive did not keep up: at offset"),
        "{}",
        stderr(&output)
    );

    let mut drop = record.to_vec();
    drop[2] = "b";
    drop.extend(["--policy", "drop", "--json"]);
    let output = run(&drop);
    assert_eq!(output.status.code(), Some(LATE), "{}", stderr(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let lost = report["lost_bytes"].as_u64().unwrap();
    assert_eq!(report["length_bytes"].as_u64().unwrap() + lost, 40 << 20);
    // Each word encodes its own offset: the gaps are exactly those listed in the companion.
    let data = get(&device, "b", &folder);
    let lines = get(&device, "b.gaps", &folder);
    let end = end_of_pattern(&data, &lines, 0);
    let named = end - data.len() as u64;
    assert_eq!(named, lost);
    assert!(stderr(&run(&["play", &device, "b", "--to", "null"])).contains("has gaps"));
}

#[test]
fn bad_input_is_refused_and_records_nothing() {
    let folder = Folder::new();
    let device = volume(&folder, &[]);
    let blank = folder.file("blank", 1 << 20);
    let refused = |words: &[&str], exit: i32, says: &str| {
        let output = run(words);
        assert_eq!(
            output.status.code(),
            Some(exit),
            "{words:?}: {}",
            stderr(&output)
        );
        assert!(
            stderr(&output).contains(says),
            "{words:?}: {}",
            stderr(&output)
        );
    };
    // A deadline that even a busy machine meets: this test is not about deadlines.
    let pattern = [
        "--from",
        "pattern",
        "--rate",
        "1M",
        "--for",
        "1s",
        "--deadline",
        "1min",
        "--buffers",
        "64",
    ];
    let record =
        |device: &str, name: &str| run(&[&["record", device, name][..], &pattern].concat());
    let output = record(&format!("file:{blank}"), "a");
    assert_eq!(output.status.code(), Some(3));
    assert!(
        stderr(&output).contains("straightway format"),
        "{}",
        stderr(&output)
    );
    assert_eq!(record(&device, "").status.code(), Some(2));
    assert_eq!(record(&device, &"x".repeat(256)).status.code(), Some(2));
    refused(&["record", &device, "a", "--from", "pattern"], 2, "--rate");
    refused(&["record", &device, "a", "--from", "http://x"], 2, "udp://");
    refused(&["record", &device, "a", "--block", "1000"], 2, "--block");
    refused(
        &[
            "record",
            &device,
            "a",
            "--from",
            "/nonexistent",
            "--rate",
            "1M",
        ],
        10,
        "/nonexistent",
    );
    refused(
        &["record", &device, "a", "--checksums"],
        2,
        "without checksums",
    );
    let name = "x".repeat(251);
    refused(
        &["record", &device, &name, "--policy", "drop"],
        2,
        "NAME.gaps",
    );
    refused(
        &[
            "record", &device, "a", "--from", "pattern", "--rate", "1G", "--for", "1min",
        ],
        8,
        "nothing was recorded",
    );
    refused(
        &["play", &device, "a", "--to", "null"],
        10,
        "straightway ls",
    );
    let listing = json(&["ls", &device, "--json"]);
    assert_eq!(listing["files"], serde_json::json!([]));
    assert_eq!(record(&device, "a").status.code(), Some(0));
    let output = record(&device, "a");
    assert_eq!(output.status.code(), Some(9));
    assert!(
        stderr(&output).contains("straightway rm"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_sink_that_is_full_is_not_played_to() {
    if !std::path::Path::new("/dev/full").exists() {
        println!("SKIPPED: this machine has no /dev/full");
        return;
    }
    let folder = Folder::new();
    let device = volume(&folder, &[]);
    let record = [
        "record", &device, "a", "--from", "pattern", "--rate", "10MB/s", "--size", "1M",
    ];
    let recorded = run(&[
        &record[..],
        &["--deadline", "1min", "--commit-interval", "1s"],
    ]
    .concat());
    assert_eq!(recorded.status.code(), Some(0), "{}", stderr(&recorded));
    let output = run(&["play", &device, "a", "--to", "/dev/full"]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(8), "{said}");
    assert!(
        said.contains("not played to its end") && !said.contains("played `a`:"),
        "{said}"
    );
}

#[test]
fn a_pattern_without_an_end_is_recorded_until_ctrl_c() {
    let folder = Folder::new();
    let device = volume(&folder, &[]);
    let mut child = start(&[
        "record",
        &device,
        "a",
        "--from",
        "pattern",
        "--rate",
        "256K",
        "--block",
        "16K",
        "--buffers",
        "1024",
        "--deadline",
        "1min",
        "--commit-interval",
        "20ms",
        "--acknowledge",
    ]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("durable "));
    let kill = std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(code(&["play", &device, "a", "--to", "pattern"]), 0);
}

/// The exit status of a child that must end by itself. None: it had to be killed, after longer than
/// a busy machine takes.
fn ended(mut child: Child) -> Option<i32> {
    for _ in 0..1200 {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    child.kill().unwrap();
    None
}

#[test]
fn a_silent_source_is_given_up_at_a_signal() {
    let folder = Folder::new();
    let device = volume(&folder, &[]);
    for name in ["absent", "mute"] {
        rustix::fs::mkfifoat(rustix::fs::CWD, folder.path(name), 0o600.into()).unwrap();
    }
    // A writer that writes nothing; opened for reading and writing, so that this test does not wait
    // either.
    let mute = std::fs::File::options()
        .read(true)
        .write(true)
        .open(folder.path("mute"))
        .unwrap();
    let sources = [
        ("absent", folder.path("absent"), 0),
        ("mute", folder.path("mute"), 0),
        ("udp", "udp://127.0.0.1:0".to_owned(), 0),
        // No sender came: nothing was recorded.
        ("tcp", "tcp://127.0.0.1:0".to_owned(), 128),
    ];
    for (name, source, code) in &sources {
        for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
            let take = format!("{name}-{signal:?}").to_lowercase();
            let take = take.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
            let words = ["record", &device, &take, "--from", source, "--rate", "1M"];
            let mut child = start(&words);
            let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
            let first = lines.next().unwrap().unwrap();
            assert!(first.contains("path: "), "{first}");
            let pid = rustix::process::Pid::from_child(&child);
            rustix::process::kill_process(pid, signal).unwrap();
            let code = match code {
                0 => 0,
                base => base + signal.as_raw(),
            };
            assert_eq!(ended(child), Some(code), "{take}");
        }
    }
    drop(mute);
    assert_eq!(code(&["--quiet", "check", &device]), 0);
}

#[test]
fn a_rehearsal_tells_whether_the_drive_holds_the_rate_and_leaves_nothing() {
    let folder = Folder::new();
    let device = volume(&folder, &[]);
    let rehearse = |device: &str, more: &[&str]| {
        let words = [
            "record",
            device,
            "take",
            "--block",
            "64K",
            "--rehearse",
            "500ms",
        ];
        run(&[&words, more].concat())
    };
    let ample = [
        "--rate",
        "4M",
        "--deadline",
        "1min",
        "--buffers",
        "64",
        "--json",
    ];
    let report: serde_json::Value =
        serde_json::from_str(&stdout(&rehearse(&device, &ample))).unwrap();
    let found = &report["rehearsal"];
    assert_eq!(found["holds"], true);
    assert_eq!(found["bytes_per_second"], 4 << 20);
    let free = found["free_bytes"].as_u64().unwrap();
    assert_eq!(found["lasts_s"], free / (4 << 20));
    assert_eq!(report["length_bytes"], 2 << 20);
    schema_names_all_keys(&report, &stdout(&run(&["schema", "record"])));

    // A drive that takes 20 ms for each command.
    let slow = format!("model:64MiB,file={},latency=20ms", folder.path("disk"));
    let output = rehearse(&slow, &["--rate", "100M", "--buffers", "2"]);
    assert_eq!(output.status.code(), Some(LATE), "{}", stderr(&output));
    let says = String::from_utf8(output.stdout).unwrap();
    assert!(
        says.starts_with("DOES NOT HOLD 100 MiB/s (104857600 bytes/s) with 2 buffers: ")
            && says.contains("WOULD BE LOST"),
        "{says}"
    );
    assert_eq!(stdout(&run(&["ls", &device])), "");

    let output = rehearse(&device, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--rate"), "{}", stderr(&output));
}

#[test]
fn a_recording_goes_on_where_an_earlier_one_ended() {
    let folder = Folder::new();
    for words in [&[][..], &["--checksums"]] {
        let device = volume(&folder, &[words, &["--force"]].concat());
        let part = |more: &[&str]| {
            let words = ["record", &device, "take", "--block", "64K", "--append"];
            json(
                &[
                    &words[..],
                    &["--from", "pattern", "--rate", "40M", "--json"],
                    more,
                ]
                .concat(),
            )
        };
        for (begin, size) in [(0, 1 << 20), (1 << 20, 3 << 16), (19 << 16, 1 << 20)] {
            let size_word = size.to_string();
            let report = part(&["--size", &size_word, "--policy", "drop", "--buffers", "64"]);
            assert_eq!(report["begin_bytes"], begin);
            assert_eq!(report["length_bytes"], size, "{report}");
        }
        let data = get(&device, "take", &folder);
        assert_eq!(end_of_pattern(&data, &[], 0), 35 << 16);
        assert_eq!(
            stdout(&run(&["ls", &device])),
            "take\n",
            "no gap, no companion"
        );
        assert_eq!(code(&["--quiet", "check", &device]), 0);
    }
}

#[test]
fn a_recording_goes_on_only_where_it_can() {
    let folder = Folder::new();
    let device = volume(&folder, &[]);
    let odd = folder.file("odd", 1_001);
    assert_eq!(code(&["--quiet", "put", &device, &odd, "odd"]), 0);
    let append = ["record", &device, "odd", "--append", "--block", "64K"];
    let output = run_with_input(&append, &[7; 100]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("a multiple of the device's block of 512"),
        "{}",
        stderr(&output)
    );
    assert_eq!(get(&device, "odd", &folder), std::fs::read(&odd).unwrap());
    let segments = ["record", &device, "odd", "--append", "--segment", "1M"];
    assert_eq!(code(&segments), 2);

    // After the last part, which may have any length, nothing can follow.
    let take = ["record", &device, "take", "--append", "--block", "64K"];
    for (data, status) in [(&[1; 512][..], 0), (&[2; 700], 0), (&[3; 512], 2)] {
        let output = run_with_input(&take, data);
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
    }
    assert_eq!(
        get(&device, "take", &folder),
        [[1; 512].as_slice(), &[2; 700]].concat()
    );
}
