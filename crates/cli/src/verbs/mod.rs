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
    if !leaves_drives_alone(verb) {
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

/// Verbs that only show what there is, or open no drive. Before every other, a drive that a killed
/// process had borrowed goes back to its driver.
fn leaves_drives_alone(verb: &Verb) -> bool {
    matches!(
        verb,
        Verb::List(_)
            | Verb::Doctor(_)
            | Verb::Import(_)
            | Verb::Completions(_)
            | Verb::Man(_)
            | Verb::Schema(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Arguments;
    use clap::Parser;

    #[test]
    fn every_verb_that_opens_a_drive_gives_stale_ones_back_first() {
        let of = |words: &[&str]| {
            let words = [&["straightway"], words].concat();
            leaves_drives_alone(&Arguments::try_parse_from(words).unwrap().verb)
        };
        assert!(of(&["list"]));
        assert!(!of(&["workload", "videoserver", "nvme0n1"]));
        assert!(!of(&["read", "nvme0n1"]));
    }
}
