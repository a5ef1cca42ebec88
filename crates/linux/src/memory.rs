// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory for buffers: the host's own, or memory that a device can reach too.

use crate::sys::arena::{Arena, PAGE_BYTES};
use crate::sys::map::{HUGE_PAGE_BYTES, Mapping};
use crate::{Error, Result};
use block::Buffer;
use std::sync::Arc;

/// Memory for buffers, which are aligned to pages: the process's own ([`new`](Self::new)), for the
/// paths through the kernel, or what a device can reach too, as
/// [`vfio::Function`](crate::vfio::Function) and [`noiommu::Function`](crate::noiommu::Function)
/// have it.
///
/// A clone is another handle to the same memory. The memory is unmapped when the last handle is
/// dropped and each buffer was given back; while one is in use it stays. So it can outlive its
/// function: the device is cut off first.
#[derive(Clone, Debug)]
pub struct HostMemory {
    arena: Arc<Arena>,
    align_bytes: usize,
}

impl HostMemory {
    /// `len` bytes, rounded up to pages.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn new(len: usize) -> Result<Self> {
        Ok(Self::over(anonymous(len)?))
    }

    /// Buffers in all of a mapping.
    pub(crate) fn over(mapping: Mapping) -> Self {
        let len = mapping.len();
        Self::of_part(mapping, 0, len)
    }

    /// Buffers in only a part of a mapping.
    pub(crate) fn of_part(mapping: Mapping, start: usize, len: usize) -> Self {
        Self {
            arena: Arc::new(Arena::of_part(mapping, start, len)),
            align_bytes: PAGE_BYTES,
        }
    }

    /// The same memory, with buffers aligned to `align_bytes`: the alignment of a device's
    /// geometry, or a controller's page. Anything less than a page, or not a power of two, means a
    /// page.
    #[must_use]
    pub fn aligned_to(&self, align_bytes: usize) -> Self {
        Self {
            arena: Arc::clone(&self.arena),
            align_bytes: align(align_bytes),
        }
    }

    /// A buffer of `len` bytes at the start of a page, or aligned as set with
    /// [`aligned_to`](Self::aligned_to). It may hold data of its previous owner.
    ///
    /// # Errors
    /// [`Error::MemoryFull`].
    pub fn allocate(&self, len: usize) -> Result<Buffer> {
        allocate(&self.arena, len, self.align_bytes)
    }

    /// Takes back a buffer that [`allocate`](HostMemory::allocate) returned.
    ///
    /// # Errors
    /// Returns a piece of one, or a buffer of other memory, as the error.
    pub fn give_back(&self, buffer: Buffer) -> std::result::Result<(), Buffer> {
        self.arena.give_back(buffer)
    }

    /// How many buffers are in use.
    pub fn buffers_out(&self) -> usize {
        self.arena.buffers_out()
    }

    /// The virtual address of the first byte.
    pub fn address(&self) -> usize {
        self.arena.address()
    }

    /// Length in bytes.
    pub fn len_bytes(&self) -> usize {
        self.arena.len()
    }

    pub(crate) fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }
}

#[cfg(feature = "nvme")]
impl nvme::Allocate for HostMemory {
    fn allocate_dma(&self, len_bytes: usize, align_bytes: usize) -> Option<Buffer> {
        self.aligned_to(align_bytes).allocate(len_bytes).ok()
    }

    fn free_dma(&self, buffer: Buffer) {
        let _ = self.give_back(buffer);
    }
}

/// Ordinary memory of whole pages, or of whole 2 MiB where it is that long, so that transparent
/// huge pages can back it.
pub(crate) fn anonymous(len: usize) -> Result<Mapping> {
    let no_memory = |_| Error::NoMemory { bytes: len };
    let unit = match len {
        HUGE_PAGE_BYTES.. => HUGE_PAGE_BYTES,
        _ => rustix::param::page_size(),
    };
    let rounded = len.max(1).checked_next_multiple_of(unit);
    let rounded = rounded.ok_or(Error::NoMemory { bytes: len })?;
    Mapping::anonymous(rounded).map_err(no_memory)
}

fn align(bytes: usize) -> usize {
    if bytes.is_power_of_two() {
        bytes.max(PAGE_BYTES)
    } else {
        PAGE_BYTES
    }
}

fn allocate(arena: &Arena, len: usize, align_bytes: usize) -> Result<Buffer> {
    arena.allocate(len, align_bytes).ok_or(Error::MemoryFull {
        bytes: len,
        total_bytes: arena.room(),
    })
}

/// A device is granted whole pages of another owner's memory.
#[cfg(feature = "vfio")]
pub(crate) fn check_grant(start: usize, len: usize) -> Result<()> {
    check_whole_pages(start, len, rustix::param::page_size())
}

/// The system's pages, which the kernel pins and an IOMMU maps: 16 or 64 KiB on some Arm kernels.
#[cfg(feature = "vfio")]
fn check_whole_pages(start: usize, len: usize, page_bytes: usize) -> Result<()> {
    if len == 0 || (start | len) % page_bytes != 0 {
        return Err(Error::Unsupported {
            what: "a grant of memory",
            why: format!("{len} bytes at {start:#x} are not whole pages"),
            hint: Some(format!("grant multiples of {page_bytes} bytes").into()),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_rounded_to_pages_and_says_when_it_is_full() {
        let memory = HostMemory::new(5000).unwrap();
        let rounded = 5000_usize.next_multiple_of(rustix::param::page_size());
        assert_eq!(memory.len_bytes(), rounded);
        let buffer = memory.allocate(rounded).unwrap();
        let error = memory.allocate(1).unwrap_err();
        assert!(matches!(error, Error::MemoryFull { bytes: 1, .. }));
        memory.clone().give_back(buffer).unwrap();
        assert_eq!(memory.buffers_out(), 0);
        assert!(HostMemory::new(usize::MAX).is_err());
    }

    #[test]
    #[cfg(feature = "vfio")]
    fn a_grant_is_of_the_systems_pages() {
        for page_bytes in [4 << 10, 16 << 10, 64 << 10] {
            assert!(check_whole_pages(page_bytes, 3 * page_bytes, page_bytes).is_ok());
            for (start, len) in [
                (0, 0),
                (page_bytes / 2, page_bytes),
                (page_bytes, page_bytes / 2),
            ] {
                let error = check_whole_pages(start, len, page_bytes).unwrap_err();
                assert!(matches!(error, Error::Unsupported { hint: Some(hint), .. }
                    if hint.to_string().contains(&page_bytes.to_string())));
            }
        }
    }
}
