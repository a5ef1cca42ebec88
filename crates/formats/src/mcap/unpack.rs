// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The records of a chunk, as far as they can be unpacked.

use super::layout::{Chunk, Fields};
use std::io::Read;

/// The longest chunk, unpacked, that is held in memory.
pub const MAX_UNPACKED_BYTES: u64 = 1 << 30;

/// What became of a chunk.
#[derive(Debug)]
pub enum Unpacked {
    /// All of it, and it matches its checksum, if it has one.
    Whole(Vec<u8>),
    /// The same, but it was compressed in several frames, of which some readers see only the first.
    InFrames(Vec<u8>),
    /// What comes before the first byte that is missing or damaged. No checksum covers it.
    Part(Vec<u8>),
    /// Its compression is not known.
    Unknown,
}

/// Unpacks a chunk. It may be compressed in several frames, also skippable ones (LZ4 frame format
/// 1.6; RFC 8878, section 3.1.2); what follows the last byte that the chunk should have is not
/// looked at.
pub fn unpack(chunk: &Chunk<'_>) -> Unpacked {
    let limit = chunk.unpacked_bytes.min(MAX_UNPACKED_BYTES);
    let (bytes, frames, is_good) = match chunk.compression {
        b"" => (chunk.stored.to_vec(), 1, true),
        b"lz4" => read_frames(chunk, limit, read_lz4),
        b"zstd" => read_frames(chunk, limit, read_zstd),
        _ => return Unpacked::Unknown,
    };
    let is_whole = is_good && chunk.is_whole && bytes.len() as u64 == chunk.unpacked_bytes;
    if is_whole && (chunk.crc == 0 || crc32fast::hash(&bytes) == chunk.crc) {
        if frames > 1 {
            Unpacked::InFrames(bytes)
        } else {
            Unpacked::Whole(bytes)
        }
    } else {
        Unpacked::Part(bytes)
    }
}

/// Adds what a frame has to some bytes, up to a limit, and removes it from what is stored. Whether
/// it is whole.
type ReadFrame = fn(&mut &[u8], u64, &mut Vec<u8>) -> bool;

/// Reads frame after frame until all bytes are there: these, how many frames there were, and
/// whether all of those were whole.
fn read_frames(chunk: &Chunk<'_>, limit: u64, read_frame: ReadFrame) -> (Vec<u8>, usize, bool) {
    let (mut bytes, mut stored, mut frames) = (Vec::new(), chunk.stored, 0);
    while frames == 0 || (bytes.len() as u64) < limit && !stored.is_empty() {
        frames += 1;
        if let Some(rest) = behind_skippable(stored) {
            stored = rest;
            continue;
        }
        let (begin, before) = (stored, bytes.len());
        if read_frame(&mut stored, limit, &mut bytes) {
            continue;
        }
        if chunk.compression == b"zstd" && !chunk.is_whole {
            bytes.truncate(before);
            let ended = ended(begin).unwrap_or_default();
            read_frame(&mut &ended[..], limit, &mut bytes);
        }
        return (bytes, frames, false);
    }
    (bytes, frames, true)
}

/// What follows a frame without data.
fn behind_skippable(stored: &[u8]) -> Option<&[u8]> {
    let mut fields = Fields(stored);
    let magic = fields.u32_le()?;
    let len = fields.u32_le().filter(|_| magic & !0xf == 0x184d_2a50)?;
    fields.bytes(usize::try_from(len).ok()?)?;
    Some(fields.0)
}

/// Reads until the end, an error, or more than `limit` bytes.
fn read(decoder: impl Read, limit: u64, bytes: &mut Vec<u8>) -> bool {
    let left = limit.saturating_sub(bytes.len() as u64);
    let mut decoder = decoder.take(left.saturating_add(1));
    decoder.read_to_end(bytes).is_ok()
}

fn read_lz4(stored: &mut &[u8], limit: u64, bytes: &mut Vec<u8>) -> bool {
    read(lz4_flex::frame::FrameDecoder::new(stored), limit, bytes)
}

fn read_zstd(stored: &mut &[u8], limit: u64, bytes: &mut Vec<u8>) -> bool {
    match ruzstd::decoding::StreamingDecoder::new(stored) {
        Ok(decoder) => read(decoder, limit, bytes),
        Err(_) => false,
    }
}

/// The whole blocks of a frame that ends early, and an empty last block: a decoder keeps what may
/// be referred to, which is most of a chunk, until it sees the last block (RFC 8878, section
/// 3.1.1).
fn ended(stored: &[u8]) -> Option<Vec<u8>> {
    const DESCRIPTOR: usize = 4;
    let descriptor = *stored.get(DESCRIPTOR)?;
    let is_single = descriptor & 0x20 != 0;
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size = match (descriptor >> 6, is_single) {
        (0, false) => 0,
        (0, true) => 1,
        (1, _) => 2,
        (2, _) => 4,
        _ => 8,
    };
    let mut end = DESCRIPTOR + 1 + usize::from(!is_single) + dictionary + size;
    while let Some(&[low, middle, high]) = stored.get(end..end + 3) {
        let header = u32::from_le_bytes([low, middle, high, 0]);
        let is_run = header >> 1 & 3 == 1;
        let len = if is_run { 1 } else { (header >> 3) as usize };
        if header & 1 == 1 || stored.len() < end + 3 + len {
            break;
        }
        end += 3 + len;
    }
    let mut frame = stored.get(..end)?.to_vec();
    // No checksum follows.
    *frame.get_mut(DESCRIPTOR)? &= !0x04;
    frame.extend([1, 0, 0]);
    Some(frame)
}
