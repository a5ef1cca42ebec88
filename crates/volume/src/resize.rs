// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Making a volume longer or shorter. `FORMAT.md`, "Resize".

use block::Device;

use crate::io::{NO_GROUP, SPARE, WORK};
use crate::layout::Shape;
use crate::order::Order;
use crate::slot::Slot;
use crate::superblock::{Counts, Operation, Run, Runs};
use crate::{Error, Volume, bitmap};

/// The slot that the record of a resize names. It never carries the record's number, so recovery
/// clears the bits of its run.
const RECORD_SLOT: u32 = 0;

impl<D: Device> Volume<'_, D> {
    /// The least size in bytes that [`Volume::resize`] accepts: up to the end of the last unit that
    /// a file has, reservations included. No unit is moved. Reads bitmaps, from the last one on.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if a bitmap that decides is damaged, [`Error::NeedsMount`], a device's
    /// error.
    pub async fn least_bytes(&self) -> Result<u64, Error> {
        let turn = self.turn().await?;
        let units = self.used_units_end().await?;
        turn.done();
        let shape = self.shape();
        Ok(shape
            .unit_address(units)
            .next_multiple_of(self.block_bytes(&shape)))
    }

    /// Makes the volume `volume_bytes` long, and returns its size: rounded down to whole blocks,
    /// and to the end of a group if the next one would hold only its own bitmap. The files stay
    /// where they are, and may be open. The new size is durable; a power cut before the return
    /// leaves the old one or this.
    ///
    /// A volume that leaves the groups for which its tables were made needs a reader that knows
    /// this feature: see `FORMAT.md`, "Resize".
    ///
    /// # Errors
    /// Nothing has changed after [`Error::BadParameters`] (longer than the device, or no volume is
    /// so short or so long), [`Error::NoSpace`] (files are past the new end: see
    /// [`Volume::least_bytes`]) and [`Error::Corrupt`]. [`Error::ReadOnly`], [`Error::NeedsMount`],
    /// a device's error.
    pub async fn resize(&self, volume_bytes: u64) -> Result<u64, Error> {
        let mut turn = self.turn_to_change().await?;
        let old = self.shape();
        let new = self.shape_of(volume_bytes)?;
        if new == old {
            return Ok(old.volume_bytes);
        }
        if new.unit_count() < old.unit_count() && new.unit_count() < self.used_units_end().await? {
            return Err(Error::NoSpace);
        }
        // The next count finds them again.
        self.state().superblock.counts = Counts::UNKNOWN;
        // What will be needed is read before anything is written.
        let mut header = Slot::EMPTY;
        self.load_slot(turn.slot.lend(), RECORD_SLOT, &mut header)
            .await?;
        let run = moving(&old, &new);
        if let Some(run) = run {
            self.load_bitmap(old.group_of(run.start)).await?;
        }
        self.keep_tables(&old).await?;
        self.write_new_bitmaps(&old, &new).await?;
        if new.unit_count() < old.unit_count() {
            self.shrink(run, new).await?;
        } else {
            self.grow(run, new).await?;
        }
        turn.done();
        Ok(new.volume_bytes)
    }

    /// The shape after a resize.
    fn shape_of(&self, volume_bytes: u64) -> Result<Shape, Error> {
        let old = self.shape();
        let block = self.block_bytes(&old);
        if volume_bytes > self.geometry().size_bytes() {
            return Err(Error::BadParameters);
        }
        let tables = old.table_group_count();
        let mut new = Shape {
            volume_bytes: volume_bytes / block * block,
            table_groups: u32::try_from(tables).map_err(|_| Error::BadParameters)?,
            ..old
        };
        let last = new.group_of(new.unit_count().saturating_sub(1));
        let start = new.group_start(last);
        if last > 0 && new.unit_count() - start <= new.bitmap_units(last) {
            // The next group's bitmap alone would be of no use.
            new.volume_bytes = new.unit_address(start) / block * block;
        }
        // Where the tables are those of a new volume of this size, the feature is not needed.
        if new.natural_groups() == tables && new.filled_groups() == tables {
            new.table_groups = 0;
        }
        new.validate()?;
        Ok(new)
    }

    /// The granularity of a size: no block of the device, or of the one that the volume was made
    /// on, is cut.
    fn block_bytes(&self, shape: &Shape) -> u64 {
        let device = self.geometry().block_size_log2;
        1 << device.max(shape.lba_log2)
    }

    /// The units up to the last one that a file has; at least one.
    async fn used_units_end(&self) -> Result<u64, Error> {
        let shape = self.shape();
        for group in (0..shape.filled_groups() as u32).rev() {
            self.load_bitmap(group).await?;
            let state = self.state();
            let bytes = state.node(WORK);
            let units = bitmap::units_of(bytes, group, &shape);
            let own = shape.bitmap_units(group) as u32;
            let end = bitmap::used_end(bytes, own, units);
            if end > 0 {
                return Ok(shape.group_start(group) + u64::from(end));
            }
        }
        Ok(1)
    }

    /// Before bitmaps of groups without units change: says in the superblock that there are none,
    /// where the number of groups still follows from the size.
    async fn keep_tables(&self, old: &Shape) -> Result<(), Error> {
        let groups = old.table_group_count();
        if old.table_groups == 0 && groups != old.filled_groups() {
            self.perform(|state| {
                state.order(Order::GroupsBeforeResize);
                state.superblock.shape.table_groups = groups as u32;
                state.put_superblock(SPARE, &Operation::None, false);
                state.order(Order::GroupsBeforeResize);
            })
            .await?;
        }
        Ok(())
    }

    /// Writes both members of the bitmaps of groups that had no unit. Nothing reads them yet.
    async fn write_new_bitmaps(&self, old: &Shape, new: &Shape) -> Result<(), Error> {
        let op_seq = self.state().superblock.seq + 1;
        self.state().cached_group = NO_GROUP;
        for seq in 0..2 {
            self.perform(|state| state.order(Order::GroupsBeforeResize))
                .await?;
            for group in old.filled_groups() as u32..new.filled_groups() as u32 {
                self.perform(|state| {
                    let bytes = state.node_mut(WORK);
                    bitmap::initialise(bytes, group, new);
                    bitmap::stamp(bytes, seq, op_seq);
                    state.put_new_bitmap(group, new);
                })
                .await?;
            }
        }
        Ok(())
    }

    /// The size, with a record of the units that recovery is to free; then their bits.
    async fn grow(&self, run: Option<Run>, new: Shape) -> Result<(), Error> {
        let group = self.change_bits(run, false).await?;
        self.perform(|state| {
            state.order(Order::GroupsBeforeResize);
            state.superblock.shape = new;
            state.put_superblock(SPARE, &record_of(run), false);
            if let Some(group) = group {
                state.order(Order::ResizeBeforeNodes);
                state.put_bitmap(group, state.superblock.seq);
            }
            state.order(Order::ResizeBeforeAnswer);
        })
        .await
    }

    /// The bits, after a record of the units that recovery is to free; then the size.
    async fn shrink(&self, run: Option<Run>, new: Shape) -> Result<(), Error> {
        let group = self.change_bits(run, true).await?;
        self.perform(|state| {
            state.order(Order::GroupsBeforeResize);
            if let Some(group) = group {
                state.put_superblock(SPARE, &record_of(run), false);
                state.order(Order::ResizeBeforeNodes);
                state.put_bitmap(group, state.superblock.seq);
            }
        })
        .await?;
        self.perform(|state| {
            state.order(Order::BitmapBeforeShrink);
            state.superblock.shape = new;
            state.put_superblock(SPARE, &Operation::None, false);
            state.order(Order::ResizeBeforeAnswer);
        })
        .await
    }

    /// Sets or clears the bits of `run` in node [`WORK`], in memory only. Returns its group.
    async fn change_bits(&self, run: Option<Run>, used: bool) -> Result<Option<u32>, Error> {
        let Some(run) = run else {
            return Ok(None);
        };
        let shape = self.shape();
        let group = shape.group_of(run.start);
        self.load_bitmap(group).await?;
        let mut state = self.state();
        // From here on the bitmap in memory is ahead of the device.
        state.changing = true;
        state.cached_group = NO_GROUP;
        bitmap::set_run(state.node_mut(WORK), &run, &shape, used);
        Ok(Some(group))
    }
}

/// The units that the group at the nearer end gains or loses, if that end is inside a group.
fn moving(old: &Shape, new: &Shape) -> Option<Run> {
    let (near, far) = if new.unit_count() < old.unit_count() {
        (new.unit_count(), old.unit_count())
    } else {
        (old.unit_count(), new.unit_count())
    };
    let group_end = near.next_multiple_of(old.group_units());
    let len = far.min(group_end) - near;
    (len > 0).then_some(Run {
        start: near,
        len: len as u32,
    })
}

fn record_of(run: Option<Run>) -> Operation {
    let mut runs = Runs::default();
    match run {
        Some(run) if runs.push(run) => Operation::Reserve {
            slot: RECORD_SLOT,
            runs,
        },
        _ => Operation::None,
    }
}
