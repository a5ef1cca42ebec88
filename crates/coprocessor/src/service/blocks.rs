//! Commands on blocks: from the ring to the drive's queue and back.

use block::{Clock, Completion, Device, Operation, Request};

use super::session::{Phase, Taken};
use super::{Service, Want};
use crate::command::{Command, FLAG_FUA, Opcode};
use crate::header::Access;
use crate::layout::CLIENTS;
use crate::status::{Code, Status};

/// Commands with a deadline that can be under way.
const DEADLINES: usize = 15;

/// The deadlines of commands in the drive's queue, so that an answer can say that it is late.
#[derive(Debug)]
pub(crate) struct Deadlines {
    /// In ticks; a place is free while it is None.
    at: [Option<u32>; DEADLINES],
}

impl Deadlines {
    pub(crate) const fn new() -> Self {
        Self {
            at: [None; DEADLINES],
        }
    }

    /// A place for a deadline; 0 where none is free: the answer then cannot say that it is late.
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

/// When a command is due, in ticks that wrap; None: it may take its time.
pub(crate) fn due(taken: &Taken, ticks_per_ms: u64) -> Option<u32> {
    match taken.command.deadline_ms {
        0 => None,
        // What is longer than the counter can tell apart is no deadline.
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
    /// Takes commands, moves them to the drive, and answers those that have ended. True while
    /// there was something to do. To be called while [`want`](Service::want) says blocks; when it
    /// says files, once more until nothing is under way.
    pub fn step<D: Device, C: Clock>(&mut self, device: &mut D, clock: &C) -> bool {
        self.housekeep(clock);
        let mut has_moved = false;
        let depth = usize::from(self.geometry.queue_depth);
        // At most a ring's length of turns for each client: a session's credits end it.
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
        // At most the queue's depth of turns.
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

    /// Waits until no block command is under way: the volume can be mounted then.
    pub fn is_idle<D: Device>(&self, device: &D) -> bool {
        device.outstanding() == 0 && self.want == Want::Files
    }

    fn begin<D: Device, C: Clock>(
        &mut self,
        device: &mut D,
        client: usize,
        taken: &Taken,
        clock: &C,
    ) -> Result<(), (u16, Status)> {
        let command = &taken.command;
        let failed = |status: Status| (command.id, status);
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

    /// What a command asks of the drive, once each of its numbers is within the client's grant.
    fn operation(&self, client: usize, command: &Command) -> Result<Operation, Code> {
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
            Ok(()) => Status::OK,
            Err(error) => error.into(),
        };
        if let Some(session) = self.sessions.get_mut((tag >> 16 & 0xff) as usize) {
            session.answer(tag as u16, status, 0, is_late);
        }
    }
}
