//! `libstraightway`: devices of the command for programs in C. The header is `include/straightway.h`.
//!
//! | module | contents |
//! | --- | --- |
//! | [`calls`] | the functions of the header: pointers in, a status out |
//! | `handles` | a thread's open devices, so that a handle of a closed device or of another thread is an error |
//! | `session` | an open device: its memory and its requests in flight |
//! | `error` | the last error of a thread |
//!
//! A call never panics into C: a panic is caught and reported as a defect of the library.
#![deny(unsafe_code)]

#[allow(non_camel_case_types)]
pub mod calls;
mod error;
mod handles;
mod memory;
mod session;
