// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Maps a drive in user space, or a file of the volume on it, and writes the memory to standard
//! output: the system call that writes touches pages that are not there yet.
//!
//! `map drive nvme0n1 [FILE [CAPACITY]]`, as root, on a machine with an IOMMU. The drive is only
//! read, and given back to its kernel driver. With a capacity in bytes the file grows instead, by
//! standard input, which a system call stores there.

use crate::Result;
use linux::nvme::{Allocate, Controller, ControllerOptions, QueuePair};
use linux::{Roots, bind, resolve, vfio};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::thread;
use straightway_map::block::{Buffer, Device};
use straightway_map::{FileDevice, FileSize, Range, map};
use volume::{MountOptions, OpenFile, Volume, blocking};

/// Bytes that one fault reads.
const PAGE_BYTES: usize = 64 << 10;

pub fn main(arguments: &[String]) -> Result<()> {
    let (name, file, capacity) = match arguments {
        [name] => (name, None, None),
        [name, file] => (name, Some(file), None),
        [name, file, capacity] => (name, Some(file), Some(capacity.parse()?)),
        _ => return Err("usage: map drive DEVICE [FILE [CAPACITY]]".into()),
    };
    let roots = Roots::system();
    let drive = resolve::resolve(&roots, name)?;
    let namespace = drive.namespace.as_ref();
    let nsid = namespace.and_then(|found| found.nsid).unwrap_or(1);
    let address = drive.controller.address;

    // Declared first, dropped last: the drive is given back when everything below is closed.
    let loan = bind::to_vfio(&roots, address)?;
    let function = vfio::Function::open(&roots, address, &vfio::Options::default())?;
    let memory = function.memory();
    let controller = Controller::open(function, &memory, ControllerOptions::default())?;
    let mut queue = QueuePair::<_, _, 32>::open(&controller, nsid, 128 << 10, &memory)?;
    let allocate = |len| memory.allocate_dma(len, 4096).ok_or("out of DMA memory");
    let buffers = || {
        (0..8)
            .map(|_| allocate(PAGE_BYTES))
            .collect::<std::result::Result<_, _>>()
    };

    match file {
        None => {
            let size_bytes = queue.geometry().size_bytes();
            print(&mut queue, size_bytes, buffers()?)?;
        }
        Some(file) => {
            let nodes = [allocate(4096)?, allocate(4096)?, allocate(4096)?];
            let mut files = [const { OpenFile::new() }; 1];
            let options = MountOptions {
                read_only: capacity.is_none(),
                ..MountOptions::default()
            };
            let volume = Volume::mount(&mut queue, nodes, &mut files, &options);
            let volume = volume.map_err(|unmounted| format!("mounting: {:?}", unmounted.result))?;
            let opened = match capacity {
                None => {
                    let opened = blocking::run(&volume, volume.open(file))?;
                    let device = FileDevice::new(&volume, opened, false)?;
                    let size_bytes = device.size_bytes();
                    print(device, size_bytes, buffers()?)?;
                    opened
                }
                Some(capacity_bytes) => {
                    let opened = blocking::run(&volume, volume.open_to_write(file))?;
                    let spare = allocate(4 * PAGE_BYTES)?;
                    let growing = FileDevice::growing(&volume, opened, capacity_bytes, spare);
                    let (device, size) = growing?;
                    fill(device, &size, buffers()?)?;
                    opened
                }
            };
            blocking::run(&volume, volume.close(opened))?;
            volume.unmount().result?;
        }
    }
    drop(queue);
    drop(controller);
    loan.release()?;
    Ok(())
}

/// Maps `device` and stores standard input at the end of its file.
fn fill<D: Device>(device: D, size: &FileSize, buffers: Vec<Buffer>) -> Result<()> {
    let options = straightway_map::PagerOptions {
        writable: true,
        page_bytes: PAGE_BYTES,
        resident_bytes: 1 << 20,
        dirty_bytes: 512 << 10,
        ..straightway_map::PagerOptions::default()
    };
    let range = Range {
        lba: 0,
        size_bytes: device.geometry().size_bytes(),
    };
    let (map, server) = map(device, range, &options, buffers)?;
    thread::scope(|scope| {
        let user = scope.spawn(move || -> std::result::Result<(), String> {
            let whole = (map.as_ptr().as_ptr(), range.size_bytes as usize);
            // SAFETY: the map is writable, outlives the slice, and only this thread accesses it.
            let bytes = unsafe { std::slice::from_raw_parts_mut(whole.0, whole.1) };
            let mut end = size.get() as usize;
            let mut input = std::io::stdin().lock();
            loop {
                let read = input
                    .read(&mut bytes[end..])
                    .map_err(|error| error.to_string())?;
                if read == 0 {
                    break;
                }
                end += read;
                // Nothing of a part is in the file before the next sync.
                size.grow_to(end as u64)
                    .map_err(|error| error.to_string())?;
            }
            eprintln!("{:?}", map.counters());
            map.sync().map_err(|error| error.to_string())
        });
        server.run()?;
        let filled = user.join().map_err(|_| "the user's thread panicked")?;
        Ok(filled?)
    })
}

/// Maps `device` and writes `size_bytes` of the memory, while this thread serves the map.
fn print<D: Device>(device: D, size_bytes: u64, buffers: Vec<Buffer>) -> Result<()> {
    let options = straightway_map::PagerOptions {
        page_bytes: PAGE_BYTES,
        resident_bytes: 1 << 20,
        ..straightway_map::PagerOptions::default()
    };
    let range = Range {
        lba: 0,
        size_bytes: device.geometry().size_bytes(),
    };
    let (map, server) = map(device, range, &options, buffers)?;
    thread::scope(|scope| {
        let user = scope.spawn(move || {
            // SAFETY: the map is read-only and outlives the slice.
            let bytes =
                unsafe { std::slice::from_raw_parts(map.as_ptr().as_ptr(), size_bytes as usize) };
            // A line buffer would look for line ends, and get the signal of a page that cannot be
            // read.
            let output = std::io::stdout().as_fd().try_clone_to_owned();
            let written = output.and_then(|output| File::from(output).write_all(bytes));
            eprintln!(
                "{:?}, {} bytes in memory",
                map.counters(),
                map.resident_bytes().unwrap_or(0)
            );
            for failure in map.take_failures() {
                eprintln!("{failure:?}");
            }
            written
        });
        server.run()?;
        let written = user.join().map_err(|_| "the user's thread panicked")?;
        Ok(written?)
    })
}
