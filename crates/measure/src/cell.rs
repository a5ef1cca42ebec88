//! One cell: a closed loop of operations against one device.
//!
//! Each slot of the queue has one operation in flight; when it is done the slot starts the next.
//! A block longer than the device's largest transfer becomes `ceil(block / largest)` requests,
//! queued together, and the operation is done when all of them are back. The loop allocates
//! nothing, and reads the clock once an operation.
//!
//! Service times are from submission to completion *as this loop issued them*. A closed loop waits
//! while the device stalls, so they say nothing about what a periodic task would see.

use crate::access::{Access, Offsets, Operation};
use crate::flight::{Flight, is_gone};
use crate::host::Clock;
use crate::path::Region;
use crate::times::Times;
use block::{Buffer, Device};
use std::sync::atomic::{AtomicBool, Ordering};

pub use crate::tally::{CellError, ServiceTimes, Tally, service_times};

/// How long one wait for completions may last before cancellation is looked at.
const WAIT_US: u32 = 100_000;

/// A closed loop over one device. Run it once to warm up and once to count.
#[derive(Debug)]
pub struct ClosedLoop {
    access: Access,
    first_lba: u64,
    offsets: Offsets,
    flight: Flight,
    times: Times,
}

impl ClosedLoop {
    /// A loop with one operation in flight for each of `buffers`.
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
            times: Times::new(),
        })
    }

    /// The service times recorded so far.
    ///
    /// # Errors
    /// As [`service_times`].
    pub fn service_times(&self) -> Result<ServiceTimes, CellError> {
        self.times.to_histogram()
    }

    pub(crate) fn writes(&self) -> bool {
        self.access.operation == Operation::Write
    }

    /// Forgets the service times, after warming up.
    pub fn forget(&mut self) {
        self.times.forget();
    }

    /// The buffers that the device gave back.
    pub fn into_buffers(self) -> Vec<Buffer> {
        self.flight.into_buffers()
    }

    /// Keeps every slot busy for `duration_ns`, then lets what is in flight finish. Runs at least
    /// one operation; ends early on cancellation, on a refused request, and when the device has
    /// gone.
    pub fn run(
        &mut self,
        device: &mut dyn Device,
        clock: &dyn Clock,
        duration_ns: u64,
        cancel: &AtomicBool,
    ) -> Tally {
        self.flight.prepare(device.geometry());
        match self.flight.is_whole() {
            true => self.serve::<true>(device, clock, duration_ns, cancel),
            false => self.serve::<false>(device, clock, duration_ns, cancel),
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
        let lba_step = self.access.block_size_bytes >> device.geometry().block_size_log2;
        let start_ns = clock.now_ns();
        let mut now_ns = start_ns;
        // Operations begin until then; 0 when something has ended it.
        let mut until_ns = start_ns.saturating_add(duration_ns.max(1));
        loop {
            while now_ns < until_ns && self.flight.has_idle() {
                let lba = self.first_lba + self.offsets.next_index() * lba_step;
                // The end of the one before is the beginning of this one: one reading of the clock.
                let begun = self.flight.begin::<WHOLE>(device, lba, now_ns, &mut tally);
                if !begun {
                    until_ns = 0;
                }
            }
            if !self.flight.submit::<WHOLE>(device, &mut tally) {
                until_ns = 0;
            }
            self.flight.kick(device);
            if self.flight.is_empty::<WHOLE>() {
                break;
            }
            // Bounded by what was in flight when the drain began.
            let in_flight = self.flight.outstanding();
            let mut left = in_flight;
            while left > 0 {
                let Some(completion) = device.poll() else {
                    break;
                };
                left -= 1;
                if let Some(ended) = self.flight.take_back::<WHOLE>(completion, &mut tally) {
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
            .saturating_mul(self.access.block_size_bytes);
        tally.elapsed_ns = clock.now_ns().saturating_sub(start_ns);
        tally
    }
}

/// Whether the access fits the device and the buffers.
pub(crate) fn check(
    access: Access,
    span_bytes: u64,
    region: Region,
    geometry: &block::Geometry,
    buffers: &[Buffer],
) -> Result<(), CellError> {
    let block_size_bytes = access.block_size_bytes;
    let device_bytes = geometry.block_size_bytes();
    if block_size_bytes == 0 || block_size_bytes % device_bytes as u64 != 0 {
        return Err(CellError::Unaligned {
            block_size_bytes,
            device_bytes,
        });
    }
    let room = geometry.block_count.saturating_sub(region.first_lba);
    let region_bytes = region
        .block_count
        .min(room)
        .saturating_mul(device_bytes as u64);
    if region_bytes < span_bytes || span_bytes < block_size_bytes {
        return Err(CellError::RegionTooSmall {
            region_bytes,
            span_bytes: span_bytes.max(block_size_bytes),
        });
    }
    for buffer in buffers {
        let len_bytes = buffer.len();
        if len_bytes as u64 != block_size_bytes {
            return Err(CellError::BufferLength {
                len_bytes,
                block_size_bytes,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "cell_tests.rs"]
mod tests;
