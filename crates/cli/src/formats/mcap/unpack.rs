//! The records of a chunk, as far as they can be unpacked.

use super::layout::Chunk;
use std::io::Read;

/// The longest chunk, unpacked, that is held in memory.
pub const MAX_UNPACKED_BYTES: u64 = 1 << 30;

/// What became of a chunk.
#[derive(Debug)]
pub enum Unpacked {
    /// All of it, and it matches its checksum, if it has one.
    Whole(Vec<u8>),
    /// What comes before the first byte that is missing or damaged. No checksum covers it.
    Part(Vec<u8>),
    /// Its compression is not known.
    Unknown,
}

/// Unpacks a chunk.
pub fn unpack(chunk: &Chunk<'_>) -> Unpacked {
    let limit = chunk.unpacked_bytes.min(MAX_UNPACKED_BYTES);
    let (bytes, is_good) = match chunk.compression {
        b"" => (chunk.stored.to_vec(), true),
        b"lz4" => read(lz4_flex::frame::FrameDecoder::new(chunk.stored), limit),
        b"zstd" if chunk.is_whole => read_zstd(chunk.stored, limit),
        b"zstd" => read_zstd(&ended(chunk.stored).unwrap_or_default(), limit),
        _ => return Unpacked::Unknown,
    };
    let is_whole = is_good && chunk.is_whole && bytes.len() as u64 == chunk.unpacked_bytes;
    match is_whole && (chunk.crc == 0 || crc32fast::hash(&bytes) == chunk.crc) {
        true => Unpacked::Whole(bytes),
        false => Unpacked::Part(bytes),
    }
}

/// Reads until the end, an error, or more than `limit` bytes.
fn read(decoder: impl Read, limit: u64) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    let result = decoder
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes);
    (bytes, result.is_ok())
}

fn read_zstd(stored: &[u8], limit: u64) -> (Vec<u8>, bool) {
    match ruzstd::decoding::StreamingDecoder::new(stored) {
        Ok(decoder) => read(decoder, limit),
        Err(_) => (Vec::new(), false),
    }
}

/// The whole blocks of a frame that ends early, and an empty last block: a decoder keeps what may be referred to, which is most of a
/// chunk, until it sees the last block (RFC 8878, section 3.1.1).
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
