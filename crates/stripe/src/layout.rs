// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a block of a striped array lies: as in `rtl/raid0/raid_split.sv`.

use crate::MOST_MEMBERS;

/// The layout of a striped array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    members: u8,
    stripe_log2: u8,
}

/// The place of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberPlace {
    /// The member, from 0.
    pub member: usize,
    /// The block on the member.
    pub lba: u64,
    /// Blocks from here to the end of the stripe, at least 1.
    pub room_blocks: u32,
}

impl Layout {
    /// The layout of `members` (1 to 8) with stripes of `stripe_blocks`, a power of two up to 2^31.
    ///
    /// Returns `None` for other values.
    pub fn new(members: usize, stripe_blocks: u32) -> Option<Self> {
        let is_legal = (1..=MOST_MEMBERS).contains(&members) && stripe_blocks.is_power_of_two();
        is_legal.then_some(Self {
            members: members as u8,
            stripe_log2: stripe_blocks.trailing_zeros() as u8,
        })
    }

    /// Number of members.
    pub const fn members(&self) -> usize {
        self.members as usize
    }

    /// Blocks in a stripe.
    pub const fn stripe_blocks(&self) -> u32 {
        1 << self.stripe_log2
    }

    /// Blocks of an array whose members have `member_blocks` each: whole stripes only.
    pub const fn block_count(&self, member_blocks: u64) -> u64 {
        ((member_blocks >> self.stripe_log2) << self.stripe_log2)
            .saturating_mul(self.members as u64)
    }

    /// The place of block `lba` of the array.
    pub const fn place(&self, lba: u64) -> MemberPlace {
        let (stripe, offset) = self.split(lba);
        let members = self.members as u64;
        MemberPlace {
            member: (stripe % members) as usize,
            lba: ((stripe / members) << self.stripe_log2) + offset,
            room_blocks: self.stripe_blocks() - offset as u32,
        }
    }

    /// How many of the array's blocks before `lba` lie on `member`. A range of the array is one
    /// range on each member, from this of its start to this of its end.
    pub const fn blocks_before(&self, member: usize, lba: u64) -> u64 {
        let (stripe, offset) = self.split(lba);
        let (row, column) = (stripe / self.members as u64, stripe % self.members as u64);
        let own = match member as u64 {
            before if before < column => self.stripe_blocks() as u64,
            same if same == column => offset,
            _ => 0,
        };
        (row << self.stripe_log2) + own
    }

    const fn split(&self, lba: u64) -> (u64, u64) {
        (
            lba >> self.stripe_log2,
            lba & (self.stripe_blocks() as u64 - 1),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn every_block_has_its_own_place_and_ranges_are_ranges() {
        for members in 1..=MOST_MEMBERS {
            for stripe_blocks in [1, 2, 8] {
                let layout = Layout::new(members, stripe_blocks).unwrap();
                let count = layout.block_count(33);
                let mut before = vec![0; members];
                for lba in 0..count {
                    let place = layout.place(lba);
                    for (member, blocks) in before.iter().enumerate() {
                        assert_eq!(layout.blocks_before(member, lba), *blocks);
                    }
                    assert_eq!(place.lba, before[place.member]);
                    before[place.member] += 1;
                    let next = layout.place(lba + 1);
                    assert_eq!(place.room_blocks == 1, next.room_blocks == stripe_blocks);
                }
            }
        }
    }

    #[test]
    fn the_layout_is_the_hardware_s() {
        // rtl/raid0/raid0.sv: stripe s of the array is stripe s / Disks of disk s mod Disks.
        let layout = Layout::new(3, 4).unwrap();
        let place = |member, lba, room_blocks| MemberPlace {
            member,
            lba,
            room_blocks,
        };
        assert_eq!(layout.place(0), place(0, 0, 4));
        assert_eq!(layout.place(7), place(1, 3, 1));
        assert_eq!(layout.place(9), place(2, 1, 3));
        assert_eq!(layout.place(14), place(0, 6, 2));
    }

    #[test]
    fn other_shapes_are_refused() {
        assert_eq!(Layout::new(0, 8), None);
        assert_eq!(Layout::new(9, 8), None);
        assert_eq!(Layout::new(2, 0), None);
        assert_eq!(Layout::new(2, 3), None);
    }
}
