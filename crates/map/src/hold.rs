// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages that have just come for a thread and keep their memory, so that the thread has its page
//! before another fault takes the memory.
//!
//! The kernel does not tell when a thread has used its page, so this is a time, which adapts: it
//! doubles when a thread asks for nothing but its page again, which was taken soon after it had
//! come, and falls by a quarter with each other page. It is longer on a machine where threads wait
//! for a processor.

use std::collections::VecDeque;

/// The longest time, in shortest ones.
const MOST: u64 = 256;
/// The most pages that are remembered because they are read, or were taken early.
const MOST_NOTED: usize = 64;

#[derive(Clone, Debug)]
pub struct Hold {
    /// Pages that are read, and for which thread.
    asked: VecDeque<(u64, u64)>,
    /// Pages that have come, for which thread and when, the oldest first, of twice the last
    /// `hold_us`.
    came: VecDeque<(u64, u64, u64)>,
    /// Pages that were taken soon after they had come for a thread, which has not asked for another
    /// since.
    lost: VecDeque<(u64, u64)>,
    hold_us: u64,
    least_us: u64,
    now_us: u64,
}

impl Hold {
    /// At first and at least for `least_us`; for 0 no page is held ever.
    pub const fn new(least_us: u64) -> Self {
        Self {
            asked: VecDeque::new(),
            came: VecDeque::new(),
            lost: VecDeque::new(),
            hold_us: least_us,
            least_us,
            now_us: 0,
        }
    }

    /// The time, in microseconds of a clock that does not go back.
    pub fn set_time(&mut self, now_us: u64) {
        self.now_us = now_us;
        while let Some(&(_, _, since_us)) = self.came.front() {
            if now_us - since_us < 2 * self.hold_us {
                break;
            }
            self.came.pop_front();
        }
    }

    /// For how long a page is held now.
    pub const fn hold_us(&self) -> u64 {
        self.hold_us
    }

    /// Whether what has come at this time is held.
    pub const fn is_recent(&self, since_us: u64) -> bool {
        self.now_us - since_us < self.hold_us
    }

    /// Whether any page is held.
    pub fn is_any(&self) -> bool {
        let newest = self.came.back();
        newest.is_some_and(|&(_, _, since_us)| self.is_recent(since_us))
    }

    /// Whether this page is held.
    pub fn has(&self, page: u64) -> bool {
        let newest = self.came.iter().rev();
        let mut held = newest.take_while(|&&(_, _, since_us)| self.is_recent(since_us));
        held.any(|&(held, ..)| held == page)
    }

    /// A thread asks for a page that is absent, and is read now.
    pub fn asked(&mut self, page: u64, thread: u64) {
        if self.hold_us == 0 {
            return;
        }
        let asks_again = self.lost.contains(&(page, thread));
        self.lost.retain(|&(_, other)| other != thread);
        self.hold_us = if asks_again {
            (2 * self.hold_us).min(MOST * self.least_us)
        } else {
            (self.hold_us - self.hold_us / 4).max(self.least_us)
        };
        note(&mut self.asked, (page, thread));
    }

    /// A page has come for a thread.
    pub fn came(&mut self, page: u64) {
        if self.hold_us > 0 {
            let at = self.asked.iter().position(|&(asked, _)| asked == page);
            let asked = at.and_then(|at| self.asked.remove(at));
            let thread = asked.map_or(0, |(_, thread)| thread);
            self.came.push_back((page, thread, self.now_us));
        }
    }

    /// A page loses its memory.
    pub fn lost(&mut self, page: u64) {
        if let Some(&(_, thread, _)) = self.came.iter().rfind(|&&(came, ..)| came == page) {
            note(&mut self.lost, (page, thread));
        }
    }
}

fn note(list: &mut VecDeque<(u64, u64)>, entry: (u64, u64)) {
    if list.len() == MOST_NOTED {
        list.pop_front();
    }
    list.push_back(entry);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_held_for_longer_while_threads_ask_again_for_what_was_taken_early() {
        let mut hold = Hold::new(100);
        hold.set_time(1000);
        hold.asked(7, 1);
        hold.came(7);
        assert_eq!(
            (hold.has(7), hold.has(8), hold.is_any()),
            (true, false, true)
        );
        hold.set_time(1100);
        assert_eq!((hold.has(7), hold.is_any()), (false, false));
        // Taken as soon as it could be. Its thread asks for it again, so it has not had it in time.
        hold.lost(7);
        hold.asked(7, 2);
        assert_eq!(hold.hold_us(), 100);
        hold.asked(7, 1);
        assert_eq!(hold.hold_us(), 200);
        // Not one that has asked for another page since, nor for a page that was there for long.
        hold.came(7);
        hold.lost(7);
        hold.asked(8, 1);
        hold.asked(7, 1);
        assert_eq!(hold.hold_us(), 113);
        hold.came(7);
        hold.set_time(5000);
        hold.lost(7);
        hold.asked(7, 1);
        assert_eq!(hold.hold_us(), 100);
        for _ in 0..20 {
            hold.came(7);
            hold.lost(7);
            hold.asked(7, 1);
        }
        assert_eq!(hold.hold_us(), MOST * 100);
    }

    #[test]
    fn without_a_time_no_page_is_held() {
        let mut hold = Hold::new(0);
        hold.asked(1, 1);
        hold.came(1);
        hold.lost(1);
        hold.asked(1, 1);
        assert_eq!(
            (hold.has(1), hold.is_any(), hold.hold_us()),
            (false, false, 0)
        );
    }
}
