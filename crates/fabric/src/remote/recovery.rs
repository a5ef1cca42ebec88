// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What follows the loss of an association: it is given up, and made again; what it had not
//! answered waits, goes again, or ends.
//!
//! | command | after the loss |
//! | --- | --- |
//! | answered, in what had arrived | completed |
//! | a read or a flush | submitted again on the next association at once |
//! | a change that had not been sent | submitted on the next association after the fence |
//! | a change that had been sent | the same; past its deadline its outcome is unknown |
//!
//! The fence is when no command of a lost association can be executed any more:
//! [`Timing`](crate::Timing). There is none if no change was in doubt.

use super::{Clock, Completion, Connect, FabricError, KeepAlive, Parked, Remote, Waiting};
use crate::error::Identifier;
use crate::keeper::Keeper;
use crate::{RemoteEvent, StreamError};
use block::Error;
use nvme::NamespaceInfo;

/// The connections of an association are closed by the target within this time of the first; longer
/// is not waited.
const CLOSE_US: u64 = 100_000;

const CLOSED: FabricError = FabricError::Stream(StreamError::Closed);

impl<C: Connect, K: Clock, const DEPTH: usize, const QUEUES: usize> Remote<C, K, DEPTH, QUEUES> {
    fn park(&mut self, parked: Parked) {
        let mut all = self.parked.iter_mut().flatten();
        let free = all.find(|place| place.is_none());
        debug_assert!(
            free.is_some(),
            "no more are outstanding than the queues hold"
        );
        if let Some(place) = free {
            *place = Some(parked);
            self.parked_count += 1;
            self.is_degraded = true;
        }
    }

    /// Parks a new command until the fence.
    pub(super) fn park_new(&mut self, tag: u32, entry: super::QueueEntry, data: super::Payload) {
        let deadline = self.deadline();
        self.park(Parked::Waiting(Waiting {
            tag,
            entry,
            data,
            deadline,
            is_in_doubt: false,
        }));
    }

    fn deadline(&self) -> u64 {
        let wait = self.clock.ticks_from_us(self.options.reconnect_us);
        self.clock.ticks().saturating_add(wait)
    }

    fn us_until(&self, ticks: u64) -> u64 {
        let left = u128::from(ticks.saturating_sub(self.clock.ticks()));
        match ticks {
            u64::MAX => u64::MAX,
            _ => (left * 1_000_000 / u128::from(self.clock.ticks_per_second().max(1))) as u64,
        }
    }

    /// Gives up the association: takes what has arrived, discards what has not been sent, and parks
    /// what is not answered.
    fn abandon(&mut self, error: FabricError) {
        let wait = if error == CLOSED {
            self.clock.ticks_from_us(CLOSE_US)
        } else {
            0
        };
        let until = self.clock.ticks().saturating_add(wait);
        let (mut is_in_doubt, mut is_closed) = (false, self.options.trusts_close);
        for index in 0..QUEUES {
            while let Some(Some(queue)) = self.queues.get_mut(index) {
                if let Some(done) = queue.poll() {
                    let done = self.complete(done);
                    self.park(Parked::Done(done));
                    continue;
                }
                let is_over = queue.error().is_some() || !queue.has_changes_in_doubt();
                if is_over || self.clock.ticks() >= until {
                    break;
                }
                queue.wait(10_000);
            }
            let Some(Some(queue)) = self.queues.get_mut(index) else {
                continue;
            };
            if queue.take_heard() {
                self.heard = self.clock.ticks();
            }
            if queue.has_changes_in_doubt() {
                is_in_doubt = true;
                is_closed &= queue.error() == Some(CLOSED);
            }
        }
        let deadline = self.deadline();
        for index in 0..QUEUES {
            let Some(mut queue) = self.queues.get_mut(index).and_then(Option::take) else {
                continue;
            };
            queue.drain(|tag, entry, data, is_sent| {
                self.park(Parked::Waiting(Waiting {
                    tag,
                    is_in_doubt: is_sent && entry.changes(),
                    entry,
                    data,
                    deadline,
                }));
            });
        }
        if let Some(admin) = self.admin.take() {
            self.heard = self.heard.max(admin.heard());
        }
        if is_in_doubt {
            // Every connection is aborted by now.
            let now = self.clock.ticks();
            let end = self.timing.end(&self.clock, self.heard, now, is_closed);
            self.fence = self.fence.max(end);
        }
        self.is_degraded = true;
    }

    /// Makes the association again after `error`, or gives up.
    pub(super) fn recover(&mut self, error: FabricError) {
        self.error = Some(error);
        self.abandon(error);
        self.connect.event(RemoteEvent::Lost { error });
        self.retry_at = 0;
        let deadline = self.deadline();
        let mut gone = Error::Gone;
        self.attempts.reset();
        while self.clock.ticks() < deadline {
            let pause_us = self.attempts.next_us(self.options.reconnect_us);
            self.connect.pause(pause_us.min(self.us_until(deadline)));
            let made = Self::establish(
                &mut self.connect,
                &self.clock,
                &self.options,
                &mut self.page,
            );
            match made {
                Ok(made) => match self.difference(&made.namespace, &made.uuid) {
                    // Another namespace must not be written to.
                    Some(error) => {
                        self.error = Some(error);
                        gone = Error::Replaced;
                        break;
                    }
                    None => {
                        let admin =
                            KeepAlive::new(made.admin, &self.clock, self.options.keep_alive_ms);
                        self.admin = Some(self.connect.keep(admin));
                        self.queues = made.queues;
                        self.ana = made.ana;
                        self.timing = made.timing;
                        self.heard = self.clock.ticks();
                        self.reconnects = self.reconnects.saturating_add(1);
                        let writes_wait_us = self.us_until(self.fence);
                        self.connect
                            .event(RemoteEvent::Connected { writes_wait_us });
                        let has_cache = self.geometry.features.volatile_write_cache;
                        if self.unflushed.take() && has_cache {
                            self.connect.event(RemoteEvent::CacheInDoubt);
                        }
                        self.settle();
                        return;
                    }
                },
                Err(error) => self.error = Some(error),
            }
        }
        self.gone = Some(gone);
        let error = self.error.unwrap_or(error);
        let in_doubt_us = self.us_until(self.fence);
        self.connect
            .event(RemoteEvent::GivenUp { error, in_doubt_us });
    }

    /// What distinguishes a namespace from the one that it was.
    fn difference(&self, now: &NamespaceInfo, uuid: &[u8; 16]) -> Option<FabricError> {
        let was = &self.namespace;
        let size = |one: &NamespaceInfo| Identifier::Size {
            block_count: one.block_count,
            block_size_log2: one.block_size_log2,
        };
        let pairs = [
            (Identifier::Uuid(self.uuid), Identifier::Uuid(*uuid)),
            (Identifier::Nguid(was.nguid), Identifier::Nguid(now.nguid)),
            (Identifier::Eui64(was.eui64), Identifier::Eui64(now.eui64)),
            (size(was), size(now)),
        ];
        let (was, now) = pairs.into_iter().find(|(was, now)| was != now)?;
        let nsid = self.namespace.nsid;
        Some(FabricError::OtherNamespace { nsid, was, now })
    }

    /// Submits what may be submitted of what is parked, and lifts the fence when it has passed.
    fn settle(&mut self) {
        let now = self.clock.ticks();
        if now >= self.fence {
            self.fence = 0;
        }
        let is_fenced = self.fence != 0;
        let count = self.queues.iter().flatten().count().max(1);
        let places = self.parked.iter_mut().flatten().enumerate();
        let mut is_kick_due = false;
        for (index, place) in places {
            if !matches!(place, Some(Parked::Waiting(one)) if !(is_fenced && one.entry.changes())) {
                continue;
            }
            let queue = self.queues.get_mut(index % count).and_then(Option::as_mut);
            let Some(queue) = queue.filter(|queue| queue.outstanding() < DEPTH) else {
                continue;
            };
            if let Some(Parked::Waiting(one)) = place.take() {
                self.parked_count -= 1;
                is_kick_due = true;
                let _ = queue.submit(one.tag, one.entry, one.data, now);
            }
        }
        if is_kick_due {
            for queue in self.queues.iter_mut().flatten() {
                queue.kick();
            }
        }
        self.is_degraded = self.fence != 0 || self.parked_count != 0 || self.gone.is_some();
    }

    fn take_parked(&mut self, mut is_it: impl FnMut(&Parked) -> bool) -> Option<Parked> {
        let mut all = self.parked.iter_mut().flatten();
        let found = all.find(|place| place.as_ref().is_some_and(&mut is_it))?;
        self.parked_count -= 1;
        found.take()
    }

    /// What a poll does while something is parked: completes what has been answered or is past its
    /// deadline, and submits the rest when it may.
    #[cold]
    pub(super) fn poll_parked(&mut self) -> Option<Completion> {
        let now = self.clock.ticks();
        let gone = self.gone;
        let is_due = |parked: &Parked| match parked {
            Parked::Done(_) => true,
            Parked::Waiting(one) => gone.is_some() || one.deadline <= now && one.entry.changes(),
        };
        // A command whose fence has passed is submitted rather than ended.
        if gone.is_none() {
            self.settle();
        }
        let completion = match self.take_parked(is_due)? {
            Parked::Done(completion) => completion,
            Parked::Waiting(one) => {
                if one.is_in_doubt && gone.is_none() {
                    let in_doubt_us = self.us_until(self.fence);
                    self.connect.event(RemoteEvent::InDoubt { in_doubt_us });
                }
                Completion {
                    tag: one.tag,
                    buffer: one.data.into_buffer(),
                    result: Err(match (one.is_in_doubt, gone) {
                        (true, _) => Error::OutcomeUnknown,
                        (false, Some(gone)) => gone,
                        // It was never sent.
                        (false, None) => Error::TimedOut,
                    }),
                }
            }
        };
        Some(completion)
    }

    /// Sleeps while nothing is outstanding on a connection.
    pub(super) fn wait_parked(&mut self, timeout_us: u32) {
        let all = self.parked.iter().flatten().flatten();
        let next = all.fold(self.fence, |next, parked| match parked {
            Parked::Waiting(one) => next.min(one.deadline),
            Parked::Done(_) => 0,
        });
        let us = self.us_until(next).min(u64::from(timeout_us)).min(100_000);
        if us != 0 {
            self.connect.pause(us);
        }
    }
}

impl<C: Connect, K, const DEPTH: usize, const QUEUES: usize> Drop for Remote<C, K, DEPTH, QUEUES>
where
    K: Clock,
{
    /// Waits for the fence, so that whoever uses the namespace next, another process perhaps, is
    /// not overtaken by what this one has left in doubt.
    fn drop(&mut self) {
        let wait_us = self.us_until(self.fence);
        if self.fence == u64::MAX || wait_us == 0 {
            return;
        }
        self.connect.event(RemoteEvent::Closing { wait_us });
        self.queues = [const { None }; QUEUES];
        self.admin = None;
        while self.us_until(self.fence) != 0 {
            self.connect.pause(self.us_until(self.fence).min(1_000_000));
        }
    }
}
