// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A client of the Network Block Device protocol: its requests, and what it is told of them.
//!
//! What a lost connection has not answered may be executed until the server has dropped its end of
//! it, and not after a later write; what was not sent to its last byte is never executed.

use super::wire::{Leave, Shared, Way};
use crate::trace::What;
use crate::witness::Testimony;
use crate::world::World;
use block::fields::Fields;
use block::{Completion, Error, Geometry, Operation, Request};
use linux::HostMemory;
use nbd::wire::{self as protocol, chunk, command, command_flag, option, option_reply};
use std::collections::VecDeque;

/// Requests in flight on a connection.
const MOST_PENDING: usize = 16;
/// A connection on which a client has said farewell is closed within this time, and a client is
/// served that connects.
const BOUND_US: u64 = 60_000_000;
const BLOCK_BYTES: usize = 512;

/// A request that was not answered.
struct Pending {
    cookie: u64,
    request: Request,
    kind: u16,
    /// The bytes of the connection that end with it.
    end: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Greeting,
    Options,
    Requests,
}

struct Link {
    wire: Shared,
    stage: Stage,
    input: Vec<u8>,
    output: VecDeque<u8>,
    /// Bytes that were sent, and that will have been.
    sent: u64,
    queued: u64,
    pending: Vec<Pending>,
    /// It is the client's fault if it ends.
    is_excused: bool,
    /// When it was made, or said farewell: something must follow.
    since: u64,
    is_leaving: bool,
}

/// What stops in the middle of a request.
struct Cut {
    /// After this number of bytes of the connection.
    at: u64,
    until: u64,
    /// With which the connection ends then.
    leave: Option<Leave>,
}

/// What every client knows.
pub struct Known {
    pub world: World,
    pub testimony: Testimony,
    pub geometry: Geometry,
    pub memory: HostMemory,
    /// Requests may fail, because of a fault or of the server's end.
    pub tolerates: bool,
    /// Connections may end.
    pub is_ending: bool,
    pub window_bytes: usize,
}

/// A client.
pub struct Client {
    link: Option<Link>,
    retry_at: u64,
    deaf_until: u64,
    /// How the next request is cut: its share, and for how long.
    part: Option<(u64, u64, Option<Leave>)>,
    cut: Option<Cut>,
    is_structured: bool,
    cookie: u64,
    /// Connections that were left, with what may still be executed.
    left: Vec<(Shared, Vec<Pending>)>,
}

impl Client {
    /// One that has not connected.
    pub const fn new(is_structured: bool) -> Self {
        Self {
            link: None,
            retry_at: 0,
            deaf_until: 0,
            part: None,
            cut: None,
            is_structured,
            cookie: 0,
            left: Vec::new(),
        }
    }

    /// Requests whose outcome is not known, and may still change.
    pub fn outstanding(&self) -> usize {
        let left = self.left.iter().map(|(_, pending)| pending.len());
        let link = self.link.as_ref().map_or(0, |link| link.pending.len());
        left.sum::<usize>() + link
    }

    /// Whether it takes a request now.
    pub fn is_ready(&self) -> bool {
        let link = self.link.as_ref();
        link.is_some_and(|link| {
            let is_open = link.stage == Stage::Requests && !link.is_leaving;
            is_open && link.pending.len() < MOST_PENDING
        })
    }

    /// Its server has ended: so does its connection.
    pub const fn server_ended(&mut self) {
        if let Some(link) = &mut self.link {
            link.is_excused = true;
        }
    }

    /// It reads nothing for a time.
    pub fn be_deaf(&mut self, until: u64) {
        self.deaf_until = self.deaf_until.max(until);
    }

    /// Its next request is sent in two parts, or only its first.
    pub fn cut_next(&mut self, share: u64, for_us: u64, leave: Option<Leave>) {
        self.part = Some((share, for_us, leave));
    }

    /// Its segments, and the server's to it, are late for a time.
    pub fn delay(&self, most_us: u64, for_us: u64) {
        if let Some(link) = &self.link {
            link.wire.borrow_mut().delay(most_us, for_us);
        }
    }

    /// It leaves the connection; none: with a farewell.
    pub fn leave(&mut self, how: Option<Leave>, known: &Known) {
        let Some(link) = &mut self.link else { return };
        if link.is_leaving {
            return;
        }
        link.is_excused = true;
        (link.is_leaving, link.since) = (true, known.world.now_us());
        match how {
            None if link.stage == Stage::Requests && self.cut.is_none() => {
                let head = head(command::DISC, 0, u64::MAX, 0, 0);
                link.put(&head);
            }
            // In the middle of something.
            None => self.lose(Leave::Close, known),
            Some(Leave::Half) => link.wire.borrow_mut().leave(Leave::Half),
            Some(how) => self.lose(how, known),
        }
    }

    fn lose(&mut self, how: Leave, known: &Known) {
        if let Some(link) = self.link.take() {
            link.wire.borrow_mut().leave(how);
            self.ended(link, known);
        }
    }

    /// A connection is over for the client.
    fn ended(&mut self, link: Link, known: &Known) {
        self.cut = None;
        self.retry_at = known.world.now_us() + 1_000 + known.world.below(50_000);
        let sent = link.sent;
        let (whole, torn): (Vec<_>, Vec<_>) = link
            .pending
            .into_iter()
            .partition(|pending| pending.end <= sent);
        for pending in torn {
            known.complete(pending, Err(Error::Gone));
        }
        self.left.push((link.wire, whole));
        self.settle(known);
    }

    /// What the server has dropped it does not execute later than what follows.
    fn settle(&mut self, known: &Known) {
        let left = std::mem::take(&mut self.left);
        for (wire, pending) in left {
            if wire.borrow().is_dropped() {
                for pending in pending {
                    known.complete(pending, Err(Error::OutcomeUnknown));
                }
            } else {
                self.left.push((wire, pending));
            }
        }
    }

    /// Sends a request.
    ///
    /// # Errors
    /// There is no memory.
    pub fn submit(&mut self, operation: Operation, known: &Known) {
        let Some(link) = &mut self.link else {
            known.free(operation);
            return;
        };
        let mut request = Request { tag: 0, operation };
        known.testimony.submit(&mut request, &known.geometry);
        self.cookie += 1;
        let size = |lba: u64| lba * BLOCK_BYTES as u64;
        let fua = |fua: bool| if fua { command_flag::FUA } else { 0 };
        let (kind, flags, offset, len) = match &request.operation {
            Operation::Read { lba, buffer } => (command::READ, 0, size(*lba), buffer.len() as u32),
            Operation::Write {
                lba,
                buffer,
                fua: is_fua,
            } => (
                command::WRITE,
                fua(*is_fua),
                size(*lba),
                buffer.len() as u32,
            ),
            Operation::Flush => (command::FLUSH, 0, 0, 0),
            Operation::Discard { lba, block_count } => (
                command::TRIM,
                0,
                size(*lba),
                block_count * BLOCK_BYTES as u32,
            ),
            Operation::WriteZeroes {
                lba,
                block_count,
                fua: is_fua,
            } => {
                let len = block_count * BLOCK_BYTES as u32;
                (command::WRITE_ZEROES, fua(*is_fua), size(*lba), len)
            }
        };
        let begin = link.queued;
        link.put(&head(kind, flags, self.cookie, offset, len));
        if let Operation::Write { buffer, .. } = &request.operation {
            link.put(buffer);
        }
        if let (Some((share, for_us, leave)), None) = (self.part.take(), &self.cut) {
            let until = known.world.now_us() + for_us;
            let at = begin + share % (link.queued - begin + 1);
            self.cut = Some(Cut { at, until, leave });
        }
        link.pending.push(Pending {
            cookie: self.cookie,
            request,
            kind,
            end: link.queued,
        });
    }

    /// What has arrived is taken, and sent what can be.
    ///
    /// # Errors
    /// A promise was broken.
    pub fn turn(&mut self, way: &Way, known: &Known) -> Result<(), String> {
        self.settle(known);
        let now = known.world.now_us();
        let Some(link) = &mut self.link else {
            if now >= self.retry_at && !known.is_ending {
                let wire = way.connect(known.window_bytes);
                self.link = wire.map(|wire| Link::new(wire, now));
                known.world.wake_at(now + 1);
            }
            return Ok(());
        };
        if now >= self.deaf_until {
            let is_over = link.wire.borrow_mut().take(&mut link.input);
            while link.parse(self.is_structured, known)? {}
            if is_over {
                if !link.is_excused && !known.is_ending {
                    return Err("the server closed a connection without a fault".to_owned());
                }
                if let Some(link) = self.link.take() {
                    self.ended(link, known);
                }
                return Ok(());
            }
        }
        if let Some(cut) = self
            .cut
            .take_if(|cut| link.sent >= cut.at && now >= cut.until)
        {
            if let Some(how) = cut.leave {
                self.leave(Some(how), known);
                return Ok(());
            }
        }
        let is_waiting = link.is_leaving || link.stage != Stage::Requests;
        if is_waiting && now > link.since.max(self.deaf_until) + BOUND_US {
            return Err("a connection neither serves nor ends for 60 s".to_owned());
        }
        link.send(self.cut.as_ref(), known);
        Ok(())
    }
}

impl Link {
    fn new(wire: Shared, now: u64) -> Self {
        Self {
            wire,
            stage: Stage::Greeting,
            input: Vec::new(),
            output: VecDeque::new(),
            sent: 0,
            queued: 0,
            pending: Vec::new(),
            is_excused: false,
            since: now,
            is_leaving: false,
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        self.output.extend(bytes);
        self.queued += bytes.len() as u64;
    }

    fn send(&mut self, cut: Option<&Cut>, known: &Known) {
        let mut wire = self.wire.borrow_mut();
        loop {
            let most = cut.map_or(u64::MAX, |cut| cut.at.saturating_sub(self.sent));
            let most = self.output.len().min(wire.room()).min(most as usize);
            if most == 0 {
                break;
            }
            let count = if known.world.one_in(4) {
                1 + known.world.below(most as u64) as usize
            } else {
                most
            };
            let bytes: Vec<u8> = self.output.drain(..count).collect();
            self.sent += count as u64;
            wire.send_to_server(bytes.into());
        }
        drop(wire);
        if let Some(cut) = cut.filter(|cut| self.sent >= cut.at) {
            known.world.wake_at(cut.until);
        }
    }

    /// Takes a message; false: there is none.
    fn parse(&mut self, is_structured: bool, known: &Known) -> Result<bool, String> {
        let taken = match self.stage {
            Stage::Greeting => self.greeting(is_structured),
            Stage::Options => self.option()?,
            Stage::Requests => self.reply(known)?,
        };
        match taken {
            Some(count) => {
                self.input.drain(..count);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn greeting(&mut self, is_structured: bool) -> Option<usize> {
        let greeting = protocol::greeting();
        if !self.input.starts_with(&greeting) {
            return None;
        }
        let flags = protocol::FLAG_FIXED_NEWSTYLE | protocol::FLAG_NO_ZEROES;
        self.put(&u32::from(flags).to_be_bytes());
        let mut put = |code: u32, data: &[u8]| {
            self.put(&protocol::OPTION_MAGIC.to_be_bytes());
            self.put(&code.to_be_bytes());
            self.put(&(data.len() as u32).to_be_bytes());
            self.put(data);
        };
        if is_structured {
            put(option::STRUCTURED_REPLY, &[]);
        }
        // The export without a name, and no more information than there must be.
        put(option::GO, &[0; 6]);
        self.stage = Stage::Options;
        Some(greeting.len())
    }

    fn option(&mut self) -> Result<Option<usize>, String> {
        let mut fields = Fields(&self.input);
        let magic = fields.u64_be();
        let (Some(magic), Some(code), Some(kind), Some(len)) =
            (magic, fields.u32_be(), fields.u32_be(), fields.u32_be())
        else {
            return Ok(None);
        };
        if magic != protocol::OPTION_REPLY_MAGIC || kind & 0x8000_0000 != 0 {
            return Err(format!("the reply to option {code} is {magic:x} {kind:x}"));
        }
        if fields.0.len() < len as usize {
            return Ok(None);
        }
        if (code, kind) == (option::GO, option_reply::ACK) {
            self.stage = Stage::Requests;
        }
        Ok(Some(20 + len as usize))
    }

    fn reply(&mut self, known: &Known) -> Result<Option<usize>, String> {
        let mut fields = Fields(&self.input);
        let Some(magic) = fields.u32_be() else {
            return Ok(None);
        };
        let (cookie, errno, skip, data) = match magic {
            protocol::SIMPLE_REPLY_MAGIC => {
                let (Some(errno), Some(cookie)) = (fields.u32_be(), fields.u64_be()) else {
                    return Ok(None);
                };
                (cookie, errno, 16, None)
            }
            protocol::STRUCTURED_REPLY_MAGIC => {
                let (Some(flags), Some(kind)) = (fields.u16_be(), fields.u16_be()) else {
                    return Ok(None);
                };
                let (Some(cookie), Some(len)) = (fields.u64_be(), fields.u32_be()) else {
                    return Ok(None);
                };
                let len = len as usize;
                if fields.0.len() < len {
                    return Ok(None);
                }
                match (kind, flags & chunk::DONE != 0) {
                    (chunk::ERROR, true) => (cookie, fields.u32_be().unwrap_or(1), 20 + len, None),
                    (chunk::OFFSET_DATA, true) if len >= 8 => (cookie, 0, 28, Some(len - 8)),
                    _ => return Err(format!("a chunk of type {kind:x} with flags {flags:x}")),
                }
            }
            _ => return Err(format!("a reply begins with {magic:x}")),
        };
        let mut pending = self.pending.iter();
        let Some(index) = pending.position(|pending| pending.cookie == cookie) else {
            return Err(format!("a reply to no request: cookie {cookie}"));
        };
        let one = &self.pending[index];
        let wanted = match &one.request.operation {
            Operation::Read { buffer, .. } if errno == 0 => buffer.len(),
            _ => 0,
        };
        if data.is_some_and(|len| len != wanted) {
            return Err(format!(
                "a reply to a read of {wanted} bytes has another length"
            ));
        }
        let Some(bytes) = self.input.get(skip..skip + wanted) else {
            return Ok(None);
        };
        if one.end > self.sent {
            return Err("a request is answered that was not sent to its end".to_owned());
        }
        if errno != 0 && !known.tolerates && !self.is_excused {
            let kind = one.kind;
            return Err(format!(
                "a request of type {kind} failed without a fault: {errno}"
            ));
        }
        let mut pending = self.pending.swap_remove(index);
        if let Operation::Read { buffer, .. } = &mut pending.request.operation {
            if errno == 0 {
                buffer.copy_from_slice(bytes);
            }
        }
        known.world.note(What::Answer, cookie, u64::from(errno));
        let result = match errno {
            0 => Ok(()),
            errno => Err(Error::Os {
                errno: errno as i32,
            }),
        };
        known.complete(pending, result);
        Ok(Some(skip + wanted))
    }
}

impl Known {
    fn complete(&self, pending: Pending, result: Result<(), Error>) {
        let mut completion = Completion {
            tag: pending.request.tag,
            buffer: pending.request.operation.into_buffer(),
            result,
        };
        self.testimony.complete(&mut completion, BLOCK_BYTES);
        if let Some(buffer) = completion.buffer {
            let _ = self.memory.give_back(buffer);
        }
    }

    fn free(&self, operation: Operation) {
        if let Some(buffer) = operation.into_buffer() {
            let _ = self.memory.give_back(buffer);
        }
    }
}

/// A request without its payload.
fn head(kind: u16, flags: u16, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    let mut bytes = protocol::REQUEST_MAGIC.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(len.to_be_bytes());
    bytes
}
