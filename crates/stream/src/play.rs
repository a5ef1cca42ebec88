// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Playing: from a file to a consumer that wants each block at its time.

use core::cell::{RefCell, RefMut};
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use block::{Buffer, Clock, Device};
use volume::layout::CHUNK_BYTES;
use volume::{DataEvent, File, Need, Volume};

use crate::pace::us_from_ticks;
use crate::place::{self, RingPlace};
use crate::play_state::PlayState;
use crate::ring::Ring;
use crate::{Error, Pace, PlayReport};

/// How to play.
#[derive(Clone, Copy, Debug)]
pub struct PlayOptions {
    /// Bytes a second; 0 for as fast as the consumer takes them.
    pub bytes_per_second: u64,
    /// How long after it is due a block must be delivered.
    pub deadline_us: u64,
    /// Compare checksums, where the file has them.
    pub verify: bool,
    /// How often a failed read is repeated.
    pub retries: u8,
}

impl Default for PlayOptions {
    /// As fast as the consumer takes blocks, a deadline of 100 ms, checksums compared.
    fn default() -> Self {
        Self {
            bytes_per_second: 0,
            deadline_us: 100_000,
            verify: true,
            retries: 3,
        }
    }
}

/// A block for the consumer, to be given back with [`Player::give_back`].
#[derive(Debug)]
pub struct Played {
    /// The block; what lies past `len_bytes` is padding.
    pub buffer: Buffer,
    /// Its length.
    pub len_bytes: usize,
    /// Where in the file it is.
    pub offset_bytes: u64,
    /// When it was due, on the player's clock.
    pub due: u64,
}

/// A playback. [`step`](Player::step) reads ahead; [`next`](Player::next) delivers.
#[derive(Debug)]
pub struct Player<'r, 'v, D, C> {
    volume: &'r Volume<'v, D>,
    file: File,
    clock: C,
    deadline_ticks: u64,
    state: RefCell<PlayState<'r>>,
}

impl<'r, 'v, D: Device, C: Clock> Player<'r, 'v, D, C> {
    /// Prepares to play `file` from its beginning to its end as committed now.
    ///
    /// # Errors
    /// [`Error::BadRing`]: `places` is empty, a buffer is missing, not a whole number of blocks, or
    /// of another length than the others; or checksums are to be compared and it is not a whole
    /// number of 64 KiB. [`Error::Volume`]: the file is not open.
    pub fn new(
        volume: &'r Volume<'v, D>,
        file: File,
        clock: C,
        places: &'r mut [RingPlace],
        options: &PlayOptions,
    ) -> Result<Self, Error> {
        let closed = |error| Error::Volume {
            offset_bytes: 0,
            error,
        };
        let geometry = volume.geometry();
        let status = volume.file_status(file).map_err(closed)?;
        let device_block = geometry.block_size_bytes();
        let verify = options.verify && status.checksums;
        let unit = if verify {
            device_block.max(CHUNK_BYTES as usize)
        } else {
            device_block
        };
        let mut lengths = places
            .iter()
            .map(|place| place.buffer.as_ref().map(|b| b.len()));
        let block_bytes = lengths.next().flatten().unwrap_or(0);
        let are_alike = lengths.all(|len| len == Some(block_bytes));
        if !are_alike || !place::are_good(places, unit) {
            return Err(Error::BadRing);
        }
        let tps = clock.ticks_per_second();
        let state = PlayState {
            issued: 0,
            ready: 0,
            delivered: 0,
            returned: 0,
            next_offset: 0,
            end_offset: status.committed_bytes,
            verify,
            sound: None,
            pace: Pace::new(tps, options.bytes_per_second, block_bytes),
            start: None,
            is_underrun: false,
            report: PlayReport {
                ring_blocks: places.len() as u64,
                ..PlayReport::default()
            },
            ring: Ring::new(places, options.retries),
        };
        Ok(Self {
            volume,
            file,
            deadline_ticks: clock.ticks_from_us(options.deadline_us),
            clock,
            state: RefCell::new(state),
        })
    }

    /// As in [`Recorder`](crate::Recorder): only ever borrowed briefly.
    fn state(&self) -> RefMut<'_, PlayState<'r>> {
        self.state.borrow_mut()
    }

    /// The next block, if it is due and has been read. Time begins when the ring is full for the
    /// first time, or holds the whole file.
    pub fn next(&self) -> Option<Played> {
        let now = self.clock.ticks();
        let tps = self.clock.ticks_per_second();
        let mut state = self.state();
        if state.ring.stopped || state.is_over() {
            return None;
        }
        if state.start.is_none() {
            let is_full = state.issued - state.returned == state.ring.places.len() as u64;
            let all = state.next_offset >= state.end_offset;
            if state.sound.is_none() && (state.ready < state.issued || !(is_full || all)) {
                return None;
            }
            state.start = Some(now);
        }
        let due = state.start?.saturating_add(state.pace.passed());
        if now < due {
            return None;
        }
        if state.delivered == state.ready {
            // Without a rate nothing is ever late.
            if !state.is_underrun && state.pace.is_paced() {
                state.is_underrun = true;
                state.report.underruns += 1;
            }
            return None;
        }
        let delivered = state.delivered;
        let place = state.ring.place(delivered)?;
        let buffer = place.buffer.take()?;
        let (len_bytes, offset_bytes) = (place.len_bytes, place.offset_bytes);
        state.delivered += 1;
        state.is_underrun = false;
        let further = state.ready - state.delivered;
        let more_to_come = state.next_offset < state.end_offset;
        let is_paced = state.pace.is_paced();
        state.pace.advance();
        let report = &mut state.report;
        report.blocks += 1;
        report.bytes += len_bytes as u64;
        if more_to_come {
            let least = report.ready_min_blocks.unwrap_or(u64::MAX);
            report.ready_min_blocks = Some(least.min(further));
        }
        if is_paced {
            let latency = now - due;
            let latency_us = us_from_ticks(latency, tps);
            report.latencies.add(latency_us);
            report.latency_max_us = report.latency_max_us.max(latency_us);
            if latency > self.deadline_ticks {
                let late = us_from_ticks(latency - self.deadline_ticks, tps);
                report.misses += 1;
                report.lateness_max_us = report.lateness_max_us.max(late);
            }
        }
        Some(Played {
            buffer,
            len_bytes,
            offset_bytes,
            due,
        })
    }

    /// When the next block is due; None before time has begun, and at the end.
    pub fn next_due(&self) -> Option<u64> {
        let state = self.state();
        if state.is_over() {
            return None;
        }
        Some(state.start?.saturating_add(state.pace.passed()))
    }

    /// Takes back the buffer of the oldest delivered block, to be filled again.
    ///
    /// # Errors
    /// [`Error::NotTaken`], with the buffer.
    pub fn give_back(&self, buffer: Buffer) -> Result<(), (Error, Buffer)> {
        let mut state = self.state();
        if state.returned == state.delivered {
            return Err((Error::NotTaken, buffer));
        }
        let returned = state.returned;
        match state.ring.place(returned) {
            Some(place) => place.buffer = Some(buffer),
            None => return Err((Error::NotTaken, buffer)),
        }
        state.returned += 1;
        Ok(())
    }

    /// Ends the playback early.
    pub fn stop(&self) {
        self.state().ring.stopped = true;
    }

    /// Makes progress: processes completed reads, reads ahead, and polls `upkeep`. Bounded work, no
    /// waiting. `others` gets the events of other files of the volume.
    ///
    /// Ready when the playback has ended: everything was delivered, it was stopped, or it failed.
    /// Nothing is in flight then. Must not be called again after that.
    pub fn step<F: Future<Output = Result<(), Error>>>(
        &self,
        upkeep: Pin<&mut F>,
        others: &mut dyn FnMut(DataEvent),
    ) -> Poll<Result<(), Error>> {
        while let Some(event) = self.volume.poll() {
            if let Some(event) = self.accept(event) {
                others(event);
            }
        }
        self.advance(upkeep)
    }

    /// [`step`](Player::step) for a caller that polls the volume itself and gives each event to
    /// [`accept`](Player::accept), because several streams share the volume.
    pub fn advance<F: Future<Output = Result<(), Error>>>(
        &self,
        upkeep: Pin<&mut F>,
    ) -> Poll<Result<(), Error>> {
        {
            let mut state = self.state();
            state.accept_read();
            state.submit(self.volume, self.file);
        }
        upkeep.poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Processes an event of this playback, where several streams share a volume; returns other
    /// events.
    pub fn accept(&self, event: DataEvent) -> Option<DataEvent> {
        if event.file != self.file {
            return Some(event);
        }
        self.state().finished(event);
        None
    }

    /// The playback's metadata work: looks up the map, compares checksums. Pin it once and pass it
    /// to each [`step`](Player::step).
    ///
    /// # Errors
    /// The error that ended the playback.
    pub async fn upkeep(&self) -> Result<(), Error> {
        loop {
            let need = self.state().ring.need;
            if let Some(need) = need {
                let provided = self.volume.provide(self.file, need).await;
                let mut state = self.state();
                state.ring.need = None;
                if let Err(error) = provided {
                    let offset_bytes = match need {
                        Need::MapAt(offset_bytes) => offset_bytes,
                        _ => 0,
                    };
                    state.ring.fail(Error::Volume {
                        offset_bytes,
                        error,
                    });
                }
                continue;
            }
            if self.verify_next().await {
                continue;
            }
            let is_over = poll_fn(|_| {
                let mut state = self.state();
                let is_over = state.ring.stopped || state.is_over();
                if is_over && state.ring.in_flight == 0 {
                    return Poll::Ready(true);
                }
                let to_verify =
                    state.verify && state.sound.is_none() && state.next_read().is_some();
                if !is_over && (state.ring.need.is_some() || to_verify) {
                    return Poll::Ready(false);
                }
                Poll::Pending
            })
            .await;
            if is_over {
                let mut state = self.state();
                state.ring.reclaim();
                return state.ring.failure.map_or(Ok(()), Err);
            }
        }
    }

    /// Compares the next block's checksums, if it was read.
    async fn verify_next(&self) -> bool {
        let (buffer, offset_bytes, len) = {
            let mut state = self.state();
            if !state.verify || state.ring.stopped || state.sound.is_some() {
                return false;
            }
            let Some(place) = state.next_read() else {
                return false;
            };
            let Some(buffer) = place.buffer.take() else {
                return false;
            };
            (buffer, place.offset_bytes, place.len_bytes)
        };
        let data = buffer.get(..len).unwrap_or_default();
        let verified = self.volume.verify(self.file, offset_bytes, data).await;
        let mut state = self.state();
        let ready = state.ready;
        if let Some(place) = state.ring.place(ready) {
            place.buffer = Some(buffer);
        }
        match verified {
            Ok(()) => {
                state.ready += 1;
                state.report.verified_bytes += len as u64;
            }
            Err(error @ volume::Error::Rot { chunk }) => {
                let rotten = u64::from(chunk) * volume::layout::CHUNK_BYTES;
                let failure = Error::Volume {
                    offset_bytes: rotten,
                    error,
                };
                state.cut(rotten.saturating_sub(offset_bytes) as usize, failure);
            }
            Err(error) => state.ring.fail(Error::Volume {
                offset_bytes,
                error,
            }),
        }
        true
    }

    /// The counters so far.
    pub fn report(&self) -> PlayReport {
        self.state().report
    }
}
