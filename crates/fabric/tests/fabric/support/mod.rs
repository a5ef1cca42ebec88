// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A target in memory, written from the specification alone: it answers as its bytes arrive, in
//! pieces of chosen lengths, and changes its answers as a test wants.
#![allow(dead_code)]

use block::{Buffer, Clock};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use straightway_fabric::{
    ByteStream, Connect, KeepAlive, Name, Remote, RemoteEvent, RemoteOptions, StreamError,
};

pub const BLOCK: usize = 512;
pub const BLOCKS: usize = 64;
pub type Device = Remote<Memory, SimulatedClock, 4, 2>;

/// A clock that advances when someone sleeps.
#[derive(Clone, Debug, Default)]
pub struct SimulatedClock(pub Rc<Cell<u64>>);

impl Clock for SimulatedClock {
    fn ticks(&self) -> u64 {
        self.0.get()
    }

    fn ticks_per_second(&self) -> u64 {
        1_000_000
    }
}

/// Changes a PDU, whose number in its connection is given; an empty one is not sent.
pub type Mutate = Box<dyn FnMut(usize, &mut Vec<u8>)>;

/// The target's state, shared by its connections.
pub struct Target {
    pub disk: Vec<u8>,
    /// What of it survives when the volatile cache is lost: what was flushed, and what was written
    /// with Force Unit Access (NVM command set 1.0, Write, bit 30 of dword 12).
    pub durable: Vec<u8>,
    pub header_digest: bool,
    pub data_digest: bool,
    /// Data is asked for by R2T if it is longer.
    pub capsule_bytes: usize,
    /// The longest data of one PDU, both ways.
    pub data_bytes: usize,
    pub has_success_flag: bool,
    pub mutate: Option<Mutate>,
    /// The connection is closed instead of sending this PDU; counted over all connections.
    pub close_at: Option<usize>,
    /// From this PDU on nothing is sent, on any connection.
    pub hang_at: Option<usize>,
    pub refuses: bool,
    /// Each read and write moves at most this.
    pub chunk: usize,
    /// The read that passes this byte, counted over all, stops there.
    pub split_at: Option<usize>,
    pub moved: usize,
    pub pdus: usize,
    pub connections: usize,
    pub alive: usize,
    pub ana: Option<u8>,
    pub size_blocks: u64,
    pub terms: Vec<u16>,
    /// What the host sends on these connections stays in the network, and nothing comes back.
    pub held_connections: std::ops::Range<usize>,
    /// When the network delivers what it held, whether or not the host has aborted the connection
    /// since.
    pub delivered_at: u64,
    network: Vec<Stream>,
    /// The keep-alive timeout of Connect, and what Get Features reports if it is another.
    pub keep_alive_ms: u64,
    pub reported_keep_alive_ms: Option<u64>,
    /// CTRATT, CQT, KAS.
    pub traffic_based: bool,
    pub quiesce_ms: u16,
    pub granularity: u16,
    /// Of each association: when its controller processed a command last.
    processed: Vec<u64>,
    /// Writes that a controller executed after the network had held them.
    pub late_writes: usize,
    pub uuid: [u8; 16],
    pub nguid: [u8; 16],
    /// Status of the next commands for blocks, and how many of them.
    pub statuses: (u16, usize),
    pub events: Vec<RemoteEvent>,
}

impl Target {
    /// Whether the controller of an association takes commands: it looks at its timer once per
    /// timeout and gives up if no command was processed since (base specification 2.1, 3.9, Traffic
    /// Based Keep Alive), so at the latest two timeouts after the last one. Otherwise after one.
    fn is_alive(&self, association: usize, now: u64) -> bool {
        let timeouts = if self.traffic_based { 2 } else { 1 };
        now < self.processed[association - 1] + timeouts * self.keep_alive_ms * 1000
    }
}

/// Delivers what the network has held for long enough.
fn deliver_held(target: &Rc<RefCell<Target>>, now: u64) {
    let due = {
        let mut target = target.borrow_mut();
        if now >= target.delivered_at {
            std::mem::take(&mut target.network)
        } else {
            Vec::new()
        }
    };
    for mut stream in due {
        if target.borrow().is_alive(stream.association, now) {
            stream.is_late = true;
            while stream.take_pdu() {}
        }
        stream.held.clear();
    }
}

impl Default for Target {
    fn default() -> Self {
        Self {
            disk: vec![0; BLOCKS * BLOCK],
            durable: vec![0; BLOCKS * BLOCK],
            header_digest: false,
            data_digest: false,
            capsule_bytes: 1024,
            data_bytes: 4096,
            has_success_flag: false,
            mutate: None,
            close_at: None,
            hang_at: None,
            refuses: false,
            chunk: usize::MAX,
            split_at: None,
            moved: 0,
            pdus: 0,
            connections: 0,
            alive: 0,
            ana: None,
            size_blocks: BLOCKS as u64,
            terms: Vec::new(),
            held_connections: 0..0,
            delivered_at: u64::MAX,
            network: Vec::new(),
            keep_alive_ms: 0,
            reported_keep_alive_ms: None,
            traffic_based: true,
            quiesce_ms: 0,
            granularity: 10,
            processed: Vec::new(),
            late_writes: 0,
            uuid: [0; 16],
            nguid: [0; 16],
            statuses: (0, 0),
            events: Vec::new(),
        }
    }
}

pub fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

fn le(bytes: &[u8], at: usize, len: usize) -> u64 {
    (0..len).fold(0, |value, i| value | u64::from(bytes[at + i]) << (8 * i))
}

/// A write in progress.
struct Writing {
    cid: u16,
    entry: Vec<u8>,
    data: Vec<u8>,
    received: usize,
}

pub struct Stream {
    target: Rc<RefCell<Target>>,
    clock: SimulatedClock,
    from_host: Vec<u8>,
    to_host: Vec<u8>,
    is_closed: bool,
    number: usize,
    writing: Vec<Writing>,
    is_connected: bool,
    connection: usize,
    association: usize,
    /// What the network holds.
    held: Vec<u8>,
    is_late: bool,
}

#[derive(Clone)]
pub struct Memory {
    pub target: Rc<RefCell<Target>>,
    pub clock: SimulatedClock,
}

impl Connect for Memory {
    type Stream = Stream;

    fn connect(&mut self, _: u64) -> Result<Stream, StreamError> {
        let mut target = self.target.borrow_mut();
        if target.refuses {
            return Err(StreamError::Os { errno: 111 });
        }
        target.connections += 1;
        target.alive += 1;
        Ok(Stream {
            target: Rc::clone(&self.target),
            clock: self.clock.clone(),
            from_host: Vec::new(),
            to_host: Vec::new(),
            is_closed: false,
            number: 0,
            writing: Vec::new(),
            is_connected: false,
            connection: target.connections,
            association: target.processed.len(),
            held: Vec::new(),
            is_late: false,
        })
    }

    fn pause(&mut self, us: u64) {
        self.clock.0.set(self.clock.0.get() + us);
        deliver_held(&self.target, self.clock.0.get());
    }

    type Keeper = KeepAlive<Stream>;

    fn keep(&mut self, admin: KeepAlive<Stream>) -> KeepAlive<Stream> {
        admin
    }

    fn event(&mut self, event: RemoteEvent) {
        self.target.borrow_mut().events.push(event);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.is_late {
            return;
        }
        let mut target = self.target.borrow_mut();
        target.alive -= 1;
        if !self.held.is_empty() {
            // The host aborted it, but the network does not know that.
            let ghost = Stream {
                target: Rc::clone(&self.target),
                clock: self.clock.clone(),
                from_host: std::mem::take(&mut self.held),
                to_host: Vec::new(),
                is_closed: false,
                number: 0,
                writing: std::mem::take(&mut self.writing),
                is_connected: true,
                connection: self.connection,
                association: self.association,
                held: Vec::new(),
                is_late: true,
            };
            target.network.push(ghost);
        }
    }
}

impl ByteStream for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, StreamError> {
        if !self.held.is_empty() && self.clock.0.get() >= self.target.borrow().delivered_at {
            // The host has not noticed the loss.
            self.from_host.append(&mut self.held);
            self.target.borrow_mut().held_connections = 0..0;
            while self.take_pdu() {}
        }
        let mut target = self.target.borrow_mut();
        let mut count = bytes.len().min(self.to_host.len()).min(target.chunk);
        if let Some(split) = target.split_at {
            if target.moved < split && target.moved + count > split {
                count = split - target.moved;
            }
        }
        if count == 0 && self.is_closed {
            return Err(StreamError::Closed);
        }
        target.moved += count;
        bytes[..count].copy_from_slice(&self.to_host[..count]);
        self.to_host.drain(..count);
        Ok(count)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, StreamError> {
        if self.is_closed {
            return Err(StreamError::Closed);
        }
        let count = bytes.len().min(self.target.borrow().chunk);
        if self
            .target
            .borrow()
            .held_connections
            .contains(&self.connection)
        {
            self.held.extend(&bytes[..count]);
            return Ok(count);
        }
        self.from_host.extend(&bytes[..count]);
        while self.take_pdu() {}
        Ok(count)
    }

    fn wait(&mut self, timeout_us: u32, _: bool) {
        if self.to_host.is_empty() {
            self.clock
                .0
                .set(self.clock.0.get() + u64::from(timeout_us).max(1));
            deliver_held(&self.target, self.clock.0.get());
        }
    }
}

impl Stream {
    fn take_pdu(&mut self) -> bool {
        if self.from_host.len() < 8 {
            return false;
        }
        let bytes = le(&self.from_host, 4, 4) as usize;
        if self.from_host.len() < bytes {
            return false;
        }
        let pdu: Vec<u8> = self.from_host.drain(..bytes).collect();
        let (hdgst, ddgst) = {
            let target = self.target.borrow();
            (target.header_digest, target.data_digest)
        };
        let header = pdu[2] as usize;
        if self.is_connected && hdgst && pdu[0] >= 4 {
            assert_eq!(pdu[1] & 1, 1);
            let sum = le(&pdu, header, 4) as u32;
            assert_eq!(sum, crc32c(&pdu[..header]), "the host's header digest");
        }
        let data = match pdu[3] {
            0 => Vec::new(),
            at => {
                let end = if ddgst { bytes - 4 } else { bytes };
                let data = pdu[at as usize..end].to_vec();
                if ddgst {
                    assert_eq!(
                        le(&pdu, end, 4) as u32,
                        crc32c(&data),
                        "the host's data digest"
                    );
                }
                data
            }
        };
        match pdu[0] {
            0 => self.initialize(&pdu),
            4 => self.command(&pdu[8..72], data),
            6 => self.data(&pdu, &data),
            2 => self.target.borrow_mut().terms.push(le(&pdu, 8, 2) as u16),
            other => panic!("a PDU of type {other} from the host"),
        }
        true
    }

    /// Queues a PDU for the host.
    fn send(&mut self, mut header: Vec<u8>, data: &[u8]) {
        let mut target = self.target.borrow_mut();
        let is_plain = header[0] == 1 || header[0] == 3;
        let hdgst = target.header_digest && !is_plain;
        let ddgst = target.data_digest && !data.is_empty();
        let own = header.len();
        header[2] = own as u8;
        let at = own + if hdgst { 4 } else { 0 };
        header[1] |= u8::from(hdgst) | u8::from(ddgst) << 1;
        header[3] = if data.is_empty() { 0 } else { at as u8 };
        let bytes = at + data.len() + if ddgst { 4 } else { 0 };
        header[4..8].copy_from_slice(&(bytes as u32).to_le_bytes());
        if hdgst {
            let sum = crc32c(&header);
            header.extend(sum.to_le_bytes());
        }
        header.extend(data);
        if ddgst {
            header.extend(crc32c(data).to_le_bytes());
        }
        let number = self.number;
        self.number += 1;
        let all = target.pdus;
        target.pdus += 1;
        if target.close_at == Some(all) {
            self.is_closed = true;
        }
        if self.is_closed || target.hang_at.is_some_and(|at| all >= at) {
            return;
        }
        if let Some(mutate) = &mut target.mutate {
            mutate(number, &mut header);
        }
        self.to_host.extend(header);
    }

    fn initialize(&mut self, pdu: &[u8]) {
        assert_eq!((pdu.len(), le(pdu, 8, 2)), (128, 0));
        let mut answer = vec![0; 128];
        answer[0] = 1;
        {
            let mut target = self.target.borrow_mut();
            target.header_digest = pdu[11] & 1 != 0;
            target.data_digest = pdu[11] & 2 != 0;
            answer[12..16].copy_from_slice(&(target.data_bytes.max(4096) as u32).to_le_bytes());
        }
        answer[11] = pdu[11];
        self.send(answer, &[]);
        self.is_connected = true;
    }

    fn respond(&mut self, cid: u16, value: u64, status: u16) {
        let mut pdu = vec![0; 24];
        pdu[0] = 5;
        pdu[8..16].copy_from_slice(&value.to_le_bytes());
        pdu[20..22].copy_from_slice(&cid.to_le_bytes());
        pdu[22..24].copy_from_slice(&(status << 1).to_le_bytes());
        self.send(pdu, &[]);
    }

    fn deliver(&mut self, cid: u16, data: &[u8]) {
        let (most, success) = {
            let target = self.target.borrow();
            (target.data_bytes, target.has_success_flag)
        };
        let count = data.len().div_ceil(most);
        for (index, part) in data.chunks(most).enumerate() {
            let mut pdu = vec![0; 24];
            pdu[0] = 7;
            let is_last = index + 1 == count;
            pdu[1] = u8::from(is_last) << 2 | u8::from(is_last && success) << 3;
            pdu[8..10].copy_from_slice(&cid.to_le_bytes());
            pdu[12..16].copy_from_slice(&((index * most) as u32).to_le_bytes());
            pdu[16..20].copy_from_slice(&(part.len() as u32).to_le_bytes());
            self.send(pdu, part);
        }
        if !success {
            self.respond(cid, 0, 0);
        }
    }

    fn command(&mut self, entry: &[u8], data: Vec<u8>) {
        let cid = le(entry, 2, 2) as u16;
        let len = le(entry, 32, 4) as usize;
        assert_eq!(entry[1], 0x40, "PSDT");
        let is_inside = entry[39] == 1;
        let is_write =
            entry[0] == 1 || entry[0] == 9 && len != 0 || entry[0] == 0x7f && entry[4] == 1;
        if is_write && !is_inside {
            let writing = Writing {
                cid,
                entry: entry.to_vec(),
                data: vec![0; len],
                received: 0,
            };
            self.writing.push(writing);
            return self.ask(cid);
        }
        assert_eq!(data.len(), if is_write { len } else { 0 });
        self.execute(entry, &data);
    }

    /// Asks for the next part of a write.
    fn ask(&mut self, cid: u16) {
        // Two PDUs of data at a time.
        let most = 2 * self.target.borrow().data_bytes.max(4096);
        let one = self.writing.iter().find(|one| one.cid == cid).unwrap();
        let (offset, left) = (one.received, one.data.len() - one.received);
        let mut pdu = vec![0; 24];
        pdu[0] = 9;
        pdu[8..10].copy_from_slice(&cid.to_le_bytes());
        pdu[10..12].copy_from_slice(&77u16.to_le_bytes());
        pdu[12..16].copy_from_slice(&(offset as u32).to_le_bytes());
        pdu[16..20].copy_from_slice(&(left.min(most) as u32).to_le_bytes());
        self.send(pdu, &[]);
    }

    fn data(&mut self, pdu: &[u8], data: &[u8]) {
        let (cid, ttag) = (le(pdu, 8, 2) as u16, le(pdu, 10, 2));
        let (offset, len) = (le(pdu, 12, 4) as usize, le(pdu, 16, 4) as usize);
        assert_eq!((ttag, len), (77, data.len()));
        assert!(len <= self.target.borrow().data_bytes.max(4096));
        let one = self.writing.iter_mut().find(|one| one.cid == cid).unwrap();
        assert_eq!(offset, one.received);
        one.data[offset..offset + len].copy_from_slice(data);
        one.received += len;
        if one.received == one.data.len() {
            let index = self.writing.iter().position(|one| one.cid == cid).unwrap();
            let one = self.writing.remove(index);
            self.execute(&one.entry, &one.data);
        } else if pdu[1] & 4 != 0 {
            self.ask(cid);
        }
    }

    fn execute(&mut self, entry: &[u8], data: &[u8]) {
        let cid = le(entry, 2, 2) as u16;
        let dword = |index: usize| le(entry, 4 * index, 4);
        if entry[0] == 0x7f && entry[4] == 1 {
            let mut target = self.target.borrow_mut();
            if le(entry, 42, 2) == 0 {
                target.keep_alive_ms = le(entry, 48, 4);
                target.processed.push(0);
            }
            self.association = target.processed.len();
        }
        if self.association != 0 {
            let mut target = self.target.borrow_mut();
            target.processed[self.association - 1] = self.clock.0.get();
            target.late_writes += usize::from(self.is_late && entry[0] == 1);
            let is_io = dword(1) == 1 && matches!(entry[0], 1 | 2 | 8);
            if is_io && target.statuses.1 > 0 {
                target.statuses.1 -= 1;
                let status = target.statuses.0;
                drop(target);
                return self.respond(cid, 0, status);
            }
        }
        let at = (dword(10) as usize) * BLOCK;
        let len = ((dword(12) as usize & 0xffff) + 1) * BLOCK;
        match entry[0] {
            0x7f => match entry[4] {
                1 => {
                    let name = |at: usize| {
                        let end = data[at..].iter().position(|byte| *byte == 0).unwrap();
                        String::from_utf8(data[at..at + end].to_vec()).unwrap()
                    };
                    let status = match (name(256).as_str(), name(512).as_str()) {
                        ("nqn.t:subsystem", "nqn.t:host") => 0,
                        ("nqn.t:subsystem", _) => 0x4184,
                        _ => 0x4182,
                    };
                    self.respond(cid, 5, status);
                }
                // CAP: 128 entries, 10 s; then CSTS: ready.
                4 if entry[40] == 1 => self.respond(cid, 20 << 24 | 127, 0),
                4 => self.respond(cid, 1, 0),
                _ => self.respond(cid, 0, 0),
            },
            6 => {
                let mut page = vec![0; 4096];
                match dword(10) {
                    1 => {
                        page[4..14].copy_from_slice(b"serial1234");
                        page[80..84].copy_from_slice(&0x0002_0100u32.to_le_bytes());
                        let target = self.target.borrow();
                        page[96] = u8::from(target.traffic_based) << 6;
                        page[320..322].copy_from_slice(&target.granularity.to_le_bytes());
                        page[386..388].copy_from_slice(&target.quiesce_ms.to_le_bytes());
                        drop(target);
                        page[76] = if self.target.borrow().ana.is_some() {
                            8
                        } else {
                            0
                        };
                        (page[512], page[513]) = (0x66, 0x44);
                        page[520] = 0x0c;
                        page[525] = 1;
                        let capsule = (64 + self.target.borrow().capsule_bytes) / 16;
                        page[1792..1796].copy_from_slice(&(capsule as u32).to_le_bytes());
                    }
                    2 => page[0] = 1,
                    3 => {
                        // An EUI64 of 8 bytes, then the UUID.
                        page[0..2].copy_from_slice(&[1, 8]);
                        page[12..14].copy_from_slice(&[3, 16]);
                        page[16..32].copy_from_slice(&self.target.borrow().uuid);
                    }
                    _ => {
                        page[104..120].copy_from_slice(&self.target.borrow().nguid);
                        let blocks = self.target.borrow().size_blocks.to_le_bytes();
                        page[0..8].copy_from_slice(&blocks);
                        page[8..16].copy_from_slice(&blocks);
                        page[130] = 9;
                    }
                }
                self.deliver(cid, &page);
            }
            // In a queue for requests, opcode 2 is a read, and in the other a log.
            2 if dword(1) == 0xffff_ffff => {
                let mut page = vec![0; 4096];
                page[8] = 1;
                page[16 + 4] = 1;
                page[16 + 16] = self.target.borrow().ana.unwrap_or(1);
                page[16 + 32] = 1;
                self.deliver(cid, &page);
            }
            2 => {
                let data = self.target.borrow().disk[at..at + len].to_vec();
                self.deliver(cid, &data);
            }
            1 => {
                let mut target = self.target.borrow_mut();
                target.disk[at..at + len].copy_from_slice(data);
                if dword(12) & 1 << 30 != 0 {
                    target.durable[at..at + len].copy_from_slice(data);
                }
                drop(target);
                self.respond(cid, 0, 0);
            }
            8 if dword(10) as usize + len / BLOCK <= BLOCKS && dword(1) == 1 => {
                self.target.borrow_mut().disk[at..at + len].fill(0);
                self.respond(cid, 0, 0);
            }
            9 if data.len() == 16 => {
                let (count, first) = (le(data, 4, 4) as usize, le(data, 8, 8) as usize);
                self.target.borrow_mut().disk[first * BLOCK..(first + count) * BLOCK].fill(0);
                self.respond(cid, 0, 0);
            }
            // Get Features: the keep-alive timeout.
            10 => {
                let target = self.target.borrow();
                let value = target
                    .reported_keep_alive_ms
                    .unwrap_or(target.keep_alive_ms);
                drop(target);
                self.respond(cid, value, 0);
            }
            0 if dword(1) == 1 => {
                let mut target = self.target.borrow_mut();
                target.durable = target.disk.clone();
                drop(target);
                self.respond(cid, 0, 0);
            }
            // Set Features: two queues granted; Keep Alive.
            9 => self.respond(cid, 1 << 16 | 1, 0),
            _ => self.respond(cid, 0, 0),
        }
    }
}

pub fn options() -> RemoteOptions {
    RemoteOptions {
        subsystem_nqn: Name::new("nqn.t:subsystem").unwrap(),
        host_nqn: Name::new("nqn.t:host").unwrap(),
        queues: 2,
        ..RemoteOptions::default()
    }
}

pub fn buffer(blocks: usize, fill: u8) -> Buffer {
    Buffer::from_static(Box::leak(vec![fill; blocks * BLOCK].into_boxed_slice()))
}

/// A target, how to connect to it, and the clock.
pub fn target() -> Memory {
    Memory {
        target: Rc::default(),
        clock: SimulatedClock::default(),
    }
}

pub fn connect(
    memory: &Memory,
    options: RemoteOptions,
) -> Result<Device, straightway_fabric::FabricError> {
    Remote::connect(memory.clone(), memory.clock.clone(), options, buffer(8, 0))
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Memory")
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stream")
    }
}
