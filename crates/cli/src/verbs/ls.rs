// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway ls DEVICE`: the files of a volume.

use crate::Context;
use crate::exit::Exit;
use crate::path_options::RouteArgs;
use clap::Args;
use devices::SCHEMA_VERSION;
use devices::error::{Error, Result};
use files::hardware::{self, Files};
use files::listing::FileEntry;
pub use files::listing::Listing;
use files::tree::{choose, is_pattern, none_of};
use files::{Access, Mounted, Store, route, shown};
use live::reader::Live;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use units::rounded;
use volume::blocking;

/// List the files of a volume.
#[derive(Clone, Debug, Args)]
#[command(disable_help_flag = true)]
pub struct Ls {
    /// The device with the volume
    pub device: String,
    /// Only these files: names, or patterns with * (also for /), ? and [...]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Also show size, allocated space, time of the last change (UTC), c for checksums, and * for
    /// what is being written
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
    pub route: RouteArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The files of a file system in hardware.
fn of_hardware(device: &str, path: &Path) -> Result<Listing> {
    let entries = Files::with(device, path, Access::Read, |files| files.list())?;
    let mut listing = Listing {
        schema_version: SCHEMA_VERSION,
        files: entries.into_iter().map(FileEntry::of_hardware).collect(),
        damaged: Vec::new(),
    };
    listing.sort();
    Ok(listing)
}

fn text(listing: &Listing, long: bool, human_readable: bool) -> String {
    let mut text = String::new();
    for file in &listing.files {
        if long {
            let size = if human_readable {
                rounded(file.size_bytes)
            } else {
                file.size_bytes.to_string()
            };
            // Writing to a String cannot fail.
            let _ = write!(
                text,
                "{size:>14} {:>9} {:>20} {}{} ",
                file.allocated(),
                file.modified(),
                if file.has_checksums() { 'c' } else { '-' },
                if file.is_final { "" } else { "*" },
            );
        }
        let _ = writeln!(text, "{}", shown(&file.name));
    }
    text
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
            return Err(none_of(&idle, &all, &self.device));
        }
        let chosen: BTreeSet<String> = chosen.into_iter().map(str::to_owned).collect();
        listing.files.retain(|file| chosen.contains(&file.name));
        Ok(())
    }

    /// All files, or, where each word is the name of one, those: then no other slot is read.
    fn read(&self, mounted: &Mounted<'_, '_>) -> Result<Listing> {
        let is_plain = !self.names.is_empty() && !self.names.iter().any(|name| is_pattern(name));
        if !is_plain {
            return Listing::read(mounted);
        }
        let mut listing = Listing {
            schema_version: SCHEMA_VERSION,
            files: Vec::new(),
            damaged: Vec::new(),
        };
        let names: BTreeSet<&str> = self.names.iter().map(String::as_str).collect();
        for name in names {
            match blocking::run(mounted.volume, mounted.volume.find(name)) {
                Ok(entry) => listing.files.push(FileEntry::new(&entry)),
                // No file has the name, or a slot in its buckets is damaged: the whole list says
                // more.
                Err(_) => return Listing::read(mounted),
            }
        }
        listing.sort();
        Ok(listing)
    }

    /// Runs the verb.
    ///
    /// # Errors
    /// The device or the volume failed; a damaged slot, after everything else was listed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let mut listing = match hardware::path_of(&self.device) {
            Some(path) => {
                hardware::refuse_route(&self.route)?;
                of_hardware(&self.device, path)?
            }
            None => match Live::find(context, &self.device)? {
                Some(mut live) => live.list()?,
                None => {
                    let options = route::open_options(&self.route.with_buffers(4096, 1), false);
                    let read = |mounted: &Mounted<'_, '_>| self.read(mounted);
                    Store::with(context, &self.device, &options, read)?
                }
            },
        };
        if !self.names.is_empty() {
            self.select(&mut listing)?;
        }
        if self.json {
            context.console.json(&listing)?
        } else {
            context
                .console
                .print(&text(&listing, self.long, self.human_readable))?
        }
        if listing.damaged.is_empty() {
            return Ok(Exit::Done);
        }
        let what = format!("cannot be read: {}", listing.damaged.join(", "));
        Err(Error::other(what).hint(format!("straightway check {}", self.device)))
    }
}
