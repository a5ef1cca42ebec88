//! The thread that fills a recording's buffers on time.
//!
//! A pattern and a plain file are always ready: block n arrives at the time given by the rate, and
//! is lost if no buffer is empty then. A stream's block arrives when its last byte has been read;
//! with a rate, not before the time given by the rate. A stream that can wait does so while no
//! buffer is empty, unless a rate was given: then it must keep the rate, like the others.

use crate::failure::Result;
use crate::stream::source::{Filled, Source};
use crate::stream::{WAIT, wait_until};
use block::{Buffer, Clock};
use linux::TscClock;
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
}

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
        produced_bytes: 0,
        start: None,
        tardy_blocks: 0,
    };
    let why = match producer.source.is_always_ready() {
        true => producer.run_scheduled(begin, stop),
        false => producer.run_live(&|| stop() || is_late()),
    };
    let why = why.map(|why| match why {
        Why::Stopped if !stop() && is_late() => Why::Length,
        why => why,
    });
    let (tardy_blocks, dropped_datagrams) = (producer.tardy_blocks, producer.source.dropped());
    // The other end is closed once the recording has failed.
    let _ = out.send(Message::End);
    Produced {
        why,
        tardy_blocks,
        dropped_datagrams,
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
    produced_bytes: u64,
    /// For a stream with a rate: when its schedule began.
    start: Option<u64>,
    tardy_blocks: u64,
}

impl Producer<'_> {
    /// The next block's length; 0 at the end.
    fn next_len(&self) -> usize {
        let left = self.plan.total_bytes.unwrap_or(u64::MAX) - self.produced_bytes;
        left.min(self.plan.block_bytes as u64) as usize
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
        loop {
            let len = self.next_len();
            if len == 0 {
                return Ok(Why::Length);
            }
            self.pace.advance();
            if !self.source.wait_ready(stop)? {
                return Ok(Why::Stopped);
            }
            let buffer = self.wait_for_buffer(is_paced, stop);
            if buffer.is_none() && stop() {
                return Ok(Why::Stopped);
            }
            let (filled, buffer) = self.fill(buffer, len, stop)?;
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
            self.scratch.resize(self.plan.block_bytes, 0);
            let target = self.scratch.get_mut(..len).unwrap_or_default();
            return Ok((self.source.fill(target, stop)?, None));
        };
        let target = buffer.get_mut(..len).unwrap_or_default();
        Ok((self.source.fill(target, stop)?, Some(buffer)))
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
                })
                .is_ok();
        }
        len == 0 || self.out.send(Message::Lost { len, arrival }).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        };
        let (out, blocks) = channel();
        let source = Source::Pattern { offset: 0 };
        let produced = produce(source, plan, TscClock::new(), idle, &out, &|| false);
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
}
