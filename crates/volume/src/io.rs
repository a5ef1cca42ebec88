//! The volume's state, and how one metadata operation at a time moves nodes.
//!
//! A metadata operation is a future. It never polls the device: [`Volume::poll`] does, hands the
//! caller what belongs to data, and leaves here what belongs to metadata. So data keeps flowing
//! while space is reserved or a size is committed.

use core::cell::{RefCell, RefMut};
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll};

use block::{Buffer, Completion, Device, Lent, Operation, Request};

use crate::checksum::{self, Crc32c};
use crate::file::OpenFile;
use crate::layout::{Member, SUPERBLOCK_B, SUPERBLOCK_BYTES, Shape};
use crate::order::{Mutation, Order};
use crate::superblock::{self, Superblock};
use crate::{Error, Volume};

/// The tag of metadata requests; data requests have this bit clear.
pub(crate) const METADATA: u32 = 1 << 31;

/// The node that holds the slot in work.
pub(crate) const SLOT: usize = 0;
/// The node that holds the bitmap in work, or members A of a run of nodes.
pub(crate) const WORK: usize = 1;
/// The node for leaves, superblocks and members B.
pub(crate) const SPARE: usize = 2;

/// No bitmap is in node [`WORK`]; no volume has so many groups.
pub(crate) const NO_GROUP: u64 = u64::MAX;

/// The metadata request under way.
#[derive(Debug)]
pub(crate) enum Io {
    Idle,
    /// The node's buffer, when it has one, is lent to the device.
    InFlight(Option<(u8, Lent)>),
    Done(Result<(), block::Error>),
}

#[derive(Debug)]
pub(crate) struct State<'a, D> {
    pub device: D,
    pub superblock: Superblock,
    pub files: &'a mut [OpenFile],
    pub nodes: [Option<Buffer>; 3],
    pub io: Io,
    pub crc32c: Crc32c,
    pub now_ns: u64,
    /// The slot that node [`SLOT`] holds, and the group whose bitmap [`WORK`] holds.
    pub cached_slot: Option<u32>,
    pub cached_group: u64,
    /// A metadata operation has the nodes.
    pub busy: bool,
    /// The operation under way has written; if it does not finish, the volume has failed.
    pub changing: bool,
    pub failed: bool,
    pub read_only: bool,
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

    /// The whole of a buffer.
    pub(crate) fn memory(&self, which: usize) -> &[u8] {
        let buffer = self.nodes.get(which).and_then(Option::as_ref);
        buffer.map(|buffer| &**buffer).unwrap_or_default()
    }

    /// Takes in a completion of a metadata request.
    pub(crate) fn finished(&mut self, completion: Completion, wrote: bool) {
        let Io::InFlight(lent) = core::mem::replace(&mut self.io, Io::Idle) else {
            return;
        };
        let mut result = completion.result;
        if let (Some((node, mut lent)), Some(buffer)) = (lent, completion.buffer) {
            let back = lent.give_back(buffer).is_ok();
            match (lent.into_whole(), self.nodes.get_mut(usize::from(node))) {
                (Ok(whole), Some(place)) if back => *place = Some(whole),
                _ => result = Err(block::Error::Gone),
            }
        }
        self.unflushed |= wrote;
        self.io = Io::Done(result);
    }

    fn start(&mut self, job: &Job) -> Poll<Result<(), Error>> {
        let operation = match *job {
            Job::Flush => {
                // Cleared at submission: a write that completes later is not covered.
                self.unflushed = false;
                Operation::Flush
            }
            Job::Read { node, address, len }
            | Job::Write {
                node, address, len, ..
            } => {
                let lba = address >> self.block_log2();
                let Some(whole) = self.nodes.get_mut(node).and_then(Option::take) else {
                    return Poll::Ready(Err(Error::NeedsMount));
                };
                let mut lent = Lent::new(whole);
                let buffer = lent.lend(len);
                self.io = Io::InFlight(Some((node as u8, lent)));
                match *job {
                    Job::Write { fua, .. } => Operation::Write { lba, buffer, fua },
                    _ => Operation::Read { lba, buffer },
                }
            }
        };
        if matches!(job, Job::Flush) {
            self.io = Io::InFlight(None);
        }
        // The tag tells the completion whether something was written.
        let wrote = matches!(job, Job::Write { fua: false, .. });
        let request = Request {
            tag: METADATA | u32::from(wrote),
            operation,
        };
        let Err(refused) = self.device.submit(request) else {
            self.device.kick();
            return Poll::Ready(Ok(()));
        };
        if matches!(job, Job::Flush) {
            self.unflushed = true;
        }
        let completion = Completion {
            tag: METADATA,
            buffer: refused.request.operation.into_buffer(),
            result: Ok(()),
        };
        self.finished(completion, false);
        self.io = Io::Idle;
        match refused.error {
            block::Error::QueueFull => Poll::Pending,
            error => Poll::Ready(Err(error.into())),
        }
    }

    fn block_log2(&self) -> u8 {
        self.device.geometry().block_size_log2
    }

    /// Stores the superblock with `operation` into node [`SPARE`], and gives its address.
    fn next_superblock(&mut self, operation: &superblock::Operation, step: u64) -> (u64, usize) {
        self.superblock.seq += step;
        let address = match member_of(self.superblock.seq) {
            Member::A => 0,
            Member::B => SUPERBLOCK_B,
        };
        let superblock = self.superblock;
        let len = superblock_len(self.block_log2());
        superblock.encode(self.node_mut(SPARE), address, operation);
        (address, len)
    }
}

/// Bytes that a superblock's transfer takes: a block, or 256.
pub(crate) const fn superblock_len(block_log2: u8) -> usize {
    if block_log2 < 8 {
        SUPERBLOCK_BYTES
    } else {
        1 << block_log2
    }
}

/// The member that a sequence number belongs to: even ones stand in A, odd ones in B.
pub(crate) const fn member_of(seq: u64) -> Member {
    if seq & 1 == 0 { Member::A } else { Member::B }
}

enum Job {
    Read {
        node: usize,
        address: u64,
        len: usize,
    },
    Write {
        node: usize,
        address: u64,
        len: usize,
        fua: bool,
    },
    Flush,
}

/// One metadata request, from submission to completion. Written out, not `async`: every operation
/// awaits it in many places, and this is compiled once.
struct Transfer<'v, 'a, D: Device> {
    volume: &'v Volume<'a, D>,
    /// None once it is submitted.
    job: Option<Job>,
}

impl<D: Device> Future for Transfer<'_, '_, D> {
    type Output = Result<(), Error>;

    #[inline(never)]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let mut state = this.volume.state();
        if let Some(job) = &this.job {
            match state.start(job) {
                Poll::Ready(Ok(())) => this.job = None,
                other => return other,
            }
        }
        let Io::Done(result) = state.io else {
            return Poll::Pending;
        };
        state.io = Io::Idle;
        Poll::Ready(result.map_err(Error::from))
    }
}

/// Holds the nodes for one operation. If it is dropped before [`Turn::done`] and something was
/// written, what the volume holds in memory may differ from the device: a mount is needed.
pub(crate) struct Turn<'v, 'a, D: Device> {
    volume: &'v Volume<'a, D>,
}

impl<D: Device> Turn<'_, '_, D> {
    /// The operation is whole.
    pub(crate) fn done(self) {
        self.step_done();
    }

    /// What was done so far is whole: an error after this leaves the volume in order.
    pub(crate) fn step_done(&self) {
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
            state.cached_slot = None;
            state.cached_group = NO_GROUP;
        }
        state.busy = false;
    }
}

impl<'a, D: Device> Volume<'a, D> {
    pub(crate) fn from_state(state: State<'a, D>) -> Self {
        Self {
            state: RefCell::new(state),
        }
    }

    /// The state, for a moment: no borrow is ever held across another or across an await, and
    /// the device cannot call back. A violation would be a bug of this crate and stops here.
    pub(crate) fn state(&self) -> RefMut<'_, State<'a, D>> {
        self.state.borrow_mut()
    }

    pub(crate) fn shape(&self) -> Shape {
        self.state().shape()
    }

    /// Waits for the nodes to be free, then takes them.
    pub(crate) async fn turn(&self) -> Result<Turn<'_, 'a, D>, Error> {
        poll_fn(|_| {
            let mut state = self.state();
            if state.failed && !state.read_only {
                return Poll::Ready(Err(Error::NeedsMount));
            }
            // A request of an operation that was dropped may still be under way.
            if state.busy || matches!(state.io, Io::InFlight(_)) {
                return Poll::Pending;
            }
            state.busy = true;
            state.io = Io::Idle;
            Poll::Ready(Ok(()))
        })
        .await?;
        Ok(Turn { volume: self })
    }

    /// As [`Volume::turn`], for an operation that changes something.
    pub(crate) async fn turn_to_change(&self) -> Result<Turn<'_, 'a, D>, Error> {
        if self.state().read_only {
            return Err(Error::ReadOnly);
        }
        self.turn().await
    }

    fn run_job(&self, job: Job) -> Transfer<'_, 'a, D> {
        Transfer {
            volume: self,
            job: Some(job),
        }
    }

    pub(crate) async fn read_bytes(
        &self,
        node: usize,
        address: u64,
        len: usize,
    ) -> Result<(), Error> {
        self.run_job(Job::Read { node, address, len }).await
    }

    pub(crate) async fn write_bytes(
        &self,
        node: usize,
        address: u64,
        len: usize,
        fua: bool,
    ) -> Result<(), Error> {
        self.state().changing = true;
        self.run_job(Job::Write {
            node,
            address,
            len,
            fua,
        })
        .await
    }

    /// Writes a node whose fields are set: adds the checksum. It may reorder with other writes.
    pub(crate) async fn write_node(
        &self,
        node: usize,
        address: u64,
        fua: bool,
    ) -> Result<(), Error> {
        let len = {
            let mut state = self.state();
            let uuid = state.superblock.uuid;
            let bytes = state.node_mut(node);
            let crc = checksum::of_node(&uuid, address, bytes, crate::layout::node::CRC);
            crate::bytes::put_u32(bytes, crate::layout::node::CRC, crc);
            bytes.len()
        };
        self.write_bytes(node, address, len, fua).await
    }

    /// Makes all that has completed durable, if anything is not.
    pub(crate) async fn barrier(&self) -> Result<(), Error> {
        let needed = {
            let state = self.state();
            state.unflushed && state.device.geometry().features.volatile_write_cache
        };
        if !needed {
            return Ok(());
        }
        // A flush that fails leaves unknown what was lost.
        self.state().changing = true;
        self.run_job(Job::Flush).await
    }

    /// A barrier of the protocol, by its name.
    pub(crate) async fn order(&self, order: Order) -> Result<(), Error> {
        if self.is_mutated(Mutation::Without(order)) {
            return Ok(());
        }
        self.barrier().await
    }

    /// Whether the protocol is followed wrongly on purpose; never, but in tests.
    #[cfg(feature = "mutations")]
    pub(crate) fn is_mutated(&self, mutation: Mutation) -> bool {
        self.state().mutation == mutation
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

    /// Writes the next superblock. Not yet durable.
    pub(crate) async fn write_superblock(
        &self,
        operation: &superblock::Operation,
        clean: bool,
    ) -> Result<(), Error> {
        let step = self.seq_step(Mutation::SuperblockInPlace);
        let (address, len) = {
            let mut state = self.state();
            if state.superblock.clean && !clean {
                state.superblock.mount_count = state.superblock.mount_count.wrapping_add(1);
            }
            state.superblock.clean = clean;
            state.next_superblock(operation, step)
        };
        self.write_bytes(SPARE, address, len, false).await
    }

    /// Before the first change since a clean unmount, says so on the device: from then on a node
    /// may be torn. The caller has a barrier before its first node, which covers this too.
    pub(crate) async fn mark_in_use(&self) -> Result<(), Error> {
        if !self.state().superblock.clean {
            return Ok(());
        }
        self.order(Order::CacheBeforeInUse).await?;
        self.write_superblock(&superblock::Operation::None, false)
            .await
    }
}
