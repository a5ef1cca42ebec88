// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `straightway` command; its code is in the library of this crate.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(cli::start(std::env::args_os()))
}
