// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Closing a file.

use core::future::{Future, poll_fn};
use core::task::Poll;

use block::Device;

use crate::file::{self, File};
use crate::map;
use crate::order::Order;
use crate::slot::Slot;
use crate::{Error, Volume};

impl<D: Device> Volume<'_, D> {
    /// Waits for everything in flight, syncs, gives the unused reservation back, and writes both
    /// members of the file's slot, so that from now on either may rot without loss.
    /// [`Volume::poll`] returns the buffers of requests in flight as usual.
    ///
    /// # Errors
    /// As [`Volume::sync`]. After [`Error::AppendFailed`] the file is closed, with the data before
    /// the failure; after another error it is closed, in the state that a power cut leaves.
    pub fn close(&self, file: File) -> impl Future<Output = Result<(), Error>> {
        self.close_keeping(file, 0)
    }

    /// Like [`Volume::close`], but keeps up to `bytes` of the reservation for later appends.
    ///
    /// # Errors
    /// Those of [`Volume::close`].
    pub async fn close_keeping(&self, file: File, bytes: u64) -> Result<(), Error> {
        self.wait_for_all(file).await?;
        let result = self.finish_file(file, bytes).await;
        let mut state = self.state();
        file::find(state.files, file)?.reset();
        result
    }

    /// Closes a file without a sync, in the state that a power cut leaves: what was not synced is
    /// lost, also what was written.
    ///
    /// # Errors
    /// [`Error::Busy`] while a request is in flight, [`Error::NotOpen`].
    pub fn abandon_file(&self, file: File) -> Result<(), Error> {
        let mut state = self.state();
        let open = file::find(state.files, file)?;
        if open.in_flight() {
            return Err(Error::Busy);
        }
        open.reset();
        Ok(())
    }

    fn wait_for_all(&self, file: File) -> impl Future<Output = Result<(), Error>> {
        poll_fn(move |_| {
            let mut state = self.state();
            match file::find(state.files, file) {
                Ok(open) if open.in_flight() => Poll::Pending,
                Ok(_) => Poll::Ready(Ok(())),
                Err(error) => Poll::Ready(Err(error)),
            }
        })
    }

    async fn finish_file(&self, file: File, keep_bytes: u64) -> Result<(), Error> {
        let (slot, writable, failed) = {
            let mut state = self.state();
            let open = file::find(state.files, file)?;
            (
                open.slot.ok_or(Error::NotOpen)?,
                open.writable,
                open.has_failed(),
            )
        };
        if !writable {
            return Ok(());
        }
        let mut turn = self.turn_to_change().await?;
        let size = self.commit_in_turn(turn.slot.lend(), file, true).await?;
        turn.done();
        let shape = self.shape();
        let mut header = Slot::EMPTY;
        let loaded = self.load_slot(turn.slot.lend(), slot, &mut header).await?;
        let data = size.saturating_add(keep_bytes).div_ceil(shape.unit_bytes());
        let keep = map::file_units(data, header.has_checksums());
        let settled = {
            let mut state = self.state();
            file::find(state.files, file)?.settled
        };
        let mut released = false;
        // Each iteration gives back at least one unit.
        while header.alloc_units > keep {
            self.release_once(loaded, &mut header, keep).await?;
            // This operation is complete: a failure of the next one changes nothing.
            self.state().changing = false;
            released = true;
        }
        if released || !settled {
            self.perform(|state| {
                // R3, then the other member: both are now equal.
                state.order(Order::CommitBeforeCopy);
                state.put_slot(loaded, &mut header, false);
            })
            .await?;
            // No barrier is needed: what was synced is durable, and the rest can be repeated.
        }
        turn.done();
        if failed {
            return Err(Error::AppendFailed);
        }
        Ok(())
    }
}
