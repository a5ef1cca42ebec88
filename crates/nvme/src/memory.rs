// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The crate's only module with `unsafe`: memory that the controller also writes, and the lock
//! around the admin queue.
//!
//! Rings and lists keep raw pointers into a [`Buffer`] that the driver owns for as long as the
//! controller may touch it. Every index is masked or checked here, so no caller can reach outside.
#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

use block::Buffer;

use crate::platform::Dma;
use crate::status::Cqe3;

/// A range of memory shared with the controller, contiguous on the bus.
#[derive(Debug)]
pub(crate) struct Shared {
    buffer: Buffer,
    bus: u64,
    /// Bytes given out by [`take`](Shared::take) so far.
    taken: usize,
}

/// A part of a [`Shared`] range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    start: NonNull<u8>,
    pub(crate) len: usize,
    pub(crate) bus: u64,
}

// SAFETY: a Part points into a Buffer that its owner also holds; it is used through `&mut` of
// that owner only, and the controller's accesses are what volatile and fences are for.
unsafe impl Send for Part {}

impl Shared {
    /// Takes `buffer` for use with the controller.
    ///
    /// Returns it as the error if it is not contiguous on the bus and aligned to a page of
    /// `page_bytes`.
    pub(crate) fn new<D: Dma>(buffer: Buffer, dma: &D, page_bytes: usize) -> Result<Self, Buffer> {
        let run = match dma.bus_run(buffer.address(), buffer.len()) {
            Some(run) if run.contiguous_bytes >= buffer.len() => run,
            _ => return Err(buffer),
        };
        if (run.address as usize | buffer.address()) & (page_bytes - 1) != 0 {
            return Err(buffer);
        }
        let mut shared = Self {
            buffer,
            bus: run.address,
            taken: 0,
        };
        shared.buffer.fill(0);
        dma.clean(shared.buffer.address(), shared.buffer.len());
        Ok(shared)
    }

    /// The next `len` bytes, zeroed; `None` when fewer are left.
    pub(crate) fn take(&mut self, len: usize) -> Option<Part> {
        let offset = self.taken;
        let end = offset.checked_add(len)?;
        let bytes = self.buffer.get_mut(offset..end)?;
        self.taken = end;
        Some(Part {
            start: NonNull::from(bytes).cast(),
            len,
            bus: self.bus + offset as u64,
        })
    }

    /// The memory, for its owner; the controller must no longer use it.
    pub(crate) fn into_buffer(self) -> Buffer {
        self.buffer
    }
}

impl Part {
    /// Its address.
    #[inline(always)]
    pub(crate) fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// Zeroes all of it.
    // Called from several slow paths: one copy of the code is enough.
    #[inline(never)]
    pub(crate) fn clear(&self) {
        let words = (0..self.len).step_by(4);
        words
            .filter_map(|offset| self.word(offset))
            .for_each(|word| word.write(0));
    }

    /// Stores bytes from the start on, as far as there is room.
    pub(crate) fn copy_in(&self, source: &[u8]) {
        for (index, byte) in source.iter().enumerate().take(self.len) {
            // SAFETY: inside, as just limited.
            unsafe { self.start.add(index).write_volatile(*byte) };
        }
    }

    /// The part from byte `offset` on; `None` past the end.
    pub(crate) fn from(&self, offset: usize) -> Option<Self> {
        let len = self.len.checked_sub(offset)?;
        Some(Self {
            // SAFETY: at most one past the end, as just checked.
            start: unsafe { self.start.add(offset) },
            len,
            bus: self.bus + offset as u64,
        })
    }

    /// The 32-bit word at byte `offset`; `None` past the end.
    pub(crate) fn word(&self, offset: usize) -> Option<Word> {
        let inside = offset & 3 == 0 && offset + 4 <= self.len;
        // SAFETY: aligned and inside, as just checked.
        inside.then(|| Word(unsafe { self.start.add(offset) }.cast()))
    }

    /// Copies from the beginning into `target`, as far as both reach.
    pub(crate) fn copy_out(&self, target: &mut [u8]) {
        for (index, byte) in target.iter_mut().enumerate() {
            if index < self.len {
                // SAFETY: inside, as just checked.
                *byte = unsafe { self.start.add(index).read_volatile() };
            }
        }
    }
}

/// A word that the controller also reads or writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word(NonNull<u32>);

// SAFETY: as for Part.
unsafe impl Send for Word {}

impl Word {
    #[inline(always)]
    pub(crate) fn read(self) -> u32 {
        // SAFETY: a word of a Part.
        u32::from_le(unsafe { self.0.read_volatile() })
    }

    #[inline(always)]
    pub(crate) fn write(self, value: u32) {
        // SAFETY: a word of a Part.
        unsafe { self.0.write_volatile(value.to_le()) }
    }
}

/// What the driver sets in a submission queue entry. The other words (metadata pointer, command
/// dwords 14 and 15, reserved) are zero in a fresh ring and stay so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sqe {
    /// Command dword 0 in the low half, NSID in the high one.
    pub(crate) dwords_0_1: u64,
    pub(crate) prp1: u64,
    pub(crate) prp2: u64,
    pub(crate) dwords_10_11: u64,
    pub(crate) dwords_12_13: u64,
}

/// A submission queue's memory and its tail.
#[derive(Debug)]
pub(crate) struct SubmissionRing {
    start: NonNull<u8>,
    /// Byte offset of the next entry.
    offset: u32,
    /// Length in bytes minus one; a power of two minus one.
    mask: u32,
}

// SAFETY: as for Part.
unsafe impl Send for SubmissionRing {}

impl SubmissionRing {
    const ENTRY: u32 = 64;

    /// A ring of `entries`, a power of two, in `part`.
    pub(crate) fn new(part: Part, entries: u32) -> Option<Self> {
        let len = entries.checked_mul(Self::ENTRY)?;
        (len.is_power_of_two() && part.len >= len as usize).then_some(Self {
            start: part.start,
            offset: 0,
            mask: len - 1,
        })
    }

    /// Restarts at the first entry; the controller must not use the ring.
    pub(crate) fn restart(&mut self) {
        self.offset = 0;
    }

    /// Index of the next entry.
    #[inline(always)]
    pub(crate) fn tail(&self) -> u32 {
        self.offset / Self::ENTRY
    }

    /// Entries minus one.
    #[inline(always)]
    pub(crate) fn mask(&self) -> u32 {
        self.mask / Self::ENTRY
    }

    /// Whether entries were written since the tail was `tail`.
    #[inline(always)]
    pub(crate) fn has_passed(&self, tail: u32) -> bool {
        self.offset != tail * Self::ENTRY
    }

    /// Writes the next entry. The caller ensures that one is free: the driver never has more than
    /// half a ring outstanding.
    #[inline(always)]
    pub(crate) fn push<D: Dma>(&mut self, dma: &D, sqe: Sqe) {
        // SAFETY: the offset is always a multiple of an entry within the ring, whose start is
        // aligned to a page. Published by the doorbell's barrier.
        unsafe {
            let place = self.start.add(self.offset as usize).cast::<u64>();
            place.write(sqe.dwords_0_1.to_le());
            place.add(3).write(sqe.prp1.to_le());
            place.add(4).write(sqe.prp2.to_le());
            place.add(5).write(sqe.dwords_10_11.to_le());
            place.add(6).write(sqe.dwords_12_13.to_le());
        }
        let address = self.start.as_ptr() as usize + self.offset as usize;
        dma.clean(address, Self::ENTRY as usize);
        self.offset = (self.offset + Self::ENTRY) & self.mask;
    }
}

/// A completion queue's memory, its head and the phase that a new entry has.
#[derive(Debug)]
pub(crate) struct CompletionRing {
    start: NonNull<u32>,
    /// The entry at the head; always within the ring.
    next: NonNull<u32>,
    /// The middle or the end of the ring, whichever comes next.
    half_end: NonNull<u32>,
    /// The phase tag (bit 16) that a new entry has.
    phase: u32,
    /// Entries minus one.
    mask: u32,
    /// The head has passed the middle or the end since this was cleared.
    pub(crate) half_consumed: bool,
}

// SAFETY: as for Part.
unsafe impl Send for CompletionRing {}

impl CompletionRing {
    /// Words in an entry.
    const ENTRY: usize = 4;

    /// A ring of `entries`, a power of two and at least two, in `part`.
    pub(crate) fn new(part: Part, entries: u32) -> Option<Self> {
        let bytes = (entries as usize).checked_mul(4 * Self::ENTRY)?;
        let start = part.start.cast::<u32>();
        let mut ring = Self {
            start,
            next: start,
            half_end: start,
            phase: 0,
            mask: entries.wrapping_sub(1),
            half_consumed: false,
        };
        ring.restart();
        (entries.is_power_of_two() && entries > 1 && part.len >= bytes).then_some(ring)
    }

    /// Restarts at the first entry of zeroed memory; the controller must not use the ring.
    pub(crate) fn restart(&mut self) {
        self.next = self.start;
        self.half_end = self.middle();
        self.phase = 1 << 16;
        self.half_consumed = false;
    }

    fn middle(&self) -> NonNull<u32> {
        let entries = self.mask as usize / 2 + 1;
        // SAFETY: half the ring's length from its start is inside it.
        unsafe { self.start.add(entries * Self::ENTRY) }
    }

    fn end(&self) -> NonNull<u32> {
        let entries = self.mask as usize + 1;
        // SAFETY: the ring's length from its start is at most one past the end of its memory.
        unsafe { self.start.add(entries * Self::ENTRY) }
    }

    /// Index of the next entry.
    #[inline(always)]
    pub(crate) fn head(&self) -> u32 {
        let bytes = self.next.as_ptr() as usize - self.start.as_ptr() as usize;
        (bytes / 16) as u32
    }

    /// Entries minus one.
    #[inline(always)]
    pub(crate) fn mask(&self) -> u32 {
        self.mask
    }

    /// The last word of the entry at the head, if the controller has written it.
    #[inline(always)]
    pub(crate) fn peek<D: Dma>(&self, dma: &D) -> Option<Cqe3> {
        dma.invalidate(self.next.as_ptr() as usize, 4 * Self::ENTRY);
        // SAFETY: `next` is an entry of the ring, and an entry has four words.
        let word = u32::from_le(unsafe { self.next.add(3).read_volatile() });
        Cqe3::new(word, self.phase)
    }

    /// The first word of the entry at the head, after it was peeked: command specific.
    pub(crate) fn specific<D: Dma>(&self, dma: &D) -> u32 {
        dma.after_entry();
        // SAFETY: `next` is an entry of the ring.
        u32::from_le(unsafe { self.next.read_volatile() })
    }

    /// Takes the entry at the head, if there is one, and returns what [`peek`](Self::peek) does.
    /// What the controller wrote before it is visible afterwards.
    #[inline(always)]
    pub(crate) fn take<D: Dma>(&mut self, dma: &D) -> Option<Cqe3> {
        let cqe3 = self.peek(dma)?;
        // SAFETY: at most the end, and then it wraps immediately.
        self.next = unsafe { self.next.add(Self::ENTRY) };
        if self.next == self.half_end {
            self.cross_half();
        }
        dma.after_entry();
        Some(cqe3)
    }

    #[cold]
    fn cross_half(&mut self) {
        self.half_consumed = true;
        if self.next == self.end() {
            self.next = self.start;
            self.half_end = self.middle();
            self.phase ^= 1 << 16;
        } else {
            self.half_end = self.end();
        }
    }
}

/// Where a command's PRP list is written: its own part of the queue's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    start: NonNull<u64>,
    pub(crate) bus: u64,
    entries: usize,
}

impl List {
    /// The list of slot `index` in `part`, which has `stride` bytes a slot.
    #[inline(always)]
    pub(crate) fn of_slot(part: &Part, index: usize, stride: usize) -> Option<Self> {
        let offset = index * stride;
        if offset + stride > part.len {
            return None;
        }
        // SAFETY: the slot's whole stride is inside the part, as just checked.
        let start = unsafe { part.start.add(offset) }.cast();
        Some(Self {
            start,
            bus: part.bus + offset as u64,
            entries: stride / 8,
        })
    }

    /// Its address and length in bytes.
    pub(crate) fn range(&self) -> (usize, usize) {
        (self.start.as_ptr() as usize, self.entries * 8)
    }

    /// Writes entry `index`; false past the end.
    #[inline(always)]
    pub(crate) fn write(&mut self, index: usize, value: u64) -> bool {
        if index >= self.entries {
            return false;
        }
        // SAFETY: inside, as just checked; published by the doorbell's barrier.
        unsafe { self.start.add(index).write(value.to_le()) };
        true
    }

    /// Writes entries `0..count` as `first`, `first + step`, ...; false if they do not fit.
    #[inline(always)]
    pub(crate) fn fill(&mut self, count: usize, first: u64, step: u64) -> bool {
        if count > self.entries {
            return false;
        }
        // SAFETY: `count` entries are inside, as just checked; published by the doorbell's barrier.
        let entries = unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), count) };
        #[cfg(target_pointer_width = "32")]
        if fill_below_carry(entries, first, step) {
            return true;
        }
        let mut value = first;
        for entry in entries {
            *entry = value.to_le();
            value += step;
        }
        true
    }
}

/// The same as the plain loop, for 4 KiB pages that all lie in the 4 GiB of the first one: a 32-bit
/// processor then adds and compares half as much. Returns false and writes nothing otherwise.
#[cfg(any(test, target_pointer_width = "32"))]
#[inline(always)]
fn fill_below_carry(entries: &mut [u64], first: u64, step: u64) -> bool {
    const STEP: u32 = 4096;
    let (mut low, high) = (first as u32, first >> 32 << 32);
    let most = (u32::MAX - low) / STEP;
    if step != u64::from(STEP) || entries.len() > most as usize {
        return false;
    }
    let at = |low: u32| (high | u64::from(low)).to_le();
    let mut fours = entries.chunks_exact_mut(4);
    for four in &mut fours {
        // Unrolled by hand: compilers for small processors do not unroll.
        if let [a, b, c, d] = four {
            *a = at(low);
            *b = at(low.wrapping_add(STEP));
            *c = at(low.wrapping_add(2 * STEP));
            *d = at(low.wrapping_add(3 * STEP));
        }
        low = low.wrapping_add(4 * STEP);
    }
    for entry in fours.into_remainder() {
        *entry = at(low);
        low = low.wrapping_add(STEP);
    }
    true
}

/// A lock that is tried and never waited for.
#[derive(Debug)]
pub(crate) struct TryLock<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `with` gives access to one thread at a time.
unsafe impl<T: Send> Sync for TryLock<T> {}

impl<T> TryLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self {
            taken: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Runs `action` with the value, or returns `None` immediately if it is taken.
    pub(crate) fn with<R>(&self, action: impl FnOnce(&mut T) -> R) -> Option<R> {
        if self.taken.swap(true, Ordering::Acquire) {
            return None;
        }
        struct Release<'a>(&'a AtomicBool);
        impl Drop for Release<'_> {
            fn drop(&mut self) {
                self.0.store(false, Ordering::Release);
            }
        }
        let _release = Release(&self.taken);
        // SAFETY: `taken` was false and is true now, so this is the only access until release.
        Some(action(unsafe { &mut *self.value.get() }))
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::fill_below_carry;

    #[test]
    fn halves_are_filled_as_wholes_are_or_not_at_all() {
        for first in [
            0,
            4096,
            0x1_2345_6000,
            0xffff_0000,
            0x7_ffff_e000,
            0xf000,
            1 << 32,
        ] {
            for count in 0..40 {
                let mut found = [7; 40];
                let is_filled = fill_below_carry(&mut found[..count], first, 4096);
                let plain = (0..count as u64).map(|index| (first + 4096 * index).to_le());
                if is_filled {
                    assert!(
                        plain.eq(found[..count].iter().copied()),
                        "{first:#x} {count}"
                    );
                } else {
                    let end = (first & 0xffff_ffff) + 4096 * count as u64;
                    assert!(end > 0xffff_f000 && found == [7; 40], "{first:#x} {count}");
                }
            }
        }
        let mut none = [7; 4];
        assert!(!fill_below_carry(&mut none, 0, 8192) && none == [7; 4]);
    }
}
