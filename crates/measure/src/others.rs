// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether other programs were busy during a measurement.
//!
//! A figure from a busy machine says as much about the other programs as about the drive. Every
//! verb that measures uses [`Watch`], and a run during which others took more than [`most_percent`]
//! of a core is not valid.
//!
//! The count includes the user time of all other processes, and stolen time. It excludes kernel
//! time, because interrupts, soft interrupts and kernel threads work for the measured requests. A
//! program that only makes system calls is therefore counted only in part.

use crate::cpu::{CpuTimes, percent_of_ticks};
use crate::host::Host;

/// Processor time of others that is always allowed: a tick has 10 ms, and a short run has few
/// ticks.
const NEGLIGIBLE_NS: f64 = 100e6;
/// The beginning of every reason of this kind.
const REASON: &str = "the machine was busy: ";

/// The processor time that others may take during a run, in per cent of one core: a quarter of a
/// core, or a twentieth of the machine if that is more.
pub fn most_percent(cores: u32) -> f64 {
    (5.0 * f64::from(cores)).max(25.0)
}

/// Why a run is not valid if others took `percent` of one core for `elapsed_ns`.
pub fn reason(percent: f64, elapsed_ns: u64, cores: u32) -> Option<String> {
    let most = most_percent(cores);
    let is_busy = percent > most && percent / 100.0 * elapsed_ns as f64 > NEGLIGIBLE_NS;
    is_busy.then(|| {
        format!(
            "{REASON}other programs took {percent:.0} % of a core, but at most {most:.0} % is allowed"
        )
    })
}

/// Whether a reason was given by [`reason`].
pub fn is_about_others(reason: &str) -> bool {
    reason.starts_with(REASON)
}

/// The processor time of others since a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    times: CpuTimes,
    start_ns: u64,
}

impl Watch {
    /// Begins now; `None` if processor time cannot be read.
    pub fn begin(host: &mut dyn Host) -> Option<Self> {
        let times = host.cpu_times().ok()?;
        Some(Self {
            times,
            start_ns: host.clock().now_ns(),
        })
    }

    /// Why the run since then is not valid, if others were busy.
    pub fn reason(&self, host: &mut dyn Host, cores: u32) -> Option<String> {
        let now = host.cpu_times().ok()?;
        let elapsed_ns = host.clock().now_ns().saturating_sub(self.start_ns);
        let ticks = now.others_ticks?.saturating_sub(self.times.others_ticks?);
        let percent = percent_of_ticks(ticks, now.ticks_per_second, elapsed_ns);
        reason(percent, elapsed_ns, cores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::SimulatedHost;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_quarter_of_a_core_is_allowed_and_more_on_large_machines() {
        for (percent, cores, is_valid) in [
            (0.0, 2, true),
            (25.0, 2, true),
            (26.0, 2, false),
            (199.0, 2, false),
            (26.0, 0, false),
            (39.0, 8, true),
            (41.0, 8, false),
        ] {
            let reason = reason(percent, SECOND, cores);
            assert_eq!(reason.is_none(), is_valid, "{percent} {cores}: {reason:?}");
        }
    }

    #[test]
    fn a_few_ticks_of_a_short_run_are_nothing() {
        assert_eq!(reason(90.0, SECOND / 10, 2), None);
        assert!(reason(90.0, SECOND / 2, 2).is_some());
    }

    #[test]
    fn what_this_process_takes_is_not_counted() {
        for (others_permille, is_busy) in [(0, false), (200, false), (900, true)] {
            let mut host = SimulatedHost::new();
            host.others_permille = others_permille;
            let watch = Watch::begin(&mut host).unwrap();
            // Our own work keeps a whole core busy during this.
            for _ in 0..SECOND / 100 / 1000 {
                (0..1000).for_each(|_| host.clock().spin());
            }
            let reason = watch.reason(&mut host, 2);
            assert_eq!(reason.is_some(), is_busy, "{reason:?}");
            assert!(reason.is_none_or(|reason| is_about_others(&reason)));
        }
    }
}
