//! `straightway play DEVICE NAME`: plays a file of a volume at a rate, each block when it is due.

use crate::Context;
use crate::stream::place::{Place as End, To};
use crate::stream::playing::Playing;
use crate::stream::remote::RemoteVolume;
use crate::stream::report::{Counted, PlayedFile, buckets};
use crate::stream::sink::{Hand, Sink};
use crate::stream::volume_host::VolumeHost;
use crate::stream::{BUFFERS, check_block};
use crate::verbs::put::check_name;
use clap::Args;
use devices::SCHEMA_VERSION;
use devices::drive::Drive;
use devices::failure::{Exit, Failure, Result};
use devices::guard::{Output, output_of, refuse_to_mix};
use files::listing::refuse_unfinished;
use files::{Access, Route, Store, failed, route, shown};
use std::time::Instant;
use stream::{Error as StreamError, PlayOptions};
use units::{Size, Time, micros, rate};
use volume::Error;
use volume::layout::CHUNK_BYTES;

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
    #[arg(long)]
    pub force: bool,
    /// Do not verify checksums
    #[arg(long)]
    pub no_verify: bool,
    /// The path
    #[command(flatten)]
    pub route: Route,
    /// Print JSON (not with the data on standard output)
    #[arg(long)]
    pub json: bool,
}

/// Where the blocks go.
enum Goal {
    /// To what `to` names: the checked output, if it is a file.
    Place(Option<Output>),
    Program(Hand),
}

impl Play {
    /// Runs the verb.
    ///
    /// # Errors
    /// The device, the volume, the file or the sink failed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        check_name(&self.name)?;
        let to_stdout = self.to.0 == End::Standard;
        if to_stdout {
            refuse_to_mix(self.json, "--to FILE")?;
        }
        check_block(self.block)?;
        if self.replay && !matches!(self.to.0, End::Udp(_)) {
            return Err(Failure::usage("--replay sends datagrams").hint("--to udp://ADDR:PORT"));
        }
        let drive = Drive::find(&context.roots, &self.device)?;
        let path = match &self.to.0 {
            End::File(path) => Some(path.as_path()),
            _ => None,
        };
        let output = match to_stdout || path.is_some() {
            true => output_of(&context.roots, Some(&drive), path, self.force)?,
            false => None,
        };
        let (report, failure) = self.play_from(context, drive, Goal::Place(output))?;
        match self.json {
            true => context.console.json(&report)?,
            false if failure.is_none() => report.say(&context.progress, &self.device),
            false => {}
        }
        match failure {
            Some(failure) => Err(failure.and(format_args!(
                "`{}` was not played to its end",
                shown(&self.name)
            ))),
            None if report.stopped => Err(Failure::interrupted("interrupted")),
            None if report.counted.misses > 0 || report.refused_datagrams > 0 => Ok(Exit::Late),
            None => Ok(Exit::Done),
        }
    }

    /// Plays to a program, for which `to` is ignored; returns the counters.
    ///
    /// # Errors
    /// The playback did not begin. The inner failure: it ended early.
    pub fn play_blocks(
        &self,
        context: &devices::Context,
        hand: Hand,
    ) -> Result<(PlayedFile, Option<Failure>)> {
        check_name(&self.name)?;
        check_block(self.block)?;
        let drive = Drive::find(&context.roots, &self.device)?;
        self.play_from(context, drive, Goal::Program(hand))
    }

    /// From a coprocessor that plays, or from a volume that this process mounts.
    fn play_from(
        &self,
        context: &devices::Context,
        drive: Drive,
        goal: Goal,
    ) -> Result<(PlayedFile, Option<Failure>)> {
        let remote = RemoteVolume::open(context, &drive, self.route, self.block, self.buffers)?;
        match remote {
            Some(mut remote) => self.play(context, &mut remote, RemoteVolume::NAME, goal),
            None => self.play_local(context, drive, goal),
        }
    }

    fn play_local(
        &self,
        context: &devices::Context,
        drive: Drive,
        goal: Goal,
    ) -> Result<(PlayedFile, Option<Failure>)> {
        let buffers = self.buffers.unwrap_or(BUFFERS);
        let io = self.route.with_buffers(self.block.0, buffers);
        let mut options = route::open_options(&io, false);
        let block = self.block.0.next_multiple_of(CHUNK_BYTES) as usize + 4096;
        options.buffer_bytes += block * usize::from(buffers);
        let mut store = Store::of(context, drive, &options)?;
        let path = store.opened.name.clone();
        context.say(format_args!("path: {path}"));
        let report = store.mount(Access::Read, |mounted| {
            if let Some(entry) = mounted.find(&self.name)? {
                refuse_unfinished(&entry)?;
            }
            self.play(context, &mut { mounted }, &path, goal)
        });
        store.close(report)
    }

    fn play(
        &self,
        context: &devices::Context,
        host: &mut impl VolumeHost,
        path: &str,
        goal: Goal,
    ) -> Result<(PlayedFile, Option<Failure>)> {
        let doing = || format!("playing `{}`", shown(&self.name));
        if !host.exists(&self.name)? {
            return Err(failed(doing(), Error::NotFound));
        }
        let gaps_name = format!("{}.gaps", self.name);
        let has_gaps = check_name(&gaps_name).is_ok() && host.exists(&gaps_name)?;
        let file = host.open(&self.name)?;
        let sink = match (goal, &self.to.0) {
            (Goal::Program(hand), _) => Sink::Program(hand),
            (Goal::Place(_), End::Udp(address)) if self.replay => {
                Sink::replay(address, context.cancel.clone())?
            }
            (Goal::Place(output), place) => {
                Sink::open(place, output, &context.cancel)?.at_rate(self.rate.map(|rate| rate.0))
            }
        };
        let playing = Playing {
            options: PlayOptions {
                bytes_per_second: self.rate.map_or(0, |rate| rate.0),
                deadline_us: micros(self.deadline.0),
                verify: !self.no_verify,
                ..PlayOptions::default()
            },
            block_bytes: self.block.0,
            buffers: self.buffers,
        };
        let began = Instant::now();
        let played = host.play(context, &playing, sink, &self.name, file);
        let elapsed_us = micros(began.elapsed());
        let closed = host.close(&self.name, file);
        let played = played??;
        let result = played.result.map_err(|error| self.failure(error));
        let whole = result.is_ok() && !context.cancel.is_set();
        let replayed = played.written.as_ref().ok().and_then(Sink::replayed);
        let refused_datagrams = played.written.as_ref().map_or(0, Sink::refused);
        let written = played.written.and_then(|sink| sink.end(whole));
        let failure = result.and(written).and(closed).err();
        let report = played.report;
        let played = PlayedFile {
            counted: Counted {
                schema_version: SCHEMA_VERSION,
                device: host.drive().to_string(),
                path: path.to_owned(),
                name: self.name.clone(),
                length_bytes: report.bytes,
                elapsed_us,
                blocks: report.blocks,
                misses: report.misses,
                lateness_max_us: report.lateness_max_us,
                latency_max_us: report.latency_max_us,
                latencies: buckets(&report.latencies),
                buffers: report.ring_blocks,
                smallest_buffers: report.smallest_ring_blocks(),
                retries: report.retries,
            },
            underruns: report.underruns,
            verified_bytes: report.verified_bytes,
            has_gaps,
            refused_datagrams,
            replayed,
            stopped: context.cancel.is_set(),
        };
        Ok((played, failure))
    }

    fn failure(&self, error: StreamError) -> Failure {
        let doing = format!("playing `{}`", shown(&self.name));
        crate::stream::failure(&doing, error).unwrap_or_else(|error| {
            Failure::usage(format!("{doing}: {error}"))
                .hint("--block 64K or a multiple, or --no-verify")
        })
    }
}
