// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of a running comparison: which path is open, which group's driver is bound, what was
//! measured.

use crate::access::Access;
use crate::cell::{ClosedLoop, ServiceTimes, Tally};
use crate::crew::Crew;
use crate::format::nanos;
use crate::path::{Counters, Missing, Path};
use crate::plan::{Plan, PlannedCell};
use crate::schema::MissingPath;
use crate::settings::Settings;
use crate::stage::{Load, Open, Stage, refused};
use crate::summary::{Measured, Series};
use crate::work::{self, Cost, WorkCounter};
use block::Device;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The progress of a comparison, reported before each cell and at the end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress<'a> {
    /// Cells that were measured or skipped.
    pub done_cells: usize,
    /// Total number of cells.
    pub total_cells: usize,
    /// The round, from 0.
    pub round: u32,
    /// The next path and access; `None` at the end.
    pub next: Option<(&'a str, Access)>,
    /// The throughput of the previous cell.
    pub last_mib_s: Option<f64>,
    /// An estimate of the remaining time.
    pub remaining: Option<Duration>,
}

/// A measured cell, and what an operation of it cost the processor if that was counted.
type Cell = (Measured, ServiceTimes, Option<Result<Cost, Missing>>);

pub(crate) struct Session<'a> {
    /// Counts the instructions of operations.
    pub(crate) counter: Option<Box<dyn WorkCounter>>,
    pub(crate) stage: Stage<'a>,
    pub(crate) paths: &'a mut [Box<dyn Path>],
    pub(crate) settings: &'a Settings,
    pub(crate) seed: u64,
    pub(crate) cancel: &'a AtomicBool,
    pub(crate) idle_cpu_percent: f64,
    /// The open path.
    pub(crate) open: Option<(usize, Box<dyn Device>)>,
    pub(crate) series: BTreeMap<PlannedCell, Series>,
    pub(crate) missing: Vec<MissingPath>,
    /// Paths that will not be tried again.
    pub(crate) unusable: Vec<bool>,
    pub(crate) invalid_reasons: Vec<String>,
    /// The machine's state is unknown: nothing more is measured.
    pub(crate) stopped: bool,
}

impl Session<'_> {
    pub(crate) fn run(
        &mut self,
        plan: &Plan,
        names: &[String],
        progress: &mut dyn FnMut(&Progress<'_>),
    ) {
        let total_cells = plan.cell_count();
        let start_ns = self.stage.host.clock().now_ns();
        let mut done_cells = 0;
        let mut last_mib_s = None;
        for (round, visits) in (0u32..).zip(&plan.rounds) {
            for visit in visits {
                if self.is_over() {
                    return;
                }
                self.enter_group(&visit.group);
                for cell in &visit.cells {
                    if self.is_over() {
                        return;
                    }
                    let spent_ns = self.stage.host.clock().now_ns().saturating_sub(start_ns);
                    let name = names.get(cell.path).map_or("", String::as_str);
                    progress(&Progress {
                        done_cells,
                        total_cells,
                        round,
                        next: Some((name, cell.access)),
                        last_mib_s,
                        remaining: remaining(spent_ns, done_cells, total_cells),
                    });
                    last_mib_s = self.visit_cell(*cell, round, name);
                    done_cells += 1;
                }
            }
        }
        progress(&Progress {
            done_cells,
            total_cells,
            round: self.settings.rounds,
            next: None,
            last_mib_s,
            remaining: Some(Duration::ZERO),
        });
    }

    fn is_over(&self) -> bool {
        self.stopped || self.cancel.load(Ordering::Relaxed)
    }

    /// Prepares `group`; its paths are reported as missing if that fails.
    fn enter_group(&mut self, group: &str) {
        if self.stage.group() == Some(group) {
            return;
        }
        self.close_path();
        self.leave_group();
        let is_usable = |index: usize| self.unusable.get(index) == Some(&false);
        let mut members = self.paths.iter().enumerate();
        let any_usable = members.any(|(index, path)| path.group() == group && is_usable(index));
        if self.stopped || !any_usable {
            return;
        }
        if let Err(missing) = self.stage.enter(group) {
            for index in 0..self.paths.len() {
                let path = self.paths.get(index);
                if path.is_some_and(|path| path.group() == group) {
                    self.give_up(index, missing.clone());
                }
            }
            self.leave_group();
        }
    }

    pub(crate) fn leave_group(&mut self) {
        if let Err(missing) = self.stage.leave() {
            self.invalid_reasons.push(missing.to_string());
            self.stopped = true;
        }
    }

    pub(crate) fn close_path(&mut self) {
        if let Some((index, device)) = self.open.take() {
            if let Some(path) = self.paths.get_mut(index) {
                path.close(device);
            }
        }
    }

    fn give_up(&mut self, index: usize, missing: Missing) {
        if let Some(unusable) = self.unusable.get_mut(index) {
            if !std::mem::replace(unusable, true) {
                self.report_missing(index, missing);
            }
        }
    }

    fn report_missing(&mut self, index: usize, missing: Missing) {
        let path = self.paths.get(index);
        let name = path.map_or("", |path| path.name());
        let entry = MissingPath::new(name, missing, self.stage.host.wording());
        if !self.missing.contains(&entry) {
            self.missing.push(entry);
        }
    }

    /// Measures one cell and stores its sample; returns the throughput, for progress.
    fn visit_cell(&mut self, cell: PlannedCell, round: u32, name: &str) -> Option<f64> {
        if self.unusable.get(cell.path).copied().unwrap_or(true) {
            return None;
        }
        if self
            .open
            .as_ref()
            .is_none_or(|(open, _)| *open != cell.path)
        {
            self.close_path();
            match self.paths.get_mut(cell.path)?.open() {
                Ok(device) => self.open = Some((cell.path, device)),
                Err(missing) => {
                    self.give_up(cell.path, missing);
                    return None;
                }
            }
        }
        self.make_cold(cell.path);
        let end = self.measure(cell, round)?;
        self.stage.warmed(self.paths.get(cell.path)?.as_ref());
        self.make_cold(cell.path);
        let (measured, times, cost) = match end {
            Ok(measured) => measured,
            Err(missing) => {
                self.report_missing(cell.path, missing);
                return None;
            }
        };
        let tally = measured.tally;
        if tally.first_error == Some(block::Error::Gone) {
            // A device that disappeared may have returned.
            self.close_path();
        }
        if tally.cancelled {
            return None;
        }
        if tally.operations == 0 {
            let error = tally.first_error;
            let reason = error.map_or("no operation succeeded".into(), |e| e.to_string());
            let reason = format!("{} failed: {reason}", cell.access);
            let hint = format!("check the kernel's log, then measure {name} alone");
            self.report_missing(cell.path, Missing::new(reason, hint));
            return None;
        }
        let mib_s = tally.mib_s();
        let idle = self.idle_cpu_percent;
        let series = self.series.get_mut(&cell)?;
        series.add(measured, &times, idle);
        match cost {
            Some(Ok(cost)) => series.cost = Some(cost),
            Some(Err(missing)) => self.report_missing(cell.path, missing),
            None => {}
        }
        Some(mib_s)
    }

    fn make_cold(&mut self, path: usize) {
        let path = self.paths.get(path).map(|path| path.as_ref());
        if let Some(Err(missing)) = path.map(|path| self.stage.make_cold(path)) {
            let reason = format!("caches could not be dropped: {missing}");
            if !self.invalid_reasons.contains(&reason) {
                self.invalid_reasons.push(reason);
            }
        }
    }

    fn measure(&mut self, cell: PlannedCell, round: u32) -> Option<Result<Cell, Missing>> {
        let (_, device) = self.open.as_mut()?;
        let mut open = Open {
            host: self.stage.host,
            path: self.paths.get_mut(cell.path)?.as_mut(),
            device: device.as_mut(),
        };
        let settings = self.settings;
        let depth = open.depth(settings.queue_depth);
        let load = Load {
            round,
            threads: settings.threads,
            ..Load::new(cell.access, settings.span_bytes, depth, self.seed)
        };
        let (series, cancel) = (&mut self.series, self.cancel);
        // Counts repeat, so one round has them; they are of one thread.
        let counter = self
            .counter
            .as_mut()
            .filter(|_| round == 0 && load.threads == 1);
        Some(open.with(&load, ClosedLoop::new, |open, closed| {
            let refused = |error| refused(cell.access, &error);
            if let Entry::Vacant(place) = series.entry(cell) {
                place.insert(Series::new(cell.access, depth, load.threads).map_err(refused)?);
            }
            let mut crew = Crew::new(open.path, &load)?;
            let measured = timed(open, closed, &mut crew, settings, round, cancel);
            let times = closed.service_times().map_err(refused);
            let times = times.map(|mut times| {
                crew.add_times(&mut times);
                times
            });
            crew.release(open.path);
            let (measured, times) = (measured?, times?);
            let has_failed = measured.tally.cancelled || measured.tally.errors > 0;
            let counter = counter.filter(|_| !has_failed);
            let cost = counter.map(|counter| work::cost(open, closed, counter.as_mut(), cancel));
            Ok((measured, times, cost))
        }))
    }
}

fn remaining(spent_ns: u64, done: usize, total: usize) -> Option<Duration> {
    if done == 0 {
        return None;
    }
    let left = u128::from(spent_ns) * (total.saturating_sub(done)) as u128 / done as u128;
    Some(Duration::from_nanos(
        u64::try_from(left).unwrap_or(u64::MAX),
    ))
}

/// Warms up, then measures.
fn timed(
    open: &mut Open<'_>,
    closed: &mut ClosedLoop,
    crew: &mut Crew,
    settings: &Settings,
    round: u32,
    cancel: &AtomicBool,
) -> Result<Measured, Missing> {
    let warm_up_ns = nanos(settings.warm_up);
    if warm_up_ns > 0 {
        let tally = phase(open, closed, crew, warm_up_ns, cancel);
        if tally.cancelled {
            return Ok(Measured {
                round,
                tally,
                cpu_percent: 0.0,
                counters: Counters::default(),
            });
        }
        closed.forget();
        crew.forget();
    }
    let counters_before = open.path.counters();
    let cpu_before = open.host.cpu_times()?;
    let start_ns = open.host.clock().now_ns();
    let mut tally = phase(open, closed, crew, nanos(settings.cell_duration), cancel);
    tally.elapsed_ns = open.host.clock().now_ns().saturating_sub(start_ns).max(1);
    let cpu_after = open.host.cpu_times()?;
    Ok(Measured {
        round,
        cpu_percent: cpu_after.percent_since(&cpu_before, tally.elapsed_ns),
        tally,
        counters: open.path.counters().since(&counters_before),
    })
}

/// Runs the loop and those of the crew; writes end with one flush.
fn phase(
    open: &mut Open<'_>,
    closed: &mut ClosedLoop,
    crew: &mut Crew,
    duration_ns: u64,
    cancel: &AtomicBool,
) -> Tally {
    let (clock, device) = (open.host.clock(), &mut *open.device);
    let first = || closed.run(device, clock, duration_ns, cancel);
    let mut tally = crew.run(duration_ns, cancel, first);
    if closed.writes() && !tally.cancelled {
        match block::blocking::flush(open.device) {
            Ok(()) | Err(block::Error::Unsupported) => {}
            Err(error) => {
                tally.errors += 1;
                tally.first_error.get_or_insert(error);
            }
        }
    }
    tally
}
