// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests that wait for a line, in the order of their submission.

use block::{Operation, Request};

/// A request that cannot go on yet.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) request: Request,
    /// Lines that began before this concern it, if it is a flush or has `fua`.
    pub(crate) mark: u64,
    /// Its stream, if it continues one.
    pub(crate) stream: Option<usize>,
    /// Failed lines in its way have been tried again on its behalf.
    pub(crate) has_retried: bool,
    /// A line was read on its behalf.
    pub(crate) has_waited: bool,
}

impl Waiting {
    pub(crate) const fn new(request: Request, stream: Option<usize>, mark: u64) -> Self {
        Self {
            request,
            mark,
            stream,
            has_retried: false,
            has_waited: false,
        }
    }
}

/// A queue from which any element may leave.
#[derive(Debug)]
pub(crate) struct Queue<const DEPTH: usize> {
    entries: [Option<Waiting>; DEPTH],
    count: usize,
}

impl<const DEPTH: usize> Queue<DEPTH> {
    pub(crate) const fn new() -> Self {
        Self {
            entries: [const { None }; DEPTH],
            count: 0,
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    /// Appends; the caller has checked that there is room.
    pub(crate) fn push(&mut self, waiting: Waiting) {
        debug_assert!(self.count < DEPTH, "more requests than the queue holds");
        if let Some(place) = self.entries.get_mut(self.count) {
            *place = Some(waiting);
            self.count += 1;
        }
    }

    /// Takes the element at `index` out; [`keep`](Queue::keep) and [`end`](Queue::end) close the
    /// gap.
    pub(crate) fn take(&mut self, index: usize) -> Option<Waiting> {
        self.entries.get_mut(index)?.take()
    }

    /// Puts an element back at `index`, which is at most where it was taken.
    pub(crate) fn keep(&mut self, index: usize, waiting: Waiting) {
        if let Some(place) = self.entries.get_mut(index) {
            *place = Some(waiting);
        }
    }

    /// Declares that `count` elements were kept, at the front.
    pub(crate) fn end(&mut self, count: usize) {
        self.count = count;
    }

    /// Whether one of the first `count` must go before an access to this range: they overlap, and
    /// one of them is a change.
    pub(crate) fn holds_back(&self, count: usize, request: &Request, block_size_log2: u8) -> bool {
        let Some((lba, blocks, is_change)) = range(&request.operation, block_size_log2) else {
            return false;
        };
        self.entries.iter().take(count).flatten().any(|earlier| {
            range(&earlier.request.operation, block_size_log2).is_some_and(
                |(other, other_blocks, changes)| {
                    (is_change || changes)
                        && lba < other + u64::from(other_blocks)
                        && other < lba + u64::from(blocks)
                },
            )
        })
    }
}

/// First block, number of blocks, and whether they are changed; `None` for a flush.
pub(crate) fn range(operation: &Operation, block_size_log2: u8) -> Option<(u64, u32, bool)> {
    let blocks = |len: usize| (len >> block_size_log2) as u32;
    match operation {
        Operation::Read { lba, buffer } => Some((*lba, blocks(buffer.len()), false)),
        Operation::Write { lba, buffer, .. } => Some((*lba, blocks(buffer.len()), true)),
        Operation::Discard { lba, block_count }
        | Operation::WriteZeroes {
            lba, block_count, ..
        } => Some((*lba, *block_count, true)),
        Operation::Flush => None,
    }
}
