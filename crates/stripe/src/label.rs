// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A member's label: which array it is part of, and what a mirror remembers between uses.
//!
//! | offset | size | field (little endian) |
//! | --- | --- | --- |
//! | 0 | 8 | `STWARRAY` |
//! | 8 | 16 | identity of the array, random |
//! | 24 | 1 | 1: striped, 2: mirror |
//! | 25 | 1 | number of members |
//! | 26 | 1 | this member, from 0 |
//! | 27 | 1 | log2 of the block size |
//! | 28 | 4 | blocks in a stripe; 0 for a mirror |
//! | 32 | 8 | blocks of data on each member |
//! | 40 | 8 | sequence number of this label |
//! | 48 | 1 | mirror: bit i is set if member i is up to date |
//! | 49 | 1 | mirror: bit i is set if member i is being rebuilt |
//! | 50 | 1 | mirror: 1 if the members may differ |
//! | 51 | 5 | 0 |
//! | 56 | 8 | mirror: blocks that the rebuild has copied |
//! | 64 | 8 x 8 | mirror: for each member, the last sequence number that it may have |
//! | 128 | 4 | CRC-32C of bytes 0 to 127 |
//!
//! A label takes [`LABEL_BYTES`], or a block if that is longer, and has two copies at the end of
//! the member; the one with the greater sequence number counts, and the other is written next.
//!
//! Between members the number alone does not decide. Nothing is acknowledged before all members in
//! use have the label of that use, so one that only some got says nothing; and a use without all
//! members numbers its labels so far ahead that no other label has their numbers. So a label counts
//! for more if its use knew of the other, by the field at 64; or if neither did, but the other was
//! to be stored on its member, too.

use crate::MOST_MEMBERS;
use block::fields;
use crc::{CRC_32_ISCSI, Crc, Table};

/// Bytes of a copy of the label.
pub const LABEL_BYTES: usize = 4096;
const CRC: Crc<u32, Table<1>> = Crc::<u32, Table<1>>::new(&CRC_32_ISCSI);
const MAGIC: [u8; 8] = *b"STWARRAY";
const SUMMED_BYTES: usize = 128;

/// How an array uses its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayKind {
    /// Striped, with this many blocks in a stripe.
    Striped {
        /// A power of two.
        stripe_blocks: u32,
    },
    /// Copies.
    Mirror,
}

/// What a mirror remembers. A bit of a mask is a member, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MirrorState {
    /// Members that are up to date.
    pub current: u8,
    /// Members that are being rebuilt.
    pub rebuilding: u8,
    /// The up-to-date members may differ in writes that had not completed.
    pub is_dirty: bool,
    /// How far the rebuild is.
    pub rebuilt_blocks: u64,
}

impl MirrorState {
    /// Whether a member, from 0, is up to date or being rebuilt: it gets what is written.
    pub const fn uses(&self, member: u8) -> bool {
        (self.current | self.rebuilding) & (1 << member) != 0
    }
}

/// A label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The array's identity.
    pub array: [u8; 16],
    /// How the array uses its members.
    pub kind: ArrayKind,
    /// Number of members.
    pub members: u8,
    /// This member, from 0.
    pub member: u8,
    /// Log2 of the block size.
    pub block_size_log2: u8,
    /// Blocks of data on each member.
    pub data_blocks: u64,
    /// Greater in newer labels.
    pub sequence: u64,
    /// For mirrors.
    pub mirror: MirrorState,
    /// For mirrors: the last sequence number that each member may have got. A member with a greater
    /// one was used without this one.
    pub seen: [u64; MOST_MEMBERS],
}

impl Label {
    /// Whether the member of `other` may already have had that label when this one was written.
    pub fn may_have_seen(&self, other: &Self) -> bool {
        let seen = self.seen.get(usize::from(other.member));
        seen.is_none_or(|seen| other.sequence <= *seen)
    }

    /// Stores the label in `bytes`, at least 132, and clears the rest.
    pub fn encode(&self, bytes: &mut [u8]) {
        bytes.fill(0);
        let (kind, stripe_blocks) = match self.kind {
            ArrayKind::Striped { stripe_blocks } => (1, stripe_blocks),
            ArrayKind::Mirror => (2, 0),
        };
        let mirror = &self.mirror;
        let mut put = |at: usize, field: &[u8]| fields::put(bytes, at, field);
        put(0, &MAGIC);
        put(8, &self.array);
        put(24, &[kind, self.members, self.member, self.block_size_log2]);
        put(28, &stripe_blocks.to_le_bytes());
        put(32, &self.data_blocks.to_le_bytes());
        put(40, &self.sequence.to_le_bytes());
        put(
            48,
            &[mirror.current, mirror.rebuilding, u8::from(mirror.is_dirty)],
        );
        put(56, &mirror.rebuilt_blocks.to_le_bytes());
        for (member, seen) in self.seen.iter().enumerate() {
            put(64 + 8 * member, &seen.to_le_bytes());
        }
        let sum = CRC.checksum(bytes.get(..SUMMED_BYTES).unwrap_or_default());
        fields::put(bytes, SUMMED_BYTES, &sum.to_le_bytes());
    }

    /// The label in `bytes`; `None` if they are not a label, or a damaged one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let summed = bytes.get(..SUMMED_BYTES)?;
        let sum = bytes.get(SUMMED_BYTES..SUMMED_BYTES + 4)?;
        if summed.get(..8)? != MAGIC || CRC.checksum(summed).to_le_bytes() != sum {
            return None;
        }
        let byte = |at: usize| fields::u8_at(summed, at);
        let long = |at: usize| fields::u64_at(summed, at);
        let stripe_blocks = fields::u32_at(summed, 28);
        let kind = match byte(24) {
            1 if stripe_blocks.is_power_of_two() => ArrayKind::Striped { stripe_blocks },
            2 => ArrayKind::Mirror,
            _ => return None,
        };
        let (members, member) = (byte(25), byte(26));
        if usize::from(members) > MOST_MEMBERS || member >= members {
            return None;
        }
        Some(Self {
            seen: core::array::from_fn(|member| long(64 + 8 * member)),
            array: fields::array_at(summed, 8),
            kind,
            members,
            member,
            block_size_log2: byte(27),
            data_blocks: long(32),
            sequence: long(40),
            mirror: MirrorState {
                current: byte(48),
                rebuilding: byte(49),
                is_dirty: byte(50) != 0,
                rebuilt_blocks: long(56),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn label() -> Label {
        Label {
            array: *b"0123456789abcdef",
            kind: ArrayKind::Mirror,
            members: 3,
            member: 2,
            block_size_log2: 12,
            data_blocks: 1 << 33,
            sequence: 77,
            mirror: MirrorState {
                current: 5,
                rebuilding: 2,
                is_dirty: true,
                rebuilt_blocks: 1 << 32,
            },
            seen: [70, 77, 77, 0, 0, 0, 0, 1],
        }
    }

    #[test]
    fn a_label_is_read_as_it_was_written_and_no_bit_may_change() {
        let striped = Label {
            kind: ArrayKind::Striped { stripe_blocks: 128 },
            ..label()
        };
        for label in [label(), striped] {
            let mut bytes = [0xff; 512];
            label.encode(&mut bytes);
            assert_eq!(Label::decode(&bytes), Some(label));
            for bit in 0..(SUMMED_BYTES + 4) * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Label::decode(&bytes), None, "bit {bit}");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
        assert_eq!(Label::decode(&[]), None);
    }
}
