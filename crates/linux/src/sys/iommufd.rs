// SPDX-License-Identifier: Apache-2.0 OR MIT
//! iommufd's requests (linux/iommufd.h), and those that bring a device of VFIO to it
//! (linux/vfio.h).
#![allow(unsafe_code)]

use super::ioctl::ioctl;
use rustix::fd::{AsFd, AsRawFd};
use rustix::ioctl::opcode;
use std::io;

const IOAS_ALLOC: u32 = opcode::none(b';', 0x81);
const IOAS_IOVA_RANGES: u32 = opcode::none(b';', 0x84);
const IOAS_MAP: u32 = opcode::none(b';', 0x85);
const IOAS_UNMAP: u32 = opcode::none(b';', 0x86);
const DEVICE_BIND_IOMMUFD: u32 = opcode::none(b';', 118);
const DEVICE_ATTACH_IOMMUFD_PT: u32 = opcode::none(b';', 119);

const MAP_FIXED_IOVA: u32 = 1;
const MAP_WRITEABLE: u32 = 2;
const MAP_READABLE: u32 = 4;

/// The most ranges that are read; an IOMMU has two or three.
const MAX_RANGES: usize = 256;

/// `struct iommu_ioas_alloc`.
#[repr(C)]
struct IoasAlloc {
    size: u32,
    flags: u32,
    out_ioas_id: u32,
}

/// `struct iommu_iova_range`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct IovaRange {
    start: u64,
    last: u64,
}

/// `struct iommu_ioas_iova_ranges`.
#[repr(C)]
struct IoasIovaRanges {
    size: u32,
    ioas_id: u32,
    num_iovas: u32,
    reserved: u32,
    allowed_iovas: u64,
    out_iova_alignment: u64,
}

/// `struct iommu_ioas_map`.
#[repr(C)]
struct IoasMap {
    size: u32,
    flags: u32,
    ioas_id: u32,
    reserved: u32,
    user_va: u64,
    length: u64,
    iova: u64,
}

/// `struct iommu_ioas_unmap`.
#[repr(C)]
struct IoasUnmap {
    size: u32,
    ioas_id: u32,
    iova: u64,
    length: u64,
}

/// `struct vfio_device_bind_iommufd`.
#[repr(C)]
struct BindIommufd {
    argsz: u32,
    flags: u32,
    iommufd: i32,
    out_devid: u32,
}

/// `struct vfio_device_attach_iommufd_pt`.
#[repr(C)]
struct AttachIommufdPt {
    argsz: u32,
    flags: u32,
    pt_id: u32,
}

const fn size<T>() -> u32 {
    size_of::<T>() as u32
}

/// Makes an address space for I/O; returns its number.
pub(crate) fn alloc_ioas(iommufd: impl AsFd) -> io::Result<u32> {
    let mut request = IoasAlloc {
        size: size::<IoasAlloc>(),
        flags: 0,
        out_ioas_id: 0,
    };
    // SAFETY: the kernel reads and writes the structure, whose length is in `size`.
    unsafe { ioctl(iommufd, IOAS_ALLOC, &raw mut request as usize) }?;
    Ok(request.out_ioas_id)
}

/// Gives a device of VFIO to `iommufd`; its other requests are refused before that.
pub(crate) fn bind(device: impl AsFd, iommufd: impl AsFd) -> io::Result<()> {
    let mut request = BindIommufd {
        argsz: size::<BindIommufd>(),
        flags: 0,
        iommufd: iommufd.as_fd().as_raw_fd(),
        out_devid: 0,
    };
    // SAFETY: the kernel reads and writes the structure, whose length is in `argsz`.
    unsafe { ioctl(device, DEVICE_BIND_IOMMUFD, &raw mut request as usize) }?;
    Ok(())
}

/// Has the IOMMU translate the device's addresses by the address space.
pub(crate) fn attach(device: impl AsFd, ioas: u32) -> io::Result<()> {
    let mut request = AttachIommufdPt {
        argsz: size::<AttachIommufdPt>(),
        flags: 0,
        pt_id: ioas,
    };
    // SAFETY: the kernel reads and writes the structure, whose length is in `argsz`.
    unsafe { ioctl(device, DEVICE_ATTACH_IOMMUFD_PT, &raw mut request as usize) }?;
    Ok(())
}

/// First and last of each range of bus addresses that all attached devices can use, lowest first.
pub(crate) fn ranges(iommufd: impl AsFd, ioas: u32) -> io::Result<Vec<(u64, u64)>> {
    let mut ranges = [IovaRange::default(); MAX_RANGES];
    let mut request = IoasIovaRanges {
        size: size::<IoasIovaRanges>(),
        ioas_id: ioas,
        num_iovas: MAX_RANGES as u32,
        reserved: 0,
        allowed_iovas: ranges.as_mut_ptr() as u64,
        out_iova_alignment: 0,
    };
    // SAFETY: the kernel reads and writes the structure, whose length is in `size`, and writes at
    // most `num_iovas` ranges, which is the array's length.
    unsafe { ioctl(iommufd, IOAS_IOVA_RANGES, &raw mut request as usize) }?;
    let found = ranges.iter().take(request.num_iovas as usize);
    Ok(found.map(|range| (range.start, range.last)).collect())
}

/// Lets the address space's devices read a range of memory, and write to it, until it is unmapped,
/// or until iommufd is closed.
///
/// # Safety
/// That of [`Translator::map_range`](super::translator::Translator::map_range).
pub(crate) unsafe fn map(
    iommufd: impl AsFd,
    ioas: u32,
    (start, len): (usize, usize),
    iova: u64,
    writable: bool,
) -> io::Result<()> {
    let mut request = IoasMap {
        size: size::<IoasMap>(),
        flags: MAP_FIXED_IOVA | MAP_READABLE | if writable { MAP_WRITEABLE } else { 0 },
        ioas_id: ioas,
        reserved: 0,
        user_va: start as u64,
        length: len as u64,
        iova,
    };
    // SAFETY: the kernel reads and writes the structure, whose length is in `size`; for the rest
    // see above.
    unsafe { ioctl(iommufd, IOAS_MAP, &raw mut request as usize) }?;
    Ok(())
}

/// Takes a range of bus addresses away from the address space's devices.
pub(crate) fn unmap(iommufd: impl AsFd, ioas: u32, iova: u64, len: u64) -> io::Result<()> {
    let mut request = IoasUnmap {
        size: size::<IoasUnmap>(),
        ioas_id: ioas,
        iova,
        length: len,
    };
    // SAFETY: the kernel reads and writes the structure, whose length is in `size`.
    unsafe { ioctl(iommufd, IOAS_UNMAP, &raw mut request as usize) }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_lengths_of_the_kernel_s_headers() {
        let lengths = [
            size::<IoasAlloc>(),
            size::<IovaRange>(),
            size::<IoasIovaRanges>(),
            size::<IoasMap>(),
            size::<IoasUnmap>(),
            size::<BindIommufd>(),
            size::<AttachIommufdPt>(),
        ];
        assert_eq!(lengths, [12, 16, 32, 40, 24, 16, 12]);
        if cfg!(target_arch = "x86_64") {
            assert_eq!((IOAS_MAP, DEVICE_BIND_IOMMUFD), (0x3b85, 0x3b76));
        }
    }
}
