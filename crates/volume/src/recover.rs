// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completing or undoing, at mount, the one operation that a power cut may have left half-way.
//! `FORMAT.md`, "Recovery".

use block::Device;

use crate::bytes::get_u64;
use crate::io::{NO_GROUP, SPARE, WORK};
use crate::layout::{RECORD_SLOTS, node};
use crate::order::{Mutation, Order};
use crate::slot::{Slot, State as SlotState};
use crate::superblock::{Operation, Run, Runs, Slots};
use crate::token::SlotNode;
use crate::{Error, Volume, bitmap};

impl<D: Device> Volume<'_, D> {
    /// An operation has happened if and only if the slot that decides it carries the operation's
    /// number. The other nodes are then made to agree, so running this twice changes nothing.
    pub(crate) async fn recover(&self, operation: &Operation) -> Result<(), Error> {
        let mut turn = self.turn_to_change().await?;
        let op_seq = self.state().superblock.seq;
        let mut decider = Slot::EMPTY;
        match operation {
            _ if self.state().is_mutated(Mutation::NoRecovery) => {}
            Operation::None => {}
            Operation::Reserve { slot, runs } => {
                self.load_slot(turn.slot.lend(), *slot, &mut decider)
                    .await?;
                let happened = decider.last_op >= op_seq;
                self.settle_bitmaps(runs, happened, &[], op_seq).await?;
            }
            Operation::Release { slot, runs } => {
                self.load_slot(turn.slot.lend(), *slot, &mut decider)
                    .await?;
                // The older member of a slot that becomes free is in force where the newest one,
                // which would carry the number, is torn.
                let happened = decider.last_op >= op_seq || decider.state == SlotState::Free;
                self.settle_bitmaps(runs, !happened, &[], op_seq).await?;
                self.settle_copy(turn.slot.lend(), *slot).await?;
            }
            Operation::Create { runs, slots } => {
                let owned = self.created(turn.slot.lend(), runs, slots, op_seq).await?;
                self.settle_bitmaps(runs, false, &owned, op_seq).await?;
            }
            Operation::CreateList { runs, count } => {
                if let Some(run) = runs.as_slice().first() {
                    self.settle_list(turn.slot.lend(), run, *count, op_seq)
                        .await?;
                }
            }
            #[cfg(feature = "grow")]
            Operation::RemoveList { runs, count } => {
                if let Some(run) = runs.as_slice().first() {
                    self.settle_removed(turn.slot.lend(), run, *count, op_seq)
                        .await?;
                }
            }
            Operation::Rename { from, to } => {
                self.load_slot(turn.slot.lend(), *to, &mut decider).await?;
                let happened = decider.last_op >= op_seq;
                let mut old = Slot::EMPTY;
                let loaded = self.load_slot(turn.slot.lend(), *from, &mut old).await?;
                // A file made in the old slot after the rename was complete carries its own number.
                if happened && old.last_op < op_seq {
                    old = Slot::free(*from, old.seq, op_seq);
                    self.perform(|state| {
                        state.order(Order::CacheBeforeRecovery);
                        state.put_slot(loaded, &mut old, false);
                    })
                    .await?;
                }
                self.settle_copy(turn.slot.lend(), *from).await?;
            }
        }
        self.settle_table(turn.slot.lend()).await?;
        self.perform(|state| {
            // The recovered nodes must be durable before the record is removed.
            state.order(Order::RecoveryBeforeClear);
            // The next operation has a barrier before what it writes, which covers this too.
            state.put_superblock(SPARE, &Operation::None, false);
        })
        .await?;
        {
            let mut state = self.state();
            state.superblock.mount_count = state.superblock.mount_count.wrapping_add(1);
        }
        turn.done();
        Ok(())
    }

    /// R9: where one member of a slot is free and the other is not, the cut was between them, or
    /// another program freed it in one member only. Makes the older one like the newest, unless the
    /// file has a reservation: with equal members that would count as kept on purpose.
    async fn settle_copy(&self, node: SlotNode<'_>, slot: u32) -> Result<(), Error> {
        self.read_slots(slot, 1).await?;
        if !self.state().frees_half(slot, 0) || self.state().is_mutated(Mutation::HalfFree) {
            return Ok(());
        }
        let mut header = Slot::EMPTY;
        let loaded = self.load_slot(node, slot, &mut header).await?;
        if header.alloc_units > header.data_end_units(&self.shape()) {
            return Ok(());
        }
        self.perform(|state| {
            // R3.
            state.order(Order::RemoveBeforeAnswer);
            state.put_slot(loaded, &mut header, false);
        })
        .await
    }

    /// For a reader, which changes nothing: leaves out the old name of a rename that has happened,
    /// as recovery would. With both names in its list, a user would take one for a copy and remove
    /// the other.
    pub(crate) async fn leave_out_renamed(&self, operation: &Operation) -> Result<(), Error> {
        let Operation::Rename { from, to } = operation else {
            return Ok(());
        };
        let mut turn = self.turn().await?;
        let op_seq = self.state().superblock.seq;
        let (mut old, mut new) = (Slot::EMPTY, Slot::EMPTY);
        let known = self.load_slot(turn.slot.lend(), *to, &mut new).await;
        let known =
            known.is_ok() && (self.load_slot(turn.slot.lend(), *from, &mut old).await).is_ok();
        // A slot that cannot be read is reported to whoever needs it; the other files can be read.
        if known && new.last_op >= op_seq && old.last_op < op_seq {
            self.state().renamed = *from;
        }
        turn.done();
        Ok(())
    }

    /// What the files of `slots` that were made own of `runs`; the rest of the array is empty.
    async fn created(
        &self,
        mut node: SlotNode<'_>,
        runs: &Runs,
        slots: &Slots,
        op_seq: u64,
    ) -> Result<[Run; RECORD_SLOTS], Error> {
        let mut owned = [Run::default(); RECORD_SLOTS];
        for (place, slot) in owned.iter_mut().zip(slots.as_slice()) {
            let mut header = Slot::EMPTY;
            let loaded = self.load_slot(node.lend(), *slot, &mut header).await?;
            let state = self.state();
            let extent = header.last_extent(state.slot(loaded));
            let is_made = header.last_op >= op_seq && header.state != SlotState::Free;
            if let Some(extent) = extent.filter(|_| is_made && header.map_level == 0) {
                let end = extent.start + u64::from(extent.len);
                let mut runs = runs.as_slice().iter();
                if runs
                    .any(|run| run.start <= extent.start && end <= run.start + u64::from(run.len))
                {
                    *place = Run {
                        start: extent.start,
                        len: extent.len,
                    };
                }
            }
        }
        Ok(owned)
    }

    /// Sets the bits of `runs` to `used`, in each bitmap once, but those of `owned`, and rewrites a
    /// torn member: a bitmap with an invalid member is damage from here on.
    async fn settle_bitmaps(
        &self,
        runs: &Runs,
        used: bool,
        owned: &[Run],
        op_seq: u64,
    ) -> Result<(), Error> {
        let shape = self.shape();
        let group_of = |start| shape.group_of(start);
        // What the power cut left in the device's cache must be durable first.
        self.perform(|state| state.order(Order::CacheBeforeRecovery))
            .await?;
        for (index, run) in runs.as_slice().iter().enumerate() {
            let group = group_of(run.start);
            let mut before = runs.as_slice().iter().take(index);
            if before.any(|earlier| group_of(earlier.start) == group) {
                continue;
            }
            self.load_bitmap_pair(group).await?;
            let wrong = {
                let mut state = self.state();
                bitmap::check(state.node(WORK), group, &state.shape())?;
                let torn = !state.both && !state.is_mutated(Mutation::LeaveTorn);
                let bytes = state.node_mut(WORK);
                let before = bitmap::free_units(bytes);
                for run in runs.as_slice() {
                    if group_of(run.start) == group {
                        bitmap::set_run(bytes, run, &shape, used);
                    }
                }
                // They are all in the group of the one run.
                for run in owned {
                    bitmap::set_run(bytes, run, &shape, true);
                }
                let (seq, last_op) = (get_u64(bytes, node::SEQ), get_u64(bytes, node::LAST_OP));
                bitmap::stamp(bytes, seq, last_op);
                torn || before != bitmap::free_units(bytes)
            };
            if wrong {
                self.perform(|state| state.put_bitmap(group, op_seq))
                    .await?;
            }
            self.state().cached_group = NO_GROUP;
        }
        Ok(())
    }
}
