// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A periodic task: every period it transfers one buffer, at a priority and under a load.
//!
//! Each cell is an open loop with one operation in flight, so a firing that waits for the one
//! before it counts from its own time. Cells are visited in random order. A synchronous task waits
//! until a write is durable; an asynchronous one until the path has accepted the data.

use crate::access::{Access, Operation, Pattern};
use crate::distribution::BoxPlot;
use crate::format::nanos;
use crate::host::Host;
use crate::open_loop::{OpenLoop, OpenRun, Schedule};
use crate::operations::Operations;
use crate::path::{Missing, Path};
use crate::random::Random;
use crate::run_info::{Request, RunInfo};
use crate::schema::MissingPath;
use crate::stage::{Load as Task, Open, on_stage};
use remedy::{Setting, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The task's priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// Like any other process.
    Normal,
    /// SCHED_FIFO, priority 10.
    Fifo,
}

/// The load on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// Nothing.
    None,
    /// One busy thread.
    Medium,
    /// Two busy threads per processor.
    High,
}

shown_as_in_json!(Priority, Load);

/// Sets priority and load on the machine. Dropping a returned value undoes its effect.
pub trait Conditions {
    /// Begins the load. Called before the priority changes, so that the load has none.
    ///
    /// # Errors
    /// Something is missing.
    fn load(&mut self, load: Load) -> Result<Box<dyn Any>, Missing>;

    /// Gives the calling thread its priority.
    ///
    /// # Errors
    /// Something is missing.
    fn priority(&mut self, priority: Priority) -> Result<Box<dyn Any>, Missing>;
}

/// The conditions to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Reads, writes or both.
    pub operations: Vec<Operation>,
    /// Bytes of a firing.
    pub block_size_bytes: u64,
    /// Periods.
    pub periods: Vec<Duration>,
    /// Firings of a cell.
    pub firings: u64,
    /// Priorities.
    pub priorities: Vec<Priority>,
    /// Loads.
    pub loads: Vec<Load>,
    /// Whether writes are synchronous (durable when they complete): yes, no or both.
    pub synchronous: Vec<bool>,
    /// Length of the range of offsets.
    pub span_bytes: u64,
}

/// The results of one condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PeriodicCell {
    /// The path.
    pub path: String,
    /// Read or write.
    pub operation: Operation,
    /// The task's priority.
    pub priority: Priority,
    /// The load on the machine.
    pub load: Load,
    /// Whether a write was durable when it completed. Reads are always synchronous.
    pub synchronous: bool,
    /// Time from one firing to the next.
    pub period_ns: u64,
    /// From the intended firing to the end of the transfer.
    pub response: BoxPlot,
    /// The transfer alone.
    pub service: BoxPlot,
    /// Firings that were not done before the next.
    pub overruns: u64,
    /// Firings that failed or never started.
    pub failures: u64,
}

/// A periodic task under all conditions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Periodic {
    /// Where and when.
    #[serde(flatten)]
    pub run: RunInfo,
    /// Bytes of a firing.
    pub block_size_bytes: u64,
    /// Firings of a cell.
    pub firings: u64,
    /// The conditions.
    pub cells: Vec<PeriodicCell>,
    /// Paths and conditions that were not available.
    pub missing: Vec<MissingPath>,
}

#[derive(Clone, Copy, Debug)]
struct Planned {
    path: usize,
    operation: Operation,
    priority: Priority,
    load: Load,
    synchronous: bool,
    period: Duration,
}

fn planned(plan: &Plan, paths: usize) -> Vec<Planned> {
    let mut all = Vec::new();
    for path in 0..paths {
        for &operation in &plan.operations {
            for &synchronous in &plan.synchronous {
                // It makes no difference to a read.
                if operation == Operation::Read && Some(&synchronous) != plan.synchronous.first() {
                    continue;
                }
                for &priority in &plan.priorities {
                    for &load in &plan.loads {
                        for &period in &plan.periods {
                            all.push(Planned {
                                path,
                                operation,
                                priority,
                                load,
                                synchronous: synchronous || operation == Operation::Read,
                                period,
                            });
                        }
                    }
                }
            }
        }
    }
    all
}

/// Measures all conditions on all paths.
pub fn periodic(
    host: &mut dyn Host,
    paths: &mut [Box<dyn Path>],
    conditions: &mut dyn Conditions,
    request: &Request,
    plan: &Plan,
    progress: &mut dyn FnMut(usize, usize),
    cancel: &AtomicBool,
) -> Periodic {
    let mut run = RunInfo::begin("periodic", host, request);
    let cells = planned(plan, paths.len());
    let total = cells.len();
    let mut order: Vec<usize> = (0..total).collect();
    Random::derived(request.seed, &[0x7065]).shuffle(&mut order);
    let mut results: Vec<(usize, PeriodicCell)> = Vec::new();
    let mut missing: Vec<MissingPath> = Vec::new();
    for (done, index) in order.into_iter().enumerate() {
        progress(done, total);
        if cancel.load(Ordering::Relaxed) {
            run.complete = false;
            break;
        }
        let Some(cell) = cells.get(index).copied() else {
            continue;
        };
        let Some(path) = paths.get_mut(cell.path) else {
            continue;
        };
        let name = path.name().to_owned();
        let lasting = cell.synchronous && cell.operation == Operation::Write;
        let with = if lasting {
            format!("{name}, synchronous writes")
        } else {
            name.clone()
        };
        if missing
            .iter()
            .any(|one| one.path == name || one.path == with)
        {
            continue;
        }
        let fired = on_stage(host, path.as_mut(), |open| {
            fire(open, conditions, plan, &cell, request.seed, cancel)
        });
        match fired {
            Ok(run) if run.tally.cancelled => {}
            Ok(run) => results.extend(summary(&name, &cell, &run).map(|cell| (index, cell))),
            Err(why) => missing.push(MissingPath::new(with, why, host.wording())),
        }
    }
    run.end(host);
    run.complete &= !cancel.load(Ordering::Relaxed);
    results.sort_by_key(|(index, _)| *index);
    Periodic {
        run,
        block_size_bytes: plan.block_size_bytes,
        firings: plan.firings,
        cells: results.into_iter().map(|(_, cell)| cell).collect(),
        missing,
    }
}

fn fire(
    open: &mut Open<'_>,
    conditions: &mut dyn Conditions,
    plan: &Plan,
    cell: &Planned,
    seed: u64,
    cancel: &AtomicBool,
) -> Result<OpenRun, Missing> {
    let access = Access::new(cell.operation, Pattern::Sequential, plan.block_size_bytes);
    let period_ns = nanos(cell.period).max(1);
    let schedule = |firings: u64| {
        let length = period_ns
            .saturating_mul(firings)
            .saturating_add(period_ns / 2);
        // A cell that falls behind gets the same time again.
        Schedule::new(1e9 / period_ns as f64, length, length).ok_or_else(|| {
            Missing::new(
                "the task never fires",
                words!["another ", Setting::Period, " or ", Setting::Firings],
            )
        })
    };
    let (warm, counted) = (
        schedule(plan.firings.div_ceil(20))?,
        schedule(plan.firings)?,
    );
    let durable = cell.synchronous && cell.operation == Operation::Write;
    if durable && !open.device.geometry().features.fua {
        return Err(Missing::new(
            "this path cannot make a single write durable (no force unit access)",
            Setting::Modes.to("async"),
        ));
    }
    let load = Task::new(access, plan.span_bytes, 1, seed);
    let make = |all: Operations| OpenLoop::new(all.durable(durable));
    open.with(&load, make, |open, open_loop| {
        let _load = conditions.load(cell.load)?;
        let _priority = conditions.priority(cell.priority)?;
        let mut run = |schedule| open_loop.run(open.device, open.host.clock(), schedule, cancel);
        run(&warm);
        Ok(run(&counted))
    })
}

fn summary(path: &str, cell: &Planned, run: &OpenRun) -> Option<PeriodicCell> {
    let period_ns = nanos(cell.period);
    let served: Vec<u64> = run
        .service_ns
        .iter()
        .copied()
        .filter(|ns| *ns > 0)
        .collect();
    Some(PeriodicCell {
        path: path.to_owned(),
        operation: cell.operation,
        priority: cell.priority,
        load: cell.load,
        synchronous: cell.synchronous,
        period_ns,
        response: BoxPlot::of(&run.response_ns)?,
        service: BoxPlot::of(&served)?,
        overruns: run.response_ns.iter().filter(|ns| **ns > period_ns).count() as u64,
        failures: run.failed.iter().filter(|failed| **failed).count() as u64,
    })
}

impl Periodic {
    /// One line per condition.
    pub fn to_csv(&self) -> String {
        let head = "path,operation,priority,load,synchronous,period_ns,response.count=count,\
                    response.min_ns=min_ns,response.quartile1_ns=quartile1_ns,response.median_ns=median_ns,\
                    response.quartile3_ns=quartile3_ns,response.max_ns=max_ns,response.outliers=outliers,\
                    overruns,failures";
        crate::csv::of(head, &self.cells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{Profile, SimulatedHost};

    struct Noted(Vec<String>, bool);

    impl Conditions for Noted {
        fn load(&mut self, load: Load) -> Result<Box<dyn Any>, Missing> {
            self.0.push(format!("load {load}"));
            Ok(Box::new(()))
        }
        fn priority(&mut self, priority: Priority) -> Result<Box<dyn Any>, Missing> {
            if self.1 && priority == Priority::Fifo {
                return Err(Missing::new("no permission", "run it as root"));
            }
            Ok(Box::new(()))
        }
    }

    fn plan() -> Plan {
        Plan {
            operations: vec![Operation::Read, Operation::Write],
            block_size_bytes: 256 << 10,
            periods: vec![Duration::from_millis(10), Duration::from_micros(1500)],
            firings: 100,
            priorities: vec![Priority::Normal, Priority::Fifo],
            loads: vec![Load::None, Load::High],
            synchronous: vec![true, false],
            span_bytes: 1 << 20,
        }
    }

    fn run(conditions: &mut Noted, cancel: bool) -> Periodic {
        let mut host = SimulatedHost::new();
        let mut paths = vec![host.path(Profile {
            request_cpu_ns: 2_000_000,
            ..Profile::default()
        })];
        let cancel = AtomicBool::new(cancel);
        let request = Request::default();
        let progress = &mut |_, _| {};
        periodic(
            &mut host,
            &mut paths,
            conditions,
            &request,
            &plan(),
            progress,
            &cancel,
        )
    }

    #[test]
    fn every_condition_has_a_box_and_a_short_period_overruns() {
        let mut conditions = Noted(Vec::new(), false);
        let periodic = run(&mut conditions, false);
        // 2 priorities, 2 loads, 2 periods, for reads and for asynchronous writes. The simulated
        // drive has no force unit access, which is reported once.
        assert_eq!(periodic.cells.len(), 8 + 8);
        assert_eq!(conditions.0.len(), 16);
        assert_eq!(periodic.missing.len(), 1);
        assert!(periodic.missing[0].reason.contains("force unit access"));
        assert!(periodic.run.complete && periodic.run.valid);
        for cell in &periodic.cells {
            assert_eq!(cell.response.count, 100);
            match cell.period_ns {
                10_000_000 => assert_eq!(cell.overruns, 0, "{cell:?}"),
                _ => assert!(cell.overruns > 90, "{cell:?}"),
            }
        }
        assert_eq!(periodic.to_csv().lines().count(), 17);
    }

    #[test]
    fn what_cannot_be_had_is_named_once_and_ctrl_c_is_marked() {
        let periodic = run(&mut Noted(Vec::new(), true), false);
        let refused = periodic
            .missing
            .iter()
            .filter(|one| one.hint == "run it as root");
        assert_eq!(refused.count(), 1);
        let none = run(&mut Noted(Vec::new(), false), true);
        assert!(!none.run.complete && none.cells.is_empty());
    }
}
