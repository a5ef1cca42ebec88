// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The protocol's numbers, and the encoders of replies. All integers are big-endian (proto.md,
//! "Protocol phases").

use block::fields::Fields;

/// First bytes of a server: "NBDMAGIC".
pub const NBD_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Before each option, and after [`NBD_MAGIC`]: "IHAVEOPT".
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Before the reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Before a request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Before a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Before a chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Handshake and client flags: fixed newstyle.
pub const FLAG_FIXED_NEWSTYLE: u16 = 1;
/// Handshake and client flags: no zeroes after an export's size and flags.
pub const FLAG_NO_ZEROES: u16 = 2;

/// Bytes of a request without its payload.
pub const REQUEST_BYTES: usize = 28;
/// Bytes of an option without its data.
pub const OPTION_BYTES: usize = 16;
/// The longest text of the protocol.
pub const MAX_TEXT_BYTES: usize = 4096;

/// Options of the handshake.
pub mod option {
    #![allow(missing_docs)]
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const STARTTLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Types of replies to options.
pub mod option_reply {
    #![allow(missing_docs)]
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    pub const ERR_UNSUP: u32 = 0x8000_0001;
    pub const ERR_INVALID: u32 = 0x8000_0003;
    pub const ERR_TLS_REQD: u32 = 0x8000_0005;
    pub const ERR_UNKNOWN: u32 = 0x8000_0006;
    pub const ERR_TOO_BIG: u32 = 0x8000_0009;
}

/// Types of information about an export.
pub mod info {
    #![allow(missing_docs)]
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DESCRIPTION: u16 = 2;
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags: what an export can do.
pub mod export_flag {
    #![allow(missing_docs)]
    pub const HAS_FLAGS: u16 = 1 << 0;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub const SEND_DF: u16 = 1 << 7;
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
}

/// Types of requests.
pub mod command {
    #![allow(missing_docs)]
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISC: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const WRITE_ZEROES: u16 = 6;
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of a request.
pub mod command_flag {
    #![allow(missing_docs)]
    pub const FUA: u16 = 1 << 0;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DF: u16 = 1 << 2;
    pub const REQ_ONE: u16 = 1 << 3;
}

/// Types of chunks of a structured reply.
pub mod chunk {
    #![allow(missing_docs)]
    pub const NONE: u16 = 0;
    pub const OFFSET_DATA: u16 = 1;
    pub const BLOCK_STATUS: u16 = 5;
    pub const ERROR: u16 = 0x8001;
    /// Flag: the last chunk of its reply.
    pub const DONE: u16 = 1;
}

/// The one metadata context.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// The number of [`BASE_ALLOCATION`] in replies.
pub const BASE_ALLOCATION_ID: u32 = 1;

/// The protocol's error numbers (proto.md, "Error values").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    /// The export is read-only.
    NotPermitted = 1,
    /// The device failed.
    Io = 5,
    /// The request is malformed, unaligned or outside of the export.
    Invalid = 22,
    /// A write past the end, or the device is full.
    NoSpace = 28,
    /// The device does not support the operation.
    NotSupported = 95,
    /// The server is about to end.
    Shutdown = 108,
}

impl Errno {
    /// The nearest number for a device's error.
    pub const fn of(error: block::Error) -> Self {
        match error {
            block::Error::ReadOnly => Self::NotPermitted,
            block::Error::OutOfRange | block::Error::Unaligned => Self::Invalid,
            block::Error::Unsupported => Self::NotSupported,
            // ENOSPC and EDQUOT of the file system that holds the device's file.
            block::Error::Os { errno: 28 | 122 } => Self::NoSpace,
            _ => Self::Io,
        }
    }
}

/// What a server says first.
pub fn greeting() -> [u8; 18] {
    let mut bytes = [0; 18];
    bytes[..8].copy_from_slice(&NBD_MAGIC.to_be_bytes());
    bytes[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
    bytes[16..].copy_from_slice(&(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES).to_be_bytes());
    bytes
}

/// Appends the reply of type `kind` to an option.
pub fn put_option_reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.extend(OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend(option.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend((data.len() as u32).to_be_bytes());
    out.extend(data);
}

/// Appends a simple reply, without data; `error` is 0 for success.
pub fn put_simple(out: &mut Vec<u8>, cookie: u64, error: u32) {
    out.extend(SIMPLE_REPLY_MAGIC.to_be_bytes());
    out.extend(error.to_be_bytes());
    out.extend(cookie.to_be_bytes());
}

/// Appends the head of the only chunk of a structured reply, with `len` bytes after it.
pub fn put_chunk(out: &mut Vec<u8>, cookie: u64, kind: u16, len: u32) {
    out.extend(STRUCTURED_REPLY_MAGIC.to_be_bytes());
    out.extend(chunk::DONE.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend(cookie.to_be_bytes());
    out.extend(len.to_be_bytes());
}

/// Appends a structured reply that is an error with a text for a person.
pub fn put_error_chunk(out: &mut Vec<u8>, cookie: u64, error: Errno, text: &str) {
    let mut end = text.len().min(MAX_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    put_chunk(out, cookie, chunk::ERROR, 6 + end as u32);
    out.extend((error as u32).to_be_bytes());
    out.extend((end as u16).to_be_bytes());
    out.extend(&text.as_bytes()[..end]);
}

/// A text with its length in 32 bits before it. `None`: there are not enough bytes, or it is not
/// UTF-8.
pub fn text<'b>(fields: &mut Fields<'b>) -> Option<&'b str> {
    std::str::from_utf8(fields.counted_be()?).ok()
}
