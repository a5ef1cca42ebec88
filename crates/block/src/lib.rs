// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The one block interface.
//!
//! Every path to storage in Straightway is a [`Device`]: submit a [`Request`], later poll a
//! [`Completion`]. A [`Buffer`] moves into the request and comes back with the completion, so
//! while the device may touch it, nothing else can. A blocking call is a loop over those two
//! (see [`blocking`]).
//!
//! This crate allocates nothing, blocks nowhere, and keeps its `unsafe` in two modules
//! ([`buffer`]).
//!
//! ```
//! use straightway_block::{blocking, Buffer, RamDisk};
//!
//! let disk: &'static mut [u8] = Box::leak(vec![0; 64 * 512].into_boxed_slice());
//! let data: &'static mut [u8] = Box::leak(vec![7; 1024].into_boxed_slice());
//! let mut device = RamDisk::<_, 4>::new(disk, 9).unwrap();
//! let written = blocking::write(&mut device, 2, Buffer::from_static(data), false);
//! written.result.unwrap();
//! let mut buffer = written.buffer;
//! buffer.fill(0);
//! let read = blocking::read(&mut device, 2, buffer);
//! read.result.unwrap();
//! assert!(read.buffer.iter().all(|&byte| byte == 7));
//! ```
#![no_std]
#![deny(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod barrier;
pub mod blocking;
pub mod buffer;
mod clock;
mod device;
mod error;
pub mod fields;
mod geometry;
mod ram;
mod request;

pub use buffer::{Buffer, Lent};
pub use clock::Clock;
pub use device::Device;
pub use error::{Error, PackedError};
pub use geometry::{Features, Geometry};
pub use ram::RamDisk;
pub use request::{Completion, Operation, Refused, Request, Tag};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
