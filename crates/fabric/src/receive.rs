// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Takes PDUs apart as their bytes arrive, in pieces of any length.

use crate::pdu::{self, DATA_BYTES, DIGEST_BYTES, Digest, Header, IC_BYTES, flag, kind};
use crate::queue::{Direction, Limits, Slot};
use crate::{ByteStream, FabricError};
use block::fields::{put, u16_at, u32_at};

/// Bytes that one read may bring.
const IN_BYTES: usize = 12 << 10;
/// The longest PDU of a target that ends the connection.
const MOST_TERM_BYTES: u32 = 152;

/// What arrived.
pub enum Received {
    /// Nothing more, for now.
    Nothing,
    /// A header that is complete and whose digest matches.
    Header([u8; IC_BYTES]),
    /// The data of a PDU.
    Data,
    /// All data of this command, which is successful: no response follows.
    Finished(usize),
}

#[derive(Clone, Copy, Debug)]
enum Part {
    Header,
    /// Bytes between the header and the data, or of data that is of no interest.
    Skip {
        left: usize,
    },
    Data,
    Digest,
}

/// The data that is being received.
#[derive(Clone, Copy, Debug, Default)]
struct Incoming {
    cid: usize,
    left: usize,
    has_digest: bool,
    is_success: bool,
}

#[derive(Debug)]
pub struct Receiver {
    bytes: [u8; IN_BYTES],
    from: usize,
    to: usize,
    part: Part,
    header: [u8; IC_BYTES + DIGEST_BYTES],
    got: usize,
    /// Something arrived since the flag was cleared.
    pub heard: bool,
    incoming: Option<Incoming>,
    sum: DigestState,
}

/// The digest of the data so far.
#[derive(Default)]
struct DigestState(Digest);

impl core::fmt::Debug for DigestState {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("DigestState")
    }
}

impl Receiver {
    pub const fn has_unread(&self) -> bool {
        self.from != self.to
    }

    pub fn new() -> Self {
        Self {
            bytes: [0; IN_BYTES],
            from: 0,
            to: 0,
            heard: true,
            part: Part::Header,
            header: [0; IC_BYTES + DIGEST_BYTES],
            got: 0,
            incoming: None,
            sum: DigestState::default(),
        }
    }

    /// Takes the next part of the stream.
    pub fn advance<S: ByteStream>(
        &mut self,
        stream: &mut S,
        slots: &mut [Option<Slot>],
        limits: &Limits,
        is_ready: bool,
    ) -> Result<Received, FabricError> {
        loop {
            match self.part {
                Part::Header => {
                    let needed = self.header_bytes(limits, is_ready)?;
                    if self.got < needed {
                        if !self.collect(stream, needed)? {
                            return Ok(Received::Nothing);
                        }
                        continue;
                    }
                    self.got = 0;
                    return self.header_done(slots, limits, is_ready);
                }
                Part::Skip { left } => {
                    if left == 0 {
                        self.part = match self.incoming {
                            Some(_) => Part::Data,
                            None => Part::Header,
                        };
                        continue;
                    }
                    if !self.has_unread() && !self.read(stream)? {
                        return Ok(Received::Nothing);
                    }
                    let count = left.min(self.to - self.from);
                    self.from += count;
                    self.part = Part::Skip { left: left - count };
                }
                Part::Data => {
                    if !self.data(stream, slots, limits)? {
                        return Ok(Received::Nothing);
                    }
                    if matches!(self.part, Part::Header) {
                        return Ok(self.data_done());
                    }
                }
                Part::Digest => {
                    if self.got < DIGEST_BYTES {
                        if !self.collect(stream, DIGEST_BYTES)? {
                            return Ok(Received::Nothing);
                        }
                        continue;
                    }
                    self.got = 0;
                    self.part = Part::Header;
                    let sum = core::mem::take(&mut self.sum).0.bytes();
                    let cid = self.incoming.map_or(0, |incoming| incoming.cid);
                    if self.header.get(..DIGEST_BYTES) != Some(&sum) {
                        if let Some(Some(slot)) = slots.get_mut(cid) {
                            slot.is_corrupt = true;
                        }
                    }
                    return Ok(self.data_done());
                }
            }
        }
    }

    fn data_done(&mut self) -> Received {
        match self.incoming.take() {
            Some(incoming) if incoming.is_success => Received::Finished(incoming.cid),
            _ => Received::Data,
        }
    }

    /// Bytes of the header that is being collected, its digest included, as far as is known.
    fn header_bytes(&self, limits: &Limits, is_ready: bool) -> Result<usize, FabricError> {
        if self.got < 8 {
            return Ok(8);
        }
        let header = Header::parse(&self.header);
        let protocol = |what| {
            if is_ready {
                Err(FabricError::Protocol(what))
            } else {
                Err(FabricError::Initialization(what))
            }
        };
        let length = usize::from(header.header_bytes);
        let expected = match header.kind {
            kind::IC_RESP => IC_BYTES,
            kind::C2H_TERM | kind::RESPONSE | kind::C2H_DATA | kind::R2T => DATA_BYTES,
            _ => return protocol("a PDU of an unknown type"),
        };
        if !is_ready && !matches!(header.kind, kind::IC_RESP | kind::C2H_TERM) {
            return protocol("the first PDU is no answer to the connection request");
        }
        let has_digest =
            limits.header_digest && !matches!(header.kind, kind::IC_RESP | kind::C2H_TERM);
        if has_digest != (header.flags & flag::HEADER_DIGEST != 0) {
            return protocol("a header digest that was not agreed on");
        }
        let whole = length + if has_digest { DIGEST_BYTES } else { 0 };
        let bytes = header.bytes as usize;
        let is_legal = length == expected
            && match header.kind {
                kind::C2H_DATA => bytes > whole,
                kind::C2H_TERM => bytes >= whole && header.bytes <= MOST_TERM_BYTES,
                _ => bytes == whole,
            };
        if is_legal {
            Ok(whole)
        } else {
            protocol("a PDU whose length is not that of its type")
        }
    }

    fn header_done(
        &mut self,
        slots: &mut [Option<Slot>],
        limits: &Limits,
        is_ready: bool,
    ) -> Result<Received, FabricError> {
        let header = Header::parse(&self.header);
        let length = usize::from(header.header_bytes);
        let own = self.header.get(..length).unwrap_or_default();
        let has_digest = header.flags & flag::HEADER_DIGEST != 0 && is_ready;
        if has_digest {
            let sum = self.header.get(length..length + DIGEST_BYTES);
            if sum != Some(&pdu::digest(own)) {
                return Err(FabricError::HeaderDigest);
            }
        }
        let mut bytes = [0; IC_BYTES];
        put(&mut bytes, 0, own);
        if header.kind != kind::C2H_DATA {
            return Ok(Received::Header(bytes));
        }
        let wrong = |what| Err(FabricError::Protocol(what));
        let cid = usize::from(u16_at(own, 8));
        let (offset, len) = (u32_at(own, 12), u32_at(own, 16));
        let whole = length + if has_digest { DIGEST_BYTES } else { 0 };
        let has_sum = header.flags & flag::DATA_DIGEST != 0;
        let tail = if has_sum { DIGEST_BYTES } else { 0 };
        let data_at = usize::from(header.data_at);
        if has_sum != limits.data_digest {
            return wrong("a data digest that was not agreed on");
        }
        if data_at < whole || (header.bytes as u64) != data_at as u64 + u64::from(len) + tail as u64
        {
            return wrong("data whose length is not that of its PDU");
        }
        let Some(Some(slot)) = slots.get_mut(cid) else {
            return wrong("data for no command");
        };
        if slot.direction != Direction::In {
            return wrong("data for a command that reads none");
        }
        if offset != slot.received {
            return wrong("data out of order");
        }
        if len == 0 || offset.checked_add(len).is_none_or(|end| end > slot.len) {
            return wrong("data outside of the command's buffer");
        }
        let is_last = header.flags & flag::LAST != 0;
        let is_success = header.flags & flag::SUCCESS != 0;
        if is_success && !is_last {
            return wrong("success before the last data");
        }
        self.incoming = Some(Incoming {
            cid,
            left: len as usize,
            has_digest: has_sum,
            is_success,
        });
        self.part = Part::Skip {
            left: data_at - whole,
        };
        Ok(Received::Data)
    }

    /// Moves data to its command; `false` if nothing has arrived.
    fn data<S: ByteStream>(
        &mut self,
        stream: &mut S,
        slots: &mut [Option<Slot>],
        limits: &Limits,
    ) -> Result<bool, FabricError> {
        let Some(incoming) = &mut self.incoming else {
            self.part = Part::Header;
            return Ok(true);
        };
        let Some(Some(slot)) = slots.get_mut(incoming.cid) else {
            return Err(FabricError::Protocol("data for no command"));
        };
        let at = slot.received as usize;
        let buffer = slot.buffer.as_mut();
        let Some(target) = buffer.and_then(|buffer| buffer.get_mut(at..at + incoming.left)) else {
            return Err(FabricError::Protocol(
                "data outside of the command's buffer",
            ));
        };
        let count = match self.to - self.from {
            // A long rest goes to its buffer directly.
            0 if target.len() >= IN_BYTES => match stream.read(target)? {
                0 => return Ok(false),
                count => {
                    self.heard = true;
                    count
                }
            },
            0 => {
                return self.read(stream);
            }
            unread => {
                let count = unread.min(target.len());
                let source = self.bytes.get(self.from..self.from + count);
                put(target, 0, source.unwrap_or_default());
                self.from += count;
                count
            }
        };
        if limits.data_digest {
            self.sum.0.update(target.get(..count).unwrap_or_default());
        }
        slot.received += count as u32;
        incoming.left -= count;
        if incoming.left == 0 {
            self.part = if incoming.has_digest {
                Part::Digest
            } else {
                Part::Header
            };
        }
        Ok(true)
    }

    /// Collects bytes of a header or a digest; `false` if nothing has arrived.
    fn collect<S: ByteStream>(
        &mut self,
        stream: &mut S,
        needed: usize,
    ) -> Result<bool, FabricError> {
        if !self.has_unread() && !self.read(stream)? {
            return Ok(false);
        }
        let count = (needed - self.got).min(self.to - self.from);
        let source = self.bytes.get(self.from..self.from + count);
        put(&mut self.header, self.got, source.unwrap_or_default());
        self.from += count;
        self.got += count;
        Ok(true)
    }

    fn read<S: ByteStream>(&mut self, stream: &mut S) -> Result<bool, FabricError> {
        self.from = 0;
        self.to = 0;
        self.to = stream.read(&mut self.bytes)?.min(IN_BYTES);
        self.heard |= self.to != 0;
        Ok(self.to != 0)
    }
}
