// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests of CharIO's driver (kernel/chario/chario.h).
#![allow(unsafe_code)]

use super::ioctl::ioctl;
use block::Buffer;
use rustix::fd::AsFd;
use rustix::ioctl::opcode;
use std::io;

const MAGIC: u8 = b'c';
const IOC_INFO: u32 = opcode::read::<Info>(MAGIC, 0xc0);
const IOC_COMPLETION: u32 = opcode::write::<u32>(MAGIC, 0xc1);
const IOC_REGISTER: u32 = opcode::read_write::<Register>(MAGIC, 0xc2);
const IOC_PHYS: u32 = opcode::write::<Phys>(MAGIC, 0xc5);

/// The version of the interface that this implements.
pub(crate) const VERSION: u32 = 1;
pub(crate) const INFO_READ_ONLY: u32 = 1;
pub(crate) const INFO_WRITE_CACHE: u32 = 2;
pub(crate) const INFO_POLL_QUEUES: u32 = 4;
const BY_ADDRESS: u32 = 1;
pub(crate) const WRITE: u32 = 1;
pub(crate) const FUA: u32 = 2;

/// `struct chario_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Info {
    pub version: u32,
    pub flags: u32,
    pub nsid: u32,
    pub block_bytes: u32,
    pub command_bytes: u32,
    pub unit_bytes: u32,
    pub queue_depth: u32,
    pub lanes: u32,
    pub buffer_align_bytes: u32,
    pub registered_max: u32,
    pub size_bytes: u64,
}

/// `struct chario_register`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Register {
    address: u64,
    length: u64,
    buffer: u32,
    flags: u32,
}

/// `struct chario_phys`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Phys {
    position: u64,
    length: u64,
    address: u64,
    flags: u32,
    reserved: u32,
}

/// The driver's information about a namespace.
pub(crate) fn info(file: impl AsFd) -> io::Result<Info> {
    let mut info = Info::default();
    // SAFETY: the kernel writes one structure.
    unsafe { ioctl(file, IOC_INFO, &raw mut info as usize) }?;
    Ok(info)
}

/// Sets whether the file's calls poll for their completions.
pub(crate) fn set_polling(file: impl AsFd, polls: bool) -> io::Result<()> {
    let mode = u32::from(polls);
    // SAFETY: the kernel reads one u32.
    unsafe { ioctl(file, IOC_COMPLETION, &raw const mode as usize) }?;
    Ok(())
}

/// Registers memory with the file: its reads and writes with memory in this range use the pages
/// that are there now. The kernel keeps them until the file is closed, even if the mapping changes.
pub(crate) fn register(file: impl AsFd, address: usize, length: usize) -> io::Result<()> {
    let mut args = Register {
        address: address as u64,
        length: length as u64,
        flags: BY_ADDRESS,
        ..Register::default()
    };
    // SAFETY: the kernel reads and writes one structure; the pages that it pins are written only by
    // reads into this range, whose caller owns it.
    unsafe { ioctl(file, IOC_REGISTER, &raw mut args as usize) }?;
    Ok(())
}

/// The position of a buffer's bytes in memory that the driver addresses differently.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    /// Offset in that memory.
    offset: u64,
    length: u64,
}

impl Stretch {
    /// The buffer's bytes from `done` on, in memory of `len` bytes at `start`; `None` if they are
    /// not all in it.
    pub(crate) fn of(buffer: &mut Buffer, done: usize, start: usize, len: usize) -> Option<Self> {
        let length = buffer.len().checked_sub(done)?;
        let offset = (buffer.address() + done).checked_sub(start)?;
        let inside = offset <= len && length <= len - offset;
        inside.then_some(Self {
            offset: offset as u64,
            length: length as u64,
        })
    }
}

/// Moves data between the drive and a range of a granted window at `physical`; returns the bytes
/// moved. `buffer` is the range's buffer: borrowed exclusively, so nothing else uses it.
pub(crate) fn phys(
    file: impl AsFd,
    (physical, stretch): (u64, Stretch),
    position: u64,
    flags: u32,
    _buffer: &mut Buffer,
) -> io::Result<usize> {
    let args = Phys {
        position,
        length: stretch.length,
        address: physical + stretch.offset,
        flags,
        reserved: 0,
    };
    // SAFETY: the kernel reads one structure, and moves data within the range, which lies in
    // `_buffer`: the window is mapped contiguously, and the range was computed from that mapping.
    let moved = unsafe { ioctl(file, IOC_PHYS, &raw const args as usize) }?;
    Ok(moved as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The driver's header, from which everything here is taken.
    const HEADER: &str = include_str!("../../../../kernel/chario/chario.h");

    fn number(line_start: &str) -> u32 {
        let line = HEADER.lines().find(|line| line.starts_with(line_start));
        let hex = line.and_then(|line| line.split("0x").nth(1)).unwrap();
        u32::from_str_radix(&hex[..2], 16).unwrap()
    }

    #[test]
    fn requests_have_the_numbers_of_the_driver_s_header() {
        for (name, request) in [
            ("INFO", IOC_INFO),
            ("COMPLETION", IOC_COMPLETION),
            ("REGISTER", IOC_REGISTER),
            ("PHYS", IOC_PHYS),
        ] {
            let expected = number(&format!("#define CHARIO_IOC_{name} "));
            assert_eq!(request & 0xff, expected, "{name}");
        }
        assert!(HEADER.contains(&format!("#define CHARIO_VERSION {VERSION}\n")));
    }

    #[test]
    fn a_stretch_lies_in_its_memory_or_is_none() {
        let memory: &'static mut [u8] = Box::leak(vec![0; 4096].into_boxed_slice());
        let start = memory.as_ptr() as usize;
        let mut buffer = Buffer::from_static(&mut memory[1024..2048]);
        let found = Stretch::of(&mut buffer, 512, start, 4096).unwrap();
        assert_eq!((found.offset, found.length), (1536, 512));
        assert!(Stretch::of(&mut buffer, 0, start, 2047).is_none());
        assert!(Stretch::of(&mut buffer, 0, start + 1025, 4096).is_none());
        assert!(Stretch::of(&mut buffer, 1025, start, 4096).is_none());
    }

    #[test]
    fn structures_have_the_fields_of_the_driver_s_header_in_order() {
        // Name, then the size that its fields add up to there.
        let size = |name: &str| {
            let (_, rest) = HEADER.split_once(&format!("struct {name} {{")).unwrap();
            let (body, _) = rest.split_once("};").unwrap();
            let words = body.matches("__u32 ").count() * 4;
            words + body.matches("__u64 ").count() * 8
        };
        assert_eq!(size_of::<Info>(), size("chario_info"));
        assert_eq!(size_of::<Register>(), size("chario_register"));
        assert_eq!(size_of::<Phys>(), size("chario_phys"));
    }
}
