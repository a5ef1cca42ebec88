// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Open files and active commands: clients' files, data commands, waiting commands.

use volume::{Error, File, NAME_BYTES};

#[cfg(feature = "stream")]
use super::slots::Streams;
use super::transfer::{Asker, DataCommand, Work};
use crate::command::{Opcode, RingCommand};
use crate::status::{Code, CompletionStatus};

/// Data commands in flight.
pub(super) const TRANSFERS: usize = 16;
/// Waiting metadata commands.
const JOBS: usize = 8;
/// Files that are open, at most.
const HANDLES: usize = 16;
/// No open file.
pub(super) const NO_HANDLE: u8 = u8::MAX;

/// An open file of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handle {
    pub(super) client: u8,
    pub(super) file: File,
    writable: bool,
    pub(super) checksums: bool,
    /// An append failed: later ones are not accepted until the client has checked (status, commit
    /// or sync).
    pub(super) has_failed: bool,
    pub(super) is_closing: bool,
    /// A stream works on it.
    pub(super) has_stream: bool,
}

impl Handle {
    pub(crate) const fn new(client: u8, file: File, writable: bool, checksums: bool) -> Self {
        Self {
            client,
            file,
            writable,
            checksums,
            has_failed: false,
            is_closing: false,
            has_stream: false,
        }
    }

    /// Whether appends to it are accepted.
    pub(super) const fn can_append(&self) -> Result<(), Error> {
        match (self.writable, self.has_failed) {
            (false, _) => Err(Error::NotWritable),
            (true, true) => Err(Error::AppendFailed),
            (true, false) => Ok(()),
        }
    }
}

/// A name that was copied out of the window, once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameBytes {
    pub(crate) bytes: [u8; NAME_BYTES],
    pub(crate) len: usize,
}

impl NameBytes {
    pub(super) const NONE: Self = Self {
        bytes: [0; NAME_BYTES],
        len: 0,
    };

    pub(super) fn text(&self) -> Result<&str, Error> {
        let bytes = self.bytes.get(..self.len).ok_or(Error::BadName)?;
        core::str::from_utf8(bytes).map_err(|_| Error::BadName)
    }
}

/// A command that waits for its turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) asker: Asker,
    pub(crate) command: RingCommand,
    pub(crate) name: NameBytes,
    /// Index of the open file; `u8::MAX` if the command has none.
    pub(crate) handle: u8,
    /// The offset of the data in the window.
    pub(crate) data: usize,
}

/// The worker's next task.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Task {
    /// The metadata that a data command waits for: its index, its file, the work.
    Work(usize, File, Work),
    /// A client's command, [`State::running`].
    Run,
    /// A file of a session that has ended.
    Close(usize, File),
}

pub(super) struct State {
    pub(super) handles: [Option<Handle>; HANDLES],
    /// Counts the uses of each entry, so that an old number is not mistaken for a new file.
    generations: [u16; HANDLES],
    pub(super) commands: [Option<DataCommand>; TRANSFERS],
    /// Commands with pieces still to be submitted, in order of arrival.
    pub(super) waiting: [u8; TRANSFERS],
    pub(super) waiting_count: usize,
    pub(super) jobs: [Option<Job>; JOBS],
    /// The oldest job, by number; jobs are numbered in order of arrival.
    job_numbers: [u32; JOBS],
    next_job: u32,
    /// The worker is closing this handle.
    pub(super) closing: Option<u8>,
    /// The client whose command the worker runs.
    pub(super) running: Option<Job>,
    pub(super) has_moved: bool,
    #[cfg(feature = "stream")]
    pub(super) streams: Streams,
}

impl State {
    pub(super) const fn new() -> Self {
        Self {
            handles: [None; HANDLES],
            generations: [0; HANDLES],
            commands: [const { None }; TRANSFERS],
            waiting: [0; TRANSFERS],
            waiting_count: 0,
            jobs: [None; JOBS],
            job_numbers: [0; JOBS],
            next_job: 0,
            closing: None,
            running: None,
            has_moved: false,
            #[cfg(feature = "stream")]
            streams: Streams::new(),
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.commands.iter().any(Option::is_none) && self.jobs.iter().any(Option::is_none)
    }

    pub(super) fn handle_mut(&mut self, index: usize) -> Option<&mut Handle> {
        self.handles.get_mut(index)?.as_mut()
    }

    /// Whether a command on this open file is active.
    #[cfg(feature = "stream")]
    pub(super) fn uses(&self, handle: u8) -> bool {
        let is_its = |job: &Job| job.handle == handle;
        let mut commands = self.commands.iter().flatten();
        handle != NO_HANDLE
            && (commands.any(|command| command.handle == handle)
                || self.jobs.iter().flatten().any(is_its)
                || self.running.as_ref().is_some_and(is_its))
    }

    /// The same, if no stream works on it.
    pub(super) fn free_handle(&self, client: u8, number: u64) -> Result<(usize, Handle), Code> {
        let (index, handle) = self.handle(client, number)?;
        if handle.has_stream {
            Err(Code::StreamBusy)
        } else {
            Ok((index, handle))
        }
    }

    /// The open file of a client's number.
    pub(super) fn handle(&self, client: u8, number: u64) -> Result<(usize, Handle), Code> {
        let number = u32::try_from(number).map_err(|_| Code::BadFile)?;
        let index = (number & 0xffff) as usize;
        let generation = self.generations.get(index).copied();
        let handle = self.handles.get(index).copied().flatten();
        match handle {
            Some(handle)
                if handle.client == client
                    && !handle.is_closing
                    && generation == Some((number >> 16) as u16) =>
            {
                Ok((index, handle))
            }
            _ => Err(Code::BadFile),
        }
    }

    pub(super) fn file_of(&self, handle: u8) -> Option<File> {
        let handle = self.handles.get(usize::from(handle)).copied().flatten();
        handle.map(|handle| handle.file)
    }

    /// Gives a file a number: its entry, and how often the entry was used.
    pub(super) fn put(&mut self, handle: Handle) -> Option<u32> {
        let index = self.handles.iter().position(Option::is_none)?;
        let generation = self.generations.get_mut(index)?;
        *generation = generation.wrapping_add(1);
        let number = u32::from(*generation) << 16 | index as u32;
        *self.handles.get_mut(index)? = Some(handle);
        Some(number)
    }

    pub(super) fn forget(&mut self, index: usize) {
        if let Some(place) = self.handles.get_mut(index) {
            *place = None;
        }
        if self.closing == Some(index as u8) {
            self.closing = None;
        }
    }

    /// Queues a command.
    pub(super) fn put_job(
        &mut self,
        asker: Asker,
        command: RingCommand,
        name: NameBytes,
        handle: u8,
        data: usize,
    ) -> Result<(), CompletionStatus> {
        let free = self.jobs.iter().position(Option::is_none);
        let free = free.ok_or(block::Error::Busy)?;
        let number = self.next_job;
        self.next_job = number.wrapping_add(1);
        if let Some(place) = self.job_numbers.get_mut(free) {
            *place = number;
        }
        if let Some(place) = self.jobs.get_mut(free) {
            *place = Some(Job {
                asker,
                command,
                name,
                handle,
                data,
            });
        }
        Ok(())
    }

    /// The oldest job that may run: one on a file waits until each data command of that file that
    /// came before it is with the drive, a close until they have completed. It is then the running
    /// one; false if there is none.
    pub(super) fn take_job(&mut self) -> bool {
        let mut best: Option<(usize, u32)> = None;
        for (index, place) in self.jobs.iter().enumerate() {
            let Some(job) = place else { continue };
            let number = self.job_numbers.get(index).copied().unwrap_or(0);
            let age = self.next_job.wrapping_sub(number);
            if best.is_none_or(|(_, oldest)| age > oldest) && !self.must_wait(job) {
                best = Some((index, age));
            }
        }
        let job = best.and_then(|(index, _)| self.jobs.get_mut(index));
        self.running = job.and_then(Option::take);
        self.running.is_some()
    }

    fn must_wait(&self, job: &Job) -> bool {
        let opcode = job.command.opcode;
        let mut commands = self.commands.iter().flatten();
        commands.any(|command| {
            command.handle == job.handle
                && match opcode {
                    Opcode::Close => true,
                    Opcode::Commit | Opcode::Sync => command.is_append() && !command.is_submitted,
                    _ => false,
                }
        })
    }
}
