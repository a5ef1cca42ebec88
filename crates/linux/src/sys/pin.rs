// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages of another owner that stay where they are, while a device has their physical addresses.
//!
//! A pipe that was given pages (vmsplice) holds a reference to each, so the kernel neither frees
//! nor moves them, also not to compact memory or to take it offline. It does so for memory that is
//! mapped to read only, which io_uring's registered buffers refuse.
#![allow(unsafe_code)]

use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use std::io;
use std::ptr;

/// What one pipe holds: its table is one allocation of the kernel's.
const PIPE_BYTES: usize = 16 << 20;

/// References to pages, until it is dropped.
#[derive(Debug)]
pub(crate) struct Pinned {
    /// The ends from which nothing is read, and the others.
    _pipes: Vec<[OwnedFd; 2]>,
}

impl Pinned {
    /// Holds the pages of `len` bytes at `start`, whole pages. Those that are not in memory are
    /// brought there, as by a load.
    pub(crate) fn new(start: usize, len: usize) -> io::Result<Self> {
        let mut pipes = Vec::new();
        for at in (0..len).step_by(PIPE_BYTES) {
            let piece = PIPE_BYTES.min(len - at);
            let mut ends = [0; 2];
            // SAFETY: the kernel writes two descriptors, which only this function has, or returns
            // an error.
            let [reader, writer] = unsafe {
                if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) != 0 {
                    return Err(io::Error::last_os_error());
                }
                ends.map(|end| OwnedFd::from_raw_fd(end))
            };
            // SAFETY: the call has a number as its argument.
            let size = unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, piece as i32) };
            if usize::try_from(size).is_ok_and(|size| size >= piece) {
                hold(&writer, start + at, piece)?;
            } else {
                return Err(io::Error::last_os_error());
            }
            pipes.push([reader, writer]);
        }
        Ok(Self { _pipes: pipes })
    }
}

fn hold(pipe: &OwnedFd, start: usize, len: usize) -> io::Result<()> {
    let mut done = 0;
    while done < len {
        let piece = libc::iovec {
            iov_base: ptr::without_provenance_mut(start + done),
            iov_len: len - done,
        };
        // SAFETY: the kernel only refers to the pages, and refuses addresses that are not mapped.
        let held = unsafe { libc::vmsplice(pipe.as_raw_fd(), &raw const piece, 1, 0) };
        match usize::try_from(held) {
            Ok(0) => return Err(Errno::NOMEM.into()),
            Ok(held) => done += held,
            Err(_) => return Err(io::Error::last_os_error()),
        }
    }
    Ok(())
}
