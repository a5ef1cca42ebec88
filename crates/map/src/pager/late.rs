//! Accesses that have waited for too long.

use super::{Job, Pager, Slot};
use crate::pages::State;
use crate::space::Space;
use block::Device;
use std::io;

/// How often late reads are looked for, in parts of the deadline.
const LOOKS: u64 = 16;

impl<D: Device, S: Space> Pager<D, S> {
    /// Makes accesses errors whose page should have been read by now. The device may still answer: its
    /// buffer stays lent, and what it reads is dropped.
    pub(super) fn end_late(&mut self) -> io::Result<bool> {
        let Some(most_us) = self.limits.read_deadline_us else {
            return Ok(false);
        };
        let now_us = self.now_us;
        if now_us < self.late_us {
            return Ok(false);
        }
        self.late_us = now_us.saturating_add(most_us / LOOKS + 1);
        let is_late = |since_us: u64| now_us.saturating_sub(since_us) >= most_us;
        let reads = self.slots.iter().filter_map(|slot| match *slot {
            Slot::Lent(Job::Read(page), _, since_us) if is_late(since_us) => Some(page),
            _ => None,
        });
        // One that no thread waits for harms no one.
        let is_asked = |&page: &u64| {
            matches!(
                self.pages.state(page),
                Some(State::Reading { asked: true, .. })
            )
        };
        let mut late: Vec<u64> = reads.filter(is_asked).collect();
        self.waiting.retain(|&(fault, since_us)| {
            let ends = is_late(since_us);
            if ends {
                late.push(fault.page);
            }
            !ends
        });
        for &page in &late {
            match self.pages.state(page) {
                None | Some(State::Reading { .. }) => self.refuse(page, libc::ETIMEDOUT)?,
                // Another fault had the page read or refused; the access tries again.
                Some(_) => self.space.wake(page)?,
            }
        }
        Ok(!late.is_empty())
    }

    /// Makes each access to a page without content an error of the system.
    pub(super) fn refuse(&mut self, page: u64, errno: i32) -> io::Result<()> {
        let error = block::Error::Os { errno };
        self.fail(page, false, error);
        self.pages.poison(page);
        self.space.poison(page, error)
    }
}
