// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which commands are outstanding: each has a slot from submission to its one report.
//!
//! A command's identifier is its slot's index and a generation, so that a duplicate or late
//! completion, or one with an invalid identifier, matches no slot.

use block::{Buffer, Tag};

/// Identifiers stay below 2^15: FFFFh is reserved (NVMe base specification, "Error Information").
const IDENTIFIERS: u32 = 0x7fff;
/// Set in a free slot's identifier, so that none from the controller equals it.
const FREE: u32 = 0x1_0000;
#[derive(Debug)]
struct Slot {
    /// The outstanding command's identifier; with [`FREE`], the next one.
    cid: u32,
    /// The command's tag; while the slot is free, the next free slot.
    tag: Tag,
    buffer: Option<Buffer>,
    /// When it was submitted, in the platform's ticks.
    submitted: u64,
}

/// `DEPTH` slots, of which some may be used.
#[derive(Debug)]
pub(crate) struct Slots<const DEPTH: usize> {
    first_free: u32,
    slots: [Slot; DEPTH],
}

impl<const DEPTH: usize> Slots<DEPTH> {
    const VALID: () = assert!(DEPTH.is_power_of_two() && DEPTH <= 4096);
    const INDEX: usize = DEPTH - 1;
    /// The end of the list of free slots.
    const NONE: u32 = DEPTH as u32;

    /// All free; at most `depth` of them, at least 1, will be used.
    pub(crate) fn new(depth: usize) -> Self {
        let () = Self::VALID;
        let last = depth.clamp(1, DEPTH) - 1;
        Self {
            first_free: 0,
            slots: core::array::from_fn(|index| Slot {
                cid: index as u32 | FREE,
                tag: if index < last {
                    index as u32 + 1
                } else {
                    Self::NONE
                },
                buffer: None,
                submitted: 0,
            }),
        }
    }

    /// The slot that the next [`take`](Self::take) uses.
    #[inline(always)]
    pub(crate) fn next(&self) -> Option<usize> {
        (self.first_free < Self::NONE).then_some(self.first_free as usize)
    }

    /// Makes slot `index`, which [`next`](Self::next) gave, outstanding; returns its identifier.
    #[inline(always)]
    pub(crate) fn take(&mut self, index: usize, tag: Tag, buffer: Option<Buffer>, now: u64) -> u16 {
        let Some(slot) = self.slots.get_mut(index) else {
            debug_assert!(false, "slot {index} was not given by `next`");
            return 0;
        };
        let cid = slot.cid as u16;
        self.first_free = core::mem::replace(&mut slot.tag, tag);
        slot.cid = u32::from(cid);
        slot.buffer = buffer;
        slot.submitted = now;
        cid
    }

    /// Ends the command `cid`; `None` if it is not outstanding.
    #[inline(always)]
    pub(crate) fn end(&mut self, cid: u16) -> Option<(Tag, Option<Buffer>)> {
        let index = usize::from(cid) & Self::INDEX;
        let slot = self.slots.get_mut(index)?;
        let cid = u32::from(cid);
        if slot.cid != cid {
            return None;
        }
        slot.cid = (cid + DEPTH as u32 + FREE) & (IDENTIFIERS | FREE);
        let tag = core::mem::replace(&mut slot.tag, self.first_free);
        self.first_free = index as u32;
        Some((tag, slot.buffer.take()))
    }

    /// The outstanding command in slot `index` and when it was submitted.
    pub(crate) fn get(&self, index: usize) -> Option<(u16, u64)> {
        let slot = self.slots.get(index)?;
        let cid = u16::try_from(slot.cid).ok()?;
        Some((cid, slot.submitted))
    }

    /// Sets the submission time of the command in slot `index`.
    pub(crate) fn set_submitted(&mut self, index: usize, submitted: u64) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.submitted = submitted;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_ends_once() {
        let mut slots = Slots::<4>::new(4);
        let index = slots.next().unwrap();
        let first = slots.take(index, 7, None, 1);
        assert_eq!(slots.end(first).map(|(tag, _)| tag), Some(7));
        assert!(slots.end(first).is_none(), "ended twice");
        assert_eq!(slots.next(), Some(index));
        let again = slots.take(index, 8, None, 1);
        assert_ne!(again, first, "the same slot has a new generation");
        assert!(slots.end(first).is_none(), "a late completion was accepted");
        assert!(slots.end(again).is_some());
        let free = (again + 4) & 0x7fff;
        assert!(
            slots.end(free).is_none(),
            "a free slot's next cid was accepted"
        );
    }

    #[test]
    fn the_depth_may_be_less_than_the_room() {
        let mut slots = Slots::<8>::new(2);
        for tag in 0..2 {
            let index = slots.next().unwrap();
            slots.take(index, tag, None, 0);
        }
        assert!(slots.next().is_none());
    }

    #[test]
    fn generations_wrap_below_the_reserved_identifier() {
        let mut slots = Slots::<2>::new(1);
        for _ in 0..100_000 {
            let index = slots.next().unwrap();
            let cid = slots.take(index, 0, None, 0);
            assert!(cid < 0x8000);
            assert!(slots.end(cid).is_some());
        }
    }
}
