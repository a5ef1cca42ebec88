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
use crate::host::Clock;
use crate::path::Region;
use block::{Buffer, Device, Error, Lent, Request};
use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicBool, Ordering};

/// The longest service time that is told apart from longer ones: 100 s.
const SERVICE_TIME_MAX_NS: u64 = 100_000_000_000;
/// How long one wait for completions may last before cancellation is looked at.
const WAIT_US: u32 = 100_000;

/// Service times with a relative error of at most 1 %.
pub type ServiceTimes = Histogram<u32>;

/// An empty set of service times; recording into it never allocates.
///
/// # Errors
/// Never with the bounds used here.
pub fn service_times() -> Result<ServiceTimes, CellError> {
    Histogram::new_with_bounds(1, SERVICE_TIME_MAX_NS, 2).map_err(|_| CellError::Histogram)
}

/// Why a cell cannot be run at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CellError {
    /// The block size is no multiple of the device's.
    #[error("{block_size_bytes} bytes is no multiple of the device's block of {device_bytes}")]
    Unaligned {
        /// What was asked for.
        block_size_bytes: u64,
        /// The device's logical block.
        device_bytes: usize,
    },
    /// The region that the path may use is shorter than the span that all paths share.
    #[error("the path may use {region_bytes} bytes, and the comparison spans {span_bytes}")]
    RegionTooSmall {
        /// What the path may use.
        region_bytes: u64,
        /// What the comparison asked for.
        span_bytes: u64,
    },
    /// A buffer is not as long as a block.
    #[error("a buffer of {len_bytes} bytes was given for blocks of {block_size_bytes}")]
    BufferLength {
        /// The buffer's length.
        len_bytes: usize,
        /// The block size.
        block_size_bytes: u64,
    },
    /// The histogram of service times could not be made.
    #[error("the histogram of service times could not be made")]
    Histogram,
}

/// What a loop did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Operations that succeeded.
    pub operations: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// From the first submission to the last completion.
    pub elapsed_ns: u64,
    /// Operations that failed.
    pub errors: u64,
    /// The first failure.
    pub first_error: Option<Error>,
    /// Whether the user ended it early.
    pub cancelled: bool,
}

#[derive(Debug)]
enum Holding {
    /// The device broke its promise to give the buffer back: the slot is out of use.
    Nothing,
    Idle(Buffer),
    Busy(Lent),
}

#[derive(Debug)]
struct Slot {
    holding: Holding,
    lba: u64,
    started_ns: u64,
    outstanding: u32,
    failed: bool,
}

impl Slot {
    fn unsent_bytes(&self) -> usize {
        match &self.holding {
            Holding::Busy(lent) if !self.failed => lent.remaining_bytes(),
            _ => 0,
        }
    }

    fn begin(&mut self, lba: u64, now_ns: u64) {
        self.holding = match std::mem::replace(&mut self.holding, Holding::Nothing) {
            Holding::Idle(buffer) => Holding::Busy(Lent::new(buffer)),
            other => other,
        };
        self.lba = lba;
        self.started_ns = now_ns;
        self.failed = false;
    }

    /// Whether the operation's last piece is back.
    fn is_over(&self) -> bool {
        matches!(self.holding, Holding::Busy(_))
            && self.outstanding == 0
            && self.unsent_bytes() == 0
    }

    fn end(&mut self) {
        self.holding = match std::mem::replace(&mut self.holding, Holding::Nothing) {
            Holding::Busy(lent) => lent.into_whole().map_or(Holding::Nothing, Holding::Idle),
            other => other,
        };
    }
}

/// A closed loop over one device. Run it once to warm up and once to count.
#[derive(Debug)]
pub struct ClosedLoop {
    access: Access,
    first_lba: u64,
    offsets: Offsets,
    slots: Vec<Slot>,
    service_times: ServiceTimes,
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
        let check = || {
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
            for buffer in &buffers {
                let len_bytes = buffer.len();
                if len_bytes as u64 != block_size_bytes {
                    return Err(CellError::BufferLength {
                        len_bytes,
                        block_size_bytes,
                    });
                }
            }
            service_times()
        };
        let service_times = match check() {
            Ok(service_times) => service_times,
            Err(error) => return Err((error, buffers)),
        };
        let slot = |buffer| Slot {
            holding: Holding::Idle(buffer),
            lba: 0,
            started_ns: 0,
            outstanding: 0,
            failed: false,
        };
        Ok(Self {
            access,
            first_lba: region.first_lba,
            offsets,
            slots: buffers.into_iter().map(slot).collect(),
            service_times,
        })
    }

    /// The service times recorded so far.
    pub fn service_times(&self) -> &ServiceTimes {
        &self.service_times
    }

    /// Forgets the service times, after warming up.
    pub fn forget(&mut self) {
        self.service_times.reset();
    }

    /// The buffers that the device gave back.
    pub fn into_buffers(self) -> Vec<Buffer> {
        let buffer = |slot: Slot| match slot.holding {
            Holding::Idle(buffer) => Some(buffer),
            _ => None,
        };
        self.slots.into_iter().filter_map(buffer).collect()
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
        let mut tally = Tally::default();
        let start_ns = clock.now_ns();
        let deadline_ns = start_ns.saturating_add(duration_ns);
        let mut now_ns = start_ns;
        let mut going_on = true;
        let shift = device.geometry().block_size_log2;
        loop {
            if going_on {
                for slot in &mut self.slots {
                    if matches!(slot.holding, Holding::Idle(_)) {
                        let offset = self.offsets.next_offset();
                        slot.begin(self.first_lba + (offset >> shift), now_ns);
                    }
                }
            }
            going_on &= self.submit(device, &mut tally);
            if self.slots.iter().all(|slot| slot.outstanding == 0) {
                self.end_unsent();
                break;
            }
            let mut polled = 0;
            // Bounded by what was in flight when the drain began.
            let in_flight = device.outstanding();
            while polled < in_flight {
                let Some(completion) = device.poll() else {
                    break;
                };
                polled += 1;
                if self.take_back(completion, clock, &mut now_ns, &mut tally) {
                    going_on &= now_ns < deadline_ns;
                }
            }
            if polled == 0 {
                device.wait(WAIT_US);
            }
            if cancel.load(Ordering::Relaxed) {
                tally.cancelled = true;
                going_on = false;
            }
            going_on &= tally.first_error != Some(Error::Gone);
        }
        tally.elapsed_ns = clock.now_ns().saturating_sub(start_ns);
        tally
    }

    /// Submits as many pieces as the queue takes; false once one was refused.
    fn submit(&mut self, device: &mut dyn Device, tally: &mut Tally) -> bool {
        let geometry = *device.geometry();
        let mut accepted = true;
        let mut room = usize::from(geometry.queue_depth).saturating_sub(device.outstanding());
        let mut submitted = false;
        for (index, slot) in self.slots.iter_mut().enumerate() {
            // Bounded: each pass lends at least one block of a buffer of fixed length.
            while room > 0 && slot.unsent_bytes() > 0 {
                let Holding::Busy(lent) = &mut slot.holding else {
                    break;
                };
                let offset = lent.offset_bytes() as u64;
                let buffer = lent.lend(geometry.max_transfer_bytes());
                let lba = slot.lba + (offset >> geometry.block_size_log2);
                let operation = match self.access.operation {
                    Operation::Read => block::Operation::Read { lba, buffer },
                    Operation::Write => block::Operation::Write {
                        lba,
                        buffer,
                        fua: false,
                    },
                };
                let tag = index as u32;
                match device.submit(Request { tag, operation }) {
                    Ok(()) => {
                        slot.outstanding += 1;
                        room -= 1;
                        submitted = true;
                    }
                    Err(refused) => {
                        if let Some(piece) = refused.request.operation.into_buffer() {
                            // A piece of another buffer stays out, and the slot is then lost.
                            let _ = lent.give_back(piece);
                        }
                        tally.errors += u64::from(!slot.failed);
                        slot.failed = true;
                        tally.first_error.get_or_insert(refused.error);
                        accepted = false;
                    }
                }
            }
        }
        if submitted {
            device.kick();
        }
        accepted
    }

    /// Takes a completion; true if it ended an operation.
    fn take_back(
        &mut self,
        completion: block::Completion,
        clock: &dyn Clock,
        now_ns: &mut u64,
        tally: &mut Tally,
    ) -> bool {
        let Some(slot) = self.slots.get_mut(completion.tag as usize) else {
            return false;
        };
        slot.outstanding = slot.outstanding.saturating_sub(1);
        if let (Holding::Busy(lent), Some(piece)) = (&mut slot.holding, completion.buffer) {
            let _ = lent.give_back(piece);
        }
        if let Err(error) = completion.result {
            tally.errors += u64::from(!slot.failed);
            slot.failed = true;
            tally.first_error.get_or_insert(error);
        }
        if !slot.is_over() {
            return false;
        }
        *now_ns = clock.now_ns();
        if !slot.failed {
            tally.operations += 1;
            tally.bytes += self.access.block_size_bytes;
            self.service_times
                .saturating_record(now_ns.saturating_sub(slot.started_ns).max(1));
        }
        slot.end();
        true
    }

    /// Puts slots whose every piece was refused back to rest.
    fn end_unsent(&mut self) {
        for slot in &mut self.slots {
            slot.end();
        }
    }
}

#[cfg(test)]
#[path = "cell_tests.rs"]
mod tests;
