//! Open files of a mounted volume. All who have opened a file share the volume's one: it is open to write if any of them writes.

use super::service::{Done, Files, MOVE_BYTES};
use super::tree::Number;
use super::writes::Writer;
use crate::volume::turns::{Gate, Inside, wait_for};
use ::volume::{Error, File};
use block::Buffer;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

/// A file that is open.
pub struct Open {
    /// One change at a time; a read of a file that is written is one, too.
    pub(super) gate: Gate,
    /// Reads that are not inside the gate.
    reading: Cell<u32>,
    /// Appends must not mix.
    pub(super) appends: Gate,
    /// The volume's; it is another one after each change of what it is open for.
    pub(super) file: Cell<File>,
    pub(super) uses: Cell<Uses>,
    /// What is written, while someone may write.
    pub(super) writer: RefCell<Option<Writer>>,
    /// Its name was removed: it is removed when all have closed it.
    pub(super) is_removed: Cell<bool>,
}

/// How often a file is open.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uses {
    /// To read only.
    pub reads: u32,
    /// To write.
    pub writes: u32,
}

/// A read that is under way.
struct Reading<'a>(&'a Cell<u32>);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Open {
    /// Waits until nothing else is under way.
    pub(super) async fn alone(&self) -> Inside<'_> {
        let inside = self.gate.enter().await;
        wait_for(|| (self.reading.get() == 0).then_some(())).await;
        inside
    }

    /// Counts one more who has opened it, or one less.
    fn count(&self, writes: bool, one: i32) {
        let mut uses = self.uses.get();
        let count = match writes {
            true => &mut uses.writes,
            false => &mut uses.reads,
        };
        *count = count.saturating_add_signed(one);
        self.uses.set(uses);
    }
}

impl Files<'_, '_, '_> {
    /// An open file.
    pub(super) fn opened(&self, number: Number) -> Done<Rc<Open>> {
        self.open
            .borrow()
            .get(&number)
            .cloned()
            .ok_or(Error::NotOpen)
    }

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
        let file = match writes {
            true => self.mounted.volume.open_to_write(&name).await?,
            false => self.mounted.volume.open(&name).await?,
        };
        let writer = match writes {
            true => Some(self.writer_or_close(file).await?),
            false => None,
        };
        self.insert(number, file, writer, writes);
        Ok(())
    }

    /// Keeps a file that was opened.
    pub(super) fn insert(&self, number: Number, file: File, writer: Option<Writer>, writes: bool) {
        let open = Open {
            gate: Gate::default(),
            reading: Cell::new(0),
            appends: Gate::default(),
            file: Cell::new(file),
            uses: Cell::default(),
            writer: RefCell::new(writer),
            is_removed: Cell::new(false),
        };
        open.count(writes, 1);
        self.open.borrow_mut().insert(number, Rc::new(open));
    }

    /// The name of a file in the volume.
    pub(super) fn name(&self, number: Number) -> Done<String> {
        let name = self
            .tree
            .with(|tree| tree.file(number).map(|facts| facts.name.clone()));
        name.ok_or(Error::NotFound)
    }

    /// Opens the volume's file again, which is closed.
    pub(super) async fn reopen(&self, number: Number, open: &Open, writes: bool) -> Done<()> {
        let name = self.name(number)?;
        match writes {
            true => {
                let file = self.mounted.volume.open_to_write(&name).await?;
                let writer = self.writer_or_close(file).await?;
                open.file.set(file);
                open.writer.replace(Some(writer));
            }
            false => {
                open.file.set(self.mounted.volume.open(&name).await?);
                open.writer.replace(None);
            }
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

    /// Closes a file, when all who opened it have; its changes end when all who write have closed it.
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
        if open.is_removed.get() {
            let removed = match self.name(number) {
                Ok(name) => self.remove_volume_s(&name).await,
                Err(error) => Err(error),
            };
            self.tree.with(|tree| tree.forget(number));
            return closed.and(removed);
        }
        closed
    }

    /// Closes the volume's file, with everything that was written; the tree then has what the volume has.
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
                    facts.mtime_ns = found.mtime_ns;
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
        let reading = Reading(&open.reading);
        reading.0.set(reading.0.get() + 1);
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
