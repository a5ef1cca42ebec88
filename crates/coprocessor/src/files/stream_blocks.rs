// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Streams of the coprocessor, command by command: beginning, blocks, end.

use block::{Buffer, Clock};

use super::{FileNumber, FilesClient, PLACES, Pending};
use crate::command::{Opcode, RingCommand};
use crate::layout::{ORDER_BYTES, REPORT_BYTES};
use crate::order::Order;
use crate::status::{Code, Error};

/// A completed block of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockAnswer {
    pub(super) file: FileNumber,
    /// Its place in the ring.
    pub(crate) place: u8,
    /// The completion's value and detail, or the error.
    pub(crate) result: Result<(u64, u32), Error>,
    pub(crate) is_late: bool,
}

impl<C: Clock> FilesClient<C> {
    /// Begins a stream on `file` with the parameters of an order.
    pub(crate) fn begin_stream(
        &mut self,
        opcode: Opcode,
        file: FileNumber,
        order: &Order,
    ) -> Result<u64, Error> {
        let table = order.encode();
        // The report of its end also needs an entry.
        let data_offset = if self.scratch.len() < REPORT_BYTES {
            None
        } else {
            self.offset_of(&self.scratch)
        };
        let data_offset = data_offset.ok_or(Error::Block(block::Error::BufferUnreachable))?;
        if let Some(place) = self.scratch.get_mut(..ORDER_BYTES) {
            place.copy_from_slice(&table);
        }
        self.call(RingCommand {
            data_offset,
            data_bytes: ORDER_BYTES as u32,
            extra: u64::from(file.0),
            ..RingCommand::new(opcode)
        })
    }

    /// Sends a command for the block in `place` of a stream's ring.
    pub(crate) fn send_block(
        &mut self,
        opcode: Opcode,
        file: FileNumber,
        place: u8,
        number: u64,
        len_bytes: u32,
    ) -> Result<(), Error> {
        let is_block = |pending: &&Pending| matches!(pending, Pending::Block { .. });
        let blocks = self.pending.iter().flatten().filter(is_block);
        if blocks.count() + self.blocks.iter().flatten().count() >= PLACES {
            return Err(Error::Block(block::Error::QueueFull));
        }
        let command = RingCommand {
            data_bytes: len_bytes,
            argument: number,
            extra: u64::from(file.0),
            ..RingCommand::new(opcode)
        };
        let sent = self.send(command, Pending::Block { file, place });
        self.client.kick();
        sent.map_err(|(failure, _)| failure)
    }

    /// The next completed block of a stream. `Err`: the session has ended.
    pub(crate) fn take_block(&mut self, file: FileNumber) -> Result<Option<BlockAnswer>, Error> {
        while self.take_in() {}
        let mut blocks = self.blocks.iter();
        let found = blocks.position(|block| block.is_some_and(|block| block.file == file));
        // Later entries move up, so that the free ones stay after the last.
        let rest = found.and_then(|at| self.blocks.get_mut(at..));
        let taken = rest.and_then(|rest| {
            let taken = rest.first_mut()?.take();
            rest.rotate_left(1);
            taken
        });
        match taken {
            None if self.client.is_gone() => Err(self.gone()),
            taken => Ok(taken),
        }
    }

    /// Ends a stream: returns its last completion and the report, which contains the stream's
    /// error.
    pub(crate) fn end_stream(
        &mut self,
        opcode: Opcode,
        file: FileNumber,
        count: u64,
    ) -> Result<[u8; REPORT_BYTES], Error> {
        let data_offset = self.offset_of(&self.scratch).unwrap_or(u32::MAX);
        // A code that no report has, so that a report that was not written is noticed.
        if let Some(place) = self.scratch.get_mut(..8) {
            place.fill(0xff);
        }
        let answered = self.call(RingCommand {
            data_offset,
            data_bytes: REPORT_BYTES as u32,
            argument: count,
            extra: u64::from(file.0),
            ..RingCommand::new(opcode)
        });
        let mut report = [0; REPORT_BYTES];
        if let Some(found) = self.scratch.get(..REPORT_BYTES) {
            report.copy_from_slice(found);
        }
        match (answered, report.starts_with(&[0xff; 8])) {
            (Err(failure), true) => Err(failure),
            (Ok(_), true) => Err(Error::Interface(Code::NoStream)),
            (_, false) => Ok(report),
        }
    }

    /// The offset of a buffer in the session's data.
    pub(crate) fn place_of(&self, buffer: &Buffer) -> Result<u32, Error> {
        let offset = self.offset_of(buffer);
        offset.ok_or(Error::Block(block::Error::BufferUnreachable))
    }

    /// Whether the coprocessor certainly no longer accesses the session.
    pub(crate) fn is_released(&self) -> bool {
        self.client.is_released()
    }
}
