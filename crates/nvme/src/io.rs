//! The path that every request takes, top to bottom: `submit` encodes a command, `kick` rings one
//! doorbell for all of them, `poll` looks at one word of memory.
//!
//! Nothing here allocates, locks, sleeps or formats. A transfer within a page, of the length seen
//! last, is submitted inline; everything else takes the general way, out of line. What happens when
//! a command is overdue is in `service`.

use core::ops::Deref;

use block::{Buffer, Completion, Device, Error, Geometry, Operation, Refused, Request, Tag};

use crate::command::{Command, DEALLOCATE, FUA, io};
use crate::controller::Controller;
use crate::memory::{Entry, List};
use crate::platform::Platform;
use crate::prp;
use crate::queue::{MAX_BLOCKS, QueuePair};
use crate::service::State;
use crate::status::Cqe3;

/// What [`Dma`](crate::Dma) memory is made of: within a page, one bus address is enough.
const PAGE: usize = 4096;

/// Transfers within a page of the length that was last asked for: what of them can be known
/// beforehand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// The length in bytes; one that no buffer has while there is no shape.
    len: usize,
    /// Bits that such a buffer's address must not have, so that it does not leave its page.
    misaligned: usize,
    /// The last LBA at which it fits the namespace.
    last_lba: u64,
    /// Its number of blocks, less one.
    last_block: u64,
    /// Command dwords 0 and 1, without the identifier.
    read: u64,
    write: u64,
}

impl Shape {
    pub(crate) const NONE: Self = Self {
        len: usize::MAX,
        misaligned: 0,
        last_lba: 0,
        last_block: 0,
        read: 0,
        write: 0,
    };

    /// The shape of transfers of `len` bytes, which the geometry allows and a page holds.
    fn of(geometry: &Geometry, namespace: u32, len: usize) -> Self {
        let last_block = (len >> geometry.block_size_log2) as u64 - 1;
        let command = |opcode: u8| u64::from(namespace) << 32 | u64::from(opcode);
        Self {
            len,
            misaligned: if len.is_power_of_two() { len } else { PAGE } - 1,
            last_lba: geometry.block_count - 1 - last_block,
            last_block,
            read: command(io::READ),
            write: command(io::WRITE),
        }
    }
}

impl<P: Platform, C: Deref<Target = Controller<P>>, const DEPTH: usize> QueuePair<P, C, DEPTH> {
    /// Submits a transfer within one page and as long as the last such, inline. Gives the buffer
    /// back if it is not one, or if anything is the matter with it:
    /// [`submit_any`](Self::submit_any) does it, or says what.
    #[inline(always)]
    fn submit_page(
        &mut self,
        tag: Tag,
        is_write: bool,
        lba: u64,
        buffer: Buffer,
    ) -> Result<(), Buffer> {
        let (shape, address) = (&self.shape, buffer.address());
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
        let now = platform.ticks();
        let identifier = self.slots.take(index, tag, Some(buffer), now);
        self.submission.push(Entry {
            dwords_0_1: u64::from(identifier) << 16
                | if is_write {
                    self.shape.write
                } else {
                    self.shape.read
                },
            prp1,
            prp2: 0,
            dwords_10_11: lba,
            dwords_12_13: self.shape.last_block,
        });
        Ok(())
    }

    /// Submits any request, or says why not. Cold, so that it stays out of the way of the other.
    #[cold]
    #[inline(never)]
    #[allow(clippy::result_large_err)]
    fn submit_any(&mut self, request: Request) -> Result<(), Refused> {
        let (State::Ready, Some(index)) = (self.state, self.slots.next()) else {
            let error = self.refusal();
            return Err(Refused { error, request });
        };
        let checked = self.geometry.check(&request.operation);
        let command = match checked.and_then(|()| self.encode(index, &request.operation)) {
            Ok(command) => command,
            Err(error) => return Err(Refused { error, request }),
        };
        let now = self.controller.platform.ticks();
        let buffer = request.operation.into_buffer();
        if let Some(len) = buffer.as_ref().map(|buffer| buffer.len()) {
            if len <= PAGE {
                self.shape = Shape::of(&self.geometry, self.namespace, len);
            }
        }
        let identifier = self.slots.take(index, request.tag, buffer, now);
        self.submission.push(command.entry(identifier));
        Ok(())
    }

    /// The command for `operation` in slot `index`, without its identifier.
    fn encode(&self, index: usize, operation: &Operation) -> Result<Command, Error> {
        let mut command = Command {
            namespace: self.namespace,
            ..Command::default()
        };
        let flags = |fua: bool| if fua { FUA } else { 0 };
        match operation {
            Operation::Read { lba, buffer } => {
                command.opcode = io::READ;
                self.point_to(&mut command, index, *lba, buffer, 0)?;
            }
            Operation::Write { lba, buffer, fua } => {
                command.opcode = io::WRITE;
                self.point_to(&mut command, index, *lba, buffer, flags(*fua))?;
            }
            Operation::Flush => command.opcode = io::FLUSH,
            Operation::Discard { lba, block_count } => {
                // One range in the slot's list memory: attributes, length, start.
                let mut list = self.list(index).ok_or(Error::TooLarge)?;
                list.write(0, u64::from(*block_count) << 32);
                list.write(1, *lba);
                command.opcode = io::DATASET_MANAGEMENT;
                command.prp1 = list.bus;
                command.dwords = [0, DEALLOCATE, 0, 0];
            }
            Operation::WriteZeroes {
                lba,
                block_count,
                fua,
            } => {
                if *block_count > MAX_BLOCKS {
                    return Err(Error::TooLarge);
                }
                command.opcode = io::WRITE_ZEROES;
                command.dwords = range(*lba, *block_count, flags(*fua));
            }
        }
        Ok(command)
    }

    fn point_to(
        &self,
        command: &mut Command,
        index: usize,
        lba: u64,
        buffer: &Buffer,
        flags: u32,
    ) -> Result<(), Error> {
        let (address, len) = (buffer.address(), buffer.len());
        let platform = &self.controller.platform;
        let list = || self.list(index);
        (command.prp1, command.prp2) = prp::build(platform, address, len, self.page_shift, list)?;
        let block_count = (len >> self.geometry.block_size_log2) as u32;
        command.dwords = range(lba, block_count, flags);
        Ok(())
    }

    fn list(&self, index: usize) -> Option<List> {
        List::of_slot(&self.lists, index, self.list_stride)
    }

    /// The completion that an entry announces. `None` if it names no outstanding command.
    #[inline(always)]
    pub(crate) fn complete(&mut self, cqe3: Cqe3) -> Option<Completion> {
        let Some((tag, buffer)) = self.slots.end(cqe3.cid()) else {
            self.skew = self.skew.wrapping_add(1);
            self.statistics.stray_completions += 1;
            return None;
        };
        if !cqe3.status().is_success() {
            self.failed(tag, buffer, cqe3);
            return self.rare.take();
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
        let (old, tail) = (self.rung_tail, self.submission.tail());
        let (doorbell, platform) = (&self.attached.submission, &self.controller.platform);
        let mask = self.submission.mask();
        let mut written = false;
        let rang = self.controller.gate.ring(self.id, self.attached.epoch, || {
            written = doorbell.write(platform, old, tail, mask);
        });
        if rang {
            self.rung_tail = tail;
            self.statistics.submission_doorbells += u64::from(written);
        } else {
            // A reset is under way or over: the next poll finds out.
            self.budget = 1;
        }
    }

    /// Rings the completion doorbell for all that was consumed.
    #[inline(never)]
    pub(crate) fn acknowledge(&mut self) {
        let head = self.completion.head();
        let (old, mask) = (self.rung_head, self.completion.mask());
        let (doorbell, platform) = (&self.attached.completion, &self.controller.platform);
        let mut written = false;
        let rang = self.controller.gate.ring(self.id, self.attached.epoch, || {
            written = doorbell.write(platform, old, head, mask);
        });
        if rang {
            self.rung_head = head;
            self.completion.has_turned = false;
            self.statistics.completion_doorbells += u64::from(written);
        }
    }
}

#[inline(always)]
fn range(lba: u64, block_count: u32, flags: u32) -> [u32; 4] {
    let count = block_count.wrapping_sub(1) & 0xffff;
    [lba as u32, (lba >> 32) as u32, count | flags, 0]
}

impl<P: Platform, C: Deref<Target = Controller<P>>, const DEPTH: usize> Device
    for QueuePair<P, C, DEPTH>
{
    fn geometry(&self) -> &Geometry {
        &self.geometry
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
            Operation::Write { lba, buffer, fua } if !fua && !self.geometry.features.read_only => {
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
        if self.submission.has_passed(self.rung_tail) {
            self.ring_submission();
        }
        // The ring has twice `depth` entries. Told at least once each half, the controller always
        // has room for every outstanding command's completion.
        if self.completion.has_turned {
            self.acknowledge();
        }
    }

    #[inline(always)]
    fn poll(&mut self) -> Option<Completion> {
        if let Some(cqe3) = self.completion.take() {
            if let Some(completion) = self.complete(cqe3) {
                return Some(completion);
            }
        }
        self.budget = self.budget.wrapping_sub(1);
        if self.budget != 0 {
            return None;
        }
        self.rare = self.service();
        self.rare.take()
    }

    fn outstanding(&self) -> usize {
        // Submitted less completed; both rings have the same length, twice what can be outstanding.
        let (tail, head) = (self.submission.tail(), self.completion.head());
        (tail.wrapping_sub(head).wrapping_add(self.skew) & self.completion.mask()) as usize
    }

    fn wait(&mut self, timeout_us: u32) {
        self.wait_for_completion(timeout_us);
    }
}
