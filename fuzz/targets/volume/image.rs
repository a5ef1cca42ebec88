// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A volume with a few files whose checksums match whatever its nodes say: the volume is mounted
//! with a checksum that is always 0, the fields have 0, and the superblocks, which have the real
//! one, are sealed again.

use crate::{Disk, buffer};
use block::{Buffer, RamDisk};
use std::cell::RefCell;
use std::sync::OnceLock;
use volume::layout::{SUPERBLOCK_B, SUPERBLOCK_BYTES, magic, node, superblock};
use volume::{
    CreateOptions, FormatOptions, MountOptions, OpenFile, Volume, blocking, checksum::crc32c,
};

const NODE: usize = 512;
const BYTES: usize = 512 << 10;

struct Template {
    image: Vec<u8>,
    /// The nodes that say something.
    nodes: Vec<usize>,
}

fn disk(image: Vec<u8>) -> Disk {
    RamDisk::new(image, 9).expect("a disk")
}

fn template() -> Template {
    let mut disk = disk(vec![0; BYTES]);
    let options = FormatOptions {
        slots: Some(16),
        unit_bytes: Some(512),
        ..FormatOptions::default()
    };
    let (formatted, _) = volume::format(&mut disk, buffer(4096), &options);
    formatted.expect("a volume");
    let mut files = [const { OpenFile::new() }; 2];
    let memory = [buffer(NODE), buffer(NODE), buffer(NODE)];
    let volume = Volume::mount(disk, memory, &mut files, &MountOptions::default());
    let volume = volume.map_err(|left| left.result).expect("a volume");
    let long = "n".repeat(255);
    for (name, pieces) in [("a", 1), ("in pieces", 9), (&*long, 3), ("removed", 2)] {
        let file = blocking::run(&volume, volume.create(name, &CreateOptions::default()));
        let file = file.expect("a file");
        let between = blocking::run(&volume, volume.create("between", &CreateOptions::default()));
        let between = between.expect("a file");
        for _ in 0..pieces {
            blocking::append(&volume, file, buffer(NODE), NODE)
                .result
                .expect("written");
            // So that a file has several extents.
            blocking::append(&volume, between, buffer(NODE), NODE)
                .result
                .expect("written");
        }
        blocking::run(&volume, volume.close(file)).expect("closed");
        blocking::run(&volume, volume.close(between)).expect("closed");
        blocking::run(&volume, volume.remove("between")).expect("removed");
    }
    blocking::run(&volume, volume.remove("removed")).expect("removed");
    let mut image = read_back(&mut volume.unmount().device);
    let is_node = |bytes: &[u8]| {
        [magic::SLOT, magic::LEAF, magic::BITMAP]
            .iter()
            .any(|magic| bytes.starts_with(magic))
    };
    let mut nodes = vec![0, SUPERBLOCK_B as usize];
    for at in (0..BYTES).step_by(NODE) {
        if is_node(&image[at..]) {
            image[at + node::CRC..][..4].fill(0);
            nodes.push(at);
        }
    }
    Template { image, nodes }
}

fn read_back(disk: &mut Disk) -> Vec<u8> {
    let mut image = Vec::new();
    for lba in (0..BYTES as u64 >> 9).step_by(64) {
        let read = block::blocking::read(disk, lba, buffer(64 << 9));
        read.result.expect("read");
        image.extend_from_slice(&read.buffer);
    }
    image
}

/// Seals both superblocks, FORMAT.md.
fn seal(image: &mut [u8]) {
    for at in [0, SUPERBLOCK_B as usize] {
        let (field, bytes) = (superblock::CRC, &image[at..at + SUPERBLOCK_BYTES]);
        let crc = crc32c(0, &(at as u64).to_le_bytes());
        let crc = crc32c(crc32c(crc, &bytes[..field]), &bytes[field + 4..]);
        image[at + field..][..4].copy_from_slice(&crc.to_le_bytes());
    }
}

thread_local! {
    static MEMORY: RefCell<Vec<Buffer>> = RefCell::default();
}

fn memory() -> [Buffer; 3] {
    MEMORY
        .with_borrow_mut(|kept| std::array::from_fn(|_| kept.pop().unwrap_or_else(|| buffer(NODE))))
}

pub fn play(data: &[u8]) {
    static TEMPLATE: OnceLock<Template> = OnceLock::new();
    let template = TEMPLATE.get_or_init(template);
    let Some((&how, stores)) = data.split_first() else {
        return;
    };
    let mut image = template.image.clone();
    for store in stores.chunks_exact(8) {
        let node = template.nodes[usize::from(store[0]) % template.nodes.len()];
        let at = usize::from(u16::from_le_bytes([store[1], store[2]])) % NODE;
        let len = (usize::from(store[3]) % 4 + 1).min(NODE - at);
        image[node + at..][..len].copy_from_slice(&store[4..4 + len]);
    }
    seal(&mut image);
    let options = MountOptions {
        read_only: how & 1 == 1,
        crc32c: |_, _| 0,
        ..MountOptions::default()
    };
    let mut files = [const { OpenFile::new() }; 2];
    let left = match Volume::mount(disk(image), memory(), &mut files, &options) {
        Ok(volume) => {
            used(&volume, how);
            if how & 2 == 2 {
                volume.abandon()
            } else {
                volume.unmount()
            }
        }
        Err(left) => left,
    };
    MEMORY.with_borrow_mut(|kept| kept.extend(left.memory.into_iter().flatten()));
}

/// Every operation ends, with a result or an error.
fn used(volume: &Volume<'_, Disk>, how: u8) {
    let mut names = Vec::new();
    let _ = blocking::run(
        volume,
        volume.files(0, |entry| {
            names.push(entry.name.as_str().to_owned());
            names.len() < 32
        }),
    );
    let mut scratch = [0; 1024];
    if how & 4 == 4 {
        let _ = blocking::run(volume, volume.repair(&mut scratch, &mut |_| {}));
    }
    let _ = blocking::run(volume, volume.check(&mut scratch, &mut |_| {}));
    let _ = blocking::run(volume, volume.free_units());
    let _ = blocking::run(volume, volume.least_bytes());
    for name in names.iter().take(4) {
        let _ = blocking::run(volume, volume.extent_count(name, 64));
        if let Ok(file) = blocking::run(volume, volume.open(name)) {
            let _ = volume.file_status(file);
            let last = volume
                .file_status(file)
                .map_or(0, |status| status.committed_bytes.saturating_sub(1));
            for offset in [0, last] {
                if let Some(space) = MEMORY.with_borrow_mut(Vec::pop) {
                    let read = blocking::read(volume, file, offset, space);
                    MEMORY.with_borrow_mut(|kept| kept.push(read.buffer));
                }
            }
            let _ = blocking::run(volume, volume.close(file));
        }
    }
    if how & 1 == 0 {
        changed(volume, &names);
    }
}

fn changed(volume: &Volume<'_, Disk>, names: &[String]) {
    if let Ok(file) = blocking::run(volume, volume.create("new", &CreateOptions::default())) {
        for _ in 0..2 {
            if let Some(space) = MEMORY.with_borrow_mut(Vec::pop) {
                let appended = blocking::append(volume, file, space, NODE);
                MEMORY.with_borrow_mut(|kept| kept.push(appended.buffer));
            }
        }
        let _ = blocking::run(volume, volume.close(file));
    }
    if let Some(name) = names.first() {
        let _ = blocking::run(volume, volume.rename(name, "renamed"));
        // Behind this name the slot has room for half as many extents.
        let _ = blocking::run(volume, volume.rename("renamed", &"r".repeat(255)));
    }
    if let Some(name) = names.last() {
        let _ = blocking::run(volume, volume.remove(name));
    }
    let _ = blocking::run(volume, volume.resize(300 << 10));
}
