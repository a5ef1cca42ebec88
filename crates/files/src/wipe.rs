// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds signatures at the two ends of a device, and wipes them.

use crate::found::{Ends, HEAD_BYTES, Signature, TAIL_BYTES};
use crate::{Store, failed};
use block::blocking::{read, write};
use block::{Buffer, Lent};
use devices::cancel::Cancel;
use devices::error::Result;
use devices::transfer::{self, Span};
use volume::layout::TABLES;

/// Reads the device's beginning and end.
///
/// # Errors
/// The device failed.
pub fn look(store: &mut Store, cancel: &Cancel) -> Result<Ends> {
    let geometry = *store.opened.device.geometry();
    let size_bytes = geometry.size_bytes();
    let block = geometry.block_size_bytes() as u64;
    let (head, tail) = (HEAD_BYTES.min(size_bytes), TAIL_BYTES.min(size_bytes));
    Ok(Ends {
        size_bytes,
        block_bytes: block as u32,
        head: part(store, 0, head, cancel)?,
        tail: part(
            store,
            (size_bytes - tail) / block * block,
            tail / block * block,
            cancel,
        )?,
    })
}

/// Reads a part of the device, in whole blocks.
///
/// # Errors
/// The device failed.
pub fn part(
    store: &mut Store,
    offset_bytes: u64,
    length_bytes: u64,
    cancel: &Cancel,
) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if length_bytes == 0 {
        return Ok(bytes);
    }
    let block = store.opened.device.geometry().block_size_bytes() as u64;
    transfer::read(
        store.opened.device.as_mut(),
        &store.opened.memory,
        &Span {
            offset_bytes,
            length_bytes,
            operation_bytes: block.max(64 << 10),
            depth: 1,
        },
        &mut |data| {
            bytes.extend_from_slice(data);
            Ok(())
        },
        &mut |_| {},
        cancel,
    )?;
    Ok(bytes)
}

/// Zeroes signatures and nothing else. Signatures in front of a volume's tables are left to the
/// format, which zeroes that whole range. Nothing is flushed: the format does that before it writes
/// the first superblock, so that no power cut leaves a volume together with an old signature.
///
/// # Errors
/// The device failed.
pub fn wipe(store: &mut Store, memory: &mut Option<Buffer>, found: &[Signature]) -> Result<()> {
    let geometry = *store.opened.device.geometry();
    let block = geometry.block_size_bytes() as u64;
    let device = store.opened.device.as_mut();
    for signature in found {
        let end = signature.offset_bytes + signature.length_bytes;
        if end <= TABLES {
            continue;
        }
        // A signature is short, but it may span two blocks.
        for lba in signature.offset_bytes / block..end.div_ceil(block) {
            let doing = format_args!("wiping {} on {}", signature.what, store.drive).to_string();
            let from = signature.offset_bytes.saturating_sub(lba * block) as usize;
            let to = (end - lba * block).min(block) as usize;
            let mut moved = lend(memory, block as usize, |piece| read(device, lba, piece));
            if moved.is_ok() {
                if let Some(bytes) = memory.as_mut().and_then(|bytes| bytes.get_mut(from..to)) {
                    bytes.fill(0);
                }
                moved = lend(memory, block as usize, |piece| {
                    write(device, lba, piece, false)
                });
            }
            moved.map_err(|error| failed(&doing, error))?;
        }
    }
    Ok(())
}

/// Lends the first bytes of `memory` to a transfer.
fn lend(
    memory: &mut Option<Buffer>,
    len: usize,
    transfer: impl FnOnce(Buffer) -> block::blocking::Outcome,
) -> std::result::Result<(), volume::Error> {
    let whole = memory.take().ok_or(volume::Error::Memory)?;
    let mut lent = Lent::new(whole);
    let outcome = transfer(lent.lend(len));
    let _ = lent.give_back(outcome.buffer);
    *memory = lent.into_whole().ok();
    Ok(outcome.result?)
}
