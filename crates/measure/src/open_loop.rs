// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An open loop: operations arrive by the clock, whether or not the device keeps up.
//!
//! A closed loop waits while the device stalls, and so submits nothing at exactly the time that
//! matters. Here arrival n is due at `start + n / rate`, and its *response time* counts from then;
//! its *service time*, what a closed loop would have seen, counts from its submission. The two
//! differ by the time that it waited for other operations, or for a call that had not returned.
//!
//! Outside the device the timed path only reads the clock: memory for every sample is allocated
//! before the first arrival. It records when an operation began and when it ended; durations, and
//! how many arrivals waited, are computed after the run.

use crate::cell::Tally;
use crate::flight::is_gone;
use crate::host::Clock;
use crate::operations::Operations;
use crate::schedule::FRACTION_BITS;
pub use crate::schedule::{MAX_ARRIVALS, Schedule};
use crate::why::{Unwatched, Watcher};
use block::{Completion, Device};
use std::sync::atomic::{AtomicBool, Ordering};

/// How long one wait may last before cancellation is checked.
const WAIT_NS: u64 = 50_000_000;
/// The loop polls the clock for this time before an arrival, because a sleep ends late.
const SPIN_NS: u64 = 120_000;
/// Replaces a time: the operation did not begin, or did not end.
const NEVER: u64 = u64::MAX;

/// What an open loop measured, in the order of arrivals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenRun {
    /// From the intended arrival to completion. For an arrival that never started: to the time at
    /// which the loop gave up, so at least this.
    pub response_ns: Vec<u64>,
    /// From submission to completion; 0 for one that never started.
    pub service_ns: Vec<u64>,
    /// Which arrivals failed or never started.
    pub failed: Vec<bool>,
    /// Arrivals that never started.
    pub unserved: u64,
    /// Maximum number of arrivals that were not completed at any time.
    pub peak_backlog: u64,
    /// The number when the last arrival was due.
    pub end_backlog: u64,
    /// Operations, bytes and errors.
    pub tally: Tally,
}

/// An open loop over one device.
#[derive(Debug)]
pub struct OpenLoop {
    operations: Operations,
}

impl From<OpenLoop> for Operations {
    fn from(open: OpenLoop) -> Self {
        open.operations
    }
}

impl OpenLoop {
    /// A loop with at most as many of `operations` in flight as they have buffers.
    pub const fn new(operations: Operations) -> Self {
        Self { operations }
    }

    /// Runs the schedule. Ends early on cancellation, on a refused request and when the device has
    /// disappeared; the series then contain the arrivals so far.
    pub fn run(
        &mut self,
        device: &mut dyn Device,
        clock: &dyn Clock,
        schedule: &Schedule,
        cancel: &AtomicBool,
    ) -> OpenRun {
        self.run_watched(device, clock, schedule, cancel, &mut Unwatched)
    }

    /// The same, and tells `watch` what happens.
    pub(crate) fn run_watched<W: Watcher>(
        &mut self,
        device: &mut dyn Device,
        clock: &dyn Clock,
        schedule: &Schedule,
        cancel: &AtomicBool,
        watch: &mut W,
    ) -> OpenRun {
        let mut served = Served::new(schedule);
        if self.operations.prepare(device.geometry()) {
            self.serve::<true, W>(device, clock, cancel, &mut served, watch)
        } else {
            self.serve::<false, W>(device, clock, cancel, &mut served, watch)
        }
        watch.end(clock.now_ns());
        served.into_run(self.operations.access.block_size_bytes)
    }

    /// The timed path.
    #[inline(never)]
    fn serve<const WHOLE: bool, W: Watcher>(
        &mut self,
        device: &mut dyn Device,
        clock: &dyn Clock,
        cancel: &AtomicBool,
        served: &mut Served,
        watch: &mut W,
    ) {
        served.start(clock.now_ns());
        watch.begin(served.start_ns);
        loop {
            // First all completions: the operations that are due are then submitted together.
            if self.operations.flight.outstanding() > 0 {
                if let Some(completion) = device.poll() {
                    self.end::<WHOLE, W>(completion, clock, served, watch);
                    continue;
                }
            }
            if cancel.load(Ordering::Relaxed) {
                served.tally.cancelled = true;
                served.stop();
            }
            while served.is_due() && self.operations.flight.has_idle() {
                watch.began(self.operations.flight.outstanding() == 0, served.now_ns);
                self.begin::<WHOLE>(device, served);
            }
            if !self
                .operations
                .flight
                .submit::<WHOLE>(device, &mut served.tally)
            {
                served.stop();
            }
            if self.operations.flight.kick(device) {
                continue;
            }
            if self.operations.flight.is_empty::<WHOLE>() && served.is_over() {
                break;
            }
            let next_ns = served.next_ns.saturating_sub(served.now_ns);
            let most_ns = watch.most_wait_ns(served.now_ns).min(WAIT_NS);
            served.now_ns = self.wait(device, clock, next_ns, most_ns);
            watch.passed(served.now_ns);
        }
        served.tally.elapsed_ns = clock.now_ns().saturating_sub(served.start_ns);
    }

    /// Processes a completion, and records its time. A separate function, like the following ones,
    /// so that the loop has enough registers.
    #[inline(never)]
    fn end<const WHOLE: bool, W: Watcher>(
        &mut self,
        completion: Completion,
        clock: &dyn Clock,
        served: &mut Served,
        watch: &mut W,
    ) {
        let ended = self
            .operations
            .flight
            .take_back::<WHOLE>(completion, &mut served.tally);
        let Some(ended) = ended else {
            return;
        };
        served.now_ns = clock.now_ns();
        if let Some(ended_ns) = served.ended_ns.get_mut(ended.note as usize) {
            *ended_ns = served.now_ns;
        }
        if ended.failed {
            served.fail(ended.note);
        }
        let due_ns = || served.start_ns + served.schedule.at(ended.note);
        watch.ended(due_ns, served.now_ns);
    }

    /// Begins the next operation that is due, unless the time for starting has passed.
    #[inline(never)]
    fn begin<const WHOLE: bool>(&mut self, device: &mut dyn Device, served: &mut Served) {
        if served.now_ns >= served.until_ns {
            return served.stop();
        }
        let index = served.take_next();
        if let Some(begun_ns) = served.begun_ns.get_mut(index as usize) {
            *begun_ns = served.now_ns;
        }
        let begun = self
            .operations
            .begin::<WHOLE>(device, index, &mut served.tally);
        if !begun {
            served.stop();
        }
    }

    /// Waits for a completion or an arrival that can begin, whichever comes first, and reads the
    /// clock.
    fn wait(&self, device: &mut dyn Device, clock: &dyn Clock, next_ns: u64, most_ns: u64) -> u64 {
        let wait_ns = if self.operations.flight.has_idle() {
            next_ns.min(most_ns)
        } else {
            most_ns
        };
        if self.operations.flight.outstanding() > 0 {
            device.wait((wait_ns / 1000) as u32);
        } else if wait_ns > SPIN_NS {
            clock.sleep_ns(wait_ns - SPIN_NS);
        } else {
            clock.spin();
        }
        clock.now_ns()
    }
}

/// A series in memory that is already mapped: the kernel maps fresh memory only on the first write,
/// which would happen during the run.
fn touched<T: Copy>(count: usize, value: T) -> Vec<T> {
    let mut series = Vec::with_capacity(count);
    series.resize(count, std::hint::black_box(value));
    series
}

/// The records of the timed path; the series are in the order of arrivals.
struct Served {
    schedule: Schedule,
    /// Blocks of the device in one operation.
    begun_ns: Vec<u64>,
    ended_ns: Vec<u64>,
    failed: Vec<bool>,
    /// Arrivals that were begun.
    begun: u64,
    /// When the next is due, from the start, in fractions of a nanosecond.
    next_at: u64,
    /// The same on the clock; never if no more operations begin.
    next_ns: u64,
    start_ns: u64,
    now_ns: u64,
    until_ns: u64,
    tally: Tally,
}

impl Served {
    fn new(schedule: &Schedule) -> Self {
        let count = schedule.count as usize;
        Self {
            schedule: *schedule,
            begun_ns: touched(count, NEVER),
            ended_ns: touched(count, NEVER),
            failed: touched(count, false),
            begun: 0,
            next_at: 0,
            next_ns: NEVER,
            start_ns: 0,
            now_ns: 0,
            until_ns: 0,
            tally: Tally::default(),
        }
    }

    fn start(&mut self, now_ns: u64) {
        (self.start_ns, self.next_ns, self.now_ns) = (now_ns, now_ns, now_ns);
        self.until_ns = now_ns
            .saturating_add(self.schedule.duration_ns())
            .saturating_add(self.schedule.grace_ns);
    }

    /// Prevents further operations from beginning.
    fn stop(&mut self) {
        self.next_ns = NEVER;
    }

    fn is_over(&self) -> bool {
        self.next_ns == NEVER
    }

    #[inline]
    fn is_due(&self) -> bool {
        self.next_ns <= self.now_ns
    }

    /// The arrival that is due, which now begins.
    #[inline]
    fn take_next(&mut self) -> u64 {
        let index = self.begun;
        self.begun += 1;
        self.next_at += self.schedule.interval;
        self.next_ns = self.start_ns + (self.next_at >> FRACTION_BITS);
        if self.begun == self.schedule.count {
            self.stop();
        }
        index
    }

    #[cold]
    fn fail(&mut self, index: u64) {
        if let Some(failed) = self.failed.get_mut(index as usize) {
            *failed = true;
        }
        if is_gone(&self.tally) {
            self.stop();
        }
    }

    /// Computes the durations from the stamps. Arrivals that never started are recorded with a
    /// lower bound if the device did not keep up, and omitted if the user ended the run.
    fn into_run(mut self, block_size_bytes: u64) -> OpenRun {
        let arrived = if self.tally.cancelled || is_gone(&self.tally) {
            self.begun
        } else {
            self.schedule.due(self.now_ns.wrapping_sub(self.start_ns))
        };
        for series in [&mut self.begun_ns, &mut self.ended_ns] {
            series.truncate(arrived as usize);
        }
        self.failed.truncate(arrived as usize);
        let (peak_backlog, end_backlog) = self.backlogs();
        let mut tally = self.tally;
        let times = self.begun_ns.iter_mut().zip(&mut self.ended_ns);
        for ((index, (begun_ns, ended_ns)), failed) in (0..).zip(times).zip(&mut self.failed) {
            let due_ns = self.start_ns + self.schedule.at(index);
            let (service_ns, response_ns) = match (*begun_ns, *ended_ns) {
                (NEVER, _) => (0, self.now_ns.saturating_sub(due_ns).max(1)),
                // The operation was refused.
                (_, NEVER) => (0, 0),
                (begun_ns, ended_ns) => (
                    ended_ns.saturating_sub(begun_ns).max(1),
                    ended_ns.saturating_sub(due_ns).max(1),
                ),
            };
            *failed |= service_ns == 0;
            tally.operations += u64::from(!*failed);
            (*begun_ns, *ended_ns) = (service_ns, response_ns);
        }
        tally.bytes = tally.operations.saturating_mul(block_size_bytes);
        OpenRun {
            response_ns: self.ended_ns,
            service_ns: self.begun_ns,
            failed: self.failed,
            unserved: arrived - self.begun.min(arrived),
            peak_backlog,
            end_backlog,
            tally,
        }
    }

    /// Arrivals that were not completed: the maximum number, and the number when the last one was
    /// due, or at the end of a run that ended earlier.
    fn backlogs(&self) -> (u64, u64) {
        let mut ended = self.ended_ns.clone();
        ended.retain(|ns| *ns != NEVER);
        ended.sort_unstable();
        let arrived = self.ended_ns.len() as u64;
        let (mut done, mut peak, mut backlog) = (0, 0, 0);
        for index in 0..arrived {
            let due_ns = self.start_ns + self.schedule.at(index);
            while ended.get(done).is_some_and(|ns| *ns <= due_ns) {
                done += 1;
            }
            backlog = (index + 1).saturating_sub(done as u64);
            peak = peak.max(backlog);
        }
        if arrived == self.schedule.count {
            (peak, backlog)
        } else {
            (peak, arrived.saturating_sub(ended.len() as u64))
        }
    }
}

#[cfg(test)]
#[path = "open_loop_tests.rs"]
mod tests;
