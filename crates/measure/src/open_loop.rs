//! An open loop: operations arrive by the clock, whether or not the device keeps up.
//!
//! A closed loop waits while the device stalls, and so asks it nothing at the very time that
//! matters. Here arrival n is due at `start + n / rate`, and its *response time* counts from then;
//! its *service time*, what a closed loop would have seen, counts from its submission. The two
//! differ by the time that it waited behind others, or behind a call that had not returned.
//!
//! The timed path reads the clock, and nothing else outside of the device: every sample has its
//! place before the first arrival. It keeps when an operation began and when it ended; the times
//! between are computed when the run is over.

use crate::access::{Access, Offsets};
use crate::cell::{CellError, Tally, check};
use crate::flight::{Flight, is_gone};
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
const FRACTION_MASK: u64 = (1 << FRACTION_BITS) - 1;
/// In place of a time: it did not begin, or did not end.
const NEVER: u64 = u64::MAX;

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
    /// Blocks of the device in one operation.
    lba_step: u64,
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
            lba_step: 0,
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
        let mut served = Served {
            begun_ns: touched(count, NEVER),
            ended_ns: touched(count, NEVER),
            failed: touched(count, false),
            progress: Progress::new(schedule),
            now_ns: 0,
            until_ns: 0,
            tally: Tally::default(),
        };
        self.flight.prepare(device.geometry());
        self.lba_step = self.access.block_size_bytes >> device.geometry().block_size_log2;
        match self.flight.is_whole() {
            true => self.serve::<true>(device, clock, cancel, &mut served),
            false => self.serve::<false>(device, clock, cancel, &mut served),
        }
        served.into_run(self.access.block_size_bytes)
    }

    /// The timed path.
    #[inline(never)]
    fn serve<const WHOLE: bool>(
        &mut self,
        device: &mut dyn Device,
        clock: &dyn Clock,
        cancel: &AtomicBool,
        served: &mut Served,
    ) {
        let start_ns = clock.now_ns();
        served.start(start_ns);
        loop {
            while served.progress.begun < served.progress.due
                && served.now_ns < served.until_ns
                && self.flight.has_idle()
            {
                self.begin::<WHOLE>(device, served);
            }
            if !self.flight.submit::<WHOLE>(device, &mut served.tally) {
                served.until_ns = 0;
            }
            let in_flight = self.flight.outstanding();
            let mut left = in_flight;
            while left > 0 {
                let Some(completion) = device.poll() else {
                    break;
                };
                left -= 1;
                let ended = self
                    .flight
                    .take_back::<WHOLE>(completion, &mut served.tally);
                if let Some(ended) = ended {
                    let now_ns = clock.now_ns();
                    served.now_ns = now_ns;
                    served.progress.advance(now_ns);
                    served.progress.backlog = served.progress.backlog.saturating_sub(1);
                    if let Some(ended_ns) = served.ended_ns.get_mut(ended.note as usize) {
                        *ended_ns = now_ns;
                    }
                    if ended.failed {
                        served.fail(ended.note);
                    }
                }
            }
            if left == in_flight {
                if self.flight.is_empty::<WHOLE>() && served.is_over() {
                    break;
                }
                served.now_ns = self.wait(device, clock, served.progress.until_next(served.now_ns));
                served.progress.advance(served.now_ns);
            }
            if cancel.load(Ordering::Relaxed) {
                served.tally.cancelled = true;
                served.until_ns = 0;
            }
        }
        served.tally.elapsed_ns = clock.now_ns().saturating_sub(start_ns);
    }

    /// Begins the next operation that is due. By itself, for the loop then has registers enough.
    #[inline(never)]
    fn begin<const WHOLE: bool>(&mut self, device: &mut dyn Device, served: &mut Served) {
        let lba = self.first_lba + self.offsets.next_index() * self.lba_step;
        let index = served.progress.begun;
        served.progress.begun += 1;
        if let Some(begun_ns) = served.begun_ns.get_mut(index as usize) {
            *begun_ns = served.now_ns;
        }
        let begun = self
            .flight
            .begin::<WHOLE>(device, lba, index, &mut served.tally);
        if !begun {
            served.until_ns = 0;
        }
    }

    /// Waits for a completion or an arrival, whichever comes first, and reads the clock.
    fn wait(&self, device: &mut dyn Device, clock: &dyn Clock, next_ns: u64) -> u64 {
        let wait_ns = next_ns.min(WAIT_NS);
        if self.flight.outstanding() > 0 {
            device.wait((wait_ns / 1000) as u32);
        } else if wait_ns > SPIN_NS {
            clock.sleep_ns(wait_ns - SPIN_NS);
        } else {
            clock.spin();
        }
        clock.now_ns()
    }
}

/// A series in memory that is there: fresh memory is not until it is written, and the kernel would
/// make it in the midst of the run.
fn touched<T: Copy>(count: usize, value: T) -> Vec<T> {
    let mut series = Vec::with_capacity(count);
    series.resize(count, std::hint::black_box(value));
    series
}

/// What the timed path writes down; the series in the order of arrivals.
struct Served {
    begun_ns: Vec<u64>,
    ended_ns: Vec<u64>,
    failed: Vec<bool>,
    progress: Progress,
    now_ns: u64,
    /// Operations begin until then; 0 when something has ended it.
    until_ns: u64,
    tally: Tally,
}

impl Served {
    fn start(&mut self, now_ns: u64) {
        let schedule = self.progress.schedule;
        self.now_ns = now_ns;
        self.until_ns = now_ns
            .saturating_add(schedule.duration_ns())
            .saturating_add(schedule.grace_ns);
        self.progress.start_ns = now_ns;
        self.progress.advance(now_ns);
    }

    /// Whether no operation is to begin any more.
    fn is_over(&self) -> bool {
        self.now_ns >= self.until_ns || self.progress.begun == self.progress.schedule.count
    }

    #[cold]
    fn fail(&mut self, index: u64) {
        if let Some(failed) = self.failed.get_mut(index as usize) {
            *failed = true;
        }
        if is_gone(&self.tally) {
            self.until_ns = 0;
        }
    }

    /// The times between the stamps, in their places. What never started is entered with a lower
    /// bound if the device did not keep up, not at all if the user ended the run.
    fn into_run(mut self, block_size_bytes: u64) -> OpenRun {
        let (progress, now_ns, mut tally) = (self.progress, self.now_ns, self.tally);
        let arrived = match tally.cancelled || is_gone(&tally) {
            true => progress.begun,
            false => progress.due,
        };
        let times = self.begun_ns.iter_mut().zip(&mut self.ended_ns);
        let mut due_at = 0;
        for ((begun_ns, ended_ns), failed) in times.zip(&mut self.failed).take(arrived as usize) {
            let due_ns = progress.start_ns + (due_at >> FRACTION_BITS);
            due_at += progress.schedule.interval;
            let (service_ns, response_ns) = match (*begun_ns, *ended_ns) {
                (NEVER, _) => (0, now_ns.saturating_sub(due_ns).max(1)),
                // It was refused.
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
        for series in [&mut self.begun_ns, &mut self.ended_ns] {
            series.truncate(arrived as usize);
        }
        self.failed.truncate(arrived as usize);
        tally.bytes = tally.operations.saturating_mul(block_size_bytes);
        OpenRun {
            response_ns: self.ended_ns,
            service_ns: self.begun_ns,
            failed: self.failed,
            unserved: arrived - progress.begun.min(arrived),
            peak_backlog: progress.peak,
            end_backlog: progress.at_end.unwrap_or(progress.backlog),
            tally,
        }
    }
}

struct Progress {
    schedule: Schedule,
    start_ns: u64,
    /// Arrivals that are due, and when the next is: in fractions of a nanosecond from the start,
    /// and never after the last.
    due: u64,
    due_at: u64,
    /// Arrivals that were submitted.
    begun: u64,
    /// Those that are due and not completed, and the most of them.
    backlog: u64,
    peak: u64,
    at_end: Option<u64>,
}

impl Progress {
    fn new(schedule: &Schedule) -> Self {
        Self {
            schedule: *schedule,
            start_ns: 0,
            due: 0,
            due_at: 0,
            begun: 0,
            backlog: 0,
            peak: 0,
            at_end: None,
        }
    }

    #[inline(never)]
    fn advance(&mut self, now_ns: u64) {
        // The end of this nanosecond.
        let since = (now_ns.wrapping_sub(self.start_ns) << FRACTION_BITS) | FRACTION_MASK;
        while self.due_at <= since {
            self.due += 1;
            self.due_at += self.schedule.interval;
            self.backlog += 1;
            self.peak = self.peak.max(self.backlog);
            if self.due == self.schedule.count {
                self.at_end = Some(self.backlog);
                self.due_at = NEVER;
                break;
            }
        }
    }

    /// Time until the next arrival; long if there is none.
    fn until_next(&self, now_ns: u64) -> u64 {
        match self.due_at {
            NEVER => NEVER,
            due_at => (self.start_ns + (due_at >> FRACTION_BITS)).saturating_sub(now_ns),
        }
    }
}

#[cfg(test)]
#[path = "open_loop_tests.rs"]
mod tests;
