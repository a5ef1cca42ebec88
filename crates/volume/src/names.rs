// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The names that a check has seen, in a filter: one that may have been seen before is looked up,
//! all others are not, so that a check reads each slot about once.

use crate::checksum;
use crate::name::NameRef;

/// Names to look up that fit; when there are so many, they are looked up before the next slot.
pub(crate) const SUSPECTS: usize = 16;
/// Bytes of the filter for each slot. Two bits of it are set for a name: in a table that is full of
/// names, at most one in 250 is looked up in vain.
const BYTES_PER_SLOT: usize = 4;

/// A filter of names, and the slots of those that it may have twice.
pub(crate) struct Names<'f> {
    /// Empty: there is no room for one, so that every name is suspected.
    filter: &'f mut [u8],
    suspects: [u32; SUSPECTS],
    count: usize,
}

impl<'f> Names<'f> {
    /// A filter in `memory`, if that has room for the names of so many slots.
    pub(crate) fn new(memory: &'f mut [u8], slots: u32) -> Self {
        let len = slots as usize * BYTES_PER_SLOT;
        let filter = memory.get_mut(..len).unwrap_or_default();
        filter.fill(0);
        Self {
            filter,
            suspects: [0; SUSPECTS],
            count: 0,
        }
    }

    pub(crate) const fn know_all(&self) -> bool {
        !self.filter.is_empty()
    }

    /// Whether the suspects are to be looked up before the next name is added.
    pub(crate) const fn is_full(&self) -> bool {
        self.count == SUSPECTS
    }

    /// Adds the name in `slot`; it is suspected if it may have been added before.
    pub(crate) fn add(&mut self, slot: u32, name: NameRef<'_>) {
        let hash = checksum::crc32c(0, name.as_bytes());
        let bits = self.filter.len() as u64 * 8;
        let mut is_new = false;
        for factor in [0x9e37_79b1_u32, 0x85eb_ca77] {
            // The upper half of a product spreads a hash evenly over any number of bits.
            let spread = hash.wrapping_mul(factor) ^ hash.rotate_left(13);
            let bit = (u64::from(spread) * bits) >> 32;
            let mask = 1 << (bit % 8);
            if let Some(byte) = self.filter.get_mut((bit / 8) as usize) {
                is_new |= *byte & mask == 0;
                *byte |= mask;
            }
        }
        if !is_new {
            if let Some(place) = self.suspects.get_mut(self.count) {
                *place = slot;
                self.count += 1;
            }
        }
    }

    /// A slot whose name is to be looked up.
    pub(crate) fn next_suspect(&mut self) -> Option<u32> {
        self.count = self.count.checked_sub(1)?;
        self.suspects.get(self.count).copied()
    }
}
