// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Making appended data part of the file. `FORMAT.md`, "Operations" and "Sync".

use core::future::{Future, poll_fn};
use core::task::Poll;

use block::Device;

use crate::file::{self, File};
use crate::order::{Mutation, Order};
use crate::slot::Slot;
use crate::token::SlotNode;
use crate::{Error, Volume};

impl<D: Device> Volume<'_, D> {
    /// Makes everything whose append has completed part of the file, and returns its size. What
    /// is still in flight waits for the next commit. The new size itself is durable with the next
    /// flush of any kind; until then a power cut leaves the file as the commit before had it.
    ///
    /// # Errors
    /// [`Error::NotOpen`], [`Error::NotWritable`], [`Error::NeedsMount`], a device's error.
    pub fn commit(&self, file: File) -> impl Future<Output = Result<u64, Error>> {
        self.commit_as(file, false)
    }

    /// Waits for the appends submitted so far, and returns the file's size when all of it is
    /// durable.
    ///
    /// # Errors
    /// Those of [`Volume::commit`]; [`Error::AppendFailed`] when one of the appends failed:
    /// everything before it is committed.
    pub fn sync(&self, file: File) -> impl Future<Output = Result<u64, Error>> {
        self.commit_as(file, true)
    }

    /// From now on a commit makes the file at most `size_bytes` long, so what was appended past it
    /// can be overwritten before it becomes part of the file. The file does not shrink; closing it
    /// gives the space past its size back.
    ///
    /// # Errors
    /// [`Error::NotOpen`], [`Error::NotWritable`]; [`Error::Unsupported`] for a file with
    /// checksums, whose data is not overwritten.
    pub fn limit_size(&self, file: File, size_bytes: u64) -> Result<(), Error> {
        let mut state = self.state();
        let open = file::find(state.files, file)?;
        if !open.writable {
            return Err(Error::NotWritable);
        }
        if open.checksums {
            return Err(Error::Unsupported);
        }
        open.size_limit = size_bytes;
        Ok(())
    }

    /// Sets when the file was modified, in nanoseconds since 1970: the next commit stores it in
    /// place of the volume's time ([`Volume::set_time`]), even if nothing was appended.
    ///
    /// # Errors
    /// [`Error::NotOpen`], [`Error::NotWritable`].
    pub fn set_modified(&self, file: File, ns: u64) -> Result<(), Error> {
        let mut state = self.state();
        let open = file::find(state.files, file)?;
        if !open.writable {
            return Err(Error::NotWritable);
        }
        open.modified_ns = Some(ns);
        Ok(())
    }

    /// Sets the application's number for the file
    /// ([`CreateOptions::app_tag`](crate::CreateOptions)): the next commit stores it, even if
    /// nothing was appended.
    ///
    /// # Errors
    /// [`Error::NotOpen`], [`Error::NotWritable`].
    pub fn set_app_tag(&self, file: File, app_tag: u64) -> Result<(), Error> {
        let mut state = self.state();
        let open = file::find(state.files, file)?;
        if !open.writable {
            return Err(Error::NotWritable);
        }
        open.app_tag = Some(app_tag);
        Ok(())
    }

    /// A commit or a sync; a commit does not wait for appends.
    async fn commit_as(&self, file: File, durable: bool) -> Result<u64, Error> {
        let mut target = 0;
        if durable {
            let mut state = self.state();
            let open = file::find(state.files, file)?;
            target = open.appended.min(open.size_limit);
        }
        self.settle_appends(file, target).await?;
        let mut turn = self.turn_to_change().await?;
        let size = self.commit_in_turn(turn.slot.lend(), file, durable).await?;
        turn.done();
        if size < target {
            return Err(Error::AppendFailed);
        }
        Ok(size)
    }

    /// Waits until no append before `target` is in flight.
    pub(crate) fn settle_appends(
        &self,
        file: File,
        target: u64,
    ) -> impl Future<Output = Result<(), Error>> {
        poll_fn(move |_| {
            let mut state = self.state();
            match file::find(state.files, file) {
                Ok(open) if open.completed < target && open.appends_in_flight() => Poll::Pending,
                Ok(_) => Poll::Ready(Ok(())),
                Err(error) => Poll::Ready(Err(error)),
            }
        })
    }

    pub(crate) async fn commit_in_turn(
        &self,
        mut node: SlotNode<'_>,
        file: File,
        durable: bool,
    ) -> Result<u64, Error> {
        let (slot, size, tail_crc, modified_ns, app_tag, changed) = {
            let mut state = self.state();
            let open = file::find(state.files, file)?;
            if !open.writable {
                return Err(Error::NotWritable);
            }
            (
                open.slot.ok_or(Error::NotOpen)?,
                open.committable(),
                open.completed_crc,
                open.modified_ns,
                open.app_tag,
                open.committable() != open.committed
                    || open.modified_ns.is_some()
                    || open.app_tag.is_some(),
            )
        };
        if !changed {
            if durable {
                self.perform(|state| state.order(Order::OverwriteBeforeAnswer))
                    .await?;
            }
            return Ok(size);
        }
        let size = if self.state().is_mutated(Mutation::CommitInFlight) {
            file::find(self.state().files, file)?.appended
        } else {
            size
        };
        self.perform(|state| state.put_in_use()).await?;
        let mut header = Slot::EMPTY;
        let mut loaded = self.load_slot(node.lend(), slot, &mut header).await?;
        if header.has_checksums() {
            self.store_sums(file, loaded, &header).await?;
            loaded = self.load_slot(node, slot, &mut header).await?;
        }
        header.size_bytes = size;
        header.tail_crc = tail_crc;
        header.app_tag = app_tag.unwrap_or(header.app_tag);
        self.perform(|state| {
            // The data is durable before the size that covers it; and the slot's other member,
            // which was written last, before this one (R3).
            state.order(Order::DataBeforeSize);
            header.mtime_ns = modified_ns.unwrap_or(state.now_ns);
            if durable {
                state.put_slot_durably(loaded, &mut header);
            } else {
                state.put_slot(loaded, &mut header, false);
            }
        })
        .await?;
        let mut state = self.state();
        let open = file::find(state.files, file)?;
        open.committed = size;
        open.committed_crc = tail_crc;
        open.settled = false;
        if open.modified_ns == modified_ns {
            open.modified_ns = None;
        }
        if open.app_tag == app_tag {
            open.app_tag = None;
        }
        Ok(size)
    }
}
