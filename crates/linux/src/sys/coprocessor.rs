// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A coprocessor's window, mapped; and the lock that reserves a client's page for one process.
#![allow(unsafe_code)]

use super::map::Mapping;
use crate::HostMemory;
use coprocessor::Window;
use rustix::fd::{AsFd, AsRawFd};
use std::fs::File;
use std::io;

/// A window and its file.
#[derive(Debug)]
pub(crate) struct Mapped {
    mapping: Mapping,
    file: File,
}

impl Mapped {
    /// Maps the first `len` bytes of `file`.
    pub(crate) fn new(file: File, len: usize) -> io::Result<Self> {
        let mapping = Mapping::device(file.as_fd(), 0, len)?;
        Ok(Self { mapping, file })
    }

    /// The window, for reading it before there is memory.
    pub(crate) fn peek<T>(&self, look: impl FnOnce(&Window) -> T) -> T {
        // SAFETY: the window lives no longer than this call, and the mapping does.
        look(&unsafe { self.mapping.window() })
    }

    /// Locks the bytes `[offset, offset + len)` of the file for this process, until the file is
    /// closed. False: another process has them.
    pub(crate) fn lock(&self, offset: usize, len: usize) -> io::Result<bool> {
        // SAFETY: a plain structure of numbers, for which zeroes are valid.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = libc::F_WRLCK as libc::c_short;
        lock.l_whence = libc::SEEK_SET as libc::c_short;
        lock.l_start = offset as libc::off_t;
        lock.l_len = len as libc::off_t;
        // SAFETY: the descriptor is open, and the structure lives until the call returns.
        let result = unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_OFD_SETLK, &lock) };
        if result == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EACCES) => Ok(false),
            _ => Err(error),
        }
    }

    /// Splits into the window, the memory that keeps it mapped (with buffers only in `[start, start
    /// + len)`), and the file, which keeps its locks. The memory must outlive the window.
    pub(crate) fn split(self, start: usize, len: usize) -> (Window, HostMemory, File) {
        // SAFETY: the memory owns the mapping; the callers hold it as long as they use the window.
        // Buffers lie only in the client's data, which the window's own accesses do not touch.
        let window = unsafe { self.mapping.window() };
        (
            window,
            HostMemory::of_part(self.mapping, start, len),
            self.file,
        )
    }
}
