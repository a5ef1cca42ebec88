// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An open file of a volume: reads and appends of any length, through buffers that the device
//! reaches.

use super::{Error, Volume};
use ::volume::{File, blocking, layout::CHUNK_BYTES};
use block::{Buffer, Lent};
use devices::path::memory::Memory;
use files::{Mounted, now_ns};

/// Bytes of a file's buffer for reading, and of the one for appending: some chunks with checksums,
/// and several requests.
const BUFFER_BYTES: usize = 1 << 20;

/// An open file. It is of the volume that opened it.
pub struct VolumeFile {
    name: String,
    file: File,
    appends: bool,
    read_buffer: Option<Buffer>,
    stage: Option<Stage>,
}

/// What was appended and is not yet written: the rest of the block in which the file ends, then
/// whole blocks.
struct Stage {
    /// One block.
    head: Buffer,
    /// Bytes of `head` that the file has, and that it will have.
    held_bytes: usize,
    head_bytes: usize,
    body: Buffer,
    body_bytes: usize,
}

impl VolumeFile {
    pub(super) fn new(name: &str, file: File, appends: bool) -> Self {
        Self {
            name: name.to_owned(),
            file,
            appends,
            read_buffer: None,
            stage: None,
        }
    }

    /// Bytes of data that are durable.
    ///
    /// # Errors
    /// The file is not open on this volume.
    pub fn size_bytes(&self, volume: &Volume<'_>) -> Result<u64, Error> {
        let status = volume.mount.mounted().volume.file_status(self.file);
        let status = status.map_err(|error| Volume::failed("reading", &self.name, error))?;
        Ok(status.committed_bytes)
    }

    /// Reads from any `offset` on into `data`; returns how much, which is less than asked only at
    /// the file's end. Of what was appended, only what was synced is there. Data of a file with
    /// checksums is compared with them.
    ///
    /// # Errors
    /// There is no memory, the data differs from its checksum, or the device failed; `data` is then
    /// unspecified.
    pub fn read(
        &mut self,
        volume: &Volume<'_>,
        offset: u64,
        data: &mut [u8],
    ) -> Result<usize, Error> {
        let mounted = volume.mount.mounted();
        let failed = |error| Volume::failed("reading", &self.name, error);
        let status = mounted.volume.file_status(self.file).map_err(failed)?;
        let size = status.committed_bytes;
        let block = mounted.volume.geometry().block_size_bytes() as u64;
        // A checksum is of a whole chunk.
        let step = if status.checksums { CHUNK_BYTES } else { block };
        let left = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let data_len = data.len().min(left);
        let data = &mut data[..data_len];
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let start = at - at % step;
            let end = (offset + data.len() as u64).next_multiple_of(step);
            let len = end.min(size.next_multiple_of(block)) - start;
            let buffer = match self.read_buffer.take() {
                Some(buffer) => buffer,
                None => mounted.memory.allocate(BUFFER_BYTES)?,
            };
            let len = usize::try_from(len).unwrap_or(usize::MAX);
            let mut lent = Lent::new(buffer);
            let outcome = blocking::read(mounted.volume, self.file, start, lent.lend(len));
            let skipped = (at - start) as usize;
            let given = outcome.buffer.get(skipped..).unwrap_or_default();
            let count = given.len().min(data.len() - done);
            data[done..done + count].copy_from_slice(&given[..count]);
            let is_back = lent.give_back(outcome.buffer).is_ok();
            self.read_buffer = lent.into_whole().ok().filter(|_| is_back);
            outcome.result.map_err(failed)?;
            done += count;
        }
        Ok(done)
    }

    /// Appends `data`: part of the file, and durable, from the next [`sync`](VolumeFile::sync) or
    /// [`close`](VolumeFile::close) on.
    ///
    /// # Errors
    /// The file was opened for reading only, there is no space or no memory, or the device failed.
    /// What was appended since the last sync may be lost then, from some byte on.
    pub fn append(&mut self, volume: &Volume<'_>, mut data: &[u8]) -> Result<(), Error> {
        let mounted = volume.mount.mounted();
        let failed = |name: &str, error| Volume::failed("appending to", name, error);
        if !self.appends {
            return Err(failed(&self.name, ::volume::Error::NotWritable));
        }
        while !data.is_empty() {
            let mut stage = match self.stage.take() {
                Some(stage) => stage,
                None => {
                    Stage::load(&mounted, self.file)?.map_err(|error| failed(&self.name, error))?
                }
            };
            data = stage.take(data);
            let is_full = stage.body_bytes == stage.body.len();
            let written = if is_full {
                stage.write(&mounted, self.file)
            } else {
                Ok(())
            };
            self.keep(stage, mounted.memory, written)
                .map_err(|error| failed(&self.name, error))?;
        }
        Ok(())
    }

    /// Sets the application's number for the file, which the next sync stores.
    ///
    /// # Errors
    /// The file was opened for reading only.
    pub fn set_app_tag(&self, volume: &Volume<'_>, app_tag: u64) -> Result<(), Error> {
        let set = volume.mount.mounted().volume;
        let set = set.set_app_tag(self.file, app_tag);
        set.map_err(|error| Volume::failed("changing the number of", &self.name, error))
    }

    /// Makes all that was appended part of the file and durable; returns the file's size. After a
    /// power cut at any time later the file has at least this.
    ///
    /// # Errors
    /// As of [`append`](VolumeFile::append).
    pub fn sync(&mut self, volume: &Volume<'_>) -> Result<u64, Error> {
        let mounted = volume.mount.mounted();
        let failed = |name: &str, error| Volume::failed("syncing", name, error);
        if !self.appends {
            return self.size_bytes(volume);
        }
        mounted.volume.set_time(now_ns());
        if let Some(mut stage) = self.stage.take() {
            let written = stage.write(&mounted, self.file);
            self.keep(stage, mounted.memory, written)
                .map_err(|error| failed(&self.name, error))?;
        }
        let size = blocking::run(mounted.volume, mounted.volume.sync(self.file));
        size.map_err(|error| failed(&self.name, error))
    }

    /// Syncs, gives unused space back, and closes the file in every case.
    ///
    /// # Errors
    /// The error of the sync, or of closing.
    pub fn close(mut self, volume: &Volume<'_>) -> Result<(), Error> {
        let synced = self.sync(volume);
        let mounted = volume.mount.mounted();
        let closed = blocking::run(mounted.volume, mounted.volume.close(self.file));
        if let Some(buffer) = self.read_buffer.take() {
            mounted.memory.give_back(buffer);
        }
        if let Some(stage) = self.stage.take() {
            stage.give_back(mounted.memory);
        }
        synced?;
        closed.map_err(|error| Volume::failed("closing", &self.name, error))
    }

    /// Keeps the stage for the next append; after an error that begins with the file as it is.
    fn keep(
        &mut self,
        stage: Stage,
        memory: &Memory,
        written: Result<(), ::volume::Error>,
    ) -> Result<(), ::volume::Error> {
        match written {
            Ok(()) => self.stage = Some(stage),
            Err(_) => stage.give_back(memory),
        }
        written
    }
}

impl Stage {
    /// An empty one, with the beginning of the block in which the file ends.
    ///
    /// # Errors
    /// The outer: there is no memory. The inner: the block could not be read.
    fn load(mounted: &Mounted<'_, '_>, file: File) -> Result<Result<Self, ::volume::Error>, Error> {
        let block = mounted.volume.geometry().block_size_bytes();
        let head = mounted.memory.allocate(block)?;
        let body = match mounted.memory.allocate(BUFFER_BYTES) {
            Ok(body) => body,
            Err(failure) => {
                mounted.memory.give_back(head);
                return Err(failure);
            }
        };
        let status = mounted.volume.file_status(file);
        let mut stage = Self {
            head,
            held_bytes: 0,
            head_bytes: 0,
            body,
            body_bytes: 0,
        };
        let loaded = status.and_then(|status| {
            let size = status.completed_bytes;
            let held = (size % block as u64) as usize;
            (stage.held_bytes, stage.head_bytes) = (held, held);
            match held {
                0 => Ok(()),
                _ => stage.move_head(|head| {
                    blocking::read(mounted.volume, file, size - held as u64, head)
                }),
            }
        });
        Ok(match loaded {
            Ok(()) => Ok(stage),
            Err(error) => {
                stage.give_back(mounted.memory);
                Err(error)
            }
        })
    }

    /// Copies as much of `data` as there is room for; the rest.
    fn take<'d>(&mut self, data: &'d [u8]) -> &'d [u8] {
        let room = match self.head_bytes {
            0 => 0,
            bytes => self.head.len() - bytes,
        };
        let (first, rest) = data.split_at(room.min(data.len()));
        self.head[self.head_bytes..self.head_bytes + first.len()].copy_from_slice(first);
        self.head_bytes += first.len();
        let room = self.body.len() - self.body_bytes;
        let (second, rest) = rest.split_at(room.min(rest.len()));
        self.body[self.body_bytes..self.body_bytes + second.len()].copy_from_slice(second);
        self.body_bytes += second.len();
        rest
    }

    /// Writes all of it; nothing is committed. A part of a block stays, to be written again with
    /// what follows it.
    fn write(&mut self, mounted: &Mounted<'_, '_>, file: File) -> Result<(), ::volume::Error> {
        if self.head_bytes > self.held_bytes {
            let len = self.head_bytes;
            self.move_head(|head| blocking::append_merged(mounted.volume, file, head, len))?;
            self.held_bytes = len;
        }
        if self.head_bytes == self.head.len() {
            (self.held_bytes, self.head_bytes) = (0, 0);
        }
        if self.body_bytes == 0 {
            return Ok(());
        }
        debug_assert!(self.head_bytes == 0, "the body follows a whole block");
        let body = std::mem::replace(&mut self.body, Buffer::from_static(&mut []));
        let appended = blocking::append(mounted.volume, file, body, self.body_bytes);
        self.body = appended.buffer;
        appended.result?;
        let tail = self.body_bytes % self.head.len();
        self.head[..tail].copy_from_slice(&self.body[self.body_bytes - tail..self.body_bytes]);
        (self.held_bytes, self.head_bytes) = (tail, tail);
        self.body_bytes = 0;
        Ok(())
    }

    fn move_head(
        &mut self,
        call: impl FnOnce(Buffer) -> blocking::Outcome,
    ) -> Result<(), ::volume::Error> {
        let outcome = call(std::mem::replace(
            &mut self.head,
            Buffer::from_static(&mut []),
        ));
        self.head = outcome.buffer;
        outcome.result
    }

    fn give_back(self, memory: &Memory) {
        for buffer in [self.head, self.body] {
            if !buffer.is_empty() {
                memory.give_back(buffer);
            }
        }
    }
}
