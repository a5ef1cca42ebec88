// SPDX-License-Identifier: Apache-2.0 OR MIT
//! fio's results: read from its JSON, and compared with ours.
//!
//! fio uses the same kernel paths as our own closed loop. In a closed loop over a path that fio
//! supports, the two must agree: the interval of the difference of paired rounds contains 0, or the
//! two intervals overlap. fio's rate includes its own computation in user space for each operation,
//! which does not belong to the path and can be large on slow processors. So a path's rate is
//! between fio's rate and fio's rate without that time, and a difference within these bounds is
//! explained.

use crate::access::{Access, Operation, Pattern};
use crate::cell::{Tally, service_times};
use crate::path::Counters;
use crate::run_info::{DeviceInfo, RUN_SCHEMA_VERSION, RunInfo};
use crate::schema::{Ci95, Comparison};
use crate::stats;
use crate::summary::{Measured, Series};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The result of one fio job in one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// The access.
    pub access: Access,
    /// Operations in flight.
    pub queue_depth: u16,
    /// The throughput and counts.
    pub tally: Tally,
    /// Processor time of fio and of the kernel for it, per cent of one core.
    pub cpu_percent: f64,
    /// The part of it in user space, used by fio itself.
    pub own_percent: f64,
    /// Completion latency: value in ns by percentile.
    pub percentiles: BTreeMap<String, u64>,
}

/// Why a text is not a result of fio.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FioError {
    /// Invalid JSON.
    #[error("this is not fio's JSON: {0}")]
    NotJson(String),
    /// A part is missing.
    #[error("fio's JSON has no {0}; write it with --output-format=json")]
    Without(&'static str),
    /// A job reports an error.
    #[error("fio's job {job} ended with error {error}")]
    Job {
        /// The job.
        job: String,
        /// fio's error number.
        error: i64,
    },
}

/// Reads fio's JSON: its version, and the results of each job. fio may print warnings before it.
///
/// # Errors
/// The text is not fio's JSON, or a job failed.
pub fn parse(text: &str) -> Result<(String, Vec<Job>), FioError> {
    let start = text.find('{').ok_or(FioError::Without("object"))?;
    let value: Value = serde_json::from_str(text.get(start..).unwrap_or_default())
        .map_err(|error| FioError::NotJson(error.to_string()))?;
    let version = value.get("fio version").and_then(Value::as_str);
    let version = version.ok_or(FioError::Without("`fio version`"))?;
    let jobs = value.get("jobs").and_then(Value::as_array);
    let jobs = jobs.ok_or(FioError::Without("`jobs`"))?;
    let global = value.get("global options").unwrap_or(&Value::Null);
    let mut all = Vec::new();
    for job in jobs {
        let name = job.get("jobname").and_then(Value::as_str).unwrap_or("job");
        let error = job.get("error").and_then(Value::as_i64).unwrap_or(0);
        if error != 0 {
            let job = name.to_owned();
            return Err(FioError::Job { job, error });
        }
        let options = job.get("job options").unwrap_or(&Value::Null);
        let option = |key: &str| {
            let own = options.get(key).and_then(Value::as_str);
            own.or_else(|| global.get(key).and_then(Value::as_str))
        };
        let pattern = if option("rw").unwrap_or("read").starts_with("rand") {
            Pattern::Random
        } else {
            Pattern::Sequential
        };
        let cpu = |key| job.get(key).and_then(Value::as_f64).unwrap_or(0.0);
        for (operation, key) in [(Operation::Read, "read"), (Operation::Write, "write")] {
            let Some(side) = job.get(key) else { continue };
            let number = |key: &str| side.get(key).and_then(Value::as_u64).unwrap_or(0);
            if number("total_ios") == 0 {
                continue;
            }
            let percentiles = side
                .pointer("/clat_ns/percentile")
                .and_then(Value::as_object);
            let percentile =
                |(name, value): (&String, &Value)| Some((name.clone(), value.as_u64()?));
            let operations = number("total_ios");
            let block_size_bytes = option("bs").and_then(size);
            let block_size_bytes = block_size_bytes.unwrap_or(number("io_bytes") / operations);
            all.push(Job {
                name: name.to_owned(),
                access: Access::new(operation, pattern, block_size_bytes),
                queue_depth: option("iodepth").and_then(|n| n.parse().ok()).unwrap_or(1),
                tally: Tally {
                    bytes: number("io_bytes"),
                    operations,
                    elapsed_ns: number("runtime").saturating_mul(1_000_000),
                    ..Tally::default()
                },
                cpu_percent: cpu("usr_cpu") + cpu("sys_cpu"),
                own_percent: cpu("usr_cpu"),
                percentiles: percentiles
                    .map(|all| all.iter().filter_map(percentile).collect())
                    .unwrap_or_default(),
            });
        }
    }
    Ok((version.to_owned(), all))
}

/// fio's sizes: `4k` and `4K` are 1024 each.
fn size(text: &str) -> Option<u64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let shift = match unit
        .to_ascii_lowercase()
        .trim_end_matches("ib")
        .trim_end_matches('b')
    {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_shl(shift)
}

/// fio's results as a comparison, for tables, reports and CSV. Jobs with the same options are
/// rounds of one cell. What fio does not report is null.
///
/// # Errors
/// The same as those of [`parse`].
pub fn to_comparison(text: &str, name: &str) -> Result<Comparison, FioError> {
    let (version, jobs) = parse(text)?;
    let mut cells: BTreeMap<_, Vec<&Job>> = BTreeMap::new();
    for job in &jobs {
        cells
            .entry((job.access, job.queue_depth))
            .or_default()
            .push(job);
    }
    let mut results = Vec::new();
    let mut rounds = 0;
    for ((access, queue_depth), jobs) in cells {
        let (Ok(mut series), Ok(none)) = (Series::new(access, queue_depth, 1), service_times())
        else {
            continue;
        };
        rounds = rounds.max(jobs.len() as u32);
        for (round, job) in (0u32..).zip(&jobs) {
            let measured = Measured {
                round,
                tally: job.tally,
                cpu_percent: job.cpu_percent,
                counters: Counters::uncounted("fio counts neither commands nor interrupts"),
            };
            series.add(measured, &none, 0.0);
        }
        results.extend(series.summarise("fio", false, 100, 1).map(|mut result| {
            let first = jobs.first();
            let at = |key: &str| first.and_then(|job| job.percentiles.get(key).copied());
            result.service_time_p50_ns = at("50.000000");
            result.service_time_p99_ns = at("99.000000");
            result
        }));
    }
    Ok(Comparison {
        run: RunInfo {
            schema_version: RUN_SCHEMA_VERSION,
            kind: "fio".to_owned(),
            tool_version: version,
            device: DeviceInfo {
                name: name.to_owned(),
                ..DeviceInfo::default()
            },
            valid: true,
            complete: true,
            seed: 1,
            ..RunInfo::default()
        },
        rounds,
        cell_duration_ms: jobs
            .first()
            .map_or(0, |job| job.tally.elapsed_ns / 1_000_000),
        warm_up_ms: 0,
        queue_depth: jobs.iter().map(|job| job.queue_depth).max().unwrap_or(1),
        threads: 1,
        span_bytes: 0,
        idle_cpu_percent: 0.0,
        instructions_counted_by: None,
        instructions_uncounted_reason: Some("fio does not count them".to_owned()),
        advice: Vec::new(),
        results,
        missing: Vec::new(),
    })
}

/// fio's result of one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FioRound {
    /// Throughput.
    pub mib_s: f64,
    /// Processor time of fio itself, in user space, per cent of one core.
    pub own_percent: f64,
}

impl From<&Job> for FioRound {
    fn from(job: &Job) -> Self {
        Self {
            mib_s: job.tally.mib_s(),
            own_percent: job.own_percent,
        }
    }
}

/// One cell, measured by our loop and by fio in turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Agreement {
    /// The path.
    pub path: String,
    /// The access.
    #[serde(flatten)]
    pub access: Access,
    /// Operations in flight.
    pub queue_depth: u16,
    /// Our loop's throughput, round by round.
    pub ours_mib_s: Vec<f64>,
    /// fio's, in the same rounds.
    pub fio_mib_s: Vec<f64>,
    /// Mean of ours.
    pub ours_mean_mib_s: f64,
    /// Its interval.
    pub ours_ci95: Ci95,
    /// Mean of fio's.
    pub fio_mean_mib_s: f64,
    /// Its interval.
    pub fio_ci95: Ci95,
    /// Interval of the difference of paired rounds.
    pub difference_ci95: Ci95,
    /// Processor time of fio itself, in user space, per cent of one core, on average.
    pub fio_own_percent: f64,
    /// Whether the two agree; null with too few rounds.
    pub agrees: Option<bool>,
    /// Whether they differ by no more than fio's own time: our interval overlaps the range between
    /// fio's rate and fio's rate without that time.
    pub explained: bool,
}

impl Agreement {
    /// Compares paired rounds.
    pub fn of(
        path: &str,
        access: Access,
        queue_depth: u16,
        ours: Vec<f64>,
        rounds: &[FioRound],
        seed: u64,
    ) -> Self {
        let fio: Vec<f64> = rounds.iter().map(|round| round.mib_s).collect();
        let own: Vec<f64> = rounds.iter().map(|round| round.own_percent).collect();
        let fio_own_percent = stats::mean(&own).unwrap_or(0.0).clamp(0.0, 99.0);
        let without = |rate: f64| rate / (1.0 - fio_own_percent / 100.0);
        let pairs = ours.iter().zip(&fio);
        let differences: Vec<f64> = pairs.map(|(ours, fio)| ours - fio).collect();
        let interval = |samples: &[f64]| stats::mean_interval(samples, seed);
        let (a, b, d) = (interval(&ours), interval(&fio), interval(&differences));
        let agrees = match (stats::overlap(a, b), d) {
            (Some(both), Some([low, high])) => Some(both || (low <= 0.0 && high >= 0.0)),
            _ => None,
        };
        let explained = match (agrees, a, b) {
            (Some(false), Some(ours), Some(fio)) => ours[1] >= fio[0] && ours[0] <= without(fio[1]),
            _ => false,
        };
        Self {
            path: path.to_owned(),
            access,
            queue_depth,
            ours_mean_mib_s: stats::mean(&ours).unwrap_or(0.0),
            fio_mean_mib_s: stats::mean(&fio).unwrap_or(0.0),
            ours_ci95: a,
            fio_ci95: b,
            difference_ci95: d,
            fio_own_percent,
            agrees,
            explained,
            ours_mib_s: ours,
            fio_mib_s: fio,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    const TEXT: &str = r#"fio: a warning
{"fio version": "fio-3.33", "global options": {"bs": "4k"}, "jobs": [
 {"jobname": "a", "error": 0, "usr_cpu": 1.5, "sys_cpu": 20.5,
  "job options": {"rw": "randread", "iodepth": "4"},
  "read": {"io_bytes": 41943040, "runtime": 2000, "total_ios": 10240,
   "clat_ns": {"percentile": {"50.000000": 120000, "99.000000": 900000}}},
  "write": {"io_bytes": 0, "runtime": 0, "total_ios": 0}}]}"#;

    #[test]
    fn fio_s_json_becomes_a_comparison() {
        let (version, jobs) = parse(TEXT).unwrap();
        assert_eq!((version.as_str(), jobs.len()), ("fio-3.33", 1));
        assert_eq!(jobs[0].tally.mib_s(), 20.0);
        assert_eq!(
            (jobs[0].access.block_size_bytes, jobs[0].queue_depth),
            (4096, 4)
        );
        let comparison = to_comparison(TEXT, "/dev/nvme0n1").unwrap();
        let [result] = comparison.results.as_slice() else {
            panic!("{:?}", comparison.results)
        };
        assert_eq!((result.throughput_mib_s, result.cpu_percent), (20.0, 22.0));
        assert_eq!(result.service_time_p99_ns, Some(900_000));
        assert_eq!(result.throughput_mib_s_ci95, None);
    }

    #[test]
    fn what_is_not_fio_s_is_refused() {
        assert!(matches!(parse("no"), Err(FioError::Without(_))));
        assert!(matches!(parse("{\"a\": "), Err(FioError::NotJson(_))));
        assert!(matches!(parse("{}"), Err(FioError::Without(_))));
        let failed = TEXT.replace("\"error\": 0", "\"error\": 5");
        assert!(matches!(
            parse(&failed),
            Err(FioError::Job { error: 5, .. })
        ));
        assert_eq!(size("1m"), Some(1 << 20));
        assert_eq!(size("4KiB"), Some(4096));
        assert_eq!(size("4q"), None);
    }

    #[test]
    fn equal_loops_agree_and_unequal_ones_do_not() {
        let access = Access {
            operation: Operation::Read,
            pattern: Pattern::Random,
            block_size_bytes: 4096,
        };
        let rounds = |seed: u64, mean: f64| -> Vec<f64> {
            let mut random = Random::derived(seed, &[4]);
            (0..10).map(|_| mean + random.normal()).collect()
        };
        let fio = |mib_s: Vec<f64>, own_percent| -> Vec<FioRound> {
            let round = |mib_s| FioRound { mib_s, own_percent };
            mib_s.into_iter().map(round).collect()
        };
        let agreeing = (0..100).filter(|seed| {
            let (a, b) = (rounds(*seed, 100.0), fio(rounds(seed + 1000, 100.0), 0.0));
            Agreement::of("p", access, 1, a, &b, 1).agrees == Some(true)
        });
        assert!(agreeing.count() >= 95);
        let slower = fio(rounds(2, 90.0), 1.0);
        let apart = Agreement::of("p", access, 1, rounds(1, 100.0), &slower, 1);
        assert_eq!((apart.agrees, apart.explained), (Some(false), false));
        let few = fio(vec![1.0; 3], 60.0);
        let few = Agreement::of("p", access, 1, vec![1.0; 3], &few, 1);
        assert_eq!((few.agrees, few.explained), (None, false));
        // The difference is explained if fio computes for a tenth of the time; a faster fio is not
        // explained.
        let busy = fio(rounds(2, 90.0), 12.0);
        let busy = Agreement::of("p", access, 1, rounds(1, 100.0), &busy, 1);
        assert_eq!((busy.agrees, busy.explained), (Some(false), true));
        let faster = fio(rounds(2, 110.0), 12.0);
        let faster = Agreement::of("p", access, 1, rounds(1, 100.0), &faster, 1);
        assert_eq!((faster.agrees, faster.explained), (Some(false), false));
    }
}
