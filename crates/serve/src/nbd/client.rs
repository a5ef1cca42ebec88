// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One connection of a server: its socket, its session, and what it still has to send.

use super::tls::Certificates;
use crate::ServeCounts;
use crate::address::Socket;
use nbd::{
    Answer, Engine, Export, ExportCommand, Key, Request, Session, SessionEvent, Started, wire,
};
use rustix::event::PollFlags;
use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// Bytes that one read of the socket takes, except of a write's payload.
const INPUT_BYTES: usize = 16 << 10;
/// Replies without data that wait for the client, in bytes; above this its next requests wait.
const MAX_WAITING_BYTES: usize = 64 << 10;
/// Messages in one turn, so that others have theirs.
const TURN_MESSAGES: usize = 64;
/// Bytes of a reply without its data, as a rule.
const HEAD_BYTES: usize = 64;
/// Pieces of replies in one system call.
const SLICES: usize = 32;

/// What waits to be sent.
enum Reply {
    Bytes(Vec<u8>),
    /// A read's data, from the device's buffers.
    Data(Answer),
}

impl Reply {
    fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Data(answer) => answer.data_bytes(),
        }
    }

    fn from(&self, sent: usize) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes.get(sent..).unwrap_or_default(),
            Self::Data(answer) => answer.data(sent),
        }
    }
}

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It goes on.
    Open,
    /// The client is gone, or broke the protocol.
    Lost,
}

/// A connection.
pub struct Client {
    /// Its number in the engine; none until it has a place there.
    pub number: Option<usize>,
    /// Its socket.
    pub socket: Option<Box<dyn Socket>>,
    /// Whether the socket may have bytes, and may take some.
    pub readable: bool,
    pub writable: bool,
    /// The other side has closed it, or reset it, which poll(2) reports again each time.
    pub is_hung_up: bool,
    /// No more requests are taken; it ends when all replies were sent.
    pub closing: bool,
    /// When it connected.
    pub began: Instant,
    /// The turn in which its last bytes came, or in which it connected.
    pub heard: u64,
    session: Session,
    /// What one read of the socket takes. It is allocated at once and never cleared again.
    input: Box<[u8]>,
    /// The bytes of it that came and were not taken.
    held: Range<usize>,
    /// A request that waits for buffers.
    pending: Option<Request>,
    /// The write whose payload is arriving.
    writing: Option<Key>,
    replies: VecDeque<Reply>,
    /// With which it becomes encrypted.
    certificates: Option<Certificates>,
    /// When all replies were sent, TLS begins.
    starts_tls: bool,
    /// Bytes of the first reply that were sent.
    sent: usize,
    waiting_bytes: usize,
    /// Empty space for replies, kept from those that were sent.
    spare: Vec<Vec<u8>>,
}

impl Client {
    /// A new connection.
    pub fn new(
        socket: Box<dyn Socket>,
        certificates: Option<Certificates>,
        began: Instant,
        turn: u64,
    ) -> Self {
        let session = match certificates {
            Some(_) => Session::requiring_tls(),
            None => Session::new(),
        };
        let mut client = Self {
            number: None,
            socket: Some(socket),
            readable: true,
            writable: true,
            is_hung_up: false,
            closing: false,
            began,
            heard: turn,
            session,
            input: vec![0; INPUT_BYTES].into_boxed_slice(),
            held: 0..0,
            pending: None,
            writing: None,
            replies: VecDeque::new(),
            certificates,
            starts_tls: false,
            sent: 0,
            waiting_bytes: 0,
            spare: Vec::new(),
        };
        client.reply(Reply::Bytes(wire::greeting().to_vec()));
        client
    }

    /// Whether the handshake is over.
    pub const fn is_in_transmission(&self) -> bool {
        self.session.is_in_transmission()
    }

    /// Whether it waits for bytes of the client.
    pub fn wants_input(&self) -> bool {
        let is_open = !self.closing || self.session.payload_bytes() > 0;
        is_open
            && !self.starts_tls
            && self.pending.is_none()
            && self.waiting_bytes < MAX_WAITING_BYTES
    }

    /// What is polled, and for what.
    pub fn wanted(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let socket = self.socket.as_ref()?;
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, self.wants_input());
        flags.set(PollFlags::OUT, self.wants_output());
        self.is_polled().then(|| (socket.as_fd(), flags))
    }

    /// Whether it is polled: not if the other side has left it and it waits for the device alone,
    /// because poll(2) would not sleep.
    pub fn is_polled(&self) -> bool {
        let waits_for_device = self.is_hung_up && !self.wants_input() && !self.wants_output();
        self.socket.is_some() && !waits_for_device
    }

    /// Whether it has something to send.
    pub fn wants_output(&self) -> bool {
        let socket = self.socket.as_ref();
        !self.replies.is_empty() || socket.is_some_and(|socket| socket.wants_output())
    }

    /// Whether the payload of a write that was begun is still arriving.
    pub const fn is_within_payload(&self) -> bool {
        self.session.payload_bytes() > 0 && self.pending.is_none()
    }

    /// Takes messages, as many as are there, fit and are due. Returns whether it goes on, and
    /// whether more may follow at once.
    pub fn receive(
        &mut self,
        engine: &mut Engine,
        export: &Export,
        counts: &mut ServeCounts,
    ) -> (Life, bool) {
        for _ in 0..TURN_MESSAGES {
            if let (Some(request), false) = (self.pending, self.closing) {
                let Some(number) = self.number else {
                    return (Life::Open, false);
                };
                match engine.begin(number, request) {
                    Started::Later => return (Life::Open, false),
                    Started::Accepted(key) => {
                        self.pending = None;
                        self.writing = (request.command == ExportCommand::Write).then_some(key);
                    }
                }
            }
            if !self.wants_input() {
                return (Life::Open, false);
            }
            match self.message(engine, export, counts) {
                Ok(true) => {}
                Ok(false) => return (Life::Open, false),
                Err(_) => return (Life::Lost, false),
            }
        }
        (Life::Open, true)
    }

    /// Takes one message, or bytes of one; false: there are none.
    fn message(
        &mut self,
        engine: &mut Engine,
        export: &Export,
        counts: &mut ServeCounts,
    ) -> io::Result<bool> {
        if self.session.payload_bytes() > 0 {
            return self.payload(engine);
        }
        let mut out = self.space();
        let input = self.input.get(self.held.clone()).unwrap_or_default();
        let (taken, event) = self.session.advance(export, input, &mut out);
        self.held.start += taken;
        if out.is_empty() {
            self.spare.push(out);
        } else {
            self.reply(Reply::Bytes(out));
        }
        match event {
            SessionEvent::More => return self.fill(),
            SessionEvent::Message | SessionEvent::Payload => {}
            SessionEvent::Refused => counts.refused += 1,
            SessionEvent::StartTls if !self.held.is_empty() => {
                // It was not encrypted, and may not be the client's.
                return Err(io::ErrorKind::InvalidData.into());
            }
            SessionEvent::StartTls => self.starts_tls = true,
            SessionEvent::Request(request) => self.pending = Some(request),
            SessionEvent::Closed(end) if end.is_clean() => self.closing = true,
            SessionEvent::Closed(_) => return Err(io::ErrorKind::InvalidData.into()),
        }
        Ok(true)
    }

    /// Takes bytes of a write's payload into the device's buffers.
    fn payload(&mut self, engine: &mut Engine) -> io::Result<bool> {
        let Some(key) = self.writing else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let space = engine.space(key);
        let held = self.input.get(self.held.clone()).unwrap_or_default();
        let count = if held.is_empty() {
            match read(&mut self.socket, space, &mut self.readable)? {
                None => return Ok(false),
                Some(count) => count,
            }
        } else {
            let count = held.len().min(space.len());
            space[..count].copy_from_slice(&held[..count]);
            self.held.start += count;
            count
        };
        engine.filled(key, count);
        self.session.take_payload(count as u32);
        Ok(true)
    }

    /// Reads from the socket, when all that came was taken; false: nothing is there.
    fn fill(&mut self) -> io::Result<bool> {
        let count = read(&mut self.socket, &mut self.input, &mut self.readable)?;
        self.held = 0..count.unwrap_or(0);
        Ok(count.is_some())
    }

    /// Queues the answer to a request.
    pub fn answer(&mut self, answer: Answer, engine: &mut Engine) {
        let mut head = self.space();
        nbd::put_head(&answer, self.session.is_structured(), &mut head);
        self.reply(Reply::Bytes(head));
        match answer.data_bytes() {
            0 => engine.give_back(answer),
            _ => self.reply(Reply::Data(answer)),
        }
    }

    /// Empty space for a reply.
    fn space(&mut self) -> Vec<u8> {
        let new = || Vec::with_capacity(HEAD_BYTES);
        self.spare.pop().unwrap_or_else(new)
    }

    fn reply(&mut self, reply: Reply) {
        if let Reply::Bytes(bytes) = &reply {
            self.waiting_bytes += bytes.len();
        }
        self.replies.push_back(reply);
    }

    /// Sends what the socket takes.
    pub fn send(&mut self, engine: &mut Engine) -> Life {
        while self.writable && self.wants_output() {
            let Some(socket) = &mut self.socket else {
                return Life::Lost;
            };
            let mut all = [IoSlice::new(&[]); SLICES];
            let mut count = 0;
            let mut sent = self.sent;
            'all: for reply in &self.replies {
                while sent < reply.len() {
                    let Some(slice) = all.get_mut(count) else {
                        break 'all;
                    };
                    let bytes = reply.from(sent);
                    sent += bytes.len().max(1);
                    *slice = IoSlice::new(bytes);
                    count += 1;
                }
                sent = 0;
            }
            let slices = all.get(..count).unwrap_or_default();
            let written = if slices.is_empty() {
                socket.flush().map(|()| 0)
            } else {
                socket.write_vectored(slices)
            };
            match written {
                Ok(0) if slices.is_empty() && socket.wants_output() => self.writable = false,
                Ok(count) => self.advance(count, engine),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Life::Lost,
            }
        }
        if self.starts_tls && self.replies.is_empty() {
            self.starts_tls = false;
            self.readable = true;
            let socket = self.socket.take().zip(self.certificates.as_ref());
            let wrapped = socket.map(|(socket, certificates)| certificates.wrap(socket));
            let Some(Ok(socket)) = wrapped else {
                return Life::Lost;
            };
            self.socket = Some(socket);
        }
        Life::Open
    }

    fn advance(&mut self, count: usize, engine: &mut Engine) {
        self.sent += count;
        while let Some(reply) = self.replies.front() {
            let len = reply.len();
            if self.sent < len {
                break;
            }
            self.sent -= len;
            match self.replies.pop_front() {
                Some(Reply::Data(answer)) => engine.give_back(answer),
                Some(Reply::Bytes(mut bytes)) => {
                    self.waiting_bytes = self.waiting_bytes.saturating_sub(len);
                    // A long list of extents is not kept.
                    if bytes.capacity() <= HEAD_BYTES && self.spare.len() < TURN_MESSAGES {
                        bytes.clear();
                        self.spare.push(bytes);
                    }
                }
                None => {}
            }
        }
    }

    /// Returns everything that it holds, at its end.
    pub fn release(self, engine: &mut Engine) {
        if let Some(number) = self.number {
            engine.abandon(number);
        }
        for reply in self.replies {
            if let Reply::Data(answer) = reply {
                engine.give_back(answer);
            }
        }
    }
}

/// Reads from a socket that may have bytes; `None`: it has none now.
fn read(
    socket: &mut Option<Box<dyn Socket>>,
    space: &mut [u8],
    readable: &mut bool,
) -> io::Result<Option<usize>> {
    if !*readable {
        return Ok(None);
    }
    let Some(socket) = socket else {
        return Err(io::ErrorKind::NotConnected.into());
    };
    match socket.read(space) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(count) => {
            // Another read would only say that nothing is there.
            *readable = count == space.len() || socket.may_hold_input();
            Ok(Some(count))
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            *readable = false;
            Ok(None)
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Some(0)),
        Err(error) => Err(error),
    }
}
