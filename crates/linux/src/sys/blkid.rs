// SPDX-License-Identifier: Apache-2.0 OR MIT
//! libblkid by `dlopen`: no program needs it to start, and one that is linked statically never has
//! it.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

use crate::blkid::Mark;

/// The name of the library; its interface has not changed since version 2.15.
#[cfg(not(target_feature = "crt-static"))]
const LIBRARY: &CStr = c"libblkid.so.1";

/// `BLKID_SUBLKS_TYPE`, `_USAGE`, `_MAGIC` and `_BADCSUM`.
const SUPERBLOCK_FLAGS: c_int = 1 << 5 | 1 << 7 | 1 << 9 | 1 << 10;
/// `BLKID_PARTS_FORCE_GPT` and `_MAGIC`.
const PARTITION_FLAGS: c_int = 1 << 1 | 1 << 3;

/// The longest list: a device has a few marks. A library that does not go on ends here.
const MOST_MARKS: usize = 64;

/// A `blkid_probe`, which is opaque.
type RawProbe = *mut c_void;

/// The functions that are used, with the types of `blkid.h`.
struct Library {
    new_probe: unsafe extern "C" fn() -> RawProbe,
    free_probe: unsafe extern "C" fn(RawProbe),
    set_device: unsafe extern "C" fn(RawProbe, c_int, i64, i64) -> c_int,
    set_sectorsize: unsafe extern "C" fn(RawProbe, c_uint) -> c_int,
    enable_superblocks: unsafe extern "C" fn(RawProbe, c_int) -> c_int,
    set_superblocks_flags: unsafe extern "C" fn(RawProbe, c_int) -> c_int,
    enable_partitions: unsafe extern "C" fn(RawProbe, c_int) -> c_int,
    set_partitions_flags: unsafe extern "C" fn(RawProbe, c_int) -> c_int,
    do_probe: unsafe extern "C" fn(RawProbe) -> c_int,
    do_wipe: unsafe extern "C" fn(RawProbe, c_int) -> c_int,
    lookup_value:
        unsafe extern "C" fn(RawProbe, *const c_char, *mut *const c_char, *mut usize) -> c_int,
    get_version: unsafe extern "C" fn(*mut *const c_char, *mut *const c_char) -> c_int,
}

/// The library, loaded once; `None` if this machine has none, or this program is static.
fn library() -> Option<&'static Library> {
    static LOADED: OnceLock<Option<Library>> = OnceLock::new();
    LOADED.get_or_init(load).as_ref()
}

#[cfg(target_feature = "crt-static")]
fn load() -> Option<Library> {
    None
}

#[cfg(not(target_feature = "crt-static"))]
fn load() -> Option<Library> {
    // SAFETY: the name ends with a zero. The library is never unloaded, so its functions stay
    // valid.
    let handle = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return None;
    }
    macro_rules! function {
        ($name:literal) => {{
            // SAFETY: the handle is open, and the name ends with a zero.
            let address = unsafe { libc::dlsym(handle, $name.as_ptr()) };
            if address.is_null() {
                return None;
            }
            // SAFETY: the address is not null, and the function of this name has the type of the
            // field in blkid.h, in every version of libblkid.so.1 that has it.
            unsafe { std::mem::transmute_copy(&address) }
        }};
    }
    Some(Library {
        new_probe: function!(c"blkid_new_probe"),
        free_probe: function!(c"blkid_free_probe"),
        set_device: function!(c"blkid_probe_set_device"),
        set_sectorsize: function!(c"blkid_probe_set_sectorsize"),
        enable_superblocks: function!(c"blkid_probe_enable_superblocks"),
        set_superblocks_flags: function!(c"blkid_probe_set_superblocks_flags"),
        enable_partitions: function!(c"blkid_probe_enable_partitions"),
        set_partitions_flags: function!(c"blkid_probe_set_partitions_flags"),
        do_probe: function!(c"blkid_do_probe"),
        do_wipe: function!(c"blkid_do_wipe"),
        lookup_value: function!(c"blkid_probe_lookup_value"),
        get_version: function!(c"blkid_get_library_version"),
    })
}

/// The library's version, such as `2.38.1`.
pub(crate) fn version() -> Option<String> {
    let library = library()?;
    let mut text = std::ptr::null();
    // SAFETY: it stores a pointer to a constant string; the date is not wanted.
    unsafe { (library.get_version)(&mut text, std::ptr::null_mut()) };
    if text.is_null() {
        return None;
    }
    // SAFETY: the string is constant and ends with a zero.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}

/// A probe, which is freed when it is dropped.
struct Probe {
    library: &'static Library,
    raw: RawProbe,
}

impl Drop for Probe {
    fn drop(&mut self) {
        // SAFETY: the probe was made by this library and is not used again.
        unsafe { (self.library.free_probe)(self.raw) };
    }
}

impl Probe {
    /// The bytes of a value, without the zero at its end.
    fn value(&self, name: &CStr) -> Option<Vec<u8>> {
        let (mut data, mut len) = (std::ptr::null(), 0);
        // SAFETY: the probe is live, the name ends with a zero; pointer and length are stored.
        let result =
            unsafe { (self.library.lookup_value)(self.raw, name.as_ptr(), &mut data, &mut len) };
        if result != 0 || data.is_null() {
            return None;
        }
        // SAFETY: the value has `len` bytes, until the probe is used again.
        let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len) };
        Some(bytes.to_vec())
    }

    fn text(&self, name: &CStr) -> Option<String> {
        let bytes = self.value(name)?;
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        Some(String::from_utf8_lossy(text).into_owned())
    }

    /// What the last probe found; `None` if it has no magic number.
    fn mark(&self) -> Option<Mark> {
        let (kind, offset, magic) = match self.value(c"SBMAGIC") {
            Some(magic) => (self.text(c"TYPE"), self.text(c"SBMAGIC_OFFSET"), magic),
            None => (
                self.text(c"PTTYPE"),
                self.text(c"PTMAGIC_OFFSET"),
                self.value(c"PTMAGIC")?,
            ),
        };
        Some(Mark {
            kind: kind?,
            usage: self.text(c"USAGE"),
            offset_bytes: offset?.parse().ok()?,
            length_bytes: magic.len() as u64,
        })
    }
}

/// Every mark in `file`, as wipefs finds them: each one that was found is hidden from the next
/// probe. Nothing is written. `None` without the library, or if it cannot read the file.
pub(crate) fn marks(file: &File, block_bytes: u32) -> Option<Vec<Mark>> {
    let library = library()?;
    // SAFETY: it takes nothing, and returns a new probe or null.
    let raw = unsafe { (library.new_probe)() };
    if raw.is_null() {
        return None;
    }
    let probe = Probe { library, raw };
    // SAFETY: the probe is live until it is dropped below; the descriptor is open that long, and
    // the library neither closes it nor, as every wipe is a dry run, writes to it.
    let is_ready = unsafe {
        (library.set_device)(raw, file.as_raw_fd(), 0, 0) == 0
            && (library.set_sectorsize)(raw, block_bytes) == 0
            && (library.enable_superblocks)(raw, 1) == 0
            && (library.set_superblocks_flags)(raw, SUPERBLOCK_FLAGS) == 0
            && (library.enable_partitions)(raw, 1) == 0
            && (library.set_partitions_flags)(raw, PARTITION_FLAGS) == 0
    };
    if !is_ready {
        return None;
    }
    let mut marks = Vec::new();
    for _ in 0..MOST_MARKS {
        // SAFETY: the probe is live and has a device.
        if unsafe { (library.do_probe)(raw) } != 0 {
            break;
        }
        marks.extend(probe.mark());
        // SAFETY: the same; 1 makes it a dry run, which only hides the mark.
        if unsafe { (library.do_wipe)(raw, 1) } != 0 {
            break;
        }
    }
    drop(probe);
    Some(marks)
}
