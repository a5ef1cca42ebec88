// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway export DEVICE NAME... FILE`: a recording as files that other tools open.

use crate::Context;
use crate::exit::Exit;
use crate::grave::GRAVE;
use crate::path_options::IoArgs;
use crate::recording_options::FormatOption;
use clap::Args;
use devices::error::{Error, Result};
use files::shown;
use formats::Format;
use recorder::export::ExportSettings;
use std::path::PathBuf;

pub use recorder::export::Exported;

/// Export a recording as files that other tools open.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Without --format it is that of the recording: sigmf if its samples are described, mcap or pcapng if it begins
so or was recorded so in segments, otherwise raw. A FILE whose name ends as a format's, .mcap for example, is
not written in another one unless --format raw says so.

sigmf writes FILE.sigmf-data, the samples, and FILE.sigmf-meta: NAME.sigmf-meta with the SHA-512 of the
samples and with a capture behind each gap of NAME.gaps, whose core:global_index and core:datetime count
the missing samples too. A gap at the end has no capture, and is counted. A part of a sample at the end is left out. NAME.sigmf-meta may come from
record --format sigmf or from put, and NAME be that of a pair NAME.sigmf-data and NAME.sigmf-meta. Of a
non-conforming dataset (core:header_bytes, core:trailing_bytes) all bytes are kept where they are.

mcap writes a whole file, also from a recording that ends anywhere: complete chunks, attachments and metadata
are copied; loose messages, and those of a chunk that ends early, go into chunks without compression; indexes,
statistics and the summary are made again. A message of an incomplete chunk is kept if all its bytes are there;
the chunk's checksum cannot cover it. A complete chunk that does not match its checksum is left out. Behind a
gap of NAME.gaps, segments that are missing, zeroes, or a record with a wrong length, it goes on with the next
record that is found, by its lengths and its checksum. Messages behind the end of the data are kept; a chunk in
several compressed frames, of which some readers see one, is packed again. Channels that were in a missing part
are taken from elsewhere in the recording, as from the end of the stream, which usually repeats them.

Several NAMEs, or a pattern, are the segments of one recording: they become one export, in the order of their
numbers. Those of several recordings are refused; cat prints them one after the other. The
companions .gaps and .sigmf-meta of what a pattern fits are no segments. NAME.sigmf-meta describes NAME.000001
and those behind it, up to one that has its own; so a segment alone is an export too, with the index and the
time of its first sample and with the captures and annotations of its samples, or with the messages that are
whole in it. Numbers that are missing before or between the segments are named, and count as a gap: of known
length, since each segment keeps its place in the recording. Where a recording was continued, SigMF has a
capture, and MCAP the messages of the next stream; a channel whose number is another one's there gets a new
number.

The exit status is 6 if records of MCAP were left out because they are damaged or of no use, if its statistics
count messages that were not found, or if samples do not match the core:sha512 they were stored with, or if packets are damaged; 7 if
something was lost when it was recorded (a gap, packets that were lost or cut off), if segments are missing on the
volume (but not those that a ring has removed), if the segments or lists of gaps are not what was recorded, or if
bytes beside a gap or behind the end of MCAP were left out; --json counts all of it.

Each segment keeps where it begins and whether something was lost in it. So a segment that was replaced, continued or
renamed, and a list of gaps that is missing, damaged, cut off or of an earlier file of that name, is named; a list of another
recording is left out, and so is NAME.sigmf-meta that another recording wrote. What the user has put there is believed.

Of packets, it counts those that were cut off or lost when they were recorded, as the file itself shows them. Bytes
that are damaged are left out up to the next block of the file, behind which readers would find nothing more.

raw and pcapng write FILE, the bytes, and FILE.gaps.json if the recording has gaps or lacks segments.

While one process records, a pattern takes the final files: with --partial, or where it is named, also what is being
written, as far as it is committed when the export begins. The recording goes on.

Files appear under their names when they are complete. Existing ones are replaced only with --force.")]
pub struct Export {
    /// The device with the volume
    pub device: String,
    /// The recording's name in the volume, or those of its segments, or a pattern
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// The file to write, without .sigmf-data or .sigmf-meta
    pub file: PathBuf,
    /// The format [default: the recording's]
    #[arg(long, value_enum)]
    pub format: Option<FormatOption>,
    /// Replace existing files
    #[arg(long, help_heading = GRAVE)]
    pub force: bool,
    /// Of a pattern, also what is being written, as far as it is committed
    #[arg(long)]
    pub partial: bool,
    /// The path
    #[command(flatten)]
    pub io: IoArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl Export {
    /// Runs the verb.
    ///
    /// # Errors
    /// The device, the volume, the recording or a target failed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let settings = ExportSettings {
            device: self.device.clone(),
            names: self.names.clone(),
            file: self.file.clone(),
            format: self.format.map(Format::from),
            force: self.force,
            partial: self.partial,
            io: *self.io,
        };
        let exported = settings.export(context)?;
        if self.json {
            context.console.json(&exported)?;
        } else {
            context
                .console
                .print_outcome(&exported.text(context.wording))?;
        }
        match exported.flaw() {
            Some(flaw) if context.console.quiet => {
                let what = format!("exporting `{}`: it is not whole", shown(&exported.name));
                Err(Error::new(flaw, what).hint("without --quiet, or with --json, it says why"))
            }
            flaw => Ok(flaw.map_or(Exit::Done, Exit::from)),
        }
    }
}
