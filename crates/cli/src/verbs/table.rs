// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway table DEVICE NAME FILE`: the translation table of a volume's file, for the window
//! of `rtl/smmu`.

use crate::Context;
use crate::exit::Exit;
use crate::grave::GRAVE;
use crate::path_options::RouteArgs;
use clap::Args;
use devices::SCHEMA_VERSION;
use devices::drive::Drive;
use devices::error::{Error, Result};
use devices::guard::{Outlet, output_of, refuse_to_mix};
use files::names::check_name;
use files::{Access, Mounted, Store, failed, route, shown};
use map::{TableError, window_table};
use remedy::{Part, Setting, words};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::{Path, PathBuf};
use units::Size;

/// Write the translation table with which hardware reads a file of a volume through memory.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
FILE gets a word of 32 bits, little-endian, for each page of the file: where the page is on the
device. Load it into memory, and give its address and the last page's number to a context of the
hardware's window (rtl/smmu). The file's data stays where it is.

Pages are counted from DEVICE's start: name the drive or the array that the hardware has, not a
partition of it. Each page must begin at a page of the device: format the volume with a --unit of at least a page. The
table holds while the file is neither changed nor removed. Behind the end of the file, its last page
has what is on the device there.")]
pub struct Table {
    /// The device with the volume
    pub device: String,
    /// The file's name in the volume
    pub name: String,
    /// The file for the table; - is standard output
    pub file: PathBuf,
    /// The page of the hardware: 4K, 8K, 16K, 32K or 64K
    #[arg(long, value_name = "SIZE", default_value = "4K")]
    pub page_size: Size,
    /// Let the hardware store to the file; not if it has checksums
    #[arg(long)]
    pub writable: bool,
    /// Replace FILE
    #[arg(long, help_heading = GRAVE)]
    pub force: bool,
    /// The path
    #[command(flatten)]
    pub route: RouteArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A translation table.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// The resolved name of the device.
    pub device: String,
    /// The path that was used.
    pub path: String,
    /// The file in the volume.
    pub name: String,
    /// Its size.
    pub size_bytes: u64,
    /// A page of the hardware.
    pub page_bytes: u64,
    /// Number of entries, one for each page. The context's last page is this less 1.
    pub entries: u64,
    /// The pages may be stored to.
    pub writable: bool,
}

impl Table {
    /// Runs the verb.
    ///
    /// # Errors
    /// The device, the volume, the file or the output failed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        check_name(&self.name)?;
        let file = Some(self.file.as_path()).filter(|&file| file != Path::new("-"));
        if file.is_none() {
            refuse_to_mix(self.json, "name a file")?;
        }
        let drive = Drive::find(&context.roots, &self.device)?;
        let output = output_of(&context.roots, Some(&drive), file, self.force)?;
        let options = route::open_options(&self.route.with_buffers(4096, 1), false);
        let mut store = Store::of(context, drive, &options)?;
        let made = store.mount(Access::Read, |mounted| self.of_file(mounted));
        let (report, table) = store.close(made)?;
        let mut output = Outlet::open(output, &context.cancel)?;
        for entries in table.chunks(1 << 16) {
            let bytes: Vec<u8> = entries
                .iter()
                .flat_map(|entry| entry.to_le_bytes())
                .collect();
            output.take(&bytes)?;
        }
        output.finish()?;
        if self.json {
            context.console.json(&report)?;
        }
        context.say(format_args!(
            "{} entries for pages of {}: the context's last page is {}",
            report.entries,
            self.page_size,
            report.entries - 1
        ));
        Ok(Exit::Done)
    }

    fn of_file(&self, mounted: &Mounted<'_, '_>) -> Result<(Report, Vec<u32>)> {
        let doing = || format!("mapping `{}`", shown(&self.name));
        let entry = mounted.run(doing(), mounted.volume.find(&self.name))?;
        let page_bytes = self.page_size.0;
        let table = window_table(mounted.volume, &self.name, page_bytes, self.writable)
            .map_err(|error| of_table(doing(), error))?;
        let report = Report {
            schema_version: SCHEMA_VERSION,
            device: mounted.drive.to_string(),
            path: mounted.path.to_owned(),
            name: self.name.clone(),
            size_bytes: entry.size_bytes,
            page_bytes,
            entries: table.len() as u64,
            writable: self.writable,
        };
        Ok((report, table))
    }
}

/// A table's error as the user reads it.
fn of_table(doing: String, error: TableError) -> Error {
    if let TableError::Volume(error) = error {
        return failed(doing, error);
    }
    let failure = Error::usage(format!("{doing}: {error}"));
    match error {
        TableError::Checksums => {
            failure.hint("without --writable, or put the file again with --no-checksums")
        }
        TableError::Unaligned { .. } => failure.hint(words![
            "straightway format ",
            remedy::Device,
            " ",
            Part::Option(Setting::Unit),
            " SIZE, at least --page-size, and put the file again"
        ]),
        TableError::PageSize(_) => failure.hint("--page-size 4K, or that of the hardware"),
        _ => failure,
    }
}
