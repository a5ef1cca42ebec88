//! Reading a pair: the newest valid member wins. `FORMAT.md`, rules R1 to R4.

use crate::bytes::{array, get_u32, get_u64};
use crate::io::{NO_GROUP, SLOT, SPARE, State, WORK, member_of};
use crate::layout::{Member, SEQ_END, Shape, leaf, magic, node};
use crate::map::{Index, Leaf};
use crate::order::{Mutation, Order};
use crate::slot::Slot;
use crate::superblock::Superblock;
use crate::{Error, Volume, bitmap, checksum, error::Node};
use block::Device;

/// What was found at a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub seq: u64,
    /// The other member is valid too.
    pub both: bool,
}

/// The sequence number of a node if its magic, checksum and place are right.
pub(crate) fn valid(
    bytes: &[u8],
    address: u64,
    member: Member,
    magic: [u8; 4],
    superblock: &Superblock,
) -> Option<u64> {
    let seq = get_u64(bytes, node::SEQ);
    let crc = || checksum::of_node(&superblock.uuid, address, bytes, node::CRC);
    let right = array(bytes, node::MAGIC) == magic
        && member_of(seq) == member
        && seq < SEQ_END
        && get_u32(bytes, node::CRC) == crc();
    right.then_some(seq)
}

/// The place of a pair and what makes a member count.
#[derive(Clone, Copy)]
struct Pair {
    addresses: [u64; 2],
    magic: [u8; 4],
    /// A leaf of another file is a left-over.
    file_id: Option<u64>,
}

impl Pair {
    fn valid(&self, bytes: &[u8], member: Member, superblock: &Superblock) -> Option<u64> {
        if self
            .file_id
            .is_some_and(|id| get_u64(bytes, leaf::FILE_ID) != id)
        {
            return None;
        }
        valid(bytes, self.address(member), member, self.magic, superblock)
    }

    const fn address(&self, member: Member) -> u64 {
        match member {
            Member::A => self.addresses[0],
            Member::B => self.addresses[1],
        }
    }
}

impl<D: Device> State<'_, D> {
    /// Copies the first node of one buffer into another.
    pub(crate) fn copy_node(&mut self, from: usize, to: usize) {
        let len = self.superblock.shape.node_bytes();
        let Some(source) = self.nodes.get_mut(from).and_then(Option::take) else {
            return;
        };
        if let Some(bytes) = source.get(..len) {
            self.node_mut(to).copy_from_slice(bytes);
        }
        if let Some(place) = self.nodes.get_mut(from) {
            *place = Some(source);
        }
    }

    /// R4: no node is newer than the superblock that governs it.
    fn check_age(&self, which: usize) -> Result<(), Error> {
        let newer = get_u64(self.node(which), node::LAST_OP) > self.superblock.seq;
        if newer && !self.read_only {
            return Err(Error::StaleSuperblock);
        }
        Ok(())
    }
}

impl<D: Device> Volume<'_, D> {
    /// Reads both members and leaves the newest valid one in node `into`. With `spare`, that
    /// takes two reads; without, three when A is the newer.
    async fn load_pair(
        &self,
        pair: Pair,
        into: usize,
        spare: Option<usize>,
    ) -> Result<Option<Found>, Error> {
        let len = self.shape().node_bytes();
        let mut seqs = [None; 2];
        let second = spare.unwrap_or(into);
        for (place, (member, which)) in seqs
            .iter_mut()
            .zip(Member::BOTH.into_iter().zip([into, second]))
        {
            self.read_bytes(which, pair.address(member), len).await?;
            let state = self.state();
            *place = pair.valid(state.node(which), member, &state.superblock);
        }
        let [a, b] = seqs;
        let newest = if self.is_mutated(Mutation::OldestWins) {
            a.min(b).or(a.max(b))
        } else {
            a.max(b)
        };
        let Some(seq) = newest else {
            return Ok(None);
        };
        let newest = member_of(seq);
        if newest == Member::B && second != into {
            self.state().copy_node(second, into);
        }
        if newest == Member::A && second == into {
            self.read_bytes(into, pair.address(newest), len).await?;
            let state = self.state();
            if pair.valid(state.node(into), newest, &state.superblock) != a {
                return Ok(None);
            }
        }
        self.state().check_age(into)?;
        Ok(Some(Found {
            seq,
            both: a.is_some() && b.is_some(),
        }))
    }

    fn slot_pair(shape: &Shape, slot: u32) -> Pair {
        Pair {
            addresses: Member::BOTH.map(|member| shape.slot_address(slot, member)),
            magic: magic::SLOT,
            file_id: None,
        }
    }

    /// Loads a slot into node [`SLOT`].
    pub(crate) async fn load_slot(&self, slot: u32) -> Result<Slot, Error> {
        let shape = self.shape();
        if self.state().cached_slot != Some(slot) {
            self.load_slot_pair(slot).await?;
            self.state().cached_slot = Some(slot);
        }
        let state = self.state();
        Slot::decode(state.node(SLOT), slot, &shape)
    }

    /// As [`Volume::load_slot`], and tells whether both members are valid.
    pub(crate) async fn load_slot_pair(&self, slot: u32) -> Result<Found, Error> {
        let shape = self.shape();
        self.state().cached_slot = None;
        self.load_pair(Self::slot_pair(&shape, slot), SLOT, Some(SPARE))
            .await?
            .ok_or(Error::from(Node::Slot(slot)))
    }

    /// Loads a bitmap into node [`WORK`]; both members must be valid. A torn one was made whole
    /// at mount, so an invalid one is damage, and the other may be out of date.
    pub(crate) async fn load_bitmap(&self, group: u64) -> Result<(), Error> {
        if self.state().cached_group == group {
            return Ok(());
        }
        let found = self.load_bitmap_pair(group).await?;
        match found {
            Some(found) if found.both => {
                let mut state = self.state();
                bitmap::check(state.node(WORK), group)?;
                state.cached_group = group;
                Ok(())
            }
            _ => Err(Error::from(Node::Bitmap(group as u32))),
        }
    }

    /// Loads what is valid of a bitmap.
    pub(crate) async fn load_bitmap_pair(&self, group: u64) -> Result<Option<Found>, Error> {
        let shape = self.shape();
        if group >= shape.group_count() {
            return Err(Error::from(Node::Bitmap(group as u32)));
        }
        self.state().cached_group = NO_GROUP;
        let pair = Pair {
            addresses: Member::BOTH.map(|member| shape.bitmap_address(group, member)),
            magic: magic::BITMAP,
            file_id: None,
        };
        self.load_pair(pair, WORK, Some(SPARE)).await
    }

    /// Loads the leaf that `index` names into node [`SPARE`], through [`WORK`] as well if `work`
    /// is free.
    pub(crate) async fn load_leaf(
        &self,
        index: &Index,
        header: &Slot,
        level: u32,
        work_is_free: bool,
    ) -> Result<Leaf, Error> {
        let (leaf, _) = self
            .load_leaf_pair(index, header, level, work_is_free)
            .await?;
        Ok(leaf)
    }

    /// As [`Volume::load_leaf`], and tells whether both members are valid.
    pub(crate) async fn load_leaf_pair(
        &self,
        index: &Index,
        header: &Slot,
        level: u32,
        work_is_free: bool,
    ) -> Result<(Leaf, bool), Error> {
        let shape = self.shape();
        let pair = Pair {
            addresses: Member::BOTH.map(|member| shape.leaf_address(index.unit, member)),
            magic: magic::LEAF,
            file_id: Some(header.file_id),
        };
        if work_is_free {
            self.state().cached_group = NO_GROUP;
        }
        let spare = work_is_free.then_some(WORK);
        let found = self
            .load_pair(pair, SPARE, spare)
            .await?
            .ok_or(Error::from(Node::Map(header.index)))?;
        let state = self.state();
        let leaf = Leaf::decode(state.node(SPARE), index, header, level, &shape)?;
        Ok((leaf, found.both))
    }

    /// Writes node [`SLOT`] with `header` as the slot's next member. `header.seq` is advanced.
    pub(crate) async fn write_slot(
        &self,
        slot: u32,
        header: &mut Slot,
        fua: bool,
    ) -> Result<(), Error> {
        header.seq += self.seq_step(Mutation::SlotInPlace);
        let address = {
            let mut state = self.state();
            let shape = state.shape();
            header.encode(state.node_mut(SLOT));
            state.cached_slot = Some(slot);
            shape.slot_address(slot, member_of(header.seq))
        };
        self.write_node(SLOT, address, fua).await
    }

    /// Writes node [`SLOT`] and makes it durable: with force unit access, or a flush.
    pub(crate) async fn write_slot_durably(
        &self,
        slot: u32,
        header: &mut Slot,
    ) -> Result<(), Error> {
        let features = self.state().device.geometry().features;
        let fua = features.fua && features.volatile_write_cache;
        self.write_slot(slot, header, fua).await?;
        if fua {
            return Ok(());
        }
        self.order(Order::SlotBeforeAnswer).await
    }

    /// Writes node [`WORK`] as the bitmap's next member.
    pub(crate) async fn write_bitmap(&self, group: u64, last_op: u64) -> Result<(), Error> {
        let step = self.seq_step(Mutation::BitmapInPlace);
        let address = {
            let mut state = self.state();
            let shape = state.shape();
            let bytes = state.node_mut(WORK);
            let seq = get_u64(bytes, node::SEQ) + step;
            bitmap::stamp(bytes, seq, last_op);
            shape.bitmap_address(group, member_of(seq))
        };
        self.write_node(WORK, address, false).await
    }

    /// Writes node [`SPARE`], whose leaf header is set, as the member of its `seq`.
    pub(crate) async fn write_leaf(&self, unit: u64) -> Result<(), Error> {
        let address = {
            let state = self.state();
            let seq = get_u64(state.node(SPARE), node::SEQ);
            state.shape().leaf_address(unit, member_of(seq))
        };
        self.write_node(SPARE, address, false).await
    }
}
