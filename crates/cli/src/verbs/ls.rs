//! `straightway ls DEVICE`: the files of a volume.

use crate::failure::{Exit, Failure, Result};
use crate::hardware::{self, Files};
use crate::live::reader::Live;
use crate::units::rounded;
use crate::volume::tree::{choose, none_of};
use crate::volume::{Access, AnyVolume, Mounted, Route, Store, findings, route, shown};
use crate::{Context, SCHEMA_VERSION};
use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};
use volume::{Entry, Error, Node};

/// List the files of a volume.
#[derive(Clone, Debug, Args)]
#[command(disable_help_flag = true)]
pub struct Ls {
    /// The device with the volume
    pub device: String,
    /// Only these files: names, or patterns with * (also for /), ? and [...]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Also show size, allocated space, time of the last change (UTC), and c for checksums
    #[arg(long, short)]
    pub long: bool,
    /// With --long, print human-readable sizes: 1.50 MiB
    #[arg(long, short = 'h')]
    pub human_readable: bool,
    /// Print help (-h is --human-readable here, as in other programs that list files)
    #[arg(long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
    /// The path
    #[command(flatten)]
    pub route: Route,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The files of a volume.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Listing {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// By name.
    pub files: Vec<FileEntry>,
    /// Slots that cannot be read, neighbours as one range; see `straightway check`.
    pub damaged: Vec<String>,
}

/// A file.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
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
}

impl FileEntry {
    /// Converts a volume's file entry.
    pub fn new(entry: &Entry) -> Self {
        Self {
            name: entry.name.as_str().to_owned(),
            size_bytes: entry.size_bytes,
            allocated_bytes: Some(entry.allocated_bytes),
            modified_ns: entry.mtime_ns,
            checksums: Some(entry.checksums),
            slot: entry.slot,
            app_tag: Some(entry.app_tag),
        }
    }

    /// Converts an entry from a file system in hardware.
    pub fn of_hardware(entry: ::hwfs::Entry) -> Self {
        Self {
            name: entry.name,
            size_bytes: entry.bytes,
            allocated_bytes: None,
            modified_ns: 0,
            checksums: None,
            slot: entry.slot,
            app_tag: None,
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
                files.push(FileEntry::new(&entry));
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

    fn of_hardware(device: &str, path: &Path) -> Result<Self> {
        let entries = Files::with(device, path, Access::Read, |files| files.list())?;
        let mut listing = Self {
            schema_version: SCHEMA_VERSION,
            files: entries.into_iter().map(FileEntry::of_hardware).collect(),
            damaged: Vec::new(),
        };
        listing.sort();
        Ok(listing)
    }

    fn sort(&mut self) {
        self.files.sort_by(|one, other| one.name.cmp(&other.name));
    }

    fn text(&self, long: bool, human_readable: bool) -> String {
        let mut text = String::new();
        for file in &self.files {
            if long {
                let size = match human_readable {
                    true => rounded(file.size_bytes),
                    false => file.size_bytes.to_string(),
                };
                // Writing to a String cannot fail.
                let _ = write!(
                    text,
                    "{size:>14} {:>9} {:>20} {} ",
                    file.allocated(),
                    file.modified(),
                    if file.has_checksums() { 'c' } else { '-' },
                );
            }
            let _ = writeln!(text, "{}", shown(&file.name));
        }
        text
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

impl Ls {
    /// Leaves only the files that the names choose.
    fn select(&self, listing: &mut Listing) -> Result<()> {
        let all: Vec<&str> = listing
            .files
            .iter()
            .map(|file| file.name.as_str())
            .collect();
        let (chosen, idle) = choose(&self.names, &all)?;
        if !idle.is_empty() {
            return Err(none_of(&idle, &self.device));
        }
        let chosen: BTreeSet<String> = chosen.into_iter().map(str::to_owned).collect();
        listing.files.retain(|file| chosen.contains(&file.name));
        Ok(())
    }

    /// Runs the verb.
    ///
    /// # Errors
    /// The device or the volume failed; a damaged slot, after everything else was listed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let mut listing = match hardware::path_of(&self.device) {
            Some(path) => {
                hardware::refuse_route(&self.route)?;
                Listing::of_hardware(&self.device, path)?
            }
            None => match Live::find(context, &self.device) {
                Some(mut live) => live.list()?,
                None => {
                    let options = route::open_options(&self.route.with_buffers(4096, 1), false);
                    Store::with(context, &self.device, &options, Listing::read)?
                }
            },
        };
        if !self.names.is_empty() {
            self.select(&mut listing)?;
        }
        match self.json {
            true => context.console.json(&listing)?,
            false => context
                .console
                .print(&listing.text(self.long, self.human_readable))?,
        }
        if listing.damaged.is_empty() {
            return Ok(Exit::Done);
        }
        let what = format!("cannot be read: {}", listing.damaged.join(", "));
        Err(Failure::other(what).hint(format!("straightway check {}", self.device)))
    }
}
