// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Renaming: the file moves to a slot of its new name's buckets. `FORMAT.md`, "Operations".

use block::Device;

use crate::lookup::Search;
use crate::{Error, Volume};

impl<D: Device> Volume<'_, D> {
    /// Renames a file. After a power cut it has the old or the new name, never both or none.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::NotFound`], [`Error::Exists`] if the new name is taken,
    /// [`Error::TableFull`] if the new name has no free slot, [`Error::InUse`] while the file is
    /// open, [`Error::NoSpace`] or [`Error::MapFull`] if the file's map does not fit beside a
    /// longer name, [`Error::ReadOnly`], [`Error::NeedsMount`], [`Error::Corrupt`], a device's
    /// error.
    pub async fn rename(&self, old: &str, new: &str) -> Result<(), Error> {
        let (old, new) = (self.checked_name(old)?, self.checked_name(new)?);
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
        self.refuse_doubtful(turn.slot.lend(), found, true).await?;
        let to = match self.search(new, &[]).await? {
            Search::Found(_) => return Err(Error::Exists),
            Search::Absent(Some(to)) => to.slot,
            Search::Absent(None) => {
                let node = turn.slot.lend();
                self.make_room(node, new, Some(from), &[]).await?.slot
            }
        };
        self.make_entries_fit(turn.slot.lend(), from, new).await?;
        self.state().begin_name(new);
        self.relocate(turn.slot.lend(), from, to, Some(new)).await?;
        // The new name is durable, so the rename has happened; recovery would also remove the old
        // one.
        turn.done();
        Ok(())
    }
}
