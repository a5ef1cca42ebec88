// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The way back to format 1.0: a slot table that has grown gets as short as the format made it.
//! `FORMAT.md`, "The way back".

use block::Device;

use crate::io::{NO_GROUP, SPARE, WORK};
use crate::layout::{BUCKET_SLOTS, SHORT_NAME_BYTES};
use crate::order::Order;
use crate::slot::{self, Slot, State as SlotState};
use crate::superblock::{Operation, Run, Runs};
use crate::table::{TABLE_NODE, Table};
use crate::{Error, Volume, bitmap, error::Node};

/// The slot that the last step's record names: it never carries the record's number.
const RECORD_SLOT: u32 = 0;

impl<D: Device> Volume<'_, D> {
    /// Takes the volume back to format 1.0: files leave the buckets that were added to the slot
    /// table, and these buckets' units are free again. Others have their turn in between, and may
    /// grow the table again. That is durable with the next operation, or the unmount.
    ///
    /// # Errors
    /// Nothing is changed: [`Error::BadName`] if a name has more than 64 bytes,
    /// [`Error::TableFull`] if there are more files than the format made slots,
    /// [`Error::Corrupt`] if a slot is damaged, [`Error::ReadOnly`], [`Error::NeedsMount`]. The
    /// table may have lost some of its buckets: [`Error::TableFull`] if a file finds no slot in
    /// the rest, or may be gone, a device's error.
    pub async fn back_to_1_0(&self) -> Result<(), Error> {
        if self.minor_version() == 0 {
            return Ok(());
        }
        drop(self.turn_to_change().await?);
        self.may_go_back().await?;
        self.reclaim_all().await?;
        let made = 1 << self.shape().buckets_log2;
        // Each iteration takes a bucket away, or more.
        while self.buckets() > made {
            self.take_buckets().await?;
        }
        self.leave_1_1().await
    }

    fn buckets(&self) -> u32 {
        self.state().table.buckets
    }

    /// Whether all files fit the table of the format, and all names a slot of 1.0.
    async fn may_go_back(&self) -> Result<(), Error> {
        let (mut first, mut files) = (0, 0);
        let turn = self.turn().await?;
        let slots = self.slot_count();
        while first < slots {
            let count = self.read_slots(first, slots - first).await?;
            for index in 0..count {
                let seen = self.slot_in_run(first, index, |found, bytes| {
                    let name = slot::name(bytes).map_or(0, |name| name.as_bytes().len());
                    (found.state != SlotState::Free, name > SHORT_NAME_BYTES)
                })?;
                match seen {
                    Some((true, true)) => return Err(Error::BadName),
                    Some((is_used, _)) => files += u32::from(is_used),
                    None => return Err(Error::from(Node::Slot(first + index))),
                }
            }
            first += count;
        }
        turn.done();
        if files > self.shape().slot_count() {
            return Err(Error::TableFull);
        }
        Ok(())
    }

    /// Empties the last bucket, and takes it away with those before it that have no file either.
    async fn take_buckets(&self) -> Result<(), Error> {
        let shape = self.shape();
        let mut turn = self.turn_to_change().await?;
        let last = self.buckets() - 1;
        {
            let mut state = self.state();
            // Should this not be completed, the files that moved are left by a split.
            state.table.is_split = false;
            state.table.is_shrinking = true;
        }
        let moved = self.move_leaving(turn.slot.lend(), last, last).await;
        self.state().table.is_shrinking = false;
        moved?;
        let mut buckets = last + 1;
        while buckets > 1 << shape.buckets_log2 && self.is_empty(buckets - 1).await? {
            buckets -= 1;
        }
        if buckets > last {
            // A file that was removed still has units, and a damaged bitmap keeps them.
            return Err(Error::TableFull);
        }
        let mut header = Slot::EMPTY;
        let loaded = self
            .load_slot(turn.slot.lend(), TABLE_NODE, &mut header)
            .await?;
        let added = u64::from(buckets - (1 << shape.buckets_log2));
        header.size_bytes = added << (shape.node_log2 + 4);
        self.perform(|state| {
            state.put_in_use();
            // What left the buckets is durable elsewhere. R3.
            state.order(Order::MovesBeforeShrink);
            state.put_slot(loaded, &mut header, false);
            state.order(Order::TableBeforeCopy);
        })
        .await?;
        self.perform(|state| state.put_slot(loaded, &mut header, false))
            .await?;
        self.state().table.buckets = buckets;
        turn.done();
        Ok(())
    }

    /// Whether all slots of a bucket are free.
    async fn is_empty(&self, bucket: u32) -> Result<bool, Error> {
        let base = bucket * BUCKET_SLOTS;
        let mut slot = base;
        while slot < base + BUCKET_SLOTS {
            let count = self.read_slots(slot, base + BUCKET_SLOTS - slot).await?;
            for index in 0..count {
                let is_free = |found: &Slot, _: &[u8]| found.state == SlotState::Free;
                if self.slot_in_run(slot, index, is_free)? != Some(true) {
                    return Ok(false);
                }
            }
            slot += count;
        }
        Ok(true)
    }

    /// Gives the units of the added buckets and of the table node back, and removes the marks of
    /// 1.1.
    async fn leave_1_1(&self) -> Result<(), Error> {
        let shape = self.shape();
        let mut turn = self.turn_to_change().await?;
        let unit = self.state().superblock.table_unit;
        let Some(unit) = unit else {
            self.perform(|state| {
                // The last long name is gone, and this superblock removes the record.
                state.order(Order::NodesBeforeFormat);
                state.superblock.long_names = false;
                state.put_superblock(SPARE, &Operation::None, false);
            })
            .await?;
            turn.done();
            return Ok(());
        };
        let mut header = Slot::EMPTY;
        let loaded = self
            .load_slot(turn.slot.lend(), TABLE_NODE, &mut header)
            .await?;
        // Each iteration gives back at least one unit.
        while header.alloc_units > 0 {
            self.release_once(loaded, &mut header, 0).await?;
            self.perform(|state| {
                // The older member has units that are free now.
                state.order(Order::TableBeforeCopy);
                state.put_slot(loaded, &mut header, false);
            })
            .await?;
            self.state().changing = false;
            self.adopt_table(loaded, &header)?;
        }
        let run = Run {
            start: unit.into(),
            len: shape.pair_units() as u32,
        };
        let mut runs = Runs::default();
        runs.push(run);
        let group = shape.group_of(run.start);
        self.load_bitmap(group).await?;
        self.perform(|state| {
            state.order(Order::NodesBeforeFormat);
            state.superblock.table_unit = None;
            state.superblock.long_names = false;
            let slot = RECORD_SLOT;
            let operation = Operation::Reserve { slot, runs };
            state.put_superblock(SPARE, &operation, false);
            // Until the superblock is durable that does without it, the table node is needed.
            state.order(Order::FormatBeforeNodes);
            state.cached_group = NO_GROUP;
            bitmap::set_run(state.node_mut(WORK), &run, &shape, false);
            let op_seq = state.superblock.seq;
            state.put_bitmap(group, op_seq);
        })
        .await?;
        self.state().table = Table::of_format(&shape);
        turn.done();
        Ok(())
    }
}
