//! The verbs, one file each.

pub mod bind;
pub mod compare;
pub mod completions;
pub mod doctor;
pub mod info;
pub mod list;
pub mod man;
pub mod read;
pub mod release;
pub mod schema;
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
    )
}
