// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings as files that other tools open: what is stored beside a recording, and what the
//! export makes of both.
//!
//! | module | contents |
//! | --- | --- |
//! | [`gaps`] | the lines of `NAME.gaps` |
//! | [`samples`] | types and rates of samples |
//! | [`sigmf`] | the metadata of samples |
//! | [`mcap`] | a whole file of messages from a stream that may end anywhere |
//! | [`pcapng`] | datagrams with their arrival times, whole in each block |

#![forbid(unsafe_code)]

mod error;
pub mod gaps;
pub mod mcap;
mod options;
pub mod pcapng;
pub mod samples;
pub mod sigmf;

pub use error::{FormatError, FormatErrorKind, Result};
pub use options::{Format, SigmfOptions};
