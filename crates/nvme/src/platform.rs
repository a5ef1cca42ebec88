// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the driver needs from the machine: two small traits, and a clock.
//!
//! [`Registers`] is the controller's function on the bus: its registers and its interrupts.
//! [`Dma`] is the memory that the controller can reach, with its bus addresses. Together with
//! [`block::Clock`] they are a [`Platform`].

use block::{Clock, barrier};

use crate::quirks::PciId;

/// A controller's register space (BAR0) and its interrupts.
///
/// Offsets are in bytes, aligned to the access, and inside the space: the driver checks each
/// doorbell's offset against [`len_bytes`](Registers::len_bytes) when the queue is made.
pub trait Registers {
    /// Length of the register space in bytes.
    fn len_bytes(&self) -> usize;

    /// Reads a 32-bit register, before each later read of memory
    /// ([`after_register_read`](block::barrier::after_register_read)). A removed device reads as
    /// all ones.
    fn read32(&self, offset: usize) -> u32;

    /// Writes a 32-bit register, after each earlier write to memory
    /// ([`before_register_write`](block::barrier::before_register_write)).
    fn write32(&self, offset: usize, value: u32);

    /// Reads a 64-bit register: as two halves, low first, unless the platform can do better.
    /// Every register that the driver reads this way is constant.
    fn read64(&self, offset: usize) -> u64 {
        let low = u64::from(self.read32(offset));
        low | u64::from(self.read32(offset + 4)) << 32
    }

    /// Writes a 64-bit register: as two halves, low first, unless the platform can do better.
    fn write64(&self, offset: usize, value: u64) {
        self.write32(offset, value as u32);
        self.write32(offset + 4, (value >> 32) as u32);
    }

    /// Stops the controller from reading and writing memory (clears its Bus Master Enable). Called
    /// when a controller cannot be disabled, before its buffers are given back.
    fn isolate(&self);

    /// Undoes [`isolate`](Registers::isolate) and any state that a function-level reset may have
    /// lost. Called before a controller is enabled.
    fn connect(&self) {}

    /// Number of interrupt vectors that can be waited for; 0 where completions are polled only.
    fn interrupt_vectors(&self) -> u16 {
        0
    }

    /// Whether the controller interrupts by a line (INTx) instead of messages. Shadow doorbells are
    /// not used then: a controller that finds in memory, later, that a completion was consumed
    /// holds the line until it looks.
    fn interrupts_by_line(&self) -> bool {
        false
    }

    /// Lets vector `vector` interrupt the host, or keeps it from doing so.
    ///
    /// # Errors
    /// When the platform refuses; the vector is then off.
    fn set_interrupt(&self, vector: u16, enabled: bool) -> Result<(), InterruptRefused> {
        let _ = (vector, enabled);
        Err(InterruptRefused)
    }

    /// Sleeps until vector `vector` has interrupted since the last call or `timeout_us`
    /// microseconds have passed; returns whether it has.
    fn wait_interrupt(&self, vector: u16, timeout_us: u32) -> bool {
        let _ = (vector, timeout_us);
        false
    }

    /// Whether the machine wants the function back: it is being unplugged, or given to another
    /// driver. The driver then shuts the controller down and reports outstanding requests as
    /// [`Gone`](block::Error::Gone). Called occasionally during I/O, so it must be quick.
    fn is_recalled(&self) -> bool {
        false
    }

    /// A pause between two reads of a register in a slow path; may sleep for a short time.
    fn relax(&self) {
        core::hint::spin_loop();
    }

    /// The function's PCI identifiers, by which [quirks](crate::Quirks) are looked up; `None` if it
    /// has none.
    fn pci_id(&self) -> Option<PciId> {
        None
    }

    /// Whether any drive may be in the slot. A board whose one drive is soldered, without quirks
    /// and without autonomous power state transitions, returns a constant `false`: the compiler
    /// then removes what handles them.
    #[inline(always)]
    fn is_any_drive(&self) -> bool {
        true
    }
}

/// The platform could not enable an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterruptRefused;

/// A range of memory as the controller sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusRun {
    /// The bus address of the first byte.
    pub address: u64,
    /// How many of the requested bytes are contiguous on the bus from there; at least 1.
    pub contiguous_bytes: usize,
}

/// Memory that the controller can reach.
///
/// # Safety
/// The memory is made of whole pages of 4 KiB. While the platform is alive, each run that
/// [`bus_run`](Dma::bus_run) returns is where the controller's reads and writes really go for that
/// memory, and the memory stays mapped. Bus addresses agree with virtual ones in the offset within
/// a controller page (4 KiB or more).
#[allow(unsafe_code)]
pub unsafe trait Dma {
    /// The bus address of the `len` bytes at virtual address `address`, or `None` if the controller
    /// cannot reach all of them.
    fn bus_run(&self, address: usize, len: usize) -> Option<BusRun>;

    /// The bus address of the byte at virtual address `address`, or `None` if the controller cannot
    /// reach it. The bytes of the same 4 KiB page are contiguous with it.
    #[inline(always)]
    fn bus_address(&self, address: usize) -> Option<u64> {
        Some(self.bus_run(address, 1)?.address)
    }

    /// Orders what is read from now on after the completion queue entry that was just seen.
    #[inline(always)]
    fn after_entry(&self) {
        barrier::after_entry();
    }

    /// Orders the shadow doorbell that was just written before the event index that is read next.
    #[inline(always)]
    fn store_then_load(&self) {
        barrier::store_then_load();
    }

    /// Orders the command that was written before its shadow doorbell.
    #[inline(always)]
    fn before_index(&self) {
        barrier::before_index();
    }

    /// Bytes of a cache line where the controller does not see the processor's cache; 0 where it
    /// does. Buffers are then aligned to it, and shadow doorbells, which both sides write in one
    /// line, are not used.
    #[inline(always)]
    fn cache_line_bytes(&self) -> usize {
        0
    }

    /// Writes the processor's dirty lines of this memory back, before the controller reads or
    /// writes it. Complete before a later register write is. Does nothing where the controller sees
    /// the cache.
    #[inline(always)]
    #[track_caller]
    fn clean(&self, address: usize, len: usize) {
        let _ = (address, len);
    }

    /// Drops the processor's lines of this memory, which are not dirty, after the controller may
    /// have written it. Does nothing where the controller sees the cache.
    #[inline(always)]
    #[track_caller]
    fn invalidate(&self, address: usize, len: usize) {
        let _ = (address, len);
    }
}

impl<T: Registers + ?Sized> Registers for &T {
    fn len_bytes(&self) -> usize {
        (**self).len_bytes()
    }

    #[inline(always)]
    fn read32(&self, offset: usize) -> u32 {
        (**self).read32(offset)
    }

    #[inline(always)]
    fn write32(&self, offset: usize, value: u32) {
        (**self).write32(offset, value);
    }

    fn read64(&self, offset: usize) -> u64 {
        (**self).read64(offset)
    }

    fn write64(&self, offset: usize, value: u64) {
        (**self).write64(offset, value);
    }

    fn isolate(&self) {
        (**self).isolate();
    }

    fn connect(&self) {
        (**self).connect();
    }

    fn interrupt_vectors(&self) -> u16 {
        (**self).interrupt_vectors()
    }

    fn interrupts_by_line(&self) -> bool {
        (**self).interrupts_by_line()
    }

    fn set_interrupt(&self, vector: u16, enabled: bool) -> Result<(), InterruptRefused> {
        (**self).set_interrupt(vector, enabled)
    }

    fn wait_interrupt(&self, vector: u16, timeout_us: u32) -> bool {
        (**self).wait_interrupt(vector, timeout_us)
    }

    fn is_recalled(&self) -> bool {
        (**self).is_recalled()
    }

    fn relax(&self) {
        (**self).relax();
    }

    fn pci_id(&self) -> Option<PciId> {
        (**self).pci_id()
    }

    #[inline(always)]
    fn is_any_drive(&self) -> bool {
        (**self).is_any_drive()
    }
}

// SAFETY: the memory that the reference points to.
#[allow(unsafe_code)]
unsafe impl<T: Dma + ?Sized> Dma for &T {
    #[inline(always)]
    fn bus_run(&self, address: usize, len: usize) -> Option<BusRun> {
        (**self).bus_run(address, len)
    }

    #[inline(always)]
    fn bus_address(&self, address: usize) -> Option<u64> {
        (**self).bus_address(address)
    }

    #[inline(always)]
    fn after_entry(&self) {
        (**self).after_entry();
    }

    #[inline(always)]
    fn store_then_load(&self) {
        (**self).store_then_load();
    }

    #[inline(always)]
    fn before_index(&self) {
        (**self).before_index();
    }

    #[inline(always)]
    fn cache_line_bytes(&self) -> usize {
        (**self).cache_line_bytes()
    }

    #[inline(always)]
    #[track_caller]
    fn clean(&self, address: usize, len: usize) {
        (**self).clean(address, len);
    }

    #[inline(always)]
    #[track_caller]
    fn invalidate(&self, address: usize, len: usize) {
        (**self).invalidate(address, len);
    }
}

/// Memory that is contiguous on the bus: an IOMMU's mapping, or bare metal.
#[derive(Clone, Copy, Debug)]
pub struct LinearDma {
    /// Virtual address of the first byte.
    pub start: usize,
    /// Length in bytes.
    pub len: usize,
    /// Bus address of the first byte.
    pub bus_start: u64,
}

impl LinearDma {
    /// See [`Dma::bus_run`].
    #[inline(always)]
    pub fn run(&self, address: usize, len: usize) -> Option<BusRun> {
        let offset = address.wrapping_sub(self.start);
        let room = self.len.checked_sub(len)?;
        (offset <= room).then(|| BusRun {
            address: self.bus_start + offset as u64,
            contiguous_bytes: len,
        })
    }
}

impl LinearDma {
    /// See [`Dma::bus_address`].
    #[inline(always)]
    pub fn address(&self, address: usize) -> Option<u64> {
        let offset = address.wrapping_sub(self.start);
        (offset < self.len).then_some(self.bus_start.wrapping_add(offset as u64))
    }
}

/// Memory made of equal pages anywhere on the bus: huge pages without an IOMMU.
#[derive(Clone, Copy, Debug)]
pub struct PagedDma<'a> {
    /// Virtual address of the first byte, a multiple of the page size.
    pub start: usize,
    /// A page is `1 << page_shift` bytes.
    pub page_shift: u8,
    /// Each page's bus address.
    pub bus_pages: &'a [u64],
}

impl PagedDma<'_> {
    /// See [`Dma::bus_run`].
    #[inline(always)]
    pub fn run(&self, address: usize, len: usize) -> Option<BusRun> {
        let offset = address.wrapping_sub(self.start);
        let total = self.bus_pages.len() << self.page_shift;
        let room = total.checked_sub(len)?;
        if offset > room {
            return None;
        }
        let within = offset & ((1 << self.page_shift) - 1);
        let page = self.bus_pages.get(offset >> self.page_shift)?;
        Some(BusRun {
            address: page + within as u64,
            contiguous_bytes: len.min((1 << self.page_shift) - within),
        })
    }
}

/// Everything that the driver needs; implemented for every type that has the parts.
pub trait Platform: Registers + Dma + Clock {}

impl<T: Registers + Dma + Clock> Platform for T {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_memory_ends_where_it_ends() {
        let dma = LinearDma {
            start: 0x1000,
            len: 0x2000,
            bus_start: 0x9000,
        };
        let run = dma.run(0x1010, 0x10).unwrap();
        assert_eq!((run.address, run.contiguous_bytes), (0x9010, 0x10));
        assert!(dma.run(0x2ff0, 0x10).is_some());
        assert!(dma.run(0x2ff0, 0x11).is_none());
        assert!(dma.run(0xfff, 1).is_none());
        assert!(dma.run(0x1000, usize::MAX).is_none());
    }

    #[test]
    fn paged_memory_ends_a_run_at_each_page() {
        let dma = PagedDma {
            start: 0x20_0000,
            page_shift: 12,
            bus_pages: &[0x7000, 0x3000],
        };
        let run = dma.run(0x20_0ff0, 0x20).unwrap();
        assert_eq!((run.address, run.contiguous_bytes), (0x7ff0, 0x10));
        assert_eq!(dma.run(0x20_1004, 4).unwrap().address, 0x3004);
        assert!(dma.run(0x20_1ffd, 4).is_none());
        assert!(dma.run(0x1f_ffff, 1).is_none());
    }
}
