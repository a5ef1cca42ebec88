// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Buffers whose type says who owns them.
//!
//! A [`Buffer`] is a unique handle to a range of memory. It is moved into a request and moved back
//! with the completion: in between, the submitter has no way to touch it. Dropping a buffer gives
//! up the handle and frees nothing; the code that made it knows what to free.
//!
//! This module and `barrier` are the crate's only ones with `unsafe`.
#![allow(unsafe_code)]

use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

/// A range of memory that a device may fill or store.
#[derive(Debug)]
pub struct Buffer {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a Buffer is the only handle to its memory, as an owned slice would be.
unsafe impl Send for Buffer {}
// SAFETY: `&Buffer` gives only `&[u8]`.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// A buffer over `'static` memory.
    pub fn from_static(memory: &'static mut [u8]) -> Self {
        Self {
            len: memory.len(),
            start: NonNull::from(memory).cast(),
        }
    }

    /// A buffer over `len` bytes from `start` on.
    ///
    /// # Safety
    /// Until this buffer, and each buffer that it is split into, is dropped or taken apart with
    /// [`into_raw`](Buffer::into_raw): the memory is valid and initialised, nothing else reads or
    /// writes it, and `len` is at most `isize::MAX`. While a device holds the buffer the memory
    /// must stay mapped even if the handle is leaked.
    pub const unsafe fn from_raw(start: NonNull<u8>, len: usize) -> Self {
        Self { start, len }
    }

    /// The memory, with no handle to it left.
    pub const fn into_raw(self) -> (NonNull<u8>, usize) {
        (self.start, self.len)
    }

    /// The address of the first byte.
    #[inline]
    pub fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// Length in bytes.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first `at` bytes and the rest; `at` past the end gives everything and nothing.
    pub fn split_at(self, at: usize) -> (Buffer, Buffer) {
        let at = at.min(self.len);
        // SAFETY: `at` is at most `len`, so both parts lie within this buffer's memory.
        let second = unsafe { self.start.add(at) };
        (
            Buffer {
                start: self.start,
                len: at,
            },
            Buffer {
                start: second,
                len: self.len - at,
            },
        )
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the constructor's contract: valid, initialised, and ours alone.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for Deref, and `&mut self` is the only handle.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

/// A buffer that is lent out in pieces, one after another, and is whole again when each piece is
/// back. This is how one large transfer becomes several requests without copying.
#[derive(Debug)]
pub struct Lent {
    whole: Buffer,
    lent_bytes: usize,
    returned_bytes: usize,
}

impl Lent {
    /// Prepares `whole` to be lent.
    pub const fn new(whole: Buffer) -> Self {
        Self {
            whole,
            lent_bytes: 0,
            returned_bytes: 0,
        }
    }

    /// The address of the whole's first byte.
    pub fn address(&self) -> usize {
        self.whole.address()
    }

    /// Bytes that have not been lent yet.
    pub const fn remaining_bytes(&self) -> usize {
        self.whole.len - self.lent_bytes
    }

    /// Offset at which the next piece starts.
    pub const fn offset_bytes(&self) -> usize {
        self.lent_bytes
    }

    /// Lends the next `len` bytes, or what is left of them.
    pub fn lend(&mut self, len: usize) -> Buffer {
        let len = len.min(self.remaining_bytes());
        // SAFETY: within `whole`, and disjoint from every piece lent before because the offset
        // only grows; `whole` itself cannot be reached before all pieces are back.
        let start = unsafe { self.whole.start.add(self.lent_bytes) };
        let piece = Buffer { start, len };
        self.lent_bytes += len;
        piece
    }

    /// Takes a piece back and returns its offset in the whole.
    ///
    /// # Errors
    /// Gives the piece back if it is not part of this buffer.
    pub fn give_back(&mut self, piece: Buffer) -> Result<usize, Buffer> {
        let offset = piece.address().wrapping_sub(self.whole.address());
        let inside = offset <= self.lent_bytes && piece.len <= self.lent_bytes - offset;
        if !inside {
            return Err(piece);
        }
        self.returned_bytes += piece.len;
        Ok(offset)
    }

    /// Takes back `rest`, the end of the piece that was lent last, so that the next piece begins
    /// with it. If `rest` is anything else it is dropped, and the whole buffer can no longer be
    /// recovered.
    pub fn unlend(&mut self, rest: Buffer) {
        let offset = rest.address().wrapping_sub(self.whole.address());
        if offset <= self.lent_bytes && rest.len == self.lent_bytes - offset {
            self.lent_bytes = offset;
        }
    }

    /// The whole buffer, once each lent piece is back.
    ///
    /// # Errors
    /// Gives itself back while a piece is missing.
    pub fn into_whole(self) -> Result<Buffer, Lent> {
        if self.returned_bytes == self.lent_bytes {
            Ok(self.whole)
        } else {
            Err(self)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;
    use std::vec;

    fn buffer(len: usize) -> Buffer {
        Buffer::from_static(Box::leak(vec![0u8; len].into_boxed_slice()))
    }

    #[test]
    fn split_parts_are_disjoint_and_complete() {
        let (mut first, mut second) = buffer(10).split_at(4);
        assert_eq!((first.len(), second.len()), (4, 6));
        first.fill(1);
        second.fill(2);
        assert_eq!(first[3], 1);
        assert_eq!(second.address(), first.address() + 4);
        let (all, none) = second.split_at(99);
        assert_eq!((all.len(), none.is_empty()), (6, true));
    }

    #[test]
    fn the_end_of_the_last_piece_can_be_lent_again() {
        let mut lent = Lent::new(buffer(10));
        let (first, rest) = lent.lend(8).split_at(3);
        lent.unlend(rest);
        assert_eq!(lent.offset_bytes(), 3);
        let second = lent.lend(99);
        assert_eq!(second.len(), 7);
        for piece in [second, first] {
            assert!(lent.give_back(piece).is_ok());
        }
        assert_eq!(lent.into_whole().unwrap().len(), 10);
    }

    #[test]
    fn lent_is_whole_only_when_all_pieces_are_back() {
        let mut lent = Lent::new(buffer(10));
        let first = lent.lend(6);
        let second = lent.lend(6);
        assert_eq!(
            (first.len(), second.len(), lent.remaining_bytes()),
            (6, 4, 0)
        );
        assert_eq!(lent.give_back(second).unwrap(), 6);
        let mut lent = lent.into_whole().unwrap_err();
        assert!(lent.give_back(buffer(1)).is_err());
        assert_eq!(lent.give_back(first).unwrap(), 0);
        assert_eq!(lent.into_whole().unwrap().len(), 10);
    }
}
