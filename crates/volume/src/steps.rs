//! What an operation asks of the device, in order: barriers, reads and writes. An operation makes
//! its list in one go, and one loop carries it out: so the code that submits, waits and tries
//! again is there once.
//!
//! A list that writes is the operation's word that it has begun to change metadata. What it
//! writes stands in the nodes when the list is made, each node at most once.

use core::cell::RefMut;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use block::Device;

use crate::bytes::{get_u64, put_u32};
use crate::io::{Io, NO_GROUP, SLOT, SPARE, State, WORK};
use crate::layout::{Member, SUPERBLOCK_B, member_of, node, superblock};
use crate::order::{Mutation, Order};
use crate::slot::Slot;
use crate::superblock::{Operation, superblock_len};
use crate::token::Loaded;
use crate::{Error, Volume, bitmap, checksum};

/// One request, or a barrier, in four bits: what it is above, and below that the node's number and
/// one, or zero for a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step(u8);

impl Step {
    /// All that has completed becomes durable, if anything is not.
    pub(crate) const BARRIER: Self = Self(0b0100);

    pub(crate) const fn read(node: usize) -> Self {
        Self(node as u8 + 1)
    }

    pub(crate) const fn write(node: usize) -> Self {
        Self(0b0100 | (node as u8 + 1))
    }

    /// With force unit access.
    pub(crate) const fn write_through(node: usize) -> Self {
        Self(0b1000 | (node as u8 + 1))
    }

    /// The superblock that stands in a node.
    const fn superblock(node: usize) -> Self {
        Self(0b1100 | (node as u8 + 1))
    }

    /// The node that is read or written.
    pub(crate) const fn node(self) -> Option<usize> {
        (self.0 as usize & 0b11).checked_sub(1)
    }

    pub(crate) const fn is_read(self) -> bool {
        self.0 & 0b1100 == 0
    }

    pub(crate) const fn is_write_through(self) -> bool {
        self.0 & 0b1100 == 0b1000
    }

    const fn is_superblock(self) -> bool {
        self.0 & 0b1100 == 0b1100
    }

    /// Whether a flush is needed before what it does is durable.
    pub(crate) const fn is_cached_write(self) -> bool {
        self.0 & 0b0100 != 0 && self.0 & 0b11 != 0
    }
}

/// Where a node's bytes stand on the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub address: u64,
    pub len: u32,
}

/// No node is at this address.
const NOWHERE: u64 = u64::MAX;

/// The longest list: a rename's.
const STEPS: u32 = 6;
/// Bits of a step in the list, and where the list keeps its length.
const STEP_BITS: u32 = 4;
const COUNT_SHIFT: u32 = 24;
const ONE_MORE: u32 = 1 << COUNT_SHIFT;

/// Steps, in order: the next one in the lowest four bits, and above them all how many were added. The
/// volume has one such list, which the operation that has the turn fills, and fills again for what
/// comes next: so it is not in the future of each operation. All that is in it moves a node, or a
/// superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Steps(u32);

impl Steps {
    pub(crate) const EMPTY: Self = Self(0);
    /// A step had no room: none of the list may be carried out.
    const OVERFLOWED: Self = Self(u32::MAX);

    /// Adds a step. No operation has more than there is room for; one that had would lose a barrier,
    /// so its whole list is refused.
    #[inline(never)]
    pub(crate) fn push(&mut self, step: Step) {
        self.add(step);
        debug_assert!(
            *self != Self::OVERFLOWED,
            "an operation of more than {STEPS} steps"
        );
    }

    fn add(&mut self, step: Step) {
        let count = self.0 >> COUNT_SHIFT;
        *self = match count < STEPS {
            true => Self((self.0 | u32::from(step.0) << (count * STEP_BITS)) + ONE_MORE),
            false => Self::OVERFLOWED,
        };
    }

    fn front(self) -> Option<Step> {
        let step = Step((self.0 & ((1 << STEP_BITS) - 1)) as u8);
        (step.0 != 0).then_some(step)
    }

    fn pop(&mut self) {
        self.0 = (self.0 & (ONE_MORE - 1)) >> STEP_BITS;
    }
}

/// Where the nodes of a list are: the slot's node, and the other one. No list moves both others, but
/// for a superblock, which has its own place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    slot: u64,
    other: u64,
}

impl Addresses {
    pub(crate) const NONE: Self = Self {
        slot: NOWHERE,
        other: NOWHERE,
    };

    const fn of(&mut self, node: usize) -> &mut u64 {
        match node {
            SLOT => &mut self.slot,
            _ => &mut self.other,
        }
    }
}

/// The loop. Written out, not `async`: every operation awaits it, and this is compiled once.
pub(crate) struct Perform<'v, 'a, D: Device> {
    volume: &'v Volume<'a, D>,
}

impl<D: Device> Future for Perform<'_, '_, D> {
    type Output = Result<(), Error>;

    #[inline(never)]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let state = &mut *self.volume.state();
        if state.steps == Steps::OVERFLOWED {
            return Poll::Ready(Err(Error::NeedsMount));
        }
        while let Some(step) = state.steps.front() {
            if state.has_begun() || step != Step::BARRIER || state.has_unflushed() {
                let place = state.place_of(step);
                match state.turn_of(step, place) {
                    Poll::Ready(Ok(())) => {}
                    other => return other,
                }
            }
            state.steps.pop();
        }
        Poll::Ready(Ok(()))
    }
}

/// One request of any length, as [`Perform`] carries out a list.
pub(crate) struct Move<'v, 'a, D: Device> {
    volume: &'v Volume<'a, D>,
    step: Step,
    place: Place,
}

impl<D: Device> Future for Move<'_, '_, D> {
    type Output = Result<(), Error>;

    #[inline(never)]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        self.volume.state().turn_of(self.step, self.place)
    }
}

impl<D: Device> State<'_, D> {
    /// Where a step of the list goes.
    fn place_of(&mut self, step: Step) -> Place {
        let node = step.node().unwrap_or(SLOT);
        let mut address = *self.addresses.of(node);
        let mut len = self.superblock.shape.node_bytes();
        if step.is_superblock() {
            address = superblock_address(get_u64(self.node(node), superblock::SEQ));
            len = superblock_len(self.device.geometry().block_size_log2);
        }
        Place {
            address,
            len: len as u32,
        }
    }

    /// Submits `step` if it is not yet, and looks whether it has ended.
    pub(crate) fn turn_of(&mut self, step: Step, place: Place) -> Poll<Result<(), Error>> {
        if !self.has_begun() {
            match self.start(step, place) {
                Poll::Ready(Ok(())) => {}
                other => return other,
            }
        }
        let Io::Done(result) = self.io else {
            return Poll::Pending;
        };
        self.io = Io::Idle;
        Poll::Ready(result.map_err(Error::from))
    }

    /// Whether the step in front was submitted. Between two steps, and when a turn begins, nothing
    /// is under way.
    fn has_begun(&self) -> bool {
        !matches!(self.io, Io::Idle)
    }

    fn has_unflushed(&self) -> bool {
        self.unflushed && self.device.geometry().features.volatile_write_cache
    }

    /// Whether the protocol is followed wrongly on purpose; never, but in tests.
    #[cfg(feature = "mutations")]
    pub(crate) fn is_mutated(&self, mutation: Mutation) -> bool {
        self.mutation == mutation
    }

    #[cfg(not(feature = "mutations"))]
    #[inline(always)]
    pub(crate) fn is_mutated(&self, _: Mutation) -> bool {
        false
    }

    /// What a node's sequence number grows by: two would be the same member again.
    pub(crate) fn seq_step(&self, in_place: Mutation) -> u64 {
        if self.is_mutated(in_place) { 2 } else { 1 }
    }

    /// A barrier of the protocol, by its name.
    #[inline(never)]
    pub(crate) fn order(&mut self, order: Order) {
        if !self.is_mutated(Mutation::Without(order)) {
            self.steps.push(Step::BARRIER);
        }
    }

    /// A node whose fields are set: adds the checksum.
    #[inline(never)]
    fn put_node(&mut self, which: usize, address: u64, fua: bool) {
        let uuid = self.superblock.uuid;
        let bytes = self.node_mut(which);
        let crc = checksum::of_node(&uuid, address, bytes, node::CRC);
        put_u32(bytes, node::CRC, crc);
        self.changing = true;
        let known = self.addresses.of(which);
        let is_free = *known == NOWHERE || *known == address;
        debug_assert!(is_free, "two nodes with one address in a list");
        if !is_free {
            self.steps = Steps::OVERFLOWED;
            return;
        }
        *known = address;
        self.steps.push(if fua {
            Step::write_through(which)
        } else {
            Step::write(which)
        });
    }

    /// Node [`SLOT`] with `header` as the slot's next member. `header.seq` is advanced.
    #[inline(never)]
    pub(crate) fn put_slot(&mut self, _: Loaded<'_>, header: &mut Slot, fua: bool) {
        self.put_slot_from(SLOT, header, fua);
        self.cached_slot = header.index;
    }

    /// As [`State::put_slot`], from another node.
    #[inline(never)]
    pub(crate) fn put_slot_from(&mut self, which: usize, header: &mut Slot, fua: bool) {
        header.seq += self.seq_step(Mutation::SlotInPlace);
        let shape = self.shape();
        header.encode(self.node_mut(which));
        let address = shape.slot_address(header.index, member_of(header.seq));
        self.put_node(which, address, fua);
    }

    /// Node [`SLOT`], durable: with force unit access, or a flush.
    pub(crate) fn put_slot_durably(&mut self, loaded: Loaded<'_>, header: &mut Slot) {
        let features = self.device.geometry().features;
        let fua = features.fua && features.volatile_write_cache;
        self.put_slot(loaded, header, fua);
        if !fua {
            self.order(Order::SlotBeforeAnswer);
        }
    }

    /// Node [`WORK`] as the bitmap's next member.
    #[inline(never)]
    pub(crate) fn put_bitmap(&mut self, group: u64, last_op: u64) {
        let step = self.seq_step(Mutation::BitmapInPlace);
        let shape = self.shape();
        let bytes = self.node_mut(WORK);
        let seq = get_u64(bytes, node::SEQ) + step;
        bitmap::stamp(bytes, seq, last_op);
        let address = shape.bitmap_address(group, member_of(seq));
        self.put_node(WORK, address, false);
    }

    /// Node [`SPARE`], whose leaf header is set, as the member of its `seq`.
    #[inline(never)]
    pub(crate) fn put_leaf(&mut self, unit: u64) {
        let seq = get_u64(self.node(SPARE), node::SEQ);
        let address = self.shape().leaf_address(unit, member_of(seq));
        self.put_node(SPARE, address, false);
    }

    /// The next superblock, in node [`SPARE`] or [`WORK`].
    #[inline(never)]
    pub(crate) fn put_superblock(&mut self, which: usize, operation: &Operation, clean: bool) {
        if which == WORK {
            self.cached_group = NO_GROUP;
        }
        let step = self.seq_step(Mutation::SuperblockInPlace);
        let superblock = &mut self.superblock;
        if superblock.clean && !clean {
            superblock.mount_count = superblock.mount_count.wrapping_add(1);
        }
        superblock.clean = clean;
        superblock.seq += step;
        let superblock = self.superblock;
        let address = superblock_address(superblock.seq);
        superblock.encode(self.node_mut(which), address, operation);
        self.changing = true;
        self.steps.push(Step::superblock(which));
    }

    /// Before the first change since a clean unmount, says so on the device: from then on a node
    /// may be torn. The caller has a barrier before its first node, which covers this too.
    #[inline(never)]
    pub(crate) fn put_in_use(&mut self) {
        if self.superblock.clean {
            self.order(Order::CacheBeforeInUse);
            self.put_superblock(SPARE, &Operation::None, false);
        }
    }
}

/// Where the superblock of this sequence number is.
const fn superblock_address(seq: u64) -> u64 {
    match member_of(seq) {
        Member::A => 0,
        Member::B => SUPERBLOCK_B,
    }
}

impl<'a, D: Device> Volume<'a, D> {
    /// Carries out the steps that `make` lists. What is not awaited at once is lost: the list is
    /// the volume's.
    pub(crate) fn perform(&self, make: impl FnOnce(&mut State<'a, D>)) -> Perform<'_, 'a, D> {
        make(&mut self.list());
        Perform { volume: self }
    }

    /// The state, with an empty list of steps.
    #[inline(never)]
    fn list(&self) -> RefMut<'_, State<'a, D>> {
        let mut state = self.state();
        state.steps = Steps::EMPTY;
        state.addresses = Addresses::NONE;
        state
    }

    /// Reads `len` bytes into the node `which`.
    #[inline(always)]
    pub(crate) const fn read_bytes(
        &self,
        which: usize,
        address: u64,
        len: usize,
    ) -> Move<'_, 'a, D> {
        self.move_bytes(Step::read(which), address, len)
    }

    /// One step whose length is its own.
    #[inline(always)]
    pub(crate) const fn move_bytes(&self, step: Step, address: u64, len: usize) -> Move<'_, 'a, D> {
        Move {
            volume: self,
            step,
            place: Place {
                address,
                len: len as u32,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FormatOptions, MountOptions, OpenFile, blocking, format};
    use block::{Buffer, RamDisk};
    use std::vec;

    /// In a build without assertions too, nothing of a list that is too long reaches the device.
    #[test]
    fn a_list_that_is_too_long_is_refused_as_a_whole() {
        let buffer = || Buffer::from_static(vec![0; 4096].leak());
        let mut disk = RamDisk::<_, 4>::new(vec![0; 1 << 20], 9).unwrap();
        format(&mut disk, buffer(), &FormatOptions::default())
            .0
            .unwrap();
        let mut files = [OpenFile::new()];
        let nodes = [buffer(), buffer(), buffer()];
        let options = MountOptions::default();
        let volume = Volume::mount(disk, nodes, &mut files, &options).unwrap();
        for (count, result) in [(STEPS, Ok(())), (STEPS + 1, Err(Error::NeedsMount))] {
            let listed = volume.perform(|state| {
                state.unflushed = true;
                (0..count).for_each(|_| state.steps.add(Step::BARRIER));
            });
            assert_eq!(blocking::run(&volume, listed), result, "{count} steps");
        }
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "more than 6 steps")]
    fn a_list_that_is_too_long_is_a_bug() {
        let mut steps = Steps::EMPTY;
        (0..=STEPS).for_each(|_| steps.push(Step::BARRIER));
    }
}
