// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway stat DEVICE [NAME]`: the status of a volume, or of a file in it.

use crate::Context;
use crate::exit::Exit;
use crate::path_options::RouteArgs;
use clap::Args;
use devices::SCHEMA_VERSION;
use devices::error::Result;
use files::hardware::{self, Files};
use files::listing::FileEntry;
use files::names::check_name;
use files::reports::{FileReport, VolumeReport};
use files::{Access, Store, route, shown};
use live::reader::Live;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;
use units::{Size, rounded};
use units::{aligned, yes};

/// Show the status of a volume, or of a file in it.
#[derive(Clone, Debug, Args)]
pub struct Stat {
    /// The device with the volume
    pub device: String,
    /// A file's name [the volume itself]
    pub name: Option<String>,
    /// The path
    #[command(flatten)]
    pub route: RouteArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A volume, or a file in it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Status {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// The resolved name of the device.
    pub device: String,
    /// The volume, if no file was named; null on `hwfs:`.
    pub volume: Option<VolumeReport>,
    /// The volume as a file system in hardware reports it, if no file was named; null on other
    /// devices.
    pub hardware: Option<HardwareReport>,
    /// The file, if one was named.
    pub file: Option<FileReport>,
}

/// A volume on `hwfs:`. The hardware does not report its label, identity, free space or unit.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HardwareReport {
    /// Size of the drive.
    pub drive_bytes: Option<u64>,
    /// Block of the drive.
    pub block_size_bytes: u64,
    /// Bytes of data in all files.
    pub data_bytes: u64,
    /// Number of files.
    pub files: u64,
    /// Maximum number of files.
    pub slots: u64,
}

impl Stat {
    /// Runs the verb.
    ///
    /// # Errors
    /// The device or the volume failed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        if let Some(name) = &self.name {
            check_name(name)?;
        }
        let status = match hardware::path_of(&self.device) {
            Some(path) => self.of_hardware(path)?,
            None => self.of_volume(context)?,
        };
        let console = &context.console;
        console.report(self.json, &status, Status::text)?;
        Ok(Exit::Done)
    }

    fn of_volume(&self, context: &Context) -> Result<Status> {
        if let Some(mut live) = Live::find(context, &self.device)? {
            let (volume, file) = match &self.name {
                None => (Some(live.volume()?), None),
                Some(name) => (None, Some(live.file(name)?)),
            };
            return Ok(Status {
                schema_version: SCHEMA_VERSION,
                device: self.device.clone(),
                volume,
                hardware: None,
                file,
            });
        }
        let options = route::open_options(&self.route.with_buffers(4096, 1), false);
        Store::with(context, &self.device, &options, |mounted| {
            let (volume, file) = match &self.name {
                None => (Some(VolumeReport::read(mounted)?), None),
                Some(name) => {
                    let read = FileReport::read(mounted, name);
                    let file = read.map_err(|failure| mounted.or_folder(name, failure))?;
                    (None, Some(file))
                }
            };
            Ok(Status {
                schema_version: SCHEMA_VERSION,
                device: mounted.drive.to_string(),
                volume,
                hardware: None,
                file,
            })
        })
    }

    fn of_hardware(&self, path: &Path) -> Result<Status> {
        hardware::refuse_route(&self.route)?;
        Files::with(&self.device, path, Access::Read, |files| {
            let (hardware, file) = match &self.name {
                None => (Some(HardwareReport::read(files)?), None),
                Some(name) => (None, Some(FileReport::of_hardware(files.find(name)?))),
            };
            Ok(Status {
                schema_version: SCHEMA_VERSION,
                device: self.device.clone(),
                volume: None,
                hardware,
                file,
            })
        })
    }
}

impl HardwareReport {
    fn read(files: &mut Files<'_>) -> Result<Self> {
        let shape = files.shape()?;
        let listed = files.list()?;
        let sizes = listed.iter().map(|entry| entry.bytes);
        Ok(Self {
            drive_bytes: shape.drive_bytes(),
            block_size_bytes: shape.block_bytes,
            data_bytes: sizes.fold(0, u64::saturating_add),
            files: listed.len() as u64,
            slots: files.slots(),
        })
    }
}

/// A label as text.
fn label(label: &str) -> String {
    match label {
        "" => "(none)".to_owned(),
        label => shown(label),
    }
}

impl Status {
    fn text(&self) -> String {
        let mut rows: Vec<(&str, String)> = vec![("device", self.device.clone())];
        if let Some(volume) = &self.volume {
            rows.extend([
                ("label", label(&volume.label)),
                ("uuid", volume.uuid.clone()),
                ("size", rounded(volume.volume_bytes)),
                (
                    "free",
                    format!(
                        "{} of {}",
                        rounded(volume.free_bytes),
                        rounded(volume.capacity_bytes)
                    ),
                ),
                ("files", format!("{} of {}", volume.files, volume.slots)),
                ("unit", Size(volume.unit_bytes).to_string()),
                ("node", Size(volume.node_bytes).to_string()),
                ("block", Size(volume.block_size_bytes).to_string()),
                ("checksums", yes(volume.checksums)),
                ("mounts", volume.mount_count.to_string()),
                ("clean", yes(volume.clean)),
                ("format", volume.format.clone()),
            ]);
        }
        let unknown = || "-".to_owned();
        if let Some(volume) = &self.hardware {
            rows.extend([
                ("drive", volume.drive_bytes.map_or_else(unknown, rounded)),
                ("data", rounded(volume.data_bytes)),
                ("files", format!("{} of {}", volume.files, volume.slots)),
                ("block", Size(volume.block_size_bytes).to_string()),
            ]);
        }
        if let Some(file) = &self.file {
            let number = |value: Option<u64>| value.map_or_else(unknown, |n| n.to_string());
            rows.extend([
                ("name", shown(&file.entry.name)),
                ("size", format!("{} bytes", file.entry.size_bytes)),
                ("allocated", file.entry.allocated()),
                ("extents", number(file.extents)),
                ("checksums", file.entry.checksums.map_or_else(unknown, yes)),
                ("modified", file.entry.modified()),
                ("final", is_final(&file.entry)),
                ("slot", file.entry.slot.to_string()),
                ("tag", number(file.entry.app_tag)),
            ]);
        }
        let rows = rows
            .into_iter()
            .map(|(name, value)| [name.to_owned(), value]);
        aligned(&rows.collect::<Vec<_>>(), usize::MAX)
    }
}

/// Whether a file changes no more.
fn is_final(entry: &FileEntry) -> String {
    if entry.unfinished {
        "no: the beginning of a file, of which a put was interrupted".to_owned()
    } else {
        yes(entry.is_final)
    }
}
