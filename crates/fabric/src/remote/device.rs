// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests on an association.

use super::{Clock, Completion, Connect, FabricError, Geometry, Payload, QueueEntry, Remote};
use crate::command::io;
use crate::keeper::Keeper;
use crate::queue::Done;
use block::{Device, Error, Operation, Refused, Request};
use nvme::StatusField;

/// Deadlines are checked after this many polls without a completion.
const POLLS_PER_DEADLINE_CHECK: u32 = 256;
/// A path that failed fails a command at once: after this time without one it works again.
const ANSWER_US: u64 = 1_000_000;
const MOST_ZEROES: u32 = 1 << 16;

const FUA: u32 = 1 << 30;

/// The command of an operation, and its data.
fn encode(nsid: u32, operation: Operation, shift: u8) -> (QueueEntry, Payload) {
    let range = |lba: u64, blocks: u32, fua: bool| {
        let flags = if fua { FUA } else { 0 };
        [
            lba as u32,
            (lba >> 32) as u32,
            blocks.wrapping_sub(1) & 0xffff | flags,
        ]
    };
    match operation {
        Operation::Read { lba, buffer } => {
            let len = buffer.len() as u32;
            let dwords = range(lba, len >> shift, false);
            (
                QueueEntry::new(io::READ, nsid, &dwords),
                Payload::In(buffer, len),
            )
        }
        Operation::Write { lba, buffer, fua } => {
            let len = buffer.len() as u32;
            let dwords = range(lba, len >> shift, fua);
            (
                QueueEntry::new(io::WRITE, nsid, &dwords),
                Payload::Out(buffer, len),
            )
        }
        Operation::Flush => (QueueEntry::new(io::FLUSH, nsid, &[]), Payload::None),
        Operation::WriteZeroes {
            lba,
            block_count,
            fua,
        } => {
            let dwords = range(lba, block_count, fua);
            (
                QueueEntry::new(io::WRITE_ZEROES, nsid, &dwords),
                Payload::None,
            )
        }
        Operation::Discard { lba, block_count } => {
            let mut bytes = [0; 16];
            block::fields::put(&mut bytes, 4, &block_count.to_le_bytes());
            block::fields::put(&mut bytes, 8, &lba.to_le_bytes());
            // One range; attribute Deallocate.
            (
                QueueEntry::new(io::DATASET_MANAGEMENT, nsid, &[0, 4]),
                Payload::Short(bytes),
            )
        }
    }
}

impl<C: Connect, K: Clock, const DEPTH: usize, const QUEUES: usize> Remote<C, K, DEPTH, QUEUES> {
    /// The first error of a connection, or an overdue command.
    fn failure(&self, is_check_due: bool) -> Option<FabricError> {
        let errors = self.queues.iter().flatten().find_map(|queue| queue.error());
        let admin = self.admin.as_ref().and_then(Keeper::failure);
        if errors.or(admin).is_some() || !is_check_due {
            return errors.or(admin);
        }
        let most = self.clock.ticks_from_us(self.options.command_timeout_us);
        let retries = self.clock.ticks_from_us(self.options.reconnect_us);
        let now = self.clock.ticks();
        let mut queues = self.queues.iter().flatten();
        let is_overdue = queues.any(|queue| queue.is_overdue(now, most, retries));
        is_overdue.then_some(FabricError::TimedOut("a command"))
    }

    /// What is done now and then: notes whether the target was heard, tends the administration
    /// connection, and sends commands again whose path failed. Returns one that has failed for too
    /// long.
    fn look_after(&mut self) -> Option<Completion> {
        let now = self.clock.ticks();
        let mut kept = 0;
        for queue in self.queues.iter_mut().flatten() {
            if queue.take_heard() {
                self.heard = now;
            }
            kept += queue.kept();
        }
        if let Some(admin) = &mut self.admin {
            admin.tend(now);
        }
        if kept == 0 {
            self.retry_at = 0;
            // The answer to the last attempt has had time to come.
            if now.saturating_sub(self.retried_at) > self.clock.ticks_from_us(ANSWER_US) {
                self.retries.reset();
            }
            return None;
        }
        let all = self.clock.ticks_from_us(self.options.reconnect_us);
        // In a pause only what has failed its last attempt. That is at the end of its time, because
        // the path may have become accessible in the pause.
        let end = match self.retry_at {
            0 => now.saturating_sub(all),
            _ => 0,
        };
        let mut queues = self.queues.iter_mut().flatten();
        if let Some(done) = queues.find_map(|queue| queue.expire(end)) {
            return Some(self.complete(done));
        }
        if self.retry_at == 0 {
            let pause_us = self.retries.next_us(self.options.reconnect_us);
            let next = now.saturating_add(self.clock.ticks_from_us(pause_us));
            let queues = self.queues.iter().flatten();
            let oldest = queues.filter_map(|queue| queue.oldest_kept()).min();
            let last = oldest.map_or(next, |oldest| oldest.saturating_add(all));
            self.retry_at = next.min(last).max(now + 1);
        } else if now >= self.retry_at {
            self.retry_at = 0;
            self.retried_at = now;
            for queue in self.queues.iter_mut().flatten() {
                queue.retry(now.saturating_sub(all));
            }
        }
        None
    }

    fn check_failures(&mut self, is_check_due: bool) {
        if self.gone.is_none() {
            if let Some(error) = self.failure(is_check_due) {
                self.recover(error);
            }
        }
    }

    pub(super) fn complete(&mut self, done: Done) -> Completion {
        let buffer = done.buffer;
        let status = StatusField(done.status);
        match done.opcode {
            io::READ => {}
            io::FLUSH => self.unflushed.flush_ended(status.is_success()),
            // A discarded block has no contents that could be lost.
            io::DATASET_MANAGEMENT => {}
            _ if status.is_success() && !done.is_fua => self.unflushed.changed(),
            _ => {}
        }
        let result = if status.is_success() {
            if done.is_short {
                Err(Error::ShortTransfer {
                    done_bytes: done.received_bytes,
                })
            } else {
                Ok(())
            }
        } else {
            Err(Error::Nvme {
                status: done.status,
            })
        };
        Completion {
            tag: done.tag,
            buffer,
            result,
        }
    }
}

impl<C: Connect, K: Clock, const DEPTH: usize, const QUEUES: usize> Device
    for Remote<C, K, DEPTH, QUEUES>
{
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, mut request: Request) -> Result<(), Refused> {
        match &mut request.operation {
            Operation::Write { fua, .. } | Operation::WriteZeroes { fua, .. } => {
                *fua |= self.options.writes_through;
            }
            _ => {}
        }
        let checked = self.geometry.check(&request.operation);
        let error = match (&request.operation, checked) {
            (_, Err(error)) => Some(error),
            (Operation::WriteZeroes { block_count, .. }, _) if *block_count > MOST_ZEROES => {
                Some(Error::TooLarge)
            }
            _ => None,
        };
        if let Some(error) = error {
            return Err(Refused { error, request });
        }
        self.check_failures(false);
        if self.is_degraded {
            if let Some(error) = self.gone {
                return Err(Refused { error, request });
            }
            if self.outstanding() >= usize::from(self.geometry.queue_depth) {
                let error = Error::QueueFull;
                return Err(Refused { error, request });
            }
            let is_change = !matches!(request.operation, Operation::Read { .. } | Operation::Flush);
            if is_change && self.clock.ticks() < self.fence {
                let (entry, data) = encode(
                    self.namespace.nsid,
                    request.operation,
                    self.geometry.block_size_log2,
                );
                self.park_new(request.tag, entry, data);
                return Ok(());
            }
        }
        let count = self.queues.iter().flatten().count().max(1);
        let depth = usize::from(self.geometry.queue_depth)
            .div_ceil(count)
            .min(DEPTH);
        let mut order = (0..count).map(|index| (self.turn + index) % count);
        let free = order.find(|index| {
            let queue = self.queues.get(*index).and_then(Option::as_ref);
            queue.is_some_and(|queue| queue.outstanding() < depth)
        });
        let queue = free.and_then(|index| self.queues.get_mut(index)?.as_mut());
        let Some(queue) = queue else {
            let error = Error::QueueFull;
            return Err(Refused { error, request });
        };
        self.turn = free.map_or(0, |index| index + 1);
        let tag = request.tag;
        if matches!(request.operation, Operation::Flush) {
            self.unflushed.flush_begins();
        }
        let (entry, data) = encode(
            self.namespace.nsid,
            request.operation,
            self.geometry.block_size_log2,
        );
        let now = self.clock.ticks();
        let refused = queue.submit(tag, entry, data, now);
        debug_assert!(refused.is_ok(), "the queue had room");
        Ok(())
    }

    fn kick(&mut self) {
        for queue in self.queues.iter_mut().flatten() {
            queue.kick();
        }
    }

    fn poll(&mut self) -> Option<Completion> {
        if self.is_degraded {
            let parked = self.poll_parked();
            if parked.is_some() || self.gone.is_some() {
                return parked;
            }
        }
        for queue in self.queues.iter_mut().flatten() {
            if queue.outstanding() == 0 {
                continue;
            }
            if let Some(done) = queue.poll() {
                self.empty_polls = 0;
                return Some(self.complete(done));
            }
            if queue.has_output() {
                queue.kick();
            }
        }
        self.empty_polls += 1;
        let is_check_due = self.empty_polls >= POLLS_PER_DEADLINE_CHECK;
        if is_check_due {
            self.empty_polls = 0;
            if let Some(completion) = self.look_after() {
                return Some(completion);
            }
        }
        self.check_failures(is_check_due);
        None
    }

    fn outstanding(&self) -> usize {
        let queues = self.queues.iter().flatten();
        self.parked_count + queues.map(|queue| queue.outstanding()).sum::<usize>()
    }

    fn wait(&mut self, timeout_us: u32) {
        // What follows a sleep is the time to look at deadlines.
        self.empty_polls = POLLS_PER_DEADLINE_CHECK;
        let mut busy = self
            .queues
            .iter_mut()
            .flatten()
            .filter(|queue| queue.outstanding() != 0);
        if let Some(first) = busy.next() {
            let timeout_us = match busy.next() {
                Some(_) => timeout_us.min(200),
                None => timeout_us.min(100_000),
            };
            first.wait(timeout_us);
        } else if self.parked_count != 0 {
            self.wait_parked(timeout_us);
        }
    }
}
