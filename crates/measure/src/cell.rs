// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One cell: a closed loop of operations against one device.
//!
//! Each slot of the queue has one operation in flight; when it is done the slot starts the next. A
//! block longer than the device's largest transfer becomes `ceil(block / largest)` requests, queued
//! together, and the operation is done when all of them have completed. The loop does not allocate,
//! and reads the clock once per operation.
//!
//! Service times are from submission to completion *as this loop issued them*. A closed loop waits
//! while the device stalls, so they say nothing about what a periodic task would see.

use crate::access::Operation;
use crate::flight::is_gone;
use crate::host::Clock;
use crate::operations::Operations;
use crate::times::Times;
use block::Device;
use std::sync::atomic::{AtomicBool, Ordering};

pub use crate::tally::{CellError, ServiceTimes, Tally, service_times};

/// How long one wait for completions may last before cancellation is checked.
const WAIT_US: u32 = 100_000;

/// A closed loop over one device. Run it once to warm up and once to count.
#[derive(Debug)]
pub struct ClosedLoop {
    operations: Operations,
    times: Times,
}

impl From<ClosedLoop> for Operations {
    fn from(closed: ClosedLoop) -> Self {
        closed.operations
    }
}

impl ClosedLoop {
    /// A loop that keeps as many of `operations` in flight as they have buffers.
    pub fn new(operations: Operations) -> Self {
        let times = Times::new();
        Self { operations, times }
    }

    /// The service times recorded so far.
    ///
    /// # Errors
    /// The error of [`service_times`].
    pub fn service_times(&self) -> Result<ServiceTimes, CellError> {
        self.times.to_histogram()
    }

    pub(crate) fn operations(&mut self) -> &mut Operations {
        &mut self.operations
    }

    pub(crate) fn writes(&self) -> bool {
        self.operations.access.operation == Operation::Write
    }

    /// Forgets the service times, after warming up.
    pub fn forget(&mut self) {
        self.times.forget();
    }

    /// Keeps every slot busy for `duration_ns`, then waits for the operations in flight. Runs at
    /// least one operation; ends early on cancellation, on a refused request, and when the device
    /// has disappeared.
    pub fn run(
        &mut self,
        device: &mut dyn Device,
        clock: &dyn Clock,
        duration_ns: u64,
        cancel: &AtomicBool,
    ) -> Tally {
        if self.operations.prepare(device.geometry()) {
            self.serve::<true>(device, clock, duration_ns, cancel)
        } else {
            self.serve::<false>(device, clock, duration_ns, cancel)
        }
    }

    /// The timed path.
    #[inline(never)]
    fn serve<const WHOLE: bool>(
        &mut self,
        device: &mut dyn Device,
        clock: &dyn Clock,
        duration_ns: u64,
        cancel: &AtomicBool,
    ) -> Tally {
        let mut tally = Tally::default();
        let start_ns = clock.now_ns();
        let mut now_ns = start_ns;
        // Operations begin until this time; 0 after an early end.
        let mut until_ns = start_ns.saturating_add(duration_ns.max(1));
        loop {
            while now_ns < until_ns && self.operations.flight.has_idle() {
                if !self.operations.begin::<WHOLE>(device, now_ns, &mut tally) {
                    until_ns = 0;
                }
            }
            if !self.operations.flight.submit::<WHOLE>(device, &mut tally) {
                until_ns = 0;
            }
            self.operations.flight.kick(device);
            if self.operations.flight.is_empty::<WHOLE>() {
                break;
            }
            // Bounded by what was in flight when the drain began.
            let in_flight = self.operations.flight.outstanding();
            let mut left = in_flight;
            while left > 0 {
                let Some(completion) = device.poll() else {
                    break;
                };
                left -= 1;
                if let Some(ended) = self
                    .operations
                    .flight
                    .take_back::<WHOLE>(completion, &mut tally)
                {
                    now_ns = clock.now_ns();
                    if !ended.failed {
                        tally.operations += 1;
                        self.times.record(now_ns.saturating_sub(ended.note));
                    } else if is_gone(&tally) {
                        until_ns = 0;
                    }
                }
            }
            if left == in_flight {
                device.wait(WAIT_US);
            }
            if cancel.load(Ordering::Relaxed) {
                tally.cancelled = true;
                until_ns = 0;
            }
        }
        tally.bytes = tally
            .operations
            .saturating_mul(self.operations.access.block_size_bytes);
        tally.elapsed_ns = clock.now_ns().saturating_sub(start_ns);
        tally
    }
}

#[cfg(test)]
#[path = "cell_tests.rs"]
mod tests;
