// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands on files of the volume: the coprocessor keeps the volume, clients keep numbers of open
//! files. Several clients at the same time; each file that is open for writing has one writer.
//!
//! A file that a stream works on belongs to the stream alone until it ends; its events go to the
//! stream.
//!
//! Data commands of one file go to the drive in order of arrival; commits and closes wait for the
//! data commands before them.

use core::cell::{RefCell, RefMut};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Waker};

use block::{Clock, Device};
use volume::{Error, NAME_BYTES, Volume};

use super::blocks::due;
use super::session::{Phase, Taken};
use super::state::{NO_HANDLE, NameBytes, State};
use super::transfer::Asker;
use super::{Service, Want};
use crate::command::Opcode;
use crate::header::Access;
use crate::layout::{self, CLIENTS};
use crate::memory::Window;
use crate::status::{Code, CompletionStatus};

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
            state: RefCell::new(State::new()),
        }
    }

    pub(super) fn state(&self) -> RefMut<'_, State> {
        self.state.borrow_mut()
    }

    pub(super) fn service(&self) -> RefMut<'_, &'s mut Service> {
        self.service.borrow_mut()
    }

    pub(super) const fn clock(&self) -> &'r C {
        self.clock
    }

    pub(crate) fn window(&self) -> Window {
        self.service().window
    }

    /// The next event to log; each is returned once.
    pub fn take_event(&self) -> Option<super::ClientEvent> {
        self.service().take_event()
    }

    /// Whether no session wants files any more and nothing is in flight: the volume can be
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

    /// Takes commands, moves data, continues metadata operations, and answers what has completed.
    /// Bounded work, no waiting. Returns whether there was something to do. Out of line, so that
    /// its stack is free again while the volume is mounted and unmounted.
    #[inline(never)]
    pub fn step<F: Future<Output = ()>>(&self, mut work: Pin<&mut F>) -> bool {
        self.state().has_moved = false;
        self.take_commands();
        self.submit();
        self.volume.kick();
        // At most as many iterations as the drive has requests.
        while let Some(event) = self.volume.poll() {
            let mut state = self.state();
            state.has_moved = true;
            #[cfg(feature = "stream")]
            let event = match state.streams.keep(event) {
                Some(event) => event,
                None => {
                    // The stream processes it before the next one arrives.
                    drop(state);
                    go_on(work.as_mut());
                    self.state().streams.drop_event();
                    continue;
                }
            };
            let command = state.commands.get_mut(usize::from(event.tag));
            if let Some(command) = command.and_then(Option::as_mut) {
                command.transfer.take_back(event);
            }
        }
        self.finish_transfers();
        go_on(work.as_mut());
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
        // At most as many iterations as there are entries for commands.
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

    /// Begins a command, or returns why not; each of its numbers is checked here.
    fn begin(
        &self,
        service: &mut Service,
        asker: Asker,
        taken: &Taken,
    ) -> Result<(), CompletionStatus> {
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
                self.state().put_job(asker, command, name, NO_HANDLE, 0)
            }
            Opcode::List => {
                // A client of version 1.1 has room for shorter names.
                let room = command.data_bytes as usize;
                let start = data(room.clamp(layout::SHORT_ENTRY_BYTES, layout::ENTRY_BYTES))?;
                self.state()
                    .put_job(asker, command, NameBytes::NONE, NO_HANDLE, start)
            }
            Opcode::Reserve | Opcode::Commit | Opcode::Sync | Opcode::Close => {
                let (index, _) = self.state().free_handle(asker.client, command.extra)?;
                let mut state = self.state();
                if let Some(handle) = state.handle_mut(index) {
                    handle.is_closing |= command.opcode == Opcode::Close;
                }
                drop(state);
                self.state()
                    .put_job(asker, command, NameBytes::NONE, index as u8, 0)
            }
            Opcode::Status => {
                let (index, handle) = self.state().handle(asker.client, command.extra)?;
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
                    session.answer(asker.id, CompletionStatus::OK, status.appended_bytes, false);
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

    /// For sessions that have ended: drops what has not begun; the worker closes their files.
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
            for command in state.commands.iter_mut().flatten() {
                let is_theirs = usize::from(command.asker.client) == client;
                if is_theirs && !command.is_working && !command.is_submitted {
                    command.fail(Error::from(block::Error::Aborted));
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

/// Polls the worker, which never finishes. Out of line, so that its stack is only in use here.
#[inline(never)]
fn go_on<F: Future<Output = ()>>(work: Pin<&mut F>) {
    let _ = work.poll(&mut Context::from_waker(Waker::noop()));
}
