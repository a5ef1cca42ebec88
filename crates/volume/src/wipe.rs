// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Removing a volume: its two superblocks, and nothing else.

use block::{Buffer, Device};

use crate::bytes::{array, get_u64};
use crate::layout::{SUPERBLOCK_B, SUPERBLOCK_BYTES, magic, superblock as at};
use crate::mount::{flush, move_bytes};
use crate::superblock::{Superblock, superblock_len};
use crate::{Error, label};

/// The addresses of the two superblocks.
const ADDRESSES: [u64; 2] = [0, SUPERBLOCK_B];

/// The superblocks that a device has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Superblocks {
    /// The addresses of those that belong to a volume, in the order in which [`wipe`] zeroes them:
    /// the one in force is the last.
    addresses: [Option<u64>; 2],
    /// The volume's identity, if one of them is valid.
    pub uuid: Option<[u8; 16]>,
    /// The volume's label, padded with zeroes; all zeroes if none of them is valid.
    pub label: [u8; label::BYTES],
}

impl Superblocks {
    /// The addresses in bytes, in the order in which [`wipe`] zeroes them.
    pub fn addresses(&self) -> impl Iterator<Item = u64> + use<> {
        self.addresses.into_iter().flatten()
    }
}

/// What is known of the block of one superblock.
#[derive(Clone, Copy, Default)]
struct Member {
    /// The sequence number plus one, or 0 if it is not valid.
    rank: u64,
    has_magic: bool,
    uuid: [u8; 16],
    label: [u8; label::BYTES],
}

/// Finds the superblocks of a volume: valid ones of any version, and what has their magic number or
/// the identity of the other one. Nothing is changed. `memory` is at least one block and 256 bytes
/// long, and is given back.
///
/// # Errors
/// [`Error::NotAVolume`], [`Error::Memory`], or a device's error.
pub fn find_superblocks<D: Device>(
    device: &mut D,
    memory: Buffer,
) -> (Result<Superblocks, Error>, Option<Buffer>) {
    let mut place = Some(memory);
    let result = find(device, &mut place);
    (result, place)
}

/// Removes a volume: zeroes the 256 bytes of each of its superblocks, so that nothing finds it
/// again. Bytes beside them, which may be another owner's, are written as they were read. `memory`
/// is as for [`find_superblocks`].
///
/// The superblock in force is the last, after a flush: a power cut leaves the volume as it was,
/// with one superblock, or none of it.
///
/// # Errors
/// Those of [`find_superblocks`].
pub fn wipe<D: Device>(
    device: &mut D,
    memory: Buffer,
) -> (Result<Superblocks, Error>, Option<Buffer>) {
    let mut place = Some(memory);
    let result = run(device, &mut place);
    (result, place)
}

fn find(device: &mut dyn Device, memory: &mut Option<Buffer>) -> Result<Superblocks, Error> {
    let geometry = *device.geometry();
    let len = superblock_len(geometry.block_size_log2);
    let align = geometry.buffer_align_bytes as usize;
    let suits = memory
        .as_deref()
        .is_some_and(|buffer| buffer.len() >= len && buffer.as_ptr() as usize % align == 0);
    if !suits {
        return Err(Error::Memory);
    }
    let mut members = [Member::default(); 2];
    for (address, member) in ADDRESSES.into_iter().zip(&mut members) {
        if address + len as u64 > geometry.size_bytes() {
            continue;
        }
        move_bytes(device, false, address, len, memory)?;
        let bytes = memory.as_deref().unwrap_or_default();
        *member = Member {
            // One of a newer version, or that contradicts itself, is a volume's too.
            rank: match Superblock::decode(bytes, address) {
                Ok(None) => 0,
                _ => get_u64(bytes, at::SEQ).saturating_add(1),
            },
            has_magic: array(bytes, at::MAGIC) == magic::SUPERBLOCK,
            uuid: array(bytes, at::UUID),
            label: array(bytes, at::LABEL),
        };
    }
    let [a, b] = members;
    let owns =
        |one: &Member, other: &Member| one.has_magic || other.rank > 0 && one.uuid == other.uuid;
    let found_a = owns(&a, &b).then_some(0);
    let found_b = owns(&b, &a).then_some(SUPERBLOCK_B);
    let (addresses, newest) = if a.rank > b.rank {
        ([found_b, found_a], a)
    } else {
        ([found_a, found_b], b)
    };
    let is_valid = newest.rank > 0;
    match addresses {
        [None, None] => Err(Error::NotAVolume),
        addresses => Ok(Superblocks {
            addresses,
            uuid: is_valid.then_some(newest.uuid),
            label: if is_valid {
                newest.label
            } else {
                Default::default()
            },
        }),
    }
}

fn run(device: &mut dyn Device, memory: &mut Option<Buffer>) -> Result<Superblocks, Error> {
    let found = find(device, memory)?;
    let len = superblock_len(device.geometry().block_size_log2);
    for address in found.addresses() {
        move_bytes(device, false, address, len, memory)?;
        let bytes = memory.as_deref_mut().unwrap_or_default();
        if let Some(superblock) = bytes.get_mut(..SUPERBLOCK_BYTES) {
            superblock.fill(0);
        }
        move_bytes(device, true, address, len, memory)?;
        flush(device)?;
    }
    Ok(found)
}
