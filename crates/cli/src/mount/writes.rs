//! What programs have written and the volume does not have yet.
//!
//! A volume takes whole blocks at a file's end, programs write bytes. So the end of each file that is written is in memory, at most
//! [`MOVE_BYTES`] of it and what one write adds, until there is enough for an append, or the file is committed. The bytes of a last
//! block that is not full stay in memory: the next append rewrites them.

use super::asks::{Answer, Place, errno};
use super::open::Open;
use super::service::{Done, Files, MOVE_BYTES};
use super::tree::Number;
use crate::volume::now_ns;
use crate::volume::turns::Inside;
use ::volume::{Direction, Error, File};

/// The most that is reserved ahead of what was written: as much as the file has, up to this.
const MOST_AHEAD_BYTES: u64 = 64 << 20;

/// The end of a file that is written.
#[derive(Debug)]
pub struct Writer {
    /// Where the tail begins in the file: at a block.
    start: u64,
    /// The bytes from there on.
    tail: Vec<u8>,
    /// Bytes of the tail that the volume has, less than a block.
    held: usize,
    /// Something is not committed.
    pub(super) is_dirty: bool,
    /// When it was last written, in nanoseconds since 1970.
    modified_ns: u64,
    /// What failed; nothing more is written then.
    failure: Option<Error>,
}

/// A part of the tail that is on its way to the volume.
struct Batch {
    data: Vec<u8>,
    held: usize,
}

impl Writer {
    /// The end of a file of so many bytes; `held` are those of its last block, if it is not full.
    pub(super) fn new(size_bytes: u64, held: Vec<u8>) -> Self {
        Self {
            start: size_bytes - held.len() as u64,
            held: held.len(),
            tail: held,
            is_dirty: false,
            modified_ns: 0,
            failure: None,
        }
    }

    /// The file's size, as programs see it.
    fn end(&self) -> u64 {
        self.start + self.tail.len() as u64
    }

    /// Adds bytes.
    fn push(&mut self, data: &[u8]) {
        self.tail.extend_from_slice(data);
        self.is_dirty = true;
        self.modified_ns = now_ns();
    }

    /// Takes what can be appended: whole blocks, and the rest of the last one too if `all`.
    fn take(&mut self, block_bytes: usize, all: bool) -> Option<Batch> {
        let whole = self.tail.len() - self.tail.len() % block_bytes;
        if self.tail.len() == self.held || (whole == 0 && !all) {
            return None;
        }
        let rest = self.tail.get(whole..).unwrap_or_default().to_vec();
        let mut data = std::mem::replace(&mut self.tail, rest);
        let held = std::mem::take(&mut self.held);
        match all {
            true => self.held = self.tail.len(),
            false => data.truncate(whole),
        }
        self.start += whole as u64;
        Some(Batch { data, held })
    }
}

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

    /// Writes. The answer is given as soon as the bytes are in memory and have their space; only then does a long tail leave it, so
    /// the next bytes come while these are written.
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
            // The volume has it, or will: what is there stays.
            Place::At(offset) if offset < end => return Err(Error::Unsupported),
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
        let (buffer, appended) = match merged {
            true => {
                self.moves
                    .append_merged(file, buffer, piece.len(), provide)
                    .await
            }
            false => {
                let way = Direction::Append;
                self.moves
                    .run(file, way, 0, buffer, piece.len(), provide)
                    .await
            }
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
        match needs {
            true => self.commit_inside(open, false).await,
            false => Ok(()),
        }
    }

    /// Whether something of a file is not committed.
    pub(super) fn is_dirty(&self, number: Number) -> bool {
        let dirty = |open: &Open| {
            open.writer
                .borrow()
                .as_ref()
                .is_some_and(|writer| writer.is_dirty)
        };
        self.opened(number).is_ok_and(|open| dirty(&open))
    }

    /// Makes what was written part of the file; durable, if so.
    pub(super) async fn commit(&self, number: Number, durable: bool) -> Done<()> {
        let open = self.opened(number)?;
        let _inside = open.gate.enter().await;
        let is_written = open.writer.borrow().is_some();
        match is_written {
            true => self.commit_inside(&open, durable).await,
            // Who wrote it has closed it, which made it durable.
            false => Ok(()),
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
        let committed = match durable {
            true => volume.sync(file).await,
            false => volume.commit(file).await,
        };
        put_out?;
        if let (Err(error), Some(writer)) = (committed, open.writer.borrow_mut().as_mut()) {
            writer.failure = Some(error);
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
                facts.mtime_ns = writer.modified_ns;
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
        self.with_writer(open, |writer| {
            writer.is_dirty = true;
            writer.modified_ns = ns;
        })?;
        self.show(number, open);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_blocks_leave_the_tail_and_the_last_one_is_held() {
        let mut writer = Writer::new(1030, vec![1; 6]);
        assert_eq!((writer.start, writer.held, writer.end()), (1024, 6, 1030));
        // What the volume has is not written again by itself.
        assert!(writer.take(512, true).is_none());
        writer.push(&[2; 10]);
        assert!(writer.take(512, false).is_none(), "no whole block");
        let batch = writer.take(512, true).unwrap();
        assert_eq!((batch.held, batch.data.len()), (6, 16));
        assert_eq!(batch.data, [&[1; 6][..], &[2; 10]].concat());
        assert_eq!((writer.start, writer.held, writer.end()), (1024, 16, 1040));
        writer.push(&[3; 1000]);
        let batch = writer.take(512, false).unwrap();
        assert_eq!((batch.held, batch.data.len()), (16, 512));
        assert_eq!((writer.start, writer.held, writer.end()), (1536, 0, 2040));
        let batch = writer.take(512, true).unwrap();
        assert_eq!((batch.held, batch.data.len()), (0, 504));
        assert_eq!((writer.start, writer.held, writer.end()), (1536, 504, 2040));
        writer.push(&[4; 8]);
        let batch = writer.take(512, true).unwrap();
        assert_eq!((batch.held, batch.data.len()), (504, 512));
        assert_eq!((writer.start, writer.held, writer.end()), (2048, 0, 2048));
        assert!(writer.take(512, true).is_none());
        assert!(writer.is_dirty);
    }
}
