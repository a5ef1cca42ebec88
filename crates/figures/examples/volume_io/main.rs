// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts a volume's commands to a drive: `make figures ONLY=volume` runs it in the lab, where the
//! drive's own trace is read too, and on memory, where every count repeats exactly.
//!
//! `volume_io DEVICE LARGE_MIB` makes a volume on DEVICE (an NVMe drive, over VFIO; or `ram:512` or
//! `ram:4096` by the block size), and prints for each phase of the work `phase NAME OPERATIONS
//! DATA_BYTES READS READ_BYTES WRITES WRITE_BYTES FLUSHES FUA`. A mark in the drive's trace is a
//! read of 4 KiB in its last 8 MiB: the n-th mark reads the n-th 4 KiB there. `volume_io sizes 0`
//! prints the bytes of a mounted volume's state and of each operation's.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

#[path = "../support/cached.rs"]
mod cached;
mod workload;

use std::sync::Arc;

use block::{Buffer, Device, blocking};
use cached::Cached;
use crash::Counting;
use linux::{HostMemory, Roots, bind, resolve, vfio};
use nvme::{Controller, ControllerOptions, QueuePair, controller_memory_bytes};
use volume::{CreateOptions, FormatOptions, MountOptions, OpenFile, Volume, format};
use workload::{Marks, Result, Workload};

const MARK_BYTES: usize = 4096;
const MARKS_BYTES: u64 = 8 << 20;
const MAX_TRANSFER: usize = 1 << 20;

type Queue<'f> = QueuePair<&'f vfio::Function, Arc<Controller<&'f vfio::Function>>, 32>;

fn work(
    device: impl Device,
    large_bytes: u64,
    allocate: &mut dyn FnMut(usize) -> Result<Buffer>,
    leave: impl FnMut(u64) -> Result<()>,
) -> Result<()> {
    let device = Counting::new(device);
    let workload = Workload {
        marks: Marks {
            counter: device.counter(),
            leave: Box::new(leave),
            next: 0,
        },
        allocate,
        volume_bytes: device.geometry().size_bytes() - MARKS_BYTES,
        large_bytes,
    };
    workload.run(device)?;
    Ok(())
}

fn on_memory(block_size_log2: u8, large_bytes: u64) -> Result<()> {
    let memory = HostMemory::new(4 << 20)?;
    let size_bytes = large_bytes * 5 / 4 + (256 << 20);
    let device = Cached::new(size_bytes, block_size_log2)?;
    let mut allocate = |len| Ok(memory.allocate(len)?);
    work(device, large_bytes, &mut allocate, |_| Ok(()))
}

fn on_drive(name: &str, large_bytes: u64) -> Result<()> {
    let roots = Roots::system();
    let address = resolve::resolve(&roots, name)?.controller.address;
    let binding = bind::to_vfio(&roots, address)?;
    let options = vfio::Options {
        memory_bytes: 16 << 20,
        interrupt_vectors: 4,
    };
    let function = vfio::Function::open(&roots, address, &options)?;
    let memory = function.memory();
    let page = Controller::page_bytes_of(&&function)?;
    let own = memory.allocate(controller_memory_bytes(page))?;
    let controller = Controller::enable(&function, own, ControllerOptions::default());
    let controller = Arc::new(controller.map_err(|failed| failed.error)?);
    let namespace = controller.namespace(1)?;
    let open_queue = || -> Result<Queue<'_>> {
        let memory = memory.allocate(Queue::memory_bytes(MAX_TRANSFER, page))?;
        let queue = Queue::create(controller.clone(), &namespace, memory, MAX_TRANSFER);
        Ok(queue.map_err(|failed| failed.error)?)
    };
    let queue = open_queue()?;
    let mut marks = open_queue()?;
    let mut mark = Some(memory.allocate(MARK_BYTES)?);
    let first = (queue.geometry().size_bytes() - MARKS_BYTES) >> queue.geometry().block_size_log2;
    let blocks = (MARK_BYTES >> queue.geometry().block_size_log2) as u64;
    let leave = |number| {
        let buffer = mark.take().ok_or("the mark's buffer is lent")?;
        let outcome = blocking::read(&mut marks, first + number * blocks, buffer);
        mark = Some(outcome.buffer);
        Ok(outcome.result?)
    };
    let mut allocate = |len| Ok(memory.allocate(len)?);
    work(queue, large_bytes, &mut allocate, leave)?;
    drop(marks);
    drop(controller);
    drop(function);
    binding.release()?;
    Ok(())
}

/// The memory of a mounted volume, an open file and each running operation.
fn print_sizes() -> Result<()> {
    let device = size_of::<&mut dyn Device>();
    let volume = size_of::<Volume<'static, &'static mut dyn Device>>() - device;
    println!("volume {volume}");
    println!("open_file {}", size_of::<OpenFile>());
    let memory = HostMemory::new(1 << 20)?;
    let mut disk = Cached::new(16 << 20, 9)?;
    let (made, _) = format(&mut disk, memory.allocate(4096)?, &FormatOptions::default());
    made?;
    let nodes = [
        memory.allocate(512)?,
        memory.allocate(512)?,
        memory.allocate(512)?,
    ];
    let mut files = [const { OpenFile::new() }; 2];
    let device: &mut dyn Device = &mut disk;
    let mounted = Volume::mount(device, nodes, &mut files, &MountOptions::default());
    let volume = match mounted {
        Ok(volume) => volume,
        Err(failed) => return Err(failed.result.err().map_or("not mounted".into(), Into::into)),
    };
    let options = CreateOptions::default();
    let file = volume::blocking::run(&volume, volume.create("a", &options))?;
    for (name, bytes) in [
        ("create", size_of_val(&volume.create("b", &options))),
        ("open", size_of_val(&volume.open("b"))),
        ("reserve", size_of_val(&volume.reserve(file, 1))),
        ("commit", size_of_val(&volume.commit(file))),
        ("sync", size_of_val(&volume.sync(file))),
        ("prepare", size_of_val(&volume.prepare(file, 0))),
        ("close", size_of_val(&volume.close(file))),
        ("remove", size_of_val(&volume.remove("b"))),
        ("reap", size_of_val(&volume.reap(0))),
        ("rename", size_of_val(&volume.rename("a", "b"))),
    ] {
        println!("{name}_future {bytes}");
    }
    volume::blocking::run(&volume, volume.close(file))?;
    volume.unmount().result?;
    Ok(())
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [device, large_mib] = words.as_slice() else {
        return Err("usage: volume_io DRIVE|ram:512|ram:4096|sizes LARGE_MIB".into());
    };
    let large_bytes = large_mib.parse::<u64>()? << 20;
    match device.as_str() {
        "sizes" => print_sizes(),
        "ram:512" => on_memory(9, large_bytes),
        "ram:4096" => on_memory(12, large_bytes),
        drive => on_drive(drive, large_bytes),
    }
}
