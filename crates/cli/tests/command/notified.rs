// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a service manager learns of a recording, at the socket that it names.

use crate::support::{Folder, command, names, noise, stderr, volume};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::time::Duration;

/// The next message.
fn next(manager: &UnixDatagram) -> String {
    let mut text = [0; 1000];
    let len = manager.recv(&mut text).unwrap();
    String::from_utf8(text[..len].to_vec()).unwrap()
}

fn until(manager: &UnixDatagram, begin: &str) -> String {
    loop {
        let message = next(manager);
        if message.starts_with(begin) {
            return message;
        }
    }
}

#[test]
fn a_manager_learns_when_a_recording_has_begun_and_that_it_is_alive() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let socket = folder.path("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    // Instead of waiting without end for a process that has failed.
    manager
        .set_read_timeout(Some(Duration::from_secs(120)))
        .unwrap();
    let record = |more: &[&str]| {
        let words = [
            "record",
            &device,
            "take",
            "--deadline",
            "60min",
            "--block",
            "64K",
        ];
        command(&[&words[..], more].concat())
            .env("NOTIFY_SOCKET", &socket)
            .env("WATCHDOG_USEC", "400000")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let mut child = record(&[]);
    let mut input = child.stdin.take().unwrap();
    input.write_all(&noise(1, 256 << 10)).unwrap();
    until(&manager, "STATUS=256 KiB durable, nothing lost, none late");
    assert_eq!(names(&device), ["take"]);
    // Also while the source is silent.
    for _ in 0..3 {
        until(&manager, "WATCHDOG=1");
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    // It is ready before a sender has come, and alive.
    manager.set_nonblocking(true).unwrap();
    while manager.recv(&mut [0; 1000]).is_ok() {}
    manager.set_nonblocking(false).unwrap();
    let port = {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    };
    let from = format!("tcp://127.0.0.1:{port}");
    let child = record(&["--append", "--from", &from, "--once"]);
    for _ in 0..3 {
        let message = next(&manager);
        assert_eq!(message, "READY=1\nWATCHDOG=1\nSTATUS=waits for the source");
    }
    let mut sender = TcpStream::connect(("127.0.0.1", port)).unwrap();
    sender.write_all(&noise(1, 256 << 10)).unwrap();
    until(&manager, "STATUS=512 KiB durable");
    drop(sender);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}
