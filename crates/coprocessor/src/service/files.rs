//! Commands on files of the volume: the coprocessor keeps the volume, clients keep numbers of open
//! files. Several clients at once; each file that is open for writing has one writer.
//!
//! A file that a stream works on is the stream's alone until it ends; its events go to the stream.
//!
//! Data commands of one file go to the drive in the order in which they came; commits and closes wait
//! for the data commands before them.

use core::cell::{RefCell, RefMut};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Waker};

use block::{Buffer, Clock, Device};
use volume::{Error, File, NAME_BYTES, Volume};

use super::blocks::{due, is_past};
use super::jobs::{Job, NameBytes, Task};
use super::session::{Phase, Taken};
#[cfg(feature = "stream")]
use super::streams::Streams;
use super::transfer::{Asker, Need, Progress, Transfer, Way};
use super::{Service, Want};
use crate::command::{Command, Opcode};
use crate::header::Access;
use crate::layout::{self, CLIENTS};
use crate::memory::Window;
use crate::status::{Code, Status};

/// Data commands under way.
const TRANSFERS: usize = 16;
/// Metadata commands that wait.
const JOBS: usize = 8;
/// Files that are open, at most.
const HANDLES: usize = 16;
/// No open file.
pub(super) const NO_HANDLE: u8 = u8::MAX;

/// An open file of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handle {
    client: u8,
    file: File,
    writable: bool,
    checksums: bool,
    /// An append failed: those behind it are not taken until the client has looked (status, commit
    /// or sync).
    has_failed: bool,
    is_closing: bool,
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

    #[cfg(feature = "stream")]
    pub(super) const fn file(&self) -> File {
        self.file
    }

    /// Whether appends to it are taken.
    pub(super) const fn can_append(&self) -> Result<(), Error> {
        match (self.writable, self.has_failed) {
            (false, _) => Err(Error::NotWritable),
            (true, true) => Err(Error::AppendFailed),
            (true, false) => Ok(()),
        }
    }
}

pub(super) struct State {
    handles: [Option<Handle>; HANDLES],
    /// Counts each use of a place, so that an old number is not taken for a new file.
    generations: [u16; HANDLES],
    transfers: [Option<Transfer>; TRANSFERS],
    /// Those of which pieces are still to be submitted, in the order in which they came.
    waiting: [u8; TRANSFERS],
    waiting_count: usize,
    jobs: [Option<Job>; JOBS],
    /// The oldest job, by number; jobs are numbered as they come.
    job_numbers: [u32; JOBS],
    next_job: u32,
    /// The worker is closing this handle.
    closing: Option<u8>,
    /// The client whose command the worker runs.
    running: Option<Job>,
    pub(super) has_moved: bool,
    #[cfg(feature = "stream")]
    pub(super) streams: Streams,
}

/// The files of a mounted volume, served to the sessions.
pub struct Files<'s, 'r, 'v, D, C> {
    service: RefCell<&'s mut Service>,
    pub(crate) volume: &'r Volume<'v, D>,
    clock: &'r C,
    state: RefCell<State>,
}

impl<'s, 'r, 'v, D: Device, C: Clock> Files<'s, 'r, 'v, D, C> {
    /// Serves `volume`.
    pub fn new(service: &'s mut Service, volume: &'r Volume<'v, D>, clock: &'r C) -> Self {
        Self {
            service: RefCell::new(service),
            volume,
            clock,
            state: RefCell::new(State {
                handles: [None; HANDLES],
                generations: [0; HANDLES],
                transfers: [const { None }; TRANSFERS],
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
            }),
        }
    }

    pub(super) fn state(&self) -> RefMut<'_, State> {
        self.state.borrow_mut()
    }

    pub(super) fn service(&self) -> RefMut<'_, &'s mut Service> {
        self.service.borrow_mut()
    }

    #[cfg(feature = "stream")]
    pub(super) const fn clock(&self) -> &'r C {
        self.clock
    }

    pub(crate) fn window(&self) -> Window {
        self.service().window
    }

    /// The next thing to log; each is told once.
    pub fn take_event(&self) -> Option<super::Event> {
        self.service().take_event()
    }

    /// Whether no session wants files any more and nothing is under way: the volume can be
    /// unmounted. The service then wants blocks again.
    pub fn is_over(&self) -> bool {
        let mut service = self.service();
        let mut sessions = service.sessions.iter();
        let is_wanted =
            sessions.any(|session| session.phase != Phase::Free && session.access == Access::Files);
        let state = self.state();
        let is_idle = state.handles.iter().all(Option::is_none) && state.running.is_none();
        if is_wanted || !is_idle || self.volume.outstanding() > 0 {
            return false;
        }
        service.want = Want::Blocks;
        true
    }

    /// Takes commands in, moves data, goes on with metadata, and answers what has ended. Bounded
    /// work, no waiting. True while there was something to do.
    pub fn step<F: Future<Output = ()>>(&self, mut work: Pin<&mut F>) -> bool {
        self.state().has_moved = false;
        self.take_commands();
        self.submit();
        self.volume.kick();
        // At most as many turns as the drive has requests.
        while let Some(event) = self.volume.poll() {
            let mut state = self.state();
            state.has_moved = true;
            #[cfg(feature = "stream")]
            let event = match state.streams.keep(event) {
                Some(event) => event,
                None => {
                    // The stream takes it in before the next one comes.
                    drop(state);
                    let _ = work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                    self.state().streams.drop_event();
                    continue;
                }
            };
            let transfer = state.transfers.get_mut(usize::from(event.tag));
            if let Some(transfer) = transfer.and_then(Option::as_mut) {
                transfer.take_back(event.buffer, event.offset, event.result);
            }
        }
        self.finish_transfers();
        let _ = work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        self.end_sessions();
        self.state().has_moved
    }

    fn take_commands(&self) {
        let mut service = self.service();
        service.housekeep(self.clock);
        for session in &mut service.sessions {
            if session.phase == Phase::Waiting && session.access == Access::Files {
                session.open();
            }
        }
        let (turn, ticks_per_ms) = (service.turn, service.ticks_per_ms);
        // At most as many turns as there are places for commands.
        for offset in 0..CLIENTS {
            let client = (turn + offset) % CLIENTS;
            if let Some(session) = service.sessions.get_mut(client) {
                session.look(self.clock);
            }
            while self.state().has_room() {
                let Some(session) = service.sessions.get_mut(client) else {
                    break;
                };
                let Some(next) = session.next() else {
                    break;
                };
                self.state().has_moved = true;
                let refused = match next {
                    Ok(taken) => {
                        let asker = Asker {
                            client: client as u8,
                            id: taken.command.id,
                            due: due(&taken, ticks_per_ms),
                        };
                        let begun = self.begin(&mut service, asker, &taken);
                        begun.err().map(|status| (asker.id, status, 0))
                    }
                    Err((id, code)) => Some((id, code.into(), 0)),
                };
                let session = service.sessions.get_mut(client);
                if let (Some((id, status, value)), Some(session)) = (refused, session) {
                    session.answer(id, status, value, false);
                }
            }
        }
    }

    /// Begins a command, or says why not; each of its numbers is checked here.
    fn begin(&self, service: &mut Service, asker: Asker, taken: &Taken) -> Result<(), Status> {
        let command = taken.command;
        let session = service.sessions.get_mut(usize::from(asker.client));
        let session = session.ok_or(Code::BadField)?;
        let data = |bytes: usize| session.data_offset(command.data_offset, bytes);
        match command.opcode {
            Opcode::Append | Opcode::ReadFile => {
                let block = service.geometry.block_size_bytes();
                let len = command.data_bytes as usize;
                let whole = len.checked_next_multiple_of(block).ok_or(Code::BadField)?;
                if len == 0 {
                    return Err(Code::BadField.into());
                }
                let start = data(whole)?;
                let buffer = service
                    .window
                    .buffer(start, whole)
                    .ok_or(Code::OutsideGrant)?;
                self.begin_transfer(asker, &command, buffer)
            }
            Opcode::Create | Opcode::Open | Opcode::Delete => {
                let len = command.data_bytes as usize;
                if len == 0 || len > NAME_BYTES {
                    return Err(Error::BadName.into());
                }
                let start = data(len)?;
                let mut name = NameBytes {
                    bytes: [0; NAME_BYTES],
                    len,
                };
                let place = name.bytes.get_mut(..len).unwrap_or_default();
                service.window.copy_out(start, place);
                self.put_job(asker, command, name, NO_HANDLE, 0)
            }
            Opcode::List => {
                let start = data(layout::ENTRY_BYTES)?;
                self.put_job(asker, command, NameBytes::NONE, NO_HANDLE, start)
            }
            Opcode::Reserve | Opcode::Commit | Opcode::Sync | Opcode::Close => {
                let (index, _) = self.free_handle(asker.client, command.extra)?;
                let mut state = self.state();
                if let Some(handle) = state.handle_mut(index) {
                    handle.is_closing |= command.opcode == Opcode::Close;
                }
                drop(state);
                self.put_job(asker, command, NameBytes::NONE, index as u8, 0)
            }
            Opcode::Status => {
                let (index, handle) = self.handle(asker.client, command.extra)?;
                let status = self.volume.file_status(handle.file)?;
                let sizes = [
                    status.committed_bytes,
                    status.completed_bytes,
                    status.appended_bytes,
                    status.reserved_bytes,
                ];
                let start = data(8 * sizes.len())?;
                for (at, size) in sizes.iter().enumerate() {
                    service.window.copy_in(start + 8 * at, &size.to_le_bytes());
                }
                if let Some(handle) = self.state().handle_mut(index) {
                    handle.has_failed = false;
                }
                if let Some(session) = service.sessions.get_mut(usize::from(asker.client)) {
                    session.answer(asker.id, Status::OK, status.appended_bytes, false);
                }
                Ok(())
            }
            #[cfg(feature = "stream")]
            Opcode::Record
            | Opcode::RecordBlock
            | Opcode::RecordEnd
            | Opcode::Play
            | Opcode::PlayBlock
            | Opcode::PlayEnd => self.begin_stream(service, asker, taken),
            #[cfg(feature = "hang")]
            Opcode::Hang => loop {
                core::hint::spin_loop();
            },
            _ => Err(Code::BadOpcode.into()),
        }
    }

    fn begin_transfer(
        &self,
        asker: Asker,
        command: &Command,
        buffer: Buffer,
    ) -> Result<(), Status> {
        let (index, handle) = self.free_handle(asker.client, command.extra)?;
        let way = match command.opcode {
            Opcode::Append => Way::Append,
            _ => Way::Read,
        };
        let mut len = command.data_bytes as usize;
        let mut buffer = buffer;
        if way == Way::Append {
            handle.can_append()?;
        } else {
            // What lies past the end is not read; how much there was is the answer.
            let status = self.volume.file_status(handle.file)?;
            let end = status.committed_bytes.max(status.completed_bytes);
            let there = end.saturating_sub(command.argument);
            if there == 0 {
                return Err(Error::PastEnd.into());
            }
            if there < len as u64 {
                len = there as usize;
                let block = self.service_block();
                buffer = buffer.split_at(len.next_multiple_of(block)).0;
            }
        }
        let mut transfer = Transfer::new(
            asker,
            index as u8,
            handle.file,
            way,
            command.argument,
            buffer,
            len,
        );
        let is_aligned = command.argument % volume::layout::CHUNK_BYTES == 0;
        transfer.verify = way == Way::Read && handle.checksums && is_aligned;
        let mut state = self.state();
        let free = state.transfers.iter().position(Option::is_none);
        let free = free.ok_or(block::Error::Busy)?;
        if let Some(place) = state.transfers.get_mut(free) {
            *place = Some(transfer);
        }
        let count = state.waiting_count;
        if let Some(place) = state.waiting.get_mut(count) {
            *place = free as u8;
            state.waiting_count += 1;
        }
        Ok(())
    }

    /// The drive's block size. Not to be called while the service is borrowed.
    fn service_block(&self) -> usize {
        self.volume
            .geometry()
            .map_or(512, |geometry| geometry.block_size_bytes())
    }

    fn put_job(
        &self,
        asker: Asker,
        command: Command,
        name: NameBytes,
        handle: u8,
        data: usize,
    ) -> Result<(), Status> {
        let mut state = self.state();
        let free = state.jobs.iter().position(Option::is_none);
        let free = free.ok_or(block::Error::Busy)?;
        let number = state.next_job;
        state.next_job = number.wrapping_add(1);
        if let Some(place) = state.job_numbers.get_mut(free) {
            *place = number;
        }
        if let Some(place) = state.jobs.get_mut(free) {
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

    /// The same, if no stream works on it.
    pub(super) fn free_handle(&self, client: u8, number: u64) -> Result<(usize, Handle), Code> {
        let (index, handle) = self.handle(client, number)?;
        match handle.has_stream {
            true => Err(Code::StreamBusy),
            false => Ok((index, handle)),
        }
    }

    /// The open file of a client's number.
    pub(super) fn handle(&self, client: u8, number: u64) -> Result<(usize, Handle), Code> {
        let number = u32::try_from(number).map_err(|_| Code::BadFile)?;
        let index = (number & 0xffff) as usize;
        let state = self.state();
        let generation = state.generations.get(index).copied();
        let handle = state.handles.get(index).copied().flatten();
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

    pub(crate) fn file_of(&self, handle: u8) -> Option<File> {
        let state = self.state();
        let handle = state.handles.get(usize::from(handle)).copied().flatten();
        handle.map(|handle| handle.file)
    }

    /// Gives a file a number: its place, and how often the place was used.
    pub(crate) fn put(&self, handle: Handle) -> Option<u32> {
        let mut state = self.state();
        let index = state.handles.iter().position(Option::is_none)?;
        let generation = state.generations.get_mut(index)?;
        *generation = generation.wrapping_add(1);
        let number = u32::from(*generation) << 16 | index as u32;
        *state.handles.get_mut(index)? = Some(handle);
        Some(number)
    }

    pub(crate) fn forget(&self, index: usize) {
        let mut state = self.state();
        if let Some(place) = state.handles.get_mut(index) {
            *place = None;
        }
        if state.closing == Some(index as u8) {
            state.closing = None;
        }
    }

    fn submit(&self) {
        let mut state = self.state();
        let state = &mut *state;
        let mut blocked = 0u32;
        let mut kept = 0;
        for at in 0..state.waiting_count {
            let Some(index) = state.waiting.get(at).copied() else {
                break;
            };
            let place = state.transfers.get_mut(usize::from(index));
            let mut keep = false;
            if let Some(transfer) = place.and_then(Option::as_mut) {
                let bit = 1 << (transfer.handle & 31);
                let late = transfer.asker.due.filter(|_| !transfer.has_begun());
                if late.is_some_and(|due| is_past(due, self.clock.ticks() as u32)) {
                    transfer.fail(0, Error::from(block::Error::TimedOut));
                }
                let must_wait = blocked & bit != 0 && !transfer.has_failed();
                keep =
                    must_wait || transfer.go_on(self.volume, u16::from(index)) == Progress::Blocked;
                if keep {
                    blocked |= bit;
                }
            }
            if keep {
                if let Some(place) = state.waiting.get_mut(kept) {
                    *place = index;
                    kept += 1;
                }
            }
        }
        state.waiting_count = kept;
    }

    fn finish_transfers(&self) {
        let mut service = self.service();
        for index in 0..TRANSFERS {
            let mut state = self.state();
            let Some(Some(transfer)) = state.transfers.get_mut(index) else {
                continue;
            };
            if !transfer.is_over() {
                continue;
            }
            if transfer.verify && !transfer.has_failed() {
                transfer.verify = false;
                transfer.need = Some(Need::Verify);
                continue;
            }
            let is_append = transfer.way == Way::Append;
            let (asker, file, handle) = (transfer.asker, transfer.file, transfer.handle);
            let has_failed = transfer.has_failed();
            let (mut status, value) = transfer.outcome();
            let failed_before = state
                .handle_mut(usize::from(handle))
                .is_some_and(|handle| handle.has_failed);
            // What was behind a failed append is given up with it.
            if is_append && failed_before && status == Status::OK {
                status = Error::AppendFailed.into();
            }
            if is_append && has_failed {
                if let Some(handle) = state.handle_mut(usize::from(handle)) {
                    handle.has_failed = true;
                }
            }
            if let Some(place) = state.transfers.get_mut(index) {
                *place = None;
            }
            state.has_moved = true;
            let others = state.transfers.iter().flatten();
            let is_last = !{ others }.any(|one| one.handle == handle && one.way == Way::Append);
            if is_append && is_last && (has_failed || failed_before) {
                let _ = self.volume.rewind(file);
            }
            let late = asker
                .due
                .is_some_and(|due| is_past(due, self.clock.ticks() as u32));
            if let Some(session) = service.sessions.get_mut(usize::from(asker.client)) {
                session.answer(asker.id, status, value, late);
            }
        }
    }

    // --- What the worker asks for -------------------------------------------------------------

    pub(crate) fn is_too_late(&self, asker: &Asker) -> bool {
        asker
            .due
            .is_some_and(|due| is_past(due, self.clock.ticks() as u32))
    }

    pub(crate) fn next_task(&self) -> Option<Task> {
        let service = self.service();
        let mut state = self.state();
        let state = &mut *state;
        for (index, place) in state.transfers.iter_mut().enumerate() {
            let Some(transfer) = place else { continue };
            if let (Some(need), false) = (transfer.need, transfer.is_mending) {
                // A commit covers what is done: what is in flight must end first.
                transfer.is_mending = true;
                return Some(Task::Mend(index, transfer.file, need));
            }
        }
        for (index, place) in state.handles.iter_mut().enumerate() {
            let Some(handle) = place else { continue };
            let session = service.sessions.get(usize::from(handle.client));
            let is_ending = session.is_some_and(|session| session.phase == Phase::Ending);
            let mut transfers = state.transfers.iter().flatten();
            let is_used = transfers.any(|one| usize::from(one.handle) == index);
            if is_ending && !is_used && !handle.has_stream && state.closing.is_none() {
                handle.is_closing = true;
                state.closing = Some(index as u8);
                return Some(Task::Close(index, handle.file));
            }
        }
        let job = state.next_job()?;
        state.running = Some(job);
        Some(Task::Run(job))
    }

    pub(crate) fn mended(&self, index: usize, result: Result<(), Error>) {
        let mut state = self.state();
        state.has_moved = true;
        if let Some(Some(transfer)) = state.transfers.get_mut(index) {
            transfer.mended(result);
        }
    }

    pub(crate) fn take_whole(&self, index: usize) -> Option<(Buffer, u64, usize)> {
        let mut state = self.state();
        let transfer = state.transfers.get_mut(index)?.as_mut()?;
        let (offset, len) = (transfer.offset, transfer.len_bytes);
        Some((transfer.whole()?, offset, len))
    }

    pub(crate) fn keep_whole(&self, index: usize, buffer: Buffer) {
        if let Some(Some(transfer)) = self.state().transfers.get_mut(index) {
            transfer.keep(buffer);
        }
    }

    pub(crate) fn finish_job(&self, job: &Job, status: Status, value: u64) {
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

    /// Sessions that are over: what has not begun is dropped, files are closed by the worker.
    fn end_sessions(&self) {
        let mut service = self.service();
        for (client, session) in service.sessions.iter_mut().enumerate() {
            if session.phase != Phase::Ending {
                continue;
            }
            let mut state = self.state();
            for place in &mut state.jobs {
                if place.is_some_and(|job| usize::from(job.asker.client) == client) {
                    *place = None;
                    session.under_way = session.under_way.saturating_sub(1);
                }
            }
            for transfer in state.transfers.iter_mut().flatten() {
                let is_theirs = usize::from(transfer.asker.client) == client;
                if is_theirs && !transfer.is_mending && !transfer.is_submitted {
                    transfer.fail(0, Error::from(block::Error::Aborted));
                }
            }
            let mut handles = state.handles.iter().flatten();
            let has_files = handles.any(|handle| usize::from(handle.client) == client);
            if session.under_way == 0 && !has_files {
                session.close();
            }
        }
    }
}

impl NameBytes {
    const NONE: Self = Self {
        bytes: [0; NAME_BYTES],
        len: 0,
    };
}

impl State {
    fn has_room(&self) -> bool {
        self.transfers.iter().any(Option::is_none) && self.jobs.iter().any(Option::is_none)
    }

    pub(super) fn handle_mut(&mut self, index: usize) -> Option<&mut Handle> {
        self.handles.get_mut(index)?.as_mut()
    }

    /// Whether a command on this open file is under way.
    #[cfg(feature = "stream")]
    pub(super) fn uses(&self, handle: u8) -> bool {
        let is_its = |job: &Job| job.handle == handle;
        let mut transfers = self.transfers.iter().flatten();
        handle != NO_HANDLE
            && (transfers.any(|transfer| transfer.handle == handle)
                || self.jobs.iter().flatten().any(is_its)
                || self.running.as_ref().is_some_and(is_its))
    }

    /// The oldest job that may run: one on a file waits until each data command of that file that
    /// came before it is with the drive, a close until they are over.
    fn next_job(&mut self) -> Option<Job> {
        let mut best: Option<(usize, u32)> = None;
        for (index, place) in self.jobs.iter().enumerate() {
            let Some(job) = place else { continue };
            let number = self.job_numbers.get(index).copied().unwrap_or(0);
            let age = self.next_job.wrapping_sub(number);
            if best.is_none_or(|(_, oldest)| age > oldest) && !self.must_wait(job) {
                best = Some((index, age));
            }
        }
        self.jobs.get_mut(best?.0)?.take()
    }

    fn must_wait(&self, job: &Job) -> bool {
        let opcode = job.command.opcode;
        let mut transfers = self.transfers.iter().flatten();
        transfers.any(|transfer| {
            transfer.handle == job.handle
                && match opcode {
                    Opcode::Close => true,
                    Opcode::Commit | Opcode::Sync => {
                        transfer.way == Way::Append && !transfer.is_submitted
                    }
                    _ => false,
                }
        })
    }
}
