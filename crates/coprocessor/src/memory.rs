// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The crate's only module with `unsafe`: the shared window, which both sides read and write.
//!
//! Every access is one volatile instruction, or a copy made of them, inside bounds that were
//! checked. No value that decisions depend on is read twice: it is copied out first.
#![allow(unsafe_code)]

use core::ptr::NonNull;

use block::{Buffer, barrier};

/// The shared window, as mapped on this side.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: it is only an address; each access is volatile and tolerates concurrent ones.
unsafe impl Send for Window {}
// SAFETY: as for Send.
unsafe impl Sync for Window {}

impl Window {
    /// The window at `start`.
    ///
    /// # Safety
    /// The memory is mapped, readable and writable for as long as this or a copy of it is used,
    /// begins at a multiple of 4,096, and no Rust reference to any of it is made except the buffers
    /// that come from here.
    pub const unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        Self { start, len }
    }

    /// Length in bytes.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of the first byte.
    #[inline(always)]
    pub fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// A 32-bit word; all ones outside the window.
    #[inline(always)]
    pub fn read32(&self, offset: usize) -> u32 {
        if offset & 3 != 0 || offset >= self.len & !3 {
            return u32::MAX;
        }
        // SAFETY: aligned and inside, as just checked.
        u32::from_le(unsafe { self.start.add(offset).cast::<u32>().read_volatile() })
    }

    /// Writes a 32-bit word; does nothing outside the window.
    #[inline(always)]
    pub fn write32(&self, offset: usize, value: u32) {
        if offset & 3 != 0 || offset >= self.len & !3 {
            return;
        }
        // SAFETY: aligned and inside, as just checked.
        unsafe {
            self.start
                .add(offset)
                .cast::<u32>()
                .write_volatile(value.to_le());
        }
    }

    /// A 64-bit word, as two halves.
    pub fn read64(&self, offset: usize) -> u64 {
        let low = u64::from(self.read32(offset));
        low | u64::from(self.read32(offset + 4)) << 32
    }

    /// Writes a 64-bit word, as two halves.
    pub fn write64(&self, offset: usize, value: u64) {
        self.write32(offset, value as u32);
        self.write32(offset + 4, (value >> 32) as u32);
    }

    /// Copies bytes out, up to the end of the window.
    pub fn copy_out(&self, offset: usize, target: &mut [u8]) {
        for (index, byte) in target.iter_mut().enumerate() {
            let at = offset.saturating_add(index);
            if at < self.len {
                // SAFETY: inside, as just checked.
                *byte = unsafe { self.start.add(at).read_volatile() };
            }
        }
    }

    /// Copies bytes in, up to the end of the window.
    pub fn copy_in(&self, offset: usize, source: &[u8]) {
        for (index, &byte) in source.iter().enumerate() {
            let at = offset.saturating_add(index);
            if at < self.len {
                // SAFETY: inside, as just checked.
                unsafe { self.start.add(at).write_volatile(byte) };
            }
        }
    }

    /// Zeroes a range.
    pub fn clear(&self, offset: usize, len: usize) {
        for at in (offset..offset.saturating_add(len)).step_by(4) {
            self.write32(at, 0);
        }
    }

    /// A buffer over a range of the window: `None` if it is not inside. The other side may change
    /// its content at any time: it is data, and no decision may depend on it.
    #[inline(always)]
    pub fn buffer(&self, offset: usize, len: usize) -> Option<Buffer> {
        if len > self.len || offset > self.len - len {
            return None;
        }
        // SAFETY: inside the mapping, which outlives every use (the constructor's promise). Bytes
        // have no invalid values; the other side's writes are like those of a device that reads or
        // fills the buffer.
        Some(unsafe { Buffer::from_raw(self.start.add(offset), len) })
    }

    /// A ring's words from `offset` on; `None` if they are not inside or not aligned.
    pub(crate) fn ring(&self, offset: usize, len: usize) -> Option<Ring> {
        let is_inside = offset & 15 == 0 && len <= self.len && offset <= self.len - len;
        if !is_inside {
            return None;
        }
        // SAFETY: inside, as just checked.
        let start = unsafe { self.start.add(offset) };
        Some(Ring { start, len })
    }
}

/// A range of the window that was checked once, for accesses on the path of every command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: as for Window.
unsafe impl Send for Ring {}
// SAFETY: as for Window.
unsafe impl Sync for Ring {}

impl Ring {
    /// No words: nothing is read or written.
    #[cfg(feature = "service")]
    pub(crate) const EMPTY: Self = Self {
        start: NonNull::dangling(),
        len: 0,
    };

    /// A word at a constant offset.
    #[inline(always)]
    pub(crate) fn read<const OFFSET: usize>(&self) -> u32 {
        debug_assert!(OFFSET + 4 <= self.len);
        if OFFSET + 4 > self.len {
            return u32::MAX;
        }
        // SAFETY: inside, as just checked; the start is aligned to 16.
        u32::from_le(unsafe { self.start.add(OFFSET & !3).cast::<u32>().read_volatile() })
    }

    /// Writes a word at a constant offset.
    #[inline(always)]
    pub(crate) fn write<const OFFSET: usize>(&self, value: u32) {
        if OFFSET + 4 <= self.len {
            // SAFETY: inside, as just checked; the start is aligned to 16.
            unsafe {
                self.start
                    .add(OFFSET & !3)
                    .cast::<u32>()
                    .write_volatile(value.to_le());
            }
        }
    }

    /// The submission entry at `index`, copied out once.
    #[cfg(feature = "service")]
    #[inline(always)]
    pub(crate) fn command(&self, index: u32) -> [u64; 4] {
        let offset = index as usize * 32;
        if offset + 32 > self.len {
            return [0; 4];
        }
        // SAFETY: inside, as just checked; aligned to 16.
        unsafe {
            let place = self.start.add(offset).cast::<u32>();
            let word = |at: usize| u64::from(u32::from_le(place.add(at).read_volatile()));
            [
                word(0) | word(1) << 32,
                word(2) | word(3) << 32,
                word(4) | word(5) << 32,
                word(6) | word(7) << 32,
            ]
        }
    }

    /// Writes a submission entry.
    #[cfg(feature = "client")]
    #[inline(always)]
    pub(crate) fn set_command(&self, index: u32, entry: [u64; 4]) {
        let offset = index as usize * 32;
        if offset + 32 > self.len {
            return;
        }
        // SAFETY: inside, as just checked; aligned to 16. Published by the doorbell's barrier.
        unsafe {
            let place = self.start.add(offset).cast::<u64>();
            let [first, second, third, fourth] = entry;
            place.write_volatile(first.to_le());
            place.add(1).write_volatile(second.to_le());
            place.add(2).write_volatile(third.to_le());
            place.add(3).write_volatile(fourth.to_le());
        }
    }

    /// The first word of the completion at `index`.
    #[cfg(feature = "client")]
    #[inline(always)]
    pub(crate) fn answer_word(&self, index: u32) -> u32 {
        let offset = index as usize * 16;
        if offset + 16 > self.len {
            return 0;
        }
        // SAFETY: inside, as just checked; aligned to 16.
        u32::from_le(unsafe { self.start.add(offset).cast::<u32>().read_volatile() })
    }

    /// The rest of the completion at `index`, after its first word was read.
    #[cfg(feature = "client")]
    #[inline(always)]
    pub(crate) fn answer(&self, index: u32, first: u32) -> [u32; 4] {
        let offset = index as usize * 16;
        if offset + 16 > self.len {
            return [0; 4];
        }
        barrier::after_entry();
        // SAFETY: inside, as just checked; aligned to 16.
        unsafe {
            let place = self.start.add(offset).cast::<u32>();
            let word = |at: usize| u32::from_le(place.add(at).read_volatile());
            [first, word(1), word(2), word(3)]
        }
    }

    /// Writes a completion, its first word last.
    #[cfg(feature = "service")]
    #[inline(always)]
    pub(crate) fn set_answer(&self, index: u32, entry: [u32; 4]) {
        let offset = index as usize * 16;
        if offset + 16 > self.len {
            return;
        }
        // SAFETY: inside, as just checked; aligned to 16.
        unsafe {
            let place = self.start.add(offset).cast::<u32>();
            let [first, second, third, fourth] = entry;
            place.add(1).write_volatile(second.to_le());
            place.add(2).write_volatile(third.to_le());
            place.add(3).write_volatile(fourth.to_le());
            barrier::before_index();
            place.write_volatile(first.to_le());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::window;

    #[test]
    fn accesses_outside_do_nothing() {
        let window = window(8192);
        window.write32(8188, 7);
        window.write32(8192, 8);
        window.write32(8190, 9);
        window.write32(usize::MAX & !3, 9);
        assert_eq!(window.read32(8188), 7);
        assert_eq!(window.read32(8192), u32::MAX);
        assert!(window.buffer(8192, 1).is_none());
        assert!(window.buffer(1, usize::MAX).is_none());
        assert_eq!(window.buffer(8191, 1).map(|buffer| buffer.len()), Some(1));
        window.copy_in(8190, b"abc");
        let mut bytes = [0; 4];
        window.copy_out(8189, &mut bytes);
        assert_eq!(&bytes, &[0, b'a', b'b', 0]);
        assert!(window.ring(8, 16).is_none() && window.ring(8192, 16).is_none());
    }
}
