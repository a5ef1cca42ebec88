//! The `straightway` command; everything is in the library beside it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(cli::start(std::env::args_os()))
}
