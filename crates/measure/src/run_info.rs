// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The record of every run: where, when and under which conditions it was measured.
//!
//! A run in which the environment changed or other programs were busy is not valid.

use crate::environment::Environment;
use crate::host::Host;
use crate::others::{Watch, is_about_others};
use paths::LatencyLimit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of the JSON of all verbs that measure.
pub const RUN_SCHEMA_VERSION: u32 = 2;

/// The drive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceInfo {
    /// The resolved name of the device.
    pub name: String,
    /// Model.
    pub model: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// Firmware revision.
    pub firmware: Option<String>,
    /// PCI address.
    pub pci_address: Option<String>,
    /// Capacity.
    pub size_bytes: Option<u64>,
}

impl DeviceInfo {
    /// The notice above all figures if the drive or the processor is emulated.
    pub fn emulated(&self, environment: &Environment) -> Option<String> {
        let is_drive = |model: &&str| model.starts_with("QEMU") || *model == MODEL_CONTROLLER;
        let drive = self.model.as_deref().filter(is_drive);
        let processor = environment.cpu_model.as_deref();
        let processor = processor.filter(|model| model.starts_with("QEMU"));
        let what = match (drive, processor) {
            (Some(drive), Some(processor)) => {
                format!("the drive is {drive}, the processor {processor}")
            }
            (Some(drive), None) => format!("the drive is {drive}"),
            (None, Some(processor)) => format!("the processor is {processor}"),
            (None, None) => return None,
        };
        Some(format!(
            "Measured in an emulator: {what}. Times and rates are the emulator's and say nothing about hardware; \
             counts of commands and interrupts are exact."
        ))
    }
}

/// The model name of a model controller.
pub const MODEL_CONTROLLER: &str = "Straightway model controller";

/// The user's request, for the record.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The drive.
    pub device: DeviceInfo,
    /// The commands being run.
    pub commands: Vec<String>,
    /// Version of the program.
    pub tool_version: String,
    /// Seed of offsets, data and intervals.
    pub seed: u64,
    /// Additional pictures for the report.
    pub figures: Vec<Figure>,
}

/// A picture made by another program, shown in the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// Its name.
    pub title: String,
    /// Its SVG text.
    pub svg: String,
}

/// Where, when and under which conditions a run was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunInfo {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// The verb that measured it, such as `sustain`.
    #[serde(default = "compare")]
    pub kind: String,
    /// Version of the program that measured.
    pub tool_version: String,
    /// When it started, in seconds since 1970.
    pub started_unix_s: u64,
    /// The exact command lines.
    pub commands: Vec<String>,
    /// The drive.
    pub device: DeviceInfo,
    /// The machine before.
    pub environment_before: Environment,
    /// The machine after.
    pub environment_after: Environment,
    /// Whether the figures can be relied on.
    pub valid: bool,
    /// The reasons if they cannot.
    pub invalid_reasons: Vec<String>,
    /// Whether everything planned was measured; false after an interruption.
    pub complete: bool,
    /// Seed of offsets, data and intervals.
    pub seed: u64,
    /// The limits of what power states may delay a command by; empty if none was asked for.
    #[serde(default)]
    pub latency_limits: Vec<LatencyLimit>,
    /// Additional pictures for the report.
    #[serde(default)]
    pub figures: Vec<Figure>,
    /// The processor time of others since the run began.
    #[serde(skip)]
    pub others: Option<Watch>,
}

/// Older comparisons do not have a kind.
fn compare() -> String {
    "compare".to_owned()
}

impl RunInfo {
    /// Makes the record of a run that begins now.
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
            latency_limits: Vec::new(),
            figures: request.figures.clone(),
            others: Watch::begin(host),
        }
    }

    /// Ends the run: checks whether settings changed or other programs disturbed it.
    pub fn end(&mut self, host: &mut dyn Host) {
        let cores = self.environment_before.cpu_count;
        let busy = self.others.take();
        let busy = busy.and_then(|others| others.reason(host, cores));
        self.environment_after = host.environment();
        self.take_limits(&host.latency_limits());
        let changes = self.environment_before.changes(&self.environment_after);
        self.invalid_reasons
            .extend(changes.iter().map(ToString::to_string));
        self.invalid_reasons.extend(busy);
        self.valid = self.invalid_reasons.is_empty();
    }

    /// Records a reason that makes the figures worthless. A busy machine is recorded only once,
    /// however many parts of the run it disturbed.
    pub fn invalidate(&mut self, reason: impl Into<String>) {
        let reason = reason.into();
        let is_known =
            |known: &String| *known == reason || is_about_others(known) && is_about_others(&reason);
        if !self.invalid_reasons.iter().any(is_known) {
            self.invalid_reasons.push(reason);
        }
        self.valid = false;
    }

    /// Takes over from a partial run whether it is valid and complete.
    pub fn absorb(&mut self, part: &Self) {
        for reason in &part.invalid_reasons {
            self.invalidate(reason);
        }
        self.complete &= part.complete;
        self.take_limits(&part.latency_limits);
    }

    fn take_limits(&mut self, limits: &[LatencyLimit]) {
        for limit in limits {
            if !self.latency_limits.contains(limit) {
                self.latency_limits.push(limit.clone());
            }
        }
    }
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

    #[test]
    fn an_emulated_drive_or_processor_is_named_and_a_real_machine_is_not() {
        let device = |model: &str| DeviceInfo {
            model: Some(model.to_owned()),
            ..DeviceInfo::default()
        };
        let machine = |model: &str| Environment {
            cpu_model: Some(model.to_owned()),
            ..Environment::default()
        };
        let real = machine("Cortex-A72");
        assert_eq!(device("SSD 960").emulated(&real), None);
        let drive = device("QEMU NVMe Ctrl").emulated(&real).unwrap();
        assert!(drive.contains("the drive is QEMU NVMe Ctrl."), "{drive}");
        assert!(device(MODEL_CONTROLLER).emulated(&real).is_some());
        let both = device("QEMU NVMe Ctrl").emulated(&machine("QEMU TCG CPU version 2.5+"));
        assert!(
            both.unwrap()
                .contains("the processor QEMU TCG CPU version 2.5+")
        );
    }
}
