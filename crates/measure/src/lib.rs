//! The instrument: what each path to a drive costs.
//!
//! A [`Path`] is one way of reaching the drive (through a file system, the block layer, a
//! user-space driver, ...). [`compare`](compare()) asks all of them for the same operations, in
//! rounds of random order, and returns a [`Comparison`]: throughput, operations a second, the
//! whole machine's processor time, and the commands and interrupts that the drive saw, each with
//! a 95 % confidence interval. [`table()`] and [`report`](report()) show it; its JSON form has a published
//! schema ([`json_schema`]).
//!
//! What it holds to:
//!
//! * Every path is asked the same: the offsets and the data depend on the seed, not on the path.
//! * Processor time is the whole machine's, less that of the idle machine; a path that polls says
//!   so.
//! * No figure without its interval, and no interval from too few samples.
//! * The environment is read before and after; a run in which it changed is not valid.
//! * Service times are those of a closed loop, which hides stalls: they are not response times.
//!
//! ```
//! use measure::simulated::{Profile, SimulatedHost};
//! use measure::{DeviceInfo, Settings, compare};
//! use std::sync::atomic::AtomicBool;
//!
//! let mut host = SimulatedHost::new();
//! let mut paths = vec![host.path(Profile::default())];
//! let settings = Settings {
//!     block_sizes_bytes: vec![4096],
//!     ..Settings::default()
//! };
//! let mut progress = |step: &measure::Progress<'_>| assert!(step.done_cells <= step.total_cells);
//! let cancel = AtomicBool::new(false);
//! let device = DeviceInfo::default();
//! let comparison =
//!     compare(&mut host, &mut paths, device, &settings, &mut progress, &cancel).unwrap();
//! assert!(comparison.valid && comparison.complete);
//! assert!(measure::table(&comparison).contains("Random read, 4 KiB"));
//! ```
#![forbid(unsafe_code)]

pub mod access;
pub mod cell;
pub mod compare;
pub mod cpu;
pub mod environment;
pub mod findings;
pub mod format;
pub mod host;
pub mod interrupts;
pub mod path;
pub mod plan;
pub mod plot;
pub mod random;
pub mod report;
pub mod schema;
pub mod settings;
pub mod simulated;
pub mod stats;
pub mod summary;
pub mod table;
pub mod trend;

pub use access::{Access, Operation, Pattern};
pub use compare::{CompareError, Progress, compare};
pub use environment::{Environment, Subject};
pub use host::{Clock, Host, Monotonic};
pub use path::{Counters, Missing, Path, Region};
pub use report::{ReportError, report};
pub use schema::{Comparison, DeviceInfo, MissingPath, PathResult, json_schema};
pub use settings::Settings;
pub use table::table;
