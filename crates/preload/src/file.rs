//! The file: its name, its descriptors, and its bytes, which are those of a shared map.
//!
//! A descriptor of it is one of an empty file in memory with the same size, sealed and opened to write:
//! it has a size, a position and a type, but whatever tries to read it past this library gets EBADF, and
//! EPERM if it writes.
#![allow(unsafe_code)]

use crate::real::Real;
use libc::{c_int, c_void, off_t};
use map::{Attached, attach_before};
use std::ffi::{CStr, OsStr};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// The most descriptors of the file at a time.
const MOST: usize = 64;

/// What a program's mappings begin at multiples of: the smallest page of a map.
const PAGE_BYTES: off_t = 4096;

/// A program may map so much more than the file has; LMDB maps the largest size that its database may reach.
const TAIL_BYTES: usize = 1 << 40;

/// An error number.
pub type Errno = c_int;

struct File {
    map: Attached,
    /// The sealed file with the same size.
    shape: c_int,
}

static FILE: OnceLock<Result<File, Errno>> = OnceLock::new();
static AT: OnceLock<Option<PathBuf>> = OnceLock::new();
static OPEN: [AtomicI32; MOST] = [const { AtomicI32::new(-1) }; MOST];
static OPEN_COUNT: AtomicUsize = AtomicUsize::new(0);

static CLOSE: Real = Real::new(c"close");

/// Whether a path means the file.
pub fn is_at(folder: c_int, path: *const libc::c_char) -> bool {
    let at = AT.get_or_init(|| std::env::var_os("STRAIGHTWAY_MAP_AT").map(PathBuf::from));
    let Some(at) = at else { return false };
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
    let file = FILE.get_or_init(|| {
        let socket = std::env::var_os("STRAIGHTWAY_MAP_SOCKET").ok_or(libc::ENOENT)?;
        let map = attach_before(TAIL_BYTES, Path::new(&socket));
        // A limit on addresses (RLIMIT_AS) may leave none behind the map.
        let map = map.or_else(|_| attach_before(0, Path::new(&socket)));
        let map = map.map_err(|error| match error {
            map::Error::NotPermitted(_) => libc::EPERM,
            _ => libc::EIO,
        })?;
        let size = off_t::try_from(map.size_bytes()).map_err(|_| libc::EFBIG)?;
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: these calls have a name that ends with a zero, numbers, and a file that is ours.
        let shape = unsafe {
            let shape = libc::memfd_create(c"straightway-map-file".as_ptr(), flags);
            let seals = libc::F_SEAL_WRITE | libc::F_SEAL_GROW | libc::F_SEAL_SHRINK;
            let is_made = shape >= 0
                && libc::ftruncate(shape, size) == 0
                && libc::fchmod(shape, 0o444) == 0
                && libc::fcntl(shape, libc::F_ADD_SEALS, seals) == 0;
            is_made.then_some(shape)
        };
        let shape = shape.ok_or(libc::EIO)?;
        Ok(File { map, shape })
    });
    file.as_ref().map_err(|&errno| errno)
}

/// Opens the file.
pub fn open(flags: c_int) -> Result<c_int, Errno> {
    if flags & libc::O_ACCMODE != libc::O_RDONLY || flags & libc::O_TRUNC != 0 {
        return Err(libc::EACCES);
    }
    if flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0 {
        return Err(libc::EEXIST);
    }
    let shape = format!("/proc/self/fd/{}\0", file()?.shape);
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
    let free = |place: &&AtomicI32| {
        let (from, to) = (Ordering::AcqRel, Ordering::Relaxed);
        place.compare_exchange(-1, fd, from, to).is_ok()
    };
    let has_place = OPEN.iter().find(free).is_some();
    OPEN_COUNT.fetch_add(usize::from(has_place), Ordering::Release);
    has_place
}

/// Whether a descriptor is the file's.
pub fn is_open(fd: c_int) -> bool {
    let is_it = |place: &AtomicI32| place.load(Ordering::Relaxed) == fd;
    if fd < 0 || OPEN_COUNT.load(Ordering::Acquire) == 0 || !OPEN.iter().any(is_it) {
        return false;
    }
    // The C library may have closed it without this one, and the number is another file's.
    let is_still = file().is_ok_and(|file| identity(fd) == identity(file.shape));
    if !is_still {
        forget(fd);
    }
    is_still
}

/// The device and the inode of a descriptor's file.
fn identity(fd: c_int) -> Option<(u64, u64)> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the structure is the call's, and whole once it has succeeded.
    let status =
        unsafe { (libc::fstat(fd, status.as_mut_ptr()) == 0).then(|| status.assume_init()) }?;
    Some((status.st_dev, status.st_ino))
}

/// The descriptor is closed.
pub fn forget(fd: c_int) {
    let is_it = |place: &&AtomicI32| {
        let (from, to) = (Ordering::AcqRel, Ordering::Relaxed);
        fd >= 0 && place.compare_exchange(fd, -1, from, to).is_ok()
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

/// The descriptor that `stat` and its kind are asked about instead of the name.
pub fn shape() -> Result<c_int, Errno> {
    Ok(file()?.shape)
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
        // SAFETY: the part is inside the map, and the program's memory is as the caller says. The kernel
        // copies between two ranges of this process, up to a page that is an error.
        let copied = unsafe {
            let from = map.as_ptr().as_ptr().add(at as usize).cast();
            let (to, from) = (part(to.byte_add(done)), part(from));
            libc::process_vm_readv(libc::getpid(), &raw const to, 1, &raw const from, 1, 0)
        };
        match usize::try_from(copied) {
            Ok(copied) if copied > 0 => done += copied,
            // Of a user who may serve only the loads of the program itself, the kernel's copy fails at
            // each page that is missing.
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
    match end.is_some_and(|end| end as u64 <= most) {
        // SAFETY: the part is inside the map.
        true => Ok(unsafe { map.as_ptr().as_ptr().add(offset as usize).cast() }),
        false => Err(libc::ENXIO),
    }
}

/// Whether an address is in the map.
pub fn is_mapped(address: *const c_void) -> bool {
    let Some(Ok(File { map, .. })) = FILE.get() else {
        return false;
    };
    let offset = (address as usize).wrapping_sub(map.as_ptr().as_ptr() as usize);
    (offset as u64) < map.len_bytes() + map.tail_bytes() as u64
}
