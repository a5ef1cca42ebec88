// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file: its name, its descriptors, and its bytes, which are those of a shared map.
//!
//! A descriptor of it is one of an empty file in memory with the same size, sealed and opened to
//! write: it has a size, a position and a type, but whatever tries to read it past this library
//! gets EBADF, and EPERM if it writes. Only its owner may open it again, and only to write. Its
//! name has the socket's, so that a program recognises the descriptors that it inherits.
#![allow(unsafe_code)]

use crate::real::Real;
use libc::{c_int, c_void, off_t};
use map::{Attached, attach_before};
use std::ffi::{CStr, CString, OsStr};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// The most descriptors of the file at a time.
const MOST: usize = 64;

/// What a program's mappings begin at multiples of: the smallest page of a map.
const PAGE_BYTES: off_t = 4096;

/// A program may map so much more than the file has; LMDB maps the largest size that its database
/// may reach.
const TAIL_BYTES: usize = 1 << 40;

/// An error number.
pub type Errno = c_int;

struct File {
    map: Attached,
    /// The process that attached: a child has neither its mapping nor its thread.
    process: u32,
}

/// The map of this process. What a parent attached stays allocated: its parts are the parent's.
static FILE: AtomicPtr<File> = AtomicPtr::new(ptr::null_mut());
/// The sealed file with the same size.
static SHAPE: AtomicI32 = AtomicI32::new(-1);
static AT: OnceLock<Option<PathBuf>> = OnceLock::new();
/// Descriptors of the file: each is a number in the low half, and one more than the inode of its
/// shape above; 0 is a free place.
static OPEN: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];
static OPEN_COUNT: AtomicUsize = AtomicUsize::new(0);

static CLOSE: Real = Real::new(c"close");

/// The file's name.
pub fn at() -> Option<&'static Path> {
    AT.get_or_init(|| std::env::var_os("STRAIGHTWAY_MAP_AT").map(PathBuf::from))
        .as_deref()
}

/// Whether a path means the file: by its name, or by that of a descriptor (`/dev/stdin`,
/// `/proc/self/fd/3`).
pub fn is_at(folder: c_int, path: *const libc::c_char) -> bool {
    is_named(folder, path) || is_descriptor(folder, path, libc::O_PATH)
}

/// The same for a call that does not follow a link at the end of the path.
pub fn is_at_itself(folder: c_int, path: *const libc::c_char, follows: bool) -> bool {
    let flags = if follows {
        libc::O_PATH
    } else {
        libc::O_PATH | libc::O_NOFOLLOW
    };
    is_named(folder, path) || is_descriptor(folder, path, flags)
}

/// Whether a path leads to a shape. Only a descriptor's name does; a process without one asks no
/// more of the kernel than for names in /proc, which may be of others.
fn is_descriptor(folder: c_int, path: *const libc::c_char, flags: c_int) -> bool {
    if path.is_null() || at().is_none() {
        return false;
    }
    // SAFETY: the caller's path ends with a zero.
    let is_proc = unsafe { CStr::from_ptr(path) }
        .to_bytes()
        .starts_with(b"/proc/");
    if !is_proc && OPEN_COUNT.load(Ordering::Acquire) == 0 {
        return false;
    }
    let flags = flags | libc::O_CLOEXEC;
    // SAFETY: the path is the caller's, and the descriptor ours. The system calls, because `open`
    // and `close` are ours.
    unsafe {
        let errno = *libc::__errno_location();
        let found = libc::syscall(libc::SYS_openat, folder, path, flags) as c_int;
        let is_it = found >= 0 && is_shape(found);
        if found >= 0 {
            libc::syscall(libc::SYS_close, found);
        }
        *libc::__errno_location() = errno;
        is_it
    }
}

/// Whether a descriptor is of a shape of this map, whichever process made it.
fn is_shape(fd: c_int) -> bool {
    let (Some(name), link) = (shape_name(), format!("/proc/self/fd/{fd}")) else {
        return false;
    };
    let found = std::fs::read_link(link).unwrap_or_default();
    let found = found.as_os_str().as_bytes();
    let found = found.strip_prefix(b"/memfd:".as_slice()).unwrap_or(b"");
    found.strip_suffix(b" (deleted)".as_slice()) == Some(name.to_bytes())
}

/// What shapes of this map are called.
fn shape_name() -> Option<CString> {
    let socket = std::env::var_os("STRAIGHTWAY_MAP_SOCKET")?;
    CString::new([b"straightway-map-file ", socket.as_bytes()].concat()).ok()
}

/// Remembers the descriptors that this program was started with: a shell's `< FILE`.
pub fn inherit() {
    if at().is_none() {
        return;
    }
    let listing = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    let numbers = listing.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    for fd in numbers.collect::<Vec<c_int>>() {
        if is_shape(fd) {
            remember(fd);
        }
    }
}

/// Whether a path is the file's name.
pub fn is_named(folder: c_int, path: *const libc::c_char) -> bool {
    let Some(at) = at() else { return false };
    if path.is_null() {
        return false;
    }
    // SAFETY: the caller's path ends with a zero, as the C library's functions require.
    let path = Path::new(OsStr::from_bytes(
        unsafe { CStr::from_ptr(path) }.to_bytes(),
    ));
    // Most paths of a program end here.
    if path.file_name() != at.file_name() {
        return false;
    }
    let base = match folder {
        _ if path.is_absolute() => PathBuf::new(),
        libc::AT_FDCWD => std::env::current_dir().unwrap_or_default(),
        folder => std::fs::read_link(format!("/proc/self/fd/{folder}")).unwrap_or_default(),
    };
    plain(&base.join(path)) == *at
}

/// The path without `.`, and with each `..` resolved by its words.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

fn file() -> Result<&'static File, Errno> {
    let process = std::process::id();
    loop {
        let found = FILE.load(Ordering::Acquire);
        // SAFETY: it is null or a file that is never freed.
        if let Some(file) = unsafe { found.as_ref() }.filter(|file| file.process == process) {
            return Ok(file);
        }
        let file = attach(process)?;
        let new = Box::into_raw(Box::new(file));
        let (to, from) = (Ordering::AcqRel, Ordering::Acquire);
        if FILE.compare_exchange(found, new, to, from).is_err() {
            // SAFETY: another thread was first, and no one else has this one.
            drop(unsafe { Box::from_raw(new) });
        }
    }
}

fn attach(process: u32) -> Result<File, Errno> {
    let socket = std::env::var_os("STRAIGHTWAY_MAP_SOCKET").ok_or(libc::ENOENT)?;
    let map = attach_before(TAIL_BYTES, Path::new(&socket));
    // A limit on addresses (RLIMIT_AS) may leave none behind the map.
    let map = map.or_else(|_| attach_before(0, Path::new(&socket)));
    let map = map.map_err(|error| match error {
        map::Error::NotPermitted(_) => libc::EPERM,
        _ => libc::EIO,
    })?;
    Ok(File { map, process })
}

/// The sealed file with the same size.
pub fn shape() -> Result<c_int, Errno> {
    let found = SHAPE.load(Ordering::Acquire);
    if found >= 0 {
        return Ok(found);
    }
    let size = off_t::try_from(file()?.map.size_bytes()).map_err(|_| libc::EFBIG)?;
    let name = shape_name().ok_or(libc::ENOENT)?;
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: these calls have a name that ends with a zero, numbers, and a file that is ours.
    let shape = unsafe {
        let shape = libc::memfd_create(name.as_ptr(), flags);
        let seals = libc::F_SEAL_WRITE | libc::F_SEAL_GROW | libc::F_SEAL_SHRINK;
        let is_made = shape >= 0
            && libc::ftruncate(shape, size) == 0
            && libc::fchmod(shape, 0o200) == 0
            && libc::syscall(libc::SYS_fcntl, shape, libc::F_ADD_SEALS, seals) == 0;
        is_made.then_some(shape)
    };
    let shape = shape.ok_or(libc::EIO)?;
    let (to, from) = (Ordering::AcqRel, Ordering::Acquire);
    match SHAPE.compare_exchange(-1, shape, to, from) {
        Ok(_) => Ok(shape),
        Err(first) => {
            close_really(shape);
            Ok(first)
        }
    }
}

/// The file's length in bytes.
pub fn size_bytes() -> Result<off_t, Errno> {
    off_t::try_from(file()?.map.size_bytes()).map_err(|_| libc::EFBIG)
}

/// Opens the file.
pub fn open(flags: c_int) -> Result<c_int, Errno> {
    if flags & libc::O_ACCMODE != libc::O_RDONLY || flags & libc::O_TRUNC != 0 {
        return Err(libc::EACCES);
    }
    if flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0 {
        return Err(libc::EEXIST);
    }
    let shape = format!("/proc/self/fd/{}\0", shape()?);
    let flags = libc::O_WRONLY | flags & libc::O_CLOEXEC;
    // SAFETY: the path ends with a zero. The system call, because `open` is ours.
    let opened = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, shape.as_ptr(), flags) };
    let Ok(opened) = c_int::try_from(opened) else {
        return Err(libc::EIO);
    };
    if opened < 0 {
        return Err(std::io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO));
    }
    if !remember(opened) {
        close_really(opened);
        return Err(libc::EMFILE);
    }
    Ok(opened)
}

/// A new descriptor of the file.
pub fn remember(fd: c_int) -> bool {
    // One that the C library closed without this one.
    forget(fd);
    let Some(entry) = entry(fd) else { return false };
    let free = |place: &&AtomicU64| {
        let (from, to) = (Ordering::AcqRel, Ordering::Relaxed);
        place.compare_exchange(0, entry, from, to).is_ok()
    };
    let has_place = OPEN.iter().find(free).is_some();
    OPEN_COUNT.fetch_add(usize::from(has_place), Ordering::Release);
    has_place
}

/// Whether a descriptor is the file's.
pub fn is_open(fd: c_int) -> bool {
    if fd < 0 || OPEN_COUNT.load(Ordering::Acquire) == 0 {
        return false;
    }
    let mut places = OPEN.iter().map(|place| place.load(Ordering::Relaxed));
    let Some(remembered) = places.find(|&place| number(place) == Some(fd)) else {
        return false;
    };
    // The C library may have closed it without this one, and the number is another file's.
    let is_still = entry(fd) == Some(remembered);
    if !is_still {
        forget(fd);
    }
    is_still
}

/// The descriptor of a place.
fn number(place: u64) -> Option<c_int> {
    (place != 0).then_some(place as u32 as c_int)
}

/// What is remembered of a descriptor: its number and its inode. A shape has no name in a folder.
fn entry(fd: c_int) -> Option<u64> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the structure is the call's, and whole once it has succeeded. The system call,
    // because `fstat` is ours.
    let status = unsafe {
        let done = libc::syscall(libc::SYS_fstat, fd, status.as_mut_ptr());
        (done == 0).then(|| status.assume_init())
    }?;
    let inode = status.st_ino.wrapping_add(1) << 32;
    (status.st_nlink == 0).then_some(inode | u64::from(fd as u32))
}

/// The descriptor is closed.
pub fn forget(fd: c_int) {
    let is_it = |place: &&AtomicU64| {
        let found = place.load(Ordering::Relaxed);
        let (from, to) = (Ordering::AcqRel, Ordering::Relaxed);
        number(found) == Some(fd) && place.compare_exchange(found, 0, from, to).is_ok()
    };
    if OPEN_COUNT.load(Ordering::Acquire) > 0 && OPEN.iter().find(is_it).is_some() {
        OPEN_COUNT.fetch_sub(1, Ordering::Release);
    }
}

/// Closes a descriptor that is not remembered.
pub fn close_really(fd: c_int) -> c_int {
    // SAFETY: the type is close's, and the descriptor is ours.
    unsafe { CLOSE.get::<unsafe extern "C" fn(c_int) -> c_int>() }.map_or(-1, |close| {
        // SAFETY: as above.
        unsafe { close(fd) }
    })
}

/// Copies bytes of the file at `offset` to memory of the program.
///
/// # Safety
/// `to` may be written for `len` bytes.
pub unsafe fn read_at(to: *mut c_void, len: usize, offset: off_t) -> Result<usize, Errno> {
    let map = &file()?.map;
    let offset = u64::try_from(offset).map_err(|_| libc::EINVAL)?;
    let left = map.size_bytes().saturating_sub(offset);
    let len = len.min(usize::try_from(left).unwrap_or(usize::MAX));
    if len == 0 {
        return Ok(0);
    }
    let mut done = 0;
    while done < len {
        let part = |base: *mut c_void| libc::iovec {
            iov_base: base,
            iov_len: len - done,
        };
        let at = offset + done as u64;
        // SAFETY: the part is inside the map, and the program's memory is as the caller says. The
        // kernel copies between two ranges of this process, up to a page that is an error.
        let copied = unsafe {
            let from = map.as_ptr().as_ptr().add(at as usize).cast();
            let (to, from) = (part(to.byte_add(done)), part(from));
            libc::process_vm_readv(libc::getpid(), &raw const to, 1, &raw const from, 1, 0)
        };
        match usize::try_from(copied) {
            Ok(copied) if copied > 0 => done += copied,
            // Of a user who may serve only the loads of the program itself, the kernel's copy fails
            // at each page that is missing.
            _ if is_readable(map, at, len - done) => {
                // SAFETY: as above; no memory of the program overlaps the map, which is read-only.
                unsafe {
                    let from = map.as_ptr().as_ptr().add(at as usize);
                    ptr::copy(from, to.byte_add(done).cast(), len - done);
                }
                done = len;
            }
            _ if done > 0 => break,
            _ => return Err(libc::EIO),
        }
    }
    Ok(done)
}

/// Whether no page of a part is known to be an error.
fn is_readable(map: &Attached, offset: u64, len: usize) -> bool {
    let end = offset + len as u64;
    let mut pages = map.unreadable().into_iter();
    !pages.any(|page| page.offset_bytes < end && page.offset_bytes + map.page_bytes() > offset)
}

/// A part of the file in memory.
pub fn map_part(
    len: usize,
    protection: c_int,
    flags: c_int,
    offset: off_t,
) -> Result<*mut c_void, Errno> {
    let map = &file()?.map;
    let end = usize::try_from(offset)
        .ok()
        .and_then(|offset| offset.checked_add(len));
    let most = map.len_bytes() + map.tail_bytes() as u64;
    if flags & libc::MAP_FIXED != 0 || len == 0 || offset % PAGE_BYTES != 0 {
        return Err(libc::EINVAL);
    }
    if protection & !libc::PROT_READ != 0 {
        return Err(libc::EACCES);
    }
    if end.is_some_and(|end| end as u64 <= most) {
        // SAFETY: the part is inside the map.
        Ok(unsafe { map.as_ptr().as_ptr().add(offset as usize).cast() })
    } else {
        Err(libc::ENXIO)
    }
}

/// Whether an address is in the map.
pub fn is_mapped(address: *const c_void) -> bool {
    // SAFETY: it is null or a file that is never freed.
    let file = unsafe { FILE.load(Ordering::Acquire).as_ref() };
    let Some(File { map, .. }) = file.filter(|file| file.process == std::process::id()) else {
        return false;
    };
    let offset = (address as usize).wrapping_sub(map.as_ptr().as_ptr() as usize);
    (offset as u64) < map.len_bytes() + map.tail_bytes() as u64
}

/// The address of a mapping that gets another length: the same, since what is behind it is the map
/// too.
pub fn remap(address: *const c_void, len: usize, flags: c_int) -> Result<i64, Errno> {
    let map = &file()?.map;
    let offset = (address as usize).wrapping_sub(map.as_ptr().as_ptr() as usize);
    let most = map.len_bytes() + map.tail_bytes() as u64;
    let end = offset.checked_add(len).filter(|&end| end as u64 <= most);
    if flags & !libc::MREMAP_MAYMOVE == 0 && len > 0 {
        end.map(|_| address as i64).ok_or(libc::ENOMEM)
    } else {
        Err(libc::EINVAL)
    }
}

/// The file's resolved name, in the caller's space or in new memory, which the caller frees.
pub fn resolved(space: *mut libc::c_char) -> Result<i64, Errno> {
    file()?;
    let name = at().ok_or(libc::ENOENT)?.as_os_str().as_bytes();
    let name = CString::new(name).map_err(|_| libc::ENOENT)?;
    let len = name.as_bytes_with_nul().len();
    if len > libc::PATH_MAX as usize {
        return Err(libc::ENAMETOOLONG);
    }
    // SAFETY: the caller's space has PATH_MAX bytes; new memory has the name's.
    unsafe {
        let to = if space.is_null() {
            libc::malloc(len).cast()
        } else {
            space
        };
        if to.is_null() {
            return Err(libc::ENOMEM);
        }
        ptr::copy_nonoverlapping(name.as_ptr(), to, len);
        Ok(to as i64)
    }
}
