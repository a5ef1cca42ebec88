// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Other owners of a device: what they write over a superblock, and that nothing is written over
//! them.

use block::Device;
use crash::{Config, Medium};
use straightway_volume::{Error, Finding, MountOptions, OpenFile, Volume, blocking};

use super::support::{free, memory};

/// A name, and what it puts at an offset of a superblock's block, which it zeroes otherwise: file
/// systems, volume managers and partition tables in the order of their offsets.
pub const OWNERS: [(&str, usize, &[u8]); 16] = [
    ("XFS", 0, b"XFSB\0\0\x10\0"),
    ("SquashFS", 0, b"hsqs"),
    ("LUKS", 0, b"LUKS\xba\xbe\0\x02"),
    ("md 1.1", 0, &[0xfc, 0x4e, 0x2b, 0xa9, 1]),
    ("BFS", 0, &[0xce, 0xfa, 0xad, 0x1b]),
    ("romfs", 0, b"-rom1fs-"),
    ("cramfs", 0, &[0x45, 0x3d, 0xcd, 0x28]),
    ("UBI", 0, b"UBI#\x01"),
    ("UBIFS", 0, &[0x31, 0x18, 0x10, 0x06]),
    ("dm-verity", 0, b"verity\0\0\x01"),
    ("dm-integrity", 0, b"integrt\0\x05"),
    ("FAT", 0, b"\xeb\x3c\x90mkfs.fat\0\x02\x04\x04"),
    ("NTFS", 3, b"NTFS    "),
    ("LVM", 0x18, b"LVM2 001"),
    ("APFS", 32, b"NXSB"),
    ("a boot loader", 0, &[0xfa, 0x31, 0xc0, 0x8e]),
];

/// Requires that a volume is refused, unchanged, wherever one of its superblocks was overwritten by
/// any of [`OWNERS`], and that it can still be read, and a check reports it, if the other
/// superblock is valid.
pub fn refused_where_overwritten(medium: &Medium) -> Result<(), String> {
    for address in [0, 65_536] {
        for (name, offset, mark) in OWNERS {
            let mut taken = medium.clone();
            let lba = address >> medium.block_size_log2();
            let put = |block: &mut [u8]| {
                block.fill(0);
                block[offset..offset + mark.len()].copy_from_slice(mark);
            };
            taken.edit(lba, put).unwrap();
            refused(&taken, address)
                .map_err(|reason| format!("{name} over the superblock at {address}: {reason}"))?;
        }
    }
    Ok(())
}

fn refused(taken: &Medium, address: u64) -> Result<(), String> {
    let disk = taken.open(Config::default());
    let node = disk.geometry().block_size_bytes().max(512);
    let mut files: [OpenFile; 1] = Default::default();
    let mut result = |read_only| {
        let options = MountOptions {
            read_only,
            ..MountOptions::default()
        };
        match Volume::mount(disk.clone(), memory(node, 7), &mut files, &options) {
            Ok(volume) => {
                let mut found = false;
                let mut scratch = vec![0; 8 * node];
                let mut report = |finding| found |= finding == Finding::Overwritten { address };
                let checked = blocking::run(&volume, volume.check(&mut scratch, &mut report));
                volume.abandon().memory.into_iter().flatten().for_each(free);
                checked.map(|_| found)
            }
            Err(unmounted) => {
                unmounted.memory.into_iter().flatten().for_each(free);
                Err(unmounted.result.unwrap_err())
            }
        }
    };
    let (to_write, to_read) = (result(false), result(true));
    if disk.current().hash() != taken.hash() {
        return Err("something was written".into());
    }
    match (to_write, to_read) {
        (Err(Error::Overwritten), Ok(true)) | (Err(Error::NotAVolume), Err(Error::NotAVolume)) => {
            Ok(())
        }
        both => Err(format!("mounted to write and to read: {both:?}")),
    }
}
