// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The contents of blocks: payload is kept as a seed and an offset, and compared by a hash.

use crate::trace::mix;
use std::rc::Rc;

/// Payload comes in pieces of this many bytes, each with its own number.
pub const PIECE_BYTES: usize = 512;

/// The first word of a piece is the seed with this mark.
const MARK: u64 = 0x5a17 << 48;
const SEED: u64 = (1 << 48) - 1;

/// The hash of a block of zeroes, whatever its length.
pub const ZEROES: u64 = 0;

fn word(seed: u64, offset: u64, index: u64) -> u64 {
    mix(seed ^ offset.wrapping_mul(0xff51_afd7_ed55_8ccd), index)
}

/// Fills `data` with the payload of a seed from `offset` on, which is a multiple of a piece.
pub fn fill(data: &mut [u8], seed: u64, offset: u64) {
    let pieces = data.chunks_mut(PIECE_BYTES);
    for (piece, offset) in pieces.zip((offset..).step_by(PIECE_BYTES)) {
        for (index, bytes) in piece.chunks_mut(8).enumerate() {
            let value = match index {
                0 => MARK | seed & SEED,
                1 => offset,
                index => word(seed & SEED, offset, index as u64),
            };
            let value = value.to_le_bytes();
            let len = bytes.len();
            bytes.copy_from_slice(&value[..len]);
        }
    }
}

/// The seed and the offset of a whole piece of payload.
pub fn parse(piece: &[u8]) -> Option<(u64, u64)> {
    let word_at = |index: usize| {
        let bytes = piece.get(8 * index..8 * index + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    let (first, offset) = (word_at(0)?, word_at(1)?);
    let seed = first & SEED;
    if first & !SEED != MARK || word_at(2)? != word(seed, offset, 2) || piece.len() != PIECE_BYTES {
        return None;
    }
    let mut words = (3..PIECE_BYTES / 8).map(|index| (index, word(seed, offset, index as u64)));
    let is_whole = words.all(|(index, word)| word_at(index) == Some(word));
    is_whole.then_some((seed, offset))
}

/// The first byte of `data` that is not the payload of `seed` from `offset` on.
pub fn difference(data: &[u8], seed: u64, offset: u64) -> Option<usize> {
    let mut expected = [0; PIECE_BYTES];
    for (index, piece) in data.chunks(PIECE_BYTES).enumerate() {
        let begin = index * PIECE_BYTES;
        fill(&mut expected, seed, offset + begin as u64);
        if let Some(at) = (0..piece.len()).find(|at| piece[*at] != expected[*at]) {
            return Some(begin + at);
        }
    }
    None
}

/// A hash of a block's content; zeroes have [`ZEROES`].
pub fn hash(block: &[u8]) -> u64 {
    let mut lanes = [1u64, 2, 3, 4];
    let mut any = 0;
    for words in block.chunks_exact(32) {
        for (lane, bytes) in lanes.iter_mut().zip(words.chunks_exact(8)) {
            let word = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
            any |= word;
            *lane = mix(*lane, word);
        }
    }
    if any == 0 {
        return ZEROES;
    }
    lanes.into_iter().fold(5, mix).max(1)
}

/// What a block of a drive holds.
#[derive(Clone, Debug, Default)]
pub enum Stored {
    /// Zeroes.
    #[default]
    Zeroes,
    /// A piece of payload.
    Payload {
        /// The seed.
        seed: u64,
        /// The offset of its first byte.
        offset: u64,
    },
    /// Anything else.
    Bytes(Rc<[u8]>),
}

impl Stored {
    /// A block's content.
    pub fn new(block: &[u8]) -> Self {
        if let Some((seed, offset)) = parse(block) {
            return Self::Payload { seed, offset };
        }
        if block.iter().all(|byte| *byte == 0) {
            return Self::Zeroes;
        }
        Self::Bytes(Rc::from(block))
    }

    /// Copies it out.
    pub fn read(&self, block: &mut [u8]) {
        match self {
            Self::Zeroes => block.fill(0),
            Self::Payload { seed, offset } => fill(block, *seed, *offset),
            Self::Bytes(bytes) => block.copy_from_slice(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_is_recognised_and_anything_else_is_kept() {
        let mut block = vec![0; PIECE_BYTES];
        assert!(matches!(Stored::new(&block), Stored::Zeroes));
        fill(&mut block, 7, 1024);
        assert_eq!(parse(&block), Some((7, 1024)));
        assert_eq!(difference(&block, 7, 1024), None);
        let mut back = vec![1; PIECE_BYTES];
        Stored::new(&block).read(&mut back);
        assert_eq!(back, block);
        for at in [0, 8, 16, 511] {
            let mut other = block.clone();
            other[at] ^= 1;
            assert_ne!(parse(&other), Some((7, 1024)));
            assert!(difference(&other, 7, 1024).is_some());
            assert_ne!(hash(&other), hash(&block));
            Stored::new(&other).read(&mut back);
            assert_eq!(back, other);
        }
        assert_eq!(hash(&[0; 512]), ZEROES);
    }
}
