// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway info DEVICE`: everything that a drive reports about itself.

use crate::Context;
use crate::exit::Exit;
use clap::Args;
use devices::SCHEMA_VERSION;
use devices::drive::Drive;
use devices::error::{Error, Result};
use devices::facts::{self, Facts, PowerFacts};
use devices::guard::FunctionLock;
use devices::path::straight::{self, Needs};
use files::hardware;
use linux::resolve::Resolved;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;
use units::{Size, rounded};
use units::{aligned, yes};

/// Show everything that a drive reports.
#[derive(Clone, Debug, Args)]
pub struct Info {
    /// The drive
    pub device: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The report of `info`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum InfoReport {
    /// An NVMe drive.
    Nvme(Box<Facts>),
    /// A file system in hardware, `hwfs:PATH`.
    Hardware(HardwareFacts),
}

/// What a file system in hardware reports about itself and its drive, without a mount.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HardwareFacts {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// The name of the device.
    pub device: String,
    /// How it was queried: `hwfs`.
    pub asked_by: String,
    /// Version of its registers.
    pub register_version: u8,
    /// Files that it can have open at once.
    pub open_files: u8,
    /// The longest name of a file.
    pub name_bytes: u8,
    /// The drive can be used.
    pub ready: bool,
    /// Logical block of the drive.
    pub block_size_bytes: u64,
    /// Logical blocks of the drive; null while it is not ready.
    pub block_count: Option<u64>,
    /// Size of the drive; null while it is not ready.
    pub size_bytes: Option<u64>,
}

impl HardwareFacts {
    fn read(device: &str, path: &Path) -> Result<Self> {
        let shape = hardware::shape(device, path)?;
        Ok(Self {
            schema_version: SCHEMA_VERSION,
            device: device.to_owned(),
            asked_by: hardware::PATH.to_owned(),
            register_version: shape.version,
            open_files: shape.open_files,
            name_bytes: shape.name_bytes,
            ready: shape.block_count.is_some(),
            block_size_bytes: shape.block_bytes,
            block_count: shape.block_count,
            size_bytes: shape.drive_bytes(),
        })
    }

    fn text(&self) -> String {
        let drive = match (self.size_bytes, self.block_count) {
            (Some(size), Some(count)) => format!(
                "{}: {count} blocks of {} bytes",
                rounded(size),
                self.block_size_bytes
            ),
            _ => "not ready".to_owned(),
        };
        let lines = [
            ("device", self.device.clone()),
            ("queried by", self.asked_by.clone()),
            ("registers", format!("version {}", self.register_version)),
            ("open files", format!("up to {}", self.open_files)),
            ("longest name", format!("{} bytes", self.name_bytes)),
            ("ready", yes(self.ready)),
            ("drive", drive),
        ];
        let lines = lines.map(|(name, value)| [name.to_owned(), value]);
        aligned(&lines, usize::MAX)
    }
}

impl Info {
    /// Runs the verb.
    ///
    /// # Errors
    /// The drive does not exist, or does not answer.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let report = match hardware::path_of(&self.device) {
            Some(path) => InfoReport::Hardware(HardwareFacts::read(&self.device, path)?),
            None => InfoReport::Nvme(Box::new(self.of_drive(context)?)),
        };
        context
            .console
            .report(self.json, &report, |report| match report {
                InfoReport::Nvme(facts) => text(facts),
                InfoReport::Hardware(facts) => facts.text(),
            })?;
        Ok(Exit::Done)
    }

    fn of_drive(&self, context: &Context) -> Result<Facts> {
        let drive = Drive::find(&context.roots, &self.device)?;
        Ok(match &drive {
            Drive::Nvme(resolved) => of_nvme(context, resolved)?,
            Drive::Model(model) => {
                let handle = straight::open_model(model, Needs::one_queue(1 << 20))?;
                let facts = facts::of_handle(drive.to_string(), handle.as_ref())?;
                handle.close()?;
                facts
            }
            Drive::Coprocessor(path) => facts::of_coprocessor(drive.to_string(), path)?,
            Drive::Disk(disk) => facts::of_disk(drive.to_string(), disk),
            Drive::Remote(remote) => facts::of_remote(drive.to_string(), remote)?,
            Drive::File(_) | Drive::Ram(_) | Drive::Array(_) => {
                return Err(
                    Error::unsupported(format!("{drive} is not an NVMe controller"))
                        .hint("model:SIZE,file=PATH is a model controller over a file"),
                );
            }
        })
    }
}

fn of_nvme(context: &Context, resolved: &Resolved) -> Result<Facts> {
    let name = resolved.to_string();
    if let Some(path) = resolved.controller_path(&context.roots) {
        return facts::of_kernel(name, &path, resolved.controller.pci_id());
    }
    let behind_iommu = resolved.controller.iommu_group.is_some();
    let _lock = FunctionLock::take(&context.roots, resolved)?;
    let handle = straight::open(
        &context.roots,
        resolved,
        behind_iommu,
        Needs::one_queue(1 << 20),
    )?;
    let facts = facts::of_handle(name, handle.as_ref())?;
    handle.close()?;
    Ok(facts)
}

fn power_lines(power: &PowerFacts, line: &mut impl FnMut(&str, String)) {
    for (index, state) in power.states.iter().enumerate() {
        let kind = if state.operational { "" } else { ", no I/O" };
        let watts = f64::from(state.max_power_mw) / 1000.0;
        let (entry, exit) = (state.entry_latency_us, state.exit_latency_us);
        let text = format!("up to {watts} W, entered in {entry} us, left in {exit} us{kind}");
        line(&format!("power state {index}"), text);
    }
    let text = match (power.autonomous_transitions, power.worst_latency_us) {
        (Some(true), Some(worst)) => format!("on, delay a command by up to {worst} us"),
        (Some(false), _) => "off".to_owned(),
        _ => "none, or not known while the kernel's driver holds the drive".to_owned(),
    };
    line("power state transitions", text);
}

fn text(facts: &Facts) -> String {
    let mut lines: Vec<[String; 2]> = Vec::new();
    let mut line = |name: &str, value: String| lines.push([name.to_owned(), value]);
    let unknown = || "not known while the kernel's driver holds the drive".to_owned();
    let limits = &facts.limits;
    line("device", facts.device.clone());
    line("queried by", facts.asked_by.clone());
    line("model", facts.model.clone());
    line("serial", facts.serial.clone());
    line("firmware", facts.firmware.clone());
    line("NVMe version", facts.nvme_version.clone());
    let transfer = limits
        .max_transfer_bytes
        .map_or("unlimited".into(), |b| Size(b).to_string());
    line("largest transfer (MDTS)", transfer);
    let entries = limits
        .max_queue_entries
        .map_or_else(unknown, |entries| entries.to_string());
    line("entries in a queue (MQES)", entries);
    if let (Some(min), Some(max)) = (limits.min_page_bytes, limits.max_page_bytes) {
        line("pages", format!("{} to {}", Size(min), Size(max)));
    }
    if let (Some(time), Some(stride)) = (limits.ready_timeout_ms, limits.doorbell_stride_bytes) {
        line("ready within", format!("{time} ms"));
        line("doorbell stride", format!("{stride} bytes"));
    }
    let yes = |on: bool| if on { "yes" } else { "no" };
    let features = &facts.features;
    line(
        "volatile write cache",
        yes(features.volatile_write_cache).into(),
    );
    line(
        "discard, write zeroes",
        format!("{}, {}", yes(features.discard), yes(features.write_zeroes)),
    );
    line("shadow doorbells", yes(features.shadow_doorbells).into());
    for one in &facts.namespaces {
        let what = match &one.unusable {
            Some(why) => format!("cannot be used: {why}"),
            None => format!(
                "{}: {} blocks of {} bytes, requests of up to {}, {} in flight{}",
                rounded(one.size_bytes),
                one.block_count,
                one.block_size_bytes,
                Size(one.max_request_bytes),
                one.queue_depth,
                if one.write_protected {
                    ", write protected"
                } else {
                    ""
                },
            ),
        };
        line(&format!("namespace {}", one.namespace), what);
    }
    if let Some(one) = &facts.association {
        let by = if one.traffic_based {
            "any command"
        } else {
            "Keep Alive"
        };
        line(
            "keep-alive timeout",
            format!("{} ms, restarted by {by}", one.keep_alive_ms),
        );
        let wait = match one.write_wait_ms {
            Some(ms) => format!(
                "wait {} s from the target's last byte on",
                ms as f64 / 1000.0
            ),
            None => "wait until their deadline".to_owned(),
        };
        line("writes after a loss", wait);
        line(
            "path",
            one.path_state
                .clone()
                .unwrap_or_else(|| "no state reported".into()),
        );
        line("UUID", one.uuid.clone().unwrap_or_else(|| "none".into()));
    }
    if let Some(power) = &facts.power {
        power_lines(power, &mut line);
    }
    for quirk in &facts.quirks {
        let name = format!("quirk {}", quirk.name);
        line(&name, format!("{}; {}", quirk.defect, quirk.effect));
    }
    if let Some(smart) = &facts.smart {
        let health = match smart.critical_warning {
            0 => "good".to_owned(),
            bits => format!("critical warning {bits:#04x}"),
        };
        line("health", health);
        let celsius = i32::from(smart.temperature_kelvin) - 273;
        line(
            "temperature",
            match smart.temperature_kelvin {
                // Some controllers have no sensor.
                0 => "not reported".to_owned(),
                _ => format!("{celsius} °C"),
            },
        );
        line(
            "spare, life used",
            format!(
                "{} %, {} %",
                smart.available_spare_percent, smart.percentage_used
            ),
        );
        let data = |units: u64| rounded(units.saturating_mul(512_000));
        line(
            "read",
            format!(
                "{} in {} commands",
                data(smart.data_units_read),
                smart.host_read_commands
            ),
        );
        line(
            "written",
            format!(
                "{} in {} commands",
                data(smart.data_units_written),
                smart.host_write_commands
            ),
        );
        line(
            "power",
            format!(
                "{} hours, {} cycles, {} unsafe shutdowns",
                smart.power_on_hours, smart.power_cycles, smart.unsafe_shutdowns
            ),
        );
        line("media errors", smart.media_errors.to_string());
    }
    if let Some(slots) = &facts.firmware_slots {
        line(
            "firmware slot",
            format!("{} ({})", slots.active_slot, slots.revisions.join(", ")),
        );
    }
    line("error log", format!("{} entries", facts.error_log.len()));
    for error in &facts.error_log {
        line(
            &format!("  error {}", error.count),
            format!(
                "queue {}, command {}: {}, namespace {}, block {}",
                error.submission_queue, error.command_id, error.meaning, error.namespace, error.lba
            ),
        );
    }
    aligned(&lines, usize::MAX)
}
