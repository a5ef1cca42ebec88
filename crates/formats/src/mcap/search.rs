// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The next record behind bytes that are missing.
//!
//! Nothing marks where a record begins, so a place is taken for one if what follows fits together:
//! a chunk, or an attachment, whose lengths agree and which matches its checksum; the footer and
//! the magic number; or several records one after the other, each of which has the form that its
//! opcode demands.

use super::layout::{
    Chunk, Fields, MAGIC, PREFIX_BYTES, Record, is_channel, is_metadata, is_schema, op, records,
};
use super::unpack::{Unpacked, unpack};

/// Records in a row that prove where one begins, if none of them proves it alone.
const ENOUGH: usize = 8;
/// The longest record that is waited for while a beginning is looked for; chunks and attachments
/// are checked before.
const MAX_PLAIN_BYTES: u64 = 64 << 20;
/// The longest chunk or attachment.
const MAX_LONG_BYTES: u64 = 1 << 30;
/// Bytes of a chunk's fields, without its compression's name.
const CHUNK_FIELD_BYTES: u64 = 40;

/// Where a record begins.
#[derive(Debug, PartialEq, Eq)]
pub enum Place {
    /// Here.
    Found(usize),
    /// Not before here; more bytes will show it.
    NotBefore(usize),
}

/// What bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// Not a record.
    No,
    /// Not all bytes are there; those that are may be a record's, or (true) are for certain a
    /// chunk's.
    Short(bool),
    /// A record with this many bytes, which may be one by chance.
    Maybe(usize),
    /// A record.
    Certain,
}

/// Looks for the first record behind one that is longer than the bytes that there are: if there is
/// one, its length is wrong. What proves it is what proves any beginning; a few records do so only
/// if the last one ends with the bytes, since a record that was cut off may hold anything.
pub fn beyond(bytes: &[u8], has_channel: &dyn Fn(u16) -> bool) -> Option<usize> {
    (1..bytes.len()).find(|at| {
        let rest = bytes.get(*at..).unwrap_or_default();
        let is_whole = || {
            let known = records(rest);
            let len: usize = known.map(|record| record.whole.len()).sum();
            len == rest.len()
        };
        match is_record(rest, false, has_channel) {
            Some(is_record) => is_record,
            None => is_record(rest, true, has_channel) == Some(true) && is_whole(),
        }
    })
}

/// Looks for the first record in `bytes`. `is_all`: no more will come. `has_channel`: whether a
/// channel is known.
pub fn next_record(bytes: &[u8], is_all: bool, has_channel: &dyn Fn(u16) -> bool) -> Place {
    for at in 0..bytes.len() {
        let rest = bytes.get(at..).unwrap_or_default();
        match is_record(rest, is_all, has_channel) {
            Some(true) => return Place::Found(at),
            Some(false) => {}
            None => return Place::NotBefore(at),
        }
    }
    Place::NotBefore(bytes.len())
}

/// Whether a record begins here. None: more bytes will show it.
fn is_record(bytes: &[u8], is_all: bool, has_channel: &dyn Fn(u16) -> bool) -> Option<bool> {
    let mut end = 0;
    for count in 0..ENOUGH {
        let rest = bytes.get(end..).unwrap_or_default();
        if rest.is_empty() && count > 0 && is_all {
            return Some(true);
        }
        match look(rest, count == 0, has_channel) {
            Look::No => return Some(false),
            Look::Certain => return Some(true),
            Look::Maybe(len) => end += len,
            Look::Short(is_chunk) if is_all => return Some(is_chunk || count > 0),
            Look::Short(_) => return None,
        }
    }
    Some(true)
}

fn look(bytes: &[u8], is_first: bool, has_channel: &dyn Fn(u16) -> bool) -> Look {
    let mut fields = Fields(bytes);
    let opcode = match fields.bytes(1) {
        Some(&[opcode]) if (op::HEADER..=op::DATA_END).contains(&opcode) => opcode,
        Some(_) => return Look::No,
        None => return Look::Short(false),
    };
    let Some(len) = fields.u64_le() else {
        return Look::Short(false);
    };
    let most = match opcode {
        op::CHUNK | op::ATTACHMENT => MAX_LONG_BYTES,
        _ => MAX_PLAIN_BYTES,
    };
    let fixed = match opcode {
        op::FOOTER => Some(20),
        op::DATA_END => Some(4),
        _ => None,
    };
    if len > most || fixed.is_some_and(|fixed| fixed != len) {
        return Look::No;
    }
    let content = fields.0;
    // What can be refused before all of it is there.
    match opcode {
        op::CHUNK => match chunk_fits(content, len) {
            Some(true) => {}
            Some(false) => return Look::No,
            None => return Look::Short(false),
        },
        op::MESSAGE => {
            let channel = Fields(content).u16_le();
            if len < 22 || is_first && channel.is_some_and(|channel| !has_channel(channel)) {
                return Look::No;
            }
        }
        _ => {}
    }
    let Some(record) = records(bytes).next() else {
        return Look::Short(opcode == op::CHUNK);
    };
    let rest = bytes.get(record.whole.len()..).unwrap_or_default();
    match opcode {
        op::CHUNK => whole_chunk(&record),
        op::ATTACHMENT => match attachment_crc(record.content) {
            Some((_, 0)) => Look::Maybe(record.whole.len()),
            Some((covered, crc)) if crc == crc32fast::hash(covered) => Look::Certain,
            _ => Look::No,
        },
        op::FOOTER if rest.len() < MAGIC.len() && MAGIC.starts_with(rest) => Look::Short(false),
        op::FOOTER if rest.starts_with(&MAGIC) => Look::Certain,
        op::FOOTER => Look::No,
        _ if has_form(&record) => Look::Maybe(record.whole.len()),
        _ => Look::No,
    }
}

/// Whether the lengths in a chunk of `len` bytes agree. None: not enough of it is there.
fn chunk_fits(content: &[u8], len: u64) -> Option<bool> {
    let mut fields = Fields(content);
    let (start, end) = (fields.u64_le()?, fields.u64_le()?);
    let (unpacked_bytes, _) = (fields.u64_le()?, fields.u32_le()?);
    let name_bytes = fields.u32_le()?;
    if name_bytes > 16 || start > end {
        return Some(false);
    }
    let name = fields.bytes(name_bytes as usize)?;
    let stored_bytes = fields.u64_le()?;
    let all = CHUNK_FIELD_BYTES + u64::from(name_bytes);
    let is_plain = !name.is_empty() || unpacked_bytes == stored_bytes;
    let is_name = name.iter().all(u8::is_ascii_graphic);
    Some(is_plain && is_name && stored_bytes.checked_add(all) == Some(len))
}

fn whole_chunk(record: &Record<'_>) -> Look {
    let Some(chunk) = Chunk::parse(record.content) else {
        return Look::No;
    };
    match unpack(&chunk) {
        // Without a checksum its records must fill it.
        Unpacked::Whole(bytes) | Unpacked::InFrames(bytes) if chunk.crc == 0 => {
            let filled: usize = records(&bytes).map(|record| record.whole.len()).sum();
            if filled == bytes.len() {
                Look::Certain
            } else {
                Look::No
            }
        }
        Unpacked::Whole(_) | Unpacked::InFrames(_) => Look::Certain,
        Unpacked::Part(_) => Look::No,
        Unpacked::Unknown => Look::Maybe(record.whole.len()),
    }
}

/// The bytes of an attachment that its checksum covers, and the checksum.
fn attachment_crc(content: &[u8]) -> Option<(&[u8], u32)> {
    let mut fields = Fields(content);
    fields.bytes(16)?;
    fields.counted_le()?;
    fields.counted_le()?;
    let len = usize::try_from(fields.u64_le()?).ok()?;
    fields.bytes(len)?;
    let covered = content.len() - fields.0.len();
    let crc = fields.u32_le()?;
    Some((content.get(..covered)?, crc))
}

/// Whether an attachment has all its fields, and matches its checksum, if it has one. Later
/// versions may add fields behind it.
pub fn is_attachment(content: &[u8]) -> bool {
    attachment_crc(content)
        .is_some_and(|(covered, crc)| crc == 0 || crc == crc32fast::hash(covered))
}

/// Whether a record may be what its opcode says, as far as nothing else checks it: an opcode that
/// does not exist, or a record without its fields, are bytes behind a wrong length. Later versions
/// may add fields.
pub fn can_be(record: &Record<'_>) -> bool {
    let mut fields = Fields(record.content);
    match record.opcode {
        0 => false,
        op::FOOTER => record.content.len() >= 20,
        op::DATA_END => record.content.len() >= 4,
        op::SUMMARY_OFFSET => record.content.len() >= 17,
        op::MESSAGE_INDEX => fields.u16_le().and_then(|_| fields.counted_le()).is_some(),
        op::STATISTICS => fields.bytes(42).and_then(|_| fields.counted_le()).is_some(),
        op::METADATA_INDEX => fields.bytes(16).and_then(|_| fields.counted_le()).is_some(),
        op::CHUNK_INDEX => {
            let names = fields.bytes(32).and_then(|_| fields.counted_le());
            let has = names
                .and_then(|_| fields.u64_le())
                .and_then(|_| fields.counted_le());
            has.and_then(|_| fields.bytes(16)).is_some()
        }
        op::ATTACHMENT_INDEX => {
            let name = fields.bytes(40).and_then(|_| fields.counted_le());
            name.and_then(|_| fields.counted_le()).is_some()
        }
        _ => true,
    }
}

/// Bytes of the content of a chunk's or an attachment's record by its own lengths, whatever that of
/// the record says.
pub fn own_bytes(opcode: u8, content: &[u8]) -> Option<u64> {
    let mut fields = Fields(content);
    match opcode {
        op::CHUNK => {
            fields.bytes(28)?;
            fields.counted_le()?;
        }
        op::ATTACHMENT => {
            fields.bytes(16)?;
            fields.counted_le()?;
            fields.counted_le()?;
        }
        _ => return None,
    }
    let data_bytes = fields.u64_le()?;
    let before = (content.len() - fields.0.len()) as u64;
    let checksum_bytes = if opcode == op::CHUNK { 0 } else { 4 };
    data_bytes.checked_add(before + checksum_bytes)
}

/// Where the record at the beginning ends by its own lengths, if it is a chunk or an attachment and
/// another record begins there, which its length would hide.
pub fn own_end(record: &Record<'_>, has_channel: &dyn Fn(u16) -> bool) -> Option<usize> {
    let own = usize::try_from(own_bytes(record.opcode, record.content)?).ok()?;
    let hidden = record.content.get(own..).filter(|rest| !rest.is_empty())?;
    let is_hidden = is_record(hidden, true, has_channel) == Some(true);
    is_hidden.then_some(PREFIX_BYTES + own)
}

/// Whether a record has the form of its opcode.
fn has_form(record: &Record<'_>) -> bool {
    let mut fields = Fields(record.content);
    match record.opcode {
        op::HEADER => {
            let has = fields.counted_le().is_some() && fields.counted_le().is_some();
            has && fields.0.is_empty()
        }
        op::SCHEMA => is_schema(record.content),
        op::CHANNEL => is_channel(record.content),
        op::METADATA => is_metadata(record.content),
        op::MESSAGE_INDEX => {
            let list = fields.u16_le().and_then(|_| fields.counted_le());
            list.is_some_and(|list| list.len() % 16 == 0) && fields.0.is_empty()
        }
        op::CHUNK_INDEX => {
            let _ = fields.bytes(32);
            let has = fields.counted_le().is_some()
                && fields.u64_le().is_some()
                && fields.counted_le().is_some();
            has && fields.0.len() == 16
        }
        op::STATISTICS => {
            let _ = fields.bytes(42);
            fields.counted_le().is_some() && fields.0.is_empty()
        }
        op::ATTACHMENT_INDEX => {
            let _ = fields.bytes(40);
            fields.counted_le().is_some() && fields.counted_le().is_some() && fields.0.is_empty()
        }
        op::METADATA_INDEX => {
            let _ = fields.bytes(16);
            fields.counted_le().is_some() && fields.0.is_empty()
        }
        op::SUMMARY_OFFSET => record.content.len() == 17,
        _ => true,
    }
}
