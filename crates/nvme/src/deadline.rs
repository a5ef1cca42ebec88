// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Deadlines for the waits of slow paths.

use block::Clock;

/// A moment after which waiting ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(u64);

impl Deadline {
    #[inline(never)]
    pub(crate) fn after_us<C: Clock>(clock: &C, microseconds: u64) -> Self {
        let ticks = clock.ticks_from_us(microseconds);
        Self(clock.ticks().saturating_add(ticks))
    }

    pub(crate) fn is_over<C: Clock>(self, clock: &C) -> bool {
        clock.ticks() >= self.0
    }
}
