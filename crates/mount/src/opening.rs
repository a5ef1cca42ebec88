// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opening and closing files, and reads.

use super::files::{Done, Files, MOVE_BYTES};
use super::open::Open;
use super::tail::Writer;
use super::tree::{Number, Tree};
use ::volume::File;
use block::Buffer;
use std::ops::Range;
use std::rc::Rc;

impl Files<'_, '_, '_> {
    /// Opens a file, once more if it is open.
    pub(super) async fn open(&self, number: Number, writes: bool) -> Done<()> {
        let _names = self.names.enter().await;
        self.open_named(number, writes).await
    }

    /// The same inside the gate of the names.
    pub(super) async fn open_named(&self, number: Number, writes: bool) -> Done<()> {
        if let Ok(open) = self.opened(number) {
            if writes && open.writer.borrow().is_none() {
                let _alone = open.alone().await;
                self.mounted.volume.close(open.file.get()).await?;
                let reopened = self.reopen(number, &open, true).await;
                if reopened.is_err() {
                    self.reopen(number, &open, false).await?;
                }
                reopened?;
            }
            open.count(writes, 1);
            return Ok(());
        }
        let name = self.name(number)?;
        let file = if writes {
            self.mounted.volume.open_to_write(&name).await?
        } else {
            self.mounted.volume.open(&name).await?
        };
        let writer = if writes {
            Some(self.writer_or_close(file).await?)
        } else {
            None
        };
        self.insert(number, file, writer, writes);
        Ok(())
    }

    /// Keeps a file that was opened.
    pub(super) fn insert(&self, number: Number, file: File, writer: Option<Writer>, writes: bool) {
        let open = Open::new(file, writer, writes);
        self.open.borrow_mut().insert(number, Rc::new(open));
    }

    /// Opens the volume's file again, which is closed.
    pub(super) async fn reopen(&self, number: Number, open: &Open, writes: bool) -> Done<()> {
        let name = self.name(number)?;
        if writes {
            let file = self.mounted.volume.open_to_write(&name).await?;
            let writer = self.writer_or_close(file).await?;
            open.file.set(file);
            open.writer.replace(Some(writer));
        } else {
            open.file.set(self.mounted.volume.open(&name).await?);
            open.writer.replace(None);
        }
        Ok(())
    }

    async fn writer_or_close(&self, file: File) -> Done<Writer> {
        match self.new_writer(file).await {
            Ok(writer) => Ok(writer),
            Err(error) => {
                let _ = self.mounted.volume.close(file).await;
                Err(error)
            }
        }
    }

    /// Closes a file, when all who opened it have; its changes end when all who write have closed
    /// it.
    pub(super) async fn close(&self, number: Number, writes: bool) -> Done<()> {
        let _names = self.names.enter().await;
        self.close_named(number, writes).await
    }

    /// The same inside the gate of the names.
    pub(super) async fn close_named(&self, number: Number, writes: bool) -> Done<()> {
        let open = self.opened(number)?;
        let _alone = open.alone().await;
        open.count(writes, -1);
        let uses = open.uses.get();
        if uses.writes > 0 || (!writes && uses.reads > 0) {
            return Ok(());
        }
        if uses.reads > 0 {
            let closed = self.close_volume_s(number, &open).await;
            self.reopen(number, &open, false).await?;
            return closed;
        }
        self.close_last(number, &open).await
    }

    /// Closes a file, however often it is open.
    pub(super) async fn close_all(&self, number: Number) -> Done<()> {
        let _names = self.names.enter().await;
        let Ok(open) = self.opened(number) else {
            return Ok(());
        };
        let _alone = open.alone().await;
        self.close_last(number, &open).await
    }

    async fn close_last(&self, number: Number, open: &Open) -> Done<()> {
        let closed = self.close_volume_s(number, open).await;
        self.open.borrow_mut().remove(&number);
        let is_removed = |tree: &mut Tree| tree.file(number).is_some_and(|facts| facts.is_removed);
        if self.tree.with(is_removed) {
            let removed = match self.name(number) {
                Ok(name) => self.remove_volume_s(&name).await,
                Err(error) => Err(error),
            };
            self.tree.with(|tree| tree.forget(number));
            return closed.and(removed);
        }
        closed
    }

    /// Closes the volume's file, with everything that was written; the tree then has what the
    /// volume has.
    pub(super) async fn close_volume_s(&self, number: Number, open: &Open) -> Done<()> {
        let volume = self.mounted.volume;
        if open.writer.borrow().is_none() {
            return volume.close(open.file.get()).await;
        }
        let written = self.commit_inside(open, false).await;
        let closed = volume.close(open.file.get()).await;
        open.writer.replace(None);
        self.space_changed();
        if let Ok(found) = volume.find(&self.name(number)?).await {
            self.tree.with(|tree| {
                if let Some(facts) = tree.file_mut(number) {
                    facts.size_bytes = found.size_bytes;
                    facts.allocated_bytes = found.allocated_bytes;
                    facts.times.modified_ns = found.mtime_ns;
                }
            });
        }
        written.and(closed)
    }

    /// Reads up to so many bytes from `offset` on: the buffer, and where in it they are.
    pub(super) async fn read(
        &self,
        number: Number,
        offset: u64,
        len: usize,
    ) -> (Option<Buffer>, Done<Range<usize>>) {
        let open = match self.opened(number) {
            Ok(open) => open,
            Err(error) => return (None, Err(error)),
        };
        let len = len.min(MOVE_BYTES);
        let inside = open.gate.enter().await;
        let _reading = open.reading();
        let is_written = open.writer.borrow().is_some();
        if is_written {
            if let Err(error) = self.settle(&open, offset.saturating_add(len as u64)).await {
                return (None, Err(error));
            }
        }
        // A file that is written does not change during the read; others have many reads under way.
        let _inside = is_written.then_some(inside);
        let buffer = self.buffer().await;
        self.moves.read(open.file.get(), offset, len, buffer).await
    }
}
