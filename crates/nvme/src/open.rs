// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens a controller and its queues with memory from an allocator.
//!
//! [`Controller::enable`] and [`QueuePair::create`] take memory that the caller has sized and
//! return it when they fail, which suits firmware. A program with an allocator for DMA memory calls
//! these instead.

use crate::queue::{CreateFailed, QueuePair};
use crate::{
    Controller, ControllerOptions, EnableFailed, Error, Platform, controller_memory_bytes,
};
use block::Buffer;
use core::fmt;
use core::ops::Deref;

/// An allocator of memory that the controller can reach.
pub trait Allocate {
    /// `len_bytes` contiguous on the bus, aligned to `align_bytes` (a power of two); `None` when no
    /// such range is free.
    fn allocate_dma(&self, len_bytes: usize, align_bytes: usize) -> Option<Buffer>;

    /// Takes back what [`allocate_dma`](Self::allocate_dma) returned.
    fn free_dma(&self, buffer: Buffer);
}

impl<P: Platform> Controller<P> {
    /// Like [`enable`](Self::enable), with memory from `memory`.
    ///
    /// # Errors
    /// Those of [`enable`](Self::enable), and [`Error::Memory`] when the allocation fails. The
    /// memory is given back, and `platform` is dropped.
    pub fn open(
        platform: P,
        memory: &impl Allocate,
        options: ControllerOptions,
    ) -> Result<Self, Error> {
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
    /// Like [`create`](Self::create), for namespace `nsid`, with memory from `memory`.
    ///
    /// # Errors
    /// Those of [`Controller::namespace`] and [`create`](Self::create), and [`Error::Memory`] when
    /// the allocation fails. The memory is given back.
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
