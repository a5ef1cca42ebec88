// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pieces that failed and wait to be submitted again, each at most a bounded number of times.

use block::Buffer;
use volume::{APPENDS_IN_FLIGHT, Refused};

use crate::place::RingPlace;

/// A piece that failed.
#[derive(Debug)]
struct Failed {
    offset_bytes: u64,
    tag: u16,
    attempts: u8,
    /// `None` while it is being retried.
    buffer: Option<Buffer>,
}

/// Failed pieces, never more than the volume allows in flight.
#[derive(Debug)]
pub(crate) struct Retries {
    list: [Option<Failed>; APPENDS_IN_FLIGHT],
    count: usize,
    most: u8,
}

impl Retries {
    pub(crate) const fn new(most: u8) -> Self {
        Self {
            list: [const { None }; APPENDS_IN_FLIGHT],
            count: 0,
            most,
        }
    }

    /// Records a failure. Returns the buffer when the piece has failed too often.
    pub(crate) fn failed(&mut self, offset_bytes: u64, tag: u16, buffer: Buffer) -> Option<Buffer> {
        let known = self.list.iter().position(|piece| {
            piece
                .as_ref()
                .is_some_and(|p| p.offset_bytes == offset_bytes)
        });
        let place = known.or_else(|| self.list.iter().position(Option::is_none));
        let Some(place) = place.and_then(|index| self.list.get_mut(index)) else {
            return Some(buffer);
        };
        let attempts = place.as_ref().map_or(0, |piece| piece.attempts);
        if attempts >= self.most {
            return Some(buffer);
        }
        self.count += usize::from(place.is_none());
        *place = Some(Failed {
            offset_bytes,
            tag,
            attempts: attempts + 1,
            buffer: Some(buffer),
        });
        None
    }

    /// Records a success.
    pub(crate) fn succeeded(&mut self, offset_bytes: u64) {
        if self.count == 0 {
            return;
        }
        for place in &mut self.list {
            if place
                .as_ref()
                .is_some_and(|piece| piece.offset_bytes == offset_bytes)
            {
                *place = None;
                self.count -= 1;
            }
        }
    }

    /// Submits the first waiting piece by calling `submit` with its offset, buffer and tag. Returns
    /// whether one was submitted; an error comes with the piece's offset.
    pub(crate) fn submit(
        &mut self,
        submit: impl FnOnce(u64, Buffer, u16) -> Result<(), Refused>,
    ) -> Result<bool, (u64, volume::Error)> {
        let Some(piece) = self.waiting() else {
            return Ok(false);
        };
        let Some(buffer) = piece.buffer.take() else {
            return Ok(false);
        };
        match submit(piece.offset_bytes, buffer, piece.tag) {
            Ok(()) => Ok(true),
            Err(Refused { error, buffer }) => {
                piece.buffer = Some(buffer);
                match error {
                    // Until something completes.
                    volume::Error::Busy => Ok(false),
                    error => Err((piece.offset_bytes, error)),
                }
            }
        }
    }

    /// Once nothing is in flight: returns each buffer to its place.
    pub(crate) fn reclaim(&mut self, places: &mut [RingPlace]) {
        while let Some(piece) = self.waiting() {
            let (tag, offset_bytes, buffer) = (piece.tag, piece.offset_bytes, piece.buffer.take());
            let place = places.get_mut(usize::from(tag));
            if let (Some(place), Some(buffer)) = (place, buffer) {
                place.give_back(buffer);
            }
            self.succeeded(offset_bytes);
        }
        for place in places {
            place.reclaim();
        }
    }

    /// Whether a piece is waiting.
    pub(crate) fn is_waiting(&mut self) -> bool {
        self.waiting().is_some()
    }

    /// The first waiting piece.
    fn waiting(&mut self) -> Option<&mut Failed> {
        if self.count == 0 {
            return None;
        }
        let mut pieces = self.list.iter_mut().flatten();
        pieces.find(|piece| piece.buffer.is_some())
    }
}
