// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands that look up or change metadata. One runs at a time, in one future that the caller
//! pins; data keeps flowing in the meantime.

#[cfg(feature = "stream")]
use core::future::Future;
use core::future::poll_fn;
#[cfg(feature = "stream")]
use core::pin::pin;
use core::task::Poll;

use block::{Buffer, Clock, Device};
use volume::{CreateOptions, Error, File, StoredFile};

use super::blocks::is_past;
use super::files::Files;
use super::session::Phase;
use super::state::{Handle, Job, Task};
use super::transfer::{Asker, Work};
use crate::command::{FLAG_CHECKSUMS, FLAG_WRITE, Opcode};
use crate::layout;
use crate::status::{Code, CompletionStatus};

impl<D: Device, C: Clock> Files<'_, '_, '_, D, C> {
    /// Never finishes; pin it once and pass it to each [`step`](Files::step).
    #[cfg(feature = "stream")]
    pub async fn work(&self) {
        let mut jobs = pin!(self.run_jobs());
        let mut first = pin!(self.run_streams(0));
        let mut second = pin!(self.run_streams(1));
        poll_fn(|context| {
            // With an event, only the streams run.
            if !self.state().streams.has_event() {
                let _ = jobs.as_mut().poll(context);
            }
            let _ = first.as_mut().poll(context);
            let _ = second.as_mut().poll(context);
            Poll::<()>::Pending
        })
        .await;
    }

    /// Never finishes; pin it once and pass it to each [`step`](Files::step).
    #[cfg(not(feature = "stream"))]
    pub async fn work(&self) {
        self.run_jobs().await;
    }

    async fn run_jobs(&self) {
        // After a power cut removed files and dead writers may still hold space. If it cannot be
        // reclaimed now, the next command that lacks space tries again.
        let status = self.volume.status();
        if !status.clean && !status.read_only {
            let _ = self.volume.reclaim_all().await;
        }
        loop {
            let task = poll_fn(|_| match self.next_task() {
                Some(task) => Poll::Ready(task),
                None => Poll::Pending,
            })
            .await;
            match task {
                Task::Work(index, file, work) => self.do_work(index, file, work).await,
                Task::Close(index, file) => {
                    // The client has disappeared; the volume keeps what was durable.
                    let _ = self.volume.close(file).await;
                    self.state().forget(index);
                }
                Task::Run => {
                    let Some(job) = self.state().running else {
                        continue;
                    };
                    let (status, value) = match self.run(&job).await {
                        Ok(value) => (CompletionStatus::OK, value),
                        Err(status) => (status, 0),
                    };
                    self.finish_job(&job, status, value);
                }
            }
        }
    }

    async fn do_work(&self, index: usize, file: File, work: Work) {
        let result = match work {
            Work::Provide(need) => self.volume.provide(file, need).await,
            Work::Verify => match self.take_whole(index) {
                Some((buffer, offset, len)) => {
                    let data = buffer.get(..len).unwrap_or_default();
                    self.volume.verify(file, offset, data).await
                }
                None => Err(Error::from(block::Error::Gone)),
            },
        };
        let mut state = self.state();
        state.has_moved = true;
        if let Some(Some(command)) = state.commands.get_mut(index) {
            command.worked(result);
        }
    }

    async fn run(&self, job: &Job) -> Result<u64, CompletionStatus> {
        let command = &job.command;
        if self.is_too_late(&job.asker) {
            return Err(block::Error::TimedOut.into());
        }
        let file = self.state().file_of(job.handle);
        let file = || file.ok_or(CompletionStatus::from(Code::BadFile));
        Ok(match command.opcode {
            Opcode::Create | Opcode::Open => {
                let name = job.name.text()?;
                let is_new = command.opcode == Opcode::Create;
                let writable = is_new || command.flags & FLAG_WRITE != 0;
                let options = CreateOptions {
                    reserve_bytes: command.argument,
                    checksums: command.flags & FLAG_CHECKSUMS != 0,
                    app_tag: command.extra,
                };
                let create = || self.volume.create(name, &options);
                let file = match (is_new, writable) {
                    (true, _) => self.volume.with_space(create).await?,
                    (false, true) => self.volume.open_to_write(name).await?,
                    (false, false) => self.volume.open(name).await?,
                };
                self.adopt(job, file, writable).await?
            }
            Opcode::Reserve => self.volume.reserve(file()?, command.argument).await?,
            Opcode::Commit => self.volume.commit(file()?).await?,
            Opcode::Sync => self.volume.sync(file()?).await?,
            Opcode::Close => {
                let result = self.volume.close(file()?).await;
                self.state().forget(usize::from(job.handle));
                result.map(|()| 0)?
            }
            Opcode::Delete => {
                self.volume.remove(job.name.text()?).await?;
                0
            }
            Opcode::List => {
                let from = u32::try_from(command.argument).unwrap_or(u32::MAX);
                match self.volume.next_file(from).await? {
                    Some(entry) => {
                        let bytes = entry_bytes(&entry);
                        let name_end = NAME_AT + entry.name.as_str().len();
                        let room = (command.data_bytes as usize).max(layout::SHORT_ENTRY_BYTES);
                        if name_end > room {
                            return Err(Error::BadName.into());
                        }
                        let room = bytes.get(..room).unwrap_or(&bytes);
                        self.window().copy_in(job.data, room);
                        u64::from(entry.slot) + 1
                    }
                    None => 0,
                }
            }
            _ => return Err(Code::BadOpcode.into()),
        })
    }

    /// Gives an open file its number.
    async fn adopt(&self, job: &Job, file: File, writable: bool) -> Result<u64, CompletionStatus> {
        let checksums = self
            .volume
            .file_status(file)
            .map(|status| status.checksums)?;
        let handle = Handle::new(job.asker.client, file, writable, checksums);
        let number = self.state().put(handle);
        match number {
            Some(number) => Ok(u64::from(number)),
            None => {
                let _ = self.volume.close(file).await;
                Err(Error::TooManyOpen.into())
            }
        }
    }

    // --- Work and its results -----------------------------------------------------------------

    pub(super) fn is_too_late(&self, asker: &Asker) -> bool {
        asker
            .due
            .is_some_and(|due| is_past(due, self.clock().ticks() as u32))
    }

    fn next_task(&self) -> Option<Task> {
        let service = self.service();
        let mut state = self.state();
        let state = &mut *state;
        for (index, place) in state.commands.iter_mut().enumerate() {
            let Some(command) = place else { continue };
            if let (Some(work), false) = (command.work, command.is_working) {
                command.is_working = true;
                return Some(Task::Work(index, command.transfer.file(), work));
            }
        }
        for (index, place) in state.handles.iter_mut().enumerate() {
            let Some(handle) = place else { continue };
            let session = service.sessions.get(usize::from(handle.client));
            let is_ending = session.is_some_and(|session| session.phase == Phase::Ending);
            let mut commands = state.commands.iter().flatten();
            let is_used = commands.any(|one| usize::from(one.handle) == index);
            if is_ending && !is_used && !handle.has_stream && state.closing.is_none() {
                handle.is_closing = true;
                state.closing = Some(index as u8);
                return Some(Task::Close(index, handle.file));
            }
        }
        state.take_job().then_some(Task::Run)
    }

    /// The data that a command has read, its offset in the file, and its length.
    fn take_whole(&self, index: usize) -> Option<(Buffer, u64, usize)> {
        let mut state = self.state();
        let transfer = &mut state.commands.get_mut(index)?.as_mut()?.transfer;
        let buffer = transfer.take_buffer()?;
        Some((buffer, transfer.offset(), transfer.len_bytes()))
    }

    fn finish_job(&self, job: &Job, status: CompletionStatus, value: u64) {
        let late = self.is_too_late(&job.asker);
        let mut state = self.state();
        state.running = None;
        state.has_moved = true;
        if matches!(job.command.opcode, Opcode::Commit | Opcode::Sync) {
            if let Some(handle) = state.handle_mut(usize::from(job.handle)) {
                handle.has_failed = false;
            }
        }
        drop(state);
        let mut service = self.service();
        if let Some(session) = service.sessions.get_mut(usize::from(job.asker.client)) {
            session.answer(job.asker.id, status, value, late);
        }
    }
}

/// The offset of the name in an entry.
const NAME_AT: usize = 0x30;

/// Encodes a file's entry for a client (`docs/coprocessor.md`, "Entries").
fn entry_bytes(entry: &StoredFile) -> [u8; layout::ENTRY_BYTES] {
    let mut bytes = [0; layout::ENTRY_BYTES];
    let name = entry.name.as_str().as_bytes();
    let mut put = |at: usize, value: &[u8]| {
        let place = bytes.iter_mut().skip(at);
        place.zip(value).for_each(|(place, byte)| *place = *byte);
    };
    put(0x00, &entry.slot.to_le_bytes());
    put(0x04, &u32::from(entry.checksums).to_le_bytes());
    put(0x08, &entry.size_bytes.to_le_bytes());
    put(0x10, &entry.allocated_bytes.to_le_bytes());
    put(0x18, &entry.mtime_ns.to_le_bytes());
    put(0x20, &entry.app_tag.to_le_bytes());
    put(0x28, &(name.len() as u32).to_le_bytes());
    put(NAME_AT, name);
    bytes
}
