//! A device as a virtual machine's disk: a front end of rust-vmm with memory and a queue of its own.

use crate::serve::Server;
use crate::support::{Folder, noise, ok, refused, schema_names_all_keys, volume};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::process::Signal;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;
use vhost::vhost_user::message::{VhostUserConfigFlags, VhostUserProtocolFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use virtio::vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap};
use vmm_sys_util::eventfd::EventFd;

const MEMORY_BYTES: usize = 2 << 20;
/// Where the machine's memory is in its own addresses, and in those that the messages use.
const GUEST: u64 = 0x4000_0000;
const USER: u64 = 0x7000_0000_0000;
const ENTRIES: u16 = 16;
const TABLE: u64 = 0x1000;
const AVAILABLE: u64 = 0x2000;
const USED: u64 = 0x3000;
const HEADS: u64 = 0x4000;
const STATUSES: u64 = 0x5000;
const DATA: u64 = 0x10000;
const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 4;
const IDENTIFY: u32 = 8;
const PROTOCOL: u64 = 1 << 30;

/// A virtual machine with one queue.
struct Machine {
    frontend: Frontend,
    memory: GuestMemoryMmap,
    features: u64,
    kick: EventFd,
    call: EventFd,
    available: u16,
}

impl Machine {
    fn connect(socket: &str) -> Self {
        let file = memfd_create("machine", MemfdFlags::empty()).unwrap();
        ftruncate(&file, MEMORY_BYTES as u64).unwrap();
        let file = std::fs::File::from(file);
        let region = VhostUserMemoryRegionInfo {
            guest_phys_addr: GUEST,
            memory_size: MEMORY_BYTES as u64,
            userspace_addr: USER,
            mmap_offset: 0,
            mmap_handle: file.as_raw_fd(),
        };
        let mut frontend = Frontend::connect(socket, 64).unwrap();
        frontend.set_owner().unwrap();
        let features = frontend.get_features().unwrap();
        assert_ne!(features & PROTOCOL, 0);
        let protocol = frontend.get_protocol_features().unwrap();
        let wanted = VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::REPLY_ACK;
        assert!(protocol.contains(wanted));
        frontend.set_protocol_features(wanted).unwrap();
        frontend.set_hdr_flags(vhost::vhost_user::message::VhostUserHeaderFlag::NEED_REPLY);
        frontend.set_features(features).unwrap();
        assert_eq!(frontend.get_queue_num().unwrap(), 64);
        frontend.set_mem_table(&[region]).unwrap();
        let offset = Some(FileOffset::new(file, 0));
        let ranges = [(GuestAddress(0), MEMORY_BYTES, offset)];
        let memory = GuestMemoryMmap::from_ranges_with_files(ranges).unwrap();
        Self {
            frontend,
            memory,
            features,
            kick: EventFd::new(0).unwrap(),
            call: EventFd::new(0).unwrap(),
            available: 0,
        }
    }

    /// Starts the queue from this index on.
    fn start(&mut self, base: u16) {
        let config = VringConfigData {
            queue_max_size: ENTRIES,
            queue_size: ENTRIES,
            flags: 0,
            desc_table_addr: USER + TABLE,
            used_ring_addr: USER + USED,
            avail_ring_addr: USER + AVAILABLE,
            log_addr: None,
        };
        self.frontend.set_vring_num(0, ENTRIES).unwrap();
        self.frontend.set_vring_addr(0, &config).unwrap();
        self.frontend.set_vring_base(0, base).unwrap();
        self.frontend.set_vring_call(0, &self.call).unwrap();
        self.frontend.set_vring_kick(0, &self.kick).unwrap();
        self.frontend.set_vring_enable(0, true).unwrap();
    }

    fn started(socket: &str) -> Self {
        let mut machine = Self::connect(socket);
        machine.start(0);
        machine
    }

    fn config(&mut self, offset: u32, len: usize) -> Vec<u8> {
        let flags = VhostUserConfigFlags::WRITABLE;
        let wanted = vec![0; len];
        let (_, bytes) = self
            .frontend
            .get_config(offset, len as u32, flags, &wanted)
            .unwrap();
        bytes
    }

    fn store(&self, at: u64, bytes: &[u8]) {
        self.memory.write_slice(bytes, GuestAddress(at)).unwrap();
    }

    fn load(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory
            .read_slice(&mut bytes, GuestAddress(at))
            .unwrap();
        bytes
    }

    fn entry(&self, index: u64, start: u64, len: u32, flags: u16) {
        let mut bytes = (GUEST + start).to_le_bytes().to_vec();
        bytes.extend(len.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes.extend((index as u16 + 1).to_le_bytes());
        self.store(TABLE + index * 16, &bytes);
    }

    /// Makes a request of up to 5 available, and wakes the server.
    fn submit(&mut self, kind: u32, sector: u64, data: u64, len: u32) {
        let slot = u64::from(self.available % 5);
        let mut head = [0; 16];
        head[..4].copy_from_slice(&kind.to_le_bytes());
        head[8..].copy_from_slice(&sector.to_le_bytes());
        self.store(HEADS + slot * 16, &head);
        self.store(STATUSES + slot, &[0xff]);
        let first = slot * 3;
        self.entry(first, HEADS + slot * 16, 16, 1);
        let is_device_s = u16::from(kind != WRITE) * 2;
        let mut status = first + 1;
        if len > 0 {
            self.entry(first + 1, data, len, 1 | is_device_s);
            status += 1;
        }
        self.entry(status, STATUSES + slot, 1, 2);
        let at = AVAILABLE + 4 + u64::from(self.available % ENTRIES) * 2;
        self.store(at, &(first as u16).to_le_bytes());
        self.available += 1;
        self.store(AVAILABLE + 2, &self.available.to_le_bytes());
        self.kick.write(1).unwrap();
    }

    /// Waits until everything is answered, by the server's wakes.
    fn wait(&mut self) {
        loop {
            // VIRTIO_F_EVENT_IDX: wake us at the next answer, unless it has come before this was stored.
            let used = self.used();
            let at = AVAILABLE + 4 + 2 * u64::from(ENTRIES);
            self.store(at, &used.to_le_bytes());
            fence(Ordering::SeqCst);
            if used == self.available {
                return;
            }
            if self.used() != used {
                continue;
            }
            // The server has made the file one that does not wait.
            while let Err(error) = self.call.read() {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    }

    fn used(&self) -> u16 {
        let used = self.load(USED + 2, 2);
        u16::from_le_bytes([used[0], used[1]])
    }

    fn status(&self, number: u16) -> u8 {
        self.load(STATUSES + u64::from(number % 5), 1)[0]
    }

    fn ask(&mut self, kind: u32, sector: u64, data: u64, len: u32) -> u8 {
        self.submit(kind, sector, data, len);
        self.wait();
        self.status(self.available - 1)
    }

    /// Stops the queue; returns the index of the next request.
    fn stop(&mut self) -> u32 {
        self.frontend.get_vring_base(0).unwrap()
    }
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
    assert_eq!(machine.ask(IDENTIFY, 0, DATA, 20), 0);
    // Longer than a command of the device, and several at once.
    assert_eq!(machine.ask(READ, 1, DATA, 300 << 10), 0);
    assert!(machine.load(DATA, 300 << 10) == content[512..][..300 << 10]);
    let data = noise(3, 256 << 10);
    machine.store(DATA, &data);
    for (part, sector) in [(0, 100), (64 << 10, 4000), (128 << 10, 300)] {
        machine.submit(WRITE, sector, DATA + part, 64 << 10);
        let at = sector as usize * 512;
        content[at..at + (64 << 10)].copy_from_slice(&data[part as usize..][..64 << 10]);
    }
    machine.wait();
    assert!((1..5).all(|number| machine.status(number) == 0));
    assert_eq!(machine.ask(FLUSH, 0, 0, 0), 0);
    assert_eq!(machine.ask(WRITE, 8192, DATA, 512), 1, "behind the end");
    assert_eq!(machine.stop(), 7);
    drop(machine);
    // The next one is served, from where its own queue begins.
    let mut next = Machine::started(&server.socket);
    assert_eq!(next.ask(READ, 100, DATA, 64 << 10), 0);
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
    assert_eq!(machine.ask(WRITE, 0, DATA, 512), 1);
    assert_eq!(machine.ask(READ, 80, DATA, 4096), 0);
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
        assert_eq!(machine.ask(WRITE, round * 128, DATA, 64 << 10), 0);
        for number in 0..4 {
            machine.submit(READ, number * 128, DATA + 0x20000, 64 << 10);
        }
        // Without a farewell, and without its memory.
        drop(machine);
    }
    let mut last = Machine::started(&server.socket);
    for round in 0..20u64 {
        assert_eq!(last.ask(READ, round * 128, DATA, 64 << 10), 0);
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
    // Half a message, and messages whose answers are not taken.
    let mut half = UnixStream::connect(&server.socket).unwrap();
    half.write_all(&message(1, 1, &[])[..7]).unwrap();
    drop(half);
    let mut deaf = UnixStream::connect(&server.socket).unwrap();
    deaf.set_nonblocking(true).unwrap();
    while deaf.write_all(&message(1, 1, &[])).is_ok() {}
    drop(deaf);
    // A ring whose index cannot be, in the middle of good requests.
    let mut machine = Machine::started(&server.socket);
    assert_eq!(machine.ask(READ, 0, DATA, 512), 0);
    machine.store(AVAILABLE + 2, &700u16.to_le_bytes());
    machine.kick.write(1).unwrap();
    // It is disconnected, once the server has looked at the ring.
    while machine.frontend.get_features().is_ok() {}
    drop(machine);
    let mut good = Machine::started(&server.socket);
    assert_eq!(good.ask(READ, 0, DATA, 4096), 0);
    assert!(good.load(DATA, 4096) == std::fs::read(&disk).unwrap()[..4096]);
    good.stop();
    drop(good);
    let report = server.end(Signal::TERM);
    assert_eq!(report["failed_requests"], 0);
    assert_eq!(report["requests"]["read"], 2);
}
