// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The device requests of an operation, in order: barriers, reads and writes. An operation makes
//! its list in one go, and one loop executes it, so the code that submits, waits and retries exists
//! only once.
//!
//! A list with writes marks that the operation has begun to change metadata. The data to be written
//! is in the nodes when the list is made, each node at most once.

use core::cell::RefMut;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use block::Device;

use crate::bytes::{get_u64, put_u32};
use crate::io::{Flags, Io, NO_GROUP, SLOT, SPARE, State, WORK};
use crate::layout::{Member, SUPERBLOCK_B, Shape, member_of, node, superblock};
use crate::order::{Mutation, Order};
use crate::slot::Slot;
use crate::superblock::{Operation, superblock_len};
use crate::token::Loaded;
use crate::{Error, Volume, bitmap, checksum};

/// One request, or a barrier, in four bits: the high bits are the kind, the low bits the node's
/// number plus one, or zero for a barrier and a discard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step(u8);

impl Step {
    /// Makes everything completed durable, if anything is not.
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

    /// Gives a range back to the device; it moves no node.
    pub(crate) const DISCARD: Self = Self(0b1000);

    /// The superblock in a node.
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

    /// Whether a flush is needed before its effect is durable.
    pub(crate) const fn is_cached_write(self) -> bool {
        self.0 & 0b0100 != 0 && self.0 & 0b11 != 0 || self.0 == Self::DISCARD.0
    }
}

/// The address of a node's bytes on the device.
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

/// Steps, in order: the next one in the lowest four bits, and above them all how many were added.
/// The volume has one such list, which the operation that has the turn fills, and refills for its
/// next step, so that it is not part of each operation's future. Every step in it moves a node, or
/// a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Steps(u32);

impl Steps {
    pub(crate) const EMPTY: Self = Self(0);
    /// The list overflowed: none of it may be executed.
    const OVERFLOWED: Self = Self(u32::MAX);

    /// Adds a step. No operation has more steps than fit; one that had could lose a barrier, so its
    /// whole list is refused.
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
        *self = if count < STEPS {
            Self((self.0 | u32::from(step.0) << (count * STEP_BITS)) + ONE_MORE)
        } else {
            Self::OVERFLOWED
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

/// The addresses of the nodes of a list: the slot's node, and the other one. No list moves both
/// other nodes, except for a superblock, which has its own address.
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

/// The loop that executes a list. Hand-written instead of `async`: every operation awaits it, and
/// this is compiled only once.
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

/// One request of any length, executed like a list by [`Perform`].
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
    /// The device address of a step of the list.
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

    /// Submits `step` if it has not been submitted, and checks whether it has completed.
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

    /// Whether the first step was submitted. Between two steps, and when a turn begins, nothing is
    /// outstanding.
    fn has_begun(&self) -> bool {
        !matches!(self.io, Io::Idle)
    }

    /// Nothing is outstanding, and everything written is durable.
    pub(crate) fn is_settled(&self) -> bool {
        !self.has_begun() && !self.has_unflushed()
    }

    fn has_unflushed(&self) -> bool {
        self.unflushed && self.device.geometry().features.volatile_write_cache
    }

    /// Whether the protocol is violated on purpose; never outside tests.
    #[cfg(feature = "mutations")]
    pub(crate) fn is_mutated(&self, mutation: Mutation) -> bool {
        self.mutation == mutation
    }

    #[cfg(not(feature = "mutations"))]
    #[inline(always)]
    pub(crate) fn is_mutated(&self, _: Mutation) -> bool {
        false
    }

    /// The increment of a node's sequence number: 2 would address the same member again.
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

    /// Adds the checksum to a node whose fields are set.
    #[inline(never)]
    fn put_node(&mut self, which: usize, address: u64, fua: bool) {
        let (uuid, crc32c) = (self.superblock.uuid, self.crc32c);
        let bytes = self.node_mut(which);
        let crc = checksum::of_node(crc32c, &uuid, address, bytes, node::CRC);
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
        self.flags.set(Flags::SLOT_IS_WHOLE, true);
    }

    /// Like [`State::put_slot`], from another node.
    #[inline(never)]
    pub(crate) fn put_slot_from(&mut self, which: usize, header: &mut Slot, fua: bool) {
        header.seq += self.seq_step(Mutation::SlotInPlace);
        header.encode(self.node_mut(which));
        let address = self.slot_address(header.index, member_of(header.seq));
        self.put_node(which, address, fua);
    }

    /// The first content of a slot, in node [`SPARE`], as the member that its `seq` selects: an
    /// empty one, which nothing refers to yet.
    pub(crate) fn put_fresh_slot(&mut self, header: &Slot) {
        let bytes = self.node_mut(SPARE);
        bytes.fill(0);
        header.encode(bytes);
        let address = self.slot_address(header.index, member_of(header.seq));
        self.put_node(SPARE, address, false);
    }

    /// A slot that has only what `fill` puts there, at byte `at` of node [`SPARE`]'s buffer, for
    /// this address.
    pub(crate) fn fill_slot(
        &mut self,
        at: usize,
        header: &Slot,
        address: u64,
        fill: impl FnOnce(&mut Slot, &mut [u8]),
    ) {
        let (uuid, crc32c) = (self.superblock.uuid, self.crc32c);
        let len = self.superblock.shape.node_bytes();
        let buffer = self.nodes.get_mut(SPARE).and_then(Option::as_mut);
        let bytes = buffer.and_then(|buffer| buffer.get_mut(at..at + len));
        let bytes = bytes.unwrap_or_default();
        let mut header = *header;
        bytes.fill(0);
        fill(&mut header, bytes);
        header.encode(bytes);
        let crc = checksum::of_node(crc32c, &uuid, address, bytes, node::CRC);
        put_u32(bytes, node::CRC, crc);
    }

    /// The older member of a slot that becomes free, from this node: R9. `header` was rewound.
    #[inline(never)]
    pub(crate) fn put_older_free(&mut self, which: usize, header: &mut Slot) {
        if self.is_mutated(Mutation::HalfFree) {
            // The first write as before R9: the older member gets the next number.
            header.seq += 2;
            return;
        }
        self.put_slot_from(which, header, false);
    }

    /// Node [`SLOT`], durable: with force unit access, or a flush.
    pub(crate) fn put_slot_durably(&mut self, loaded: Loaded<'_>, header: &mut Slot) {
        let fua = self.has_fua();
        self.put_slot(loaded, header, fua);
        if !fua {
            self.order(Order::SlotBeforeAnswer);
        }
    }

    /// Whether a write can be durable by itself, and has to be made so.
    pub(crate) fn has_fua(&self) -> bool {
        let features = self.device.geometry().features;
        features.fua && features.volatile_write_cache
    }

    /// Node [`WORK`] as the bitmap's next member.
    #[inline(never)]
    pub(crate) fn put_bitmap(&mut self, group: u32, last_op: u64) {
        let step = self.seq_step(Mutation::BitmapInPlace);
        let shape = self.shape();
        let bytes = self.node_mut(WORK);
        let seq = get_u64(bytes, node::SEQ) + step;
        // The node still has the count of the newest member.
        let before = bitmap::free_units(bytes);
        bitmap::stamp(bytes, seq, last_op);
        let after = bitmap::free_units(bytes);
        let address = shape.bitmap_address(group, member_of(seq));
        self.superblock.counts.move_units(before, after);
        self.put_node(WORK, address, false);
    }

    /// Node [`WORK`], which is a new group's bitmap in a volume of `shape`, as the member that its
    /// `seq` selects.
    pub(crate) fn put_new_bitmap(&mut self, group: u32, shape: &Shape) {
        let seq = get_u64(self.node(WORK), node::SEQ);
        let address = shape.bitmap_address(group, member_of(seq));
        self.put_node(WORK, address, false);
    }

    /// Node [`SPARE`], whose leaf header is set, as the member that its `seq` selects.
    #[inline(never)]
    pub(crate) fn put_leaf(&mut self, unit: u64) {
        let seq = get_u64(self.node(SPARE), node::SEQ);
        let address = self.shape().leaf_address(unit, member_of(seq));
        self.put_node(SPARE, address, false);
    }

    /// Node [`SPARE`], a list's, whose fields are set, at `address`.
    pub(crate) fn put_list(&mut self, address: u64) {
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
        superblock.long_names |= self.flags.has(Flags::LONG_NAME);
        superblock.seq += step;
        let superblock = self.superblock;
        let address = superblock_address(superblock.seq);
        superblock.encode(self.node_mut(which), address, operation);
        self.changing = true;
        self.steps.push(Step::superblock(which));
    }

    /// Before the first change since a clean unmount, marks the volume as in use on the device:
    /// from then on a node may be torn. Before the first name of more than 64 bytes, the mark that
    /// the volume has such. The caller has a barrier before its first node, which also covers this.
    #[inline(never)]
    pub(crate) fn put_in_use(&mut self) {
        let is_first = self.flags.has(Flags::LONG_NAME)
            && !self.superblock.long_names
            && !self.is_mutated(Mutation::LateFeature);
        if self.superblock.clean || is_first {
            // R3. And this superblock removes the record of the operation before.
            self.order(if self.superblock.clean {
                Order::CacheBeforeInUse
            } else {
                Order::NodesBeforeFeature
            });
            self.put_superblock(SPARE, &Operation::None, false);
        }
    }
}

/// The address of the superblock with this sequence number.
const fn superblock_address(seq: u64) -> u64 {
    match member_of(seq) {
        Member::A => 0,
        Member::B => SUPERBLOCK_B,
    }
}

impl<'a, D: Device> Volume<'a, D> {
    /// Executes the steps that `make` lists. Await it immediately: the list belongs to the volume
    /// and the next one replaces it.
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

    /// One step with an explicit length.
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

    /// Even in a build without assertions, nothing of a list that is too long reaches the device.
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
