// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who translates a device's addresses at VFIO: a container, or iommufd.
#![allow(unsafe_code)]

use super::map::Mapping;
use super::{iommufd, vfio};
use std::fs::File;
use std::io;

/// The devices of one of these reach the memory that it maps, at the bus addresses that it maps it
/// at.
#[derive(Debug)]
pub(crate) enum Translator {
    /// A container with one group in it, which is there while it is open.
    Container { container: File, _group: File },
    /// An address space of iommufd, by its number.
    Iommufd { iommufd: File, ioas: u32 },
}

impl Translator {
    /// Lets the devices access `mapping` at bus address `iova`. The kernel pins its pages until
    /// they are unmapped, or until this is dropped.
    pub(crate) fn map(&self, mapping: &Mapping, iova: u64) -> io::Result<()> {
        // SAFETY: the range is a live mapping of whole pages. That the devices may write to it from
        // now on is sound because it is only reached through Buffers.
        unsafe { self.map_range((mapping.address(), mapping.len()), iova, true) }
    }

    /// Lets the devices read a range of memory, start and length, and write to it, until it is
    /// unmapped. The kernel refuses what is not mapped, or not whole pages.
    ///
    /// # Safety
    /// Memory that a device may write to may change at any time. (The pages are pinned, so even
    /// after an early unmap the device reaches no other process's memory.)
    pub(crate) unsafe fn map_range(
        &self,
        range: (usize, usize),
        iova: u64,
        writable: bool,
    ) -> io::Result<()> {
        // SAFETY: the caller's.
        unsafe {
            match self {
                Self::Container { container, .. } => {
                    vfio::map_dma(container, range, iova, writable)
                }
                Self::Iommufd { iommufd, ioas } => {
                    iommufd::map(iommufd, *ioas, range, iova, writable)
                }
            }
        }
    }

    /// Takes a range of bus addresses, start and length, away from the devices.
    pub(crate) fn unmap(&self, (iova, len): (u64, u64)) -> io::Result<()> {
        match self {
            Self::Container { container, .. } => vfio::unmap_dma(container, iova, len),
            Self::Iommufd { iommufd, ioas } => iommufd::unmap(iommufd, *ioas, iova, len),
        }
    }
}
