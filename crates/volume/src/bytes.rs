// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fields of a node. Offsets come from [`crate::layout`], so none is past the end.
//!
//! None is inlined: a small core loads a possibly unaligned field byte by byte, and nothing here is
//! on the data path.

use block::fields;
pub(crate) use block::fields::{array_at as array, u8_at as get_u8};

#[inline(never)]
pub(crate) fn get_u16(bytes: &[u8], offset: usize) -> u16 {
    fields::u16_at(bytes, offset)
}

#[inline(never)]
pub(crate) fn get_u32(bytes: &[u8], offset: usize) -> u32 {
    fields::u32_at(bytes, offset)
}

#[inline(never)]
pub(crate) fn get_u64(bytes: &[u8], offset: usize) -> u64 {
    fields::u64_at(bytes, offset)
}

#[inline(never)]
pub(crate) fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    fields::put(bytes, offset, value);
}

#[inline(never)]
pub(crate) fn put_u32(bytes: &mut [u8], offset: usize, value: u32) {
    put(bytes, offset, &value.to_le_bytes());
}

#[inline(never)]
pub(crate) fn put_u64(bytes: &mut [u8], offset: usize, value: u64) {
    put(bytes, offset, &value.to_le_bytes());
}
