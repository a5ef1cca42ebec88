// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway upgrade DEVICE`: the format of a volume, and the way back to format 1.0.

use crate::Context;
use crate::exit::Exit;
use crate::path_options::RouteArgs;
use clap::{Args, ValueEnum};
use devices::error::Result;
use files::upgrade::{Format, UpgradeSettings, Upgraded};

/// Show the format of a volume, or take it back to format 1.0.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
A volume has format 1.0 until a change needs 1.1: the first name of more than 64 bytes, or a file more than
the table of slots has room for. That change marks the volume; nothing else has to be upgraded, and
upgrade without --to only says which format the volume has, and what it can have. The file system in
hardware, and software from before 1.1, refuse a volume with the mark.

--to 1.0 removes it: files move out of the slots that were added to the table, and the space of these is free
again. A volume with a longer name, with more files than its table had slots at first, or with damage is
refused, and not changed. A power cut leaves the volume whole, in one format or the other; run the command again.")]
pub struct Upgrade {
    /// The device with the volume
    pub device: String,
    /// The format
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "1.1",
        hide_default_value = true
    )]
    pub to: ToFormat,
    /// The path
    #[command(flatten)]
    pub route: RouteArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A version of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ToFormat {
    /// Names of up to 64 bytes; the table that `format` made
    #[value(name = "1.0")]
    V1_0,
    /// Names of up to 255 bytes; a table that grows
    #[value(name = "1.1")]
    V1_1,
}

impl Upgrade {
    /// Runs the verb.
    ///
    /// # Errors
    /// The volume cannot have the format, or the device or the volume failed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let settings = UpgradeSettings {
            device: self.device.clone(),
            to: match self.to {
                ToFormat::V1_0 => Format::V1_0,
                ToFormat::V1_1 => Format::V1_1,
            },
            route: *self.route,
        };
        let upgraded = settings.make(context)?;
        if self.json {
            context.console.json(&upgraded)?
        } else {
            context.console.print_outcome(&text(&upgraded))?
        }
        Ok(Exit::Done)
    }
}

fn text(upgraded: &Upgraded) -> String {
    let Upgraded {
        device,
        before,
        format,
        ..
    } = upgraded;
    let mut text = if before == format {
        format!("{device} has format {format}: ")
    } else {
        format!("took {device} back from format {before} to {format}: ")
    };
    text += &format!(
        "{} slots now; names of up to 64 bytes, up to {} in 1.1\n",
        upgraded.slots, upgraded.longest_name_bytes
    );
    if upgraded.is_resized {
        text += "it was resized: the file system in hardware refuses it\n";
    }
    text
}
