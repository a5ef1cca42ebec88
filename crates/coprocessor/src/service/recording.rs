// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A client's recording: its blocks are passed to [`stream::Recorder`] in place, and answered when
//! their places are empty again.
//!
//! The producer numbers its blocks from 0. A skipped number is a block that the client had no place
//! for: it is lost, and the recording's policy determines the consequence.

use core::array;
use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::Poll;

use block::{Clock, Device};
use stream::{Error, GapFile, Pace, RecordOptions, Recorder, RingPlace};

use super::files::Files;
use super::slots::{BlockCommand, Start};
use crate::layout::STREAM_PLACES;
use crate::order::encode_record;
use crate::status::{Code, CompletionStatus, StreamEnd};

/// Most blocks that can be lost in a row; a higher number is an error.
const LOST_MOST: u64 = 1 << 32;

/// A block that was handed in.
#[derive(Clone, Copy, Debug, Default)]
struct Handed {
    id: u16,
    /// Its deadline.
    due: u64,
}

/// The state of the client's producer.
struct Producer {
    pace: Pace,
    /// The number of the next block, and when number 0 arrived.
    next: u64,
    start: Option<u64>,
    /// Unanswered blocks; block n is in place n modulo their number.
    handed: [Handed; STREAM_PLACES],
    handed_count: u64,
    answered: u64,
    has_finished: bool,
}

impl<D: Device, C: Clock> Files<'_, '_, '_, D, C> {
    /// A recording from its beginning until its end was reported to the client.
    pub(super) async fn record(&self, index: usize, start: &Start) {
        let order = &start.order;
        let mut places: [RingPlace; STREAM_PLACES] = array::from_fn(|place| {
            let buffer = self.place_buffer(start, place as u64);
            buffer.map_or_else(RingPlace::default, RingPlace::new)
        });
        let (ring, _) = places.split_at_mut(order.places as usize % (STREAM_PLACES + 1));
        let gaps = start.gap_file.zip(self.gap_buffer(start));
        let options = RecordOptions {
            deadline_us: order.deadline_us,
            commit_bytes: order.commit_bytes,
            commit_us: order.commit_us,
            low_water_bytes: order.low_water_bytes,
            reserve_bytes: order.reserve_bytes,
            total_bytes: Some(order.total_bytes).filter(|bytes| *bytes != 0),
            retries: order.retries as u8,
            waits_for_space: false,
        };
        let gaps = gaps.map(|(file, buffer)| GapFile {
            file,
            buffer,
            filled_bytes: 0,
        });
        let clock = self.clock();
        let made = Recorder::new(self.volume, start.file, clock, ring, gaps, &options);
        let recorder = match made {
            Ok(recorder) => recorder,
            Err(error) => return self.begun(start, Err(StreamEnd::from(Err(error)).status)),
        };
        self.begun(start, Ok(recorder.durable_bytes()));
        let block = order.block_bytes as usize;
        let mut producer = Producer {
            pace: Pace::new(clock.ticks_per_second(), order.bytes_per_second, block),
            next: 0,
            start: None,
            handed: [Handed::default(); STREAM_PLACES],
            handed_count: 0,
            answered: 0,
            has_finished: false,
        };
        let result = {
            let mut upkeep = pin!(recorder.upkeep());
            poll_fn(|_| self.record_on(index, start, &recorder, &mut producer, upkeep.as_mut()))
                .await
        };
        let end = StreamEnd::from(result);
        self.answer_written(start, &recorder, &mut producer, producer_end(&end));
        let durable = recorder.durable_bytes();
        self.conclude(index, start, end, durable, |table| {
            encode_record(&end, recorder.report(), table);
        })
        .await;
    }

    fn record_on<F: Future<Output = Result<(), Error>>>(
        &self,
        index: usize,
        start: &Start,
        recorder: &Recorder<'_, '_, D, &C>,
        producer: &mut Producer,
        upkeep: Pin<&mut F>,
    ) -> Poll<Result<(), Error>> {
        if let Some(event) = self.take_stream_event(index) {
            let _ = recorder.accept(event);
        }
        while let Some(block) = self.next_block(index) {
            if let Err(status) = self.hand_in(start, recorder, producer, &block) {
                self.tell(start, block.id, status, 0, false);
            }
        }
        if !producer.has_finished {
            if let Some(end) = self.end_of(index) {
                // Blocks of the producer after the last one are lost too.
                if end.count > producer.next {
                    let number = end.count.min(producer.next.saturating_add(LOST_MOST));
                    let _ = self.lose(start, recorder, producer, number);
                }
                producer.has_finished = true;
            }
            producer.has_finished |= self.is_orphan(start);
            if producer.has_finished {
                recorder.finish();
            }
        }
        let result = recorder.advance(upkeep);
        self.answer_written(start, recorder, producer, None);
        result
    }

    /// Hands in a block, or returns why not.
    fn hand_in(
        &self,
        start: &Start,
        recorder: &Recorder<'_, '_, D, &C>,
        producer: &mut Producer,
        block: &BlockCommand,
    ) -> Result<(), CompletionStatus> {
        let len = block.len_bytes;
        let ahead = block.number.checked_sub(producer.next);
        let is_good = len > 0 && len <= start.order.block_bytes;
        if !is_good || ahead.is_none_or(|lost| lost > LOST_MOST) {
            return Err(Code::BadField.into());
        }
        let Some(buffer) = recorder.take() else {
            // It may be handed in again, unless the recording accepts no more.
            return Err(if recorder.has_ended() {
                Code::StreamEnded.into()
            } else {
                block::Error::Busy.into()
            });
        };
        let (_, seen) = self.times(block.seen_at);
        producer.start.get_or_insert_with(|| {
            let mut before = producer.pace;
            before.skip(block.number);
            seen.saturating_sub(before.passed())
        });
        if let Err(error) = self.lose(start, recorder, producer, block.number) {
            let _ = recorder.give_back(buffer);
            return Err(StreamEnd::from(Err(error)).status);
        }
        let arrival = producer.arrival(seen);
        if let Err((error, buffer)) = recorder.hand_in(buffer, len as usize, arrival) {
            let _ = recorder.give_back(buffer);
            return Err(StreamEnd::from(Err(error)).status);
        }
        producer.step(1);
        let deadline = self.clock().ticks_from_us(start.order.deadline_us);
        let place = (producer.handed_count % STREAM_PLACES as u64) as usize;
        if let Some(place) = producer.handed.get_mut(place) {
            *place = Handed {
                id: block.id,
                due: arrival.saturating_add(deadline),
            };
        }
        producer.handed_count += 1;
        Ok(())
    }

    /// Counts the blocks before `number` that never arrived.
    fn lose(
        &self,
        start: &Start,
        recorder: &Recorder<'_, '_, D, &C>,
        producer: &mut Producer,
        number: u64,
    ) -> Result<(), Error> {
        let lost = number - producer.next;
        if lost == 0 {
            return Ok(());
        }
        let bytes = lost.saturating_mul(u64::from(start.order.block_bytes));
        let arrival = producer.arrival(self.clock().ticks());
        producer.step(lost);
        recorder.overrun_by(lost, bytes, arrival)
    }

    /// Answers blocks whose places are empty again; with a status, all remaining ones.
    fn answer_written(
        &self,
        start: &Start,
        recorder: &Recorder<'_, '_, D, &C>,
        producer: &mut Producer,
        rest: Option<CompletionStatus>,
    ) {
        let written = recorder.written_blocks();
        while producer.answered < producer.handed_count {
            let status = match (producer.answered < written, rest) {
                (true, _) => CompletionStatus {
                    code: 0,
                    detail: u32::try_from(recorder.misses()).unwrap_or(u32::MAX),
                },
                (false, Some(status)) => status,
                (false, None) => break,
            };
            let place = (producer.answered % STREAM_PLACES as u64) as usize;
            let handed = producer.handed.get(place).copied().unwrap_or_default();
            producer.answered += 1;
            let late = self.clock().ticks() > handed.due;
            let durable = recorder.durable_bytes();
            self.tell(start, handed.id, status, durable, late);
        }
    }
}

/// The status of blocks that were never written.
fn producer_end(end: &StreamEnd) -> Option<CompletionStatus> {
    Some(match end.status {
        CompletionStatus::OK => Code::StreamEnded.into(),
        status => status,
    })
}

impl Producer {
    /// The time at which the next block arrives or has arrived.
    fn arrival(&self, seen: u64) -> u64 {
        match (self.pace.is_paced(), self.start) {
            (true, Some(start)) => start.saturating_add(self.pace.passed()),
            _ => seen,
        }
    }

    fn step(&mut self, blocks: u64) {
        self.next = self.next.saturating_add(blocks);
        match blocks {
            1 => self.pace.advance(),
            _ => self.pace.skip(blocks),
        }
    }
}
