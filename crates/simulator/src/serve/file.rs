// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file of a volume as the device that is served.

use crate::machine::Machine;
use crate::world::wall_ns;
use ::files::{Access, Mount, MountPoint, Mounted};
use block::Device;
use devices::drive::Drive;
use devices::path::handle::Recall;
use devices::path::memory::Memory;
use linux::HostMemory;
use map::FileDevice;
use volume::{CreateOptions, FormatOptions, OpenFile, blocking};

const NAME: &str = "disk";
/// All but its last block are whole: it is served to the end of that.
const FILE_BYTES: u64 = 100 * BLOCK - 100;
const BLOCK: u64 = 512;

/// Makes a volume, and the file in it.
///
/// # Errors
/// The product failed.
pub fn make<D: Device + 'static>(machine: &Machine, device: &mut D) -> Result<(), String> {
    let buffer = machine.memory.allocate(64 << 10);
    let buffer = buffer.map_err(|error| error.to_string())?;
    let options = FormatOptions {
        unit_bytes: Some(machine.setup.unit_bytes),
        slots: Some(machine.setup.slots()),
        uuid: [7; 16],
        ..FormatOptions::default()
    };
    let (made, buffer) = volume::format(device, buffer, &options);
    buffer.map(|buffer| machine.memory.give_back(buffer));
    made.map_err(|error| format!("formatting: {error}"))?;
    mounted(&machine.memory, device, |mounted| {
        let volume = mounted.volume;
        let file = blocking::run(volume, volume.create(NAME, &CreateOptions::default()))?;
        let len = FILE_BYTES.next_multiple_of(BLOCK) as usize;
        let mut buffer = machine
            .memory
            .allocate(len)
            .map_err(|_| volume::Error::Memory)?;
        buffer.fill(0);
        let outcome = blocking::append(volume, file, buffer, FILE_BYTES as usize);
        mounted.memory.give_back(outcome.buffer);
        outcome.result?;
        blocking::run(volume, volume.close(file))
    })
}

/// Serves the file.
///
/// # Errors
/// The product failed.
pub fn serve<D: Device + 'static>(
    memory: &HostMemory,
    device: &mut D,
    serve: impl FnOnce(&mut dyn Device),
) -> Result<(), String> {
    mounted(memory, device, |mounted| {
        let volume = mounted.volume;
        let file = blocking::run(volume, volume.open_to_write(NAME))?;
        serve(&mut FileDevice::new(volume, file, true)?);
        blocking::run(volume, volume.close(file))
    })
}

fn mounted<D: Device + 'static>(
    memory: &HostMemory,
    device: &mut D,
    work: impl FnOnce(&Mounted<'_, '_>) -> Result<(), volume::Error>,
) -> Result<(), String> {
    let drive = Drive::Ram(0);
    let mut table: Vec<OpenFile> = (0..2).map(|_| OpenFile::new()).collect();
    let point = MountPoint {
        device,
        memory: Memory::Host(memory.clone()),
        drive: &drive,
        path: String::new(),
        recall: Recall::NONE,
        wall_ns,
    };
    let mount = Mount::new(point, Access::Write, &mut table);
    let mount = mount.map_err(|failure| format!("mounting: {failure}"))?;
    let done = work(&mount.mounted()).map_err(|error| error.to_string());
    let unmounted = mount.unmount_after(Ok(()));
    done.and(unmounted.map_err(|failure| format!("unmounting: {failure}")))
}
