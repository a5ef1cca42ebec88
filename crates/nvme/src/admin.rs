// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The admin queue: one command at a time, and event requests that wait in the controller.

use crate::command::{Command, admin};
use crate::deadline::Deadline;
use crate::error::Error;
use crate::layout::{ADMIN_ENTRIES, COMPLETION_ENTRY_BYTES, SUBMISSION_ENTRY_BYTES};
use crate::log::DriveEvent;
use crate::memory::{CompletionRing, Part, Shared, SubmissionRing};
use crate::platform::{Dma, Platform};
use crate::registers::{Capabilities, ControllerStatus};
use crate::status::StatusField;

/// Command identifiers from here on belong to event requests, those below to commands.
const EVENT_IDS: u16 = 0x7000;
/// Most event requests that are kept outstanding.
const EVENT_REQUESTS: u16 = 2;
/// Events that are kept until the owner takes them; later ones are counted as lost.
const EVENT_ROOM: usize = 8;

/// The admin queue pair, its data page and the shadow doorbell pages.
#[derive(Debug)]
pub(crate) struct Admin {
    pub(crate) memory: Option<Shared>,
    submission_memory: Part,
    completion_memory: Part,
    submission: SubmissionRing,
    completion: CompletionRing,
    /// A page for what identify and log commands return.
    pub(crate) data: Part,
    /// Shadow doorbells and event indices.
    pub(crate) shadow: (Part, Part),
    pub(crate) shadow_active: bool,
    next_id: u16,
    events: [Option<DriveEvent>; EVENT_ROOM],
    pub(crate) events_lost: u32,
    /// A bit for each event request that has completed and has not been sent again.
    events_to_arm: u16,
}

impl Admin {
    /// Lays the queue out in `memory`, which has
    /// [`controller_memory_bytes`](crate::controller_memory_bytes), or less without `shadows`.
    pub(crate) fn new(memory: Shared, page_bytes: usize, shadows: bool) -> Result<Self, Shared> {
        let mut memory = memory;
        let mut take = |len| memory.take(len);
        let mut page = || take(page_bytes);
        let (sq, cq, data) = (page(), page(), page());
        let shadow_bytes = if shadows { page_bytes } else { 0 };
        let mut shadow = || take(shadow_bytes);
        let pages = (sq, cq, data, shadow(), shadow());
        let (Some(sq), Some(cq), Some(data), Some(doorbells), Some(events)) = pages else {
            return Err(memory);
        };
        let rings = (
            SubmissionRing::new(sq, ADMIN_ENTRIES),
            CompletionRing::new(cq, ADMIN_ENTRIES),
        );
        let (Some(submission), Some(completion)) = rings else {
            return Err(memory);
        };
        Ok(Self {
            memory: Some(memory),
            submission_memory: sq,
            completion_memory: cq,
            submission,
            completion,
            data,
            shadow: (doorbells, events),
            shadow_active: false,
            next_id: 0,
            events: [None; EVENT_ROOM],
            events_lost: 0,
            events_to_arm: 0,
        })
    }

    /// Bus addresses of the submission and the completion queue.
    pub(crate) fn addresses(&self) -> (u64, u64) {
        (self.submission_memory.bus, self.completion_memory.bus)
    }

    /// Empties both rings; the controller must be disabled.
    pub(crate) fn restart<D: Dma>(&mut self, dma: &D) {
        for part in [&self.submission_memory, &self.completion_memory] {
            part.clear();
            dma.clean(part.address(), part.len);
        }
        self.shadow.0.clear();
        self.shadow.1.clear();
        self.shadow_active = false;
        self.events_to_arm = 0;
        self.submission.restart();
        self.completion.restart();
    }

    /// Runs one command and returns dword 0 of its completion.
    ///
    /// After [`Error::TimedOut`] the controller may still write to the data page: reset it.
    pub(crate) fn execute<P: Platform>(
        &mut self,
        platform: &P,
        capabilities: &Capabilities,
        command: &Command,
        deadline: Deadline,
    ) -> Result<u32, Error> {
        self.next_id = (self.next_id + 1) % EVENT_IDS;
        let id = self.next_id;
        self.submit(platform, capabilities, command, id);
        loop {
            while let Some((found, dword, status)) = self.take(platform, capabilities) {
                if found == id {
                    let opcode = command.opcode;
                    return match status {
                        status if status.is_success() => Ok(dword),
                        status => Err(Error::Status { opcode, status }),
                    };
                }
                self.note_event(found, dword, status);
            }
            let controller = ControllerStatus::read(platform);
            if controller.is_gone() {
                return Err(Error::Gone);
            }
            if controller.is_fatal() {
                return Err(Error::Fatal);
            }
            if deadline.is_over(platform) {
                let opcode = command.opcode;
                return Err(Error::TimedOut { opcode });
            }
            platform.relax();
        }
    }

    fn submit<P: Platform>(
        &mut self,
        platform: &P,
        capabilities: &Capabilities,
        command: &Command,
        id: u16,
    ) {
        self.submission.push(platform, command.sqe(id));
        let tail = self.submission.tail();
        self.ring(platform, capabilities, false, tail);
    }

    /// Rings an admin doorbell. Controllers differ in whether they read the admin queue's shadow,
    /// so both are written.
    fn ring<P: Platform>(&self, platform: &P, caps: &Capabilities, completion: bool, index: u32) {
        if self.shadow_active {
            let offset = caps.doorbell(0, completion) - caps.doorbell(0, false);
            if let Some(word) = self.shadow.0.word(offset) {
                platform.before_index();
                word.write(index);
            }
        }
        platform.write32(caps.doorbell(0, completion), index);
    }

    /// The next completion: identifier, dword 0, status.
    #[inline(never)]
    fn take<P: Platform>(
        &mut self,
        platform: &P,
        caps: &Capabilities,
    ) -> Option<(u16, u32, StatusField)> {
        self.completion.peek(platform)?;
        let dword = self.completion.specific(platform);
        let cqe3 = self.completion.take(platform)?;
        let head = self.completion.head();
        self.ring(platform, caps, true, head);
        Some((cqe3.cid(), dword, cqe3.status()))
    }

    #[inline(never)]
    fn note_event(&mut self, id: u16, dword: u32, status: StatusField) {
        if !(EVENT_IDS..EVENT_IDS + EVENT_REQUESTS).contains(&id) || !status.is_success() {
            return;
        }
        self.events_to_arm |= 1 << (id - EVENT_IDS);
        match self.events.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(DriveEvent::from_dword(dword)),
            None => self.events_lost += 1,
        }
    }

    /// Sends the first event requests: as many as the controller takes, at most two.
    pub(crate) fn arm_events<P: Platform>(
        &mut self,
        platform: &P,
        caps: &Capabilities,
        limit: u16,
    ) {
        for index in 0..limit.min(EVENT_REQUESTS) {
            self.arm_event(platform, caps, index);
        }
    }

    fn arm_event<P: Platform>(&mut self, platform: &P, caps: &Capabilities, index: u16) {
        let command = Command {
            opcode: admin::ASYNC_EVENT_REQUEST,
            ..Command::default()
        };
        self.submit(platform, caps, &command, EVENT_IDS + index);
    }

    /// The oldest event not yet taken; sends a new request for each event that arrived.
    pub(crate) fn next_event<P: Platform>(
        &mut self,
        platform: &P,
        caps: &Capabilities,
    ) -> Option<DriveEvent> {
        // At most one ring's worth: the controller cannot keep this loop running.
        for _ in 0..ADMIN_ENTRIES {
            match self.take(platform, caps) {
                Some((id, dword, status)) => self.note_event(id, dword, status),
                None => break,
            }
        }
        let to_arm = core::mem::take(&mut self.events_to_arm);
        for index in 0..EVENT_REQUESTS {
            if to_arm & 1 << index != 0 {
                self.arm_event(platform, caps, index);
            }
        }
        let event = self.events.first_mut()?.take();
        self.events.rotate_left(1);
        event
    }
}

const _: () = assert!(ADMIN_ENTRIES as usize * SUBMISSION_ENTRY_BYTES <= 4096);
const _: () = assert!(ADMIN_ENTRIES as usize * COMPLETION_ENTRY_BYTES <= 4096);
