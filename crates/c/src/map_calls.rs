// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The functions of `straightway.h` for files, and devices, as memory.
//!
//! `unsafe` is here for what C passes: pointers that must be valid, as the header says of each.
#![allow(unsafe_code)]
// Each function's contract with C is its documentation, which is in the header.
#![allow(clippy::missing_safety_doc)]

use crate::calls::{check_size, null, open, straightway_options, string};
use crate::error::{Fault, Status, finish, keep_error, usage};
use crate::handles::{self, Open};
use api::{Error, Map, MapOptions};
use std::ffi::{c_char, c_void};
use std::ops::Range;

/// A file of a volume, or a device, as memory. It belongs to the thread that opened it; all threads
/// can use the memory. 0 is none.
pub type straightway_map = u64;

/// How to map. Begin with STRAIGHTWAY_MAP_OPTIONS_INIT.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct straightway_map_options {
    /// sizeof(struct straightway_map_options).
    pub size: usize,
    /// Bytes that are read when one is touched: a power of two from 4096 to 2 MiB, or 0 for 64 KiB.
    /// Checksums are compared if it is at least that.
    pub page_bytes: usize,
    /// The most memory that holds content, or 0 for 64 MiB. Half of it can be stored to before it
    /// is written.
    pub memory_bytes: usize,
    /// Bytes that are read behind what is touched, for accesses in ascending order; or 0 for none.
    pub read_ahead_bytes: usize,
}

/// What a map has done so far.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct straightway_map_counters {
    /// sizeof(struct straightway_map_counters), set by the caller.
    pub size: usize,
    /// Times that a thread waited for a page.
    pub faults: u64,
    /// Pages that were read.
    pub reads: u64,
    /// Those of them that no thread had touched.
    pub reads_ahead: u64,
    /// Pages that were written.
    pub writes: u64,
    /// Pages whose memory was taken for others.
    pub evictions: u64,
    /// Accesses that could not be served and pages that could not be written.
    pub failures: u64,
}

/// An access that could not be served, or a page that could not be written.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct straightway_map_failure {
    /// sizeof(struct straightway_map_failure), set by the caller.
    pub size: usize,
    /// The page's first byte in the map.
    pub offset: u64,
    /// 1 if its write failed, and the next sync tries again; 0 if its read failed, and the access
    /// got SIGBUS.
    pub write: u32,
    /// Why; straightway_error() has the text.
    pub status: Status,
}

/// Maps `file_name`, a file of the volume on the device that the command calls `name`; or the
/// device itself, if it is NULL. Until straightway_map_close the device belongs to the map, whose
/// thread reads a page when it is first touched. Both options may be NULL.
///
/// Of `options`, path, mode, namespace_id, write and queue_depth, the pages that are read or
/// written at the same time, are used. With `write` the memory can be stored to: a file's data
/// changes in place, which needs a file without checksums, and its size stays. A device also needs
/// destroy_data.
///
/// Where a page cannot be read, or a map for reading is stored to, the access ends in a signal as
/// with mmap; straightway_map_pin returns an error. A child process does not inherit the memory.
/// Needs userfaultfd, or fails with STRAIGHTWAY_STATUS_UNSUPPORTED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_map_open(
    name: *const c_char,
    file_name: *const c_char,
    options: *const straightway_options,
    map_options: *const straightway_map_options,
    map: *mut straightway_map,
) -> Status {
    finish(|| {
        // SAFETY: C's promise: each is null or valid.
        let (file_name, given) = unsafe { (string("file_name", file_name)?, map_options.as_ref()) };
        let map_options = match given {
            Some(given) => map_options_of(given)?,
            None => MapOptions::default(),
        };
        // SAFETY: as above.
        unsafe {
            open(name, options, map, |name, options| {
                let opened = Map::open(name, file_name, options, &map_options)?;
                Ok(Open::Map(Box::new(opened)))
            })
        }
    })
}

/// Where the memory begins, and how many bytes the file or the device has. Any thread can use it
/// until straightway_map_close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_map_get_memory(
    map: straightway_map,
    memory: *mut *mut c_void,
    bytes: *mut u64,
) -> Status {
    finish(|| {
        // SAFETY: C's promise: null or valid.
        let (memory, bytes) = unsafe { (memory.as_mut(), bytes.as_mut()) };
        let memory = memory.ok_or_else(|| null("memory"))?;
        handles::with(map, |map: &mut Map| {
            *memory = map.start()?.as_ptr().cast();
            if let Some(bytes) = bytes {
                *bytes = map.size_bytes();
            }
            Ok(())
        })
    })
}

/// Reads a range soon, without waiting: as much of it, from its start, as there is memory for.
#[unsafe(no_mangle)]
pub extern "C" fn straightway_map_prefetch(
    map: straightway_map,
    offset: u64,
    bytes: u64,
) -> Status {
    finish(|| {
        handles::with(
            map,
            |map: &mut Map| Ok(map.prefetch(range(offset, bytes)?)?),
        )
    })
}

/// Reads a range and keeps it in memory until it is unpinned, as often as it was pinned: loads from
/// it neither wait nor fail.
#[unsafe(no_mangle)]
pub extern "C" fn straightway_map_pin(map: straightway_map, offset: u64, bytes: u64) -> Status {
    finish(|| handles::with(map, |map: &mut Map| Ok(map.pin(range(offset, bytes)?)?)))
}

/// Lets the memory of a pinned range be used for other pages again.
#[unsafe(no_mangle)]
pub extern "C" fn straightway_map_unpin(map: straightway_map, offset: u64, bytes: u64) -> Status {
    finish(|| handles::with(map, |map: &mut Map| Ok(map.unpin(range(offset, bytes)?)?)))
}

/// Writes what was stored until now, and makes it durable. What cannot be written stays in memory,
/// for the next sync.
#[unsafe(no_mangle)]
pub extern "C" fn straightway_map_sync(map: straightway_map) -> Status {
    finish(|| handles::with(map, |map: &mut Map| Ok(map.sync()?)))
}

/// What the map has done so far. The caller sets `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_map_get_counters(
    map: straightway_map,
    counters: *mut straightway_map_counters,
) -> Status {
    finish(|| {
        // SAFETY: C's promise: null or valid.
        let place = unsafe { counters.as_mut() }.ok_or_else(|| null("counters"))?;
        let known = size_of::<straightway_map_counters>();
        check_size("straightway_map_counters", place.size, known)?;
        let counters = handles::with(map, |map: &mut Map| Ok(map.counters()?))?;
        *place = straightway_map_counters {
            size: place.size,
            faults: counters.faults,
            reads: counters.reads,
            reads_ahead: counters.reads_ahead,
            writes: counters.writes,
            evictions: counters.evictions,
            failures: counters.failures,
        };
        Ok(())
    })
}

/// Takes the oldest failure of the last thousand; STRAIGHTWAY_STATUS_NOT_FOUND if there is none.
/// The caller sets `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_map_take_failure(
    map: straightway_map,
    failure: *mut straightway_map_failure,
) -> Status {
    finish(|| {
        // SAFETY: C's promise: null or valid.
        let place = unsafe { failure.as_mut() }.ok_or_else(|| null("failure"))?;
        let known = size_of::<straightway_map_failure>();
        check_size("straightway_map_failure", place.size, known)?;
        let taken = handles::with(map, |map: &mut Map| Ok(map.take_failure()))?;
        let taken = taken.ok_or_else(|| Error::not_found("no further failure of this map"))?;
        *place = straightway_map_failure {
            size: place.size,
            offset: taken.offset,
            write: u32::from(taken.is_write),
            status: keep_error(&taken.error),
        };
        Ok(())
    })
}

/// Makes durable what was stored, ends the map and closes the device. No thread may use the memory
/// from the beginning of this call on. The handle is closed in every case; an error says that what
/// was stored since the last sync may be lost.
#[unsafe(no_mangle)]
pub extern "C" fn straightway_map_close(map: straightway_map) -> Status {
    finish(|| Ok(handles::remove::<Map>(map)?.close()?))
}

fn map_options_of(given: &straightway_map_options) -> Result<MapOptions, Fault> {
    let known = size_of::<straightway_map_options>();
    check_size("straightway_map_options", given.size, known)?;
    let usual = MapOptions::default();
    let or_usual = |given: usize, usual: usize| if given == 0 { usual } else { given };
    Ok(MapOptions {
        page_bytes: or_usual(given.page_bytes, usual.page_bytes),
        memory_bytes: or_usual(given.memory_bytes, usual.memory_bytes),
        read_ahead_bytes: given.read_ahead_bytes,
    })
}

fn range(offset: u64, bytes: u64) -> Result<Range<u64>, Fault> {
    match offset.checked_add(bytes) {
        Some(end) => Ok(offset..end),
        None => Err(usage(
            format!("{bytes} bytes from byte {offset}"),
            "give a range within the map",
        )),
    }
}
