// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands that move a file's data: begun, submitted in order, answered when they have completed.

use block::{Buffer, Clock, Device};
use volume::{Error, Transfer};

use super::blocks::is_past;
use super::files::Files;
use super::state::TRANSFERS;
use super::transfer::{Asker, DataCommand, Work};
use crate::command::{Opcode, RingCommand};
use crate::status::CompletionStatus;

impl<D: Device, C: Clock> Files<'_, '_, '_, D, C> {
    /// Begins a read or an append, or returns why not.
    pub(super) fn begin_transfer(
        &self,
        asker: Asker,
        command: &RingCommand,
        buffer: Buffer,
    ) -> Result<(), CompletionStatus> {
        let (index, handle) = self.state().free_handle(asker.client, command.extra)?;
        let is_append = command.opcode == Opcode::Append;
        let mut len = command.data_bytes as usize;
        let mut buffer = buffer;
        if is_append {
            handle.can_append()?;
        } else {
            // Bytes past the end are not read; the result is how much was read.
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
        let is_aligned = command.argument % volume::layout::CHUNK_BYTES == 0;
        let verify = !is_append && handle.checksums && is_aligned;
        let mut state = self.state();
        let free = state.commands.iter().position(Option::is_none);
        let free = free.ok_or(block::Error::Busy)?;
        let tag = free as u16;
        let transfer = if is_append {
            Transfer::append(handle.file, buffer, len, tag)
        } else {
            Transfer::read(handle.file, command.argument, buffer, len, tag)
        };
        if let Some(place) = state.commands.get_mut(free) {
            *place = Some(DataCommand::new(asker, index as u8, transfer, verify));
        }
        let count = state.waiting_count;
        if let Some(place) = state.waiting.get_mut(count) {
            *place = free as u8;
            state.waiting_count += 1;
        }
        Ok(())
    }

    /// The drive's block size. Must not be called while the service is borrowed.
    fn service_block(&self) -> usize {
        self.volume.geometry().block_size_bytes()
    }

    /// Submits what can be submitted, in order of arrival.
    pub(super) fn submit(&self) {
        let mut state = self.state();
        let state = &mut *state;
        let mut blocked = 0u32;
        let mut kept = 0;
        for at in 0..state.waiting_count {
            let Some(index) = state.waiting.get(at).copied() else {
                break;
            };
            let place = state.commands.get_mut(usize::from(index));
            let mut keep = false;
            if let Some(command) = place.and_then(Option::as_mut) {
                let bit = 1 << (command.handle & 31);
                let has_begun = command.transfer.submitted_bytes() > 0;
                let late = command.asker.due.filter(|_| !has_begun);
                if late.is_some_and(|due| is_past(due, self.clock().ticks() as u32)) {
                    command.fail(Error::from(block::Error::TimedOut));
                }
                let must_wait = blocked & bit != 0 && !command.has_failed();
                keep = must_wait || !command.go_on(self.volume);
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

    /// Answers completed commands.
    pub(super) fn finish_transfers(&self) {
        let mut service = self.service();
        for index in 0..TRANSFERS {
            let mut state = self.state();
            let Some(Some(command)) = state.commands.get_mut(index) else {
                continue;
            };
            if !command.is_over() {
                continue;
            }
            if command.verify && !command.has_failed() {
                command.verify = false;
                command.work = Some(Work::Verify);
                continue;
            }
            let is_append = command.is_append();
            let (asker, file, handle) = (command.asker, command.transfer.file(), command.handle);
            let has_failed = command.has_failed();
            let (mut status, value) = command.outcome();
            let failed_before = state
                .handle_mut(usize::from(handle))
                .is_some_and(|handle| handle.has_failed);
            // Appends after a failed one are discarded with it.
            if is_append && failed_before && status == CompletionStatus::OK {
                status = Error::AppendFailed.into();
            }
            if is_append && has_failed {
                if let Some(handle) = state.handle_mut(usize::from(handle)) {
                    handle.has_failed = true;
                }
            }
            if let Some(place) = state.commands.get_mut(index) {
                *place = None;
            }
            state.has_moved = true;
            let others = state.commands.iter().flatten();
            let is_last = !{ others }.any(|one| one.handle == handle && one.is_append());
            if is_append && is_last && (has_failed || failed_before) {
                let _ = self.volume.rewind(file);
            }
            let late = asker
                .due
                .is_some_and(|due| is_past(due, self.clock().ticks() as u32));
            if let Some(session) = service.sessions.get_mut(usize::from(asker.client)) {
                session.answer(asker.id, status, value, late);
            }
        }
    }
}
