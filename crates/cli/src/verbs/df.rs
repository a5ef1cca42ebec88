// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway df [DEVICE]...`: the space of volumes.

use crate::Context;
use crate::exit::Exit;
use crate::path_options::RouteArgs;
use crate::verbs::list;
use clap::Args;
use devices::SCHEMA_VERSION;
use devices::error::Result;
use devices::path::PathChoice;
use files::reports::VolumeReport;
use files::{Store, route, shown};
use live::reader::Live;
use schemars::JsonSchema;
use serde::Serialize;
use units::aligned;
use units::rounded;

/// Show the space of volumes.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Without DEVICE: every volume on the drives and disks that `straightway list` shows, through the kernel, so
that no drive is taken from its driver. One that is in use is named with the reason; its space is not
known then.")]
pub struct Df {
    /// Devices with volumes [every one that has a volume]
    #[arg(value_name = "DEVICE")]
    pub devices: Vec<String>,
    /// The path
    #[command(flatten)]
    pub route: RouteArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Volumes and their space.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Volumes {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// In the order of the devices.
    pub volumes: Vec<Space>,
    /// Devices that have a volume, but could not be opened.
    pub closed: Vec<Closed>,
}

/// A volume.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Space {
    /// The name by which it was found or given.
    pub name: String,
    /// The resolved name of the device.
    pub device: String,
    /// The volume, as `stat` reports it.
    #[serde(flatten)]
    pub volume: VolumeReport,
}

/// A device whose volume cannot be read now.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Closed {
    /// The device.
    pub device: String,
    /// Why.
    pub reason: String,
}

impl Df {
    /// Runs the verb.
    ///
    /// # Errors
    /// A named device or its volume cannot be read.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let found = match self.devices.as_slice() {
            [] => with_volumes(context),
            named => named.to_vec(),
        };
        let mut volumes = Volumes {
            schema_version: SCHEMA_VERSION,
            volumes: Vec::new(),
            closed: Vec::new(),
        };
        for device in found {
            match self.space_of(context, &device) {
                Ok(space) => volumes.volumes.push(space),
                Err(failure) if self.devices.is_empty() => volumes.closed.push(Closed {
                    device,
                    reason: failure.to_string(),
                }),
                Err(failure) => return Err(failure),
            }
        }
        if self.json {
            context.console.json(&volumes)?
        } else {
            if volumes.volumes.is_empty() && volumes.closed.is_empty() {
                context.say("no drive of this machine has a Straightway volume");
            }
            for one in &volumes.closed {
                // Most reasons begin with the device.
                if one.reason.contains(&one.device) {
                    context.say(&one.reason)
                } else {
                    context.say(format_args!("{}: {}", one.device, one.reason))
                }
            }
            if !volumes.volumes.is_empty() {
                context.console.print(&volumes.table())?;
            }
        }
        Ok(Exit::Done)
    }

    fn space_of(&self, context: &Context, device: &str) -> Result<Space> {
        if let Some(mut live) = Live::find(context, device)? {
            return Ok(Space {
                name: device.to_owned(),
                device: device.to_owned(),
                volume: live.volume()?,
            });
        }
        let mut route = *self.route;
        if self.devices.is_empty() && route.is_auto() {
            // A look at all drives takes none from its driver.
            route.path = PathChoice::SYNC;
        }
        let options = route::open_options(&route.with_buffers(4096, 1), false);
        Store::with(context, device, &options, |mounted| {
            Ok(Space {
                name: device.to_owned(),
                device: mounted.drive.to_string(),
                volume: VolumeReport::read(mounted)?,
            })
        })
    }
}

/// The block devices whose magic number says that a volume is on them.
fn with_volumes(context: &Context) -> Vec<String> {
    let listing = list::Listing::read(&context.roots, false);
    let namespaces = listing.controllers.iter().flat_map(|one| &one.namespaces);
    let blocks = namespaces
        .map(|namespace| &namespace.block)
        .chain(listing.disks.iter().map(|disk| &disk.block));
    blocks
        .filter(|block| block.has_volume())
        .filter_map(|block| block.block_device.clone())
        .map(|name| context.roots.dev.join(name).display().to_string())
        .collect()
}

impl Volumes {
    fn table(&self) -> String {
        let mut rows = vec![
            [
                "DEVICE", "LABEL", "SIZE", "USED", "FREE", "USE", "FILES", "OF",
            ]
            .map(str::to_owned),
        ];
        rows.extend(self.volumes.iter().map(|one| {
            let volume = &one.volume;
            let used = volume.capacity_bytes - volume.free_bytes;
            let percent =
                (u128::from(used) * 100).div_ceil(u128::from(volume.capacity_bytes.max(1)));
            [
                one.name.clone(),
                match volume.label.as_str() {
                    "" => "-".to_owned(),
                    label => shown(label),
                },
                rounded(volume.capacity_bytes),
                rounded(used),
                rounded(volume.free_bytes),
                format!("{percent} %"),
                volume.files.to_string(),
                volume.slots.to_string(),
            ]
        }));
        aligned(&rows, usize::MAX)
    }
}
