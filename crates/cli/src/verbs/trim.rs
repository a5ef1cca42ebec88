// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway trim DEVICE`: gives the free space of a volume back to the drive.

use crate::Context;
use crate::exit::Exit;
use crate::path_options::RouteArgs;
use clap::Args;
use devices::SCHEMA_VERSION;
use devices::error::{Error, Result};
use files::{Mounted, Store, failed, route};
use remedy::{Setting, words};
use schemars::JsonSchema;
use serde::Serialize;
use units::{Size, counted, rounded};
use volume::blocking;

/// Give the free space of a volume back to the drive.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
A drive does not know which blocks a volume has freed, so it keeps copying them when it collects its
garbage, which costs time while it writes. After trim it knows: run it after format, or from time to
time after files were removed, while nothing is recorded. Files and reservations are not touched. On an
image file the free space becomes a hole.")]
pub struct Trim {
    /// The device with the volume
    pub device: String,
    /// Leave shorter free ranges alone
    #[arg(long, value_name = "SIZE", default_value = "0")]
    pub minimum: Size,
    /// The path
    #[command(flatten)]
    pub route: RouteArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The result.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Trimmed {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// The resolved name of the device.
    pub device: String,
    /// Free space that was given back.
    pub trimmed_bytes: u64,
    /// In so many ranges of at most 1 GiB.
    pub ranges: u64,
    /// Free space of the volume.
    pub free_bytes: u64,
}

impl Trim {
    /// Runs the verb.
    ///
    /// # Errors
    /// The device or the volume failed, the device cannot discard, or the user cancelled.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let options = route::open_options(&self.route.with_buffers(4096, 1), true);
        let trimmed = Store::with(context, &self.device, &options, |mounted| {
            self.trim(context, mounted)
        })?;
        let text = format!(
            "trimmed {}: {} of {} free in {}\n",
            trimmed.device,
            rounded(trimmed.trimmed_bytes),
            rounded(trimmed.free_bytes),
            counted(trimmed.ranges, "range")
        );
        if self.json {
            context.console.json(&trimmed)?
        } else {
            context.console.print_outcome(&text)?
        }
        Ok(Exit::Done)
    }

    fn trim(&self, context: &Context, mounted: &Mounted<'_, '_>) -> Result<Trimmed> {
        let volume = mounted.volume;
        if !volume.geometry().features.discard {
            let what = format!("{} cannot discard on this path", mounted.drive);
            return Err(Error::unsupported(what).hint(words![
                "straightway info ",
                remedy::Device,
                " shows whether the drive can (discard); if it can, try another ",
                Setting::Path
            ]));
        }
        let doing = || format!("trimming {}", mounted.drive);
        let free_units = mounted.run(doing(), volume.free_units())?;
        let mut trimmed = Trimmed {
            schema_version: SCHEMA_VERSION,
            device: mounted.drive.to_string(),
            trimmed_bytes: 0,
            ranges: 0,
            free_bytes: free_units * volume.status().shape.unit_bytes(),
        };
        let bar = context.bytes_bar(Some(trimmed.free_bytes));
        let mut next = Some(0);
        while let Some(from) = next {
            if context.cancel.is_set() {
                let done = rounded(trimmed.trimmed_bytes);
                return Err(Error::interrupted(format!(
                    "interrupted; {done} were trimmed"
                )));
            }
            let done = blocking::run(volume, volume.discard_free(from, self.minimum.0));
            let done = done.map_err(|error| failed(doing(), error))?;
            trimmed.trimmed_bytes += done.bytes;
            trimmed.ranges += u64::from(done.bytes > 0);
            bar.set_position(trimmed.trimmed_bytes);
            next = done.next_unit;
        }
        bar.finish_and_clear();
        Ok(trimmed)
    }
}
