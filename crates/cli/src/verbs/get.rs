//! `straightway get DEVICE NAME [FILE]`: a file of a volume to a file or standard output.

use crate::drive::Drive;
use crate::failure::{Exit, Failure, Result};
use crate::guard::{Outlet, Output, output_of, refuse_to_mix};
use crate::hardware::{self, Files, Stop};
use crate::transfer::IoArgs;
use crate::units::{Size, micros};
use crate::verbs::put::{Report, check_name};
use crate::volume::drain::{Part, drain};
use crate::volume::flow::Sums;
use crate::volume::{Access, Mounted, Store, failed, pace, route, shown};
use crate::{Context, SCHEMA_VERSION};
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::Instant;
use volume::Error;

/// Fetch a file from a volume.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
A file with checksums is always verified; for a file without checksums, get reports that it was not
verified. If data does not match its checksum, get reports the offset and delivers nothing from there
on, and the exit status is 6. With hwfs:PATH --verify is refused: the hardware verifies such files, but
does not report which files have checksums.

FILE appears under its name when it is complete. An existing file is replaced only with --force; a
FIFO or a terminal is written directly, a block device never.")]
pub struct Get {
    /// The device with the volume
    pub device: String,
    /// The file's name in the volume
    pub name: String,
    /// Where to store it: a file, a folder, or - for standard output [a file of the same name here]
    pub file: Option<PathBuf>,
    /// First byte
    #[arg(long, value_name = "SIZE", default_value = "0")]
    pub offset: Size,
    /// How much [to the end]
    #[arg(long, value_name = "SIZE")]
    pub length: Option<Size>,
    /// Replace FILE if it exists
    #[arg(long)]
    pub force: bool,
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
        check_name(&self.name)?;
        let target = self.target()?;
        if target.is_none() {
            refuse_to_mix(self.json, "name a file")?;
        }
        if let Some(path) = hardware::path_of(&self.device) {
            let report = self.get_from_hardware(context, path, target.as_deref())?;
            return self.tell(context, &report, "");
        }
        let drive = Drive::find(&context.roots, &self.device)?;
        let output = output_of(&context.roots, &drive, target.as_deref(), self.force)?;
        let options = route::open_options(&self.io, false);
        let mut store = Store::of(context, drive, &options)?;
        context.say(format_args!("path: {}", store.opened.name));
        let report = store.mount(Access::Read, |mounted| self.get(context, mounted, output));
        let report = store.close(report)?;
        let compared = match report.verified {
            true => "",
            false => "; not verified: the file has no checksums",
        };
        self.tell(context, &report, compared)
    }

    fn tell(&self, context: &Context, report: &Report, compared: &str) -> Result<Exit> {
        match self.json {
            true => context.console.json(report)?,
            false => {
                let text = report.text("fetched");
                context.say(format_args!("{text}{compared}"));
            }
        }
        Ok(Exit::Done)
    }

    /// The same through a file system in hardware.
    fn get_from_hardware(
        &self,
        context: &Context,
        path: &Path,
        target: Option<&Path>,
    ) -> Result<Report> {
        hardware::refuse_io(&self.io)?;
        hardware::refuse(&[("--verify", self.verify)])?;
        // The source is not a drive of this machine, so the target cannot be the source.
        let output = target
            .map(|target| Output::check(&context.roots, target, self.force, None))
            .transpose()?;
        Files::with(&self.device, path, Access::Read, |files| {
            let size = files.size(&self.name)?;
            let length = self.length_in(size)?;
            let part = self.offset.0..self.offset.0 + length;
            let mut sink = Outlet::open(output)?;
            let bar = context.console.bytes_bar(Some(length));
            let began = Instant::now();
            let stop = Stop {
                bar: &bar,
                cancel: &context.cancel,
            };
            let (length_bytes, requests) = files.get(&self.name, part, &mut sink, &stop)?;
            bar.finish_and_clear();
            sink.finish()?;
            Ok(Report {
                offset_bytes: self.offset.0,
                length_bytes,
                requests,
                elapsed_us: micros(began.elapsed()),
                ..Report::of_hardware(&self.device, &self.name)
            })
        })
    }

    /// The file to create; None means standard output.
    fn target(&self) -> Result<Option<PathBuf>> {
        let here = || match self.name.contains('/') || [".", ".."].contains(&self.name.as_str()) {
            true => Err(Failure::usage(format!(
                "`{}` cannot be the name of a local file",
                shown(&self.name)
            ))
            .hint("straightway get DEVICE NAME FILE")),
            false => Ok(PathBuf::from(&self.name)),
        };
        match &self.file {
            None => here().map(Some),
            Some(path) if path == Path::new("-") => Ok(None),
            Some(path) if path.is_dir() => Ok(Some(path.join(here()?))),
            Some(path) => Ok(Some(path.clone())),
        }
    }

    fn get(
        &self,
        context: &Context,
        mounted: &Mounted<'_, '_>,
        output: Option<Output>,
    ) -> Result<Report> {
        let doing = || format!("opening `{}`", shown(&self.name));
        let entry = mounted.run(doing(), mounted.volume.find(&self.name))?;
        let length_bytes = self.length_in(entry.size_bytes)?;
        if self.verify && !entry.checksums {
            return Err(Failure::other(format!(
                "`{}` has no checksums to verify",
                shown(&self.name)
            ))
            .hint("omit --verify; straightway put --checksums stores checksums"));
        }
        let pace = pace(mounted, &self.io)?;
        let mut sink = Outlet::open(output)?;
        let bar = context.console.bytes_bar(Some(length_bytes));
        let began = Instant::now();
        let part = Part {
            name: &self.name,
            offset_bytes: self.offset.0,
            length_bytes,
            size_bytes: entry.size_bytes,
            sums: match entry.checksums {
                true => Sums::Stored,
                false => Sums::Ignored,
            },
            past_rot: false,
            pace,
        };
        let mut take = |data: &[u8]| sink.take(data);
        let drained = drain(mounted, &part, &mut take, &bar, &context.cancel);
        bar.finish_and_clear();
        let drained = drained.and_then(|drained| sink.finish().map(|()| drained));
        let elapsed = began.elapsed();
        let drained = drained?;
        Ok(Report {
            schema_version: SCHEMA_VERSION,
            device: mounted.drive.to_string(),
            path: mounted.path.to_owned(),
            name: self.name.clone(),
            offset_bytes: self.offset.0,
            length_bytes: drained.bytes,
            requests: drained.requests,
            elapsed_us: micros(elapsed),
            checksums: entry.checksums,
            verified: entry.checksums,
            replaced: false,
        })
    }

    /// The number of requested bytes, all of which are in the file.
    fn length_in(&self, size: u64) -> Result<u64> {
        let offset = self.offset.0;
        let what = || format!("`{}` has {size} bytes", shown(&self.name));
        if offset > size {
            return Err(failed(what(), Error::PastEnd).hint(format!("--offset {size} is its end")));
        }
        let room = size - offset;
        match self.length {
            Some(length) if length.0 > room => Err(Failure::usage(format!(
                "{}: {} bytes from byte {offset} on end past the end of the file",
                what(),
                length.0
            ))
            .hint(format!("--length {room}"))),
            length => Ok(length.map_or(room, |length| length.0)),
        }
    }
}
