// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the plan over the paths.
//!
//! Only one path is open and only one group's driver is bound at a time. In all cases (a missing
//! path, an error, Ctrl-C) each open path is closed and each prepared group is left again.

use crate::advice::advise;
use crate::format::nanos;
use crate::host::Host;
use crate::others;
use crate::path::{Missing, Path};
use crate::plan::Plan;
use crate::run_info::{Request, RunInfo};
use crate::schema::Comparison;
use crate::session::{Progress, Session};
use crate::settings::{CompareError, Settings};
use crate::stage::Stage;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The longest sleep between two checks of the cancellation flag.
const SLEEP_SLICE_NS: u64 = 50_000_000;

/// Measures the cost of each path, in an order determined by the seed.
///
/// Setting `cancel` ends it within about a tenth of a second plus the operations in flight; the
/// rounds measured so far are returned with `complete: false`.
///
/// # Errors
/// The settings are invalid, or processor time cannot be read. Nothing has been measured or changed
/// then.
pub fn compare(
    host: &mut dyn Host,
    paths: &mut [Box<dyn Path>],
    request: &Request,
    settings: &Settings,
    progress: &mut dyn FnMut(&Progress<'_>),
    cancel: &AtomicBool,
) -> Result<Comparison, CompareError> {
    let accesses = settings.check()?;
    let names: Vec<String> = paths.iter().map(|path| path.name().to_owned()).collect();
    if names.is_empty() {
        return Err(CompareError::NothingToDo);
    }
    for (index, name) in names.iter().enumerate() {
        if names.iter().skip(index + 1).any(|other| other == name) {
            return Err(CompareError::SameName { name: name.clone() });
        }
    }
    let groups: Vec<&str> = paths.iter().map(|path| path.group()).collect();
    let plan = Plan::new(&groups, &accesses, settings.rounds, request.seed);
    let mut run = RunInfo::begin("compare", host, request);
    let idle = idle(host, settings, cancel).map_err(CompareError::CpuTime)?;

    let (counter, uncounted) = match host.work_counter() {
        Ok(counter) => (Some(counter), None),
        Err(missing) => (None, Some(missing.reason.word(host.wording(), None))),
    };
    let mut session = Session {
        counter,
        stage: Stage::new(host),
        paths,
        settings,
        seed: request.seed,
        cancel,
        idle_cpu_percent: idle.percent,
        open: None,
        series: BTreeMap::new(),
        missing: Vec::new(),
        unusable: vec![false; names.len()],
        invalid_reasons: Vec::new(),
        stopped: false,
    };
    session.run(&plan, &names, progress);
    session.close_path();
    session.leave_group();
    run.invalid_reasons = session.invalid_reasons;
    run.end(session.stage.host);
    let cores = run.environment_before.cpu_count;
    if let Some(busy) = others::reason(idle.percent, idle.elapsed_ns, cores) {
        run.invalidate(busy);
    }
    run.complete = !session.stopped && !cancel.load(Ordering::Relaxed);
    let results = session.series.into_iter().filter_map(|(cell, series)| {
        let path = session.paths.get(cell.path)?;
        let (name, polls) = (path.name(), path.polls());
        series.summarise(name, polls, idle.ticks_per_second, request.seed)
    });
    let mut comparison = Comparison {
        rounds: settings.rounds,
        cell_duration_ms: millis(settings.cell_duration),
        warm_up_ms: millis(settings.warm_up),
        queue_depth: settings.queue_depth,
        threads: settings.threads,
        span_bytes: settings.span_bytes,
        idle_cpu_percent: idle.percent,
        instructions_counted_by: session.counter.as_ref().map(|counter| counter.source()),
        instructions_uncounted_reason: uncounted,
        advice: Vec::new(),
        results: results.collect(),
        missing: session.missing,
        run,
    };
    comparison.advice = advise(&comparison);
    Ok(comparison)
}

struct Idle {
    percent: f64,
    elapsed_ns: u64,
    ticks_per_second: u64,
}

/// Observes the machine while this process is idle.
fn idle(host: &mut dyn Host, settings: &Settings, cancel: &AtomicBool) -> Result<Idle, Missing> {
    let before = host.cpu_times()?;
    let start_ns = host.clock().now_ns();
    let mut left_ns = nanos(settings.idle_duration);
    while left_ns > 0 && !cancel.load(Ordering::Relaxed) {
        let slice_ns = left_ns.min(SLEEP_SLICE_NS);
        host.clock().sleep_ns(slice_ns);
        left_ns -= slice_ns;
    }
    let after = host.cpu_times()?;
    let elapsed_ns = host.clock().now_ns().saturating_sub(start_ns);
    // A shorter observation would mostly measure rounding.
    let percent = if elapsed_ns < 10_000_000 {
        0.0
    } else {
        after.percent_since(&before, elapsed_ns)
    };
    Ok(Idle {
        percent: (percent * 1000.0).round() / 1000.0,
        elapsed_ns,
        ticks_per_second: after.ticks_per_second,
    })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
