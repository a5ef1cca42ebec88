//! Time, as a device's deadline needs it.

/// A monotonic clock that is cheap enough to read for each request.
pub trait Clock {
    /// The time now, in ticks since a fixed but unknown moment. Never goes back.
    fn ticks(&self) -> u64;

    /// How many ticks a second has; constant, at least 1,000.
    fn ticks_per_second(&self) -> u64;

    /// `microseconds` in ticks, rounded up so that a deadline is never early.
    fn ticks_from_us(&self, microseconds: u64) -> u64 {
        // In two parts: a product of 128 bits costs a small processor a thousand bytes of code.
        let per_second = self.ticks_per_second();
        let (seconds, rest) = (microseconds / 1_000_000, microseconds % 1_000_000);
        let part = rest.saturating_mul(per_second).div_ceil(1_000_000);
        seconds.saturating_mul(per_second).saturating_add(part)
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
