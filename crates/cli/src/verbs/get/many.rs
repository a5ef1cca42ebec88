//! `get` of several files: of names, of patterns, or of all.
//!
//! A `/` in a name is a folder, which is made. Nothing is fetched if a name or a pattern chooses no file, or a local file exists.

use super::Get;
use crate::Context;
use crate::drive::Drive;
use crate::failure::{Exit, Failure, Result};
use crate::guard::Output;
use crate::units::micros;
use crate::verbs::put::{ManyReport, Reported};
use crate::volume::listing::{FileEntry, Listing};
use crate::volume::tree::{choose, local, none_of};
use crate::volume::{Access, Mounted, Store, route};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What `get` shall fetch.
#[derive(Debug)]
pub(super) struct Wanted {
    /// Names and patterns.
    pub words: Vec<String>,
    /// Where to.
    pub folder: PathBuf,
}

impl Get {
    /// Fetches each of the files.
    pub(super) fn run_many(&self, context: &Context, wanted: &Wanted) -> Result<Exit> {
        self.refuse_for_many()?;
        let refused = |what: &str| Err(Failure::usage(what).hint("one file at a time"));
        if wanted.folder == Path::new("-") {
            return refused("several files cannot go to standard output");
        }
        if wanted.folder.exists() && !wanted.folder.is_dir() {
            let what = format!(
                "{} is not a folder; nothing was done",
                wanted.folder.display()
            );
            return Err(Failure::usage(what).hint("the last word is the folder for the files"));
        }
        let drive = Drive::find(&context.roots, &self.device)?;
        let options = route::options_for_many(&self.io, false);
        let mut store = Store::of(context, drive, &options)?;
        context.say(format_args!("path: {}", store.opened.name));
        let report = store.mount(Access::Read, |mounted| {
            self.get_many(context, mounted, wanted)
        });
        let report = store.close(report)?;
        Reported::Many(report).tell(context, self.json, "fetched", "")
    }

    /// Refuses what one file can do and several cannot.
    pub(super) fn refuse_for_many(&self) -> Result<()> {
        let refused = |what: &str| Err(Failure::usage(what).hint("one file at a time"));
        if crate::hardware::path_of(&self.device).is_some() {
            return refused("a file system in hardware gives one file at a time");
        }
        match self.offset.0 != 0 || self.length.is_some() {
            true => refused("--offset and --length are for one file"),
            false => Ok(()),
        }
    }

    /// The files that the words choose, by name.
    pub(super) fn chosen(
        &self,
        mounted: &Mounted<'_, '_>,
        words: &[String],
    ) -> Result<Vec<FileEntry>> {
        let mut files = Listing::read(mounted)?.files;
        let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        let (chosen, idle) = choose(words, &names)?;
        // All files of an empty volume are none.
        if !idle.is_empty() && !self.all {
            return Err(none_of(&idle, &self.device).and("nothing was fetched"));
        }
        let chosen: BTreeSet<String> = chosen.into_iter().map(str::to_owned).collect();
        files.retain(|file| chosen.contains(&file.name));
        Ok(files)
    }

    fn get_many(
        &self,
        context: &Context,
        mounted: &Mounted<'_, '_>,
        wanted: &Wanted,
    ) -> Result<ManyReport> {
        let began = Instant::now();
        let chosen = self.chosen(mounted, &wanted.words)?;
        let output =
            |path: &Path| Output::check(&context.roots, path, self.force, Some(mounted.drive));
        for file in &chosen {
            let path = local(&wanted.folder, &file.name)?;
            if std::fs::symlink_metadata(&path).is_ok() {
                output(&path)?;
            }
        }
        let mut report = ManyReport::new(mounted);
        let bar = context.console.bytes_bar(None);
        let mut made = PathBuf::new();
        for (index, file) in chosen.iter().enumerate() {
            let path = local(&wanted.folder, &file.name)?;
            let folder = path.parent().unwrap_or(&wanted.folder);
            let fetched = make_folder(folder, &mut made)
                .and_then(|()| output(&path))
                .and_then(|output| self.get(context, mounted, file, Some(output), &bar));
            match fetched {
                Ok(one) => report.add(one),
                Err(failure) => {
                    let rest = chosen.get(index..).unwrap_or_default();
                    let rest: Vec<&str> = rest.iter().map(|file| file.name.as_str()).collect();
                    return Err(report.broken_off(failure, "fetched", &rest));
                }
            }
        }
        bar.finish_and_clear();
        report.elapsed_us = micros(began.elapsed());
        Ok(report)
    }
}

/// Makes a folder, unless it is the one that was `made` last.
fn make_folder(folder: &Path, made: &mut PathBuf) -> Result<()> {
    if folder != made.as_path() {
        std::fs::create_dir_all(folder).map_err(|error| Failure::io("making", folder, &error))?;
        *made = folder.to_owned();
    }
    Ok(())
}
