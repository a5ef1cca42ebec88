//! An open loop: operations arrive by the clock, whether or not the device keeps up.
//!
//! A closed loop waits while the device stalls, and so asks it nothing at the very time that
//! matters. Here arrival n is due at `start + n / rate`, and its *response time* counts from then;
//! its *service time*, what a closed loop would have seen, counts from its submission. The two
//! differ by the time that it waited behind others, or behind a call that had not returned.
//!
//! The timed path reads the clock, and nothing else outside of the device: every sample has its
//! place before the first arrival.

use crate::access::{Access, Offsets};
use crate::cell::{CellError, Tally, check};
use crate::flight::{Ended, Flight, Stamp, is_gone};
use crate::host::Clock;
use crate::path::Region;
use block::{Buffer, Device};
use std::sync::atomic::{AtomicBool, Ordering};

/// The most arrivals that a run records; 16 bytes each.
pub const MAX_ARRIVALS: u64 = 50_000_000;
/// How long one wait may last before cancellation is looked at.
const WAIT_NS: u64 = 50_000_000;
/// The loop looks at the clock itself for the last stretch before an arrival, for a sleep ends late.
const SPIN_NS: u64 = 120_000;
/// Binary places of a nanosecond that intervals have.
const FRACTION_BITS: u32 = 10;

/// When operations arrive: `count` of them, `interval` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    interval: u64,
    count: u64,
    grace_ns: u64,
}

impl Schedule {
    /// A schedule of `per_second` arrivals over `duration_ns`; what has not started `grace_ns`
    /// after its end is given up. `None` if it has no arrival, more than [`MAX_ARRIVALS`], or more
    /// than one a nanosecond.
    pub fn new(per_second: f64, duration_ns: u64, grace_ns: u64) -> Option<Self> {
        let scale = f64::from(1u32 << FRACTION_BITS);
        let interval = (1e9 / per_second * scale).round();
        if !interval.is_finite() || interval < scale || interval > 1e15 {
            return None;
        }
        let count = (duration_ns as f64 * scale / interval).floor() as u64;
        (1..=MAX_ARRIVALS).contains(&count).then_some(Self {
            interval: interval as u64,
            count,
            grace_ns,
        })
    }

    /// How many arrivals it has.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Nanoseconds between two arrivals.
    pub fn interval_ns(&self) -> f64 {
        self.interval as f64 / f64::from(1u32 << FRACTION_BITS)
    }

    /// From the first arrival to one interval after the last.
    pub fn duration_ns(&self) -> u64 {
        self.at(self.count)
    }

    /// When arrival `index` is due, from the start.
    pub fn at(&self, index: u64) -> u64 {
        ((u128::from(self.interval) * u128::from(index)) >> FRACTION_BITS) as u64
    }
}

/// What an open loop measured, in the order of arrivals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenRun {
    /// From the intended arrival to completion. For an arrival that never started: to the time at
    /// which the loop gave up, so at least this.
    pub response_ns: Vec<u64>,
    /// From submission to completion; 0 for one that never started.
    pub service_ns: Vec<u64>,
    /// Which of them failed or never started.
    pub failed: Vec<bool>,
    /// Arrivals that never started.
    pub unserved: u64,
    /// Most arrivals that were there and not completed, at one time.
    pub peak_backlog: u64,
    /// Those when the last arrival was due.
    pub end_backlog: u64,
    /// Operations, bytes and errors.
    pub tally: Tally,
}

/// An open loop over one device.
#[derive(Debug)]
pub struct OpenLoop {
    access: Access,
    first_lba: u64,
    offsets: Offsets,
    flight: Flight,
}

impl OpenLoop {
    /// A loop with at most one operation in flight for each of `buffers`.
    ///
    /// # Errors
    /// The block size or the span does not fit the device; the buffers are given back.
    pub fn new(
        access: Access,
        offsets: Offsets,
        span_bytes: u64,
        region: Region,
        geometry: &block::Geometry,
        buffers: Vec<Buffer>,
    ) -> Result<Self, (CellError, Vec<Buffer>)> {
        if let Err(error) = check(access, span_bytes, region, geometry, &buffers) {
            return Err((error, buffers));
        }
        Ok(Self {
            access,
            first_lba: region.first_lba,
            offsets,
            flight: Flight::new(access.operation, buffers),
        })
    }

    /// The same, with writes that last when they are done.
    #[must_use]
    pub fn durable(mut self, durable: bool) -> Self {
        self.flight.durable = durable;
        self
    }

    /// The buffers that the device gave back.
    pub fn into_buffers(self) -> Vec<Buffer> {
        self.flight.into_buffers()
    }

    /// Runs the schedule. Ends early on cancellation, on a refused request and when the device has
    /// gone; the series then have what had arrived.
    pub fn run(
        &mut self,
        device: &mut dyn Device,
        clock: &dyn Clock,
        schedule: &Schedule,
        cancel: &AtomicBool,
    ) -> OpenRun {
        let count = schedule.count as usize;
        let mut run = OpenRun {
            response_ns: touched(count),
            service_ns: touched(count),
            failed: vec![true; count],
            ..OpenRun::default()
        };
        let start_ns = clock.now_ns();
        let give_up_ns = start_ns
            .saturating_add(schedule.duration_ns())
            .saturating_add(schedule.grace_ns);
        let mut progress = Progress {
            schedule: *schedule,
            start_ns,
            due: 0,
            due_at: 0,
            begun: 0,
            begun_at: 0,
            completed: 0,
            peak: 0,
            at_end: None,
        };
        let shift = device.geometry().block_size_log2;
        self.flight.prepare(device.geometry());
        let mut now_ns = start_ns;
        let mut going_on = true;
        progress.advance(now_ns);
        loop {
            while going_on && progress.begun < progress.due && self.flight.has_idle() {
                let lba = self.first_lba + (self.offsets.next_offset() >> shift);
                let stamp = progress.begin(now_ns);
                going_on = self.flight.begin(device, lba, stamp, &mut run.tally);
            }
            going_on &= self.flight.submit(device, &mut run.tally);
            let mut polled = 0;
            let in_flight = self.flight.outstanding();
            while polled < in_flight {
                let Some(completion) = device.poll() else {
                    break;
                };
                polled += 1;
                if let Some(ended) = self.flight.take_back(completion, &mut run.tally) {
                    now_ns = clock.now_ns();
                    progress.advance(now_ns);
                    progress.completed += 1;
                    run.record(&ended, now_ns);
                }
            }
            if self.flight.is_empty() && (!going_on || progress.begun == schedule.count) {
                break;
            }
            if polled == 0 {
                let wait_ns = progress.until_next(now_ns).min(WAIT_NS);
                if !self.flight.is_empty() {
                    device.wait((wait_ns / 1000) as u32);
                } else if wait_ns > SPIN_NS {
                    clock.sleep_ns(wait_ns - SPIN_NS);
                } else {
                    clock.spin();
                }
                now_ns = clock.now_ns();
                progress.advance(now_ns);
            }
            if cancel.load(Ordering::Relaxed) {
                run.tally.cancelled = true;
                going_on = false;
            }
            going_on &= now_ns < give_up_ns && !is_gone(&run.tally);
        }
        run.tally.bytes = run
            .tally
            .operations
            .saturating_mul(self.access.block_size_bytes);
        run.tally.elapsed_ns = clock.now_ns().saturating_sub(start_ns);
        run.close(&progress, now_ns);
        run
    }
}

/// Zeroes in memory that is there: fresh zeroes are not until they are written, and the kernel
/// would make them in the midst of the run.
fn touched(count: usize) -> Vec<u64> {
    let mut series = std::hint::black_box(vec![1; count]);
    series.fill(0);
    series
}

impl OpenRun {
    #[inline]
    fn record(&mut self, ended: &Ended, now_ns: u64) {
        let index = ended.stamp.index as usize;
        let places = (
            self.response_ns.get_mut(index),
            self.service_ns.get_mut(index),
            self.failed.get_mut(index),
        );
        let (Some(response), Some(service), Some(failed)) = places else {
            return;
        };
        *response = now_ns.saturating_sub(ended.stamp.intended_ns).max(1);
        *service = now_ns.saturating_sub(ended.stamp.started_ns).max(1);
        *failed = ended.failed;
        if !ended.failed {
            self.tally.operations += 1;
        }
    }

    /// Enters what never started: with a lower bound if the device did not keep up, not at all if
    /// the user ended the run.
    fn close(&mut self, progress: &Progress, now_ns: u64) {
        self.peak_backlog = progress.peak;
        self.end_backlog = progress
            .at_end
            .unwrap_or(progress.due - progress.completed.min(progress.due));
        let arrived = match self.tally.cancelled || is_gone(&self.tally) {
            true => progress.begun,
            false => progress.due,
        };
        for index in progress.begun..arrived {
            let due_ns = progress.start_ns + progress.schedule.at(index);
            if let Some(response) = self.response_ns.get_mut(index as usize) {
                *response = now_ns.saturating_sub(due_ns).max(1);
            }
        }
        self.unserved = arrived - progress.begun.min(arrived);
        for series in [&mut self.response_ns, &mut self.service_ns] {
            series.truncate(arrived as usize);
        }
        self.failed.truncate(arrived as usize);
    }
}

struct Progress {
    schedule: Schedule,
    start_ns: u64,
    /// Arrivals that are due, and when the next is: in fractions of a nanosecond from the start.
    due: u64,
    due_at: u64,
    /// Arrivals that were submitted, and when the next of them was due.
    begun: u64,
    begun_at: u64,
    completed: u64,
    peak: u64,
    at_end: Option<u64>,
}

impl Progress {
    #[inline]
    fn advance(&mut self, now_ns: u64) {
        let since = now_ns.saturating_sub(self.start_ns);
        while self.due_at >> FRACTION_BITS <= since && self.due < self.schedule.count {
            self.due += 1;
            self.due_at += self.schedule.interval;
        }
        let backlog = self.due - self.completed.min(self.due);
        self.peak = self.peak.max(backlog);
        if self.due == self.schedule.count && self.at_end.is_none() {
            self.at_end = Some(backlog);
        }
    }

    #[inline]
    fn begin(&mut self, now_ns: u64) -> Stamp {
        let stamp = Stamp {
            index: self.begun,
            intended_ns: self.start_ns + (self.begun_at >> FRACTION_BITS),
            started_ns: now_ns,
        };
        self.begun += 1;
        self.begun_at += self.schedule.interval;
        stamp
    }

    /// Time until the next arrival; a while if there is none.
    fn until_next(&self, now_ns: u64) -> u64 {
        if self.due == self.schedule.count {
            return WAIT_NS;
        }
        let at_ns = self.start_ns + (self.due_at >> FRACTION_BITS);
        at_ns.saturating_sub(now_ns)
    }
}

#[cfg(test)]
#[path = "open_loop_tests.rs"]
mod tests;
