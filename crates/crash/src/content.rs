// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One block's content, shared between images, with its hash computed once.

use std::sync::Arc;

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The bytes of a block. Two are equal if their hashes are: 64 bits, not collision-resistant
/// against an adversary.
///
/// One pointer, so that a tree's nodes are small and quickly copied.
#[derive(Clone, Debug)]
pub(crate) struct Content(Arc<Stored>);

#[derive(Debug)]
struct Stored {
    hash: u64,
    bytes: Box<[u8]>,
}

impl Content {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self(Arc::new(Stored {
            hash: hash(bytes),
            bytes: Box::from(bytes),
        }))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    /// What this block, at `lba`, adds to the hash of an image. Sums of these do not depend on
    /// the order of writes, so an image's hash is kept up to date at a constant cost.
    pub(crate) fn share(&self, lba: u64) -> u64 {
        mix(self
            .0
            .hash
            .wrapping_add(lba.wrapping_add(1).wrapping_mul(MULTIPLIER)))
    }
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.0.hash == other.0.hash
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hash = bytes.len() as u64 ^ MULTIPLIER;
    // A block is a whole number of words.
    for word in bytes.chunks_exact(8) {
        let word = <[u8; 8]>::try_from(word).unwrap_or_default();
        hash = fold(hash ^ u64::from_le_bytes(word));
    }
    mix(hash)
}

fn fold(value: u64) -> u64 {
    let product = u128::from(value) * u128::from(MULTIPLIER);
    (product as u64) ^ (product >> 64) as u64
}

/// Mixes each bit into all others.
pub(crate) fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bit_and_the_address_change_the_hash() {
        let mut bytes = [0; 64];
        let mut hashes = vec![Content::new(&bytes).0.hash];
        for bit in 0..512 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            hashes.push(Content::new(&bytes).0.hash);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        let content = Content::new(&bytes);
        hashes.extend((0..1000).map(|lba| content.share(lba)));
        let count = hashes.len();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), count);
    }
}
