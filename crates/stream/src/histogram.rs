// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Latencies in buckets of powers of two, counted without loss and without memory.

/// Buckets of a [`Histogram`].
pub const BUCKETS: usize = 32;

/// How often a latency fell between two powers of two of microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Bucket 0 counts what took less than 1 us; bucket n what took at least 2^(n-1) us and less
    /// than 2^n us; the last one everything longer too.
    pub counts: [u64; BUCKETS],
}

impl Histogram {
    pub(crate) fn add(&mut self, latency_us: u64) {
        let bucket = (u64::BITS - latency_us.leading_zeros()) as usize;
        if let Some(count) = self.counts.get_mut(bucket.min(BUCKETS - 1)) {
            *count += 1;
        }
    }

    pub(crate) fn add_all(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
    }

    /// The number of latencies counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The upper bound of the bucket that holds the given share (in parts of a million) of what
    /// was counted, in microseconds; None if nothing was, or if it lies in the last bucket.
    pub fn bound_us(&self, parts_per_million: u32) -> Option<u64> {
        let total = self.total();
        let wanted = u128::from(total) * u128::from(parts_per_million.min(1_000_000));
        let wanted = wanted.div_ceil(1_000_000).max(1) as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate().take(BUCKETS - 1) {
            seen += count;
            if seen >= wanted {
                return Some(1 << bucket);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_in_the_bucket_that_its_bounds_say() {
        let mut histogram = Histogram::default();
        for latency_us in [0, 1, 2, 3, 4, 1023, 1024, u64::MAX] {
            histogram.add(latency_us);
        }
        let at = |bucket: usize| histogram.counts[bucket];
        assert_eq!((at(0), at(1), at(2), at(3)), (1, 1, 2, 1));
        assert_eq!((at(10), at(11), at(31)), (1, 1, 1));
        assert_eq!(histogram.total(), 8);
    }

    #[test]
    fn the_bound_holds_the_share() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.bound_us(500_000), None);
        for latency_us in 0..100 {
            histogram.add(latency_us);
        }
        assert_eq!(histogram.bound_us(10_000), Some(1));
        assert_eq!(histogram.bound_us(500_000), Some(64));
        assert_eq!(histogram.bound_us(1_000_000), Some(128));
        histogram.add(u64::MAX);
        assert_eq!(histogram.bound_us(1_000_000), None);
    }
}
