// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway get DEVICE NAME [FILE]`: a file of a volume to a file or standard output; `get
//! DEVICE NAME... FOLDER` several.

mod follow;
mod ledger;
mod live;
mod many;
mod tar;

use crate::Context;
use crate::exit::Exit;
use crate::grave::GRAVE;
use crate::path_options::IoArgs;
use crate::verbs::put::{Report, Reported};
use ::live::origin::Origin;
use ::live::reader::Live;
use clap::Args;
use devices::Bar;
use devices::SCHEMA_VERSION;
use devices::drive::Drive;
use devices::error::{ErrorKind, Result};
use devices::guard::{Outlet, Output, output_of, refuse_to_mix};
use files::drain::{Part, drain};
use files::flow::Sums;
use files::hardware::{self, Files, Stop};
use files::listing::{FileEntry, Listing};
use files::names::check_name;
use files::naming::misfit;
use files::tree::{is_folder, is_pattern};
use files::{Access, Mounted, Store, failed, pace, route, shown};
use many::Wanted;
use recorder::export::Missing;
use remedy::words;
use std::path::{Path, PathBuf};
use std::time::Instant;
use units::{Size, micros};
use volume::Error;

/// Fetch files from a volume.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
A file with checksums is always verified; for a file without checksums, get reports that it was not
verified. If data does not match its checksum, get reports the offset and delivers nothing from there
on, and the exit status is 6. With hwfs:PATH --verify is refused: the hardware verifies such files, but
does not report which files have checksums.

Several files go into the last word, a folder, which is made if it does not exist; so do all files that
a pattern fits: * means any letters, / too, ? one, [a-c] one of these. Quote patterns. A / in a name is
a folder. A pattern and --all leave out, and name, what a recording is writing. Nothing is fetched if a word fits no file, or a local file exists and neither --force nor
--skip-existing is given, or what has a file's name there, or that of its folder, is a link, a FIFO or a device. A file that cannot be fetched, because its data has rotted or no local file can
have its name, does not keep the others from being fetched: it is named, and the exit status says why.
If segments of a recording that a pattern should fit, or of any with --all, are missing on the volume, those that it
has are fetched, the others named, and the exit status is 7. What a ring has removed is not missing.
With --tar they become one archive, with their sizes and times; the last word is its file, or -. From the
first byte on that cannot be read, a file is zeroes there, and it is named.

While another process records on the volume, that process gives what is committed. With --follow one file
is fetched until nothing more is written to it, so that `straightway get DEVICE NAME - --follow | ...`
sees a recording as it grows; what is committed arrives, within --commit-interval of the recording. If the recording's process is killed,
what it had committed is delivered, and the exit status is 1.

With --follow and a pattern, each file is fetched once it is final: a segment when the next one has begun, with its .gaps. It goes on
past the end of the recorder and its next start, until a signal, which ends it with 0; with --once it ends with the recording. FOLDER is
where it goes on after a restart: what is there with the file's length and time is left. If others take the files out of FOLDER, --state
FILE keeps what was fetched, durably; a kill between the two fetches one file again. To - segments go one after the other. What a ring
removed before it could be fetched is named at once, with status 7; what cannot be verified or stored is named, and the next one taken.
While it fetches at its start, or behind the end of a recorder, it has the volume, and a recorder that begins then ends with 3: restart it.
What a recorder leaves that ran for less than a second may be fetched only beside the next one, or at the next start of the follower.

FILE appears under its name, with its time of modification, when it is complete. An existing file is replaced only with --force; a
FIFO or a terminal is written directly, a block device never.")]
pub struct Get {
    /// The device with the volume
    pub device: String,
    /// The file's name in the volume, and where to store it: a file, a folder, or - for standard
    /// output [a file of the same name here]; or names and patterns, and a folder
    #[arg(value_name = "NAME", required_unless_present = "all")]
    pub words: Vec<String>,
    /// Every file, to the folder that is named [here]
    #[arg(long)]
    pub all: bool,
    /// Store the files as one tar archive in the last word, or to standard output where it is -
    #[arg(long)]
    pub tar: bool,
    /// First byte
    #[arg(long, value_name = "SIZE", default_value = "0")]
    pub offset: Size,
    /// How much [to the end]
    #[arg(long, value_name = "SIZE")]
    pub length: Option<Size>,
    /// Go on while a recording writes to the file; with a pattern, take each file once it is final,
    /// from one recorder to the next
    #[arg(long, conflicts_with_all = ["length", "all", "tar"])]
    pub follow: bool,
    /// With --follow, keep what was fetched in FILE, and go on behind it at the next start
    #[arg(long, value_name = "FILE", requires = "follow")]
    pub state: Option<PathBuf>,
    /// With --follow and a pattern, end when the recording has ended
    #[arg(long, requires = "follow")]
    pub once: bool,
    /// Of a pattern, also what is being written, as far as it is committed
    #[arg(long, conflicts_with = "follow")]
    pub partial: bool,
    /// Replace FILE if it exists
    #[arg(long, help_heading = GRAVE)]
    pub force: bool,
    /// Of several files, leave out those that exist here; one with another length is named, with
    /// status 9
    #[arg(long, conflicts_with_all = ["force", "tar", "follow"])]
    pub skip_existing: bool,
    /// Refuse a file without checksums
    #[arg(long)]
    pub verify: bool,
    /// The path
    #[command(flatten)]
    pub io: IoArgs,
    /// Print JSON (not with -)
    #[arg(long)]
    pub json: bool,
}

impl Get {
    /// Runs the verb.
    ///
    /// # Errors
    /// The device, the volume, the file or the target failed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        if self.tar {
            return self.run_tar(context);
        }
        if let Some((words, target)) = self.followed() {
            return self.run_followed(context, words, target);
        }
        for (option, is_given) in [("--state", self.state.is_some()), ("--once", self.once)] {
            if is_given {
                let what = format!("{option} is for a pattern that --follow goes on with");
                return Err(devices::Error::usage(what));
            }
        }
        let (name, target) = match self.wanted()? {
            Ok(wanted) => return self.run_many(context, &wanted),
            Err(one) => one,
        };
        check_name(name)?;
        let target = target_of(name, target)?;
        if target.is_none() {
            refuse_to_mix(self.json, "name a file")?;
        }
        if let Some(path) = hardware::path_of(&self.device) {
            let report = self.get_from_hardware(context, path, name, target.as_deref())?;
            return Reported::One(report).tell(context, self.json, "fetched", "");
        }
        if let Some(live) = Live::find(context, &self.device)? {
            let missing = self.missing_in(context, name)?;
            let (report, is_cut) =
                self.get_while_recording(context, live, name, target.as_deref())?;
            let exit = Self::tell(context, self.json, report)?;
            return if is_cut {
                Err(live::cut(name))
            } else {
                missing.failure("fetched").map_or(Ok(exit), Err)
            };
        }
        let drive = Drive::find(&context.roots, &self.device)?;
        let output = output_of(&context.roots, Some(&drive), target.as_deref(), self.force);
        let output = unless_it_exists(output)?;
        let options = route::open_options(&self.io, false);
        let mut store = Store::of(context, drive, &options)?;
        context.say(format_args!("path: {}", store.opened.name));
        let fetched = store.mount(Access::Read, |mounted| {
            let entry = Self::entry(mounted, name)?;
            let output = output?;
            let origin = Origin::here(context, &self.io, mounted);
            let missing = self.missing_of(&origin, &entry)?;
            // Who names a length knows how much there is.
            if self.length.is_none() {
                entry.refuse_unfinished()?;
            }
            let part = self.part(mounted, &entry)?;
            let mut sink = Outlet::open(output, &context.cancel)?;
            let bar = context.bytes_bar(Some(entry.size_bytes));
            let began = Instant::now();
            let mut report = self.fetch(context, mounted, &part, &bar, |data| sink.take(data))?;
            bar.finish_and_clear();
            // A part of the file is another file, made now.
            if part.length_bytes == part.size_bytes {
                sink.set_modified(entry.modified_ns);
            }
            sink.finish()?;
            report.elapsed_us = micros(began.elapsed());
            Ok((report, missing))
        });
        let (report, missing) = store.close(fetched)?;
        let exit = Self::tell(context, self.json, report)?;
        missing.failure("fetched").map_or(Ok(exit), Err)
    }

    /// What is not known to be missing in a file, because its list of gaps is damaged or missing. A
    /// part of it is what was asked for.
    fn missing_of(&self, origin: &Origin<'_, '_>, entry: &FileEntry) -> Result<Missing> {
        if self.offset.0 == 0 && self.length.is_none() {
            Missing::default().with_lists_of(origin, [entry])
        } else {
            Ok(Missing::default())
        }
    }

    /// The same while a process records on the volume.
    fn missing_in(&self, context: &Context, name: &str) -> Result<Missing> {
        let options = route::open_options(&self.io, false);
        let missing = Origin::with(
            context,
            &self.device,
            &self.io,
            options,
            |origin| match origin.find(name)? {
                Some(entry) => self.missing_of(origin, &entry),
                None => Ok(Missing::default()),
            },
        );
        match missing {
            // It has just ended, and its process has the drive for a moment.
            Err(failure) if failure.kind() == ErrorKind::Missing => Ok(Missing::default()),
            missing => missing,
        }
    }

    fn tell(context: &Context, json: bool, report: Report) -> Result<Exit> {
        let compared = if report.verified {
            ""
        } else {
            "; not verified: the file has no checksums"
        };
        let growing = if report.growing {
            "; the file is still being recorded, and this is what was committed: --follow fetches the rest too"
        } else {
            ""
        };
        let remark = format!("{compared}{growing}");
        Reported::One(report).tell(context, json, "fetched", &remark)
    }

    /// The same through the process that records on the volume; the flag says that the recording
    /// did not end in order.
    fn get_while_recording(
        &self,
        context: &Context,
        mut live: Live,
        name: &str,
        target: Option<&Path>,
    ) -> Result<(Report, bool)> {
        let drive = Drive::find(&context.roots, &self.device).ok();
        let output = output_of(&context.roots, drive.as_ref(), target, self.force);
        let output = match unless_it_exists(output)? {
            Ok(output) => output,
            // Of a file that the volume does not have, only that is said.
            Err(exists) => match live.file(name) {
                Err(failure) if failure.kind() == ErrorKind::NotFound => return Err(failure),
                _ => return Err(exists),
            },
        };
        context.say(format_args!("path: {}", Live::PATH));
        let mut sink = Outlet::open(output, &context.cancel)?;
        let fetched = self.get_live(context, live, name, &mut sink)?;
        let (report, _) = &fetched;
        if report.growing && report.offset_bytes + report.length_bytes == 0 {
            return Err(live::nothing_yet(name));
        }
        sink.finish()?;
        Ok(fetched)
    }

    /// The same through a file system in hardware.
    fn get_from_hardware(
        &self,
        context: &Context,
        path: &Path,
        name: &str,
        target: Option<&Path>,
    ) -> Result<Report> {
        hardware::refuse_io(&self.io)?;
        hardware::refuse(&[("--verify".into(), self.verify)])?;
        // The source is not a drive of this machine, so the target cannot be the source.
        let output = target
            .map(|target| Output::check(&context.roots, target, self.force, None))
            .transpose()?;
        Files::with(&self.device, path, Access::Read, |files| {
            let size = files.size(name)?;
            let length = self.length_in(name, size)?;
            let part = self.offset.0..self.offset.0 + length;
            let mut sink = Outlet::open(output, &context.cancel)?;
            let bar = context.bytes_bar(Some(length));
            let began = Instant::now();
            let stop = Stop {
                bar: &bar,
                cancel: &context.cancel,
            };
            let (length_bytes, requests) =
                files.get(name, part, &mut |bytes| sink.take(bytes), &stop)?;
            bar.finish_and_clear();
            sink.finish()?;
            Ok(Report {
                offset_bytes: self.offset.0,
                length_bytes,
                requests,
                elapsed_us: micros(began.elapsed()),
                ..Report::of_hardware(&self.device, name)
            })
        })
    }

    /// Several files, or the one file and its target.
    #[allow(clippy::type_complexity)]
    fn wanted(&self) -> Result<std::result::Result<Wanted, (&str, Option<&Path>)>> {
        let here = || PathBuf::from(".");
        let many = |words: &[String], folder: PathBuf| {
            let words = words.to_vec();
            Ok(Ok(Wanted { words, folder }))
        };
        match (self.all, self.words.as_slice()) {
            (true, words @ ([] | [_])) => many(&[], words.first().map_or_else(here, PathBuf::from)),
            (true, _) => Err(devices::Error::usage(
                "--all chooses every file; only a folder can be named",
            )
            .hint(words!["straightway get ", remedy::Device, " --all FOLDER"])),
            (false, [name]) if is_pattern(name) => many(std::slice::from_ref(name), here()),
            // Its folder is made, as for several.
            (false, [name]) if self.is_in_folder(name) => many(std::slice::from_ref(name), here()),
            (false, [name, target]) if self.is_in_folder(name) && Path::new(target).is_dir() => {
                many(std::slice::from_ref(name), PathBuf::from(target))
            }
            (false, [name]) => Ok(Err((name, None))),
            (false, [name, target]) if !is_pattern(name) || target == "-" => {
                Ok(Err((name, Some(Path::new(target)))))
            }
            (false, [names @ .., folder]) => many(names, PathBuf::from(folder)),
            (false, []) => Err(devices::Error::usage("which file?")
                .hint(words!["straightway ls ", remedy::Device])),
        }
    }

    /// Whether a name is in a folder that can be made here, for a whole file.
    fn is_in_folder(&self, name: &str) -> bool {
        let is_part = self.follow || self.offset.0 != 0 || self.length.is_some();
        name.contains('/')
            && misfit(name).is_none()
            && !is_part
            && hardware::path_of(&self.device).is_none()
    }

    /// A file, by name.
    pub(super) fn entry(mounted: &Mounted<'_, '_>, name: &str) -> Result<FileEntry> {
        if let Some(entry) = mounted.find(name)? {
            return Ok(FileEntry::new(&entry));
        }
        let failure = failed(format!("opening `{}`", shown(name)), Error::NotFound);
        let hint = if is_pattern(name) {
            words![
                "straightway cat ",
                remedy::Device,
                format!(" '{name}' prints what it fits; --tar makes an archive")
            ]
        } else if Self::has_folder(mounted, name)? {
            let folder = name.trim_end_matches('/');
            words!["straightway get ", remedy::Device, format!(" '{folder}/*'")]
        } else {
            return Err(failure);
        };
        Err(failure.hint(hint))
    }

    /// Whether a folder has this name.
    fn has_folder(mounted: &Mounted<'_, '_>, name: &str) -> Result<bool> {
        let files = Listing::read(mounted)?.files;
        Ok(is_folder(name, files.iter().map(|file| file.name.as_str())))
    }

    /// What is read of a file.
    pub(super) fn part<'n>(
        &self,
        mounted: &Mounted<'_, '_>,
        entry: &'n FileEntry,
    ) -> Result<Part<'n>> {
        let name = entry.name.as_str();
        let length_bytes = self.length_in(name, entry.size_bytes)?;
        if self.verify && !entry.has_checksums() {
            return Err(live::no_checksums(name));
        }
        Ok(Part {
            name,
            offset_bytes: self.offset.0,
            length_bytes,
            size_bytes: entry.size_bytes,
            sums: if entry.has_checksums() {
                Sums::Stored
            } else {
                Sums::Ignored
            },
            past_rot: false,
            pace: pace(mounted, &self.io)?,
        })
    }

    /// Reads it, passes its data to `take` in order, and advances the bar.
    pub(super) fn fetch(
        &self,
        context: &Context,
        mounted: &Mounted<'_, '_>,
        part: &Part<'_>,
        bar: &Bar,
        mut take: impl FnMut(&[u8]) -> Result<()> + Send,
    ) -> Result<Report> {
        let began = Instant::now();
        let drained = drain(mounted, part, &mut take, bar, &context.cancel)?;
        let checksums = matches!(part.sums, Sums::Stored);
        Ok(Report {
            schema_version: SCHEMA_VERSION,
            device: mounted.drive.to_string(),
            path: mounted.path.to_owned(),
            name: part.name.to_owned(),
            offset_bytes: part.offset_bytes,
            length_bytes: drained.bytes,
            requests: drained.requests,
            elapsed_us: micros(began.elapsed()),
            checksums,
            verified: checksums,
            replaced: false,
            growing: false,
        })
    }

    /// The number of requested bytes, all of which are in the file.
    fn length_in(&self, name: &str, size: u64) -> Result<u64> {
        let offset = self.offset.0;
        let what = || format!("`{}` has {size} bytes", shown(name));
        if offset > size {
            return Err(failed(what(), Error::PastEnd).hint(format!("--offset {size} is its end")));
        }
        let room = size - offset;
        match self.length {
            Some(length) if length.0 > room => Err(devices::Error::usage(format!(
                "{}: {} bytes from byte {offset} on end past the end of the file",
                what(),
                length.0
            ))
            .hint(format!("--length {room}"))),
            length => Ok(length.map_or(room, |length| length.0)),
        }
    }
}

/// What may be written, unless the only reason against it is that it exists: whether the volume has
/// the file is said first.
#[allow(clippy::type_complexity)]
fn unless_it_exists(output: Result<Option<Output>>) -> Result<Result<Option<Output>>> {
    match output {
        Err(failure) if failure.kind() != ErrorKind::Exists => Err(failure),
        output => Ok(output),
    }
}

/// The file to create; None means standard output.
fn target_of(name: &str, target: Option<&Path>) -> Result<Option<PathBuf>> {
    let here = || {
        if name.contains('/') || [".", ".."].contains(&name) {
            Err(devices::Error::usage(format!(
                "`{}` cannot be the name of a local file",
                shown(name)
            ))
            .hint(words!["straightway get ", remedy::Device, " NAME FILE"]))
        } else {
            Ok(PathBuf::from(name))
        }
    };
    match target {
        None => here().map(Some),
        Some(path) if path == Path::new("-") => Ok(None),
        Some(path) if path.is_dir() => Ok(Some(path.join(here()?))),
        Some(path) if path.to_string_lossy().ends_with('/') => {
            let what = format!("{} is not a folder; nothing was done", path.display());
            Err(devices::Error::usage(what).hint(format!("mkdir -p '{}'", path.display())))
        }
        Some(path) => Ok(Some(path.to_owned())),
    }
}
