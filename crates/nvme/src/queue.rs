// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An I/O queue pair from creation to deletion: its rings, its slots and its PRP lists.
//!
//! What happens per request is in `io`; what happens when a command is overdue, in `service`.

use core::ops::Deref;

use block::{Buffer, Completion, Features, Geometry};

use crate::controller::Controller;
use crate::encode::{Encoder, MAX_BLOCKS, PAGE, Shape};
use crate::error::{Error as SetupError, Unsupported};
use crate::identify::NamespaceInfo;
use crate::layout::{
    COMPLETION_ENTRY_BYTES, SUBMISSION_ENTRY_BYTES, list_bytes, queue_memory_bytes, ring_entries,
    round_up,
};
use crate::memory::{Part, Shared};
use crate::platform::Platform;
use crate::quirks::{ALIGNED_LIST_BYTES, Quirks};
use crate::recovery::{Attached, QueueMemory, Registration};
use crate::rings::Rings;
use crate::service::{State, Statistics};
use crate::slots::Slots;
use crate::wait::CompletionMode;
use crate::watch::Watch;

/// A queue pair on one namespace, with at most `DEPTH` commands outstanding.
///
/// `C` is how it holds its controller: `&Controller`, or a shared pointer. `DEPTH` is a power of
/// two, at most 4,096. Dropping it deletes the queue; commands still outstanding are never
/// reported, and their buffers are not touched afterwards.
#[derive(Debug)]
pub struct QueuePair<P: Platform, C: Deref<Target = Controller<P>>, const DEPTH: usize> {
    pub(crate) controller: C,
    pub(crate) rings: Rings,
    pub(crate) watch: Watch<DEPTH>,
    pub(crate) encoder: Encoder,
    pub(crate) slots: Slots<DEPTH>,
    /// Its state is changed by [`set_state`](Self::set_state) only.
    pub(crate) registration: Registration,
    pub(crate) mode: CompletionMode,
    pub(crate) statistics: Statistics,
    /// A completion that is not a success passes through here, so that the compiler can keep the
    /// others in registers.
    pub(crate) error_completion: Option<Completion>,
    memory: Option<Shared>,
}

/// A queue pair that could not be created, with the arguments given back.
#[derive(Debug)]
pub struct CreateFailed<C> {
    /// Why.
    pub error: SetupError,
    /// The controller handle, given back.
    pub controller: C,
    /// The memory, given back.
    pub memory: Buffer,
}

impl<P: Platform, C: Deref<Target = Controller<P>>, const DEPTH: usize> QueuePair<P, C, DEPTH> {
    /// Bytes of memory that [`create`](Self::create) needs for transfers of up to
    /// `max_transfer_bytes`, aligned to a page and contiguous on the bus.
    pub const fn memory_bytes(max_transfer_bytes: usize, page_bytes: usize) -> usize {
        queue_memory_bytes(DEPTH, max_transfer_bytes, page_bytes)
    }

    /// Creates a queue pair for `namespace` in `memory`. Its largest transfer is the controller's
    /// or `max_transfer_bytes`, whichever is less.
    ///
    /// # Errors
    /// [`SetupError::Memory`], [`SetupError::NoQueueLeft`], [`SetupError::Busy`] or the
    /// controller's error.
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
            Ok(prepared) => Ok(prepared.into_queue(controller, shared)),
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
        let quirks = controller.quirks();
        let max_bytes = controller.max_transfer_bytes().min(max_transfer_bytes);
        // An aligned transfer of the longest length then crosses no boundary. One within a page is
        // not believed.
        let boundary = (usize::from(namespace.optimal_boundary_blocks) << shift)
            .max(controller.stripe_bytes() as usize);
        let max_bytes = match boundary {
            0..PAGE => max_bytes,
            boundary => max_bytes.min(boundary),
        };
        let max_blocks = (max_bytes >> shift).min(MAX_BLOCKS as usize) as u64;
        let max_transfer_blocks = max_blocks.min(namespace.block_count) as u32;
        if max_transfer_blocks == 0 {
            return Err(SetupError::Unsupported(Unsupported::TransferSize));
        }
        let info = controller.info();
        // Rings have twice the depth, rounded to powers of two, within the controller's limit.
        let entries = 1_usize << controller.capabilities.max_queue_entries.ilog2();
        let mut depth = DEPTH.min(entries / 2);
        if quirks.has(Quirks::DEPTH_ONE) {
            depth = 1;
        } else if quirks.has(Quirks::ALIGNED_LISTS) {
            let longest = (max_transfer_blocks as usize) << shift;
            let stride = list_bytes(longest, controller.page_bytes());
            depth = (depth * stride / stride.max(ALIGNED_LIST_BYTES)).max(1);
        }
        Ok(Geometry {
            block_size_log2: shift,
            block_count: namespace.block_count,
            max_transfer_blocks,
            queue_depth: depth as u16,
            buffer_align_bytes: controller.platform.cache_line_bytes().max(4) as u32,
            features: Features {
                volatile_write_cache: info.volatile_write_cache,
                fua: true,
                discard: info.dataset_management() && !quirks.has(Quirks::NO_DEALLOCATE),
                write_zeroes: info.write_zeroes() && !quirks.has(Quirks::NO_WRITE_ZEROES),
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
    ) -> Result<Prepared, SetupError> {
        let page_bytes = controller.page_bytes();
        let entries = ring_entries(usize::from(geometry.queue_depth));
        let mut list_stride = list_bytes(geometry.max_transfer_bytes(), page_bytes);
        if controller.quirks().has(Quirks::ALIGNED_LISTS) {
            list_stride = list_stride.max(ALIGNED_LIST_BYTES);
        }
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
        let rings = Rings::new(&queue_memory).ok_or(no_memory)?;
        let vectors = controller.platform().interrupt_vectors();
        let vector = match (id, vectors) {
            (1, 1) => Some(0),
            (id, vectors) if id < vectors => Some(id),
            _ => None,
        };
        let attached =
            controller.with_admin(|admin| controller.attach(admin, id, &queue_memory, vector))?;
        Ok(Prepared {
            id,
            nsid: namespace.nsid,
            geometry,
            list_stride,
            lists,
            memory: queue_memory,
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
        self.registration.state
    }

    /// Requests are accepted in [`State::Ready`] only: no other state has a shape.
    pub(crate) fn set_state(&mut self, state: State) {
        self.registration.state = state;
        self.encoder.shape = Shape::NONE;
    }

    /// The queue pair's counters.
    pub const fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Sets how long the commands submitted from now on may take, in microseconds.
    pub fn set_timeout_us(&mut self, timeout_us: u64) {
        let ticks = self.controller.platform.ticks_from_us(timeout_us);
        self.watch.set_timeout(ticks);
    }

    /// Deletes the queue and returns its memory. Commands still outstanding are never reported.
    pub fn close(mut self) -> Buffer {
        self.delete();
        let memory = self.memory.take();
        memory.map_or_else(|| Buffer::from_static(&mut []), Shared::into_buffer)
    }
}

impl<P: Platform, C: Deref<Target = Controller<P>>, const DEPTH: usize> Drop
    for QueuePair<P, C, DEPTH>
{
    fn drop(&mut self) {
        self.delete();
    }
}

/// The values that `build` computes before the queue exists. Flat, so that each value is written
/// once, in place: structures would be copied, which takes more code.
struct Prepared {
    id: u16,
    nsid: u32,
    geometry: Geometry,
    list_stride: usize,
    lists: Part,
    memory: QueueMemory,
    rings: Rings,
    vector: Option<u16>,
    attached: Attached,
}

impl Prepared {
    fn into_queue<P: Platform, C: Deref<Target = Controller<P>>, const DEPTH: usize>(
        self,
        controller: C,
        memory: Shared,
    ) -> QueuePair<P, C, DEPTH> {
        let timeout_us = controller.options.io_timeout_us;
        QueuePair {
            watch: Watch::new(controller.platform.ticks_from_us(timeout_us)),
            encoder: Encoder {
                shape: Shape::NONE,
                geometry: self.geometry,
                lists: self.lists,
                list_stride: self.list_stride,
                nsid: self.nsid,
                page_shift: controller.page_shift(),
            },
            controller,
            rings: self.rings,
            slots: Slots::new(usize::from(self.geometry.queue_depth)),
            registration: Registration {
                attached: self.attached,
                memory: self.memory,
                vector: self.vector,
                id: self.id,
                state: State::Ready,
                deleted: false,
            },
            mode: CompletionMode::Poll,
            statistics: Statistics::default(),
            error_completion: None,
            memory: Some(memory),
        }
    }
}
