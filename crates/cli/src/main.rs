//! The `straightway` command; everything is in the library beside it.
#![forbid(unsafe_code)]

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = cli::Arguments::parse();
    ExitCode::from(cli::run(&arguments) as u8)
}
