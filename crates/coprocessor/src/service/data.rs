//! Commands that move a file's data: begun, submitted in their order, answered when they are over.

use block::{Buffer, Clock, Device};
use volume::Error;

use super::blocks::is_past;
use super::files::Files;
use super::state::TRANSFERS;
use super::transfer::{Asker, Need, Progress, Transfer, Way};
use crate::command::{Command, Opcode};
use crate::status::Status;

impl<D: Device, C: Clock> Files<'_, '_, '_, D, C> {
    /// Begins a read or an append, or says why not.
    pub(super) fn begin_transfer(
        &self,
        asker: Asker,
        command: &Command,
        buffer: Buffer,
    ) -> Result<(), Status> {
        let (index, handle) = self.state().free_handle(asker.client, command.extra)?;
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

    /// Submits what can be, in the order in which it came.
    pub(super) fn submit(&self) {
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
                if late.is_some_and(|due| is_past(due, self.clock().ticks() as u32)) {
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

    /// Answers what is over.
    pub(super) fn finish_transfers(&self) {
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
                .is_some_and(|due| is_past(due, self.clock().ticks() as u32));
            if let Some(session) = service.sessions.get_mut(usize::from(asker.client)) {
                session.answer(asker.id, status, value, late);
            }
        }
    }
}
