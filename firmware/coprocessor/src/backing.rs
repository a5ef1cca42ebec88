// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the contexts' pages are stored on: ranges of the drive, or files of its volume.

use core::sync::atomic::{AtomicU64, Ordering};

use block::{Buffer, Completion, Device, Geometry, Lent, Refused, Request, blocking};
use drive::Drive;
use hardware::machine;
use interface::mapped::{Backing, CONTEXTS, PAGE_BYTES};
use interface::{Code, CompletionStatus};
use volume::{File, Volume};

type Moved = (Buffer, Result<(), CompletionStatus>);

/// The drive, and the instructions that were spent waiting for it: from the first poll after a
/// submission to the one that finds the completion.
#[derive(Debug)]
pub struct Metered<'c> {
    drive: Drive<'c>,
    /// When the first poll began.
    since: Option<u32>,
}

static WAITED: AtomicU64 = AtomicU64::new(0);

/// Instructions spent waiting for the drive so far.
pub fn waited() -> u64 {
    WAITED.load(Ordering::Relaxed)
}

impl<'c> Metered<'c> {
    /// Counts from now on.
    pub const fn new(drive: Drive<'c>) -> Self {
        Self { drive, since: None }
    }
}

impl Device for Metered<'_> {
    fn geometry(&self) -> &Geometry {
        self.drive.geometry()
    }

    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        self.since = None;
        self.drive.submit(request)
    }

    fn kick(&mut self) {
        self.drive.kick();
    }

    fn poll(&mut self) -> Option<Completion> {
        let now = machine::instructions();
        let since = *self.since.get_or_insert(now);
        let completion = self.drive.poll();
        if completion.is_some() {
            WAITED.fetch_add(u64::from(now.wrapping_sub(since)), Ordering::Relaxed);
        }
        completion
    }

    fn outstanding(&self) -> usize {
        self.drive.outstanding()
    }

    fn wait(&mut self, timeout_us: u32) {
        self.drive.wait(timeout_us);
    }
}

/// Moves the part of a page that exists, in whole blocks; `transfer` gets that part.
fn in_part(
    buffer: Buffer,
    bytes: u64,
    page: u32,
    block_bytes: usize,
    transfer: impl FnOnce(u64, Buffer) -> Moved,
) -> (Moved, usize) {
    let offset = u64::from(page) * PAGE_BYTES as u64;
    let exists = bytes.saturating_sub(offset).min(PAGE_BYTES as u64) as usize;
    let moved = exists.next_multiple_of(block_bytes);
    if moved >= PAGE_BYTES {
        return (transfer(offset, buffer), exists);
    }
    let mut whole = Lent::new(buffer);
    let piece = whole.lend(moved);
    let (piece, result) = transfer(offset, piece);
    let _ = whole.give_back(piece);
    match whole.into_whole() {
        Ok(buffer) => ((buffer, result), exists),
        Err(_) => ((Buffer::from_static(&mut []), result), exists),
    }
}

/// Zeroes what is past the end: another page was in the frame before.
fn clear((mut buffer, result): Moved, exists: usize) -> Moved {
    if let Some(rest) = buffer.get_mut(exists..) {
        rest.fill(0);
    }
    (buffer, result)
}

/// Ranges of the drive.
#[derive(Debug)]
pub struct Ranges<'c> {
    /// The drive.
    pub drive: Metered<'c>,
    /// First byte and length for each context.
    pub ranges: [(u64, u64); CONTEXTS],
}

impl Backing for Ranges<'_> {
    fn read(&mut self, context: usize, page: u32, buffer: Buffer) -> Moved {
        let (start, bytes) = self.ranges.get(context).copied().unwrap_or_default();
        let shift = self.drive.geometry().block_size_log2;
        let (moved, exists) = in_part(buffer, bytes, page, 1 << shift, |offset, buffer| {
            let outcome = blocking::read(&mut self.drive, (start + offset) >> shift, buffer);
            (
                outcome.buffer,
                outcome.result.map_err(CompletionStatus::from),
            )
        });
        clear(moved, exists)
    }

    fn write(&mut self, context: usize, page: u32, buffer: Buffer) -> Moved {
        let (start, bytes) = self.ranges.get(context).copied().unwrap_or_default();
        let shift = self.drive.geometry().block_size_log2;
        let (moved, _) = in_part(buffer, bytes, page, 1 << shift, |offset, buffer| {
            let lba = (start + offset) >> shift;
            let outcome = blocking::write(&mut self.drive, lba, buffer, false);
            (
                outcome.buffer,
                outcome.result.map_err(CompletionStatus::from),
            )
        });
        moved
    }

    fn flush(&mut self, _: usize) -> Result<(), CompletionStatus> {
        Ok(blocking::flush(&mut self.drive)?)
    }
}

/// Files of a mounted volume.
pub struct Files<'v, 'a, 'c> {
    /// The volume.
    pub volume: &'v Volume<'a, Metered<'c>>,
    /// The file of each context, and its length.
    pub files: [Option<(File, u64)>; CONTEXTS],
    /// Of the drive.
    pub block_bytes: usize,
}

impl Backing for Files<'_, '_, '_> {
    fn read(&mut self, context: usize, page: u32, buffer: Buffer) -> Moved {
        let Some((file, bytes)) = self.files.get(context).copied().flatten() else {
            return (buffer, Err(Code::BadFile.into()));
        };
        let (moved, exists) = in_part(buffer, bytes, page, self.block_bytes, |offset, buffer| {
            let outcome = volume::blocking::read(self.volume, file, offset, buffer);
            (
                outcome.buffer,
                outcome.result.map_err(CompletionStatus::from),
            )
        });
        clear(moved, exists)
    }

    fn write(&mut self, context: usize, page: u32, buffer: Buffer) -> Moved {
        let Some((file, bytes)) = self.files.get(context).copied().flatten() else {
            return (buffer, Err(Code::BadFile.into()));
        };
        let (moved, _) = in_part(buffer, bytes, page, self.block_bytes, |offset, buffer| {
            let outcome = volume::blocking::overwrite(self.volume, file, offset, buffer);
            (
                outcome.buffer,
                outcome.result.map_err(CompletionStatus::from),
            )
        });
        moved
    }

    fn flush(&mut self, context: usize) -> Result<(), CompletionStatus> {
        match self.files.get(context).copied().flatten() {
            Some((file, _)) => {
                volume::blocking::run(self.volume, self.volume.sync(file))?;
                Ok(())
            }
            None => Err(Code::BadFile.into()),
        }
    }
}
