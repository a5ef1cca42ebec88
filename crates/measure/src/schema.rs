// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The comparison as JSON, from which everything else (table, report, other tools) is made. Keys
//! include their units; integral values are integers; unknown values are null.
//!
//! Within a schema version keys are only added.

use crate::access::{Access, Operation, Pattern};
pub use crate::advice::{Advice, Pick, Verdict};
use crate::format::distinct;
use crate::path::Missing;
use crate::run_info::RunInfo;
use crate::work::Cost;
use remedy::Wording;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

pub use crate::stats::Ci95;

/// What each path to one drive costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Where, when and under which conditions it was measured.
    #[serde(flatten)]
    pub run: RunInfo,
    /// Planned rounds: each measures each cell once.
    pub rounds: u32,
    /// Measured time of a cell.
    pub cell_duration_ms: u64,
    /// Warm-up time before it.
    pub warm_up_ms: u64,
    /// Requested number of operations in flight; a path may have fewer.
    pub queue_depth: u16,
    /// Threads, each with this number of operations in flight.
    #[serde(default = "one")]
    pub threads: u16,
    /// Bytes from the start of the region over which offsets are spread.
    pub span_bytes: u64,
    /// Processor time of the idle machine, subtracted from every figure; 100 is one core.
    pub idle_cpu_percent: f64,
    /// What counted instructions and calls of the kernel; null if nothing did.
    #[serde(default)]
    pub instructions_counted_by: Option<String>,
    /// Why they were not counted.
    #[serde(default)]
    pub instructions_uncounted_reason: Option<String>,
    /// Which path to use: one entry for each operation, pattern and block size.
    #[serde(default)]
    pub advice: Vec<Advice>,
    /// One entry for each path, operation, pattern and block size.
    pub results: Vec<PathResult>,
    /// Paths, or accesses on them, that could not be measured.
    pub missing: Vec<MissingPath>,
}

/// The default for records older than this field.
fn one() -> u16 {
    1
}

/// One path with one kind of access, over all counted rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathResult {
    /// Name of the path.
    pub path: String,
    /// Whether a processor spins while the device works.
    pub polls: bool,
    /// The access. A write cell ends with one flush, inside the measured time.
    #[serde(flatten)]
    pub access: Access,
    /// Operations that each thread kept in flight.
    pub queue_depth: u16,
    /// Threads.
    #[serde(default = "one")]
    pub threads: u16,
    /// Mean over rounds.
    pub throughput_mib_s: f64,
    /// Interval of the mean.
    pub throughput_mib_s_ci95: Ci95,
    /// Standard deviation of rounds.
    pub throughput_mib_s_stddev: Option<f64>,
    /// Operations per second, mean over rounds.
    pub iops: f64,
    /// Interval of the mean.
    pub iops_ci95: Ci95,
    /// The whole machine's processor time less that of the idle machine, mean over rounds; 100 is
    /// one core.
    pub cpu_percent: f64,
    /// Interval of the mean.
    pub cpu_percent_ci95: Ci95,
    /// Mean throughput over mean processor time. If the processor time was below the clock's tick,
    /// computed from one tick: a lower bound.
    pub mib_s_per_cpu_percent: f64,
    /// Interval of the ratio.
    pub mib_s_per_cpu_percent_ci95: Ci95,
    /// Operations that succeeded, total.
    pub operations: u64,
    /// Operations that failed, total.
    pub errors: u64,
    /// The first failure.
    pub first_error: Option<String>,
    /// Read and write commands that the device received, total; null if they cannot be counted.
    pub device_commands: Option<u64>,
    /// Commands over operations.
    pub device_commands_per_operation: Option<f64>,
    /// Interval of the ratio.
    pub device_commands_per_operation_ci95: Ci95,
    /// Interrupts that the device raised, total; null if they cannot be counted.
    pub interrupts: Option<u64>,
    /// Interrupts over operations.
    pub interrupts_per_operation: Option<f64>,
    /// Interval of the ratio.
    pub interrupts_per_operation_ci95: Ci95,
    /// The reason if a count is null.
    pub uncounted_reason: Option<String>,
    /// Instructions and calls of the kernel for an operation, counted apart from the rounds, less
    /// the measuring loop's own; null if nothing counts them.
    #[serde(default)]
    pub cost_per_operation: Option<Cost>,
    /// Median time from submission to completion in the closed loop; null if too few operations.
    pub service_time_p50_ns: Option<u64>,
    /// Its interval, by order statistics.
    pub service_time_p50_ns_ci95: Option<[u64; 2]>,
    /// 99th percentile of the same; null if too few operations.
    pub service_time_p99_ns: Option<u64>,
    /// Its interval, by order statistics.
    pub service_time_p99_ns_ci95: Option<[u64; 2]>,
    /// Whether throughput changed significantly in one direction over the rounds.
    pub drifting: bool,
    /// Each round.
    pub samples: Vec<Sample>,
}

/// One cell of one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// The round, from 0.
    pub round: u32,
    /// Operations that succeeded.
    pub operations: u64,
    /// Operations that failed.
    pub errors: u64,
    /// Transferred bytes.
    pub bytes: u64,
    /// Measured time.
    pub elapsed_ns: u64,
    /// Throughput.
    pub throughput_mib_s: f64,
    /// Operations per second.
    pub iops: f64,
    /// Processor time less that of the idle machine; may be a little below 0.
    pub cpu_percent: f64,
    /// Read commands that the device received.
    pub device_read_commands: Option<u64>,
    /// Write commands that the device received.
    pub device_write_commands: Option<u64>,
    /// Interrupts that the device raised.
    pub interrupts: Option<u64>,
}

/// A path that was not measured, or not completely.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MissingPath {
    /// Name of the path.
    pub path: String,
    /// What is missing.
    pub reason: String,
    /// A command or advice that may fix it. Schema version 1 calls it `mend`.
    #[serde(alias = "mend")]
    pub hint: String,
}

impl MissingPath {
    /// Records that `path` was not measured, and why, in the words of `wording`.
    pub fn new(path: impl Into<String>, missing: Missing, wording: &dyn Wording) -> Self {
        Self {
            path: path.into(),
            reason: missing.reason.word(wording, None),
            hint: missing.hint.word(wording, None),
        }
    }
}

impl Comparison {
    /// The accesses with results, without duplicates, in order.
    pub fn kinds(&self) -> Vec<(Operation, Pattern)> {
        let kinds = self.results.iter().map(|result| result.access.kind());
        kinds.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The values with results, without duplicates, in order.
    pub fn accesses(&self) -> Vec<Access> {
        let accesses = self.results.iter().map(|result| result.access);
        accesses.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The block sizes with results, without duplicates, in order.
    pub fn block_sizes_bytes(&self) -> Vec<u64> {
        let sizes = self
            .results
            .iter()
            .map(|result| result.access.block_size_bytes);
        sizes.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The paths with results, without duplicates, in the order of the input.
    pub fn path_names(&self) -> Vec<&str> {
        distinct(self.results.iter().map(|result| result.path.as_str()))
    }
}
