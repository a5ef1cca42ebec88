// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The C library's functions that this one replaces.
//!
//! A function with a variable number of arguments has all that it may get here: on Linux's calling
//! conventions of x86-64 and arm64 they are in the same registers, and the others are not read.
#![allow(unsafe_code)]

use crate::file::{self, Errno};
use crate::real::Real;
use crate::status;
use crate::stream;
use libc::{FILE, c_char, c_int, c_uint, c_void, iovec, mode_t, off_t, size_t, ssize_t};

/// A call's result, or -1 with the error number.
fn answer<T: TryFrom<i64> + From<i8>>(result: Result<i64, Errno>) -> T {
    let value = result.and_then(|value| T::try_from(value).map_err(|_| libc::EOVERFLOW));
    value.unwrap_or_else(|errno| {
        // SAFETY: the place is this thread's own.
        unsafe { *libc::__errno_location() = errno };
        T::from(-1i8)
    })
}

/// Defines functions of the C library: what each does for the file, and otherwise its own.
macro_rules! replace {
    ($($(#[$about:meta])* fn $name:ident($($argument:ident: $kind:ty),*) -> $result:ty
        where $is_ours:expr => $ours:expr;)*) => {$(
        $(#[$about])*
        #[unsafe(no_mangle)]
        // The C library documents what its callers promise.
        #[allow(clippy::missing_safety_doc)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> $result {
            static REAL: Real = {
                let name = concat!(stringify!($name), "\0");
                match std::ffi::CStr::from_bytes_with_nul(name.as_bytes()) {
                    Ok(name) => Real::new(name),
                    Err(_) => Real::new(c""),
                }
            };
            if $is_ours {
                return answer($ours);
            }
            // SAFETY: the type is the function's, and the arguments are those of our caller.
            unsafe {
                match REAL.get::<unsafe extern "C" fn($($kind),*) -> $result>() {
                    Some(real) => real($($argument),*),
                    None => answer(Err(libc::ENOSYS)),
                }
            }
        }
    )*};
}

const HERE: c_int = libc::AT_FDCWD;

replace! {
    fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int
        where file::is_at(HERE, path) => file::open(flags).map(i64::from);
    fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int
        where file::is_at(HERE, path) => file::open(flags).map(i64::from);
    fn openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int
        where file::is_at(folder, path) => file::open(flags).map(i64::from);
    fn openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int
        where file::is_at(folder, path) => file::open(flags).map(i64::from);
    // What a program calls that was built with checks of its buffers (_FORTIFY_SOURCE).
    fn __open_2(path: *const c_char, flags: c_int) -> c_int
        where file::is_at(HERE, path) => file::open(flags).map(i64::from);
    fn __open64_2(path: *const c_char, flags: c_int) -> c_int
        where file::is_at(HERE, path) => file::open(flags).map(i64::from);
    fn __openat_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int
        where file::is_at(folder, path) => file::open(flags).map(i64::from);
    fn __openat64_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int
        where file::is_at(folder, path) => file::open(flags).map(i64::from);
    fn fopen(path: *const c_char, mode: *const c_char) -> isize
        where file::is_at(HERE, path) => or_null(stream::open(mode));
    fn fopen64(path: *const c_char, mode: *const c_char) -> isize
        where file::is_at(HERE, path) => or_null(stream::open(mode));
    fn fdopen(fd: c_int, mode: *const c_char) -> isize
        where file::is_open(fd) => or_null(stream::on(fd));
    fn fileno(stream: *mut FILE) -> c_int
        where stream::descriptor(stream).is_some() => stream::descriptor(stream).map(i64::from).ok_or(libc::EBADF);
    fn fileno_unlocked(stream: *mut FILE) -> c_int
        where stream::descriptor(stream).is_some() => stream::descriptor(stream).map(i64::from).ok_or(libc::EBADF);
    fn close(fd: c_int) -> c_int
        where { file::forget(fd); false } => Ok(0);

    fn read(fd: c_int, to: *mut c_void, len: size_t) -> ssize_t
        where file::is_open(fd) => read_on(fd, &[iovec { iov_base: to, iov_len: len }]);
    fn pread(fd: c_int, to: *mut c_void, len: size_t, offset: off_t) -> ssize_t
        where file::is_open(fd) => read_parts(&[iovec { iov_base: to, iov_len: len }], offset);
    fn pread64(fd: c_int, to: *mut c_void, len: size_t, offset: off_t) -> ssize_t
        where file::is_open(fd) => read_parts(&[iovec { iov_base: to, iov_len: len }], offset);
    fn __read_chk(fd: c_int, to: *mut c_void, len: size_t, space: size_t) -> ssize_t
        where len <= space && file::is_open(fd) => read_on(fd, &[iovec { iov_base: to, iov_len: len }]);
    fn __pread_chk(fd: c_int, to: *mut c_void, len: size_t, offset: off_t, space: size_t) -> ssize_t
        where len <= space && file::is_open(fd) => read_parts(&[iovec { iov_base: to, iov_len: len }], offset);
    fn __pread64_chk(fd: c_int, to: *mut c_void, len: size_t, offset: off_t, space: size_t) -> ssize_t
        where len <= space && file::is_open(fd) => read_parts(&[iovec { iov_base: to, iov_len: len }], offset);
    fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t
        where file::is_open(fd) => read_on(fd, slice(parts, count));
    fn preadv(fd: c_int, parts: *const iovec, count: c_int, offset: off_t) -> ssize_t
        where file::is_open(fd) => read_parts(slice(parts, count), offset);
    fn preadv64(fd: c_int, parts: *const iovec, count: c_int, offset: off_t) -> ssize_t
        where file::is_open(fd) => read_parts(slice(parts, count), offset);
    fn preadv2(fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t
        where file::is_open(fd) => read_parts_or_on(fd, slice(parts, count), offset);
    fn preadv64v2(fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t
        where file::is_open(fd) => read_parts_or_on(fd, slice(parts, count), offset);

    fn stat(path: *const c_char, status: *mut libc::stat) -> c_int
        where file::is_at(HERE, path) => status::of(status);
    fn lstat(path: *const c_char, status: *mut libc::stat) -> c_int
        where file::is_at_itself(HERE, path, false) => status::of(status);
    fn fstat(fd: c_int, status: *mut libc::stat) -> c_int
        where file::is_open(fd) => status::of(status);
    fn fstatat(folder: c_int, path: *const c_char, status: *mut libc::stat, flags: c_int) -> c_int
        where is_meant(folder, path, flags) => status::of(status);
    fn stat64(path: *const c_char, status: *mut libc::stat) -> c_int
        where file::is_at(HERE, path) => status::of(status);
    fn lstat64(path: *const c_char, status: *mut libc::stat) -> c_int
        where file::is_at_itself(HERE, path, false) => status::of(status);
    fn fstat64(fd: c_int, status: *mut libc::stat) -> c_int
        where file::is_open(fd) => status::of(status);
    fn fstatat64(folder: c_int, path: *const c_char, status: *mut libc::stat, flags: c_int) -> c_int
        where is_meant(folder, path, flags) => status::of(status);
    // The names of these until version 2.33 of the C library.
    fn __xstat(version: c_int, path: *const c_char, status: *mut libc::stat) -> c_int
        where file::is_at(HERE, path) => status::of(status);
    fn __lxstat(version: c_int, path: *const c_char, status: *mut libc::stat) -> c_int
        where file::is_at_itself(HERE, path, false) => status::of(status);
    fn __fxstat(version: c_int, fd: c_int, status: *mut libc::stat) -> c_int
        where file::is_open(fd) => status::of(status);
    fn __fxstatat(version: c_int, folder: c_int, path: *const c_char, status: *mut libc::stat, flags: c_int) -> c_int
        where is_meant(folder, path, flags) => status::of(status);
    fn __xstat64(version: c_int, path: *const c_char, status: *mut libc::stat) -> c_int
        where file::is_at(HERE, path) => status::of(status);
    fn __lxstat64(version: c_int, path: *const c_char, status: *mut libc::stat) -> c_int
        where file::is_at_itself(HERE, path, false) => status::of(status);
    fn __fxstat64(version: c_int, fd: c_int, status: *mut libc::stat) -> c_int
        where file::is_open(fd) => status::of(status);
    fn __fxstatat64(version: c_int, folder: c_int, path: *const c_char, status: *mut libc::stat, flags: c_int) -> c_int
        where is_meant(folder, path, flags) => status::of(status);
    fn statx(folder: c_int, path: *const c_char, flags: c_int, mask: c_uint, status: *mut libc::statx) -> c_int
        where is_meant(folder, path, flags) => status::extended(mask, status);
    fn lseek(fd: c_int, offset: off_t, from: c_int) -> off_t
        where file::is_open(fd) => status::seek(fd, offset, from);
    fn lseek64(fd: c_int, offset: off_t, from: c_int) -> off_t
        where file::is_open(fd) => status::seek(fd, offset, from);
    fn access(path: *const c_char, mode: c_int) -> c_int
        where file::is_at(HERE, path) => may(mode);
    fn euidaccess(path: *const c_char, mode: c_int) -> c_int
        where file::is_at(HERE, path) => may(mode);
    fn eaccess(path: *const c_char, mode: c_int) -> c_int
        where file::is_at(HERE, path) => may(mode);
    fn faccessat(folder: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int
        where file::is_at(folder, path) => may(mode);

    // Its name leads through no link.
    fn realpath(path: *const c_char, space: *mut c_char) -> isize
        where file::is_named(HERE, path) => resolved(space);
    fn __realpath_chk(path: *const c_char, space: *mut c_char, len: size_t) -> isize
        where file::is_named(HERE, path) => resolved(space);
    fn canonicalize_file_name(path: *const c_char) -> isize
        where file::is_named(HERE, path) => resolved(std::ptr::null_mut());
    fn readlink(path: *const c_char, to: *mut c_char, len: size_t) -> ssize_t
        where file::is_named(HERE, path) => Err(libc::EINVAL);
    fn readlinkat(folder: c_int, path: *const c_char, to: *mut c_char, len: size_t) -> ssize_t
        where file::is_named(folder, path) => Err(libc::EINVAL);

    // It has no extended attributes, and takes none.
    fn getxattr(path: *const c_char, name: *const c_char, to: *mut c_void, len: size_t) -> ssize_t
        where file::is_at(HERE, path) => Err(libc::ENODATA);
    fn lgetxattr(path: *const c_char, name: *const c_char, to: *mut c_void, len: size_t) -> ssize_t
        where file::is_at_itself(HERE, path, false) => Err(libc::ENODATA);
    fn fgetxattr(fd: c_int, name: *const c_char, to: *mut c_void, len: size_t) -> ssize_t
        where file::is_open(fd) => Err(libc::ENODATA);
    fn listxattr(path: *const c_char, to: *mut c_char, len: size_t) -> ssize_t
        where file::is_at(HERE, path) => Ok(0);
    fn llistxattr(path: *const c_char, to: *mut c_char, len: size_t) -> ssize_t
        where file::is_at_itself(HERE, path, false) => Ok(0);
    fn flistxattr(fd: c_int, to: *mut c_char, len: size_t) -> ssize_t
        where file::is_open(fd) => Ok(0);
    fn setxattr(path: *const c_char, name: *const c_char, from: *const c_void, len: size_t, flags: c_int) -> c_int
        where file::is_at(HERE, path) => Err(libc::EACCES);
    fn lsetxattr(path: *const c_char, name: *const c_char, from: *const c_void, len: size_t, flags: c_int) -> c_int
        where file::is_at_itself(HERE, path, false) => Err(libc::EACCES);
    fn fsetxattr(fd: c_int, name: *const c_char, from: *const c_void, len: size_t, flags: c_int) -> c_int
        where file::is_open(fd) => Err(libc::EACCES);
    fn removexattr(path: *const c_char, name: *const c_char) -> c_int
        where file::is_at(HERE, path) => Err(libc::EACCES);
    fn lremovexattr(path: *const c_char, name: *const c_char) -> c_int
        where file::is_at_itself(HERE, path, false) => Err(libc::EACCES);
    fn fremovexattr(fd: c_int, name: *const c_char) -> c_int
        where file::is_open(fd) => Err(libc::EACCES);

    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int
        where file::is_open(fd) => control(fd, command, argument);
    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int
        where file::is_open(fd) => control(fd, command, argument);
    fn dup(fd: c_int) -> c_int
        where file::is_open(fd) => control(fd, libc::F_DUPFD, 0);

    fn dup2(fd: c_int, to: c_int) -> c_int
        where is_duplicated(fd, to) => duplicate(fd, to, 0);
    fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int
        where is_duplicated(fd, to) => duplicate(fd, to, flags);

    // What copies inside the kernel would copy the file's shape: zeros, if it could be read.
    fn sendfile(to: c_int, fd: c_int, offset: *mut off_t, len: size_t) -> ssize_t
        where file::is_open(fd) => Err(libc::EINVAL);
    fn sendfile64(to: c_int, fd: c_int, offset: *mut off_t, len: size_t) -> ssize_t
        where file::is_open(fd) => Err(libc::EINVAL);
    fn copy_file_range(fd: c_int, from: *mut off_t, to: c_int, at: *mut off_t, len: size_t, flags: c_uint) -> ssize_t
        where file::is_open(fd) => Err(libc::EINVAL);
    fn splice(fd: c_int, from: *mut off_t, to: c_int, at: *mut off_t, len: size_t, flags: c_uint) -> ssize_t
        where file::is_open(fd) => Err(libc::EINVAL);

    fn mmap(address: *mut c_void, len: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off_t) -> isize
        where is_file_mapping(flags, fd) => map_part(len, protection, flags, offset);
    fn mmap64(address: *mut c_void, len: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off_t) -> isize
        where is_file_mapping(flags, fd) => map_part(len, protection, flags, offset);
    // The map stays; a program that maps the part again gets the same address.
    fn munmap(address: *mut c_void, len: size_t) -> c_int
        where file::is_mapped(address) => Ok(0);
    fn mremap(address: *mut c_void, old: size_t, new: size_t, flags: c_int, to: *mut c_void) -> isize
        where file::is_mapped(address) => file::remap(address, new, flags);
    // The memory must be open to write for the kernel to report its faults, so the kernel would
    // allow both: a store or a hole that every reader gets.
    fn mprotect(address: *mut c_void, len: size_t, protection: c_int) -> c_int
        where protection & libc::PROT_WRITE != 0 && file::is_mapped(address) => Err(libc::EACCES);
    fn pkey_mprotect(address: *mut c_void, len: size_t, protection: c_int, key: c_int) -> c_int
        where protection & libc::PROT_WRITE != 0 && file::is_mapped(address) => Err(libc::EACCES);
    fn madvise(address: *mut c_void, len: size_t, advice: c_int) -> c_int
        where advice == libc::MADV_REMOVE && file::is_mapped(address) => Err(libc::EACCES);
}

/// A stream, or a null pointer with the error number.
fn or_null(result: Result<*mut FILE, Errno>) -> Result<i64, Errno> {
    Ok(result.map_or_else(
        |errno| {
            // SAFETY: the place is this thread's own.
            unsafe { *libc::__errno_location() = errno };
            0
        },
        |stream| stream as i64,
    ))
}

fn resolved(space: *mut c_char) -> Result<i64, Errno> {
    let name = file::resolved(space);
    or_null(name.map(|name| name as *mut FILE))
}

fn is_file_mapping(flags: c_int, fd: c_int) -> bool {
    flags & libc::MAP_ANONYMOUS == 0 && file::is_open(fd)
}

fn map_part(len: size_t, protection: c_int, flags: c_int, offset: off_t) -> Result<i64, Errno> {
    file::map_part(len, protection, flags, offset).map(|part| part as i64)
}

fn slice<'a>(parts: *const iovec, count: c_int) -> &'a [iovec] {
    let count = usize::try_from(count).unwrap_or(0);
    if parts.is_null() {
        &[]
    } else {
        // SAFETY: the caller passes so many parts to the C library's function.
        unsafe { std::slice::from_raw_parts(parts, count) }
    }
}

fn read_parts(parts: &[iovec], offset: off_t) -> Result<i64, Errno> {
    let mut done = 0;
    for part in parts {
        let at = offset.checked_add(done).ok_or(libc::EINVAL)?;
        // SAFETY: the caller passes this part to be written.
        match unsafe { file::read_at(part.iov_base, part.iov_len, at) } {
            Ok(len) => {
                done += len as off_t;
                if len < part.iov_len {
                    break;
                }
            }
            Err(_) if done > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(done)
}

/// Reads at the descriptor's position, and moves it.
fn read_on(fd: c_int, parts: &[iovec]) -> Result<i64, Errno> {
    let at = status::seek(fd, 0, libc::SEEK_CUR)?;
    let done = read_parts(parts, at)?;
    status::seek(fd, at + done, libc::SEEK_SET)?;
    Ok(done)
}

/// As `preadv2`: an offset of -1 is the descriptor's position.
fn read_parts_or_on(fd: c_int, parts: &[iovec], offset: off_t) -> Result<i64, Errno> {
    match offset {
        -1 => read_on(fd, parts),
        offset => read_parts(parts, offset),
    }
}

/// Whether the file gets another descriptor, in place of what `to` was.
fn is_duplicated(fd: c_int, to: c_int) -> bool {
    let is_ours = file::is_open(fd);
    if fd != to {
        file::forget(to);
    }
    is_ours
}

fn duplicate(fd: c_int, to: c_int, flags: c_int) -> Result<i64, Errno> {
    if fd == to && flags == 0 {
        return Ok(i64::from(to));
    }
    // SAFETY: the arguments are numbers; the system call, because `dup3` is ours.
    let result = done(unsafe { libc::syscall(libc::SYS_dup3, fd, to, flags) } as c_int)?;
    file::remember(to);
    Ok(result)
}

/// Whether a call with a folder and flags is about the file: by a path, or by a descriptor and
/// none.
fn is_meant(folder: c_int, path: *const c_char, flags: c_int) -> bool {
    // SAFETY: a path ends with a zero; Linux 6.11 takes a null pointer as an empty one.
    let is_empty = path.is_null() || unsafe { *path == 0 };
    if is_empty && flags & libc::AT_EMPTY_PATH != 0 {
        file::is_open(folder)
    } else {
        file::is_at_itself(folder, path, flags & libc::AT_SYMLINK_NOFOLLOW == 0)
    }
}

fn may(mode: c_int) -> Result<i64, Errno> {
    file::size_bytes()?;
    match mode & (libc::W_OK | libc::X_OK) {
        0 => Ok(0),
        _ => Err(libc::EACCES),
    }
}

fn control(fd: c_int, command: c_int, argument: usize) -> Result<i64, Errno> {
    // Nobody can change the file, so each lock to read is free.
    let lock = argument as *mut libc::flock;
    match command {
        libc::F_SETLK | libc::F_SETLKW | libc::F_OFD_SETLK | libc::F_OFD_SETLKW => {
            // SAFETY: the argument of these commands is a lock.
            match c_int::from(unsafe { (*lock).l_type }) {
                libc::F_WRLCK => Err(libc::EBADF),
                _ => Ok(0),
            }
        }
        libc::F_GETLK | libc::F_OFD_GETLK => {
            // SAFETY: as above.
            unsafe { (*lock).l_type = libc::F_UNLCK as libc::c_short };
            Ok(0)
        }
        _ => {
            // SAFETY: the arguments are the caller's; the system call, because `fcntl` is ours.
            let result = unsafe { libc::syscall(libc::SYS_fcntl, fd, command, argument) };
            let result = done(result as c_int)?;
            match command {
                libc::F_GETFL => Ok(result & !i64::from(libc::O_ACCMODE)),
                libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
                    file::remember(result as c_int);
                    Ok(result)
                }
                _ => Ok(result),
            }
        }
    }
}

/// A system call's result.
pub fn done(result: c_int) -> Result<i64, Errno> {
    match result {
        0.. => Ok(i64::from(result)),
        // SAFETY: the place is this thread's own.
        _ => Err(unsafe { *libc::__errno_location() }),
    }
}
