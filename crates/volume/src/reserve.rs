// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reserving space: the one operation that allocates, always ahead of the data.
//! `FORMAT.md`, "Operations".

use block::Device;

use crate::file::{self, File};
use crate::grow::{Addition, Tail};
use crate::io::{NO_GROUP, SPARE, WORK};
use crate::layout::Shape;
use crate::map::{self, Extent};
use crate::order::{Mutation, Order};
use crate::slot::Slot;
use crate::superblock::{Operation, Run, Runs};
use crate::table::TABLE_NODE;
use crate::token::Loaded;
use crate::{Error, Volume, bitmap};

/// What one operation will allocate, all of it in one group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allocation {
    group: u32,
    data: Runs,
    /// How the map grows, and the first units of its new leaf pairs: the leaf's, the index node's.
    pub addition: Addition,
    pub pairs: [u64; 2],
}

impl Allocation {
    /// Every run, data first, as in the operation record.
    fn runs(&self, shape: &Shape) -> Runs {
        let mut runs = self.data;
        for &start in self.pairs.iter().take(self.addition.pairs()) {
            let len = shape.pair_units() as u32;
            runs.push(Run { start, len });
        }
        runs
    }
}

impl<D: Device> Volume<'_, D> {
    /// Reserves space until at least `bytes` can be appended, and returns how many can. Each
    /// operation takes what one allocation group offers, so a large reservation takes several.
    ///
    /// The reservation belongs to the file immediately; it is durable with the next commit. Data
    /// can keep flowing in the meantime.
    ///
    /// # Errors
    /// [`Error::NoSpace`] or [`Error::MapFull`] (what was reserved before that stays),
    /// [`Error::NotWritable`], [`Error::ReadOnly`], [`Error::NeedsMount`], a device's error.
    pub async fn reserve(&self, file: File, bytes: u64) -> Result<u64, Error> {
        let mut turn = self.turn_to_change().await?;
        let shape = self.shape();
        let (slot, checksums, mut missing) = {
            let mut state = self.state();
            let open = file::find(state.files, file)?;
            if !open.writable {
                return Err(Error::NotWritable);
            }
            let end = open.appended.checked_add(bytes).ok_or(Error::NoSpace)?;
            let data = end.div_ceil(shape.unit_bytes());
            let want = map::file_units(data, open.checksums);
            let missing = want.saturating_sub(open.alloc_units);
            (open.slot.ok_or(Error::NotOpen)?, open.checksums, missing)
        };
        if missing > shape.unit_count() {
            return Err(Error::NoSpace);
        }
        let mut header = Slot::EMPTY;
        let loaded = self.load_slot(turn.slot.lend(), slot, &mut header).await?;
        // Each iteration allocates at least one unit.
        while missing > 0 {
            let (extents, count) = self
                .reserve_once(loaded, &mut header, missing, None)
                .await?;
            let mut state = self.state();
            // This operation is complete: a failure of the next one changes nothing.
            state.changing = false;
            let open = file::find(state.files, file)?;
            open.alloc_units = header.alloc_units;
            open.settled = false;
            let append_unit = map::file_unit(open.appended >> shape.unit_log2, checksums);
            for extent in extents.iter().take(count) {
                if extent.logical_end() > append_unit {
                    open.extend_ahead(extent.on_device(&shape), append_unit);
                }
                missing = missing.saturating_sub(u64::from(extent.len));
            }
        }
        turn.done();
        let mut state = self.state();
        Ok(file::find(state.files, file)?.reserved_bytes(&shape))
    }

    /// One reserve operation for the loaded slot: at least one unit, at most `want`. The slot is
    /// written with the other changes in `header`, so a file can be made with its space.
    pub(crate) async fn reserve_once(
        &self,
        loaded: Loaded<'_>,
        header: &mut Slot,
        want: u64,
        near: Option<u64>,
    ) -> Result<([Extent; crate::layout::RUNS], usize), Error> {
        let mut tail = Tail::default();
        self.tail(loaded, header, &mut tail).await?;
        let plan = self.plan(header, &tail, want, near).await?;
        let shape = self.shape();
        if plan.addition.rewrites() {
            // The leaf is written with the record, not after it: on a volume that is still marked
            // clean it would be newer than the superblock, or torn, and nothing would repair it.
            self.perform(|state| state.put_in_use()).await?;
        }
        let op_seq = self.state().superblock.seq + 1;
        let runs = plan.runs(&shape);

        // R3: the pairs written below were last written before this.
        self.perform(|state| state.order(Order::NodesBeforeReserve))
            .await?;
        let mut extents = [Extent::default(); crate::layout::RUNS];
        let mut logical = header.alloc_units;
        for (place, run) in extents.iter_mut().zip(plan.data.as_slice()) {
            *place = Extent {
                logical,
                start: run.start,
                len: run.len,
            };
            self.add_extent(loaded, header, &tail, place, &plan, op_seq)
                .await?;
            logical = place.logical_end();
        }
        header.alloc_units = logical;
        let slot = header.index;
        self.perform(|state| {
            let operation = Operation::Reserve { slot, runs };
            state.put_superblock(SPARE, &operation, false);
            // The record is durable before any node it governs: otherwise recovery could not undo
            // them.
            state.order(Order::ReserveBeforeNodes);
            state.put_bitmap(plan.group, op_seq);
            if !state.is_mutated(Mutation::NoOpNumber) {
                header.last_op = op_seq;
            }
            state.put_slot(loaded, header, false);
        })
        .await?;
        Ok((extents, plan.data.as_slice().len()))
    }

    /// Chooses what to allocate and sets its bits in the bitmap in node WORK, in memory only.
    async fn plan(
        &self,
        header: &Slot,
        tail: &Tail,
        want: u64,
        near: Option<u64>,
    ) -> Result<Allocation, Error> {
        let shape = self.shape();
        let mut groups = shape.group_count() as u32;
        if header.index == TABLE_NODE {
            // The table node's units have 32 bits.
            groups = groups.min(shape.group_of(1 << 32));
        }
        let next = tail.last.map(|last| last.end()).or(near);
        let hint = self.state().superblock.group_hint % groups;
        let first = next.map_or(hint, |unit| shape.group_of(unit));
        let mut damaged = None;
        let mut full = None;
        for turn in 0..groups {
            let group = (first + turn) % groups;
            match self.load_bitmap(group).await {
                Ok(()) => {}
                // A damaged group is skipped: it is unknown which of its units are free.
                Err(error @ Error::Corrupt(_)) => {
                    damaged = Some(error);
                    continue;
                }
                Err(error) => return Err(error),
            }
            match self.plan_in_group(header, tail, want, group) {
                Ok(Some(plan)) => return Ok(plan),
                Ok(None) => {}
                Err(error) => full = Some(error),
            }
        }
        Err(full.or(damaged).unwrap_or(Error::NoSpace))
    }

    fn plan_in_group(
        &self,
        header: &Slot,
        tail: &Tail,
        want: u64,
        group: u32,
    ) -> Result<Option<Allocation>, Error> {
        let shape = self.shape();
        let base = shape.group_start(group);
        let mut data = Runs::default();
        // What one group offers.
        let most = want.min(shape.group_units()) as u32;
        let mut left = most;
        let contiguous = {
            let state = self.state();
            let bytes = state.node(WORK);
            if bitmap::free_units(bytes) == 0 {
                return Ok(None);
            }
            let end = tail.last.map(|last| last.end());
            let free = |end| bitmap::free_from(bytes, shape.unit_in_group(end), most);
            end.filter(|&end| shape.group_of(end) == group)
                .map(|end| (end, free(end)))
                .filter(|&(_, len)| len > 0)
        };
        // The table has few extents: each is as long as was asked for, or in another group.
        let is_table = cfg!(feature = "grow") && header.index == TABLE_NODE;
        let contiguous = contiguous.filter(|&(_, len)| !is_table || len == most);
        if is_table && contiguous.is_none() {
            let align = 1 << most.ilog2();
            if bitmap::find(self.state().node(WORK), most, align).is_none() {
                return Ok(None);
            }
        }
        let addition = self.addition(header, tail, contiguous.is_some())?;
        let mut state = self.state();
        // From here on the bitmap in memory is ahead of the device.
        state.cached_group = NO_GROUP;
        let bytes = state.node_mut(WORK);
        if let Some((start, len)) = contiguous {
            let run = Run { start, len };
            bitmap::set_run(bytes, &run, &shape, true);
            data.push(run);
            left -= len;
        }
        // A leaf takes one extent per operation; a slot as many as it and the record have room for.
        let mut room = match addition {
            Addition::InSlot => header
                .most_entries(&shape)
                .saturating_sub(header.entry_count as usize)
                .min(data.room()),
            _ => usize::from(contiguous.is_none()),
        };
        while left > 0 && room > 0 {
            let Some(run) = take(bytes, left, base) else {
                break;
            };
            bitmap::set_run(bytes, &run, &shape, true);
            data.push(run);
            left -= run.len;
            room -= 1;
        }
        let mut pairs = [0; 2];
        let pair = shape.pair_units() as u32;
        let mut found = !data.as_slice().is_empty();
        for place in pairs.iter_mut().take(addition.pairs()) {
            // Units and groups are powers of two, so a pair aligned in its group is aligned.
            match bitmap::find(bytes, pair, pair) {
                Some(start) => {
                    bitmap::set(bytes, start, pair, true);
                    *place = base + u64::from(start);
                }
                None => found = false,
            }
        }
        if !found {
            return Ok(None);
        }
        state.cached_group = group;
        Ok(Some(Allocation {
            group,
            data,
            addition,
            pairs,
        }))
    }
}

/// The longest free run of at most `want` units that halving finds, aligned to a power of two, so
/// that several streams in one group do not interleave unit by unit.
fn take(bytes: &[u8], want: u32, base: u64) -> Option<Run> {
    let mut len = want;
    while len > 0 {
        let align = 1 << len.ilog2();
        if let Some(start) = bitmap::find(bytes, len, align) {
            return Some(Run {
                start: base + u64::from(start),
                len,
            });
        }
        len = if len == align { len / 2 } else { align };
    }
    None
}
