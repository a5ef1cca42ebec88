// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `stat` and `lseek` say of the file: that of its shape, with data from end to end.
//!
//! The shape has no data, and its mode lets no one read it: `cp` would make a hole of it.
#![allow(unsafe_code)]

use crate::calls::done;
use crate::file::{self, Errno};
use libc::{c_int, c_uint, off_t};

/// The unit of a status's blocks.
const BLOCK_BYTES: off_t = 512;
const MODE: libc::mode_t = libc::S_IFREG | 0o444;

/// Fills the caller's status.
pub fn of(status: *mut libc::stat) -> Result<i64, Errno> {
    let shape = file::shape()?;
    let size = file::size_bytes()?;
    // SAFETY: the caller's structure is that of `stat`, which is whole once the call has succeeded.
    // The system call, because `fstat` is ours.
    unsafe {
        done(libc::syscall(libc::SYS_fstat, shape, status) as c_int)?;
        (*status).st_blocks = size / BLOCK_BYTES + off_t::from(size % BLOCK_BYTES != 0);
        (*status).st_mode = MODE;
        (*status).st_nlink = 1;
    }
    Ok(0)
}

/// Fills the caller's status of `statx`.
pub fn extended(mask: c_uint, status: *mut libc::statx) -> Result<i64, Errno> {
    let (shape, flags) = (file::shape()?, libc::AT_EMPTY_PATH);
    let size = file::size_bytes()?;
    // SAFETY: as above; the call is made directly, because `statx` is ours.
    unsafe {
        let result = libc::syscall(libc::SYS_statx, shape, c"".as_ptr(), flags, mask, status);
        done(result as c_int)?;
        (*status).stx_blocks = size.unsigned_abs().div_ceil(BLOCK_BYTES as u64);
        (*status).stx_mode = MODE as u16;
        (*status).stx_nlink = 1;
    }
    Ok(0)
}

/// Moves a descriptor of the file. All of it is data, and the only hole is behind its end.
pub fn seek(fd: c_int, offset: off_t, from: c_int) -> Result<off_t, Errno> {
    let size = file::size_bytes()?;
    let (offset, from) = match from {
        libc::SEEK_DATA | libc::SEEK_HOLE if !(0..size).contains(&offset) => {
            return Err(libc::ENXIO);
        }
        libc::SEEK_DATA => (offset, libc::SEEK_SET),
        libc::SEEK_HOLE => (size, libc::SEEK_SET),
        from => (offset, from),
    };
    // SAFETY: the arguments are numbers; the system call, because `lseek` is ours.
    match unsafe { libc::syscall(libc::SYS_lseek, fd, offset, from) } {
        // SAFETY: the place is this thread's own.
        -1 => Err(unsafe { *libc::__errno_location() }),
        at => Ok(at),
    }
}
