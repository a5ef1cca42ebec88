//! An I/O queue pair: the path that every request takes.
//!
//! It owns its rings, its slots and its PRP lists; it never allocates, locks or formats. What
//! happens per request is here, top to bottom: [`submit`](QueuePair::submit) encodes a command,
//! [`kick`](QueuePair::kick) rings one doorbell for all of them, [`poll`](QueuePair::poll) looks at
//! one word of memory. What happens when a command is overdue is in `service`.

use core::ops::Deref;

use block::{
    Buffer, Completion, Device, Error, Features, Geometry, Operation, Refused, Request, Tag,
};

use crate::command::{Command, DEALLOCATE, FUA, io};
use crate::controller::Controller;
use crate::error::{Error as SetupError, Unsupported};
use crate::identify::NamespaceInfo;
use crate::layout::{
    COMPLETION_ENTRY_BYTES, SUBMISSION_ENTRY_BYTES, list_bytes, queue_memory_bytes, ring_entries,
    round_up,
};
use crate::memory::{CompletionRing, Entry, List, Part, Shared, SubmissionRing};
use crate::platform::Platform;
use crate::prp;
use crate::recovery::{Attached, QueueMemory};
use crate::service::{State, Statistics};
use crate::slots::Slots;
use crate::wait::CompletionMode;

/// Empty polls between two looks at the clock; each look checks one slot.
pub(crate) const POLLS_A_LOOK: u32 = 256;
/// What [`Dma`](crate::Dma) memory is made of: within a page, one bus address is enough.
const PAGE: usize = 4096;
/// Blocks that a 16-bit, zero-based count can name.
const MAX_BLOCKS: u32 = 1 << 16;

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
    /// Changed by [`set_state`](Self::set_state) only.
    state: State,
    page_shift: u8,
    shape: Shape,
    pub(crate) timeout_ticks: u64,
    namespace: u32,
    submission: SubmissionRing,
    /// The tail that the controller knows.
    rung_tail: u32,
    /// The head that the controller knows.
    rung_head: u32,
    pub(crate) attached: Attached,
    pub(crate) id: u16,
    pub(crate) slots: Slots<DEPTH>,
    list_stride: usize,
    lists: Part,
    geometry: Geometry,
    /// Completions that were no command's, less commands that ended without one.
    pub(crate) skew: u32,
    pub(crate) look_at: usize,
    /// A completion that is not a success passes through here, so that the compiler can keep the
    /// others in registers.
    pub(crate) rare: Option<Completion>,
    pub(crate) vector: Option<u16>,
    pub(crate) mode: CompletionMode,
    pub(crate) queue_memory: QueueMemory,
    pub(crate) statistics: Statistics,
    /// For each slot, the last command that missed its deadline there and was asked to abort. An
    /// identifier comes again only after hundreds of others in its slot; then one step is skipped.
    pub(crate) overdue: [Option<u16>; DEPTH],
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
        let max_blocks = (max_bytes >> shift).min(MAX_BLOCKS as usize) as u64;
        let max_transfer_blocks = max_blocks.min(namespace.block_count) as u32;
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
        let attached =
            controller.with_admin(|admin| controller.attach(admin, id, &queue_memory, vector))?;
        Ok(Parts {
            id,
            namespace: namespace.namespace,
            geometry,
            list_stride,
            lists,
            queue_memory,
            rings,
            vector,
            attached,
        })
    }

    /// The controller that it belongs to.
    pub fn controller(&self) -> &Controller<P> {
        &self.controller
    }

    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// Requests are accepted in [`State::Ready`] only: there is a shape in no other.
    pub(crate) fn set_state(&mut self, state: State) {
        self.state = state;
        self.shape = Shape::NONE;
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

    /// Submits a transfer within one page and as long as the last such, inline. Gives the buffer
    /// back if it is not one, or if anything is the matter with it:
    /// [`submit_any`](Self::submit_any) does it, or says what.
    #[inline(always)]
    fn submit_page(
        &mut self,
        tag: Tag,
        is_write: bool,
        lba: u64,
        buffer: Buffer,
    ) -> Result<(), Buffer> {
        let Some(index) = self.slots.next() else {
            return Err(buffer);
        };
        let (shape, address) = (&self.shape, buffer.address());
        let misaligned = address & shape.misaligned != 0;
        if buffer.len() != shape.len || misaligned || lba > shape.last_lba {
            return Err(buffer);
        }
        let platform = &self.controller.platform;
        let Some(prp1) = platform.bus_address(address) else {
            return Err(buffer);
        };
        let now = platform.ticks();
        let identifier = self.slots.take(index, tag, Some(buffer), now);
        self.submission.push(Entry {
            dwords_0_1: u64::from(identifier) << 16
                | if is_write {
                    self.shape.write
                } else {
                    self.shape.read
                },
            prp1,
            prp2: 0,
            dwords_10_11: lba,
            dwords_12_13: self.shape.last_block,
        });
        Ok(())
    }

    /// Submits any request, or says why not. Cold, so that it stays out of the way of the other.
    #[cold]
    #[inline(never)]
    #[allow(clippy::result_large_err)]
    fn submit_any(&mut self, request: Request) -> Result<(), Refused> {
        let (State::Ready, Some(index)) = (self.state, self.slots.next()) else {
            let error = self.refusal();
            return Err(Refused { error, request });
        };
        let checked = self.geometry.check(&request.operation);
        let command = match checked.and_then(|()| self.encode(index, &request.operation)) {
            Ok(command) => command,
            Err(error) => return Err(Refused { error, request }),
        };
        let now = self.controller.platform.ticks();
        let buffer = request.operation.into_buffer();
        if let Some(len) = buffer.as_ref().map(|buffer| buffer.len()) {
            if len <= PAGE {
                self.shape = Shape::of(&self.geometry, self.namespace, len);
            }
        }
        let identifier = self.slots.take(index, request.tag, buffer, now);
        self.submission.push(command.entry(identifier));
        Ok(())
    }

    /// The command for `operation` in slot `index`, without its identifier.
    fn encode(&self, index: usize, operation: &Operation) -> Result<Command, Error> {
        let mut command = Command {
            namespace: self.namespace,
            ..Command::default()
        };
        let flags = |fua: bool| if fua { FUA } else { 0 };
        match operation {
            Operation::Read { lba, buffer } => {
                command.opcode = io::READ;
                self.point_to(&mut command, index, *lba, buffer, 0)?;
            }
            Operation::Write { lba, buffer, fua } => {
                command.opcode = io::WRITE;
                self.point_to(&mut command, index, *lba, buffer, flags(*fua))?;
            }
            Operation::Flush => command.opcode = io::FLUSH,
            Operation::Discard { lba, block_count } => {
                // One range in the slot's list memory: attributes, length, start.
                let mut list = self.list(index).ok_or(Error::TooLarge)?;
                list.write(0, u64::from(*block_count) << 32);
                list.write(1, *lba);
                command.opcode = io::DATASET_MANAGEMENT;
                command.prp1 = list.bus;
                command.dwords = [0, DEALLOCATE, 0, 0];
            }
            Operation::WriteZeroes {
                lba,
                block_count,
                fua,
            } => {
                if *block_count > MAX_BLOCKS {
                    return Err(Error::TooLarge);
                }
                command.opcode = io::WRITE_ZEROES;
                command.dwords = range(*lba, *block_count, flags(*fua));
            }
        }
        Ok(command)
    }

    fn point_to(
        &self,
        command: &mut Command,
        index: usize,
        lba: u64,
        buffer: &Buffer,
        flags: u32,
    ) -> Result<(), Error> {
        let (address, len) = (buffer.address(), buffer.len());
        let platform = &self.controller.platform;
        let list = || self.list(index);
        (command.prp1, command.prp2) = prp::build(platform, address, len, self.page_shift, list)?;
        let block_count = (len >> self.geometry.block_size_log2) as u32;
        command.dwords = range(lba, block_count, flags);
        Ok(())
    }

    fn list(&self, index: usize) -> Option<List> {
        List::of_slot(&self.lists, index, self.list_stride)
    }

    /// The completion whose entry's last word is `word`. `None` if it names no outstanding command.
    #[inline(always)]
    pub(crate) fn complete(&mut self, word: u32) -> Option<Completion> {
        let Some((tag, buffer)) = self.slots.end(word as u16) else {
            self.skew = self.skew.wrapping_add(1);
            self.statistics.stray_completions += 1;
            return None;
        };
        if word >> 17 & 0x7ff != 0 {
            self.failed(tag, buffer, word);
            return self.rare.take();
        }
        let result = Ok(());
        Some(Completion {
            tag,
            buffer,
            result,
        })
    }

    /// Rings the submission doorbell for all that was submitted.
    #[inline(always)]
    fn ring_submission(&mut self) {
        let (old, tail) = (self.rung_tail, self.submission.tail());
        let (doorbell, platform) = (&self.attached.submission, &self.controller.platform);
        let mask = self.submission.mask();
        let mut written = false;
        let rang = self.controller.gate.ring(self.id, self.attached.epoch, || {
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

    /// Rings the completion doorbell for all that was consumed.
    #[inline(never)]
    pub(crate) fn acknowledge(&mut self) {
        let head = self.completion.head();
        let (old, mask) = (self.rung_head, self.completion.mask());
        let (doorbell, platform) = (&self.attached.completion, &self.controller.platform);
        let mut written = false;
        let rang = self.controller.gate.ring(self.id, self.attached.epoch, || {
            written = doorbell.write(platform, old, head, mask);
        });
        if rang {
            self.rung_head = head;
            self.completion.has_turned = false;
            self.statistics.completion_doorbells += u64::from(written);
        }
    }

    /// Whether entries have been consumed that the controller does not know of.
    pub(crate) fn has_unacknowledged(&self) -> bool {
        self.completion.head() != self.rung_head
    }

    /// Starts again with empty rings; the controller must not know the queue any more.
    #[inline(never)]
    pub(crate) fn restart_rings(&mut self) -> Result<(), SetupError> {
        self.queue_memory.submission.clear();
        self.queue_memory.completion.clear();
        let (submission, completion) = self.queue_memory.rings().ok_or(SetupError::Gone)?;
        self.submission = submission;
        self.completion = completion;
        self.rung_tail = 0;
        self.rung_head = 0;
        self.skew = 0;
        Ok(())
    }
}

#[inline(always)]
fn range(lba: u64, block_count: u32, flags: u32) -> [u32; 4] {
    let count = block_count.wrapping_sub(1) & 0xffff;
    [lba as u32, (lba >> 32) as u32, count | flags, 0]
}

/// Transfers within a page of the length that was last asked for: what of them can be known
/// beforehand.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// The length in bytes; one that no buffer has while there is no shape.
    len: usize,
    /// Bits that such a buffer's address must not have, so that it does not leave its page.
    misaligned: usize,
    /// The last LBA at which it fits the namespace.
    last_lba: u64,
    /// Its number of blocks, less one.
    last_block: u64,
    /// Command dwords 0 and 1, without the identifier.
    read: u64,
    write: u64,
}

impl Shape {
    const NONE: Self = Self {
        len: usize::MAX,
        misaligned: 0,
        last_lba: 0,
        last_block: 0,
        read: 0,
        write: 0,
    };

    /// The shape of transfers of `len` bytes, which the geometry allows and a page holds.
    fn of(geometry: &Geometry, namespace: u32, len: usize) -> Self {
        let last_block = (len >> geometry.block_size_log2) as u64 - 1;
        let command = |opcode: u8| u64::from(namespace) << 32 | u64::from(opcode);
        Self {
            len,
            misaligned: if len.is_power_of_two() { len } else { PAGE } - 1,
            last_lba: geometry.block_count - 1 - last_block,
            last_block,
            read: command(io::READ),
            write: command(io::WRITE),
        }
    }
}

impl<P: Platform, C: Deref<Target = Controller<P>>, const DEPTH: usize> Device
    for QueuePair<P, C, DEPTH>
{
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    #[inline(always)]
    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        let tag = request.tag;
        match request.operation {
            Operation::Read { lba, buffer } => match self.submit_page(tag, false, lba, buffer) {
                Ok(()) => Ok(()),
                Err(buffer) => self.submit_any(Request {
                    tag,
                    operation: Operation::Read { lba, buffer },
                }),
            },
            Operation::Write { lba, buffer, fua } if !fua && !self.geometry.features.read_only => {
                match self.submit_page(tag, true, lba, buffer) {
                    Ok(()) => Ok(()),
                    Err(buffer) => self.submit_any(Request {
                        tag,
                        operation: Operation::Write { lba, buffer, fua },
                    }),
                }
            }
            operation => self.submit_any(Request { tag, operation }),
        }
    }

    #[inline(always)]
    fn kick(&mut self) {
        if self.submission.has_passed(self.rung_tail) {
            self.ring_submission();
        }
        // The ring has twice `depth` entries. Told at least once each half, the controller always
        // has room for every outstanding command's completion.
        if self.completion.has_turned {
            self.acknowledge();
        }
    }

    #[inline(always)]
    fn poll(&mut self) -> Option<Completion> {
        if let Some(word) = self.completion.take() {
            if let Some(completion) = self.complete(word) {
                return Some(completion);
            }
        }
        self.budget = self.budget.wrapping_sub(1);
        if self.budget != 0 {
            return None;
        }
        self.rare = self.service();
        self.rare.take()
    }

    fn outstanding(&self) -> usize {
        // Submitted less completed; both rings have the same length, twice what can be outstanding.
        let (tail, head) = (self.submission.tail(), self.completion.head());
        (tail.wrapping_sub(head).wrapping_add(self.skew) & self.completion.mask()) as usize
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
    attached: Attached,
}

impl Parts {
    fn into_queue<P: Platform, C: Deref<Target = Controller<P>>, const DEPTH: usize>(
        self,
        controller: C,
        memory: Shared,
    ) -> QueuePair<P, C, DEPTH> {
        QueuePair {
            timeout_ticks: controller
                .platform
                .ticks_from_us(controller.options.io_timeout_us),
            page_shift: controller.page_shift(),
            shape: Shape::NONE,
            controller,
            submission: self.rings.0,
            completion: self.rings.1,
            budget: POLLS_A_LOOK,

            rung_tail: 0,
            rung_head: 0,
            state: State::Ready,
            geometry: self.geometry,
            namespace: self.namespace,
            list_stride: self.list_stride,
            lists: self.lists,
            id: self.id,
            attached: self.attached,
            slots: Slots::new(usize::from(self.geometry.queue_depth)),
            skew: 0,
            look_at: 0,
            rare: None,
            vector: self.vector,
            mode: CompletionMode::Poll,
            queue_memory: self.queue_memory,
            statistics: Statistics::default(),
            overdue: [None; DEPTH],
            deleted: false,
            memory: Some(memory),
        }
    }
}
