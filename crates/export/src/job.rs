// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A request under way: its buffers, the commands that it consists of, and its answer.

use crate::{ExportCommand, Request};
use block::{Buffer, Error, Lent, Operation};

/// The most blocks that one command zeroes or discards: what a drive's 16 bits hold, rounded to a
/// power of two.
const RANGE_BLOCKS: u64 = 1 << 15;

/// Names a request that an engine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(pub(crate) usize);

/// A buffer of the job.
#[derive(Debug)]
pub(crate) enum Piece {
    Here(Buffer),
    /// Its beginning is the device's.
    Lent(Lent),
    /// The device did not return it.
    Lost,
}

impl Piece {
    /// The buffer, if it is here.
    pub(crate) fn into_buffer(self) -> Option<Buffer> {
        match self {
            Self::Here(buffer) => Some(buffer),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// A write whose payload has not arrived.
    Filling,
    /// Commands are submitted.
    Running,
    /// The flush of a write that shall be durable by itself.
    Flushing,
}

#[derive(Debug)]
pub(crate) struct Job {
    pub client: usize,
    pub request: Request,
    pub stage: Stage,
    pub pieces: Vec<Piece>,
    /// First byte, and number of bytes, in whole blocks.
    start_bytes: u64,
    span_bytes: u64,
    /// Bytes of the span for which commands were submitted.
    submitted_bytes: u64,
    /// Bytes of the payload that arrived.
    filled_bytes: usize,
    pub in_flight: u32,
    pub error: Option<Error>,
    /// The client is gone: there is no answer.
    pub abandoned: bool,
    /// A flush must follow, because the commands themselves cannot be durable.
    pub flushes: bool,
}

impl Job {
    /// The whole blocks that a request covers: first byte and number of bytes.
    pub fn span(request: &Request, block_bytes: u64) -> (u64, u64) {
        let start = request.offset_bytes & !(block_bytes - 1);
        let end = request.offset_bytes + u64::from(request.len_bytes);
        (start, end.next_multiple_of(block_bytes) - start)
    }

    /// Whether it changes blocks.
    pub const fn changes(&self) -> bool {
        !matches!(
            self.request.command,
            ExportCommand::Read | ExportCommand::Flush
        )
    }

    /// Whether two requests have a block in common.
    pub const fn overlaps(&self, other: &Self) -> bool {
        self.start_bytes < other.start_bytes + other.span_bytes
            && other.start_bytes < self.start_bytes + self.span_bytes
    }

    pub fn new(client: usize, request: Request, block_bytes: u64, pieces: Vec<Piece>) -> Self {
        let (start_bytes, span_bytes) = match request.command {
            ExportCommand::Flush => (0, 0),
            _ => Self::span(&request, block_bytes),
        };
        Self {
            client,
            request,
            stage: match request.command {
                ExportCommand::Write => Stage::Filling,
                ExportCommand::Flush => Stage::Flushing,
                _ => Stage::Running,
            },
            pieces,
            start_bytes,
            span_bytes,
            submitted_bytes: 0,
            filled_bytes: 0,
            in_flight: 0,
            error: None,
            abandoned: false,
            flushes: false,
        }
    }

    /// Where the next bytes of the payload go.
    pub fn space(&mut self, piece_bytes: usize) -> &mut [u8] {
        let left = self.request.len_bytes as usize - self.filled_bytes;
        let (index, at) = (
            self.filled_bytes / piece_bytes,
            self.filled_bytes % piece_bytes,
        );
        match self.pieces.get_mut(index) {
            Some(Piece::Here(buffer)) => {
                let end = buffer.len().min(at.saturating_add(left));
                buffer.get_mut(at..end).unwrap_or_default()
            }
            _ => &mut [],
        }
    }

    /// Counts bytes of the payload; true when it is complete.
    pub fn fill(&mut self, bytes: usize) -> bool {
        self.filled_bytes += bytes;
        self.filled_bytes >= self.request.len_bytes as usize
    }

    /// Whether another command is to be submitted.
    pub fn has_next(&self) -> bool {
        match self.stage {
            Stage::Filling => false,
            Stage::Running => self.error.is_none() && self.submitted_bytes < self.span_bytes,
            Stage::Flushing => self.submitted_bytes == self.span_bytes && self.in_flight == 0,
        }
    }

    /// The next command, and the number of its piece.
    pub fn next(
        &mut self,
        piece_bytes: usize,
        block_size_log2: u8,
        native_fua: bool,
    ) -> Option<(usize, Operation)> {
        if self.stage == Stage::Flushing {
            return Some((0, Operation::Flush));
        }
        let lba = (self.start_bytes + self.submitted_bytes) >> block_size_log2;
        let left = self.span_bytes - self.submitted_bytes;
        let fua = self.request.fua && native_fua;
        let blocks = (left >> block_size_log2).min(RANGE_BLOCKS);
        let block_count = blocks as u32;
        match self.request.command {
            ExportCommand::Trim => {
                self.submitted_bytes += blocks << block_size_log2;
                return Some((0, Operation::Discard { lba, block_count }));
            }
            ExportCommand::WriteZeroes => {
                self.submitted_bytes += blocks << block_size_log2;
                let operation = Operation::WriteZeroes {
                    lba,
                    block_count,
                    fua,
                };
                return Some((0, operation));
            }
            _ => {}
        }
        let index = (self.submitted_bytes / piece_bytes as u64) as usize;
        let piece = self.pieces.get_mut(index)?;
        let Piece::Here(buffer) = std::mem::replace(piece, Piece::Lost) else {
            return None;
        };
        let mut lent = Lent::new(buffer);
        let buffer = lent.lend(left.min(piece_bytes as u64) as usize);
        self.submitted_bytes += buffer.len() as u64;
        *piece = Piece::Lent(lent);
        let operation = match self.request.command {
            ExportCommand::Read => Operation::Read { lba, buffer },
            _ => Operation::Write { lba, buffer, fua },
        };
        Some((index, operation))
    }

    /// Takes a command back that the device did not accept, so that it is the next one again.
    pub fn undo(&mut self, index: usize, operation: Operation, block_size_log2: u8) {
        let bytes = match &operation {
            Operation::Discard { block_count, .. } | Operation::WriteZeroes { block_count, .. } => {
                u64::from(*block_count) << block_size_log2
            }
            Operation::Read { buffer, .. } | Operation::Write { buffer, .. } => buffer.len() as u64,
            Operation::Flush => 0,
        };
        self.submitted_bytes -= bytes.min(self.submitted_bytes);
        if let Some(buffer) = operation.into_buffer() {
            self.take_back(index, Some(buffer));
        }
    }

    /// Makes a piece whole again.
    pub fn take_back(&mut self, index: usize, buffer: Option<Buffer>) {
        let (Some(piece), Some(buffer)) = (self.pieces.get_mut(index), buffer) else {
            return;
        };
        if let Piece::Lent(mut lent) = std::mem::replace(piece, Piece::Lost) {
            if lent.give_back(buffer).is_ok() {
                if let Ok(whole) = lent.into_whole() {
                    *piece = Piece::Here(whole);
                }
            }
        }
    }

    /// The end: the job's answer, and its buffers.
    pub fn end(self) -> Answer {
        Answer {
            client: self.client,
            head_bytes: (self.request.offset_bytes - self.start_bytes) as usize,
            request: self.request,
            error: self.error,
            pieces: self.pieces,
        }
    }
}

/// The end of a request, and the data of a read.
#[derive(Debug)]
pub struct Answer {
    /// Whose it is.
    pub client: usize,
    /// The request.
    pub request: Request,
    /// The device's error, if it failed.
    pub error: Option<Error>,
    /// They go back by [`Engine::give_back`](crate::Engine::give_back) when their data has been
    /// sent.
    pub(crate) pieces: Vec<Piece>,
    /// Bytes of the first buffer before the data.
    head_bytes: usize,
}

impl Answer {
    /// Bytes of data that a read returns.
    pub fn data_bytes(&self) -> usize {
        match (self.request.command, self.error) {
            (ExportCommand::Read, None) => self.request.len_bytes as usize,
            _ => 0,
        }
    }

    /// The data from byte `sent` on, as far as one buffer has it.
    pub fn data(&self, sent: usize) -> &[u8] {
        let mut left = self.data_bytes().saturating_sub(sent);
        let mut at = self.head_bytes + sent;
        let buffers = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Here(buffer) => Some(buffer),
            _ => None,
        });
        for buffer in buffers {
            if at < buffer.len() {
                left = left.min(buffer.len() - at);
                return buffer.get(at..at + left).unwrap_or_default();
            }
            at -= buffer.len();
        }
        &[]
    }
}
