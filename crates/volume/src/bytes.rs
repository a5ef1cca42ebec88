// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Little-endian fields of a node, without panics: a field past the end reads as zero and is not
//! written. Offsets come from [`crate::layout`], so neither happens.
//!
//! None is inlined: a small core loads a possibly unaligned field byte by byte, and nothing here is
//! on the data path.

#[inline(never)]
pub(crate) fn get_u16(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes(array(bytes, offset))
}

#[inline(never)]
pub(crate) fn get_u32(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(array(bytes, offset))
}

#[inline(never)]
pub(crate) fn get_u64(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(array(bytes, offset))
}

pub(crate) fn get_u8(bytes: &[u8], offset: usize) -> u8 {
    bytes.get(offset).copied().unwrap_or(0)
}

pub(crate) fn array<const LEN: usize>(bytes: &[u8], offset: usize) -> [u8; LEN] {
    bytes
        .get(offset..)
        .and_then(|rest| rest.first_chunk())
        .copied()
        .unwrap_or([0; LEN])
}

#[inline(never)]
pub(crate) fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(offset..offset + value.len()) {
        place.copy_from_slice(value);
    }
}

#[inline(never)]
pub(crate) fn put_u32(bytes: &mut [u8], offset: usize, value: u32) {
    put(bytes, offset, &value.to_le_bytes());
}

#[inline(never)]
pub(crate) fn put_u64(bytes: &mut [u8], offset: usize, value: u64) {
    put(bytes, offset, &value.to_le_bytes());
}
