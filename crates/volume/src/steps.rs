//! What an operation asks of the device, in order: barriers, reads and writes. An operation makes
//! its list in one go, and one loop carries it out: so the code that submits, waits and tries
//! again is there once.
//!
//! A list that writes is the operation's word that it has begun to change metadata. What it
//! writes stands in the nodes when the list is made, each node at most once.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use block::Device;

use crate::bytes::{get_u64, put_u32};
use crate::io::{Io, NO_GROUP, SLOT, SPARE, State, WORK};
use crate::layout::{Member, SUPERBLOCK_B, member_of, node};
use crate::order::{Mutation, Order};
use crate::slot::Slot;
use crate::superblock::{Operation, superblock_len};
use crate::token::Loaded;
use crate::{Error, Volume, bitmap, checksum};

/// One request, or a barrier. The number is the node's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// All that has completed becomes durable, if anything is not.
    Barrier,
    Read(u8),
    Write(u8),
    /// With force unit access.
    WriteThrough(u8),
}

/// Where a node's bytes stand on the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub address: u64,
    pub len: u32,
}

const NOWHERE: Place = Place { address: 0, len: 0 };

/// The longest list: a rename's.
const STEPS: usize = 6;

/// Steps, in order. An operation has one such list, and fills it again for what comes next.
pub(crate) struct Steps {
    list: [Step; STEPS],
    places: [Place; 3],
    count: u8,
    next: u8,
    submitted: bool,
    /// A step had no room: none of the list may be carried out.
    overflowed: bool,
}

impl Steps {
    pub(crate) const fn new() -> Self {
        Self {
            list: [Step::Barrier; STEPS],
            places: [NOWHERE; 3],
            count: 0,
            next: 0,
            submitted: false,
            overflowed: false,
        }
    }

    /// Adds a step that needs no place. No operation has more than there is room for; one that had
    /// would lose a barrier, so its whole list is refused.
    #[inline(never)]
    pub(crate) fn push(&mut self, step: Step) {
        self.add(step);
        debug_assert!(!self.overflowed, "an operation of more than {STEPS} steps");
    }

    fn add(&mut self, step: Step) {
        match self.list.get_mut(usize::from(self.count)) {
            Some(entry) => {
                *entry = step;
                self.count += 1;
            }
            None => self.overflowed = true,
        }
    }

    /// Adds a read or a write of node `which`.
    pub(crate) fn push_at(&mut self, step: Step, which: usize, address: u64, len: usize) {
        if let Some(place) = self.places.get_mut(which) {
            *place = Place {
                address,
                len: len as u32,
            };
        }
        self.push(step);
    }

    /// The step that comes next, and its place.
    fn front(&self) -> Option<(Step, Place)> {
        let index = usize::from(self.next);
        let step = *self.list.get(index).filter(|_| self.next < self.count)?;
        let node = step.node().unwrap_or(0);
        Some((step, self.places.get(node).copied().unwrap_or(NOWHERE)))
    }
}

impl Step {
    /// The node that is read or written.
    pub(crate) const fn node(self) -> Option<usize> {
        match self {
            Step::Barrier => None,
            Step::Read(node) | Step::Write(node) | Step::WriteThrough(node) => Some(node as usize),
        }
    }
}

/// The loop. Written out, not `async`: every operation awaits it, and this is compiled once.
pub(crate) struct Perform<'v, 's, 'a, D: Device> {
    volume: &'v Volume<'a, D>,
    steps: &'s mut Steps,
}

impl<D: Device> Future for Perform<'_, '_, '_, D> {
    type Output = Result<(), Error>;

    #[inline(never)]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let steps = &mut *this.steps;
        let mut state = this.volume.state();
        if steps.overflowed {
            return Poll::Ready(Err(Error::NeedsMount));
        }
        while let Some((step, place)) = steps.front() {
            if steps.submitted || step != Step::Barrier || state.has_unflushed() {
                match state.turn_of(step, place, &mut steps.submitted) {
                    Poll::Ready(Ok(())) => {}
                    other => return other,
                }
            }
            steps.next += 1;
        }
        Poll::Ready(Ok(()))
    }
}

impl<D: Device> State<'_, D> {
    /// Submits `step` if it is not yet, and looks whether it has ended.
    pub(crate) fn turn_of(
        &mut self,
        step: Step,
        place: Place,
        submitted: &mut bool,
    ) -> Poll<Result<(), Error>> {
        if !*submitted {
            match self.start(step, place) {
                Poll::Ready(Ok(())) => *submitted = true,
                other => return other,
            }
        }
        let Io::Done(result) = self.io else {
            return Poll::Pending;
        };
        self.io = Io::Idle;
        *submitted = false;
        Poll::Ready(result.map_err(Error::from))
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
    pub(crate) fn order(&mut self, steps: &mut Steps, order: Order) {
        if !self.is_mutated(Mutation::Without(order)) {
            steps.push(Step::Barrier);
        }
    }

    /// A node whose fields are set: adds the checksum.
    #[inline(never)]
    fn put_node(&mut self, steps: &mut Steps, which: usize, address: u64, fua: bool) {
        let uuid = self.superblock.uuid;
        let bytes = self.node_mut(which);
        let crc = checksum::of_node(&uuid, address, bytes, node::CRC);
        put_u32(bytes, node::CRC, crc);
        self.changing = true;
        let len = self.shape().node_bytes();
        let step = if fua {
            Step::WriteThrough(which as u8)
        } else {
            Step::Write(which as u8)
        };
        steps.push_at(step, which, address, len);
    }

    /// Node [`SLOT`] with `header` as the slot's next member. `header.seq` is advanced.
    #[inline(never)]
    pub(crate) fn put_slot(
        &mut self,
        steps: &mut Steps,
        _: Loaded<'_>,
        header: &mut Slot,
        fua: bool,
    ) {
        self.put_slot_from(steps, SLOT, header, fua);
        self.cached_slot = Some(header.index);
    }

    /// As [`State::put_slot`], from another node.
    #[inline(never)]
    pub(crate) fn put_slot_from(
        &mut self,
        steps: &mut Steps,
        which: usize,
        header: &mut Slot,
        fua: bool,
    ) {
        header.seq += self.seq_step(Mutation::SlotInPlace);
        let shape = self.shape();
        header.encode(self.node_mut(which));
        let address = shape.slot_address(header.index, member_of(header.seq));
        self.put_node(steps, which, address, fua);
    }

    /// Node [`SLOT`], durable: with force unit access, or a flush.
    pub(crate) fn put_slot_durably(
        &mut self,
        steps: &mut Steps,
        loaded: Loaded<'_>,
        header: &mut Slot,
    ) {
        let features = self.device.geometry().features;
        let fua = features.fua && features.volatile_write_cache;
        self.put_slot(steps, loaded, header, fua);
        if !fua {
            self.order(steps, Order::SlotBeforeAnswer);
        }
    }

    /// Node [`WORK`] as the bitmap's next member.
    #[inline(never)]
    pub(crate) fn put_bitmap(&mut self, steps: &mut Steps, group: u64, last_op: u64) {
        let step = self.seq_step(Mutation::BitmapInPlace);
        let shape = self.shape();
        let bytes = self.node_mut(WORK);
        let seq = get_u64(bytes, node::SEQ) + step;
        bitmap::stamp(bytes, seq, last_op);
        let address = shape.bitmap_address(group, member_of(seq));
        self.put_node(steps, WORK, address, false);
    }

    /// Node [`SPARE`], whose leaf header is set, as the member of its `seq`.
    #[inline(never)]
    pub(crate) fn put_leaf(&mut self, steps: &mut Steps, unit: u64) {
        let seq = get_u64(self.node(SPARE), node::SEQ);
        let address = self.shape().leaf_address(unit, member_of(seq));
        self.put_node(steps, SPARE, address, false);
    }

    /// The next superblock, in node [`SPARE`] or [`WORK`].
    #[inline(never)]
    pub(crate) fn put_superblock(
        &mut self,
        steps: &mut Steps,
        which: usize,
        operation: &Operation,
        clean: bool,
    ) {
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
        let address = match member_of(superblock.seq) {
            Member::A => 0,
            Member::B => SUPERBLOCK_B,
        };
        let len = superblock_len(self.device.geometry().block_size_log2);
        superblock.encode(self.node_mut(which), address, operation);
        self.changing = true;
        steps.push_at(Step::Write(which as u8), which, address, len);
    }

    /// Before the first change since a clean unmount, says so on the device: from then on a node
    /// may be torn. The caller has a barrier before its first node, which covers this too.
    #[inline(never)]
    pub(crate) fn put_in_use(&mut self, steps: &mut Steps) {
        if self.superblock.clean {
            self.order(steps, Order::CacheBeforeInUse);
            self.put_superblock(steps, SPARE, &Operation::None, false);
        }
    }
}

impl<'a, D: Device> Volume<'a, D> {
    /// Carries out the steps that `make` lists.
    pub(crate) fn perform<'v, 's>(
        &'v self,
        steps: &'s mut Steps,
        make: impl FnOnce(&mut State<'a, D>, &mut Steps),
    ) -> Perform<'v, 's, 'a, D> {
        (steps.count, steps.next) = (0, 0);
        (steps.submitted, steps.overflowed) = (false, false);
        make(&mut self.state(), steps);
        Perform {
            volume: self,
            steps,
        }
    }

    #[inline(never)]
    pub(crate) fn read_bytes<'v, 's>(
        &'v self,
        steps: &'s mut Steps,
        which: usize,
        address: u64,
        len: usize,
    ) -> Perform<'v, 's, 'a, D> {
        self.perform(steps, |_, steps| {
            steps.push_at(Step::Read(which as u8), which, address, len);
        })
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
        let mut steps = Steps::new();
        for (count, result) in [(STEPS, Ok(())), (STEPS + 1, Err(Error::NeedsMount))] {
            let listed = volume.perform(&mut steps, |state, steps| {
                state.unflushed = true;
                (0..count).for_each(|_| steps.add(Step::Barrier));
            });
            assert_eq!(blocking::run(&volume, listed), result, "{count} steps");
        }
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "more than 6 steps")]
    fn a_list_that_is_too_long_is_a_bug() {
        let mut steps = Steps::new();
        (0..=STEPS).for_each(|_| steps.push(Step::Barrier));
    }
}
