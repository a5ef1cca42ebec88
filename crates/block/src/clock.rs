// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time, as a device's deadline needs it.

/// A monotonic clock that is cheap enough to read for each request.
pub trait Clock {
    /// The time now, in ticks since a fixed but unknown moment. Never goes back.
    fn ticks(&self) -> u64;

    /// How many ticks a second has; constant, at least 1,000.
    fn ticks_per_second(&self) -> u64;

    /// `microseconds` in ticks, rounded up so that a deadline is never early.
    fn ticks_from_us(&self, microseconds: u64) -> u64 {
        product_rounded_up(microseconds, self.ticks_per_second())
    }
}

/// `microseconds` in ticks of a clock with `ticks_per_second`, computed in two parts: a 128-bit
/// product costs a small processor a thousand bytes of code. Shared by all clocks.
#[inline(never)]
fn product_rounded_up(microseconds: u64, per_second: u64) -> u64 {
    let (seconds, rest) = (microseconds / 1_000_000, microseconds % 1_000_000);
    let part = rest.saturating_mul(per_second).div_ceil(1_000_000);
    seconds.saturating_mul(per_second).saturating_add(part)
}

impl<C: Clock + ?Sized> Clock for &C {
    fn ticks(&self) -> u64 {
        (**self).ticks()
    }

    fn ticks_per_second(&self) -> u64 {
        (**self).ticks_per_second()
    }
}

#[cfg(test)]
mod tests {
    use super::product_rounded_up;

    #[test]
    fn the_parts_give_the_whole_product() {
        let values = [0, 1, 7, 999_999, 1_000_000, 1_000_001, 30_000_000, u64::MAX];
        for per_second in [1000, 32_768, 10_000_000, 1_000_000_000, 3_700_000_001] {
            for microseconds in values {
                let product = u128::from(microseconds) * u128::from(per_second);
                let whole = u64::try_from(product.div_ceil(1_000_000)).unwrap_or(u64::MAX);
                assert_eq!(product_rounded_up(microseconds, per_second), whole);
            }
        }
    }
}
