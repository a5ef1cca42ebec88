// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections beside others: who gives way, who waits, and what a server without descriptors does.

use super::*;

/// Peers that connect and say nothing, or begin a handshake and then say nothing. They are still
/// connected when a client is served: the eldest give way, and it does not wait until the time for
/// handshakes has ended those that came shortly before it.
#[test]
fn silent_peers_keep_nobody_out() {
    let folder = Folder::new();
    let server = Server::start(&folder, &["ram:1M"]);
    for said in [&b""[..], &[0, 0, 0, 1], b"\0\0\0\x01IHAVEOPT"] {
        let is_served_beside_them = || {
            let mut silent: Vec<UnixStream> = (0..200)
                .map(|_| {
                    let mut peer = UnixStream::connect(&server.socket).unwrap();
                    // Those that gave way are not there any more.
                    let _ = peer.write_all(said);
                    peer
                })
                .collect();
            let mut client = Client::timed(&server.socket);
            assert_eq!(client.read(0, 512), [0; 512]);
            client.disconnect();
            is_connected(&mut silent[150])
        };
        // The time for a handshake may be over on a busy machine, not each time.
        assert!((0..4).any(|_| is_served_beside_them()));
    }
    server.end(Signal::TERM);
}

/// Whether the server has not ended this connection, whatever it has said.
fn is_connected(peer: &mut UnixStream) -> bool {
    peer.set_nonblocking(true).unwrap();
    loop {
        match peer.read(&mut [0; 4096]) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
        }
    }
}

/// A connection that has shaken hands waits until another ends, and nothing of it is lost.
#[test]
fn clients_wait_for_a_place() {
    let folder = Folder::new();
    let server = Server::start(&folder, &["ram:1M", "--write", "--connections", "1"]);
    let mut first = server.connect();
    let mut second = server.connect();
    second.send(1, 7, 0, 512, &[3; 512]);
    // It hangs up with its request unanswered, which is no reason to do it.
    let mut gone = server.connect();
    gone.send(1, 8, 0, 512, &[9; 512]);
    drop(gone);
    assert_eq!(first.read(0, 512), [0; 512]);
    first.disconnect();
    assert_eq!(second.reply(), (7, 0));
    assert_eq!(second.read(0, 512), [3; 512]);
    second.disconnect();
    server.end(Signal::TERM);
}

/// Out of descriptors it neither ends nor polls: what it uses of a processor is compared with how
/// long that takes.
#[test]
fn a_server_without_descriptors_sleeps() {
    let folder = Folder::new();
    let server = Server::start(&folder, &["ram:1M"]);
    let pid = Pid::from_child(&server.child);
    let fds = format!("/proc/{}/fd", server.child.id());
    // The server's own, and two connections.
    let most = std::fs::read_dir(&fds).unwrap().count() as u64 + 2;
    let limit = rustix::process::Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    rustix::process::prlimit(Some(pid), rustix::process::Resource::Nofile, limit).unwrap();
    let mut clients = [server.connect(), server.connect()];
    let waiting = UnixStream::connect(&server.socket).unwrap();
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split(' ').collect();
        fields[12].parse::<u64>().unwrap() + fields[13].parse::<u64>().unwrap()
    };
    let before = ticks();
    std::thread::sleep(std::time::Duration::from_secs(2));
    // 200 ticks of 10 ms have passed; a poll that returns at once takes nearly all that the machine
    // gives.
    let used = ticks() - before;
    assert!(used < 20, "{used} ticks");
    for client in &mut clients {
        assert_eq!(client.read(0, 512), [0; 512]);
    }
    let [one, other] = clients;
    one.disconnect();
    // Now there is a descriptor.
    let mut next = Client::of(waiting);
    assert_eq!(next.read(0, 512), [0; 512]);
    next.disconnect();
    other.disconnect();
    server.end(Signal::TERM);
}
