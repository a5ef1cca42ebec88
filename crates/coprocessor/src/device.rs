//! The drive behind the coprocessor as a block device of the main CPU.
//!
//! Data lies in the session's part of the window: a buffer that is not in it is refused.

use block::{Buffer, Clock, Completion, Device, Error, Geometry, Operation, Refused, Request, Tag};

use crate::client::Client;
use crate::command::{Answer, Command, FLAG_FUA, Opcode};
use crate::header::Access;
use crate::layout::RING_ENTRIES;
use crate::status::{Code, Failure, Status};

/// A command that is under way.
#[derive(Debug)]
struct Pending {
    tag: Tag,
    buffer: Option<Buffer>,
}

/// The drive, through a session for blocks.
#[derive(Debug)]
pub struct CoprocessorDisk<C> {
    client: Client<C>,
    geometry: Geometry,
    /// The first address of the session's data, and its length.
    data: (usize, usize),
    /// By identifier: the place of a command in the ring when it was submitted.
    pending: [Option<Pending>; RING_ENTRIES as usize],
    free: [u8; RING_ENTRIES as usize],
    free_count: usize,
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
        let mut free = [0; RING_ENTRIES as usize];
        for (index, place) in free.iter_mut().enumerate() {
            *place = index as u8;
        }
        Self {
            data: (client.window().address() + offset, len),
            client,
            geometry,
            pending: [const { None }; RING_ENTRIES as usize],
            free,
            free_count: RING_ENTRIES as usize,
            strays: 0,
        }
    }

    /// The session.
    pub const fn client(&self) -> &Client<C> {
        &self.client
    }

    /// Completions that named no command.
    pub const fn strays(&self) -> u32 {
        self.strays
    }

    /// Whether a poll would find something.
    pub fn has_news(&mut self) -> bool {
        self.client.has_news()
    }

    /// Ends the session; true when its data is the caller's alone again.
    pub fn close(mut self) -> bool {
        self.client.detach()
    }

    #[inline(always)]
    fn command(&self, operation: &Operation) -> Result<Command, Error> {
        let at = |buffer: &Buffer| {
            let offset = buffer.address().wrapping_sub(self.data.0);
            let is_inside = offset <= self.data.1 && buffer.len() <= self.data.1 - offset;
            match is_inside {
                true => Ok((offset as u32, buffer.len() as u32)),
                false => Err(Error::BufferUnreachable),
            }
        };
        let flags = |fua: bool| if fua { FLAG_FUA } else { 0 };
        Ok(match operation {
            Operation::Read { lba, buffer } => {
                let (data_offset, data_bytes) = at(buffer)?;
                Command {
                    data_offset,
                    data_bytes,
                    argument: *lba,
                    ..Command::new(Opcode::Read)
                }
            }
            Operation::Write { lba, buffer, fua } => {
                let (data_offset, data_bytes) = at(buffer)?;
                Command {
                    data_offset,
                    data_bytes,
                    argument: *lba,
                    flags: flags(*fua),
                    ..Command::new(Opcode::Write)
                }
            }
            Operation::Flush => Command::new(Opcode::Flush),
            Operation::Discard { lba, block_count } => Command {
                data_bytes: *block_count,
                argument: *lba,
                ..Command::new(Opcode::Discard)
            },
            Operation::WriteZeroes {
                lba,
                block_count,
                fua,
            } => Command {
                data_bytes: *block_count,
                argument: *lba,
                flags: flags(*fua),
                ..Command::new(Opcode::WriteZeroes)
            },
        })
    }

    #[inline(always)]
    fn finish(&mut self, answer: Answer) -> Option<Completion> {
        let index = usize::from(answer.id);
        let pending = self.pending.get_mut(index).and_then(Option::take);
        let Some(Pending { tag, buffer }) = pending else {
            self.strays = self.strays.wrapping_add(1);
            return None;
        };
        self.release(index);
        let result = match answer.code {
            0 => Ok(()),
            _ => failed(&answer),
        };
        Some(Completion {
            tag,
            buffer,
            result,
        })
    }

    #[inline(always)]
    fn release(&mut self, index: usize) {
        if let Some(place) = self.free.get_mut(self.free_count) {
            *place = index as u8;
            self.free_count += 1;
        }
    }

    /// The session is over: one command after the other ends. A buffer comes back only if the
    /// coprocessor surely has no use for it; otherwise the drive may still write to it.
    #[cold]
    fn end_one(&mut self) -> Option<Completion> {
        let is_released = self.client.is_released();
        let mut all = self.pending.iter_mut().enumerate();
        let (index, pending) = all.find_map(|(index, place)| Some((index, place.take()?)))?;
        self.release(index);
        Some(Completion {
            tag: pending.tag,
            buffer: pending.buffer.filter(|_| is_released),
            result: Err(Error::Gone),
        })
    }
}

/// What a block device says of an answer that is not done, or done late.
#[cold]
fn failed(answer: &Answer) -> Result<(), Error> {
    let status = Status {
        code: answer.code & !crate::command::LATE,
        detail: answer.detail,
    };
    status.result().map_err(|failure| match failure {
        Failure::Block(error) => error,
        Failure::Interface(Code::NoRight) => Error::ReadOnly,
        Failure::Interface(Code::OutsideGrant) => Error::OutOfRange,
        _ => Error::Unsupported,
    })
}

impl<C: Clock> Device for CoprocessorDisk<C> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    #[inline(always)]
    fn submit(&mut self, request: Request) -> Result<(), Refused> {
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
        let next = self.free_count.wrapping_sub(1);
        let Some(index) = self.free.get(next).copied() else {
            return refuse(Error::QueueFull, request);
        };
        let Some(place) = self.pending.get_mut(usize::from(index)) else {
            return refuse(Error::QueueFull, request);
        };
        let id = u16::from(index);
        if !self.client.submit(&Command { id, ..command }) {
            return refuse(Error::QueueFull, request);
        }
        self.free_count = next;
        *place = Some(Pending {
            tag: request.tag,
            buffer: request.operation.into_buffer(),
        });
        Ok(())
    }

    #[inline(always)]
    fn kick(&mut self) {
        self.client.kick();
    }

    #[inline(always)]
    fn poll(&mut self) -> Option<Completion> {
        if let Some(answer) = self.client.poll() {
            return self.finish(answer);
        }
        match self.client.is_gone() {
            true => self.end_one(),
            false => None,
        }
    }

    fn outstanding(&self) -> usize {
        RING_ENTRIES as usize - self.free_count
    }
}
