//! Simulated applications: their description in TOML, and their results.
//!
//! A workload has sets of files and groups of threads; each thread does its group's steps in turn.
//! Filebench's seven common workloads are in `crates/measure/workloads`; their data set is scaled
//! to the machine. A group with a rate is an open loop: each round counts from when it was due.

mod folder;
mod run;
mod sets;
mod store;

pub use folder::Folder;
pub use run::{How, run};
pub use store::{Ask, LONGEST, Store, UNIT};

use crate::run_info::RunInfo;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The workloads that come with the program: name and text.
pub const BUILT_IN: [(&str, &str); 7] = [
    ("webserver", include_str!("../../workloads/webserver.toml")),
    (
        "fileserver",
        include_str!("../../workloads/fileserver.toml"),
    ),
    ("varmail", include_str!("../../workloads/varmail.toml")),
    (
        "videoserver",
        include_str!("../../workloads/videoserver.toml"),
    ),
    ("netsfs", include_str!("../../workloads/netsfs.toml")),
    ("webproxy", include_str!("../../workloads/webproxy.toml")),
    ("oltp", include_str!("../../workloads/oltp.toml")),
];

/// A workload's description.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// A description in one sentence.
    pub about: String,
    /// Its sets of files.
    #[serde(rename = "set")]
    pub sets: Vec<FileSet>,
    /// Its threads.
    #[serde(rename = "group")]
    pub groups: Vec<Group>,
}

/// A set of files.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSet {
    /// Its name, and that of its folder.
    pub name: String,
    /// Number of files; by default from the data set's size.
    pub files: Option<u64>,
    /// Average bytes of a file; by default from the data set's size.
    pub mean_size: Option<u64>,
    /// Shape of the gamma distribution of sizes; by default all sizes are equal.
    pub shape: Option<f64>,
    /// Its share of the data set's bytes.
    #[serde(default)]
    pub share: f64,
    /// The share of files that exist at the start.
    pub filled: f64,
}

/// Threads with the same steps.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Number of them.
    pub threads: u32,
    /// Rounds per second of all threads together; by default as fast as possible.
    pub per_second: Option<f64>,
    /// The steps of a round.
    pub steps: Vec<Step>,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The operation.
    pub op: Op,
    /// The set of files.
    #[serde(default)]
    pub set: String,
    /// Bytes of each operation.
    pub size: Option<u64>,
    /// Number of repetitions.
    #[serde(default = "once")]
    pub times: u32,
    /// Whether it is durable when it completes.
    #[serde(default)]
    pub sync: bool,
    /// Length of a pause.
    #[serde(default)]
    pub seconds: f64,
}

fn once() -> u32 {
    1
}

/// The operation of a step.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Opens a file, reads all of it, closes it.
    ReadFile,
    /// Makes a file, writes all of it, closes it.
    CreateFile,
    /// Rewrites a file with its old length.
    Rewrite,
    /// Opens a file and writes at its end.
    Append,
    /// Reads a block at a random place.
    ReadBlock,
    /// Writes a block at a random place.
    WriteBlock,
    /// Removes a file.
    Delete,
    /// Queries a file's length.
    Stat,
    /// Pauses.
    Pause,
}

shown_as_in_json!(Op);

/// Why a text is not a workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// The text is not TOML, or has unknown keys.
    #[error("{0}")]
    Toml(String),
    /// Its contents are invalid.
    #[error("{0}")]
    Sense(String),
}

impl Workload {
    /// Reads a workload.
    ///
    /// # Errors
    /// The text is not TOML of this form, or its contents are invalid.
    pub fn parse(text: &str) -> Result<Self, WorkloadError> {
        let this: Self =
            toml::from_str(text).map_err(|error| WorkloadError::Toml(error.to_string()))?;
        let sense = |what: String| Err(WorkloadError::Sense(what));
        if this.groups.is_empty() {
            return sense("a workload needs at least one group".to_owned());
        }
        for set in &this.sets {
            let name = &set.name;
            if name.is_empty() || name.contains(['/', '.']) {
                return sense(format!("invalid name `{name}` of a set"));
            }
            if !(0.0..=1.0).contains(&set.filled) || !(0.0..=1.0).contains(&set.share) {
                return sense(format!("shares of set {name} must be between 0 and 1"));
            }
            if set.share <= 0.0 && (set.files.is_none() || set.mean_size.is_none()) {
                return sense(format!("set {name} needs a share, or files and mean_size"));
            }
            if set.files.is_none() && set.mean_size.is_none() {
                return sense(format!("set {name} needs files or mean_size"));
            }
            if set
                .shape
                .is_some_and(|shape| !(0.1..=100.0).contains(&shape))
            {
                return sense(format!(
                    "the shape of set {name} must be between 0.1 and 100"
                ));
            }
        }
        for group in &this.groups {
            let name = &group.name;
            if group.threads == 0 || group.threads > 4096 || group.steps.is_empty() {
                return sense(format!("group {name} needs 1 to 4096 threads and a step"));
            }
            if group
                .per_second
                .is_some_and(|rate| !(rate > 0.0 && rate < 1e9))
            {
                return sense(format!("the rate of group {name} must be more than 0"));
            }
            for step in &group.steps {
                let known = this.sets.iter().any(|set| set.name == step.set);
                if step.op != Op::Pause && !known {
                    return sense(format!("group {name} uses the unknown set `{}`", step.set));
                }
                if !(0.0..=3600.0).contains(&step.seconds) {
                    return sense(format!("a pause of group {name} must be 0 to 3600 s"));
                }
            }
        }
        Ok(this)
    }
}

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
    /// Measured time.
    pub elapsed_ns: u64,
    /// Throughput of all operations.
    pub throughput_mib_s: f64,
    /// Operations per second, without pauses and rounds.
    pub operations_per_s: f64,
    /// Mean time of an operation.
    pub mean_latency_ns: f64,
    /// Each kind of operation.
    pub operations: Vec<OpResult>,
    /// The first failure.
    pub first_error: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_seven_can_be_read() {
        for (name, text) in BUILT_IN {
            let workload = Workload::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(workload.name, name);
            let shares: f64 = workload.sets.iter().map(|set| set.share).sum();
            assert!((shares - 1.0).abs() < 1e-9, "{name}: {shares}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let (_, good) = BUILT_IN[0];
        for (from, to) in [
            ("threads = 50", "threads = 0"),
            ("set = \"pages\"", "set = \"nowhere\""),
            ("name = \"pages\"", "name = \"../etc\""),
            ("filled = 1.0", "filled = 2.0"),
            ("op = \"append\"", "op = \"explode\""),
            ("shape = 1.5", "shape = 0.0"),
            ("mean_size = 16384\nshape", "shape"),
            ("times = 10", "often = 10"),
        ] {
            let bad = good.replacen(from, to, 1);
            assert_ne!(bad, good, "{from}");
            assert!(Workload::parse(&bad).is_err(), "{to}");
        }
    }
}
