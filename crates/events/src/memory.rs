// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mapped memory, the cursor that writes events into it, and the processor's counter.
#![allow(unsafe_code)]

use rustix::fd::AsFd;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bit 1 of an event's last word: the event is complete.
const VALID: u64 = 2 << 32;

/// The processor's counter in two halves: merging them costs instructions that an event need not
/// have.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn halves() -> (u32, u32) {
    let (low, high);
    // SAFETY: every x86-64 processor has the instruction, and Linux lets user space use it.
    unsafe {
        core::arch::asm!("rdtsc", out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags));
    }
    (low, high)
}

/// The processor's counter now: the time stamp counter, the virtual counter or `rdtime`, or
/// `CLOCK_MONOTONIC` in nanoseconds where there is none.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn counter() -> u64 {
    let (low, high) = halves();
    u64::from(high) << 32 | u64::from(low)
}

/// The processor's counter now: the time stamp counter, the virtual counter or `rdtime`, or
/// `CLOCK_MONOTONIC` in nanoseconds where there is none.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub fn counter() -> u64 {
    let value;
    // SAFETY: Linux lets user space read the virtual counter; reading changes nothing.
    unsafe {
        core::arch::asm!("mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack));
    }
    value
}

/// The processor's counter now: the time stamp counter, the virtual counter or `rdtime`, or
/// `CLOCK_MONOTONIC` in nanoseconds where there is none.
#[cfg(target_arch = "riscv64")]
#[inline(always)]
pub fn counter() -> u64 {
    let value;
    // SAFETY: Linux lets user space read the counter; reading changes nothing.
    unsafe {
        core::arch::asm!("rdtime {}", out(reg) value, options(nomem, nostack));
    }
    value
}

/// The processor's counter now: the time stamp counter, the virtual counter or `rdtime`, or
/// `CLOCK_MONOTONIC` in nanoseconds where there is none.
#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
)))]
#[inline(always)]
pub fn counter() -> u64 {
    monotonic_ns()
}

/// `CLOCK_MONOTONIC`, in nanoseconds.
pub(crate) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A shared mapping of this process; unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is plain memory that no thread owns; it gives out single volatile or atomic
// accesses.
unsafe impl Send for Mapping {}

impl Mapping {
    /// `len` bytes of a file from its start.
    pub(crate) fn of(file: impl AsFd, len: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: no address is requested, so no existing mapping changes.
        let start = unsafe { mmap(ptr::null_mut(), len, protection, MapFlags::SHARED, file, 0) }?;
        Self::new(start.cast(), len)
    }

    /// Zeroed memory, all of it present: the first event of a page must not wait for it.
    pub(crate) fn anonymous(len: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: no address is requested, so no existing mapping changes.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), len, protection, flags) }?;
        Self::new(start.cast(), len)
    }

    fn new(start: *mut u8, len: usize) -> io::Result<Self> {
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len })
    }

    /// Writes a 32-bit word; outside of the mapping nothing.
    pub(crate) fn write(&self, at: usize, value: u32) {
        if at % 4 == 0 && at.checked_add(4).is_some_and(|end| end <= self.len) {
            // SAFETY: the word is inside the mapping, as just checked.
            unsafe {
                self.start
                    .as_ptr()
                    .add(at)
                    .cast::<u32>()
                    .write_volatile(value);
            }
        }
    }

    /// Replaces bytes that no cursor writes; past the end nothing.
    pub(crate) fn put(&self, at: usize, bytes: &[u8]) {
        for (offset, word) in bytes.chunks_exact(4).enumerate() {
            let value = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            self.write(at + 4 * offset, value.to_le());
        }
    }

    /// A copy of the mapping's bytes. What others write at the same time is there in whole words.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let words = (0..self.len / 4).flat_map(|index| {
            // SAFETY: the word is inside the mapping, which begins at a page.
            let word = unsafe { self.start.as_ptr().cast::<AtomicU32>().add(index).as_ref() };
            word.map_or(0, |word| word.load(Ordering::Acquire))
                .to_ne_bytes()
        });
        words.collect()
    }

    /// Zeroes `from..to`, inside the mapping.
    pub(crate) fn zero(&self, from: usize, to: usize) {
        for at in (from..to).step_by(4) {
            self.write(at, 0);
        }
    }

    /// A cursor over the events in `from..to`, multiples of 16 inside the mapping.
    pub(crate) fn cursor(&self, from: usize, to: usize) -> Cursor {
        debug_assert!(from <= to && to <= self.len && from % 16 == 0 && to % 16 == 0);
        let to = to.min(self.len) & !15;
        let from = from.min(to) & !15;
        // SAFETY: both are at most the mapping's length.
        let (next, end) = unsafe { (self.start.as_ptr().add(from), self.start.as_ptr().add(to)) };
        Cursor {
            next: next.cast(),
            end: end.cast(),
        }
    }
}

/// A device's page of registers. Its length is a constant, so an access at a constant offset is
/// checked by the compiler.
#[derive(Debug)]
pub(crate) struct Page(Mapping);

impl Page {
    pub(crate) const BYTES: usize = 4096;

    /// The first page of a device's file.
    pub(crate) fn of(file: impl AsFd) -> io::Result<Self> {
        Ok(Self(Mapping::of(file, Self::BYTES)?))
    }

    #[inline(always)]
    fn register(&self, at: usize) -> Option<*mut u32> {
        let fits = at % 4 == 0 && at < Self::BYTES;
        // SAFETY: the mapping has all of the page.
        fits.then(|| unsafe { self.0.start.as_ptr().add(at).cast() })
    }

    /// A register; outside of the page all ones.
    #[inline(always)]
    pub(crate) fn read(&self, at: usize) -> u32 {
        match self.register(at) {
            // SAFETY: it is in the page and aligned.
            Some(register) => unsafe { register.read_volatile() },
            None => u32::MAX,
        }
    }

    /// Writes a register; outside of the page nothing.
    #[inline(always)]
    pub(crate) fn write(&self, at: usize, value: u32) {
        if let Some(register) = self.register(at) {
            // SAFETY: it is in the page and aligned.
            unsafe { register.write_volatile(value) };
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the owner; a cursor is dropped before it, beside it in a `Ring`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// Where the next event goes. Its pointers are private to the process: what others write into the
/// memory cannot move them.
#[derive(Debug)]
pub(crate) struct Cursor {
    next: *mut u64,
    end: *mut u64,
}

// SAFETY: as for `Mapping`, which the cursor's owner holds.
unsafe impl Send for Cursor {}

impl Cursor {
    /// Whether there is room for another event.
    #[inline(always)]
    pub(crate) fn has_room(&self) -> bool {
        self.next != self.end
    }

    /// Stores an event, if there is room: the counter first, then the word that makes it valid.
    #[inline(always)]
    pub(crate) fn store(&mut self, tag: u32) {
        if !self.has_room() {
            return;
        }
        let next = self.next;
        // SAFETY: `next` is below `end`, both multiples of an event's 16 bytes in a mapping that
        // outlives the cursor.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            {
                let (low, high) = halves();
                next.cast::<u32>().write_volatile(low);
                next.cast::<u32>().add(1).write_volatile(high);
            }
            #[cfg(not(target_arch = "x86_64"))]
            next.write_volatile(counter());
            let word = AtomicU64::from_ptr(next.add(1));
            word.store(u64::from(tag) | VALID, Ordering::Release);
            self.next = next.add(2);
        }
    }

    /// Number of events that still fit.
    pub(crate) fn room(&self) -> usize {
        (self.end as usize).saturating_sub(self.next as usize) / 16
    }
}
