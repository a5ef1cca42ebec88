// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Copies between two drives without a copy by the processor: a range of one drive is memory, and
//! the other drive reads it, or writes to it, by itself.
//!
//! `map window MAPPED OTHER LEN out|in --destroy-data`, as root: `out` writes the first LEN bytes
//! of MAPPED to the start of OTHER, `in` the other way round. Both drives are given back to their
//! kernel driver. With an IOMMU it limits what the drives reach; without one they reach all memory,
//! and need huge pages.

use crate::Result;
use linux::nvme::{Allocate, Controller, ControllerOptions, QueuePair};
use linux::pci::PciAddress;
use linux::{HostMemory, Roots, bind, noiommu, resolve, vfio};
use std::error::Error;
use std::ptr::NonNull;
use std::thread;
use straightway_map::block::{Buffer, Device, blocking};
use straightway_map::{Map, Range, map};

const USAGE: &str = "usage: map window MAPPED OTHER LEN out|in --destroy-data";
/// Bytes that one fault reads, and that one request of the other drive moves.
const PAGE_BYTES: usize = 64 << 10;

/// How a drive is reached, and reaches memory.
trait Function: linux::nvme::Platform + Sized + Send {
    fn take(roots: &Roots, address: PciAddress) -> linux::Result<bind::Binding>;
    fn open(roots: &Roots, address: PciAddress) -> linux::Result<Self>;
    fn dma_memory(&self) -> HostMemory;
    /// Lets the drive access the memory, and says where it sees its start.
    ///
    /// # Safety
    /// As of the functions' own.
    unsafe fn grant_to(
        &mut self,
        roots: &Roots,
        memory: (NonNull<u8>, usize),
        writable: bool,
    ) -> linux::Result<u64>;
}

impl Function for vfio::Function {
    fn take(roots: &Roots, address: PciAddress) -> linux::Result<bind::Binding> {
        bind::to_vfio(roots, address)
    }

    fn open(roots: &Roots, address: PciAddress) -> linux::Result<Self> {
        Self::open(roots, address, &vfio::Options::default())
    }

    fn dma_memory(&self) -> HostMemory {
        self.memory()
    }

    unsafe fn grant_to(
        &mut self,
        _: &Roots,
        (start, len): (NonNull<u8>, usize),
        writable: bool,
    ) -> linux::Result<u64> {
        // SAFETY: the caller's promise.
        unsafe { self.grant(start, len, writable) }
    }
}

impl Function for noiommu::Function {
    fn take(roots: &Roots, address: PciAddress) -> linux::Result<bind::Binding> {
        bind::to_nothing(roots, address)
    }

    fn open(roots: &Roots, address: PciAddress) -> linux::Result<Self> {
        let options = noiommu::Options {
            reserve_huge_pages: true,
            ..noiommu::Options::default()
        };
        Self::open(roots, address, &options)
    }

    fn dma_memory(&self) -> HostMemory {
        self.memory()
    }

    unsafe fn grant_to(
        &mut self,
        roots: &Roots,
        (start, len): (NonNull<u8>, usize),
        _: bool,
    ) -> linux::Result<u64> {
        // SAFETY: the caller's promise; the drive's program here is the driver, which writes to it
        // for reads.
        let pages = unsafe { self.grant(roots, start, len) }?;
        Ok(pages[0])
    }
}

pub fn main(arguments: &[String]) -> Result<()> {
    let [mapped, other, len, direction, "--destroy-data"] =
        arguments.iter().map(String::as_str).collect::<Vec<_>>()[..]
    else {
        return Err(USAGE.into());
    };
    let len_bytes: u64 = len.parse()?;
    let is_in = match direction {
        "in" => true,
        "out" => false,
        _ => return Err(USAGE.into()),
    };
    let roots = Roots::system();
    let addresses = [mapped, other]
        .map(|name| resolve::resolve(&roots, name).map(|drive| drive.controller.address));
    let [mapped, other] = addresses;
    let (mapped, other) = (mapped?, other?);
    let has_iommu = std::fs::read_dir("/sys/kernel/iommu_groups")?
        .next()
        .is_some();
    if has_iommu {
        copy::<vfio::Function>(&roots, mapped, other, len_bytes, is_in)
    } else {
        copy::<noiommu::Function>(&roots, mapped, other, len_bytes, is_in)
    }
}

fn copy<F: Function>(
    roots: &Roots,
    mapped: PciAddress,
    other: PciAddress,
    len_bytes: u64,
    is_in: bool,
) -> Result<()> {
    // Declared first, dropped last: the drives are given back when everything below is closed.
    let loans = [F::take(roots, mapped)?, F::take(roots, other)?];
    let function = F::open(roots, mapped)?;
    let memory = function.dma_memory();
    let controller = Controller::open(function, &memory, ControllerOptions::default())?;
    let queue = QueuePair::<_, _, 32>::open(&controller, 1, 128 << 10, &memory)?;
    let allocate = |_| memory.allocate_dma(PAGE_BYTES, 4096).ok_or("out of memory");
    let buffers = (0..8)
        .map(allocate)
        .collect::<std::result::Result<_, _>>()?;
    let options = straightway_map::PagerOptions {
        writable: is_in,
        page_bytes: PAGE_BYTES,
        resident_bytes: len_bytes as usize + (1 << 20),
        ..straightway_map::PagerOptions::default()
    };
    let range = Range {
        lba: 0,
        size_bytes: queue.geometry().size_bytes(),
    };
    let (map, server) = map(queue, range, &options, buffers)?;
    thread::scope(|scope| {
        let user = scope.spawn(|| move_by::<F>(roots, other, map, len_bytes, is_in));
        server.run()?;
        user.join().map_err(|_| "the user's thread panicked")?
    })?;
    drop(controller);
    for loan in loans {
        loan.release()?;
    }
    Ok(())
}

/// Lets the drive at `other` write the window's bytes to its start, or read its start into them.
fn move_by<F: Function>(
    roots: &Roots,
    other: PciAddress,
    map: Map,
    len_bytes: u64,
    is_in: bool,
) -> Result<()> {
    let window = map.window(0..len_bytes, |start, len| {
        let mut function = F::open(roots, other)?;
        // SAFETY: the window keeps the memory, and outlives what is made of it below; nothing else
        // accesses it.
        let bus_start = unsafe { function.grant_to(roots, (start, len), is_in) }?;
        eprintln!("{len} bytes at bus address {bus_start:#x}");
        let memory = function.dma_memory();
        let controller = Controller::open(function, &memory, ControllerOptions::default())?;
        Ok::<_, Box<dyn Error + Send + Sync>>((controller, memory, start, len))
    })?;
    let (controller, memory, start, len) = window.grant();
    if is_in {
        // From here on no page is dirty, and only `written` makes one so.
        map.sync()?;
    }
    let mut queue = QueuePair::<_, _, 32>::open(controller, 1, 128 << 10, memory)?;
    let block = queue.geometry().block_size_bytes();
    for offset in (0..*len).step_by(PAGE_BYTES) {
        let piece = PAGE_BYTES.min(len - offset);
        // SAFETY: inside the window, which is alive until this thread has ended its requests.
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(start.as_ptr().wrapping_add(offset), piece) };
        let (buffer, lba) = (Buffer::from_static(bytes), (offset / block) as u64);
        let result = if is_in {
            blocking::read(&mut queue, lba, buffer).result
        } else {
            blocking::write(&mut queue, lba, buffer, false).result
        };
        result?;
    }
    drop(queue);
    if is_in {
        window.written(0..len_bytes)?;
        map.sync()?;
    }
    Ok(())
}
