// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Simulated applications: their description in TOML, and their results.
//!
//! A workload has sets of files and groups of threads; each thread does its group's steps in turn.
//! Filebench's seven common workloads are in `crates/workload/workloads`; their data set is scaled
//! to the machine. A group with a rate is an open loop: each round counts from when it was due.
//!
//! | module | contents |
//! | --- | --- |
//! | `describe` | the description, read and checked |
//! | `sets` | the files of a run: sizes, and which of them exist |
//! | `store`, `folder` | where files are, and the open files of a thread |
//! | `run` | the files, the phases, the threads, and the sums |
//! | `shared` | what all threads share, and how operations are counted |
//! | `worker`, `helpers` | a thread's steps, and its asynchronous writes |
//! | `semaphore` | what groups wait for |

#![forbid(unsafe_code)]

/// The example of the crate's page, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod describe;
mod folder;
mod helpers;
mod run;
mod semaphore;
mod sets;
mod shared;
mod store;
mod worker;

pub use describe::{Amount, FileSet, Group, Op, Semaphore, Step, Table, Workload, WorkloadError};
pub use folder::Folder;
pub use run::{How, run};
pub use store::{LONGEST, Named, Session, Store, Use};

use measure::run_info::RunInfo;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The workloads that come with the program: name and text.
pub const BUILT_IN: [(&str, &str); 7] = [
    ("webserver", include_str!("../workloads/webserver.toml")),
    ("fileserver", include_str!("../workloads/fileserver.toml")),
    ("varmail", include_str!("../workloads/varmail.toml")),
    ("videoserver", include_str!("../workloads/videoserver.toml")),
    ("netsfs", include_str!("../workloads/netsfs.toml")),
    ("webproxy", include_str!("../workloads/webproxy.toml")),
    ("oltp", include_str!("../workloads/oltp.toml")),
];

/// The results of one kind of operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpResult {
    /// The group.
    pub group: String,
    /// The operation, or `round` for all of a group's steps together.
    pub operation: String,
    /// Number of them.
    pub count: u64,
    /// Number of failures.
    pub errors: u64,
    /// Transferred bytes.
    pub bytes: u64,
    /// Number per second.
    pub per_second: f64,
    /// Mean time.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Its interval, if there are enough samples.
    pub p99_ns_ci95: Option<[u64; 2]>,
    /// The longest.
    pub max_ns: u64,
    /// Whether times count from when a round was due.
    pub open_loop: bool,
}

/// One of the runs, which follow each other without a pause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunResult {
    /// Throughput of all operations.
    pub throughput_mib_s: f64,
    /// Operations per second, without rounds, pauses and waits.
    pub operations_per_s: f64,
    /// Mean time of an operation.
    pub mean_latency_ns: f64,
}

/// The results of a simulated application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Worked {
    /// Where and when.
    #[serde(flatten)]
    pub run: RunInfo,
    /// The workload.
    pub workload: String,
    /// Its description.
    pub about: String,
    /// The folder, or the device with the volume.
    pub folder: String,
    /// Whether files bypass the page cache.
    pub direct: bool,
    /// Bytes of the files at the start.
    pub dataset_bytes: u64,
    /// Measured time of all runs.
    pub elapsed_ns: u64,
    /// Each run, after the warm-up.
    pub runs: Vec<RunResult>,
    /// Throughput of all operations.
    pub throughput_mib_s: f64,
    /// Operations per second, without rounds, pauses and waits.
    pub operations_per_s: f64,
    /// Mean time of an operation.
    pub mean_latency_ns: f64,
    /// Each kind of operation.
    pub operations: Vec<OpResult>,
    /// The first failure.
    pub first_error: Option<String>,
}
