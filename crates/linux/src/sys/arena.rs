// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Buffers over memory that one owner maps and unmaps.
//!
//! A device may be using a buffer even if its handle was dropped, so memory with a buffer that was
//! not given back is never unmapped: it is leaked, which costs address space and pages until the
//! process ends, whereas unmapping would let a device write to whatever uses the memory next.
#![allow(unsafe_code)]

use super::map::Mapping;
use block::Buffer;
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::sync::{Mutex, MutexGuard};

/// Buffers begin at multiples of this: the smallest page of a host and of a controller.
pub(crate) const PAGE_BYTES: usize = 4096;

/// Memory and the buffers in it.
#[derive(Debug)]
pub(crate) struct Arena {
    mapping: ManuallyDrop<Mapping>,
    /// The total number of bytes for buffers.
    room: usize,
    books: Mutex<Books>,
}

/// Which pages are free and which are in use, by offset in bytes.
#[derive(Debug)]
struct Books {
    /// Length of each free run, a multiple of the page. No two touch.
    free: BTreeMap<usize, usize>,
    /// Length of each buffer in use, in bytes.
    out: BTreeMap<usize, usize>,
}

impl Arena {
    /// Buffers in only a part of the mapping: `start` and `len` in bytes, whole pages of it.
    pub(crate) fn of_part(mapping: Mapping, start: usize, len: usize) -> Self {
        let start = start.min(mapping.len()).next_multiple_of(PAGE_BYTES);
        let len = len.min(mapping.len().saturating_sub(start)) & !(PAGE_BYTES - 1);
        let books = Books {
            free: BTreeMap::from([(start, len)]),
            out: BTreeMap::new(),
        };
        Self {
            mapping: ManuallyDrop::new(mapping),
            room: len,
            books: Mutex::new(books),
        }
    }

    pub(crate) fn address(&self) -> usize {
        self.mapping.address()
    }

    pub(crate) fn len(&self) -> usize {
        self.mapping.len()
    }

    pub(crate) const fn room(&self) -> usize {
        self.room
    }

    /// A buffer of `len` bytes at a multiple of `align_bytes` (a power of two, at least a page), or
    /// `None` if no free run is long enough.
    pub(crate) fn allocate(&self, len: usize, align_bytes: usize) -> Option<Buffer> {
        let room = len.max(1).checked_next_multiple_of(PAGE_BYTES)?;
        let align = align_bytes.max(PAGE_BYTES);
        // Bytes that are skipped so that the address is a multiple.
        let skipped = |offset: usize| (self.address() + offset).wrapping_neg() & (align - 1);
        let mut books = self.books();
        let fits = |&(&offset, &free): &(&usize, &usize)| {
            let needed = room.checked_add(skipped(offset));
            needed.is_some_and(|needed| needed <= free)
        };
        let (&begin, &free) = books.free.iter().find(fits)?;
        books.free.remove(&begin);
        let offset = begin + skipped(begin);
        let (end, free_end) = (offset + room, begin + free);
        if begin < offset {
            books.free.insert(begin, offset - begin);
        }
        if end < free_end {
            books.free.insert(end, free_end - end);
        }
        books.out.insert(offset, len);
        // SAFETY: `offset + len` is inside the mapping, which is initialised (zeroes at first) and
        // is not unmapped while `out` names this buffer; `free` and `out` never overlap, so no
        // other buffer reaches these bytes.
        Some(unsafe { Buffer::from_raw(self.mapping.start().add(offset), len) })
    }

    /// Takes a buffer back; refuses anything but a whole buffer of this memory.
    pub(crate) fn give_back(&self, buffer: Buffer) -> Result<(), Buffer> {
        let offset = buffer.address().wrapping_sub(self.address());
        let mut books = self.books();
        if books.out.get(&offset) != Some(&buffer.len()) {
            return Err(buffer);
        }
        books.out.remove(&offset);
        let mut start = offset;
        let mut len = buffer.len().max(1).next_multiple_of(PAGE_BYTES);
        let before = books.free.range(..offset).next_back();
        if let Some((&before, &before_len)) = before.filter(|(at, len)| *at + *len == offset) {
            books.free.remove(&before);
            start = before;
            len += before_len;
        }
        if let Some(after) = books.free.remove(&(start + len)) {
            len += after;
        }
        books.free.insert(start, len);
        Ok(())
    }

    pub(crate) fn buffers_out(&self) -> usize {
        self.books().out.len()
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        // No code that holds the lock can panic, so a poisoned one is still consistent.
        self.books
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if self.buffers_out() == 0 {
            // SAFETY: dropped once, here, and no buffer points into it.
            unsafe { ManuallyDrop::drop(&mut self.mapping) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arena(pages: usize) -> Arena {
        let len = pages * PAGE_BYTES;
        Arena::of_part(Mapping::anonymous(len).unwrap(), 0, len)
    }

    #[test]
    fn buffers_are_aligned_disjoint_and_reused() {
        let arena = arena(4);
        let mut first = arena.allocate(1, PAGE_BYTES).unwrap();
        let second = arena.allocate(2 * PAGE_BYTES, PAGE_BYTES).unwrap();
        assert_eq!(first.address() % PAGE_BYTES, 0);
        assert_eq!(second.address(), first.address() + PAGE_BYTES);
        assert!(second.iter().all(|&byte| byte == 0));
        first.fill(9);
        assert!(arena.allocate(2 * PAGE_BYTES, PAGE_BYTES).is_none());
        arena.give_back(first).unwrap();
        arena.give_back(second).unwrap();
        assert_eq!(arena.buffers_out(), 0);
        assert_eq!(
            arena.allocate(4 * PAGE_BYTES, PAGE_BYTES).unwrap().len(),
            4 * PAGE_BYTES
        );
    }

    #[test]
    fn a_buffer_can_be_aligned_to_more_than_a_page() {
        let pages = 64;
        let arena = arena(pages);
        for align in [8 << 10, 16 << 10, 64 << 10] {
            // One page out first, so that the next free address is not aligned by chance.
            let page = arena.allocate(PAGE_BYTES, PAGE_BYTES).unwrap();
            let one = arena.allocate(align, align).unwrap();
            let other = arena.allocate(1, align).unwrap();
            assert_eq!((one.address() % align, other.address() % align), (0, 0));
            assert!(one.address().abs_diff(other.address()) >= align);
            for buffer in [one, page, other] {
                arena.give_back(buffer).unwrap();
            }
            // The skipped bytes are free again, in one run.
            let whole = arena.allocate(pages * PAGE_BYTES, PAGE_BYTES).unwrap();
            arena.give_back(whole).unwrap();
        }
        assert!(arena.allocate(pages * PAGE_BYTES, 1 << 40).is_none());
        assert!(arena.allocate(usize::MAX - PAGE_BYTES, 1 << 16).is_none());
    }

    #[test]
    fn a_part_of_a_mapping_keeps_to_itself() {
        let mapping = Mapping::anonymous(8 * PAGE_BYTES).unwrap();
        let arena = Arena::of_part(mapping, 2 * PAGE_BYTES, 3 * PAGE_BYTES);
        assert_eq!(arena.room(), 3 * PAGE_BYTES);
        let buffer = arena.allocate(3 * PAGE_BYTES, PAGE_BYTES).unwrap();
        assert_eq!(buffer.address(), arena.address() + 2 * PAGE_BYTES);
        assert!(arena.allocate(1, PAGE_BYTES).is_none());
        arena.give_back(buffer).unwrap();
    }

    #[test]
    fn pieces_and_strangers_are_refused() {
        let (one, other) = (arena(2), arena(2));
        let buffer = one.allocate(PAGE_BYTES, PAGE_BYTES).unwrap();
        let buffer = other.give_back(buffer).unwrap_err();
        let (piece, rest) = buffer.split_at(512);
        assert!(one.give_back(piece).is_err());
        assert!(one.give_back(rest).is_err());
        assert_eq!(one.buffers_out(), 1);
    }

    #[test]
    fn memory_stays_while_a_buffer_is_out() {
        let arena = arena(1);
        let mut buffer = arena.allocate(100, PAGE_BYTES).unwrap();
        drop(arena);
        buffer.fill(1);
        assert_eq!(buffer[99], 1);
    }

    #[test]
    fn free_runs_join_in_any_order_of_return() {
        let arena = arena(6);
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1]] {
            let mut out: Vec<_> = (0..3)
                .map(|_| Some(arena.allocate(2 * PAGE_BYTES, PAGE_BYTES).unwrap()))
                .collect();
            assert!(arena.allocate(1, PAGE_BYTES).is_none());
            for index in order {
                arena.give_back(out[index].take().unwrap()).unwrap();
            }
            let whole = arena.allocate(6 * PAGE_BYTES, PAGE_BYTES).unwrap();
            arena.give_back(whole).unwrap();
        }
    }
}
