// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands on blocks: from the ring to the drive's queue and back.

use block::{Clock, Completion, Device, Operation, Request};

use super::session::{Phase, Taken};
use super::{Service, Want};
use crate::command::{FLAG_FUA, Opcode, RingCommand};
use crate::header::Access;
use crate::layout::CLIENTS;
use crate::status::{Code, CompletionStatus};

/// Commands with a deadline that can be in flight.
const DEADLINES: usize = 15;

/// The deadlines of commands in the drive's queue, so that completions can be marked as late.
#[derive(Debug)]
pub(crate) struct Deadlines {
    /// In ticks; `None` in a free entry.
    at: [Option<u32>; DEADLINES],
}

impl Deadlines {
    pub(crate) const fn new() -> Self {
        Self {
            at: [None; DEADLINES],
        }
    }

    /// An entry for a deadline; 0 if none is free: the completion then cannot be marked as late.
    fn put(&mut self, at: u32) -> u32 {
        let free = self.at.iter().position(|place| place.is_none());
        match free.and_then(|index| Some((index, self.at.get_mut(index)?))) {
            Some((index, place)) => {
                *place = Some(at);
                index as u32 + 1
            }
            None => 0,
        }
    }

    fn take(&mut self, number: u32) -> Option<u32> {
        self.at.get_mut((number as usize).wrapping_sub(1))?.take()
    }
}

/// When a command is due, in ticks that wrap; `None`: no deadline.
pub(crate) fn due(taken: &Taken, ticks_per_ms: u64) -> Option<u32> {
    match taken.command.deadline_ms {
        0 => None,
        // A time longer than the counter can represent counts as no deadline.
        ms => u32::try_from(u64::from(ms) * ticks_per_ms)
            .ok()
            .filter(|ticks| *ticks < 1 << 31)
            .map(|ticks| taken.seen_at.wrapping_add(ticks)),
    }
}

/// Whether `now` is past `due`.
pub(crate) const fn is_past(due: u32, now: u32) -> bool {
    (now.wrapping_sub(due) as i32) > 0
}

impl Service {
    /// Takes commands, submits them to the drive, and completes those that have ended. Returns
    /// whether there was something to do. Call it while [`want`](Service::want) returns blocks;
    /// when it returns files, until nothing is in flight.
    pub fn step<D: Device, C: Clock>(&mut self, device: &mut D, clock: &C) -> bool {
        self.housekeep(clock);
        let mut has_moved = false;
        let depth = usize::from(self.geometry.queue_depth);
        // At most one ring length of iterations per client: a session's credits limit it.
        for offset in 0..CLIENTS {
            let index = (self.turn + offset) % CLIENTS;
            if let Some(session) = self.sessions.get_mut(index) {
                session.look(clock);
            }
            while device.outstanding() < depth {
                let Some(session) = self.sessions.get_mut(index) else {
                    break;
                };
                let Some(next) = session.next() else {
                    break;
                };
                has_moved = true;
                let begun = match next {
                    Ok(taken) => self.begin(device, index, &taken, clock),
                    Err((id, code)) => Err((id, code.into())),
                };
                if let (Err((id, status)), Some(session)) = (begun, self.sessions.get_mut(index)) {
                    session.answer(id, status, 0, false);
                }
            }
        }
        if has_moved {
            device.kick();
        }
        // At most as many iterations as the queue's depth.
        while let Some(completion) = device.poll() {
            has_moved = true;
            self.complete(completion, clock);
        }
        for session in &mut self.sessions {
            if session.phase == Phase::Ending && session.under_way == 0 {
                session.close();
            }
        }
        has_moved
    }

    /// Waits until no block command is in flight: the volume can be mounted then.
    pub fn is_idle<D: Device>(&self, device: &D) -> bool {
        device.outstanding() == 0 && self.want == Want::Files
    }

    fn begin<D: Device, C: Clock>(
        &mut self,
        device: &mut D,
        client: usize,
        taken: &Taken,
        clock: &C,
    ) -> Result<(), (u16, CompletionStatus)> {
        let command = &taken.command;
        let failed = |status: CompletionStatus| (command.id, status);
        let operation = self
            .operation(client, command)
            .map_err(|code| failed(code.into()))?;
        let mut place = 0;
        if let Some(due) = due(taken, self.ticks_per_ms) {
            if is_past(due, clock.ticks() as u32) {
                return Err(failed(block::Error::TimedOut.into()));
            }
            place = self.deadlines.put(due);
        }
        let tag = u32::from(command.id) | (client as u32) << 16 | place << 24;
        match device.submit(Request { tag, operation }) {
            Ok(()) => Ok(()),
            Err(refused) => {
                self.deadlines.take(place);
                Err(failed(refused.error.into()))
            }
        }
    }

    /// The drive's operation for a command, once each of its numbers is within the client's grant.
    fn operation(&self, client: usize, command: &RingCommand) -> Result<Operation, Code> {
        let session = self.sessions.get(client).ok_or(Code::BadField)?;
        let grant = &session.grant;
        let may_write = session.access == Access::WriteBlocks;
        let blocks = match command.opcode {
            Opcode::Read | Opcode::Write => {
                u64::from(command.data_bytes) >> self.geometry.block_size_log2
            }
            Opcode::Discard | Opcode::WriteZeroes => u64::from(command.data_bytes),
            _ => 0,
        };
        if blocks > grant.block_count || command.argument > grant.block_count - blocks {
            return Err(Code::OutsideGrant);
        }
        let lba = grant.first_block + command.argument;
        let fua = command.flags & FLAG_FUA != 0;
        let buffer = || {
            let bytes = command.data_bytes as usize;
            let offset = session.data_offset(command.data_offset, bytes)?;
            self.window.buffer(offset, bytes).ok_or(Code::OutsideGrant)
        };
        match command.opcode {
            Opcode::Read => Ok(Operation::Read {
                lba,
                buffer: buffer()?,
            }),
            Opcode::Flush => Ok(Operation::Flush),
            #[cfg(feature = "hang")]
            Opcode::Hang => loop {
                core::hint::spin_loop();
            },
            Opcode::Write | Opcode::Discard | Opcode::WriteZeroes if !may_write => {
                Err(Code::NoRight)
            }
            Opcode::Write => Ok(Operation::Write {
                lba,
                buffer: buffer()?,
                fua,
            }),
            Opcode::Discard => Ok(Operation::Discard {
                lba,
                block_count: command.data_bytes,
            }),
            Opcode::WriteZeroes => Ok(Operation::WriteZeroes {
                lba,
                block_count: command.data_bytes,
                fua,
            }),
            _ => Err(Code::BadOpcode),
        }
    }

    #[inline]
    fn complete<C: Clock>(&mut self, completion: Completion, clock: &C) {
        let tag = completion.tag;
        let mut is_late = false;
        if tag >> 24 != 0 {
            let due = self.deadlines.take(tag >> 24);
            is_late = due.is_some_and(|due| is_past(due, clock.ticks() as u32));
        }
        let status = match completion.result {
            Ok(()) => CompletionStatus::OK,
            Err(error) => error.into(),
        };
        if let Some(session) = self.sessions.get_mut((tag >> 16 & 0xff) as usize) {
            session.answer(tag as u16, status, 0, is_late);
        }
    }
}
