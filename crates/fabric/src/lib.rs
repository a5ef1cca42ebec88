//! An NVMe/TCP initiator: a namespace of a remote target as a [`block::Device`].
//!
//! * [`ByteStream`] and [`Connect`]: what it needs from the platform. With sockets: `straightway-linux`.
//! * [`Queue`]: one connection: the PDUs of the NVMe/TCP transport specification, with header and data digests, in-capsule
//!   data, and R2T.
//! * [`Remote`]: an association: connects, identifies, keeps alive, reconnects within a deadline, and is the device.
//! * [`discovery`]: the log of a discovery subsystem.
//!
//! TLS is not part of it: use a proxy such as stunnel on both ends, or a private network.
//!
//! Nothing is allocated; there is no `unsafe`.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod command;
pub mod discovery;
mod error;
pub mod pdu;
mod queue;
mod receive;
mod remote;
mod stream;

pub use command::{Command, Connecting};
pub use error::FabricError;
pub use queue::{Done, Limits, Queue};
pub use remote::{Ana, Name, Options, Remote};
pub use stream::{ByteStream, Connect, StreamError};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
