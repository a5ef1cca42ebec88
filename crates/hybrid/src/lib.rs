// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hybrid direct I/O: a [`block::Device`] over any other.
//!
//! Small sequential accesses are gathered: writes are copied into a *line* (a large buffer) and
//! written by one aligned command, reads are served from lines that were read ahead. Everything
//! else (large accesses, random ones, those with force unit access) goes straight through, without
//! a copy. The border between small and large is measured on the device when it is opened, and
//! follows what is seen afterwards.
//!
//! # What a completed request promises
//!
//! * A write without `fua` promises what it promises on a drive with a volatile write cache, and
//!   the geometry says so: later reads see it, and it is durable after the next flush. Until then a
//!   power cut, or the end of the process, may lose it.
//! * A flush writes everything that was gathered before it, then flushes the device below.
//! * A write with `fua` first writes everything that was gathered before it, so that it never
//!   becomes durable before data that had completed earlier reached the device.
//! * A gathered write whose command fails later keeps its data in memory. The next write, or the
//!   next flush, ends with the error; that write has no effect and may be repeated. Each flush
//!   tries the data again, so a flush that succeeds has lost nothing.
//! * Gathered data waits at most [`HybridOptions::hold_us`], counted while the device is polled or
//!   kicked.
//!
//! Read-ahead is bounded by [`HybridOptions::ahead_lines`] and reported by [`Statistics`]; 0 turns
//! it off.
//!
//! [`Cache`] is another device over any other: it keeps short reads.
//!
//! Reading order: [`HybridOptions`], `hybrid.rs` (the device), `admit.rs` (where a request goes),
//! `lines.rs`, `border.rs`, [`Bytes`], [`Cache`].
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub use block;

mod admit;
mod ahead;
mod border;
mod bytes;
mod cache;
mod hybrid;
mod line;
mod lines;
mod options;
mod probe;
mod streams;
mod waiting;

pub use border::{Border, Direction};
pub use bytes::Bytes;
pub use cache::{Cache, CacheLine, Kept};
pub use hybrid::{Hybrid, Parts};
pub use options::{HybridOptions, OpenError, Statistics};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
