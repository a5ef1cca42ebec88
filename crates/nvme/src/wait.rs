// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waiting for completions: by polling, by interrupt, or by polling first.

use core::ops::Deref;

use crate::controller::Controller;
use crate::error::Error;
use crate::platform::Platform;
use crate::queue::QueuePair;

/// How [`wait`](block::Device::wait) waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionMode {
    /// It returns immediately: the caller polls.
    Poll,
    /// It sleeps until the queue's interrupt.
    Interrupt,
    /// It polls this many times, then sleeps until the interrupt.
    Hybrid {
        /// Polls before sleeping.
        looks: u32,
    },
}

/// The longest sleep before the ring is polled again: the cost of a lost interrupt.
const LONGEST_SLEEP_US: u32 = 20_000;

impl<P: Platform, C: Deref<Target = Controller<P>>, const DEPTH: usize> QueuePair<P, C, DEPTH> {
    /// Changes how the queue waits, at any time. In [`CompletionMode::Poll`] the vector is off.
    ///
    /// # Errors
    /// [`Error::NoInterrupt`] if there is no vector or the platform refuses it; the mode is then
    /// unchanged.
    pub fn set_completion_mode(&mut self, mode: CompletionMode) -> Result<(), Error> {
        let wanted = mode != CompletionMode::Poll;
        let enabled = self.mode != CompletionMode::Poll;
        match self.registration.vector {
            None if wanted => return Err(Error::NoInterrupt),
            Some(vector) if wanted != enabled => {
                let set = self.controller.platform.set_interrupt(vector, wanted);
                set.map_err(|_| Error::NoInterrupt)?;
            }
            _ => {}
        }
        self.mode = mode;
        Ok(())
    }

    pub(crate) fn wait_for_completion(&mut self, timeout_us: u32) {
        let looks = match self.mode {
            CompletionMode::Poll => {
                core::hint::spin_loop();
                return;
            }
            CompletionMode::Interrupt => 1,
            CompletionMode::Hybrid { looks } => looks.max(1),
        };
        for _ in 0..looks {
            if self
                .rings
                .completion
                .peek(&self.controller.platform)
                .is_some()
            {
                return;
            }
            core::hint::spin_loop();
        }
        block::Device::kick(self);
        if self.rings.has_unacknowledged() {
            self.acknowledge();
        }
        let Some(vector) = self.registration.vector else {
            return;
        };
        let sleep_us = timeout_us.min(LONGEST_SLEEP_US);
        let fired = self.controller.platform.wait_interrupt(vector, sleep_us);
        if self.controller.platform.is_recalled() {
            // Polls may be few: the next empty one acts on it.
            self.watch.hasten();
        }
        if !fired {
            if self
                .rings
                .completion
                .peek(&self.controller.platform)
                .is_some()
            {
                self.statistics.lost_interrupts += 1;
            } else {
                self.check_deadlines();
            }
        }
    }
}
