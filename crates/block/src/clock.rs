//! Time, as a device's deadline needs it.

/// A monotonic clock that is cheap enough to read for each request.
pub trait Clock {
    /// The time now, in ticks since a fixed but unknown moment. Never goes back.
    fn ticks(&self) -> u64;

    /// How many ticks a second has; constant, at least 1,000.
    fn ticks_per_second(&self) -> u64;

    /// `microseconds` in ticks, rounded up so that a deadline is never early.
    fn ticks_from_us(&self, microseconds: u64) -> u64 {
        let product = u128::from(microseconds) * u128::from(self.ticks_per_second());
        u64::try_from(product.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

impl<C: Clock + ?Sized> Clock for &C {
    fn ticks(&self) -> u64 {
        (**self).ticks()
    }

    fn ticks_per_second(&self) -> u64 {
        (**self).ticks_per_second()
    }
}
