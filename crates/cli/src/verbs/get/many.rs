// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `get` of several files: of names, of patterns, or of all.
//!
//! A `/` in a name is a folder, which is made. Nothing is fetched if a name or a pattern chooses no
//! file, or a local file exists.

use super::Get;
use super::live::{no_checksums, nothing_yet};
use crate::Context;
use crate::exit::Exit;
use crate::verbs::put::{ManyReport, Report, Reported};
use devices::Bar;
use devices::error::{Error, ErrorKind, Result};
use devices::guard::{Outlet, Output, refuse_address, refuse_detours};
use files::listing::FileEntry;
use files::naming::clash;
use files::tree::{choose, local, none_of};
use files::{route, shown};
use live::origin::Origin;
use recorder::export::{LeftOut, Missing};
use remedy::{Remedy, Setting, words};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;
use units::micros;

/// What `get` shall fetch.
#[derive(Debug)]
pub(super) struct Wanted {
    /// Names and patterns; without any, every file.
    pub words: Vec<String>,
    /// Where to.
    pub folder: PathBuf,
}

impl Get {
    /// Fetches each of the files.
    pub(super) fn run_many(&self, context: &Context, wanted: &Wanted) -> Result<Exit> {
        self.refuse_for_many()?;
        if wanted.folder == Path::new("-") {
            let words = wanted.words.iter().map(|word| format!(" '{word}'"));
            let words: String = words.collect();
            let hint = words![
                "straightway cat ",
                remedy::Device,
                format!("{words} prints them one after the other; --tar makes an archive")
            ];
            return Err(Error::usage("several files cannot go to standard output").hint(hint));
        }
        refuse_address(&wanted.folder)?;
        if wanted.folder.exists() && !wanted.folder.is_dir() {
            let what = format!(
                "{} is not a folder; nothing was done",
                wanted.folder.display()
            );
            return Err(Error::usage(what).hint("the last word is the folder for the files"));
        }
        let options = route::options_for_many(&self.io, false);
        let (report, missing) = Origin::with(context, &self.device, &self.io, options, |origin| {
            context.say(format_args!("path: {}", origin.path()));
            self.get_many(context, origin, wanted)
        })?;
        let exit = Reported::Many(report).tell(context, self.json, "fetched", "")?;
        missing.failure("fetched").map_or(Ok(exit), Err)
    }

    /// Refuses what one file can do and several cannot.
    pub(super) fn refuse_for_many(&self) -> Result<()> {
        let refused = |what: &str| Err(Error::usage(what).hint("one file at a time"));
        if files::hardware::path_of(&self.device).is_some() {
            return refused("a file system in hardware gives one file at a time");
        }
        if self.offset.0 != 0 || self.length.is_some() {
            refused("--offset and --length are for one file")
        } else {
            Ok(())
        }
    }

    /// The files that the words choose, by name. Of a pattern, and of all, those that are not being
    /// written, and what is missing among these.
    pub(super) fn chosen(
        &self,
        context: &Context,
        origin: &Origin<'_, '_>,
        words: &[String],
    ) -> Result<(Vec<FileEntry>, Missing)> {
        let all = origin.files()?;
        let mut files = all.clone();
        files.sort_by(|one, other| one.name.cmp(&other.name));
        let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        // Not the pattern `*`: a file can have this name, and would be the only one.
        if !self.all {
            let (chosen, idle) = choose(words, &names)?;
            if !idle.is_empty() {
                return Err(none_of(&idle, &names, &self.device).and("nothing was fetched"));
            }
            let chosen: BTreeSet<String> = chosen.into_iter().map(str::to_owned).collect();
            files.retain(|file| chosen.contains(&file.name));
        }
        let left_out = if self.partial {
            // One that was made ahead has nothing yet.
            let has_some = |file: &FileEntry| file.is_final || file.size_bytes > 0;
            files.retain(|file| has_some(file) || words.contains(&file.name));
            LeftOut::default()
        } else {
            LeftOut::of(&all, &mut files, words)
        };
        if let Some(text) = left_out.text() {
            if files.is_empty() {
                let hint = words![
                    "straightway get ",
                    remedy::Device,
                    " NAME fetches what is committed of one file, ",
                    Setting::Follow,
                    " the rest too"
                ];
                return Err(left_out
                    .failure("fetched", hint)
                    .unwrap_or_else(|| Error::other(text)));
            }
            context.say(format_args!("{text}: left out"));
        }
        match files.iter().find(|file| !file.has_checksums()) {
            Some(file) if self.verify => return Err(no_checksums(&file.name)),
            _ => {}
        }
        let is_fitted = |file: &&FileEntry| !words.contains(&file.name);
        // That one has nothing does not make it missing.
        let by_pattern = files.iter().chain(&left_out.empty);
        let by_pattern: Vec<&FileEntry> = by_pattern.filter(is_fitted).collect();
        let missing = Missing::among(origin, &all, &by_pattern)?;
        let by_name = files.iter().filter(|file| words.contains(&file.name));
        let missing = missing.with_lists_of(origin, by_name)?;
        Ok((files, missing))
    }

    /// Reads one of the files, as long as it was when it was chosen, into the sink, and counts what
    /// that has taken.
    pub(super) fn read(
        &self,
        origin: &Origin<'_, '_>,
        file: &FileEntry,
        sink: &mut Outlet,
        taken_bytes: &mut u64,
        bar: &Bar,
    ) -> Result<Report> {
        if !file.is_final && file.size_bytes == 0 {
            return Err(nothing_yet(&file.name));
        }
        let mut take = |data: &[u8]| {
            sink.take(data)?;
            *taken_bytes += data.len() as u64;
            Ok(())
        };
        let read = origin.read(file, file.size_bytes, bar, &mut take);
        let requests = read.map_err(|failure| file.unread(failure))?;
        Ok(Report {
            length_bytes: file.size_bytes,
            requests,
            checksums: file.has_checksums(),
            verified: file.has_checksums(),
            growing: !file.is_final,
            ..Report::of_hardware(&self.device, &file.name)
        })
    }

    fn get_many(
        &self,
        context: &Context,
        origin: &Origin<'_, '_>,
        wanted: &Wanted,
    ) -> Result<(ManyReport, Missing)> {
        let began = Instant::now();
        let (chosen, missing) = self.chosen(context, origin, &wanted.words)?;
        let output = |path: &Path| {
            Output::check_within(
                &context.roots,
                &wanted.folder,
                path,
                self.force,
                origin.drive,
            )
        };
        let mut report = ManyReport::new(origin.device(), origin.path());
        let mut failed: Vec<(&str, Error)> = Vec::new();
        let mut todo = Vec::new();
        for file in &chosen {
            let local = file
                .refuse_unfinished()
                .and_then(|()| local(&wanted.folder, &file.name));
            let path = match local {
                Ok(path) => path,
                Err(failure) => {
                    failed.push((&file.name, failure));
                    continue;
                }
            };
            if std::fs::symlink_metadata(&path).is_ok() {
                if self.skip_existing {
                    match unlike(&path, file) {
                        None => report.skipped.push(file.name.clone()),
                        Some(failure) => failed.push((&file.name, failure)),
                    }
                } else {
                    output(&path)?;
                    todo.push((file, path));
                }
            } else {
                refuse_detours(&wanted.folder, &path)?;
                todo.push((file, path))
            }
        }
        let bar = context.bytes_bar(None);
        let mut made = PathBuf::new();
        let all: BTreeSet<&str> = chosen.iter().map(|file| file.name.as_str()).collect();
        for (index, (file, path)) in todo.iter().enumerate() {
            let folder = path.parent().unwrap_or(&wanted.folder);
            let fetched = make_folder(folder, &mut made)
                .and_then(|()| output(path))
                .and_then(|output| {
                    let mut sink = Outlet::open(Some(output), &context.cancel)?;
                    let one = self.read(origin, file, &mut sink, &mut 0, &bar)?;
                    sink.set_modified(file.modified_ns);
                    sink.finish().map(|()| one)
                });
            match fetched {
                Ok(one) => report.add(one),
                Err(failure) if ends_all(&failure) => {
                    let rest = todo.get(index..).unwrap_or_default().iter();
                    let rest = rest.map(|(file, _)| file.name.as_str());
                    let rest: Vec<&str> =
                        failed.iter().map(|(name, _)| *name).chain(rest).collect();
                    return Err(report.broken_off(failure, "fetched", &rest));
                }
                Err(failure) => {
                    let failure = match clash(&all, &file.name) {
                        Some(other) => failure.hint(words![
                            format!("`{}` is there: straightway mv ", shown(other)),
                            remedy::Device,
                            " renames one of the two"
                        ]),
                        None => failure,
                    };
                    failed.push((&file.name, failure));
                }
            }
        }
        bar.finish_and_clear();
        report.elapsed_us = micros(began.elapsed());
        match report.incomplete(failed, "fetched") {
            None => Ok((report, missing)),
            Some(failure) => Err(failure),
        }
    }
}

/// Whether no other file would be fetched either: the user ended the command, the device is
/// missing, there is no space, or the reader of the output has ended.
pub(super) fn ends_all(failure: &Error) -> bool {
    matches!(
        failure.kind(),
        ErrorKind::Interrupted
            | ErrorKind::Missing
            | ErrorKind::Full
            | ErrorKind::Closed
            | ErrorKind::Unread
    )
}

/// Why what exists here is not the file, which `--skip-existing` leaves as it is.
fn unlike(path: &Path, file: &FileEntry) -> Option<Error> {
    let wanted_bytes = file.size_bytes;
    let what = match std::fs::metadata(path) {
        Ok(found) if found.is_file() && found.len() == wanted_bytes => return None,
        Ok(found) if found.is_file() => format!("has {} bytes", found.len()),
        Ok(_) => "is not a file".to_owned(),
        Err(error) => format!("cannot be compared: {error}"),
    };
    let what = format!(
        "{} {what}, and `{}` has {wanted_bytes} on the volume",
        path.display(),
        shown(&file.name)
    );
    let hint = words![Remedy::agree(Setting::Force), " to replace it"];
    Some(Error::new(ErrorKind::Exists, what).hint(hint))
}

/// Makes a folder, unless it is the one that was `made` last.
pub(super) fn make_folder(folder: &Path, made: &mut PathBuf) -> Result<()> {
    if folder != made.as_path() {
        std::fs::create_dir_all(folder).map_err(|error| Error::io("making", folder, &error))?;
        *made = folder.to_owned();
    }
    Ok(())
}
