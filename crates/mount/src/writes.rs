// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What programs have written and the volume does not have yet.
//!
//! The end of each file that is written ([`Writer`]) is in memory, at most [`MOVE_BYTES`] of it and
//! what one write adds, until there is enough for an append, or the file is committed.

use super::asks::{Answer, Place, errno};
use super::files::{Done, Files, MOVE_BYTES};
use super::open::Open;
use super::tail::{Batch, Writer};
use super::tree::Number;
use ::volume::{Direction, Error, File};
use files::turns::Inside;
use std::time::Duration;

/// The most that is reserved ahead of what was written: as much as the file has, up to this.
const MOST_AHEAD_BYTES: u64 = 64 << 20;

impl Files<'_, '_, '_> {
    /// The end of a file that was opened to write.
    pub(super) async fn new_writer(&self, file: File) -> Done<Writer> {
        let size = self.mounted.volume.file_status(file)?.committed_bytes;
        let held = (size % self.block_bytes() as u64) as usize;
        if held == 0 {
            return Ok(Writer::new(size, Vec::new()));
        }
        let buffer = self.buffer().await;
        let (buffer, read) = self
            .moves
            .read(file, size - held as u64, held, buffer)
            .await;
        let bytes = read.map(|range| {
            let bytes = buffer.as_ref().and_then(|buffer| buffer.get(range));
            bytes.map(<[u8]>::to_vec)
        });
        self.give_back(buffer);
        match bytes? {
            Some(bytes) => Ok(Writer::new(size, bytes)),
            None => Err(Error::from(block::Error::Gone)),
        }
    }

    fn block_bytes(&self) -> usize {
        self.mounted.volume.geometry().block_size_bytes()
    }

    /// Calls `body` with what is written, if nothing has failed before.
    fn with_writer<T>(&self, open: &Open, body: impl FnOnce(&mut Writer) -> T) -> Done<T> {
        let mut writer = open.writer.borrow_mut();
        let writer = writer.as_mut().ok_or(Error::NotWritable)?;
        match writer.failure {
            Some(error) => Err(error),
            None => Ok(body(writer)),
        }
    }

    /// Writes. The answer is given as soon as the bytes are in memory and have their space; only
    /// then does a long tail leave it, so the next bytes come while these are written.
    pub(super) async fn write(
        &self,
        number: Number,
        place: Place,
        data: &[u8],
        answer: Answer<()>,
    ) {
        let open = match self.opened(number) {
            Ok(open) => open,
            Err(error) => return answer(Err(errno(error))),
        };
        let inside = open.gate.enter().await;
        if let Err(error) = self.accept(number, &open, place, data).await {
            return answer(Err(errno(error)));
        }
        let is_long = self.with_writer(&open, |writer| writer.tail.len() >= MOVE_BYTES);
        if is_long != Ok(true) {
            return answer(Ok(()));
        }
        let turn = open.appends.enter().await;
        answer(Ok(()));
        let batch = self.with_writer(&open, |writer| writer.take(self.block_bytes(), false));
        drop(inside);
        let _ = self.append(&open, batch, turn).await;
    }

    /// Takes the bytes of a write, and the zeroes of a gap before them.
    async fn accept(&self, number: Number, open: &Open, place: Place, data: &[u8]) -> Done<()> {
        let end = self.with_writer(open, |writer| writer.end())?;
        match place {
            // What the volume has stays.
            Place::At(offset) if offset < end => {
                let new_end = offset.saturating_add(data.len() as u64).max(end);
                self.make_room(open, new_end).await?;
                return if self.with_writer(open, |writer| writer.write_over(offset, data))? {
                    self.show(number, open);
                    Ok(())
                } else {
                    Err(Error::Unsupported)
                };
            }
            Place::At(offset) => {
                self.make_room(open, offset.saturating_add(data.len() as u64))
                    .await?;
                self.fill_gap(number, open, offset).await?;
            }
            Place::End => self.make_room(open, end + data.len() as u64).await?,
        }
        self.with_writer(open, |writer| writer.push(data))?;
        self.show(number, open);
        Ok(())
    }

    /// Writes zeroes up to `offset`, for which there is space.
    async fn fill_gap(&self, number: Number, open: &Open, offset: u64) -> Done<()> {
        loop {
            let filled = self.with_writer(open, |writer| {
                let gap = offset.saturating_sub(writer.end());
                if gap > 0 {
                    writer.push(&vec![0; gap.min(MOVE_BYTES as u64) as usize]);
                }
                (gap > 0, writer.tail.len() >= MOVE_BYTES)
            })?;
            match filled {
                (false, _) => return Ok(()),
                (true, false) => {}
                (true, true) => self.put_out(open, false).await?,
            }
            self.show(number, open);
        }
    }

    /// Reserves space up to `end`, and some ahead.
    async fn make_room(&self, open: &Open, end: u64) -> Done<()> {
        let (volume, file) = (self.mounted.volume, open.file.get());
        let status = volume.file_status(file)?;
        let least = end.saturating_sub(status.appended_bytes);
        if status.reserved_bytes >= least {
            return Ok(());
        }
        let ahead = end.min(MOST_AHEAD_BYTES);
        let reserved = volume.reserve_ahead(file, least.saturating_add(ahead), least);
        let reserved = reserved.await;
        self.space_changed();
        reserved.map(|_| ())
    }

    /// Appends a batch, in the turn of the file's appends. A failure is kept for who comes next.
    async fn append(&self, open: &Open, batch: Done<Option<Batch>>, _turn: Inside<'_>) -> Done<()> {
        let Some(mut batch) = batch? else {
            return Ok(());
        };
        let file = open.file.get();
        let mut appended = Ok(());
        let block = self.block_bytes();
        if batch.held > 0 {
            let first = batch.data.len().min(block);
            let rest = batch.data.split_off(first);
            appended = self.append_piece(file, &batch.data, true).await;
            batch.data = rest;
        }
        for piece in batch.data.chunks(MOVE_BYTES) {
            if appended.is_ok() {
                appended = self.append_piece(file, piece, false).await;
            }
        }
        if let (Err(error), Some(writer)) = (appended, open.writer.borrow_mut().as_mut()) {
            writer.failure = Some(error);
        }
        appended
    }

    async fn append_piece(&self, file: File, piece: &[u8], merged: bool) -> Done<()> {
        let volume = self.mounted.volume;
        let mut buffer = self.buffer().await;
        let whole = piece.len().next_multiple_of(self.block_bytes());
        let (data, padding) = match buffer.get_mut(..whole) {
            Some(room) => room.split_at_mut(piece.len()),
            None => return Err(Error::Unaligned),
        };
        data.copy_from_slice(piece);
        padding.fill(0);
        let provide = async |need| volume.provide(file, need).await;
        let (buffer, appended) = if merged {
            self.moves
                .append_merged(file, buffer, piece.len(), provide)
                .await
        } else {
            let way = Direction::Append;
            self.moves
                .run(file, way, 0, buffer, piece.len(), provide)
                .await
        };
        self.give_back(buffer);
        appended
    }

    /// Appends the tail, inside the file's gate, after what is on its way.
    async fn put_out(&self, open: &Open, all: bool) -> Done<()> {
        let turn = open.appends.enter().await;
        let batch = self.with_writer(open, |writer| writer.take(self.block_bytes(), all));
        self.append(open, batch, turn).await
    }

    /// Commits what a read up to `end` needs, inside the file's gate.
    pub(super) async fn settle(&self, open: &Open, end: u64) -> Done<()> {
        let committed = self
            .mounted
            .volume
            .file_status(open.file.get())?
            .committed_bytes;
        let needs = {
            let writer = open.writer.borrow();
            writer
                .as_ref()
                .is_some_and(|writer| end.min(writer.end()) > committed)
        };
        if needs {
            self.commit_inside(open, false).await
        } else {
            Ok(())
        }
    }

    /// Whether something of a file has not been durable for so long.
    pub(super) fn needs_save(&self, number: Number, age: Duration) -> bool {
        let needs_save = |open: &Open| {
            open.writer
                .borrow()
                .as_ref()
                .is_some_and(|writer| writer.needs_save(age))
        };
        self.opened(number).is_ok_and(|open| needs_save(&open))
    }

    /// Makes what was written part of the file; durable, if so.
    pub(super) async fn commit(&self, number: Number, durable: bool) -> Done<()> {
        let open = self.opened(number)?;
        let _inside = open.gate.enter().await;
        let is_written = open.writer.borrow().is_some();
        if is_written {
            self.commit_inside(&open, durable).await
        } else {
            // Who wrote it has closed it, which made it durable.
            Ok(())
        }
    }

    /// The same inside the file's gate. After a failure, what was appended before it is committed.
    pub(super) async fn commit_inside(&self, open: &Open, durable: bool) -> Done<()> {
        let (volume, file) = (self.mounted.volume, open.file.get());
        let put_out = self.put_out(open, true).await;
        let modified = {
            let mut writer = open.writer.borrow_mut();
            let writer = writer.as_mut().ok_or(Error::NotWritable)?;
            std::mem::take(&mut writer.is_dirty).then_some(writer.modified_ns)
        };
        if let Some(ns) = modified {
            volume.set_modified(file, ns)?;
        }
        let committed = if durable {
            volume.sync(file).await
        } else {
            volume.commit(file).await
        };
        put_out?;
        if let Some(writer) = open.writer.borrow_mut().as_mut() {
            match committed {
                Ok(_) if durable => writer.saved(),
                Ok(_) => {}
                Err(error) => writer.failure = Some(error),
            }
        }
        committed.map(|_| ())
    }

    /// Lets everyone see a file's size and time.
    fn show(&self, number: Number, open: &Open) {
        let writer = open.writer.borrow();
        let Some(writer) = writer.as_ref() else {
            return;
        };
        self.tree.with(|tree| {
            if let Some(facts) = tree.file_mut(number) {
                facts.size_bytes = writer.end();
                facts.allocated_bytes = facts.allocated_bytes.max(writer.end());
                facts.times.modify(writer.modified_ns);
            }
        });
    }

    /// Makes a file longer, with zeroes, inside its gate.
    pub(super) async fn lengthen(&self, number: Number, open: &Open, size: u64) -> Done<()> {
        if self.with_writer(open, |writer| writer.end())? > size {
            return Err(Error::Unsupported);
        }
        self.make_room(open, size).await?;
        self.fill_gap(number, open, size).await
    }

    /// Reserves space up to a byte.
    pub(super) async fn reserve(&self, number: Number, end: u64) -> Done<()> {
        let open = self.opened(number)?;
        let _inside = open.gate.enter().await;
        let (volume, file) = (self.mounted.volume, open.file.get());
        let least = end.saturating_sub(volume.file_status(file)?.appended_bytes);
        let reserved = volume.reserve_ahead(file, least, least).await;
        self.space_changed();
        reserved.map(|_| ())
    }

    /// Sets when an open file was modified, inside its gate.
    pub(super) fn stamp(&self, number: Number, open: &Open, ns: u64) -> Done<()> {
        self.with_writer(open, |writer| writer.modify(ns))?;
        self.show(number, open);
        Ok(())
    }
}
