// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Little-endian fields out of a page. A field past the end reads as zero, so a parser never
//! panics on a short page.

pub(crate) fn u8_at(page: &[u8], offset: usize) -> u8 {
    page.get(offset).copied().unwrap_or(0)
}

pub(crate) fn u16_at(page: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes(array_at(page, offset))
}

pub(crate) fn u32_at(page: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(array_at(page, offset))
}

pub(crate) fn u64_at(page: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(array_at(page, offset))
}

pub(crate) fn u128_at(page: &[u8], offset: usize) -> u128 {
    u128::from_le_bytes(array_at(page, offset))
}

pub(crate) fn array_at<const N: usize>(page: &[u8], offset: usize) -> [u8; N] {
    let field = page.get(offset..).and_then(|rest| rest.first_chunk());
    field.copied().unwrap_or([0; N])
}
