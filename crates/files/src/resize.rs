// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes a volume longer or shorter.

use crate::host::warn_of_length;
use crate::{Mounted, Route, Store, failed, route};
use devices::drive::Drive;
use devices::error::{ErrorKind, Result};
use devices::transfer::IoOptions;
use devices::{Context, SCHEMA_VERSION};
#[cfg(feature = "reports")]
use schemars::JsonSchema;
#[cfg(feature = "reports")]
use serde::Serialize;
use std::fs::File;
use units::Size;
use volume::{Error, blocking};

/// The new size of a volume.
#[derive(Clone, Debug)]
pub struct ResizeSettings {
    /// The name of the device with the volume.
    pub device: String,
    /// The new size; up to the device's end if not given.
    pub size: Option<Size>,
    /// Whether it gets as short as its files allow.
    pub least: bool,
    /// The path.
    pub route: Route,
}

/// The result.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "reports", derive(Serialize, JsonSchema))]
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

impl ResizeSettings {
    /// Resizes the volume.
    ///
    /// # Errors
    /// The size is refused, or the device or the volume failed.
    pub fn make(&self, context: &Context) -> Result<Resized> {
        let io = self.route.with_buffers(4096, 1);
        self.lengthen_file(context, &io)?;
        let options = route::open_options(&io, true);
        Store::with(context, &self.device, &options, |mounted| {
            self.resize(mounted)
        })
    }

    /// Makes a plain file with a volume as long as SIZE, if it is shorter.
    fn lengthen_file(&self, context: &Context, io: &IoOptions) -> Result<()> {
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
        warn_of_length(context, path, size.0);
        let file = File::options().write(true).open(path);
        file.and_then(|file| file.set_len(size.0))
            .map_err(|error| devices::Error::io("lengthening", path, &error))
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
            return Err(devices::Error::usage(what).hint("a smaller SIZE, or a larger device"));
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
                return Err(devices::Error::new(ErrorKind::Full, what).hint(hint));
            }
            Err(error) => return Err(failed(doing(), error)),
        }
        let shape = volume.status().shape;
        mounted.count().map_err(|error| failed(doing(), error))?;
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
