// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands of Linux's ublk driver (`include/uapi/linux/ublk_cmd.h`) in io_urings: the kernel reads
//! and writes the memory that a control command names until it is completed.
#![allow(unsafe_code)]

use crate::sys::map::Mapping;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::io;

/// Control commands, encoded as ioctls of type `u` with 32 bytes.
pub(crate) const ADD_DEV: u32 = read_write(0x04, CONTROL_BYTES);
pub(crate) const DEL_DEV: u32 = read_write(0x05, CONTROL_BYTES);
pub(crate) const START_DEV: u32 = read_write(0x06, CONTROL_BYTES);
pub(crate) const STOP_DEV: u32 = read_write(0x07, CONTROL_BYTES);
pub(crate) const SET_PARAMS: u32 = read_write(0x08, CONTROL_BYTES);
pub(crate) const GET_DEV_INFO: u32 = (2 << 30) | (CONTROL_BYTES << 16) | (0x75 << 8) | 0x02;
const FETCH_REQ: u32 = read_write(0x20, 16);
const COMMIT_AND_FETCH_REQ: u32 = read_write(0x21, 16);
const CONTROL_BYTES: u32 = 32;
/// Bytes of a request's description.
const DESCRIPTION_BYTES: usize = 24;
/// Marks the completion of a command that nothing waits for at once.
const LATER: u64 = 1;

const fn read_write(number: u32, bytes: u32) -> u32 {
    (3 << 30) | (bytes << 16) | (0x75 << 8) | number
}

/// `/dev/ublk-control`.
pub(crate) struct Control {
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    file: OwnedFd,
}

impl Control {
    pub(crate) fn new(file: OwnedFd) -> io::Result<Self> {
        let ring = Self::ring()?;
        Ok(Self { ring, file })
    }

    fn ring() -> io::Result<IoUring<squeue::Entry128, cqueue::Entry>> {
        IoUring::builder().build(4)
    }

    /// Runs a command with `memory`, which the kernel reads or writes, and returns when it is
    /// completed.
    pub(crate) fn run(
        &mut self,
        command: u32,
        device: u32,
        memory: &mut [u8],
        value: u64,
    ) -> io::Result<()> {
        self.push(command, device, memory, value)?;
        loop {
            // A signal does not end a command that was begun: the kernel still has the memory.
            let waited = self.ring.submit_and_wait(1);
            let is_begun = self.ring.submission().is_empty();
            match waited {
                Err(error) if !is_begun && error.kind() != io::ErrorKind::Interrupted => {
                    // It never will be.
                    self.ring = Self::ring()?;
                    return Err(error);
                }
                _ => {}
            }
            if let Some(entry) = self.ring.completion().next() {
                return answer(&entry);
            }
        }
    }

    /// Begins a command without memory; [`done`](Self::done) has its end.
    pub(crate) fn begin(&mut self, command: u32, device: u32, value: u64) -> io::Result<()> {
        self.push(command, device, &mut [], value)?;
        self.ring.submit()?;
        Ok(())
    }

    /// The result of the command that was begun, once it is completed.
    pub(crate) fn done(&mut self) -> Option<io::Result<()>> {
        let entry = self.ring.completion().next()?;
        Some(answer(&entry))
    }

    /// Readable when a command is completed.
    pub(crate) fn ring_file(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring's file is open as long as the ring, which is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }

    fn push(&mut self, command: u32, device: u32, memory: &mut [u8], value: u64) -> io::Result<()> {
        // struct ublksrv_ctrl_cmd: the device, no queue, the memory's length and address, a value.
        let mut bytes = [0; 80];
        bytes[..4].copy_from_slice(&device.to_ne_bytes());
        bytes[4..6].copy_from_slice(&u16::MAX.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(memory.len() as u16).to_ne_bytes());
        bytes[8..16].copy_from_slice(&(memory.as_mut_ptr() as u64).to_ne_bytes());
        bytes[16..24].copy_from_slice(&value.to_ne_bytes());
        let entry = opcode::UringCmd80::new(types::Fd(self.file.as_raw_fd()), command)
            .cmd(bytes)
            .build()
            .user_data(LATER);
        // SAFETY: `run` waits for the completion before it gives the memory back, and the file is
        // open as long as the ring.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|_| io::ErrorKind::QuotaExceeded.into())
    }
}

fn answer(entry: &cqueue::Entry) -> io::Result<()> {
    match entry.result() {
        0.. => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}

/// A request of the kernel: what it does and its flags, and its sectors of 512 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Described {
    pub op_flags: u32,
    pub sectors: u32,
    pub start: u64,
}

/// The one queue of a device: `/dev/ublkcN`.
pub(crate) struct Queue {
    ring: IoUring,
    file: OwnedFd,
    descriptions: Mapping,
    depth: u16,
}

impl Queue {
    pub(crate) fn new(file: OwnedFd, depth: u16) -> io::Result<Self> {
        let ring = IoUring::new(u32::from(depth).next_power_of_two())?;
        let page = rustix::param::page_size();
        let len = (usize::from(depth) * DESCRIPTION_BYTES).next_multiple_of(page);
        let descriptions = Mapping::device_to_read(&file, 0, len)?;
        Ok(Self {
            ring,
            file,
            descriptions,
            depth,
        })
    }

    /// The file by which the data of requests is copied.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Readable when a request may have come.
    pub(crate) fn ring_file(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring's file is open as long as the ring, which is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }

    /// Asks for the tag's first request.
    pub(crate) fn fetch(&mut self, tag: u16) -> io::Result<()> {
        self.push(FETCH_REQ, tag, 0)
    }

    /// Ends the tag's request with bytes, or an error's negative number, and asks for its next one.
    pub(crate) fn commit(&mut self, tag: u16, result: i32) -> io::Result<()> {
        self.push(COMMIT_AND_FETCH_REQ, tag, result)
    }

    fn push(&mut self, command: u32, tag: u16, result: i32) -> io::Result<()> {
        // struct ublksrv_io_cmd: queue 0, the tag, the result, and no address, since data is copied
        // by pread and pwrite.
        let mut bytes = [0; 16];
        bytes[2..4].copy_from_slice(&tag.to_ne_bytes());
        bytes[4..8].copy_from_slice(&result.to_ne_bytes());
        let entry = opcode::UringCmd16::new(types::Fd(self.file.as_raw_fd()), command)
            .cmd(bytes)
            .build()
            .user_data(tag.into());
        // SAFETY: the command names no memory, and the file is open as long as the ring.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        // Each tag has at most one command, so there is room for all.
        pushed.map_err(|_| io::ErrorKind::QuotaExceeded.into())
    }

    /// Gives the kernel what was pushed.
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        match self.ring.submit() {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// A tag whose command is completed, and the result: 0 for a request, and a negative error's
    /// number at the end.
    pub(crate) fn next(&mut self) -> Option<(u16, i32)> {
        let entry = self.ring.completion().next()?;
        let tag = entry.user_data() as u16;
        (tag < self.depth).then(|| (tag, entry.result()))
    }

    /// The tag's request.
    pub(crate) fn described(&self, tag: u16) -> Described {
        let at = usize::from(tag.min(self.depth - 1)) * DESCRIPTION_BYTES;
        let start = self.descriptions.start();
        // SAFETY: the tag is one of the queue, whose descriptions are mapped; the kernel has
        // written this one before it completed the command, and each of its parts is aligned.
        unsafe {
            let entry = start.add(at);
            Described {
                op_flags: entry.cast::<u32>().read_volatile(),
                sectors: entry.add(4).cast::<u32>().read_volatile(),
                start: entry.add(8).cast::<u64>().read_volatile(),
            }
        }
    }
}
