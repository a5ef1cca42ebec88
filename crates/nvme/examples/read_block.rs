// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a block of a drive: here a model in memory, which needs no hardware.

use straightway_model::{BusMemory, Config, Model};
use straightway_nvme::block::blocking;
use straightway_nvme::{Allocate, Controller, ControllerOptions, QueuePair};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let memory = BusMemory::linear(2 << 20).ok_or("no memory")?;
    let drive = Model::new(Config::ram(64 << 20), memory.clone())?;
    let controller = Controller::open(drive, &memory, ControllerOptions::default())?;
    let mut queue = QueuePair::<_, _, 32>::open(&controller, 1, 128 << 10, &memory)?;
    let buffer = memory.allocate_dma(4096, 4096).ok_or("no memory")?;
    let read = blocking::read(&mut queue, 0, buffer);
    read.result?;
    println!("{:02x?}", &read.buffer[..16]);
    Ok(())
}
