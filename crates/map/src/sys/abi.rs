// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's interface, linux/userfaultfd.h.

use rustix::ioctl::opcode;

/// The version of the interface.
pub(super) const API: u64 = 0xaa;

/// A fault is a SIGBUS of the thread, and no message: Linux 4.14.
pub(super) const FEATURE_SIGBUS: u64 = 1 << 7;
/// Messages name the thread.
pub(super) const FEATURE_THREAD_ID: u64 = 1 << 8;
pub(super) const FEATURE_MISSING_SHMEM: u64 = 1 << 5;
pub(super) const FEATURE_MINOR_SHMEM: u64 = 1 << 10;
/// Write protection of shared memory: Linux 5.19.
pub(super) const FEATURE_WP_SHMEM: u64 = 1 << 12;
/// Write protection at all.
pub(super) const FEATURE_WP: u64 = 1 << 0;

pub(super) const REGISTER_MISSING: u64 = 1 << 0;
pub(super) const REGISTER_WP: u64 = 1 << 1;
pub(super) const REGISTER_MINOR: u64 = 1 << 2;

pub(super) const COPY_MODE_WP: u64 = 1 << 1;
pub(super) const WRITEPROTECT_MODE_WP: u64 = 1 << 0;

pub(super) const EVENT_PAGEFAULT: u8 = 0x12;
pub(super) const PAGEFAULT_FLAG_WRITE: u64 = 1 << 0;
pub(super) const PAGEFAULT_FLAG_MINOR: u64 = 1 << 2;

/// `UFFD_USER_MODE_ONLY`: what an unprivileged process may serve.
pub(super) const USER_MODE_ONLY: libc::c_long = 1;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Api {
    pub api: u64,
    pub features: u64,
    pub ioctls: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Range {
    pub start: u64,
    pub len: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Register {
    pub range: Range,
    pub mode: u64,
    pub ioctls: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Copy {
    pub dst: u64,
    pub src: u64,
    pub len: u64,
    pub mode: u64,
    pub copied: i64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WriteProtect {
    pub range: Range,
    pub mode: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Continue {
    pub range: Range,
    pub mode: u64,
    pub mapped: i64,
}

/// `struct uffd_msg` of a page fault.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Message {
    pub event: u8,
    pub reserved: [u8; 7],
    pub flags: u64,
    pub address: u64,
    pub thread: u64,
}

pub(super) const UFFDIO_API: u32 = opcode::read_write::<Api>(0xaa, 0x3f);
pub(super) const UFFDIO_REGISTER: u32 = opcode::read_write::<Register>(0xaa, 0x00);
pub(super) const UFFDIO_WAKE: u32 = opcode::read::<Range>(0xaa, 0x02);
pub(super) const UFFDIO_COPY: u32 = opcode::read_write::<Copy>(0xaa, 0x03);
pub(super) const UFFDIO_WRITEPROTECT: u32 = opcode::read_write::<WriteProtect>(0xaa, 0x06);
pub(super) const UFFDIO_CONTINUE: u32 = opcode::read_write::<Continue>(0xaa, 0x07);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_requests_have_the_numbers_of_the_kernel_s_header() {
        let numbers = [
            UFFDIO_API,
            UFFDIO_REGISTER,
            UFFDIO_WAKE,
            UFFDIO_COPY,
            UFFDIO_WRITEPROTECT,
            UFFDIO_CONTINUE,
        ];
        let header = [
            0xc018_aa3f,
            0xc020_aa00,
            0x8010_aa02,
            0xc028_aa03,
            0xc018_aa06,
            0xc020_aa07,
        ];
        assert_eq!(numbers, header);
        assert_eq!(size_of::<Message>(), 32);
    }
}
