// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The functions of `straightway.h`.
//!
//! `unsafe` is here for what C passes: pointers that must be valid, as the header says of each. No
//! pointer to memory of a device is followed here: those are addresses, and
//! [`Memory`](crate::memory::Memory) knows the valid ones.
#![allow(unsafe_code)]
// Each function's contract with C is its documentation, which is in the header.
#![allow(clippy::missing_safety_doc)]

use crate::error::{self, Fault, Status, finish, keep_error, text, usage};
use crate::handles::{self, Open};
use crate::session::{Done, Session, Way};
use api::{DeviceOptions, Error};
use std::ffi::{CStr, c_char, c_void};

/// An open device. It belongs to the thread that opened it. 0 is none.
pub type straightway_device = u64;

/// How to open a device. Begin with STRAIGHTWAY_OPTIONS_INIT.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct straightway_options {
    /// sizeof(struct straightway_options): later versions of the library can have more members.
    pub size: usize,
    /// 1 to write the device, 0 to read it.
    pub write: u32,
    /// The namespace of a controller, or 0 for its usual one.
    pub namespace_id: u32,
    /// Required to write: the drive's serial number, or the file's path. NULL for memory.
    pub destroy_data: *const c_char,
    /// A path, as `straightway read --path` takes it, or NULL for the usual one.
    pub path: *const c_char,
    /// "poll", "interrupt", "hybrid", or NULL for the usual one.
    pub mode: *const c_char,
    /// Memory for all buffers, or 0 for 16 MiB.
    pub buffer_bytes: usize,
    /// Requests in flight, or 0 for 32.
    pub queue_depth: u32,
}

/// A device's shape and limits.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct straightway_geometry {
    /// sizeof(struct straightway_geometry), set by the caller.
    pub size: usize,
    /// Bytes of a logical block.
    pub block_size_bytes: u32,
    /// The most requests in flight.
    pub queue_depth: u32,
    /// Logical blocks.
    pub block_count: u64,
    /// The longest transfer of one request, in bytes.
    pub max_transfer_bytes: u64,
    /// 1 if completed writes may be lost at a power cut until a flush.
    pub volatile_write_cache: u32,
    /// 1 if it cannot be written.
    pub read_only: u32,
}

/// The end of a request.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct straightway_completion {
    /// The number that it was submitted with.
    pub tag: u64,
    /// Its memory, which belongs to the caller again; NULL for a flush.
    pub buffer: *mut c_void,
    /// Its length.
    pub bytes: u64,
    /// Its result. straightway_error() has the text of the last one that failed in a call of
    /// straightway_poll.
    pub status: Status,
    /// The drive's status field (NVMe Base Specification, "Completion Queue Entry: Status Field")
    /// if it answered with an error, or 0.
    pub nvme_status: u32,
}

/// The version of the library, for example "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn straightway_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// What the last failed call of this thread said: one line, valid until the thread's next failed
/// call.
#[unsafe(no_mangle)]
pub extern "C" fn straightway_error() -> *const c_char {
    error::what()
}

/// What to do about it, or an empty string; valid as long.
#[unsafe(no_mangle)]
pub extern "C" fn straightway_hint() -> *const c_char {
    error::hint()
}

/// Opens a device by any name that the command takes: nvme0n1, a PCI address, a file, ram:64M, ...
/// `options` may be NULL.
///
/// A drive may be taken from its kernel driver until straightway_close; the next `straightway`
/// command returns it if the program dies.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_open(
    name: *const c_char,
    options: *const straightway_options,
    device: *mut straightway_device,
) -> Status {
    finish(|| {
        // SAFETY: C's promise: each is null or valid.
        unsafe {
            open(name, options, device, |name, options| {
                Ok(Open::Device(Box::new(Session::open(name, options)?)))
            })
        }
    })
}

/// Waits for all requests in flight, frees all buffers, and closes the device.
#[unsafe(no_mangle)]
pub extern "C" fn straightway_close(device: straightway_device) -> Status {
    finish(|| handles::remove::<Session>(device)?.close())
}

/// The device's shape and limits. The caller sets `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_get_geometry(
    device: straightway_device,
    geometry: *mut straightway_geometry,
) -> Status {
    finish(|| {
        // SAFETY: C's promise: null or valid.
        let place = unsafe { geometry.as_mut() }.ok_or_else(|| null("geometry"))?;
        check_size(
            "straightway_geometry",
            place.size,
            size_of::<straightway_geometry>(),
        )?;
        let found = handles::with(device, |session: &mut Session| Ok(*session.geometry()))?;
        *place = straightway_geometry {
            size: place.size,
            block_size_bytes: 1 << found.block_size_log2,
            queue_depth: u32::from(found.queue_depth),
            block_count: found.block_count,
            max_transfer_bytes: found.max_transfer_bytes() as u64,
            volatile_write_cache: u32::from(found.features.volatile_write_cache),
            read_only: u32::from(found.features.read_only),
        };
        Ok(())
    })
}

/// Writes the name of the path by which the device is reached, as `straightway read --path` takes
/// it, into `bytes` of `name`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_get_path(
    device: straightway_device,
    name: *mut c_char,
    bytes: usize,
) -> Status {
    finish(|| {
        if name.is_null() {
            return Err(null("name"));
        }
        handles::with(device, |session: &mut Session| {
            let path = session.path();
            if path.len() >= bytes {
                return Err(usage(
                    format!("the name needs {} bytes", path.len() + 1),
                    "give 64 bytes",
                ));
            }
            // SAFETY: C's promise: `bytes` of memory; the name and its end fit.
            unsafe {
                name.cast::<u8>()
                    .copy_from_nonoverlapping(path.as_ptr(), path.len());
                name.add(path.len()).write(0);
            }
            Ok(())
        })
    })
}

/// Allocates a buffer at the start of a page, in memory that the device reaches.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_alloc(
    device: straightway_device,
    bytes: usize,
    buffer: *mut *mut c_void,
) -> Status {
    finish(|| {
        // SAFETY: C's promise: null or valid.
        let place = unsafe { buffer.as_mut() }.ok_or_else(|| null("buffer"))?;
        *place = std::ptr::null_mut();
        *place = handles::with(device, |session: &mut Session| session.allocate(bytes))?.cast();
        Ok(())
    })
}

/// Frees a buffer of straightway_alloc.
#[unsafe(no_mangle)]
pub extern "C" fn straightway_free(device: straightway_device, buffer: *mut c_void) -> Status {
    finish(|| {
        handles::with(device, |session: &mut Session| {
            session.free(buffer as usize)
        })
    })
}

/// Reads any number of whole blocks from byte `offset` of the device, and returns when they are
/// there. Requests in flight stay so.
#[unsafe(no_mangle)]
pub extern "C" fn straightway_read(
    device: straightway_device,
    offset: u64,
    buffer: *mut c_void,
    bytes: usize,
) -> Status {
    finish(|| {
        handles::with(device, |session: &mut Session| {
            session.transfer(Way::Read, offset, buffer as usize, bytes)
        })
    })
}

/// Writes likewise. With `durable` 1, returns when the data survives a power cut.
#[unsafe(no_mangle)]
pub extern "C" fn straightway_write(
    device: straightway_device,
    offset: u64,
    buffer: *const c_void,
    bytes: usize,
    durable: u32,
) -> Status {
    let way = Way::Write { fua: durable != 0 };
    finish(|| {
        handles::with(device, |session: &mut Session| {
            session.transfer(way, offset, buffer as usize, bytes)
        })
    })
}

/// Makes all completed writes durable.
#[unsafe(no_mangle)]
pub extern "C" fn straightway_flush(device: straightway_device) -> Status {
    finish(|| handles::with(device, Session::flush))
}

/// Gives whole blocks from byte `offset` back to the drive (trim): until they are written again, a
/// read of them may return anything. A discard is like a write, and needs a device that was opened
/// to write. Requests in flight stay so. It fails with STRAIGHTWAY_STATUS_UNSUPPORTED where the
/// drive or the path has none.
#[unsafe(no_mangle)]
pub extern "C" fn straightway_discard(
    device: straightway_device,
    offset: u64,
    bytes: u64,
) -> Status {
    finish(|| {
        handles::with(device, |session: &mut Session| {
            session.discard(offset, bytes)
        })
    })
}

/// Submits a read of at most max_transfer_bytes. Until its completion the memory belongs to the
/// device. The device may hold it back until straightway_kick or straightway_wait.
#[unsafe(no_mangle)]
pub extern "C" fn straightway_submit_read(
    device: straightway_device,
    offset: u64,
    buffer: *mut c_void,
    bytes: usize,
    tag: u64,
) -> Status {
    finish(|| {
        handles::with(device, |session: &mut Session| {
            session.submit(Way::Read, offset, buffer as usize, bytes, Some(tag))
        })
    })
}

/// Submits a write likewise. With `durable` 1, it completes when the data survives a power cut.
#[unsafe(no_mangle)]
pub extern "C" fn straightway_submit_write(
    device: straightway_device,
    offset: u64,
    buffer: *const c_void,
    bytes: usize,
    durable: u32,
    tag: u64,
) -> Status {
    let way = Way::Write { fua: durable != 0 };
    finish(|| {
        handles::with(device, |session: &mut Session| {
            session.submit(way, offset, buffer as usize, bytes, Some(tag))
        })
    })
}

/// Submits a flush, which covers the writes that have completed.
#[unsafe(no_mangle)]
pub extern "C" fn straightway_submit_flush(device: straightway_device, tag: u64) -> Status {
    finish(|| {
        handles::with(device, |session: &mut Session| {
            session.submit_flush(Some(tag))
        })
    })
}

/// Starts everything that was submitted: one doorbell or system call for all of it.
#[unsafe(no_mangle)]
pub extern "C" fn straightway_kick(device: straightway_device) -> Status {
    finish(|| {
        handles::with(device, |session: &mut Session| {
            session.kick();
            Ok(())
        })
    })
}

/// Takes up to `most` ends of requests, without waiting; `count` tells how many. Requests end in
/// any order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_poll(
    device: straightway_device,
    completions: *mut straightway_completion,
    most: usize,
    count: *mut usize,
) -> Status {
    finish(|| {
        // SAFETY: C's promise: null or valid.
        let count = unsafe { count.as_mut() }.ok_or_else(|| null("count"))?;
        *count = 0;
        if completions.is_null() {
            return Err(null("completions"));
        }
        handles::with(device, |session: &mut Session| {
            while *count < most {
                let Some(done) = session.poll() else { break };
                // SAFETY: C's promise: room for `most` of them.
                unsafe { completions.add(*count).write(completion(&done)) };
                *count += 1;
            }
            Ok(())
        })
    })
}

/// Starts what was submitted, and sleeps until a completion may be there or the time has passed. A
/// polled device returns at once.
#[unsafe(no_mangle)]
pub extern "C" fn straightway_wait(device: straightway_device, timeout_us: u32) -> Status {
    finish(|| {
        handles::with(device, |session: &mut Session| {
            session.wait(timeout_us);
            Ok(())
        })
    })
}

/// How many submitted requests have not been polled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_outstanding(
    device: straightway_device,
    count: *mut usize,
) -> Status {
    finish(|| {
        // SAFETY: C's promise: null or valid.
        let count = unsafe { count.as_mut() }.ok_or_else(|| null("count"))?;
        *count = handles::with(device, |session: &mut Session| Ok(session.outstanding()))?;
        Ok(())
    })
}

/// Opens what a name means, and gives its handle.
///
/// # Safety
/// Each pointer is null or valid.
pub(crate) unsafe fn open(
    name: *const c_char,
    options: *const straightway_options,
    handle: *mut u64,
    open: impl FnOnce(&str, &DeviceOptions<'_>) -> Result<Open, Fault>,
) -> Result<(), Fault> {
    // SAFETY: this function's contract.
    let (name, given, handle) =
        unsafe { (string("the name", name)?, options.as_ref(), handle.as_mut()) };
    let handle = handle.ok_or_else(|| null("the place for the handle"))?;
    *handle = 0;
    let name = name.ok_or_else(|| null("name"))?;
    let options = match given {
        // SAFETY: as above.
        Some(given) => unsafe { options_of(given)? },
        None => DeviceOptions::default(),
    };
    handles::check_room()?;
    *handle = handles::add(open(name, &options)?)?;
    Ok(())
}

fn completion(done: &Done) -> straightway_completion {
    let (status, nvme_status) = match done.result {
        Ok(()) => (Status::Ok, 0),
        Err(error) => {
            let status = keep_error(&Error::request("a request", error));
            match error {
                block::Error::Nvme { status: field } => (status, u32::from(field)),
                _ => (status, 0),
            }
        }
    };
    straightway_completion {
        tag: done.tag.unwrap_or_default(),
        buffer: done.address as *mut c_void,
        bytes: done.bytes as u64,
        status,
        nvme_status,
    }
}

/// # Safety
/// The strings are null or valid for the call.
pub(crate) unsafe fn options_of(given: &straightway_options) -> Result<DeviceOptions<'_>, Fault> {
    check_size(
        "straightway_options",
        given.size,
        size_of::<straightway_options>(),
    )?;
    let usual = DeviceOptions::default();
    // SAFETY: this function's contract.
    let (destroy_data, path, mode) = unsafe {
        (
            string("destroy_data", given.destroy_data)?,
            string("path", given.path)?,
            string("mode", given.mode)?,
        )
    };
    let queue_depth = match given.queue_depth {
        0 => usual.queue_depth,
        depth => u16::try_from(depth)
            .map_err(|_| usage(format!("a queue depth of {depth}"), "give at most 65535"))?,
    };
    Ok(DeviceOptions {
        path,
        mode,
        namespace: (given.namespace_id != 0).then_some(given.namespace_id),
        write: given.write != 0,
        destroy_data,
        buffer_bytes: match given.buffer_bytes {
            0 => usual.buffer_bytes,
            bytes => bytes,
        },
        queue_depth,
    })
}

/// # Safety
/// Null, or a valid string for `'a`.
pub(crate) unsafe fn string<'a>(
    what: &str,
    string: *const c_char,
) -> Result<Option<&'a str>, Fault> {
    if string.is_null() {
        return Ok(None);
    }
    // SAFETY: this function's contract.
    text(what, unsafe { CStr::from_ptr(string) }).map(Some)
}

pub(crate) fn null(what: &str) -> Fault {
    usage(format!("{what} is NULL"), "give its address")
}

/// A structure of a program that was built for another version of the library.
pub(crate) fn check_size(name: &str, given: usize, known: usize) -> Result<(), Fault> {
    if given == known {
        Ok(())
    } else {
        Err(usage(
            format!("struct {name} has the size {given}, and {known} in this version"),
            "set its size by sizeof; build the program with this version's straightway.h",
        ))
    }
}
