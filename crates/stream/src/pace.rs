// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When the n-th block is due at a fixed rate, without drift.

/// The times at which blocks of one size are due at a rate.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// A block's time is `ticks + rest / rate`.
    ticks: u64,
    rest: u64,
    rate: u64,
    passed_ticks: u64,
    passed_rest: u64,
}

impl Pace {
    /// Blocks of `block_bytes` at `bytes_per_second`, in ticks of a clock. A rate of 0 means no
    /// rate: everything is due immediately.
    pub fn new(ticks_per_second: u64, bytes_per_second: u64, block_bytes: usize) -> Self {
        let rate = bytes_per_second.max(1);
        let product = if bytes_per_second == 0 {
            0
        } else {
            block_bytes as u128 * u128::from(ticks_per_second)
        };
        Self {
            ticks: u64::try_from(product / u128::from(rate)).unwrap_or(u64::MAX),
            rest: (product % u128::from(rate)) as u64,
            rate,
            passed_ticks: 0,
            passed_rest: 0,
        }
    }

    /// Ticks from the start to the current block; 0 at first.
    pub const fn passed(&self) -> u64 {
        self.passed_ticks
    }

    /// Whether there is a rate.
    pub const fn is_paced(&self) -> bool {
        self.ticks != 0 || self.rest != 0
    }

    /// Advances by `blocks` blocks.
    pub fn skip(&mut self, blocks: u64) {
        let rest = u128::from(self.passed_rest) + u128::from(self.rest) * u128::from(blocks);
        let whole = u128::from(self.ticks) * u128::from(blocks);
        let ticks = whole.saturating_add(rest / u128::from(self.rate));
        let ticks = u64::try_from(ticks).unwrap_or(u64::MAX);
        self.passed_ticks = self.passed_ticks.saturating_add(ticks);
        self.passed_rest = (rest % u128::from(self.rate)) as u64;
    }

    /// Advances by one block.
    pub fn advance(&mut self) {
        self.passed_ticks = self.passed_ticks.saturating_add(self.ticks);
        // Both are less than the rate.
        let (sum, carried) = self.passed_rest.overflowing_add(self.rest);
        if carried || sum >= self.rate {
            self.passed_rest = sum.wrapping_sub(self.rate);
            self.passed_ticks = self.passed_ticks.saturating_add(1);
        } else {
            self.passed_rest = sum;
        }
    }
}

/// `ticks` of a clock in microseconds, rounded down.
pub fn us_from_ticks(ticks: u64, ticks_per_second: u64) -> u64 {
    match ticks.checked_mul(1_000_000) {
        Some(product) => product / ticks_per_second.max(1),
        None => (ticks / ticks_per_second.max(1)).saturating_mul(1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_does_not_drift() {
        // 3 bytes a second, in blocks of 7, on a clock of 1,000: 2,333.33 ticks a block.
        let mut pace = Pace::new(1_000, 3, 7);
        for block in 0..30_000u64 {
            assert_eq!(pace.passed(), block * 7_000 / 3);
            pace.advance();
        }
        let mut free = Pace::new(1_000, 0, 7);
        free.advance();
        assert_eq!(free.passed(), 0);
        let mut slow = Pace::new(u64::MAX, 1, usize::MAX);
        slow.advance();
        slow.advance();
        assert_eq!(slow.passed(), u64::MAX);
    }

    #[test]
    fn a_skip_is_as_many_steps() {
        let mut stepped = Pace::new(1_000, 3, 7);
        let mut skipped = stepped;
        for blocks in [0, 1, 2, 30, 1_000, 1] {
            (0..blocks).for_each(|_| stepped.advance());
            skipped.skip(blocks);
            assert_eq!(skipped.passed(), stepped.passed());
            assert_eq!(skipped.passed_rest, stepped.passed_rest);
        }
        skipped.skip(u64::MAX);
        skipped.skip(u64::MAX);
        assert_eq!(skipped.passed(), u64::MAX);
        let mut slow = Pace::new(u64::MAX, 1, usize::MAX);
        slow.skip(u64::MAX);
        assert_eq!(slow.passed(), u64::MAX);
    }

    #[test]
    fn ticks_are_microseconds_rounded_down() {
        assert_eq!(us_from_ticks(1_999, 1_000_000_000), 1);
        assert_eq!(
            us_from_ticks(u64::MAX, 1_000_000),
            u64::MAX / 1_000_000 * 1_000_000
        );
    }
}
