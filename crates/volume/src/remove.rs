//! Removing files, and giving their units back.

use block::Device;

use crate::lookup::Search;
use crate::name::Name;
use crate::order::Order;
use crate::slot::{Slot, State as SlotState};
use crate::steps::Steps;
use crate::{Error, Volume};

impl<D: Device> Volume<'_, D> {
    /// Removes a file. When this returns the name is gone for good. A file of a few extents gives
    /// its units back in the same operation; a larger one is marked, and [`Volume::reap`] does
    /// the rest.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::NotFound`], [`Error::InUse`] while it is open,
    /// [`Error::ReadOnly`], [`Error::NeedsMount`], [`Error::Corrupt`], a device's error.
    pub async fn remove(&self, name: &str) -> Result<(), Error> {
        let mut steps = Steps::new();
        let name = Name::new(name)?;
        let turn = self.turn_to_change().await?;
        let Search::Found(slot) = self.search(&name).await? else {
            return Err(Error::NotFound);
        };
        if self
            .state()
            .files
            .iter()
            .any(|open| open.slot == Some(slot))
        {
            return Err(Error::InUse);
        }
        let shape = self.shape();
        let mut header = Slot::EMPTY;
        self.load_slot(slot, &mut header).await?;
        let groups_touched =
            header.alloc_units.div_ceil(shape.group_units()) + u64::from(header.entry_count);
        if header.alloc_units > 0
            && header.map_level == 0
            && groups_touched <= crate::layout::RUNS as u64
        {
            // All of it fits one operation, so the name and the units go together.
            header.state = SlotState::Reap;
            header.size_bytes = 0;
            self.release_once(&mut header, 0).await?;
            self.perform(&mut steps, |state, steps| {
                state.order(steps, Order::RemoveBeforeAnswer)
            })
            .await?;
        } else {
            if header.alloc_units == 0 {
                header = Slot::free(slot, header.seq, header.last_op);
            } else {
                header.state = SlotState::Reap;
                header.size_bytes = 0;
            }
            self.perform(&mut steps, |state, steps| {
                state.put_in_use(steps);
                state.order(steps, Order::CommitBeforeRemove);
                state.put_slot_durably(steps, &mut header);
            })
            .await?;
        }
        turn.done();
        Ok(())
    }

    /// Gives back units of removed files: looks at slots from `from` on, works for at most one
    /// release operation, and returns where to go on, or None when the last slot is done. A sweep
    /// of the whole table is a loop over this, in as many pieces as the caller likes.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::NeedsMount`], [`Error::Corrupt`], a device's error.
    pub async fn reap(&self, from: u32) -> Result<Option<u32>, Error> {
        let turn = self.turn_to_change().await?;
        let count = self.shape().slot_count();
        let mut slot = from;
        while slot < count {
            let run = self.read_slots(slot, count - slot).await?;
            let mut found = None;
            for index in 0..run {
                let state = self.slot_in_run(slot, index, |header, _| header.state)?;
                if state == Some(SlotState::Reap) {
                    found = Some(slot + index);
                    break;
                }
            }
            if let Some(slot) = found {
                let mut header = Slot::EMPTY;
                self.load_slot(slot, &mut header).await?;
                self.release_once(&mut header, 0).await?;
                turn.done();
                let done = header.state == SlotState::Free;
                return Ok(Some(slot + u32::from(done)).filter(|&next| next < count));
            }
            slot += run;
        }
        turn.done();
        Ok(None)
    }
}
