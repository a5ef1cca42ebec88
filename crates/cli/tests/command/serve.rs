// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A device and files of volumes as network block devices: a client of a few lines, and the tools
//! that others use.

mod places;

use crate::support::{Folder, command, noise, ok, refused, schema_names_all_keys, volume};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server that is ready; killed if its test fails.
pub struct Server {
    child: Child,
    uri: String,
    pub socket: String,
    errors: BufReader<std::process::ChildStderr>,
}

impl Server {
    fn start(folder: &Folder, words: &[&str]) -> Self {
        Self::start_at(folder, &folder.path("s.sock"), words)
    }

    fn start_at(folder: &Folder, address: &str, words: &[&str]) -> Self {
        Self::start_way(folder, &[words, &["--nbd", address]].concat(), "nbd")
    }

    /// Starts one whose clients find it at something that begins with `scheme`.
    pub fn start_way(folder: &Folder, words: &[&str], scheme: &str) -> Self {
        let socket = folder.path("s.sock");
        let words = [&["serve"], words, &["--json"]].concat();
        let mut child = command(&words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        let uri = loop {
            let mut line = String::new();
            let len = errors.read_line(&mut line).unwrap();
            assert!(len > 0, "it ended: {said}");
            if let Some((_, uri)) = line.trim_end().split_once(&format!(" at {scheme}")) {
                break format!("{scheme}{uri}");
            }
            said += &line;
        };
        Self {
            child,
            uri,
            socket,
            errors,
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Ends it, and returns its report.
    pub fn end(mut self, signal: Signal) -> serde_json::Value {
        self.signal(signal);
        let mut report = String::new();
        let stdout = self.child.stdout.as_mut().unwrap();
        stdout.read_to_string(&mut report).unwrap();
        let mut errors = String::new();
        self.errors.read_to_string(&mut errors).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {errors}");
        assert!(!Path::new(&self.socket).exists(), "the socket is left");
        serde_json::from_str(&report).unwrap()
    }

    fn connect(&self) -> Client {
        Client::new(&self.socket)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client with simple replies.
struct Client {
    stream: UnixStream,
    size_bytes: u64,
}

impl Client {
    fn new(socket: &str) -> Self {
        Self::of(UnixStream::connect(socket).unwrap())
    }

    /// One whose test fails if it is not served within a minute.
    fn timed(socket: &str) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        let minute = std::time::Duration::from_secs(60);
        stream.set_read_timeout(Some(minute)).unwrap();
        Self::of(stream)
    }

    fn of(mut stream: UnixStream) -> Self {
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        // NBD_OPT_EXPORT_NAME of the default export.
        let mut hello = vec![0, 0, 0, 3];
        hello.extend(b"IHAVEOPT\0\0\0\x01\0\0\0\0");
        stream.write_all(&hello).unwrap();
        let mut export = [0; 10];
        stream.read_exact(&mut export).unwrap();
        let size_bytes = u64::from_be_bytes(export[..8].try_into().unwrap());
        Self { stream, size_bytes }
    }

    fn send(&mut self, kind: u16, cookie: u64, offset: u64, len: u32, data: &[u8]) {
        let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(kind.to_be_bytes());
        bytes.extend(cookie.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(len.to_be_bytes());
        bytes.extend(data);
        self.stream.write_all(&bytes).unwrap();
    }

    /// The next reply's cookie and error.
    fn reply(&mut self) -> (u64, u32) {
        let mut head = [0; 16];
        self.stream.read_exact(&mut head).unwrap();
        assert_eq!(head[..4], 0x6744_6698u32.to_be_bytes());
        let error = u32::from_be_bytes(head[4..8].try_into().unwrap());
        (u64::from_be_bytes(head[8..].try_into().unwrap()), error)
    }

    fn read(&mut self, offset: u64, len: usize) -> Vec<u8> {
        self.send(0, offset, offset, len as u32, &[]);
        assert_eq!(self.reply(), (offset, 0));
        let mut data = vec![0; len];
        self.stream.read_exact(&mut data).unwrap();
        data
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> u32 {
        self.send(1, offset, offset, data.len() as u32, data);
        let (cookie, error) = self.reply();
        assert_eq!(cookie, offset);
        error
    }

    /// NBD_CMD_DISC; returns when the server has closed the connection.
    fn disconnect(mut self) {
        self.send(2, 0, 0, 0, &[]);
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty());
    }
}

#[test]
fn a_device_is_read_at_any_byte_and_not_written() {
    let folder = Folder::new();
    let disk = folder.file("disk", 1 << 20);
    let content = std::fs::read(&disk).unwrap();
    let server = Server::start(&folder, &[&disk]);
    let mut client = server.connect();
    assert_eq!(client.size_bytes, 1 << 20);
    for (offset, len) in [(0, 512), (5, 3), (511, 200_000), ((1 << 20) - 1, 1)] {
        assert!(client.read(offset, len) == content[offset as usize..offset as usize + len]);
    }
    assert_eq!(client.write(0, &[1; 512]), 1, "EPERM");
    client.send(0, 7, 1 << 20, 1, &[]);
    assert_eq!(client.reply(), (7, 22), "EINVAL");
    client.disconnect();
    let report = server.end(Signal::INT);
    schema_names_all_keys(&report, &ok(&["schema", "serve"]));
    assert_eq!(report["schema_version"], 2);
    assert_eq!(report["connections"], 1);
    assert_eq!(report["lost_connections"], 0);
    assert_eq!(report["requests"]["read"], 4);
    assert_eq!(report["read_bytes"], 512 + 3 + 200_000 + 1);
    assert_eq!(report["refused_requests"], 2);
    assert!(std::fs::read(&disk).unwrap() == content);
}

#[test]
fn several_clients_write_one_device_and_see_each_other() {
    let folder = Folder::new();
    let disk = format!("model:8M,file={}", folder.path("disk"));
    let words = [
        &disk,
        "--write",
        "--destroy-data",
        "disk",
        "--connections",
        "3",
    ];
    // The file of the model is created by its first use.
    ok(&["read", &disk, "--length", "4K", "--checksum"]);
    let server = Server::start(&folder, &words);
    let data = noise(1, 1 << 20);
    let mut clients: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        // Many requests at once, answered in any order.
        for (at, part) in data.chunks(32 << 10).enumerate() {
            let offset = ((number << 20) + (at << 15)) as u64;
            client.send(1, offset, offset, part.len() as u32, part);
        }
    }
    for client in &mut clients {
        for _ in 0..32 {
            assert_eq!(client.reply().1, 0);
        }
    }
    for (number, client) in clients.iter_mut().enumerate() {
        let other = ((number + 1) % 3) << 20;
        assert!(client.read(other as u64, 1 << 20) == data);
        assert_eq!(client.write(100, &[1; 512]), 22, "EINVAL: not whole blocks");
        assert_eq!(client.write((8 << 20) - 512, &[1; 1024]), 28, "ENOSPC");
    }
    // Another one waits until a place is free.
    let waiting = UnixStream::connect(&server.socket).unwrap();
    clients.pop().unwrap().disconnect();
    let mut greeting = [0; 18];
    (&waiting).read_exact(&mut greeting).unwrap();
    assert_eq!(greeting[..8], *b"NBDMAGIC");
    drop((waiting, clients));
    let report = server.end(Signal::TERM);
    assert_eq!(report["connections"], 4);
    assert_eq!(report["written_bytes"], 3 << 20);
    assert_eq!(report["refused_requests"], 6);
    // What was written is in the file.
    for number in 0..3 {
        let offset = (number << 20).to_string();
        let words = ["read", &disk, "--offset", &offset, "--length", "1M"];
        assert!(crate::support::run(&words).stdout == data);
    }
}

#[test]
fn a_file_of_a_volume_is_served_with_its_size_and_written_in_place() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &["--checksums"]);
    let source = folder.file("source", 300_001);
    let mut data = std::fs::read(&source).unwrap();
    ok(&["put", &disk, &source, "data", "--no-checksums"]);
    ok(&["put", &disk, &source, "summed", "--checksums"]);
    for (name, verified) in [("data", false), ("summed", true)] {
        let server = Server::start(&folder, &[&disk, name]);
        let mut client = server.connect();
        assert_eq!(client.size_bytes, 300_001);
        assert!(client.read(1, 300_000) == data[1..]);
        client.disconnect();
        let report = server.end(Signal::INT);
        assert_eq!(
            (&report["verified"], &report["name"]),
            (&verified.into(), &name.into())
        );
    }
    let server = Server::start(&folder, &[&disk, "data", "--write"]);
    let mut client = server.connect();
    assert_eq!(client.size_bytes, 300_032, "whole blocks");
    assert_eq!(client.write(4096, &[7; 1024]), 0);
    client.send(3, 9, 0, 0, &[]);
    assert_eq!(client.reply(), (9, 0), "the flush");
    client.disconnect();
    server.end(Signal::INT);
    data[4096..5120].fill(7);
    assert!(crate::support::get(&disk, "data", &[]) == data);
    assert!(ok(&["check", &disk]).starts_with("sound"));
    let address = folder.path("other.sock");
    let words = ["serve", &disk, "summed", "--write", "--nbd", &address];
    refused(&words, 4, "has checksums");
    refused(
        &["serve", &disk, "missing", "--nbd", &address],
        10,
        "missing",
    );
}

#[test]
fn rot_in_a_file_with_checksums_is_an_error_of_its_read_only() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &["--checksums"]);
    let source = folder.path("source");
    std::fs::write(&source, noise(3, 200_000)).unwrap();
    ok(&["put", &disk, &source, "summed", "--checksums"]);
    let data = std::fs::read(&source).unwrap();
    let mut image = std::fs::read(&disk).unwrap();
    let place = image
        .windows(64)
        .position(|bytes| bytes == &data[..64])
        .unwrap();
    image[place + 70_000] ^= 1;
    std::fs::write(&disk, &image).unwrap();
    let server = Server::start(&folder, &[&disk, "summed"]);
    let mut client = server.connect();
    client.send(0, 1, 70_000, 10, &[]);
    assert_eq!(client.reply(), (1, 5), "EIO");
    assert!(client.read(140_000, 60_000) == data[140_000..]);
    client.disconnect();
    assert_eq!(server.end(Signal::INT)["failed_requests"], 1);
}

#[test]
fn a_signal_completes_what_is_under_way() {
    let folder = Folder::new();
    // Each command takes longer than the test needs to send its signal.
    let server = Server::start(&folder, &["model:4M,latency=300ms", "--write"]);
    let mut client = server.connect();
    let data = noise(4, 4096);
    for cookie in 0..8 {
        client.send(1, cookie, cookie * 4096, 4096, &data);
    }
    // The server looks at every socket between two replies to another connection, so it has taken
    // these requests.
    let mut other = server.connect();
    for cookie in [98, 99] {
        other.send(3, cookie, 0, 0, &[]);
        assert_eq!(other.reply(), (cookie, 0));
    }
    server.signal(Signal::TERM);
    let mut replies: Vec<(u64, u32)> = (0..8).map(|_| client.reply()).collect();
    replies.sort_unstable();
    assert_eq!(
        replies,
        (0..8).map(|cookie| (cookie, 0)).collect::<Vec<_>>()
    );
    let mut rest = Vec::new();
    client.stream.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty(), "the connection is closed");
    drop(other);
    // The signal was already sent; a second one within half a second counts as the same.
    let report = server.end(Signal::TERM);
    assert_eq!(report["requests"]["write"], 8);
    assert_eq!(report["written_bytes"], 8 * 4096);
}

/// One is inside a write, the other does not take the answers it asked for.
#[test]
fn clients_that_stall_hold_up_the_end_for_some_seconds_only() {
    let folder = Folder::new();
    let server = Server::start(&folder, &["ram:64M", "--write"]);
    let (mut writer, mut reader) = (server.connect(), server.connect());
    writer.read(0, 512);
    writer.send(1, 7, 0, 64 << 10, &[7; 512]);
    for cookie in 0..16 {
        reader.send(0, cookie, 0, 1 << 20, &[]);
    }
    assert_eq!(reader.reply().1, 0);
    let began = std::time::Instant::now();
    let report = server.end(Signal::TERM);
    assert!(began.elapsed().as_secs() < 8, "{:?}", began.elapsed());
    assert!(report["lost_connections"].as_u64() >= Some(1), "{report}");
}

#[test]
fn wrong_clients_lose_their_connection_and_no_one_else_s() {
    let folder = Folder::new();
    let server = Server::start(&folder, &["ram:8M", "--write", "--memory", "10M"]);
    let mut good = server.connect();
    let data = noise(5, 64 << 10);
    assert_eq!(good.write(0, &data), 0);
    // Not the protocol.
    let mut web = UnixStream::connect(&server.socket).unwrap();
    web.read_exact(&mut [0; 18]).unwrap();
    web.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut said = Vec::new();
    let _ = web.read_to_end(&mut said);
    assert!(said.is_empty());
    // It ends in the middle of a write.
    let mut half = server.connect();
    half.send(1, 1, 0, 64 << 10, &[0xff; 1000]);
    half.stream.shutdown(Shutdown::Write).unwrap();
    let _ = half.stream.read_to_end(&mut said);
    // It asks for much and takes nothing.
    let mut greedy = server.connect();
    for cookie in 0..64 {
        greedy.send(0, cookie, 0, 256 << 10, &[]);
    }
    for _ in 0..20 {
        assert!(
            good.read(0, 64 << 10) == data,
            "what the half write had is not there"
        );
    }
    drop(greedy);
    good.disconnect();
    let report = server.end(Signal::INT);
    assert_eq!(report["connections"], 4);
    assert_eq!(report["lost_connections"], 3);
}

#[test]
fn what_may_not_be_served_is_refused() {
    let folder = Folder::new();
    let disk = folder.file("disk", 4096);
    let address = folder.path("s.sock");
    let write = ["serve", &disk, "--write", "--nbd", &address];
    refused(&write, 2, "would overwrite");
    let wrong = [&write[..], &["--destroy-data", "other"]].concat();
    refused(&wrong, 2, "other");
    refused(&["serve", &disk, "--nbd", "nowhere"], 2, "HOST:PORT");
    refused(&["serve", &disk, "--nbd", &disk], 9, "in use");
    // No address of this machine (RFC 5737), and no name.
    for (address, hint) in [
        ("192.0.2.1:10809", "hint: an address of this machine"),
        (
            "no.such.host.invalid:1",
            "hint: a name or an address of this machine",
        ),
    ] {
        refused(&["serve", &disk, "--nbd", address], 3, hint);
    }
    let little = ["serve", &disk, "--memory", "8M", "--nbd", &address];
    refused(&little, 2, "too little");
    refused(&["serve", "/nonexistent", "--nbd", &address], 3, "no file");
    assert!(!Path::new(&address).exists());
}

/// Runs a tool; None, with a printed reason, if the machine lacks it.
fn tool(name: &str, words: &[&str]) -> Option<String> {
    let output = match Command::new(name).args(words).stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) => {
            println!("SKIPPED: {name}: {error} (tools/setup lab)");
            return None;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {words:?}: {text}{errors}");
    Some(text)
}

// partner: libnbd | initiator, reader
#[test]
fn the_tools_of_libnbd_copy_and_describe() {
    let folder = Folder::new();
    let source = folder.path("source");
    std::fs::write(&source, noise(6, 8 << 20)).unwrap();
    let server = Server::start(&folder, &["model:8M", "--write"]);
    let uri = server.uri.clone();
    let Some(text) = tool("nbdinfo", &[&uri]) else {
        return;
    };
    for line in [
        "export-size: 8388608 (8M)",
        "is_read_only: false",
        "can_multi_conn: true",
        "can_trim: true",
        "can_zero: true",
        "block_size_minimum: 512",
        "base:allocation",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let Some(map) = tool("nbdinfo", &["--map", &uri]) else {
        return;
    };
    let words: Vec<&str> = map.split_whitespace().collect();
    assert_eq!(words, ["0", "8388608", "0", "data"]);
    let copy = folder.path("copy");
    tool("nbdcopy", &["--flush", &source, &uri]);
    tool(
        "nbdcopy",
        &["--connections=4", "--requests=64", &uri, &copy],
    );
    assert!(std::fs::read(&copy).unwrap() == std::fs::read(&source).unwrap());
    let report = server.end(Signal::INT);
    assert_eq!(report["refused_requests"], 0);
    assert_eq!(report["lost_connections"], 0);
}

// partner: qemu-nbd | initiator, reader
#[test]
fn qemu_reads_and_writes() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    let source = folder.path("source");
    std::fs::write(&source, noise(7, 4 << 20)).unwrap();
    ok(&["put", &disk, &source, "guest.raw"]);
    let server = Server::start(&folder, &[&disk, "guest.raw", "--write"]);
    let uri = server.uri.clone();
    let compare = ["compare", "-f", "raw", "-F", "raw", &source, &uri];
    let Some(text) = tool("qemu-img", &compare) else {
        return;
    };
    assert!(text.contains("identical"), "{text}");
    let words = [
        "-f",
        "raw",
        "-c",
        "write -P 7 -f 4096 8192",
        "-c",
        "write -P 9 5000 100", // QEMU reads, modifies and writes the block.
        "-c",
        "write -z 65536 65536",
        "-c",
        "flush",
        "-c",
        "read -P 0 65536 65536",
        "-c",
        "read -P 9 5000 100",
        &uri,
    ];
    tool("qemu-io", &words);
    let report = server.end(Signal::INT);
    assert_eq!(report["refused_requests"], 0);
    assert_eq!(report["failed_requests"], 0);
    let mut data = std::fs::read(&source).unwrap();
    data[4096..4096 + 8192].fill(7);
    data[5000..5100].fill(9);
    data[65536..2 * 65536].fill(0);
    assert!(crate::support::get(&disk, "guest.raw", &[]) == data);
    assert!(ok(&["check", &disk]).starts_with("sound"));
}

/// nbdkit and qemu-nbd as clients of ours and servers of others.
// partner: nbdkit, qemu-nbd, libnbd | initiator, reader, writer
#[test]
fn nbdkit_and_qemu_nbd_pass_an_export_on() {
    let folder = Folder::new();
    let disk = volume(&folder, "disk.img", &[]);
    let (source, copy) = (folder.path("source"), folder.path("copy"));
    // The length of no power of two, and of whole blocks: it is written.
    std::fs::write(&source, noise(9, (5 << 20) + 7 * 512)).unwrap();
    ok(&[
        "put",
        &disk,
        &folder.file("empty", (5 << 20) + 7 * 512),
        "--name",
        "guest.raw",
    ]);
    let server = Server::start(&folder, &[&disk, "guest.raw", "--write"]);
    let to = format!("socket={}", server.socket);
    let through = format!(
        "nbdcopy --flush '{source}' \"$uri\" && nbdcopy \"$uri\" '{copy}' && nbdinfo --list \"$uri\""
    );
    let words = [
        "--unix",
        "-",
        "nbd",
        &to,
        "export=guest.raw",
        "shared=true",
        "--run",
        &through,
    ];
    let same = |what: &str| {
        assert!(
            std::fs::read(&copy).unwrap() == std::fs::read(&source).unwrap(),
            "{what}"
        )
    };
    if let Some(text) = tool("nbdkit", &words) {
        same("nbdkit");
        assert!(
            text.contains(&format!("export-size: {}", (5 << 20) + 7 * 512)),
            "{text}"
        );
    }
    let socket = folder.path("qemu.sock");
    let again = format!("nbd+unix:///?socket={socket}");
    let pass_on = [
        "--fork",
        "--format",
        "raw",
        "--socket",
        &socket,
        &server.uri,
    ];
    std::fs::write(&source, noise(10, (5 << 20) + 7 * 512)).unwrap();
    // It ends when its client has left.
    if tool("qemu-nbd", &pass_on).is_some() {
        tool("nbdcopy", &["--connections=1", "--flush", &source, &again]);
        tool("qemu-nbd", &pass_on);
        tool("nbdcopy", &["--connections=1", &again, &copy]);
        same("qemu-nbd");
    }
    let report = server.end(Signal::INT);
    assert_eq!(report["refused_requests"], 0);
    assert_eq!(report["failed_requests"], 0);
    assert_eq!(report["lost_connections"], 0);
    assert!(crate::support::get(&disk, "guest.raw", &[]) == std::fs::read(&source).unwrap());
}

/// An authority, and certificates of a server and of a client, in the files that NBD programs
/// expect; None if the machine lacks openssl.
fn certificates(folder: &str) -> Option<()> {
    std::fs::create_dir_all(folder).unwrap();
    let file = |name: &str| format!("{folder}/{name}.pem");
    let key = [
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ];
    let (ca, ca_key) = (file("ca-cert"), file("ca-key"));
    let authority = [
        "req",
        "-x509",
        "-subj",
        "/CN=authority",
        "-keyout",
        &ca_key,
        "-out",
        &ca,
    ];
    tool("openssl", &[&authority[..], &key].concat())?;
    for (who, name) in [("server", "localhost"), ("client", "guest")] {
        let (cert, cert_key) = (file(&format!("{who}-cert")), file(&format!("{who}-key")));
        let (subject, alternative) = (format!("/CN={name}"), format!("subjectAltName=DNS:{name}"));
        let words = [
            "req",
            "-x509",
            "-CA",
            &ca,
            "-CAkey",
            &ca_key,
            "-subj",
            &subject,
            "-addext",
            &alternative,
            "-addext",
            "basicConstraints=critical,CA:FALSE",
            "-keyout",
            &cert_key,
            "-out",
            &cert,
        ];
        tool("openssl", &[&words[..], &key].concat())?;
    }
    Some(())
}

// partner: libnbd | initiator, reader
#[test]
fn with_certificates_both_sides_must_have_one() {
    let folder = Folder::new();
    let (good, other) = (folder.path("good"), folder.path("other"));
    if certificates(&good)
        .and_then(|()| certificates(&other))
        .is_none()
    {
        return;
    }
    let source = folder.path("source");
    std::fs::write(&source, noise(8, 8 << 20)).unwrap();
    let words = ["ram:8M", "--write", "--tls", &good];
    let server = Server::start_at(&folder, "localhost:0", &words);
    assert!(server.uri.starts_with("nbds://"), "{}", server.uri);
    let (_, port) = server.uri.trim_end_matches('/').rsplit_once(':').unwrap();
    let uri = |folder: &str| format!("nbds://localhost:{port}/?tls-certificates={folder}");
    let copy = folder.path("copy");
    if tool("nbdcopy", &["--flush", &source, &uri(&good)]).is_none() {
        return;
    }
    tool("nbdcopy", &[&uri(&good), &copy]);
    assert!(std::fs::read(&copy).unwrap() == std::fs::read(&source).unwrap());
    // Not without TLS, not with a certificate of another authority, and not without one.
    let plain = format!("nbd://localhost:{port}/");
    std::fs::remove_file(format!("{other}/ca-cert.pem")).unwrap();
    std::fs::copy(
        format!("{good}/ca-cert.pem"),
        format!("{other}/ca-cert.pem"),
    )
    .unwrap();
    let none = folder.path("none");
    std::fs::create_dir(&none).unwrap();
    std::fs::copy(format!("{good}/ca-cert.pem"), format!("{none}/ca-cert.pem")).unwrap();
    for uri in [plain, uri(&other), uri(&none)] {
        let refused = Command::new("nbdinfo")
            .args(["--size", &uri])
            .output()
            .unwrap();
        assert!(!refused.status.success(), "{uri}");
        assert!(refused.stdout.is_empty(), "{uri} learns the size");
    }
    // Beside strangers who say nothing.
    let silent = || std::net::TcpStream::connect(format!("localhost:{port}")).unwrap();
    let silent: Vec<_> = (0..200).map(|_| silent()).collect();
    assert!(
        tool("nbdinfo", &["--size", &uri(&good)])
            .unwrap()
            .starts_with("8388608")
    );
    drop(silent);
    let report = server.end(Signal::INT);
    assert_eq!(report["tls"], true);
    assert_eq!(report["written_bytes"], 8 << 20);
    let words = [
        "serve",
        "ram:1M",
        "--nbd",
        "localhost:0",
        "--tls",
        &folder.path("nothing"),
    ];
    refused(&words, 10, "ca-cert.pem");
    std::fs::write(format!("{good}/server-key.pem"), "not a key").unwrap();
    let words = ["serve", "ram:1M", "--nbd", "localhost:0", "--tls", &good];
    refused(&words, 2, "server-key.pem");
}
