// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reading a pair: the newest valid member wins. `FORMAT.md`, rules R1 to R4.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use crate::bytes::{array, get_u32, get_u64};
use crate::checksum::{self, Crc32c};
use crate::io::{Flags, NO_GROUP, NO_SLOT, SLOT, SPARE, State, WORK};
use crate::layout::{Member, SEQ_END, SEQ_RESERVE, leaf, magic, member_of, node};
use crate::map::{Index, Leaf};
use crate::order::Mutation;
use crate::slot::Slot;
use crate::steps::{Place, Step};
use crate::superblock::Superblock;
use crate::token::{Loaded, SlotNode};
use crate::{Error, Volume, bitmap, error::Node};
use block::Device;

/// A member's rank by its sequence number, if its magic, checksum and address are right: the newest
/// is highest, an invalid one is 0.
#[inline(never)]
pub(crate) fn rank(
    bytes: &[u8],
    address: u64,
    member: Member,
    magic: [u8; 4],
    superblock: &Superblock,
    crc32c: Crc32c,
) -> u64 {
    let seq = get_u64(bytes, node::SEQ);
    let right = array(bytes, node::MAGIC) == magic
        && member_of(seq) == member
        && seq < SEQ_END
        && get_u32(bytes, node::CRC)
            == checksum::of_node(crc32c, &superblock.uuid, address, bytes, node::CRC);
    if right { seq + 1 } else { 0 }
}

/// Whether a node with this sequence number can still be written, however long the mount lasts.
pub(crate) const fn has_numbers(seq: u64) -> bool {
    seq < SEQ_END - SEQ_RESERVE
}

/// A pair: its location, and what makes a member valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pair {
    /// The slot with this number.
    Slot(u32),
    /// The bitmap of this group.
    Bitmap(u32),
    /// A leaf of this file; a leaf of another file is a left-over.
    Leaf {
        unit: u64,
        file_id: u64,
        slot: u32,
        /// Node [`WORK`] can take member B.
        work_is_free: bool,
    },
}

impl Pair {
    fn rank<D>(&self, bytes: &[u8], member: Member, state: &State<'_, D>) -> u64 {
        let magic = match *self {
            Pair::Slot(_) => magic::SLOT,
            Pair::Bitmap(_) => magic::BITMAP,
            Pair::Leaf { file_id, .. } if get_u64(bytes, leaf::FILE_ID) == file_id => magic::LEAF,
            Pair::Leaf { .. } => return 0,
        };
        let address = self.address(member, state);
        rank(
            bytes,
            address,
            member,
            magic,
            &state.superblock,
            state.crc32c,
        )
    }

    #[inline(never)]
    fn address<D>(&self, member: Member, state: &State<'_, D>) -> u64 {
        let shape = &state.superblock.shape;
        match *self {
            Pair::Slot(slot) => state.slot_address(slot, member),
            Pair::Bitmap(group) => shape.bitmap_address(group, member),
            Pair::Leaf { unit, .. } => shape.leaf_address(unit, member),
        }
    }

    /// What is damaged if neither member is valid.
    fn damage(&self) -> Error {
        Error::from(match *self {
            Pair::Slot(slot) => Node::Slot(slot),
            Pair::Bitmap(group) => Node::Bitmap(group),
            Pair::Leaf { slot, .. } => Node::Map(slot),
        })
    }

    /// The nodes for the newest member and for member B.
    const fn nodes(&self) -> (usize, usize) {
        match self {
            Pair::Slot(_) => (SLOT, SPARE),
            Pair::Bitmap(_) => (WORK, SPARE),
            Pair::Leaf { work_is_free, .. } => {
                if *work_is_free {
                    (SPARE, WORK)
                } else {
                    (SPARE, SPARE)
                }
            }
        }
    }
}

impl<D: Device> State<'_, D> {
    /// Copies node `index` of one buffer into another, as its first.
    pub(crate) fn copy_node(&mut self, from: usize, index: u32, to: usize) {
        let len = self.superblock.shape.node_bytes();
        let at = index as usize * len;
        let Some(source) = self.nodes.get_mut(from).and_then(Option::take) else {
            debug_assert!(false, "a node that the device has is copied");
            return;
        };
        if let Some(bytes) = source.get(at..at + len) {
            self.node_mut(to).copy_from_slice(bytes);
        }
        if let Some(place) = self.nodes.get_mut(from) {
            *place = Some(source);
        }
    }

    /// Whether a node of `pair` is in memory. Reading another member there replaces it.
    fn forget(&mut self, pair: &Pair) -> bool {
        match *pair {
            Pair::Slot(slot) => {
                let is_there = core::mem::replace(&mut self.cached_slot, NO_SLOT) == slot;
                let is_usable =
                    self.flags.has(Flags::SLOT_IS_WHOLE) || !self.flags.has(Flags::MAY_CHANGE);
                is_there && is_usable
            }
            Pair::Bitmap(group) => core::mem::replace(&mut self.cached_group, NO_GROUP) == group,
            Pair::Leaf { work_is_free, .. } => {
                if work_is_free {
                    self.cached_group = NO_GROUP;
                }
                false
            }
        }
    }

    /// The pair's newest member is in memory, and is valid.
    fn remember(&mut self, pair: &Pair) {
        match *pair {
            Pair::Slot(slot) => self.cached_slot = slot,
            Pair::Bitmap(group) => self.cached_group = group,
            Pair::Leaf { .. } => {}
        }
    }

    /// R4: no node is newer than the superblock that governs it. R2: its next members have a
    /// number.
    pub(crate) fn check_age(&self, which: usize) -> Result<(), Error> {
        let bytes = self.node(which);
        let newer = get_u64(bytes, node::LAST_OP) > self.superblock.seq;
        if self.superblock.read_only {
            Ok(())
        } else if newer {
            Err(Error::StaleSuperblock)
        } else if !has_numbers(get_u64(bytes, node::SEQ)) {
            Err(Error::SequenceEnd)
        } else {
            Ok(())
        }
    }
}

/// The next read of a pair, with the rank of member A where that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// Nothing, if the pair is in memory.
    AtMemory,
    /// The first member, whatever is in memory.
    AtDevice,
    A,
    B(u64),
    /// B was read over it.
    AgainA(u64),
    /// This member is not valid, and is erased: what was written before is made durable first. With
    /// whether the operation has changed anything.
    Settle(Member, bool),
    Erase(Member),
    Done,
}

/// Reads both members and leaves the newest valid one in its node. With another node for B, that
/// takes two reads; without, three when A is the newer. Hand-written instead of `async`, like
/// [`crate::steps::Perform`].
pub(crate) struct Load<'v, 'a, D: Device> {
    volume: &'v Volume<'a, D>,
    pair: Pair,
    look: Look,
}

impl<D: Device> Future for Load<'_, '_, D> {
    type Output = Result<(), Error>;

    #[inline(never)]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let state = &mut *this.volume.state();
        let (into, second) = this.pair.nodes();
        if matches!(this.look, Look::AtMemory | Look::AtDevice) {
            let is_there = state.forget(&this.pair);
            this.look = if is_there && this.look == Look::AtMemory {
                Look::Done
            } else {
                Look::A
            };
            if this.look == Look::Done {
                state.remember(&this.pair);
            }
        }
        while this.look != Look::Done {
            let (member, step) = match this.look {
                Look::B(_) => (Member::B, Step::read(second)),
                Look::Settle(member, _) if state.is_settled() => {
                    this.look = Look::Erase(member);
                    continue;
                }
                Look::Settle(member, _) => (member, Step::BARRIER),
                Look::Erase(member) => (member, Step::write(second)),
                _ => (Member::A, Step::read(into)),
            };
            let shape = state.shape();
            let place = Place {
                address: this.pair.address(member, state),
                len: shape.node_bytes() as u32,
            };
            match state.turn_of(step, place) {
                Poll::Ready(Ok(())) => {}
                other => return other,
            }
            match this.look {
                Look::Settle(member, changing) => {
                    state.changing = changing;
                    this.look = Look::Erase(member);
                    continue;
                }
                Look::Erase(_) => {
                    this.look = Look::Done;
                    return Poll::Ready(state.check_age(into));
                }
                _ => {}
            }
            let which = step.node().unwrap_or(into);
            let rank = this.pair.rank(state.node(which), member, state);
            this.look = match this.look {
                Look::B(rank_a) => match this.choose(state, rank_a, rank) {
                    Ok(next) => next,
                    Err(error) => return Poll::Ready(Err(error)),
                },
                Look::AgainA(rank_a) if rank != rank_a => {
                    return Poll::Ready(Err(this.pair.damage()));
                }
                Look::AgainA(_) => Look::Done,
                _ => Look::B(rank),
            };
            if this.look == Look::Done {
                return Poll::Ready(state.check_age(into));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<D: Device> Load<'_, '_, D> {
    /// Both members were read: the newest wins.
    fn choose(&self, state: &mut State<'_, D>, rank_a: u64, rank_b: u64) -> Result<Look, Error> {
        state.both = rank_a != 0 && rank_b != 0;
        if rank_a == 0 && rank_b == 0 {
            return Err(self.pair.damage());
        }
        let mut b_wins = rank_b > rank_a;
        if state.both && state.is_mutated(Mutation::OldestWins) {
            b_wins = !b_wins;
        }
        let (into, second) = self.pair.nodes();
        let shared = into == second;
        if b_wins && !shared {
            state.copy_node(second, 0, into);
        }
        if let Pair::Slot(_) = self.pair {
            let erases = !state.both
                && state.flags.has(Flags::MAY_CHANGE)
                && !state.superblock.read_only
                && !state.is_mutated(Mutation::KeepHalves);
            let is_whole = state.both || erases;
            state.flags.set(Flags::SLOT_IS_WHOLE, is_whole);
            if erases {
                // R8. Each operation that writes a slot has a barrier after it has loaded it.
                state.node_mut(second).fill(0xff);
                let member = if b_wins { Member::A } else { Member::B };
                return Ok(Look::Settle(member, state.changing));
            }
        }
        Ok(if shared && !b_wins {
            Look::AgainA(rank_a)
        } else {
            Look::Done
        })
    }
}

/// A future that loads a slot into node [`SLOT`].
pub(crate) struct LoadSlot<'v, 's, 'n, 'a, D: Device> {
    load: Load<'v, 'a, D>,
    node: SlotNode<'n>,
    header: &'s mut Slot,
}

impl<'n, D: Device> Future for LoadSlot<'_, '_, 'n, '_, D> {
    type Output = Result<Loaded<'n>, Error>;

    #[inline(never)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        match Pin::new(&mut this.load).poll(context) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => return Poll::Pending,
        }
        let mut state = this.load.volume.state();
        state.remember(&this.load.pair);
        let slot = state.cached_slot;
        let shape = state.shape();
        let loaded = Loaded::into(&this.node);
        let names = state.superblock.most_name_bytes();
        let decoded = this.header.decode(state.slot(loaded), slot, &shape, names);
        Poll::Ready(decoded.map(|()| loaded))
    }
}

/// A future that loads a bitmap into node [`WORK`].
pub(crate) struct LoadBitmap<'v, 'a, D: Device>(Load<'v, 'a, D>);

impl<D: Device> Future for LoadBitmap<'_, '_, D> {
    type Output = Result<(), Error>;

    #[inline(never)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self(load) = self.get_mut();
        match Pin::new(&mut *load).poll(context) {
            Poll::Ready(Ok(())) => {}
            other => return other,
        }
        let mut state = load.volume.state();
        if let Pair::Bitmap(group) = load.pair {
            if state.cached_group != group {
                bitmap::check(state.node(WORK), group, &state.shape())?;
                if !state.both {
                    return Poll::Ready(Err(load.pair.damage()));
                }
                state.cached_group = group;
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// A future that loads a leaf into node [`SPARE`].
pub(crate) struct LoadLeaf<'v, 'a, D: Device> {
    load: Load<'v, 'a, D>,
    first_logical: u64,
    level: u32,
    /// Units of the file.
    limit: u64,
}

impl<D: Device> Future for LoadLeaf<'_, '_, D> {
    type Output = Result<Leaf, Error>;

    #[inline(never)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        match Pin::new(&mut this.load).poll(context) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => return Poll::Pending,
        }
        let state = this.load.volume.state();
        // The leaf's owner was checked: another file's leaf does not count as a member.
        let leaf = Leaf::decode(state.node(SPARE), &state.shape(), this.limit);
        let named = leaf
            .filter(|leaf| leaf.level == this.level && leaf.first_logical == this.first_logical);
        Poll::Ready(named.ok_or_else(|| this.load.pair.damage()))
    }
}

impl<'a, D: Device> Volume<'a, D> {
    /// Nothing is read before the first poll: creating the future takes only a few stores, in
    /// place. It is created in many places.
    #[inline(always)]
    const fn load(&self, pair: Pair, look: Look) -> Load<'_, 'a, D> {
        Load {
            volume: self,
            pair,
            look,
        }
    }

    /// Loads a slot into node [`SLOT`], and its header into `header`.
    #[inline(always)]
    pub(crate) const fn load_slot<'v, 's, 'n>(
        &'v self,
        node: SlotNode<'n>,
        slot: u32,
        header: &'s mut Slot,
    ) -> LoadSlot<'v, 's, 'n, 'a, D> {
        let load = self.load(Pair::Slot(slot), Look::AtMemory);
        LoadSlot { load, node, header }
    }

    /// Loads a bitmap into node [`WORK`]; both members must be valid. A torn one was rewritten at
    /// mount, so an invalid one is damage, and the other may be out of date.
    #[inline(always)]
    pub(crate) const fn load_bitmap(&self, group: u32) -> LoadBitmap<'_, 'a, D> {
        LoadBitmap(self.load(Pair::Bitmap(group), Look::AtMemory))
    }

    /// Loads the newest valid member of a bitmap.
    #[inline(always)]
    pub(crate) const fn load_bitmap_pair(&self, group: u32) -> Load<'_, 'a, D> {
        self.load(Pair::Bitmap(group), Look::AtDevice)
    }

    /// Loads the leaf that `index` names into node [`SPARE`], through [`WORK`] as well if `work`
    /// is free.
    #[inline(never)]
    pub(crate) const fn load_leaf(
        &self,
        index: &Index,
        header: &Slot,
        level: u32,
        work_is_free: bool,
    ) -> LoadLeaf<'_, 'a, D> {
        let pair = Pair::Leaf {
            unit: index.unit,
            file_id: header.file_id,
            slot: header.index,
            work_is_free,
        };
        LoadLeaf {
            load: self.load(pair, Look::AtDevice),
            first_logical: index.first_logical,
            level,
            limit: header.alloc_units,
        }
    }
}
