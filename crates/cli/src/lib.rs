//! The `straightway` command: one tool for every path to an NVMe drive.
//!
//! | module | what it is |
//! | --- | --- |
//! | `arguments`, `units`, `drive` | what the user writes |
//! | `verbs` | one file a verb |
//! | `path` | from a drive to an open block device |
//! | `transfer` | moving a stretch of it |
//! | `volume` | a mounted volume on it |
//! | `stream` | where a recording comes from, where a playback goes |
//! | `bench` | every path as the instrument wants it, for all verbs that measure |
//! | `output` | what a run leaves |
//! | `facts`, `guard`, `keep` | what a drive is; what protects it; keeping it bound |
//! | `console`, `signals`, `failure` | messages, Ctrl-C, exit codes |
//!
//! Data goes to standard output, all else to standard error. Nothing is changed on a drive unless
//! `--destroy-data` names its serial number, and a drive goes back to its driver whatever happens.
#![forbid(unsafe_code)]

pub mod arguments;
pub mod bench;
pub mod console;
pub mod drive;
pub mod facts;
pub mod failure;
pub mod guard;
pub mod output;
pub mod path;
pub mod signals;
pub mod stream;
pub mod transfer;
pub mod units;
pub mod verbs;
pub mod volume;

pub use arguments::{Arguments, Verb};
pub use failure::{Exit, Failure, Result};

use console::Console;
use linux::Roots;
use signals::Cancel;

/// The version of the JSON that the verbs print, but `compare`, which has its own.
pub const SCHEMA_VERSION: u32 = 2;

/// What every verb needs.
pub struct Context {
    /// Where the kernel's files are.
    pub roots: Roots,
    /// Where messages go.
    pub console: Console,
    /// Whether the user wants an end.
    pub cancel: Cancel,
}

/// Does what the user asked for; says what went wrong.
pub fn run(arguments: &Arguments) -> Exit {
    let console = Console {
        quiet: arguments.quiet,
    };
    let context = Context {
        roots: Roots::system(),
        console,
        cancel: Cancel::listen(),
    };
    match verbs::run(&context, &arguments.verb) {
        Ok(exit) => exit,
        Err(failure) => {
            console.fail(&failure);
            failure.exit()
        }
    }
}
