// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `put --tar`: the files of an archive.
//!
//! An archive is read once, from the first byte to the last, so that it may be a stream. If a file
//! cannot be stored, those before it are whole and durable, and the message names it.

use super::many::unlike;
use super::small::Batch;
use super::{ManyReport, Put, Reported};
use crate::Context;
use crate::exit::Exit;
use devices::drive::Drive;
use devices::error::{Error, Result};
use files::archive::{Archive, Kind, Member};
use files::listing::{Listing, UNFINISHED_TAG};
use files::names::check_name;
use files::naming::clash;
use files::source::FileSource;
use files::tree::some;
use files::{Mounted, Store, failed, route, shown, warn_of_clash};
use remedy::{Part, Setting, words};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::time::Instant;
use units::{counted, micros};

/// A stream has this many times the files that are known when the table has no room for them.
const MORE_FILES: u32 = 16;

/// Adds slots for this number of further files together, before there are files that would have to
/// move.
fn grow_for(mounted: &Mounted<'_, '_>, files: u32) -> Result<()> {
    volume::blocking::run(mounted.volume, mounted.volume.grow_table_for(files))
        .map_err(|error| failed("making room for the names", error))
}

impl Put {
    /// Stores each file of the archive.
    pub(super) fn run_tar(&self, context: &Context, paths: &[PathBuf]) -> Result<Exit> {
        let [path] = paths else {
            return Err(Error::usage("--tar takes one archive").hint(words![
                "straightway put ",
                remedy::Device,
                " ARCHIVE ",
                Part::Option(Setting::Tar)
            ]));
        };
        self.refuse_hardware_for_many()?;
        let source = FileSource::open(path)?;
        let drive = Drive::find(&context.roots, &self.device)?;
        source.refuse_own(&context.roots, &drive)?;
        let options = route::options_for_many(&self.io, true);
        let mut store = Store::of(context, drive, &options)?;
        if let Err(failure) = store.read_tables(options.cache_bytes) {
            return store.close(Err(failure));
        }
        let mut archive = Archive::new(source, context.cancel.flag());
        let report = self.stored(context, store, |mounted, left| {
            self.put_archive(context, mounted, (path, &mut archive), left)
        })?;
        Reported::Many(report).tell(context, self.json, "stored", "")
    }

    fn put_archive(
        &self,
        context: &devices::Context,
        mounted: &Mounted<'_, '_>,
        (path, archive): (&Path, &mut Archive<'_>),
        left: &mut Option<String>,
    ) -> Result<ManyReport> {
        let began = Instant::now();
        let mut report = ManyReport::new(mounted.drive.to_string(), mounted.path);
        let listed = Listing::read(mounted)?.files.into_iter();
        let mut all: BTreeSet<String> = listed.map(|file| file.name).collect();
        let is_new = |member: &Member| name_of(&member.path).is_ok_and(|name| !all.contains(&name));
        let files = Archive::count(path, context.cancel.flag(), is_new);
        let mut has_room = files.is_some();
        let bar = context.bytes_bar(None);
        // One bar for all files.
        let silent = context.silent();
        let mut batch = Batch::default();
        let mut differ: Vec<(String, Error)> = Vec::new();
        let mut unknown: Vec<String> = Vec::new();
        let mut stored = || {
            if let Some(files) = files {
                grow_for(mounted, files)?;
            }
            while let Some(member) = archive.next_member()? {
                if member.kind == Kind::Unknown {
                    let path = String::from_utf8_lossy(&member.path);
                    unknown.push(format!("{path} (type {})", member.letter));
                }
                // At the seven eighths that a table has which grew.
                let known = report.files.len() + batch.len() + 1;
                let slots = mounted.volume.slots() as usize;
                if !has_room && all.len() + known > slots / 8 * 7 {
                    let known = u32::try_from(known).unwrap_or(u32::MAX);
                    grow_for(mounted, known.saturating_mul(MORE_FILES))?;
                    has_room = true;
                }
                self.put_member(
                    &silent,
                    mounted,
                    archive,
                    &member,
                    &mut batch,
                    &mut report,
                    &mut differ,
                    left,
                )?;
                bar.set_position(report.length_bytes);
            }
            self.store_batch(&silent, mounted, &mut batch, &mut report, left)?;
            if report.files.is_empty() && report.skipped.is_empty() && differ.is_empty() {
                Err(Error::other(format!("{} has no files", archive.name())))
            } else {
                archive.finish()
            }
        };
        let stored = stored();
        if stored.is_err() {
            // Those before the failure.
            let _ = self.store_batch(&silent, mounted, &mut batch, &mut report, left);
        }
        bar.finish_and_clear();
        all.extend(report.files.iter().map(|file| file.name.clone()));
        let mut names = report.files.iter().map(|file| &file.name);
        if let Some((name, other)) = names.find_map(|name| Some((name, clash(&all, name)?))) {
            warn_of_clash(context, name, other);
        }
        report.elapsed_us = micros(began.elapsed());
        if !unknown.is_empty() {
            let unknown = some(unknown.iter().map(String::as_str));
            context.say(format_args!("of unknown types, stored as files: {unknown}"));
        }
        let ends_twice = stored.map_err(|failure| {
            let done = counted(report.files.len() as u64, "file");
            let failure = failure.and(format_args!("stored of the archive, whole: {done}"));
            if differ.is_empty() {
                failure
            } else {
                let names = some(differ.iter().map(|(name, _)| name.as_str()));
                failure.and(format_args!("not stored: {names}"))
            }
        })?;
        if !ends_twice {
            context.say(format_args!(
                "{} ends with one block of zeroes instead of two",
                archive.name()
            ));
        }
        match report.incomplete(differ, "stored") {
            None => Ok(report),
            Some(failure) => Err(failure),
        }
    }

    /// Stores one file, or lets it wait for others; notes what is none.
    #[allow(clippy::too_many_arguments)]
    fn put_member(
        &self,
        context: &devices::Context,
        mounted: &Mounted<'_, '_>,
        archive: &mut Archive<'_>,
        member: &Member,
        batch: &mut Batch,
        report: &mut ManyReport,
        differ: &mut Vec<(String, Error)>,
        left: &mut Option<String>,
    ) -> Result<()> {
        let mut refuse = |what: &str, hint: &str| {
            let name = name_of(&member.path)?;
            let failure = Error::unsupported(format!("`{}` {what}", shown(&name))).hint(hint);
            differ.push((name, failure));
            Ok(())
        };
        match member.kind {
            Kind::File | Kind::Unknown => {}
            Kind::Folder | Kind::Label => return Ok(()),
            Kind::Special => {
                let path = String::from_utf8_lossy(&member.path);
                report.skipped.push(path.into_owned());
                return Ok(());
            }
            Kind::HardLink => {
                return refuse(
                    "is another name of a file before it, and the archive does not repeat its data",
                    "tar --hard-dereference stores them under each name",
                );
            }
            Kind::Rest => {
                return refuse(
                    "begins in another archive, and this one has only the rest",
                    "tar --multi-volume reads archives of several volumes",
                );
            }
        }
        let name = name_of(&member.path)?;
        if batch.has(&name) || self.force {
            self.store_batch(context, mounted, batch, report, left)?;
        }
        if self.skip_existing
            && let Some(found) = mounted.find(&name)?
        {
            let is_whole = found.app_tag != UNFINISHED_TAG;
            if is_whole && found.size_bytes == member.len_bytes {
                report.skipped.push(name)
            } else {
                let failure = unlike(&name, found.size_bytes, member.len_bytes);
                differ.push((name, failure));
            }
            return Ok(());
        }
        let mut source = archive.data(member, &name);
        // A file that may have to be replaced takes steps of its own.
        if !self.force && self.gather(context, mounted, &name, &mut source, batch, report, left)? {
            return Ok(());
        }
        self.store_batch(context, mounted, batch, report, left)?;
        let one = self.put(context, mounted, &name, &mut source, left)?;
        report.add(one);
        Ok(())
    }
}

const RENAME: &str = "tar --transform changes names when it makes an archive";

/// The name on a volume of a file in an archive: its path, without `/` and `.` at the beginning.
fn name_of(path: &[u8]) -> Result<String> {
    let refused = |why: &str| {
        let path = String::from_utf8_lossy(path);
        let what = format!("`{}` in the archive {why}", shown(&path));
        Err(Error::usage(what).hint(RENAME))
    };
    let Ok(text) = std::str::from_utf8(path) else {
        return refused("has no name in UTF-8");
    };
    let mut parts = Vec::new();
    for part in Path::new(text).components() {
        match part {
            Component::Normal(part) => parts.extend(part.to_str()),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return refused("leads out of it"),
        }
    }
    let name = parts.join("/");
    check_name(&name)
        .map(|()| name)
        .map_err(|failure| failure.hint(RENAME))
}
