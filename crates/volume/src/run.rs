// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs of pairs that follow one another in a table: members A in one buffer, members B in the
//! other, so that each takes one read however many they are. Buckets that were added to the slot
//! table have their members side by side: one read has both.

use block::Device;

use crate::bytes::get_u8;
use crate::io::{Flags, NO_GROUP, SPARE, State, WORK};
use crate::layout::{BUCKET_SLOTS, Member, magic, node, slot};
use crate::pair::rank;
use crate::slot::{Slot, State as SlotState};
use crate::table::TABLE_NODE;
use crate::{Error, Volume};

/// A table of pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Slots,
    /// The bitmaps; one that is in its own group is a run of one.
    Bitmaps,
}

impl Table {
    fn address<D>(self, number: u32, member: Member, state: &State<'_, D>) -> u64 {
        match self {
            Self::Slots => state.slot_address(number, member),
            Self::Bitmaps => state.superblock.shape.bitmap_address(number, member),
        }
    }

    const fn magic(self) -> [u8; 4] {
        match self {
            Self::Slots => magic::SLOT,
            Self::Bitmaps => magic::BITMAP,
        }
    }

    /// How many pairs from `first` on follow one another.
    fn run_from<D>(self, first: u32, state: &State<'_, D>) -> u64 {
        let shape = &state.superblock.shape;
        match self {
            Self::Slots if first == TABLE_NODE => 1,
            Self::Slots => state.table.run_from(first, shape).into(),
            Self::Bitmaps if shape.bitmap_units(first) > 0 => 1,
            Self::Bitmaps => shape.table_group_count() - u64::from(first),
        }
    }
}

impl<D: Device> Volume<'_, D> {
    /// Reads both members of up to `most` slots from `slot` on into [`WORK`] and [`SPARE`]; returns
    /// how many.
    pub(crate) async fn read_slots(&self, slot: u32, most: u32) -> Result<u32, Error> {
        self.read_run(Table::Slots, slot, most).await
    }

    /// The same for any table.
    pub(crate) async fn read_run(&self, table: Table, first: u32, most: u32) -> Result<u32, Error> {
        let (len, count, addresses) = {
            let mut state = self.state();
            let shape = state.shape();
            state.cached_group = NO_GROUP;
            let room = state.memory(WORK).len().min(state.memory(SPARE).len());
            let largest = state.device.geometry().max_transfer_bytes();
            let fits = (room.min(largest) >> shape.node_log2).max(1) as u64;
            let count = fits.min(u64::from(most)).min(table.run_from(first, &state));
            let addresses = Member::BOTH.map(|member| table.address(first, member, &state));
            let len = (count as usize) << shape.node_log2;
            let buckets = match table {
                Table::Slots if cfg!(feature = "grow") => state.buckets_in_run(first, most),
                Table::Slots | Table::Bitmaps => 0,
            };
            state.flags.set(Flags::WHOLE_BUCKETS, buckets > 0);
            if buckets > 0 {
                let len = (buckets as usize) << (shape.node_log2 + 4);
                (len, buckets * BUCKET_SLOTS, [addresses[0]; 2])
            } else {
                (len, count as u32, addresses)
            }
        };
        if self.state().flags.has(Flags::WHOLE_BUCKETS) {
            let [address, _] = addresses;
            self.read_bytes(WORK, address, len).await?;
            return Ok(count);
        }
        for (address, node) in addresses.into_iter().zip([WORK, SPARE]) {
            self.read_bytes(node, address, len).await?;
        }
        Ok(count)
    }

    /// Calls `look` with slot `index` of a run that [`Volume::read_slots`] read from `first` on, or
    /// `None` if both members are invalid.
    pub(crate) fn slot_in_run<T>(
        &self,
        first: u32,
        index: u32,
        look: impl FnOnce(&Slot, &[u8]) -> T,
    ) -> Result<Option<T>, Error> {
        let state = self.state();
        let newest = state.newest_node_in_run(Table::Slots, first, index);
        let newest = newest.and_then(|(node, whole)| Some((state.in_run(node, index)?, whole)));
        match newest {
            None => Ok(None),
            Some((bytes, whole)) => {
                let mut slot = Slot::EMPTY;
                let names = state.superblock.most_name_bytes();
                slot.decode(bytes, first + index, &state.shape(), names)?;
                slot.whole = whole;
                if slot.index == state.renamed {
                    slot.state = SlotState::Free;
                }
                Ok(Some(look(&slot, bytes)))
            }
        }
    }
}

impl<D: Device> State<'_, D> {
    /// Whether both members of slot `index` of a run are valid and equal, as closing a file leaves
    /// them.
    pub(crate) fn members_agree(&self, first: u32, index: u32) -> bool {
        let said = |(member, which): (Member, usize)| {
            let bytes = self.in_run(which, index)?;
            let rank = self.rank_in_run(Table::Slots, first, index, member);
            bytes.get(node::LAST_OP..).filter(|_| rank > 0)
        };
        let said_in_a = said((Member::A, WORK));
        said_in_a.is_some() && said_in_a == said((Member::B, SPARE))
    }

    /// Whether slot `index` of a run has two valid members, and just one of them is free.
    pub(crate) fn frees_half(&self, first: u32, index: u32) -> bool {
        let is_free = |which| {
            let bytes = self.in_run(which, index).unwrap_or_default();
            get_u8(bytes, slot::STATE) == 0
        };
        self.both_in_run(Table::Slots, first, index) && is_free(WORK) != is_free(SPARE)
    }

    /// Whether both members of pair `index` of a run are valid.
    pub(crate) fn both_in_run(&self, table: Table, first: u32, index: u32) -> bool {
        let mut members = Member::BOTH.into_iter();
        members.all(|member| self.rank_in_run(table, first, index, member) > 0)
    }

    /// The newest valid member of pair `index` of a run.
    pub(crate) fn newest_in_run(&self, table: Table, first: u32, index: u32) -> Option<&[u8]> {
        let (node, _) = self.newest_node_in_run(table, first, index)?;
        self.in_run(node, index)
    }

    /// The node that has the newest member of pair `index` of a run, and whether both are valid.
    pub(crate) fn newest_node_in_run(
        &self,
        table: Table,
        first: u32,
        index: u32,
    ) -> Option<(usize, bool)> {
        let mut newest = None;
        let (mut best, mut both) = (0, true);
        for (member, node) in [(Member::A, WORK), (Member::B, SPARE)] {
            let rank = self.rank_in_run(table, first, index, member);
            both &= rank > 0;
            if rank > best {
                best = rank;
                newest = Some(node);
            }
        }
        newest.map(|node| (node, both))
    }

    /// How many whole buckets from slot `first` on one read into [`WORK`] has: of those that were
    /// added to the table.
    fn buckets_in_run(&self, first: u32, most: u32) -> u32 {
        let shape = &self.superblock.shape;
        let largest = self.device.geometry().max_transfer_bytes();
        let fits = self.memory(WORK).len().min(largest) >> (shape.node_log2 + 4);
        let follow = self.table.buckets_from(first, shape);
        follow.min(most / BUCKET_SLOTS).min(fits as u32)
    }

    /// The buffer that has pair `index` of a run, where `node` would have it in a run of one member
    /// each, and its number there.
    pub(crate) fn place_in_run(&self, node: usize, index: u32) -> (usize, u32) {
        if !(cfg!(feature = "grow") && self.flags.has(Flags::WHOLE_BUCKETS)) {
            return (node, index);
        }
        let member = if node == SPARE { BUCKET_SLOTS } else { 0 };
        let bucket = index / BUCKET_SLOTS;
        (WORK, bucket * BUCKET_SLOTS + index + member)
    }

    pub(crate) fn in_run(&self, node: usize, index: u32) -> Option<&[u8]> {
        let (node, index) = self.place_in_run(node, index);
        let len = self.superblock.shape.node_bytes();
        let at = index as usize * len;
        self.memory(node).get(at..at + len)
    }

    #[inline(never)]
    fn rank_in_run(&self, table: Table, first: u32, index: u32, member: Member) -> u64 {
        let node = match member {
            Member::A => WORK,
            Member::B => SPARE,
        };
        let Some(bytes) = self.in_run(node, index) else {
            return 0;
        };
        let address = table.address(first + index, member, self);
        let superblock = &self.superblock;
        rank(
            bytes,
            address,
            member,
            table.magic(),
            superblock,
            self.crc32c,
        )
    }
}
