// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures what each path to a drive costs, why, and whether it meets a deadline.
//!
//! A [`Path`] is one way to access the drive (through a file system, the block layer, a user-space
//! driver, ...). Each question has its own module, and each answer has JSON with a schema;
//! `reports` shows it as text and as a page:
//!
//! | question | module | loop |
//! | --- | --- | --- |
//! | what does each path cost? | [`compare`], [`sweep`] | closed ([`cell`]) |
//! | does it keep up with a rate? | [`sustain`] | open ([`open_loop`]) |
//! | how regular is a periodic task? | [`periodic`] | open |
//! | where does a request's time go? | [`trace`] | one at a time |
//! | where does the processor's time go? | [`profile`] | closed, sampled by perf |
//! | what limits it? | [`explain`] | from results of closed loops |
//! | what does the processor's speed change? | [`speed`] | from results of closed loops |
//!
//! Principles:
//!
//! * Every path does the same work: the offsets and the data depend on the seed, not on the path.
//! * Processor time is that of the whole machine less that of the idle machine; a path that polls
//!   is marked.
//! * No figure without its interval, and no interval from too few samples.
//! * The environment is read before and after; a run in which it changed is not valid.
//! * Service times of a closed loop hide stalls; response times count from the intended arrival.
//! * The timed path allocates nothing, takes no lock and calls nothing but the device and the
//!   clock.
//!
//! ```
//! use straightway_measure::run_info::Request;
//! use straightway_measure::{CompareError, Comparison, Host, Path, Progress, Settings, compare};
//! use std::sync::atomic::AtomicBool;
//!
//! /// Reads of 4 KiB by every path.
//! fn reads(host: &mut dyn Host, paths: &mut [Box<dyn Path>]) -> Result<Comparison, CompareError> {
//!     let settings = Settings {
//!         block_sizes_bytes: vec![4096],
//!         ..Settings::default()
//!     };
//!     let mut progress = |step: &Progress<'_>| assert!(step.done_cells <= step.total_cells);
//!     let cancel = AtomicBool::new(false);
//!     let request = Request::default();
//!     let comparison = compare(host, paths, &request, &settings, &mut progress, &cancel)?;
//!     assert!(comparison.run.valid && comparison.run.complete);
//!     Ok(comparison)
//! }
//! ```
#![forbid(unsafe_code)]

// The simulated host of `tests/` names the crate as external users do.
#[cfg(test)]
extern crate self as straightway_measure;
#[cfg(test)]
#[path = "../tests/simulated/mod.rs"]
mod simulated;

/// Displays a value by its name in JSON.
macro_rules! shown_as_in_json {
    ($($name:ty),+) => {$(
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                serde::Serialize::serialize(self, f)
            }
        }
    )+};
}

/// An enum whose variants have their names in JSON, and the given words in text.
macro_rules! named {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$what:meta])* $variant:ident = $words:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum $name {
            $($(#[$what])* $variant,)+
        }

        impl $name {
            /// All of them, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(match self {
                    $(Self::$variant => $words,)+
                })
            }
        }
    };
}

pub mod access;
pub mod advice;
pub mod cell;
mod compare;
pub mod cpu;
mod crew;
pub mod csv;
pub mod distribution;
mod environment;
pub mod explain;
pub mod fewest;
pub mod findings;
pub mod fio;
mod flight;
pub mod format;
mod host;
pub mod interrupts;
pub mod open_loop;
mod operations;
mod others;
mod path;
pub mod periodic;
mod plan;
pub mod profile;
pub mod run_info;
mod schedule;
pub mod schema;
mod session;
mod settings;
pub mod speed;
mod stage;
mod summary;
pub mod sustain;
pub mod sweep;
mod tally;
mod times;
pub mod trace;
pub mod why;
mod work;

pub use statistics::random;
use statistics::{stats, tail, trend, warm_up};

pub use access::{Access, Operation, Pattern};
pub use compare::compare;
pub use environment::{Environment, Subject};
pub use host::{Clock, Host, Monotonic};
pub use operations::Operations;
pub use path::{Counters, Missing, Path, Region};
pub use paths::{LatencyLimit, LimitedBy};
pub use run_info::DeviceInfo;
pub use schema::{Comparison, MissingPath, PathResult};
pub use session::Progress;
pub use settings::{CompareError, Settings};
pub use work::{Cost, Work, WorkCounter};
