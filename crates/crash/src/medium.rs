// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What survives a power cut: the blocks of a device.
//!
//! A [`Medium`] is a value. Clones share their blocks, so keeping every image of a test costs
//! little more than the blocks that were written. It never changes under a device that was opened
//! on a clone of it.

use crate::config::Config;
use crate::content::Content;
use crate::disk::CrashDisk;
use crate::tree::Tree;
use block::Error;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// An image of a device's blocks.
///
/// Two are equal if they have the same shape, the same background and the same blocks; they are
/// compared by [`hash`](Medium::hash).
#[derive(Clone)]
pub struct Medium {
    block_size_log2: u8,
    block_count: u64,
    background: Background,
    tree: Tree,
    /// The sum of the contributions of the blocks held.
    sum: u64,
}

/// What unwritten blocks read as.
#[derive(Clone, Debug)]
enum Background {
    /// Zeroes. A block of zeroes is never held, so that each image has one representation. The
    /// zeroes are kept for tears over them.
    Zeroes(Arc<[u8]>),
    Garbage(u64),
}

/// The pattern of `seed` at `lba`.
pub(crate) fn garbage(seed: u64, lba: u64, target: &mut [u8]) {
    fastrand::Rng::with_seed(seed ^ crate::content::mix(lba.wrapping_add(1))).fill(target);
}

impl Medium {
    /// `block_count` blocks of `1 << block_size_log2` bytes that read as zeroes.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the block size is not 2^6 to 2^16 bytes, or there is no block,
    /// or there are more bytes than 2^64 - 1.
    pub fn new(block_size_log2: u8, block_count: u64) -> Result<Self, Error> {
        let block_size_in_range = (6..=16).contains(&block_size_log2);
        if !block_size_in_range || block_count == 0 || block_count > u64::MAX >> block_size_log2 {
            return Err(Error::Unsupported);
        }
        Ok(Self {
            block_size_log2,
            block_count,
            background: Background::Zeroes(Arc::from(vec![0; 1 << block_size_log2])),
            tree: Tree::new(block_count),
            sum: 0,
        })
    }

    /// Like [`new`](Medium::new), but unwritten blocks read as a pattern given by `seed` and their
    /// address, like a drive that was used before.
    ///
    /// # Errors
    /// Those of [`new`](Medium::new).
    pub fn with_garbage(block_size_log2: u8, block_count: u64, seed: u64) -> Result<Self, Error> {
        Ok(Self {
            background: Background::Garbage(seed),
            ..Self::new(block_size_log2, block_count)?
        })
    }

    /// An image with these bytes, such as a file's.
    ///
    /// # Errors
    /// Those of [`new`](Medium::new); [`Error::Unaligned`] if `bytes` is not a whole number of
    /// blocks.
    pub fn from_bytes(block_size_log2: u8, bytes: &[u8]) -> Result<Self, Error> {
        let block_count = (bytes.len() as u64) >> block_size_log2.min(63);
        let mut medium = Self::new(block_size_log2, block_count)?;
        medium.write(0, bytes)?;
        Ok(medium)
    }

    /// All bytes, for an image that fits memory.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for lba in 0..self.block_count {
            self.with_block(lba, |block| bytes.extend_from_slice(block));
        }
        bytes
    }

    /// The block size is two to the power of this, in bytes.
    pub fn block_size_log2(&self) -> u8 {
        self.block_size_log2
    }

    /// The block size in bytes.
    pub fn block_size_bytes(&self) -> usize {
        1 << self.block_size_log2
    }

    /// Number of blocks.
    pub fn block_count(&self) -> u64 {
        self.block_count
    }

    /// A hash of the shape, the background and all blocks; maintained, not computed. 64 bits: among
    /// ten million different images two collide with a probability of 3 in a million.
    pub fn hash(&self) -> u64 {
        let background = match self.background {
            Background::Zeroes(_) => 0,
            Background::Garbage(seed) => crate::content::mix(seed) | 1,
        };
        let shape = self.block_count ^ u64::from(self.block_size_log2) << 58;
        crate::content::mix(crate::content::mix(shape) ^ background).wrapping_add(self.sum)
    }

    /// The addresses of the blocks that differ from `other`'s, in order, for two images of one
    /// origin. Shared parts are skipped, so this is quick.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if their shapes or backgrounds differ.
    pub fn differences(&self, other: &Medium) -> Result<Vec<u64>, Error> {
        let backgrounds_equal = match (&self.background, &other.background) {
            (Background::Zeroes(_), Background::Zeroes(_)) => true,
            (Background::Garbage(one), Background::Garbage(other)) => one == other,
            _ => false,
        };
        let shape = |medium: &Medium| (medium.block_size_log2, medium.block_count);
        if !backgrounds_equal || shape(self) != shape(other) {
            return Err(Error::Unsupported);
        }
        let mut lbas = Vec::new();
        self.tree.compare(&other.tree, &mut |lba| lbas.push(lba));
        Ok(lbas)
    }

    /// The addresses in `range` of the blocks that are held in memory, in order: those that differ
    /// from the background.
    pub fn held(&self, range: Range<u64>) -> Vec<u64> {
        let mut lbas = Vec::new();
        self.tree.visit(&range, &mut |lba, _| lbas.push(lba));
        lbas
    }

    /// Reads whole blocks from `lba` on.
    ///
    /// # Errors
    /// [`Error::Unaligned`] or [`Error::OutOfRange`]; `target` is then unchanged.
    pub fn read(&self, lba: u64, target: &mut [u8]) -> Result<(), Error> {
        self.check(lba, target.len())?;
        for (lba, block) in (lba..).zip(target.chunks_exact_mut(self.block_size_bytes())) {
            match (self.tree.get(lba), &self.background) {
                (Some(content), _) => block.copy_from_slice(content.bytes()),
                (None, Background::Zeroes(_)) => block.fill(0),
                (None, Background::Garbage(seed)) => garbage(*seed, lba, block),
            }
        }
        Ok(())
    }

    /// Writes whole blocks from `lba` on.
    ///
    /// # Errors
    /// [`Error::Unaligned`] or [`Error::OutOfRange`]; nothing is then changed.
    pub fn write(&mut self, lba: u64, source: &[u8]) -> Result<(), Error> {
        self.check(lba, source.len())?;
        for (lba, block) in (lba..).zip(source.chunks_exact(self.block_size_bytes())) {
            let content = self.content(block);
            self.set(lba, content);
        }
        Ok(())
    }

    /// Changes one block in place.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn edit(&mut self, lba: u64, change: impl FnOnce(&mut [u8])) -> Result<(), Error> {
        let mut block = vec![0; self.block_size_bytes()];
        self.read(lba, &mut block)?;
        change(&mut block);
        self.write(lba, &block)
    }

    /// Inverts one bit of one block: bit 0 is the least of the first byte; `bit` past the block's
    /// end wraps.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn flip_bit(&mut self, lba: u64, bit: u32) -> Result<(), Error> {
        self.edit(lba, |block| flip(block, bit))
    }

    /// A device over this image, which itself stays as it is.
    pub fn open(&self, config: Config) -> CrashDisk {
        CrashDisk::new(self.clone(), config)
    }

    fn check(&self, lba: u64, len: usize) -> Result<(), Error> {
        if len & (self.block_size_bytes() - 1) != 0 {
            return Err(Error::Unaligned);
        }
        match lba.checked_add((len >> self.block_size_log2) as u64) {
            Some(end) if end <= self.block_count => Ok(()),
            _ => Err(Error::OutOfRange),
        }
    }

    /// `block` in the form for [`set`](Medium::set): `None` if it equals the background.
    pub(crate) fn content(&self, block: &[u8]) -> Option<Content> {
        match &self.background {
            Background::Zeroes(zeroes) if **zeroes == *block => None,
            _ => Some(Content::new(block)),
        }
    }

    /// The block at `lba`; `None` if it was never written.
    pub(crate) fn get(&self, lba: u64) -> Option<&Content> {
        self.tree.get(lba)
    }

    /// Replaces the block at `lba`, which is in range; `None` is the background.
    pub(crate) fn set(&mut self, lba: u64, content: Option<Content>) {
        let added = content.as_ref().map_or(0, |content| content.share(lba));
        let removed = self.tree.set(lba, content);
        let removed = removed.map_or(0, |content| content.share(lba));
        self.sum = self.sum.wrapping_add(added).wrapping_sub(removed);
    }

    /// Calls `with` with the bytes of the block at `lba`.
    fn with_block(&self, lba: u64, with: impl FnOnce(&[u8])) {
        self.with_content(lba, self.tree.get(lba), with);
    }

    /// Calls `with` with the bytes that `content` represents at `lba`.
    pub(crate) fn with_content(
        &self,
        lba: u64,
        content: Option<&Content>,
        with: impl FnOnce(&[u8]),
    ) {
        match (content, &self.background) {
            (Some(content), _) => with(content.bytes()),
            (None, Background::Zeroes(zeroes)) => with(zeroes),
            (None, Background::Garbage(seed)) => {
                let mut block = vec![0; self.block_size_bytes()];
                garbage(*seed, lba, &mut block);
                with(&block);
            }
        }
    }
}

/// Inverts bit `bit` of `bytes`, counted from the least of the first and wrapping at the end.
pub(crate) fn flip(bytes: &mut [u8], bit: u32) {
    let byte = (bit / 8) as usize % bytes.len().max(1);
    if let Some(byte) = bytes.get_mut(byte) {
        *byte ^= 1 << (bit % 8);
    }
}

impl PartialEq for Medium {
    fn eq(&self, other: &Self) -> bool {
        self.hash() == other.hash()
    }
}

impl Eq for Medium {}

impl fmt::Debug for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Medium")
            .field("block_size_log2", &self.block_size_log2)
            .field("block_count", &self.block_count)
            .field("hash", &self.hash())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_size_keeps_what_was_written() {
        for log2 in 6..=16 {
            let size = 1_usize << log2;
            let mut medium = Medium::new(log2, 20).unwrap();
            let data: Vec<u8> = (0..2 * size).map(|i| (i / 7) as u8 | 1).collect();
            medium.write(18, &data).unwrap();
            let mut back = vec![9; 3 * size];
            medium.read(17, &mut back).unwrap();
            assert!(back[..size].iter().all(|&byte| byte == 0));
            assert_eq!(&back[size..], &data[..]);
            assert_eq!(medium.write(19, &data), Err(Error::OutOfRange));
            assert_eq!(medium.read(0, &mut back[1..]), Err(Error::Unaligned));
            assert_eq!(medium.held(0..20), [18, 19]);
            assert_eq!(
                Medium::from_bytes(log2, &medium.to_bytes()).unwrap(),
                medium
            );
        }
        assert!(Medium::new(5, 1).is_err() && Medium::new(17, 1).is_err());
        assert!(Medium::new(9, 0).is_err() && Medium::new(9, 1 << 55).is_err());
        assert!(Medium::new(6, (1 << 58) - 1).is_ok());
        assert!(Medium::from_bytes(6, &[0; 100]).is_err());
    }

    #[test]
    fn the_hash_depends_on_the_blocks_and_not_on_their_history() {
        let empty = Medium::new(9, 1 << 40).unwrap();
        let mut one = empty.clone();
        one.write(5, &[1; 512]).unwrap();
        one.write(1 << 39, &[2; 512]).unwrap();
        let mut other = empty.clone();
        other.write(1 << 39, &[3; 512]).unwrap();
        other.write(1 << 39, &[2; 512]).unwrap();
        assert_ne!(one, other);
        assert_eq!(one.differences(&other).unwrap(), [5]);
        other.write(5, &[1; 512]).unwrap();
        assert_eq!(one, other);
        other.flip_bit(5, 4095).unwrap();
        assert_ne!(one, other);
        other.edit(5, |block| assert_eq!(block[511], 0x81)).unwrap();
        // Zeroes equal the unwritten state.
        one.write(5, &[0; 512]).unwrap();
        one.write(1 << 39, &[0; 512]).unwrap();
        assert_eq!(one, empty);
        assert!(one.held(0..u64::MAX).is_empty());
        assert_ne!(empty, Medium::new(9, (1 << 40) - 1).unwrap());
    }

    #[test]
    fn garbage_is_the_same_each_time_and_differs_by_block_and_seed() {
        let read = |medium: &Medium, lba| {
            let mut block = [0; 64];
            medium.read(lba, &mut block).unwrap();
            block
        };
        let mut medium = Medium::with_garbage(6, 8, 1).unwrap();
        assert_eq!(read(&medium, 3), read(&medium.clone(), 3));
        assert_ne!(read(&medium, 3), read(&medium, 4));
        let other = Medium::with_garbage(6, 8, 2).unwrap();
        assert_ne!(read(&medium, 3), read(&other, 3));
        assert!(medium != other && medium.differences(&other).is_err());
        medium.write(3, &[0; 64]).unwrap();
        assert_eq!(read(&medium, 3), [0; 64]);
    }
}
