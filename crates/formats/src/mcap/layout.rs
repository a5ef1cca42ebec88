// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bytes of MCAP: records of an opcode, a length and a content, all little-endian.

use std::borrow::Cow;

pub use super::MAGIC;
pub use block::fields::Fields;

/// Bytes before a record's content.
pub const PREFIX_BYTES: usize = 9;

/// Opcodes.
pub mod op {
    pub const HEADER: u8 = 0x01;
    pub const FOOTER: u8 = 0x02;
    pub const SCHEMA: u8 = 0x03;
    pub const CHANNEL: u8 = 0x04;
    pub const MESSAGE: u8 = 0x05;
    pub const CHUNK: u8 = 0x06;
    pub const MESSAGE_INDEX: u8 = 0x07;
    pub const CHUNK_INDEX: u8 = 0x08;
    pub const ATTACHMENT: u8 = 0x09;
    pub const ATTACHMENT_INDEX: u8 = 0x0a;
    pub const STATISTICS: u8 = 0x0b;
    pub const METADATA: u8 = 0x0c;
    pub const METADATA_INDEX: u8 = 0x0d;
    pub const SUMMARY_OFFSET: u8 = 0x0e;
    pub const DATA_END: u8 = 0x0f;
}

/// A record.
#[derive(Clone, Copy, Debug)]
pub struct Record<'b> {
    pub opcode: u8,
    pub content: &'b [u8],
    /// All its bytes.
    pub whole: &'b [u8],
}

/// The whole records at the beginning of `bytes`; what follows the last one is a part of a record,
/// or nothing.
pub fn records(mut bytes: &[u8]) -> impl Iterator<Item = Record<'_>> {
    std::iter::from_fn(move || {
        let mut fields = Fields(bytes);
        let &[opcode] = fields.bytes(1)? else {
            return None;
        };
        let len = usize::try_from(fields.u64_le()?).ok()?;
        let content = fields.bytes(len)?;
        let (whole, rest) = bytes.split_at_checked(PREFIX_BYTES + len)?;
        bytes = rest;
        Some(Record {
            opcode,
            content,
            whole,
        })
    })
}

/// A record with this number at a place of its content; the record itself if it has it already.
pub fn numbered(mut whole: Cow<'_, [u8]>, at: usize, number: u16) -> Cow<'_, [u8]> {
    let place = PREFIX_BYTES + at..PREFIX_BYTES + at + 2;
    if whole
        .get(place.clone())
        .is_some_and(|there| there != number.to_le_bytes())
    {
        if let Some(there) = whole.to_mut().get_mut(place) {
            there.copy_from_slice(&number.to_le_bytes());
        }
    }
    whole
}

/// The first fields of a chunk, and its records as they are stored.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'b> {
    pub unpacked_bytes: u64,
    pub crc: u32,
    pub compression: &'b [u8],
    /// All of them, or as many as there are.
    pub stored: &'b [u8],
    /// Whether these are all.
    pub is_whole: bool,
}

impl<'b> Chunk<'b> {
    /// A chunk, also one that ends early.
    pub fn parse(content: &'b [u8]) -> Option<Self> {
        let mut fields = Fields(content);
        // Of its messages' times.
        fields.bytes(16)?;
        let (unpacked_bytes, crc) = (fields.u64_le()?, fields.u32_le()?);
        let compression = fields.counted_le()?;
        let len = usize::try_from(fields.u64_le()?).ok()?;
        Some(Self {
            unpacked_bytes,
            crc,
            compression,
            stored: fields.0.get(..len).unwrap_or(fields.0),
            is_whole: fields.0.len() >= len,
        })
    }
}

/// Whether a schema has its name, its encoding and its data.
pub fn is_schema(content: &[u8]) -> bool {
    let mut fields = Fields(content);
    let _ = fields.u16_le();
    (0..3).all(|_| fields.counted_le().is_some())
}

/// Whether a channel has its topic, its encoding and its metadata.
pub fn is_channel(content: &[u8]) -> bool {
    let mut fields = Fields(content);
    let _ = fields.u32_le();
    (0..3).all(|_| fields.counted_le().is_some())
}

/// Whether metadata has its name and its values.
pub fn is_metadata(content: &[u8]) -> bool {
    let mut fields = Fields(content);
    (0..2).all(|_| fields.counted_le().is_some())
}

/// A record that is being made.
#[derive(Debug)]
pub struct Making(Vec<u8>);

impl Making {
    pub fn new(opcode: u8) -> Self {
        Self([&[opcode][..], &[0; 8]].concat())
    }

    pub fn u16(mut self, value: u16) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    /// A string or a map, with its length.
    pub fn counted(self, bytes: &[u8]) -> Self {
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.u32(len).bytes(bytes)
    }

    /// The whole record.
    pub fn end(mut self) -> Vec<u8> {
        let len = (self.0.len() - PREFIX_BYTES) as u64;
        if let Some(place) = self.0.get_mut(1..PREFIX_BYTES) {
            place.copy_from_slice(&len.to_le_bytes());
        }
        self.0
    }
}
