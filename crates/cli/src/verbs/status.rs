// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway status DEVICE`: how a recording goes, as its process answers.

use crate::Context;
use crate::exit::Exit;
use clap::Args;
use devices::SCHEMA_VERSION;
use devices::drive::Drive;
use devices::error::{Error, Result};
use files::found::{Ends, Signature};
use files::{failed, shown};
use live::RecordingStatus;
use live::reader::Live;
use remedy::words;
use schemars::JsonSchema;
use serde::Serialize;
use units::{counted, exact, rounded};

/// Show how the recording on a volume goes.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The recording's process answers between two blocks, without the drive. The exit status is 0 whatever was lost, and 1 if
no process records on the volume, 3 if there is none. The counters never fall while the process lives; its final report has the same.")]
pub struct Status {
    /// The device with the volume
    pub device: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// How the recording on a volume goes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Reported {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// The device, as it was named.
    pub device: String,
    /// The recording.
    #[serde(flatten)]
    pub recording: RecordingStatus,
}

impl Status {
    /// Runs the verb.
    ///
    /// # Errors
    /// No process records on the volume, or it has just ended.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let Some(mut live) = Live::find(context, &self.device)? else {
            return Err(self.nothing_there(context));
        };
        let reported = Reported {
            schema_version: SCHEMA_VERSION,
            device: self.device.clone(),
            recording: live.status()?,
        };
        if self.json {
            context.console.json(&reported)?;
        } else {
            context.console.print(&reported.text())?;
        }
        Ok(Exit::Done)
    }
}

impl Status {
    /// Why no process answers, as far as that is known without taking the drive from its driver.
    fn nothing_there(&self, context: &Context) -> Error {
        let drive = match Drive::find(&context.roots, &self.device) {
            Ok(drive) => drive,
            Err(failure) => return failure,
        };
        let path = match &drive {
            Drive::File(path) => Some(path.clone()),
            Drive::Model(model) => model.file.clone(),
            Drive::Disk(disk) => Some(context.roots.dev.join(&disk.name)),
            _ => None,
        };
        let ends = path.and_then(|path| Ends::read(&path, 512).ok());
        let has_volume = |ends: Ends| ends.signatures().iter().any(Signature::is_a_volume);
        if ends.is_some_and(|ends| !has_volume(ends)) {
            return failed(drive, volume::Error::NotAVolume);
        }
        let what = format!("no process records on {}", self.device);
        Error::other(what).hint(words![
            "straightway ls ",
            remedy::Device,
            " lists what was recorded"
        ])
    }
}

impl Reported {
    fn text(&self) -> String {
        let of = &self.recording;
        let seconds = of.elapsed_us.max(1) as f64 / 1e6;
        let rate = rounded((of.bytes as f64 / seconds) as u64);
        let mut text = format!(
            "recording `{}` for {seconds:.1} s: {} are durable; {rate}/s arrived\n",
            shown(&of.name),
            exact(of.durable_bytes)
        );
        let lost = match of.lost_blocks {
            0 => "nothing lost".to_owned(),
            blocks => format!(
                "{} LOST ({}) in {}",
                counted(blocks, "block").to_uppercase(),
                counted(of.lost_bytes, "byte"),
                counted(of.gaps, "gap")
            ),
        };
        let late = match of.misses {
            0 => "none late".to_owned(),
            misses => format!("{misses} LATE, by up to {} us", of.lateness_max_us),
        };
        text += &format!(
            "{lost}; {late}; {} of {} buffers in use, {} at most\n",
            of.waiting_blocks, of.buffers, of.waiting_max_blocks
        );
        for (count, what) in [
            (of.dropped_datagrams, "LOST in the kernel before being read"),
            (of.cut_datagrams, "CUT: longer than a block"),
        ] {
            if count > 0 {
                text += &format!("{} {what}\n", counted(count, "datagram").to_uppercase());
            }
        }
        text
    }
}
