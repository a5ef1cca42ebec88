// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of a volume, as they are listed.

use super::{AnyVolume, Mounted, findings, shown};
use devices::SCHEMA_VERSION;
use devices::error::{ErrorKind, Result};
use remedy::{Part, Setting, words};
#[cfg(feature = "reports")]
use schemars::JsonSchema;
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use std::time::{Duration, UNIX_EPOCH};
use units::rounded;
use volume::{Error, Node, StoredFile};

/// The application's number of a file that `put` stores, until it is whole: what a kill or a power
/// cut leaves has it.
pub const UNFINISHED_TAG: u64 = u64::from_le_bytes(*b"put new~");

/// Refuses the beginning of a file that a `put` left when it was killed.
///
/// # Errors
/// The file is not whole.
pub fn refuse_unfinished(entry: &StoredFile) -> Result<()> {
    FileEntry::new(entry).refuse_unfinished()
}

/// The failure of a file that an interrupted `put` or `cp` left.
fn unfinished(name: &str, size_bytes: u64) -> devices::Error {
    let what = format!(
        "`{}` is not whole: a put or cp that was killed, or a power cut, left {size_bytes} bytes of it",
        shown(name)
    );
    devices::Error::other(what).hint(words![
        "straightway put ",
        Part::Option(Setting::Force),
        " stores it again, or straightway rm removes it; get ",
        Part::Option(Setting::Length),
        format!(" {size_bytes} fetches what there is")
    ])
}

/// The files of a volume.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
#[cfg_attr(feature = "reports", derive(JsonSchema))]
pub struct Listing {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// By name.
    pub files: Vec<FileEntry>,
    /// Slots that cannot be read, neighbours as one range; see `straightway check`.
    pub damaged: Vec<String>,
}

/// A file.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
#[cfg_attr(feature = "reports", derive(JsonSchema))]
pub struct FileEntry {
    /// Its name.
    pub name: String,
    /// Bytes of data.
    pub size_bytes: u64,
    /// Allocated bytes, including reservation and checksums; null on `hwfs:`.
    pub allocated_bytes: Option<u64>,
    /// Time of the last commit, in nanoseconds since 1970; 0 if unknown.
    pub modified_ns: u64,
    /// Whether it has a checksum for each 64 KiB; null on `hwfs:`.
    pub checksums: Option<bool>,
    /// Its slot in the volume's table.
    pub slot: u32,
    /// The application's number for the file; null on `hwfs:`.
    pub app_tag: Option<u64>,
    /// No process has it open to write; false for the segments of a recording that is under way
    /// which are not complete.
    #[cfg_attr(feature = "serde", serde(rename = "final", default = "is_usual"))]
    pub is_final: bool,
    /// It is the beginning of a file: a put was killed, or the power failed.
    #[cfg_attr(feature = "serde", serde(default))]
    pub unfinished: bool,
}

/// What another version of the command, which does not say it, means.
#[cfg(feature = "serde")]
const fn is_usual() -> bool {
    true
}

impl FileEntry {
    /// Converts a volume's file entry. Unless it is open to write, it is final.
    pub fn new(entry: &StoredFile) -> Self {
        Self {
            name: entry.name.as_str().to_owned(),
            size_bytes: entry.size_bytes,
            allocated_bytes: Some(entry.allocated_bytes),
            modified_ns: entry.mtime_ns,
            checksums: Some(entry.checksums),
            slot: entry.slot,
            app_tag: Some(entry.app_tag),
            is_final: true,
            unfinished: entry.app_tag == UNFINISHED_TAG,
        }
    }

    #[cfg(feature = "drives")]
    /// Converts an entry from a file system in hardware.
    pub fn of_hardware(entry: ::hwfs::CoreFile) -> Self {
        Self {
            name: entry.name,
            size_bytes: entry.bytes,
            allocated_bytes: None,
            modified_ns: 0,
            checksums: None,
            slot: entry.slot,
            app_tag: None,
            is_final: true,
            unfinished: false,
        }
    }

    /// Why this file, which was listed, could not be read: if it is not there any more, a ring, or
    /// another user of the volume, has removed it in between.
    #[must_use]
    pub fn unread(&self, failure: devices::Error) -> devices::Error {
        if failure.kind() != ErrorKind::NotFound {
            return failure;
        }
        let what = format!(
            "`{}` was removed before it could be read",
            shown(&self.name)
        );
        devices::Error::new(ErrorKind::Late, what).hint(words![
            "the same command again takes what is there now; a ring with a larger ",
            Setting::Keep,
            " has its segments for longer"
        ])
    }

    /// Refuses the beginning of a file that a `put` left when it was killed.
    ///
    /// # Errors
    /// The file is not whole.
    pub fn refuse_unfinished(&self) -> Result<()> {
        if self.unfinished {
            Err(unfinished(&self.name, self.size_bytes))
        } else {
            Ok(())
        }
    }

    /// Whether it is known to have checksums.
    pub fn has_checksums(&self) -> bool {
        self.checksums == Some(true)
    }

    /// Allocated bytes, rounded.
    pub fn allocated(&self) -> String {
        self.allocated_bytes.map_or("-".to_owned(), rounded)
    }

    /// The time of the last change, in seconds, UTC.
    pub fn modified(&self) -> String {
        match self.modified_ns {
            0 => "-".to_owned(),
            ns => {
                let time = UNIX_EPOCH + Duration::from_nanos(ns);
                humantime::format_rfc3339_seconds(time).to_string()
            }
        }
    }
}

impl Listing {
    /// Reads the list from a volume. A damaged slot does not end the list.
    ///
    /// # Errors
    /// The device failed.
    pub fn read(mounted: &Mounted<'_, '_>) -> Result<Self> {
        let doing = format_args!("listing {}", mounted.drive);
        mounted.run(doing, Self::gather(mounted.volume))
    }

    /// The same, beside other work on the volume.
    ///
    /// # Errors
    /// The device failed.
    pub async fn gather(volume: &AnyVolume<'_>) -> std::result::Result<Self, Error> {
        loop {
            let moves = volume.moves();
            let listing = Self::gather_once(volume).await?;
            // A file that moved in the meantime may be in the list twice, or missing.
            if volume.moves() == moves {
                return Ok(listing);
            }
        }
    }

    async fn gather_once(volume: &AnyVolume<'_>) -> std::result::Result<Self, Error> {
        let mut listing = Self {
            schema_version: SCHEMA_VERSION,
            files: Vec::new(),
            damaged: Vec::new(),
        };
        let mut damaged = Vec::new();
        let mut from = 0;
        let files = &mut listing.files;
        while let Err(error) = volume
            .files(from, |entry| {
                files.push(FileEntry {
                    is_final: !volume.is_being_written(entry.slot),
                    ..FileEntry::new(&entry)
                });
                true
            })
            .await
        {
            let slot = damaged_slot(error).ok_or(error)?;
            damaged.push(slot);
            from = slot + 1;
        }
        listing.damaged = findings::slots(&damaged);
        listing.sort();
        Ok(listing)
    }

    /// Sorts the files by name.
    pub fn sort(&mut self) {
        self.files.sort_by(|one, other| one.name.cmp(&other.name));
    }
}

/// The slot that an error names, after which a listing continues.
fn damaged_slot(error: Error) -> Option<u32> {
    match error {
        Error::Corrupt(damage) => match damage.node() {
            Node::Slot(slot) => Some(slot),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_removed_after_it_was_listed_is_a_loss_and_other_failures_stay() {
        let entry = FileEntry {
            name: "cam.000405".to_owned(),
            size_bytes: 1,
            allocated_bytes: None,
            modified_ns: 0,
            checksums: None,
            slot: 0,
            app_tag: None,
            is_final: true,
            unfinished: false,
        };
        let gone = devices::Error::new(ErrorKind::NotFound, "no file has this name");
        let failure = entry.unread(gone);
        assert_eq!(failure.kind(), ErrorKind::Late);
        assert!(
            failure.to_string().contains("`cam.000405` was removed"),
            "{failure}"
        );
        let rot = devices::Error::new(ErrorKind::Rot, "it does not match");
        assert_eq!(entry.unread(rot).kind(), ErrorKind::Rot);
    }
}
