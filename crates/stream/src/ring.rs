// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the rings of a recording and of a playback have in common: the places, what the device has
//! of them, and what is submitted next.

use block::{Buffer, Device};
use volume::{Need, Progress, Refused, Volume};

use crate::Error;
use crate::place::RingPlace;
use crate::retries::Retries;

/// Block n is in place n modulo the ring's length.
#[derive(Debug)]
pub(crate) struct Ring<'r> {
    pub places: &'r mut [RingPlace],
    /// Blocks of which all pieces were submitted.
    pub submitted: u64,
    /// Pieces of the file that the device has.
    pub in_flight: u32,
    pub retries: Retries,
    /// The metadata that the transfers wait for.
    pub need: Option<Need>,
    pub failure: Option<Error>,
    /// Nothing more is submitted.
    pub stopped: bool,
}

impl<'r> Ring<'r> {
    #[inline(always)]
    pub(crate) const fn new(places: &'r mut [RingPlace], retries: u8) -> Self {
        Self {
            places,
            submitted: 0,
            in_flight: 0,
            retries: Retries::new(retries),
            need: None,
            failure: None,
            stopped: false,
        }
    }

    /// The place of block number `block`. The ring is never empty.
    pub(crate) fn place(&mut self, block: u64) -> Option<&mut RingPlace> {
        let index = block % self.places.len().max(1) as u64;
        self.places.get_mut(index as usize)
    }

    /// Ends the stream with an error, once; what was submitted still finishes.
    pub(crate) fn fail(&mut self, error: Error) {
        self.failure.get_or_insert(error);
        self.stopped = true;
    }

    /// The device lost the buffer of a piece.
    pub(crate) fn lost(&mut self, offset_bytes: u64) {
        let error = block::Error::Gone;
        self.fail(Error::Device {
            offset_bytes,
            error,
        });
    }

    pub(crate) const fn may_submit(&self) -> bool {
        !self.stopped && self.need.is_none()
    }

    /// Submits the oldest piece that failed, by `again`. Returns whether there was one.
    pub(crate) fn submit_retry(
        &mut self,
        again: impl FnOnce(u64, Buffer, u16) -> Result<(), Refused>,
    ) -> bool {
        if !self.may_submit() {
            return false;
        }
        match self.retries.submit(again) {
            Ok(is_submitted) => {
                self.in_flight += u32::from(is_submitted);
                return is_submitted;
            }
            Err((offset_bytes, volume::Error::NeedsMap)) => {
                self.need = Some(Need::MapAt(offset_bytes));
            }
            Err((offset_bytes, error)) => self.fail(Error::Volume {
                offset_bytes,
                error,
            }),
        }
        false
    }

    /// Submits pieces of the next block. Returns whether there were any, and whether the block
    /// after it is next.
    pub(crate) fn submit_block<D: Device>(&mut self, volume: &Volume<'_, D>) -> (bool, bool) {
        let submitted = self.submitted;
        let Some(place) = self.place(submitted) else {
            return (false, false);
        };
        let (pieces, progress) = place.submit(volume);
        self.in_flight += pieces;
        let is_whole = matches!(progress, Ok(Progress::Done | Progress::Submitted));
        self.submitted += u64::from(is_whole);
        match progress {
            Ok(Progress::Needs(need)) => self.need = Some(need),
            Ok(_) => {}
            Err(error) => self.fail(error),
        }
        (pieces > 0, is_whole)
    }

    /// Gives the buffer of a failed piece back when the piece is not repeated: the stream ends.
    pub(crate) fn failed(
        &mut self,
        offset_bytes: u64,
        tag: u16,
        buffer: Buffer,
        error: volume::Error,
    ) -> Option<Buffer> {
        let again = matches!(error, volume::Error::Device(error) if error.error().is_retryable());
        let buffer = if again && !self.stopped {
            self.retries.failed(offset_bytes, tag, buffer)?
        } else {
            buffer
        };
        self.fail(Error::at(offset_bytes, error));
        Some(buffer)
    }

    /// Once nothing is in flight: returns each buffer to its place.
    pub(crate) fn reclaim(&mut self) {
        self.retries.reclaim(self.places);
    }
}
