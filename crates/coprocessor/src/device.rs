// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The drive behind the coprocessor as a block device of the main CPU.
//!
//! Data lies in the session's part of the window: a buffer that is not in it is refused.

use block::{Buffer, Clock, Completion, Device, Error, Geometry, Operation, Refused, Request, Tag};

use crate::client::Client;
use crate::command::{Answer, FLAG_FUA, Opcode, RingCommand};
use crate::header::Access;
use crate::layout::RING_ENTRIES;
use crate::status::{self, Code, CompletionStatus};

/// A command in flight.
#[derive(Debug)]
struct Pending {
    tag: Tag,
    buffer: Option<Buffer>,
}

/// The precomputed parts of a transfer, for the length that was requested last.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// The length in bytes; while there is no shape, a length that no buffer has.
    len: usize,
    /// The last block, and the last offset in the data, at which it fits.
    last_lba: u64,
    last_offset: usize,
    /// Bits of the offset that must be clear.
    misaligned: usize,
}

const NO_SHAPE: Shape = Shape {
    len: usize::MAX,
    last_lba: 0,
    last_offset: 0,
    misaligned: 0,
};

/// The drive, through a session for blocks.
#[derive(Debug)]
pub struct CoprocessorDisk<C> {
    client: Client<C>,
    shape: Shape,
    /// The first address of the session's data, and its length.
    data: (usize, usize),
    geometry: Geometry,
    outstanding: usize,
    /// By identifier.
    pending: [Option<Pending>; RING_ENTRIES as usize],
    strays: u32,
}

impl<C: Clock> CoprocessorDisk<C> {
    /// A device over `client`, a session for blocks.
    pub fn new(client: Client<C>, access: Access) -> Self {
        let header = client.header();
        let (offset, len) = client.data();
        let mut geometry = header.geometry;
        let most = len >> geometry.block_size_log2;
        let most = u32::try_from(most).unwrap_or(u32::MAX).max(1);
        geometry.max_transfer_blocks = geometry.max_transfer_blocks.min(most);
        geometry.features.read_only |= access != Access::WriteBlocks;
        Self {
            data: (client.window().address() + offset, len),
            shape: NO_SHAPE,
            client,
            geometry,
            outstanding: 0,
            pending: [const { None }; RING_ENTRIES as usize],
            strays: 0,
        }
    }

    /// The session.
    pub const fn client(&self) -> &Client<C> {
        &self.client
    }

    /// Completions that matched no command.
    pub const fn strays(&self) -> u32 {
        self.strays
    }

    /// Whether a poll would find something.
    pub fn has_news(&mut self) -> bool {
        self.client.has_news()
    }

    /// Ends the session; true when its data belongs to the caller alone again.
    pub fn close(mut self) -> bool {
        self.client.detach()
    }

    #[inline(always)]
    fn command(&self, operation: &Operation) -> Result<RingCommand, Error> {
        let at = |buffer: &Buffer| {
            let offset = buffer.address().wrapping_sub(self.data.0);
            let is_inside = offset <= self.data.1 && buffer.len() <= self.data.1 - offset;
            if is_inside {
                Ok((offset as u32, buffer.len() as u32))
            } else {
                Err(Error::BufferUnreachable)
            }
        };
        let flags = |fua: bool| if fua { FLAG_FUA } else { 0 };
        Ok(match operation {
            Operation::Read { lba, buffer } => {
                let (data_offset, data_bytes) = at(buffer)?;
                RingCommand {
                    data_offset,
                    data_bytes,
                    argument: *lba,
                    ..RingCommand::new(Opcode::Read)
                }
            }
            Operation::Write { lba, buffer, fua } => {
                let (data_offset, data_bytes) = at(buffer)?;
                RingCommand {
                    data_offset,
                    data_bytes,
                    argument: *lba,
                    flags: flags(*fua),
                    ..RingCommand::new(Opcode::Write)
                }
            }
            Operation::Flush => RingCommand::new(Opcode::Flush),
            Operation::Discard { lba, block_count } => RingCommand {
                data_bytes: *block_count,
                argument: *lba,
                ..RingCommand::new(Opcode::Discard)
            },
            Operation::WriteZeroes {
                lba,
                block_count,
                fua,
            } => RingCommand {
                data_bytes: *block_count,
                argument: *lba,
                flags: flags(*fua),
                ..RingCommand::new(Opcode::WriteZeroes)
            },
        })
    }

    /// The inlined fast path: submits a transfer as long as the last one. Returns the buffer for
    /// any other or invalid request; [`submit_any`](Self::submit_any) then submits or refuses it.
    #[inline(always)]
    fn submit_same(
        &mut self,
        tag: Tag,
        opcode: Opcode,
        lba: u64,
        buffer: Buffer,
    ) -> Result<(), Buffer> {
        let (shape, len) = (&self.shape, buffer.len());
        let offset = buffer.address().wrapping_sub(self.data.0);
        let is_bad = len != shape.len
            || lba > shape.last_lba
            || offset > shape.last_offset
            || offset & shape.misaligned != 0;
        if is_bad || !self.client.has_credit() {
            return Err(buffer);
        }
        let index = self.client.place();
        let Some(place @ None) = self.pending.get_mut(index as usize) else {
            return Err(buffer);
        };
        *place = Some(Pending {
            tag,
            buffer: Some(buffer),
        });
        self.outstanding += 1;
        self.client.push([
            opcode as u64 | u64::from(index) << 16,
            offset as u64 | (len as u64) << 32,
            lba,
            0,
        ]);
        Ok(())
    }

    /// Submits any request, or returns why not.
    #[cold]
    #[inline(never)]
    #[allow(clippy::result_large_err)]
    fn submit_any(&mut self, request: Request) -> Result<(), Refused> {
        let refuse = |error, request| Err(Refused { error, request });
        if self.client.is_gone() {
            return refuse(Error::Gone, request);
        }
        if let Err(error) = self.geometry.check(&request.operation) {
            return refuse(error, request);
        }
        let command = match self.command(&request.operation) {
            Ok(command) => command,
            Err(error) => return refuse(error, request),
        };
        let free = self.pending.iter().position(Option::is_none);
        let (Some(index), true) = (free, self.client.has_credit()) else {
            return refuse(Error::QueueFull, request);
        };
        if let Operation::Read { buffer, .. } | Operation::Write { buffer, .. } = &request.operation
        {
            self.take_shape(buffer.len());
        }
        let id = index as u16;
        self.client.push(RingCommand { id, ..command }.encode());
        self.outstanding += 1;
        if let Some(place) = self.pending.get_mut(index) {
            *place = Some(Pending {
                tag: request.tag,
                buffer: request.operation.into_buffer(),
            });
        }
        Ok(())
    }

    /// `len` is allowed by the geometry and fits the data.
    fn take_shape(&mut self, len: usize) {
        let blocks = (len >> self.geometry.block_size_log2) as u64;
        self.shape = Shape {
            len,
            last_lba: self.geometry.block_count - blocks,
            last_offset: self.data.1 - len,
            misaligned: self.geometry.buffer_align_bytes as usize - 1,
        };
    }

    /// Takes the next completion, if any.
    #[inline(always)]
    fn take(&mut self) -> Option<Completion> {
        let first = self.client.peek()?;
        let answer = match first >> 16 {
            0 => None,
            _ => Some(self.client.rest(first)),
        };
        self.client.advance();
        let place = self.pending.get_mut(usize::from(first as u16));
        let Some(Pending { tag, buffer }) = place.and_then(Option::take) else {
            self.strays = self.strays.wrapping_add(1);
            return None;
        };
        self.outstanding -= 1;
        let result = match answer {
            None => Ok(()),
            Some(answer) => failed(&answer),
        };
        Some(Completion {
            tag,
            buffer,
            result,
        })
    }

    /// The session has ended: ends one command after the other. A buffer is given back only if the
    /// coprocessor certainly no longer uses it; otherwise the drive may still write to it.
    #[cold]
    fn end_one(&mut self) -> Option<Completion> {
        self.shape = NO_SHAPE;
        let is_released = self.client.is_released();
        let pending = self.pending.iter_mut().find_map(Option::take)?;
        self.outstanding -= 1;
        Some(Completion {
            tag: pending.tag,
            buffer: pending.buffer.filter(|_| is_released),
            result: Err(Error::Gone),
        })
    }
}

/// The block device's error for a status other than done, or for a late completion.
#[cold]
fn failed(answer: &Answer) -> Result<(), Error> {
    let status = CompletionStatus {
        code: answer.code & !crate::command::LATE,
        detail: answer.detail,
    };
    status.result().map_err(|failure| match failure {
        status::Error::Block(error) => error,
        status::Error::Interface(Code::NoRight) => Error::ReadOnly,
        status::Error::Interface(Code::OutsideGrant) => Error::OutOfRange,
        _ => Error::Unsupported,
    })
}

impl<C: Clock> Device for CoprocessorDisk<C> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    #[inline(always)]
    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        let tag = request.tag;
        match request.operation {
            Operation::Read { lba, buffer } => {
                match self.submit_same(tag, Opcode::Read, lba, buffer) {
                    Ok(()) => Ok(()),
                    Err(buffer) => self.submit_any(Request {
                        tag,
                        operation: Operation::Read { lba, buffer },
                    }),
                }
            }
            Operation::Write { lba, buffer, fua } if !fua && !self.geometry.features.read_only => {
                match self.submit_same(tag, Opcode::Write, lba, buffer) {
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
        self.client.kick();
    }

    #[inline(always)]
    fn poll(&mut self) -> Option<Completion> {
        if let Some(completion) = self.take() {
            return Some(completion);
        }
        if self.client.is_gone() {
            self.end_one()
        } else {
            None
        }
    }

    fn outstanding(&self) -> usize {
        self.outstanding
    }
}
