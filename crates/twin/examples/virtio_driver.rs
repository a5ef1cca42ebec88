// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A virtio-blk driver that was not written for this device: the crate `virtio-drivers`, over the
//! registers of the verilated core.
//!
//! `rtl/sim/virtio/virtio_driver_bench.cpp` is linked with it and implements the functions of
//! [`bench`]: registers, time, and which memory the device may access. Addresses are those of this
//! process.
#![allow(unsafe_code)]

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use std::alloc::{Layout, alloc_zeroed, dealloc};

use virtio_drivers::device::blk::{BlkReq, BlkResp, RespStatus, SECTOR_SIZE, VirtIOBlk};
use virtio_drivers::transport::{DeviceStatus, DeviceType, InterruptStatus, Transport};
use virtio_drivers::{BufferDirection, Error, Hal, PAGE_SIZE, PhysAddr};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// What the bench implements. Its functions check their arguments, and it has one thread.
mod bench {
    unsafe extern "C" {
        pub safe fn bench_read(register: u32) -> u32;
        pub safe fn bench_write(register: u32, value: u32);
        /// Runs the device until it has nothing to do.
        pub safe fn bench_settle();
        /// Allows the device to access this memory, or no longer.
        pub safe fn bench_grant(address: u64, bytes: u64, write: bool);
        pub safe fn bench_revoke(address: u64, bytes: u64, write: bool);
    }
}

/// Offsets of registers (virtio 1.2, section 4.2.2).
mod register {
    pub const DEVICE_ID: u32 = 0x08;
    pub const DEVICE_FEATURES: u32 = 0x10;
    pub const DEVICE_FEATURES_SEL: u32 = 0x14;
    pub const DRIVER_FEATURES: u32 = 0x20;
    pub const DRIVER_FEATURES_SEL: u32 = 0x24;
    pub const QUEUE_SEL: u32 = 0x30;
    pub const QUEUE_NUM_MAX: u32 = 0x34;
    pub const QUEUE_NUM: u32 = 0x38;
    pub const QUEUE_READY: u32 = 0x44;
    pub const QUEUE_NOTIFY: u32 = 0x50;
    pub const INTERRUPT_STATUS: u32 = 0x60;
    pub const INTERRUPT_ACK: u32 = 0x64;
    pub const STATUS: u32 = 0x70;
    pub const QUEUE_DESC: u32 = 0x80;
    pub const QUEUE_DRIVER: u32 = 0x90;
    pub const QUEUE_DEVICE: u32 = 0xa0;
    pub const CONFIG_GENERATION: u32 = 0xfc;
    pub const CONFIG: u32 = 0x100;
}

/// Whether a notification returns only when the device has nothing more to do, as a driver that
/// spins on the used ring needs.
static SETTLE: AtomicBool = AtomicBool::new(true);

struct Registers;

impl Registers {
    fn write64(register: u32, value: u64) {
        bench::bench_write(register, value as u32);
        bench::bench_write(register + 4, (value >> 32) as u32);
    }
}

impl Transport for Registers {
    fn device_type(&self) -> DeviceType {
        match bench::bench_read(register::DEVICE_ID) {
            2 => DeviceType::Block,
            _ => DeviceType::Memory,
        }
    }

    fn read_device_features(&mut self) -> u64 {
        let half = |select| {
            bench::bench_write(register::DEVICE_FEATURES_SEL, select);
            u64::from(bench::bench_read(register::DEVICE_FEATURES))
        };
        half(0) | half(1) << 32
    }

    fn write_driver_features(&mut self, features: u64) {
        for half in 0..2 {
            bench::bench_write(register::DRIVER_FEATURES_SEL, half);
            bench::bench_write(register::DRIVER_FEATURES, (features >> (32 * half)) as u32);
        }
    }

    fn max_queue_size(&mut self, queue: u16) -> u32 {
        bench::bench_write(register::QUEUE_SEL, queue.into());
        bench::bench_read(register::QUEUE_NUM_MAX)
    }

    fn notify(&mut self, queue: u16) {
        bench::bench_write(register::QUEUE_NOTIFY, queue.into());
        if SETTLE.load(Ordering::Relaxed) {
            bench::bench_settle();
        }
    }

    fn get_status(&self) -> DeviceStatus {
        DeviceStatus::from_bits_truncate(bench::bench_read(register::STATUS))
    }

    fn set_status(&mut self, status: DeviceStatus) {
        bench::bench_write(register::STATUS, status.bits());
        // Section 4.2.3.1: a reset has ended when the status reads 0.
        while status.is_empty() && !self.get_status().is_empty() {}
    }

    fn set_guest_page_size(&mut self, _: u32) {}

    fn requires_legacy_layout(&self) -> bool {
        false
    }

    fn queue_set(
        &mut self,
        queue: u16,
        size: u32,
        descriptors: PhysAddr,
        driver_area: PhysAddr,
        device_area: PhysAddr,
    ) {
        bench::bench_write(register::QUEUE_SEL, queue.into());
        bench::bench_write(register::QUEUE_NUM, size);
        Self::write64(register::QUEUE_DESC, descriptors);
        Self::write64(register::QUEUE_DRIVER, driver_area);
        Self::write64(register::QUEUE_DEVICE, device_area);
        bench::bench_write(register::QUEUE_READY, 1);
    }

    fn queue_unset(&mut self, queue: u16) {
        bench::bench_write(register::QUEUE_SEL, queue.into());
        bench::bench_write(register::QUEUE_READY, 0);
        while bench::bench_read(register::QUEUE_READY) != 0 {}
    }

    fn queue_used(&mut self, queue: u16) -> bool {
        bench::bench_write(register::QUEUE_SEL, queue.into());
        bench::bench_read(register::QUEUE_READY) != 0
    }

    fn ack_interrupt(&mut self) -> InterruptStatus {
        let pending = bench::bench_read(register::INTERRUPT_STATUS);
        bench::bench_write(register::INTERRUPT_ACK, pending);
        InterruptStatus::from_bits_truncate(pending)
    }

    fn read_config_generation(&self) -> u32 {
        bench::bench_read(register::CONFIG_GENERATION)
    }

    fn read_config_space<T: FromBytes + IntoBytes>(
        &self,
        offset: usize,
    ) -> virtio_drivers::Result<T> {
        let bytes: Vec<u8> = (offset..offset + size_of::<T>())
            .map(|at| {
                let word = bench::bench_read(register::CONFIG + (at as u32 & !3));
                (word >> (8 * (at % 4))) as u8
            })
            .collect();
        T::read_from_bytes(&bytes).map_err(|_| Error::ConfigSpaceTooSmall)
    }

    fn write_config_space<T: IntoBytes + Immutable>(
        &mut self,
        _: usize,
        _: T,
    ) -> virtio_drivers::Result<()> {
        Err(Error::Unsupported)
    }
}

/// This process's memory, at its own addresses.
struct OwnMemory;

impl OwnMemory {
    fn pages(pages: usize) -> Option<Layout> {
        Layout::from_size_align(pages.checked_mul(PAGE_SIZE)?, PAGE_SIZE).ok()
    }

    fn each(
        direction: BufferDirection,
        address: u64,
        bytes: usize,
        what: extern "C" fn(u64, u64, bool),
    ) {
        if direction != BufferDirection::DeviceToDriver {
            what(address, bytes as u64, false);
        }
        if direction != BufferDirection::DriverToDevice {
            what(address, bytes as u64, true);
        }
    }
}

extern "C" fn grant(address: u64, bytes: u64, write: bool) {
    bench::bench_grant(address, bytes, write);
}

extern "C" fn revoke(address: u64, bytes: u64, write: bool) {
    bench::bench_revoke(address, bytes, write);
}

// SAFETY: pages are fresh, aligned and zeroed allocations; an address of the device is the same
// address in this process, whose provenance is exposed for the bench.
unsafe impl Hal for OwnMemory {
    fn dma_alloc(pages: usize, _: BufferDirection) -> (PhysAddr, NonNull<u8>) {
        // SAFETY: the layout's size is not zero, because the driver asks for at least a page.
        let memory =
            Self::pages(pages).and_then(|layout| NonNull::new(unsafe { alloc_zeroed(layout) }));
        match memory {
            Some(memory) => {
                let address = memory.as_ptr().expose_provenance() as u64;
                Self::each(BufferDirection::Both, address, pages * PAGE_SIZE, grant);
                (address, memory)
            }
            None => (0, NonNull::dangling()),
        }
    }

    unsafe fn dma_dealloc(address: PhysAddr, memory: NonNull<u8>, pages: usize) -> i32 {
        Self::each(BufferDirection::Both, address, pages * PAGE_SIZE, revoke);
        if let Some(layout) = Self::pages(pages) {
            // SAFETY: it came from `dma_alloc` with the same number of pages.
            unsafe { dealloc(memory.as_ptr(), layout) };
        }
        0
    }

    unsafe fn mmio_phys_to_virt(_: PhysAddr, _: usize) -> NonNull<u8> {
        // For PCI only.
        NonNull::dangling()
    }

    unsafe fn share(buffer: NonNull<[u8]>, direction: BufferDirection) -> PhysAddr {
        let address = buffer.as_ptr().cast::<u8>().expose_provenance() as u64;
        Self::each(direction, address, buffer.len(), grant);
        address
    }

    unsafe fn unshare(address: PhysAddr, buffer: NonNull<[u8]>, direction: BufferDirection) {
        Self::each(direction, address, buffer.len(), revoke);
    }
}

/// What a check found: its line.
type Checked<T = ()> = Result<T, u32>;

macro_rules! check {
    ($condition:expr) => {
        if !$condition {
            return Err(line!());
        }
    };
}

macro_rules! ok {
    ($result:expr) => {
        $result.map_err(|_| line!())?
    };
}

fn pattern(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes)
        .map(|at| (at * 7 + at / 251) as u8 ^ seed)
        .collect()
}

type Driver = VirtIOBlk<OwnMemory, Registers>;

/// One request that is under way.
struct Flight {
    token: u16,
    request: Box<BlkReq>,
    data: Box<[u8]>,
    response: Box<BlkResp>,
    write: bool,
}

/// Starts reads and writes of `sectors` sectors each, and takes them in the order of their ends.
fn together(driver: &mut Driver, sectors: usize) -> Checked {
    const MANY: usize = 12;
    let bytes = sectors * SECTOR_SIZE;
    let first = 64;
    let seed = |index: usize| 0x40 + index as u8;
    for index in 0..MANY {
        ok!(driver.write_blocks(first + index * sectors, &pattern(bytes, seed(index))));
    }
    SETTLE.store(false, Ordering::Relaxed);
    let mut flights = Vec::new();
    for index in 0..MANY {
        let write = index % 4 == 3;
        let mut flight = Flight {
            token: 0,
            request: Box::default(),
            data: if write {
                pattern(bytes, !seed(index)).into()
            } else {
                vec![0; bytes].into()
            },
            response: Box::default(),
            write,
        };
        let block = first + index * sectors;
        // SAFETY: the buffers are on the heap, and nothing accesses them before their completion.
        flight.token = ok!(unsafe {
            if write {
                driver.write_blocks_nb(
                    block,
                    &mut flight.request,
                    &flight.data,
                    &mut flight.response,
                )
            } else {
                driver.read_blocks_nb(
                    block,
                    &mut flight.request,
                    &mut flight.data,
                    &mut flight.response,
                )
            }
        });
        flights.push(Some(flight));
    }
    bench::bench_settle();
    check!(
        driver
            .ack_interrupt()
            .contains(InterruptStatus::QUEUE_INTERRUPT)
    );
    let mut ended = 0;
    while let Some(token) = driver.peek_used() {
        let index = flights
            .iter()
            .position(|flight| flight.as_ref().is_some_and(|flight| flight.token == token));
        let index = index.ok_or(line!())?;
        let mut flight = flights[index].take().ok_or(line!())?;
        // SAFETY: the same buffers as at the start.
        ok!(unsafe {
            if flight.write {
                driver.complete_write_blocks(
                    token,
                    &flight.request,
                    &flight.data,
                    &mut flight.response,
                )
            } else {
                driver.complete_read_blocks(
                    token,
                    &flight.request,
                    &mut flight.data,
                    &mut flight.response,
                )
            }
        });
        check!(flight.response.status() == RespStatus::OK);
        check!(flight.write || *flight.data == pattern(bytes, seed(index))[..]);
        ended += 1;
    }
    SETTLE.store(true, Ordering::Relaxed);
    check!(ended == MANY);
    for index in 0..MANY {
        let mut data = vec![0; bytes];
        ok!(driver.read_blocks(first + index * sectors, &mut data));
        let expected = if index % 4 == 3 {
            !seed(index)
        } else {
            seed(index)
        };
        check!(data == pattern(bytes, expected));
    }
    Ok(())
}

fn drive(capacity: u64) -> Checked {
    let written = pattern(8 * SECTOR_SIZE, 1);
    {
        let mut driver = ok!(Driver::new(Registers));
        check!(driver.capacity() == capacity && !driver.readonly());
        let mut name = [0; 20];
        check!(driver.device_id(&mut name) == Ok(20) && name == *b"straightway-virtio-0");
        ok!(driver.write_blocks(4, &written));
        ok!(driver.flush());
        let mut read = vec![0; written.len()];
        ok!(driver.read_blocks(4, &mut read));
        check!(read == written);
        // A sector beyond the end fails, and the next request does not.
        let mut sector = [0; SECTOR_SIZE];
        check!(driver.read_blocks(capacity as usize, &mut sector) == Err(Error::IoError));
        check!(driver.write_blocks(capacity as usize, &sector) == Err(Error::IoError));
        ok!(driver.read_blocks(capacity as usize - 1, &mut sector));
        together(&mut driver, 1)?;
        together(&mut driver, 8)?;
    }
    // Another driver finds what the first one left.
    let mut driver = ok!(Driver::new(Registers));
    let mut read = vec![0; written.len()];
    ok!(driver.read_blocks(4, &mut read));
    check!(read == written);
    Ok(())
}

/// Drives the bench's device, which has `capacity` sectors. Returns 0, or the line of the check
/// that failed.
#[unsafe(no_mangle)]
pub extern "C" fn virtio_driver(capacity: u64) -> u32 {
    drive(capacity).err().unwrap_or(0)
}
