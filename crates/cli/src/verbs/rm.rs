//! `straightway rm DEVICE NAME...`: removes files from a volume.

use crate::failure::{Exit, Result};
use crate::hardware::{self, Files};
use crate::verbs::put::check_name;
use crate::volume::{Access, Mounted, Route, Store, failed, route, shown};
use crate::{Context, SCHEMA_VERSION};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use volume::{Error, blocking};

/// Remove files from a volume.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
If a name does not exist, the others are still removed; the exit status is then 1.")]
pub struct Rm {
    /// The device with the volume
    pub device: String,
    /// The files' names
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// The path
    #[command(flatten)]
    pub route: Route,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The result of a removal.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Removed {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// Removed names.
    pub removed: Vec<String>,
    /// Names that did not exist.
    pub missing: Vec<String>,
}

impl Rm {
    /// Runs the verb.
    ///
    /// # Errors
    /// The device or the volume failed; a name did not exist, after the others were removed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        for name in &self.names {
            check_name(name)?;
        }
        let removed = match hardware::path_of(&self.device) {
            Some(path) => {
                hardware::refuse_route(&self.route)?;
                Files::with(&self.device, path, Access::Write, |files| {
                    self.remove_each(|name| files.remove(name))
                })?
            }
            None => {
                let options = route::open_options(&self.route.with_buffers(4096, 1), true);
                Store::with(context, &self.device, &options, |mounted| {
                    self.remove(mounted)
                })?
            }
        };
        if self.json {
            context.console.json(&removed)?;
        }
        if removed.missing.is_empty() {
            return Ok(Exit::Done);
        }
        let names: Vec<String> = removed
            .missing
            .iter()
            .map(|name| format!("`{}`", shown(name)))
            .collect();
        let failure = failed(names.join(", "), Error::NotFound);
        Err(failure.hint(format!("straightway ls {}", self.device)))
    }

    fn remove(&self, mounted: &Mounted<'_, '_>) -> Result<Removed> {
        let removed = self.remove_each(|name| {
            match blocking::run(mounted.volume, mounted.volume.remove(name)) {
                Ok(()) => Ok(true),
                Err(Error::NotFound) => Ok(false),
                Err(error) => Err(failed(format_args!("removing `{}`", shown(name)), error)),
            }
        });
        // Even after a failure: frees the space of the removed files.
        let reaped = mounted.reclaim();
        match (removed, reaped) {
            (Err(failure), _) => Err(failure),
            (Ok(_), Err(error)) => Err(failed("freeing the files' space", error)),
            (Ok(removed), Ok(())) => Ok(removed),
        }
    }

    /// Removes each name with `remove`, which returns whether it existed, up to the first failure.
    fn remove_each(&self, mut remove: impl FnMut(&str) -> Result<bool>) -> Result<Removed> {
        let mut removed = Removed {
            schema_version: SCHEMA_VERSION,
            removed: Vec::new(),
            missing: Vec::new(),
        };
        for name in &self.names {
            match remove(name)? {
                true => removed.removed.push(name.clone()),
                false => removed.missing.push(name.clone()),
            }
        }
        Ok(removed)
    }
}
