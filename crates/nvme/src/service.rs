// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A queue pair's slow path: deadlines, recovery, and reporting every outstanding command.

use core::ops::Deref;

use block::{Buffer, Completion, Error, Tag};

use crate::controller::Controller;
use crate::deadline::Deadline;
use crate::error::Error as SetupError;
use crate::platform::Platform;
use crate::queue::QueuePair;
use crate::quirks::Quirks;
use crate::status::{Cqe3, StatusField};

/// The state of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Requests are accepted.
    Ready,
    /// The controller has forgotten the queue's commands: those that did not finish are being
    /// reported. Then the queue is created again.
    Draining,
    /// The controller was given up: every request is reported as [`Gone`](block::Error::Gone).
    Dead,
}

/// Counters of a queue pair since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Writes to the submission doorbell's register.
    pub submission_doorbells: u64,
    /// Writes to the completion doorbell's register.
    pub completion_doorbells: u64,
    /// Completions that named no outstanding command.
    pub stray_completions: u64,
    /// Completions that were found without their interrupt.
    pub lost_interrupts: u64,
    /// Commands that missed their deadline.
    pub timeouts: u64,
    /// Aborts sent.
    pub aborts: u64,
    /// Times that the queue was deleted to end a command.
    pub queue_deletions: u64,
    /// Controller resets that this queue asked for.
    pub resets: u64,
}

impl<P: Platform, C: Deref<Target = Controller<P>>, const DEPTH: usize> QueuePair<P, C, DEPTH> {
    /// Runs every few empty polls: starts what was submitted and not kicked, checks whether the
    /// controller was reset, and checks the next slot's deadline.
    #[cold]
    #[inline(never)]
    pub(crate) fn service(&mut self) -> Option<Completion> {
        self.watch.put_off();
        match self.state() {
            State::Ready => {
                if self.follow_reset() {
                    return self.drain();
                }
                if self.controller.heed_recall() {
                    self.set_state(State::Dead);
                    return self.drain();
                }
                block::Device::kick(self);
                let index = self.watch.next_slot();
                self.check_deadline(index);
                if self.state() == State::Ready {
                    return None;
                }
                self.drain()
            }
            State::Draining | State::Dead => self.drain(),
        }
    }

    /// Checks every slot's deadline: after a wait, when polls are rare.
    pub(crate) fn check_deadlines(&mut self) {
        for index in 0..DEPTH {
            if self.state() == State::Ready {
                self.check_deadline(index);
            }
        }
        // Whatever was found or decided, the next poll acts on it.
        self.watch.hasten();
    }

    /// Notices that the controller was reset or given up. Returns whether draining has begun.
    fn follow_reset(&mut self) -> bool {
        let epoch = self.controller.gate.epoch();
        if epoch == self.registration.attached.epoch {
            return false;
        }
        if self.controller.gate.is_dead() {
            self.set_state(State::Dead);
            return true;
        }
        if epoch & 1 != 0 {
            // Another thread is resetting: the controller may still write. Check again soon.
            self.watch.hasten();
            return false;
        }
        self.set_state(State::Draining);
        true
    }

    fn check_deadline(&mut self, index: usize) {
        let Some((cid, submitted)) = self.slots.get(index) else {
            return;
        };
        let now = self.controller.platform.ticks();
        if self.watch.is_past(submitted, now) {
            self.escalate(index, cid);
        }
    }

    /// A command is overdue: abort it; if that was tried, delete the queue; if that fails, reset
    /// the controller. When another thread is using the admin queue, the next check tries again.
    fn escalate(&mut self, index: usize, cid: u16) {
        let aborted = self.watch.is_overdue(cid);
        let id = self.registration.id;
        let controller = &*self.controller;
        let outcome = controller.admin.with(|admin| {
            if controller.is_lost() || controller.quirks().has(Quirks::NO_ABORT) {
                return controller.reset(admin).map(|()| Recovery::Reset);
            }
            let tried = if aborted {
                let deleted = controller.delete_submission_queue(admin, id);
                deleted.map(|()| Recovery::QueueDeleted)
            } else {
                let answered = controller.abort(admin, id, cid);
                answered.map(|()| Recovery::AbortSent)
            };
            match tried {
                Ok(ended) => Ok(ended),
                Err(_) => controller.reset(admin).map(|()| Recovery::Reset),
            }
        });
        match outcome {
            // Busy: another thread recovers; it may be resetting for us too.
            None => return,
            Some(Ok(Recovery::AbortSent)) => {
                self.statistics.aborts += 1;
                let grace_us = self.controller.options.abort_grace_us;
                let platform = &self.controller.platform;
                // Move the submission time so that exactly the grace period is left.
                let grace = platform.ticks_from_us(grace_us);
                let submitted = self.watch.submitted_for_grace(grace, platform.ticks());
                self.slots.set_submitted(index, submitted);
            }
            Some(Ok(Recovery::QueueDeleted)) => {
                self.statistics.queue_deletions += 1;
                self.set_state(State::Draining);
            }
            Some(Ok(Recovery::Reset)) => {
                self.statistics.resets += 1;
                self.set_state(State::Draining);
            }
            Some(Err(_)) => self.set_state(State::Dead),
        }
        if !aborted {
            self.statistics.timeouts += 1;
            self.watch.mark_overdue(index, cid);
        }
    }

    /// Reports what the controller finished before it forgot the queue, then the rest, one per
    /// poll; then creates the queue again.
    fn drain(&mut self) -> Option<Completion> {
        self.watch.hasten();
        let entries = self.rings.completion.mask() + 1;
        if self.state() == State::Draining {
            for _ in 0..entries {
                let Some(cqe3) = self.rings.completion.take(&self.controller.platform) else {
                    break;
                };
                if let Some(completion) = self.complete(cqe3) {
                    return Some(completion);
                }
            }
        }
        for index in 0..DEPTH {
            let Some((cid, _)) = self.slots.get(index) else {
                continue;
            };
            let error = match self.state() {
                State::Dead => Error::Gone,
                _ if self.watch.is_overdue(cid) => Error::TimedOut,
                _ => Error::Aborted,
            };
            let (tag, buffer) = self.slots.end(cid)?;
            self.rings.ended_without_entry();
            let result = Err(error);
            return Some(Completion {
                tag,
                buffer,
                result,
            });
        }
        if self.state() == State::Draining {
            self.recreate();
        } else {
            self.watch.put_off();
        }
        None
    }

    /// Nothing is outstanding: creates the queue on the controller again.
    #[inline(never)]
    fn recreate(&mut self) {
        let controller = &*self.controller;
        let (id, memory, vector) = self.registration.wanted();
        let stale = controller.gate.epoch() != self.registration.attached.epoch;
        let deleted = controller.admin.with(|admin| {
            if controller.gate.is_dead() {
                return Err(SetupError::Gone);
            }
            if stale {
                return Ok(());
            }
            controller
                .delete_completion_queue(admin, id)
                .or_else(|_| controller.reset(admin))
        });
        match deleted {
            None => return,
            Some(Err(_)) => {
                self.set_state(State::Dead);
                return;
            }
            Some(Ok(())) => {}
        }
        self.rings.restart(&self.controller.platform, &memory);
        let controller = &*self.controller;
        let attached = controller.admin.with(|admin| {
            for _ in 0..2 {
                match controller.attach(admin, id, &memory, vector) {
                    Ok(attached) => return Ok(attached),
                    Err(SetupError::Gone) => break,
                    // Refused: a controller in that state needs a reset.
                    Err(SetupError::Status { .. }) => controller.reset(admin)?,
                    Err(_) => {}
                }
            }
            controller.give_up();
            Err(SetupError::Gone)
        });
        match attached {
            // The rings are fresh and the controller has no such queue: mark the queue as stale and
            // retry.
            None => self.registration.detach(self.controller.gate.epoch()),
            Some(Ok(attached)) => {
                self.registration.attached = attached;
                self.watch.forget_overdue();
                self.set_state(State::Ready);
                self.watch.put_off();
            }
            Some(Err(_)) => self.set_state(State::Dead),
        }
    }

    /// Completes a command whose status is not success.
    #[cold]
    #[inline(never)]
    pub(crate) fn failed(&mut self, tag: Tag, buffer: Option<Buffer>, cqe3: Cqe3) {
        let result = Err(self.classify(cqe3));
        self.error_completion = Some(Completion {
            tag,
            buffer,
            result,
        });
    }

    /// The error for a status other than success.
    fn classify(&self, cqe3: Cqe3) -> Error {
        match cqe3.status().code() {
            StatusField::ABORT_REQUESTED | StatusField::ABORTED_QUEUE_DELETED => {
                if self.watch.is_overdue(cqe3.cid()) {
                    Error::TimedOut
                } else {
                    Error::Aborted
                }
            }
            _ => Error::Nvme {
                status: cqe3.status().0,
            },
        }
    }

    /// Why a request cannot be accepted now.
    #[cold]
    #[inline(never)]
    pub(crate) fn refusal(&self) -> Error {
        if self.state() == State::Dead {
            Error::Gone
        } else {
            Error::QueueFull
        }
    }

    /// Makes the controller forget the queue. If it will not, it is reset; if that fails, given up.
    pub(crate) fn delete(&mut self) {
        let controller = &*self.controller;
        let id = self.registration.id;
        if core::mem::replace(&mut self.registration.deleted, true) {
            return;
        }
        let stale = controller.gate.epoch() != self.registration.attached.epoch;
        // A thread that uses the admin queue finishes within its own bounds; wait that long.
        let deadline = Deadline::after_us(&controller.platform, controller.worst_case_us());
        loop {
            let done = controller.admin.with(|admin| {
                if stale || controller.gate.is_dead() {
                    return;
                }
                let deleted = controller
                    .delete_submission_queue(admin, id)
                    .and_then(|()| controller.delete_completion_queue(admin, id));
                if deleted.is_err() {
                    let _ = controller.reset(admin);
                }
            });
            if done.is_some() {
                break;
            }
            if deadline.is_over(&controller.platform) {
                controller.give_up();
                break;
            }
            controller.platform.relax();
        }
        if let Some(vector) = self.registration.vector {
            let _ = controller.platform.set_interrupt(vector, false);
        }
        controller.gate.release(id);
    }
}

/// How far recovery got.
enum Recovery {
    AbortSent,
    QueueDeleted,
    Reset,
}
