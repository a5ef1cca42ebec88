// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A place in a ring: one block, from the moment its buffer is filled until it is empty again.

use block::{Buffer, Device};
use volume::{Progress, Transfer, Volume};

use crate::Error;

/// A slot of a stream's ring; the caller supplies its buffer. The buffer holds one block of the
/// stream: a whole number of device blocks, in memory that the device can reach.
#[derive(Debug, Default)]
pub struct RingPlace {
    /// Present while the place is empty, or holds a block that was read.
    pub(crate) buffer: Option<Buffer>,
    /// Present while the block is being transferred.
    transfer: Option<Transfer>,
    /// Bytes of data.
    pub(crate) len_bytes: usize,
    /// The block's offset in the file.
    pub(crate) offset_bytes: u64,
    /// When it was to arrive, or when it is due, in ticks.
    pub(crate) time: u64,
    /// Gap lines that must be durable before it is committed.
    pub(crate) gaps_before: u64,
    /// Read, and its checksums compared where required.
    pub(crate) is_ready: bool,
}

impl RingPlace {
    /// A place with its buffer.
    pub const fn new(buffer: Buffer) -> Self {
        let mut place = Self::vacant();
        place.buffer = Some(buffer);
        place
    }

    /// A place without a buffer, in a ring that takes over another one's buffers.
    pub const fn vacant() -> Self {
        Self {
            buffer: None,
            transfer: None,
            len_bytes: 0,
            offset_bytes: 0,
            time: 0,
            gaps_before: 0,
            is_ready: false,
        }
    }

    /// The buffer, when the stream has ended. `None` if the producer or consumer still has it, or
    /// the device never gave it back.
    pub fn into_buffer(self) -> Option<Buffer> {
        self.buffer
    }

    /// Prepares the block's transfer.
    pub(crate) fn begin(&mut self, transfer: Transfer) {
        self.len_bytes = transfer.len_bytes();
        self.transfer = Some(transfer);
        self.is_ready = false;
    }

    /// Submits pieces of the block. Returns how many, and how far it got or the error that stopped
    /// it.
    pub(crate) fn submit<D: Device>(
        &mut self,
        volume: &Volume<'_, D>,
    ) -> (u32, Result<Progress, Error>) {
        let Some(transfer) = &mut self.transfer else {
            return (0, Ok(Progress::Done));
        };
        let before = transfer.pieces_out();
        let progress = transfer.go_on(volume);
        let pieces = transfer.pieces_out() - before;
        let result = match transfer.failure() {
            None => Ok(progress),
            Some((at, error)) => Err(Error::Volume {
                offset_bytes: self.offset_bytes + at as u64,
                error,
            }),
        };
        (u32::from(pieces), result)
    }

    /// Takes back a piece from the device or from the list of failed ones.
    pub(crate) fn give_back(&mut self, piece: Buffer) {
        if let Some(transfer) = &mut self.transfer {
            transfer.give_back(Some(piece));
        }
    }

    /// The offset of a piece in the block.
    pub(crate) fn offset_of(&self, piece: &Buffer) -> u64 {
        let first = self.transfer.as_ref().map_or(0, Transfer::address);
        piece.address().wrapping_sub(first) as u64
    }

    /// Whether the whole block was moved; its buffer is then in `buffer`.
    pub(crate) fn is_whole(&mut self) -> bool {
        if self.transfer.as_ref().is_some_and(Transfer::is_over) {
            self.reclaim();
            return self.buffer.is_some();
        }
        false
    }

    /// Ends the transfer, once no piece is outstanding. If a part of its buffer is missing the
    /// place stays empty.
    pub(crate) fn reclaim(&mut self) {
        if let Some(transfer) = self.transfer.take() {
            self.buffer = transfer.end().0;
        }
    }
}

/// Whether each place has a buffer that is a multiple of `unit_bytes`.
pub(crate) fn are_good(places: &[RingPlace], unit_bytes: usize) -> bool {
    let good = |place: &RingPlace| {
        let buffer = place.buffer.as_ref();
        buffer.is_some_and(|buffer| !buffer.is_empty() && buffer.len() % unit_bytes == 0)
    };
    (1..=1 << 16).contains(&places.len()) && places.iter().all(good)
}

/// Whether no place has a buffer, or ever will without being given one.
pub(crate) fn are_vacant(places: &[RingPlace]) -> bool {
    let vacant = |place: &RingPlace| place.buffer.is_none() && place.transfer.is_none();
    (1..=1 << 16).contains(&places.len()) && places.iter().all(vacant)
}
