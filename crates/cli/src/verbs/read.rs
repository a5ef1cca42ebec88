// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway read DEVICE`: reads a range of a drive to standard output, a file or a checksum.

use crate::Context;
use crate::exit::Exit;
use crate::grave::GRAVE;
use crate::path_options::IoArgs;
use clap::Args;
use devices::SCHEMA_VERSION;
use devices::drive::Drive;
use devices::error::Result;
use devices::guard::{Grant, Outlet, Output, Purpose, output_of, refuse_to_mix};
use devices::path::{self, Opened};
use devices::transfer::{self, Moved};
use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::time::Instant;
use units::{Size, micros};

/// Read part of a drive to standard output, a file, or a checksum.
#[derive(Clone, Debug, Args)]
pub struct Read {
    /// The drive
    pub device: String,
    /// First byte; a multiple of the drive's block
    #[arg(long, value_name = "SIZE", default_value = "0")]
    pub offset: Size,
    /// How much [to the end]
    #[arg(long, value_name = "SIZE")]
    pub length: Option<Size>,
    /// Write to this file instead of standard output; it appears when it is complete
    #[arg(long, value_name = "FILE", conflicts_with = "checksum")]
    pub output: Option<PathBuf>,
    /// Replace FILE if it exists
    #[arg(long, requires = "output", help_heading = GRAVE)]
    pub force: bool,
    /// Print the SHA-256 of the data instead of the data
    #[arg(long)]
    pub checksum: bool,
    /// The path
    #[command(flatten)]
    pub io: IoArgs,
    /// Print JSON (with --output or --checksum)
    #[arg(long)]
    pub json: bool,
}

/// The result of a read or a write.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// The resolved name of the device.
    pub device: String,
    /// The path that was used.
    pub path: String,
    /// First byte.
    pub offset_bytes: u64,
    /// Transferred bytes.
    pub length_bytes: u64,
    /// Number of requests.
    pub requests: u64,
    /// Duration without opening and closing.
    pub elapsed_us: u64,
    /// SHA-256 of the data, if requested.
    pub sha256: Option<String>,
    /// Whether nothing was written.
    pub dry_run: bool,
}

impl Report {
    /// Makes the report of a transfer.
    pub fn new(drive: &Drive, opened: &Opened, offset: Size, moved: Moved, began: Instant) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            device: drive.to_string(),
            path: opened.name.clone(),
            offset_bytes: offset.0,
            length_bytes: moved.bytes,
            requests: moved.requests,
            elapsed_us: micros(began.elapsed()),
            sha256: None,
            dry_run: false,
        }
    }
}

impl Read {
    /// Runs the verb.
    ///
    /// # Errors
    /// The drive, the path or the output failed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let to_stdout = self.output.is_none() && !self.checksum;
        if to_stdout {
            refuse_to_mix(self.json, "--output FILE, or --checksum")?;
        }
        let drive = Drive::find_and_say(context, &self.device)?;
        let path = self.output.as_deref();
        let output = if to_stdout || path.is_some() {
            output_of(&context.roots, Some(&drive), path, self.force)?
        } else {
            None
        };
        let grant = Grant::of(&context.roots, drive, Purpose::Read)?;
        let mut opened = path::open(context, &grant, &self.io.open_options(false))?;
        context.say(format_args!("path: {}", opened.name));
        let report = self.pump(context, grant.drive(), &mut opened, output);
        let report = opened.close_after(report)?;
        match (&report.sha256, self.json) {
            (_, true) => context.console.json(&report)?,
            (Some(digest), false) => context.console.print(&format!("{digest}\n"))?,
            _ => {}
        }
        Ok(Exit::Done)
    }

    fn pump(
        &self,
        context: &Context,
        drive: &Drive,
        opened: &mut Opened,
        output: Option<Output>,
    ) -> Result<Report> {
        let size_bytes = opened.device.geometry().size_bytes();
        let to_the_end = size_bytes.saturating_sub(self.offset.0);
        let span = self.io.span(
            self.offset,
            self.length.map_or(to_the_end, |length| length.0),
        );
        span.check(opened.device.geometry())?;
        let mut digest = self.checksum.then(Sha256::new);
        let mut outlet = Outlet::open(output, &context.cancel)?;
        let bar = context.bytes_bar(Some(span.length_bytes));
        let began = Instant::now();
        let moved = transfer::read(
            opened.device.as_mut(),
            &opened.memory,
            &span,
            &mut |data| match &mut digest {
                Some(digest) => {
                    digest.update(data);
                    Ok(())
                }
                None => outlet.take(data),
            },
            &mut |bytes| bar.set_position(bytes),
            &context.cancel,
        );
        bar.finish_and_clear();
        let mut report = Report::new(drive, opened, self.offset, moved?, began);
        outlet.finish()?;
        let hex = |byte: u8| format!("{byte:02x}");
        report.sha256 = digest.map(|digest| digest.finalize().into_iter().map(hex).collect());
        Ok(report)
    }
}
