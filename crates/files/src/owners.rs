// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Other owners of a device that has a volume: their signatures where no file of the volume has
//! bytes.
//!
//! A partition table, a volume group or a file system that was made on a device leaves the second
//! superblock of a volume there in place. Whoever writes to the volume then writes over the new
//! owner's header. `FORMAT.md`, "The block of another owner", has what the library refuses; this is
//! the rest.
//!
//! At the end a volume's last unit can reach over the place of a signature. There only those count
//! that name this very device.

use super::found::{self, Ends, Signature, TAIL_BYTES};
use super::rules::{self, LOCATED_BYTES};
use super::wipe::part;
use super::{Store, shown};
use devices::cancel::Cancel;
use devices::drive::Drive;
use devices::error::Result;
use devices::error::volume::owned_by_another;
use volume::Shape;
use volume::layout::TABLES;

/// The signatures of other owners in front of the volume's tables, and behind its last unit; and
/// wherever that ends, those at the device's end that were written for this device. Elsewhere is
/// what the volume's files have, which may be the image of any device.
///
/// # Errors
/// The device failed.
pub fn signatures(store: &mut Store, shape: &Shape, cancel: &Cancel) -> Result<Vec<Signature>> {
    let geometry = *store.opened.device.geometry();
    let size_bytes = geometry.size_bytes();
    let block = geometry.block_size_bytes() as u64;
    let units_end = shape.data_start() + shape.unit_count() * shape.unit_bytes();
    // What a volume that was made shorter has left behind it is old data.
    let is_whole = size_bytes.saturating_sub(units_end) <= shape.unit_bytes().max(TAIL_BYTES);
    let tail_at = if is_whole {
        units_end.max(size_bytes.saturating_sub(TAIL_BYTES))
    } else {
        size_bytes
    };
    let tail_at = tail_at.next_multiple_of(block).min(size_bytes);
    // Not into the tables, where nothing but a volume's own superblock can have these bytes.
    let located_at = size_bytes
        .saturating_sub(LOCATED_BYTES)
        .next_multiple_of(block);
    let read_at = tail_at.min(located_at.max(TABLES)).min(size_bytes);
    let mut ends = Ends {
        size_bytes,
        block_bytes: block as u32,
        head: part(store, 0, TABLES.min(size_bytes), cancel)?,
        tail: part(store, read_at, size_bytes - read_at, cancel)?,
    };
    let located = rules::located(&ends);
    ends.tail.drain(..(tail_at - read_at) as usize);
    let mut found = ends.signatures();
    found.retain(|signature| !signature.is_a_volume());
    for one in located {
        if found
            .iter()
            .all(|known| known.offset_bytes != one.offset_bytes)
        {
            found.push(one);
        }
    }
    Ok(found)
}

/// Refuses to change a volume on a device that another owner has.
///
/// # Errors
/// There is one of these signatures.
pub fn refuse(drive: &Drive, found: &[Signature]) -> Result<()> {
    if found.is_empty() {
        return Ok(());
    }
    let names = found::names(found).join(", ");
    Err(owned_by_another(format!(
        "{drive} was given to another owner: {}; what is left of the volume can only be read, and \
         nothing was done",
        shown(&names)
    )))
}
