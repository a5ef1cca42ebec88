// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A client's playback: [`stream::Player`] reads ahead into the ring in the client's data, and each
//! block is delivered when it is due.

use core::array;
use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::Poll;

use block::{Clock, Device};
use stream::{Error, PlayOptions, Player, RingPlace};

use super::files::Files;
use super::slots::{BlockCommand, Start};
use crate::layout::STREAM_PLACES;
use crate::order::{ORDER_VERIFY, encode_play};
use crate::status::{Code, CompletionStatus, StreamEnd};

/// The state of the client's consumer.
struct Consumer {
    /// Commands that wait for a block, oldest first.
    waiting: [u16; STREAM_PLACES],
    waiting_count: usize,
    delivered: u64,
    returned: u64,
}

impl<D: Device, C: Clock> Files<'_, '_, '_, D, C> {
    /// A playback from its beginning until its end was reported to the client.
    pub(super) async fn play(&self, index: usize, start: &Start) {
        let order = &start.order;
        let mut places: [RingPlace; STREAM_PLACES] = array::from_fn(|place| {
            let buffer = self.place_buffer(start, place as u64);
            buffer.map_or_else(RingPlace::default, RingPlace::new)
        });
        let (ring, _) = places.split_at_mut(order.places as usize % (STREAM_PLACES + 1));
        let options = PlayOptions {
            bytes_per_second: order.bytes_per_second,
            deadline_us: order.deadline_us,
            verify: order.flags & ORDER_VERIFY != 0,
            retries: order.retries as u8,
        };
        let size = self.volume.file_status(start.file);
        let size = size.map_or(0, |status| status.committed_bytes);
        let made = Player::new(self.volume, start.file, self.clock(), ring, &options);
        let player = match made {
            Ok(player) => player,
            Err(error) => return self.begun(start, Err(StreamEnd::from(Err(error)).status)),
        };
        self.begun(start, Ok(size));
        let mut consumer = Consumer {
            waiting: [0; STREAM_PLACES],
            waiting_count: 0,
            delivered: 0,
            returned: 0,
        };
        let result = {
            let mut upkeep = pin!(player.upkeep());
            poll_fn(|_| self.play_on(index, start, &player, &mut consumer, upkeep.as_mut())).await
        };
        let end = StreamEnd::from(result);
        let status = match end.status {
            CompletionStatus::OK => Code::StreamEnded.into(),
            status => status,
        };
        while let Some(id) = consumer.next_waiting() {
            self.tell(start, id, status, 0, false);
        }
        self.conclude(index, start, end, consumer.delivered, |table| {
            encode_play(&end, player.report(), table);
        })
        .await;
    }

    fn play_on<F: Future<Output = Result<(), Error>>>(
        &self,
        index: usize,
        start: &Start,
        player: &Player<'_, '_, D, &C>,
        consumer: &mut Consumer,
        upkeep: Pin<&mut F>,
    ) -> Poll<Result<(), Error>> {
        if let Some(event) = self.take_stream_event(index) {
            let _ = player.accept(event);
        }
        while let Some(block) = self.next_block(index) {
            if let Err(status) = self.ask(start, player, consumer, &block) {
                self.tell(start, block.id, status, 0, false);
            }
        }
        if self.end_of(index).is_some() || self.is_orphan(start) {
            player.stop();
        }
        let result = player.advance(upkeep);
        while consumer.waiting_count > 0 {
            let Some(played) = player.next() else { break };
            let now = self.clock().ticks();
            let deadline = self.clock().ticks_from_us(start.order.deadline_us);
            let late =
                start.order.bytes_per_second != 0 && now.saturating_sub(played.due) > deadline;
            let status = CompletionStatus {
                code: 0,
                detail: played.len_bytes as u32,
            };
            consumer.delivered += 1;
            if let Some(id) = consumer.next_waiting() {
                self.tell(start, id, status, played.offset_bytes, late);
            }
        }
        result
    }

    /// Takes back blocks that the client has finished with, and records that it waits for a block.
    fn ask(
        &self,
        start: &Start,
        player: &Player<'_, '_, D, &C>,
        consumer: &mut Consumer,
        block: &BlockCommand,
    ) -> Result<(), CompletionStatus> {
        if !(consumer.returned..=consumer.delivered).contains(&block.number) {
            return Err(Code::NotTaken.into());
        }
        let place = consumer.waiting.get_mut(consumer.waiting_count);
        *place.ok_or(block::Error::Busy)? = block.id;
        consumer.waiting_count += 1;
        // At most as many iterations as there are places.
        while consumer.returned < block.number {
            if let Some(buffer) = self.place_buffer(start, consumer.returned) {
                let _ = player.give_back(buffer);
            }
            consumer.returned += 1;
        }
        Ok(())
    }
}

impl Consumer {
    fn next_waiting(&mut self) -> Option<u16> {
        if self.waiting_count == 0 {
            return None;
        }
        let [first, ..] = self.waiting;
        self.waiting.rotate_left(1);
        self.waiting_count -= 1;
        Some(first)
    }
}
