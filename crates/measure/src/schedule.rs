// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When the operations of an open loop are due.

/// The maximum number of arrivals that a run records; 16 bytes each, and 8 more while it is
/// evaluated.
pub const MAX_ARRIVALS: u64 = 50_000_000;
/// Fraction bits of a nanosecond in intervals.
pub(crate) const FRACTION_BITS: u32 = 10;
const FRACTION_MASK: u64 = (1 << FRACTION_BITS) - 1;

/// The arrivals of operations: `count` of them, `interval` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// In fractions of a nanosecond, to avoid drift.
    pub(crate) interval: u64,
    pub(crate) count: u64,
    pub(crate) grace_ns: u64,
}

impl Schedule {
    /// A schedule of `per_second` arrivals over `duration_ns`; operations that have not started
    /// `grace_ns` after its end are given up. `None` if it has no arrival, more than
    /// [`MAX_ARRIVALS`], or more than one per nanosecond.
    pub fn new(per_second: f64, duration_ns: u64, grace_ns: u64) -> Option<Self> {
        let scale = f64::from(1u32 << FRACTION_BITS);
        let interval = (1e9 / per_second * scale).round();
        if !interval.is_finite() || interval < scale || interval > 1e15 {
            return None;
        }
        let count = (duration_ns as f64 * scale / interval).floor() as u64;
        (1..=MAX_ARRIVALS).contains(&count).then_some(Self {
            interval: interval as u64,
            count,
            grace_ns,
        })
    }

    /// Number of arrivals.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Nanoseconds between two arrivals.
    pub fn interval_ns(&self) -> f64 {
        self.interval as f64 / f64::from(1u32 << FRACTION_BITS)
    }

    /// From the first arrival to one interval after the last.
    pub fn duration_ns(&self) -> u64 {
        self.at(self.count)
    }

    /// When arrival `index` is due, from the start.
    pub fn at(&self, index: u64) -> u64 {
        ((u128::from(self.interval) * u128::from(index)) >> FRACTION_BITS) as u64
    }

    /// Number of arrivals due by the end of nanosecond `since_ns` after the start.
    pub(crate) fn due(&self, since_ns: u64) -> u64 {
        (((since_ns << FRACTION_BITS) | FRACTION_MASK) / self.interval + 1).min(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn schedules_without_sense_are_refused() {
        assert!(Schedule::new(0.0, MS, 0).is_none());
        assert!(Schedule::new(1.0, 999 * MS, 0).is_none());
        assert!(Schedule::new(f64::NAN, MS, 0).is_none());
        assert!(Schedule::new(2e9, MS, 0).is_none());
        assert!(Schedule::new(1e6, 60_000 * MS, 0).is_none());
        assert_eq!(Schedule::new(1.0, 1000 * MS, 0).unwrap().count(), 1);
    }

    #[test]
    fn what_is_due_is_what_the_times_say() {
        let schedule = Schedule::new(333.0, 3_000 * MS, 0).unwrap();
        for index in [0, 1, 2, 500, 997] {
            let at = schedule.at(index);
            assert_eq!(schedule.due(at), index + 1, "{index}");
            assert_eq!(schedule.due(at.saturating_sub(1)), index.max(1));
        }
        assert_eq!(schedule.due(10_000 * MS), schedule.count());
    }
}
