// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queues, and what is posted to them (NVMe base specification 1.4, "Submission Queue & Completion
//! Queue Definition").

use std::collections::VecDeque;

/// A submission queue, from the controller's side.
#[derive(Debug)]
pub(crate) struct SubmissionQueue {
    pub(crate) base: u64,
    pub(crate) entries: u32,
    pub(crate) head: u32,
    pub(crate) tail: u32,
    /// Its completion queue.
    pub(crate) completion: u16,
    /// The identifier of the command completed last, for a fault.
    pub(crate) completed: Option<u16>,
}

impl SubmissionQueue {
    pub(crate) fn new(base: u64, entries: u32, completion: u16) -> Self {
        Self {
            base,
            entries,
            head: 0,
            tail: 0,
            completion,
            completed: None,
        }
    }

    /// Takes a new tail; `None` if there is no such entry, or it would overtake the head.
    pub(crate) fn set_tail(&mut self, tail: u32) -> Option<()> {
        let (used, added) = (
            distance(self.head, self.tail, self.entries),
            distance(self.tail, tail, self.entries),
        );
        if tail >= self.entries || used + added >= self.entries {
            return None;
        }
        self.tail = tail;
        Some(())
    }

    /// Bus address of the entry at the head, if there is one.
    pub(crate) fn next(&self) -> Option<u64> {
        (self.head != self.tail).then(|| self.base + u64::from(self.head) * 64)
    }

    pub(crate) fn advance(&mut self) {
        self.head = step(self.head, self.entries);
    }
}

/// A completion queue, from the controller's side.
#[derive(Debug)]
pub(crate) struct CompletionQueue {
    pub(crate) base: u64,
    pub(crate) entries: u32,
    pub(crate) head: u32,
    pub(crate) tail: u32,
    pub(crate) phase: bool,
    /// The interrupt vector, if interrupts are enabled.
    pub(crate) vector: Option<u16>,
    /// Completions that wait for a free entry.
    pub(crate) backlog: VecDeque<Posting>,
}

impl CompletionQueue {
    pub(crate) fn new(base: u64, entries: u32, vector: Option<u16>) -> Self {
        Self {
            base,
            entries,
            head: 0,
            tail: 0,
            phase: true,
            vector,
            backlog: VecDeque::new(),
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        step(self.tail, self.entries) == self.head
    }

    /// Takes a new head; `None` if it passes what was posted.
    pub(crate) fn set_head(&mut self, head: u32) -> Option<()> {
        let posted = distance(self.head, self.tail, self.entries);
        if head >= self.entries || distance(self.head, head, self.entries) > posted {
            return None;
        }
        self.head = head;
        Some(())
    }

    /// Where the next entry goes, and its phase.
    pub(crate) fn take(&mut self) -> (u64, bool) {
        let place = (self.base + u64::from(self.tail) * 16, self.phase);
        self.tail = step(self.tail, self.entries);
        if self.tail == 0 {
            self.phase = !self.phase;
        }
        place
    }
}

/// A completion to be posted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Posting {
    pub(crate) specific: u32,
    pub(crate) submission: u16,
    /// The queue that the entry names: `submission`, unless a fault changes it.
    pub(crate) named_submission: u16,
    /// Overrides the submission queue's head.
    pub(crate) head: Option<u16>,
    pub(crate) id: u16,
    pub(crate) status: u16,
    pub(crate) invert_phase: bool,
    pub(crate) silent: bool,
}

impl Posting {
    pub(crate) fn new(submission: u16, id: u16, outcome: Result<u32, u16>) -> Self {
        let (specific, status) = match outcome {
            Ok(specific) => (specific, 0),
            Err(status) => (0, status),
        };
        Self {
            specific,
            submission,
            named_submission: submission,
            head: None,
            id,
            status,
            invert_phase: false,
            silent: false,
        }
    }
}

fn step(index: u32, entries: u32) -> u32 {
    if index + 1 >= entries { 0 } else { index + 1 }
}

/// The number of steps forward from `from` to `to`.
fn distance(from: u32, to: u32, entries: u32) -> u32 {
    if to >= from {
        to - from
    } else {
        to + entries - from
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_cannot_overtake_the_head() {
        let mut queue = SubmissionQueue::new(0, 4, 0);
        assert!(queue.set_tail(4).is_none());
        assert!(queue.set_tail(3).is_some());
        assert!(queue.set_tail(0).is_none());
        queue.advance();
        assert!(queue.set_tail(0).is_some());
        assert_eq!(queue.next(), Some(64));
    }

    #[test]
    fn a_head_cannot_pass_the_tail_and_the_phase_turns_at_the_end() {
        let mut queue = CompletionQueue::new(0, 2, None);
        assert!(queue.set_head(1).is_none());
        assert_eq!(queue.take(), (0, true));
        assert!(queue.is_full());
        assert!(queue.set_head(1).is_some());
        assert_eq!(queue.take(), (16, true));
        assert!(queue.set_head(0).is_some());
        assert_eq!(queue.take(), (0, false));
    }
}
