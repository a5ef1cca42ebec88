// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Doorbells: locked out during a reset, and shadowed in memory where the controller reads them
//! there (NVMe base specification, "Doorbell Buffer Config command").
//!
//! A reset must know that no thread is about to write a doorbell. Each queue raises its flag, then
//! checks the epoch, then rings; the reset closes the epoch, then waits until no flag is raised.
//! The fences make sure that one of the two sees the other: both are threads of this system. What
//! the controller sees is ordered by the platform ([`block::barrier`]).

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

use crate::memory::Word;
use crate::platform::Platform;

/// The most I/O queue pairs that are requested.
pub const MAX_QUEUES: usize = 64;
const FLAGS: usize = (MAX_QUEUES + 1).next_power_of_two();

/// Which queues may ring, and whether a reset is in progress.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Even: open. Odd: closed, a reset is in progress. [`Gate::DEAD`]: closed for good.
    epoch: AtomicU32,
    /// Indexed by queue, with room for every identifier masked.
    ringing: [AtomicBool; FLAGS],
    claimed: [AtomicBool; MAX_QUEUES + 1],
}

impl Gate {
    pub(crate) const DEAD: u32 = u32::MAX;

    pub(crate) const fn new() -> Self {
        Self {
            epoch: AtomicU32::new(0),
            ringing: [const { AtomicBool::new(false) }; FLAGS],
            claimed: [const { AtomicBool::new(false) }; MAX_QUEUES + 1],
        }
    }

    #[inline(always)]
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Acquire)
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.epoch() == Self::DEAD
    }

    /// Shuts the doorbells out. Wait with [`is_quiet`](Self::is_quiet) for threads that are ringing
    /// now.
    pub(crate) fn close(&self) {
        let epoch = self.epoch();
        if epoch & 1 == 0 {
            self.epoch.store(epoch.wrapping_add(1), Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
    }

    /// Whether no thread is between its check of the epoch and its doorbell.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.ringing.iter().any(|flag| flag.load(Ordering::SeqCst))
    }

    /// Opens a new epoch: queues of earlier ones are no longer known to the controller.
    pub(crate) fn open(&self) {
        // DEAD is odd and its successor 0, so skip it when the count wraps.
        let next = self.epoch().wrapping_add(1) & !1;
        self.epoch.store(next, Ordering::SeqCst);
    }

    pub(crate) fn die(&self) {
        self.epoch.store(Self::DEAD, Ordering::SeqCst);
    }

    /// A queue identifier that is free, 1 to `limit`.
    pub(crate) fn claim(&self, limit: u16) -> Option<u16> {
        let free = |flag: &AtomicBool| !flag.swap(true, Ordering::AcqRel);
        let queues = self.claimed.iter().enumerate().skip(1);
        let mut queues = queues.take(usize::from(limit));
        queues.find(|(_, flag)| free(flag)).map(|(id, _)| id as u16)
    }

    pub(crate) fn release(&self, queue: u16) {
        if let Some(flag) = self.claimed.get(usize::from(queue)) {
            flag.store(false, Ordering::Release);
        }
    }

    /// Runs `ring` if `epoch` is still open; a reset waits until it returns.
    #[inline(always)]
    pub(crate) fn ring(&self, queue: u16, epoch: u32, ring: impl FnOnce()) -> bool {
        let Some(flag) = self.ringing.get(usize::from(queue) & (FLAGS - 1)) else {
            return false;
        };
        flag.store(true, Ordering::Relaxed);
        // With the one in `close`: this flag is seen there, or the new epoch here.
        fence(Ordering::SeqCst);
        let open = self.epoch.load(Ordering::Relaxed) == epoch;
        if open {
            ring();
        }
        flag.store(false, Ordering::Release);
        open
    }
}

/// One doorbell: its register, and its shadow if the controller keeps one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doorbell {
    pub(crate) register: usize,
    pub(crate) shadow: Option<Shadow>,
}

/// A doorbell's words in the two shadow pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shadow {
    pub(crate) doorbell: Word,
    pub(crate) event: Word,
}

impl Doorbell {
    /// Publishes the new index to the controller; returns whether the register had to be written.
    #[inline(always)]
    pub(crate) fn write<P: Platform>(&self, platform: &P, old: u32, new: u32, mask: u32) -> bool {
        if let Some(shadow) = &self.shadow {
            platform.before_index();
            shadow.doorbell.write(new);
            // The controller may be about to sleep: it writes its event index, then reads the
            // doorbell. This writes the doorbell, then reads the event index.
            platform.store_then_load();
            let event = shadow.event.read();
            if !passes(event, old, new, mask) {
                return false;
            }
        }
        platform.write32(self.register, new);
        true
    }

    /// Clears what an earlier queue with this number left in the shadow pages.
    pub(crate) fn reset(&self) {
        if let Some(shadow) = &self.shadow {
            shadow.doorbell.write(0);
            shadow.event.write(0);
        }
    }
}

/// Whether an index that goes from `old` to `new` in a ring of `mask + 1` entries passes `event`.
#[inline(always)]
const fn passes(event: u32, old: u32, new: u32, mask: u32) -> bool {
    (new.wrapping_sub(event).wrapping_sub(1) & mask) < (new.wrapping_sub(old) & mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_index_between_old_and_new_is_passed() {
        assert!(passes(5, 5, 6, 7));
        assert!(passes(5, 4, 7, 7));
        assert!(!passes(7, 4, 7, 7));
        assert!(!passes(3, 4, 7, 7));
        assert!(passes(7, 6, 1, 7));
        assert!(passes(7, 7, 0, 7));
        assert!(!passes(1, 6, 1, 7));
    }

    #[test]
    fn a_closed_gate_lets_no_one_ring() {
        let gate = Gate::new();
        let epoch = gate.epoch();
        assert!(gate.ring(1, epoch, || ()));
        gate.close();
        assert!(gate.is_quiet());
        assert!(!gate.ring(1, epoch, || panic!("rang during a reset")));
        gate.open();
        assert!(!gate.ring(1, epoch, || panic!("rang with a stale queue")));
        assert!(gate.ring(1, gate.epoch(), || ()));
        gate.die();
        assert!(gate.is_dead() && !gate.ring(1, 2, || ()));
    }

    #[test]
    fn queue_numbers_are_claimed_once_and_within_the_limit() {
        let gate = Gate::new();
        assert_eq!(
            (gate.claim(2), gate.claim(2), gate.claim(2)),
            (Some(1), Some(2), None)
        );
        gate.release(1);
        assert_eq!(gate.claim(2), Some(1));
    }
}
