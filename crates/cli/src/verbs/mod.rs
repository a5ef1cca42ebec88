//! The verbs, one file each.

pub mod bind;
pub mod check;
pub mod compare;
pub mod completions;
pub mod doctor;
pub mod explain;
pub mod format;
pub mod get;
pub mod import;
pub mod info;
pub mod list;
pub mod ls;
pub mod man;
pub mod mv;
pub mod periodic;
pub mod play;
pub mod profile;
pub mod put;
pub mod read;
pub mod record;
pub mod release;
pub mod rm;
pub mod schema;
pub mod speed;
pub mod stat;
pub mod sustain;
pub mod sweep;
pub mod trace;
pub mod workload;
pub mod write;

use crate::Context;
use crate::arguments::Verb;
use crate::failure::{Exit, Result};
use crate::path::borrow::recover;

/// Runs one verb.
///
/// # Errors
/// The verb's.
pub fn run(context: &Context, verb: &Verb) -> Result<Exit> {
    if changes_drivers(verb) {
        recover(&context.roots, &context.console);
    }
    match verb {
        Verb::List(verb) => verb.run(context),
        Verb::Doctor(verb) => verb.run(context),
        Verb::Info(verb) => verb.run(context),
        Verb::Bind(verb) => verb.run(context),
        Verb::Release(verb) => verb.run(context),
        Verb::Read(verb) => verb.run(context),
        Verb::Write(verb) => verb.run(context),
        Verb::Compare(verb) => verb.run(context),
        Verb::Sustain(verb) => verb.run(context),
        Verb::Sweep(verb) => verb.run(context),
        Verb::Periodic(verb) => verb.run(context),
        Verb::Trace(verb) => verb.run(context),
        Verb::Explain(verb) => verb.run(context),
        Verb::Profile(verb) => verb.run(context),
        Verb::Speed(verb) => verb.run(context),
        Verb::Workload(verb) => verb.run(context),
        Verb::Import(verb) => verb.run(context),
        Verb::Format(verb) => verb.run(context),
        Verb::Put(verb) => verb.run(context),
        Verb::Get(verb) => verb.run(context),
        Verb::Ls(verb) => verb.run(context),
        Verb::Rm(verb) => verb.run(context),
        Verb::Mv(verb) => verb.run(context),
        Verb::Stat(verb) => verb.run(context),
        Verb::Check(verb) => verb.run(context),
        Verb::Record(verb) => verb.run(context),
        Verb::Play(verb) => verb.run(context),
        Verb::Completions(verb) => verb.run(context),
        Verb::Man(verb) => verb.run(context),
        Verb::Schema(verb) => verb.run(context),
    }
}

fn changes_drivers(verb: &Verb) -> bool {
    matches!(
        verb,
        Verb::Info(_)
            | Verb::Bind(_)
            | Verb::Release(_)
            | Verb::Read(_)
            | Verb::Write(_)
            | Verb::Compare(_)
            | Verb::Sustain(_)
            | Verb::Sweep(_)
            | Verb::Trace(_)
            | Verb::Explain(_)
            | Verb::Profile(_)
            | Verb::Speed(_)
            | Verb::Periodic(_)
            | Verb::Format(_)
            | Verb::Put(_)
            | Verb::Get(_)
            | Verb::Ls(_)
            | Verb::Rm(_)
            | Verb::Mv(_)
            | Verb::Stat(_)
            | Verb::Check(_)
            | Verb::Record(_)
            | Verb::Play(_)
    )
}
