// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Data: straight between the caller's buffer and the device, one command a call.

use block::{Buffer, Device, Operation, Request};

use crate::file::{self, APPENDS_IN_FLIGHT, File, Piece, PieceState, Window};
use crate::io::{METADATA, State};
use crate::layout::{CHUNK_BYTES, Shape};
use crate::{Error, Volume};

/// A data request that was not accepted, its buffer given back.
#[derive(Debug)]
pub struct Refused {
    /// Why.
    pub error: Error,
    /// The buffer as it was passed in.
    pub buffer: Buffer,
}

impl core::fmt::Display for Refused {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.error.fmt(f)
    }
}

impl core::error::Error for Refused {}

/// The completion of a data request. Each accepted request has exactly one.
#[derive(Debug)]
pub struct DataEvent {
    /// The file.
    pub file: File,
    /// The caller's name for the request.
    pub tag: u16,
    /// For an append, the offset in the file at which it was written.
    pub offset: Option<u64>,
    /// The buffer, returned to the caller.
    pub buffer: Option<Buffer>,
    /// The result.
    pub result: Result<(), Error>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Append,
    Read,
    Overwrite,
}

/// The device's tag: kind, open file, index in the ring of appends, the caller's tag.
const fn pack(kind: Kind, file: u8, piece: u8, tag: u16) -> u32 {
    let kind = match kind {
        Kind::Append => 0,
        Kind::Read => 1,
        Kind::Overwrite => 2,
    };
    kind << 29 | (file as u32 & 0x7f) << 22 | (piece as u32 & 0x1f) << 16 | tag as u32
}

const fn unpack(tag: u32) -> (Kind, u8, u8, u16) {
    let kind = match tag >> 29 & 3 {
        0 => Kind::Append,
        1 => Kind::Read,
        _ => Kind::Overwrite,
    };
    (
        kind,
        (tag >> 22 & 0x7f) as u8,
        (tag >> 16 & 0x1f) as u8,
        tag as u16,
    )
}

const _: () = assert!(APPENDS_IN_FLIGHT == 32, "five bits of the device's tag");

impl<D: Device> Volume<'_, D> {
    /// Appends the first `len_bytes` of `buffer`; the rest of its last block is padding. This is
    /// one device command: the data must be contiguous on the device and no longer than its largest
    /// transfer; otherwise [`Error::Split`] says where to split the buffer. Up to 32 appends of a
    /// file may be in flight; [`Volume::kick`] starts them.
    ///
    /// # Errors
    /// With the buffer: [`Error::Split`], [`Error::NeedsReservation`], [`Error::NeedsMap`],
    /// [`Error::NeedsCommit`], [`Error::UnalignedEnd`], [`Error::Unaligned`],
    /// [`Error::AppendFailed`], [`Error::Busy`], [`Error::NotOpen`], [`Error::NotWritable`],
    /// [`Error::NeedsMount`], a device's error.
    #[allow(clippy::result_large_err)]
    pub fn append(
        &self,
        file: File,
        buffer: Buffer,
        len_bytes: usize,
        tag: u16,
    ) -> Result<(), Refused> {
        self.state().append(file, buffer, len_bytes, tag, false)
    }

    /// Appends to a file that ends inside a block: `buffer` begins with the bytes that the last
    /// block holds already, and `len_bytes` counts them. That block is rewritten, with the same
    /// bytes where data is committed, so a torn write changes none of them. No append may be in
    /// flight, and no overwrite of that block.
    ///
    /// # Errors
    /// Those of [`Volume::append`].
    #[allow(clippy::result_large_err)]
    pub fn append_merged(
        &self,
        file: File,
        buffer: Buffer,
        len_bytes: usize,
        tag: u16,
    ) -> Result<(), Refused> {
        self.state().append(file, buffer, len_bytes, tag, true)
    }

    /// Submits a failed append again: the same bytes at the offset that its event named.
    ///
    /// # Errors
    /// With the buffer: [`Error::NothingToRetry`] if no append failed there with this length,
    /// otherwise those of [`Volume::append`].
    #[allow(clippy::result_large_err)]
    pub fn retry(&self, file: File, offset: u64, buffer: Buffer, tag: u16) -> Result<(), Refused> {
        self.state().retry(file, offset, buffer, tag)
    }

    /// Reads from `offset`, a multiple of the device's block size, into the whole of `buffer`. One
    /// device command, as for [`Volume::append`]; the last block of a file may be read as a whole,
    /// and its bytes past the file's end are padding.
    ///
    /// # Errors
    /// With the buffer: [`Error::Split`], [`Error::NeedsMap`] (call [`Volume::prepare`]),
    /// [`Error::PastEnd`], [`Error::Unaligned`], [`Error::Busy`], [`Error::NotOpen`], a device's
    /// error.
    #[allow(clippy::result_large_err)]
    pub fn read(&self, file: File, offset: u64, buffer: Buffer, tag: u16) -> Result<(), Refused> {
        self.state().read(file, offset, buffer, tag)
    }

    /// Overwrites existing data in place. It is not atomic: after a power cut each block has the
    /// old or the new bytes, until a [`Volume::sync`] that began after the event. Not offered for
    /// files with checksums.
    ///
    /// # Errors
    /// With the buffer: those of [`Volume::read`], [`Error::NotWritable`], [`Error::Unsupported`],
    /// [`Error::NeedsMount`]; [`Error::Busy`] and [`Error::AppendFailed`] while an append to the
    /// same block is in flight, or has failed and is neither retried nor discarded.
    #[allow(clippy::result_large_err)]
    pub fn overwrite(
        &self,
        file: File,
        offset: u64,
        buffer: Buffer,
        tag: u16,
    ) -> Result<(), Refused> {
        self.state().overwrite(file, offset, buffer, tag)
    }

    /// Discards the appends from the first failed one on. Nothing of the file may be in flight.
    /// Returns the offset of the next append.
    ///
    /// # Errors
    /// [`Error::Busy`] while an append is in flight, [`Error::NotOpen`].
    pub fn rewind(&self, file: File) -> Result<u64, Error> {
        let mut state = self.state();
        let open = file::get(state.files, file)?;
        if open.appends_in_flight() {
            return Err(Error::Busy);
        }
        open.fold();
        for piece in &mut open.pieces {
            piece.state = PieceState::Empty;
        }
        open.piece_count = 0;
        open.appended = open.completed;
        open.appended_crc = open.completed_crc;
        // Discard their checksums; those below `completed` stay.
        let kept = (open.completed / CHUNK_BYTES).saturating_sub(open.first_sum);
        open.sum_count = open.sum_count.min(kept as u8);
        // The append point may have passed the map's window: `prepare_append` loads it again.
        open.ahead = Default::default();
        Ok(open.appended)
    }

    /// Starts all submitted requests with one doorbell.
    pub fn kick(&self) {
        self.state().device.kick();
    }

    /// The next completed data request, if any. This also drives the metadata futures' device
    /// requests: poll this, then poll them.
    pub fn poll(&self) -> Option<DataEvent> {
        self.state().poll()
    }

    /// Sleeps until something may have finished, at most `timeout_us` microseconds.
    pub fn wait(&self, timeout_us: u32) {
        self.state().device.wait(timeout_us);
    }

    /// Outstanding device requests, metadata included.
    pub fn outstanding(&self) -> usize {
        self.state().device.outstanding()
    }
}

impl<D: Device> State<'_, D> {
    #[allow(clippy::result_large_err)]
    pub(crate) fn append(
        &mut self,
        file: File,
        buffer: Buffer,
        len_bytes: usize,
        tag: u16,
        merged: bool,
    ) -> Result<(), Refused> {
        let (address, piece, sums) = match self.check_append(file, &buffer, len_bytes, merged) {
            Ok(accepted) => accepted,
            Err(error) => return Err(Refused { error, buffer }),
        };
        let (index, piece_value) = piece;
        let device_tag = pack(Kind::Append, file.index, index, tag);
        self.submit_write(address, buffer, device_tag)?;
        if let Ok(open) = file::get(self.files, file) {
            open.appended = piece_value.end();
            open.appended_crc = piece_value.tail_crc;
            open.sum_count = sums;
            open.piece_count += 1;
            if let Some(place) = open.pieces.get_mut(usize::from(index)) {
                *place = piece_value;
            }
        }
        Ok(())
    }

    /// The append's offset, its index in the ring, and the number of checksums after it.
    fn check_append(
        &mut self,
        file: File,
        buffer: &Buffer,
        len_bytes: usize,
        merged: bool,
    ) -> Result<(u64, (u8, Piece), u8), Error> {
        if self.failed {
            return Err(Error::NeedsMount);
        }
        let shape = self.shape();
        let geometry = self.device.geometry();
        let block = geometry.block_size_bytes();
        let largest = geometry.max_transfer_bytes() as u64;
        let crc32c = self.crc32c;
        let open = file::get(self.files, file)?;
        if !open.writable {
            return Err(Error::NotWritable);
        }
        let whole = len_bytes.div_ceil(block) * block;
        if len_bytes == 0 || buffer.len() != whole {
            return Err(Error::Unaligned);
        }
        let held = (open.appended & (block as u64 - 1)) as usize;
        let offset = open.appended - held as u64;
        if held != 0 && !merged {
            return Err(Error::UnalignedEnd);
        }
        if merged && (open.piece_count != 0 || open.tail_overwrites > 0 || len_bytes < held) {
            return Err(Error::Busy);
        }
        if usize::from(open.piece_count) == APPENDS_IN_FLIGHT {
            return Err(if open.has_failed() {
                Error::AppendFailed
            } else {
                Error::Busy
            });
        }
        // One append adds at most as many checksums as there is room for after a commit.
        let largest = if open.checksums {
            largest.min(file::CHECKSUMS as u64 * CHUNK_BYTES - offset % CHUNK_BYTES)
        } else {
            largest
        };
        let address = append_address(open, offset, whole as u64, largest, &shape)?;
        let (sums, tail_crc) = if open.checksums {
            let data = buffer.get(held..len_bytes).unwrap_or_default();
            open.sum(data, crc32c)?
        } else {
            (0, 0)
        };
        let index =
            (usize::from(open.first_piece) + usize::from(open.piece_count)) % APPENDS_IN_FLIGHT;
        let piece = Piece {
            start: offset,
            len_bytes: len_bytes as u32,
            whole_bytes: whole as u32,
            tail_crc,
            state: PieceState::InFlight,
        };
        Ok((address, (index as u8, piece), sums))
    }

    #[allow(clippy::result_large_err)]
    fn retry(&mut self, file: File, offset: u64, buffer: Buffer, tag: u16) -> Result<(), Refused> {
        let len = buffer.len() as u64;
        let found = (|| {
            if self.failed {
                return Err(Error::NeedsMount);
            }
            let shape = self.shape();
            let open = file::get(self.files, file)?;
            let index = open
                .pieces
                .iter()
                .position(|piece| {
                    piece.state == PieceState::Failed
                        && u64::from(piece.whole_bytes) == len
                        && piece.start == offset
                })
                .ok_or(Error::NothingToRetry)?;
            // The append point has moved, so the extent may no longer be in the window ahead.
            let found = open
                .find(Window::Ahead, offset, &shape)
                .or_else(|| open.find(Window::Around, offset, &shape));
            let (address, _) = found.ok_or(Error::NeedsMap)?;
            Ok((address, index))
        })();
        let (address, index) = match found {
            Ok(found) => found,
            Err(error) => return Err(Refused { error, buffer }),
        };
        let device_tag = pack(Kind::Append, file.index, index as u8, tag);
        self.submit_write(address, buffer, device_tag)?;
        if let Ok(open) = file::get(self.files, file) {
            if let Some(piece) = open.pieces.get_mut(index) {
                piece.state = PieceState::InFlight;
            }
        }
        Ok(())
    }

    #[allow(clippy::result_large_err)]
    pub(crate) fn read(
        &mut self,
        file: File,
        offset: u64,
        buffer: Buffer,
        tag: u16,
    ) -> Result<(), Refused> {
        let address = match self.check_other(file, offset, buffer.len() as u64) {
            Ok(address) => address,
            Err(error) => return Err(Refused { error, buffer }),
        };
        let device_tag = pack(Kind::Read, file.index, 0, tag);
        let lba = address >> self.device.geometry().block_size_log2;
        self.submit(Operation::Read { lba, buffer }, device_tag)?;
        self.one_more_in_flight(file);
        Ok(())
    }

    #[allow(clippy::result_large_err)]
    pub(crate) fn overwrite(
        &mut self,
        file: File,
        offset: u64,
        buffer: Buffer,
        tag: u16,
    ) -> Result<(), Refused> {
        let len = buffer.len() as u64;
        let address = self.check_change(file, offset, len);
        let address = match address.and_then(|()| self.check_other(file, offset, len)) {
            Ok(address) => address,
            Err(error) => return Err(Refused { error, buffer }),
        };
        let is_tail = |open: &file::OpenFile| open.ends_within(offset, len);
        let is_tail = file::get(self.files, file).is_ok_and(|open| is_tail(open));
        let device_tag = pack(Kind::Overwrite, file.index, u8::from(is_tail), tag);
        self.submit_write(address, buffer, device_tag)?;
        self.one_more_in_flight(file);
        if let Ok(open) = file::get(self.files, file) {
            open.tail_overwrites += u8::from(is_tail);
        }
        Ok(())
    }

    fn one_more_in_flight(&mut self, file: File) {
        if let Ok(open) = file::get(self.files, file) {
            open.others_in_flight += 1;
        }
    }

    /// Whether a file may be changed in place there now. Not a part of the check of a read, which
    /// would pay for it.
    #[inline(never)]
    fn check_change(&mut self, file: File, offset: u64, len: u64) -> Result<(), Error> {
        let failed = self.failed;
        let open = file::get(self.files, file)?;
        if !open.writable {
            return Err(Error::NotWritable);
        }
        if failed {
            return Err(Error::NeedsMount);
        }
        if open.checksums {
            return Err(Error::Unsupported);
        }
        // A device may execute the two writes of a block in either order.
        for piece in &open.pieces {
            match piece.state {
                _ if piece.start >= offset.saturating_add(len) => {}
                PieceState::InFlight => return Err(Error::Busy),
                PieceState::Failed => return Err(Error::AppendFailed),
                PieceState::Empty | PieceState::Done => {}
            }
        }
        if open.tail_overwrites == u8::MAX {
            return Err(Error::Busy);
        }
        Ok(())
    }

    fn check_other(&mut self, file: File, offset: u64, len: u64) -> Result<u64, Error> {
        let shape = self.shape();
        let geometry = self.device.geometry();
        let block = geometry.block_size_bytes() as u64;
        let largest = geometry.max_transfer_bytes() as u64;
        let open = file::get(self.files, file)?;
        if offset % block != 0 || len % block != 0 || len == 0 {
            return Err(Error::Unaligned);
        }
        let end = open.readable_end().next_multiple_of(block);
        if offset >= end {
            return Err(Error::PastEnd);
        }
        let found = open.find(Window::Around, offset, &shape);
        let (address, contiguous) = found.ok_or(Error::NeedsMap)?;
        let most = contiguous.min(end - offset).min(largest);
        if len > most {
            return Err(split_at(most));
        }
        Ok(address)
    }

    #[allow(clippy::result_large_err)]
    fn submit_write(&mut self, address: u64, buffer: Buffer, tag: u32) -> Result<(), Refused> {
        let lba = address >> self.device.geometry().block_size_log2;
        let fua = false;
        self.submit(Operation::Write { lba, buffer, fua }, tag)
    }

    #[allow(clippy::result_large_err)]
    fn submit(&mut self, operation: Operation, tag: u32) -> Result<(), Refused> {
        let Err(refused) = self.device.submit(Request { tag, operation }) else {
            return Ok(());
        };
        let error = match refused.error {
            block::Error::QueueFull => Error::Busy,
            error => Error::from(error),
        };
        // Only reads and writes come here, and both have a buffer.
        let buffer = refused.request.operation.into_buffer();
        Err(Refused {
            error,
            buffer: buffer.unwrap_or_else(|| Buffer::from_static(&mut [])),
        })
    }

    fn poll(&mut self) -> Option<DataEvent> {
        loop {
            let completion = self.device.poll()?;
            if completion.tag & METADATA != 0 {
                let wrote = completion.tag & 1 != 0;
                self.finished(completion, wrote);
                continue;
            }
            let (kind, index, piece, tag) = unpack(completion.tag);
            self.unflushed |= kind != Kind::Read;
            let open = self.files.get_mut(usize::from(index))?;
            let mut offset = None;
            if kind == Kind::Append {
                if let Some(piece) = open.pieces.get_mut(usize::from(piece)) {
                    offset = Some(piece.start);
                    piece.state = match completion.result {
                        Ok(()) => PieceState::Done,
                        Err(_) => PieceState::Failed,
                    };
                }
                open.fold();
            } else {
                open.others_in_flight = open.others_in_flight.saturating_sub(1);
                // 1 of an overwrite of the last block, 0 of all others.
                open.tail_overwrites = open.tail_overwrites.wrapping_sub(piece);
            }
            return Some(DataEvent {
                file: File {
                    index,
                    generation: open.generation,
                },
                tag,
                offset,
                buffer: completion.buffer,
                result: completion.result.map_err(Error::from),
            });
        }
    }
}

fn append_address(
    open: &mut file::OpenFile,
    offset: u64,
    len: u64,
    largest: u64,
    shape: &Shape,
) -> Result<u64, Error> {
    let found = open.find(Window::Ahead, offset, shape);
    let Some((address, contiguous)) = found else {
        let unit = open.place(offset, shape).0;
        return Err(if unit < open.alloc_units {
            Error::NeedsMap
        } else {
            Error::NeedsReservation
        });
    };
    let most = contiguous.min(largest);
    if len > most {
        return Err(split_at(most));
    }
    Ok(address)
}

/// A split length, in whole blocks, that fits the error's number.
fn split_at(most: u64) -> Error {
    Error::Split {
        at_bytes: most.min(1 << 30) as u32,
    }
}
