// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mapped memory: anonymous for buffers, of a file for a device's registers.
#![allow(unsafe_code)]

use block::barrier;
use rustix::fd::AsFd;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap, mmap_anonymous, munmap};
use std::io;
use std::ptr::{self, NonNull};

/// The huge page size that all supported 64-bit architectures have, with 4 KiB base pages.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A mapping of this process; unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a Mapping is plain, exclusively owned memory; nothing in it belongs to a thread.
unsafe impl Send for Mapping {}
// SAFETY: `&Mapping` gives out only numbers, and `Mmio` only single volatile accesses.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Zeroed memory. Transparent huge pages are requested, and a child process does not inherit
    /// it: copy-on-write after a fork would leave the device with the child's pages.
    pub(crate) fn anonymous(len: usize) -> io::Result<Self> {
        Self::map_anonymous(len, MapFlags::PRIVATE).inspect(|mapping| {
            if len >= HUGE_PAGE_BYTES {
                mapping.advise(Advice::LinuxHugepage);
            }
        })
    }

    /// Zeroed memory of reserved 2 MiB pages, all of them present and locked.
    pub(crate) fn huge(len: usize) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::HUGE_2MB | MapFlags::POPULATE;
        let mapping = Self::map_anonymous(len, flags)?;
        // SAFETY: the range is this mapping, whole.
        unsafe { mlock(mapping.start.as_ptr().cast(), mapping.len) }?;
        // `MAP_POPULATE` does not report a failure; a page that was touched is present.
        for offset in (0..len).step_by(HUGE_PAGE_BYTES) {
            // SAFETY: the offset is inside the mapping, which nothing else reaches yet.
            unsafe { mapping.start.as_ptr().add(offset).write_volatile(0) };
        }
        Ok(mapping)
    }

    fn map_anonymous(len: usize, flags: MapFlags) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: no address is requested, so no existing mapping changes.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), len, protection, flags) }?;
        let mapping = Self::new(start.cast(), len)?;
        mapping.advise(Advice::LinuxDontFork);
        Ok(mapping)
    }

    /// `len` bytes of a device's file from `offset` on, shared with the device.
    pub(crate) fn device(file: impl AsFd, offset: u64, len: usize) -> io::Result<Self> {
        Self::shared(file, offset, len, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// The same, which is only read.
    #[cfg(feature = "io-uring")]
    pub(crate) fn device_to_read(file: impl AsFd, offset: u64, len: usize) -> io::Result<Self> {
        Self::shared(file, offset, len, ProtFlags::READ)
    }

    fn shared(file: impl AsFd, offset: u64, len: usize, protection: ProtFlags) -> io::Result<Self> {
        // SAFETY: no address is requested, so no existing mapping changes.
        let start = unsafe {
            mmap(
                ptr::null_mut(),
                len,
                protection,
                MapFlags::SHARED,
                file,
                offset,
            )
        }?;
        Self::new(start.cast(), len)
    }

    fn new(start: *mut u8, len: usize) -> io::Result<Self> {
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len })
    }

    fn advise(&self, advice: Advice) {
        // Advice may be refused: an old kernel, huge pages switched off. Nothing depends on it.
        // SAFETY: the range is this mapping, whole, and the advice keeps its contents.
        let _ = unsafe { madvise(self.start.as_ptr().cast(), self.len, advice) };
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The mapping as a coprocessor's window.
    ///
    /// # Safety
    /// The mapping outlives the window and each copy of it, is shared with the coprocessor, and no
    /// reference to its bytes is made except through the window and the arena's buffers.
    #[cfg(feature = "coprocessor")]
    pub(crate) unsafe fn window(&self) -> coprocessor::Window {
        // SAFETY: the caller's promise; a mapping begins at a page.
        unsafe { coprocessor::Window::new(self.start, self.len) }
    }

    pub(crate) fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the owner; code that hands out pointers keeps the Mapping alive.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// A device's registers. Outside of them, reads give all ones and writes are dropped.
#[derive(Debug)]
pub(crate) struct Mmio {
    start: *mut u8,
    /// The last offset that a 32-bit access may have.
    last: usize,
    mapping: Mapping,
}

// SAFETY: as for Mapping; the pointer is its start.
unsafe impl Send for Mmio {}
// SAFETY: each access is one volatile instruction, which devices order themselves.
unsafe impl Sync for Mmio {}

impl Mmio {
    /// The registers in `mapping`; `None` if it is shorter than one register.
    pub(crate) fn new(mapping: Mapping) -> Option<Self> {
        Some(Self {
            start: mapping.start.as_ptr(),
            last: mapping.len.checked_sub(4)?,
            mapping,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.mapping.len
    }

    #[inline(always)]
    pub(crate) fn read32(&self, offset: usize) -> u32 {
        if offset > self.last || offset & 3 != 0 {
            return u32::MAX;
        }
        // SAFETY: aligned and inside the mapping, which lives as long as `self`.
        let value = unsafe { self.start.add(offset).cast::<u32>().read_volatile() };
        barrier::after_register_read();
        u32::from_le(value)
    }

    #[inline(always)]
    pub(crate) fn write32(&self, offset: usize, value: u32) {
        if offset > self.last || offset & 3 != 0 {
            return;
        }
        barrier::before_register_write();
        // SAFETY: aligned and inside the mapping, which lives as long as `self`.
        unsafe {
            self.start
                .add(offset)
                .cast::<u32>()
                .write_volatile(value.to_le());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_outside_of_the_registers_do_nothing() {
        let registers = Mmio::new(Mapping::anonymous(4096).unwrap()).unwrap();
        registers.write32(4092, 7);
        registers.write32(4096, 8);
        registers.write32(4094, 9);
        registers.write32(usize::MAX, 9);
        assert_eq!(registers.read32(4092), 7);
        assert_eq!(registers.read32(4096), u32::MAX);
        assert_eq!(registers.read32(2), u32::MAX);
        assert_eq!(registers.read32(0), 0);
    }
}
