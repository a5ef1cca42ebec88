// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a change was acknowledged that no flush has covered.

/// Counts changes that are acknowledged and may be in the target's volatile cache, and what flushes
/// have covered of them.
#[derive(Debug, Default)]
pub(super) struct Unflushed {
    acknowledged: u64,
    covered: u64,
    /// What had been acknowledged when the oldest outstanding flush was submitted.
    mark: u64,
    flushes: u32,
}

impl Unflushed {
    /// A change was acknowledged that need not be durable.
    pub(super) fn changed(&mut self) {
        self.acknowledged += 1;
    }

    /// A flush is submitted.
    pub(super) fn flush_begins(&mut self) {
        if self.flushes == 0 {
            self.mark = self.acknowledged;
        }
        self.flushes += 1;
    }

    /// A flush has ended. One that was submitted later than the oldest covers more, which is not
    /// counted.
    pub(super) fn flush_ended(&mut self, is_success: bool) {
        self.flushes = self.flushes.saturating_sub(1);
        if is_success {
            self.covered = self.covered.max(self.mark);
        }
    }

    /// Whether changes are not covered. It says so once for each of them.
    pub(super) fn take(&mut self) -> bool {
        let is_any = self.covered < self.acknowledged;
        self.covered = self.acknowledged;
        is_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_covers_what_was_acknowledged_before_it_began() {
        let mut unflushed = Unflushed::default();
        assert!(!unflushed.take());
        unflushed.changed();
        unflushed.flush_begins();
        unflushed.flush_ended(true);
        assert!(!unflushed.take());
        unflushed.flush_begins();
        unflushed.changed();
        unflushed.flush_ended(true);
        assert!(unflushed.take() && !unflushed.take());
        unflushed.changed();
        unflushed.flush_begins();
        unflushed.flush_ended(false);
        assert!(unflushed.take());
    }
}
