// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A slot table that grows, one bucket at a time. `FORMAT.md`, "Grown tables".

use block::Device;

use crate::doubt::Claim;
use crate::io::{NO_GROUP, SPARE, WORK};
use crate::layout::{BUCKET_SLOTS, member_of};
use crate::name::NameRef;
use crate::order::{Mutation, Order};
use crate::slot::{self, Slot, State as SlotState};
use crate::superblock::{Operation, Run, Runs};
use crate::table::{MOST_BUCKETS, TABLE_NODE, Table, bucket_units, buckets_of, parent_of};
use crate::token::{Loaded, SlotNode};
use crate::{Error, Volume, bitmap, error::Node};

impl<D: Device> Volume<'_, D> {
    /// The slots that the table has now.
    pub fn slots(&self) -> u32 {
        self.slot_count()
    }

    /// Adds a bucket of eight slots to the slot table, in units of the data area, and moves to it
    /// what belongs there. A volume whose table has grown needs a reader that knows this feature.
    ///
    /// [`Volume::with_space`] does this where a name has no slot.
    ///
    /// # Errors
    /// [`Error::TableFull`] if the table cannot grow: it has 16,777,216 slots, its extents are too
    /// many, or a slot is in the way that is damaged, or whose file may be gone.
    /// [`Error::NoSpace`], [`Error::ReadOnly`], [`Error::NeedsMount`], [`Error::Corrupt`], a
    /// device's error.
    pub async fn grow_table(&self) -> Result<(), Error> {
        self.add_buckets(1).await
    }

    /// Makes room for `files` more names, where the table has fewer slots than that: adds buckets
    /// together as long as no file has to move, so that they share the flushes of one. A table that
    /// cannot grow so far stays as long as it is.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::NeedsMount`], [`Error::Corrupt`], a device's error.
    pub async fn grow_table_for(&self, files: u32) -> Result<(), Error> {
        let usage = match self.usage().await {
            // It is unknown how many there are.
            Err(Error::Corrupt(_)) => return Ok(()),
            usage => usage?,
        };
        let all = u64::from(usage.files) + u64::from(files);
        let has_grown = self.state().superblock.table_unit.is_some();
        if !has_grown && all <= u64::from(self.slots()) {
            return Ok(());
        }
        // Three quarters of the slots. Of fewer buckets than the next power of two, those that are
        // not split yet get twice as many names as others, and more files move.
        let least = (all * 4).div_ceil(u64::from(BUCKET_SLOTS) * 3);
        let even = least.next_power_of_two();
        let shape = self.shape();
        let free = usage.free_units << shape.unit_log2;
        let is_cheap = even << (shape.node_log2 + 4) <= free / 8;
        let wanted = if is_cheap { even } else { least };
        let wanted = u32::try_from(wanted).unwrap_or(MOST_BUCKETS);
        loop {
            let buckets = self.state().table.buckets;
            if buckets >= wanted.min(MOST_BUCKETS) {
                return Ok(());
            }
            match self.add_buckets(wanted - buckets).await {
                Err(Error::NoSpace | Error::TableFull) => return Ok(()),
                result => result?,
            }
        }
    }

    /// Adds at least one bucket, and at most `most`.
    async fn add_buckets(&self, most: u32) -> Result<(), Error> {
        let mut turn = self.turn_to_change().await?;
        let shape = self.shape();
        if self.state().superblock.table_unit.is_none() {
            self.make_table_node().await?;
            self.state().changing = false;
        }
        self.complete_split(turn.slot.lend()).await?;
        let mut header = Slot::EMPTY;
        let mut loaded = self
            .load_slot(turn.slot.lend(), TABLE_NODE, &mut header)
            .await?;
        let (next, room) = {
            let state = self.state();
            (state.table.buckets, state.table.room())
        };
        if next >= MOST_BUCKETS {
            return Err(Error::TableFull);
        }
        let most = most.min(MOST_BUCKETS - next);
        let used = u64::from(next - (1 << shape.buckets_log2));
        if used >= room {
            self.extend_table(loaded, &mut header, most).await?;
            self.state().changing = false;
        }
        let room = self.state().table.room() - used;
        let most = u64::from(most).min(room) as u32;
        // Nothing is begun that could not be completed.
        let count = self.splits_together(turn.slot.lend(), next, most).await?;
        loaded = self
            .load_slot(turn.slot.lend(), TABLE_NODE, &mut header)
            .await?;
        self.perform(|state| state.put_in_use()).await?;
        self.write_buckets(next, count).await?;
        header.size_bytes += u64::from(count) << (shape.node_log2 + 4);
        self.perform(|state| {
            // The buckets are durable before anyone looks at them.
            state.order(Order::BucketBeforeTable);
            state.put_slot(loaded, &mut header, false);
            // R3, and the older size would hide the bucket.
            state.order(Order::TableBeforeCopy);
        })
        .await?;
        if !self.state().is_mutated(Mutation::HalfATable) {
            self.perform(|state| state.put_slot(loaded, &mut header, false))
                .await?;
        }
        {
            let mut state = self.state();
            state.changing = false;
            state.table.buckets = next + count;
            state.table.is_split = false;
        }
        self.complete_split(turn.slot.lend()).await?;
        turn.done();
        Ok(())
    }

    /// Moves what a split has left in the parent, because of a power cut or a failure. New names
    /// that take the last bucket's slots first would keep it there, and the table could not grow.
    #[cfg(feature = "grow")]
    pub(crate) async fn finish_split(&self) -> Result<(), Error> {
        if self.state().table.is_split {
            return Ok(());
        }
        let mut turn = self.turn_to_change().await?;
        self.complete_split(turn.slot.lend()).await?;
        turn.done();
        Ok(())
    }

    /// Reads the table node, if there is one: where the slots are.
    pub(crate) async fn load_table(&self, node: SlotNode<'_>) -> Result<(), Error> {
        if self.state().superblock.table_unit.is_none() {
            return Ok(());
        }
        let mut header = Slot::EMPTY;
        let loaded = self.load_slot(node, TABLE_NODE, &mut header).await?;
        self.adopt_table(loaded, &header)
    }

    pub(crate) fn adopt_table(&self, loaded: Loaded<'_>, header: &Slot) -> Result<(), Error> {
        let mut state = self.state();
        let extents = header.extents(state.slot(loaded));
        let table = Table::new(&state.shape(), extents, header.size_bytes);
        let table = table.filter(|_| header.state == SlotState::Table);
        state.table = table.ok_or(Error::from(Node::Slot(TABLE_NODE)))?;
        Ok(())
    }

    /// Recovery of the table node: its two members are equal, so that rot of one hides no bucket.
    pub(crate) async fn settle_table(&self, node: SlotNode<'_>) -> Result<(), Error> {
        if self.state().superblock.table_unit.is_none()
            || self.state().is_mutated(Mutation::HalfATable)
        {
            return Ok(());
        }
        let mut header = Slot::EMPTY;
        let loaded = self.load_slot(node, TABLE_NODE, &mut header).await?;
        self.perform(|state| {
            state.order(Order::CacheBeforeRecovery);
            state.put_slot(loaded, &mut header, false);
        })
        .await
    }

    /// The table node, in free units.
    async fn make_table_node(&self) -> Result<(), Error> {
        let shape = self.shape();
        let pair = shape.pair_units() as u32;
        let mut found = None;
        for group in 0..shape.group_count() as u32 {
            match self.load_bitmap(group).await {
                Ok(()) => {}
                // A damaged group is skipped: it is unknown which of its units are free.
                Err(Error::Corrupt(_)) => continue,
                Err(error) => return Err(error),
            }
            // Room for a first bucket too: without one the feature would be of no use.
            let both = 2 * pair.max(bucket_units(&shape) as u32);
            let start = bitmap::find(self.state().node(WORK), both, both);
            let Some(start) = start else { continue };
            let unit = shape.group_start(group) + u64::from(start);
            if let Ok(unit) = u32::try_from(unit) {
                found = Some((group, unit));
            }
            break;
        }
        let (group, unit) = found.ok_or(Error::NoSpace)?;
        let run = Run {
            start: unit.into(),
            len: pair,
        };
        let mut runs = Runs::default();
        runs.push(run);
        let op_seq = self.state().superblock.seq + 1;
        self.perform(|state| {
            // The units may have been another file's until the last operation.
            state.order(Order::NodesBeforeTable);
        })
        .await?;
        let header = Slot {
            state: SlotState::Table,
            ..Slot::free(TABLE_NODE, 0, op_seq)
        };
        for seq in 0..2 {
            self.perform(|state| {
                state.superblock.table_unit = Some(unit);
                state.put_fresh_slot(&Slot { seq, ..header });
            })
            .await?;
        }
        self.perform(|state| {
            // A superblock that names the node is never without it.
            state.order(Order::TableBeforeFeature);
            let operation = Operation::Reserve {
                slot: TABLE_NODE,
                runs,
            };
            state.put_superblock(SPARE, &operation, false);
            state.order(Order::ReserveBeforeNodes);
            state.cached_group = NO_GROUP;
            bitmap::set_run(state.node_mut(WORK), &run, &shape, true);
            state.put_bitmap(group, op_seq);
        })
        .await
    }

    /// Units for `most` more buckets or fewer in one piece: at least as long as the table, or half
    /// of that, and so on. So holes that small files leave do not use up its extents.
    async fn extend_table(
        &self,
        loaded: Loaded<'_>,
        header: &mut Slot,
        most: u32,
    ) -> Result<(), Error> {
        let shape = self.shape();
        let unit = bucket_units(&shape);
        let buckets = most.max(self.state().table.buckets);
        let bytes = u64::from(buckets) << (shape.node_log2 + 4);
        let mut want = (bytes >> shape.unit_log2).clamp(unit, shape.group_units().max(unit));
        // Each iteration adds an extent, of which there are 16 at most, or asks for fewer units.
        loop {
            let before = self.state().table.room();
            match self.reserve_once(loaded, header, want, None).await {
                // Of the last extent, a shorter continuation may be free.
                Err(Error::NoSpace | Error::MapFull) if want > unit => {
                    want = (want / 2).next_multiple_of(unit);
                    continue;
                }
                Err(Error::MapFull) => return Err(Error::TableFull),
                result => drop(result?),
            }
            self.perform(|state| {
                state.order(Order::TableBeforeCopy);
                state.put_slot(loaded, header, false);
            })
            .await?;
            self.state().changing = false;
            self.adopt_table(loaded, header)?;
            if self.state().table.room() > before {
                return Ok(());
            }
            want = unit;
        }
    }

    /// The slots of new buckets, free, in commands as long as the memory of the mount.
    async fn write_buckets(&self, first: u32, count: u32) -> Result<(), Error> {
        let (node, room) = {
            let state = self.state();
            let longest = state.device.geometry().max_transfer_bytes();
            let room = state.memory(SPARE).len().min(longest);
            (state.shape().node_bytes(), room)
        };
        let (mut from, mut len) = (0, 0);
        for bucket in first..first + count {
            for number in 0..2 * BUCKET_SLOTS {
                let slot = bucket * BUCKET_SLOTS + number % BUCKET_SLOTS;
                let header = Slot::free(slot, u64::from(number / BUCKET_SLOTS), 0);
                let address = self.state().slot_address(slot, member_of(header.seq));
                if address != from + len as u64 || len + node > room {
                    self.write_node(from, len).await?;
                    (from, len) = (address, 0);
                }
                self.state().fill_slot(len, &header, address, |_, _| ());
                len += node;
            }
        }
        self.write_node(from, len).await?;
        Ok(())
    }

    /// How many of `most` buckets from `next` on may be added together: a file leaves its bucket
    /// for the last one only, where look-ups know its parent.
    async fn splits_together(
        &self,
        mut node: SlotNode<'_>,
        next: u32,
        most: u32,
    ) -> Result<u32, Error> {
        let is_careless = self.state().is_mutated(Mutation::SplitPastFiles);
        let mut count = 0;
        while count < most {
            let bucket = next + count;
            let parent = parent_of(bucket);
            // One that is added with the others has no file.
            let has_files = parent < next;
            if has_files && count == 0 {
                self.settle_leaving(node.lend(), parent, bucket + 1).await?;
            } else if has_files {
                match self.leaving(parent, bucket + 1, true).await {
                    Ok(None) => {}
                    // A split of its own settles that, or is refused.
                    Ok(Some(_)) | Err(Error::TableFull) => break,
                    Err(error) => return Err(error),
                }
            }
            count += 1;
            let leaves = has_files && self.leaving(parent, bucket + 1, false).await?.is_some();
            if leaves && !is_careless {
                break;
            }
        }
        Ok(count)
    }

    /// Makes both members equal of each file in doubt that exists, and does not belong to `bucket`
    /// where there are `buckets`. A power cut leaves such files.
    ///
    /// # Errors
    /// [`Error::TableFull`] if one may be gone or has a reservation, or a slot is damaged: the
    /// bucket cannot be split.
    async fn settle_leaving(
        &self,
        mut node: SlotNode<'_>,
        bucket: u32,
        buckets: u32,
    ) -> Result<(), Error> {
        // Each iteration settles a file.
        while let Some(slot) = self.leaving(bucket, buckets, true).await? {
            if self.claim(node.lend(), slot).await? != Claim::Sole {
                return Err(Error::TableFull);
            }
            let mut header = Slot::EMPTY;
            let loaded = self.load_slot(node.lend(), slot, &mut header).await?;
            // With equal members it would count as kept on purpose.
            if header.alloc_units > header.data_end_units(&self.shape()) {
                return Err(Error::TableFull);
            }
            // It is in doubt, so its newest member is durable, and nothing governs the other one:
            // no barrier is needed (`FORMAT.md`, "Grown tables").
            self.perform(|state| {
                state.put_in_use();
                state.put_slot(loaded, &mut header, false);
            })
            .await?;
            // It is complete: what is refused after it leaves the volume usable.
            self.state().changing = false;
        }
        Ok(())
    }

    /// Moves the files of the last bucket's parent that belong to the last bucket.
    async fn complete_split(&self, mut node: SlotNode<'_>) -> Result<(), Error> {
        let shape = self.shape();
        let table = self.state().table;
        let Some(parent) = table.parent(&shape) else {
            return Ok(());
        };
        let buckets = table.buckets;
        self.move_leaving(node.lend(), parent, buckets).await?;
        self.state().table.is_split = true;
        Ok(())
    }

    /// Moves the files of `bucket` that do not belong there where there are `buckets`.
    pub(crate) async fn move_leaving(
        &self,
        mut node: SlotNode<'_>,
        bucket: u32,
        buckets: u32,
    ) -> Result<(), Error> {
        self.settle_leaving(node.lend(), bucket, buckets).await?;
        // Each iteration moves a file.
        while let Some(from) = self.leaving(bucket, buckets, false).await? {
            let Some(to) = self.place_in_other(node.lend(), from).await? else {
                return Err(Error::TableFull);
            };
            self.relocate(node.lend(), from, to, None).await?;
            let mut state = self.state();
            state.changing = false;
            state.moves = state.moves.wrapping_add(1);
            for open in state.files.iter_mut() {
                if open.slot == Some(from) {
                    open.slot = Some(to);
                    open.settled &= !open.writable;
                }
            }
        }
        Ok(())
    }

    /// A free slot in one of the buckets of the file in slot `from`.
    async fn place_in_other(&self, node: SlotNode<'_>, from: u32) -> Result<Option<u32>, Error> {
        self.read_slots(from, 1).await?;
        let name = self.slot_in_run(from, 0, |_, bytes| slot::name(bytes).map(NameRef::to_name))?;
        let Some(Some(name)) = name else {
            return Ok(None);
        };
        let name = NameRef::new(name.as_str())?;
        let buckets = self.state().table.buckets_to_fill();
        let [one, two] = buckets_of(name, buckets);
        let last = buckets - 1;
        let (first, second) = if two == last { (two, one) } else { (one, two) };
        for bucket in [first, second] {
            if let Some(to) = self.free_in_bucket(bucket, &[]).await? {
                return Ok(Some(to));
            }
        }
        match self.make_room(node, name, Some(from), &[]).await {
            Ok(free) => Ok(Some(free.slot)),
            Err(Error::TableFull) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The first file of `bucket` that does not belong there where there are `buckets`, of those
    /// that are in doubt, or are not.
    ///
    /// # Errors
    /// [`Error::TableFull`] if a slot of the bucket is damaged.
    async fn leaving(
        &self,
        bucket: u32,
        buckets: u32,
        in_doubt: bool,
    ) -> Result<Option<u32>, Error> {
        let base = bucket * BUCKET_SLOTS;
        let mut slot = base;
        let mut found = None;
        while slot < base + BUCKET_SLOTS {
            let count = self.read_slots(slot, base + BUCKET_SLOTS - slot).await?;
            for index in 0..count {
                let is_doubtful = self.state().is_doubtful(slot, index);
                let leaves = self.slot_in_run(slot, index, |header, bytes| {
                    let name = slot::name(bytes);
                    let stays = name.is_none_or(|name| buckets_of(name, buckets).contains(&bucket));
                    header.state == SlotState::Live && !stays
                });
                match leaves {
                    Ok(Some(leaves)) => {
                        let is_it = leaves && is_doubtful == in_doubt;
                        found = found.or(is_it.then_some(slot + index));
                    }
                    Ok(None) | Err(Error::Corrupt(_)) => return Err(Error::TableFull),
                    Err(error) => return Err(error),
                }
            }
            slot += count;
        }
        Ok(found)
    }
}
