//! An I/O queue pair: the path that every request takes.
//!
//! It owns its rings, its slots and its PRP lists; it never allocates, locks or formats. What
//! happens per request is here, top to bottom: [`submit`](QueuePair::submit) encodes a command,
//! [`kick`](QueuePair::kick) rings one doorbell for all of them, [`poll`](QueuePair::poll) looks at
//! one word of memory. What happens when a command is overdue is in `service`.
//!
//! A command's identifier is its slot's index and a generation, so that a completion that comes
//! twice, late or with an invented identifier matches no slot and is counted, not believed.

use core::ops::Deref;

use block::{Buffer, Completion, Device, Error, Features, Geometry, Operation, Refused, Request};

use crate::command::{Command, DEALLOCATE, FUA, io};
use crate::controller::Controller;
use crate::doorbell::Doorbell;
use crate::error::{Error as SetupError, Unsupported};
use crate::identify::NamespaceInfo;
use crate::layout::{
    COMPLETION_ENTRY_BYTES, SUBMISSION_ENTRY_BYTES, list_bytes, queue_memory_bytes, ring_entries,
    round_up,
};
use crate::memory::{CompletionRing, List, Part, Shared, SubmissionRing};
use crate::platform::Platform;
use crate::prp;
use crate::recovery::QueueMemory;
use crate::service::{State, Statistics};
use crate::wait::CompletionMode;

/// Identifiers stay below 2^15: FFFFh is reserved (NVMe base specification, "Error Information").
const IDENTIFIERS: u32 = 0x8000;
/// Set in [`Slot::live`] while the slot is free, so that no identifier equals it.
const FREE: u32 = 0x1_0000;
/// Empty polls between two looks at the clock; each look checks one slot.
pub(crate) const POLLS_A_LOOK: u32 = 64;
/// Blocks that a 16-bit, zero-based count can name.
const MAX_BLOCKS: u32 = 1 << 16;

/// A command that may be outstanding.
#[derive(Debug)]
pub(crate) struct Slot {
    /// The identifier outstanding, or the next one with [`FREE`] set.
    live: u32,
    tag: u32,
    buffer: Option<Buffer>,
    /// In the platform's ticks.
    pub(crate) deadline: u64,
}

impl Slot {
    /// The identifier, if a command is outstanding.
    pub(crate) fn outstanding(&self) -> Option<u16> {
        (self.live & FREE == 0).then_some(self.live as u16)
    }
}

/// A queue pair on one namespace, with at most `DEPTH` commands outstanding.
///
/// `C` is how it holds its controller: `&Controller`, or a shared pointer. `DEPTH` is a power of
/// two, at most 4,096. Dropping it deletes the queue; commands still outstanding are lost to their
/// submitter, their buffers are not touched afterwards.
#[derive(Debug)]
pub struct QueuePair<P: Platform, C: Deref<Target = Controller<P>>, const DEPTH: usize> {
    pub(crate) controller: C,
    pub(crate) completion: CompletionRing,
    /// Empty polls until the next look at the clock.
    pub(crate) budget: u32,
    /// Entries consumed whose doorbell has not been rung.
    unacknowledged: u32,
    submission: SubmissionRing,
    /// The tail that the controller knows.
    rung_tail: u32,
    /// The head that the controller knows.
    rung_head: u32,
    pub(crate) epoch: u32,
    pub(crate) state: State,
    timeout_ticks: u64,
    geometry: Geometry,
    namespace: u32,
    page_shift: u8,
    list_stride: usize,
    lists: Part,
    pub(crate) id: u16,
    submission_doorbell: Doorbell,
    completion_doorbell: Doorbell,
    free_count: u32,
    depth: u32,
    free: [u16; DEPTH],
    pub(crate) slots: [Slot; DEPTH],
    pub(crate) look_at: usize,
    pub(crate) vector: Option<u16>,
    pub(crate) mode: CompletionMode,
    pub(crate) queue_memory: QueueMemory,
    pub(crate) statistics: Statistics,
    /// The overdue command that recovery was begun for.
    pub(crate) aborting: Option<u16>,
    pub(crate) deleted: bool,
    memory: Option<Shared>,
}

/// A queue pair that could not be created; what was passed in.
#[derive(Debug)]
pub struct CreateFailed<C> {
    /// Why.
    pub error: SetupError,
    /// What was passed in.
    pub controller: C,
    /// What was passed in.
    pub memory: Buffer,
}

impl<P: Platform, C: Deref<Target = Controller<P>>, const DEPTH: usize> QueuePair<P, C, DEPTH> {
    const DEPTH_IS_VALID: () = assert!(DEPTH.is_power_of_two() && DEPTH <= 4096);
    const INDEX: usize = DEPTH - 1;

    /// Bytes of memory that [`create`](Self::create) needs for transfers of up to
    /// `max_transfer_bytes`, aligned to a page and one run on the bus.
    pub const fn memory_bytes(max_transfer_bytes: usize, page_bytes: usize) -> usize {
        queue_memory_bytes(DEPTH, max_transfer_bytes, page_bytes)
    }

    /// Creates a queue pair for `namespace` in `memory`. Its largest transfer is the controller's
    /// or `max_transfer_bytes`, whichever is less.
    ///
    /// # Errors
    /// [`SetupError::Memory`], [`SetupError::NoQueueLeft`], [`SetupError::Busy`] or what the
    /// controller answered.
    #[allow(clippy::result_large_err)]
    pub fn create(
        controller: C,
        namespace: &NamespaceInfo,
        memory: Buffer,
        max_transfer_bytes: usize,
    ) -> Result<Self, CreateFailed<C>> {
        let () = Self::DEPTH_IS_VALID;
        let failed = |error, controller, memory| CreateFailed {
            error,
            controller,
            memory,
        };
        let page_bytes = controller.page_bytes();
        let geometry = match Self::geometry_of(&controller, namespace, max_transfer_bytes) {
            Ok(geometry) => geometry,
            Err(error) => return Err(failed(error, controller, memory)),
        };
        let needed_bytes = Self::memory_bytes(geometry.max_transfer_bytes(), page_bytes);
        let no_memory = SetupError::Memory { needed_bytes };
        if memory.len() < needed_bytes {
            return Err(failed(no_memory, controller, memory));
        }
        let mut shared = match Shared::new(memory, controller.platform(), page_bytes) {
            Ok(shared) => shared,
            Err(memory) => return Err(failed(no_memory, controller, memory)),
        };
        let Some(id) = controller.gate.claim(controller.queue_limit()) else {
            let memory = shared.into_buffer();
            return Err(failed(SetupError::NoQueueLeft, controller, memory));
        };
        match Self::build(&controller, id, namespace, geometry, &mut shared) {
            Ok(parts) => Ok(parts.into_queue(controller, shared)),
            Err(error) => {
                controller.gate.release(id);
                Err(failed(error, controller, shared.into_buffer()))
            }
        }
    }

    fn geometry_of(
        controller: &Controller<P>,
        namespace: &NamespaceInfo,
        max_transfer_bytes: usize,
    ) -> Result<Geometry, SetupError> {
        let shift = namespace.block_size_log2;
        let max_bytes = controller.max_transfer_bytes().min(max_transfer_bytes);
        let max_transfer_blocks = (max_bytes >> shift).min(MAX_BLOCKS as usize) as u32;
        if max_transfer_blocks == 0 {
            return Err(SetupError::Unsupported(Unsupported::TransferSize));
        }
        let info = controller.info();
        // Rings are powers of two with twice the depth, within what the controller takes.
        let entries = 1_usize << controller.capabilities.max_queue_entries.ilog2();
        Ok(Geometry {
            block_size_log2: shift,
            block_count: namespace.block_count,
            max_transfer_blocks,
            queue_depth: DEPTH.min(entries / 2) as u16,
            buffer_align_bytes: 4,
            features: Features {
                volatile_write_cache: info.volatile_write_cache,
                fua: true,
                discard: info.dataset_management(),
                write_zeroes: info.write_zeroes(),
                read_only: namespace.write_protected,
            },
        })
    }

    fn build(
        controller: &Controller<P>,
        id: u16,
        namespace: &NamespaceInfo,
        geometry: Geometry,
        shared: &mut Shared,
    ) -> Result<Parts, SetupError> {
        let page_bytes = controller.page_bytes();
        let entries = ring_entries(usize::from(geometry.queue_depth));
        let list_stride = list_bytes(geometry.max_transfer_bytes(), page_bytes);
        let mut take = |len| shared.take(round_up(len, page_bytes));
        let parts = (
            take(entries * SUBMISSION_ENTRY_BYTES),
            take(entries * COMPLETION_ENTRY_BYTES),
            take(usize::from(geometry.queue_depth) * list_stride),
        );
        let needed_bytes = Self::memory_bytes(geometry.max_transfer_bytes(), page_bytes);
        let no_memory = SetupError::Memory { needed_bytes };
        let (Some(submission), Some(completion), Some(lists)) = parts else {
            return Err(no_memory);
        };
        let queue_memory = QueueMemory {
            submission,
            completion,
            entries: entries as u32,
        };
        let rings = queue_memory.rings().ok_or(no_memory)?;
        let vectors = controller.platform().interrupt_vectors();
        let vector = match (id, vectors) {
            (1, 1) => Some(0),
            (id, vectors) if id < vectors => Some(id),
            _ => None,
        };
        let (doorbells, epoch) = controller.with_admin(|admin| {
            let submission = controller.doorbell(admin, id, false);
            let completion = controller.doorbell(admin, id, true);
            submission.reset();
            completion.reset();
            match controller.create_queue(admin, id, &queue_memory, vector) {
                // A queue half made, or a command that may still be obeyed: start from a reset.
                Err(error @ (SetupError::TimedOut { .. } | SetupError::Fatal)) => {
                    let _ = controller.reset(admin);
                    Err(error)
                }
                result => result,
            }?;
            Ok(((submission, completion), controller.gate.epoch()))
        })?;
        Ok(Parts {
            id,
            namespace: namespace.namespace,
            geometry,
            list_stride,
            lists,
            queue_memory,
            rings,
            vector,
            doorbells,
            epoch,
        })
    }

    /// The controller that it belongs to.
    pub fn controller(&self) -> &Controller<P> {
        &self.controller
    }

    /// What it has counted.
    pub const fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Sets how long the commands submitted from now on may take, in microseconds.
    pub fn set_timeout_us(&mut self, timeout_us: u64) {
        self.timeout_ticks = self.controller.platform.ticks_from_us(timeout_us);
    }

    /// Deletes the queue and gives back its controller handle's use of the memory. Commands still
    /// outstanding are lost to their submitter.
    pub fn close(mut self) -> Buffer {
        self.delete();
        let memory = self.memory.take();
        memory.map_or_else(|| Buffer::from_static(&mut []), Shared::into_buffer)
    }

    /// The command for `operation` in slot `index`, without its identifier.
    #[inline(always)]
    fn encode(&self, index: usize, operation: &Operation) -> Result<Command, Error> {
        match operation {
            Operation::Read { lba, buffer } => self.transfer(index, io::READ, *lba, buffer, 0),
            Operation::Write { lba, buffer, fua } => {
                let flags = if *fua { FUA } else { 0 };
                self.transfer(index, io::WRITE, *lba, buffer, flags)
            }
            Operation::Flush => Ok(self.command(io::FLUSH)),
            Operation::Discard { lba, block_count } => {
                // One range in the slot's list memory: attributes, length, start.
                let mut list = self.list(index).ok_or(Error::TooLarge)?;
                list.write(0, u64::from(*block_count) << 32);
                list.write(1, *lba);
                let mut command = self.command(io::DATASET_MANAGEMENT);
                command.prp1 = list.bus;
                command.dwords = [0, DEALLOCATE, 0, 0, 0, 0];
                Ok(command)
            }
            Operation::WriteZeroes {
                lba,
                block_count,
                fua,
            } => {
                if *block_count > MAX_BLOCKS {
                    return Err(Error::TooLarge);
                }
                let flags = if *fua { FUA } else { 0 };
                let mut command = self.command(io::WRITE_ZEROES);
                command.dwords = range(*lba, *block_count, flags);
                Ok(command)
            }
        }
    }

    #[inline(always)]
    fn command(&self, opcode: u8) -> Command {
        Command {
            opcode,
            namespace: self.namespace,
            ..Command::default()
        }
    }

    #[inline(always)]
    fn transfer(
        &self,
        index: usize,
        opcode: u8,
        lba: u64,
        buffer: &Buffer,
        flags: u32,
    ) -> Result<Command, Error> {
        let platform = &self.controller.platform;
        let (address, len) = (buffer.address(), buffer.len());
        let (prp1, prp2) =
            prp::build(platform, address, len, self.page_shift, || self.list(index))?;
        Ok(Command {
            prp1,
            prp2,
            dwords: range(lba, (len >> self.geometry.block_size_log2) as u32, flags),
            ..self.command(opcode)
        })
    }

    #[inline(always)]
    fn list(&self, index: usize) -> Option<List> {
        List::of_slot(&self.lists, index, self.list_stride)
    }

    /// Takes the completion whose last word is `word` from the ring. `None` if it names no
    /// outstanding command.
    #[inline(always)]
    pub(crate) fn complete(&mut self, word: u32) -> Option<Completion> {
        self.completion.advance();
        self.unacknowledged += 1;
        if self.unacknowledged >= self.depth {
            self.acknowledge();
        }
        let identifier = word & 0xffff;
        let index = identifier as usize & Self::INDEX;
        let slot = self.slots.get_mut(index)?;
        if slot.live != identifier {
            self.statistics.stray_completions += 1;
            return None;
        }
        let (tag, buffer) = (slot.tag, slot.buffer.take());
        self.release(index);
        let status = (word >> 17) as u16;
        let result = if status & 0x7ff == 0 {
            Ok(())
        } else {
            Err(self.classify(identifier as u16, status))
        };
        Some(Completion {
            tag,
            buffer,
            result,
        })
    }

    /// Ends the command in slot `index` with `error`, without the controller.
    pub(crate) fn fail(&mut self, index: usize, error: Error) -> Option<Completion> {
        let slot = self.slots.get_mut(index)?;
        slot.outstanding()?;
        let completion = Completion {
            tag: slot.tag,
            buffer: slot.buffer.take(),
            result: Err(error),
        };
        self.release(index);
        Some(completion)
    }

    #[inline(always)]
    fn release(&mut self, index: usize) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.live = (slot.live + DEPTH as u32) & (IDENTIFIERS - 1) | FREE;
        }
        if let Some(place) = self.free.get_mut(self.free_count as usize) {
            *place = index as u16;
            self.free_count += 1;
        }
    }

    /// Rings the completion doorbell for all that was consumed.
    #[inline]
    pub(crate) fn acknowledge(&mut self) {
        let head = self.completion.head();
        let (old, mask) = (self.rung_head, self.completion.mask());
        let (doorbell, platform) = (&self.completion_doorbell, &self.controller.platform);
        let mut written = false;
        let rang = self.controller.gate.ring(self.id, self.epoch, || {
            written = doorbell.write(platform, old, head, mask);
        });
        if rang {
            self.rung_head = head;
            self.unacknowledged = 0;
            self.statistics.completion_doorbells += u64::from(written);
        }
    }

    /// Whether entries have been consumed that the controller does not know of.
    pub(crate) fn has_unacknowledged(&self) -> bool {
        self.unacknowledged != 0
    }

    /// Starts again with empty rings; the controller must not know the queue any more.
    pub(crate) fn restart_rings(&mut self) -> Result<(), SetupError> {
        self.queue_memory.submission.clear();
        self.queue_memory.completion.clear();
        self.submission_doorbell.reset();
        self.completion_doorbell.reset();
        let (submission, completion) = self.queue_memory.rings().ok_or(SetupError::Gone)?;
        self.submission = submission;
        self.completion = completion;
        self.unacknowledged = 0;
        self.rung_tail = 0;
        self.rung_head = 0;
        Ok(())
    }

    /// After a reset the controller may have, or not have, shadow doorbells.
    pub(crate) fn set_doorbells(&mut self, submission: Doorbell, completion: Doorbell) {
        self.submission_doorbell = submission;
        self.completion_doorbell = completion;
    }
}

#[inline(always)]
fn range(lba: u64, block_count: u32, flags: u32) -> [u32; 6] {
    let count = (block_count - 1) & 0xffff;
    [lba as u32, (lba >> 32) as u32, count | flags, 0, 0, 0]
}

impl<P: Platform, C: Deref<Target = Controller<P>>, const DEPTH: usize> Device
    for QueuePair<P, C, DEPTH>
{
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    #[inline]
    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        if let Err(error) = self.geometry.check(&request.operation) {
            return Err(Refused { error, request });
        }
        let next = self.free_count.wrapping_sub(1) as usize;
        let place = match self.free.get(next) {
            Some(&place) if self.state == State::Ready => place,
            _ => {
                let error = self.refusal();
                return Err(Refused { error, request });
            }
        };
        let index = usize::from(place) & Self::INDEX;
        let command = match self.encode(index, &request.operation) {
            Ok(command) => command,
            Err(error) => return Err(Refused { error, request }),
        };
        let deadline = self.controller.platform.ticks() + self.timeout_ticks;
        let Some(slot) = self.slots.get_mut(index) else {
            let error = Error::QueueFull;
            return Err(Refused { error, request });
        };
        slot.live &= !FREE;
        slot.tag = request.tag;
        slot.deadline = deadline;
        let identifier = slot.live as u16;
        slot.buffer = request.operation.into_buffer();
        self.free_count = next as u32;
        self.submission.push(command.entry(identifier));
        Ok(())
    }

    #[inline]
    fn kick(&mut self) {
        let tail = self.submission.tail();
        if tail == self.rung_tail {
            return;
        }
        let (old, mask) = (self.rung_tail, self.submission.mask());
        let (doorbell, platform) = (&self.submission_doorbell, &self.controller.platform);
        let mut written = false;
        let rang = self.controller.gate.ring(self.id, self.epoch, || {
            written = doorbell.write(platform, old, tail, mask);
        });
        if rang {
            self.rung_tail = tail;
            self.statistics.submission_doorbells += u64::from(written);
        } else {
            // A reset is under way or over: the next poll finds out.
            self.budget = 1;
        }
    }

    #[inline]
    fn poll(&mut self) -> Option<Completion> {
        if let Some(word) = self.completion.peek() {
            if let Some(completion) = self.complete(word) {
                return Some(completion);
            }
        }
        self.budget = self.budget.wrapping_sub(1);
        if self.budget != 0 {
            return None;
        }
        self.service()
    }

    fn outstanding(&self) -> usize {
        (self.depth - self.free_count) as usize
    }

    fn wait(&mut self, timeout_us: u32) {
        self.wait_for_completion(timeout_us);
    }
}

impl<P: Platform, C: Deref<Target = Controller<P>>, const DEPTH: usize> Drop
    for QueuePair<P, C, DEPTH>
{
    fn drop(&mut self) {
        self.delete();
    }
}

impl QueueMemory {
    fn rings(&self) -> Option<(SubmissionRing, CompletionRing)> {
        Some((
            SubmissionRing::new(self.submission, self.entries)?,
            CompletionRing::new(self.completion, self.entries)?,
        ))
    }
}

/// What `build` found out, before it is a queue.
struct Parts {
    id: u16,
    namespace: u32,
    geometry: Geometry,
    list_stride: usize,
    lists: Part,
    queue_memory: QueueMemory,
    rings: (SubmissionRing, CompletionRing),
    vector: Option<u16>,
    doorbells: (Doorbell, Doorbell),
    epoch: u32,
}

impl Parts {
    fn into_queue<P: Platform, C: Deref<Target = Controller<P>>, const DEPTH: usize>(
        self,
        controller: C,
        memory: Shared,
    ) -> QueuePair<P, C, DEPTH> {
        let depth = u32::from(self.geometry.queue_depth);
        QueuePair {
            timeout_ticks: controller
                .platform
                .ticks_from_us(controller.options.io_timeout_us),
            page_shift: controller.page_shift(),
            controller,
            submission: self.rings.0,
            completion: self.rings.1,
            budget: POLLS_A_LOOK,
            unacknowledged: 0,
            rung_tail: 0,
            rung_head: 0,
            epoch: self.epoch,
            state: State::Ready,
            geometry: self.geometry,
            namespace: self.namespace,
            list_stride: self.list_stride,
            lists: self.lists,
            id: self.id,
            submission_doorbell: self.doorbells.0,
            completion_doorbell: self.doorbells.1,
            free_count: depth,
            depth,
            free: core::array::from_fn(|index| index as u16),
            slots: core::array::from_fn(|index| Slot {
                live: index as u32 | FREE,
                tag: 0,
                buffer: None,
                deadline: 0,
            }),
            look_at: 0,
            vector: self.vector,
            mode: CompletionMode::Poll,
            queue_memory: self.queue_memory,
            statistics: Statistics::default(),
            aborting: None,
            deleted: false,
            memory: Some(memory),
        }
    }
}
