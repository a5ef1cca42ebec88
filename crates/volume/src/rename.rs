// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Renaming: the file moves to a slot of its new name's buckets. `FORMAT.md`, "Operations".

use block::Device;

use crate::io::{NO_GROUP, SPARE, WORK};
use crate::lookup::Search;
use crate::name::NameRef;
use crate::order::Order;
use crate::slot::{self, Slot, State as SlotState};
use crate::superblock::Operation;
use crate::{Error, Volume};

impl<D: Device> Volume<'_, D> {
    /// Renames a file. After a power cut it has the old or the new name, never both or none.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::NotFound`], [`Error::Exists`] if the new name is taken,
    /// [`Error::TableFull`] if the new name has no free slot, [`Error::InUse`] while the file is
    /// open, [`Error::ReadOnly`], [`Error::NeedsMount`], [`Error::Corrupt`], a device's error.
    pub async fn rename(&self, old: &str, new: &str) -> Result<(), Error> {
        let (old, new) = (NameRef::new(old)?, NameRef::new(new)?);
        let mut turn = self.turn_to_change().await?;
        let Search::Found(found) = self.search(old, &[]).await? else {
            return Err(Error::NotFound);
        };
        let from = found.slot;
        if self
            .state()
            .files
            .iter()
            .any(|open| open.slot == Some(from))
        {
            return Err(Error::InUse);
        }
        if old == new {
            turn.done();
            return Ok(());
        }
        let to = match self.search(new, &[]).await? {
            Search::Found(_) => return Err(Error::Exists),
            Search::Absent(to) => to.ok_or(Error::TableFull)?.slot,
        };
        let mut target = Slot::EMPTY;
        self.load_slot(turn.slot.lend(), to, &mut target).await?;
        if target.state != SlotState::Free {
            return Err(Error::from(crate::Node::Slot(to)));
        }
        let mut source = Slot::EMPTY;
        let loaded = self.load_slot(turn.slot.lend(), from, &mut source).await?;
        let op_seq = self.state().superblock.seq + 1;
        let mut moved = Slot {
            seq: target.seq,
            last_op: op_seq,
            index: to,
            ..source
        };
        let mut freed = Slot::free(from, source.seq, op_seq);
        self.perform(|state| {
            state.order(Order::NodesBeforeRename);
            state.put_superblock(SPARE, &Operation::Rename { from, to }, false);
            // The record is durable before the new name: otherwise both names could stay.
            state.order(Order::RenameBeforeName);
            slot::set_name(state.slot_mut(loaded), new);
            state.put_slot(loaded, &mut moved, false);
            // The new name is durable before the old one is removed: otherwise both could be lost.
            state.order(Order::NameBeforeOld);
            state.cached_group = NO_GROUP;
            state.put_slot_from(WORK, &mut freed, false);
        })
        .await?;
        // The new name is durable, so the rename has happened; recovery would also remove the old
        // one.
        turn.done();
        Ok(())
    }
}
