// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory for buffers: each path can access a different kind of memory.

use crate::error::{Error, Result};
use block::Buffer;
use linux::HostMemory;
#[cfg(feature = "drives")]
use model::BusMemory;

/// Memory for buffers; a clone is another handle to it.
#[derive(Clone, Debug)]
pub enum Memory {
    /// Memory of the host, which a drive may reach by DMA.
    Host(HostMemory),
    /// Memory that a model controller accesses.
    #[cfg(feature = "drives")]
    Bus(BusMemory),
}

impl Memory {
    /// Allocates a buffer of `len` bytes at the start of a page.
    ///
    /// # Errors
    /// There is not enough contiguous memory.
    pub fn allocate(&self, len: usize) -> Result<Buffer> {
        match self {
            Self::Host(memory) => Ok(memory.allocate(len)?),
            #[cfg(feature = "drives")]
            Self::Bus(memory) => memory
                .allocate(len)
                .ok_or_else(|| Error::usage(format!("no {len} contiguous bytes are free"))),
        }
    }

    /// The same memory, with buffers aligned as a device's geometry requires: at multiples of
    /// `align_bytes`, and at least of a page.
    #[must_use]
    pub fn aligned_to(self, align_bytes: u32) -> Self {
        let align_bytes = align_bytes as usize;
        match self {
            Self::Host(memory) => Self::Host(memory.aligned_to(align_bytes)),
            #[cfg(feature = "drives")]
            // A controller requires dwords.
            bus @ Self::Bus(_) => bus,
        }
    }

    /// Allocates memory for queues: `len` contiguous bytes on the bus, at the start of a
    /// controller's page.
    ///
    /// # Errors
    /// There is not enough contiguous memory.
    pub fn allocate_pages(&self, len: usize, page_bytes: usize) -> Result<Buffer> {
        match self {
            Self::Host(memory) => Ok(memory.aligned_to(page_bytes).allocate(len)?),
            #[cfg(feature = "drives")]
            Self::Bus(memory) => memory
                .allocate_contiguous(len, page_bytes)
                .ok_or_else(|| Error::usage(format!("no {len} contiguous bytes are free"))),
        }
    }

    /// Frees a buffer. A buffer of other memory is leaked, which is harmless.
    pub fn give_back(&self, buffer: Buffer) {
        let _ = match self {
            Self::Host(memory) => memory.give_back(buffer),
            #[cfg(feature = "drives")]
            Self::Bus(memory) => memory.give_back(buffer),
        };
    }
}
