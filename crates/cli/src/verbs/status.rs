// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway status DEVICE`: how a recording goes, as its process answers.

mod events;
mod metrics;
mod textfile;

use crate::Context;
use crate::exit::Exit;
use clap::Args;
use devices::SCHEMA_VERSION;
use devices::drive::Drive;
use devices::error::{Error, ErrorKind, Result};
use devices::guard::standard_output;
use files::found::{Ends, Signature};
use files::{failed, shown};
use live::RecordingStatus;
use live::reader::{End, Live};
use remedy::words;
use schemars::JsonSchema;
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use units::{Time, counted, exact, rounded};

/// How long to wait between looks whether the user has cancelled.
const LOOK: Duration = Duration::from_millis(100);
/// The least time between two prints.
const SHORTEST: Duration = Duration::from_millis(10);

/// Show how the recording on a volume goes.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The recording's process answers between two blocks, without the drive. The exit status is 0 whatever was lost, and 1 if
no process records on the volume, 3 if there is none. The counters never fall while the process lives; its final report has the same.

--watch prints it again each second (--every 250ms) until the recording ends: over the last one on a terminal, otherwise
below it, with --json a line each. The exit status is 0 when the recording has ended, and 1 if its process was killed.

--events prints what happens, a line of JSON each, from the recording's start on (the last 4,096 are kept): started, final (a segment),
removed (by the ring), gap and late (with the sums so far), stopping, ended. It ends as --watch does.

--openmetrics prints the text format of OpenMetrics 1.0, for a web server's script. Without a recording straightway_recording_up is 0,
and the exit status 1. --textfile FILE writes the same in Prometheus' text format, each second or --every, until the recording ends, for
the textfile collector of its node exporter: FILE is replaced whole.")]
pub struct Status {
    /// The device with the volume
    pub device: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print it again and again until the recording ends
    #[arg(long)]
    pub watch: bool,
    /// Time between two prints [default: 1s]
    #[arg(long, value_name = "TIME")]
    pub every: Option<Time>,
    /// Print metrics for Prometheus
    #[arg(long, conflicts_with_all = ["json", "watch"])]
    pub openmetrics: bool,
    /// Write metrics for Prometheus' node exporter to FILE, until the recording ends
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "watch", "openmetrics"])]
    pub textfile: Option<PathBuf>,
    /// Print what happens, a line of JSON each, until the recording ends
    #[arg(long, conflicts_with_all = ["watch", "openmetrics", "textfile"])]
    pub events: bool,
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
        if self.every() < SHORTEST {
            return Err(Error::usage("--every is at least 10ms"));
        }
        if self.every.is_some() && !self.watch && self.textfile.is_none() {
            return Err(Error::usage("--every needs --watch or --textfile"));
        }
        let Some(mut live) = Live::find(context, &self.device)? else {
            let failure = self.nothing_there(context);
            if let Some(path) = self.textfile.as_deref().filter(|_| is_silent(&failure)) {
                textfile::write(context, path, &self.device, None)?;
            }
            if self.openmetrics && is_silent(&failure) {
                context.console.print(&metrics::text(&self.device, None))?;
            }
            return Err(failure);
        };
        if self.watch {
            return self.watched(context, &mut live);
        }
        if self.events {
            return self.print_events(context, &mut live);
        }
        if let Some(path) = &self.textfile {
            return self.keep_textfile(context, &mut live, path);
        }
        let reported = self.reported(live.status()?);
        if self.openmetrics {
            let text = metrics::text(&self.device, Some(&reported.recording));
            context.console.print(&text)?;
        } else if self.json {
            context.console.json(&reported)?;
        } else {
            context.console.print(&reported.text(None))?;
        }
        Ok(Exit::Done)
    }

    fn every(&self) -> Duration {
        self.every.map_or(Duration::from_secs(1), |every| every.0)
    }

    fn reported(&self, recording: RecordingStatus) -> Reported {
        Reported {
            schema_version: SCHEMA_VERSION,
            device: self.device.clone(),
            recording,
        }
    }

    /// Prints it until the recording ends.
    fn watched(&self, context: &Context, live: &mut Live) -> Result<Exit> {
        let is_terminal = !self.json && std::io::stdout().is_terminal();
        let mut before: Option<(Instant, u64)> = None;
        let mut lines = 0;
        loop {
            let recording = match live.status() {
                Ok(recording) => recording,
                Err(failure) if failure.kind() == ErrorKind::Missing && before.is_some() => {
                    return self.ended(context, live.end());
                }
                Err(failure) => return Err(failure),
            };
            let now = Instant::now();
            let rate = before.map(|(then, bytes)| {
                let seconds = (now - then).as_secs_f64().max(1e-6);
                (recording.bytes.saturating_sub(bytes) as f64 / seconds) as u64
            });
            before = Some((now, recording.bytes));
            let reported = self.reported(recording);
            if self.json {
                let line = serde_json::to_string(&reported)
                    .map_err(|error| Error::other(format!("making JSON: {error}")))?;
                show(&format!("{line}\n"))?;
            } else {
                let text = reported.text(rate);
                // Up to the first line of the last one, and clear what is below.
                let over = match lines {
                    lines if is_terminal && lines > 0 => format!("\x1b[{lines}A\x1b[J"),
                    _ => String::new(),
                };
                lines = text.lines().count();
                show(&format!("{over}{text}"))?;
            }
            wait_until(context, now + self.every())?;
        }
    }

    fn ended(&self, context: &Context, end: End) -> Result<Exit> {
        match end {
            End::Silent => Err(Error::other(format!(
                "the process that recorded on {} was killed",
                self.device
            ))
            .hint(words!["straightway check ", remedy::Device])),
            End::Said | End::Unknown => {
                context.say("the recording has ended");
                Ok(Exit::Done)
            }
        }
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

/// Waits until then.
fn wait_until(context: &Context, until: Instant) -> Result<()> {
    while let Some(rest) = until.checked_duration_since(Instant::now()) {
        std::thread::sleep(rest.min(LOOK));
        if context.cancel.is_set() {
            return Err(Error::interrupted("interrupted"));
        }
    }
    Ok(())
}

/// Whether no process records, and nothing else is wrong.
fn is_silent(failure: &Error) -> bool {
    failure.kind() == ErrorKind::Other
}

/// Prints what is printed again and again: it ends with its reader.
fn show(text: &str) -> Result<()> {
    let written = standard_output().and_then(|mut output| output.write_all(text.as_bytes()));
    written.map_err(|error| Error::stdout(&error))
}

impl Reported {
    /// For people; with the rate of now, where it is known.
    fn text(&self, now: Option<u64>) -> String {
        let of = &self.recording;
        let seconds = of.elapsed_us.max(1) as f64 / 1e6;
        let rate = rounded((of.bytes as f64 / seconds) as u64);
        let now = now.map_or_else(String::new, |now| format!(", now {}/s", rounded(now)));
        let mut text = format!(
            "recording `{}` for {seconds:.1} s: {} are durable; {rate}/s arrived{now}\n",
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
