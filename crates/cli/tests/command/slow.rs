// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings of streams that fill no block in the time after which they shall be durable.

use crate::interrupted::interrupt;
use crate::live::Take;
use crate::support::{Folder, command, noise, ok, run, run_with_input, stderr, volume};
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[test]
fn a_slow_stream_becomes_durable_before_its_block_is_full() {
    let folder = Folder::new();
    for (number, words) in [&["--no-checksums"][..], &["--checksums"]]
        .into_iter()
        .enumerate()
    {
        let device = volume(&folder, &format!("disk{number}"), &["--checksums"]);
        let data = noise(7, 5 * (64 << 10) + 100);
        let options = ["--commit-interval", "50ms"];
        let mut take = Take::committed(&device, "64M", &[&options[..], words].concat());
        take.send(&data[..5000]);
        take.wait_durable(4096);
        take.send(&data[5000..9000]);
        take.wait_durable(8192);
        take.send(&data[9000..]);
        take.end();
        let got = run(&["get", &device, "take", "-"]).stdout;
        assert!(got == data, "{} bytes of {}", got.len(), data.len());
        ok(&["check", &device, "--read-data"]);
    }
}

#[test]
fn few_datagrams_become_durable_as_whole_packets() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = socket.local_addr().unwrap();
    drop(socket);
    let from = format!("udp://{to}");
    let record = [
        "record", &device, "take", "--from", &from, "--format", "pcapng",
    ];
    let mut child =
        command(&[&record[..], &["--acknowledge", "--commit-interval", "50ms"]].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let has_line = AtomicBool::new(false);
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let sent = std::thread::scope(|scope| {
        // Slowly: all of them together fill no block.
        let sending = scope.spawn(|| {
            let mut sent = 0;
            while !has_line.load(Ordering::Relaxed) {
                sent += sender.send_to(b"ten bytes.", to).map_or(0, |_| 1);
                std::thread::sleep(Duration::from_millis(20));
            }
            sent
        });
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        has_line.store(true, Ordering::Relaxed);
        let bytes: usize = line.trim_start_matches("durable ").trim().parse().unwrap();
        assert!(bytes > 0 && bytes % 4096 == 0, "{line}");
        sending.join().unwrap()
    });
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let file = folder.path("take.pcapng");
    ok(&["export", &device, "take", &file]);
    let bytes = std::fs::read(&file).unwrap();
    let packets = bytes.windows(10).filter(|part| part == b"ten bytes.");
    let packets = packets.count();
    assert!((1..=sent).contains(&packets), "{packets} of {sent}");
}

#[test]
fn a_source_that_ends_early_is_named_and_late_blocks_are_not_called_enough() {
    let folder = Folder::new();
    let disk = folder.path("disk");
    let device = format!("file:{disk}");
    ok(&["--quiet", "format", &device, "--size", "16M"]);
    let output = run_with_input(&["record", &device, "a", "--size", "1M"], &[7; 5000]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("the source ended before"), "{said}");
    // Each block takes 20 ms and has 1 ms; none is lost.
    let slow = format!("model:16M,file={disk},latency=20ms");
    let words = ["record", &slow, "b", "--deadline", "1ms", "--block", "64K"];
    let output = run_with_input(&words, &vec![7; 256 << 10]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(said.contains(" MISSED, by up to "), "{said}");
    assert!(said.contains("buffers were used at most"), "{said}");
    // A recording with gaps is not one of another source.
    let line = format!("{:>20} {:>20} {:>16} {:>4}\n", 512, 512, 7, 1);
    let words: Vec<u8> = (0..128_u64)
        .map(|word| word * 8)
        .filter(|at| !(512..1024).contains(at))
        .flat_map(u64::to_le_bytes)
        .collect();
    for (name, bytes) in [("p", words.as_slice()), ("p.gaps", line.as_bytes())] {
        let put = run_with_input(&["put", &device, "-", name], bytes);
        assert_eq!(put.status.code(), Some(0));
    }
    ok(&["play", &device, "p", "--to", "pattern", "--block", "4K"]);
}
