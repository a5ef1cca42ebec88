// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One connection as the protocol sees it: bytes in, requests and replies out, no I/O.
//!
//! Owns what a client has agreed on and the part of a message that has arrived; never more of it
//! than [`MAX_HELD_BYTES`]. A request that is malformed, unaligned, outside of the export or not
//! permitted is answered here, and its payload skipped, so every [`Request`] that leaves can be
//! given to the device.

use crate::handshake::{self, Agreed, Next, Tls};
use crate::wire::{self, Errno, chunk, command, command_flag};
use crate::{Export, ExportCommand, Request};
use block::fields::Fields;

/// The longest data of an option that is kept: two texts of the protocol's limit, and their
/// lengths.
const MAX_HELD_BYTES: usize = 2 * wire::MAX_TEXT_BYTES + 64;

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The client ended the handshake (NBD_OPT_ABORT).
    Aborted,
    /// The client disconnected (NBD_CMD_DISC).
    Disconnected,
    /// The client asked for an export that does not exist, in a way that has no error reply.
    UnknownExport,
    /// The client asked for an export without TLS, which the server requires, in a way that has no
    /// error reply.
    TlsRequired,
    /// The bytes are not this protocol.
    NotNbd,
}

impl End {
    /// Whether the client did nothing wrong.
    pub const fn is_clean(self) -> bool {
        matches!(self, Self::Aborted | Self::Disconnected)
    }
}

/// What a session has found in its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// All input was taken, and more is needed.
    More,
    /// A message was taken; its reply, if it has one, is in `out`.
    Message,
    /// The client asked for TLS: when `out` has been sent, a TLS handshake follows, and all input
    /// is what TLS decrypts. What had arrived after this message was not encrypted: it must be
    /// discarded, with the connection.
    StartTls,
    /// A request was refused; the reply is in `out`.
    Refused,
    /// A request for the device. The payload of a write is next: see [`Session::payload_bytes`].
    Request(Request),
    /// What follows is the payload of a write, which the caller takes.
    Payload,
    /// The connection ends, when the requests before have been answered.
    Closed(End),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    ClientFlags,
    OptionHead,
    OptionData {
        code: u32,
        len: usize,
    },
    OptionSkip {
        code: u32,
        left: u32,
    },
    Request,
    Payload {
        left: u32,
    },
    /// The payload of a write that was refused.
    Skip {
        left: u32,
        cookie: u64,
        errno: Errno,
    },
    Closed(End),
}

/// The state of one connection.
#[derive(Clone, Debug)]
pub struct Session {
    state: State,
    agreed: Agreed,
    held: Vec<u8>,
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}

impl Session {
    /// A connection to which [`wire::greeting`] is sent.
    pub const fn new() -> Self {
        Self {
            state: State::ClientFlags,
            agreed: Agreed {
                tls: Tls::Unsupported,
                no_zeroes: false,
                structured: false,
                allocation: false,
            },
            held: Vec::new(),
        }
    }

    /// The same, of a server that requires TLS.
    pub const fn requiring_tls() -> Self {
        let mut session = Self::new();
        session.agreed.tls = Tls::Required;
        session
    }

    /// Whether reads have structured replies.
    pub const fn is_structured(&self) -> bool {
        self.agreed.structured
    }

    /// Whether the handshake is over.
    pub const fn is_in_transmission(&self) -> bool {
        matches!(
            self.state,
            State::Request | State::Payload { .. } | State::Skip { .. }
        )
    }

    /// Bytes that the payload of the current write still has.
    pub const fn payload_bytes(&self) -> u32 {
        match self.state {
            State::Payload { left } => left,
            _ => 0,
        }
    }

    /// Reports that the caller took `len` bytes of the payload, at most
    /// [`payload_bytes`](Self::payload_bytes).
    pub fn take_payload(&mut self, len: u32) {
        if let State::Payload { left } = self.state {
            let left = left.saturating_sub(len);
            self.state = match left {
                0 => State::Request,
                left => State::Payload { left },
            };
        }
    }

    /// Takes at most one message from the front of `input`, and appends its reply to `out`. Returns
    /// the number of bytes taken, which is all of them for [`SessionEvent::More`].
    pub fn advance(
        &mut self,
        export: &Export,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> (usize, SessionEvent) {
        match self.state {
            State::Closed(end) => (0, SessionEvent::Closed(end)),
            State::Payload { .. } => (0, SessionEvent::Payload),
            State::ClientFlags => self.whole(4, input, |session, data| session.flags(data)),
            State::OptionHead => self.whole(wire::OPTION_BYTES, input, |session, data| {
                session.option_head(data)
            }),
            State::OptionData { code, len } => self.whole(len, input, |session, data| {
                let next = handshake::answer(export, &mut session.agreed, code, data, out);
                session.go_to(next)
            }),
            State::OptionSkip { code, left } => {
                let (taken, left) = skip(input, left);
                self.state = State::OptionSkip { code, left };
                match left {
                    0 => (taken, self.go_to(handshake::refuse_long(code, out))),
                    _ => (taken, SessionEvent::More),
                }
            }
            State::Request => self.whole(wire::REQUEST_BYTES, input, |session, data| {
                session.request(export, data, out)
            }),
            State::Skip {
                left,
                cookie,
                errno,
            } => {
                let (taken, left) = skip(input, left);
                self.state = State::Skip {
                    left,
                    cookie,
                    errno,
                };
                if left > 0 {
                    return (taken, SessionEvent::More);
                }
                self.state = State::Request;
                wire::put_simple(out, cookie, errno as u32);
                (taken, SessionEvent::Refused)
            }
        }
    }

    /// Calls `then` with the next `len` bytes when all have arrived.
    fn whole(
        &mut self,
        len: usize,
        input: &[u8],
        then: impl FnOnce(&mut Self, &[u8]) -> SessionEvent,
    ) -> (usize, SessionEvent) {
        let missing = len.saturating_sub(self.held.len());
        let Some(rest) = input.get(..missing) else {
            self.held.extend(input);
            return (input.len(), SessionEvent::More);
        };
        let mut held = std::mem::take(&mut self.held);
        let event = if held.is_empty() {
            then(self, rest)
        } else {
            held.extend(rest);
            then(self, &held)
        };
        (missing, event)
    }

    fn go_to(&mut self, next: Next) -> SessionEvent {
        self.state = match next {
            Next::Option => State::OptionHead,
            Next::Tls => {
                // What was agreed on before may be another's (proto.md: the client starts again).
                self.agreed = Agreed {
                    tls: Tls::Established,
                    no_zeroes: self.agreed.no_zeroes,
                    ..Agreed::default()
                };
                State::OptionHead
            }
            Next::Transmission => State::Request,
            Next::Closed(end) => State::Closed(end),
        };
        match next {
            Next::Closed(end) => SessionEvent::Closed(end),
            Next::Tls => SessionEvent::StartTls,
            _ => SessionEvent::Message,
        }
    }

    fn close(&mut self, end: End) -> SessionEvent {
        self.go_to(Next::Closed(end))
    }

    fn flags(&mut self, data: &[u8]) -> SessionEvent {
        let flags = Fields(data).u32_be().unwrap_or(u32::MAX);
        let (fixed, no_zeroes) = (
            u32::from(wire::FLAG_FIXED_NEWSTYLE),
            u32::from(wire::FLAG_NO_ZEROES),
        );
        // proto.md, "Client flags": a server may serve a client without FIXED_NEWSTYLE, which has
        // EXPORT_NAME alone.
        if flags & !(fixed | no_zeroes) != 0 {
            return self.close(End::NotNbd);
        }
        self.agreed.no_zeroes = flags & no_zeroes != 0;
        self.go_to(Next::Option)
    }

    fn option_head(&mut self, data: &[u8]) -> SessionEvent {
        let mut fields = Fields(data);
        let (magic, code, len) = (fields.u64_be(), fields.u32_be(), fields.u32_be());
        let (Some(wire::OPTION_MAGIC), Some(code), Some(len)) = (magic, code, len) else {
            return self.close(End::NotNbd);
        };
        self.state = if len as usize <= MAX_HELD_BYTES {
            State::OptionData {
                code,
                len: len as usize,
            }
        } else {
            State::OptionSkip { code, left: len }
        };
        SessionEvent::Message
    }

    fn request(&mut self, export: &Export, data: &[u8], out: &mut Vec<u8>) -> SessionEvent {
        let Some(raw) = Raw::parse(data) else {
            return self.close(End::NotNbd);
        };
        if raw.kind == command::DISC {
            return self.close(End::Disconnected);
        }
        let checked = match raw.kind {
            command::BLOCK_STATUS => raw.status(export, self.agreed).map(|extent| {
                let data = [wire::BASE_ALLOCATION_ID, extent, 0].map(u32::to_be_bytes);
                wire::put_chunk(out, raw.cookie, chunk::BLOCK_STATUS, 12);
                out.extend(data.concat());
                None
            }),
            _ => raw.check(export, self.agreed).map(Some),
        };
        match checked {
            Ok(None) => SessionEvent::Message,
            Ok(Some(request)) => {
                if request.command == ExportCommand::Write {
                    self.state = State::Payload { left: raw.len };
                }
                SessionEvent::Request(request)
            }
            // A write's payload is on its way all the same.
            Err(refusal) if raw.kind == command::WRITE && raw.len > 0 => {
                self.state = State::Skip {
                    left: raw.len,
                    cookie: raw.cookie,
                    errno: refusal.0,
                };
                SessionEvent::Message
            }
            Err(Refusal(errno, why)) => {
                let needs_chunk = matches!(raw.kind, command::READ | command::BLOCK_STATUS);
                if needs_chunk && self.agreed.structured {
                    wire::put_error_chunk(out, raw.cookie, errno, why)
                } else {
                    wire::put_simple(out, raw.cookie, errno as u32)
                }
                SessionEvent::Refused
            }
        }
    }
}

/// Takes what is to be skipped; returns how much was, and how much is left.
fn skip(input: &[u8], left: u32) -> (usize, u32) {
    let taken = input.len().min(left as usize);
    (taken, left - taken as u32)
}

/// An error, and a text for people.
struct Refusal(Errno, &'static str);

/// A request as it arrived.
struct Raw {
    flags: u16,
    kind: u16,
    cookie: u64,
    offset: u64,
    len: u32,
}

impl Raw {
    fn parse(data: &[u8]) -> Option<Self> {
        let mut fields = Fields(data);
        if fields.u32_be()? != wire::REQUEST_MAGIC {
            return None;
        }
        Some(Self {
            flags: fields.u16_be()?,
            kind: fields.u16_be()?,
            cookie: fields.u64_be()?,
            offset: fields.u64_be()?,
            len: fields.u32_be()?,
        })
    }

    fn check(&self, export: &Export, agreed: Agreed) -> Result<Request, Refusal> {
        let fua = if export.read_only {
            0
        } else {
            command_flag::FUA
        };
        let df = if agreed.structured {
            command_flag::DF
        } else {
            0
        };
        let (command, flags) = match self.kind {
            command::READ => (ExportCommand::Read, fua | df),
            command::WRITE => (ExportCommand::Write, fua),
            command::FLUSH => (ExportCommand::Flush, fua),
            command::TRIM => (ExportCommand::Trim, fua),
            command::WRITE_ZEROES => (ExportCommand::WriteZeroes, fua | command_flag::NO_HOLE),
            _ => return Err(Refusal(Errno::Invalid, "unknown request")),
        };
        let changes = matches!(
            command,
            ExportCommand::Write | ExportCommand::Trim | ExportCommand::WriteZeroes
        );
        if changes && export.read_only {
            return Err(Refusal(Errno::NotPermitted, "the export is read-only"));
        }
        if self.flags & !flags != 0 {
            return Err(Refusal(Errno::Invalid, "unknown flag of the request"));
        }
        if (command == ExportCommand::Trim && !export.trim)
            || (command == ExportCommand::WriteZeroes && !export.write_zeroes)
        {
            return Err(Refusal(
                Errno::NotSupported,
                "the device does not support the operation",
            ));
        }
        match command {
            ExportCommand::Flush if (self.offset, self.len) != (0, 0) => {
                return Err(Refusal(Errno::Invalid, "a flush has no range"));
            }
            ExportCommand::Flush => {}
            _ => self.check_range(export, changes)?,
        }
        let moves = matches!(command, ExportCommand::Read | ExportCommand::Write);
        if moves && self.len > export.max_payload_bytes {
            return Err(Refusal(Errno::Invalid, "longer than the largest payload"));
        }
        Ok(Request {
            cookie: self.cookie,
            command,
            offset_bytes: self.offset,
            len_bytes: self.len,
            fua: changes && self.flags & command_flag::FUA != 0,
        })
    }

    fn check_range(&self, export: &Export, changes: bool) -> Result<(), Refusal> {
        if self.len == 0 {
            return Err(Refusal(Errno::Invalid, "the request has no bytes"));
        }
        let end = self.offset.checked_add(u64::from(self.len));
        if end.is_none_or(|end| end > export.size_bytes) {
            let errno = match self.kind {
                command::WRITE | command::WRITE_ZEROES => Errno::NoSpace,
                _ => Errno::Invalid,
            };
            return Err(Refusal(errno, "the range ends past the export's end"));
        }
        let misaligned = (self.offset | u64::from(self.len)) & (u64::from(export.block_bytes) - 1);
        if changes && misaligned != 0 {
            return Err(Refusal(
                Errno::Invalid,
                "not in whole blocks of the minimum size",
            ));
        }
        Ok(())
    }

    /// The length of the one extent that describes the range: it is all data.
    fn status(&self, export: &Export, agreed: Agreed) -> Result<u32, Refusal> {
        if !agreed.allocation {
            return Err(Refusal(Errno::Invalid, "no metadata context was selected"));
        }
        if self.flags & !command_flag::REQ_ONE != 0 {
            return Err(Refusal(Errno::Invalid, "unknown flag of the request"));
        }
        self.check_range(export, false)?;
        Ok(self.len)
    }
}
