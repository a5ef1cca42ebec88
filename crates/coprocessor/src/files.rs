// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of the volume behind the coprocessor, for the main CPU.
//!
//! Commands on metadata are calls that wait. Data moves with several commands in flight:
//! [`FilesClient::append`] and [`FilesClient::read`] submit, [`FilesClient::poll`] returns buffers.
//! Buffers are in the session's part of the window.

use block::{Buffer, Clock};
use volume::NAME_BYTES;

use crate::client::Client;
use crate::command::{Answer, FLAG_CHECKSUMS, FLAG_WRITE, LATE, Opcode, RingCommand};
use crate::layout::{ENTRY_BYTES, RING_ENTRIES};
use crate::status::{CompletionStatus, Error};

mod entry;
#[cfg(feature = "stream")]
mod stream_blocks;

use block::fields::u64_at;
use entry::entry;
pub use entry::{FileSizes, ListedFile};
#[cfg(feature = "stream")]
pub(crate) use stream_blocks::BlockAnswer;

/// The coprocessor's number for an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileNumber(pub(crate) u32);

/// The end of an append or a read.
#[derive(Debug)]
pub struct Moved {
    /// The file.
    pub file: FileNumber,
    /// The caller's tag.
    pub tag: u32,
    /// The buffer; `None` if the session ended and the coprocessor may still use it.
    pub buffer: Option<Buffer>,
    /// For an append its offset, for a read how many bytes were read.
    pub result: Result<u64, Error>,
    /// It ended after its deadline.
    pub is_late: bool,
}

/// A command in flight.
#[derive(Debug)]
enum Pending {
    Call,
    /// A stream's block, and its place in the ring.
    #[cfg(feature = "stream")]
    Block {
        file: FileNumber,
        place: u8,
    },
    Data {
        file: FileNumber,
        tag: u32,
        buffer: Buffer,
    },
}

const PLACES: usize = RING_ENTRIES as usize;

/// A session for files.
#[derive(Debug)]
pub struct FilesClient<C> {
    client: Client<C>,
    /// The first address of the session's data, and its length.
    data: (usize, usize),
    /// For names and entries.
    scratch: Buffer,
    pending: [Option<Pending>; PLACES],
    moved: [Option<Moved>; PLACES],
    #[cfg(feature = "stream")]
    blocks: [Option<BlockAnswer>; PLACES],
    answer: Option<Answer>,
    /// The deadline of the commands that follow; 0: none.
    pub deadline_ms: u32,
}

impl<C: Clock> FilesClient<C> {
    /// Files through `client`, a session for files. `scratch` is about a page of its data.
    ///
    /// # Errors
    /// If the scratch is too short, or not in the session's data.
    pub fn new(client: Client<C>, scratch: Buffer) -> Result<Self, Error> {
        let (offset, len) = client.data();
        let files = Self {
            data: (client.window().address() + offset, len),
            client,
            scratch,
            pending: [const { None }; PLACES],
            moved: [const { None }; PLACES],
            #[cfg(feature = "stream")]
            blocks: [None; PLACES],
            answer: None,
            deadline_ms: 0,
        };
        let is_good = files.scratch.len() >= ENTRY_BYTES.max(NAME_BYTES)
            && files.offset_of(&files.scratch).is_some();
        if is_good {
            Ok(files)
        } else {
            Err(Error::Block(block::Error::BufferUnreachable))
        }
    }

    /// The session.
    pub const fn client(&self) -> &Client<C> {
        &self.client
    }

    /// The drive's block size, the unit of offsets and of all appends except a file's last.
    pub const fn block_bytes(&self) -> usize {
        self.client.header().geometry.block_size_bytes()
    }

    fn offset_of(&self, buffer: &Buffer) -> Option<u32> {
        let offset = buffer.address().wrapping_sub(self.data.0);
        let is_inside = offset <= self.data.1 && buffer.len() <= self.data.1 - offset;
        is_inside.then_some(offset as u32)
    }

    /// Puts a command into the ring, after waiting for a credit.
    fn send(&mut self, command: RingCommand, pending: Pending) -> Result<(), (Error, Pending)> {
        // Each append or read needs an entry for its completion, which the caller may take late.
        if matches!(pending, Pending::Data { .. }) && self.outstanding() >= PLACES - 1 {
            return Err((Error::Block(block::Error::QueueFull), pending));
        }
        loop {
            if self.client.is_gone() {
                return Err((self.gone(), pending));
            }
            let free = self.pending.iter().position(Option::is_none);
            if let (Some(index), true) = (free, self.client.has_credit()) {
                let id = index as u16;
                let deadline_ms = match pending {
                    // A block has the deadline of its stream.
                    #[cfg(feature = "stream")]
                    Pending::Block { .. } => 0,
                    _ => self.deadline_ms,
                };
                self.client.submit(&RingCommand {
                    id,
                    deadline_ms,
                    ..command
                });
                if let Some(place) = self.pending.get_mut(index) {
                    *place = Some(pending);
                }
                return Ok(());
            }
            self.client.kick();
            self.take_in();
        }
    }

    fn gone(&self) -> Error {
        match self.client.why() {
            Some(code) => Error::Interface(code),
            None => Error::Block(block::Error::Gone),
        }
    }

    /// Processes one completion.
    fn take_in(&mut self) -> bool {
        let Some(answer) = self.client.poll() else {
            core::hint::spin_loop();
            return false;
        };
        let place = self.pending.get_mut(usize::from(answer.id));
        match place.and_then(Option::take) {
            None => {}
            Some(Pending::Call) => self.answer = Some(answer),
            #[cfg(feature = "stream")]
            Some(Pending::Block { file, place }) => {
                let answer = BlockAnswer {
                    file,
                    place,
                    result: outcome(&answer).map(|value| (value, answer.detail)),
                    is_late: answer.code & LATE != 0,
                };
                // Kept in order: completions of one stream are taken in order of arrival.
                if let Some(place) = self.blocks.iter_mut().find(|place| place.is_none()) {
                    *place = Some(answer);
                }
            }
            Some(Pending::Data { file, tag, buffer }) => {
                let moved = Moved {
                    file,
                    tag,
                    buffer: Some(buffer),
                    result: outcome(&answer),
                    is_late: answer.code & LATE != 0,
                };
                self.keep(moved);
            }
        }
        true
    }

    fn keep(&mut self, moved: Moved) {
        if let Some(place) = self.moved.iter_mut().find(|place| place.is_none()) {
            *place = Some(moved);
        }
    }

    fn call(&mut self, command: RingCommand) -> Result<u64, Error> {
        self.answer = None;
        self.send(command, Pending::Call)
            .map_err(|(failure, _)| failure)?;
        self.client.kick();
        loop {
            if let Some(answer) = self.answer.take() {
                return outcome(&answer);
            }
            if !self.take_in() && self.client.is_gone() {
                return Err(self.gone());
            }
        }
    }

    fn named(&mut self, command: RingCommand, name: &str) -> Result<u64, Error> {
        let name = name.as_bytes();
        if name.len() > NAME_BYTES {
            return Err(Error::Volume(volume::Error::BadName));
        }
        if let Some(place) = self.scratch.get_mut(..name.len()) {
            place.copy_from_slice(name);
        }
        let data_offset = self.offset_of(&self.scratch).unwrap_or(u32::MAX);
        self.call(RingCommand {
            data_offset,
            data_bytes: name.len() as u32,
            ..command
        })
    }

    fn on(&mut self, opcode: Opcode, file: FileNumber, argument: u64) -> Result<u64, Error> {
        self.call(RingCommand {
            argument,
            extra: u64::from(file.0),
            ..RingCommand::new(opcode)
        })
    }

    /// Makes a file, with space for `reserve_bytes`, and opens it for writing.
    ///
    /// # Errors
    /// Those of the volume's `create`, or of the session.
    pub fn create(
        &mut self,
        name: &str,
        reserve_bytes: u64,
        checksums: bool,
    ) -> Result<FileNumber, Error> {
        let command = RingCommand {
            argument: reserve_bytes,
            flags: if checksums { FLAG_CHECKSUMS } else { 0 },
            ..RingCommand::new(Opcode::Create)
        };
        self.named(command, name)
            .map(|number| FileNumber(number as u32))
    }

    /// Opens a file, also for appending if `write`.
    ///
    /// # Errors
    /// Those of the volume's `open`, or of the session.
    pub fn open(&mut self, name: &str, write: bool) -> Result<FileNumber, Error> {
        let command = RingCommand {
            flags: if write { FLAG_WRITE } else { 0 },
            ..RingCommand::new(Opcode::Open)
        };
        self.named(command, name)
            .map(|number| FileNumber(number as u32))
    }

    /// Reserves space for this many bytes of appends.
    ///
    /// # Errors
    /// Those of the volume's `reserve`, or of the session; the same for the calls below.
    pub fn reserve(&mut self, file: FileNumber, bytes: u64) -> Result<u64, Error> {
        self.on(Opcode::Reserve, file, bytes)
    }

    /// Makes what was written part of the file; returns its size.
    ///
    /// # Errors
    /// Those of [`reserve`](Self::reserve).
    pub fn commit(&mut self, file: FileNumber) -> Result<u64, Error> {
        self.on(Opcode::Commit, file, 0)
    }

    /// Commits everything appended before, and makes it durable; returns the file's size.
    ///
    /// # Errors
    /// Those of [`reserve`](Self::reserve).
    pub fn sync(&mut self, file: FileNumber) -> Result<u64, Error> {
        self.on(Opcode::Sync, file, 0)
    }

    /// Syncs and closes a file. Its data commands must have been polled.
    ///
    /// # Errors
    /// Those of [`reserve`](Self::reserve).
    pub fn close(&mut self, file: FileNumber) -> Result<(), Error> {
        self.on(Opcode::Close, file, 0).map(|_| ())
    }

    /// Removes a file.
    ///
    /// # Errors
    /// Those of [`reserve`](Self::reserve).
    pub fn delete(&mut self, name: &str) -> Result<(), Error> {
        self.named(RingCommand::new(Opcode::Delete), name)
            .map(|_| ())
    }

    /// The first file in slot `from` or later.
    ///
    /// # Errors
    /// Those of [`reserve`](Self::reserve).
    pub fn list(&mut self, from: u32) -> Result<Option<ListedFile>, Error> {
        let data_offset = self.offset_of(&self.scratch).unwrap_or(u32::MAX);
        let next = self.call(RingCommand {
            data_offset,
            data_bytes: ENTRY_BYTES as u32,
            argument: u64::from(from),
            ..RingCommand::new(Opcode::List)
        })?;
        if next == 0 {
            return Ok(None);
        }
        let mut bytes = [0; ENTRY_BYTES];
        if let Some(found) = self.scratch.get(..ENTRY_BYTES) {
            bytes.copy_from_slice(found);
        }
        let entry = entry(&bytes).ok_or(Error::Volume(volume::Error::BadName))?;
        Ok(Some(entry))
    }

    /// An open file's sizes. After a failed append, this lets appends in again.
    ///
    /// # Errors
    /// Those of [`reserve`](Self::reserve).
    pub fn sizes(&mut self, file: FileNumber) -> Result<FileSizes, Error> {
        let data_offset = self.offset_of(&self.scratch).unwrap_or(u32::MAX);
        self.call(RingCommand {
            data_offset,
            data_bytes: 32,
            extra: u64::from(file.0),
            ..RingCommand::new(Opcode::Status)
        })?;
        let word = |at: usize| u64_at(&self.scratch, 8 * at);
        Ok(FileSizes {
            committed: word(0),
            completed: word(1),
            appended: word(2),
            reserved: word(3),
        })
    }

    /// Appends the first `len_bytes` of `buffer`. [`kick`](Self::kick) starts it.
    ///
    /// # Errors
    /// With the buffer: it is not in the session's data, or the session has ended.
    pub fn append(
        &mut self,
        file: FileNumber,
        buffer: Buffer,
        len_bytes: usize,
        tag: u32,
    ) -> Result<(), (Error, Buffer)> {
        self.move_data(Opcode::Append, file, 0, buffer, len_bytes, tag)
    }

    /// Fills `buffer` from `offset` on, as far as the file reaches.
    ///
    /// # Errors
    /// Those of [`append`](Self::append).
    pub fn read(
        &mut self,
        file: FileNumber,
        offset: u64,
        buffer: Buffer,
        tag: u32,
    ) -> Result<(), (Error, Buffer)> {
        let len = buffer.len();
        self.move_data(Opcode::ReadFile, file, offset, buffer, len, tag)
    }

    fn move_data(
        &mut self,
        opcode: Opcode,
        file: FileNumber,
        argument: u64,
        buffer: Buffer,
        len_bytes: usize,
        tag: u32,
    ) -> Result<(), (Error, Buffer)> {
        let offset = self
            .offset_of(&buffer)
            .filter(|_| len_bytes <= buffer.len());
        let Some(data_offset) = offset else {
            return Err((Error::Block(block::Error::BufferUnreachable), buffer));
        };
        let command = RingCommand {
            data_offset,
            data_bytes: len_bytes as u32,
            argument,
            extra: u64::from(file.0),
            ..RingCommand::new(opcode)
        };
        let sent = self.send(command, Pending::Data { file, tag, buffer });
        sent.map_err(|(failure, pending)| match pending {
            Pending::Data { buffer, .. } => (failure, buffer),
            _ => (failure, Buffer::from_static(&mut [])),
        })
    }

    /// Starts what was submitted.
    pub fn kick(&mut self) {
        self.client.kick();
    }

    /// The next completed append or read.
    pub fn poll(&mut self) -> Option<Moved> {
        self.client.kick();
        while self.take_in() {}
        if let Some(moved) = self.moved.iter_mut().find_map(Option::take) {
            return Some(moved);
        }
        if self.client.is_gone() {
            self.end_one()
        } else {
            None
        }
    }

    /// Appends and reads whose completion has not been polled.
    pub fn outstanding(&self) -> usize {
        let is_data = |pending: &&Pending| matches!(pending, Pending::Data { .. });
        let pending = self.pending.iter().flatten().filter(is_data);
        pending.count() + self.moved.iter().flatten().count()
    }

    fn end_one(&mut self) -> Option<Moved> {
        let failure = self.gone();
        let is_released = self.client.is_released();
        loop {
            match self.pending.iter_mut().find_map(Option::take)? {
                Pending::Call => {}
                #[cfg(feature = "stream")]
                Pending::Block { .. } => {}
                Pending::Data { file, tag, buffer } => {
                    return Some(Moved {
                        file,
                        tag,
                        buffer: Some(buffer).filter(|_| is_released),
                        result: Err(failure),
                        is_late: false,
                    });
                }
            }
        }
    }

    /// Ends the session: its files are closed. True when its data belongs to the caller alone
    /// again.
    pub fn detach(mut self) -> bool {
        self.client.detach()
    }
}

fn outcome(answer: &Answer) -> Result<u64, Error> {
    let status = CompletionStatus {
        code: answer.code & !LATE,
        detail: answer.detail,
    };
    status.result().map(|()| answer.value)
}
