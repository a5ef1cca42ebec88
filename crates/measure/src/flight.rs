//! Operations in flight: what closed and open loops share.
//!
//! Each slot has a buffer of one block. One that the device takes as a whole goes to it at once. A
//! longer one becomes `ceil(block / largest)` requests, queued together, and the operation is over
//! when all of them are back; so does one for which the queue has no room. Nothing here allocates
//! after it was made, or reads a clock.

use crate::access::Operation;
use crate::cell::Tally;
use block::{Buffer, Completion, Device, Error, Geometry, Lent, Refused, Request};
use std::collections::VecDeque;

#[derive(Debug)]
enum Holding {
    /// The device broke its promise to give the buffer back: the slot is out of use.
    Nothing,
    Idle(Buffer),
    /// The device has the whole of it, at this address, by one request.
    Whole(usize),
    Busy(Lent),
}

#[derive(Debug)]
struct Slot {
    holding: Holding,
    lba: u64,
    stamp: Stamp,
    outstanding: u32,
    failed: bool,
}

/// When an operation should have started, and when it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Its number.
    pub(crate) index: u64,
    /// When it arrived.
    pub(crate) intended_ns: u64,
    /// When it was submitted.
    pub(crate) started_ns: u64,
}

/// An operation that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) stamp: Stamp,
    pub(crate) failed: bool,
}

impl Slot {
    fn unsent_bytes(&self) -> usize {
        match &self.holding {
            Holding::Busy(lent) if !self.failed => lent.remaining_bytes(),
            _ => 0,
        }
    }

    fn end(&mut self) -> bool {
        self.holding = match std::mem::replace(&mut self.holding, Holding::Nothing) {
            Holding::Busy(lent) => lent.into_whole().map_or(Holding::Nothing, Holding::Idle),
            other => other,
        };
        matches!(self.holding, Holding::Idle(_))
    }
}

/// The slots of one loop.
#[derive(Debug)]
pub(crate) struct Flight {
    operation: Operation,
    /// Whether a write lasts when it is done.
    pub(crate) durable: bool,
    slots: Vec<Slot>,
    /// Slots that wait for an operation; the one freed last is used first.
    idle: Vec<u32>,
    /// Slots with bytes that were not submitted, the oldest first.
    unsent: VecDeque<u32>,
    /// Requests that the device has.
    outstanding: usize,
    /// Of the device: binary logarithm of its block, its largest transfer, and its queue.
    shift: u8,
    longest_bytes: usize,
    depth: usize,
    /// Requests were submitted and not kicked.
    unkicked: bool,
}

impl Flight {
    /// One slot a buffer.
    pub(crate) fn new(operation: Operation, buffers: Vec<Buffer>) -> Self {
        let slot = |buffer| Slot {
            holding: Holding::Idle(buffer),
            lba: 0,
            stamp: Stamp::default(),
            outstanding: 0,
            failed: false,
        };
        let slots: Vec<Slot> = buffers.into_iter().map(slot).collect();
        let count = u32::try_from(slots.len()).unwrap_or(u32::MAX);
        Self {
            operation,
            durable: false,
            idle: (0..count).rev().collect(),
            unsent: VecDeque::with_capacity(slots.len()),
            slots,
            outstanding: 0,
            shift: 0,
            longest_bytes: 0,
            depth: 0,
            unkicked: false,
        }
    }

    /// Takes down what the device is like. Nothing of this loop's may be in flight.
    pub(crate) fn prepare(&mut self, geometry: &Geometry) {
        self.shift = geometry.block_size_log2;
        self.longest_bytes = geometry.max_transfer_bytes();
        self.depth = usize::from(geometry.queue_depth);
    }

    /// Requests that the device has.
    #[inline]
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Whether an operation can begin.
    pub(crate) fn has_idle(&self) -> bool {
        !self.idle.is_empty()
    }

    /// Whether nothing is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.outstanding == 0 && self.unsent.is_empty()
    }

    fn request(&self, index: u32, lba: u64, buffer: Buffer) -> Request {
        let operation = match self.operation {
            Operation::Read => block::Operation::Read { lba, buffer },
            Operation::Write => block::Operation::Write {
                lba,
                buffer,
                fua: self.durable,
            },
        };
        Request {
            tag: index,
            operation,
        }
    }

    /// Begins an operation in an idle slot, if there is one; false if it was refused. What waits
    /// for room goes with [`submit`](Flight::submit), which also kicks the device.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        device: &mut dyn Device,
        lba: u64,
        stamp: Stamp,
        tally: &mut Tally,
    ) -> bool {
        let Some(index) = self.idle.pop() else {
            return true;
        };
        let Some(slot) = self.slots.get_mut(index as usize) else {
            return true;
        };
        slot.lba = lba;
        slot.stamp = stamp;
        slot.failed = false;
        let Holding::Idle(buffer) = std::mem::replace(&mut slot.holding, Holding::Nothing) else {
            return true;
        };
        let fits = buffer.len() <= self.longest_bytes;
        if !fits || !self.unsent.is_empty() || self.outstanding >= self.depth {
            slot.holding = Holding::Busy(Lent::new(buffer));
            self.unsent.push_back(index);
            return true;
        }
        slot.holding = Holding::Whole(buffer.address());
        slot.outstanding = 1;
        let request = self.request(index, lba, buffer);
        if let Err(refused) = device.submit(request) {
            self.refused_whole(index, refused, tally);
            return false;
        }
        self.outstanding += 1;
        self.unkicked = true;
        true
    }

    #[cold]
    fn refused_whole(&mut self, index: u32, refused: Refused, tally: &mut Tally) {
        tally.errors += 1;
        tally.first_error.get_or_insert(refused.error);
        if let Some(slot) = self.slots.get_mut(index as usize) {
            slot.outstanding = 0;
            slot.failed = true;
            if let Some(buffer) = refused.request.operation.into_buffer() {
                slot.holding = Holding::Idle(buffer);
                self.idle.push(index);
            }
        }
    }

    /// Submits as many of the waiting requests as the queue takes, and kicks the device; false
    /// once one was refused.
    #[inline]
    pub(crate) fn submit(&mut self, device: &mut dyn Device, tally: &mut Tally) -> bool {
        let accepted = self.unsent.is_empty() || self.submit_waiting(device, tally);
        if self.unkicked {
            self.unkicked = false;
            device.kick();
        }
        accepted
    }

    fn submit_waiting(&mut self, device: &mut dyn Device, tally: &mut Tally) -> bool {
        let longest = self.longest_bytes;
        let mut room = self.depth.saturating_sub(self.outstanding);
        let mut accepted = true;
        // Bounded: each pass submits a request, or takes a slot off the list.
        while room > 0 {
            let Some(&index) = self.unsent.front() else {
                break;
            };
            let Some(slot) = self.slots.get_mut(index as usize) else {
                self.unsent.pop_front();
                continue;
            };
            let unsent = slot.unsent_bytes();
            let Holding::Busy(lent) = &mut slot.holding else {
                self.unsent.pop_front();
                continue;
            };
            if unsent == 0 {
                self.unsent.pop_front();
                continue;
            }
            let lba = slot.lba + (lent.offset_bytes() as u64 >> self.shift);
            let buffer = lent.lend(longest);
            let request = self.request(index, lba, buffer);
            let Some(slot) = self.slots.get_mut(index as usize) else {
                break;
            };
            match device.submit(request) {
                Ok(()) => {
                    slot.outstanding += 1;
                    self.outstanding += 1;
                    room -= 1;
                    self.unkicked = true;
                    if unsent <= longest {
                        self.unsent.pop_front();
                    }
                }
                Err(refused) => {
                    let piece = refused.request.operation.into_buffer();
                    if let (Holding::Busy(lent), Some(piece)) = (&mut slot.holding, piece) {
                        // A piece of another buffer stays out, and the slot is then lost.
                        let _ = lent.give_back(piece);
                    }
                    tally.errors += u64::from(!slot.failed);
                    slot.failed = true;
                    tally.first_error.get_or_insert(refused.error);
                    accepted = false;
                    self.unsent.pop_front();
                    if slot.outstanding == 0 && slot.end() {
                        self.idle.push(index);
                    }
                }
            }
        }
        accepted
    }

    /// Takes a completion; the operation, if that was its last.
    #[inline]
    pub(crate) fn take_back(&mut self, completion: Completion, tally: &mut Tally) -> Option<Ended> {
        let index = completion.tag;
        let slot = self.slots.get_mut(index as usize)?;
        self.outstanding = self.outstanding.saturating_sub(1);
        slot.outstanding = slot.outstanding.saturating_sub(1);
        if let Err(error) = completion.result {
            tally.errors += u64::from(!slot.failed);
            slot.failed = true;
            tally.first_error.get_or_insert(error);
        }
        let Holding::Whole(address) = slot.holding else {
            return self.take_back_piece(index, completion.buffer);
        };
        slot.holding = match completion.buffer {
            Some(buffer) if buffer.address() == address => {
                self.idle.push(index);
                Holding::Idle(buffer)
            }
            _ => Holding::Nothing,
        };
        Some(Ended {
            stamp: slot.stamp,
            failed: slot.failed,
        })
    }

    fn take_back_piece(&mut self, index: u32, piece: Option<Buffer>) -> Option<Ended> {
        let slot = self.slots.get_mut(index as usize)?;
        if let (Holding::Busy(lent), Some(piece)) = (&mut slot.holding, piece) {
            let _ = lent.give_back(piece);
        }
        let is_over = matches!(slot.holding, Holding::Busy(_))
            && slot.outstanding == 0
            && slot.unsent_bytes() == 0;
        if !is_over {
            return None;
        }
        if slot.end() {
            self.idle.push(index);
        }
        Some(Ended {
            stamp: slot.stamp,
            failed: slot.failed,
        })
    }

    /// The buffers that the device gave back.
    pub(crate) fn into_buffers(self) -> Vec<Buffer> {
        let buffer = |slot: Slot| match slot.holding {
            Holding::Idle(buffer) => Some(buffer),
            _ => None,
        };
        self.slots.into_iter().filter_map(buffer).collect()
    }
}

/// Whether the device has gone for good.
#[inline]
pub(crate) fn is_gone(tally: &Tally) -> bool {
    tally.errors > 0 && tally.first_error == Some(Error::Gone)
}
