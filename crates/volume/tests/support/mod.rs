// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A volume on a test medium: memory that is given back, and short names for its operations.
#![allow(dead_code, clippy::unwrap_used)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use block::{Buffer, Device};
use straightway_volume::{Error, FormatOptions, MountOptions, OpenFile, Volume, format};

/// A buffer of `len` zeroes on the heap; freed by [`free`].
pub fn buffer(len: usize) -> Buffer {
    let layout = Layout::from_size_align(len.max(1), 4096).unwrap();
    // SAFETY: the layout has a size; the memory is handed to the one Buffer.
    unsafe {
        let start = NonNull::new(alloc_zeroed(layout)).unwrap();
        Buffer::from_raw(start, len)
    }
}

/// Frees a buffer that [`buffer`] made, whole.
pub fn free(buffer: Buffer) {
    let (start, len) = buffer.into_raw();
    let layout = Layout::from_size_align(len.max(1), 4096).unwrap();
    // SAFETY: made by `buffer` with this length and alignment; no handle is left.
    unsafe { dealloc(start.as_ptr(), layout) }
}

/// A buffer with `bytes`, padded to whole blocks.
pub fn filled(bytes: &[u8], block_bytes: usize) -> Buffer {
    let mut buffer = buffer(bytes.len().next_multiple_of(block_bytes));
    buffer[..bytes.len()].copy_from_slice(bytes);
    buffer
}

/// Node memory: three nodes and `extra` nodes more for each of the last two.
pub fn memory(node_bytes: usize, extra: usize) -> [Buffer; 3] {
    [
        buffer(node_bytes),
        buffer(node_bytes * (1 + extra)),
        buffer(node_bytes * (1 + extra)),
    ]
}

/// A table of open files.
pub fn files() -> Vec<OpenFile> {
    (0..4).map(|_| OpenFile::new()).collect()
}

/// Formats.
pub fn make<D: Device>(device: &mut D, options: &FormatOptions<'_>) {
    let (shape, memory) = format(device, buffer(1 << 16), options);
    free(memory.unwrap());
    shape.unwrap();
}

/// Mounts, or returns why not.
pub fn mount<'a, D: Device>(
    device: D,
    memory: [Buffer; 3],
    files: &'a mut [OpenFile],
    read_only: bool,
) -> Result<Volume<'a, D>, (Error, D)> {
    let options = MountOptions {
        read_only,
        ..MountOptions::default()
    };
    Volume::mount(device, memory, files, &options).map_err(|unmounted| {
        unmounted.memory.into_iter().flatten().for_each(free);
        (unmounted.result.unwrap_err(), unmounted.device)
    })
}

/// Mounts a volume with nodes of up to 512 bytes, runs `body`, and unmounts, or ends as a killed
/// program does.
pub fn on<D: Device>(
    device: D,
    is_killed: bool,
    read_only: bool,
    body: impl FnOnce(&Volume<'_, D>),
) -> D {
    let mut table = files();
    let volume = mount(device, memory(512, 3), &mut table, read_only)
        .map_err(|(error, _)| error)
        .unwrap();
    body(&volume);
    let unmounted = if is_killed {
        volume.abandon()
    } else {
        volume.unmount()
    };
    unmounted.result.unwrap();
    unmounted.memory.into_iter().flatten().for_each(free);
    unmounted.device
}

/// Mounts with nodes of 512 bytes and no memory beyond the least, runs `body`, and unmounts.
pub fn on_least<D: Device, T>(
    device: D,
    read_only: bool,
    body: impl FnOnce(&Volume<'_, D>) -> T,
) -> (D, T) {
    let mut table = files();
    let volume = mount(device, memory(512, 0), &mut table, read_only)
        .map_err(|(error, _)| error)
        .unwrap();
    let result = body(&volume);
    let unmounted = volume.unmount();
    unmounted.result.unwrap();
    unmounted.memory.into_iter().flatten().for_each(free);
    (unmounted.device, result)
}
