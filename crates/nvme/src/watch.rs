// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When a queue pair's slow path runs, and which commands it found overdue.

/// Empty polls between two deadline checks; each reads the clock and checks one slot.
const POLLS_PER_DEADLINE_CHECK: u32 = 256;

/// The deadlines of a queue pair's commands.
#[derive(Debug)]
pub(crate) struct Watch<const DEPTH: usize> {
    timeout_ticks: u64,
    /// Empty polls until the slow path runs.
    polls_to_service: u32,
    next_slot: u32,
    /// For each slot, the last command that missed its deadline there and was asked to abort. A
    /// slot uses a CID again only after hundreds of others; then one recovery step is skipped.
    overdue: [Option<u16>; DEPTH],
}

impl<const DEPTH: usize> Watch<DEPTH> {
    pub(crate) const fn new(timeout_ticks: u64) -> Self {
        Self {
            timeout_ticks,
            polls_to_service: POLLS_PER_DEADLINE_CHECK,
            next_slot: 0,
            overdue: [None; DEPTH],
        }
    }

    pub(crate) fn set_timeout(&mut self, ticks: u64) {
        self.timeout_ticks = ticks;
    }

    /// Counts an empty poll. Returns whether the slow path is due.
    #[inline(always)]
    pub(crate) fn is_due(&mut self) -> bool {
        self.polls_to_service = self.polls_to_service.wrapping_sub(1);
        self.polls_to_service == 0
    }

    /// Makes the next empty poll run the slow path.
    #[inline(always)]
    pub(crate) fn hasten(&mut self) {
        self.polls_to_service = 1;
    }

    /// Postpones the slow path by the usual number of empty polls.
    #[inline(always)]
    pub(crate) fn put_off(&mut self) {
        self.polls_to_service = POLLS_PER_DEADLINE_CHECK;
    }

    /// The slot to check now; the next call returns the one after it.
    #[inline(always)]
    pub(crate) fn next_slot(&mut self) -> usize {
        let index = self.next_slot;
        self.next_slot = (index + 1) % DEPTH as u32;
        index as usize
    }

    /// Whether the time of a command submitted at `submitted` has expired at `now`.
    #[inline(always)]
    pub(crate) fn is_past(&self, submitted: u64, now: u64) -> bool {
        now.saturating_sub(submitted) >= self.timeout_ticks
    }

    /// The submission time of a command that has `grace` ticks left at `now`.
    pub(crate) fn submitted_for_grace(&self, grace: u64, now: u64) -> u64 {
        (now + grace.min(self.timeout_ticks)).saturating_sub(self.timeout_ticks)
    }

    /// Whether the command `cid` has missed its deadline.
    pub(crate) fn is_overdue(&self, cid: u16) -> bool {
        let mark = self.overdue.get(usize::from(cid) & (DEPTH - 1));
        mark == Some(&Some(cid))
    }

    pub(crate) fn mark_overdue(&mut self, index: usize, cid: u16) {
        if let Some(mark) = self.overdue.get_mut(index) {
            *mark = Some(cid);
        }
    }

    /// Forgets which commands were overdue, because none is outstanding.
    pub(crate) fn forget_overdue(&mut self) {
        self.overdue = [None; DEPTH];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slow_path_is_due_every_256_polls_and_visits_every_slot() {
        let mut watch = Watch::<4>::new(100);
        for slot in [0, 1, 2, 3, 0] {
            let polls = (1..).find(|_| watch.is_due());
            assert_eq!(polls, Some(POLLS_PER_DEADLINE_CHECK));
            watch.put_off();
            assert_eq!(watch.next_slot(), slot);
        }
        watch.hasten();
        assert!(watch.is_due());
    }

    #[test]
    fn a_grace_is_what_is_left_of_the_timeout() {
        let watch = Watch::<4>::new(100);
        for (grace, left) in [(0, 0), (30, 30), (100, 100), (500, 100)] {
            let submitted = watch.submitted_for_grace(grace, 1000);
            assert!(watch.is_past(submitted, 1000 + left));
            assert!(left == 0 || !watch.is_past(submitted, 1000 + left - 1));
        }
    }

    #[test]
    fn a_mark_is_for_one_generation_of_a_slot() {
        let mut watch = Watch::<4>::new(100);
        watch.mark_overdue(1, 5);
        assert!(watch.is_overdue(5) && !watch.is_overdue(1) && !watch.is_overdue(9));
        watch.forget_overdue();
        assert!(!watch.is_overdue(5));
    }
}
