// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway put DEVICE FILE [NAME]`: stores a file or standard input in a volume; `put DEVICE
//! FILE...` files and folders.

mod many;
mod small;
mod tar;

pub use many::ManyReport;

use crate::Context;
use crate::exit::Exit;
use crate::grave::GRAVE;
use crate::path_options::IoArgs;
use crate::recording_options::ChecksumArgs;
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use devices::SCHEMA_VERSION;
use devices::drive::Drive;
use devices::error::{ErrorKind, Result};
use devices::transfer::{Moved, Span};
use files::chunks::Chunks;
use files::drain::{Part, drain};
use files::fill::fill;
use files::flow::Sums;
use files::hardware::{self, Files, Stop};
use files::listing::UNFINISHED_TAG;
use files::names::{check_name, replace, unfinished_name};
use files::source::FileSource;
use files::{Access, Mounted, Store, failed, now_ns, pace, route, shown, warn_of_misfit};
use recorder::export::warn_of_list;
use remedy::words;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use units::{exact, micros, rounded};
use volume::{CreateOptions, Error};

/// Store files, folders or standard input in a volume.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The file is durable when the command exits with 0. A put that fails or is interrupted removes what it
had stored. After a power cut or a kill the name may exist with only the file's beginning: get refuses
it, stat and check say so, and put --force stores it again.

Several files keep their names, and those of a folder have its name and a / before theirs; a volume has
no folders of its own. Every name is checked before the first file is stored. If one cannot be stored,
those before it are there, whole, and the message names the others. A last word that is no local file
is the NAME of a single file. With --tar the files of an archive are stored, with their paths as names
and the times that the archive has. An archive is read once, so its names are checked as they come. A member
of an unknown type is stored as a file. An archive that was cut, or has more behind its end, is an error: what
precedes that is stored.

With --force an existing file of this name is replaced: the new one is stored as NAME.new~, then the
old one is removed and the new one renamed. A power cut before the removal leaves the old file and
possibly a part of NAME.new~; a power cut between the removal and the renaming leaves the complete new
file as NAME.new~. The next put --force of NAME removes a NAME.new~ that is not complete, and refuses to
replace NAME beside one that is.

On a volume that was formatted with --checksums the file has a checksum for each 64 KiB, unless
--no-checksums is given: every get verifies them, and check --read-data finds bit rot.")]
pub struct Put {
    /// The device with the volume
    pub device: String,
    /// The file, - for standard input, and its name in the volume, 1 to 255 bytes [the file's own];
    /// or files and folders
    #[arg(required = true, value_name = "FILE", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub files: Vec<PathBuf>,
    /// FILE is a tar archive, or - for one on standard input: store its files
    #[arg(long, conflicts_with_all = ["explicit_name", "keep_partial"])]
    pub tar: bool,
    /// The name of a single file in the volume, even if a local file has that name
    #[arg(long = "name", value_name = "NAME")]
    pub explicit_name: Option<String>,
    /// Checksums of the file
    #[command(flatten)]
    pub checksums: ChecksumArgs,
    /// Read everything back afterwards and compare
    #[arg(long)]
    pub verify: bool,
    /// Replace files of these names
    #[arg(long, help_heading = GRAVE)]
    pub force: bool,
    /// Of several files, leave out those whose names exist; one with another length is named, with
    /// status 9
    #[arg(long, conflicts_with = "force")]
    pub skip_existing: bool,
    /// If it cannot be stored completely, keep the part that was
    #[arg(long, conflicts_with = "force")]
    pub keep_partial: bool,
    /// The path
    #[command(flatten)]
    pub io: IoArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The result of a put or a get.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Reported {
    /// Of one file.
    One(Report),
    /// Of several files.
    Many(ManyReport),
}

impl Reported {
    /// Prints it, as JSON or as a sentence that begins with what was `done`.
    ///
    /// # Errors
    /// Standard output was closed.
    pub fn tell(&self, context: &Context, json: bool, done: &str, remark: &str) -> Result<Exit> {
        let text = match self {
            _ if json => return context.console.json(self).map(|()| Exit::Done),
            Self::One(report) => report.text(done),
            Self::Many(report) => report.text(done),
        };
        context.say(format_args!("{text}{remark}"));
        Ok(Exit::Done)
    }
}

/// The result for one file.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// The resolved name of the device.
    pub device: String,
    /// The path that was used.
    pub path: String,
    /// The file's name in the volume.
    pub name: String,
    /// First byte of the file; 0 for a put.
    pub offset_bytes: u64,
    /// Transferred bytes.
    pub length_bytes: u64,
    /// Device commands for the data; those for metadata are not counted.
    pub requests: u64,
    /// Duration: of a put from creating the file until it is durable, of a get from the first read
    /// to the last write. Opening, mounting and verifying are excluded.
    pub elapsed_us: u64,
    /// The file has checksums; false on `hwfs:`, where this is not known.
    pub checksums: bool,
    /// The data was verified: against checksums, or after a put by reading it back.
    pub verified: bool,
    /// A put replaced an older file.
    pub replaced: bool,
    /// Of a get: the file is still being recorded, and this is what was committed.
    pub growing: bool,
}

impl Report {
    /// The report for a file system in hardware before the transfer.
    pub fn of_hardware(device: &str, name: &str) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            device: device.to_owned(),
            path: hardware::PATH.to_owned(),
            name: name.to_owned(),
            offset_bytes: 0,
            length_bytes: 0,
            requests: 0,
            elapsed_us: 0,
            checksums: false,
            verified: false,
            replaced: false,
            growing: false,
        }
    }

    /// The report for a file of a volume before the transfer.
    fn of_volume(mounted: &Mounted<'_, '_>, name: &str) -> Self {
        Self {
            path: mounted.path.to_owned(),
            ..Self::of_hardware(&mounted.drive.to_string(), name)
        }
    }

    /// As text, after a verb.
    pub fn text(&self, done: &str) -> String {
        let seconds = self.elapsed_us.max(1) as f64 / 1e6;
        let rate = rounded((self.length_bytes as f64 / seconds) as u64);
        let verified = if self.verified { ", verified" } else { "" };
        format!(
            "{done} `{}`: {} in {seconds:.3} s, {rate}/s{verified}",
            shown(&self.name),
            exact(self.length_bytes),
        )
    }
}

impl Put {
    /// Runs the verb.
    ///
    /// # Errors
    /// The source, the device or the volume failed, or the user cancelled.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let (file, name) = match self.files.as_slice() {
            paths if self.tar => return self.run_tar(context, paths),
            [file] if !file.is_dir() => (file, None),
            [file, name] if !file.is_dir() && name.is_dir() && name.file_name().is_none() => {
                let what = format!("{} is a folder here, and no NAME", name.display());
                return Err(devices::Error::usage(what).hint(words![
                    "straightway put ",
                    remedy::Device,
                    format!(" {} stores its files", name.display())
                ]));
            }
            [file, name] if is_name(file, name) => (file, Some(name)),
            paths => return self.run_many(context, paths),
        };
        let name = self.name(file, name.map(PathBuf::as_path))?;
        warn_of_misfit(context, &name);
        let mut source = FileSource::open(file)?;
        if let Some(path) = hardware::path_of(&self.device) {
            let report = self.put_in_hardware(context, path, &name, &mut source)?;
            return Reported::One(report).tell(context, self.json, "stored", "");
        }
        let options = route::open_options(&self.io, true);
        let drive = Drive::find(&context.roots, &self.device)?;
        source.refuse_own(&context.roots, &drive)?;
        let store = Store::of(context, drive, &options)?;
        let report = self.stored(context, store, |mounted, left| {
            mounted.warn_of_clash(context, &name)?;
            warn_of_list(context, &name, 0, |of| {
                Ok(mounted.find(of)?.map(|found| found.app_tag))
            })?;
            self.put(context, mounted, &name, &mut source, left)
        })?;
        Reported::One(report).tell(context, self.json, "stored", "")
    }

    /// Mounts the volume, stores, and removes the partial file that a failure left, whose name
    /// `put` returns.
    fn stored<T>(
        &self,
        context: &devices::Context,
        mut store: Store,
        put: impl FnOnce(&Mounted<'_, '_>, &mut Option<String>) -> Result<T>,
    ) -> Result<T> {
        context.say(format_args!("path: {}", store.opened.name));
        let mut left = None;
        let report = store.mount(Access::Write, |mounted| put(mounted, &mut left));
        let report = match (report, left) {
            (Err(failure), Some(half)) => Err(self.clear(&mut store, &half, failure)),
            (report, _) => report,
        };
        store.close(report)
    }

    /// The same steps as [`put`](Self::put), through a file system in hardware.
    fn put_in_hardware(
        &self,
        context: &devices::Context,
        path: &Path,
        name: &str,
        source: &mut FileSource<'_>,
    ) -> Result<Report> {
        hardware::refuse_io(&self.io)?;
        hardware::refuse(&[
            (
                "--checksums and --no-checksums".into(),
                self.checksums.checksums || self.checksums.no_checksums,
            ),
            ("--keep-partial".into(), self.keep_partial),
        ])?;
        Files::with(&self.device, path, Access::Write, |files| {
            let began = Instant::now();
            let bar = context.bytes_bar(source.len_bytes);
            let stop = Stop {
                bar: &bar,
                cancel: &context.cancel,
            };
            let unfinished = unfinished_name(name);
            let listed = files.list()?;
            let has = |wanted: &str| listed.iter().any(|entry| entry.name == wanted);
            let replaced = self.force && has(name);
            if replaced && has(&unfinished) {
                return Err(is_taken(&unfinished));
            }
            let stored = if replaced { unfinished.as_str() } else { name };
            let mut sums = self.verify.then(Chunks::default);
            let (length_bytes, requests) = files.put(stored, source, sums.as_mut(), &stop)?;
            let mut elapsed = began.elapsed();
            if let Some(sums) = sums {
                files.verify(stored, length_bytes, &sums.end(), &stop)?;
            }
            if replaced {
                let began = Instant::now();
                let whole = format!("the new file is complete as `{}`", shown(&unfinished));
                let renamed = files
                    .remove(name)
                    .and_then(|_| files.rename(&unfinished, name));
                renamed.map_err(|failure| failure.and(whole))?;
                elapsed += began.elapsed();
            }
            bar.finish_and_clear();
            Ok(Report {
                length_bytes,
                requests,
                elapsed_us: micros(elapsed),
                verified: self.verify,
                replaced,
                ..Report::of_hardware(&self.device, name)
            })
        })
    }

    /// The file's name in the volume.
    fn name(&self, file: &Path, name: Option<&Path>) -> Result<String> {
        let own = || {
            if file == Path::new("-") {
                Err(
                    devices::Error::usage("standard input has no name").hint(words![
                        "straightway put ",
                        remedy::Device,
                        " - NAME"
                    ]),
                )
            } else {
                Ok(file.file_name().map(Path::new))
            }
        };
        let name = match (&self.explicit_name, name) {
            (Some(_), Some(name)) => {
                let what = format!("{} and --name are two names", name.display());
                return Err(devices::Error::usage(what).hint("omit one"));
            }
            (Some(name), None) => Some(Path::new(name)),
            (None, Some(name)) => Some(name),
            (None, None) => own()?,
        };
        let unnamed =
            || {
                devices::Error::usage(format!("{} has no name in UTF-8", file.display()))
                    .hint(words!["straightway put ", remedy::Device, " FILE NAME"])
            };
        let name = name.and_then(Path::to_str).ok_or_else(unnamed)?.to_owned();
        check_name(&name)?;
        Ok(name)
    }

    fn put(
        &self,
        context: &devices::Context,
        mounted: &Mounted<'_, '_>,
        name: &str,
        source: &mut FileSource<'_>,
        left: &mut Option<String>,
    ) -> Result<Report> {
        // Before anything is changed.
        let pace = pace(mounted, &self.io)?;
        let began = Instant::now();
        let replaces = match mounted.find(name)? {
            None => false,
            Some(_) if self.force => true,
            Some(_) => {
                return Err(failed(format_args!("`{}`", shown(name)), Error::Exists)
                    .hint("another NAME, or --force to replace it"));
            }
        };
        let unfinished = unfinished_name(name);
        let stored = if replaces { unfinished.as_str() } else { name };
        let checksums = self.has_checksums(mounted)?;
        match mounted.find(&unfinished)?.filter(|_| self.force) {
            Some(left) if left.app_tag == UNFINISHED_TAG => {
                mounted.remove(&unfinished)?;
                context.say(format_args!(
                    "removed `{}`, left by an interrupted put --force",
                    shown(&unfinished)
                ));
            }
            // Complete: what a power cut left of a replacement, or a file that was given this name.
            Some(_) if replaces => return Err(is_taken(&unfinished)),
            _ => {}
        }
        let (filled, sums) = self.store(context, mounted, stored, source, checksums, pace, left)?;
        let mut elapsed = began.elapsed();
        if source.has_given_nothing() {
            let what = format!("nothing came from {}", source.name.display());
            if replaces {
                mounted.remove(stored)?;
                *left = None;
                let kept = format!("{what}; `{}` was left as it was", shown(name));
                return Err(devices::Error::other(kept).hint(words![
                    "did the command before | fail? An empty file: straightway put ",
                    remedy::Device,
                    format!(" /dev/null '{}' --force", shown(name))
                ]));
            }
            context.say(format_args!("warning: {what}: the file is empty"));
        }
        if self.verify {
            self.verify(context, mounted, stored, filled.bytes, sums, pace)?;
        }
        if replaces {
            let began = Instant::now();
            // From here on the new file is complete and must not be removed, under either name.
            *left = None;
            replace(mounted, stored, name).map_err(|failure| {
                failure.and(format_args!("the new file is complete as `{stored}`"))
            })?;
            elapsed += began.elapsed();
        }
        *left = None;
        Ok(Report {
            length_bytes: filled.bytes,
            requests: filled.requests,
            elapsed_us: micros(elapsed),
            checksums,
            verified: self.verify,
            replaced: replaces,
            ..Report::of_volume(mounted, name)
        })
    }

    /// Whether the new file gets checksums.
    fn has_checksums(&self, mounted: &Mounted<'_, '_>) -> Result<bool> {
        let status = mounted.volume.status();
        self.checksums.plain().on(status.checksums).ok_or_else(|| {
            devices::Error::usage("the volume was made without checksums; nothing was done")
                .hint("omit --checksums, or format the volume with --checksums")
        })
    }

    /// Creates, fills and closes the file `name`.
    #[allow(clippy::too_many_arguments)]
    fn store(
        &self,
        context: &devices::Context,
        mounted: &Mounted<'_, '_>,
        name: &str,
        source: &mut FileSource<'_>,
        checksums: bool,
        pace: Span,
        left: &mut Option<String>,
    ) -> Result<(Moved, Vec<u32>)> {
        let doing = format!("making `{}`", shown(name));
        let volume = mounted.volume;
        volume.set_time(source.modified_ns.unwrap_or_else(now_ns));
        let options = CreateOptions {
            reserve_bytes: source.len_bytes.unwrap_or(0),
            checksums,
            // Until it is whole: a kill or a power cut leaves it so.
            app_tag: UNFINISHED_TAG,
        };
        let create = volume.with_space(|| volume.create(name, &options));
        let made = volume::blocking::run(volume, create);
        let file = made.map_err(|error| {
            let failure = failed(doing, error);
            match source.len_bytes {
                Some(bytes) if error == Error::NoSpace => failure.and(format_args!(
                    "the file has {bytes} bytes; nothing of it was stored"
                )),
                _ => failure.and("nothing of it was stored"),
            }
        })?;
        *left = Some(name.to_owned());
        let bar = context.bytes_bar(source.len_bytes);
        let mut sums = Chunks::default();
        // Ctrl-C ends the producer of a pipe too: what arrived before is not known to be all.
        let is_cut = {
            let is_stream = source.len_bytes.is_none();
            move || is_stream && context.cancel.is_set()
        };
        let mut read = |data: &mut [u8], halt: &AtomicBool| {
            let len = source.fill(data, halt)?;
            if len < data.len() && is_cut() {
                return Err(devices::Error::interrupted("interrupted"));
            }
            if self.verify {
                sums.add(data.get(..len).unwrap_or_default());
            }
            Ok(len)
        };
        let filled = fill(mounted, file, pace, &mut read, &bar, &context.cancel);
        bar.finish_and_clear();
        // The signal can arrive a little after the end of the stream that it made.
        let filled = filled.and_then(|filled| {
            if is_cut() {
                Err(devices::Error::interrupted("interrupted"))
            } else {
                Ok(filled)
            }
        });
        volume.set_time(source.modified_ns.unwrap_or_else(now_ns));
        let filled = if filled.is_ok() || self.keep_partial {
            let marked = volume.set_app_tag(file, 0);
            let marked = marked.map_err(|error| failed(format_args!("`{}`", shown(name)), error));
            filled.and_then(|filled| marked.map(|()| filled))
        } else {
            filled
        };
        let closing = format!("making `{}` durable", shown(name));
        let closed = mounted.run(closing, volume.close(file));
        let failure = match (filled, closed) {
            (Ok(filled), Ok(())) => return Ok((filled, sums.end())),
            (Err(failure), _) | (Ok(_), Err(failure)) => failure,
        };
        if self.keep_partial {
            *left = None;
            let kept = mounted.find(name)?.map_or(0, |entry| entry.size_bytes);
            return Err(failure.and(format_args!("`{}` has {kept} bytes", shown(name))));
        }
        if mounted.remove(name).is_ok() {
            *left = None;
        }
        Err(failure)
    }

    fn verify(
        &self,
        context: &devices::Context,
        mounted: &Mounted<'_, '_>,
        name: &str,
        bytes: u64,
        sums: Vec<u32>,
        pace: Span,
    ) -> Result<()> {
        let bar = context.bytes_bar(Some(bytes));
        let part = Part {
            name,
            offset_bytes: 0,
            length_bytes: bytes,
            size_bytes: bytes,
            sums: Sums::Given(sums),
            past_rot: false,
            pace,
        };
        let read = drain(mounted, &part, &mut |_| Ok(()), &bar, &context.cancel);
        bar.finish_and_clear();
        let failure = match read {
            Ok(read) if read.bytes == bytes => return Ok(()),
            Ok(read) => {
                devices::Error::other(format!("only {} of {} bytes came back", read.bytes, bytes))
            }
            Err(failure) => failure,
        };
        let failure = failure.and("the device does not hold what was written to it");
        // The caller removes it if that is possible.
        if !self.keep_partial {
            let _ = mounted.remove(name);
        }
        Err(failure)
    }

    /// Removes a partial file that could not be removed immediately: mounts the volume again, which
    /// repairs the effects of the failure.
    fn clear(&self, store: &mut Store, half: &str, failure: devices::Error) -> devices::Error {
        let cleared = store.mount(Access::Write, |mounted| match mounted.find(half)? {
            Some(_) => mounted.remove(half),
            None => Ok(()),
        });
        match cleared {
            Ok(()) => failure,
            Err(_) => failure.and(format_args!("a part of it is left as `{}`", shown(half))),
        }
    }
}

/// Whether the second of two words is the name for the first: it is no local file, or the file's
/// own name.
fn is_name(file: &Path, name: &Path) -> bool {
    let is_stdin = file == Path::new("-");
    !file.is_dir() && (is_stdin || file.file_name() == Some(name.as_os_str()) || !name.exists())
}

/// The refusal to replace a file beside a whole one that has the replacement's name: what a power
/// cut left, or a file of its own.
fn is_taken(unfinished: &str) -> devices::Error {
    let what = format!(
        "`{}`, the name of the new file until it is complete, exists; nothing was done",
        shown(unfinished)
    );
    devices::Error::new(ErrorKind::Exists, what)
        .hint("straightway mv gives it another name, straightway rm removes it")
}
