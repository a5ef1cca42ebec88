// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How far the wall clock was set between two datagrams.
//!
//! The kernel stamps a datagram by the wall clock, which is set forward and back (settimeofday(2),
//! a step of NTP). The clock that counts from the boot on (`CLOCK_BOOTTIME`) is not; both are
//! slewed alike. So their difference changes only where the wall clock was set.

use rustix::time::{ClockId, clock_gettime};

/// A difference that is below this is that of the two moments at which the clocks are read.
const LEAST_NS: u64 = 1_000_000;

/// Both clocks, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// Since 1970.
    wall_ns: u64,
    /// Since the boot.
    boot_ns: u64,
    /// How far apart they were read at most.
    apart_ns: u64,
}

/// Recognises when the wall clock was set.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    /// What the wall clock is ahead of the other.
    ahead_ns: i64,
    /// When the last datagram arrived, since the boot.
    last_ns: i64,
}

impl Clocks {
    /// Reads them.
    pub fn now() -> Self {
        let ns = |id| {
            let time = clock_gettime(id);
            u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + time.tv_nsec as u64
        };
        let boot_ns = ns(ClockId::Boottime);
        let wall_ns = ns(ClockId::Realtime);
        let apart_ns = ns(ClockId::Boottime).saturating_sub(boot_ns);
        Self {
            wall_ns,
            boot_ns,
            apart_ns,
        }
    }

    const fn ahead_ns(&self) -> i64 {
        self.wall_ns.wrapping_sub(self.boot_ns) as i64
    }
}

impl Steps {
    /// Begins now.
    pub const fn new(now: Clocks) -> Self {
        Self {
            ahead_ns: now.ahead_ns(),
            last_ns: now.boot_ns as i64,
        }
    }

    /// A datagram was read whose stamp is `arrival_ns`: by how many nanoseconds the wall clock was
    /// set forward between the one before and its arrival.
    pub fn step(&mut self, arrival_ns: u64, now: Clocks) -> i64 {
        let slack = (LEAST_NS + now.apart_ns) as i64;
        let since_boot = |ahead_ns: i64| (arrival_ns as i64).wrapping_sub(ahead_ns);
        let is_possible = |at_ns: i64| {
            let latest = (now.boot_ns as i64).saturating_add(slack);
            (self.last_ns.saturating_sub(slack)..=latest).contains(&at_ns)
        };
        let changed = now.ahead_ns().wrapping_sub(self.ahead_ns);
        let (before, after) = (since_boot(self.ahead_ns), since_boot(now.ahead_ns()));
        // It can have arrived before the clock was set, and have waited.
        let is_before = is_possible(before) && !is_possible(after);
        if changed.unsigned_abs() <= slack.unsigned_abs() || is_before {
            self.last_ns = self.last_ns.max(before.min(now.boot_ns as i64));
            return 0;
        }
        self.ahead_ns = now.ahead_ns();
        self.last_ns = self.last_ns.max(after.min(now.boot_ns as i64));
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const HOUR: i64 = 3_600 * SECOND as i64;

    fn clocks(boot_ns: u64, ahead_ns: i64) -> Clocks {
        Clocks {
            wall_ns: boot_ns.wrapping_add_signed(ahead_ns),
            boot_ns,
            apart_ns: 100,
        }
    }

    #[test]
    fn a_clock_that_is_set_is_recognised_at_the_first_datagram_behind() {
        for step in [HOUR, -HOUR, SECOND as i64, -(SECOND as i64) / 2] {
            let ahead = 1_000 * HOUR;
            let mut steps = Steps::new(clocks(SECOND, ahead));
            let at = |seconds: u64, ahead: i64| (seconds * SECOND).wrapping_add_signed(ahead);
            assert_eq!(steps.step(at(2, ahead), clocks(2 * SECOND, ahead)), 0);
            // It was set between arrival and read, and this one waited; then between two arrivals.
            let after = ahead + step;
            let late = 4 * SECOND + 10;
            if step.unsigned_abs() > 2 * SECOND {
                assert_eq!(steps.step(at(3, ahead), clocks(late, after)), 0, "{step}");
            }
            assert_eq!(steps.step(at(4, after), clocks(late, after)), step);
            assert_eq!(steps.step(at(5, after), clocks(5 * SECOND + 99, after)), 0);
        }
    }

    #[test]
    fn slow_reads_and_slewing_are_no_steps() {
        let mut steps = Steps::new(clocks(SECOND, HOUR));
        let now = Clocks {
            apart_ns: SECOND,
            ..clocks(3 * SECOND, HOUR + SECOND as i64)
        };
        assert_eq!(steps.step(2 * SECOND + HOUR as u64, now), 0);
        let mut steps = Steps::new(Clocks::now());
        for _ in 0..1_000 {
            let now = Clocks::now();
            assert_eq!(steps.step(now.wall_ns, now), 0);
        }
    }
}
