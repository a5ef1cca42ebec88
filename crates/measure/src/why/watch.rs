// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When a loop that is measured reads the counters.

use super::{Gauge, Reading};

/// Between two readings where nothing is late.
const CALM_NS: u64 = 20_000_000;
/// Between two readings at least, however many blocks are late. While nothing completes, so long is
/// a wait at most: then the last reading before the end shows whether the thread ran.
const LEAST_NS: u64 = 1_000_000;
/// Nothing has completed for this part of the deadline: a block may become late.
const RISK_PART: u64 = 8;

/// What a loop tells while it runs. All of it is nothing for a run that is not watched.
pub(crate) trait Watcher {
    /// The run begins.
    fn begin(&mut self, now_ns: u64);

    /// A block is submitted; whether nothing was in flight.
    fn began(&mut self, is_first: bool, now_ns: u64);

    /// The longest that the loop may wait now.
    fn most_wait_ns(&self, now_ns: u64) -> u64;

    /// A block has ended; `due_ns` says when it was due.
    fn ended(&mut self, due_ns: impl FnOnce() -> u64, now_ns: u64);

    /// The loop has waited.
    fn passed(&mut self, now_ns: u64);

    /// The run has ended.
    fn end(&mut self, now_ns: u64);
}

/// No watcher.
pub(crate) struct Unwatched;

impl Watcher for Unwatched {
    #[inline]
    fn begin(&mut self, _now_ns: u64) {}

    #[inline]
    fn began(&mut self, _is_first: bool, _now_ns: u64) {}

    #[inline]
    fn most_wait_ns(&self, _now_ns: u64) -> u64 {
        u64::MAX
    }

    #[inline]
    fn ended(&mut self, _due_ns: impl FnOnce() -> u64, _now_ns: u64) {}

    #[inline]
    fn passed(&mut self, _now_ns: u64) {}

    #[inline]
    fn end(&mut self, _now_ns: u64) {}
}

/// Reads the counters into memory that was there before.
pub(crate) struct Watch<'g> {
    gauge: &'g mut dyn Gauge,
    deadline_ns: u64,
    /// When a block may become late if nothing completes.
    risk_ns: u64,
    next_ns: u64,
    least_ns: u64,
    pub(crate) start_ns: u64,
    pub(crate) readings: Vec<Reading>,
}

impl<'g> Watch<'g> {
    /// For a run of about `duration_ns` whose blocks are late after `deadline_ns`.
    pub(crate) fn new(gauge: &'g mut dyn Gauge, deadline_ns: u64, duration_ns: u64) -> Self {
        let most = duration_ns / LEAST_NS + 64;
        Self {
            gauge,
            deadline_ns,
            risk_ns: u64::MAX,
            next_ns: 0,
            least_ns: 0,
            start_ns: 0,
            readings: Vec::with_capacity(usize::try_from(most.min(1 << 20)).unwrap_or(0)),
        }
    }

    fn progressed(&mut self, now_ns: u64) {
        self.risk_ns = now_ns + self.deadline_ns / RISK_PART;
    }

    fn read(&mut self, now_ns: u64) {
        (self.next_ns, self.least_ns) = (now_ns + CALM_NS, now_ns + LEAST_NS);
        if self.readings.len() < self.readings.capacity() {
            let reading = self.gauge.read(now_ns);
            self.readings.push(reading);
        }
    }
}

impl Watcher for Watch<'_> {
    fn begin(&mut self, now_ns: u64) {
        self.start_ns = now_ns;
        self.read(now_ns);
    }

    fn began(&mut self, is_first: bool, now_ns: u64) {
        if is_first {
            self.progressed(now_ns);
        }
    }

    fn most_wait_ns(&self, now_ns: u64) -> u64 {
        self.risk_ns.saturating_sub(now_ns).max(LEAST_NS)
    }

    fn ended(&mut self, due_ns: impl FnOnce() -> u64, now_ns: u64) {
        self.progressed(now_ns);
        if now_ns >= self.least_ns && now_ns.saturating_sub(due_ns()) > self.deadline_ns {
            self.read(now_ns);
        }
    }

    fn passed(&mut self, now_ns: u64) {
        if now_ns >= self.next_ns || now_ns >= self.risk_ns.max(self.least_ns) {
            self.read(now_ns);
        }
    }

    fn end(&mut self, now_ns: u64) {
        self.read(now_ns);
    }
}
