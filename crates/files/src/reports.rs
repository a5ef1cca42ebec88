// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is reported of a volume, and of a file in it.

use super::listing::{FileEntry, Listing};
use super::{AnyVolume, Mounted, shown};
use devices::error::Result;
#[cfg(feature = "reports")]
use schemars::JsonSchema;
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use volume::layout::MAJOR;
use volume::{Error, FileExtent};

/// Extents are counted and listed up to this number; above it a file is fragmented in any case.
const MOST_EXTENTS: u64 = 1_000_000;

/// A volume.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
#[cfg_attr(feature = "reports", derive(JsonSchema))]
pub struct VolumeReport {
    /// The identity, 32 hexadecimal digits.
    pub uuid: String,
    /// The label.
    pub label: String,
    /// The format's version that a reader of the volume must know, as 1.0; 1.1 once it has a name
    /// of more than 64 bytes or a slot table that has grown.
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

/// A file.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
#[cfg_attr(feature = "reports", derive(JsonSchema))]
pub struct FileReport {
    /// The entry, as printed by `ls`.
    #[cfg_attr(feature = "serde", serde(flatten))]
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
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
#[cfg_attr(feature = "reports", derive(JsonSchema))]
pub struct ExtentReport {
    /// Its first byte in the file.
    pub offset_bytes: u64,
    /// Its first block on the device.
    pub lba: u64,
    /// Its length in blocks.
    pub blocks: u64,
}

impl VolumeReport {
    /// Reads it: every slot and bitmap, unless the superblock has their counts.
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
        let (free_units, files) = match volume.usage().await {
            Ok(usage) => (usage.free_units, u64::from(usage.files)),
            // The files whose slots can be read.
            Err(Error::Corrupt(_)) => {
                let files = Listing::gather(volume).await?.files.len() as u64;
                (volume.free_units().await?, files)
            }
            Err(error) => return Err(error),
        };
        let shape = status.shape;
        Ok(Self {
            uuid: uuid_text(&status.uuid),
            label: label_of(volume),
            format: format!("{MAJOR}.{}", volume.minor_version()),
            volume_bytes: shape.volume_bytes,
            unit_bytes: shape.unit_bytes(),
            node_bytes: shape.node_bytes() as u64,
            block_size_bytes: 1 << shape.lba_log2,
            capacity_bytes: shape.unit_count() * shape.unit_bytes(),
            free_bytes: free_units * shape.unit_bytes(),
            files,
            slots: volume.slots(),
            mount_count: status.mount_count,
            clean: status.clean,
            checksums: status.checksums,
        })
    }
}

impl FileReport {
    #[cfg(feature = "drives")]
    /// What a file system in hardware tells of a file.
    pub fn of_hardware(entry: ::hwfs::CoreFile) -> Self {
        Self {
            entry: FileEntry::of_hardware(entry),
            extents: None,
            extent_list: None,
            block_size_bytes: None,
            map_level: None,
        }
    }

    /// Reads it.
    ///
    /// # Errors
    /// There is no such file, or the volume failed.
    pub fn read(mounted: &Mounted<'_, '_>, name: &str) -> Result<Self> {
        let doing = format!("querying `{}`", shown(name));
        mounted.run(doing, Self::gather(mounted.volume, name))
    }

    /// Reads it, beside other work on the volume.
    ///
    /// # Errors
    /// There is no such file, or the volume failed.
    pub async fn gather(volume: &AnyVolume<'_>, name: &str) -> std::result::Result<Self, Error> {
        let entry = volume.find(name).await?;
        // Before anything else has a turn.
        let is_final = !volume.is_being_written(entry.slot);
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
            entry: FileEntry {
                is_final,
                ..FileEntry::new(&entry)
            },
            extents: Some(extents),
            extent_list: Some(list),
            block_size_bytes: Some(volume.geometry().block_size_bytes() as u64),
            map_level: Some(entry.map_level),
        })
    }
}

/// The label of a mounted volume.
pub fn label_of(volume: &AnyVolume<'_>) -> String {
    let label = volume.status().label;
    let end = label.iter().position(|&byte| byte == 0);
    let label = label.get(..end.unwrap_or(label.len())).unwrap_or_default();
    String::from_utf8_lossy(label).into_owned()
}

/// Formats an identity.
pub fn uuid_text(uuid: &[u8; 16]) -> String {
    uuid.iter().map(|byte| format!("{byte:02x}")).collect()
}
