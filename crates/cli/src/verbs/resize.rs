// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway resize DEVICE [SIZE]`: makes a volume longer or shorter.

use crate::Context;
use crate::exit::Exit;
use crate::path_options::RouteArgs;
use clap::Args;
use devices::error::Result;
use files::resize::ResizeSettings;
use units::{Size, rounded};

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
    pub route: RouteArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl Resize {
    /// Runs the verb.
    ///
    /// # Errors
    /// The size is refused, or the device or the volume failed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let settings = ResizeSettings {
            device: self.device.clone(),
            size: self.size,
            least: self.least,
            route: *self.route,
        };
        let resized = settings.make(context)?;
        let text = if resized.before_bytes == resized.volume_bytes {
            format!(
                "{} has {} bytes already: {} free\n",
                resized.device,
                resized.volume_bytes,
                rounded(resized.free_bytes)
            )
        } else {
            format!(
                "resized {} from {} to {} bytes: {} free\n",
                resized.device,
                resized.before_bytes,
                resized.volume_bytes,
                rounded(resized.free_bytes)
            )
        };
        if self.json {
            context.console.json(&resized)?
        } else {
            context.console.print_outcome(&text)?
        }
        Ok(Exit::Done)
    }
}
