// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Service times as counted on the timed path: a table, indexed by a shift.
//!
//! The bounds are those of the histogram that they are converted to, so nothing is rounded twice.

use crate::tally::{CellError, SERVICE_TIME_MAX_NS, ServiceTimes, service_times};

/// Values below 2^(this + 1) have their own entries; longer ones share an entry with others within
/// 1 %.
const SUB_BITS: u32 = 7;
const LONGEST: u64 = SERVICE_TIME_MAX_NS;
const PLACES: usize = index_of(LONGEST) + 1;

/// Number of occurrences of each service time.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    counts: Box<[u64]>,
}

const fn index_of(ns: u64) -> usize {
    let below = (1 << (SUB_BITS + 1)) - 1;
    let shift = (ns | below).ilog2() - SUB_BITS;
    ((shift as usize) << SUB_BITS) + (ns >> shift) as usize
}

/// The shortest time of this entry.
fn shortest(index: usize) -> u64 {
    let shift = (index >> SUB_BITS).saturating_sub(1);
    ((index - (shift << SUB_BITS)) as u64) << shift
}

impl Times {
    pub(crate) fn new() -> Self {
        Self {
            counts: vec![0; PLACES].into_boxed_slice(),
        }
    }

    /// Counts a time; less than 1 ns counts as 1 ns, and more than the longest time as the longest.
    #[inline]
    pub(crate) fn record(&mut self, ns: u64) {
        match self.counts.get_mut(index_of(ns)) {
            Some(count) => *count += 1,
            None => self.record_longest(),
        }
    }

    #[cold]
    fn record_longest(&mut self) {
        if let Some(count) = self.counts.last_mut() {
            *count += 1;
        }
    }

    pub(crate) fn forget(&mut self) {
        self.counts.fill(0);
    }

    /// Converts the counts to a histogram.
    pub(crate) fn to_histogram(&self) -> Result<ServiceTimes, CellError> {
        let mut times = service_times()?;
        for (index, count) in self.counts.iter().enumerate() {
            if *count > 0 {
                let count = u32::try_from(*count).unwrap_or(u32::MAX);
                let result = times.record_n(shortest(index).max(1), count);
                result.map_err(|_| CellError::Histogram)?;
            }
        }
        Ok(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn the_histogram_is_the_one_that_records_each_time() {
        let mut random = Random::new(3);
        let (mut ours, mut theirs) = (Times::new(), service_times().unwrap());
        let edges = [
            0,
            1,
            127,
            128,
            255,
            256,
            257,
            511,
            512,
            LONGEST - 1,
            LONGEST,
            u64::MAX,
        ];
        let drawn = (0..20_000).map(|_| random.draw() >> random.below(60));
        for ns in edges.into_iter().chain(drawn) {
            ours.record(ns);
            theirs.saturating_record(ns.clamp(1, LONGEST));
        }
        let ours = ours.to_histogram().unwrap();
        assert_eq!(ours.len(), theirs.len());
        for quantile in [0.0, 0.001, 0.1, 0.5, 0.9, 0.99, 0.9999, 1.0] {
            assert_eq!(
                ours.value_at_quantile(quantile),
                theirs.value_at_quantile(quantile),
                "{quantile}"
            );
        }
    }
}
