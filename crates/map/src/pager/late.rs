// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Accesses, syncs and pins that have waited for too long.

use super::sync::Sync;
use super::{Job, Pager, Slot};
use crate::error::Error;
use crate::pages::State;
use crate::space::Space;
use block::Device;
use std::io;

/// How often late reads are looked for, in parts of the deadline.
const LOOKS: u64 = 16;

impl<D: Device, S: Space> Pager<'_, D, S> {
    /// Makes accesses errors whose page should have been read by now. The device may still answer:
    /// its buffer stays lent, and what it reads is dropped.
    pub(super) fn end_late(&mut self) -> io::Result<bool> {
        let Some(most_us) = self.shared.limits.read_deadline_us else {
            return Ok(false);
        };
        let now_us = self.lane.now_us;
        if now_us < self.lane.late_us {
            return Ok(false);
        }
        self.lane.late_us = now_us.saturating_add(most_us / LOOKS + 1);
        let is_late = |since_us: u64| now_us.saturating_sub(since_us) >= most_us;
        let reads = self.lane.slots.iter().filter_map(|slot| match *slot {
            Slot::Lent(Job::Read(page), _, since_us) if is_late(since_us) => Some(page),
            _ => None,
        });
        // One that no thread waits for harms no one.
        let is_asked = |&page: &u64| {
            matches!(
                self.core.pages.state(page),
                Some(State::Reading { asked: true, .. })
            )
        };
        let mut late: Vec<u64> = reads.filter(is_asked).collect();
        self.core.waiting.retain(|&(fault, since_us)| {
            let ends = is_late(since_us);
            if ends {
                late.push(fault.page);
            }
            !ends
        });
        for &page in &late {
            match self.core.pages.state(page) {
                None | Some(State::Reading { .. }) => self.refuse(page, libc::ETIMEDOUT)?,
                // Another fault had the page read or refused; the access tries again.
                Some(_) => self.shared.space.wake(page)?,
            }
        }
        Ok(!late.is_empty())
    }

    /// Ends a sync and pins for which the device does nothing. What is under way may still end:
    /// pages that were written are clean then.
    pub(super) fn end_late_calls(&mut self) -> bool {
        let since_us = self.shared.limits.call_deadline_us;
        let Some(since_us) = since_us.and_then(|most_us| self.lane.now_us.checked_sub(most_us))
        else {
            return false;
        };
        let is_late = |sync: &mut Sync| sync.moved_us <= since_us;
        let ends = self.core.sync.take_if(is_late).is_some();
        if ends {
            self.core.synced = Some(Err(Error::Late("the sync")));
        }
        self.core.ahead.end_late(since_us) || ends
    }

    /// Makes each access to a page without content an error of the system.
    pub(super) fn refuse(&mut self, page: u64, errno: i32) -> io::Result<()> {
        let error = block::Error::Os { errno };
        self.fail(page, false, error);
        self.core.pages.poison(page);
        self.shared.space.poison(page, error)
    }
}
