//! Maps a drive in user space, or a file of the volume on it, and writes the memory to standard
//! output: the system call that writes touches pages that are not there yet.
//!
//! `cargo run -p straightway-map --example map_drive -- nvme0n1 [FILE]`, as root, on a machine with
//! an IOMMU. The drive is only read; it is given back to its kernel driver.

use linux::nvme::{Allocate, Controller, Options, QueuePair};
use linux::{Roots, bind, resolve, vfio};
use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::thread;
use straightway_map::block::{Buffer, Device};
use straightway_map::{FileDevice, Range, map};
use volume::{MountOptions, OpenFile, Volume, blocking};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Bytes that one fault reads.
const PAGE_BYTES: usize = 64 << 10;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().ok_or("usage: map_drive DEVICE [FILE]")?;
    let roots = Roots::system();
    let drive = resolve::resolve(&roots, &name)?;
    let namespace = drive.namespace.as_ref();
    let nsid = namespace.and_then(|found| found.nsid).unwrap_or(1);
    let address = drive.controller.address;

    // Declared first, dropped last: the drive is given back when everything below is closed.
    let loan = bind::to_vfio(&roots, address)?;
    let function = vfio::Function::open(&roots, address, &vfio::Options::default())?;
    let memory = function.memory();
    let controller = Controller::open(function, &memory, Options::default())?;
    let mut queue = QueuePair::<_, _, 32>::open(&controller, nsid, 128 << 10, &memory)?;
    let allocate = |len| memory.allocate_dma(len, 4096).ok_or("out of DMA memory");
    let buffers = || {
        (0..8)
            .map(|_| allocate(PAGE_BYTES))
            .collect::<std::result::Result<_, _>>()
    };

    match arguments.next() {
        None => {
            let size_bytes = queue.geometry().size_bytes();
            print(&mut queue, size_bytes, buffers()?)?;
        }
        Some(file) => {
            let nodes = [allocate(4096)?, allocate(4096)?, allocate(4096)?];
            let mut files = [const { OpenFile::new() }; 1];
            let options = MountOptions {
                read_only: true,
                ..MountOptions::default()
            };
            let volume = Volume::mount(&mut queue, nodes, &mut files, &options);
            let volume = volume.map_err(|unmounted| format!("mounting: {:?}", unmounted.result))?;
            let file = blocking::run(&volume, volume.open(&file))?;
            let device = FileDevice::new(&volume, file, false)?;
            let size_bytes = device.size_bytes();
            print(device, size_bytes, buffers()?)?;
            blocking::run(&volume, volume.close(file))?;
            volume.unmount().result?;
        }
    }
    drop(queue);
    drop(controller);
    loan.release()?;
    Ok(())
}

/// Maps `device` and writes `size_bytes` of the memory, while this thread serves the map.
fn print<D: Device>(device: D, size_bytes: u64, buffers: Vec<Buffer>) -> Result<()> {
    let options = straightway_map::Options {
        page_bytes: PAGE_BYTES,
        resident_bytes: 1 << 20,
        ..straightway_map::Options::default()
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
            // A line buffer would look for line ends, and get the signal of a page that cannot be read.
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
