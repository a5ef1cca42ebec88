// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lane's own part: its device, what ends there, and what is done without the lock.

use super::{Job, Lane, Pager, Shared, Slot};
use crate::error::{Error, Result};
use crate::map::POLL_US;
use crate::pages::Step;
use crate::space::{Fault, Space};
use block::{Buffer, Completion, Device};
use std::io;
use std::time::{Duration, Instant};

impl<D: Device> Lane<D> {
    /// A lane with one buffer of a page for each request that may be under way. They have passed
    /// [`check`](super::check).
    pub fn new(device: D, buffers: Vec<Buffer>) -> Self {
        Self {
            device,
            slots: buffers.into_iter().map(Slot::Free).collect(),
            reported: Vec::new(),
            now_us: 0,
            late_us: 0,
        }
    }

    /// Whether requests are under way, and the device should be waited for rather than a fault.
    pub fn is_busy(&self) -> bool {
        self.device.outstanding() > 0
    }

    /// Whether a page is being read by this lane.
    pub fn reads(&self, page: u64) -> bool {
        let reads =
            |slot: &Slot| matches!(slot, Slot::Lent(Job::Read(other), ..) if *other == page);
        self.slots.iter().any(reads)
    }

    /// Has the next turn serve a thread that waits.
    pub fn report(&mut self, fault: Fault) {
        self.reported.push(fault);
    }

    /// Sleeps until a request may have ended, at most about `timeout_us` microseconds.
    pub fn wait(&mut self, timeout_us: u32) {
        self.device.wait(timeout_us);
    }

    /// Decides, with the map's other lanes waiting.
    pub fn pager<'p, S: Space>(&'p mut self, shared: &'p Shared<S>) -> Pager<'p, D, S> {
        Pager {
            core: shared.core(),
            lane: self,
            shared,
        }
    }

    /// What becomes readable when the device may have ended a request, if it can tell.
    pub fn completion_file(&self) -> Option<i32> {
        self.device.completion_file()
    }

    /// Serves what can be served now; returns whether there was something. `looks`: for threads
    /// that have begun to wait, too.
    ///
    /// # Errors
    /// A system call failed: the map has ended.
    pub fn turn<S: Space>(&mut self, shared: &Shared<S>, looks: bool) -> io::Result<bool> {
        self.now_us = shared.now_us();
        let mut has_moved = self.complete(shared)?;
        if looks {
            shared.space.take_faults(&mut self.reported)?;
        }
        has_moved |= self.pager(shared).turn()?;
        self.device.kick();
        // What a device has done at once.
        has_moved |= self.complete(shared)?;
        has_moved |= self.make_spare(shared)?;
        Ok(has_moved)
    }

    /// Ends the requests that the device has ended; returns whether there were some.
    fn complete<S: Space>(&mut self, shared: &Shared<S>) -> io::Result<bool> {
        let mut has_moved = false;
        while let Some(completion) = self.device.poll() {
            has_moved = true;
            let early = match (self.slots.get(completion.tag as usize), &completion) {
                (
                    Some(&Slot::Lent(Job::Read(page), ..)),
                    Completion {
                        result: Ok(()),
                        buffer: Some(data),
                        ..
                    },
                ) => shared.install(page, data),
                _ => None,
            };
            self.pager(shared).end(completion, early)?;
        }
        Ok(has_moved)
    }

    /// Takes memory for the next pages while the device reads, and without the lock.
    fn make_spare<S: Space>(&mut self, shared: &Shared<S>) -> io::Result<bool> {
        let mut has_moved = false;
        loop {
            let step = self.pager(shared).spare_step()?;
            match step {
                Some(Step::Evict(page)) => {
                    shared.space.evict(page)?;
                    self.pager(shared).left(page);
                }
                // It may be mapped again in between, for another fault: then the kernel says that
                // it is not.
                Some(Step::Unmap(page)) => shared.space.unmap(page)?,
                Some(Step::Write(_)) => self.device.kick(),
                None => return Ok(has_moved),
            }
            has_moved = true;
        }
    }

    /// Waits for what is under way without a use for it, at most until the deadline; returns the
    /// device and the buffers that came back. If the device does not answer, both stay lent to it.
    ///
    /// # Errors
    /// [`Error::Late`].
    pub fn close(mut self, deadline: Option<Duration>) -> Result<(D, Vec<Buffer>)> {
        let started = Instant::now();
        while self.is_busy() {
            let Some(Completion { tag, buffer, .. }) = self.device.poll() else {
                if deadline.is_some_and(|most| started.elapsed() >= most) {
                    // The device may still write to the buffers.
                    std::mem::forget(self);
                    return Err(Error::Late("the end of the map"));
                }
                self.device.kick();
                self.device.wait(POLL_US);
                continue;
            };
            let Some(place) = self.slots.get_mut(tag as usize) else {
                continue;
            };
            if let (Slot::Lent(_, mut lent, _), Some(buffer)) =
                (std::mem::replace(place, Slot::Lost), buffer)
            {
                let whole = lent
                    .give_back(buffer)
                    .ok()
                    .and_then(|_| lent.into_whole().ok());
                *place = whole.map_or(Slot::Lost, Slot::Free);
            }
        }
        let back = self.slots.into_iter().filter_map(|slot| match slot {
            Slot::Free(buffer) => Some(buffer),
            _ => None,
        });
        Ok((self.device, back.collect()))
    }
}
