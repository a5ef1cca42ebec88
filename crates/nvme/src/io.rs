// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The I/O path: `submit` encodes a command, `kick` rings one doorbell for all of them, `poll`
//! reads one word of memory.
//!
//! Nothing here allocates, locks, sleeps or formats. A transfer within a page, of the length seen
//! last, is submitted inline; everything else takes the general path, out of line. What happens
//! when a command is overdue is in `service`.

use core::ops::Deref;

use block::{Buffer, Completion, Device, Geometry, Operation, Refused, Request, Tag};

use crate::controller::Controller;
use crate::memory::Sqe;
use crate::platform::Platform;
use crate::queue::QueuePair;
use crate::service::State;
use crate::status::Cqe3;

impl<P: Platform, C: Deref<Target = Controller<P>>, const DEPTH: usize> QueuePair<P, C, DEPTH> {
    /// The inlined fast path: submits a transfer within one page that is as long as the last one.
    /// Returns the buffer for any other or invalid request; [`submit_any`](Self::submit_any) then
    /// submits or refuses it.
    #[inline(always)]
    fn submit_page(
        &mut self,
        tag: Tag,
        is_write: bool,
        lba: u64,
        buffer: Buffer,
    ) -> Result<(), Buffer> {
        let (shape, address) = (&self.encoder.shape, buffer.address());
        let misaligned = address & shape.misaligned != 0;
        if buffer.len() != shape.len || misaligned || lba > shape.last_lba {
            return Err(buffer);
        }
        let Some(index) = self.slots.next() else {
            return Err(buffer);
        };
        let platform = &self.controller.platform;
        let Some(prp1) = platform.bus_address(address) else {
            return Err(buffer);
        };
        platform.clean(address, buffer.len());
        let now = platform.ticks();
        let cid = self.slots.take(index, tag, Some(buffer), now);
        let sqe = Sqe {
            dwords_0_1: u64::from(cid) << 16
                | if is_write {
                    self.encoder.shape.write
                } else {
                    self.encoder.shape.read
                },
            prp1,
            prp2: 0,
            dwords_10_11: lba,
            dwords_12_13: self.encoder.shape.last_block,
        };
        self.rings.submission.push(platform, sqe);
        Ok(())
    }

    /// Submits any request, or returns why not. Cold, so that the fast path stays compact.
    #[cold]
    #[inline(never)]
    #[allow(clippy::result_large_err)]
    fn submit_any(&mut self, request: Request) -> Result<(), Refused> {
        let (State::Ready, Some(index)) = (self.state(), self.slots.next()) else {
            let error = self.refusal();
            return Err(Refused { error, request });
        };
        let (platform, encoder) = (&self.controller.platform, &self.encoder);
        let checked = encoder.geometry.check(&request.operation);
        let encode = |()| encoder.encode(platform, index, &request.operation);
        let command = match checked.and_then(encode) {
            Ok(command) => command,
            Err(error) => return Err(Refused { error, request }),
        };
        let now = platform.ticks();
        let buffer = request.operation.into_buffer();
        encoder.clean(platform, index, buffer.as_ref());
        if let Some(len) = buffer.as_ref().map(|buffer| buffer.len()) {
            self.encoder.learn(len);
        }
        let cid = self.slots.take(index, request.tag, buffer, now);
        let platform = &self.controller.platform;
        self.rings.submission.push(platform, command.sqe(cid));
        Ok(())
    }

    /// The completion for an entry; `None` if the entry names no outstanding command.
    #[inline(always)]
    pub(crate) fn complete(&mut self, cqe3: Cqe3) -> Option<Completion> {
        let Some((tag, buffer)) = self.slots.end(cqe3.cid()) else {
            self.rings.took_stray();
            self.statistics.stray_completions += 1;
            return None;
        };
        if let Some(buffer) = &buffer {
            let platform = &self.controller.platform;
            platform.invalidate(buffer.address(), buffer.len());
        }
        if !cqe3.status().is_success() {
            self.failed(tag, buffer, cqe3);
            return self.error_completion.take();
        }
        let result = Ok(());
        Some(Completion {
            tag,
            buffer,
            result,
        })
    }

    /// Rings the submission doorbell for all that was submitted.
    #[inline(always)]
    fn ring_submission(&mut self) {
        let (old, tail) = (self.rings.rung_tail, self.rings.submission.tail());
        let (doorbell, platform) = (
            &self.registration.attached.submission,
            &self.controller.platform,
        );
        let mask = self.rings.submission.mask();
        let mut written = false;
        let rang = self.controller.gate.ring(
            self.registration.id,
            self.registration.attached.epoch,
            || {
                written = doorbell.write(platform, old, tail, mask);
            },
        );
        if rang {
            self.rings.rung_tail = tail;
            self.statistics.submission_doorbells += u64::from(written);
        } else {
            // A reset is in progress or has ended: the next poll finds out.
            self.watch.hasten();
        }
    }

    /// Rings the completion doorbell for all that was consumed.
    #[inline(never)]
    pub(crate) fn acknowledge(&mut self) {
        let head = self.rings.completion.head();
        let (old, mask) = (self.rings.rung_head, self.rings.completion.mask());
        let (doorbell, platform) = (
            &self.registration.attached.completion,
            &self.controller.platform,
        );
        let mut written = false;
        let rang = self.controller.gate.ring(
            self.registration.id,
            self.registration.attached.epoch,
            || {
                written = doorbell.write(platform, old, head, mask);
            },
        );
        if rang {
            self.rings.rung_head = head;
            self.rings.completion.half_consumed = false;
            self.statistics.completion_doorbells += u64::from(written);
        }
    }
}

impl<P: Platform, C: Deref<Target = Controller<P>>, const DEPTH: usize> Device
    for QueuePair<P, C, DEPTH>
{
    fn geometry(&self) -> &Geometry {
        &self.encoder.geometry
    }

    #[inline(always)]
    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        let tag = request.tag;
        match request.operation {
            Operation::Read { lba, buffer } => match self.submit_page(tag, false, lba, buffer) {
                Ok(()) => Ok(()),
                Err(buffer) => self.submit_any(Request {
                    tag,
                    operation: Operation::Read { lba, buffer },
                }),
            },
            Operation::Write { lba, buffer, fua }
                if !fua && !self.encoder.geometry.features.read_only =>
            {
                match self.submit_page(tag, true, lba, buffer) {
                    Ok(()) => Ok(()),
                    Err(buffer) => self.submit_any(Request {
                        tag,
                        operation: Operation::Write { lba, buffer, fua },
                    }),
                }
            }
            operation => self.submit_any(Request { tag, operation }),
        }
    }

    #[inline(always)]
    fn kick(&mut self) {
        if self.rings.has_unannounced() {
            self.ring_submission();
        }
        // The ring has twice `depth` entries. With a doorbell at least once each half, the
        // controller always has room for every outstanding command's completion.
        if self.rings.completion.half_consumed {
            self.acknowledge();
        }
    }

    #[inline(always)]
    fn poll(&mut self) -> Option<Completion> {
        if let Some(cqe3) = self.rings.completion.take(&self.controller.platform) {
            if let Some(completion) = self.complete(cqe3) {
                return Some(completion);
            }
        }
        if !self.watch.is_due() {
            return None;
        }
        self.error_completion = self.service();
        self.error_completion.take()
    }

    fn outstanding(&self) -> usize {
        self.rings.outstanding()
    }

    fn wait(&mut self, timeout_us: u32) {
        self.wait_for_completion(timeout_us);
    }
}
