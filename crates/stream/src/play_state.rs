// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A playback's ring: blocks being read, ready, and with the consumer.
//!
//! The ring is strict: `issued >= submitted >= ready >= delivered >= returned`, and block n is in
//! place n modulo the ring's length.

use block::Device;
use volume::{DataEvent, File, Transfer, Volume};

use crate::place::RingPlace;
use crate::ring::Ring;
use crate::{Error, Pace, PlayReport};

#[derive(Debug)]
pub(crate) struct PlayState<'r> {
    pub ring: Ring<'r>,
    pub issued: u64,
    pub ready: u64,
    pub delivered: u64,
    pub returned: u64,
    pub next_offset: u64,
    pub end_offset: u64,
    pub verify: bool,
    /// How many blocks there are before rot, which ends the playback.
    pub sound: Option<u64>,
    pub pace: Pace,
    /// When the first block was due.
    pub start: Option<u64>,
    /// The block at `delivered` was due before it was ready, which is counted.
    pub is_underrun: bool,
    pub report: PlayReport,
}

impl PlayState<'_> {
    /// Whether everything was delivered.
    pub(crate) fn is_over(&self) -> bool {
        match self.sound {
            Some(sound) => self.delivered == sound,
            None => self.next_offset >= self.end_offset && self.delivered == self.issued,
        }
    }

    /// The block after the ready ones has rotted behind its first `len` bytes: what is before is
    /// delivered, and nothing else.
    pub(crate) fn cut(&mut self, len: usize, error: Error) {
        self.ring.failure.get_or_insert(error);
        let ready = self.ready;
        if let Some(place) = self.ring.place(ready).filter(|_| len > 0) {
            place.len_bytes = len;
            self.ready += 1;
            self.report.verified_bytes += len as u64;
        }
        self.sound = Some(self.ready);
    }

    /// Submits reads for all empty places.
    pub(crate) fn submit<D: Device>(&mut self, volume: &Volume<'_, D>, file: File) {
        let mut any = false;
        let again = |offset_bytes, buffer, tag| volume.read(file, offset_bytes, buffer, tag);
        while self.ring.submit_retry(again) {
            self.report.retries += 1;
            any = true;
        }
        while self.ring.may_submit() && self.sound.is_none() && self.begin_next(file) {
            let (is_any, goes_on) = self.ring.submit_block(volume);
            any |= is_any;
            if !goes_on {
                break;
            }
        }
        if any {
            volume.kick();
        }
    }

    /// Whether there is a block to submit pieces of; moves on to the next one if needed.
    fn begin_next(&mut self, file: File) -> bool {
        if self.ring.submitted < self.issued {
            return true;
        }
        let has_room = self.issued - self.returned < self.ring.places.len() as u64;
        if !has_room || self.next_offset >= self.end_offset {
            return false;
        }
        let (issued, offset_bytes, end) = (self.issued, self.next_offset, self.end_offset);
        let tag = (issued % self.ring.places.len().max(1) as u64) as u16;
        let Some(place) = self.ring.place(issued) else {
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

    /// Processes a completed read of the file.
    pub(crate) fn finished(&mut self, event: DataEvent) {
        self.ring.in_flight = self.ring.in_flight.saturating_sub(1);
        let Some(place) = self.ring.places.get_mut(usize::from(event.tag)) else {
            return;
        };
        let block_offset = place.offset_bytes;
        let Some(buffer) = event.buffer else {
            self.ring.lost(block_offset);
            return;
        };
        let offset_bytes = block_offset + place.offset_of(&buffer);
        let Err(error) = event.result else {
            self.ring.retries.succeeded(offset_bytes);
            place.give_back(buffer);
            place.is_ready = place.is_whole();
            return;
        };
        let tag = event.tag;
        if let Some(buffer) = self.ring.failed(offset_bytes, tag, buffer, error) {
            if let Some(place) = self.ring.places.get_mut(usize::from(tag)) {
                place.give_back(buffer);
            }
        }
    }

    /// The block after the ready ones, if it has been read.
    pub(crate) fn next_read(&mut self) -> Option<&mut RingPlace> {
        if self.ready >= self.ring.submitted {
            return None;
        }
        let ready = self.ready;
        self.ring.place(ready).filter(|place| place.is_ready)
    }

    /// Marks read blocks as ready, where nothing is to be verified.
    pub(crate) fn accept_read(&mut self) {
        while !self.verify && self.next_read().is_some() {
            self.ready += 1;
        }
    }
}
