// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway rm DEVICE NAME...`: removes files from a volume.

use crate::Context;
use crate::exit::Exit;
use crate::path_options::RouteArgs;
use clap::Args;
use devices::SCHEMA_VERSION;
use devices::error::Result;
use files::hardware::{self, Files};
use files::listing::Listing;
use files::names::check_name;
use files::tree::{choose, is_pattern};
use files::{Access, Mounted, Store, failed, route, shown};
use schemars::JsonSchema;
use serde::Serialize;
use units::counted;
use volume::{Error, blocking};

/// Files of one operation at most.
const BATCH_FILES: usize = 1024;

/// Remove files from a volume.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
A pattern removes every file that it fits: * means any letters, / too, ? one, [a-c] one of these. Quote
it. If a word fits no file, the others are still removed; the exit status is then 10. A file is removed and
durably so, or a failure leaves it as it was; where damage keeps units of a removed file from being freed, the
file is named, the exit status is 0, and check names the damage.")]
pub struct Rm {
    /// The device with the volume
    pub device: String,
    /// The files' names, or patterns
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// The path
    #[command(flatten)]
    pub route: RouteArgs,
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
    /// Removed names whose space is not free, because what describes it is damaged.
    pub not_freed: Vec<String>,
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
        let (removed, missing) = match hardware::path_of(&self.device) {
            Some(path) => {
                hardware::refuse_route(&self.route)?;
                let removed = Files::with(&self.device, path, Access::Write, |files| {
                    let names = if self.has_pattern() {
                        self.expanded(files.list()?.into_iter().map(|entry| entry.name))?
                    } else {
                        self.names.clone()
                    };
                    remove_each(
                        &names,
                        |_| Ok(0),
                        |name| Ok(files.remove(name)?.then_some(true)),
                    )
                })?;
                let missing = self.missing(&removed);
                (removed, missing)
            }
            None => {
                let options = route::open_options(&self.route.with_buffers(4096, 1), true);
                Store::with(context, &self.device, &options, |mounted| {
                    let removed = self.remove(context, mounted)?;
                    let missing = self.missing(&removed);
                    let first = removed.missing.first();
                    let missing = missing
                        .zip(first)
                        .map(|(failure, name)| mounted.or_folder(name, failure));
                    Ok((removed, missing))
                })?
            }
        };
        if self.json {
            context.console.json(&removed)?;
        }
        missing.map_or(Ok(Exit::Done), Err)
    }

    /// The failure for names that did not exist.
    fn missing(&self, removed: &Removed) -> Option<devices::Error> {
        if removed.missing.is_empty() {
            return None;
        }
        let names = removed.missing.iter();
        let names: Vec<String> = names.map(|name| format!("`{}`", shown(name))).collect();
        let mut failure = failed(names.join(", "), Error::NotFound);
        if !removed.removed.is_empty() {
            let others = counted(removed.removed.len() as u64, "file");
            failure = failure.and(format!("removed: {others}"));
        }
        Some(failure.hint(format!("straightway ls {}", self.device)))
    }

    fn remove(&self, context: &Context, mounted: &Mounted<'_, '_>) -> Result<Removed> {
        let volume = mounted.volume;
        let doing = |name: &str| format!("removing `{}`", shown(name));
        let names = if self.has_pattern() {
            let files = Listing::read(mounted)?.files.into_iter();
            self.expanded(files.map(|file| file.name))?
        } else {
            self.names.clone()
        };
        // As many together as one operation takes.
        let together = |names: &[String]| {
            let names = names.iter().take(BATCH_FILES);
            let names: Vec<&str> = names.map(String::as_str).collect();
            let [first, _, ..] = names[..] else {
                return Ok(0);
            };
            match blocking::run(volume, volume.remove_batch::<BATCH_FILES>(&names)) {
                Err(Error::NotFound) => Ok(0),
                result => result.map_err(|error| failed(doing(first), error)),
            }
        };
        remove_each(&names, together, |name| {
            let marked = match blocking::run(volume, volume.remove_marked(name)) {
                Ok(marked) => marked,
                Err(Error::NotFound) => return Ok(None),
                Err(error) => return Err(failed(doing(name), error)),
            };
            let Some(marked) = marked else {
                return Ok(Some(true));
            };
            // From here on it is removed.
            match blocking::run(volume, volume.release_removed(marked)) {
                Ok(()) => Ok(Some(true)),
                Err(Error::Corrupt(damage)) => {
                    context.say(format_args!(
                        "warning: `{}` is removed, but not all of its space is free: {} (straightway check {})",
                        shown(name),
                        Error::Corrupt(damage),
                        self.device
                    ));
                    Ok(Some(false))
                }
                Err(error) => {
                    let what = "it is removed; the next command that writes frees its space";
                    Err(failed(doing(name), error).and(what))
                }
            }
        })
    }

    fn has_pattern(&self) -> bool {
        self.names.iter().any(|name| is_pattern(name))
    }

    /// The files that the words choose, and the words that choose none.
    fn expanded(&self, all: impl Iterator<Item = String>) -> Result<Vec<String>> {
        let mut all: Vec<String> = all.collect();
        all.sort();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let (chosen, idle) = choose(&self.names, &all)?;
        let chosen = chosen.into_iter().map(str::to_owned);
        Ok(chosen.chain(idle).collect())
    }
}

/// Removes the names, up to the first failure: the first ones with `together`, which returns how
/// many, or where that removes none the first one with `remove`, which returns none for a name that
/// did not exist, and otherwise whether its space is free.
fn remove_each(
    names: &[String],
    mut together: impl FnMut(&[String]) -> Result<usize>,
    mut remove: impl FnMut(&str) -> Result<Option<bool>>,
) -> Result<Removed> {
    let mut removed = Removed {
        schema_version: SCHEMA_VERSION,
        removed: Vec::new(),
        missing: Vec::new(),
        not_freed: Vec::new(),
    };
    let mut rest = names;
    while let Some(name) = rest.first() {
        let count = together(rest)?;
        if count > 0 {
            let (gone, after) = rest.split_at(count.min(rest.len()));
            removed.removed.extend_from_slice(gone);
            rest = after;
            continue;
        }
        rest = rest.get(1..).unwrap_or_default();
        let Some(is_freed) = remove(name)? else {
            removed.missing.push(name.clone());
            continue;
        };
        if !is_freed {
            removed.not_freed.push(name.clone());
        }
        removed.removed.push(name.clone());
    }
    Ok(removed)
}
