// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Growing a mapped file: what is stored past its end is appended, in order and without holes, and
//! becomes part of the file when its user says so.
//!
//! ```text
//!  0             committed            written                       capacity
//!  |---- the file ----|-- overwritten --|-- appended: data, zeroes --|
//!                       in place                from `spare`
//! ```
//!
//! One append at a time, of as much as the spare buffer holds: a write that begins past the written
//! bytes has the gap filled with zeroes, because a volume's file has no holes.

use block::{Buffer, Device, Lent, Tag};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use volume::{Error, File, Transfer, Volume, blocking};

/// The size that a growing file has from the next flush on.
#[derive(Clone, Debug)]
pub struct FileSize {
    bytes: Arc<AtomicU64>,
    capacity_bytes: u64,
}

impl FileSize {
    /// The size in bytes.
    pub fn get(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// The file has at least `bytes` from the next flush (a map's `sync`) on: what was stored
    /// there, and zeroes elsewhere. A file does not shrink.
    ///
    /// # Errors
    /// [`Error::PastEnd`] past the capacity: nothing is changed.
    pub fn grow_to(&self, bytes: u64) -> Result<(), Error> {
        if bytes > self.capacity_bytes {
            return Err(Error::PastEnd);
        }
        self.bytes.fetch_max(bytes, Ordering::AcqRel);
        Ok(())
    }
}

/// A write that ends past the written bytes.
struct Waiting {
    tag: Tag,
    offset: u64,
    buffer: Buffer,
}

impl Waiting {
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.buffer.len() as u64)
    }
}

/// What a step of the growth has led to.
#[derive(Default)]
pub struct Grown {
    /// Bytes of the file that have been written, whole blocks.
    pub written_bytes: u64,
    /// Writes that have ended.
    pub done: Vec<(Tag, Buffer, Result<(), Error>)>,
    /// Writes of what has been written in the meantime.
    pub overwrites: Vec<(Tag, u64, Buffer)>,
    /// An append failed, and all writes that waited with it.
    pub failure: Option<Error>,
}

/// What is appended to a file.
pub struct Growth {
    size: FileSize,
    block_bytes: usize,
    written_bytes: u64,
    /// `None` while it is appended, or if the device has kept it.
    spare: Option<Buffer>,
    waiting: VecDeque<Waiting>,
    appending: Option<Transfer>,
    /// The first of `waiting`: their bytes are in what is appended.
    included: usize,
}

impl Growth {
    /// Reserves the space, and fills the file's last block with zeroes, which are not part of it.
    pub fn new<D: Device>(
        volume: &Volume<'_, D>,
        file: File,
        capacity_bytes: u64,
        spare: Buffer,
    ) -> Result<Self, Error> {
        let block_bytes = volume.geometry().block_size_bytes();
        let size_bytes = volume.file_status(file)?.completed_bytes;
        if capacity_bytes < size_bytes || spare.len() < block_bytes {
            return Err(Error::PastEnd);
        }
        volume.limit_size(file, size_bytes)?;
        let more = capacity_bytes.next_multiple_of(block_bytes as u64) - size_bytes;
        blocking::run(volume, volume.reserve_ahead(file, more, more))?;
        let spare = fill_last_block(volume, file, size_bytes, spare)?;
        Ok(Self {
            size: FileSize {
                bytes: Arc::new(AtomicU64::new(size_bytes)),
                capacity_bytes,
            },
            block_bytes,
            written_bytes: volume.file_status(file)?.completed_bytes,
            spare: Some(spare),
            waiting: VecDeque::new(),
            appending: None,
            included: 0,
        })
    }

    /// The size that the user gave the file.
    pub const fn size(&self) -> &FileSize {
        &self.size
    }

    /// Bytes of the file that have been written, whole blocks.
    pub const fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// The append that is under way.
    pub const fn appending(&mut self) -> Option<&mut Transfer> {
        self.appending.as_mut()
    }

    /// Writes that wait for an append.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Takes a write that ends past the written bytes.
    pub fn wait(&mut self, tag: Tag, offset: u64, buffer: Buffer) {
        self.waiting.push_back(Waiting {
            tag,
            offset,
            buffer,
        });
    }

    /// Whether a flush may begin: the file has all bytes of its size, which is then what it
    /// commits.
    pub fn may_flush<D: Device>(&self, volume: &Volume<'_, D>, file: File) -> bool {
        let size_bytes = self.size.get();
        size_bytes <= self.written_bytes && volume.limit_size(file, size_bytes).is_ok()
    }

    /// Takes an append that has ended, and begins the next one, with `tag`. `flushes`: a flush
    /// waits for the file's size.
    pub fn go_on<D: Device>(
        &mut self,
        volume: &Volume<'_, D>,
        file: File,
        flushes: bool,
        tag: u16,
    ) -> Grown {
        let mut grown = Grown::default();
        if self.appending.as_ref().is_some_and(Transfer::is_over) {
            self.take_appended(volume, file, &mut grown);
        }
        if self.appending.is_none() {
            self.begin(file, flushes, tag, &mut grown);
        }
        grown.written_bytes = self.written_bytes;
        grown
    }

    fn take_appended<D: Device>(&mut self, volume: &Volume<'_, D>, file: File, grown: &mut Grown) {
        let Some(transfer) = self.appending.take() else {
            return;
        };
        let (spare, result) = transfer.end();
        self.spare = spare;
        let start = self.written_bytes;
        // What was written before a piece that failed stays; the rest may be tried again.
        let written = match result {
            Ok(()) => volume
                .file_status(file)
                .map(|status| status.completed_bytes),
            Err(error) => {
                grown.failure = Some(error);
                volume.rewind(file)
            }
        };
        match written {
            Ok(written) => self.written_bytes = written,
            Err(error) => grown.failure = Some(error),
        }
        let included = std::mem::take(&mut self.included);
        for (index, write) in std::mem::take(&mut self.waiting).into_iter().enumerate() {
            let Waiting {
                tag,
                offset,
                buffer,
            } = write;
            let end = offset.saturating_add(buffer.len() as u64);
            if let Some(error) = grown.failure {
                grown.done.push((tag, buffer, Err(error)));
            } else if end > self.written_bytes {
                self.wait(tag, offset, buffer);
            } else if index < included && offset >= start {
                grown.done.push((tag, buffer, Ok(())));
            } else {
                grown.overwrites.push((tag, offset, buffer));
            }
        }
    }

    fn begin(&mut self, file: File, flushes: bool, tag: u16, grown: &mut Grown) {
        let start = self.written_bytes;
        let size_bytes = if flushes { self.size.get() } else { 0 };
        let ends = self.waiting.iter().map(Waiting::end);
        let end = ends.max().unwrap_or(0).max(size_bytes);
        if end <= start {
            return;
        }
        let Some(mut spare) = self.spare.take() else {
            let error = Error::from(block::Error::Gone);
            grown.failure = Some(error);
            let waiting = self.waiting.drain(..);
            let failed = waiting.map(|write| (write.tag, write.buffer, Err(error)));
            grown.done.extend(failed);
            return;
        };
        let left = usize::try_from(end - start).unwrap_or(usize::MAX);
        let left = left
            .checked_next_multiple_of(self.block_bytes)
            .unwrap_or(left);
        let len = left.min(spare.len() / self.block_bytes * self.block_bytes);
        spare[..len].fill(0);
        for write in &self.waiting {
            copy_overlap(write, start, &mut spare[..len]);
        }
        self.included = self.waiting.len();
        self.appending = Some(Transfer::append(file, spare, len, tag));
    }
}

/// Copies the bytes of `write` that belong into `target`, which begins at `start` of the file.
fn copy_overlap(write: &Waiting, start: u64, target: &mut [u8]) {
    let places = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let from = places(start.saturating_sub(write.offset));
    let to = places(write.offset.saturating_sub(start));
    if let (Some(source), Some(target)) = (write.buffer.get(from..), target.get_mut(to..)) {
        let len = source.len().min(target.len());
        target[..len].copy_from_slice(&source[..len]);
    }
}

/// Appends zeroes up to the end of a block, if the file ends inside one.
fn fill_last_block<D: Device>(
    volume: &Volume<'_, D>,
    file: File,
    size_bytes: u64,
    spare: Buffer,
) -> Result<Buffer, Error> {
    let block_bytes = volume.geometry().block_size_bytes();
    let kept = (size_bytes % block_bytes as u64) as usize;
    if kept == 0 {
        return Ok(spare);
    }
    let mut lent = Lent::new(spare);
    let read = blocking::read(
        volume,
        file,
        size_bytes - kept as u64,
        lent.lend(block_bytes),
    );
    read.result?;
    let mut piece = read.buffer;
    piece[kept..].fill(0);
    let appended = blocking::append_merged(volume, file, piece, block_bytes);
    appended.result?;
    let gone = || Error::from(block::Error::Gone);
    lent.give_back(appended.buffer).map_err(|_| gone())?;
    lent.into_whole().map_err(|_| gone())
}
