// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One buffer for the same write on several members.
//!
//! This is the crate's only module with `unsafe`.
#![allow(unsafe_code)]

use block::{Buffer, Operation};
use core::ptr::NonNull;

/// A write of `bytes`, part of a buffer that the mirror keeps, untouched, until the write has
/// completed.
pub fn write(bytes: &[u8], lba: u64, fua: bool) -> Operation {
    // SAFETY: valid and initialised as `bytes` are, whose buffer the mirror keeps until all its
    // writes have come back. The handle is only ever part of a write, whose buffer a device reads
    // and does not change, so every access is a read; dropping the handle frees nothing.
    let buffer = unsafe { Buffer::from_raw(NonNull::from(bytes).cast(), bytes.len()) };
    Operation::Write { lba, buffer, fua }
}
