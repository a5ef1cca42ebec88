// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The device's side of virtio-blk (Virtual I/O Device specification 1.2, 5.2 "Block Device") over
//! any [`block::Device`], without a transport of its own.
//!
//! | module | contents |
//! | --- | --- |
//! | `disk` | what a driver sees: features and the configuration space |
//! | `chain` | a request of a driver: its descriptor chain, checked |
//! | `rings` | the virtqueues: requests to an [`Engine`](export::Engine), answers back |
//!
//! [`Rings`] has the state of all queues of one driver. What comes from the driver's memory is read
//! once and then checked; a request that is wrong gets its status, and rings that are wrong end the
//! driver's session ([`Broken`]). A transport (vhost-user: `straightway serve --vhost-user`)
//! supplies memory and addresses, and wakes and is woken.
#![forbid(unsafe_code)]

pub use block;
pub use export;
pub use vm_memory;

mod chain;
mod disk;
mod rings;

pub use chain::Broken;
pub use disk::{Disk, ID_BYTES, SECTOR_BYTES};
pub use rings::{QUEUE_ENTRIES, Rings};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
