// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A driver's request (5.2.6): 16 bytes that say what it does, its data, and a byte for its status,
//! in a chain of descriptors that may divide them anywhere (2.7.4). Everything is read from the
//! driver's memory once, and then checked.

use crate::disk::{Disk, ID_BYTES, Range, SECTOR_BYTES};
use export::{ExportCommand, Request};
use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_S_IOERR, VIRTIO_BLK_S_OK, VIRTIO_BLK_S_UNSUPP, VIRTIO_BLK_T_DISCARD,
    VIRTIO_BLK_T_FLUSH, VIRTIO_BLK_T_GET_ID, VIRTIO_BLK_T_IN, VIRTIO_BLK_T_OUT,
    VIRTIO_BLK_T_WRITE_ZEROES,
};
use virtio_queue::DescriptorChain;
use vm_memory::{Bytes, GuestAddress, GuestMemory, GuestMemoryMmap, Permissions};

const HEAD_BYTES: usize = 16;
const RANGE_BYTES: usize = 16;

/// Statuses of a request.
pub(crate) const DONE: u8 = VIRTIO_BLK_S_OK as u8;
pub(crate) const FAILED: u8 = VIRTIO_BLK_S_IOERR as u8;
pub(crate) const UNSUPPORTED: u8 = VIRTIO_BLK_S_UNSUPP as u8;

/// Why a driver's session ends: after such an error nothing that it says later can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Broken {
    /// A ring is not in the driver's memory, is not aligned, or has an index that cannot be.
    #[error("a virtqueue's ring is not valid")]
    Ring,
    /// A chain has a descriptor outside of its table, a loop, or a buffer outside of the memory.
    #[error("a descriptor chain is not valid")]
    Chain,
    /// A chain has no head, or no place for the status.
    #[error("a request has no head or no place for its status")]
    NoStatus,
}

/// A part of the driver's memory.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: GuestAddress,
    len: u32,
}

/// A chain that is to be answered.
#[derive(Debug)]
pub(crate) struct Chain {
    pub head: u16,
    status: GuestAddress,
    /// Where a read's data goes, or a write's comes from.
    data: Vec<Segment>,
}

/// What a chain asks for.
#[derive(Debug)]
pub(crate) enum Asked {
    /// A request for the device.
    Device(Request),
    /// It has its status at once, and as many bytes of data as were written.
    Now { status: u8, written_bytes: u32 },
}

impl Chain {
    /// Reads a chain and checks it.
    pub fn read(
        chain: DescriptorChain<&GuestMemoryMmap>,
        memory: &GuestMemoryMmap,
        disk: &Disk,
    ) -> Result<(Self, Asked), Broken> {
        let head_index = chain.head_index();
        let (mut readable, mut writable) = segments(chain, memory)?;
        let mut head = [0; HEAD_BYTES];
        if !take_front(memory, &mut readable, &mut head) {
            return Err(Broken::NoStatus);
        }
        let last = writable.last_mut().ok_or(Broken::NoStatus)?;
        last.len -= 1;
        let end = last.start.0 + u64::from(last.len);
        let mut one = Self {
            head: head_index,
            status: GuestAddress(end),
            data: Vec::new(),
        };
        writable.retain(|segment| segment.len > 0);
        let [a, b, c, d, _, _, _, _, sector @ ..] = head;
        let (kind, sector) = (u32::from_le_bytes([a, b, c, d]), u64::from_le_bytes(sector));
        let asked = match kind {
            VIRTIO_BLK_T_IN => one.transfer(ExportCommand::Read, sector, writable, disk),
            VIRTIO_BLK_T_OUT => one.transfer(ExportCommand::Write, sector, readable, disk),
            VIRTIO_BLK_T_FLUSH => Asked::Device(request(
                ExportCommand::Flush,
                Range {
                    offset_bytes: 0,
                    len_bytes: 0,
                },
            )),
            VIRTIO_BLK_T_DISCARD => change(ExportCommand::Trim, memory, readable, disk),
            VIRTIO_BLK_T_WRITE_ZEROES => change(ExportCommand::WriteZeroes, memory, readable, disk),
            VIRTIO_BLK_T_GET_ID => {
                one.data = writable;
                let written = one.put(memory, 0, &disk.id[..ID_BYTES.min(one.data_bytes())]);
                Asked::Now {
                    status: DONE,
                    written_bytes: written.map_err(|()| Broken::Chain)?,
                }
            }
            _ => refused(UNSUPPORTED),
        };
        Ok((one, asked))
    }

    fn transfer(
        &mut self,
        command: ExportCommand,
        sector: u64,
        data: Vec<Segment>,
        disk: &Disk,
    ) -> Asked {
        self.data = data;
        let changes = command == ExportCommand::Write;
        let len_bytes = u32::try_from(self.data_bytes()).unwrap_or(u32::MAX);
        let range = sector.checked_mul(SECTOR_BYTES).map(|offset_bytes| Range {
            offset_bytes,
            len_bytes,
        });
        match range {
            Some(range)
                if disk.holds(range, changes)
                    && len_bytes <= disk.max_payload_bytes
                    && u64::from(len_bytes) % SECTOR_BYTES == 0
                    && !(changes && disk.read_only) =>
            {
                Asked::Device(request(command, range))
            }
            _ => refused(FAILED),
        }
    }

    fn data_bytes(&self) -> usize {
        self.data.iter().map(|segment| segment.len as usize).sum()
    }

    /// The segments' parts from byte `at` on.
    fn from(&self, mut at: usize) -> impl Iterator<Item = Segment> {
        self.data.iter().filter_map(move |segment| {
            let skipped = at.min(segment.len as usize);
            at -= skipped;
            let left = segment.len - skipped as u32;
            (left > 0).then_some(Segment {
                start: GuestAddress(segment.start.0 + skipped as u64),
                len: left,
            })
        })
    }

    /// Stores bytes from byte `at` of the data on; returns how many there were.
    pub fn put(&self, memory: &GuestMemoryMmap, at: usize, mut bytes: &[u8]) -> Result<u32, ()> {
        let all = bytes.len() as u32;
        for segment in self.from(at) {
            let (now, rest) = bytes.split_at(bytes.len().min(segment.len as usize));
            memory.write_slice(now, segment.start).map_err(drop)?;
            bytes = rest;
            if bytes.is_empty() {
                break;
            }
        }
        bytes.is_empty().then_some(all).ok_or(())
    }

    /// Loads bytes from byte `at` of the data on.
    pub fn get(&self, memory: &GuestMemoryMmap, at: usize, mut bytes: &mut [u8]) -> Result<(), ()> {
        for segment in self.from(at) {
            let len = bytes.len().min(segment.len as usize);
            let (now, rest) = bytes.split_at_mut(len);
            memory.read_slice(now, segment.start).map_err(drop)?;
            bytes = rest;
            if bytes.is_empty() {
                break;
            }
        }
        bytes.is_empty().then_some(()).ok_or(())
    }

    /// Stores the status.
    pub fn end(&self, memory: &GuestMemoryMmap, status: u8) -> Result<(), Broken> {
        let stored = memory.write_obj(status, self.status);
        stored.map_err(|_| Broken::Chain)
    }
}

const fn refused(status: u8) -> Asked {
    Asked::Now {
        status,
        written_bytes: 0,
    }
}

const fn request(command: ExportCommand, range: Range) -> Request {
    Request {
        cookie: 0,
        command,
        offset_bytes: range.offset_bytes,
        len_bytes: range.len_bytes,
        fua: false,
    }
}

/// A discard or a zeroing of one range: its sector, the number of sectors, and flags, of which bit
/// 0 lets a zeroing give blocks back.
fn change(
    command: ExportCommand,
    memory: &GuestMemoryMmap,
    mut data: Vec<Segment>,
    disk: &Disk,
) -> Asked {
    let has = match command {
        ExportCommand::Trim => disk.discard,
        _ => disk.write_zeroes,
    };
    if !has {
        // A disk that can be written lacks it; of one that cannot, nothing is changed.
        return refused(if disk.read_only { FAILED } else { UNSUPPORTED });
    }
    let mut range = [0; RANGE_BYTES];
    if !take_front(memory, &mut data, &mut range) || !data.is_empty() {
        return refused(FAILED);
    }
    let [s0, s1, s2, s3, s4, s5, s6, s7, n0, n1, n2, n3, flags @ ..] = range;
    let sector = u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
    let sectors = u32::from_le_bytes([n0, n1, n2, n3]);
    let known = u32::from(command == ExportCommand::WriteZeroes);
    if u32::from_le_bytes(flags) & !known != 0 {
        return refused(UNSUPPORTED);
    }
    let range = sector.checked_mul(SECTOR_BYTES).map(|offset_bytes| Range {
        offset_bytes,
        len_bytes: sectors.saturating_mul(SECTOR_BYTES as u32),
    });
    match range {
        Some(range) if disk.may_change_at_once(sectors) && disk.holds(range, true) => {
            Asked::Device(request(command, range))
        }
        _ => refused(FAILED),
    }
}

/// What the driver may be read from, and what may be written to, in order: all in its memory, and
/// no writable segment before a readable one (2.7.4.2). None is empty.
fn segments(
    chain: DescriptorChain<&GuestMemoryMmap>,
    memory: &GuestMemoryMmap,
) -> Result<(Vec<Segment>, Vec<Segment>), Broken> {
    let (mut readable, mut writable) = (Vec::new(), Vec::new());
    // A chain that ends although its last descriptor has a next one has left its table, or is a
    // loop.
    let mut is_cut = true;
    for descriptor in chain {
        is_cut = descriptor.has_next();
        let (start, len) = (descriptor.addr(), descriptor.len());
        if len == 0 {
            continue;
        }
        let (list, access) = if descriptor.is_write_only() {
            (&mut writable, Permissions::Write)
        } else if writable.is_empty() {
            (&mut readable, Permissions::Read)
        } else {
            return Err(Broken::Chain);
        };
        if !memory.check_range(start, len as usize, access) {
            return Err(Broken::Chain);
        }
        list.push(Segment { start, len });
    }
    if is_cut {
        Err(Broken::Chain)
    } else {
        Ok((readable, writable))
    }
}

/// Takes the first bytes out of segments; false: there are not enough.
fn take_front(memory: &GuestMemoryMmap, segments: &mut Vec<Segment>, bytes: &mut [u8]) -> bool {
    let mut at = 0;
    for segment in segments.iter_mut() {
        let len = (bytes.len() - at).min(segment.len as usize);
        let part = bytes.get_mut(at..at + len).unwrap_or_default();
        if memory.read_slice(part, segment.start).is_err() {
            return false;
        }
        at += len;
        segment.start = GuestAddress(segment.start.0 + len as u64);
        segment.len -= len as u32;
    }
    segments.retain(|segment| segment.len > 0);
    at == bytes.len()
}
