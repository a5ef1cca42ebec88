//! Reading a pair: the newest valid member wins. `FORMAT.md`, rules R1 to R4.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use crate::bytes::{array, get_u32, get_u64};
use crate::io::{NO_GROUP, SLOT, SPARE, State, WORK};
use crate::layout::{Member, SEQ_END, leaf, magic, member_of, node};
use crate::map::{Index, Leaf};
use crate::order::Mutation;
use crate::slot::Slot;
use crate::steps::{Place, Step};
use crate::superblock::Superblock;
use crate::token::{Loaded, SlotNode};
use crate::{Error, Volume, bitmap, checksum, error::Node};
use block::Device;

/// How a member ranks by its sequence number, if its magic, checksum and place are right: the
/// newest highest, an invalid one 0.
#[inline(never)]
pub(crate) fn rank(
    bytes: &[u8],
    address: u64,
    member: Member,
    magic: [u8; 4],
    superblock: &Superblock,
) -> u64 {
    let seq = get_u64(bytes, node::SEQ);
    let right = array(bytes, node::MAGIC) == magic
        && member_of(seq) == member
        && seq < SEQ_END
        && get_u32(bytes, node::CRC)
            == checksum::of_node(&superblock.uuid, address, bytes, node::CRC);
    if right { seq + 1 } else { 0 }
}

/// The place of a pair and what makes a member count.
#[derive(Clone, Copy)]
struct Pair {
    addresses: [u64; 2],
    magic: [u8; 4],
    /// A leaf of another file is a left-over.
    file_id: Option<u64>,
    /// What is damaged if neither member is valid.
    node: Node,
}

impl Pair {
    fn rank(&self, bytes: &[u8], member: Member, superblock: &Superblock) -> u64 {
        if self
            .file_id
            .is_some_and(|id| get_u64(bytes, leaf::FILE_ID) != id)
        {
            return 0;
        }
        rank(bytes, self.address(member), member, self.magic, superblock)
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
    fn copy_node(&mut self, from: usize, to: usize) {
        let len = self.superblock.shape.node_bytes();
        let Some(source) = self.nodes.get_mut(from).and_then(Option::take) else {
            debug_assert!(false, "a node that the device has is copied");
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

/// Which read of a pair comes next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    A,
    B,
    /// B was read over it.
    AgainA,
    Done,
}

/// Reads both members and leaves the newest valid one in node `into`. With another node for B,
/// that takes two reads; without, three when A is the newer. Written out, not `async`, as
/// [`crate::steps::Perform`] is.
pub(crate) struct Load<'v, 'a, D: Device> {
    volume: &'v Volume<'a, D>,
    pair: Pair,
    into: u8,
    second: u8,
    look: Look,
    submitted: bool,
    rank_a: u64,
}

impl<D: Device> Future for Load<'_, '_, D> {
    type Output = Result<(), Error>;

    #[inline(never)]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let mut state = this.volume.state();
        while this.look != Look::Done {
            let (member, which) = match this.look {
                Look::B => (Member::B, this.second),
                _ => (Member::A, this.into),
            };
            let place = Place {
                address: this.pair.address(member),
                len: state.shape().node_bytes() as u32,
            };
            match state.turn_of(Step::Read(which), place, &mut this.submitted) {
                Poll::Ready(Ok(())) => {}
                other => return other,
            }
            let bytes = state.node(usize::from(which));
            let rank = this.pair.rank(bytes, member, &state.superblock);
            this.look = match this.look {
                Look::A => {
                    this.rank_a = rank;
                    Look::B
                }
                Look::B => match this.choose(&mut state, rank) {
                    Ok(next) => next,
                    Err(error) => return Poll::Ready(Err(error)),
                },
                _ if rank != this.rank_a => return Poll::Ready(Err(this.pair.node.into())),
                _ => Look::Done,
            };
            if this.look == Look::Done {
                return Poll::Ready(state.check_age(usize::from(this.into)));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<D: Device> Load<'_, '_, D> {
    /// Both members were read: the newest wins.
    fn choose(&self, state: &mut State<'_, D>, rank_b: u64) -> Result<Look, Error> {
        let rank_a = self.rank_a;
        state.both = rank_a != 0 && rank_b != 0;
        if rank_a == 0 && rank_b == 0 {
            return Err(self.pair.node.into());
        }
        let mut b_wins = rank_b > rank_a;
        if state.both && state.is_mutated(Mutation::OldestWins) {
            b_wins = !b_wins;
        }
        let shared = self.into == self.second;
        if b_wins && !shared {
            state.copy_node(usize::from(self.second), usize::from(self.into));
        }
        Ok(if shared && !b_wins {
            Look::AgainA
        } else {
            Look::Done
        })
    }
}

/// A slot on its way into node [`SLOT`].
pub(crate) struct LoadSlot<'v, 's, 'n, 'a, D: Device> {
    load: Load<'v, 'a, D>,
    node: SlotNode<'n>,
    slot: u32,
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
        state.cached_slot = Some(this.slot);
        let shape = state.shape();
        let loaded = Loaded::into(&this.node);
        let decoded = this.header.decode(state.slot(loaded), this.slot, &shape);
        Poll::Ready(decoded.map(|()| loaded))
    }
}

/// A bitmap on its way into node [`WORK`].
pub(crate) struct LoadBitmap<'v, 'a, D: Device>(Load<'v, 'a, D>, u64);

impl<D: Device> Future for LoadBitmap<'_, '_, D> {
    type Output = Result<(), Error>;

    #[inline(never)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self(load, group) = self.get_mut();
        match Pin::new(&mut *load).poll(context) {
            Poll::Ready(Ok(())) => {}
            other => return other,
        }
        let mut state = load.volume.state();
        if state.cached_group != *group {
            bitmap::check(state.node(WORK), *group, &state.shape())?;
            if !state.both {
                return Poll::Ready(Err(Error::from(Node::Bitmap(*group as u32))));
            }
            state.cached_group = *group;
        }
        Poll::Ready(Ok(()))
    }
}

/// A leaf on its way into node [`SPARE`].
pub(crate) struct LoadLeaf<'v, 'a, D: Device> {
    load: Load<'v, 'a, D>,
    first_logical: u64,
    level: u32,
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
        let leaf = Leaf::decode(state.node(SPARE), &state.shape());
        let named = leaf.filter(|leaf| {
            leaf.level == this.level
                && leaf.first_logical == this.first_logical
                && Some(leaf.file_id) == this.load.pair.file_id
        });
        Poll::Ready(named.ok_or(Error::from(this.load.pair.node)))
    }
}

impl<'a, D: Device> Volume<'a, D> {
    fn load(&self, pair: Pair, into: usize, second: usize) -> Load<'_, 'a, D> {
        Load {
            volume: self,
            pair,
            into: into as u8,
            second: second as u8,
            look: Look::A,
            submitted: false,
            rank_a: 0,
        }
    }

    /// Loads a slot into node [`SLOT`], and its header into `header`.
    #[inline(never)]
    pub(crate) fn load_slot<'v, 's, 'n>(
        &'v self,
        node: SlotNode<'n>,
        slot: u32,
        header: &'s mut Slot,
    ) -> LoadSlot<'v, 's, 'n, 'a, D> {
        let is_there = self.state().cached_slot == Some(slot);
        let mut loading = self.read_slot(node, slot, header);
        if is_there {
            loading.load.look = Look::Done;
        }
        loading
    }

    /// As [`Volume::load_slot`], but always reads it, so that [`State::both`] is about it.
    pub(crate) fn read_slot<'v, 's, 'n>(
        &'v self,
        node: SlotNode<'n>,
        slot: u32,
        header: &'s mut Slot,
    ) -> LoadSlot<'v, 's, 'n, 'a, D> {
        let load = self.load_slot_pair(slot);
        LoadSlot {
            load,
            node,
            slot,
            header,
        }
    }

    #[inline(never)]
    fn load_slot_pair(&self, slot: u32) -> Load<'_, 'a, D> {
        let shape = self.shape();
        self.state().cached_slot = None;
        let pair = Pair {
            addresses: [
                shape.slot_address(slot, Member::A),
                shape.slot_address(slot, Member::B),
            ],
            magic: magic::SLOT,
            file_id: None,
            node: Node::Slot(slot),
        };
        self.load(pair, SLOT, SPARE)
    }

    /// Loads a bitmap into node [`WORK`]; both members must be valid. A torn one was made whole
    /// at mount, so an invalid one is damage, and the other may be out of date.
    pub(crate) fn load_bitmap(&self, group: u64) -> LoadBitmap<'_, 'a, D> {
        let is_there = self.state().cached_group == group;
        let mut load = self.load_bitmap_pair(group);
        if is_there {
            load.look = Look::Done;
            self.state().cached_group = group;
        }
        LoadBitmap(load, group)
    }

    /// Loads what is valid of a bitmap.
    #[inline(never)]
    pub(crate) fn load_bitmap_pair(&self, group: u64) -> Load<'_, 'a, D> {
        let shape = self.shape();
        self.state().cached_group = NO_GROUP;
        let pair = Pair {
            addresses: [
                shape.bitmap_address(group, Member::A),
                shape.bitmap_address(group, Member::B),
            ],
            magic: magic::BITMAP,
            file_id: None,
            node: Node::Bitmap(group as u32),
        };
        self.load(pair, WORK, SPARE)
    }

    /// Loads the leaf that `index` names into node [`SPARE`], through [`WORK`] as well if `work`
    /// is free.
    #[inline(never)]
    pub(crate) fn load_leaf(
        &self,
        index: &Index,
        header: &Slot,
        level: u32,
        work_is_free: bool,
    ) -> LoadLeaf<'_, 'a, D> {
        let shape = self.shape();
        let pair = Pair {
            addresses: [
                shape.leaf_address(index.unit, Member::A),
                shape.leaf_address(index.unit, Member::B),
            ],
            magic: magic::LEAF,
            file_id: Some(header.file_id),
            node: Node::Map(header.index),
        };
        let second = if work_is_free {
            self.state().cached_group = NO_GROUP;
            WORK
        } else {
            SPARE
        };
        LoadLeaf {
            load: self.load(pair, SPARE, second),
            first_logical: index.first_logical,
            level,
        }
    }
}
