// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Operations in flight: the common part of closed and open loops.
//!
//! Each slot has a buffer of one block. If the device accepts a whole block and has a queue entry
//! for each slot, an operation is one request, which is submitted immediately. Otherwise it becomes
//! `ceil(block / largest)` requests, queued together as far as they fit, and ends when all of them
//! have completed. Nothing here allocates after construction, or reads a clock.

use crate::access::Operation;
use crate::tally::Tally;
use block::{Buffer, Completion, Device, Error, Geometry, Lent, Refused, Request};
use std::collections::VecDeque;

/// No slot: the end of the list of idle ones.
const NONE: u32 = u32::MAX;

/// Each slot occupies one cache line.
#[derive(Debug)]
#[repr(align(64))]
struct Slot {
    /// Its buffer while it is idle. If the device does not return the buffer, the slot is lost too.
    buffer: Option<Buffer>,
    /// The buffer's length, wherever the buffer is.
    address: usize,
    note: u64,
    lba: u64,
    next_idle: u32,
    outstanding: u32,
    failed: bool,
}

/// A completed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The note given to [`begin`](Flight::begin).
    pub(crate) note: u64,
    pub(crate) failed: bool,
}

/// The slots of one loop.
#[derive(Debug)]
pub(crate) struct Flight {
    operation: Operation,
    /// Whether writes are durable when they complete.
    pub(crate) durable: bool,
    /// Requests were submitted and not kicked.
    unkicked: bool,
    /// Each operation is one request, for which there is a queue entry.
    whole: bool,
    /// The first of the slots that wait for an operation; the one freed last is used first.
    idle: u32,
    /// Requests in flight in the device.
    outstanding: usize,
    slots: Box<[Slot]>,
    /// The slots' buffers while they are lent in pieces.
    lent: Box<[Option<Lent>]>,
    /// Slots with bytes that were not submitted, the oldest first.
    unsent: VecDeque<u32>,
    /// Properties of the device: binary logarithm of its block, largest transfer, and queue depth.
    shift: u8,
    longest_bytes: usize,
    depth: usize,
}

impl Flight {
    /// Makes one slot for each buffer.
    pub(crate) fn new(operation: Operation, buffers: Vec<Buffer>) -> Self {
        let count = buffers.len();
        let slot = |(buffer, next_idle): (Buffer, u32)| Slot {
            address: buffer.address(),
            buffer: Some(buffer),
            note: 0,
            lba: 0,
            next_idle,
            outstanding: 0,
            failed: false,
        };
        let mut slots: Box<[Slot]> = buffers.into_iter().zip(1..NONE).map(slot).collect();
        if let Some(last) = slots.last_mut() {
            last.next_idle = NONE;
        }
        Self {
            operation,
            durable: false,
            unkicked: false,
            whole: false,
            idle: if slots.is_empty() { NONE } else { 0 },
            outstanding: 0,
            slots,
            lent: (0..count).map(|_| None).collect(),
            unsent: VecDeque::with_capacity(count),
            shift: 0,
            longest_bytes: 0,
            depth: 0,
        }
    }

    /// Records the device's properties. Nothing of this loop may be in flight.
    pub(crate) fn prepare(&mut self, geometry: &Geometry) {
        self.shift = geometry.block_size_log2;
        self.longest_bytes = geometry.max_transfer_bytes();
        self.depth = usize::from(geometry.queue_depth);
        let fits = |slot: &Slot| match &slot.buffer {
            Some(buffer) => buffer.len() <= self.longest_bytes,
            None => true,
        };
        self.whole = self.slots.len() <= self.depth && self.slots.iter().all(fits);
    }

    /// Requests in flight in the device.
    #[inline]
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Whether an operation can begin.
    #[inline]
    pub(crate) fn has_idle(&self) -> bool {
        self.idle != NONE
    }

    /// Whether each operation is one request, for which there is a queue entry: the parameter
    /// `WHOLE` of the functions below, so that the usual case does not pay for the general one.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole
    }

    /// Whether nothing is in flight.
    #[inline]
    pub(crate) fn is_empty<const WHOLE: bool>(&self) -> bool {
        self.outstanding == 0 && (WHOLE || self.unsent.is_empty())
    }

    #[inline]
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

    /// Begins an operation in an idle slot, if there is one; false if it was refused. Requests that
    /// do not fit yet are submitted by [`submit`](Flight::submit); [`kick`](Flight::kick) notifies
    /// the device. The note is returned when the operation ends.
    #[inline]
    pub(crate) fn begin<const WHOLE: bool>(
        &mut self,
        device: &mut dyn Device,
        lba: u64,
        note: u64,
        tally: &mut Tally,
    ) -> bool {
        let index = self.idle;
        let Some(slot) = self.slots.get_mut(index as usize) else {
            return true;
        };
        self.idle = slot.next_idle;
        slot.note = note;
        let Some(buffer) = slot.buffer.take() else {
            return true;
        };
        if !WHOLE {
            self.queue(index, lba, buffer);
            return true;
        }
        let request = self.request(index, lba, buffer);
        if let Err(refused) = device.submit(request) {
            self.refused_whole(index, refused, tally);
            return false;
        }
        self.outstanding += 1;
        self.unkicked = true;
        true
    }

    fn queue(&mut self, index: u32, lba: u64, buffer: Buffer) {
        let place = self.lent.get_mut(index as usize);
        if let (Some(slot), Some(lent)) = (self.slots.get_mut(index as usize), place) {
            slot.lba = lba;
            slot.failed = false;
            *lent = Some(Lent::new(buffer));
            self.unsent.push_back(index);
        }
    }

    /// The slot has its buffer again.
    #[inline]
    fn rest(&mut self, index: u32, buffer: Buffer) {
        if let Some(slot) = self.slots.get_mut(index as usize) {
            slot.buffer = Some(buffer);
            slot.next_idle = self.idle;
            self.idle = index;
        }
    }

    #[cold]
    fn refused_whole(&mut self, index: u32, refused: Refused, tally: &mut Tally) {
        tally.errors += 1;
        tally.first_error.get_or_insert(refused.error);
        if let Some(buffer) = refused.request.operation.into_buffer() {
            self.rest(index, buffer);
        }
    }

    /// Submits as many waiting requests as the queue accepts; false after a refusal.
    #[inline]
    pub(crate) fn submit<const WHOLE: bool>(
        &mut self,
        device: &mut dyn Device,
        tally: &mut Tally,
    ) -> bool {
        WHOLE || self.submit_waiting(device, tally)
    }

    /// Kicks the device if anything was submitted since the last kick; returns whether it did.
    #[inline]
    pub(crate) fn kick(&mut self, device: &mut dyn Device) -> bool {
        let unkicked = self.unkicked;
        if unkicked {
            self.unkicked = false;
            device.kick();
        }
        unkicked
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
            let unsent = self.unsent_bytes(index);
            let place = self.lent.get_mut(index as usize);
            let (Some(slot), Some(Some(lent))) = (self.slots.get(index as usize), place) else {
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
                    tally.errors += u64::from(!slot.failed);
                    slot.failed = true;
                    tally.first_error.get_or_insert(refused.error);
                    accepted = false;
                    self.unsent.pop_front();
                    self.take_piece(index, refused.request.operation.into_buffer());
                    self.end_if_over(index);
                }
            }
        }
        accepted
    }

    /// The part of a slot's operation that is not submitted yet; empty if the operation failed.
    fn unsent_bytes(&self, index: u32) -> usize {
        let slot = self.slots.get(index as usize);
        match (slot, self.lent.get(index as usize)) {
            (Some(slot), Some(Some(lent))) if !slot.failed => lent.remaining_bytes(),
            _ => 0,
        }
    }

    /// Takes back a piece. A piece of another buffer is not accepted, and the slot is then lost.
    fn take_piece(&mut self, index: u32, piece: Option<Buffer>) {
        let place = self.lent.get_mut(index as usize);
        if let (Some(Some(lent)), Some(piece)) = (place, piece) {
            let _ = lent.give_back(piece);
        }
    }

    /// Makes a slot idle if no part of its operation is in flight or waiting; returns whether it
    /// did.
    fn end_if_over(&mut self, index: u32) -> bool {
        let is_out = |slot: &Slot| slot.outstanding > 0;
        if self.slots.get(index as usize).is_none_or(is_out) || self.unsent_bytes(index) > 0 {
            return false;
        }
        let place = self.lent.get_mut(index as usize);
        let Some(lent) = place.and_then(Option::take) else {
            return false;
        };
        if let Ok(buffer) = lent.into_whole() {
            self.rest(index, buffer);
        }
        true
    }

    /// Processes a completion; returns the operation if it was its last request.
    #[inline]
    pub(crate) fn take_back<const WHOLE: bool>(
        &mut self,
        completion: Completion,
        tally: &mut Tally,
    ) -> Option<Ended> {
        let Completion {
            tag,
            buffer,
            result,
        } = completion;
        if !WHOLE {
            return self.take_back_piece(tag, buffer, result, tally);
        }
        let slot = self.slots.get_mut(tag as usize)?;
        if slot.buffer.is_some() {
            // The device completed something that was not begun.
            return None;
        }
        if let Err(error) = result {
            failed_with(error, tally);
        }
        self.outstanding = self.outstanding.saturating_sub(1);
        if let Some(buffer) = buffer {
            if buffer.address() == slot.address {
                slot.buffer = Some(buffer);
                slot.next_idle = self.idle;
                self.idle = tag;
            }
        }
        Some(Ended {
            note: slot.note,
            failed: result.is_err(),
        })
    }

    fn take_back_piece(
        &mut self,
        index: u32,
        piece: Option<Buffer>,
        result: Result<(), Error>,
        tally: &mut Tally,
    ) -> Option<Ended> {
        let slot = self.slots.get_mut(index as usize)?;
        self.outstanding = self.outstanding.saturating_sub(1);
        slot.outstanding = slot.outstanding.saturating_sub(1);
        if let Err(error) = result {
            tally.errors += u64::from(!slot.failed);
            slot.failed = true;
            tally.first_error.get_or_insert(error);
        }
        let ended = Ended {
            note: slot.note,
            failed: slot.failed,
        };
        self.take_piece(index, piece);
        self.end_if_over(index).then_some(ended)
    }

    /// The buffers that the device returned.
    pub(crate) fn into_buffers(self) -> Vec<Buffer> {
        let slots = self.slots.into_vec();
        slots.into_iter().filter_map(|slot| slot.buffer).collect()
    }
}

#[cold]
fn failed_with(error: Error, tally: &mut Tally) {
    tally.errors += 1;
    tally.first_error.get_or_insert(error);
}

/// Whether the device has disappeared permanently.
#[cold]
pub(crate) fn is_gone(tally: &Tally) -> bool {
    tally.errors > 0 && tally.first_error == Some(Error::Gone)
}
