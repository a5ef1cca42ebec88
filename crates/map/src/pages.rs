// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The states of a map's pages, and which page makes space for another. No memory and no device is
//! touched here: each answer says what its caller does.
//!
//! ```text
//!            fault                read            store                 write
//!   absent ---------> reading ----------> clean ----------> dirty <--------------> writing
//!     ^                  |                  |                 ^    done: clean        |
//!     +-- leaving <------|------------------+                 +---- stored to --- rewritten
//!                        +-- failed --> poisoned              +---- failed ------ kept
//! ```
//!
//! Memory is taken from pages by second chance, as CLOCK does: a clean page is unmapped first, and
//! loses its memory some steps later unless a thread has touched it. The pages that are unmapped
//! are an eighth of all, so each fault has a bounded number of steps, and a page that was stored to
//! is written before. A pinned page is passed over, and one that has just come for a thread: if
//! another fault could take its memory before the thread has it, threads that touch more pages than
//! there are in memory could take them from each other for any time.
//!
//! A page that is read although no thread has touched it is absent again if that fails: nobody has
//! asked for its content, and the next access tries again.

use crate::hold::Hold;
use crate::numbers::Numbers;
use std::collections::{HashMap, HashSet, VecDeque};

/// One of this number of pages is unmapped and may lose its memory next.
const UNMAPPED_SHARE: usize = 8;
/// The most pages that are unmapped before one loses its memory.
const UNMAPPED_AT_ONCE: usize = 2;

/// The state of a page that is not absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// A read is under way.
    Reading {
        /// A thread waits for it, or it is for a pin.
        asked: bool,
        /// A thread that waits is about to store.
        stored: bool,
    },
    /// The same as on the device. Not writable; not even readable unless `mapped`.
    Clean {
        /// Threads can load from it without a fault.
        mapped: bool,
    },
    /// Stored to since it was read or written.
    Dirty,
    /// A write of its content is under way; not writable.
    Writing,
    /// The same, and stored to since the write began.
    Rewritten,
    /// Dirty, and its last write failed: only a sync tries again.
    Kept,
    /// Its memory is being taken.
    Leaving,
    /// Could not be read: an access is an error.
    Poisoned,
}

/// What a thread that touched a page needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The page's content: [`Pages::begin_read`] as soon as there is memory for it.
    Load,
    /// Nothing yet: a read is under way.
    Wait,
    /// Ask again when the page's memory was taken.
    Later,
    /// The page that is in memory, mapped again.
    Remap {
        /// Stores to it must fault.
        protected: bool,
    },
    /// The page writable.
    Unprotect,
    /// Nothing: another thread's fault has been served since.
    Wake,
    /// The error of an access that cannot be served.
    Poison,
}

/// A step towards memory for another page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Take the memory of this page, and say so ([`Pages::left`]).
    Evict(u64),
    /// Unmap this page, and ask again.
    Unmap(u64),
    /// Write this page, and ask again.
    Write(u64),
}

/// What follows a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loaded {
    /// Give the content to the threads that wait.
    Install {
        /// Stores to it must fault.
        protected: bool,
    },
    /// Give them the error.
    Poison,
    /// Nothing: nobody waits, and the page is absent.
    Forget,
}

/// All pages of a map that are not absent, by number.
#[derive(Clone, Debug)]
pub struct Pages {
    states: HashMap<u64, State, Numbers>,
    /// Pages with memory, each in one of the two: in `unmapped` those that were unmapped, even if
    /// they were touched since. A page is moved, or dropped if it has no memory, when it is met.
    mapped: VecDeque<u64>,
    unmapped: VecDeque<u64>,
    unmapped_at_once: usize,
    /// Pages that are in one of the two: once each, also if they lost their memory and have it
    /// again.
    queued: HashSet<u64, Numbers>,
    /// How often each page that keeps its memory was pinned. It leaves the two when it is met
    /// there.
    pinned: HashMap<u64, u32, Numbers>,
    /// Pages that became dirty and when, the oldest first, each once; some have been written since.
    aged: VecDeque<(u64, u64)>,
    is_aged: HashSet<u64, Numbers>,
    hold: Hold,
    now_us: u64,
    resident: usize,
    dirty: usize,
    writing: usize,
    limit: usize,
}

impl Pages {
    /// None of the pages is in memory, and at most `limit` may be at once; at least one. A page
    /// that comes for a thread keeps its memory for `hold_us`, or longer if threads ask again for
    /// pages that were taken soon after, and one that it stores to is not written before.
    pub fn new(limit: usize, hold_us: u64) -> Self {
        Self {
            states: HashMap::default(),
            mapped: VecDeque::new(),
            unmapped: VecDeque::new(),
            unmapped_at_once: 0,
            queued: HashSet::default(),
            pinned: HashMap::default(),
            aged: VecDeque::new(),
            is_aged: HashSet::default(),
            hold: Hold::new(hold_us),
            now_us: 0,
            resident: 0,
            dirty: 0,
            writing: 0,
            limit: limit.max(1),
        }
    }

    /// The state of a page; None if it is absent.
    pub fn state(&self, page: u64) -> Option<State> {
        self.states.get(&page).copied()
    }

    /// Whether a store to a page in memory must fault. A page whose write has failed is written
    /// again as it is then, so it need not, and a thread may have it writable already.
    pub fn is_protected(&self, page: u64) -> bool {
        !matches!(
            self.state(page),
            Some(State::Dirty | State::Rewritten | State::Kept)
        )
    }

    /// Whether a page keeps its memory.
    pub fn is_pinned(&self, page: u64) -> bool {
        self.pinned.contains_key(&page)
    }

    /// Number of pages with memory.
    #[cfg(test)]
    pub const fn resident(&self) -> usize {
        self.resident
    }

    /// Number of pages whose content is not on the device.
    #[cfg(test)]
    pub const fn dirty(&self) -> usize {
        self.dirty
    }

    /// Number of pages that differ from the device and whose write is not under way.
    pub const fn unwritten(&self) -> usize {
        self.dirty - self.writing
    }

    /// The most pages that may be in memory.
    pub const fn limit(&self) -> usize {
        self.limit
    }

    /// The time from which on pages come and become dirty, in microseconds; an earlier one than
    /// before is ignored.
    pub fn set_time(&mut self, now_us: u64) {
        self.now_us = self.now_us.max(now_us);
        self.hold.set_time(self.now_us);
    }

    /// For how long pages keep their memory now because they have just come; None if none does.
    pub fn holds(&self) -> Option<u64> {
        self.hold.is_any().then(|| self.hold.hold_us())
    }

    /// Pages with memory, in no order.
    pub fn resident_pages(&self) -> impl Iterator<Item = u64> {
        let has_memory = |(&page, &state): (&u64, &State)| {
            (!matches!(state, State::Poisoned | State::Leaving)).then_some(page)
        };
        self.states.iter().filter_map(has_memory)
    }

    /// Whether another page needs [`Pages::step`] first.
    pub const fn is_full(&self) -> bool {
        self.resident >= self.limit
    }

    /// Pages that differ from the device, in no order, and those that are being read for a store: a
    /// thread has its page, and may have stored, before the state says so.
    pub fn stored_pages(&self) -> impl Iterator<Item = u64> {
        let differs = |(&page, &state): (&u64, &State)| {
            let stored = is_dirty(state) || matches!(state, State::Reading { stored: true, .. });
            stored.then_some(page)
        };
        self.states.iter().filter_map(differs)
    }

    fn set(&mut self, page: u64, state: State) {
        let before = self.states.insert(page, state);
        self.dirty -= usize::from(before.is_some_and(is_dirty));
        self.dirty += usize::from(is_dirty(state));
        self.writing -= usize::from(before == Some(State::Writing));
        self.writing += usize::from(state == State::Writing);
        if state == State::Dirty && self.is_aged.insert(page) {
            self.aged.push_back((page, self.now_us));
            // Pages that were written otherwise are still in it.
            if self.aged.len() > 2 * self.limit {
                let (aged, states) = (&mut self.aged, &self.states);
                aged.retain(|(page, _)| states.get(page) == Some(&State::Dirty));
                self.is_aged = self.aged.iter().map(|&(page, _)| page).collect();
            }
        }
    }

    /// A thread touched `page` and waits; `store` if it is about to change it.
    pub fn fault(&mut self, page: u64, store: bool) -> Answer {
        let Some(state) = self.state(page) else {
            return Answer::Load;
        };
        match (state, store) {
            (State::Reading { stored, .. }, _) => {
                let (asked, stored) = (true, stored | store);
                self.set(page, State::Reading { asked, stored });
                Answer::Wait
            }
            (State::Clean { mapped: true }, false) => Answer::Wake,
            (State::Clean { mapped: true }, true) => {
                self.set(page, State::Dirty);
                Answer::Unprotect
            }
            (State::Clean { mapped: false }, _) => {
                self.hold.came(page);
                self.set(
                    page,
                    if store {
                        State::Dirty
                    } else {
                        State::Clean { mapped: true }
                    },
                );
                Answer::Remap { protected: !store }
            }
            (State::Writing, true) => {
                self.set(page, State::Rewritten);
                Answer::Unprotect
            }
            (State::Kept, true) => Answer::Unprotect,
            (State::Dirty | State::Rewritten, _) | (State::Writing | State::Kept, false) => {
                Answer::Wake
            }
            (State::Leaving, _) => Answer::Later,
            (State::Poisoned, _) => Answer::Poison,
        }
    }

    /// The thread with this number is why a read of an absent page begins.
    pub fn asked(&mut self, page: u64, thread: u64) {
        self.hold.asked(page, thread);
    }

    /// A read of an absent page begins, for a thread that loads or stores. There must be memory for
    /// it.
    pub fn begin_read(&mut self, page: u64, store: bool) {
        self.begin(page, true, store);
    }

    /// The same, although no thread has touched the page.
    pub fn begin_read_ahead(&mut self, page: u64) {
        self.begin(page, self.is_pinned(page), false);
    }

    fn begin(&mut self, page: u64, asked: bool, stored: bool) {
        debug_assert!(!self.is_full() && self.state(page).is_none());
        self.set(page, State::Reading { asked, stored });
        self.enqueue(page);
        self.resident += 1;
    }

    fn enqueue(&mut self, page: u64) {
        if self.queued.insert(page) {
            self.mapped.push_back(page);
        }
    }

    /// The read of a page has ended.
    pub fn end_read(&mut self, page: u64, succeeded: bool) -> Loaded {
        let state = self.state(page);
        debug_assert!(matches!(state, Some(State::Reading { .. })), "{state:?}");
        if succeeded && matches!(state, Some(State::Reading { asked: true, .. })) {
            self.hold.came(page);
        }
        match (state, succeeded) {
            (Some(State::Reading { stored: true, .. }), true) => {
                self.set(page, State::Dirty);
                Loaded::Install { protected: false }
            }
            (_, true) => {
                self.set(page, State::Clean { mapped: true });
                Loaded::Install { protected: true }
            }
            (Some(State::Reading { asked: false, .. }), false) => {
                self.forget(page);
                Loaded::Forget
            }
            (_, false) => {
                self.poison(page);
                Loaded::Poison
            }
        }
    }

    /// The memory of a page was taken that [`step`](Self::step) has named.
    pub fn left(&mut self, page: u64) {
        debug_assert_eq!(self.state(page), Some(State::Leaving));
        self.forget(page);
    }

    /// Number of pages that could be in memory besides those that are.
    pub const fn free(&self) -> usize {
        self.limit.saturating_sub(self.resident)
    }

    /// A page is absent from now on.
    fn forget(&mut self, page: u64) {
        self.resident -= usize::from(self.states.remove(&page).is_some());
    }

    /// The next access to a page that was just read is a fault, although it has its content: its
    /// mapping has been removed.
    pub fn hide(&mut self, page: u64) {
        debug_assert_eq!(self.state(page), Some(State::Clean { mapped: true }));
        self.set(page, State::Clean { mapped: false });
    }

    /// Lets a page keep its memory, once it has some, until it was [`unpin`](Self::unpin)ned as
    /// often. False if this would leave fewer than `others` for other pages.
    pub fn pin(&mut self, page: u64, others: usize) -> bool {
        let is_possible =
            self.pinned.contains_key(&page) || self.pinned.len() + others < self.limit;
        if is_possible {
            *self.pinned.entry(page).or_default() += 1;
            if let Some(State::Reading { asked, .. }) = self.states.get_mut(&page) {
                *asked = true;
            }
        }
        is_possible
    }

    /// Lets the memory of a page be taken again, unless it was pinned more often.
    pub fn unpin(&mut self, page: u64) {
        if let Some(count @ 2..) = self.pinned.get_mut(&page) {
            *count -= 1;
            return;
        }
        let has_memory = !matches!(self.state(page), None | Some(State::Poisoned));
        if self.pinned.remove(&page).is_some() && has_memory {
            self.enqueue(page);
        }
    }

    /// Takes the memory of a page that is the same as on the device and not pinned: whether it is
    /// absent now, and was not before.
    pub fn take(&mut self, page: u64) -> bool {
        let is_clean = matches!(self.state(page), Some(State::Clean { .. }));
        let takes = is_clean && !self.pinned.contains_key(&page);
        if takes {
            self.forget(page);
        }
        takes
    }

    /// A program has removed memory of a page that was the same as on the device: it is absent from
    /// now on.
    pub fn removed(&mut self, page: u64) {
        self.set(page, State::Clean { mapped: true });
        self.forget(page);
    }

    /// An access to the page is an error from now on, and it has no memory.
    pub fn poison(&mut self, page: u64) {
        let before = self.state(page);
        if before != Some(State::Poisoned) {
            self.resident -= usize::from(before.is_some());
            self.set(page, State::Poisoned);
        }
    }

    /// A write of a dirty page begins, if it is dirty and none is under way.
    pub fn begin_write(&mut self, page: u64) -> bool {
        let begins = matches!(self.state(page), Some(State::Dirty | State::Kept));
        if begins {
            self.set(page, State::Writing);
        }
        begins
    }

    /// The write of a page has ended.
    pub fn end_write(&mut self, page: u64, succeeded: bool) {
        let state = self.state(page);
        debug_assert!(
            matches!(state, Some(State::Writing | State::Rewritten)),
            "{state:?}"
        );
        let after = match (state, succeeded) {
            (_, false) => State::Kept,
            (Some(State::Writing), true) => State::Clean { mapped: true },
            (_, true) => State::Dirty,
        };
        self.set(page, after);
    }

    /// The page that has been dirty for longest, whose write has begun when this returns; none that
    /// its thread may not have stored to yet.
    pub fn write_oldest(&mut self) -> Option<u64> {
        let (page, since_us) = self.oldest()?;
        if self.hold.is_recent(since_us) {
            return None;
        }
        self.aged.pop_front();
        self.is_aged.remove(&page);
        self.set(page, State::Writing);
        Some(page)
    }

    /// The page that has been dirty for longest, of those whose write has neither begun nor failed,
    /// and since when at most.
    pub fn oldest(&mut self) -> Option<(u64, u64)> {
        while let Some(&(page, since_us)) = self.aged.front() {
            if self.state(page) == Some(State::Dirty) {
                return Some((page, since_us));
            }
            self.aged.pop_front();
            self.is_aged.remove(&page);
        }
        None
    }

    /// The next step towards memory for another page, which has begun when this returns; None if
    /// each page is being read or written, or is kept, or has just come.
    pub fn step(&mut self) -> Option<Step> {
        let target = (self.limit / UNMAPPED_SHARE).max(1);
        if self.unmapped.len() < target && self.unmapped_at_once < UNMAPPED_AT_ONCE {
            if let Some(step) = self.unmap() {
                return Some(step);
            }
        }
        for _ in 0..self.unmapped.len() {
            let page = self.unmapped.pop_front()?;
            if self.passes_over(page) {
                continue;
            }
            match self.state(page) {
                Some(State::Clean { mapped: false }) => {
                    self.set(page, State::Leaving);
                    self.queued.remove(&page);
                    self.hold.lost(page);
                    self.unmapped_at_once = 0;
                    return Some(Step::Evict(page));
                }
                Some(State::Poisoned) | None => drop(self.queued.remove(&page)),
                Some(_) => self.mapped.push_back(page),
            }
        }
        self.unmap()
    }

    /// Whether a page that was met in one of the queues is pinned: then it is in neither from now
    /// on.
    fn passes_over(&mut self, page: u64) -> bool {
        let is_pinned = self.pinned.contains_key(&page);
        if is_pinned {
            self.queued.remove(&page);
        }
        is_pinned
    }

    /// Unmaps the first clean page, unless a dirty one comes first, which is written.
    fn unmap(&mut self) -> Option<Step> {
        for _ in 0..self.mapped.len() {
            let page = self.mapped.pop_front()?;
            if self.passes_over(page) {
                continue;
            }
            match self.state(page) {
                Some(State::Clean { .. } | State::Dirty) if self.hold.has(page) => {
                    self.mapped.push_back(page);
                }
                Some(State::Clean { .. }) => {
                    self.set(page, State::Clean { mapped: false });
                    self.unmapped.push_back(page);
                    self.unmapped_at_once += 1;
                    return Some(Step::Unmap(page));
                }
                Some(State::Dirty) => {
                    self.set(page, State::Writing);
                    self.mapped.push_back(page);
                    return Some(Step::Write(page));
                }
                Some(State::Poisoned) | None => drop(self.queued.remove(&page)),
                Some(_) => self.mapped.push_back(page),
            }
        }
        None
    }
}

const fn is_dirty(state: State) -> bool {
    matches!(
        state,
        State::Dirty | State::Writing | State::Rewritten | State::Kept
    )
}

#[cfg(test)]
mod tests;
