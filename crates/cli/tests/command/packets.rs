// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Datagrams recorded with their arrival times, opened by tcpdump, and sent again.

use crate::support::{
    Folder, code, command, json, lossy_json, ok, refused, run, stderr, stdout, volume,
};
use rustix::process::Signal;
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

// partner: tcpdump | reader
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
    damage_costs_the_packets_of_its_block(&folder, &device, &file, received.len());
}

/// Readers of pcapng stop at a wrong length, so an export leaves out what is damaged.
fn damage_costs_the_packets_of_its_block(folder: &Folder, device: &str, file: &str, all: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    // Packets of the fourth block of 4 KiB.
    bytes[3 * 4096 + 256..3 * 4096 + 2048].fill(0);
    let rotten = folder.path("rotten");
    std::fs::write(&rotten, bytes).unwrap();
    ok(&["put", device, &rotten]);
    let readable = folder.path("readable.pcapng");
    let output = run(&["export", device, "rotten", &readable, "--json"]);
    assert_eq!(output.status.code(), Some(6), "{}", stderr(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packets = report["pcapng"]["packets"].as_u64().unwrap() as usize;
    let skipped_bytes = report["pcapng"]["skipped_bytes"].as_u64().unwrap();
    assert!((1024..4096).contains(&skipped_bytes), "{skipped_bytes}");
    assert!(
        packets < all && packets * 10 > all * 9,
        "{packets} of {all}"
    );
    match Command::new("tcpdump")
        .args(["-nn", "-r", &readable])
        .output()
    {
        Err(_) => println!("SKIPPED: no tcpdump; apt install tcpdump"),
        Ok(output) => assert_eq!(stdout(&output).lines().count(), packets),
    }
}

/// A packet of an exported file, by draft-ietf-opsawg-pcapng.
struct Packet {
    time_ns: u64,
    captured: usize,
    original: usize,
    dropped: u64,
    to: [u8; 4],
}

/// The packets of a file, and the sums over its statistics: what arrived, was dropped by the
/// system, and was delivered.
fn read_file(file: &str) -> (Vec<Packet>, [u64; 3]) {
    let bytes = std::fs::read(file).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    let options = |mut at: usize, end: usize, codes: [u32; 3]| {
        let mut values = [0; 3];
        while at < end && word(at) != 0 {
            let (code, len) = (word(at) & 0xffff, (word(at) >> 16) as usize);
            if let Some(which) = codes.iter().position(|wanted| *wanted == code) {
                values[which] = long(at + 4);
            }
            at += 4 + len.next_multiple_of(4);
        }
        values
    };
    let (mut packets, mut sums, mut at) = (Vec::new(), [0; 3], 0);
    while at < bytes.len() {
        let end = at + word(at + 4) as usize - 4;
        match word(at) {
            6 => {
                let captured = word(at + 20) as usize;
                let behind = at + 28 + captured.next_multiple_of(4);
                packets.push(Packet {
                    time_ns: u64::from(word(at + 12)) << 32 | u64::from(word(at + 16)),
                    captured,
                    original: word(at + 24) as usize,
                    dropped: options(behind, end, [4, 0, 0])[0],
                    to: bytes[at + 44..at + 48].try_into().unwrap(),
                });
            }
            5 => {
                for (sum, value) in sums.iter_mut().zip(options(at + 20, end, [4, 7, 8])) {
                    *sum += value;
                }
            }
            _ => {}
        }
        assert_eq!(word(end) as usize, end + 4 - at);
        at = end + 4;
    }
    (packets, sums)
}

/// Waits until the kernel has (or has not) datagrams for the socket at this port that were not
/// read.
fn wait_for_queue(port: u16, is_empty: bool) {
    let wanted = format!(":{port:04X} ");
    let began = std::time::Instant::now();
    while began.elapsed() < Duration::from_secs(60) {
        let table = std::fs::read_to_string("/proc/net/udp").unwrap();
        let line = table.lines().find(|line| line.contains(&wanted));
        let queue = line.and_then(|line| line.split_ascii_whitespace().nth(4));
        if queue.is_some_and(|queue| queue.ends_with(":00000000") == is_empty) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("the socket does not get there");
}

/// Linux stamps what arrives only from a moment after the first socket asked for it (a deferred
/// work, late on a busy machine); before that, the stamp is the time of the reception. It goes on
/// while the socket that is returned is there.
fn wait_for_stamps() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    linux::datagram::prepare(&socket).unwrap();
    let began = std::time::Instant::now();
    while began.elapsed() < Duration::from_secs(60) {
        socket.send_to(b"?", socket.local_addr().unwrap()).unwrap();
        let sent = std::time::SystemTime::now();
        std::thread::sleep(Duration::from_millis(10));
        let arrival = linux::datagram::receive(&socket, &mut [0; 8]).unwrap();
        let since_1970 = sent.duration_since(std::time::UNIX_EPOCH).unwrap();
        if u128::from(arrival.arrival_ns.unwrap()) <= since_1970.as_nanos() {
            return socket;
        }
    }
    panic!("the kernel stamps nothing");
}

// partner: Linux | host kernel
#[test]
fn times_destinations_and_losses_are_those_of_the_kernel() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let port = {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.local_addr().unwrap().port()
    };
    let from = format!("udp://0.0.0.0:{port}");
    let words = [
        "record", &device, "take", "--from", &from, "--format", "pcapng",
    ];
    let options = [
        "--block",
        "64K",
        "--buffers",
        "200",
        "--deadline",
        "1min",
        "--json",
    ];
    let recording = start(&[&words[..], &options].concat());
    let pid = rustix::process::Pid::from_child(&recording);
    let signal = |signal| rustix::process::kill_process(pid, signal).unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let send = |data: &[u8]| sender.send_to(data, ("127.0.0.2", port)).unwrap();
    // It listens.
    wait_for_queue(port, true);
    let _stamped = wait_for_stamps();
    signal(Signal::STOP);
    let distance = Duration::from_millis(30);
    for _ in 0..5 {
        send(b"in time");
        std::thread::sleep(distance);
    }
    // Longer than a block, then more than the kernel has room for.
    send(&[7; 65_507]);
    for _ in 0..12_000 {
        send(&[8; 1_000]);
    }
    signal(Signal::CONT);
    wait_for_queue(port, true);
    send(b"behind");
    signal(Signal::TERM);
    let output = recording.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let dropped = report["dropped_datagrams"].as_u64().unwrap();
    assert_eq!((dropped > 0, &report["cut_datagrams"]), (true, &1.into()));

    let file = folder.path("take.pcapng");
    let exported = lossy_json(&["export", &device, "take", &file, "--json"]);
    let (packets, [arrived, by_kernel, delivered]) = read_file(&file);
    assert_eq!(
        exported["pcapng"],
        serde_json::json!({"packets": packets.len(), "cut_packets": 1, "lost_packets": dropped, "skipped_bytes": 0})
    );
    assert_eq!(by_kernel, dropped);
    assert_eq!((arrived, delivered), (12_007, packets.len() as u64));
    assert_eq!(arrived, by_kernel + delivered);
    let behind = packets.last().unwrap();
    assert_eq!((behind.original, behind.dropped), (20 + 8 + 6, dropped));
    assert_eq!(
        packets.iter().map(|packet| packet.dropped).sum::<u64>(),
        dropped
    );
    for pair in packets[..5].windows(2) {
        let passed = Duration::from_nanos(pair[1].time_ns - pair[0].time_ns);
        assert!(passed >= distance, "{passed:?}");
    }
    assert!(packets.iter().all(|packet| packet.to == [127, 0, 0, 2]));
    let cut = packets
        .iter()
        .filter(|packet| packet.captured < packet.original);
    assert_eq!(
        cut.map(|packet| packet.original).collect::<Vec<_>>(),
        [65_535]
    );

    // A replay says what is missing; nothing listens there, which ends nothing.
    let to = free_address();
    let output = command(&["play", &device, "take", "--to", &to, "--replay", "--json"]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["replayed"]["lost_datagrams"], dropped);
    assert_eq!(report["replayed"]["datagrams"], packets.len() as u64 - 1);
    assert!(
        report["refused_datagrams"].as_u64().unwrap() > 0,
        "{report}"
    );
}

#[test]
fn bytes_go_on_to_a_receiver_that_is_not_there_yet() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let file = folder.file("bytes", 100_000);
    ok(&["put", &device, &file]);
    let output = command(&["play", &device, "bytes", "--to", &free_address(), "--json"]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["length_bytes"], 100_000);
    let to = free_address();
    let output = command(&["play", &device, "bytes", "--to", &to]).output();
    assert!(stderr(&output.unwrap()).contains("REFUSED"));
    assert!(
        report["refused_datagrams"].as_u64().unwrap() > 0,
        "{report}"
    );
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
