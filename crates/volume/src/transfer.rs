// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Moving a file's bytes: one buffer to or from one file, in as many device commands as it takes.
//!
//! A [`Transfer`] lends pieces of its buffer to the device, splits one where the volume returns
//! [`Error::Split`], stops where metadata is missing and reports which ([`Need`]), takes the pieces
//! back, and keeps the failure with the lowest offset. It neither waits nor allocates, so a loop
//! that blocks, a service with many of them and a stream with a ring of them all drive the same
//! engine:
//!
//! ```text
//! loop {
//!     match transfer.go_on(&volume) {
//!         Done => break,
//!         Needs(need) => run volume.provide(file, need), and transfer.fail(error) if it failed,
//!         Submitted | Blocked => {}
//!     }
//!     volume.kick();
//!     hand the events of volume.poll() to transfer.take_back(event)
//! }
//! ```

use block::{Buffer, Device, Lent};

use crate::data::Refused;
use crate::file::File;
use crate::{DataEvent, Error, Volume};

/// What a transfer does with its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Appends to the file, like [`Volume::append`].
    Append,
    /// Reads, like [`Volume::read`].
    Read,
    /// Overwrites data in place, like [`Volume::overwrite`].
    Overwrite,
}

/// Metadata without which a transfer cannot continue; [`Volume::provide`] supplies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Space for this many bytes after the append point.
    Space(u64),
    /// The map ahead of the append point.
    MapAhead,
    /// The map around this offset.
    MapAt(u64),
    /// Room in memory for the checksums of an append.
    ChecksumRoom,
}

impl Need {
    /// What an append of `len_bytes` that failed with `error` needs; None if the error is final.
    pub const fn of_append(error: Error, len_bytes: u64) -> Option<Self> {
        match error {
            Error::NeedsReservation => Some(Need::Space(len_bytes)),
            Error::NeedsMap => Some(Need::MapAhead),
            Error::NeedsCommit => Some(Need::ChecksumRoom),
            _ => None,
        }
    }
}

/// The state of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// Finished: nothing is outstanding and nothing more will be submitted.
    Done,
    /// Nothing more will be submitted; pieces are still outstanding.
    Submitted,
    /// The device or the file has no room for another request: poll, then continue.
    Blocked,
    /// Continue once [`Volume::provide`] has supplied this.
    Needs(Need),
}

/// The transfer of a buffer to or from a file.
#[derive(Debug)]
pub struct Transfer {
    file: File,
    direction: Direction,
    tag: u16,
    offset: u64,
    len_bytes: usize,
    lent: Lent,
    pieces_out: u16,
    failure: Option<(usize, Error)>,
}

impl Transfer {
    /// Appends the first `len_bytes` of `buffer`; the rest of their last block is padding. Events
    /// of its pieces carry `tag`.
    pub const fn append(file: File, buffer: Buffer, len_bytes: usize, tag: u16) -> Self {
        Self::new(file, Direction::Append, 0, buffer, len_bytes, tag)
    }

    /// Reads `len_bytes` from `offset` into `buffer`, which has room for whole blocks.
    pub const fn read(file: File, offset: u64, buffer: Buffer, len_bytes: usize, tag: u16) -> Self {
        Self::new(file, Direction::Read, offset, buffer, len_bytes, tag)
    }

    /// A transfer of `len_bytes`, which `buffer` holds or has room for, in whole blocks of the
    /// device. An append learns its `offset` from its first piece.
    pub const fn new(
        file: File,
        direction: Direction,
        offset: u64,
        buffer: Buffer,
        len_bytes: usize,
        tag: u16,
    ) -> Self {
        Self {
            file,
            direction,
            tag,
            offset,
            len_bytes,
            lent: Lent::new(buffer),
            pieces_out: 0,
            failure: None,
        }
    }

    /// Submits pieces until all are submitted, or one must wait. Start them with [`Volume::kick`].
    pub fn go_on<D: Device>(&mut self, volume: &Volume<'_, D>) -> Progress {
        let mut state = volume.state();
        let geometry = state.device.geometry();
        let (block, largest) = (geometry.block_size_bytes(), geometry.max_transfer_bytes());
        let mut limit = largest;
        // Each iteration submits a piece, makes the next one shorter, or returns.
        loop {
            let at = self.lent.offset_bytes();
            let left = self.len_bytes.saturating_sub(at);
            if left == 0 || self.failure.is_some() {
                return self.submitted();
            }
            let piece = self.lent.lend(left.next_multiple_of(block).min(limit));
            let (tried, data) = (piece.len(), piece.len().min(left));
            let offset = self.offset.saturating_add(at as u64);
            let submitted = match self.direction {
                Direction::Append => state.append(self.file, piece, data, self.tag, false),
                Direction::Read => state.read(self.file, offset, piece, self.tag),
                Direction::Overwrite => state.overwrite(self.file, offset, piece, self.tag),
            };
            let Err(Refused { error, buffer }) = submitted else {
                self.pieces_out += 1;
                limit = largest;
                continue;
            };
            self.lent.unlend(buffer);
            let need = match (error, self.direction) {
                (error, Direction::Append) => Need::of_append(error, left as u64),
                (Error::NeedsMap, _) => Some(Need::MapAt(offset)),
                _ => None,
            };
            if let Some(need) = need {
                return Progress::Needs(need);
            }
            match error {
                Error::Split { at_bytes } if (1..tried).contains(&(at_bytes as usize)) => {
                    limit = at_bytes as usize;
                }
                Error::Busy if state.device.outstanding() > 0 => return Progress::Blocked,
                error => self.fail(error),
            }
        }
    }

    const fn submitted(&self) -> Progress {
        match self.pieces_out {
            0 => Progress::Done,
            _ => Progress::Submitted,
        }
    }

    /// Takes a finished piece back. The event must be one of this transfer's.
    pub fn take_back(&mut self, event: DataEvent) {
        let place = self.give_back(event.buffer);
        if let (Some(0), Some(offset)) = (place, event.offset) {
            self.offset = offset;
        }
        if let Err(error) = event.result {
            self.fail_at(place.unwrap_or(0), error);
        }
    }

    /// Takes a piece back, whatever its result, and returns its offset in the buffer: for a caller
    /// that retries failed pieces.
    pub fn give_back(&mut self, piece: Option<Buffer>) -> Option<usize> {
        self.pieces_out = self.pieces_out.saturating_sub(1);
        // A buffer of another transfer is not accepted; `end` then reports the loss.
        self.lent.give_back(piece?).ok()
    }

    /// Submits nothing more. `error` is the result, unless an earlier byte failed or still fails.
    pub fn fail(&mut self, error: Error) {
        self.fail_at(self.lent.offset_bytes(), error);
    }

    fn fail_at(&mut self, at: usize, error: Error) {
        if self.failure.is_none_or(|(earlier, _)| at < earlier) {
            self.failure = Some((at, error));
        }
    }

    /// The failure with the lowest offset in the buffer, and that offset.
    pub const fn failure(&self) -> Option<(usize, Error)> {
        self.failure
    }

    /// The file.
    pub const fn file(&self) -> File {
        self.file
    }

    /// What it does with the file.
    pub const fn direction(&self) -> Direction {
        self.direction
    }

    /// The tag of its events.
    pub const fn tag(&self) -> u16 {
        self.tag
    }

    /// The buffer's offset in the file; for an append, known once its first piece is back.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes of data.
    pub const fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Bytes that were lent in pieces, from the buffer's first byte on.
    pub const fn submitted_bytes(&self) -> usize {
        self.lent.offset_bytes()
    }

    /// The address of the buffer's first byte.
    pub fn address(&self) -> usize {
        self.lent.address()
    }

    /// Outstanding pieces.
    pub const fn pieces_out(&self) -> u16 {
        self.pieces_out
    }

    /// Whether nothing more will be submitted.
    pub const fn is_submitted(&self) -> bool {
        self.failure.is_some() || self.lent.offset_bytes() >= self.len_bytes
    }

    /// Whether nothing is outstanding and nothing more will be submitted.
    pub const fn is_over(&self) -> bool {
        self.pieces_out == 0 && self.is_submitted()
    }

    /// Takes the buffer of a finished transfer, whose parameters can still be queried afterwards.
    /// `None` while the device has a part of the buffer, or if it has not given one back.
    pub fn take_buffer(&mut self) -> Option<Buffer> {
        let empty = Lent::new(Buffer::from_static(&mut []));
        match core::mem::replace(&mut self.lent, empty).into_whole() {
            Ok(buffer) => Some(buffer),
            Err(lent) => {
                self.lent = lent;
                None
            }
        }
    }

    /// The buffer, and the failure with the lowest offset. `None`, and [`block::Error::Gone`], if
    /// the device has not given all of the buffer back: the missing part may still be written to.
    pub fn end(mut self) -> (Option<Buffer>, Result<(), Error>) {
        let result = self.failure.map_or(Ok(()), |(_, error)| Err(error));
        match self.take_buffer() {
            Some(buffer) => (Some(buffer), result),
            None => (None, Err(Error::from(block::Error::Gone))),
        }
    }
}
