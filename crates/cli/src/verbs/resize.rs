//! `straightway resize DEVICE [SIZE]`: makes a volume longer or shorter.

use crate::Context;
use clap::Args;
use devices::SCHEMA_VERSION;
use devices::drive::Drive;
use devices::failure::{Exit, Failure, Result};
use devices::transfer::IoArgs;
use files::{Mounted, Route, Store, failed, route};
use schemars::JsonSchema;
use serde::Serialize;
use std::fs::File;
use units::{Size, rounded};
use volume::{Error, blocking};

/// Make a volume longer or shorter; its files stay.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
A volume grows to the end of its device: what other programs keep there, behind the volume, will be
overwritten. It shrinks down to the end of the last unit that a file has: no file is moved. A power cut
leaves the old size or the new one. Beyond a multiple of 2,048 units (16,384 with nodes of 4 KiB), the
result needs software that knows such volumes; the file system in hardware refuses them.

A plain file gets longer if SIZE says so. It is not cut after the volume became shorter: truncate -s does
that.")]
pub struct Resize {
    /// The device with the volume
    pub device: String,
    /// The new size of the volume [to the device's end]
    pub size: Option<Size>,
    /// As short as its files allow
    #[arg(long, conflicts_with = "size")]
    pub least: bool,
    /// The path
    #[command(flatten)]
    pub route: Route,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The result.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Resized {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// The resolved name of the device.
    pub device: String,
    /// The size before.
    pub before_bytes: u64,
    /// The size now.
    pub volume_bytes: u64,
    /// Free space now.
    pub free_bytes: u64,
    /// Software that reads the volume must know volumes that were resized.
    pub needs_newer_reader: bool,
}

impl Resize {
    /// Runs the verb.
    ///
    /// # Errors
    /// The size is refused, or the device or the volume failed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let resized = self.make(context)?;
        let text = match resized.before_bytes == resized.volume_bytes {
            true => format!(
                "{} has {} bytes already: {} free\n",
                resized.device,
                resized.volume_bytes,
                rounded(resized.free_bytes)
            ),
            false => format!(
                "resized {} from {} to {} bytes: {} free\n",
                resized.device,
                resized.before_bytes,
                resized.volume_bytes,
                rounded(resized.free_bytes)
            ),
        };
        match self.json {
            true => context.console.json(&resized)?,
            false => context.console.print_outcome(&text)?,
        }
        Ok(Exit::Done)
    }

    /// Resizes the volume.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn make(&self, context: &devices::Context) -> Result<Resized> {
        let io = self.route.with_buffers(4096, 1);
        self.lengthen_file(context, &io)?;
        let options = route::open_options(&io, true);
        Store::with(context, &self.device, &options, |mounted| {
            self.resize(mounted)
        })
    }

    /// Makes a plain file with a volume as long as SIZE, if it is shorter.
    fn lengthen_file(&self, context: &devices::Context, io: &IoArgs) -> Result<()> {
        let (Some(size), Some(path)) = (self.size, Drive::plain_file(&self.device)) else {
            return Ok(());
        };
        let has = std::fs::metadata(path).map_or(u64::MAX, |data| data.len());
        if has >= size.0 {
            return Ok(());
        }
        // Nothing that is not a volume, or is in use, gets longer.
        let options = route::open_options(io, true);
        Store::with(context, &self.device, &options, |_| Ok(()))?;
        let file = File::options().write(true).open(path);
        file.and_then(|file| file.set_len(size.0))
            .map_err(|error| Failure::io("lengthening", path, &error))
    }

    fn resize(&self, mounted: &Mounted<'_, '_>) -> Result<Resized> {
        let volume = mounted.volume;
        let doing = || format!("resizing {}", mounted.drive);
        let before = volume.status().shape;
        let device_bytes = volume.geometry().size_bytes();
        // What removed files still have is not needed.
        mounted.reclaim().map_err(|error| failed(doing(), error))?;
        let bytes = match (self.size, self.least) {
            (Some(size), _) => size.0,
            (None, true) => mounted.run(doing(), volume.least_bytes())?,
            (None, false) => device_bytes,
        };
        if bytes > device_bytes {
            let what = format!("{} has {device_bytes} bytes, not {bytes}", mounted.drive);
            return Err(Failure::usage(what).hint("a smaller SIZE, or a larger device"));
        }
        match blocking::run(volume, volume.resize(bytes)) {
            Ok(_) => {}
            Err(Error::NoSpace | Error::BadParameters) => {
                let least = mounted.run(doing(), volume.least_bytes())?;
                let what = format!(
                    "{} does not fit into {bytes} bytes: its files and tables need {least}; nothing was changed",
                    mounted.drive
                );
                let hint = format!("straightway resize {} {least}", self.device);
                return Err(Failure::new(Exit::Full, what).hint(hint));
            }
            Err(error) => return Err(failed(doing(), error)),
        }
        let shape = volume.status().shape;
        let free_units = mounted.run(doing(), volume.free_units())?;
        Ok(Resized {
            schema_version: SCHEMA_VERSION,
            device: mounted.drive.to_string(),
            before_bytes: before.volume_bytes,
            volume_bytes: shape.volume_bytes,
            free_bytes: free_units * shape.unit_bytes(),
            needs_newer_reader: shape.table_groups > 0,
        })
    }
}
