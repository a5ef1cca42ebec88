// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The thread that fills a recording's buffers on time.
//!
//! A pattern and a plain file are always ready: block n arrives at the time given by the rate, and
//! is lost if no buffer is empty then. A stream's block arrives when its last byte has been read;
//! with a rate, not before the time given by the rate. A stream that can wait does so while no
//! buffer is empty, unless a rate was given: then it must keep the rate, like the others.
//!
//! Without a rate, what a slow stream has sent is handed in before its block is full, so that it
//! can become durable. The block's rest follows as one of its own, so that the others begin where
//! they would have begun.

use crate::losses::Tally;
use crate::source::{Filled, Source};
use crate::{WAIT, wait_until};
use block::{Buffer, Clock};
use devices::error::Result;
use linux::TscClock;
use std::cell::Cell;
use std::mem::take;
use std::sync::mpsc::{Receiver, Sender, channel};
use stream::Pace;

/// Options of a producer.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Bytes of a block.
    pub block_bytes: usize,
    /// Bytes per second; `None` for the source's own pace.
    pub bytes_per_second: Option<u64>,
    /// Length at which it ends.
    pub total_bytes: Option<u64>,
    /// Time at which it ends, in ticks from its beginning.
    pub total_ticks: Option<u64>,
    /// How long a stream's block waits to be full, in ticks; `None` for as long as it takes.
    pub most_wait_ticks: Option<u64>,
}

/// What is handed in before its block is full is a multiple of this, as each block of a device
/// divides it.
pub const UNIT_BYTES: usize = 4096;

/// A message of the thread.
#[derive(Debug)]
pub enum Message {
    /// A block.
    Block {
        /// Its buffer.
        buffer: Buffer,
        /// Its length.
        len: usize,
        /// Its intended arrival.
        arrival: u64,
        /// What was lost inside it, in its order.
        losses: Vec<Loss>,
    },
    /// A block for which no buffer was empty.
    Lost {
        /// Its length.
        len: usize,
        /// Its intended arrival.
        arrival: u64,
    },
    /// The end.
    End,
    /// Nothing came: a reader asks something.
    Asked,
}

/// Messages of a program that were lost one after the other, inside a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// How much of the block came before.
    pub ahead_bytes: usize,
    /// How many.
    pub messages: u64,
    /// Their length.
    pub lost_bytes: u64,
    /// The first one's arrival.
    pub arrival: u64,
}

/// The reason for the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The requested length was reached.
    Length,
    /// The source ended.
    Source,
    /// Stopped by the user or by the recording's failure.
    Stopped,
}

/// The results of the thread.
#[derive(Debug)]
pub struct Produced {
    /// The reason for the end.
    pub why: Result<Why>,
    /// Blocks that came from the source later than the rate requires.
    pub tardy_blocks: u64,
    /// Datagrams that the kernel dropped.
    pub dropped_datagrams: u64,
    /// Datagrams that were longer than a block, whose end is lost.
    pub cut_datagrams: u64,
    /// Unused buffers.
    pub idle: Receiver<Buffer>,
}

/// The channel of empty buffers to the producer. It is filled before the producer starts: a block
/// that arrives immediately must find them.
pub fn idle_from(take: impl FnMut() -> Option<Buffer>) -> (Sender<Buffer>, Receiver<Buffer>) {
    let (to, idle) = channel();
    lend(take, &to);
    (to, idle)
}

/// Passes the recorder's empty buffers to the producer.
pub fn lend(mut take: impl FnMut() -> Option<Buffer>, to: &Sender<Buffer>) {
    while let Some(buffer) = take() {
        if to.send(buffer).is_err() {
            break;
        }
    }
}

/// Fills the buffers from `idle` and sends them to `out`, until the end or `stop`.
pub fn produce(
    source: Source,
    plan: Plan,
    clock: TscClock,
    idle: Receiver<Buffer>,
    out: &Sender<Message>,
    stop: &dyn Fn() -> bool,
    tally: &Tally,
) -> Produced {
    let begin = clock.ticks();
    let is_late = || {
        plan.total_ticks
            .is_some_and(|ticks| clock.ticks() - begin >= ticks)
    };
    let bytes_per_second = plan.bytes_per_second.unwrap_or(0);
    let mut producer = Producer {
        source,
        plan,
        clock,
        idle: &idle,
        out,
        pace: Pace::new(clock.ticks_per_second(), bytes_per_second, plan.block_bytes),
        scratch: Vec::new(),
        carry: Vec::new(),
        produced_bytes: 0,
        start: None,
        tardy_blocks: 0,
        tally,
        told: Cell::new(0),
    };
    let why = if producer.source.is_always_ready() {
        producer.run_scheduled(begin, stop)
    } else {
        producer.run_live(&|| stop() || is_late())
    };
    let why = why.map(|why| match why {
        Why::Stopped if !stop() && is_late() => Why::Length,
        why => why,
    });
    let (tardy_blocks, dropped_datagrams) = (producer.tardy_blocks, producer.source.dropped());
    let cut_datagrams = producer.source.cut();
    // The other end is closed once the recording has failed.
    let _ = out.send(Message::End);
    Produced {
        why,
        tardy_blocks,
        dropped_datagrams,
        cut_datagrams,
        idle,
    }
}

struct Producer<'p> {
    source: Source,
    plan: Plan,
    clock: TscClock,
    idle: &'p Receiver<Buffer>,
    out: &'p Sender<Message>,
    pace: Pace,
    /// Destination of blocks for which no buffer was empty.
    scratch: Vec<u8>,
    /// The beginning of the next block: what was read and is no whole unit.
    carry: Vec<u8>,
    produced_bytes: u64,
    /// For a stream with a rate: when its schedule began.
    start: Option<u64>,
    tardy_blocks: u64,
    tally: &'p Tally,
    /// When the tally was set.
    told: Cell<u64>,
}

impl Producer<'_> {
    /// The next block's length; 0 at the end.
    fn next_len(&self) -> usize {
        let left = self.plan.total_bytes.unwrap_or(u64::MAX) - self.produced_bytes;
        let block_bytes = self.plan.block_bytes as u64;
        let used = if self.source.has_borders() {
            0
        } else {
            self.produced_bytes % block_bytes
        };
        left.min(block_bytes - used) as usize
    }

    fn run_scheduled(&mut self, begin: u64, stop: &dyn Fn() -> bool) -> Result<Why> {
        loop {
            let len = self.next_len();
            self.pace.advance();
            let passed = self.pace.passed();
            if len == 0 || self.plan.total_ticks.is_some_and(|ticks| passed > ticks) {
                return Ok(Why::Length);
            }
            let arrival = begin.saturating_add(passed);
            if !wait_until(&self.clock, arrival, stop) {
                return Ok(Why::Stopped);
            }
            let buffer = self.idle.try_recv().ok();
            let (filled, buffer) = self.fill(buffer, len, &|| false)?;
            if !self.send(buffer, filled, arrival) {
                return Ok(Why::Stopped);
            }
            if filled.is_last {
                return Ok(Why::Source);
            }
        }
    }

    fn run_live(&mut self, stop: &dyn Fn() -> bool) -> Result<Why> {
        let is_paced = self.pace.is_paced();
        // After a stop, what had been handed over at that moment: a source that never pauses has no
        // other end.
        let mut left = None;
        loop {
            let mut len = self.next_len();
            if len == 0 {
                return Ok(Why::Length);
            }
            if stop() {
                let left = *left
                    .get_or_insert_with(|| self.source.waiting_bytes() + self.carry.len() as u64);
                if left == 0 {
                    return Ok(Why::Stopped);
                }
                // A datagram that does not fit would be cut.
                if !self.source.has_borders() {
                    len = len.min(usize::try_from(left).unwrap_or(len));
                }
            }
            self.pace.advance();
            self.tell();
            let told_stop = || {
                self.tell();
                stop()
            };
            if self.carry.is_empty() && !self.source.wait_ready(&told_stop)? {
                return Ok(Why::Stopped);
            }
            let buffer = self.wait_for_buffer(is_paced, stop);
            if buffer.is_none() && self.carry.is_empty() && stop() {
                return Ok(Why::Stopped);
            }
            let (mut filled, buffer) = self.fill(buffer, len, stop)?;
            if let Some(left) = &mut left {
                *left = left.saturating_sub(filled.bytes as u64);
                filled.is_last |= *left == 0;
            }
            let mut arrival = self.clock.ticks();
            if is_paced {
                let passed = self.pace.passed();
                let start = *self.start.get_or_insert(arrival.saturating_sub(passed));
                let due = start.saturating_add(passed);
                // The last, partial block of a stream that ends does not wait.
                if arrival <= due {
                    let _ = filled.is_last || wait_until(&self.clock, due, stop);
                    arrival = due.min(self.clock.ticks());
                } else {
                    self.tardy_blocks += 1;
                }
            }
            if !self.send(buffer, filled, arrival) {
                return Ok(Why::Stopped);
            }
            if filled.is_last {
                return Ok(if stop() { Why::Stopped } else { Why::Source });
            }
        }
    }

    /// Sets the tally, at most once a second: for some sources the kernel is asked.
    fn tell(&self) {
        let now = self.clock.ticks();
        if now.saturating_sub(self.told.get()) >= self.clock.ticks_per_second() {
            self.told.set(now);
            self.tally.set(self.source.losses());
        }
    }

    /// A buffer for a block that begins to arrive; waits as long as the source can wait.
    fn wait_for_buffer(&self, is_paced: bool, stop: &dyn Fn() -> bool) -> Option<Buffer> {
        if self.source.cannot_wait() {
            return self.idle.try_recv().ok();
        }
        let due = self
            .start
            .map(|start| start.saturating_add(self.pace.passed()));
        loop {
            let wait = match (is_paced, due) {
                (true, Some(due)) => {
                    let left = due.saturating_sub(self.clock.ticks());
                    let tps = self.clock.ticks_per_second();
                    std::time::Duration::from_micros(stream::us_from_ticks(left, tps)).min(WAIT)
                }
                _ => WAIT,
            };
            if let Ok(buffer) = self.idle.recv_timeout(wait) {
                return Some(buffer);
            }
            let is_due = is_paced && due.is_some_and(|due| self.clock.ticks() >= due);
            if is_due || stop() {
                return None;
            }
        }
    }

    fn fill(
        &mut self,
        buffer: Option<Buffer>,
        len: usize,
        stop: &dyn Fn() -> bool,
    ) -> Result<(Filled, Option<Buffer>)> {
        let Some(mut buffer) = buffer else {
            let mut scratch = take(&mut self.scratch);
            scratch.resize(self.plan.block_bytes, 0);
            let filled = self.fill_block(scratch.get_mut(..len).unwrap_or_default(), stop);
            self.scratch = scratch;
            return Ok((filled?, None));
        };
        let target = buffer.get_mut(..len).unwrap_or_default();
        Ok((self.fill_block(target, stop)?, Some(buffer)))
    }

    /// Fills a block, or whole units of it when it has waited long enough.
    fn fill_block(&mut self, block: &mut [u8], stop: &dyn Fn() -> bool) -> Result<Filled> {
        let carried = self.carry.len().min(block.len());
        let (begin, rest) = block.split_at_mut(carried);
        begin.copy_from_slice(self.carry.get(..carried).unwrap_or_default());
        self.carry.clear();
        let most_wait = self.plan.most_wait_ticks.filter(|_| !self.pace.is_paced());
        let (clock, began) = (&self.clock, self.clock.ticks());
        let is_due = |bytes: usize| {
            carried + bytes >= UNIT_BYTES
                && most_wait.is_some_and(|most| clock.ticks().saturating_sub(began) >= most)
        };
        let mut filled = self.source.fill(rest, stop, &is_due)?;
        filled.bytes += carried;
        if !filled.is_last && filled.bytes < block.len() {
            let whole = filled.bytes - filled.bytes % UNIT_BYTES;
            let carry = block.get(whole..filled.bytes).unwrap_or_default();
            self.carry.extend_from_slice(carry);
            filled.bytes = whole;
        }
        Ok(filled)
    }

    /// Sends a filled buffer; returns whether the other end is open.
    fn send(&mut self, buffer: Option<Buffer>, filled: Filled, arrival: u64) -> bool {
        let len = filled.bytes;
        self.produced_bytes += len as u64;
        if let Some(buffer) = buffer {
            // An empty buffer is returned in the same way.
            return self
                .out
                .send(Message::Block {
                    buffer,
                    len,
                    arrival,
                    losses: Vec::new(),
                })
                .is_ok();
        }
        if len > 0 {
            self.source.was_lost();
        }
        len == 0 || self.out.send(Message::Lost { len, arrival }).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_source_that_is_ready_at_once_finds_the_whole_ring() {
        let buffer = || Buffer::from_static(Box::leak(vec![0; 512].into_boxed_slice()));
        let mut ring = vec![buffer(), buffer()];
        // No buffers are passed after the producer starts, as if its first blocks came before them.
        let (_to, idle) = idle_from(|| ring.pop());
        let plan = Plan {
            block_bytes: 512,
            bytes_per_second: None,
            total_bytes: Some(3 * 512),
            total_ticks: None,
            most_wait_ticks: None,
        };
        let (out, blocks) = channel();
        let source = Source::Pattern { offset: 0 };
        let clock = TscClock::new();
        let tally = Tally::default();
        let produced = produce(source, plan, clock, idle, &out, &|| false, &tally);
        assert!(matches!(produced.why, Ok(Why::Length)));
        let messages: Vec<Message> = blocks.try_iter().collect();
        assert!(
            matches!(
                messages.as_slice(),
                [
                    Message::Block { len: 512, .. },
                    Message::Block { len: 512, .. },
                    Message::Lost { len: 512, .. },
                    Message::End
                ]
            ),
            "{messages:?}"
        );
    }

    #[test]
    fn whole_units_of_a_slow_stream_come_before_its_block_is_full() {
        let (mut sender, stream) = std::os::unix::net::UnixStream::pair().unwrap();
        let (to, idle) = channel();
        for _ in 0..4 {
            to.send(Buffer::from_static(Box::leak(
                vec![0; 8192].into_boxed_slice(),
            )))
            .unwrap();
        }
        let plan = Plan {
            block_bytes: 8192,
            bytes_per_second: None,
            total_bytes: None,
            total_ticks: None,
            most_wait_ticks: Some(0),
        };
        let (out, blocks) = channel();
        let data: Vec<u8> = (0..13_000_u32).map(|at| (at / 7) as u8).collect();
        let mut got = Vec::new();
        let mut lens = Vec::new();
        std::thread::scope(|scope| {
            let source = Source::Stream(Box::new(stream), "test".to_owned());
            let producing = scope.spawn(move || {
                let clock = TscClock::new();
                produce(
                    source,
                    plan,
                    clock,
                    idle,
                    &out,
                    &|| false,
                    &Tally::default(),
                )
            });
            sender.write_all(&data[..5000]).unwrap();
            let mut sender = Some(sender);
            while let Message::Block { buffer, len, .. } = blocks.recv().unwrap() {
                got.extend_from_slice(&buffer[..len]);
                lens.push(len);
                if let Some(mut sender) = sender.take() {
                    sender.write_all(&data[5000..]).unwrap();
                }
            }
            assert!(matches!(producing.join().unwrap().why, Ok(Why::Source)));
        });
        // The second one is the rest of the first one's block.
        assert_eq!(
            (&lens[..], got == data),
            (&[4096, 4096, 4096, 712][..], true)
        );
    }
}
