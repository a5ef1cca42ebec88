// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures serving: counts the instructions of the main loop's iterations that made progress, and
//! logs them when the last client has detached. Empty without the feature `check`.

use interface::Service;

#[cfg(feature = "check")]
use hardware::{log, machine};

/// Counts while it is enabled.
#[derive(Debug, Default)]
pub struct Meter {
    #[cfg(feature = "check")]
    is_on: bool,
    #[cfg(feature = "check")]
    rounds: u64,
    #[cfg(feature = "check")]
    instructions: u64,
    #[cfg(feature = "check")]
    worst: u32,
}

#[cfg(not(feature = "check"))]
impl Meter {
    /// Runs one iteration.
    #[inline(always)]
    pub fn round(&mut self, step: impl FnOnce() -> bool) -> bool {
        step()
    }

    /// Without the feature: counts nothing.
    #[inline(always)]
    pub fn tell(&mut self, _: &Service) {}
}

#[cfg(feature = "check")]
impl Meter {
    /// An enabled meter.
    pub fn counting() -> Self {
        Self {
            is_on: true,
            ..Self::default()
        }
    }

    /// Runs one iteration, and counts it if it made progress.
    #[inline(always)]
    pub fn round(&mut self, step: impl FnOnce() -> bool) -> bool {
        let before = machine::instructions();
        let has_moved = step();
        let cost = machine::instructions().wrapping_sub(before);
        if has_moved {
            self.rounds += 1;
            self.instructions += u64::from(cost);
            self.worst = self.worst.max(cost);
        }
        has_moved
    }

    /// Logs the counters, if the client has detached.
    #[inline(always)]
    pub fn tell(&mut self, service: &Service) {
        if self.is_on && self.rounds > 0 {
            self.tell_at_the_end(service);
        }
    }

    #[inline(never)]
    fn tell_at_the_end(&mut self, service: &Service) {
        let (sessions, commands) = service.tally();
        if sessions > 0 {
            return;
        }
        log!(
            "served: commands #, rounds #, instructions #, worst round #",
            u64::from(commands),
            self.rounds,
            self.instructions,
            u64::from(self.worst)
        );
        *self = Self::counting();
    }
}
