// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway mv DEVICE OLD NEW`: renames a file of a volume.

use crate::Context;
use crate::exit::Exit;
use crate::path_options::RouteArgs;
use clap::Args;
use devices::SCHEMA_VERSION;
use devices::error::Result;
use files::hardware::{self, Files};
use files::listing::Listing;
use files::names::check_name;
use files::naming::clash;
use files::{Access, Store, route, shown, warn_of_clash, warn_of_misfit};
use live::origin::Origin;
use recorder::export::{companion_renamed, companions_of, warn_of_list};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;

/// Rename a file of a volume.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
After a power cut the file has either the old or the new name. A file that has the new name already is
never replaced. The list of gaps and the description of a recording (NAME.gaps, NAME.sigmf-meta) keep their names,
as a recording keeps its name when its list or its description is renamed: what stays is named, so that it can be
renamed too.")]
pub struct Mv {
    /// The device with the volume
    pub device: String,
    /// The file's name
    pub old: String,
    /// Its new name
    pub new: String,
    /// The path
    #[command(flatten)]
    pub route: RouteArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The result of a renaming.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Renamed {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// The old name.
    pub old: String,
    /// The new name.
    pub new: String,
    /// What belongs to it and keeps its name: its list of gaps and its description, or the
    /// recording of a list or a description.
    pub companions: Vec<String>,
}

impl Mv {
    /// Renames it, and returns what belongs to it.
    fn rename(&self, context: &Context) -> Result<Vec<String>> {
        let doing = format!("renaming `{}` to `{}`", shown(&self.old), shown(&self.new));
        let options = route::open_options(&self.route.with_buffers(4096, 1), true);
        Store::with(context, &self.device, &options, |mounted| {
            let volume = mounted.volume;
            let listed = Listing::read(mounted)?.files;
            let mut all: BTreeSet<&str> = listed.iter().map(|file| file.name.as_str()).collect();
            all.remove(self.old.as_str());
            if let Some(other) = clash(&all, &self.new) {
                warn_of_clash(context, &self.new, other);
            }
            let number_of = |name: &str| {
                let found = listed.iter().find(|file| file.name == name);
                found.and_then(|file| file.app_tag)
            };
            let own = number_of(&self.old).unwrap_or(0);
            warn_of_list(context, &self.new, own, |of| Ok(number_of(of)))?;
            let rename = volume.with_space(|| volume.rename(&self.old, &self.new));
            // Before it is renamed, so that what describes it is found.
            let io = self.route.with_buffers(64 << 10, 1);
            let origin = Origin::here(context, &io, mounted);
            let companions = companions_of(&origin, &listed, &self.old);
            mounted
                .run(doing, rename)
                .map_err(|failure| mounted.or_folder(&self.old, failure))?;
            Ok(companions)
        })
    }

    /// Runs the verb.
    ///
    /// # Errors
    /// The device or the volume failed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        check_name(&self.old)?;
        check_name(&self.new)?;
        warn_of_misfit(context, &self.new);
        let companions = match hardware::path_of(&self.device) {
            Some(path) => {
                hardware::refuse_route(&self.route)?;
                Files::with(&self.device, path, Access::Write, |files| {
                    files.rename(&self.old, &self.new)
                })?;
                Vec::new()
            }
            None => self.rename(context)?,
        };
        for companion in &companions {
            let left = "belongs to it and keeps its name";
            say_left(
                context,
                (&self.device, "mv", left),
                companion,
                (&self.old, &self.new),
            );
        }
        if self.json {
            context.console.json(&Renamed {
                schema_version: SCHEMA_VERSION,
                old: self.old.clone(),
                new: self.new.clone(),
                companions,
            })?;
        }
        Ok(Exit::Done)
    }
}

/// Says that what belongs to a file stays when a verb takes the file alone.
pub(super) fn say_left(
    context: &Context,
    (device, verb, left): (&str, &str, &str),
    companion: &str,
    (old, new): (&str, &str),
) {
    let hint = match companion_renamed(companion, old, new) {
        Some(new) => format!(
            ": straightway {verb} {device} '{}' '{}'",
            shown(companion),
            shown(&new)
        ),
        None => String::new(),
    };
    context.say(format_args!("`{}` {left}{hint}", shown(companion)));
}
