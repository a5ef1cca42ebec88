// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A striped array (RAID-0).

use crate::layout::Layout;
use crate::table::{self, Ring, Table};
use crate::watch::{ArrayEvent, Watch};
use block::{
    Buffer, Completion, Device, Error, Features, Geometry, Lent, Operation, Refused, Request, Tag,
};
use core::marker::PhantomData;

/// How long one sleep may last, in microseconds, while several members have requests: only one of
/// them can be waited for.
pub(crate) const SHARED_WAIT_US: u32 = 200;

/// A device striped over `members`, with room for `REQUESTS` requests. `W` is told of errors.
///
/// * A read or write becomes one request for each stripe that it touches, divided further only
///   where a member's largest transfer is shorter than a stripe. A flush goes to all members; a
///   discard or write-zeroes is one request for each member that it touches. What a member's queue
///   has no room for is submitted from later calls.
/// * A request completes when all its parts have, with the first error. After an error, no further
///   parts are submitted.
/// * One request is at most as long as a stripe on each member.
#[derive(Debug)]
pub struct Striped<D, M, W, const REQUESTS: usize> {
    members: M,
    layout: Layout,
    geometry: Geometry,
    piece_blocks: u32,
    table: Table<Parent, REQUESTS>,
    /// Requests that have parts left to submit, oldest first.
    waiting: Ring<REQUESTS>,
    /// Requests to be completed.
    done: Ring<REQUESTS>,
    /// The member that is polled next.
    turn: usize,
    watch: W,
    device: PhantomData<D>,
}

/// A request of the array.
#[derive(Debug)]
struct Parent {
    tag: Tag,
    action: Action,
    lent: Option<Lent>,
    /// The first block not submitted yet.
    lba: u64,
    end: u64,
    /// Actions for all members: those that have not been asked.
    unasked: u16,
    outstanding: u32,
    is_waiting: bool,
    error: Option<Error>,
}

impl Parent {
    const fn has_parts_left(&self) -> bool {
        match self.action {
            Action::Read | Action::Write { .. } => self.lba < self.end,
            _ => self.unasked != 0,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Read,
    Write { fua: bool },
    Flush,
    Discard,
    WriteZeroes { fua: bool },
}

/// An operation taken apart: what to do, first block, number of blocks, buffer.
pub(crate) fn take_apart(
    operation: Operation,
    block_size_log2: u8,
) -> (Action, u64, u64, Option<Buffer>) {
    let blocks = |buffer: &Buffer| (buffer.len() >> block_size_log2) as u64;
    match operation {
        Operation::Read { lba, buffer } => (Action::Read, lba, blocks(&buffer), Some(buffer)),
        Operation::Write { lba, buffer, fua } => {
            (Action::Write { fua }, lba, blocks(&buffer), Some(buffer))
        }
        Operation::Flush => (Action::Flush, 0, 0, None),
        Operation::Discard { lba, block_count } => {
            (Action::Discard, lba, u64::from(block_count), None)
        }
        Operation::WriteZeroes {
            lba,
            block_count,
            fua,
        } => (
            Action::WriteZeroes { fua },
            lba,
            u64::from(block_count),
            None,
        ),
    }
}

/// The limits and abilities that all members share; `block_count` is the smallest member's.
///
/// # Errors
/// [`Error::Unsupported`] for no member, or different block sizes.
pub(crate) fn joint_geometry<'d, D: Device + 'd>(
    members: impl Iterator<Item = &'d D>,
) -> Result<Geometry, Error> {
    let mut joint: Option<Geometry> = None;
    for member in members {
        let next = member.geometry();
        let Some(known) = &mut joint else {
            joint = Some(*next);
            continue;
        };
        if known.block_size_log2 != next.block_size_log2 {
            return Err(Error::Unsupported);
        }
        let (a, b) = (known.features, next.features);
        *known = Geometry {
            block_size_log2: known.block_size_log2,
            block_count: known.block_count.min(next.block_count),
            max_transfer_blocks: known.max_transfer_blocks.min(next.max_transfer_blocks),
            queue_depth: known.queue_depth.min(next.queue_depth),
            buffer_align_bytes: known.buffer_align_bytes.max(next.buffer_align_bytes),
            features: Features {
                volatile_write_cache: a.volatile_write_cache || b.volatile_write_cache,
                fua: a.fua && b.fua,
                discard: a.discard && b.discard,
                write_zeroes: a.write_zeroes && b.write_zeroes,
                read_only: a.read_only || b.read_only,
            },
        };
    }
    joint.ok_or(Error::Unsupported)
}

impl<D, M, W, const REQUESTS: usize> Striped<D, M, W, REQUESTS>
where
    D: Device,
    M: AsRef<[D]> + AsMut<[D]>,
    W: Watch,
{
    /// An array of `members`, the first `data_blocks` blocks of each, with stripes of
    /// `stripe_blocks`. The members must have no requests outstanding. Labels are not read: see
    /// [`check`](crate::check).
    ///
    /// # Errors
    /// [`Error::Unsupported`]: not 1 to 8 members, block sizes that differ, a stripe that is not a
    /// power of two, or `REQUESTS` that is not 1 to 65,535; [`Error::OutOfRange`]: a member has
    /// fewer blocks, or none is a whole stripe; [`Error::Busy`]: a member has requests outstanding.
    pub fn new(members: M, stripe_blocks: u32, data_blocks: u64, watch: W) -> Result<Self, Error> {
        let all = members.as_ref();
        let layout = Layout::new(all.len(), stripe_blocks).ok_or(Error::Unsupported)?;
        let most = u16::try_from(REQUESTS).map_err(|_| Error::Unsupported)?;
        if most == 0 {
            return Err(Error::Unsupported);
        }
        let joint = joint_geometry(all.iter())?;
        let block_count = layout.block_count(data_blocks);
        if joint.block_count < data_blocks || block_count == 0 {
            return Err(Error::OutOfRange);
        }
        if all.iter().any(|member| member.outstanding() != 0) {
            return Err(Error::Busy);
        }
        let depth = all
            .iter()
            .map(|member| u32::from(member.geometry().queue_depth))
            .sum::<u32>()
            .min(u32::from(most)) as u16;
        let piece_blocks = stripe_blocks.min(joint.max_transfer_blocks);
        let geometry = Geometry {
            block_count,
            max_transfer_blocks: stripe_blocks.saturating_mul(all.len() as u32),
            queue_depth: depth,
            ..joint
        };
        Ok(Self {
            members,
            layout,
            geometry,
            piece_blocks,
            table: Table::new(),
            waiting: Ring::new(),
            done: Ring::new(),
            turn: 0,
            watch,
            device: PhantomData,
        })
    }

    /// The members, in order.
    pub fn members(&self) -> &[D] {
        self.members.as_ref()
    }

    /// The members. Requests that are outstanding stay so on the members.
    pub fn into_members(self) -> M {
        self.members
    }

    /// Submits what it can of a request; `false` if parts remain.
    fn advance(&mut self, index: usize) -> bool {
        let Some(parent) = self.table.get_mut(index) else {
            return true;
        };
        let members = self.members.as_mut();
        while parent.error.is_none() && parent.has_parts_left() {
            let (member, operation, count) = match parent.action {
                Action::Read | Action::Write { .. } => {
                    let place = self.layout.place(parent.lba);
                    let room = u64::from(place.room_blocks.min(self.piece_blocks));
                    let count = room.min(parent.end - parent.lba);
                    let Some(lent) = &mut parent.lent else {
                        return true;
                    };
                    let buffer = lent.lend((count as usize) << self.geometry.block_size_log2);
                    let lba = place.lba;
                    let operation = match parent.action {
                        Action::Write { fua } => Operation::Write { lba, buffer, fua },
                        _ => Operation::Read { lba, buffer },
                    };
                    (place.member, operation, count)
                }
                action => {
                    let member = parent.unasked.trailing_zeros() as usize;
                    let lba = self.layout.blocks_before(member, parent.lba);
                    let end = self.layout.blocks_before(member, parent.end);
                    let block_count = (end - lba) as u32;
                    if block_count == 0 && !matches!(action, Action::Flush) {
                        parent.unasked &= parent.unasked - 1;
                        continue;
                    }
                    (member, with_range(action, lba, block_count), 0)
                }
            };
            let Some(device) = members.get_mut(member) else {
                return true;
            };
            let tag = index as Tag;
            match device.submit(Request { tag, operation }) {
                Ok(()) => {
                    parent.outstanding += 1;
                    parent.lba += count;
                    parent.unasked &= parent.unasked.wrapping_sub(1);
                }
                Err(refused) => {
                    let is_full = refused.error == Error::QueueFull;
                    if let (Some(buffer), Some(lent)) =
                        (refused.request.operation.into_buffer(), &mut parent.lent)
                    {
                        lent.unlend(buffer);
                    }
                    if is_full {
                        return false;
                    }
                    let error = refused.error;
                    parent.error = Some(error);
                    self.watch.event(ArrayEvent::Failed { member, error });
                }
            }
        }
        true
    }

    /// Submits parts of the requests that wait, oldest first.
    fn advance_all(&mut self) {
        table::advance_all(
            self,
            |array| &mut array.waiting,
            Self::advance,
            Self::submitted,
        );
    }

    /// All parts of a request have been submitted, or will not be.
    fn submitted(&mut self, index: usize) {
        if let Some(parent) = self.table.get_mut(index) {
            parent.is_waiting = false;
            if parent.outstanding == 0 {
                self.done.push(index);
            }
        }
    }

    fn complete_part(&mut self, member: usize, completion: Completion) {
        let index = completion.tag as usize;
        let Some(parent) = self.table.get_mut(index) else {
            debug_assert!(false, "a member completed what was not submitted");
            return;
        };
        if let (Some(buffer), Some(lent)) = (completion.buffer, &mut parent.lent) {
            let _ = lent.give_back(buffer);
        }
        if let Err(error) = completion.result {
            // A part that may still be executed decides, whatever became of the others.
            if parent.error.is_none() || error == Error::OutcomeUnknown {
                parent.error = Some(error);
            }
            self.watch.event(ArrayEvent::Failed { member, error });
        }
        parent.outstanding = parent.outstanding.saturating_sub(1);
        if parent.outstanding == 0 && !parent.is_waiting {
            self.done.push(index);
        }
    }

    fn finish(&mut self, index: usize) -> Option<Completion> {
        let parent = self.table.take(index)?;
        let whole = parent.lent.map(Lent::into_whole);
        let (buffer, result) = match whole {
            None => (None, parent.error.map_or(Ok(()), Err)),
            Some(Ok(buffer)) => (Some(buffer), parent.error.map_or(Ok(()), Err)),
            // A member kept a buffer, which may still be written to.
            Some(Err(_)) => (Some(Buffer::from_static(&mut [])), Err(Error::Gone)),
        };
        Some(Completion {
            tag: parent.tag,
            buffer,
            result,
        })
    }
}

/// Accepts a legal request if fewer than the queue's depth are outstanding.
#[allow(clippy::result_large_err)]
pub(crate) fn admit(
    geometry: &Geometry,
    outstanding: usize,
    request: Request,
) -> Result<Request, Refused> {
    let error = match geometry.check(&request.operation) {
        Err(error) => error,
        Ok(()) if outstanding < usize::from(geometry.queue_depth) => return Ok(request),
        Ok(()) => Error::QueueFull,
    };
    Err(Refused { error, request })
}

/// An action without a buffer, as an operation.
pub(crate) const fn with_range(action: Action, lba: u64, block_count: u32) -> Operation {
    match action {
        Action::Discard => Operation::Discard { lba, block_count },
        Action::WriteZeroes { fua } => Operation::WriteZeroes {
            lba,
            block_count,
            fua,
        },
        _ => Operation::Flush,
    }
}

/// Waits for one of several members: for the only one that has requests, or for the first for a
/// short time.
pub(crate) fn wait_for_any<'d, D: Device + 'd>(
    members: impl Iterator<Item = &'d mut D>,
    timeout_us: u32,
) {
    let mut busy = members.filter(|member| member.outstanding() != 0);
    if let Some(first) = busy.next() {
        let timeout_us = match busy.next() {
            Some(_) => timeout_us.min(SHARED_WAIT_US),
            None => timeout_us,
        };
        first.wait(timeout_us);
    }
}

impl<D, M, W, const REQUESTS: usize> Device for Striped<D, M, W, REQUESTS>
where
    D: Device,
    M: AsRef<[D]> + AsMut<[D]>,
    W: Watch,
{
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        let request = admit(&self.geometry, self.table.len(), request)?;
        let tag = request.tag;
        let (action, lba, count, buffer) =
            take_apart(request.operation, self.geometry.block_size_log2);
        let unasked = match action {
            Action::Read | Action::Write { .. } => 0,
            _ => (1 << self.layout.members()) - 1,
        };
        let parent = Parent {
            tag,
            action,
            lent: buffer.map(Lent::new),
            lba,
            end: lba + count,
            unasked,
            outstanding: 0,
            is_waiting: true,
            error: None,
        };
        if let Ok(index) = self.table.insert(parent) {
            // Behind those that wait already, so that none waits indefinitely.
            self.waiting.push(index);
            if self.waiting.len() == 1 {
                self.advance_all();
            }
        }
        Ok(())
    }

    fn kick(&mut self) {
        self.advance_all();
        for member in self.members.as_mut() {
            member.kick();
        }
    }

    fn poll(&mut self) -> Option<Completion> {
        let count = self.layout.members();
        let mut idle = 0;
        while self.done.len() == 0 && idle < count {
            let member = self.turn;
            self.turn = (member + 1) % count;
            let device = self.members.as_mut().get_mut(member);
            match device.and_then(|device| (device.outstanding() != 0).then(|| device.poll())?) {
                Some(completion) => {
                    idle = 0;
                    self.complete_part(member, completion);
                }
                None => idle += 1,
            }
        }
        if self.waiting.len() != 0 {
            self.kick();
        }
        let index = self.done.pop()?;
        self.finish(index)
    }

    fn outstanding(&self) -> usize {
        self.table.len()
    }

    fn wait(&mut self, timeout_us: u32) {
        if self.done.len() == 0 {
            wait_for_any(self.members.as_mut().iter_mut(), timeout_us);
        }
    }
}
