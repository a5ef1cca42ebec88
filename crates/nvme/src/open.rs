//! A controller and its queues in a few lines: memory from an allocator instead of by hand.
//!
//! [`Controller::enable`] and [`QueuePair::create`] take memory that the caller has measured and hand it back
//! when they fail, as firmware wants it. A program that has an allocator for DMA memory calls these.

use crate::queue::{CreateFailed, QueuePair};
use crate::{Controller, EnableFailed, Error, Options, Platform, controller_memory_bytes};
use block::Buffer;
use core::fmt;
use core::ops::Deref;

/// An allocator of memory that the controller can reach.
pub trait Allocate {
    /// `len_bytes` in one run on the bus, at a multiple of `align_bytes` (a power of two); `None` when
    /// nothing of that kind is free.
    fn allocate_dma(&self, len_bytes: usize, align_bytes: usize) -> Option<Buffer>;

    /// Takes back what [`allocate_dma`](Self::allocate_dma) returned.
    fn free_dma(&self, buffer: Buffer);
}

impl<P: Platform> Controller<P> {
    /// As [`enable`](Self::enable), in memory of `memory`.
    ///
    /// # Errors
    /// As [`enable`](Self::enable), and [`Error::Memory`] when `memory` has no such piece. The memory is
    /// given back, and `platform` is dropped.
    pub fn open(platform: P, memory: &impl Allocate, options: Options) -> Result<Self, Error> {
        let page_bytes = Self::page_bytes_of(&platform)?;
        let needed_bytes = controller_memory_bytes(page_bytes);
        let Some(own) = memory.allocate_dma(needed_bytes, page_bytes) else {
            return Err(Error::Memory { needed_bytes });
        };
        Self::enable(platform, own, options).map_err(|failed| {
            memory.free_dma(failed.memory);
            failed.error
        })
    }
}

impl<P: Platform, C: Deref<Target = Controller<P>>, const DEPTH: usize> QueuePair<P, C, DEPTH> {
    /// As [`create`](Self::create), for namespace `nsid`, in memory of `memory`.
    ///
    /// # Errors
    /// As [`Controller::namespace`] and [`create`](Self::create), and [`Error::Memory`] when `memory` has no
    /// such piece. The memory is given back.
    pub fn open(
        controller: C,
        nsid: u32,
        max_transfer_bytes: usize,
        memory: &impl Allocate,
    ) -> Result<Self, Error> {
        let namespace = controller.namespace(nsid)?;
        let page_bytes = controller.page_bytes();
        let needed_bytes = Self::memory_bytes(max_transfer_bytes, page_bytes);
        let Some(own) = memory.allocate_dma(needed_bytes, page_bytes) else {
            return Err(Error::Memory { needed_bytes });
        };
        Self::create(controller, &namespace, own, max_transfer_bytes).map_err(|failed| {
            memory.free_dma(failed.memory);
            failed.error
        })
    }
}

impl<P> fmt::Display for EnableFailed<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<P: fmt::Debug> core::error::Error for EnableFailed<P> {}

impl<C> fmt::Display for CreateFailed<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<C: fmt::Debug> core::error::Error for CreateFailed<C> {}
