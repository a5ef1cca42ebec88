//! What serving costs: the instructions of the main loop's rounds in which something moved, told
//! when the last client has gone. Without the feature `check` it is nothing.

use interface::Service;

#[cfg(feature = "check")]
use hardware::{log, machine};

/// Counts while it is on.
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
    /// Does a round.
    #[inline(always)]
    pub fn round(&mut self, step: impl FnOnce() -> bool) -> bool {
        step()
    }

    /// Nothing was counted.
    #[inline(always)]
    pub fn tell(&mut self, _: &Service) {}
}

#[cfg(feature = "check")]
impl Meter {
    /// One that counts.
    pub fn counting() -> Self {
        Self {
            is_on: true,
            ..Self::default()
        }
    }

    /// Does a round, and counts it if something moved.
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

    /// Tells what was counted, if the client is gone.
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
