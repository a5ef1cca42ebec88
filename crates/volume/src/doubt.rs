// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file of which one copy rotted. The other copy may be of a file that was removed or renamed
//! since, where a program freed the slot in one member only: its units may be another file's.
//! `FORMAT.md`, rule R9.

use block::Device;

use crate::io::{SPARE, State, WORK};
use crate::lookup::FoundSlot;
use crate::map::Extent;
use crate::run::Table;
use crate::slot::{Slot, State as SlotState};
use crate::superblock::Run;
use crate::token::SlotNode;
use crate::walk::Visit;
use crate::{Error, Volume, bitmap, error::Node};

/// Extents that are compared with those of all other files in one pass over the table.
const EXTENTS: usize = 16;

/// Whose the units of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// No other file has one of them.
    Sole,
    /// Another file of which one copy is invalid has some too: either may be the one that is gone.
    Disputed,
    /// Another file has some, whose slot is in order: this one is gone.
    Taken,
}

/// Some units of a file.
struct Part {
    runs: [Run; EXTENTS],
    count: usize,
}

impl Part {
    fn overlaps(&self, start: u64, len: u64) -> bool {
        let mut runs = self.runs.iter().take(self.count);
        runs.any(|run| start < run.start + u64::from(run.len) && run.start < start + len)
    }
}

impl<D: Device> Volume<'_, D> {
    /// Refuses a file that is doubtful and has units that another one has too, or, if it is to be
    /// changed, units that are not marked as used. `found` is in memory, and what is returned too.
    ///
    /// # Errors
    /// [`Error::Corrupt`] names the slot.
    pub(crate) async fn refuse_doubtful(
        &self,
        mut node: SlotNode<'_>,
        found: FoundSlot,
        to_change: bool,
    ) -> Result<FoundSlot, Error> {
        let FoundSlot { slot, index } = found;
        if !self.state().is_doubtful(slot - index, index) {
            return Ok(found);
        }
        let is_sole = self.claim(node.lend(), slot).await? == Claim::Sole;
        if !is_sole || to_change && !self.is_marked(node, slot).await? {
            return Err(Error::from(Node::Slot(slot)));
        }
        self.read_slots(slot, 1).await?;
        Ok(FoundSlot { slot, index: 0 })
    }

    /// Compares the units of the file in `slot` with those of every other file. Reads the table
    /// once for each sixteen extents.
    pub(crate) async fn claim(&self, mut node: SlotNode<'_>, slot: u32) -> Result<Claim, Error> {
        let count = self.shape().slot_count();
        let mut claim = Claim::Sole;
        let mut from = 0;
        loop {
            let part = self.units_from(node.lend(), slot, from).await?;
            let mut first = 0;
            while first < count && part.count > 0 {
                let run = self.read_slots(first, count - first).await?;
                for index in 0..run {
                    let other = FoundSlot {
                        slot: first + index,
                        index,
                    };
                    let is_certain = !self.state().is_doubtful(first, index);
                    if other.slot == slot || !self.shares(node.lend(), other, &part).await? {
                        continue;
                    }
                    if is_certain {
                        return Ok(Claim::Taken);
                    }
                    claim = Claim::Disputed;
                }
                first += run;
            }
            if part.count < EXTENTS {
                return Ok(claim);
            }
            from += EXTENTS;
        }
    }

    /// Loads a slot as it is: its invalid copy is not erased.
    async fn look_at(
        &self,
        node: SlotNode<'_>,
        slot: u32,
        visit: &mut dyn FnMut(Visit),
    ) -> Result<(), Error> {
        self.read_slots(slot, 1).await?;
        let mut header = Slot::EMPTY;
        let loaded = self.load_found(node, FoundSlot { slot, index: 0 }, &mut header)?;
        self.walk(loaded, &header, visit).await
    }

    /// The units of the file in `slot`, from its extent or leaf number `from` on.
    async fn units_from(&self, node: SlotNode<'_>, slot: u32, from: usize) -> Result<Part, Error> {
        let mut part = Part {
            runs: [Run::default(); EXTENTS],
            count: 0,
        };
        let mut passed = 0;
        self.look_at(node, slot, &mut |visit| {
            let Visit::Units { start, len } = visit else {
                return;
            };
            let place = part.runs.get_mut(part.count).filter(|_| passed >= from);
            passed += 1;
            if let Some(place) = place {
                let len = len as u32;
                *place = Run { start, len };
                part.count += 1;
            }
        })
        .await?;
        Ok(part)
    }

    /// Whether the file in this slot of the run that was read last has units of `part`. A slot that
    /// cannot be read has none.
    async fn shares(
        &self,
        node: SlotNode<'_>,
        other: FoundSlot,
        part: &Part,
    ) -> Result<bool, Error> {
        if self.state().renamed == other.slot {
            return Ok(false);
        }
        let mut header = Slot::EMPTY;
        let loaded = match self.load_found(node, other, &mut header) {
            Ok(loaded) if header.alloc_units > 0 => loaded,
            Ok(_) | Err(Error::Corrupt(_)) => return Ok(false),
            Err(error) => return Err(error),
        };
        let mut shares = false;
        self.walk(loaded, &header, &mut |visit| {
            if let Visit::Units { start, len } = visit {
                shares |= part.overlaps(start, len);
            }
        })
        .await?;
        Ok(shares)
    }

    /// Whether all units of the file in `slot` are marked as used.
    async fn is_marked(&self, mut node: SlotNode<'_>, slot: u32) -> Result<bool, Error> {
        let shape = self.shape();
        let mut from = 0;
        loop {
            let part = self.units_from(node.lend(), slot, from).await?;
            for run in part.runs.iter().take(part.count) {
                let mut rest = Extent {
                    logical: 0,
                    start: run.start,
                    len: run.len,
                };
                while rest.len > 0 {
                    let group = shape.group_of(rest.start);
                    let end = shape.group_start(group) + shape.group_units();
                    let len = rest.len.min((end - rest.start) as u32);
                    self.load_bitmap(group).await?;
                    let first = shape.unit_in_group(rest.start);
                    let state = self.state();
                    let bytes = state.node(WORK);
                    if !(first..first + len).all(|unit| bitmap::is_used(bytes, unit)) {
                        return Ok(false);
                    }
                    rest.start += u64::from(len);
                    rest.len -= len;
                }
            }
            if part.count < EXTENTS {
                return Ok(true);
            }
            from += EXTENTS;
        }
    }
}

impl<D: Device> State<'_, D> {
    /// Whether slot `index` of a run has a file with units of which one copy is invalid, and was
    /// not erased by R8.
    pub(crate) fn is_doubtful(&self, first: u32, index: u32) -> bool {
        if first + index == self.renamed {
            return false;
        }
        let Some((newest, false)) = self.newest_node_in_run(Table::Slots, first, index) else {
            return false;
        };
        let other = if newest == WORK { SPARE } else { WORK };
        let erased = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0xff);
        let has_units = |bytes: &[u8]| {
            let mut header = Slot::EMPTY;
            let names = self.superblock.most_name_bytes();
            let decoded = header.decode(bytes, first + index, &self.shape(), names);
            decoded.is_ok() && header.state != SlotState::Free && header.alloc_units > 0
        };
        !self.in_run(other, index).is_some_and(erased)
            && self.in_run(newest, index).is_some_and(has_units)
    }
}
