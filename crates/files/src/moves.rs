// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transfers between buffers and files of a volume, many of them under way.

use super::AnyVolume;
use super::turns::{pass, wait_for};
use block::{Buffer, Lent};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use volume::layout::CHUNK_BYTES;
use volume::{DataEvent, Direction, Error, File, Need, Progress, Transfer};

/// What a buffer of [`Moves::read`] must have beyond the bytes to read: the rest of the first and
/// of the last chunk.
pub const WHOLE_CHUNKS_BYTES: usize = 2 * CHUNK_BYTES as usize;

/// The transfers under way.
pub struct Moves<'v, 'a> {
    volume: &'v AnyVolume<'a>,
    /// Completions that their transfer has not taken, by tag.
    events: RefCell<HashMap<u16, Vec<DataEvent>>>,
    last_tag: Cell<u16>,
}

impl<'v, 'a> Moves<'v, 'a> {
    /// None yet.
    pub fn new(volume: &'v AnyVolume<'a>) -> Self {
        Self {
            volume,
            events: RefCell::default(),
            last_tag: Cell::new(0),
        }
    }

    /// Keeps a completion for its transfer.
    pub fn take_back(&self, event: DataEvent) {
        let mut events = self.events.borrow_mut();
        events.entry(event.tag).or_default().push(event);
    }

    /// Moves `len` bytes; `provide` supplies what the transfer stops for. The buffer comes back
    /// unless the device kept it.
    pub async fn run(
        &self,
        file: File,
        way: Direction,
        offset: u64,
        buffer: Buffer,
        len: usize,
        provide: impl AsyncFn(Need) -> Result<(), Error>,
    ) -> (Option<Buffer>, Result<(), Error>) {
        let (volume, tag) = (self.volume, self.tag());
        let mut transfer = Transfer::new(file, way, offset, buffer, len, tag);
        loop {
            let events = self.events.borrow_mut().remove(&tag);
            for event in events.into_iter().flatten() {
                transfer.take_back(event);
            }
            match transfer.go_on(volume) {
                Progress::Done => break,
                Progress::Submitted | Progress::Blocked => pass().await,
                Progress::Needs(need) => {
                    if let Err(error) = provide(need).await {
                        transfer.fail(error);
                    }
                }
            }
        }
        if transfer.failure().is_some() && way == Direction::Append {
            // What was appended before the failure stays; the rest is discarded.
            let _ = volume.rewind(file);
        }
        transfer.end()
    }

    /// Appends the first `len` bytes of a buffer to a file that ends inside a block, whose bytes it
    /// begins with. It is in one piece. The buffer comes back unless the device kept it.
    pub async fn append_merged(
        &self,
        file: File,
        buffer: Buffer,
        len: usize,
        provide: impl AsyncFn(Need) -> Result<(), Error>,
    ) -> (Option<Buffer>, Result<(), Error>) {
        let (volume, tag) = (self.volume, self.tag());
        let block = volume.geometry().block_size_bytes();
        let mut lent = Lent::new(buffer);
        loop {
            let piece = lent.lend(len.next_multiple_of(block));
            let Err(refused) = volume.append_merged(file, piece, len, tag) else {
                break;
            };
            lent.unlend(refused.buffer);
            let provided = match Need::of_append(refused.error, len as u64) {
                Some(need) => provide(need).await,
                // The device has no room for another request.
                None if refused.error == Error::Busy && volume.outstanding() > 0 => {
                    pass().await;
                    Ok(())
                }
                None => Err(refused.error),
            };
            if let Err(error) = provided {
                return (lent.into_whole().ok(), Err(error));
            }
        }
        let event = wait_for(|| {
            let mut events = self.events.borrow_mut();
            events.remove(&tag).and_then(|mut events| events.pop())
        })
        .await;
        if event.result.is_err() {
            let _ = volume.rewind(file);
        }
        match event.buffer.map(|piece| lent.give_back(piece)) {
            Some(Ok(_)) => (lent.into_whole().ok(), event.result),
            _ => (None, Err(Error::from(block::Error::Gone))),
        }
    }

    /// Reads up to `len` committed bytes from `offset` on, and compares them with their checksums
    /// if the file has any. Returns the buffer, and where in it they are.
    pub async fn read(
        &self,
        file: File,
        offset: u64,
        len: usize,
        buffer: Buffer,
    ) -> (Option<Buffer>, Result<Range<usize>, Error>) {
        let volume = self.volume;
        let status = match volume.file_status(file) {
            Ok(status) => status,
            Err(error) => return (Some(buffer), Err(error)),
        };
        let size = status.committed_bytes;
        let block = volume.geometry().block_size_bytes() as u64;
        let end = offset.saturating_add(len as u64).min(size);
        if offset >= end {
            return (Some(buffer), Ok(0..0));
        }
        // A checksum is of a whole chunk.
        let step = if status.checksums { CHUNK_BYTES } else { block };
        let start = offset - offset % step;
        let until = end.next_multiple_of(step).min(size.next_multiple_of(block));
        let whole = (until - start) as usize;
        let provide = async |need| volume.provide(file, need).await;
        let moved = self.run(file, Direction::Read, start, buffer, whole, provide);
        let (buffer, mut result) = moved.await;
        if let (Some(buffer), Ok(()), true) = (&buffer, &result, status.checksums) {
            let data = buffer.get(..(until.min(size) - start) as usize);
            result = volume.verify(file, start, data.unwrap_or_default()).await;
        }
        let range = (offset - start) as usize..(end - start) as usize;
        (buffer, result.map(|()| range))
    }

    /// A tag that no transfer under way has: there are fewer than tags.
    fn tag(&self) -> u16 {
        let tag = self.last_tag.get().wrapping_add(1);
        self.last_tag.set(tag);
        tag
    }
}
