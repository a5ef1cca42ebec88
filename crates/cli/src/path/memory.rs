//! Where buffers come from: each path can reach another kind of memory.

use crate::failure::{Failure, Result};
use block::Buffer;
use linux::{DmaMemory, HostMemory};
use model::BusMemory;

/// Memory for buffers; a clone is another handle to it.
#[derive(Clone, Debug)]
pub enum Memory {
    /// The host's own.
    Host(HostMemory),
    /// What a drive reaches by itself.
    Dma(DmaMemory),
    /// What a model controller reaches.
    Bus(BusMemory),
}

impl Memory {
    /// A buffer of `len` bytes at the start of a page.
    ///
    /// # Errors
    /// There is no room.
    pub fn allocate(&self, len: usize) -> Result<Buffer> {
        match self {
            Self::Host(memory) => Ok(memory.allocate(len)?),
            Self::Dma(memory) => Ok(memory.allocate(len)?),
            Self::Bus(memory) => memory
                .allocate(len)
                .ok_or_else(|| Failure::usage(format!("no run of {len} bytes is free"))),
        }
    }

    /// The same memory, whose buffers are aligned as a device's geometry asks: at multiples of
    /// `align_bytes`, and of a page at least.
    #[must_use]
    pub fn aligned_to(self, align_bytes: u32) -> Self {
        let align_bytes = align_bytes as usize;
        match self {
            Self::Host(memory) => Self::Host(memory.aligned_to(align_bytes)),
            Self::Dma(memory) => Self::Dma(memory.aligned_to(align_bytes)),
            // A controller asks for dwords.
            bus @ Self::Bus(_) => bus,
        }
    }

    /// Memory for queues: a run of `len` bytes on the bus, at the start of a controller's page.
    ///
    /// # Errors
    /// There is no room.
    pub fn allocate_pages(&self, len: usize, page_bytes: usize) -> Result<Buffer> {
        match self {
            Self::Host(memory) => Ok(memory.aligned_to(page_bytes).allocate(len)?),
            Self::Dma(memory) => Ok(memory.aligned_to(page_bytes).allocate(len)?),
            Self::Bus(memory) => memory
                .allocate_contiguous(len, page_bytes)
                .ok_or_else(|| Failure::usage(format!("no run of {len} bytes is free"))),
        }
    }

    /// Takes a buffer back. One of other memory stays out, which costs its memory and no more.
    pub fn give_back(&self, buffer: Buffer) {
        let _ = match self {
            Self::Host(memory) => memory.give_back(buffer),
            Self::Dma(memory) => memory.give_back(buffer),
            Self::Bus(memory) => memory.give_back(buffer),
        };
    }
}
