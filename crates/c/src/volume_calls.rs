// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The functions of `straightway.h` for volumes and their files.
//!
//! `unsafe` is here for what C passes: pointers that must be valid, as the header says of each.
#![allow(unsafe_code)]
// Each function's contract with C is its documentation, which is in the header.
#![allow(clippy::missing_safety_doc)]

use crate::calls::{check_size, null, open, options_of, straightway_options, string};
use crate::error::{Fault, Status, finish, usage};
use crate::handles::{self, Open};
use crate::mounted::Mounted;
use api::{CreateOptions, DeviceOptions, FormatOptions, NewFile, StoredFile, VolumeFile};
use std::ffi::{c_char, c_void};
use std::time::{SystemTime, UNIX_EPOCH};

/// A mounted volume. It belongs to the thread that opened it. 0 is none.
pub type straightway_volume = u64;

/// An open file of a volume. It belongs to the thread that opened it. 0 is none.
pub type straightway_file = u64;

/// Memory for a file's name of up to 64 bytes of UTF-8, and the end.
pub const STRAIGHTWAY_NAME_SIZE: usize = 65;

/// Memory for any file's name: 255 bytes of UTF-8 and the end.
pub const STRAIGHTWAY_WHOLE_NAME_SIZE: usize = 256;

/// How to make a volume. Begin with STRAIGHTWAY_FORMAT_OPTIONS_INIT.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct straightway_format_options {
    /// sizeof(struct straightway_format_options).
    pub size: usize,
    /// The drive's serial number: its data will be lost. Required for a drive; NULL for memory and
    /// plain files.
    pub destroy_data: *const c_char,
    /// 1 to format a plain file that holds data.
    pub force: u32,
    /// 1 if files can have checksums.
    pub checksums: u32,
    /// Bytes of the volume, or 0 for the whole device. A plain file that is missing or empty gets
    /// this size.
    pub volume_bytes: u64,
    /// Bytes of a unit of allocation, or 0 for the usual ones.
    pub unit_bytes: u64,
    /// The most files, or 0 for the usual number.
    pub slots: u32,
    /// At most 32 bytes, or NULL.
    pub label: *const c_char,
}

/// A file to be made by straightway_volume_create_many.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct straightway_new_file {
    /// sizeof(struct straightway_new_file).
    pub size: usize,
    /// Its name.
    pub name: *const c_char,
    /// All that it will hold; NULL if `bytes` is 0.
    pub data: *const c_void,
    /// Bytes of these.
    pub bytes: usize,
    /// Any number to keep.
    pub app_tag: u64,
}

/// A mounted volume's shape and state.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct straightway_volume_status {
    /// sizeof(struct straightway_volume_status), set by the caller.
    pub size: usize,
    /// Bytes that files can have together.
    pub capacity_bytes: u64,
    /// Bytes of these that are free.
    pub free_bytes: u64,
    /// Bytes of a unit of allocation.
    pub unit_bytes: u64,
    /// The most files.
    pub slots: u32,
    /// 1 if files can have checksums.
    pub checksums: u32,
    /// 1 if it cannot be changed.
    pub read_only: u32,
    /// Its identity.
    pub uuid: [u8; 16],
    /// Its label.
    pub label: [c_char; 33],
}

/// A file of a volume.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct straightway_entry {
    /// sizeof(struct straightway_entry), set by the caller.
    pub size: usize,
    /// Bytes of data.
    pub size_bytes: u64,
    /// Bytes that it occupies.
    pub allocated_bytes: u64,
    /// When it was last synced, in nanoseconds since 1970; 0 if that is unknown.
    pub mtime_ns: u64,
    /// The number that the application gave it.
    pub app_tag: u64,
    /// 1 if it has checksums.
    pub checksums: u32,
    /// Its name, if that has at most 64 bytes; otherwise empty.
    pub name: [c_char; STRAIGHTWAY_NAME_SIZE],
    /// Its name. Programs that were built before this member get an error for a file whose name has
    /// more than 64 bytes.
    pub whole_name: [c_char; STRAIGHTWAY_WHOLE_NAME_SIZE],
}

/// Makes the volume on the device that the command calls `name` longer or shorter, under its
/// conditions: its files stay where they are. `volume_bytes` is the new size, or 0 for all of the
/// device; a plain file that is shorter is made longer. Of `options`, path, mode and namespace_id
/// are used; they may be NULL. `after_bytes`, if it is not NULL, is the size then. Nothing else may
/// have the volume open. STRAIGHTWAY_STATUS_FULL: its files do not fit, and nothing was changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_resize(
    name: *const c_char,
    options: *const straightway_options,
    volume_bytes: u64,
    after_bytes: *mut u64,
) -> Status {
    finish(|| {
        // SAFETY: C's promise: each is null or valid.
        let (name, given, after) = unsafe {
            (
                string("name", name)?,
                options.as_ref(),
                after_bytes.as_mut(),
            )
        };
        let name = name.ok_or_else(|| null("name"))?;
        let options = match given {
            // SAFETY: as above.
            Some(given) => unsafe { options_of(given)? },
            None => DeviceOptions::default(),
        };
        let size_bytes = (volume_bytes != 0).then_some(volume_bytes);
        let resized = api::resize(name, &options, size_bytes)?;
        if let Some(place) = after {
            *place = resized;
        }
        Ok(())
    })
}

/// Makes an empty volume on the device that the command calls `name`, under its conditions.
/// `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_format(
    name: *const c_char,
    options: *const straightway_format_options,
) -> Status {
    finish(|| {
        // SAFETY: C's promise: each is null or valid.
        let (name, given) = unsafe { (string("the name", name)?, options.as_ref()) };
        let name = name.ok_or_else(|| null("name"))?;
        let options = match given {
            // SAFETY: as above.
            Some(given) => unsafe { format_options_of(given)? },
            None => FormatOptions::default(),
        };
        Ok(api::format(name, &options)?)
    })
}

/// Opens the volume on the device that the command calls `name`: to read it, or with options.write
/// also to change it, which needs no destroy_data. options.buffer_bytes is for the files' buffers:
/// each file that is read or appended to takes 1 MiB for either. `options` may be NULL. At most 64
/// files of a volume are open at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_volume_open(
    name: *const c_char,
    options: *const straightway_options,
    volume: *mut straightway_volume,
) -> Status {
    finish(|| {
        // SAFETY: C's promise: each is null or valid.
        unsafe {
            open(name, options, volume, |name, options| {
                Ok(Open::Volume(Box::new(Mounted::open(name, options)?)))
            })
        }
    })
}

/// Syncs and closes the volume's open files, unmounts it and closes its device. The handles are
/// closed in every case.
#[unsafe(no_mangle)]
pub extern "C" fn straightway_volume_close(volume: straightway_volume) -> Status {
    finish(|| {
        let (mounted, files) = handles::remove_volume(volume)?;
        Ok(mounted.close(files)?)
    })
}

/// The volume's shape and state. Counting its free space reads every bitmap. The caller sets
/// `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_volume_get_status(
    volume: straightway_volume,
    status: *mut straightway_volume_status,
) -> Status {
    finish(|| {
        // SAFETY: C's promise: null or valid.
        let place = unsafe { status.as_mut() }.ok_or_else(|| null("status"))?;
        let known = size_of::<straightway_volume_status>();
        check_size("straightway_volume_status", place.size, known)?;
        handles::with(volume, |mounted: &mut Mounted| {
            let found = mounted.volume().status();
            let end = found.label.iter().position(|&byte| byte == 0);
            let label = &found.label[..end.unwrap_or(found.label.len())];
            *place = straightway_volume_status {
                size: place.size,
                capacity_bytes: found.shape.unit_count() * found.shape.unit_bytes(),
                free_bytes: mounted.volume().free_bytes()?,
                unit_bytes: found.shape.unit_bytes(),
                slots: found.shape.slot_count(),
                checksums: u32::from(found.checksums),
                read_only: u32::from(found.read_only),
                uuid: found.uuid,
                label: characters(label),
            };
            Ok(())
        })
    })
}

/// The next file, in no order: `cursor` is 0 before the first call, and the call moves it.
/// STRAIGHTWAY_STATUS_NOT_FOUND after the last one. Files that come and go between the calls may be
/// in the list or not. The caller sets `size` of `entry`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_volume_next(
    volume: straightway_volume,
    cursor: *mut u32,
    entry: *mut straightway_entry,
) -> Status {
    finish(|| {
        // SAFETY: C's promise: each is null or valid.
        let cursor = unsafe { cursor.as_mut() };
        let cursor = cursor.ok_or_else(|| null("cursor"))?;
        let found = handles::with(volume, |mounted: &mut Mounted| {
            let found = mounted.volume().next_file(*cursor)?;
            found.ok_or_else(|| Fault::Error(api::Error::not_found("no further file")))
        })?;
        // A file whose name a program has no room for is passed over by the next call.
        *cursor = found.slot + 1;
        // SAFETY: as above.
        unsafe { fill_entry(entry, &found) }
    })
}

/// The file of this name. The caller sets `size` of `entry`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_volume_find(
    volume: straightway_volume,
    name: *const c_char,
    entry: *mut straightway_entry,
) -> Status {
    finish(|| {
        // SAFETY: C's promise: each is null or valid.
        let name = unsafe { string("name", name)? };
        let name = name.ok_or_else(|| null("name"))?;
        let found = handles::with(volume, |mounted: &mut Mounted| {
            Ok(mounted.volume().find(name)?)
        })?;
        // SAFETY: as above.
        unsafe { fill_entry(entry, &found) }
    })
}

/// Renames a file, which must not be open, to a name that is free. It has either name after a power
/// cut, and the new one when this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_volume_rename(
    volume: straightway_volume,
    name: *const c_char,
    new_name: *const c_char,
) -> Status {
    finish(|| {
        // SAFETY: C's promise: each is null or valid.
        let names = unsafe { (string("name", name)?, string("new_name", new_name)?) };
        let old = names.0.ok_or_else(|| null("name"))?;
        let new = names.1.ok_or_else(|| null("new_name"))?;
        handles::with(volume, |mounted: &mut Mounted| {
            Ok(mounted.volume().rename(old, new)?)
        })
    })
}

/// Removes a file, which must not be open, and frees its space.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_volume_remove(
    volume: straightway_volume,
    name: *const c_char,
) -> Status {
    finish(|| {
        // SAFETY: C's promise: null or valid.
        let name = unsafe { string("name", name)? }.ok_or_else(|| null("name"))?;
        handles::with(volume, |mounted: &mut Mounted| {
            Ok(mounted.volume().remove(name)?)
        })
    })
}

/// Opens a file to read it; with `append` 1 also to append to it, which one handle can at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_file_open(
    volume: straightway_volume,
    name: *const c_char,
    append: u32,
    file: *mut straightway_file,
) -> Status {
    finish(|| {
        // SAFETY: C's promise: each is null or valid.
        unsafe {
            open_file(volume, name, file, |mounted, name| {
                Ok(mounted.volume().open(name, append != 0)?)
            })
        }
    })
}

/// Makes an empty file, durably, and opens it to append to it. Space for `reserve_bytes` is set
/// aside until it is closed, or 0. With `checksums` 1 each 64 KiB get a checksum, which a read
/// compares; the volume must have been made with checksums. `app_tag` is any number to keep.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_file_create(
    volume: straightway_volume,
    name: *const c_char,
    reserve_bytes: u64,
    checksums: u32,
    app_tag: u64,
    file: *mut straightway_file,
) -> Status {
    finish(|| {
        let options = CreateOptions {
            reserve_bytes,
            checksums: checksums != 0,
            app_tag,
        };
        // SAFETY: C's promise: each is null or valid.
        unsafe {
            open_file(volume, name, file, |mounted, name| {
                Ok(mounted.volume().create(name, &options)?)
            })
        }
    })
}

/// Makes `count` whole files, durably. Up to 1,024 of less than 64 KiB share the flushes of one
/// operation, so this is the way to store many small files; a longer one takes an operation of its
/// own. `made`, if it is not NULL, is how many were made, also after an error: the first ones.
/// After a power cut each of them is there, whole, or not at all; a longer one may be there, empty.
/// `checksums` is as in straightway_file_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_volume_create_many(
    volume: straightway_volume,
    files: *const straightway_new_file,
    count: usize,
    checksums: u32,
    made: *mut usize,
) -> Status {
    finish(|| {
        // SAFETY: C's promise: null or valid.
        let mut made = unsafe { made.as_mut() };
        if let Some(place) = &mut made {
            **place = 0;
        }
        let given: &[straightway_new_file] = match count {
            0 => &[],
            _ if files.is_null() => return Err(null("files")),
            _ if count > isize::MAX as usize / size_of::<straightway_new_file>() => {
                return Err(usage(
                    format!("{count} files"),
                    "give the length of the array",
                ));
            }
            // SAFETY: C's promise: an array of so many.
            _ => unsafe { std::slice::from_raw_parts(files, count) },
        };
        // SAFETY: C's promise: each has a string and `bytes` of memory.
        let files = unsafe { new_files(given)? };
        let (done, result) = handles::with(volume, |mounted: &mut Mounted| {
            Ok(mounted.volume().create_many(&files, checksums != 0))
        })?;
        if let Some(place) = made {
            *place = done;
        }
        Ok(result?)
    })
}

/// Syncs a file and closes it. After an error it is closed too, with what was durable before.
#[unsafe(no_mangle)]
pub extern "C" fn straightway_file_close(file: straightway_file) -> Status {
    finish(|| {
        let (file, volume) = handles::remove_file(file)?;
        handles::with(volume, |mounted: &mut Mounted| {
            Ok(file.close(mounted.volume())?)
        })
    })
}

/// A file's durable size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_file_get_size(
    file: straightway_file,
    size_bytes: *mut u64,
) -> Status {
    finish(|| {
        // SAFETY: C's promise: null or valid.
        let place = unsafe { size_bytes.as_mut() }.ok_or_else(|| null("size_bytes"))?;
        *place = handles::with_file(file, |mounted, file| Ok(file.size_bytes(mounted.volume())?))?;
        Ok(())
    })
}

/// Reads `bytes` from any `offset` of a file into any memory. `count` is less only at the file's
/// durable size: what was appended and not synced cannot be read. Of a file with checksums, whole
/// chunks of 64 KiB are read and compared; STRAIGHTWAY_STATUS_ROT if they differ.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_file_read(
    file: straightway_file,
    offset: u64,
    buffer: *mut c_void,
    bytes: usize,
    count: *mut usize,
) -> Status {
    finish(|| {
        // SAFETY: C's promise: null or valid.
        let count = unsafe { count.as_mut() }.ok_or_else(|| null("count"))?;
        *count = 0;
        check_memory(buffer, bytes)?;
        // SAFETY: C's promise: `bytes` of memory that nothing else uses during the call. It is C's,
        // so it has some value.
        let data = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), bytes) };
        *count = handles::with_file(file, |mounted, file| {
            Ok(file.read(mounted.volume(), offset, data)?)
        })?;
        Ok(())
    })
}

/// Appends `bytes` of any memory, which is the caller's again when this returns. They are part of
/// the file, and durable, after the next straightway_file_sync or straightway_file_close. After an
/// error the file has what was synced, and perhaps some of what was appended since.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_file_append(
    file: straightway_file,
    buffer: *const c_void,
    bytes: usize,
) -> Status {
    finish(|| {
        if bytes == 0 {
            return handles::with_file(file, |_, _| Ok(()));
        }
        check_memory(buffer, bytes)?;
        // SAFETY: C's promise: `bytes` of memory.
        let data = unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), bytes) };
        handles::with_file(file, |mounted, file| {
            Ok(file.append(mounted.volume(), data)?)
        })
    })
}

/// Makes all that was appended durable. When it returns STRAIGHTWAY_STATUS_OK, the file has at
/// least all of it after a power cut at any time; `size_bytes`, if it is not NULL, is the file's
/// size then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_file_sync(
    file: straightway_file,
    size_bytes: *mut u64,
) -> Status {
    finish(|| {
        let size = handles::with_file(file, |mounted, file| Ok(file.sync(mounted.volume())?))?;
        // SAFETY: C's promise: null or valid.
        if let Some(place) = unsafe { size_bytes.as_mut() } {
            *place = size;
        }
        Ok(())
    })
}

/// # Safety
/// The strings and the memory of each are null or valid for the call.
unsafe fn new_files(given: &[straightway_new_file]) -> Result<Vec<NewFile<'_>>, Fault> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let mtime_ns = since.map_or(0, |since| since.as_nanos() as u64);
    let each = given.iter().map(|file| {
        let known = size_of::<straightway_new_file>();
        check_size("straightway_new_file", file.size, known)?;
        // SAFETY: this function's contract.
        let name = unsafe { string("name", file.name)? }.ok_or_else(|| null("name"))?;
        let data: &[u8] = match file.bytes {
            0 => &[],
            bytes => {
                check_memory(file.data, bytes)?;
                // SAFETY: this function's contract.
                unsafe { std::slice::from_raw_parts(file.data.cast(), bytes) }
            }
        };
        Ok(NewFile {
            name,
            data,
            mtime_ns,
            app_tag: file.app_tag,
        })
    });
    each.collect()
}

/// Opens a file of a volume, and gives its handle.
///
/// # Safety
/// Each pointer is null or valid.
unsafe fn open_file(
    volume: straightway_volume,
    name: *const c_char,
    file: *mut straightway_file,
    open: impl FnOnce(&Mounted, &str) -> Result<VolumeFile, Fault>,
) -> Result<(), Fault> {
    // SAFETY: this function's contract.
    let (name, file) = unsafe { (string("name", name)?, file.as_mut()) };
    let file = file.ok_or_else(|| null("file"))?;
    *file = 0;
    let name = name.ok_or_else(|| null("name"))?;
    handles::check_room()?;
    let opened = handles::with(volume, |mounted: &mut Mounted| open(mounted, name))?;
    *file = handles::add(Open::File(opened, volume))?;
    Ok(())
}

/// # Safety
/// The strings are null or valid for the call.
unsafe fn format_options_of(
    given: &straightway_format_options,
) -> Result<FormatOptions<'_>, Fault> {
    let known = size_of::<straightway_format_options>();
    check_size("straightway_format_options", given.size, known)?;
    // SAFETY: this function's contract.
    let (destroy_data, label) = unsafe {
        (
            string("destroy_data", given.destroy_data)?,
            string("label", given.label)?,
        )
    };
    let some = |number: u64| (number != 0).then_some(number);
    Ok(FormatOptions {
        volume_bytes: some(given.volume_bytes),
        unit_bytes: some(given.unit_bytes),
        slots: (given.slots != 0).then_some(given.slots),
        checksums: given.checksums != 0,
        label: label.unwrap_or_default(),
        destroy_data,
        force: given.force != 0,
    })
}

/// Fills as much of an entry as the program's header declares.
///
/// # Safety
/// `place` is null or has as many bytes as its `size` says.
unsafe fn fill_entry(place: *mut straightway_entry, found: &StoredFile) -> Result<(), Fault> {
    /// Before names of more than 64 bytes.
    const FIRST_SIZE: usize = std::mem::offset_of!(straightway_entry, whole_name)
        .next_multiple_of(align_of::<straightway_entry>());
    if place.is_null() {
        return Err(null("entry"));
    }
    // SAFETY: the caller's promise; the size is its first member in each version.
    let size = unsafe { place.cast::<usize>().read() };
    let name = found.name.as_str().as_bytes();
    let is_long = name.len() >= STRAIGHTWAY_NAME_SIZE;
    if size != FIRST_SIZE {
        check_size("straightway_entry", size, size_of::<straightway_entry>())?;
    } else if is_long {
        let bytes = name.len();
        return Err(usage(
            format!("a file's name has {bytes} bytes, and this program has memory for 64"),
            "build the program with this version's straightway.h",
        ));
    }
    let filled = straightway_entry {
        size,
        size_bytes: found.size_bytes,
        allocated_bytes: found.allocated_bytes,
        mtime_ns: found.mtime_ns,
        app_tag: found.app_tag,
        checksums: u32::from(found.checksums),
        name: characters(if is_long { &[] } else { name }),
        whole_name: characters(name),
    };
    // SAFETY: the caller's promise; the size was checked to be at most the structure's.
    unsafe {
        (&raw const filled)
            .cast::<u8>()
            .copy_to_nonoverlapping(place.cast::<u8>(), size);
    }
    Ok(())
}

/// Text with its end, in memory that is longer than the text.
fn characters<const SIZE: usize>(text: &[u8]) -> [c_char; SIZE] {
    debug_assert!(text.len() < SIZE, "no room for the end");
    let mut all = [0; SIZE];
    for (place, &byte) in all[..SIZE - 1].iter_mut().zip(text) {
        *place = byte as c_char;
    }
    all
}

pub(crate) fn check_memory(buffer: *const c_void, bytes: usize) -> Result<(), Fault> {
    if buffer.is_null() {
        return Err(null("buffer"));
    }
    match isize::try_from(bytes) {
        Ok(_) => Ok(()),
        Err(_) => Err(usage(
            format!("a buffer of {bytes} bytes"),
            "give the size of the memory",
        )),
    }
}
