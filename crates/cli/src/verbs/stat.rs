//! `straightway stat DEVICE [NAME]`: the status of a volume, or of a file in it.

use crate::failure::{Exit, Result};
use crate::hardware::{self, Files};
use crate::live::reader::Live;
use crate::units::{Size, rounded};
use crate::verbs::format::uuid_text;
use crate::verbs::label::label_of;
use crate::verbs::ls::{FileEntry, Listing};
use crate::verbs::put::check_name;
use crate::volume::{Access, AnyVolume, Mounted, Route, Store, route, shown};
use crate::{Context, SCHEMA_VERSION};
use clap::Args;
use measure::format::{aligned, yes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;
use volume::layout::{MAJOR, MINOR};
use volume::{Error, FileExtent};

/// Extents are counted and listed up to this number; above it a file is fragmented in any case.
const MOST_EXTENTS: u64 = 1_000_000;

/// Show the status of a volume, or of a file in it.
#[derive(Clone, Debug, Args)]
pub struct Stat {
    /// The device with the volume
    pub device: String,
    /// A file's name [the volume itself]
    pub name: Option<String>,
    /// The path
    #[command(flatten)]
    pub route: Route,
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

/// A volume.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct VolumeReport {
    /// The identity, 32 hexadecimal digits.
    pub uuid: String,
    /// The label.
    pub label: String,
    /// The format's version that this command knows and the volume has, as 1.0.
    pub format: String,
    /// Size of the volume.
    pub volume_bytes: u64,
    /// Allocation unit.
    pub unit_bytes: u64,
    /// Metadata node.
    pub node_bytes: u64,
    /// Block of the device that it was made on.
    pub block_size_bytes: u64,
    /// Space for files.
    pub capacity_bytes: u64,
    /// Free space.
    pub free_bytes: u64,
    /// Number of files.
    pub files: u64,
    /// Maximum number of files.
    pub slots: u32,
    /// Number of mounts with changes.
    pub mount_count: u32,
    /// It was unmounted cleanly. If not, the next command that changes it recovers it first.
    pub clean: bool,
    /// Files can have checksums.
    pub checksums: bool,
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

/// A file.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FileReport {
    /// The entry, as printed by `ls`.
    #[serde(flatten)]
    pub entry: FileEntry,
    /// Number of extents; 1 if it is contiguous. At most a million are counted. Null on `hwfs:`.
    pub extents: Option<u64>,
    /// Where its data is on the device, in the file's order, including reserved space. At most a
    /// million are listed. Null on `hwfs:`.
    pub extent_list: Option<Vec<ExtentReport>>,
    /// Block of the device; null on `hwfs:`.
    pub block_size_bytes: Option<u64>,
    /// Levels of map nodes under its slot: 0, 1 or 2; null on `hwfs:`.
    pub map_level: Option<u8>,
}

/// A run of a file's data on the device.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ExtentReport {
    /// Its first byte in the file.
    pub offset_bytes: u64,
    /// Its first block on the device.
    pub lba: u64,
    /// Its length in blocks.
    pub blocks: u64,
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
        if let Some(mut live) = Live::find(context, &self.device) {
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
                Some(name) => (None, Some(FileReport::read(mounted, name)?)),
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

impl VolumeReport {
    /// Reads it, with every bitmap.
    ///
    /// # Errors
    /// The volume failed.
    pub fn read(mounted: &Mounted<'_, '_>) -> Result<Self> {
        let doing = format_args!("querying {}", mounted.drive);
        mounted.run(doing, Self::gather(mounted.volume))
    }

    /// The same, beside other work on the volume.
    ///
    /// # Errors
    /// The volume failed.
    pub async fn gather(volume: &AnyVolume<'_>) -> std::result::Result<Self, Error> {
        let status = volume.status();
        let free_units = volume.free_units().await?;
        let files = Listing::gather(volume).await?.files.len() as u64;
        let shape = status.shape;
        Ok(Self {
            uuid: uuid_text(&status.uuid),
            label: label_of(volume),
            format: format!("{MAJOR}.{MINOR}"),
            volume_bytes: shape.volume_bytes,
            unit_bytes: shape.unit_bytes(),
            node_bytes: shape.node_bytes() as u64,
            block_size_bytes: 1 << shape.lba_log2,
            capacity_bytes: shape.unit_count() * shape.unit_bytes(),
            free_bytes: free_units * shape.unit_bytes(),
            files,
            slots: shape.slot_count(),
            mount_count: status.mount_count,
            clean: status.clean,
            checksums: status.checksums,
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

impl FileReport {
    fn of_hardware(entry: ::hwfs::Entry) -> Self {
        Self {
            entry: FileEntry::of_hardware(entry),
            extents: None,
            extent_list: None,
            block_size_bytes: None,
            map_level: None,
        }
    }

    fn read(mounted: &Mounted<'_, '_>, name: &str) -> Result<Self> {
        let doing = format!("querying `{}`", shown(name));
        mounted.run(doing, Self::gather(mounted.volume, name))
    }

    /// Reads it, beside other work on the volume.
    ///
    /// # Errors
    /// There is no such file, or the volume failed.
    pub async fn gather(volume: &AnyVolume<'_>, name: &str) -> std::result::Result<Self, Error> {
        let entry = volume.find(name).await?;
        let extents = volume.extent_count(name, MOST_EXTENTS).await?;
        let mut list = Vec::new();
        let add = |extent: FileExtent| {
            list.push(ExtentReport {
                offset_bytes: extent.offset_bytes,
                lba: extent.lba,
                blocks: extent.block_count,
            });
            (list.len() as u64) < MOST_EXTENTS
        };
        volume.extents(name, add).await?;
        Ok(Self {
            entry: FileEntry::new(&entry),
            extents: Some(extents),
            extent_list: Some(list),
            block_size_bytes: Some(volume.geometry().block_size_bytes() as u64),
            map_level: Some(entry.map_level),
        })
    }
}

impl Status {
    fn text(&self) -> String {
        let mut rows: Vec<(&str, String)> = vec![("device", self.device.clone())];
        if let Some(volume) = &self.volume {
            rows.extend([
                ("label", shown(&volume.label)),
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
