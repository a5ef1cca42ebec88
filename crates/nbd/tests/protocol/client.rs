// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The client's side: messages, a server that is driven without sockets, and a parser of replies.

use std::fmt;
use std::sync::OnceLock;
use straightway_nbd::block::fields::Fields;
use straightway_nbd::block::{Buffer, Device, RamDisk};
use straightway_nbd::wire;
use straightway_nbd::{End, Engine, Export, ExportCommand, Limits, Session, SessionEvent, Started};

pub const DISK_BYTES: u64 = 64 << 10;
pub const PIECE_BYTES: usize = 1024;

/// What a client sends.
#[derive(Clone, Debug, Default)]
pub struct Conversation(pub Vec<u8>);

impl Conversation {
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
    }

    pub fn flags(&mut self, flags: u32) {
        self.bytes(&flags.to_be_bytes());
    }

    pub fn option(&mut self, code: u32, data: &[u8]) {
        self.bytes(&wire::OPTION_MAGIC.to_be_bytes());
        self.bytes(&code.to_be_bytes());
        self.bytes(&(data.len() as u32).to_be_bytes());
        self.bytes(data);
    }

    pub fn request(&mut self, flags: u16, kind: u16, cookie: u64, offset: u64, len: u32) {
        self.bytes(&wire::REQUEST_MAGIC.to_be_bytes());
        self.bytes(&flags.to_be_bytes());
        self.bytes(&kind.to_be_bytes());
        self.bytes(&cookie.to_be_bytes());
        self.bytes(&offset.to_be_bytes());
        self.bytes(&len.to_be_bytes());
    }
}

fn text(text: &str) -> Vec<u8> {
    let mut data = (text.len() as u32).to_be_bytes().to_vec();
    data.extend(text.as_bytes());
    data
}

/// The data of INFO and GO.
pub fn go(name: &str, kinds: &[u16]) -> Vec<u8> {
    let mut data = text(name);
    data.extend((kinds.len() as u16).to_be_bytes());
    data.extend(kinds.iter().flat_map(|kind| kind.to_be_bytes()));
    data
}

/// The data of SET_META_CONTEXT and LIST_META_CONTEXT.
pub fn contexts(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = text(name);
    data.extend((queries.len() as u32).to_be_bytes());
    data.extend(queries.iter().flat_map(|query| text(query)));
    data
}

/// What the disk holds at first.
pub fn content() -> Vec<u8> {
    static CONTENT: OnceLock<Vec<u8>> = OnceLock::new();
    let make = || (0..DISK_BYTES).map(|i| (i / 3) as u8).collect();
    CONTENT.get_or_init(make).clone()
}

pub fn disk() -> RamDisk<Vec<u8>, 4> {
    RamDisk::new(content(), 9).unwrap()
}

pub fn limits() -> Limits {
    Limits::new(disk().geometry(), PIECE_BYTES, 10 * PIECE_BYTES, 8)
}

pub fn export(write: bool) -> Export {
    Export {
        description: "a disk".to_owned(),
        ..Export::of(
            disk().geometry(),
            "disk",
            write,
            limits().max_payload_bytes(),
        )
    }
}

pub fn engine(clients: usize) -> Engine {
    let limits = limits();
    let buffers = (0..clients * limits.pieces)
        .map(|_| Buffer::from_static(Box::leak(vec![0xee; limits.piece_bytes].into_boxed_slice())));
    Engine::new(disk().geometry(), limits, clients, buffers.collect())
}

/// What came of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Talk {
    pub out: Vec<u8>,
    pub ended: Option<End>,
    pub refused: usize,
    pub disk: Vec<u8>,
}

/// Gives the parts of a client's bytes to a server, each whole, and answers each request before the
/// next.
pub fn talk(export: &Export, parts: &[&[u8]]) -> Talk {
    talk_in(Session::new(), export, parts)
}

/// The same in a session that has begun.
pub fn talk_in(mut session: Session, export: &Export, parts: &[&[u8]]) -> Talk {
    let mut disk = disk();
    let mut engine = engine(1);
    let mut out = wire::greeting().to_vec();
    let (mut writing, mut ended, mut refused) = (None, None, 0);
    for part in parts {
        let mut input = *part;
        loop {
            let (taken, event) = session.advance(export, input, &mut out);
            input = &input[taken..];
            match event {
                SessionEvent::More => {
                    assert!(input.is_empty(), "more is asked for while bytes are left");
                    break;
                }
                SessionEvent::Message | SessionEvent::StartTls => {}
                SessionEvent::Refused => refused += 1,
                SessionEvent::Request(request) => {
                    assert_eq!(
                        request.command == ExportCommand::Write,
                        session.payload_bytes() > 0
                    );
                    match engine.begin(0, request) {
                        Started::Accepted(key) => writing = Some(key),
                        Started::Later => panic!("no room for {request:?}"),
                    }
                }
                SessionEvent::Payload if input.is_empty() => break,
                SessionEvent::Payload => {
                    let space = engine.space(writing.unwrap());
                    let count = space.len().min(input.len());
                    assert!(count > 0 && count <= session.payload_bytes() as usize);
                    space[..count].copy_from_slice(&input[..count]);
                    engine.filled(writing.unwrap(), count);
                    session.take_payload(count as u32);
                    input = &input[count..];
                }
                SessionEvent::Closed(end) => {
                    ended = Some(end);
                    break;
                }
            }
            while engine.turn(&mut disk) {}
            while let Some(answer) = engine.answer() {
                straightway_nbd::put_head(&answer, session.is_structured(), &mut out);
                let mut sent = 0;
                while sent < answer.data_bytes() {
                    let data = answer.data(sent);
                    assert!(!data.is_empty());
                    out.extend(data);
                    sent += data.len();
                }
                engine.give_back(answer);
            }
        }
        if ended.is_some() {
            break;
        }
    }
    engine.abandon(0);
    let buffers = engine.into_buffers();
    let limits = limits();
    assert_eq!(buffers.len(), limits.pieces, "each buffer is back");
    assert!(buffers.iter().all(|one| one.len() == limits.piece_bytes));
    let mut bytes = Vec::new();
    let mut buffer = buffers.into_iter().next().unwrap();
    for at in 0..DISK_BYTES / PIECE_BYTES as u64 {
        let read = straightway_nbd::block::blocking::read(&mut disk, 2 * at, buffer);
        read.result.unwrap();
        buffer = read.buffer;
        bytes.extend_from_slice(&buffer);
    }
    Talk {
        out,
        ended,
        refused,
        disk: bytes,
    }
}

/// A reply as text, with its data.
#[derive(Clone, Debug)]
pub struct Reply {
    text: String,
    cookie: Option<u64>,
    data: Vec<u8>,
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The data of the reply with this cookie.
pub fn data_of(replies: &[Reply], cookie: u64) -> &[u8] {
    let mut all = replies.iter();
    &all.find(|one| one.cookie == Some(cookie)).unwrap().data
}

/// Everything that a server sent, with GO as the last option.
pub fn parse(out: &[u8]) -> Vec<Reply> {
    let mut fields = Fields(out);
    assert_eq!(fields.u64_be(), Some(wire::NBD_MAGIC));
    assert_eq!(fields.u64_be(), Some(wire::OPTION_MAGIC));
    let mut replies = vec![plain(format!("greeting {}", fields.u16_be().unwrap()))];
    while fields
        .0
        .starts_with(&wire::OPTION_REPLY_MAGIC.to_be_bytes())
    {
        fields.u64_be();
        let (option, kind) = (fields.u32_be().unwrap(), fields.u32_be().unwrap());
        let len = fields.u32_be().unwrap() as usize;
        let data = fields.bytes(len).unwrap();
        let what = option_reply(kind, data);
        replies.push(plain(format!("option {option}: {what}")));
    }
    replies.extend(parse_requests(fields.0, &[]));
    replies
}

fn option_reply(kind: u32, data: &[u8]) -> String {
    let string = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut fields = Fields(data);
    match kind {
        1 => {
            assert!(data.is_empty());
            "ack".to_owned()
        }
        2 => {
            let name = wire::text(&mut fields).unwrap();
            format!("server {name}, {}", string(fields.0))
        }
        3 => match fields.u16_be().unwrap() {
            0 => {
                let (size, flags) = (fields.u64_be().unwrap(), fields.u16_be().unwrap());
                assert!(fields.0.is_empty());
                format!("export {size} {flags}")
            }
            1 => format!("name {}", string(fields.0)),
            2 => format!("description {}", string(fields.0)),
            3 => {
                let sizes: [u32; 3] = std::array::from_fn(|_| fields.u32_be().unwrap());
                assert!(fields.0.is_empty());
                format!("blocks {} {} {}", sizes[0], sizes[1], sizes[2])
            }
            kind => panic!("information {kind}"),
        },
        4 => format!("context {} {}", fields.u32_be().unwrap(), string(fields.0)),
        kind => format!("error {kind:x}"),
    }
}

fn plain(text: String) -> Reply {
    Reply {
        text,
        cookie: None,
        data: Vec::new(),
    }
}

/// The replies to requests; of simple ones to reads the lengths are given, by cookie.
pub fn parse_requests(out: &[u8], simple_reads: &[(u64, usize)]) -> Vec<Reply> {
    let mut fields = Fields(out);
    let mut replies = Vec::new();
    while !fields.0.is_empty() {
        let (text, cookie, data) = match fields.u32_be().unwrap() {
            wire::SIMPLE_REPLY_MAGIC => {
                let (error, cookie) = (fields.u32_be().unwrap(), fields.u64_be().unwrap());
                let read = simple_reads.iter().find(|(read, _)| *read == cookie);
                match (error, read) {
                    (0, Some((_, len))) => {
                        let data = fields.bytes(*len).unwrap();
                        (format!("data: {len} bytes"), cookie, data)
                    }
                    (0, None) => ("done".to_owned(), cookie, &[][..]),
                    (error, _) => (format!("error {error}"), cookie, &[][..]),
                }
            }
            wire::STRUCTURED_REPLY_MAGIC => {
                assert_eq!(fields.u16_be(), Some(wire::chunk::DONE));
                let (kind, cookie) = (fields.u16_be().unwrap(), fields.u64_be().unwrap());
                let len = fields.u32_be().unwrap() as usize;
                let mut data = Fields(fields.bytes(len).unwrap());
                let text = match kind {
                    1 => format!("data at {}: {} bytes", data.u64_be().unwrap(), data.0.len()),
                    5 => {
                        let all: [u32; 3] = std::array::from_fn(|_| data.u32_be().unwrap());
                        format!("status {} {} {}", all[0], all[1], all[2])
                    }
                    0x8001 => {
                        let (error, len) = (data.u32_be().unwrap(), data.u16_be().unwrap());
                        let text = data.bytes(len.into()).unwrap();
                        format!("error {error} {}", std::str::from_utf8(text).unwrap())
                    }
                    kind => panic!("chunk {kind}"),
                };
                (text, cookie, data.0)
            }
            magic => panic!("not a reply: {magic:x}"),
        };
        replies.push(Reply {
            text: format!("{cookie}: {text}"),
            cookie: Some(cookie),
            data: data.to_vec(),
        });
    }
    replies
}
