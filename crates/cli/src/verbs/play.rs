// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway play DEVICE NAME`: plays a file of a volume at a rate, each block when it is due.

use crate::Context;
use crate::exit::Exit;
use crate::grave::GRAVE;
use crate::path_options::RouteArgs;
use crate::verbs::record::late;
use clap::Args;
use devices::error::{Error, Result};
use devices::guard::refuse_to_mix;
use files::names::check_name;
use files::shown;
use recorder::place::{Place as End, To};
use recorder::play::PlaySettings;
use units::{Size, Time, rate};

/// Play a file of a volume at a rate.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
SINK is stdout, a file (which appears when it is whole; one that exists is replaced with --force alone), a
FIFO, udp://ADDR:PORT (datagrams of 1,024 bytes, spread at the rate), tcp://ADDR:PORT (connects
there), null, or pattern (compares with what `record --from pattern` recorded). With a --rate, time
begins when the buffers are full; the deadline counts from the moment at which a block is due. Exit
status 7 means that deadlines were missed, or that datagrams were refused.

--replay sends the datagrams of a recording with --format pcapng as they arrived: each with its own
length, at its distance from the first. The report says how late one was at most.

A coprocessor plays files itself, with at most 15 buffers in the shared memory; with
--path coprocessor, a --mode or more buffers this processor plays them, by reading blocks.")]
pub struct Play {
    /// The device with the volume
    pub device: String,
    /// The file's name in the volume
    pub name: String,
    /// Bytes per second [as fast as the sink accepts them]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate: Option<Size>,
    /// Time limit for delivering a block after it is due
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    pub deadline: Time,
    /// Size of a block and of a buffer; a multiple of 64K if checksums are verified
    #[arg(long, value_name = "SIZE", default_value = "1M")]
    pub block: Size,
    /// Number of buffers [default: 16, or 15 if a coprocessor plays]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub buffers: Option<u16>,
    /// Where to play to
    #[arg(long, value_name = "SINK", default_value = "stdout")]
    pub to: To,
    /// Send the recorded datagrams at the distances at which they arrived; to udp://ADDR:PORT
    #[arg(long, conflicts_with = "rate")]
    pub replay: bool,
    /// Replace the target file if it exists
    #[arg(long, help_heading = GRAVE)]
    pub force: bool,
    /// Do not verify checksums
    #[arg(long)]
    pub no_verify: bool,
    /// The path
    #[command(flatten)]
    pub route: RouteArgs,
    /// Print JSON (not with the data on standard output)
    #[arg(long)]
    pub json: bool,
}

impl Play {
    /// Runs the verb.
    ///
    /// # Errors
    /// The device, the volume, the file or the sink failed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        check_name(&self.name)?;
        if self.to.0 == End::Standard {
            refuse_to_mix(self.json, "--to FILE")?;
        }
        let (report, failure) = self.settings().play(context)?;
        if self.json {
            context.console.json(&report)?
        } else if failure.is_none() {
            report.say(&context.progress, &self.device)
        }
        match failure {
            Some(failure) => Err(failure.and(format_args!(
                "`{}` was not played to its end",
                shown(&self.name)
            ))),
            None if report.stopped => Err(Error::interrupted("interrupted")),
            None if report.counted.misses > 0 || report.refused_datagrams > 0 => {
                late(context, "playing", &self.name)
            }
            None => Ok(Exit::Done),
        }
    }

    /// What is played, without the parser.
    pub fn settings(&self) -> PlaySettings {
        PlaySettings {
            device: self.device.clone(),
            name: self.name.clone(),
            rate: self.rate,
            deadline: self.deadline,
            block: self.block,
            buffers: self.buffers,
            to: self.to.clone(),
            replay: self.replay,
            force: self.force,
            verify: !self.no_verify,
            route: *self.route,
        }
    }
}
