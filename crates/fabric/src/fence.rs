// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When the commands of a lost association have ended at the target: not before may a changed block
//! be written again.
//!
//! NVMe base specification 2.1, 9.6 "Communication Loss Handling". A controller whose host has
//! fallen silent gives up the association when its Keep Alive Timer expires, and has then ended
//! every command within the Command Quiesce Time (CQT). By "Keep Alive" (3.9) the timer is
//! restarted by a Keep Alive command; with Traffic Based Keep Alive (CTRATT.TBKAS) it is looked at
//! once per KATO and restarted if any command was processed since, so it expires at most 2 KATO
//! after the last one. One KATO more covers the host's last commands: a host that has heard nothing
//! for KATO sends no more.
//!
//! Nothing else ends them: a connection that the host closes may have delivered commands that the
//! target has not executed yet, and a network may hold packets, the connection's reset among them,
//! and deliver them later.

use block::Clock;

/// What decides how long a controller may execute commands of a lost association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Keep Alive Timeout in effect, as the controller reports it; 0 for none.
    pub keep_alive_ms: u32,
    /// Any command restarts the keep-alive timer (CTRATT.TBKAS).
    pub traffic_based: bool,
    /// Time to end its commands (CQT), or what was assumed for it.
    pub quiesce_ms: u32,
}

impl Timing {
    /// Keep-alive timeouts until the controller has given up an association: `m` of the module's
    /// text.
    pub const fn timeouts(&self) -> u32 {
        if self.traffic_based { 3 } else { 2 }
    }

    /// How long after the last byte from the target its commands may be executed, in milliseconds.
    /// `None`: for ever, without a keep-alive.
    pub const fn wait_ms(&self) -> Option<u64> {
        if self.keep_alive_ms == 0 {
            return None;
        }
        Some(self.timeouts() as u64 * self.keep_alive_ms as u64 + self.quiesce_ms as u64)
    }

    /// When the commands have ended, in ticks. `heard`: not earlier than the last byte from the
    /// target; `aborted`: when the host stopped sending; `is_closed`: the target was seen closing
    /// every connection that had commands in doubt.
    pub(crate) fn end<K: Clock>(
        &self,
        clock: &K,
        heard: u64,
        aborted: u64,
        is_closed: bool,
    ) -> u64 {
        let ticks = |ms: u64| clock.ticks_from_us(ms * 1000);
        if is_closed {
            return aborted.saturating_add(ticks(u64::from(self.quiesce_ms)));
        }
        let Some(wait_ms) = self.wait_ms() else {
            return u64::MAX;
        };
        // A host that noticed late has sent until then.
        let since = heard.max(aborted.saturating_sub(ticks(u64::from(self.keep_alive_ms))));
        since.saturating_add(ticks(wait_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Microseconds;

    impl Clock for Microseconds {
        fn ticks(&self) -> u64 {
            0
        }

        fn ticks_per_second(&self) -> u64 {
            1_000_000
        }
    }

    #[test]
    fn the_wait_is_that_of_the_specification() {
        let timing = |keep_alive_ms, traffic_based| Timing {
            keep_alive_ms,
            traffic_based,
            quiesce_ms: 700,
        };
        let seconds = 1_000_000;
        // From the last byte on, if the host noticed within KATO.
        let end = |timing: Timing, heard, aborted, is_closed| {
            timing.end(&Microseconds, heard, aborted, is_closed)
        };
        let traffic = timing(5000, true);
        assert_eq!(traffic.wait_ms(), Some(15_700));
        assert_eq!(end(traffic, 100, 5 * seconds, false), 15_700_100);
        assert_eq!(timing(5000, false).wait_ms(), Some(10_700));
        assert_eq!(
            end(timing(5000, false), 100, 5 * seconds, false),
            10_700_100
        );
        // A host that noticed after 12 s may have been heard after 12 s.
        assert_eq!(
            end(traffic, 0, 12 * seconds, false),
            (12 + 10) * seconds + 700_000
        );
        // Closed by the target: only what it had begun.
        assert_eq!(end(traffic, 0, 12 * seconds, true), 12_700_000);
        // Without a keep-alive the controller waits for its host for ever.
        assert_eq!(timing(0, true).wait_ms(), None);
        assert_eq!(end(timing(0, true), 0, 1, false), u64::MAX);
        assert_eq!(end(timing(0, true), 0, 1, true), 700_001);
    }
}
