// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Admin commands (NVMe base specification 1.4, "Admin Command Set").

use crate::command::{Command, Outcome, admin, status};
use crate::controller::Controller;
use crate::prp;
use crate::queue::{CompletionQueue, SubmissionQueue};
use crate::violation::Access;

impl Controller {
    /// Runs an admin command; `None` for an event request, which is completed later.
    pub(crate) fn run_admin(&mut self, command: &Command, refuse_abort: bool) -> Option<Outcome> {
        if command.flags != 0 {
            return Some(Err(status::INVALID_FIELD));
        }
        Some(match command.opcode {
            admin::DELETE_SUBMISSION_QUEUE => self.delete_submission_queue(command),
            admin::CREATE_SUBMISSION_QUEUE => self.create_submission_queue(command),
            admin::GET_LOG_PAGE => self.get_log_page(command),
            admin::DELETE_COMPLETION_QUEUE => self.delete_completion_queue(command),
            admin::CREATE_COMPLETION_QUEUE => self.create_completion_queue(command),
            admin::IDENTIFY => self.identify(command),
            admin::ABORT => self.run_abort(command, refuse_abort),
            admin::SET_FEATURES => self.set_features(command),
            admin::GET_FEATURES => self.get_features(command),
            admin::ASYNC_EVENT_REQUEST => match self.accept_event_request() {
                Ok(()) => return None,
                Err(status) => Err(status),
            },
            admin::DOORBELL_BUFFER_CONFIG if self.config.doorbell_buffers => {
                self.doorbell_buffer_config(command)
            }
            _ => Err(status::INVALID_OPCODE),
        })
    }

    /// Writes `data` to the command's PRP entries.
    pub(crate) fn send(
        &mut self,
        command: &Command,
        data: &[u8],
        access: Access,
    ) -> Result<(), u16> {
        let mut segments = std::mem::take(&mut self.segments);
        let page_shift = self.page_shift();
        let walked = prp::walk(
            &mut self.bus,
            page_shift,
            command,
            data.len(),
            &mut segments,
        );
        let sent = walked.and_then(|()| {
            let mut done = 0;
            for segment in &segments {
                let part = &data[done..done + segment.len];
                let written = self.bus.write(segment.bus, part, access);
                written.ok_or(status::DATA_TRANSFER)?;
                done += segment.len;
            }
            Ok(())
        });
        self.segments = segments;
        sent
    }

    /// Reads the command's PRP entries into `data`.
    pub(crate) fn receive(
        &mut self,
        command: &Command,
        data: &mut [u8],
        access: Access,
    ) -> Result<(), u16> {
        let mut segments = std::mem::take(&mut self.segments);
        let page_shift = self.page_shift();
        let len = data.len();
        let walked = prp::walk(&mut self.bus, page_shift, command, len, &mut segments);
        let mut done = 0;
        let received = walked.and_then(|()| {
            for segment in &segments {
                let part = &mut data[done..done + segment.len];
                let read = self.bus.read(segment.bus, part, access);
                read.ok_or(status::DATA_TRANSFER)?;
                done += segment.len;
            }
            Ok(())
        });
        self.segments = segments;
        received
    }

    /// Checks what both kinds of queue have in common; returns the identifier and the number of
    /// entries.
    fn check_queue(&self, command: &Command, limit: u32, taken: bool) -> Result<(usize, u32), u16> {
        let id = command.dword::<10>() & 0xffff;
        let size = command.dword::<10>() >> 16;
        if id == 0 || id > limit || taken {
            return Err(status::QUEUE_ID);
        }
        if size == 0 || size > (self.cap & 0xffff) as u32 || !self.has_entry_sizes() {
            return Err(status::QUEUE_SIZE);
        }
        // Physically Contiguous: the model has no other queues, whatever CAP.CQR says.
        if command.dword::<11>() & 1 == 0 {
            return Err(status::INVALID_FIELD);
        }
        if command.prp1 & ((1 << self.page_shift()) - 1) != 0 {
            return Err(status::PRP_OFFSET);
        }
        Ok((id as usize, size + 1))
    }

    fn create_completion_queue(&mut self, command: &Command) -> Outcome {
        let id = (command.dword::<10>() & 0xffff) as usize;
        let taken = self.completion.get(id).is_some_and(Option::is_some);
        let (id, entries) = self.check_queue(command, self.queues_granted().1, taken)?;
        let dword11 = command.dword::<11>();
        let vector = (dword11 >> 16) as u16;
        let interrupts = dword11 & 2 != 0;
        if interrupts && vector >= self.config.interrupt_vectors {
            return Err(status::INTERRUPT_VECTOR);
        }
        let vector = interrupts.then_some(vector);
        self.completion[id] = Some(CompletionQueue::new(command.prp1, entries, vector));
        Ok(0)
    }

    fn create_submission_queue(&mut self, command: &Command) -> Outcome {
        let id = (command.dword::<10>() & 0xffff) as usize;
        let taken = self.submission.get(id).is_some_and(Option::is_some);
        let (id, entries) = self.check_queue(command, self.queues_granted().0, taken)?;
        let target = command.dword::<11>() >> 16;
        if target == 0 || target > self.queues_granted().1 {
            return Err(status::QUEUE_ID);
        }
        if self.completion[target as usize].is_none() {
            return Err(status::COMPLETION_QUEUE);
        }
        let queue = SubmissionQueue::new(command.prp1, entries, target as u16);
        self.submission[id] = Some(queue);
        Ok(0)
    }

    fn delete_submission_queue(&mut self, command: &Command) -> Outcome {
        let id = (command.dword::<10>() & 0xffff) as usize;
        if id == 0 || !self.submission.get(id).is_some_and(Option::is_some) {
            return Err(status::QUEUE_ID);
        }
        self.abort_queue(id as u16);
        self.submission[id] = None;
        Ok(0)
    }

    fn delete_completion_queue(&mut self, command: &Command) -> Outcome {
        let id = (command.dword::<10>() & 0xffff) as usize;
        if id == 0 || !self.completion.get(id).is_some_and(Option::is_some) {
            return Err(status::QUEUE_ID);
        }
        let mut users = self.submission.iter().flatten();
        if users.any(|queue| usize::from(queue.completion) == id) {
            return Err(status::QUEUE_DELETION);
        }
        self.completion[id] = None;
        Ok(0)
    }

    /// Dword 0 of the completion: bit 0 is set if the command was not aborted.
    fn run_abort(&mut self, command: &Command, refuse: bool) -> Outcome {
        if self.outstanding(admin::ABORT) >= usize::from(self.config.abort_limit) {
            return Err(status::ABORT_LIMIT);
        }
        let queue = command.dword::<10>() as u16;
        let id = (command.dword::<10>() >> 16) as u16;
        let aborted = !refuse && self.abort(queue, id);
        Ok(u32::from(!aborted))
    }

    fn doorbell_buffer_config(&mut self, command: &Command) -> Outcome {
        let within = (1 << self.page_shift()) - 1;
        if (command.prp1 | command.prp2) & within != 0 {
            return Err(status::INVALID_FIELD);
        }
        self.set_shadow(command.prp1, command.prp2);
        Ok(0)
    }
}
