// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A playback's ring: blocks being read, ready, and with the consumer.
//!
//! The ring is strict: `issued >= submitted >= ready >= delivered >= returned`, and block n is in
//! place n modulo the ring's length.

use block::Device;
use volume::{Event, File, Need, Progress, Transfer, Volume};

use crate::place::Place;
use crate::retries::Retries;
use crate::{Error, Pace, PlayReport};

#[derive(Debug)]
pub(crate) struct PlayState<'r> {
    pub places: &'r mut [Place],
    pub issued: u64,
    pub submitted: u64,
    pub ready: u64,
    pub delivered: u64,
    pub returned: u64,
    pub in_flight: u32,
    pub retries: Retries,
    /// The metadata that reads wait for: the map.
    pub need: Option<Need>,
    pub failure: Option<Error>,
    pub stopped: bool,
    pub next_offset: u64,
    pub end_offset: u64,
    pub verify: bool,
    pub pace: Pace,
    /// When the first block was due.
    pub start: Option<u64>,
    /// The block at `delivered` was due before it was ready, which is counted.
    pub is_underrun: bool,
    pub report: PlayReport,
}

impl PlayState<'_> {
    pub(crate) fn place(&mut self, block: u64) -> Option<&mut Place> {
        let index = block % self.places.len().max(1) as u64;
        self.places.get_mut(index as usize)
    }

    pub(crate) fn fail(&mut self, error: Error) {
        self.failure.get_or_insert(error);
        self.stopped = true;
    }

    /// Whether everything was delivered.
    pub(crate) fn is_over(&self) -> bool {
        self.next_offset >= self.end_offset && self.delivered == self.issued
    }

    /// Submits reads for all empty places.
    pub(crate) fn submit<D: Device>(&mut self, volume: &Volume<'_, D>, file: File) {
        let mut any = false;
        while !self.stopped && self.need.is_none() && self.submit_retry(volume, file) {
            any = true;
        }
        while !self.stopped && self.need.is_none() && self.begin_next(file) {
            let submitted = self.submitted;
            let Some(place) = self.place(submitted) else {
                break;
            };
            let (pieces, progress) = place.submit(volume);
            self.in_flight += pieces;
            any |= pieces > 0;
            match progress {
                Ok(Progress::Done | Progress::Submitted) => self.submitted += 1,
                Ok(Progress::Blocked) => break,
                Ok(Progress::Needs(need)) => self.need = Some(need),
                Err(error) => self.fail(error),
            }
        }
        if any {
            volume.kick();
        }
    }

    /// Whether there is a block to submit pieces of; moves on to the next one if needed.
    fn begin_next(&mut self, file: File) -> bool {
        if self.submitted < self.issued {
            return true;
        }
        let has_room = self.issued - self.returned < self.places.len() as u64;
        if !has_room || self.next_offset >= self.end_offset {
            return false;
        }
        let (issued, offset_bytes, end) = (self.issued, self.next_offset, self.end_offset);
        let tag = (issued % self.places.len().max(1) as u64) as u16;
        let Some(place) = self.place(issued) else {
            return false;
        };
        let Some(buffer) = place.buffer.take() else {
            return false;
        };
        let len = (end - offset_bytes).min(buffer.len() as u64);
        place.begin(Transfer::read(
            file,
            offset_bytes,
            buffer,
            len as usize,
            tag,
        ));
        place.offset_bytes = offset_bytes;
        self.issued += 1;
        self.next_offset += len;
        true
    }

    fn submit_retry<D: Device>(&mut self, volume: &Volume<'_, D>, file: File) -> bool {
        let submit = |offset_bytes, buffer, tag| volume.read(file, offset_bytes, buffer, tag);
        let submitted = self.retries.submit(submit);
        match submitted {
            Ok(true) => {
                self.in_flight += 1;
                self.report.retries += 1;
            }
            Ok(false) => {}
            Err((offset_bytes, volume::Error::NeedsMap)) => {
                self.need = Some(Need::MapAt(offset_bytes));
            }
            Err((offset_bytes, error)) => self.fail(Error::Volume {
                offset_bytes,
                error,
            }),
        }
        submitted == Ok(true)
    }

    /// Processes a completed read of the file.
    pub(crate) fn finished(&mut self, event: Event) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let Some(place) = self.places.get_mut(usize::from(event.tag)) else {
            return;
        };
        let block_offset = place.offset_bytes;
        let Some(buffer) = event.buffer else {
            self.fail(Error::Device {
                offset_bytes: block_offset,
                error: block::Error::Gone,
            });
            return;
        };
        let offset_bytes = block_offset + place.offset_of(&buffer);
        let Err(error) = event.result else {
            self.retries.succeeded(offset_bytes);
            place.give_back(buffer);
            place.is_ready = place.is_whole();
            return;
        };
        let again = matches!(error, volume::Error::Device(error) if error.error().is_retryable());
        let buffer = if again && !self.stopped {
            self.retries.failed(offset_bytes, event.tag, buffer)
        } else {
            Some(buffer)
        };
        let Some(buffer) = buffer else { return };
        place.give_back(buffer);
        self.fail(Error::at(offset_bytes, error));
    }

    /// The block after the ready ones, if it has been read.
    pub(crate) fn next_read(&mut self) -> Option<&mut Place> {
        if self.ready >= self.submitted {
            return None;
        }
        let ready = self.ready;
        self.place(ready).filter(|place| place.is_ready)
    }

    /// Marks read blocks as ready, where nothing is to be verified.
    pub(crate) fn accept_read(&mut self) {
        while !self.verify && self.next_read().is_some() {
            self.ready += 1;
        }
    }

    /// Once nothing is in flight: returns each buffer to its place.
    pub(crate) fn reclaim(&mut self) {
        self.retries.reclaim(self.places);
    }
}
