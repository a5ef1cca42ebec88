// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From a name to an open, guarded block device.
//!
//! | module | contents |
//! | --- | --- |
//! | [`drive`] | what a name means: an NVMe drive, a disk, a file, memory, a model, an array, a remote namespace, a coprocessor |
//! | [`guard`] | who may write to it, and to files of the host |
//! | [`path`] | opens it by one of the [`paths`] |
//! | [`transfer`] | moves a range of its data |
//! | [`command`] | generic commands to it |
//! | [`facts`] | what it reports about itself |
//! | [`error`] | errors |
//! | [`progress`], [`cancel`] | what an operation reports while it goes on, and how it is ended |
//!
//! Nothing is changed on a drive unless its serial number was named, and a drive is always returned
//! to its driver.
#![forbid(unsafe_code)]
// Paths share code: without the drive stack some of it is unused.
#![cfg_attr(
    not(feature = "drives"),
    allow(dead_code, unused_imports, unused_variables)
)]

/// The example of the crate's page, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod cancel;
#[cfg(feature = "drives")]
pub mod command;
mod context;
pub mod drive;
pub mod error;
#[cfg(feature = "drives")]
pub mod facts;
pub mod guard;
pub mod path;
pub mod progress;
#[cfg(feature = "signals")]
mod signals;
pub mod transfer;

pub use cancel::Cancel;
pub use context::Context;
pub use error::{Error, ErrorKind, Result};
pub use progress::{Bar, Listener, Meter, Progress};

/// The version of the JSON of all reports, except those of measurements, which have their own
/// version.
pub const SCHEMA_VERSION: u32 = 2;
