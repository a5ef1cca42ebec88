// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The administration connection of an association, on which the host must not fall silent.

use crate::command::{QueueEntry, opcode};
use crate::queue::{Payload, Queue};
use crate::remote::ADMIN_DEPTH;
use crate::{ByteStream, FabricError};
use block::Clock;

/// Keep Alives in a Keep Alive Timeout.
const SENT_PER_TIMEOUT: u64 = 4;

/// Keeps an association alive on its administration connection.
///
/// A Keep Alive is sent every quarter of the Keep Alive Timeout and must be answered in the other
/// three: then a host knows after one timeout without a byte from the target that the association
/// is lost.
#[derive(Debug)]
pub struct KeepAlive<S> {
    queue: Queue<S, ADMIN_DEPTH>,
    /// Ticks between two Keep Alives; `u64::MAX` for none.
    interval: u64,
    next: u64,
    heard: u64,
    failure: Option<FabricError>,
}

impl<S: ByteStream> KeepAlive<S> {
    pub(crate) fn new<K: Clock>(
        queue: Queue<S, ADMIN_DEPTH>,
        clock: &K,
        keep_alive_ms: u32,
    ) -> Self {
        let now = clock.ticks();
        let interval = match keep_alive_ms {
            0 => u64::MAX,
            ms => clock.ticks_from_us(u64::from(ms) * 1000 / SENT_PER_TIMEOUT),
        };
        Self {
            queue,
            interval,
            next: now.saturating_add(interval),
            heard: now,
            failure: None,
        }
    }

    /// Takes answers, and sends a Keep Alive if it is due. `now` is in ticks.
    pub fn tend(&mut self, now: u64) {
        let _ = self.queue.poll();
        if self.queue.take_heard() {
            self.heard = now;
        }
        if self.failure.is_none() {
            self.failure = self.queue.error();
        }
        if self.failure.is_some() {
            return;
        }
        let limit = self.interval.saturating_mul(SENT_PER_TIMEOUT - 1);
        let oldest = self.queue.oldest();
        if oldest.is_some_and(|since| now.saturating_sub(since) >= limit) {
            self.failure = Some(FabricError::TimedOut("a Keep Alive"));
        } else if now >= self.next {
            if self.queue.outstanding() == 0 {
                let command = QueueEntry::new(opcode::KEEP_ALIVE, 0, &[]);
                let _ = self.queue.submit(0, command, Payload::None, now);
            }
            self.next = now.saturating_add(self.interval);
        }
        if self.queue.has_output() {
            self.queue.kick();
        }
    }

    /// When something is to be done next at the latest, in ticks.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Sleeps until something arrives, or about `timeout_us` microseconds have passed.
    pub fn wait(&mut self, timeout_us: u32) {
        self.queue.wait(timeout_us);
    }

    /// When the target was heard last, in ticks; not earlier than it was.
    pub const fn heard(&self) -> u64 {
        self.heard
    }

    /// Why the connection is lost.
    pub const fn failure(&self) -> Option<FabricError> {
        self.failure
    }

    /// The stream.
    pub const fn stream(&self) -> &S {
        self.queue.stream()
    }
}

/// Who tends the administration connection: the device itself, whenever it is polled
/// ([`KeepAlive`]), or a thread of the platform, which does so while the device is idle. Dropping
/// it ends the connection.
pub trait Keeper {
    /// Called now and then while the device is polled; `now` is in ticks.
    fn tend(&mut self, now: u64);

    /// When the target was heard last, in ticks; not earlier than it was.
    fn heard(&self) -> u64;

    /// Why the connection is lost.
    fn failure(&self) -> Option<FabricError>;
}

impl<S: ByteStream> Keeper for KeepAlive<S> {
    fn tend(&mut self, now: u64) {
        self.tend(now);
    }

    fn heard(&self) -> u64 {
        self.heard
    }

    fn failure(&self) -> Option<FabricError> {
        self.failure.or(self.queue.error())
    }
}
