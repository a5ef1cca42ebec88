// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests of the block layer (linux/fs.h) and of the NVMe driver (linux/nvme_ioctl.h).
#![allow(unsafe_code)]

use rustix::fd::{AsFd, AsRawFd};
use rustix::ioctl::opcode;
use std::io;

const BLKSSZGET: u32 = opcode::none(0x12, 104);
const BLKGETSIZE64: u32 = opcode::read::<usize>(0x12, 114);
const BLKDISCARD: u32 = opcode::none(0x12, 119);
const BLKGETZONESZ: u32 = opcode::read::<u32>(0x12, 132);
const BLKZEROOUT: u32 = opcode::none(0x12, 127);
const LOOP_GET_STATUS64: u32 = 0x4c05;
const NVME_IOCTL_ID: u32 = opcode::none(b'N', 0x40);
const NVME_IOCTL_ADMIN_CMD: u32 = opcode::read_write::<PassthruCmd>(b'N', 0x41);

/// `struct nvme_passthru_cmd`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PassthruCmd {
    pub opcode: u8,
    pub flags: u8,
    pub rsvd1: u16,
    pub nsid: u32,
    pub cdw2: u32,
    pub cdw3: u32,
    pub metadata: u64,
    pub addr: u64,
    pub metadata_len: u32,
    pub data_len: u32,
    pub cdw10_15: [u32; 6],
    pub timeout_ms: u32,
    pub result: u32,
}

/// An admin command. Not public: its data must be as long as the controller will make it, because
/// the controller, which has the pages' addresses, gets no length.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Command {
    pub opcode: u8,
    pub nsid: u32,
    pub cdw10_15: [u32; 6],
    /// 0 is the driver's own limit.
    pub timeout_ms: u32,
}

/// Calls `ioctl` and returns its non-negative result.
///
/// # Safety
/// `argument` is what the kernel expects for `request` on this file: a number, or the address of a
/// structure that is valid for all that the kernel reads and writes through it.
pub(crate) unsafe fn ioctl(file: impl AsFd, request: u32, argument: usize) -> io::Result<i32> {
    // SAFETY: the caller's promise.
    let result = unsafe { libc::ioctl(file.as_fd().as_raw_fd(), request as _, argument) };
    match result {
        0.. => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `struct loop_info64` (linux/loop.h), as far as it is read.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoopBacking {
    /// The device of the backing file's file system.
    pub device: u64,
    pub inode: u64,
    /// The backing block device; 0 for a file.
    pub rdev: u64,
    _rest: [u64; 26],
}

/// The backing store of a loop device.
pub(crate) fn loop_backing(file: impl AsFd) -> io::Result<LoopBacking> {
    let mut backing = LoopBacking {
        device: 0,
        inode: 0,
        rdev: 0,
        _rest: [0; 26],
    };
    // SAFETY: the kernel writes one `struct loop_info64`, which has this length.
    unsafe { ioctl(file, LOOP_GET_STATUS64, &raw mut backing as usize) }?;
    Ok(backing)
}

/// A block device's length.
pub(crate) fn size_bytes(file: impl AsFd) -> io::Result<u64> {
    let mut size = 0u64;
    // SAFETY: the kernel writes one u64.
    unsafe { ioctl(file, BLKGETSIZE64, &raw mut size as usize) }?;
    Ok(size)
}

/// A block device's logical block size.
pub(crate) fn block_size_bytes(file: impl AsFd) -> io::Result<u32> {
    let mut size: libc::c_int = 0;
    // SAFETY: the kernel writes one int.
    unsafe { ioctl(file, BLKSSZGET, &raw mut size as usize) }?;
    Ok(size as u32)
}

/// The length of a zoned block device's zones, in sectors; 0 for a device without zones, or if the
/// kernel does not support them.
pub(crate) fn zone_sectors(file: impl AsFd) -> u32 {
    let mut sectors = 0u32;
    // SAFETY: the kernel writes one u32.
    match unsafe { ioctl(file, BLKGETZONESZ, &raw mut sectors as usize) } {
        Ok(_) => sectors,
        Err(_) => 0,
    }
}

/// Discards a range of a block device.
pub(crate) fn discard(file: impl AsFd, offset: u64, len: u64) -> io::Result<()> {
    let range = [offset, len];
    // SAFETY: the kernel reads two u64.
    unsafe { ioctl(file, BLKDISCARD, &raw const range as usize) }?;
    Ok(())
}

/// Zeroes a range of a block device.
pub(crate) fn zero_out(file: impl AsFd, offset: u64, len: u64) -> io::Result<()> {
    let range = [offset, len];
    // SAFETY: the kernel reads two u64.
    unsafe { ioctl(file, BLKZEROOUT, &raw const range as usize) }?;
    Ok(())
}

/// The identifier of a device node's namespace.
pub(crate) fn namespace_id(file: impl AsFd) -> io::Result<u32> {
    // SAFETY: the request takes no argument.
    Ok(unsafe { ioctl(file, NVME_IOCTL_ID, 0) }? as u32)
}

/// Runs an admin command; returns the controller's status, 0 for success, and dword 0 of its
/// answer. An error means that the command did not run.
pub(crate) fn admin(file: impl AsFd, command: &Command, data: &mut [u8]) -> io::Result<(u16, u32)> {
    let mut request = PassthruCmd {
        opcode: command.opcode,
        nsid: command.nsid,
        addr: data.as_mut_ptr() as u64,
        data_len: u32::try_from(data.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        cdw10_15: command.cdw10_15,
        timeout_ms: command.timeout_ms,
        ..PassthruCmd::default()
    };
    // SAFETY: the kernel reads and writes the structure, and waits for the command, which moves
    // `data_len` bytes from or to `data`: only `admin.rs` makes commands, of that very length.
    let status = unsafe { ioctl(file, NVME_IOCTL_ADMIN_CMD, &raw mut request as usize) }?;
    Ok((status as u16, request.result))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_numbers_of_the_kernel_s_headers() {
        assert_eq!(size_of::<PassthruCmd>(), 72);
        assert_eq!(size_of::<LoopBacking>(), 232);
        if cfg!(target_arch = "x86_64") {
            assert_eq!(BLKGETSIZE64, 0x8008_1272);
            assert_eq!(BLKDISCARD, 0x1277);
            assert_eq!(BLKZEROOUT, 0x127f);
            assert_eq!(BLKGETZONESZ, 0x8004_1284);
            assert_eq!(NVME_IOCTL_ID, 0x4e40);
            assert_eq!(NVME_IOCTL_ADMIN_CMD, 0xc048_4e41);
        }
    }
}
