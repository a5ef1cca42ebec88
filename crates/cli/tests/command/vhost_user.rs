// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A device as a virtual machine's disk: a front end of rust-vmm with memory and a queue of its
//! own.

use crate::serve::Server;
use crate::support::{Folder, noise, ok, refused, schema_names_all_keys, volume};
use machine::{AVAILABLE, DATA, FLUSH, IDENTIFY, Machine, READ, WRITE};
use rustix::process::Signal;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use vhost::VhostBackend;
use vmm_sys_util::eventfd::EventFd;

mod machine;

/// The server has made the file one that does not wait.
fn doze(call: &EventFd) {
    while let Err(error) = call.read() {
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        std::thread::sleep(Duration::from_micros(100));
    }
}

fn ask(machine: &mut Machine, kind: u32, sector: u64, data: u64, len: u32) -> u8 {
    machine.submit(kind, sector, data, len);
    machine.wait(doze);
    machine.status(machine.available - 1)
}

fn serve(folder: &Folder, words: &[&str]) -> Server {
    let socket = folder.path("s.sock");
    Server::start_way(
        folder,
        &[words, &["--vhost-user", &socket]].concat(),
        "unix:",
    )
}

fn serve_to_write(folder: &Folder, disk: &str) -> Server {
    serve(folder, &[disk, "--write", "--destroy-data", disk])
}

#[test]
fn a_machine_reads_and_writes_a_disk() {
    let folder = Folder::new();
    let disk = folder.file("disk", 4 << 20);
    let mut content = std::fs::read(&disk).unwrap();
    let server = serve_to_write(&folder, &disk);
    let mut machine = Machine::started(&server.socket);
    assert_eq!(machine.config(0, 8), 8192u64.to_le_bytes());
    assert_eq!(machine.config(34, 2), 64u16.to_le_bytes(), "queues");
    assert_eq!(ask(&mut machine, IDENTIFY, 0, DATA, 20), 0);
    // Longer than a command of the device, and several at once.
    assert_eq!(ask(&mut machine, READ, 1, DATA, 300 << 10), 0);
    assert!(machine.load(DATA, 300 << 10) == content[512..][..300 << 10]);
    let data = noise(3, 256 << 10);
    machine.store(DATA, &data);
    for (part, sector) in [(0, 100), (64 << 10, 4000), (128 << 10, 300)] {
        machine.submit(WRITE, sector, DATA + part, 64 << 10);
        let at = sector as usize * 512;
        content[at..at + (64 << 10)].copy_from_slice(&data[part as usize..][..64 << 10]);
    }
    machine.wait(doze);
    assert!((1..5).all(|number| machine.status(number) == 0));
    assert_eq!(ask(&mut machine, FLUSH, 0, 0, 0), 0);
    assert_eq!(
        ask(&mut machine, WRITE, 8192, DATA, 512),
        1,
        "behind the end"
    );
    assert_eq!(machine.stop(), 7);
    drop(machine);
    // The next one is served, from where its own queue begins.
    let mut next = Machine::started(&server.socket);
    assert_eq!(ask(&mut next, READ, 100, DATA, 64 << 10), 0);
    assert!(next.load(DATA, 64 << 10) == content[100 * 512..][..64 << 10]);
    next.stop();
    drop(next);
    let report = server.end(Signal::TERM);
    schema_names_all_keys(&report, &ok(&["schema", "serve"]));
    assert_eq!(report["connections"], 2);
    assert_eq!(report["lost_connections"], 0);
    assert_eq!(report["requests"]["read"], 2);
    assert_eq!(report["requests"]["write"], 3);
    assert_eq!(report["requests"]["flush"], 1);
    assert_eq!(report["written_bytes"], 192 << 10);
    assert_eq!(report["refused_requests"], 1);
    assert!(std::fs::read(&disk).unwrap() == content);
}

#[test]
fn a_disk_is_not_written_unless_asked_and_a_volume_s_file_is_served() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    let source = folder.file("source", 300_001);
    let data = std::fs::read(&source).unwrap();
    ok(&["put", &disk, &source, "data"]);
    let server = serve(&folder, &[&disk, "data"]);
    let mut machine = Machine::started(&server.socket);
    assert_ne!(machine.features & 1 << 5, 0, "VIRTIO_BLK_F_RO");
    // Of a file that ends within a sector, the whole sectors.
    assert_eq!(machine.config(0, 8), 585u64.to_le_bytes());
    assert_eq!(ask(&mut machine, WRITE, 0, DATA, 512), 1);
    assert_eq!(ask(&mut machine, READ, 80, DATA, 4096), 0);
    assert!(machine.load(DATA, 4096) == data[80 * 512..][..4096]);
    machine.stop();
    drop(machine);
    let report = server.end(Signal::INT);
    assert_eq!(report["read_only"], true);
    assert_eq!(report["name"], "data");
    let socket = folder.path("t.sock");
    let way = ["--vhost-user", &socket];
    let words = |more: &[&'static str]| -> Vec<String> {
        let all = [&["serve", &disk], more, &way[..]].concat();
        all.into_iter().map(str::to_owned).collect()
    };
    for (more, status, why) in [
        (&["--write"][..], 2, "destroy-data"),
        (&["--nbd", "/tmp/s"], 2, "cannot be used with"),
        (&["--tls", "/tmp"], 2, "cannot be used with"),
    ] {
        let words = words(more);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        refused(&words, status, why);
    }
    refused(&["serve", &disk], 2, "--vhost-user");
}

#[test]
fn a_machine_that_goes_away_in_the_middle_loses_nothing_of_the_others() {
    let folder = Folder::new();
    let disk = folder.file("disk", 4 << 20);
    let server = serve_to_write(&folder, &disk);
    let data = noise(5, 64 << 10);
    for round in 0..20u64 {
        let mut machine = Machine::started(&server.socket);
        machine.store(DATA, &data);
        assert_eq!(ask(&mut machine, WRITE, round * 128, DATA, 64 << 10), 0);
        for number in 0..4 {
            machine.submit(READ, number * 128, DATA + 0x20000, 64 << 10);
        }
        // Without a farewell, and without its memory.
        drop(machine);
    }
    let mut last = Machine::started(&server.socket);
    for round in 0..20u64 {
        assert_eq!(ask(&mut last, READ, round * 128, DATA, 64 << 10), 0);
        assert!(last.load(DATA, 64 << 10) == data, "{round}");
    }
    last.stop();
    drop(last);
    let report = server.end(Signal::TERM);
    assert_eq!(report["connections"], 21);
    assert_eq!(report["lost_connections"], 20);
    assert_eq!(report["failed_requests"], 0);
}

#[test]
fn what_is_not_the_protocol_s_ends_its_connection_only() {
    let folder = Folder::new();
    let disk = folder.file("disk", 1 << 20);
    let server = serve(&folder, &[&disk]);
    let message = |request: u32, flags: u32, body: &[u8]| {
        let mut bytes = request.to_ne_bytes().to_vec();
        bytes.extend(flags.to_ne_bytes());
        bytes.extend((body.len() as u32).to_ne_bytes());
        bytes.extend(body);
        bytes
    };
    let mut long = message(1, 1, &[]);
    long[8..].copy_from_slice(&u32::MAX.to_ne_bytes());
    long.extend([0; 4096]);
    let wrong: [Vec<u8>; 7] = [
        message(5, 1, &[0xff; 40]), // a table of memory without files
        message(999, 1, &[]),       // no such message
        message(1, 2, &[]),         // another version
        message(12, 1, &[0, 1, 0, 0, 0, 0, 0, 0]), // a queue that is not in memory
        message(11, 1, &[0xff; 8]), // the base of a queue that does not exist
        long,
        noise(9, 5000),
    ];
    for (number, bytes) in wrong.iter().enumerate() {
        let mut stream = UnixStream::connect(&server.socket).unwrap();
        let _ = stream.write_all(bytes);
        let mut rest = Vec::new();
        match stream.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{number}"),
        }
    }
    // One that says nothing gives way to the next.
    let mut silent = UnixStream::connect(&server.socket).unwrap();
    // Parts of a message, and junk; and then it hangs up, or writes no more: the server does not
    // wait for the rest.
    let parts = [
        message(1, 1, &[])[..7].to_vec(),
        message(5, 1, &[0; 40])[..30].to_vec(),
        vec![0xff; 12],
    ];
    let began = std::time::Instant::now();
    for number in 0..30 {
        let mut half = UnixStream::connect(&server.socket).unwrap();
        half.write_all(&parts[number % 3]).unwrap();
        if number % 2 == 0 {
            half.shutdown(std::net::Shutdown::Write).unwrap();
            let _ = half.read_to_end(&mut Vec::new());
        }
    }
    let _ = silent.read_to_end(&mut Vec::new());
    let most = Duration::from_secs(5 * 12);
    assert!(began.elapsed() < most, "each of 30 has had its 5 s");
    // Messages whose answers are not taken.
    let mut deaf = UnixStream::connect(&server.socket).unwrap();
    deaf.set_nonblocking(true).unwrap();
    while deaf.write_all(&message(1, 1, &[])).is_ok() {}
    drop(deaf);
    // A ring whose index cannot be, in the middle of good requests.
    let mut machine = Machine::started(&server.socket);
    assert_eq!(ask(&mut machine, READ, 0, DATA, 512), 0);
    machine.store(AVAILABLE + 2, &700u16.to_le_bytes());
    machine.kick.write(1).unwrap();
    // It is disconnected, once the server has looked at the ring.
    while machine.frontend.get_features().is_ok() {}
    drop(machine);
    let mut good = Machine::started(&server.socket);
    assert_eq!(ask(&mut good, READ, 0, DATA, 4096), 0);
    assert!(good.load(DATA, 4096) == std::fs::read(&disk).unwrap()[..4096]);
    good.stop();
    drop(good);
    let report = server.end(Signal::TERM);
    assert_eq!(report["failed_requests"], 0);
    assert_eq!(report["requests"]["read"], 2);
}
