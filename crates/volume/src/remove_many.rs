// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Removing several files in one operation, so that they share its flushes. `FORMAT.md`,
//! "Operations".

use block::Device;

use crate::create_many::{Place, is_taken};
use crate::io::{NO_GROUP, NO_SLOT, SPARE, State, WORK};
use crate::layout::LISTED_SLOTS;
use crate::lookup::Search;
use crate::order::{Mutation, Order};
use crate::pair::has_numbers;
use crate::slot::{Slot, State as SlotState};
use crate::superblock::{Operation, Run, Runs};
use crate::token::SlotNode;
use crate::{Error, Volume, bitmap};

impl Place {
    /// The units of the file, if it has any.
    fn run(&self) -> Option<Run> {
        let (start, len) = (self.unit, self.units);
        (len > 0).then_some(Run { start, len })
    }
}

impl<D: Device> Volume<'_, D> {
    /// Removes the first of these files, as many as one operation takes, and returns how many:
    /// their removal is durable, and their units are free. After a power cut in the middle each of
    /// them is there, whole, or removed; what is removed gives its units back at the next mount.
    ///
    /// 0 says that the first one cannot be removed in this way, because it has several extents or a
    /// lost copy, or no free units are left for the list: remove it with [`Volume::remove_whole`].
    ///
    /// The slots are in a list on the device, as those of [`Volume::create_batch`] are; a reader
    /// that does not know this record refuses a volume that was left in the middle of it. The
    /// future holds 48 bytes for each of the `N`, of which at most 4,096 count.
    ///
    /// # Errors
    /// Those of [`Volume::remove`] for the first file; a later one with an error ends the batch
    /// before it.
    pub async fn remove_batch<const N: usize>(&self, names: &[&str]) -> Result<usize, Error> {
        let turn = self.turn_to_change().await?;
        let mut places = [Place::default(); N];
        let mut count = 0;
        for name in names.iter().take(N.min(LISTED_SLOTS as usize)) {
            let taken = places.get(..count).unwrap_or_default();
            match (self.place_of(name, taken).await, places.get_mut(count)) {
                (Ok(Some(place)), Some(entry)) => *entry = place,
                (Err(error), _) if count == 0 => return Err(error),
                _ => break,
            }
            count += 1;
        }
        let places = places.get_mut(..count).unwrap_or_default();
        let count = self.sound_units(places).await?;
        let (runs, count) = self.run_for_list(count).await?;
        let places = places.get_mut(..count).unwrap_or_default();
        if let (Some(run), false) = (runs.as_slice().first(), places.is_empty()) {
            self.remove_listed(names, places, run, runs).await?;
        }
        turn.done();
        Ok(count)
    }

    /// The file of this name; `None` if it is not removed in a list, or is in `taken`.
    async fn place_of(&self, name: &str, taken: &[Place]) -> Result<Option<Place>, Error> {
        let name = self.checked_name(name)?;
        let Search::Found(found) = self.search(name, &[]).await? else {
            return Err(Error::NotFound);
        };
        let slot = found.slot;
        let (shape, newest) = {
            let state = self.state();
            if state.files.iter().any(|open| open.slot == Some(slot)) {
                return Err(Error::InUse);
            }
            (state.shape(), state.superblock.seq)
        };
        let place = self.slot_in_run(slot - found.index, found.index, |header, bytes| {
            let extent = header.last_extent(bytes).unwrap_or_default();
            let is_one = header.map_level == 0 && header.entry_count <= 1;
            let last = extent.end().saturating_sub(1).max(extent.start);
            let is_in_group = shape.group_of(extent.start) == shape.group_of(last);
            let place = Place {
                slot,
                seq: header.seq,
                last_op: header.last_op,
                file_id: header.file_id,
                unit: extent.start,
                units: extent.len,
                file: taken.len() as u32,
            };
            (header.whole && is_one && is_in_group).then_some(place)
        })?;
        // One that a release has begun to free is in doubt, although both copies are valid.
        let is_doubtful = self.state().is_doubtful(slot - found.index, found.index);
        let place = place
            .flatten()
            .filter(|place| !is_doubtful && has_numbers(place.seq) && !is_taken(taken, place.slot));
        match place {
            Some(place) if place.last_op > newest => Err(Error::StaleSuperblock),
            place => Ok(place),
        }
    }

    /// How many of these files, from the first one on, have units in sound bitmaps, which are all
    /// marked: before anything is changed, as in a release.
    async fn sound_units(&self, places: &mut [Place]) -> Result<usize, Error> {
        let shape = self.shape();
        let mut count = places.len();
        places.sort_unstable_by_key(|place| place.unit);
        for place in places.iter() {
            let Some(run) = place.run() else { continue };
            let is_sound = match self.load_bitmap(shape.group_of(run.start)).await {
                Ok(()) => bitmap::has_run(self.state().node(WORK), &run, &shape),
                Err(Error::Corrupt(_)) => false,
                Err(error) => return Err(error),
            };
            if !is_sound {
                count = count.min(place.file as usize);
            }
        }
        places.sort_unstable_by_key(|place| place.file);
        Ok(count)
    }

    /// Free units for a list of at most `count` slots, and of how many it is.
    async fn run_for_list(&self, mut count: usize) -> Result<(Runs, usize), Error> {
        let mut runs = Runs::default();
        // One file alone takes as few flushes without a list.
        while count > 1 {
            let want = self.shape().list_units(count as u32);
            if let Some(run) = self.find_units(want).await? {
                runs.push(run);
                // They stay free: the bitmap in memory is not the device's.
                self.state().cached_group = NO_GROUP;
                return Ok((runs, count));
            }
            count /= 2;
        }
        Ok((runs, 0))
    }

    /// The operation itself.
    async fn remove_listed(
        &self,
        names: &[&str],
        places: &mut [Place],
        run: &Run,
        runs: Runs,
    ) -> Result<(), Error> {
        let shape = self.shape();
        let count = places.len() as u32;
        let name_of = |place: &Place| names.get(place.file as usize).copied().unwrap_or_default();
        self.perform(|state| {
            state.put_in_use();
            // R3, and units that the last operation freed may be used only now.
            state.order(Order::NodesBeforeRemoveMany);
        })
        .await?;
        let op_seq = self.state().superblock.seq + 1;
        places.sort_unstable_by_key(|place| if place.units > 0 { place.unit + 1 } else { 0 });
        self.write_list(run, places, op_seq).await?;
        places.sort_unstable_by_key(|place| place.slot);
        let removed = |state: &State<'_, D>, place: &mut Place| {
            place.seq += state.seq_step(Mutation::SlotInPlace);
            let free = Slot::free(place.slot, place.seq, place.last_op);
            // A slot to be reaped has units.
            Some(if place.units == 0 {
                free
            } else {
                Slot {
                    file_id: place.file_id,
                    alloc_units: u64::from(place.units),
                    state: SlotState::Reap,
                    ..free
                }
            })
        };
        self.put_slots(places, name_of, removed).await?;
        self.perform(|state| {
            state.put_superblock(SPARE, &Operation::RemoveList { runs, count }, false);
            // From here on they are removed.
            state.order(Order::RemoveManyBeforeNodes);
        })
        .await?;
        self.state().superblock.counts.move_files(-(count as i32));
        places.sort_unstable_by_key(|place| place.unit);
        let group_of = |place: &Place| shape.group_of(place.unit);
        for places in places.chunk_by(|one, other| group_of(one) == group_of(other)) {
            let mut runs = places.iter().filter_map(Place::run).peekable();
            let Some(first) = runs.peek() else { continue };
            let group = shape.group_of(first.start);
            self.load_bitmap(group).await?;
            self.perform(|state| {
                let bytes = state.node_mut(WORK);
                runs.for_each(|run| bitmap::set_run(bytes, &run, &shape, false));
                state.put_bitmap(group, op_seq);
            })
            .await?;
        }
        places.sort_unstable_by_key(|place| place.slot);
        // R9. Until the newest member is overwritten that one is in force.
        self.put_slots(places, name_of, |_, place| {
            Some(Slot::free(place.slot, place.seq - 1, place.last_op))
        })
        .await?;
        self.perform(|state| state.order(Order::BitmapsBeforeFree))
            .await?;
        // No barrier is needed: recovery would do the same, until a record replaces this one.
        self.put_slots(places, name_of, |_, place| {
            Some(Slot::free(place.slot, place.seq, op_seq))
        })
        .await
    }

    /// Recovery of files that were removed in a list: gives the units of those to be reaped back,
    /// as the operation does.
    pub(crate) async fn settle_removed(
        &self,
        mut node: SlotNode<'_>,
        run: &Run,
        count: u32,
        op_seq: u64,
    ) -> Result<(), Error> {
        let shape = self.shape();
        self.perform(|state| state.order(Order::CacheBeforeRecovery))
            .await?;
        // Without the list nothing was given back.
        if !self.is_listed(run, count, op_seq).await? {
            return Ok(());
        }
        // The group whose bitmap is in memory, whether it is torn, and its free units.
        let mut open: Option<(u32, bool, u32)> = None;
        for number in 0..count {
            let slot = self.slot_of_list(run, number, count, op_seq).await?;
            let Some(freed) = self.listed_file(node.lend(), slot).await? else {
                continue;
            };
            let Some(freed) = freed.run() else { continue };
            let group = shape.group_of(freed.start);
            if open.is_none_or(|(open, ..)| open != group) {
                if let Some((group, torn, before)) = open.take() {
                    self.put_settled(group, (torn, before), op_seq).await?;
                }
                self.load_bitmap_pair(group).await?;
                let state = self.state();
                bitmap::check(state.node(WORK), group, &shape)?;
                let torn = !state.both && !state.is_mutated(Mutation::LeaveTorn);
                open = Some((group, torn, bitmap::free_units(state.node(WORK))));
            }
            bitmap::set_run(self.state().node_mut(WORK), &freed, &shape, false);
        }
        if let Some((group, torn, before)) = open {
            self.put_settled(group, (torn, before), op_seq).await?;
        }
        for is_newest in [false, true] {
            for number in 0..count {
                let slot = self.slot_of_list(run, number, count, op_seq).await?;
                let Some(file) = self.listed_file(node.lend(), slot).await? else {
                    continue;
                };
                let mut header = Slot::EMPTY;
                let loaded = self.load_slot(node.lend(), slot, &mut header).await?;
                let last_op = if is_newest { op_seq } else { file.last_op };
                let mut freed = Slot::free(slot, file.seq, last_op);
                freed.rewind()?;
                freed.seq += u64::from(is_newest);
                // R8: a member that was not valid is erased.
                let is_erased = !self.state().both;
                self.perform(|state| {
                    if is_erased {
                        state.order(Order::CacheBeforeRecovery);
                    }
                    state.put_slot(loaded, &mut freed, false);
                    state.cached_slot = NO_SLOT;
                })
                .await?;
            }
            self.perform(|state| state.order(Order::BitmapsBeforeFree))
                .await?;
        }
        Ok(())
    }

    /// The file in a slot of the list, if it is to be reaped.
    async fn listed_file(&self, node: SlotNode<'_>, slot: u32) -> Result<Option<Place>, Error> {
        let mut header = Slot::EMPTY;
        let loaded = self.load_slot(node, slot, &mut header).await?;
        let extent = header.last_extent(self.state().slot(loaded));
        let extent = extent.unwrap_or_default();
        let is_listed = header.state == SlotState::Reap
            && header.map_level == 0
            && header.entry_count <= 1
            && u64::from(extent.len) == header.alloc_units;
        Ok(is_listed.then_some(Place {
            slot,
            seq: header.seq,
            last_op: header.last_op,
            file_id: header.file_id,
            unit: extent.start,
            units: extent.len,
            file: 0,
        }))
    }
}
