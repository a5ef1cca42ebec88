// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A driver with a queue of 16 entries in its memory.

use std::cell::RefCell;
use straightway_virtio::block::{Buffer, Device, RamDisk, blocking};
use straightway_virtio::export::{Engine, Limits};
use straightway_virtio::vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use straightway_virtio::{Broken, Disk, Rings};

pub const DISK_BYTES: u64 = 64 << 10;
pub const MEMORY_BYTES: u64 = 1 << 20;
pub const ENTRIES: u16 = 16;
/// Where a driver's tables are, and its data.
pub const TABLE: u64 = 0x1000;
pub const AVAILABLE: u64 = 0x2000;
pub const USED: u64 = 0x3000;
const HEADS: u64 = 0x4000;
const STATUSES: u64 = 0x5000;
const INDIRECT: u64 = 0x6000;
pub const DATA: u64 = 0x10000;

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const IS_TABLE: u16 = 4;

pub fn content() -> Vec<u8> {
    (0..DISK_BYTES).map(|i| (i ^ (i >> 8)) as u8 | 1).collect()
}

/// The head of a request.
pub fn head(kind: u32, sector: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&kind.to_le_bytes());
    bytes[8..].copy_from_slice(&sector.to_le_bytes());
    bytes
}

/// The data of a discard or of a zeroing.
pub fn range(sector: u64, sectors: u32, flags: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&sector.to_le_bytes());
    bytes[8..12].copy_from_slice(&sectors.to_le_bytes());
    bytes[12..].copy_from_slice(&flags.to_le_bytes());
    bytes
}

/// A part of a chain.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub start: u64,
    pub len: u32,
    pub writable: bool,
}

impl Part {
    pub const fn readable(start: u64, len: u32) -> Self {
        let writable = false;
        Self {
            start,
            len,
            writable,
        }
    }

    pub const fn writable(start: u64, len: u32) -> Self {
        let writable = true;
        Self {
            start,
            len,
            writable,
        }
    }
}

pub struct Driver {
    memory: GuestMemoryMmap,
    rings: Rings,
    engine: Engine,
    disk: RamDisk<Vec<u8>, 4>,
    whole: Option<Buffer>,
    pieces: usize,
    next: u16,
    available: u16,
}

thread_local! {
    /// Those of drivers that have ended: a search makes thousands.
    static BUFFERS: RefCell<Vec<Buffer>> = RefCell::default();
}

fn buffers(count: usize) -> Vec<Buffer> {
    let mut kept = BUFFERS.take();
    kept.resize_with(count, || Buffer::from_static(vec![0; 1024].leak()));
    kept
}

impl Driver {
    pub fn new(write: bool) -> Self {
        let memory = [(GuestAddress(0), MEMORY_BYTES as usize)];
        let memory = GuestMemoryMmap::from_ranges(&memory).unwrap();
        let disk = RamDisk::new(content(), 9).unwrap();
        let limits = Limits::new(disk.geometry(), 1024, 32 << 10, 4);
        let engine = Engine::new(disk.geometry(), limits, 1, buffers(limits.pieces));
        let most = limits.max_payload_bytes();
        let mut rings = Rings::new(
            Disk::of(disk.geometry(), write, most, "a disk of a test"),
            0,
        );
        rings.set_memory(memory.clone());
        assert!(rings.set_size(0, ENTRIES.into()));
        assert!(rings.set_addresses(0, [TABLE, AVAILABLE, USED]));
        rings.start(0).unwrap();
        assert!(rings.enable(0, true));
        Self {
            memory,
            rings,
            engine,
            disk,
            whole: None,
            pieces: limits.pieces,
            next: 0,
            available: 0,
        }
    }

    pub fn rings(&mut self) -> &mut Rings {
        &mut self.rings
    }

    /// The whole disk.
    pub fn disk(&mut self) -> Vec<u8> {
        let len = DISK_BYTES as usize;
        let limit = self.disk.geometry().max_transfer_bytes();
        assert!(limit >= len);
        let whole = self.whole.take();
        let whole = whole.unwrap_or_else(|| Buffer::from_static(vec![0; len].leak()));
        let read = blocking::read(&mut self.disk, 0, whole);
        assert_eq!(read.result, Ok(()));
        let bytes = read.buffer.to_vec();
        self.whole = Some(read.buffer);
        bytes
    }

    pub fn features(&self) -> u64 {
        self.rings.disk().features()
    }

    pub fn refused(&mut self) -> u64 {
        self.rings.take_refused()
    }

    pub fn store(&self, at: u64, bytes: &[u8]) {
        self.memory.write_slice(bytes, GuestAddress(at)).unwrap();
    }

    pub fn load(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory
            .read_slice(&mut bytes, GuestAddress(at))
            .unwrap();
        bytes
    }

    fn entry(part: Part, flags: u16, next: Option<u16>) -> [u8; 16] {
        let mut flags = flags | if part.writable { WRITE } else { 0 };
        flags |= next.map_or(0, |_| NEXT);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&part.start.to_le_bytes());
        bytes[8..12].copy_from_slice(&part.len.to_le_bytes());
        bytes[12..14].copy_from_slice(&flags.to_le_bytes());
        bytes[14..].copy_from_slice(&next.unwrap_or(0).to_le_bytes());
        bytes
    }

    pub fn descriptor(&self, index: u16, part: Part, next: Option<u16>) {
        let at = TABLE + u64::from(index) * 16;
        self.store(at, &Self::entry(part, 0, next));
    }

    /// Puts a head into the available ring and sets its index.
    pub fn offer(&mut self, head: u16, index: u16) {
        let at = AVAILABLE + 4 + u64::from(self.available % ENTRIES) * 2;
        self.store(at, &head.to_le_bytes());
        self.store(AVAILABLE + 2, &index.to_le_bytes());
    }

    fn offer_next(&mut self, head: u16) -> u16 {
        self.offer(head, self.available.wrapping_add(1));
        self.available = self.available.wrapping_add(1);
        head
    }

    /// A chain of these parts; returns its head.
    pub fn chain(&mut self, parts: &[Part]) -> u16 {
        let first = self.next;
        for (index, part) in parts.iter().enumerate() {
            let at = (self.next + index as u16) % ENTRIES;
            let has_next = index + 1 < parts.len();
            self.descriptor(at, *part, has_next.then_some((at + 1) % ENTRIES));
        }
        self.next = (self.next + parts.len() as u16) % ENTRIES;
        self.offer_next(first)
    }

    fn framed(&self, slot: u16, head: &[u8; 16], parts: &[Part]) -> Vec<Part> {
        let slot = u64::from(slot);
        self.store(HEADS + slot * 16, head);
        self.store(STATUSES + slot, &[0xff]);
        let mut all = vec![Part::readable(HEADS + slot * 16, 16)];
        all.extend(parts);
        all.push(Part::writable(STATUSES + slot, 1));
        all
    }

    /// A request: a head, its data and a status, each in descriptors of their own.
    pub fn request(&mut self, head: &[u8; 16], parts: &[Part]) -> u16 {
        let all = self.framed(self.next, head, parts);
        self.chain(&all)
    }

    /// The same in a table of its own.
    pub fn indirect(&mut self, head: &[u8; 16], parts: &[Part]) -> u16 {
        let all = self.framed(self.next, head, parts);
        for (index, part) in all.iter().enumerate() {
            let next = (index + 1 < all.len()).then_some(index as u16 + 1);
            let entry = Self::entry(*part, 0, next);
            self.store(INDIRECT + index as u64 * 16, &entry);
        }
        let first = self.next;
        let table = Part::readable(INDIRECT, all.len() as u32 * 16);
        self.store(
            TABLE + u64::from(first) * 16,
            &Self::entry(table, IS_TABLE, None),
        );
        self.next = (self.next + 1) % ENTRIES;
        self.offer_next(first)
    }

    /// Lets the device work until it has nothing to do.
    pub fn run(&mut self) -> Result<(), Broken> {
        loop {
            let mut happened = self.rings.take(&mut self.engine, false)?;
            happened |= self.engine.turn(&mut self.disk);
            while let Some(answer) = self.engine.answer() {
                happened = true;
                self.rings.answer(answer, &mut self.engine)?;
            }
            if !happened && !self.rings.sleep()? {
                self.rings.to_notify()?;
                return Ok(());
            }
        }
    }

    /// Ends the session, and checks that no buffer is lost.
    pub fn end(mut self) {
        self.engine.abandon(0);
        while self.engine.turn(&mut self.disk) {}
        assert_eq!(self.engine.outstanding(), 0);
        let buffers = self.engine.into_buffers();
        assert_eq!(buffers.len(), self.pieces);
        BUFFERS.set(buffers);
    }

    /// The used length of a chain, if it was answered.
    pub fn used(&self, head: u16) -> Option<u32> {
        let bytes = self.load(USED, 4 + 8 * usize::from(ENTRIES));
        let count = usize::from(u16::from_le_bytes([bytes[2], bytes[3]]));
        let recent = count.saturating_sub(ENTRIES.into())..count;
        recent.rev().find_map(|number| {
            let at = 4 + number % usize::from(ENTRIES) * 8;
            let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            (word(at) == u32::from(head)).then(|| word(at + 4))
        })
    }

    /// The status of a request, and its used length.
    pub fn outcome(&self, head: u16) -> Option<(u8, u32)> {
        let status = self.load(STATUSES + u64::from(head), 1)[0];
        self.used(head).map(|used| (status, used))
    }
}
