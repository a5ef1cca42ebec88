// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recovery: abort, then delete the queue, then reset the controller, then give it up.
//!
//! A queue pair calls these from its slow path, when a command is overdue. Each step is bounded by
//! the admin time-out or CAP.TO, so that whatever the hardware does, each outstanding command is
//! reported within a time that can be computed: see [`worst_case_us`](Controller::worst_case_us).

use crate::admin::Admin;
use crate::command::{Command, admin};
use crate::controller::Controller;
use crate::deadline::Deadline;
use crate::doorbell::Doorbell;
use crate::error::Error;
use crate::memory::Part;
use crate::platform::Platform;
use crate::quirks::{Quirks, READY_DELAY_US};
use crate::registers::ControllerStatus;
use crate::service::State;
use crate::status::StatusField;

/// The bus addresses of an I/O queue pair's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueMemory {
    pub(crate) submission: Part,
    pub(crate) completion: Part,
    pub(crate) entries: u32,
}

/// The doorbells of a queue pair that the controller knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attached {
    pub(crate) submission: Doorbell,
    pub(crate) completion: Doorbell,
    pub(crate) epoch: u32,
}

/// A queue pair's parameters for the controller, and whether the controller still knows it.
#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) state: State,
    pub(crate) attached: Attached,
    pub(crate) memory: QueueMemory,
    pub(crate) vector: Option<u16>,
    /// The queue identifier (QID) of both queues.
    pub(crate) id: u16,
    pub(crate) deleted: bool,
}

impl Registration {
    /// What [`Controller::attach`] needs to create the queues again.
    pub(crate) fn wanted(&self) -> (u16, QueueMemory, Option<u16>) {
        (self.id, self.memory, self.vector)
    }

    /// Records that the controller has no such queue. An open gate's epoch is even, so an odd one
    /// after `epoch` makes the queue a stale one.
    pub(crate) fn detach(&mut self, epoch: u32) {
        self.attached.epoch = epoch.wrapping_add(1) | 1;
    }
}

impl<P: Platform> Controller<P> {
    /// The longest that recovery may delay a poll, in microseconds, without a command's time-out
    /// and grace.
    pub fn worst_case_us(&self) -> u64 {
        let ready_us = u64::from(self.capabilities.ready_timeout_ms) * 1000;
        // Abort, two deletions; a reset: disable (waits for RDY twice), enable, five commands;
        // two creations; and another reset when these fail.
        let delay_us = if self.quirks().has(Quirks::READY_DELAY) {
            READY_DELAY_US
        } else {
            0
        };
        let reset_us = 3 * ready_us + delay_us + 6 * self.options.admin_timeout_us;
        3 * self.options.admin_timeout_us + 2 * reset_us + 4 * self.options.admin_timeout_us
    }

    /// Creates queue pair `id`, whose rings are fresh, on the controller. Returns its doorbells and
    /// the epoch in which they are valid.
    #[inline(never)]
    pub(crate) fn attach(
        &self,
        admin: &mut Admin,
        id: u16,
        memory: &QueueMemory,
        vector: Option<u16>,
    ) -> Result<Attached, Error> {
        let submission = self.doorbell(admin, id, false);
        let completion = self.doorbell(admin, id, true);
        submission.reset();
        completion.reset();
        match self.create_queue(admin, id, memory, vector) {
            Ok(()) => Ok(Attached {
                submission,
                completion,
                epoch: self.gate.epoch(),
            }),
            Err(error @ Error::Status { .. }) => Err(error),
            // A queue is half created, or a command may still be executed: start from a reset.
            Err(error) => {
                self.reset(admin)?;
                Err(error)
            }
        }
    }

    /// Creates the I/O completion queue and submission queue `id`.
    fn create_queue(
        &self,
        admin: &mut Admin,
        id: u16,
        memory: &QueueMemory,
        vector: Option<u16>,
    ) -> Result<(), Error> {
        let size = u32::from(id) | (memory.entries - 1) << 16;
        // Physically contiguous; interrupts enabled if there is a vector to wait for.
        let interrupts = vector.map_or(0, |vector| u32::from(vector) << 16 | 1 << 1);
        let create_completion = Command {
            opcode: admin::CREATE_COMPLETION_QUEUE,
            prp1: memory.completion.bus,
            dwords: [size, 1 | interrupts, 0, 0],
            ..Command::default()
        };
        self.setup().execute(admin, &create_completion)?;
        // QPRIO: 10b is medium.
        let priority = u32::from(self.quirks().has(Quirks::MEDIUM_PRIORITY)) << 2;
        let create_submission = Command {
            opcode: admin::CREATE_SUBMISSION_QUEUE,
            prp1: memory.submission.bus,
            dwords: [size, 1 | priority | u32::from(id) << 16, 0, 0],
            ..Command::default()
        };
        let created = self.setup().execute(admin, &create_submission);
        if let Err(Error::Status { .. }) = created {
            self.delete(admin, admin::DELETE_COMPLETION_QUEUE, id)?;
        }
        created.map(|_| ())
    }

    /// Deletes submission queue `id`: when this succeeds, none of its commands touches memory any
    /// more, and those that finished have their completions in the completion queue.
    pub(crate) fn delete_submission_queue(&self, admin: &mut Admin, id: u16) -> Result<(), Error> {
        self.delete(admin, admin::DELETE_SUBMISSION_QUEUE, id)
    }

    /// Deletes completion queue `id`, after its submission queue.
    pub(crate) fn delete_completion_queue(&self, admin: &mut Admin, id: u16) -> Result<(), Error> {
        self.delete(admin, admin::DELETE_COMPLETION_QUEUE, id)
    }

    fn delete(&self, admin: &mut Admin, opcode: u8, id: u16) -> Result<(), Error> {
        let command = Command {
            opcode,
            dwords: [u32::from(id), 0, 0, 0],
            ..Command::default()
        };
        match self.setup().execute(admin, &command) {
            // A queue that does not exist is as good as deleted.
            Err(Error::Status { status, .. }) if status.code() == StatusField::INVALID_QUEUE => {
                Ok(())
            }
            result => result.map(|_| ()),
        }
    }

    /// Asks for command `cid` of queue `id` to be aborted. Success means only that the controller
    /// answered: the command itself may complete, aborted or not, or never.
    pub(crate) fn abort(&self, admin: &mut Admin, id: u16, cid: u16) -> Result<(), Error> {
        let command = Command {
            opcode: admin::ABORT,
            dwords: [u32::from(id) | u32::from(cid) << 16, 0, 0, 0],
            ..Command::default()
        };
        match self.setup().execute(admin, &command) {
            // Abort Command Limit Exceeded, for example: the next step ends the command.
            Err(Error::Status { .. }) => Ok(()),
            result => result.map(|_| ()),
        }
    }

    /// Resets the controller. Doorbells are locked out from before it is disabled until it takes
    /// commands again; each queue then reports what it had outstanding and creates itself again. A
    /// controller that cannot be reset is cut off from memory and given up.
    pub(crate) fn reset(&self, admin: &mut Admin) -> Result<(), Error> {
        if self.gate.is_dead() {
            return Err(Error::Gone);
        }
        self.gate.close();
        self.wait_until_quiet();
        let setup = self.setup();
        match setup.disable().and_then(|()| setup.bring_up(admin)) {
            Ok(_) => {
                self.gate.open();
                Ok(())
            }
            Err(_) => {
                self.give_up();
                Err(Error::Gone)
            }
        }
    }

    /// Waits, once the gate is closed, until no thread is ringing a doorbell.
    pub(crate) fn wait_until_quiet(&self) {
        // A thread between its check of the epoch and its doorbell needs a few more instructions,
        // unless it was preempted there.
        let deadline = Deadline::after_us(&self.platform, self.options.admin_timeout_us);
        while !self.gate.is_quiet() && !deadline.is_over(&self.platform) {
            self.platform.relax();
        }
    }

    /// Whether the machine wants the function back and the controller has now been given up. While
    /// another thread is using the admin queue it is not: the next check tries again.
    pub(crate) fn heed_recall(&self) -> bool {
        let let_go = || {
            self.gate.close();
            self.wait_until_quiet();
            self.halt();
        };
        self.platform.is_recalled() && self.admin.with(|_| let_go()).is_some()
    }

    /// Cuts the controller off from memory, for good. After this buffers may be given back.
    pub(crate) fn give_up(&self) {
        if !self.gate.is_dead() {
            let _ = self.setup().disable();
            self.platform.isolate();
            self.gate.die();
        }
    }

    /// Whether the device has left the bus or stopped itself: only a reset can help then.
    pub(crate) fn is_lost(&self) -> bool {
        let status = ControllerStatus::read(&self.platform);
        status.is_gone() || status.is_fatal() || !status.is_ready()
    }
}
