//! An I/O queue pair from creation to deletion: its rings, its slots and its PRP lists.
//!
//! What happens per request is in `io`; what happens when a command is overdue, in `service`.

use core::ops::Deref;

use block::{Buffer, Completion, Features, Geometry};

use crate::controller::Controller;
use crate::error::{Error as SetupError, Unsupported};
use crate::identify::NamespaceInfo;
use crate::io::Shape;
use crate::layout::{
    COMPLETION_ENTRY_BYTES, SUBMISSION_ENTRY_BYTES, list_bytes, queue_memory_bytes, ring_entries,
    round_up,
};
use crate::memory::{CompletionRing, Part, Shared, SubmissionRing};
use crate::platform::Platform;
use crate::recovery::{Attached, QueueMemory};
use crate::service::{State, Statistics};
use crate::slots::Slots;
use crate::wait::CompletionMode;

/// Empty polls between two looks at the clock; each look checks one slot.
pub(crate) const POLLS_A_LOOK: u32 = 256;
/// Blocks that a 16-bit, zero-based count can name.
pub(crate) const MAX_BLOCKS: u32 = 1 << 16;

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
    pub(crate) state: State,
    pub(crate) page_shift: u8,
    pub(crate) shape: Shape,
    pub(crate) timeout_ticks: u64,
    pub(crate) namespace: u32,
    pub(crate) submission: SubmissionRing,
    /// The tail that the controller knows.
    pub(crate) rung_tail: u32,
    /// The head that the controller knows.
    pub(crate) rung_head: u32,
    pub(crate) attached: Attached,
    pub(crate) id: u16,
    pub(crate) slots: Slots<DEPTH>,
    pub(crate) list_stride: usize,
    pub(crate) lists: Part,
    pub(crate) geometry: Geometry,
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

    /// Whether entries have been consumed that the controller does not know of.
    pub(crate) fn has_unacknowledged(&self) -> bool {
        self.completion.head() != self.rung_head
    }

    /// Starts again with empty rings; the controller must not know the queue any more.
    #[inline(never)]
    pub(crate) fn restart_rings(&mut self) {
        self.queue_memory.submission.clear();
        self.queue_memory.completion.clear();
        self.submission.restart();
        self.completion.restart();
        self.rung_tail = 0;
        self.rung_head = 0;
        self.skew = 0;
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
