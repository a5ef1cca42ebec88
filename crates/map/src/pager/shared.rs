// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What all lanes of a map have: its memory, and what is decided by one of them at a time.

use super::{Ahead, Contents, Core, Counters, HOLD_US, Limits, Range, Reports, Shared};
use crate::pages::{Pages, State};
use crate::space::{Fault, Space};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A duration in whole microseconds.
pub fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl<S: Space> Shared<S> {
    /// A map of `range` that has passed [`check`](super::check).
    pub fn new(space: S, range: Range, limits: Limits, reports: Arc<Reports>) -> Self {
        let contents = (!space.tells_stores()).then(Contents::default);
        let core = Core {
            pages: Pages::new(limits.resident_pages, HOLD_US),
            waiting: VecDeque::new(),
            lent: 0,
            ahead: Ahead::default(),
            contents,
            sync: None,
            synced: None,
            flushes: 0,
            counters: Counters::default(),
            has_ended: false,
            has_called: false,
        };
        Self {
            space,
            range,
            limits,
            core: Mutex::new(core),
            reports,
            started: Instant::now(),
        }
    }

    /// The memory.
    pub const fn space(&self) -> &S {
        &self.space
    }

    /// Microseconds since the map was made.
    pub fn now_us(&self) -> u64 {
        micros(self.started.elapsed())
    }

    pub(super) fn core(&self) -> MutexGuard<'_, Core> {
        // A panic is an error of the device's or ours; each page still has one of its states.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the last fault on this page was served, and then whether its access is possible.
    pub fn settled(&self, page: u64) -> Option<bool> {
        let core = self.core();
        let waits = core.waiting.iter().any(|(fault, _)| fault.page == page);
        match core.pages.state(page) {
            _ if core.has_ended => Some(false),
            _ if waits => None,
            Some(State::Reading { .. }) => None,
            state => Some(state != Some(State::Poisoned)),
        }
    }

    /// Whether the map has ended.
    pub fn has_ended(&self) -> bool {
        self.core().has_ended
    }

    /// A lane that was called has woken up.
    pub fn answer(&self) {
        self.core().has_called = false;
    }

    /// Whether there may be a result that a user waits for.
    pub fn has_news(&self) -> bool {
        let core = self.core();
        core.sync.is_some() || core.synced.is_some() || core.ahead.has_pins()
    }

    /// Ends the map: each access is an error from now on.
    ///
    /// # Errors
    /// A system call failed.
    pub fn close(&self) -> io::Result<()> {
        self.core().has_ended = true;
        self.space.close()
    }

    /// Gives a page that was read its content, if its threads wait for it: the longest part of a
    /// fault, which several lanes do at a time. Stores to it fault; whether they must is decided
    /// later.
    pub(super) fn install(&self, page: u64, data: &[u8]) -> Option<Early> {
        let protected = match self.core().pages.state(page) {
            Some(State::Reading { stored, .. }) => !stored,
            _ => return None,
        };
        let installed = if data.len() < self.limits.page_bytes {
            // The rest of the last page.
            let mut padded = data.to_vec();
            padded.resize(self.limits.page_bytes, 0);
            self.space.install(page, &padded, protected)
        } else {
            self.space.install(page, data, protected)
        };
        Some(Early {
            protected,
            installed,
        })
    }
}

/// What was done with a page before its state says so.
pub(super) struct Early {
    pub(super) protected: bool,
    pub(super) installed: io::Result<()>,
}

impl Core {
    pub(super) fn report(&mut self, fault: Fault, now_us: u64) {
        self.counters.faults += 1;
        // The thread's next access is no fault, so it may be a store.
        let store = fault.store || self.contents.is_some();
        self.waiting.push_back((Fault { store, ..fault }, now_us));
    }
}
