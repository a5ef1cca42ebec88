// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The volume's state, and how one metadata operation at a time moves nodes.
//!
//! A metadata operation is a future. It never polls the device: [`Volume::poll`] does, returns data
//! events to the caller, and stores metadata completions here. So data keeps flowing while space is
//! reserved or a size is committed.

use core::cell::{RefCell, RefMut};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use block::{Buffer, Completion, Device, Lent, Operation, Request};

use crate::checksum::Crc32c;
use crate::file::OpenFile;
use crate::layout::Shape;
#[cfg(feature = "mutations")]
use crate::order::Mutation;
use crate::steps::{Addresses, Place, Step, Steps};
use crate::superblock::Superblock;
use crate::table::Table;
use crate::token::{Loaded, SlotNode};
use crate::{Error, Volume};

/// The tag of metadata requests; data requests have this bit clear.
pub(crate) const METADATA: u32 = 1 << 31;

/// The node that holds the current slot.
pub(crate) const SLOT: usize = 0;
/// The node that holds the current bitmap, or members A of a run of nodes.
pub(crate) const WORK: usize = 1;
/// The node for leaves, superblocks and members B.
pub(crate) const SPARE: usize = 2;

/// No slot is in node [`SLOT`]; no volume has this many slots.
pub(crate) const NO_SLOT: u32 = u32::MAX;
/// No bitmap is in node [`WORK`]; no volume has this many groups.
pub(crate) const NO_GROUP: u32 = u32::MAX;

/// What is known of the current operation and of the slot in node [`SLOT`]: bits, because every
/// byte counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags(u8);

impl Flags {
    /// The operation may change something.
    pub(crate) const MAY_CHANGE: u8 = 1;
    /// It writes a name of more than 64 bytes.
    pub(crate) const LONG_NAME: u8 = 2;
    /// Both members of the slot in memory are valid, or the other one was erased.
    pub(crate) const SLOT_IS_WHOLE: u8 = 4;
    /// The last run was read as whole buckets: members A and B of each, in [`WORK`].
    pub(crate) const WHOLE_BUCKETS: u8 = 32;
    /// An operation has the nodes.
    const BUSY: u8 = 8;
    /// Another operation waits for them.
    const WANTED: u8 = 16;

    pub(crate) const fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }

    pub(crate) fn set(&mut self, flag: u8, value: bool) {
        self.0 = if value { self.0 | flag } else { self.0 & !flag };
    }
}

/// The outstanding metadata request.
#[derive(Debug)]
pub(crate) enum Io {
    Idle,
    /// A flush, or a discard.
    Flushing,
    /// This node's buffer is lent to the device.
    InFlight(u8, Lent),
    Done(Result<(), block::Error>),
}

#[derive(Debug)]
pub(crate) struct State<'a, D> {
    pub device: D,
    pub superblock: Superblock,
    pub table: Table,
    pub files: &'a mut [OpenFile],
    pub nodes: [Option<Buffer>; 3],
    pub io: Io,
    /// The current operation's device requests.
    pub steps: Steps,
    pub addresses: Addresses,
    pub crc32c: Crc32c,
    pub now_ns: u64,
    /// The slot that node [`SLOT`] holds, and the group whose bitmap [`WORK`] holds.
    pub cached_slot: u32,
    /// The old slot of a rename that has happened, which recovery would free and a reader leaves
    /// out; or [`NO_SLOT`].
    pub renamed: u32,
    pub cached_group: u32,
    pub flags: Flags,
    /// Files that were moved to another slot to make room, modulo 256.
    pub moves: u8,
    /// The current operation has written; if it does not finish, the volume has failed.
    pub changing: bool,
    pub failed: bool,
    /// Both members of the pair that was loaded last are valid.
    pub both: bool,
    /// A write has completed since the last flush was submitted.
    pub unflushed: bool,
    #[cfg(feature = "mutations")]
    pub mutation: Mutation,
}

impl<D: Device> State<'_, D> {
    pub(crate) fn shape(&self) -> Shape {
        self.superblock.shape
    }

    /// The first node in a buffer; empty while the device has it.
    pub(crate) fn node(&self, which: usize) -> &[u8] {
        let len = self.superblock.shape.node_bytes();
        let buffer = self.nodes.get(which).and_then(Option::as_ref);
        buffer
            .and_then(|buffer| buffer.get(..len))
            .unwrap_or_default()
    }

    pub(crate) fn node_mut(&mut self, which: usize) -> &mut [u8] {
        let len = self.superblock.shape.node_bytes();
        let buffer = self.nodes.get_mut(which).and_then(Option::as_mut);
        buffer
            .and_then(|buffer| buffer.get_mut(..len))
            .unwrap_or_default()
    }

    /// The current slot, which was loaded.
    pub(crate) fn slot(&self, _: Loaded<'_>) -> &[u8] {
        self.node(SLOT)
    }

    pub(crate) fn slot_mut(&mut self, _: Loaded<'_>) -> &mut [u8] {
        self.node_mut(SLOT)
    }

    /// The whole of a buffer.
    pub(crate) fn memory(&self, which: usize) -> &[u8] {
        let buffer = self.nodes.get(which).and_then(Option::as_ref);
        buffer.map(|buffer| &**buffer).unwrap_or_default()
    }

    /// Processes the completion of a metadata request.
    pub(crate) fn finished(&mut self, completion: Completion, wrote: bool) {
        let mut result = completion.result;
        match (
            core::mem::replace(&mut self.io, Io::Idle),
            completion.buffer,
        ) {
            (Io::InFlight(node, mut lent), Some(buffer)) => {
                let back = lent.give_back(buffer).is_ok();
                match (lent.into_whole(), self.nodes.get_mut(usize::from(node))) {
                    (Ok(whole), Some(place)) if back => *place = Some(whole),
                    _ => result = Err(block::Error::Gone),
                }
            }
            (Io::InFlight(..) | Io::Flushing, _) => {}
            (Io::Idle | Io::Done(_), _) => return,
        }
        self.unflushed |= wrote;
        self.io = Io::Done(result);
    }

    pub(crate) fn start(&mut self, step: Step, at: Place) -> Poll<Result<(), Error>> {
        let lba = at.address >> self.device.geometry().block_size_log2;
        let operation = match step.node() {
            None if step == Step::DISCARD => {
                self.io = Io::Flushing;
                Operation::Discard {
                    lba,
                    block_count: at.len >> self.device.geometry().block_size_log2,
                }
            }
            None => {
                // After a failed flush it is unknown what was lost.
                self.changing = true;
                // Cleared at submission: a write that completes later is not covered.
                self.unflushed = false;
                self.io = Io::Flushing;
                Operation::Flush
            }
            Some(node) => {
                let place = self.nodes.get_mut(node);
                let Some(whole) = place.and_then(Option::take) else {
                    return Poll::Ready(Err(Error::NeedsMount));
                };
                let mut lent = Lent::new(whole);
                let buffer = lent.lend(at.len as usize);
                self.io = Io::InFlight(node as u8, lent);
                let fua = step.is_write_through();
                if step.is_read() {
                    Operation::Read { lba, buffer }
                } else {
                    Operation::Write { lba, buffer, fua }
                }
            }
        };
        // The tag tells the completion whether something was written.
        let wrote = step.is_cached_write();
        let request = Request {
            tag: METADATA | u32::from(wrote),
            operation,
        };
        let Err(refused) = self.device.submit(request) else {
            self.device.kick();
            return Poll::Ready(Ok(()));
        };
        let completion = Completion {
            tag: METADATA,
            buffer: refused.request.operation.into_buffer(),
            result: Ok(()),
        };
        self.finished(completion, step == Step::BARRIER);
        self.io = Io::Idle;
        match refused.error {
            block::Error::QueueFull => Poll::Pending,
            error => Poll::Ready(Err(error.into())),
        }
    }
}

/// Holds the nodes for one operation. If it is dropped before [`Turn::done`] and something was
/// written, what the volume holds in memory may differ from the device: a mount is needed.
pub(crate) struct Turn<'v, 'a, D: Device> {
    volume: &'v Volume<'a, D>,
    /// Borrowed by the code that loads a slot.
    pub slot: SlotNode<'v>,
}

impl<D: Device> Turn<'_, '_, D> {
    /// What was done so far is complete: an error after this leaves the volume consistent.
    #[inline(never)]
    pub(crate) fn done(&self) {
        self.volume.state().changing = false;
    }
}

impl<D: Device> Drop for Turn<'_, '_, D> {
    #[inline(never)]
    fn drop(&mut self) {
        let mut state = self.volume.state();
        if state.changing {
            state.failed = true;
            state.changing = false;
            state.cached_slot = NO_SLOT;
            state.cached_group = NO_GROUP;
        }
        state.flags.set(Flags::BUSY, false);
    }
}

impl<'a, D: Device> Volume<'a, D> {
    pub(crate) fn from_state(state: State<'a, D>) -> Self {
        Self {
            state: RefCell::new(state),
        }
    }

    /// Borrows the state briefly: no borrow is ever held across another or across an await, and the
    /// device cannot call back. A violation would be a bug in this crate and stops here.
    pub(crate) fn state(&self) -> RefMut<'_, State<'a, D>> {
        self.state.borrow_mut()
    }

    pub(crate) fn shape(&self) -> Shape {
        self.state().shape()
    }

    /// Slots of the table as it is now.
    pub(crate) fn slot_count(&self) -> u32 {
        self.state().table.slot_count()
    }

    /// Waits for the nodes to be free, then takes them.
    pub(crate) fn turn(&self) -> Enter<'_, 'a, D> {
        Enter {
            volume: self,
            to_change: false,
            has_waited: false,
        }
    }

    /// Like [`Volume::turn`], for an operation that changes something.
    pub(crate) fn turn_to_change(&self) -> Enter<'_, 'a, D> {
        Enter {
            volume: self,
            to_change: true,
            has_waited: false,
        }
    }
}

/// The wait for a turn.
pub(crate) struct Enter<'v, 'a, D: Device> {
    volume: &'v Volume<'a, D>,
    to_change: bool,
    has_waited: bool,
}

impl<'v, 'a, D: Device> Future for Enter<'v, 'a, D> {
    type Output = Result<Turn<'v, 'a, D>, Error>;

    #[inline(never)]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let volume = self.volume;
        let mut state = volume.state();
        if state.superblock.read_only && self.to_change {
            return Poll::Ready(Err(Error::ReadOnly));
        }
        if state.failed && !state.superblock.read_only {
            return Poll::Ready(Err(Error::NeedsMount));
        }
        // A request of a dropped operation may still be outstanding.
        let is_taken =
            state.flags.has(Flags::BUSY) || matches!(state.io, Io::Flushing | Io::InFlight(..));
        // The next operation of a series begins in the poll in which the one before it ended. Those
        // that wait come first: it is theirs in the next poll.
        if is_taken || state.flags.has(Flags::WANTED) && !self.has_waited {
            state.flags.set(Flags::WANTED, true);
            self.has_waited = true;
            return Poll::Pending;
        }
        state.flags.set(Flags::WANTED, false);
        state.flags.set(Flags::BUSY, true);
        state.flags.set(Flags::LONG_NAME, false);
        state.flags.set(Flags::MAY_CHANGE, self.to_change);
        state.io = Io::Idle;
        Poll::Ready(Ok(Turn {
            volume,
            slot: SlotNode::of_turn(),
        }))
    }
}
