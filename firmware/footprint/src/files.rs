// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every entry point of `volume`, with names, options and buffers that the compiler cannot see
//! through.

use core::hint::black_box;

use block::Device;
use volume::{CreateOptions, File, FormatOptions, MountOptions, OpenFile, Volume, blocking};

use crate::board::memory;

/// Calls everything.
pub fn use_all<D: Device>(mut device: D) {
    let options = FormatOptions {
        unit_bytes: black_box(None),
        slots: black_box(None),
        checksums: black_box(true),
        uuid: black_box([1; 16]),
        ..FormatOptions::default()
    };
    let _ = black_box(volume::format(&mut device, memory(3), &options));
    let mut files = [const { OpenFile::new() }; 4];
    let nodes = [memory(4), memory(5), memory(6)];
    let mounted = Volume::mount(device, nodes, &mut files, &MountOptions::default());
    let Ok(volume) = mounted else { return };
    let name = black_box("a");
    let create = CreateOptions {
        reserve_bytes: black_box(9),
        checksums: black_box(true),
        app_tag: black_box(1),
    };
    if let Ok(file) = run(&volume, volume.create(name, &create)) {
        write(&volume, file);
        let _ = run(&volume, volume.close(file));
    }
    if let Ok(file) = run(&volume, volume.open_to_write(name)) {
        let _ = volume.overwrite(file, black_box(0), memory(7), 0);
    }
    if let Ok(file) = run(&volume, volume.open(name)) {
        let _ = volume.read(file, black_box(0), memory(8), 0);
        let _ = black_box(blocking::read(&volume, file, black_box(0), memory(9)));
        let _ = run(&volume, volume.prepare(file, black_box(7)));
    }
    let _ = run(&volume, volume.rename(name, black_box("b")));
    let _ = run(&volume, volume.remove(black_box("b")));
    let _ = run(&volume, volume.reap(black_box(0)));
    let _ = black_box(run(&volume, volume.next_file(black_box(0))));
    let _ = black_box(run(&volume, volume.find(name)));
    let _ = black_box(run(&volume, volume.free_units()));
    #[cfg(feature = "check")]
    check(&volume);
    let _ = black_box(volume.unmount());
}

fn write<D: Device>(volume: &Volume<'_, D>, file: File) {
    let _ = black_box(volume.append(file, memory(7), black_box(512), 0));
    volume.kick();
    black_box(volume.poll());
    let _ = volume.rewind(file);
    let _ = run(volume, volume.reserve(file, black_box(1)));
    let _ = run(volume, volume.commit(file));
    let _ = run(volume, volume.sync(file));
    let _ = black_box(blocking::append(volume, file, memory(7), black_box(512)));
    let _ = black_box(volume.file_status(file));
}

#[cfg(feature = "check")]
fn check<D: Device>(volume: &Volume<'_, D>) {
    let mut scratch = [0; 512];
    let mut report = |finding| {
        black_box(finding);
    };
    let _ = black_box(run(volume, volume.check(&mut scratch, &mut report)));
    let _ = black_box(run(volume, volume.repair(&mut scratch, &mut report)));
}

fn run<D: Device, T>(
    volume: &Volume<'_, D>,
    future: impl Future<Output = Result<T, volume::Error>>,
) -> Result<T, volume::Error> {
    blocking::run(volume, future)
}
