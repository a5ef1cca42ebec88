// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `libstraightway`: devices and volumes of the command for programs in C. The header is
//! `include/straightway.h`.
//!
//! | module | contents |
//! | --- | --- |
//! | [`calls`] | the functions of the header: pointers in, a status out |
//! | [`command_calls`] | the one for a drive's own commands |
//! | [`volume_calls`] | those for volumes and their files |
//! | [`record_calls`] | those for recordings |
//! | [`play_calls`] | those for playbacks |
//! | [`map_calls`] | those for files and devices as memory |
//! | [`handles`] | what a thread has open, so that a handle that is closed or of another thread is an error |
//! | [`session`] | an open device: its memory and its requests in flight |
//! | [`mounted`] | a mounted volume, and the device that it borrows |
//! | [`error`] | the last error of a thread |
//! | [`settings`] | settings as numbers and names |
//!
//! `crates/python` uses the last five: what its objects name are the same handles, with the same
//! rules.
//!
//! A call never panics into C: a panic is caught and reported as a defect of the library.
#![deny(unsafe_code)]

#[allow(non_camel_case_types)]
pub mod calls;
#[allow(non_camel_case_types)]
pub mod command_calls;
pub mod error;
pub mod handles;
#[allow(non_camel_case_types)]
pub mod map_calls;
mod memory;
pub mod mounted;
#[allow(non_camel_case_types)]
pub mod play_calls;
#[allow(non_camel_case_types)]
pub mod record_calls;
pub mod session;
pub mod settings;
#[allow(non_camel_case_types)]
pub mod volume_calls;
pub mod wording;
