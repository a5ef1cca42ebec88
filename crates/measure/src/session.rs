//! One comparison under way: which path is open, which group's driver is bound, what was measured.

use crate::access::{Access, Offsets, Operation};
use crate::cell::{CellError, ClosedLoop, ServiceTimes, Tally};
use crate::cpu::CpuTimes;
use crate::crew::{Cell, Crew, Part, too_small};
use crate::host::Host;
use crate::path::{Missing, Path};
use crate::plan::{Plan, PlannedCell};
use crate::random::Random;
use crate::schema::MissingPath;
use crate::settings::Settings;
use crate::summary::{Measured, Series};
use block::{Buffer, Device};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How far a comparison is, told before each cell and at the end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress<'a> {
    /// Cells that are done or were skipped.
    pub done_cells: usize,
    /// Cells of the plan.
    pub total_cells: usize,
    /// The round, from 0.
    pub round: u32,
    /// The path and the access that come next; `None` at the end.
    pub next: Option<(&'a str, Access)>,
    /// The throughput of the cell before.
    pub last_mib_s: Option<f64>,
    /// An estimate of the time to go.
    pub remaining: Option<Duration>,
}

/// What one cell gives.
enum CellEnd {
    Measured(Measured, ServiceTimes),
    Cancelled,
    Missing(Missing),
}

pub(crate) struct Session<'a> {
    pub(crate) host: &'a mut dyn Host,
    pub(crate) paths: &'a mut [Box<dyn Path>],
    pub(crate) settings: &'a Settings,
    pub(crate) cancel: &'a AtomicBool,
    pub(crate) idle_cpu_percent: f64,
    /// The group that is prepared.
    pub(crate) group: Option<String>,
    /// The path that is open.
    pub(crate) open: Option<(usize, Box<dyn Device>)>,
    pub(crate) caches_are_clean: bool,
    pub(crate) series: BTreeMap<PlannedCell, Series>,
    pub(crate) missing: Vec<MissingPath>,
    /// Paths that are not tried again.
    pub(crate) unusable: Vec<bool>,
    pub(crate) invalid_reasons: Vec<String>,
    /// The machine's state is not known: nothing more is measured.
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
        let start_ns = self.host.clock().now_ns();
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
                    let spent_ns = self.host.clock().now_ns().saturating_sub(start_ns);
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

    /// Makes `group` the prepared one; its paths are missing if that fails.
    fn enter_group(&mut self, group: &str) {
        if self.group.as_deref() == Some(group) {
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
        self.group = Some(group.to_owned());
        self.caches_are_clean = false;
        if let Err(missing) = self.host.prepare_group(group) {
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
        if let Some(group) = self.group.take() {
            if let Err(missing) = self.host.leave_group(&group) {
                let reason = format!("leaving the {group} paths failed: {missing}");
                self.invalid_reasons.push(reason);
                self.stopped = true;
            }
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
        let entry = MissingPath {
            path: path.map_or_else(String::new, |path| path.name().to_owned()),
            reason: missing.reason,
            hint: missing.hint,
        };
        if !self.missing.contains(&entry) {
            self.missing.push(entry);
        }
    }

    /// Measures one cell and keeps what it gave; the throughput, for progress.
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
        let buffered = self.paths.get(cell.path)?.is_buffered();
        if buffered && !self.caches_are_clean {
            self.drop_caches();
        }
        let end = self.measure(cell, round)?;
        if buffered {
            self.drop_caches();
        }
        if let CellEnd::Measured(measured, _) = &end {
            if measured.tally.first_error == Some(block::Error::Gone) {
                // The next cell opens it again, or says why it cannot.
                self.close_path();
            }
        }
        match end {
            CellEnd::Measured(measured, times) => {
                let tally = measured.tally;
                if tally.operations == 0 {
                    let error = tally.first_error;
                    let reason = error.map_or("no operation succeeded".into(), |e| e.to_string());
                    let reason = format!("{} failed: {reason}", describe(cell.access));
                    let hint = format!("look at the kernel's log, then measure {name} alone");
                    self.report_missing(cell.path, Missing::new(reason, hint));
                    return None;
                }
                let idle = self.idle_cpu_percent;
                self.series.get_mut(&cell)?.add(measured, &times, idle);
                let seconds = tally.elapsed_ns.max(1) as f64 / 1e9;
                Some(tally.bytes as f64 / (1u64 << 20) as f64 / seconds)
            }
            CellEnd::Cancelled => None,
            CellEnd::Missing(missing) => {
                self.report_missing(cell.path, missing);
                None
            }
        }
    }

    fn drop_caches(&mut self) {
        match self.host.drop_caches() {
            Ok(()) => self.caches_are_clean = true,
            Err(missing) => {
                let reason = format!("caches could not be dropped: {missing}");
                if !self.invalid_reasons.contains(&reason) {
                    self.invalid_reasons.push(reason);
                }
            }
        }
    }

    /// Runs one cell on the open path.
    fn measure(&mut self, cell: PlannedCell, round: u32) -> Option<CellEnd> {
        let (_, device) = self.open.as_mut()?;
        let path = self.paths.get_mut(cell.path)?;
        let access = cell.access;
        let geometry = *device.geometry();
        let depth = self
            .settings
            .queue_depth
            .min(path.queue_depth())
            .min(geometry.queue_depth)
            .max(1);
        let mut buffers = Vec::with_capacity(usize::from(depth));
        let len_bytes = usize::try_from(access.block_size_bytes).ok()?;
        for _ in 0..depth {
            match path.allocate(len_bytes) {
                Ok(buffer) => buffers.push(buffer),
                Err(missing) => {
                    release(path.as_mut(), buffers);
                    return Some(CellEnd::Missing(missing));
                }
            }
        }
        if access.operation == Operation::Write {
            let salts = [0x6461_7461, access.block_size_bytes, u64::from(round)];
            let mut random = Random::derived(self.settings.seed, &salts);
            for buffer in &mut buffers {
                random.fill(buffer);
            }
        }
        let threads = self.settings.threads;
        let part = Part::of(
            path.region(&geometry),
            &geometry,
            self.settings.span_bytes,
            access.block_size_bytes,
            0,
            threads,
        );
        let Some(Part { region, span_bytes }) = part else {
            release(path.as_mut(), buffers);
            return Some(CellEnd::Missing(too_small(threads)));
        };
        let offsets = Offsets::new(access, span_bytes, self.settings.seed, round);
        let cell_of_all = Cell {
            access,
            span_bytes: self.settings.span_bytes,
            queue_depth: depth,
            threads,
            seed: self.settings.seed,
            round,
        };
        let crew = match Crew::new(path.as_mut(), &cell_of_all) {
            Ok(crew) => crew,
            Err(missing) => {
                release(path.as_mut(), buffers);
                return Some(CellEnd::Missing(missing));
            }
        };
        let made = ClosedLoop::new(access, offsets, span_bytes, region, &geometry, buffers);
        let mut closed_loop = match made {
            Ok(closed_loop) => closed_loop,
            Err((error, buffers)) => {
                release(path.as_mut(), buffers);
                crew.release(path.as_mut());
                return Some(CellEnd::Missing(cell_missing(access, &error)));
            }
        };
        if let std::collections::btree_map::Entry::Vacant(place) = self.series.entry(cell) {
            place.insert(Series::new(access, depth, threads).ok()?);
        }
        let mut crew = crew;
        let timed = Timed {
            crew: &mut crew,
            host: self.host,
            path: path.as_mut(),
            device: device.as_mut(),
            settings: self.settings,
            cancel: self.cancel,
        };
        let measured = timed.run(&mut closed_loop, access, round);
        let mut times = closed_loop.service_times().ok()?;
        crew.add_times(&mut times);
        crew.release(path.as_mut());
        release(path.as_mut(), closed_loop.into_buffers());
        Some(match measured {
            Ok(measured) if measured.tally.cancelled => CellEnd::Cancelled,
            Ok(measured) => CellEnd::Measured(measured, times),
            Err(missing) => CellEnd::Missing(missing),
        })
    }
}

fn release(path: &mut dyn Path, buffers: Vec<Buffer>) {
    for buffer in buffers {
        path.release(buffer);
    }
}

fn describe(access: Access) -> String {
    let Access {
        operation,
        pattern,
        block_size_bytes,
    } = access;
    format!("{pattern} {operation} of {block_size_bytes} bytes")
}

fn cell_missing(access: Access, error: &CellError) -> Missing {
    let reason = format!("{}: {error}", describe(access));
    let hint = match error {
        CellError::Unaligned { device_bytes, .. } => {
            format!("choose block sizes that are multiples of {device_bytes} bytes")
        }
        CellError::RegionTooSmall { region_bytes, .. } => {
            format!("choose a span of at most {region_bytes} bytes, or enlarge the region")
        }
        _ => "report this as a bug of the path".to_owned(),
    };
    Missing::new(reason, hint)
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

/// The timed part: warm up, then count.
struct Timed<'a> {
    crew: &'a mut Crew,
    host: &'a mut dyn Host,
    path: &'a mut dyn Path,
    device: &'a mut dyn Device,
    settings: &'a Settings,
    cancel: &'a AtomicBool,
}

impl Timed<'_> {
    fn run(
        mut self,
        closed_loop: &mut ClosedLoop,
        access: Access,
        round: u32,
    ) -> Result<Measured, Missing> {
        let warm_up_ns = nanos(self.settings.warm_up);
        if warm_up_ns > 0 {
            let warm = self.phase(closed_loop, access, warm_up_ns);
            if warm.cancelled {
                return Ok(Measured {
                    round,
                    tally: warm,
                    cpu_percent: 0.0,
                    counters: crate::path::Counters::default(),
                });
            }
            closed_loop.forget();
            self.crew.forget();
        }
        // Nothing is in flight at either end, so that each command belongs to the counted part.
        let counters_before = self.path.counters();
        let cpu_before: CpuTimes = self.host.cpu_times()?;
        let start_ns = self.host.clock().now_ns();
        let mut tally = self.phase(closed_loop, access, nanos(self.settings.cell_duration));
        tally.elapsed_ns = self.host.clock().now_ns().saturating_sub(start_ns).max(1);
        let cpu_after = self.host.cpu_times()?;
        let counters = self.path.counters().since(&counters_before);
        Ok(Measured {
            round,
            cpu_percent: cpu_after.percent_since(&cpu_before, tally.elapsed_ns),
            tally,
            counters,
        })
    }

    /// The loop; after writes also one flush, for what stopped in a cache was not written yet.
    fn phase(&mut self, closed_loop: &mut ClosedLoop, access: Access, duration_ns: u64) -> Tally {
        let (clock, device, cancel) = (self.host.clock(), &mut *self.device, self.cancel);
        let first = || closed_loop.run(device, clock, duration_ns, cancel);
        let mut tally = self.crew.run(duration_ns, cancel, first);
        if access.operation == Operation::Write && !tally.cancelled {
            match block::blocking::flush(self.device) {
                Ok(()) | Err(block::Error::Unsupported) => {}
                Err(error) => {
                    tally.errors += 1;
                    tally.first_error.get_or_insert(error);
                }
            }
        }
        tally
    }
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
