// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stamps events with a profiling timer that streams them to memory, and saves the dump.
//!
//!     timer TIMER MEMORY ADDRESS COUNT DUMP
//!
//! TIMER is a UIO device, a file that maps the registers, or a simulation's socket. MEMORY is a
//! file of the memory that the timer reaches at the bus address ADDRESS. COUNT events with the tags
//! 0x100, 0x101, ... are stamped. The straightway command shows the dump: `straightway timeline
//! DUMP`.

use events::{Device, RECORD_BYTES, Recorder, Registers, Simulation, Window, records};
use std::error::Error;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use straightway_events as events;

fn run(
    registers: impl Registers,
    memory: &Path,
    address: u64,
    count: u32,
    dump: &Path,
) -> Result<(), Box<dyn Error>> {
    let mut device = Device::new(registers)?;
    device.clear()?;
    let room = std::fs::metadata(memory)?.len() / RECORD_BYTES as u64;
    device.stream(address, u32::try_from(room)?)?;
    device.stamp_lines(u32::MAX)?;
    device.record()?;
    for tag in 0..count {
        device.stamp(0x100 + tag)?;
    }
    let mut lane = device.take()?;
    // Bounded by the memory: each event is written, or counted as lost.
    let status = loop {
        let status = device.status()?;
        if !status.streaming {
            break status;
        }
    };
    let streamed = status.written as usize * RECORD_BYTES;
    let bytes = std::fs::read(memory)?;
    lane.events = records(
        bytes
            .get(..streamed)
            .ok_or("the memory is shorter than the stream")?,
    );
    lane.lost = status.lost.into();
    let mut text = Vec::new();
    lane.write(&mut text);
    std::fs::write(dump, text)?;
    println!("{} events, {} lost", lane.events.len(), lane.lost);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [timer, memory, address, count, dump] = words.as_slice() else {
        return Err("usage: timer TIMER MEMORY ADDRESS COUNT DUMP".into());
    };
    let address = u64::from_str_radix(address.trim_start_matches("0x"), 16)?;
    let (timer, memory, dump, count) = (
        Path::new(timer),
        Path::new(memory),
        Path::new(dump),
        count.parse()?,
    );
    if std::fs::metadata(timer)?.file_type().is_socket() {
        run(Simulation::connect(timer)?, memory, address, count, dump)
    } else {
        run(Window::open(timer)?, memory, address, count, dump)
    }
}
