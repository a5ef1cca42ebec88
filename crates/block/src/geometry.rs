// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a device is: its size, its limits, and what it can do.

use crate::{Error, Operation};

/// What a device can do beyond reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Completed writes may be lost at a power cut until a flush completes.
    pub volatile_write_cache: bool,
    /// A write can be made durable by itself (force unit access).
    pub fua: bool,
    /// Blocks can be given back to the device.
    pub discard: bool,
    /// Blocks can be zeroed without sending zeroes.
    pub write_zeroes: bool,
    /// The device is read-only.
    pub read_only: bool,
}

/// The shape and limits of a device. Constant while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The logical block size is `1 << block_size_log2` bytes; 6 to 16. Drives have 9 and up;
    /// memory and hardware RAM disks may have less.
    pub block_size_log2: u8,
    /// Number of logical blocks.
    pub block_count: u64,
    /// The longest read or write that one request may ask for; at least 1.
    pub max_transfer_blocks: u32,
    /// How many requests may be outstanding; at least 1.
    pub queue_depth: u16,
    /// A buffer's address is a multiple of this, in bytes; a power of two.
    pub buffer_align_bytes: u32,
    /// What it can do.
    pub features: Features,
}

impl Geometry {
    /// Bytes in a logical block.
    pub const fn block_size_bytes(&self) -> usize {
        1 << self.block_size_log2
    }

    /// The device's size in bytes, at most `u64::MAX`.
    pub const fn size_bytes(&self) -> u64 {
        match self.block_count.checked_mul(1 << self.block_size_log2) {
            Some(bytes) => bytes,
            None => u64::MAX,
        }
    }

    /// The longest read or write in bytes.
    pub const fn max_transfer_bytes(&self) -> usize {
        (self.max_transfer_blocks as usize) << self.block_size_log2
    }

    /// Checks that `operation` is within the device's range, limits and abilities.
    ///
    /// # Errors
    /// [`Error::Unaligned`], [`Error::TooLarge`], [`Error::OutOfRange`], [`Error::ReadOnly`] or
    /// [`Error::Unsupported`].
    #[inline]
    pub fn check(&self, operation: &Operation) -> Result<(), Error> {
        let (lba, block_count) = match operation {
            Operation::Read { lba, buffer } => (*lba, self.check_buffer(buffer)?),
            Operation::Write { lba, buffer, fua } => {
                self.check_change(*fua)?;
                (*lba, self.check_buffer(buffer)?)
            }
            Operation::Flush => return Ok(()),
            Operation::Discard { lba, block_count } => {
                self.check_change(false)?;
                if !self.features.discard {
                    return Err(Error::Unsupported);
                }
                (*lba, *block_count)
            }
            Operation::WriteZeroes {
                lba,
                block_count,
                fua,
            } => {
                self.check_change(*fua)?;
                if !self.features.write_zeroes {
                    return Err(Error::Unsupported);
                }
                (*lba, *block_count)
            }
        };
        self.check_range(lba, block_count)
    }

    #[inline]
    fn check_change(&self, fua: bool) -> Result<(), Error> {
        if self.features.read_only {
            return Err(Error::ReadOnly);
        }
        if fua && !self.features.fua {
            return Err(Error::Unsupported);
        }
        Ok(())
    }

    #[inline]
    fn check_buffer(&self, buffer: &crate::Buffer) -> Result<u32, Error> {
        let len = buffer.len();
        let misaligned = (len & (self.block_size_bytes() - 1))
            | (buffer.address() & (self.buffer_align_bytes as usize - 1));
        // An empty buffer has no blocks; `check_range` refuses it.
        if misaligned != 0 {
            return Err(Error::Unaligned);
        }
        let blocks = len >> self.block_size_log2;
        if blocks > self.max_transfer_blocks as usize {
            return Err(Error::TooLarge);
        }
        Ok(blocks as u32)
    }

    #[inline]
    fn check_range(&self, lba: u64, block_count: u32) -> Result<(), Error> {
        if block_count == 0 {
            return Err(Error::Unaligned);
        }
        match self.block_count.checked_sub(u64::from(block_count)) {
            Some(last) if lba <= last => Ok(()),
            _ => Err(Error::OutOfRange),
        }
    }
}
