// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CRC32C of each 64 KiB of a stream: a put compares the checksums of its source with those of the
//! data that it reads back, and a get compares those of the data with the stored ones.

use crate::crc32c;
use volume::layout::CHUNK_BYTES;

/// The checksums of a stream's chunks.
#[derive(Debug, Default)]
pub struct Chunks {
    whole: Vec<u32>,
    crc: u32,
    within_bytes: u64,
}

impl Chunks {
    /// Adds the next bytes of the stream.
    pub fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = (CHUNK_BYTES - self.within_bytes) as usize;
            let (now, rest) = bytes.split_at(bytes.len().min(room));
            self.crc = crc32c(self.crc, now);
            self.within_bytes += now.len() as u64;
            if self.within_bytes == CHUNK_BYTES {
                self.end_chunk();
            }
            bytes = rest;
        }
    }

    /// The checksums, including that of the last, partial chunk.
    pub fn end(mut self) -> Vec<u32> {
        if self.within_bytes > 0 {
            self.end_chunk();
        }
        self.whole
    }

    fn end_chunk(&mut self) {
        self.whole.push(self.crc);
        (self.crc, self.within_bytes) = (0, 0);
    }
}

/// The offsets in `data` of the chunks whose checksums differ from `expected`. `data` starts at a
/// chunk; chunks without an expected checksum are not compared.
pub fn differences(data: &[u8], expected: &[u32]) -> impl Iterator<Item = u64> {
    let chunks = data.chunks(CHUNK_BYTES as usize).zip(expected);
    let bad = chunks
        .enumerate()
        .filter(|(_, (chunk, sum))| crc32c(0, chunk) != **sum);
    bad.map(|(index, _)| index as u64 * CHUNK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_a_stream_comes_its_chunks_have_the_same_checksums() {
        let data: Vec<u8> = (0..200_000u32).map(|i| ((i * 7) >> 4) as u8).collect();
        let mut whole = Chunks::default();
        whole.add(&data);
        let sums = whole.end();
        assert_eq!(sums.len(), 4);
        let mut pieces = Chunks::default();
        data.chunks(999).for_each(|piece| pieces.add(piece));
        assert_eq!(pieces.end(), sums);
        let first = |data: &[u8], sums: &[u32]| differences(data, sums).next();
        assert_eq!(first(&data, &sums), None);
        let mut bad = data.clone();
        bad[140_000] ^= 1;
        assert_eq!(first(&bad, &sums), Some(131_072));
        assert_eq!(first(&bad, &sums[..2]), None);
        assert!(Chunks::default().end().is_empty());
    }
}
