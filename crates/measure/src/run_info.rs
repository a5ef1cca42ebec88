//! What every run says of itself, and the stage on which it runs.
//!
//! [`on_stage`] reads the environment, prepares the path's group, opens the path, does the work,
//! and leaves everything as it was, whatever happened; a run in which the environment changed or
//! other programs were busy is not valid.

use crate::environment::Environment;
use crate::host::Host;
use crate::others::{Watch, is_about_others};
use crate::path::{Missing, Path};
use crate::schema::DeviceInfo;
use block::{Buffer, Device};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of the JSON of all verbs that measure, but `compare`, which has its own.
pub const RUN_SCHEMA_VERSION: u32 = 2;

/// What the user gave, for the record.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The drive.
    pub device: DeviceInfo,
    /// The commands being run.
    pub commands: Vec<String>,
    /// Version of the program.
    pub tool_version: String,
    /// Decides offsets, data and intervals.
    pub seed: u64,
    /// Pictures that the report shows besides its own.
    pub figures: Vec<Figure>,
}

/// A picture that something else made, shown in the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// What it is called.
    pub title: String,
    /// Its text.
    pub svg: String,
}

/// Where, when and under which conditions a run was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunInfo {
    /// Version of this form: 2.
    pub schema_version: u32,
    /// What measured it, such as `sustain`.
    pub kind: String,
    /// Version of the program that measured.
    pub tool_version: String,
    /// When it started, in seconds since 1970.
    pub started_unix_s: u64,
    /// The commands that were run, exactly.
    pub commands: Vec<String>,
    /// The drive.
    pub device: DeviceInfo,
    /// The machine before.
    pub environment_before: Environment,
    /// The machine after.
    pub environment_after: Environment,
    /// Whether the figures can be relied on.
    pub valid: bool,
    /// Why not.
    pub invalid_reasons: Vec<String>,
    /// Whether all that was planned was measured; false after an interruption.
    pub complete: bool,
    /// Seed of offsets, data and intervals.
    pub seed: u64,
    /// Pictures that the report shows besides its own.
    #[serde(default)]
    pub figures: Vec<Figure>,
    /// The processor time of others since the run began.
    #[serde(skip)]
    pub others: Option<Watch>,
}

impl RunInfo {
    /// The record of a run that begins now.
    pub fn begin(kind: &str, host: &mut dyn Host, request: &Request) -> Self {
        Self {
            schema_version: RUN_SCHEMA_VERSION,
            kind: kind.to_owned(),
            tool_version: request.tool_version.clone(),
            started_unix_s: host.unix_seconds(),
            commands: request.commands.clone(),
            device: request.device.clone(),
            environment_before: host.environment(),
            environment_after: Environment::default(),
            valid: true,
            invalid_reasons: Vec::new(),
            complete: true,
            seed: request.seed,
            figures: request.figures.clone(),
            others: Watch::begin(host),
        }
    }

    /// The run is over: did anything change, or other programs disturb it?
    pub fn end(&mut self, host: &mut dyn Host) {
        let cores = self.environment_before.cpu_count;
        let busy = self.others.and_then(|others| others.reason(host, cores));
        self.environment_after = host.environment();
        let changes = self.environment_before.changes(&self.environment_after);
        self.invalid_reasons
            .extend(changes.iter().map(ToString::to_string));
        self.invalid_reasons.extend(busy);
        self.valid = self.invalid_reasons.is_empty();
    }

    /// Something that makes the figures worthless. That the machine was busy is said once, however
    /// many parts of the run it disturbed.
    pub fn invalidate(&mut self, reason: impl Into<String>) {
        let reason = reason.into();
        let is_known =
            |known: &String| *known == reason || is_about_others(known) && is_about_others(&reason);
        if !self.invalid_reasons.iter().any(is_known) {
            self.invalid_reasons.push(reason);
        }
        self.valid = false;
    }
}

/// An open path, and the machine around it.
pub struct Open<'a> {
    /// The machine.
    pub host: &'a mut dyn Host,
    /// The path.
    pub path: &'a mut dyn Path,
    /// What it opened.
    pub device: &'a mut dyn Device,
}

impl Open<'_> {
    /// `count` buffers of `len_bytes`.
    ///
    /// # Errors
    /// What is missing; none is kept then.
    pub fn buffers(&mut self, count: u16, len_bytes: u64) -> Result<Vec<Buffer>, Missing> {
        let len = usize::try_from(len_bytes).unwrap_or(usize::MAX);
        let mut buffers = Vec::with_capacity(usize::from(count));
        for _ in 0..count {
            match self.path.allocate(len) {
                Ok(buffer) => buffers.push(buffer),
                Err(missing) => {
                    self.release(buffers);
                    return Err(missing);
                }
            }
        }
        Ok(buffers)
    }

    /// Takes buffers back.
    pub fn release(&mut self, buffers: Vec<Buffer>) {
        for buffer in buffers {
            self.path.release(buffer);
        }
    }

    /// The depth that the path and its device have, at most `wished`.
    pub fn depth(&self, wished: u16) -> u16 {
        let device = self.device.geometry().queue_depth;
        wished.min(self.path.queue_depth()).min(device).max(1)
    }
}

/// Does `work` on the opened path, and leaves everything as it was.
///
/// # Errors
/// What is missing. What could not be undone is an error too, if the work itself had none.
pub fn on_stage<T>(
    host: &mut dyn Host,
    path: &mut dyn Path,
    work: impl FnOnce(&mut Open<'_>) -> Result<T, Missing>,
) -> Result<T, Missing> {
    let group = path.group().to_owned();
    // Data that lies in memory would be no measure of the drive.
    let ready = host
        .prepare_group(&group)
        .and_then(|()| match path.is_buffered() {
            true => host.drop_caches(),
            false => Ok(()),
        });
    let done = ready.and_then(|()| path.open()).and_then(|mut device| {
        let done = work(&mut Open {
            host,
            path,
            device: device.as_mut(),
        });
        path.close(device);
        done
    });
    let left = host.leave_group(&group);
    let value = done?;
    left.map(|()| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::SimulatedHost;

    #[test]
    fn a_run_beside_busy_programs_is_not_valid_and_says_so_once() {
        let mut host = SimulatedHost::new();
        host.others_permille = 800;
        let mut run = RunInfo::begin("x", &mut host, &Request::default());
        host.clock().sleep_ns(1_000_000_000);
        run.end(&mut host);
        assert!(!run.valid);
        let first = run.invalid_reasons.clone();
        assert!(first[0].contains("80 % of a core"), "{first:?}");
        let again = crate::others::reason(90.0, 1_000_000_000, 2).unwrap();
        run.invalidate(again);
        assert_eq!(run.invalid_reasons, first);
        run.invalidate("the governor changed");
        assert_eq!(run.invalid_reasons.len(), 2);
    }
}
