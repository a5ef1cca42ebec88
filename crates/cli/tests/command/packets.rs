//! Datagrams recorded with their arrival times, opened by tcpdump, and sent again.

use crate::support::{Folder, code, command, json, ok, refused, stderr, stdout, volume};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// An address at which something will listen.
fn free_address() -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    format!("udp://{}", socket.local_addr().unwrap())
}

fn start(words: &[&str]) -> Child {
    let mut command = command(words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// A datagram that says its number; lengths differ.
fn datagram(number: u32) -> Vec<u8> {
    let len = 4 + (number * 137 % 1_200) as usize;
    let mut data = vec![number as u8; len];
    data[..4].copy_from_slice(&number.to_be_bytes());
    data
}

/// Sends datagrams until the recording has enough.
fn send(recording: &mut Child, from: &str, first: u32) -> u32 {
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.connect(from.trim_start_matches("udp://")).unwrap();
    let mut number = first;
    while recording.try_wait().unwrap().is_none() {
        // The send after one without a receiver is refused.
        number += u32::from(sender.send(&datagram(number)).is_ok());
        std::thread::yield_now();
    }
    number
}

#[test]
fn datagrams_are_recorded_as_packets_and_replayed() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let from = free_address();
    let record = [
        "record", &device, "take", "--from", &from, "--format", "pcapng",
    ];
    let options = [
        "--block",
        "4K",
        "--size",
        "64K",
        "--buffers",
        "64",
        "--append",
    ];
    let mut next = 0;
    for _ in 0..2 {
        let mut recording = start(&[&record[..], &options].concat());
        next = send(&mut recording, &from, next);
        let output = recording.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let file = folder.path("take.pcapng");
    let exported = json(&["export", &device, "take", &file, "--json"]);
    assert_eq!(exported["format"], "pcapng");
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 128 << 10);

    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let moment = Duration::from_millis(100);
    receiver.set_read_timeout(Some(moment)).unwrap();
    // Room for all that is sent while this thread is not running.
    rustix::net::sockopt::set_socket_recv_buffer_size(&receiver, 212_992).unwrap();
    let to = format!("udp://{}", receiver.local_addr().unwrap());
    let mut replay = start(&["play", &device, "take", "--to", &to, "--replay", "--json"]);
    let mut received = Vec::new();
    let mut data = [0; 2_048];
    let mut is_over = false;
    loop {
        match receiver.recv(&mut data) {
            Ok(len) => received.push(data[..len].to_vec()),
            Err(_) if is_over => break,
            Err(_) => is_over = replay.try_wait().unwrap().is_some(),
        }
    }
    let output = replay.wait_with_output().unwrap();
    let report: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(report["replayed"]["datagrams"], received.len());
    let mut before = None;
    for data in &received {
        let number = u32::from_be_bytes(data[..4].try_into().unwrap());
        assert_eq!(*data, datagram(number));
        assert!(before < Some(number), "{before:?} {number}");
        before = Some(number);
    }
    assert!(received.len() > 100, "{}", received.len());
    assert_eq!(report["replayed"]["cut_datagrams"], 0);

    match Command::new("tcpdump").args(["-nn", "-r", &file]).output() {
        Err(_) => println!("SKIPPED: no tcpdump; apt install tcpdump"),
        Ok(output) => {
            let lines = stdout(&output);
            assert_eq!(lines.lines().count(), received.len(), "{}", stderr(&output));
            let port = from.rsplit_once(':').unwrap().1;
            let wanted = format!("> 127.0.0.1.{port}: UDP, length {}", received[0].len());
            assert!(lines.lines().next().unwrap().ends_with(&wanted), "{lines}");
        }
    }
}

#[test]
fn what_is_not_packets_is_refused() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let text = folder.file("text", 10_000);
    ok(&["put", &device, &text]);
    let to = free_address();
    let play = ["play", &device, "text", "--replay", "--to"];
    refused(&[&play[..], &[&to]].concat(), 2, "no recorded packets");
    refused(&[&play[..], &["null"]].concat(), 2, "udp://");
    refused(&[&play[..], &[&to, "--rate", "1M"]].concat(), 2, "--rate");
    let record = ["record", &device, "take", "--format", "pcapng"];
    refused(
        &[&record[..], &["--from", "stdin"]].concat(),
        2,
        "datagrams",
    );
    assert_eq!(code(&["--quiet", "stat", &device, "take"]), 10);
}
