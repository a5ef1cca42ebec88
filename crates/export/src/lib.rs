// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The requests of several clients on one block device's queue, without a protocol and without I/O
//! of its own.
//!
//! | module | contents |
//! | --- | --- |
//! | `request` | what a client asks for: [`Request`] |
//! | [`engine`](Engine) | the requests of all clients: shares of memory, commands of the device, answers |
//! | `job` | one request under way, and its [`Answer`] |
//!
//! A server of a protocol turns what arrives into [`Request`]s, moves the data of writes into
//! [`Engine::space`] and that of reads out of [`Answer::data`], and calls [`Engine::turn`].
//! `straightway-nbd` and `straightway-virtio` are two such protocols.
#![forbid(unsafe_code)]

pub use block;

mod engine;
mod job;
mod request;

pub use engine::{Engine, Limits, Started};
pub use job::{Answer, Key};
pub use request::{ExportCommand, Request};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
