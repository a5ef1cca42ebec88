// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One direction of a connection.

use std::collections::VecDeque;

/// What arrives.
#[derive(Debug)]
pub enum Arrived {
    /// Bytes.
    Bytes(Box<[u8]>),
    /// The connection ends.
    End,
}

impl Arrived {
    /// Bytes of it.
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::End => 0,
        }
    }
}

/// Bytes that are under way, in order, and those that have arrived.
#[derive(Debug, Default)]
pub struct Pipe {
    segments: VecDeque<(u64, Arrived)>,
    last_at: u64,
    sent_bytes: usize,
    is_over: bool,
    /// What has arrived and was not taken.
    pub arrived: VecDeque<u8>,
}

impl Pipe {
    /// Bytes that are under way.
    pub const fn sent_bytes(&self) -> usize {
        self.sent_bytes
    }

    /// When the last of them arrives.
    pub const fn last_at(&self) -> u64 {
        self.last_at
    }

    /// Sends; returns when it arrives, which is not before what was sent earlier.
    pub fn send(&mut self, at: u64, what: Arrived) -> u64 {
        self.last_at = self.last_at.max(at);
        self.sent_bytes += what.len();
        self.segments.push_back((self.last_at, what));
        self.last_at
    }

    /// What is under way arrives at `at`, unless it does so before.
    pub fn release(&mut self, at: u64) {
        self.last_at = self.last_at.min(at);
        for (due, _) in &mut self.segments {
            *due = at.min(*due);
        }
    }

    /// Takes what has arrived by `now`. Whether that is all, because the connection has ended.
    pub fn receive(&mut self, now: u64) -> bool {
        while self.segments.front().is_some_and(|(at, _)| *at <= now) && !self.is_over {
            match self.segments.pop_front() {
                Some((_, Arrived::Bytes(bytes))) => {
                    self.sent_bytes -= bytes.len();
                    self.arrived.extend(bytes);
                }
                _ => self.is_over = true,
            }
        }
        self.is_over
    }
}
