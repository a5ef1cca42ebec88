// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Real or virtual time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Which clock a model runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Time {
    /// The machine's monotonic clock.
    #[default]
    Real,
    /// A clock of microseconds that only advances when the host reads it or waits: the same run
    /// gives the same times, and a time-out of minutes takes no real time.
    Virtual {
        /// How far each [`ticks`](block::Clock::ticks) advances it, in microseconds.
        step_us: u64,
        /// How far each [`relax`](nvme::Registers::relax) advances it, in microseconds.
        relax_us: u64,
    },
}

impl Time {
    /// Virtual time with small steps: 1 us per reading, 100 us per pause.
    pub const VIRTUAL: Self = Self::Virtual {
        step_us: 1,
        relax_us: 100,
    };
}

#[derive(Debug)]
pub(crate) struct ModelClock {
    time: Time,
    started: Instant,
    now_us: AtomicU64,
}

impl ModelClock {
    pub(crate) fn new(time: Time) -> Self {
        Self {
            time,
            started: Instant::now(),
            now_us: AtomicU64::new(1),
        }
    }

    pub(crate) fn is_virtual(&self) -> bool {
        self.time != Time::Real
    }

    /// The time, without advancing it.
    pub(crate) fn now(&self) -> u64 {
        match self.time {
            Time::Real => self.started.elapsed().as_nanos() as u64,
            Time::Virtual { .. } => self.now_us.load(Ordering::Acquire),
        }
    }

    pub(crate) fn ticks(&self) -> u64 {
        if let Time::Virtual { step_us, .. } = self.time {
            self.advance_us(step_us);
        }
        self.now()
    }

    pub(crate) fn ticks_per_second(&self) -> u64 {
        match self.time {
            Time::Real => 1_000_000_000,
            Time::Virtual { .. } => 1_000_000,
        }
    }

    pub(crate) fn relax(&self) {
        match self.time {
            Time::Real => std::thread::yield_now(),
            Time::Virtual { relax_us, .. } => self.advance_us(relax_us),
        }
    }

    pub(crate) fn advance_us(&self, microseconds: u64) {
        self.now_us.fetch_add(microseconds, Ordering::AcqRel);
    }
}
