// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A queue pair's two rings, and how much of them the doorbells have published.
//!
//! The functions on the I/O path are inlined: they do not depend on the platform, so a firmware
//! that compiles its platform for speed and this crate for size would otherwise call them.

use crate::memory::{CompletionRing, SubmissionRing};
use crate::platform::Dma;
use crate::recovery::QueueMemory;

/// A submission and a completion ring of the same length.
#[derive(Debug)]
pub(crate) struct Rings {
    pub(crate) submission: SubmissionRing,
    pub(crate) completion: CompletionRing,
    /// The tail that the submission doorbell was rung with last.
    pub(crate) rung_tail: u32,
    /// The head that the completion doorbell was rung with last.
    pub(crate) rung_head: u32,
    /// Completion queue entries beyond one for each command that ended, modulo the ring's length.
    surplus: u32,
}

impl Rings {
    /// Empty rings in `memory`, which is zeroed; `None` if they do not fit.
    pub(crate) fn new(memory: &QueueMemory) -> Option<Self> {
        Some(Self {
            submission: SubmissionRing::new(memory.submission, memory.entries)?,
            completion: CompletionRing::new(memory.completion, memory.entries)?,
            rung_tail: 0,
            rung_head: 0,
            surplus: 0,
        })
    }

    /// Empties the rings, which are in `memory`. The controller must no longer use them.
    #[inline(never)]
    pub(crate) fn restart<D: Dma>(&mut self, dma: &D, memory: &QueueMemory) {
        for part in [&memory.submission, &memory.completion] {
            part.clear();
            dma.clean(part.address(), part.len);
        }
        self.submission.restart();
        self.completion.restart();
        self.rung_tail = 0;
        self.rung_head = 0;
        self.surplus = 0;
    }

    /// Commands that were submitted and have not ended.
    #[inline(always)]
    pub(crate) fn outstanding(&self) -> usize {
        // The rings have twice as many entries as commands can be outstanding.
        let (tail, head) = (self.submission.tail(), self.completion.head());
        let outstanding = tail.wrapping_sub(head).wrapping_add(self.surplus);
        (outstanding & self.completion.mask()) as usize
    }

    /// Counts an entry that completed no command.
    #[inline(always)]
    pub(crate) fn took_stray(&mut self) {
        self.surplus = self.surplus.wrapping_add(1);
    }

    /// Counts a command that ended without a completion entry.
    pub(crate) fn ended_without_entry(&mut self) {
        self.surplus = self.surplus.wrapping_sub(1);
    }

    /// Whether entries were submitted that the doorbell has not announced.
    #[inline(always)]
    pub(crate) fn has_unannounced(&self) -> bool {
        self.submission.has_passed(self.rung_tail)
    }

    /// Whether entries were consumed that the doorbell has not acknowledged.
    pub(crate) fn has_unacknowledged(&self) -> bool {
        self.completion.head() != self.rung_head
    }
}
