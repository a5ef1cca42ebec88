// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `put` of several files and of folders.
//!
//! Every name is checked before the first file is stored. If one file fails, those before it are
//! whole and durable, and the message names those that are missing.

use super::small::Batch;
use super::{Put, Reported, unfinished_name};
use crate::Context;
use crate::exit::Exit;
use devices::SCHEMA_VERSION;
use devices::drive::Drive;
use devices::error::{Error, ErrorKind, Result};
use files::listing::Listing;
use files::names::check_name;
use files::naming::{clash, mistaken};
use files::source::FileSource;
use files::tree::{Tree, some};
use files::{Mounted, Store, failed, route, shown, warn_of_clash, warn_of_misfit};
use recorder::export::warn_of_list;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Instant;
use units::{counted, exact, micros, rounded};

/// So many files are stored without memory for what their look-ups read.
const FEW: usize = 100;

/// The result of a put or a get of several files.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ManyReport {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// The resolved name of the device.
    pub device: String,
    /// The path that was used.
    pub path: String,
    /// The files that were moved, by name.
    pub files: Vec<FileMoved>,
    /// Their bytes.
    pub length_bytes: u64,
    /// Device commands for the data.
    pub requests: u64,
    /// Duration of all of it, without opening and mounting.
    pub elapsed_us: u64,
    /// Files that were left out: of a put links, devices, sockets and FIFOs in folders and
    /// archives, and folders that are empty; names that exist with `--skip-existing`.
    pub skipped: Vec<String>,
}

/// One of several files.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FileMoved {
    /// Its name in the volume.
    pub name: String,
    /// Its bytes.
    pub length_bytes: u64,
    /// The data was verified.
    pub verified: bool,
    /// Of a get: the file is still being recorded, and this is what was committed.
    pub growing: bool,
}

impl ManyReport {
    /// The report before the first file.
    pub fn new(device: String, path: &str) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            device,
            path: path.to_owned(),
            ..Self::default()
        }
    }

    /// Adds a file.
    pub fn add(&mut self, one: super::Report) {
        self.length_bytes += one.length_bytes;
        self.requests += one.requests;
        self.files.push(FileMoved {
            name: one.name,
            length_bytes: one.length_bytes,
            verified: one.verified,
            growing: one.growing,
        });
    }

    /// As text, after a verb.
    pub fn text(&self, done: &str) -> String {
        let seconds = self.elapsed_us.max(1) as f64 / 1e6;
        let rate = rounded((self.length_bytes as f64 / seconds) as u64);
        let skipped = match self.skipped.len() {
            0 => String::new(),
            count => {
                let names = some(self.skipped.iter().map(String::as_str));
                format!("; {count} left out: {names}")
            }
        };
        let growing = self.files.iter().filter(|file| file.growing);
        let growing: Vec<&str> = growing.map(|file| file.name.as_str()).collect();
        let growing = match growing.len() {
            0 => String::new(),
            _ => format!(
                "; still being recorded, {done} as far as committed: {}",
                some(growing.into_iter())
            ),
        };
        format!(
            "{done} {}: {} in {seconds:.3} s, {rate}/s{skipped}{growing}",
            counted(self.files.len() as u64, "file"),
            exact(self.length_bytes),
        )
    }

    /// The failure of a command that went on behind files that failed: the first one's, with the
    /// names of all.
    pub fn incomplete(&self, failed: Vec<(impl AsRef<str>, Error)>, done: &str) -> Option<Error> {
        self.incomplete_but(failed, done, format_args!("not {done}"))
    }

    /// The same, where what failed is `not_done` in other words.
    pub fn incomplete_but(
        &self,
        failed: Vec<(impl AsRef<str>, Error)>,
        done: &str,
        not_done: impl fmt::Display,
    ) -> Option<Error> {
        let count = failed.len();
        let names: Vec<String> = failed
            .iter()
            .map(|(name, _)| format!("`{}`", shown(name.as_ref())))
            .collect();
        // Of several reasons, data that are lost.
        let lost = failed
            .iter()
            .position(|(_, failure)| failure.kind() == ErrorKind::Rot);
        let (_, first) = failed.into_iter().nth(lost.unwrap_or(0))?;
        Some(first.and(format_args!(
            "{} of {} files are {done}, whole; {not_done}: {}",
            self.files.len(),
            self.files.len() + count,
            names.join(", "),
        )))
    }

    /// The failure of one file of `total`, with what was done and what was not.
    pub fn broken_off(&self, failure: Error, done: &str, left: &[&str]) -> Error {
        failure.and(format_args!(
            "{} of {} files are {done}, whole; not {done}: {}",
            self.files.len(),
            self.files.len() + left.len(),
            some(left.iter().copied()),
        ))
    }
}

/// A file that exists and cannot be the one to be stored, which `--skip-existing` leaves as it is.
pub(super) fn unlike(name: &str, is_bytes: u64, wanted_bytes: u64) -> Error {
    let what = format!(
        "`{}` has {is_bytes} bytes on the volume and is to have {wanted_bytes}: an interrupted put or cp left it, or the file has changed",
        shown(name)
    );
    Error::new(ErrorKind::Exists, what).hint("--force replaces it")
}

/// The volume's own device among the files.
fn is_own(path: &Path, drive: &Drive) -> Error {
    let what = format!("{} is {drive} itself", path.display());
    Error::usage(what).hint("put the image into another folder, or name the files")
}

impl Put {
    /// Stores each of the files, under names of their own.
    pub(super) fn run_many(&self, context: &Context, paths: &[PathBuf]) -> Result<Exit> {
        self.refuse_for_many(paths)?;
        let tree = Tree::of(paths)?;
        tree.files.keys().try_for_each(|name| {
            check_name(name).map_err(|failure| failure.and("nothing was stored"))
        })?;
        let drive = Drive::find(&context.roots, &self.device)?;
        let options = match tree.files.len() {
            0..=FEW => route::open_options(&self.io, true),
            _ => route::options_for_many(&self.io, true),
        };
        let mut store = Store::of(context, drive, &options)?;
        if let Err(failure) = store.read_tables(options.cache_bytes) {
            return store.close(Err(failure));
        }
        let report = self.stored(context, store, |mounted, left| {
            self.put_many(context, mounted, &tree, left)
        })?;
        Reported::Many(report).tell(context, self.json, "stored", "")
    }

    /// Refuses several files for a file system in hardware.
    pub(super) fn refuse_hardware_for_many(&self) -> Result<()> {
        match files::hardware::path_of(&self.device) {
            None => Ok(()),
            Some(_) => {
                let what = "a file system in hardware takes one file at a time";
                Err(Error::usage(what).hint("one file at a time"))
            }
        }
    }

    fn refuse_for_many(&self, paths: &[PathBuf]) -> Result<()> {
        self.refuse_hardware_for_many()?;
        let refused = |what: &str| Err(Error::usage(what).hint("one file at a time"));
        if self.explicit_name.is_some() {
            return refused("--name names one file, and there are several");
        }
        if paths.iter().any(|path| path == Path::new("-")) {
            refused("standard input has no name, so it cannot be one of several files")
        } else {
            Ok(())
        }
    }

    fn put_many(
        &self,
        context: &devices::Context,
        mounted: &Mounted<'_, '_>,
        tree: &Tree,
        left: &mut Option<String>,
    ) -> Result<ManyReport> {
        let began = Instant::now();
        let mut report = ManyReport::new(mounted.drive.to_string(), mounted.path);
        let links = tree.skipped.iter().map(|path| path.display().to_string());
        report.skipped.extend(links);
        let files = Listing::read(mounted)?.files;
        for name in tree.files.keys() {
            warn_of_list(context, name, 0, |of| {
                let found = files.iter().find(|file| file.name == of);
                Ok(found.and_then(|file| file.app_tag))
            })?;
        }
        let existing: BTreeMap<String, (u64, bool)> = files
            .into_iter()
            .map(|file| (file.name, (file.size_bytes, file.unfinished)))
            .collect();
        let mut all: BTreeSet<&str> = existing.keys().map(String::as_str).collect();
        all.extend(tree.files.keys().map(String::as_str));
        if let Some(name) = tree.files.keys().find(|name| mistaken(name).is_some()) {
            warn_of_misfit(context, name);
        }
        let mut clashes = tree
            .files
            .keys()
            .filter_map(|name| Some((name, clash(&all, name)?)));
        if let Some((name, other)) = clashes.next() {
            warn_of_clash(context, name, other);
        }
        let (old, new): (Vec<&str>, Vec<&str>) =
            (tree.files.keys().map(String::as_str)).partition(|name| existing.contains_key(*name));
        let mut differ: Vec<(&str, Error)> = Vec::new();
        let todo: Vec<&str> = match (old.is_empty(), self.force, self.skip_existing) {
            (false, _, true) => {
                for name in old {
                    let is = existing.get(name).copied();
                    let path = tree.files.get(name);
                    let wanted = path.and_then(|path| std::fs::metadata(path).ok());
                    match (is, wanted.map(|found| found.len())) {
                        (Some((is, is_unfinished)), Some(wanted))
                            if is != wanted || is_unfinished =>
                        {
                            differ.push((name, unlike(name, is, wanted)));
                        }
                        _ => report.skipped.push(name.to_owned()),
                    }
                }
                new
            }
            (false, false, false) => {
                let what = format!(
                    "{} exist already; nothing was stored",
                    some(old.into_iter())
                );
                return Err(Error::new(ErrorKind::Exists, what)
                    .hint("--force to replace them, or --skip-existing to store the others"));
            }
            _ => tree.files.keys().map(String::as_str).collect(),
        };
        let bar = context.bytes_bar(None);
        // One bar for all files.
        let silent = context.silent();
        let mut batch = Batch::default();
        let is_new = |name: &&&str| !existing.contains_key(**name);
        let new = u32::try_from(todo.iter().filter(is_new).count()).unwrap_or(u32::MAX);
        let mut store = || {
            // All slots together, before there are files that would have to move.
            volume::blocking::run(mounted.volume, mounted.volume.grow_table_for(new))
                .map_err(|error| failed("making room for the names", error))?;
            for name in &todo {
                let Some(path) = tree.files.get(*name) else {
                    continue;
                };
                let open = || FileSource::open(path);
                // To replace one, or what an interrupted replacement left, takes steps of its own.
                let is_new = ![*name, &unfinished_name(name)]
                    .iter()
                    .any(|name| existing.contains_key(*name));
                let mut source = open()?;
                // As where the volume's image is in the folder.
                match source.refuse_own(&context.roots, mounted.drive) {
                    Err(failure) if failure.kind() == ErrorKind::Usage => {
                        differ.push((name, is_own(path, mounted.drive)));
                        continue;
                    }
                    refused => refused?,
                }
                if !is_new
                    || !self.gather(
                        &silent,
                        mounted,
                        name,
                        &mut source,
                        &mut batch,
                        &mut report,
                        left,
                    )?
                {
                    self.store_batch(&silent, mounted, &mut batch, &mut report, left)?;
                    report.add(self.put(&silent, mounted, name, &mut open()?, left)?);
                }
                bar.set_position(report.length_bytes);
            }
            self.store_batch(&silent, mounted, &mut batch, &mut report, left)
        };
        let stored = store();
        if stored.is_err() {
            // Those before the failure.
            let _ = self.store_batch(&silent, mounted, &mut batch, &mut report, left);
        }
        bar.finish_and_clear();
        report.elapsed_us = micros(began.elapsed());
        match stored {
            Ok(()) => match report.incomplete(differ, "stored") {
                None => Ok(report),
                Some(failure) => Err(failure),
            },
            Err(failure) => {
                let is_stored = |name: &&&str| report.files.iter().any(|file| file.name == **name);
                let rest = todo.iter().filter(|name| !is_stored(name));
                let rest: Vec<&str> = rest.copied().collect();
                Err(report.broken_off(failure, "stored", &rest))
            }
        }
    }
}
