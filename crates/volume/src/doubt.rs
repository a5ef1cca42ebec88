// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file of which one copy is not valid. The other copy may be of a file that was removed or
//! renamed since, where a program freed the slot in one member only: its units may be another
//! file's. `FORMAT.md`, rule R9 and "Files in doubt".

use block::Device;

use crate::bytes::{get_u8, get_u64};
use crate::io::{SPARE, State, WORK};
use crate::layout::{node, slot as slot_at};
use crate::lookup::FoundSlot;
use crate::run::Table;
use crate::slot::{Slot, State as SlotState};
use crate::superblock::Run;
use crate::token::SlotNode;
use crate::unsettled::Unsettled;
use crate::walk::Visit;
use crate::{Error, Volume, bitmap, error::Node};

/// Extents that are compared with those of all other files in one pass over the table.
const EXTENTS: usize = 16;

/// Whether a file in doubt exists. The worst that is found holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Claim {
    /// All its units are marked as used, and no other file has one of them.
    Sole,
    /// The same, as far as bitmaps, slots and leaves can be read.
    Unknown,
    /// Another file has some, and nothing says which of the two has them now.
    Disputed,
    /// Another file has taken some of them since, or they were freed: this one is gone.
    Gone,
}

/// Some units of a file.
struct Part {
    runs: [Run; EXTENTS],
    count: usize,
    /// The last operation on the file.
    last_op: u64,
    /// It is removed, and to be reaped.
    is_removed: bool,
    /// What is known from its map: a leaf that cannot be read has units too.
    claim: Claim,
}

impl Part {
    fn overlaps(&self, start: u64, len: u64) -> bool {
        let mut runs = self.runs.iter().take(self.count);
        runs.any(|run| start < run.start + u64::from(run.len) && run.start < start + len)
    }
}

impl<D: Device> Volume<'_, D> {
    /// Refuses a file in doubt that is gone, or may be; one that is to be changed also if that
    /// cannot be known. `found` is in memory, and what is returned too.
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
        let worst = if to_change {
            Claim::Sole
        } else {
            Claim::Unknown
        };
        if self.claim(node.lend(), slot).await? > worst {
            return Err(Error::from(Node::Slot(slot)));
        }
        self.read_slots(slot, 1).await?;
        Ok(FoundSlot { slot, index: 0 })
    }

    /// Compares the units of the file in `slot` with the bitmaps, and with those of every other
    /// file. Reads the table once for each sixteen extents.
    pub(crate) async fn claim(&self, mut node: SlotNode<'_>, slot: u32) -> Result<Claim, Error> {
        let count = self.slot_count();
        let unsettled = self.unsettled().await?;
        let mut claim = Claim::Sole;
        let mut from = 0;
        loop {
            let part = self.units_from(node.lend(), slot, from).await?;
            let marks = self.marks(&part, slot, &unsettled).await?;
            claim = claim.max(part.claim).max(marks);
            let is_tables = {
                let state = self.state();
                let mut runs = part.runs.iter().take(part.count);
                runs.any(|run| state.is_of_table(run.start, run.len.into()))
            };
            if is_tables {
                claim = Claim::Gone;
            }
            let mut first = 0;
            while first < count && part.count > 0 && claim != Claim::Gone {
                let run = self.read_slots(first, count - first).await?;
                for index in 0..run {
                    let slot_there = first + index;
                    if slot_there != slot {
                        let other = FoundSlot {
                            slot: slot_there,
                            index,
                        };
                        claim = claim.max(self.beside(node.lend(), other, &part).await?);
                    }
                }
                first += run;
            }
            if part.count < EXTENTS || claim == Claim::Gone {
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
        header: &mut Slot,
        visit: &mut dyn FnMut(Visit),
    ) -> Result<(), Error> {
        self.read_slots(slot, 1).await?;
        let loaded = self.load_found(node, FoundSlot { slot, index: 0 }, header)?;
        self.walk(loaded, header, visit).await
    }

    /// The units of the file in `slot`, from its extent or leaf number `from` on.
    async fn units_from(&self, node: SlotNode<'_>, slot: u32, from: usize) -> Result<Part, Error> {
        let mut part = Part {
            runs: [Run::default(); EXTENTS],
            count: 0,
            last_op: 0,
            is_removed: false,
            claim: Claim::Sole,
        };
        let mut passed = 0;
        let mut header = Slot::EMPTY;
        self.look_at(node, slot, &mut header, &mut |visit| match visit {
            Visit::Units { start, len } => {
                let place = part.runs.get_mut(part.count).filter(|_| passed >= from);
                passed += 1;
                if let Some(place) = place {
                    let len = len as u32;
                    *place = Run { start, len };
                    part.count += 1;
                }
            }
            Visit::Lost => part.claim = Claim::Unknown,
            Visit::OneMember { .. } => {}
        })
        .await?;
        part.last_op = header.last_op;
        part.is_removed = cfg!(feature = "grow") && header.state == SlotState::Reap;
        Ok(part)
    }

    /// What the file in this slot of the run that was read last says about `part`.
    async fn beside(
        &self,
        node: SlotNode<'_>,
        other: FoundSlot,
        part: &Part,
    ) -> Result<Claim, Error> {
        let FoundSlot { slot, index } = other;
        let is_certain = {
            let state = self.state();
            if state.renamed == slot {
                return Ok(Claim::Sole);
            }
            !state.is_doubtful(slot - index, index)
        };
        let mut header = Slot::EMPTY;
        let loaded = match self.load_found(node, other, &mut header) {
            Ok(loaded) if header.alloc_units > 0 => loaded,
            Ok(_) => return Ok(Claim::Sole),
            Err(Error::Corrupt(_)) => return Ok(Claim::Unknown),
            Err(error) => return Err(error),
        };
        let mut claim = Claim::Sole;
        // Who has units now got them by a later operation than the last one of who had them before.
        let shared = if header.last_op > part.last_op {
            Claim::Gone
        } else if is_certain || header.last_op == part.last_op {
            Claim::Disputed
        } else {
            Claim::Sole
        };
        self.walk(loaded, &header, &mut |visit| match visit {
            Visit::Units { start, len } if part.overlaps(start, len) => claim = claim.max(shared),
            Visit::Lost => claim = claim.max(Claim::Unknown),
            Visit::Units { .. } | Visit::OneMember { .. } => {}
        })
        .await?;
        Ok(claim)
    }

    /// What the bitmaps say about the units of `part`.
    async fn marks(&self, part: &Part, slot: u32, unsettled: &Unsettled) -> Result<Claim, Error> {
        let shape = self.shape();
        let mut claim = Claim::Sole;
        let may_be_clear = unsettled.is_removal() && part.is_removed;
        for run in part.runs.iter().take(part.count) {
            let Run { mut start, len } = *run;
            let end = start + u64::from(len);
            while start < end {
                let group = shape.group_of(start);
                let group_start = shape.group_start(group);
                let group_end = end.min(group_start + shape.group_units());
                match self.load_bitmap(group).await {
                    Ok(()) => {}
                    Err(Error::Corrupt(_)) => {
                        claim = claim.max(Claim::Unknown);
                        start = group_end;
                        continue;
                    }
                    Err(error) => return Err(error),
                }
                let state = self.state();
                let bytes = state.node(WORK);
                // What the record of this file's own operation names, recovery sets.
                let is_free = |unit: u64| {
                    !bitmap::is_used(bytes, (unit - group_start) as u32)
                        && !unsettled.is_of(unit, slot, part.last_op)
                        && !may_be_clear
                };
                if (start..group_end).any(is_free) {
                    // A bitmap that is older than the file was lost.
                    let is_later = get_u64(bytes, node::LAST_OP) > part.last_op;
                    claim = claim.max(if is_later {
                        Claim::Gone
                    } else {
                        Claim::Unknown
                    });
                }
                start = group_end;
            }
        }
        Ok(claim)
    }
}

impl<D: Device> State<'_, D> {
    /// Whether slot `index` of a run has a file with units that may be gone: one copy is not
    /// valid, or is what a release that frees the slot writes first.
    pub(crate) fn is_doubtful(&self, first: u32, index: u32) -> bool {
        if first + index == self.renamed {
            return false;
        }
        let Some((newest, both)) = self.newest_node_in_run(Table::Slots, first, index) else {
            return false;
        };
        let in_run = |node| self.in_run(node, index).unwrap_or_default();
        let (bytes, other) = (
            in_run(newest),
            in_run(if newest == WORK { SPARE } else { WORK }),
        );
        // A new file's slot has a later operation than the free one before it.
        let is_freed = get_u8(other, slot_at::STATE) == 0
            && get_u64(other, node::LAST_OP) >= get_u64(bytes, node::LAST_OP);
        let mut header = Slot::EMPTY;
        let names = self.superblock.most_name_bytes();
        (!both || is_freed)
            && header
                .decode(bytes, first + index, &self.shape(), names)
                .is_ok()
            && header.state != SlotState::Free
            && header.alloc_units > 0
    }
}
