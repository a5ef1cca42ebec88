// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The verbs, one file each.

pub mod array;
pub mod bind;
pub mod blast;
pub mod cat;
pub mod check;
pub mod command;
#[cfg(feature = "measuring")]
pub mod compare;
pub mod completions;
pub mod consent;
pub mod cp;
pub mod df;
pub mod doctor;
#[cfg(feature = "measuring")]
pub mod explain;
pub mod export;
pub mod flush;
pub mod format;
pub mod get;
#[cfg(feature = "measuring")]
pub mod import;
pub mod info;
pub mod label;
pub mod list;
pub mod load;
pub mod ls;
pub mod man;
pub mod map;
#[cfg(feature = "fuse")]
pub mod mount;
pub mod mv;
#[cfg(feature = "measuring")]
pub mod periodic;
pub mod play;
#[cfg(feature = "measuring")]
pub mod profile;
pub mod put;
pub mod read;
pub mod record;
pub mod release;
pub mod resize;
pub mod rm;
pub mod schema;
pub mod selftest;
#[cfg(feature = "servers")]
pub mod serve;
#[cfg(feature = "measuring")]
pub mod speed;
pub mod stat;
pub mod status;
#[cfg(feature = "measuring")]
pub mod sustain;
#[cfg(feature = "measuring")]
pub mod sweep;
pub mod table;
#[cfg(feature = "measuring")]
pub mod timeline;
#[cfg(feature = "measuring")]
pub mod trace;
pub mod trim;
pub mod upgrade;
pub mod version;
pub mod wipe;
#[cfg(feature = "measuring")]
pub mod workload;
pub mod write;

use crate::Context;
use crate::exit::Exit;
use clap::{Args, Command, Subcommand};
use devices::error::Result;
use devices::path::borrow::recover;
use schemars::schema_for;
use serde_json::Value;

/// The verbs, their modules, and what each prints with `--json`.
macro_rules! verbs {
    (@schema) => { None };
    (@schema $report:ty) => { Some(|| schema_for!($report).to_value()) };
    ($(#[doc = $about:literal] $(#[cfg(feature = $feature:literal)])? $module:ident $verb:ident $(reports $report:ty)?;)*) => {
        /// What to do.
        #[derive(Clone, Debug, Subcommand)]
        pub enum Verb {
            $(#[doc = $about] $(#[cfg(feature = $feature)])? $verb($module::$verb),)*
        }

        /// One verb's parser, without those of the others.
        pub fn alone(name: &str) -> Option<Command> {
            $($(#[cfg(feature = $feature)])? if name == stringify!($module) {
                let command = $module::$verb::augment_args(Command::new(stringify!($module)));
                return Some(command.about($about.trim()).long_about(None));
            })*
            None
        }

        /// The schema of what each verb prints, if it prints JSON, and that of an error.
        const SCHEMAS: &[(&str, Option<fn() -> Value>)] = &[
            $($(#[cfg(feature = $feature)])? (stringify!($module), verbs!(@schema $($report)?)),)*
            ("doctor-report", verbs!(@schema board::survey::Survey)),
            ("error", verbs!(@schema crate::console::ErrorReport)),
        ];

        /// Runs one verb.
        ///
        /// # Errors
        /// The verb failed.
        pub fn run(context: &Context, verb: &Verb) -> Result<Exit> {
            if !leaves_drives_alone(verb) {
                recover(context);
            }
            match verb {
                $($(#[cfg(feature = $feature)])? Verb::$verb(verb) => verb.run(context),)*
            }
        }
    };
}

verbs! {
    /// List NVMe drives and other disks, what uses them and what is on them
    list List reports list::Listing;
    /// Show what this machine has and lacks for each path
    doctor Doctor reports doctor::Diagnosis;
    /// Test a drive and the board around it; overwrites part of it
    selftest Selftest reports board::selftest::SelfTested;
    /// Show a drive's identity, limits, health, errors and firmware
    info Info reports info::InfoReport;
    /// Make, show or rebuild an array of devices
    array Array reports array::ArrayReport;
    /// Take a drive from its kernel driver until `release`
    bind Bind reports bind::Bound;
    /// Return a drive to the driver that it had
    release Release reports bind::Bound;
    /// Read part of a drive to standard output, a file or a checksum
    read Read reports read::Report;
    /// Write standard input or a file to a drive
    write Write reports read::Report;
    /// Send a generic or vendor specific command to a drive
    command Command reports command::Answer;
    /// Measure what each path to a drive costs
    #[cfg(feature = "measuring")]
    compare Compare reports measure::Comparison;
    /// Test whether a path sustains a rate within a deadline
    #[cfg(feature = "measuring")]
    sustain Sustain reports measure::sustain::Sustained;
    /// Measure paths over block sizes, patterns, depths and threads
    #[cfg(feature = "measuring")]
    sweep Sweep reports measure::sweep::Sweep;
    /// Time a periodic task that moves a buffer, under loads
    #[cfg(feature = "measuring")]
    periodic Periodic reports measure::periodic::Periodic;
    /// Show where the time of each request goes
    #[cfg(feature = "measuring")]
    trace Trace reports measure::trace::Traced;
    /// Show a dump of events as a timeline
    #[cfg(feature = "measuring")]
    timeline Timeline reports measure::trace::timeline::Timeline;
    /// Find what limits a path, and confirm it by changing it
    #[cfg(feature = "measuring")]
    explain Explain reports measure::explain::Explained;
    /// Show which functions take the processor's time
    #[cfg(feature = "measuring")]
    profile Profile reports measure::profile::Profiled;
    /// Measure how a path's time depends on the CPU's frequency
    #[cfg(feature = "measuring")]
    speed Speed reports measure::speed::Speed;
    /// Run a simulated application in a folder or on a volume
    #[cfg(feature = "measuring")]
    workload Workload reports ::workload::Worked;
    /// Show fio's results as a table, a report, JSON or CSV
    #[cfg(feature = "measuring")]
    import Import reports measure::Comparison;
    /// Make an empty volume on a device
    format Format reports ::files::format::FormatReport;
    /// Remove a volume from a device
    wipe Wipe reports wipe::Wiped;
    /// Store files, folders or standard input in a volume
    put Put reports put::Reported;
    /// Fetch files from a volume
    get Get reports put::Reported;
    /// Print files of a volume, one after the other
    cat Cat;
    /// Run a command that reads a file of a volume through memory
    map Map reports map::Report;
    /// Write the table with which hardware reads a file of a volume through memory
    table Table reports table::Report;
    /// Load a file of a volume into a window of physical memory
    load Load reports load::Moved;
    /// Write a window of physical memory back to a file of a volume
    flush Flush reports load::Moved;
    /// Search for nucleotide sequences in a BLAST database on a volume
    blast Blast reports blast::Searched;
    /// List the files of a volume
    ls Ls reports ls::Listing;
    /// Remove files from a volume
    rm Rm reports rm::Removed;
    /// Copy a file within a volume
    cp Cp reports put::Reported;
    /// Rename a file of a volume
    mv Mv reports mv::Renamed;
    /// Show what a volume, or a file in it, consists of
    stat Stat reports stat::Status;
    /// Show the space of volumes
    df Df reports df::Volumes;
    /// Show or change the label of a volume
    label Label reports label::Labelled;
    /// Make a volume longer or shorter
    resize Resize reports ::files::resize::Resized;
    /// Show the format of a volume, or take it back to format 1.0
    upgrade Upgrade reports ::files::upgrade::Upgraded;
    /// Give the free space of a volume back to the drive
    trim Trim reports trim::Trimmed;
    /// Check a volume, and repair what a scan can prove
    check Check reports check::Checked;
    /// Record a stream into a volume at its rate
    record Record reports recorder::report::RecordedFile;
    /// Show how the recording on a volume goes
    status Status reports status::Reported;
    /// Export a recording as files that other tools open
    export Export reports export::Exported;
    /// Play a file of a volume at a rate
    play Play reports recorder::report::PlayedFile;
    /// Show the files of a volume as a folder, to read and, with --write, to change
    #[cfg(feature = "fuse")]
    mount Mount;
    /// Serve a device, or a file of a volume, as a disk of others
    #[cfg(feature = "servers")]
    serve Serve reports serve::Report;
    /// Print completions for a shell
    completions Completions;
    /// Write the manual pages
    man Man;
    /// Print the JSON Schema of what a verb prints with --json
    schema Schema;
    /// Show which build of the command this is
    version Version reports version::Build;
}

/// The names of what has a schema, and how each is made.
pub fn schemas() -> impl Iterator<Item = (&'static str, fn() -> Value)> {
    let all = SCHEMAS.iter();
    all.filter_map(|(name, schema)| schema.map(|schema| (*name, schema)))
}

/// Verbs that only show devices, or open no drive. Before every other verb, a drive that a killed
/// process had borrowed is returned to its driver.
fn leaves_drives_alone(verb: &Verb) -> bool {
    match verb {
        #[cfg(feature = "measuring")]
        Verb::Import(_) | Verb::Timeline(_) => true,
        Verb::List(_) | Verb::Doctor(_) => true,
        Verb::Completions(_) | Verb::Man(_) | Verb::Schema(_) | Verb::Version(_) => true,
        _ => false,
    }
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
        #[cfg(feature = "measuring")]
        assert!(!of(&["workload", "videoserver", "nvme0n1"]));
        assert!(!of(&["read", "nvme0n1"]));
    }
}
