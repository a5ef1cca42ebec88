// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs fio on the same cell as our closed loop.

use super::Bench;
use devices::error::{Error, Result};
use measure::fio::{Job, parse};
use measure::{Access, Operation, Pattern};
use paths::PathKind;
use remedy::{Remedy, Setting, words};
use std::process::Command;
use std::time::Duration;

/// One cell for fio.
#[derive(Clone, Copy, Debug)]
pub struct FioCell {
    /// The path.
    pub kind: &'static PathKind,
    /// fio's engine for it.
    pub engine: &'static str,
    /// The operation and the pattern.
    pub access: Access,
    /// Operations in flight.
    pub queue_depth: u16,
    /// Measured time.
    pub duration: Duration,
    /// Warm-up time.
    pub warm_up: Duration,
    /// The seed of the offsets.
    pub seed: u64,
    /// Whether the kernel trusts the processor's time stamp counter, which is the cheapest clock
    /// for fio.
    pub has_tsc: bool,
}

/// fio's engine for a path, or why fio cannot measure it.
///
/// # Errors
/// The reason why fio cannot measure the path.
pub fn engine(bench: &Bench, kind: &PathKind) -> std::result::Result<&'static str, String> {
    let engine = kind.fio.filter(|_| bench.drive().has(kind));
    engine.ok_or_else(|| format!("fio does not support the path {}", kind.name))
}

/// fio's version.
///
/// # Errors
/// fio is not installed.
pub fn version() -> Result<String> {
    let output = Command::new("fio").arg("--version").output();
    let package = || words!["fio; or ", Remedy::omit([Setting::Fio])];
    let output = output.map_err(|error| Error::tool("fio", package(), &error))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs one cell. Where fio completes no operation in the cell's time, as it may in a short cell on
/// a busy machine, it gets twice the time, up to 16 times as much.
///
/// # Errors
/// fio cannot be run, failed, or completed no operation.
pub fn run(bench: &Bench, cell: &FioCell) -> Result<Job> {
    until_something(cell.duration, |duration| {
        once(bench, &FioCell { duration, ..*cell })
    })
}

/// The first result of `measure`, whose time is doubled until there is one.
fn until_something<T>(
    duration: Duration,
    mut measure: impl FnMut(Duration) -> Result<Option<T>>,
) -> Result<T> {
    for factor in [1, 2, 4, 8, 16] {
        if let Some(result) = measure(duration * factor)? {
            return Ok(result);
        }
    }
    Err(Error::other(format!(
        "fio completed no operation in {:?}; measure longer cells, or fewer programs at once",
        duration * 16
    )))
}

/// One run of fio; none if it completed no operation.
fn once(bench: &Bench, cell: &FioCell) -> Result<Option<Job>> {
    let file = bench.file()?;
    let reads = cell.access.operation == Operation::Read;
    let rw = match (cell.access.pattern, reads) {
        (Pattern::Sequential, true) => "read",
        (Pattern::Sequential, false) => "write",
        (Pattern::Random, true) => "randread",
        (Pattern::Random, false) => "randwrite",
    };
    let is_ring = cell.kind.is_ring();
    let mut command = Command::new("fio");
    command
        .args([
            "--name=cell",
            "--output-format=json",
            "--time_based=1",
            "--thread=1",
        ])
        .args(["--norandommap=1", "--randrepeat=1", "--group_reporting=1"])
        .arg(format!("--filename={}", file.display()))
        .arg(format!("--rw={rw}"))
        .arg(format!("--bs={}", cell.access.block_size_bytes))
        .arg(format!("--offset={}", bench.plan.raw_offset_bytes))
        .arg(format!("--size={}", bench.plan.span_bytes))
        .arg(format!("--runtime={}ms", cell.duration.as_millis()))
        .arg(format!("--ramp_time={}ms", cell.warm_up.as_millis()))
        .arg(format!("--randseed={}", cell.seed))
        .arg(format!("--ioengine={}", cell.engine))
        .arg(format!(
            "--iodepth={}",
            if is_ring { cell.queue_depth } else { 1 }
        ))
        .arg(format!("--direct={}", u8::from(!cell.kind.is_buffered)));
    if is_ring {
        // The same as in our ring: the file is registered, and one call replaces all completed
        // operations.
        let depth = cell.queue_depth;
        command
            .arg("--registerfiles=1")
            .arg(format!("--iodepth_batch={depth}"))
            .arg(format!("--iodepth_batch_complete_max={depth}"));
    }
    if cell.has_tsc {
        command.arg("--clocksource=cpu");
    }
    if !reads {
        command.arg("--end_fsync=1");
    }
    let output = command.output();
    let output = output.map_err(|error| Error::tool("fio", "fio", &error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(Error::other(format!("fio failed: {}", said.trim())).hint("dmesg"));
    }
    let parsed = parse(&text);
    let (_, jobs) = parsed.map_err(|error| Error::other(format!("fio's result: {error}")))?;
    Ok(jobs
        .into_iter()
        .find(|job| job.access.operation == cell.access.operation && job.tally.elapsed_ns > 0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_cell_without_an_operation_gets_more_time() {
        let mut asked = Vec::new();
        let result = until_something(Duration::from_millis(50), |duration| {
            asked.push(duration.as_millis());
            Ok((asked.len() == 3).then_some(7))
        });
        assert_eq!(result.unwrap(), 7);
        assert_eq!(asked, [50, 100, 200]);
        let error = until_something(Duration::from_millis(50), |_| Ok(None::<u8>)).unwrap_err();
        assert!(error.to_string().contains("no operation in 800ms"));
    }
}
