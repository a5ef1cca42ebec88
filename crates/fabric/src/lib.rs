// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An NVMe/TCP initiator: a namespace of a remote target as a [`block::Device`].
//!
//! * [`ByteStream`] and [`Connect`]: what it needs from the platform. With sockets:
//!   `straightway-linux`.
//! * [`Queue`]: one connection: the PDUs of the NVMe/TCP transport specification, with header and
//!   data digests, in-capsule data, and R2T.
//! * [`Remote`]: an association: connects, identifies, reconnects within a deadline, and is the
//!   device.
//! * [`KeepAlive`] and [`Keeper`]: its administration connection, for a thread or for polls.
//! * [`Timing`]: how long the commands of a lost association may still be executed.
//! * [`Backoff`]: the pauses between attempts.
//! * [`discovery`]: the log of a discovery subsystem.
//!
//! TLS is not part of it: use a proxy such as stunnel on both ends, or a private network.
//!
//! Nothing is allocated; there is no `unsafe`.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod backoff;
mod command;
pub mod discovery;
mod error;
mod fence;
mod keeper;
mod options;
pub mod pdu;
mod queue;
mod receive;
mod remote;
mod stream;

pub use backoff::Backoff;
pub use command::{Connecting, QueueEntry};
pub use error::{FabricError, Identifier};
pub use fence::Timing;
pub use keeper::{KeepAlive, Keeper};
pub use options::{Ana, Name, RemoteOptions};
pub use queue::{Done, Limits, Queue};
pub use remote::Remote;
pub use stream::{ByteStream, Connect, RemoteEvent, StreamError};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
