// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Moving a file to another slot: under a new name, or under its own to make room for another file.
//! `FORMAT.md`, "File slot" and "Operations".

use block::Device;

use crate::create_many::{Place, is_taken};
use crate::io::{NO_GROUP, SPARE, WORK};
use crate::layout::BUCKET_SLOTS;
use crate::lookup::FreeSlot;
use crate::name::NameRef;
use crate::order::Order;
use crate::pair::has_numbers;
use crate::slot::{self, Slot, State as SlotState};
use crate::superblock::Operation;
use crate::table::{NO_BUCKET, buckets_of};
use crate::token::SlotNode;
use crate::{Error, Volume, error::Node};

impl<D: Device> Volume<'_, D> {
    /// A free slot for `name`, both of whose buckets are full: one of their files moves to its
    /// other bucket. If all of these are full too, a file in one of them moves to its own other
    /// bucket before that. A file that is open stays, as does the one in slot `kept`, and no file
    /// moves to a slot in `taken`.
    ///
    /// # Errors
    /// [`Error::TableFull`] if none can move, [`Error::Corrupt`], a device's error.
    pub(crate) async fn make_room(
        &self,
        mut node: SlotNode<'_>,
        name: NameRef<'_>,
        kept: Option<u32>,
        taken: &[Place],
    ) -> Result<FreeSlot, Error> {
        let buckets = buckets_of(name, self.state().table.buckets_to_fill());
        let mut others = [NO_BUCKET; 2 * BUCKET_SLOTS as usize];
        let mut next = [NO_BUCKET; BUCKET_SLOTS as usize];
        let mut step = 0;
        // The two buckets; then each of those that their files may move to, and the two again.
        loop {
            for (bucket, others) in buckets.iter().zip(others.chunks_mut(BUCKET_SLOTS as usize)) {
                if let Some(freed) = self
                    .move_out(node.lend(), *bucket, kept, taken, others)
                    .await?
                {
                    return Ok(freed);
                }
            }
            loop {
                let bucket = others.get(step).copied().ok_or(Error::TableFull)?;
                step += 1;
                let is_new = !others.iter().take(step - 1).any(|&before| before == bucket);
                if bucket != NO_BUCKET
                    && is_new
                    && self
                        .move_out(node.lend(), bucket, kept, taken, &mut next)
                        .await?
                        .is_some()
                {
                    break;
                }
            }
        }
    }

    /// Moves the first file of `bucket` whose other bucket has a free slot there, and returns the
    /// slot that is free now. `others` gets the other bucket of each file that may move.
    async fn move_out(
        &self,
        node: SlotNode<'_>,
        bucket: u32,
        kept: Option<u32>,
        taken: &[Place],
        others: &mut [u32],
    ) -> Result<Option<FreeSlot>, Error> {
        self.other_buckets(bucket, kept, others).await?;
        for (index, &other) in (0..).zip(others.iter()) {
            let mut before = others.iter().take(index as usize);
            if other == NO_BUCKET || before.any(|&before| before == other) {
                continue;
            }
            let Some(to) = self.free_in_bucket(other, taken).await? else {
                continue;
            };
            let from = bucket * BUCKET_SLOTS + index;
            let freed = self.relocate(node, from, to, None).await?;
            let mut state = self.state();
            // The move is complete: a failure of what follows changes nothing.
            state.changing = false;
            state.moves = state.moves.wrapping_add(1);
            return Ok(Some(FreeSlot {
                slot: from,
                seq: freed.seq,
                last_op: freed.last_op,
                whole: true,
            }));
        }
        Ok(None)
    }

    /// The other bucket of each file in `bucket` that may move.
    async fn other_buckets(
        &self,
        bucket: u32,
        kept: Option<u32>,
        others: &mut [u32],
    ) -> Result<(), Error> {
        let buckets = self.state().table.buckets_to_fill();
        let base = bucket * BUCKET_SLOTS;
        let mut first = 0;
        others.fill(NO_BUCKET);
        while first < BUCKET_SLOTS {
            let slot = base + first;
            let count = self.read_slots(slot, BUCKET_SLOTS - first).await?;
            for index in 0..count {
                // One of which a copy is invalid may be gone: R9.
                let is_doubtful = self.state().is_doubtful(slot, index);
                let seen = self.slot_in_run(slot, index, |found, bytes| {
                    let is_live = found.state == SlotState::Live
                        && found.whole
                        && !is_doubtful
                        && has_numbers(found.seq);
                    let name = slot::name(bytes).filter(|_| is_live)?;
                    match buckets_of(name, buckets) {
                        [one, two] if one == bucket && two != bucket => Some(two),
                        [one, two] if two == bucket && one != bucket => Some(one),
                        _ => None,
                    }
                })?;
                let slot = slot + index;
                let is_open = |open: &crate::file::OpenFile| open.slot == Some(slot);
                let stays = kept == Some(slot) || self.state().files.iter().any(is_open);
                let place = others.get_mut((first + index) as usize);
                if let (Some(place), Some(Some(other)), false) = (place, seen, stays) {
                    *place = other;
                }
            }
            first += count;
        }
        Ok(())
    }

    /// The first free slot of a bucket that is not in `taken`, unless a slot of it is damaged: a
    /// name that may be in that one is not found in the bucket.
    pub(crate) async fn free_in_bucket(
        &self,
        bucket: u32,
        taken: &[Place],
    ) -> Result<Option<u32>, Error> {
        let base = bucket * BUCKET_SLOTS;
        let mut slot = base;
        let mut free = None;
        while slot < base + BUCKET_SLOTS {
            let count = self.read_slots(slot, base + BUCKET_SLOTS - slot).await?;
            for index in 0..count {
                let is_free = |found: &Slot, _: &[u8]| {
                    found.state == SlotState::Free
                        && has_numbers(found.seq)
                        && !is_taken(taken, found.index)
                };
                match self.slot_in_run(slot, index, is_free) {
                    Ok(Some(true)) => free = free.or(Some(slot + index)),
                    Ok(Some(false)) => {}
                    Ok(None) | Err(Error::Corrupt(_)) => return Ok(None),
                    Err(error) => return Err(error),
                }
            }
            slot += count;
        }
        Ok(free)
    }

    /// Moves the file in slot `from` to the free slot `to`, under `name` if that is given. Returns
    /// the header of the slot that became free.
    pub(crate) async fn relocate(
        &self,
        mut node: SlotNode<'_>,
        from: u32,
        to: u32,
        name: Option<NameRef<'_>>,
    ) -> Result<Slot, Error> {
        let mut target = Slot::EMPTY;
        self.load_slot(node.lend(), to, &mut target).await?;
        if target.state != SlotState::Free {
            return Err(Error::from(Node::Slot(to)));
        }
        let mut source = Slot::EMPTY;
        let loaded = self.load_slot(node.lend(), from, &mut source).await?;
        let is_open = |open: &crate::file::OpenFile| open.slot == Some(from) && open.writable;
        // One that dies leaves two members that differ, so that its reservation is given back.
        let is_open = self.state().files.iter().any(is_open);
        let op_seq = self.state().superblock.seq + 1;
        let mut moved = Slot {
            seq: target.seq,
            last_op: op_seq,
            index: to,
            ..source
        };
        let mut freed = Slot::free(from, source.seq, op_seq);
        freed.rewind()?;
        self.perform(|state| {
            state.order(Order::NodesBeforeRename);
            state.put_superblock(SPARE, &Operation::Rename { from, to }, false);
            // The record is durable before the new name: otherwise both names could stay.
            state.order(Order::RenameBeforeName);
            if let Some(name) = name {
                moved.set_name(state.slot_mut(loaded), name);
            }
            state.put_slot(loaded, &mut moved, false);
            // R9. Until its newest member is overwritten the old name is in force.
            state.cached_group = NO_GROUP;
            state.put_older_free(WORK, &mut freed);
        })
        .await?;
        self.perform(|state| {
            // The new name is durable before the old one is removed: otherwise both could be lost.
            state.order(Order::NameBeforeOld);
            state.put_slot_from(WORK, &mut freed, false);
            // The other member, as closing a file leaves it: either may rot. The first one is
            // durable, and recovery would also free the old slot, so no barrier is needed.
            if !is_open {
                state.put_slot(loaded, &mut moved, false);
            }
        })
        .await?;
        Ok(freed)
    }
}
