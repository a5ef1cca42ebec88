// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A server of the [Network Block Device protocol] over any [`block::Device`], without I/O of its
//! own.
//!
//! | module | contents |
//! | --- | --- |
//! | [`wire`] | the protocol's numbers, and the encoders of replies |
//! | [`export`](Export) | what is offered: size, limits, abilities |
//! | [`session`](Session) | one connection: bytes in, requests and replies out |
//! | `handshake` | the options of the fixed newstyle handshake |
//! | `reply` | the replies to requests that the device has ended: [`put_head`] |
//!
//! A [`Session`] takes the bytes of a connection in pieces of any length, answers what needs no
//! device by itself, and returns each valid [`Request`]. The [`Engine`] of `straightway-export`
//! divides requests into commands of the device, keeps a bounded share of memory for each
//! connection, and returns [`Answer`]s, whose data is sent from the device's own buffers. The
//! program between them owns the sockets.
//!
//! [Network Block Device protocol]: https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md
#![forbid(unsafe_code)]

pub use ::export::{Answer, Engine, ExportCommand, Key, Limits, Request, Started};
pub use block;

mod export;
mod handshake;
mod reply;
mod session;
pub mod wire;

pub use export::Export;
pub use reply::put_head;
pub use session::{End, Session, SessionEvent};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
