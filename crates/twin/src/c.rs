// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The twin for C and C++: `rtl/sim/twin.hpp` declares the same functions.
//!
//! `unsafe` is only here, for arguments from C that Rust cannot check: pointers with lengths, and
//! the handle that [`twin_new`] gave. Each function documents its assumptions.
//!
//! A name is bytes with a length and must be UTF-8. A function returns 0 or more on success, and
//! the negative number of a [`Status`] otherwise.
#![allow(unsafe_code)]

use core::slice;

use crate::twin::{Status, Twin};

/// The number for C.
fn number(result: Result<u64, Status>) -> i64 {
    match result {
        Ok(value) => i64::try_from(value).unwrap_or(i64::MAX),
        Err(status) => status as i64,
    }
}

fn done(result: Result<(), Status>) -> i64 {
    number(result.map(|()| 0))
}

/// # Safety
/// `start` and `len` are those of memory that C may read and that nothing changes during the call;
/// with a length of zero the address does not matter.
unsafe fn bytes<'a>(start: *const u8, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(start, len) }
}

/// # Safety
/// Same as [`bytes`].
unsafe fn text<'a>(start: *const u8, len: usize) -> Result<&'a str, Status> {
    // SAFETY: the caller's promise.
    core::str::from_utf8(unsafe { bytes(start, len) }).map_err(|_| Status::Other)
}

/// A disk of these bytes; null if they are not whole blocks.
///
/// # Safety
/// `image` and `len` are those of readable memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn twin_new(block_size_log2: u8, image: *const u8, len: usize) -> *mut Twin {
    // SAFETY: this function's promise.
    match Twin::new(block_size_log2, unsafe { bytes(image, len) }) {
        Ok(twin) => Box::into_raw(Box::new(twin)),
        Err(_) => core::ptr::null_mut(),
    }
}

/// Gives a twin's disk back.
///
/// # Safety
/// `twin` came from [`twin_new`] and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn twin_free(twin: *mut Twin) {
    // SAFETY: this function's promise.
    drop(unsafe { Box::from_raw(twin) });
}

/// Makes a volume on the disk; see [`Twin::format`].
///
/// # Safety
/// `twin` came from [`twin_new`]; nothing else uses it during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn twin_format(
    twin: *mut Twin,
    unit: u64,
    node: u32,
    slots: u32,
    uuid: u64,
    checksums: bool,
) -> i64 {
    let uuid = (u128::from(uuid) | 1 << 127).to_le_bytes();
    // SAFETY: this function's promise.
    done(unsafe { &mut *twin }.format(unit, node, slots, uuid, checksums))
}

/// See [`Twin::load`].
///
/// # Safety
/// As [`twin_format`]; `image` and `len` are those of readable memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn twin_load(twin: *mut Twin, image: *const u8, len: usize) -> i64 {
    // SAFETY: this function's promise.
    done(unsafe { (*twin).load(bytes(image, len)) })
}

/// The disk's bytes, or with `cut` one image that a power cut now may leave.
///
/// # Safety
/// As [`twin_format`]; `image` and `len` are those of writable memory, as long as the disk.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn twin_image(
    twin: *mut Twin,
    cut: bool,
    seed: u64,
    image: *mut u8,
    len: usize,
) -> i64 {
    // SAFETY: this function's promise.
    let twin = unsafe { &*twin };
    let bytes = if cut {
        twin.cut_image(seed)
    } else {
        twin.bytes()
    };
    if bytes.len() != len {
        return Status::Misuse as i64;
    }
    // SAFETY: the lengths are the same, and the copy is this function's own.
    unsafe { image.copy_from_nonoverlapping(bytes.as_ptr(), len) };
    0
}

/// See [`Twin::mount`].
///
/// # Safety
/// As [`twin_format`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn twin_mount(twin: *mut Twin, read_only: bool) -> i64 {
    // SAFETY: this function's promise.
    done(unsafe { &mut *twin }.mount(read_only))
}

/// See [`Twin::grow`].
///
/// # Safety
/// As [`twin_format`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn twin_grow(twin: *mut Twin) -> i64 {
    // SAFETY: this function's promise.
    done(unsafe { &mut *twin }.grow())
}

/// See [`Twin::unmount`].
///
/// # Safety
/// As [`twin_format`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn twin_unmount(twin: *mut Twin) -> i64 {
    // SAFETY: this function's promise.
    done(unsafe { &mut *twin }.unmount())
}

/// See [`Twin::abandon`].
///
/// # Safety
/// As [`twin_format`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn twin_abandon(twin: *mut Twin) {
    // SAFETY: this function's promise.
    unsafe { &mut *twin }.abandon();
}

/// See [`Twin::stop_after`].
///
/// # Safety
/// As [`twin_format`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn twin_stop_after(twin: *mut Twin, number: u64) {
    // SAFETY: this function's promise.
    unsafe { &*twin }.stop_after(number);
}

/// See [`Twin::is_off`].
///
/// # Safety
/// As [`twin_format`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn twin_is_off(twin: *mut Twin) -> bool {
    // SAFETY: this function's promise.
    unsafe { &*twin }.is_off()
}

/// See [`Twin::create`].
///
/// # Safety
/// As [`twin_format`]; the name is readable memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn twin_create(
    twin: *mut Twin,
    place: usize,
    name: *const u8,
    len: usize,
    reserve: u64,
    checksums: bool,
) -> i64 {
    // SAFETY: this function's promise.
    done(unsafe {
        text(name, len).and_then(|name| (*twin).create(place, name, reserve, checksums))
    })
}

/// See [`Twin::open`].
///
/// # Safety
/// As [`twin_create`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn twin_open(
    twin: *mut Twin,
    place: usize,
    name: *const u8,
    len: usize,
    to_write: bool,
) -> i64 {
    // SAFETY: this function's promise.
    done(unsafe { text(name, len).and_then(|name| (*twin).open(place, name, to_write)) })
}

/// See [`Twin::append`].
///
/// # Safety
/// As [`twin_format`]; the data are readable memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn twin_append(
    twin: *mut Twin,
    place: usize,
    data: *const u8,
    len: usize,
) -> i64 {
    // SAFETY: this function's promise.
    done(unsafe { (*twin).append(place, bytes(data, len)) })
}

/// See [`Twin::overwrite`].
///
/// # Safety
/// As [`twin_append`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn twin_overwrite(
    twin: *mut Twin,
    place: usize,
    offset: u64,
    data: *const u8,
    len: usize,
) -> i64 {
    // SAFETY: this function's promise.
    done(unsafe { (*twin).overwrite(place, offset, bytes(data, len)) })
}

/// See [`Twin::read`].
///
/// # Safety
/// As [`twin_format`]; the target is writable memory that nothing else uses during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn twin_read(
    twin: *mut Twin,
    place: usize,
    offset: u64,
    target: *mut u8,
    len: usize,
) -> i64 {
    if len == 0 {
        return 0;
    }
    // SAFETY: this function's promise.
    done(unsafe { (*twin).read(place, offset, slice::from_raw_parts_mut(target, len)) })
}

/// See [`Twin::commit`].
///
/// # Safety
/// As [`twin_format`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn twin_commit(twin: *mut Twin, place: usize, durable: bool) -> i64 {
    // SAFETY: this function's promise.
    done(unsafe { &mut *twin }.commit(place, durable))
}

/// See [`Twin::close`].
///
/// # Safety
/// As [`twin_format`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn twin_close(twin: *mut Twin, place: usize) -> i64 {
    // SAFETY: this function's promise.
    done(unsafe { &mut *twin }.close(place))
}

/// See [`Twin::delete`].
///
/// # Safety
/// As [`twin_create`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn twin_delete(twin: *mut Twin, name: *const u8, len: usize) -> i64 {
    // SAFETY: this function's promise.
    done(unsafe { text(name, len).and_then(|name| (*twin).delete(name)) })
}

/// See [`Twin::rename`].
///
/// # Safety
/// As [`twin_create`], for both names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn twin_rename(
    twin: *mut Twin,
    old: *const u8,
    old_len: usize,
    new: *const u8,
    new_len: usize,
) -> i64 {
    // SAFETY: this function's promise.
    let names = unsafe { (text(old, old_len), text(new, new_len)) };
    match names {
        // SAFETY: this function's promise.
        (Ok(old), Ok(new)) => done(unsafe { &mut *twin }.rename(old, new)),
        _ => Status::Other as i64,
    }
}

/// See [`Twin::size`].
///
/// # Safety
/// As [`twin_create`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn twin_size(twin: *mut Twin, name: *const u8, len: usize) -> i64 {
    // SAFETY: this function's promise.
    number(unsafe { text(name, len).and_then(|name| (*twin).size(name)) })
}

/// See [`Twin::check`].
///
/// # Safety
/// As [`twin_format`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn twin_check(twin: *mut Twin) -> i64 {
    // SAFETY: this function's promise.
    number(unsafe { &*twin }.check())
}
