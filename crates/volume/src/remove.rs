// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Removing files, and giving their units back.

use core::future::Future;

use block::Device;

use crate::lookup::{FoundSlot, Search};
use crate::order::{Mutation, Order};
use crate::slot::{Slot, State as SlotState};
use crate::token::SlotNode;
use crate::{Error, Volume};

/// A file that was removed and still has units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    slot: u32,
    file_id: u64,
}

impl<D: Device> Volume<'_, D> {
    /// Removes a file. When this returns the removal is durable. A file with few extents gives its
    /// units back in the same operation; a larger one is marked, and [`Volume::reap`] does the
    /// rest.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::NotFound`], [`Error::InUse`] while it is open,
    /// [`Error::ReadOnly`], [`Error::NeedsMount`], [`Error::Corrupt`], a device's error.
    pub async fn remove(&self, name: &str) -> Result<(), Error> {
        self.remove_marked(name).await.map(|_| ())
    }

    /// Removes a file and gives all its units back, by several operations if it has many extents;
    /// others have their turn in between. Reads the name's buckets and the file's map, and no other
    /// slot.
    ///
    /// # Errors
    /// Those of [`Volume::remove`]. After an error the file may be removed and still have units,
    /// which [`Volume::reap`] gives back.
    pub async fn remove_whole(&self, name: &str) -> Result<(), Error> {
        match self.remove_marked(name).await? {
            Some(removed) => self.release_removed(removed).await,
            None => Ok(()),
        }
    }

    /// Gives all units of a removed file back, by several operations if it has many extents; others
    /// have their turn in between. Nothing is done if a sweep was faster.
    ///
    /// # Errors
    /// Those of [`Volume::reap`].
    pub async fn release_removed(&self, removed: Removed) -> Result<(), Error> {
        let Removed { slot, file_id } = removed;
        // Each iteration gives back at least one unit.
        loop {
            let mut turn = self.turn_to_change().await?;
            let mut header = Slot::EMPTY;
            let loaded = self.load_slot(turn.slot.lend(), slot, &mut header).await?;
            // In the meantime a sweep may have done it, and the slot may have a new file.
            if header.state != SlotState::Reap || header.file_id != file_id {
                turn.done();
                return Ok(());
            }
            self.release_once(loaded, &mut header, 0).await?;
            turn.done();
        }
    }

    /// Like [`Volume::remove`]; if the file still has units, returns what
    /// [`Volume::release_removed`] needs to give them back later, without a sweep of the table.
    ///
    /// # Errors
    /// Those of [`Volume::remove`].
    pub async fn remove_marked(&self, name: &str) -> Result<Option<Removed>, Error> {
        let name = self.checked_name(name)?;
        let mut turn = self.turn_to_change().await?;
        let Search::Found(found) = self.search(name, &[]).await? else {
            return Err(Error::NotFound);
        };
        let slot = found.slot;
        if self
            .state()
            .files
            .iter()
            .any(|open| open.slot == Some(slot))
        {
            return Err(Error::InUse);
        }
        let found = self.refuse_doubtful(turn.slot.lend(), found, true).await?;
        let shape = self.shape();
        let mut header = Slot::EMPTY;
        self.load_found(turn.slot.lend(), found, &mut header)?;
        // It is in memory, unless a member of it is to be erased first (R8).
        let loaded = self.load_slot(turn.slot.lend(), slot, &mut header).await?;
        let groups_touched =
            header.alloc_units.div_ceil(shape.group_units()) + u64::from(header.entry_count);
        if header.alloc_units > 0
            && header.map_level == 0
            && groups_touched <= crate::layout::RUNS as u64
        {
            // All of it fits one operation, so the name and the units are removed together.
            header.state = SlotState::Reap;
            header.size_bytes = 0;
            self.release_once(loaded, &mut header, 0).await?;
            self.perform(|state| state.order(Order::RemoveBeforeAnswer))
                .await?;
        } else {
            if header.alloc_units == 0 {
                header = Slot::free(slot, header.seq, header.last_op);
            } else {
                header.state = SlotState::Reap;
                header.size_bytes = 0;
            }
            self.perform(|state| {
                state.put_in_use();
                state.order(Order::CommitBeforeRemove);
                state.put_slot_durably(loaded, &mut header);
            })
            .await?;
            if header.state == SlotState::Free && !self.state().is_mutated(Mutation::HalfFree) {
                // R9. With force unit access too, so that the next operation needs no flush for it.
                self.perform(|state| {
                    let fua = state.has_fua();
                    state.put_slot(loaded, &mut header, fua);
                })
                .await?;
            }
        }
        self.state().superblock.counts.move_files(-1);
        turn.done();
        let file_id = header.file_id;
        Ok((header.state == SlotState::Reap).then_some(Removed { slot, file_id }))
    }

    /// Gives back units of removed files: visits slots from `from` on, performs at most one release
    /// operation, and returns where to continue, or `None` after the last slot. To sweep the whole
    /// table, call this in a loop, in as many steps as the caller likes.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::NeedsMount`], [`Error::Corrupt`], a device's error.
    pub fn reap(&self, from: u32) -> impl Future<Output = Result<Option<u32>, Error>> {
        self.sweep(from, false)
    }

    /// Like [`Volume::reap`], but also gives back the reservations of writers that never closed
    /// their file: after a power cut or a killed program, that space would otherwise stay with the
    /// file. A reservation that [`Volume::close_keeping`] kept stays, as do those of files that are
    /// open. A file whose reservation is in a damaged group is skipped.
    ///
    /// # Errors
    /// Those of [`Volume::reap`].
    pub fn reclaim(&self, from: u32) -> impl Future<Output = Result<Option<u32>, Error>> {
        self.sweep(from, true)
    }

    async fn sweep(&self, from: u32, of_dead_writers: bool) -> Result<Option<u32>, Error> {
        let mut turn = self.turn_to_change().await?;
        let count = self.slot_count();
        let mut slot = from;
        while slot < count {
            let run = self.read_slots(slot, count - slot).await?;
            let mut found = None;
            for index in 0..run {
                let is_removed =
                    self.slot_in_run(slot, index, |header, _| header.state == SlotState::Reap)?;
                if is_removed == Some(true)
                    || of_dead_writers && self.abandoned_in_run(slot, index)? > 0
                {
                    found = Some(slot + index);
                    break;
                }
            }
            if let Some(slot) = found {
                let done = self.give_back(turn.slot.lend(), slot).await?;
                turn.done();
                return Ok(Some(slot + u32::from(done)).filter(|&next| next < count));
            }
            slot += run;
        }
        turn.done();
        Ok(None)
    }

    /// One release operation on a slot that is to be reaped, or on a file whose writer died; true
    /// when nothing is left to give back, or nothing can be.
    async fn give_back(&self, mut node: SlotNode<'_>, slot: u32) -> Result<bool, Error> {
        self.read_slots(slot, 1).await?;
        let found = FoundSlot { slot, index: 0 };
        match self.refuse_doubtful(node.lend(), found, true).await {
            Ok(_) => {}
            // A check reports it. Nothing was changed.
            Err(Error::Corrupt(_)) => return Ok(true),
            Err(error) => return Err(error),
        }
        let mut header = Slot::EMPTY;
        let loaded = self.load_slot(node, slot, &mut header).await?;
        if header.state == SlotState::Reap {
            self.release_once(loaded, &mut header, 0).await?;
            return Ok(header.state == SlotState::Free);
        }
        let keep = header.data_end_units(&self.shape());
        match self.release_once(loaded, &mut header, keep).await {
            // It is unknown which units of a damaged group are free. Nothing was changed.
            Err(Error::Corrupt(_)) if !self.state().changing => return Ok(true),
            result => result?,
        }
        if header.alloc_units > keep {
            return Ok(false);
        }
        self.perform(|state| {
            // As when the file is closed: makes the other member equal.
            state.order(Order::CommitBeforeCopy);
            state.put_slot(loaded, &mut header, false);
        })
        .await?;
        Ok(true)
    }

    /// Units past the end of a file's data that a writer reserved and never gave back: of a slot in
    /// the run that [`Volume::read_slots`] read from `first` on.
    ///
    /// A closed file has two equal members, whatever reservation it kept; the first operation of a
    /// writer makes them differ until it closes the file.
    pub(crate) fn abandoned_in_run(&self, first: u32, index: u32) -> Result<u64, Error> {
        let shape = self.shape();
        let unused = self.slot_in_run(first, index, |header, _| match header.state {
            SlotState::Live => header.alloc_units - header.data_end_units(&shape),
            SlotState::Free | SlotState::Reap | SlotState::Table => 0,
        })?;
        let state = self.state();
        let slot = first + index;
        let is_open = state.files.iter().any(|open| open.slot == Some(slot));
        match unused {
            Some(units) if !is_open && !state.members_agree(first, index) => Ok(units),
            _ => Ok(0),
        }
    }
}
