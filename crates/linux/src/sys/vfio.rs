// SPDX-License-Identifier: Apache-2.0 OR MIT
//! VFIO's requests (linux/vfio.h): containers, groups and devices.
#![allow(unsafe_code)]

use super::ioctl::ioctl;
use rustix::fd::{AsFd, FromRawFd, OwnedFd};
use rustix::ioctl::opcode;
use std::ffi::CStr;
use std::io;

const GET_API_VERSION: u32 = opcode::none(b';', 100);
const CHECK_EXTENSION: u32 = opcode::none(b';', 101);
const SET_IOMMU: u32 = opcode::none(b';', 102);
const GROUP_GET_STATUS: u32 = opcode::none(b';', 103);
const GROUP_SET_CONTAINER: u32 = opcode::none(b';', 104);
const GROUP_GET_DEVICE_FD: u32 = opcode::none(b';', 106);
const DEVICE_GET_INFO: u32 = opcode::none(b';', 107);
const DEVICE_GET_REGION_INFO: u32 = opcode::none(b';', 108);
const DEVICE_GET_IRQ_INFO: u32 = opcode::none(b';', 109);
const DEVICE_SET_IRQS: u32 = opcode::none(b';', 110);
const DEVICE_RESET: u32 = opcode::none(b';', 111);
const IOMMU_GET_INFO: u32 = opcode::none(b';', 112);
const IOMMU_MAP_DMA: u32 = opcode::none(b';', 113);
const IOMMU_UNMAP_DMA: u32 = opcode::none(b';', 114);

pub(crate) const API_VERSION: i32 = 0;
pub(crate) const TYPE1V2_IOMMU: u32 = 3;
const GROUP_VIABLE: u32 = 1;
const DEVICE_CAN_RESET: u32 = 1;
const REGION_CAN_MAP: u32 = 4;
const IOMMU_INFO_CAPS: u32 = 2;
const DMA_READ: u32 = 1;
const DMA_WRITE: u32 = 2;

/// The region that is BAR0, and the one that is the configuration space.
pub(crate) const REGION_BAR0: u32 = 0;
pub(crate) const REGION_CONFIG: u32 = 7;

/// The kinds of interrupt that a PCI function has, by VFIO's index.
pub(crate) const IRQ_INTX: u32 = 0;
pub(crate) const IRQ_MSI: u32 = 1;
pub(crate) const IRQ_MSIX: u32 = 2;
/// Not an interrupt of the device: the kernel wants it back (VFIO_PCI_REQ_IRQ_INDEX).
pub(crate) const IRQ_REQUEST: u32 = 4;

const IRQ_SET_DATA_NONE: u32 = 1;
const IRQ_SET_DATA_EVENTFD: u32 = 4;
const IRQ_SET_ACTION_UNMASK: u32 = 16;
const IRQ_SET_ACTION_TRIGGER: u32 = 32;

/// Room for the capabilities after `vfio_iommu_type1_info`, in 64-bit words.
const INFO_WORDS: usize = 1024;

#[repr(C)]
#[derive(Default)]
struct GroupStatus {
    argsz: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct DeviceInfo {
    argsz: u32,
    flags: u32,
    num_regions: u32,
    num_irqs: u32,
    cap_offset: u32,
    pad: u32,
}

#[repr(C)]
#[derive(Default)]
struct RegionInfo {
    argsz: u32,
    flags: u32,
    index: u32,
    cap_offset: u32,
    size: u64,
    offset: u64,
}

#[repr(C)]
#[derive(Default)]
struct IrqInfo {
    argsz: u32,
    flags: u32,
    index: u32,
    count: u32,
}

#[repr(C)]
struct DmaMap {
    argsz: u32,
    flags: u32,
    vaddr: u64,
    iova: u64,
    size: u64,
}

#[repr(C)]
struct DmaUnmap {
    argsz: u32,
    flags: u32,
    iova: u64,
    size: u64,
}

const fn argsz<T>() -> u32 {
    size_of::<T>() as u32
}

pub(crate) fn api_version(container: impl AsFd) -> io::Result<i32> {
    // SAFETY: the request takes no argument.
    unsafe { ioctl(container, GET_API_VERSION, 0) }
}

pub(crate) fn has_extension(container: impl AsFd, extension: u32) -> io::Result<bool> {
    // SAFETY: the argument is a number.
    Ok(unsafe { ioctl(container, CHECK_EXTENSION, extension as usize) }? != 0)
}

pub(crate) fn set_iommu(container: impl AsFd, kind: u32) -> io::Result<()> {
    // SAFETY: the argument is a number.
    unsafe { ioctl(container, SET_IOMMU, kind as usize) }?;
    Ok(())
}

pub(crate) fn group_is_viable(group: impl AsFd) -> io::Result<bool> {
    let mut status = GroupStatus {
        argsz: argsz::<GroupStatus>(),
        flags: 0,
    };
    // SAFETY: the kernel reads and writes the structure, whose length is in `argsz`.
    unsafe { ioctl(group, GROUP_GET_STATUS, &raw mut status as usize) }?;
    Ok(status.flags & GROUP_VIABLE != 0)
}

pub(crate) fn set_container(group: impl AsFd, container: impl AsFd) -> io::Result<()> {
    use rustix::fd::AsRawFd;
    let descriptor = container.as_fd().as_raw_fd();
    // SAFETY: the kernel reads one int.
    unsafe { ioctl(group, GROUP_SET_CONTAINER, &raw const descriptor as usize) }?;
    Ok(())
}

pub(crate) fn open_device(group: impl AsFd, address: &CStr) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads a string that ends with a zero.
    let raw = unsafe { ioctl(group, GROUP_GET_DEVICE_FD, address.as_ptr() as usize) }?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Whether the function can be reset.
pub(crate) fn can_reset(device: impl AsFd) -> io::Result<bool> {
    let mut info = DeviceInfo {
        argsz: argsz::<DeviceInfo>(),
        ..DeviceInfo::default()
    };
    // SAFETY: the kernel reads and writes the structure, whose length is in `argsz`.
    unsafe { ioctl(device, DEVICE_GET_INFO, &raw mut info as usize) }?;
    Ok(info.flags & DEVICE_CAN_RESET != 0)
}

pub(crate) fn reset(device: impl AsFd) -> io::Result<()> {
    // SAFETY: the request takes no argument.
    unsafe { ioctl(device, DEVICE_RESET, 0) }?;
    Ok(())
}

/// Where a region is in the device's file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    pub offset: u64,
    pub size: u64,
    pub can_map: bool,
}

pub(crate) fn region(device: impl AsFd, index: u32) -> io::Result<Region> {
    let mut info = RegionInfo {
        argsz: argsz::<RegionInfo>(),
        index,
        ..RegionInfo::default()
    };
    // SAFETY: the kernel reads and writes the structure, whose length is in `argsz`.
    unsafe { ioctl(device, DEVICE_GET_REGION_INFO, &raw mut info as usize) }?;
    Ok(Region {
        offset: info.offset,
        size: info.size,
        can_map: info.flags & REGION_CAN_MAP != 0,
    })
}

/// How many interrupts of a kind the function has.
pub(crate) fn irq_count(device: impl AsFd, index: u32) -> io::Result<u32> {
    let mut info = IrqInfo {
        argsz: argsz::<IrqInfo>(),
        index,
        ..IrqInfo::default()
    };
    // SAFETY: the kernel reads and writes the structure, whose length is in `argsz`.
    unsafe { ioctl(device, DEVICE_GET_IRQ_INFO, &raw mut info as usize) }?;
    Ok(info.count)
}

/// The most vectors that one call sets.
pub(crate) const MAX_VECTORS: usize = 256;

/// Attaches an eventfd to each interrupt from `start` on, or detaches it where it is -1. A positive
/// result means that nothing was done and is the number of available vectors.
pub(crate) fn set_eventfds(
    device: impl AsFd,
    index: u32,
    start: u32,
    eventfds: &[i32],
) -> io::Result<i32> {
    // `struct vfio_irq_set`: argsz, flags, index, start, count, and then the descriptors.
    let mut words = [0u32; 5 + MAX_VECTORS];
    let len = 5 + eventfds.len();
    let words = words.get_mut(..len).ok_or(io::ErrorKind::InvalidInput)?;
    let flags = IRQ_SET_DATA_EVENTFD | IRQ_SET_ACTION_TRIGGER;
    let head = [4 * len as u32, flags, index, start, eventfds.len() as u32];
    let values = head.into_iter().chain(eventfds.iter().map(|&fd| fd as u32));
    for (word, value) in words.iter_mut().zip(values) {
        *word = value;
    }
    // SAFETY: the kernel reads `argsz` bytes, which is the slice's length.
    unsafe { ioctl(device, DEVICE_SET_IRQS, words.as_ptr() as usize) }
}

/// Unmasks the level-triggered interrupt.
pub(crate) fn unmask_intx(device: impl AsFd) -> io::Result<()> {
    let flags = IRQ_SET_DATA_NONE | IRQ_SET_ACTION_UNMASK;
    let words = [20, flags, IRQ_INTX, 0, 1u32];
    // SAFETY: the kernel reads `argsz` bytes, which is the array's length.
    unsafe { ioctl(device, DEVICE_SET_IRQS, words.as_ptr() as usize) }?;
    Ok(())
}

/// `struct vfio_iommu_type1_info` and the capabilities after it, as bytes.
pub(crate) fn iommu_info(container: impl AsFd) -> io::Result<Vec<u8>> {
    let mut words = vec![0u64; INFO_WORDS];
    if let Some(first) = words.first_mut() {
        // `argsz` and `flags`, in memory order.
        let bytes = (8 * INFO_WORDS as u32).to_ne_bytes();
        *first = u64::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3], 0, 0, 0, 0]);
    }
    // SAFETY: the kernel writes at most `argsz` bytes, which is the vector's length.
    unsafe { ioctl(container, IOMMU_GET_INFO, words.as_mut_ptr() as usize) }?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let flags = bytes.get(4..8).and_then(|flags| flags.try_into().ok());
    match u32::from_ne_bytes(flags.unwrap_or_default()) & IOMMU_INFO_CAPS {
        0 => Ok(Vec::new()),
        _ => Ok(bytes),
    }
}

/// Lets the container's devices read a range of memory, and write to it, until it is unmapped, or
/// until the container is closed.
///
/// # Safety
/// That of [`Translator::map_range`](super::translator::Translator::map_range).
pub(crate) unsafe fn map_dma(
    container: impl AsFd,
    (start, len): (usize, usize),
    iova: u64,
    writable: bool,
) -> io::Result<()> {
    let request = DmaMap {
        argsz: argsz::<DmaMap>(),
        flags: DMA_READ | if writable { DMA_WRITE } else { 0 },
        vaddr: start as u64,
        iova,
        size: len as u64,
    };
    // SAFETY: the kernel reads the structure; for the rest see above.
    unsafe { ioctl(container, IOMMU_MAP_DMA, &raw const request as usize) }?;
    Ok(())
}

/// Takes a range of bus addresses away from the container's devices.
pub(crate) fn unmap_dma(container: impl AsFd, iova: u64, len: u64) -> io::Result<()> {
    let mut request = DmaUnmap {
        argsz: argsz::<DmaUnmap>(),
        flags: 0,
        iova,
        size: len,
    };
    // SAFETY: the kernel reads and writes the structure, whose length is in `argsz`.
    unsafe { ioctl(container, IOMMU_UNMAP_DMA, &raw mut request as usize) }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_lengths_of_the_kernel_s_headers() {
        let lengths = [
            argsz::<GroupStatus>(),
            argsz::<DeviceInfo>(),
            argsz::<RegionInfo>(),
            argsz::<IrqInfo>(),
            argsz::<DmaMap>(),
            argsz::<DmaUnmap>(),
        ];
        assert_eq!(lengths, [8, 24, 32, 16, 32, 24]);
        if cfg!(target_arch = "x86_64") {
            assert_eq!((GET_API_VERSION, IOMMU_MAP_DMA), (0x3b64, 0x3b71));
        }
    }
}
