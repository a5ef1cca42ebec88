// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A library for `LD_PRELOAD`, by which an unchanged program opens a shared map as a file.
//!
//! | module | contents |
//! | --- | --- |
//! | `calls` | the C library's functions that this one replaces |
//! | `file` | the file: what its calls return |
//! | `status` | the file's size, blocks and positions |
//! | `stream` | the file as a stream (`fopen`) |
//! | `real` | the C library's own functions |
//!
//! Each replaced function looks whether it is about the file, and calls the C library's own
//! otherwise. That a descriptor is the file's is in a table of atomics, so that `read` and `close`
//! stay safe in signal handlers.
#![deny(unsafe_code)]

mod calls;
mod file;
mod real;
mod status;
mod stream;
