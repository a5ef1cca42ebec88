// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The storage coprocessor's command interface: rings in shared memory between the main CPU and a
//! processor that owns the drive. `docs/coprocessor.md` has every byte.
//!
//! | module | what it is |
//! | --- | --- |
//! | `layout`, `command`, `status` | the window, the rings' entries, the error codes |
//! | `memory` | access to the window; the only `unsafe` |
//! | `service` | the coprocessor's side: sessions, blocks, files, streams |
//! | `client`, `device`, `files` | the main CPU's side: a session, a block device, a volume |
//! | `order`, `record`, `play` | streams: their tables, and the main CPU's side of each kind |
//! | `mapped` | storage as memory for an application on a second hart |
//!
//! The service trusts nothing that a client writes: an entry is copied out of the window once and
//! then checked, and all state that decisions depend on is in the coprocessor's own memory. The
//! client accepts a completion only if it matches one of its own commands.
//!
//! Neither side allocates, and the service is the same code in the firmware and in the tests here.
#![no_std]
#![deny(unsafe_code)]

#[cfg(test)]
extern crate std;

#[cfg(feature = "client")]
mod client;
mod command;
#[cfg(feature = "client")]
mod device;
#[cfg(all(feature = "client", feature = "files"))]
mod files;
mod header;
pub mod layout;
#[cfg(all(feature = "mapped", target_has_atomic = "64"))]
pub mod mapped;
mod memory;
#[cfg(feature = "stream")]
mod order;
#[cfg(all(feature = "client", feature = "stream"))]
mod play;
#[cfg(all(feature = "client", feature = "stream"))]
mod record;
#[cfg(feature = "service")]
mod service;
mod status;
#[cfg(test)]
mod testing;

#[cfg(feature = "client")]
pub use client::{AttachFailed, Client, ClientOptions};
pub use command::{Answer, FLAG_CHECKSUMS, FLAG_FUA, FLAG_WRITE, LATE, Opcode, RingCommand};
#[cfg(feature = "client")]
pub use device::CoprocessorDisk;
#[cfg(all(feature = "client", feature = "files"))]
pub use files::{FileNumber, FileSizes, FilesClient, ListedFile, Moved};
pub use header::{Access, Drive, Grant, Header, HeaderError, State};
pub use memory::Window;
#[cfg(feature = "stream")]
pub use order::{ORDER_GAPS, ORDER_VERIFY, Order, decode_play, decode_record};
#[cfg(all(feature = "client", feature = "stream"))]
pub use play::{Delivered, Playing, PlayingOptions};
#[cfg(all(feature = "client", feature = "stream"))]
pub use record::{Recording, RecordingOptions, Written};
#[cfg(feature = "files")]
#[cfg(feature = "service")]
pub use service::files::Files;
#[cfg(feature = "service")]
pub use service::{ClientEvent, Service, Want};
#[cfg(feature = "stream")]
pub use status::StreamEnd;
pub use status::{Code, CompletionStatus, Error};
