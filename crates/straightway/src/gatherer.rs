// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages gathered into blocks.
//!
//! The program adds messages, from its thread; a thread of the library hands in what has waited
//! long enough, so that a slow stream becomes durable too: whole units, behind which the block's
//! rest goes on in another buffer. Both hold the same lock.

use super::Error;
use block::Buffer;
use recorder::producer::{Loss, Message, UNIT_BYTES};
use recorder::record::Policy;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

/// Why nothing more can be added.
pub enum Refused {
    /// The message cannot be recorded; others can.
    Message(Error),
    /// The recording has ended.
    Ended,
}

/// The block that is being filled.
struct Filling {
    buffer: Buffer,
    bytes: usize,
    /// Its length when it is full.
    most_bytes: usize,
    /// When its first byte arrived, and the first one of its last unit.
    arrival: u64,
    unit_arrival: u64,
    /// Since when it waits, in ticks.
    since: u64,
    losses: Vec<Loss>,
}

/// Gathers the messages of a program.
pub struct Gatherer {
    block_bytes: usize,
    buffers: usize,
    policy: Policy,
    idle: Receiver<Buffer>,
    out: Sender<Message>,
    filling: Option<Filling>,
    /// Empty buffers that a message found too few of.
    spare: VecDeque<Buffer>,
    lost_messages: u64,
}

impl Gatherer {
    /// `buffers` of `block_bytes` come from `idle` and go to `out`.
    pub const fn new(
        block_bytes: usize,
        buffers: usize,
        policy: Policy,
        idle: Receiver<Buffer>,
        out: Sender<Message>,
    ) -> Self {
        Self {
            block_bytes,
            buffers,
            policy,
            idle,
            out,
            filling: None,
            spare: VecDeque::new(),
            lost_messages: 0,
        }
    }

    /// Buffers that a message of `len` needs besides the one that is being filled.
    fn needed(&self, len: usize) -> usize {
        let room = match &self.filling {
            Some(filling) => filling.most_bytes - filling.bytes,
            None => 0,
        };
        len.saturating_sub(room).div_ceil(self.block_bytes)
    }

    /// Whether a message of `len` may need memory that it has to ask for.
    pub fn asks_for_memory(&self, len: usize) -> bool {
        self.needed(len) > 0
    }

    /// Adds a message that arrived at `arrival`, all of it or nothing; whether there was memory for
    /// it.
    ///
    /// # Errors
    /// It is longer than all memory, or the recording has ended.
    pub fn append(&mut self, mut data: &[u8], arrival: u64, now: u64) -> Result<bool, Refused> {
        if self.policy == Policy::Stop && self.lost_messages > 0 {
            return Err(Refused::Ended);
        }
        let needed = self.needed(data.len());
        if needed >= self.buffers {
            let most_bytes = (self.buffers - 1) * self.block_bytes;
            return Err(Refused::Message(
                Error::usage(format!(
                    "a message of {} bytes is longer than the memory for it",
                    data.len()
                ))
                .hint(format!("at most {most_bytes} bytes, or more buffers")),
            ));
        }
        while self.spare.len() < needed {
            let found = match self.policy {
                Policy::Wait => self.idle.recv().map_err(|_| TryRecvError::Disconnected),
                Policy::Stop | Policy::Drop => self.idle.try_recv(),
            };
            match found {
                Ok(buffer) => self.spare.push_back(buffer),
                Err(TryRecvError::Empty) => {
                    self.lose(data.len(), arrival);
                    return Ok(false);
                }
                Err(TryRecvError::Disconnected) => return Err(Refused::Ended),
            }
        }
        while !data.is_empty() {
            let taken = self.filling.take();
            let begun = taken.or_else(|| self.begin(arrival, now));
            let mut filling = begun.ok_or(Refused::Ended)?;
            let part = data.len().min(filling.most_bytes - filling.bytes);
            filling.add(&data[..part], arrival, now);
            data = &data[part..];
            let is_full = filling.bytes == filling.most_bytes;
            self.filling = Some(filling);
            if is_full && !self.hand_in() {
                return Err(Refused::Ended);
            }
        }
        Ok(true)
    }

    /// Messages that were lost.
    pub const fn lost_messages(&self) -> u64 {
        self.lost_messages
    }

    /// Bytes of lost messages that are not handed in yet.
    pub fn waiting_lost_bytes(&self) -> u64 {
        let losses = self.filling.iter().flat_map(|filling| &filling.losses);
        losses.map(|loss| loss.lost_bytes).sum()
    }

    /// Hands in the whole units of the block that is being filled if it has waited for
    /// `most_ticks`; otherwise, how many ticks it has left. Needs an empty buffer for the rest:
    /// without one the drive has enough to do.
    pub fn hand_in_units(&mut self, most_ticks: u64, now: u64) -> u64 {
        let Some(filling) = &mut self.filling else {
            return most_ticks;
        };
        let waited = now.saturating_sub(filling.since);
        if waited < most_ticks {
            return most_ticks - waited;
        }
        filling.since = now;
        let whole = filling.bytes - filling.bytes % UNIT_BYTES;
        if whole == 0 {
            return most_ticks;
        }
        let empty = self.spare.pop_front();
        let Some(mut buffer) = empty.or_else(|| self.idle.try_recv().ok()) else {
            return most_ticks;
        };
        let rest = filling.bytes - whole;
        buffer[..rest].copy_from_slice(&filling.buffer[whole..filling.bytes]);
        let (losses, mut later): (Vec<Loss>, _) = filling
            .losses
            .drain(..)
            .partition(|loss| loss.ahead_bytes < whole);
        for loss in &mut later {
            loss.ahead_bytes -= whole;
        }
        let next = Filling {
            buffer,
            bytes: rest,
            most_bytes: filling.most_bytes - whole,
            arrival: filling.unit_arrival,
            unit_arrival: filling.unit_arrival,
            since: now,
            losses: later,
        };
        (filling.bytes, filling.losses) = (whole, losses);
        self.hand_in();
        self.filling = Some(next);
        most_ticks
    }

    /// Hands in the block that is being filled; false if the recording has ended.
    fn hand_in(&mut self) -> bool {
        let Some(filling) = self.filling.take() else {
            return true;
        };
        let message = Message::Block {
            buffer: filling.buffer,
            len: filling.bytes,
            arrival: filling.arrival,
            losses: filling.losses,
        };
        self.out.send(message).is_ok()
    }

    /// Hands in what there is, and gives the empty buffers back: those that it has, of no length,
    /// and the channel of the others.
    pub fn end(&mut self) -> Receiver<Buffer> {
        self.hand_in();
        for buffer in self.spare.drain(..) {
            let _ = self.out.send(Message::Block {
                buffer,
                len: 0,
                arrival: 0,
                losses: Vec::new(),
            });
        }
        let _ = self.out.send(Message::End);
        std::mem::replace(&mut self.idle, channel().1)
    }

    /// A block that begins now, if there is memory.
    fn begin(&mut self, arrival: u64, now: u64) -> Option<Filling> {
        let buffer = self.spare.pop_front()?;
        Some(Filling {
            buffer,
            bytes: 0,
            most_bytes: self.block_bytes,
            arrival,
            unit_arrival: arrival,
            since: now,
            losses: Vec::new(),
        })
    }

    /// A message is lost. What came before it is kept.
    fn lose(&mut self, len: usize, arrival: u64) {
        self.lost_messages += 1;
        match &mut self.filling {
            Some(filling) if self.policy == Policy::Drop => filling.lose(len as u64, arrival),
            _ => {
                self.hand_in();
                let _ = self.out.send(Message::Lost { len, arrival });
            }
        }
    }
}

impl Filling {
    fn add(&mut self, part: &[u8], arrival: u64, now: u64) {
        if self.bytes == 0 {
            (self.arrival, self.unit_arrival, self.since) = (arrival, arrival, now);
        }
        let before = self.bytes;
        self.bytes += part.len();
        self.buffer[before..self.bytes].copy_from_slice(part);
        if before / UNIT_BYTES != self.bytes / UNIT_BYTES {
            self.unit_arrival = arrival;
        }
    }

    fn lose(&mut self, lost_bytes: u64, arrival: u64) {
        match self.losses.last_mut() {
            Some(last) if last.ahead_bytes == self.bytes => {
                last.messages += 1;
                last.lost_bytes = last.lost_bytes.saturating_add(lost_bytes);
            }
            _ => self.losses.push(Loss {
                ahead_bytes: self.bytes,
                messages: 1,
                lost_bytes,
                arrival,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 16_384;

    fn buffer() -> Buffer {
        Buffer::from_static(Box::leak(vec![0; BLOCK].into_boxed_slice()))
    }

    struct Bench {
        gatherer: Gatherer,
        idle: Sender<Buffer>,
        blocks: Receiver<Message>,
    }

    impl Bench {
        fn new(buffers: usize, policy: Policy) -> Self {
            let (idle, from) = channel();
            for _ in 0..buffers {
                idle.send(buffer()).unwrap();
            }
            let (out, blocks) = channel();
            Self {
                gatherer: Gatherer::new(BLOCK, buffers, policy, from, out),
                idle,
                blocks,
            }
        }

        fn append(&mut self, byte: u8, len: usize, now: u64) -> bool {
            match self.gatherer.append(&vec![byte; len], now, now) {
                Ok(is_kept) => is_kept,
                Err(_) => panic!("refused"),
            }
        }

        /// What was handed in: bytes, arrivals, and the losses with their places in all of it. Its
        /// buffers are empty again.
        fn taken(&mut self) -> Taken {
            let mut taken = Taken::default();
            for message in self.blocks.try_iter() {
                let at = taken.bytes.len();
                match message {
                    Message::Block {
                        buffer,
                        len,
                        arrival,
                        losses,
                    } => {
                        taken.bytes.extend_from_slice(&buffer[..len]);
                        taken.blocks.push((len, arrival));
                        let losses = losses
                            .iter()
                            .map(|loss| (at + loss.ahead_bytes, loss.messages, loss.lost_bytes));
                        taken.losses.extend(losses);
                        // After the end there is no one to give it to.
                        let _ = self.idle.send(buffer);
                    }
                    Message::Lost { len, .. } => taken.losses.push((at, 1, len as u64)),
                    Message::End | Message::Asked => {}
                }
            }
            taken
        }
    }

    #[derive(Default)]
    struct Taken {
        bytes: Vec<u8>,
        blocks: Vec<(usize, u64)>,
        losses: Vec<(usize, u64, u64)>,
    }

    #[test]
    fn what_has_waited_is_handed_in_in_whole_units() {
        let mut bench = Bench::new(3, Policy::Drop);
        assert_eq!(bench.gatherer.hand_in_units(100, 7), 100);
        assert!(bench.append(1, 5_000, 10));
        assert!(bench.append(2, 4_000, 60));
        assert_eq!(bench.gatherer.hand_in_units(100, 70), 40);
        assert_eq!(bench.gatherer.hand_in_units(100, 110), 100);
        let taken = bench.taken();
        assert_eq!(taken.blocks, [(8_192, 10)]);
        // The rest of the block is as long as ever, and its first byte arrived with the second
        // message.
        assert!(bench.append(3, BLOCK, 120));
        let rest = bench.taken();
        assert_eq!(rest.blocks, [(BLOCK - 8_192, 60)]);
        bench.gatherer.end();
        let end = bench.taken();
        assert_eq!(end.blocks, [(9_000 - 8_192 + 8_192, 120)]);
        let all = [taken.bytes, rest.bytes, end.bytes].concat();
        let expected = [vec![1; 5_000], vec![2; 4_000], vec![3; BLOCK]].concat();
        assert!(all == expected, "{} bytes", all.len());
    }

    #[test]
    fn less_than_a_unit_and_a_block_without_another_buffer_wait() {
        let mut bench = Bench::new(2, Policy::Drop);
        assert!(bench.append(1, 4_095, 0));
        assert_eq!(bench.gatherer.hand_in_units(100, 500), 100);
        assert!(bench.append(1, BLOCK, 510));
        // Both buffers are used: one is written.
        let Ok(Message::Block { buffer, .. }) = bench.blocks.try_recv() else {
            panic!("a block is full");
        };
        assert!(bench.append(1, 5_000, 520));
        assert_eq!(bench.gatherer.hand_in_units(100, 900), 100);
        assert!(bench.blocks.try_recv().is_err());
        bench.idle.send(buffer).unwrap();
        bench.gatherer.hand_in_units(100, 1_000);
        assert_eq!(bench.taken().blocks, [(8_192, 510)]);
    }

    #[test]
    fn a_loss_is_where_it_was() {
        let mut bench = Bench::new(2, Policy::Drop);
        assert!(bench.append(1, BLOCK, 0) && bench.append(1, 5_000, 0));
        // There is room for short ones only.
        for (len, is_kept) in [
            (12_000, false),
            (1_000, true),
            (11_000, false),
            (11_001, false),
            (3_000, true),
            (BLOCK, false),
        ] {
            assert_eq!(bench.append(2, len, 10), is_kept, "{len}");
        }
        let lost = [
            (5_000, 1, 12_000),
            (6_000, 2, 22_001),
            (9_000, 1, BLOCK as u64),
        ];
        let waiting: u64 = lost.iter().map(|loss| loss.2).sum();
        assert_eq!(bench.gatherer.waiting_lost_bytes(), waiting);
        assert_eq!(bench.gatherer.lost_messages(), 4);
        let mut taken = bench.taken();
        bench.gatherer.hand_in_units(0, 20);
        let units = bench.taken();
        bench.gatherer.end();
        let end = bench.taken();
        assert_eq!(bench.gatherer.waiting_lost_bytes(), 0);
        // Two before the border of the units, one behind it.
        assert_eq!((units.losses.len(), end.losses.len()), (2, 1));
        for part in [units, end] {
            let at = taken.bytes.len();
            let moved = part.losses.iter();
            taken
                .losses
                .extend(moved.map(|loss| (at + loss.0, loss.1, loss.2)));
            taken.bytes.extend(part.bytes);
        }
        let expected = lost.map(|loss| (BLOCK + loss.0, loss.1, loss.2));
        assert_eq!(taken.losses, expected);
        assert_eq!(taken.bytes.len(), BLOCK + 9_000);
    }

    #[test]
    fn what_came_before_the_end_is_handed_in() {
        let mut bench = Bench::new(2, Policy::Stop);
        assert!(bench.append(1, BLOCK, 0) && bench.append(1, 100, 0));
        assert!(!bench.append(2, BLOCK, 1));
        let taken = bench.taken();
        assert_eq!(taken.bytes.len(), BLOCK + 100);
        assert_eq!(taken.losses, [(BLOCK + 100, 1, BLOCK as u64)]);
        // There would be memory again, but not for a recording that has ended.
        let refused = bench.gatherer.append(&[3], 2, 2);
        assert!(matches!(refused, Err(Refused::Ended)));
        assert!(bench.blocks.try_recv().is_err());
    }

    #[test]
    fn a_message_longer_than_all_memory_is_refused_and_changes_nothing() {
        let mut bench = Bench::new(2, Policy::Wait);
        let refused = bench.gatherer.append(&vec![0; 2 * BLOCK], 0, 0);
        assert!(matches!(refused, Err(Refused::Message(_))));
        assert!(bench.append(1, BLOCK, 0));
        assert_eq!(bench.taken().bytes, vec![1; BLOCK]);
    }
}
