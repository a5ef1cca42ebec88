// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A range of a device as one end of a transfer: each piece is one request.

use crate::transfer::pump::{End, Finished, Piece, State};
use block::{Buffer, Device, Lent, Operation, Request};
use std::collections::VecDeque;
use volume::Error;

/// A request in flight.
struct Sent {
    tag: u32,
    offset_bytes: u64,
    len: usize,
    lent: Lent,
    result: Option<Result<(), block::Error>>,
}

/// A device that is read or written.
pub(super) struct Blocks<'d> {
    device: &'d mut dyn Device,
    /// Whether it is written, and whether each write is durable when it completes.
    fua: Option<bool>,
    state: State,
    flight: VecDeque<Sent>,
    next_tag: u32,
}

impl<'d> Blocks<'d> {
    pub(super) fn new(device: &'d mut dyn Device, fua: Option<bool>) -> Self {
        Self {
            device,
            fua,
            state: State::default(),
            flight: VecDeque::new(),
            next_tag: 0,
        }
    }

    fn operation(&self, lba: u64, buffer: Buffer) -> Operation {
        match self.fua {
            None => Operation::Read { lba, buffer },
            Some(fua) => Operation::Write { lba, buffer, fua },
        }
    }
}

impl End for Blocks<'_> {
    fn state(&mut self) -> &mut State {
        &mut self.state
    }

    fn push(&mut self, piece: Piece) {
        let (offset_bytes, len) = (piece.offset_bytes, piece.len);
        let lba = offset_bytes >> self.device.geometry().block_size_log2;
        let mut lent = Lent::new(piece.buffer);
        let operation = self.operation(lba, lent.lend(len));
        let tag = self.next_tag;
        self.next_tag = tag.wrapping_add(1);
        let refused = self.device.submit(Request { tag, operation }).err();
        let result = refused.map(|refused| {
            if let Some(buffer) = refused.request.operation.into_buffer() {
                let _ = lent.give_back(buffer);
            }
            Err(refused.error)
        });
        self.flight.push_back(Sent {
            tag,
            offset_bytes,
            len,
            lent,
            result,
        });
    }

    fn turn(&mut self) -> bool {
        self.device.kick();
        let mut happened = false;
        while let Some(completion) = self.device.poll() {
            happened = true;
            let mut flight = self.flight.iter_mut();
            let Some(sent) = flight.find(|sent| sent.tag == completion.tag) else {
                continue;
            };
            if let Some(buffer) = completion.buffer {
                // A piece of another buffer is not taken back; `into_whole` then reports the loss.
                let _ = sent.lent.give_back(buffer);
            }
            sent.result = Some(completion.result);
        }
        happened
    }

    fn pop(&mut self) -> Option<Finished> {
        let result = self.flight.front()?.result?;
        let sent = self.flight.pop_front()?;
        if let Err(error) = result {
            self.state.fail(sent.offset_bytes, Error::from(error));
        }
        // After a failure nothing more is counted: later bytes follow a gap.
        let is_moved = self.state.failure.is_none();
        self.state.requests += u64::from(is_moved);
        Some(Finished {
            buffer: sent.lent.into_whole().ok(),
            offset_bytes: sent.offset_bytes,
            len: sent.len,
            is_moved,
            sums: Vec::new(),
        })
    }

    fn wait(&mut self, timeout_us: u32) -> bool {
        let is_busy = self.device.outstanding() > 0;
        if is_busy {
            self.device.wait(timeout_us);
        }
        is_busy
    }
}
