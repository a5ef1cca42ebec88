// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Doorbells, rung through registers or left in shadow buffers (NVMe base specification 1.4,
//! "Submission Queue y Tail Doorbell" and "Updating Controller Doorbell Registers using a Shadow
//! Doorbell Buffer").

use std::sync::atomic::{Ordering, fence};

use crate::controller::Controller;
use crate::logs::AsyncEvent;
use crate::registers::DOORBELLS;
use crate::violation::{Access, Violation};

impl Controller {
    fn doorbell_stride(&self) -> usize {
        4 << (self.cap >> 32 & 15)
    }

    pub(crate) fn doorbell(&mut self, offset: usize, value: u32) {
        let place = offset - DOORBELLS;
        let index = place / self.doorbell_stride();
        let (queue, completion) = (index / 2, index % 2 == 1);
        if completion {
            self.statistics.completion_doorbells += 1;
        } else {
            self.statistics.submission_doorbells += 1;
        }
        if self.is_dead() {
            return;
        }
        if !self.is_running() {
            self.violations
                .record(Violation::DoorbellNotReady { offset });
            return;
        }
        let exists = if completion {
            self.completion.get(queue).is_some_and(Option::is_some)
        } else {
            self.submission.get(queue).is_some_and(Option::is_some)
        };
        if !exists || place % self.doorbell_stride() != 0 {
            self.violations
                .record(Violation::DoorbellUnknown { offset });
            self.event(AsyncEvent::INVALID_DOORBELL);
            return;
        }
        let queue = queue as u16;
        if !self.has_shadow(queue) {
            self.move_doorbell(queue, completion, value);
        }
        if completion {
            self.drain(queue);
        } else {
            self.run_queue(queue);
        }
    }

    fn move_doorbell(&mut self, queue: u16, completion: bool, value: u32) {
        let index = usize::from(queue);
        let moved = if completion {
            self.completion[index]
                .as_mut()
                .and_then(|q| q.set_head(value))
        } else {
            self.submission[index]
                .as_mut()
                .and_then(|q| q.set_tail(value))
        };
        if moved.is_none() {
            self.violations.record(Violation::DoorbellValue {
                queue,
                completion,
                value,
            });
            self.event(AsyncEvent::INVALID_DOORBELL_VALUE);
        }
    }

    /// Whether a queue's doorbells are in the shadow buffer: I/O queues, as far as a page goes.
    fn has_shadow(&self, queue: u16) -> bool {
        let end = (usize::from(queue) + 1) * 2 * self.doorbell_stride();
        self.shadow.is_some() && queue != 0 && end <= 1 << self.page_shift()
    }

    fn shadow_places(&self, queue: u16, completion: bool) -> Option<(u64, u64)> {
        let (doorbells, events) = self.shadow.filter(|_| self.has_shadow(queue))?;
        let index = 2 * usize::from(queue) + usize::from(completion);
        let offset = (index * self.doorbell_stride()) as u64;
        Some((doorbells + offset, events + offset))
    }

    /// Reads the doorbell value that the host left in memory, if it has changed.
    pub(crate) fn look_at_shadow(&mut self, queue: u16, completion: bool) {
        let Some((place, _)) = self.shadow_places(queue, completion) else {
            return;
        };
        let Some([value]) = self.bus.load(place, Access::Shadow) else {
            return;
        };
        let index = usize::from(queue);
        let known = if completion {
            self.completion[index].as_ref().map(|q| q.head)
        } else {
            self.submission[index].as_ref().map(|q| q.tail)
        };
        if known.is_some_and(|known| known != value) {
            self.move_doorbell(queue, completion, value);
        }
    }

    /// Asks for a register write once the host moves the doorbell past its known value, and checks
    /// again: the host may have moved it before it saw the request.
    ///
    /// The order (event index, fence, shadow) pairs with the host's (shadow, fence, event index).
    pub(crate) fn ask_for_doorbell(&mut self, queue: u16, completion: bool) {
        let Some((_, event)) = self.shadow_places(queue, completion) else {
            return;
        };
        let index = usize::from(queue);
        let known = if completion {
            self.completion[index].as_ref().map(|q| q.head)
        } else {
            self.submission[index].as_ref().map(|q| q.tail)
        };
        if let Some(known) = known {
            let _ = self.bus.store(event, [known], Access::Shadow);
            fence(Ordering::SeqCst);
            self.look_at_shadow(queue, completion);
        }
    }

    /// Starts using the shadow buffers, from the queues' current doorbell values.
    pub(crate) fn set_shadow(&mut self, doorbells: u64, events: u64) {
        self.shadow = Some((doorbells, events));
        for queue in 1..self.submission.len() as u16 {
            let index = usize::from(queue);
            let places = [
                (false, self.submission[index].as_ref().map(|q| q.tail)),
                (true, self.completion[index].as_ref().map(|q| q.head)),
            ];
            for (completion, known) in places {
                let places = self.shadow_places(queue, completion);
                if let (Some(known), Some((place, event))) = (known, places) {
                    let _ = self.bus.store(place, [known], Access::Shadow);
                    let _ = self.bus.store(event, [known], Access::Shadow);
                }
            }
        }
    }
}
