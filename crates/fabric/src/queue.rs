// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One connection of NVMe/TCP: commands out, data both ways, responses in.

use crate::command::QueueEntry;
use crate::pdu::{self, COMMAND_BYTES, DATA_BYTES, DIGEST_BYTES, Header, IC_BYTES, flag, kind};
use crate::receive::{Received, Receiver};
use crate::{ByteStream, FabricError};
use block::Buffer;
use block::fields::{put, u16_at, u32_at, u64_at};

/// Bytes of headers and short data that are sent with one write.
const OUT_BYTES: usize = 12 << 10;
/// Data up to this length is copied behind its header; longer data is sent from its buffer.
const COPIED_BYTES: usize = 4096;
/// The least that a target must accept in one H2CData PDU.
const LEAST_H2C_BYTES: u32 = 4096;

/// What both sides have agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest data of one H2CData PDU.
    pub h2c_bytes: u32,
    /// The longest data within a command's capsule.
    pub in_capsule_bytes: u32,
    /// Headers have digests.
    pub header_digest: bool,
    /// Data has digests.
    pub data_digest: bool,
    /// Where data begins in a PDU to the target: at multiples of this many bytes.
    pub align_bytes: u32,
}

/// A command that has ended.
#[derive(Debug)]
pub struct Done {
    /// As submitted.
    pub tag: u32,
    /// The command's opcode.
    pub opcode: u8,
    /// Whether it asked for Force Unit Access.
    pub is_fua: bool,
    /// The command's buffer.
    pub buffer: Option<Buffer>,
    /// Bytes that arrived, of a read.
    pub received_bytes: u32,
    /// Whether a read got less than it asked for.
    pub is_short: bool,
    /// The completion's first 8 bytes.
    pub value: u64,
    /// The status field, phase tag removed.
    pub status: u16,
}

/// Status: a data digest did not match ("Transient Transport Error").
pub(crate) const TRANSIENT_TRANSPORT: u16 = 0x022;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    None,
    In,
    Out,
}

/// What is to be sent next for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Nothing,
    Capsule,
    Data { ttag: u16, offset: u32, left: u32 },
}

#[derive(Debug)]
pub(crate) struct Slot {
    pub tag: u32,
    entry: QueueEntry,
    pub buffer: Option<Buffer>,
    /// Data that needs no buffer of the caller: a range to discard.
    short: [u8; 16],
    /// Bytes of the data.
    pub len: u32,
    pub direction: Direction,
    next: Next,
    pub received: u32,
    pub is_corrupt: bool,
    /// The capsule has been sent, so the target may answer.
    is_sent: bool,
    /// The path failed the command with this status; it waits to be sent again.
    path_status: u16,
    /// It has been sent again after that.
    is_retried: bool,
    /// That was at the end of its time: it is not sent once more.
    is_last: bool,
    since: u64,
}

impl Slot {
    fn data(&self, offset: usize, len: usize) -> &[u8] {
        let whole: &[u8] = match &self.buffer {
            Some(buffer) => buffer,
            None => &self.short,
        };
        whole.get(offset..offset + len).unwrap_or_default()
    }
}

/// Data that is sent from its buffer.
#[derive(Clone, Copy, Debug)]
struct Segment {
    cid: usize,
    offset: usize,
    len: usize,
}

/// A connection over `S` with up to `DEPTH` commands outstanding.
///
/// Every violation of the protocol ends the connection with an error; nothing that the target sends
/// can cause a panic, a write outside of a command's buffer, or a wait without end: the owner of
/// the queue ends it when a command is overdue ([`oldest`](Queue::oldest)).
#[derive(Debug)]
pub struct Queue<S, const DEPTH: usize> {
    stream: S,
    limits: Limits,
    is_ready: bool,
    slots: [Option<Slot>; DEPTH],
    used: usize,
    /// Where the search for a free slot begins, so that identifiers are not reused at once.
    turn: usize,
    /// Slots with something to send, a ring.
    work: [u16; DEPTH],
    work_first: usize,
    work_count: usize,
    out: [u8; OUT_BYTES],
    out_from: usize,
    out_to: usize,
    segment: Option<Segment>,
    /// The digest behind the segment.
    trailer: Option<[u8; DIGEST_BYTES]>,
    receiver: Receiver,
    /// Commands that failed by their path are kept, to be sent again.
    keeps_path_failures: bool,
    kept: u16,
    error: Option<FabricError>,
}

impl<S: ByteStream, const DEPTH: usize> Queue<S, DEPTH> {
    /// Begins a connection: the connection request, with the digests that are wanted, is sent by
    /// [`kick`](Queue::kick).
    pub fn new(stream: S, header_digest: bool, data_digest: bool) -> Self {
        let mut queue = Self {
            stream,
            limits: Limits {
                h2c_bytes: LEAST_H2C_BYTES,
                in_capsule_bytes: 8192,
                header_digest,
                data_digest,
                align_bytes: 1,
            },
            is_ready: false,
            slots: [const { None }; DEPTH],
            used: 0,
            turn: 0,
            work: [0; DEPTH],
            work_first: 0,
            work_count: 0,
            out: [0; OUT_BYTES],
            out_from: 0,
            out_to: IC_BYTES,
            segment: None,
            trailer: None,
            receiver: Receiver::new(),
            keeps_path_failures: false,
            kept: 0,
            error: None,
        };
        let header = Header {
            kind: kind::IC_REQ,
            flags: 0,
            header_bytes: IC_BYTES as u8,
            data_at: 0,
            bytes: IC_BYTES as u32,
        };
        header.write(&mut queue.out);
        let digests = u8::from(header_digest) | u8::from(data_digest) << 1;
        // Version 0, no alignment of data to the host, one R2T for each command.
        put(&mut queue.out, 11, &[digests]);
        queue
    }

    /// Whether the target has accepted the connection.
    pub const fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// What both sides have agreed on.
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Sets what Identify Controller says of capsules: IOCCSZ less the entry.
    pub fn set_in_capsule_bytes(&mut self, bytes: u32) {
        self.limits.in_capsule_bytes = bytes;
    }

    /// Commands outstanding.
    pub const fn outstanding(&self) -> usize {
        self.used
    }

    /// Why the connection is no longer usable.
    pub const fn error(&self) -> Option<FabricError> {
        self.error
    }

    /// When the oldest outstanding command was submitted, in ticks of the owner's clock.
    pub fn oldest(&self) -> Option<u64> {
        self.slots.iter().flatten().map(|slot| slot.since).min()
    }

    /// Whether a command that the target must answer has been outstanding for more than `most`
    /// ticks, or `retries` more if its path failed before.
    pub(crate) fn is_overdue(&self, now: u64, most: u64, retries: u64) -> bool {
        let mut slots = self.slots.iter().flatten();
        slots.any(|slot| {
            let most = if slot.is_retried {
                most.saturating_add(retries)
            } else {
                most
            };
            slot.path_status == 0 && now.saturating_sub(slot.since) > most
        })
    }

    /// Whether anything has arrived since the last call.
    pub(crate) fn take_heard(&mut self) -> bool {
        core::mem::take(&mut self.receiver.heard)
    }

    /// Whether a command that changes blocks has been sent and not answered.
    pub(crate) fn has_changes_in_doubt(&self) -> bool {
        let mut slots = self.slots.iter().flatten();
        slots.any(|slot| slot.is_sent && slot.entry.changes())
    }

    /// From now on commands that failed by their path are kept: see [`retry`](Self::retry).
    pub(crate) fn keep_path_failures(&mut self) {
        self.keeps_path_failures = true;
    }

    /// Commands that failed by their path and wait to be sent again.
    pub(crate) const fn kept(&self) -> u16 {
        self.kept
    }

    /// When the first of these was submitted.
    pub(crate) fn oldest_kept(&self) -> Option<u64> {
        let slots = self.slots.iter().flatten();
        let kept = slots.filter(|slot| slot.path_status != 0);
        kept.map(|slot| slot.since).min()
    }

    /// Sends the commands that failed by their path again; those that were submitted until `end`
    /// for the last time.
    pub(crate) fn retry(&mut self, end: u64) {
        for index in 0..DEPTH {
            match self.slots.get_mut(index) {
                Some(Some(slot)) if slot.path_status != 0 => {
                    slot.path_status = 0;
                    slot.is_retried = true;
                    slot.is_last = slot.since <= end;
                    slot.next = Next::Capsule;
                }
                _ => continue,
            }
            self.push_work(index);
        }
        self.kept = 0;
        self.kick();
    }

    /// Ends a command that failed by its path, and was sent for the last time or submitted before
    /// `since`.
    pub(crate) fn expire(&mut self, since: u64) -> Option<Done> {
        let is_due = |slot: &Slot| slot.path_status != 0 && (slot.is_last || slot.since < since);
        let index = (self.slots.iter()).position(|slot| slot.as_ref().is_some_and(is_due))?;
        let status = self.slots.get(index)?.as_ref()?.path_status;
        self.kept -= 1;
        self.finish(index, status, 0)
    }

    /// Keeps a command that has failed by its path, if that may help: Status Code Type 3 (Path
    /// Related Status) without Do Not Retry. Such a command has ended, so that it may be sent again
    /// at once.
    #[cold]
    fn keep(&mut self, cid: usize, status: u16) -> bool {
        if !self.keeps_path_failures || status & 0x4700 != 0x300 {
            return false;
        }
        let Some(Some(slot)) = self.slots.get_mut(cid) else {
            return false;
        };
        slot.path_status = status;
        slot.is_sent = false;
        slot.is_corrupt = false;
        slot.received = 0;
        self.kept += 1;
        true
    }

    /// The stream.
    pub const fn stream(&self) -> &S {
        &self.stream
    }

    /// Whether something waits to be sent.
    pub const fn has_output(&self) -> bool {
        self.out_from != self.out_to || self.segment.is_some() || self.work_count != 0
    }

    /// Accepts a command, or gives the buffer back if the queue is full. `len` bytes of the buffer
    /// are sent or received. `since` is the time, for `oldest`.
    ///
    /// # Errors
    /// The buffer, given back: the queue is full.
    pub(crate) fn submit(
        &mut self,
        tag: u32,
        entry: QueueEntry,
        data: Payload,
        since: u64,
    ) -> Result<(), Option<Buffer>> {
        let mut order = (0..DEPTH).map(|i| (self.turn + i) % DEPTH);
        let free = order.find(|index| matches!(self.slots.get(*index), Some(None)));
        let Some(index) = free.filter(|_| self.work_count < DEPTH) else {
            return Err(data.into_buffer());
        };
        self.turn = index + 1;
        let (direction, len, buffer, short) = match data {
            Payload::None => (Direction::None, 0, None, [0; 16]),
            Payload::In(buffer, len) => (Direction::In, len, Some(buffer), [0; 16]),
            Payload::Out(buffer, len) => (Direction::Out, len, Some(buffer), [0; 16]),
            Payload::Short(short) => (Direction::Out, 16, None, short),
        };
        if let Some(place) = self.slots.get_mut(index) {
            *place = Some(Slot {
                tag,
                entry,
                buffer,
                short,
                len,
                direction,
                next: Next::Capsule,
                received: 0,
                is_corrupt: false,
                is_sent: false,
                path_status: 0,
                is_retried: false,
                is_last: false,
                since,
            });
        }
        self.used += 1;
        self.push_work(index);
        Ok(())
    }

    fn push_work(&mut self, index: usize) {
        if let Some(place) = self
            .work
            .get_mut((self.work_first + self.work_count) % DEPTH)
        {
            *place = index as u16;
            self.work_count += 1;
        }
    }

    /// Ends every command: for each, its tag, buffer and what is needed to submit it again, and
    /// whether it had been sent.
    pub(crate) fn drain(&mut self, mut each: impl FnMut(u32, QueueEntry, Payload, bool)) {
        for place in &mut self.slots {
            if let Some(slot) = place.take() {
                let data = match (slot.direction, slot.buffer) {
                    (Direction::In, Some(buffer)) => Payload::In(buffer, slot.len),
                    (Direction::Out, Some(buffer)) => Payload::Out(buffer, slot.len),
                    (Direction::Out, None) => Payload::Short(slot.short),
                    _ => Payload::None,
                };
                each(slot.tag, slot.entry, data, slot.is_sent);
            }
        }
        self.used = 0;
        self.kept = 0;
        self.work_count = 0;
    }

    /// Sends what the stream takes.
    pub fn kick(&mut self) {
        if self.error.is_none() {
            if let Err(error) = self.send() {
                self.error = Some(error);
            }
        }
    }

    fn send(&mut self) -> Result<(), FabricError> {
        loop {
            if self.segment.is_none() {
                self.fill();
            }
            while self.out_from < self.out_to {
                let bytes = self.out.get(self.out_from..self.out_to).unwrap_or_default();
                match self.stream.write(bytes)? {
                    0 => return Ok(()),
                    sent => self.out_from += sent,
                }
            }
            (self.out_from, self.out_to) = (0, 0);
            let Some(segment) = &mut self.segment else {
                if self.work_count == 0 || !self.is_ready {
                    return Ok(());
                }
                continue;
            };
            let slot = self.slots.get(segment.cid).and_then(Option::as_ref);
            let data = slot.map_or(&[][..], |slot| slot.data(segment.offset, segment.len));
            if !data.is_empty() {
                match self.stream.write(data)? {
                    0 => return Ok(()),
                    sent => {
                        segment.offset += sent;
                        segment.len -= sent;
                    }
                }
            }
            if segment.len == 0 || data.is_empty() {
                self.segment = None;
                if let Some(sum) = self.trailer.take() {
                    put(&mut self.out, 0, &sum);
                    self.out_to = DIGEST_BYTES;
                }
            }
        }
    }

    /// Writes PDUs into `out` until it is full, or until data follows that is sent from its buffer.
    fn fill(&mut self) {
        const ROOM: usize = COMMAND_BYTES + 128 + COPIED_BYTES + 2 * DIGEST_BYTES;
        while self.is_ready
            && self.segment.is_none()
            && self.work_count != 0
            && self.out_to + ROOM <= OUT_BYTES
        {
            let index = self
                .work
                .get(self.work_first)
                .map_or(0, |index| usize::from(*index));
            self.work_first = (self.work_first + 1) % DEPTH;
            self.work_count -= 1;
            let Some(Some(slot)) = self.slots.get_mut(index) else {
                continue;
            };
            let mut header = [0; COMMAND_BYTES];
            let (header_bytes, offset, len) = match slot.next {
                Next::Nothing => continue,
                Next::Capsule => {
                    slot.is_sent = true;
                    let is_inside = slot.direction == Direction::Out
                        && slot.len <= self.limits.in_capsule_bytes;
                    let mut entry = slot.entry.0;
                    // PSDT 01b: SGL 1 describes the data; dword 0 has the identifier.
                    put(&mut entry, 1, &[0x40]);
                    put(&mut entry, 2, &(index as u16).to_le_bytes());
                    let descriptor = match (slot.direction, is_inside) {
                        (Direction::Out, true) => 0x01,
                        _ => 0x5a,
                    };
                    put(&mut entry, 32, &slot.len.to_le_bytes());
                    put(&mut entry, 39, &[descriptor]);
                    put(&mut header, 8, &entry);
                    slot.next = Next::Nothing;
                    let len = if is_inside { slot.len as usize } else { 0 };
                    (COMMAND_BYTES, 0, len)
                }
                Next::Data { ttag, offset, left } => {
                    let len = left.min(self.limits.h2c_bytes);
                    let is_last = len == left;
                    put(&mut header, 8, &(index as u16).to_le_bytes());
                    put(&mut header, 10, &ttag.to_le_bytes());
                    put(&mut header, 12, &offset.to_le_bytes());
                    put(&mut header, 16, &len.to_le_bytes());
                    slot.next = if is_last {
                        Next::Nothing
                    } else {
                        Next::Data {
                            ttag,
                            offset: offset + len,
                            left: left - len,
                        }
                    };
                    (DATA_BYTES, offset as usize, len as usize)
                }
            };
            let has_more = matches!(slot.next, Next::Data { .. });
            self.write_pdu(index, &mut header, header_bytes, offset, len, has_more);
            if has_more {
                self.push_work(index);
            }
        }
    }

    /// Appends a PDU whose header is filled in but for its first 8 bytes.
    fn write_pdu(
        &mut self,
        index: usize,
        header: &mut [u8; COMMAND_BYTES],
        header_bytes: usize,
        offset: usize,
        len: usize,
        has_more: bool,
    ) {
        let limits = self.limits;
        let is_command = header_bytes == COMMAND_BYTES;
        let mut data_at = header_bytes
            + if limits.header_digest {
                DIGEST_BYTES
            } else {
                0
            };
        if len != 0 {
            data_at = data_at.next_multiple_of(limits.align_bytes as usize);
        }
        let has_digest = limits.data_digest && len != 0;
        let tail = if has_digest { DIGEST_BYTES } else { 0 };
        let is_last = !is_command && !has_more;
        let common = Header {
            kind: if is_command {
                kind::COMMAND
            } else {
                kind::H2C_DATA
            },
            flags: if limits.header_digest {
                flag::HEADER_DIGEST
            } else {
                0
            } | if has_digest { flag::DATA_DIGEST } else { 0 }
                | if is_last { flag::LAST } else { 0 },
            header_bytes: header_bytes as u8,
            data_at: if len != 0 { data_at as u8 } else { 0 },
            bytes: (data_at + len + tail) as u32,
        };
        common.write(header);
        let at = self.out_to;
        let header = header.get(..header_bytes).unwrap_or_default();
        if let Some(pad) = self.out.get_mut(at..at + data_at) {
            pad.fill(0);
        }
        put(&mut self.out, at, header);
        if limits.header_digest {
            put(&mut self.out, at + header_bytes, &pdu::digest(header));
        }
        self.out_to += data_at;
        if len == 0 {
            return;
        }
        let slot = self.slots.get(index).and_then(Option::as_ref);
        let data = slot.map_or(&[][..], |slot| slot.data(offset, len));
        let sum = has_digest.then(|| pdu::digest(data));
        // A digest follows its data, so such data is copied if it fits.
        if len <= COPIED_BYTES {
            put(&mut self.out, self.out_to, data);
            self.out_to += len;
            if let Some(sum) = sum {
                put(&mut self.out, self.out_to, &sum);
                self.out_to += DIGEST_BYTES;
            }
        } else {
            self.segment = Some(Segment {
                cid: index,
                offset,
                len,
            });
            self.trailer = sum;
        }
    }

    /// The next command that has ended. Reads what has arrived, as far as needed.
    pub fn poll(&mut self) -> Option<Done> {
        while self.error.is_none() {
            match self.receiver.advance(
                &mut self.stream,
                &mut self.slots,
                &self.limits,
                self.is_ready,
            ) {
                Ok(Received::Nothing) => return None,
                Ok(Received::Header(bytes)) => match self.accept(&bytes) {
                    Ok(None) => {}
                    Ok(Some(done)) => return Some(done),
                    Err(error) => self.fail(error),
                },
                Ok(Received::Finished(cid)) => {
                    if let Some(done) = self.finish(cid, 0, 0) {
                        return Some(done);
                    }
                }
                Ok(Received::Data) => {}
                Err(error) => self.fail(error),
            }
        }
        None
    }

    /// Ends the connection, with a message to the target if it violated the protocol.
    fn fail(&mut self, error: FabricError) {
        self.error = Some(error);
        let status: u16 = match error {
            FabricError::Protocol(_) => 2,
            FabricError::HeaderDigest => 3,
            _ => return,
        };
        if self.out_from == self.out_to && self.segment.is_none() {
            let mut bytes = [0; DATA_BYTES];
            let header = Header {
                kind: kind::H2C_TERM,
                flags: 0,
                header_bytes: DATA_BYTES as u8,
                data_at: 0,
                bytes: DATA_BYTES as u32,
            };
            header.write(&mut bytes);
            put(&mut bytes, 8, &status.to_le_bytes());
            // The connection ends anyway.
            let _ = self.stream.write(&bytes);
        }
    }

    fn accept(&mut self, bytes: &[u8; IC_BYTES]) -> Result<Option<Done>, FabricError> {
        let header = Header::parse(bytes);
        match header.kind {
            kind::IC_RESP => {
                self.accept_connection(bytes)?;
                Ok(None)
            }
            kind::C2H_TERM => Err(FabricError::Terminated {
                status: u16_at(bytes, 8),
            }),
            kind::RESPONSE => {
                let cid = usize::from(u16_at(bytes, 8 + 12));
                let status = u16_at(bytes, 8 + 14) >> 1;
                let is_sent = matches!(self.slots.get(cid), Some(Some(slot)) if slot.is_sent);
                if !is_sent {
                    return Err(FabricError::Protocol("a response to no command"));
                }
                // Data that the target did not wait for may still be in the queue.
                if self.is_sending(cid) {
                    return Err(FabricError::Protocol("a response before the data was sent"));
                }
                if status != 0 && self.keep(cid, status) {
                    return Ok(None);
                }
                Ok(self.finish(cid, status, u64_at(bytes, 8)))
            }
            kind::R2T => {
                let cid = usize::from(u16_at(bytes, 8));
                let (ttag, offset, len) = (u16_at(bytes, 10), u32_at(bytes, 12), u32_at(bytes, 16));
                let is_sending = self.is_sending(cid);
                let Some(Some(slot)) = self.slots.get_mut(cid) else {
                    return Err(FabricError::Protocol("an R2T for no command"));
                };
                let end = offset.checked_add(len);
                if slot.direction != Direction::Out || !slot.is_sent || is_sending {
                    return Err(FabricError::Protocol("an R2T that was not expected"));
                }
                if len == 0 || end.is_none_or(|end| end > slot.len) {
                    return Err(FabricError::Protocol("an R2T outside of the data"));
                }
                slot.next = Next::Data {
                    ttag,
                    offset,
                    left: len,
                };
                self.push_work(cid);
                self.send()?;
                Ok(None)
            }
            _ => Err(FabricError::Protocol("a PDU of an unknown type")),
        }
    }

    fn is_sending(&self, cid: usize) -> bool {
        let has_next = match self.slots.get(cid) {
            Some(Some(slot)) => slot.next != Next::Nothing,
            _ => false,
        };
        has_next || self.segment.is_some_and(|segment| segment.cid == cid)
    }

    fn accept_connection(&mut self, bytes: &[u8]) -> Result<(), FabricError> {
        let wrong = |what| Err(FabricError::Initialization(what));
        let version = u16_at(bytes, 8);
        let [align, digests] = u16_at(bytes, 10).to_le_bytes();
        let h2c_bytes = u32_at(bytes, 12);
        if self.is_ready {
            return Err(FabricError::Protocol(
                "a second answer to the connection request",
            ));
        }
        if version != 0 {
            return wrong("its version of the protocol is not 0");
        }
        if align > 31 {
            return wrong("its alignment of data is more than 128 bytes");
        }
        let wanted = u8::from(self.limits.header_digest) | u8::from(self.limits.data_digest) << 1;
        if digests & !wanted & 3 != 0 {
            return wrong("it uses digests that were not requested");
        }
        if digests & 3 != wanted {
            return wrong("it does not use the digests that were requested");
        }
        if h2c_bytes < LEAST_H2C_BYTES || h2c_bytes % 4 != 0 {
            return wrong("its MAXH2CDATA is less than 4096 or not whole dwords");
        }
        self.limits.h2c_bytes = h2c_bytes;
        self.limits.align_bytes = (u32::from(align) + 1) * 4;
        self.is_ready = true;
        Ok(())
    }

    fn finish(&mut self, cid: usize, status: u16, value: u64) -> Option<Done> {
        let slot = self.slots.get_mut(cid)?.take()?;
        self.used -= 1;
        Some(Done {
            tag: slot.tag,
            opcode: slot.entry.opcode(),
            is_fua: slot.entry.is_fua(),
            buffer: slot.buffer,
            received_bytes: slot.received,
            is_short: slot.direction == Direction::In && slot.received < slot.len,
            value,
            status: if slot.is_corrupt {
                TRANSIENT_TRANSPORT
            } else {
                status
            },
        })
    }

    /// Sleeps until the stream has something, or about `timeout_us` have passed.
    pub fn wait(&mut self, timeout_us: u32) {
        if self.error.is_none() && !self.receiver.has_unread() {
            let for_room = self.has_output();
            self.stream.wait(timeout_us, for_room);
        }
    }
}

/// The data of a command.
#[derive(Debug)]
pub(crate) enum Payload {
    None,
    In(Buffer, u32),
    Out(Buffer, u32),
    Short([u8; 16]),
}

impl Payload {
    pub(crate) fn into_buffer(self) -> Option<Buffer> {
        match self {
            Self::In(buffer, _) | Self::Out(buffer, _) => Some(buffer),
            _ => None,
        }
    }
}
