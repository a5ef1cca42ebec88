// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the first block of a drive in user space, then gives the drive back to its kernel driver.
//!
//! `cargo run --example vfio_read -- nvme0n1`, as root, on a machine with an IOMMU. Nothing is
//! written. A drive that is mounted or open elsewhere is refused by `bind::to_vfio`.

use straightway_linux::nvme::{Allocate, Controller, ControllerOptions, QueuePair};
use straightway_linux::{Roots, bind, block::blocking, resolve, vfio};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1).ok_or("usage: vfio_read DEVICE")?;
    let roots = Roots::system();
    let drive = resolve::resolve(&roots, &name)?;
    let nsid = drive
        .namespace
        .as_ref()
        .and_then(|found| found.nsid)
        .unwrap_or(1);
    let address = drive.controller.address;

    // Declared first, dropped last: the drive is given back when everything below is closed.
    let loan = bind::to_vfio(&roots, address)?;
    let function = vfio::Function::open(&roots, address, &vfio::Options::default())?;
    let memory = function.memory();
    let controller = Controller::open(function, &memory, ControllerOptions::default())?;
    let mut queue = QueuePair::<_, _, 32>::open(&controller, nsid, 128 << 10, &memory)?;

    let buffer = memory.allocate_dma(4096, 4096).ok_or("out of DMA memory")?;
    let read = blocking::read(&mut queue, 0, buffer);
    read.result?;
    println!("{:02x?}", &read.buffer[..16]);

    drop(queue);
    drop(controller);
    loan.release()?;
    Ok(())
}
