// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway write DEVICE --destroy-data SERIAL`: writes standard input or a file to a drive.

use crate::Context;
use crate::exit::Exit;
use crate::grave::GRAVE;
use crate::path_options::IoArgs;
use crate::verbs::read::Report;
use clap::Args;
use devices::cancel::Cancel;
use devices::drive::Drive;
use devices::error::{Error, Result};
use devices::guard::{Grant, Purpose};
use devices::path::{self, OpenOptions, Opened};
use devices::transfer::{self, Moved};
use files::source::FileSource;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use units::{Size, exact};

/// Write standard input or a file to a drive.
#[derive(Clone, Debug, Args)]
pub struct Write {
    /// The drive
    pub device: String,
    /// The drive's serial number: its data will be overwritten. For file: and model:...,file= the
    /// file's path or name; not needed for memory
    #[arg(long, value_name = "SERIAL", help_heading = GRAVE)]
    pub destroy_data: Option<String>,
    /// First byte; a multiple of the drive's block
    #[arg(long, value_name = "SIZE", default_value = "0")]
    pub offset: Size,
    /// How much [to the end of the input]
    #[arg(long, value_name = "SIZE")]
    pub length: Option<Size>,
    /// Read from this file instead of standard input
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Fill the last block with zeros if the input ends within it
    #[arg(long)]
    pub pad: bool,
    /// Make each write durable by itself (force unit access)
    #[arg(long)]
    pub fua: bool,
    /// Flush the drive's cache at the end
    #[arg(long)]
    pub flush: bool,
    /// Check everything and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// The path
    #[command(flatten)]
    pub io: IoArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl Write {
    /// Runs the verb.
    ///
    /// # Errors
    /// Permission is missing, or the drive, the path or the input failed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let drive = Drive::find_and_say(context, &self.device)?;
        let purpose = Purpose::Destroy(self.destroy_data.as_deref());
        let grant = Grant::of(&context.roots, drive, purpose)?;
        let mut input = Input::open(self)?;
        input.source.refuse_own(&context.roots, grant.drive())?;
        let options = self.open_options(grant.drive());
        let mut opened = path::open(context, &grant, &options)?;
        context.say(format_args!("path: {}", opened.name));
        let report = self.pump(context, &grant, &mut opened, &mut input);
        let report = opened.close_after(report)?;
        if self.json {
            context.console.json(&report)?;
        } else {
            let verb = if self.dry_run { "would write" } else { "wrote" };
            let bytes = exact(report.length_bytes);
            context.say(format_args!(
                "{verb} {bytes} at byte {}",
                report.offset_bytes
            ));
        }
        Ok(Exit::Done)
    }

    /// The options for opening the path. A dry run does not change the driver: it uses the kernel's
    /// driver if that holds the drive.
    fn open_options(&self, drive: &Drive) -> OpenOptions {
        let options = self.io.open_options(!self.dry_run);
        options.changing_no_driver_if(self.dry_run, drive)
    }

    fn pump(
        &self,
        context: &Context,
        grant: &Grant,
        opened: &mut Opened,
        input: &mut Input,
    ) -> Result<Report> {
        grant.confirm(opened.serial().as_deref())?;
        let drive = grant.drive();
        let geometry = *opened.device.geometry();
        let room = geometry.size_bytes().saturating_sub(self.offset.0);
        let wanted = match (self.length, input.source.len_bytes) {
            (Some(length), _) => Some(length.0),
            (None, Some(len)) => Some(self.whole(len, geometry.block_size_bytes(), input)?),
            (None, None) => None,
        };
        input.block_bytes = geometry.block_size_bytes();
        let span = self.io.span(self.offset, wanted.unwrap_or(room));
        span.check(&geometry)?;
        if !self.dry_run && geometry.features.read_only {
            return Err(Error::request("writing", block::Error::ReadOnly));
        }
        let began = Instant::now();
        if self.dry_run {
            let moved = Moved {
                bytes: wanted.unwrap_or(0),
                requests: 0,
            };
            let mut report = Report::new(drive, opened, self.offset, moved, began);
            report.dry_run = true;
            return Ok(report);
        }
        let bar = context.bytes_bar(wanted);
        let moved = transfer::write(
            opened.device.as_mut(),
            &opened.memory,
            &span,
            self.fua,
            &mut |data, halt| input.fill(data, halt),
            &mut |bytes| bar.set_position(bytes),
            &context.cancel,
        );
        bar.finish_and_clear();
        let moved = moved?;
        input.refuse_rest(moved.bytes)?;
        if self.flush {
            let flushed = block::blocking::flush(opened.device.as_mut());
            flushed.map_err(|error| Error::request("flushing", error))?;
        }
        self.check_end(wanted, moved.bytes, input, &context.cancel)?;
        Ok(Report::new(drive, opened, self.offset, moved, began))
    }

    /// The length of an input of `len` bytes in whole blocks.
    fn whole(&self, len: u64, block_bytes: usize, input: &Input) -> Result<u64> {
        match len.checked_next_multiple_of(block_bytes as u64) {
            Some(padded) if self.pad || padded == len => Ok(padded),
            _ => Err(Error::usage(format!(
                "`{}` has {len} bytes, not a multiple of the drive's block of {block_bytes} bytes",
                input.source.name.display()
            ))
            .hint("--pad fills the last block with zeros")),
        }
    }

    /// Checks that the input had the expected length.
    fn check_end(
        &self,
        wanted: Option<u64>,
        written: u64,
        input: &mut Input,
        cancel: &Cancel,
    ) -> Result<()> {
        match wanted {
            Some(wanted) if written < wanted => Err(Error::other(format!(
                "the input ended after {written} of {wanted} bytes, which were written"
            ))),
            Some(_) => Ok(()),
            // The drive is full: does the input continue?
            None if input.source.fill(&mut [0], cancel.flag())? > 0 => Err(Error::other(format!(
                "the input is longer than the drive: {written} bytes of it were written"
            ))),
            None => Ok(()),
        }
    }
}

/// The source, with its last partial block padded if requested, and left out otherwise.
struct Input {
    source: FileSource<'static>,
    pad: bool,
    block_bytes: usize,
    /// Bytes that do not fill a block and were left out.
    rest_bytes: usize,
}

impl Input {
    fn open(write: &Write) -> Result<Self> {
        let source = FileSource::open(write.input.as_deref().unwrap_or(Path::new("-")))?;
        match (source.len_bytes, write.length) {
            (Some(len), Some(wanted)) if len < wanted.0 => Err(Error::usage(format!(
                "{} has {len} bytes, but --length is {}",
                source.name.display(),
                wanted.0
            ))),
            _ => Ok(Self {
                source,
                pad: write.pad,
                block_bytes: 1,
                rest_bytes: 0,
            }),
        }
    }

    fn fill(&mut self, data: &mut [u8], halt: &AtomicBool) -> Result<usize> {
        let filled = self.source.fill(data, halt)?;
        let rest_bytes = filled % self.block_bytes;
        if self.pad {
            let padded = filled.next_multiple_of(self.block_bytes).min(data.len());
            data.get_mut(filled..padded).unwrap_or_default().fill(0);
            return Ok(padded);
        }
        self.rest_bytes = rest_bytes;
        Ok(filled - rest_bytes)
    }

    fn refuse_rest(&self, written: u64) -> Result<()> {
        if self.rest_bytes == 0 {
            return Ok(());
        }
        let failure = Error::usage(format!(
            "the input's last {} bytes are not a whole block of {} bytes and were not written",
            self.rest_bytes, self.block_bytes
        ));
        Err(transfer::before(failure, written).hint("--pad fills the last block with zeros"))
    }
}
