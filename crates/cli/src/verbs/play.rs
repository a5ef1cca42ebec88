//! `straightway play DEVICE NAME`: a file of a volume at its rate, each block when it is due.

use crate::failure::{Exit, Failure, Result};
use crate::stream::place::{Place as End, To};
use crate::stream::report::{Bucket, buckets, latency_text, rate_text, ring_text};
use crate::stream::sink::{Sink, consume};
use crate::stream::{WAIT, check_block};
use crate::units::{Size, Time};
use crate::verbs::put::{check_name, micros};
use crate::volume::{Access, Mounted, Route, Store, failed, route, shown};
use crate::{Context, SCHEMA_VERSION};
use block::Clock;
use clap::Args;
use indicatif::ProgressBar;
use linux::TscClock;
use schemars::JsonSchema;
use serde::Serialize;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use stream::{Error as StreamError, Place, PlayOptions, PlayReport, Played, Player};
use volume::layout::CHUNK_BYTES;
use volume::{Error, File};

/// How long the playback may sleep while the device works or nothing is due.
const IDLE: Duration = Duration::from_micros(200);

/// Play a file of a volume at a rate.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
SINK is stdout, a file, udp://ADDR:PORT (datagrams of 1,024 bytes), tcp://ADDR:PORT (connects
there), null, or pattern (compares with what `record --from pattern` recorded). With a --rate, time
begins when the buffers are full; the deadline counts from the moment at which a block is due. Exit
status 7 says that deadlines were missed.")]
pub struct Play {
    /// The device that has the volume
    pub device: String,
    /// The file's name in the volume
    pub name: String,
    /// Bytes a second; as fast as the sink takes them without it
    #[arg(long, value_name = "SIZE")]
    pub rate: Option<Size>,
    /// A block must be delivered so long after it is due
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    pub deadline: Time,
    /// Bytes of a block, and of a buffer; 64K and its multiples where checksums are compared
    #[arg(long, value_name = "SIZE", default_value = "1M")]
    pub block: Size,
    /// How many buffers
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub buffers: u16,
    /// Where it goes
    #[arg(long, value_name = "SINK", default_value = "stdout")]
    pub to: To,
    /// Do not compare checksums, where the file has them
    #[arg(long)]
    pub no_verify: bool,
    /// How to get there
    #[command(flatten)]
    pub route: Route,
    /// Print JSON (not with the data on standard output)
    #[arg(long)]
    pub json: bool,
}

/// What was played.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PlayedFile {
    /// Version of this form: 1.
    pub schema_version: u32,
    /// What the user called it, resolved.
    pub device: String,
    /// The path that was taken.
    pub path: String,
    /// The file's name in the volume.
    pub name: String,
    /// Bytes that were delivered.
    pub length_bytes: u64,
    /// How long that took.
    pub elapsed_us: u64,
    /// Blocks that were delivered.
    pub blocks: u64,
    /// Blocks that were delivered after their deadline.
    pub misses: u64,
    /// The longest time after a deadline.
    pub lateness_max_us: u64,
    /// The longest time after a block was due.
    pub latency_max_us: u64,
    /// Those times; empty without a rate.
    pub latencies: Vec<Bucket>,
    /// Blocks that had not been read when they were due.
    pub underruns: u64,
    /// Buffers that there were.
    pub buffers: u64,
    /// How many would have been enough; null: more.
    pub smallest_buffers: Option<u64>,
    /// Bytes whose checksums were compared.
    pub verified_bytes: u64,
    /// Reads that failed and were repeated.
    pub retries: u64,
    /// The recording has gaps: `get` NAME.gaps to see where.
    pub has_gaps: bool,
    /// The user ended it.
    pub stopped: bool,
}

impl Play {
    /// Runs it.
    ///
    /// # Errors
    /// The device, the volume, the file or the sink.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        check_name(&self.name)?;
        let to_stdout = self.to.0 == End::Standard;
        if to_stdout && self.json {
            return Err(
                Failure::usage("--json and the data would mix on standard output")
                    .mend("--to FILE"),
            );
        }
        if to_stdout && std::io::stdout().is_terminal() {
            return Err(Failure::usage("the data would go to the terminal")
                .mend("redirect it, or use --to FILE"));
        }
        check_block(self.block)?;
        let way = self.route.with_buffers(self.block.0, self.buffers);
        let mut wish = route::wish(&way, false);
        let block = self.block.0.next_multiple_of(CHUNK_BYTES) as usize + 4096;
        wish.buffer_bytes += block * usize::from(self.buffers);
        let mut store = Store::open(context, &self.device, &wish)?;
        context
            .console
            .say(format_args!("path: {}", store.opened.name));
        let report = store.mount(Access::Read, |mounted| self.play(context, mounted));
        let path = store.opened.name.clone();
        let (mut report, failure) = store.close(report)?;
        report.path = path;
        match self.json {
            true => context.console.json(&report)?,
            false => self.say(context, &report),
        }
        match failure {
            Some(failure) => Err(failure),
            None if report.stopped => Err(Failure::interrupted("interrupted")),
            None if report.misses > 0 => Ok(Exit::Late),
            None => Ok(Exit::Done),
        }
    }

    fn play(
        &self,
        context: &Context,
        mounted: &Mounted<'_, '_>,
    ) -> Result<(PlayedFile, Option<Failure>)> {
        let doing = || format!("playing `{}`", shown(&self.name));
        if mounted.find(&self.name)?.is_none() {
            return Err(failed(doing(), Error::NotFound));
        }
        let gaps_name = format!("{}.gaps", self.name);
        let has_gaps = check_name(&gaps_name).is_ok() && mounted.find(&gaps_name)?.is_some();
        let file = mounted.run(doing(), mounted.volume.open(&self.name))?;
        let sink = Sink::open(&self.to.0)?;
        let began = Instant::now();
        let (report, result) = self.run_on(context, mounted, file, sink)?;
        let elapsed_us = micros(began.elapsed());
        let closed = mounted.run(doing(), mounted.volume.close(file));
        let failure = result.and(closed).err();
        let played = PlayedFile {
            schema_version: SCHEMA_VERSION,
            device: mounted.drive.to_string(),
            path: String::new(),
            name: self.name.clone(),
            length_bytes: report.bytes,
            elapsed_us,
            blocks: report.blocks,
            misses: report.misses,
            lateness_max_us: report.lateness_max_us,
            latency_max_us: report.latency_max_us,
            latencies: buckets(&report.latencies),
            underruns: report.underruns,
            buffers: report.ring_blocks,
            smallest_buffers: report.smallest_ring_blocks(),
            verified_bytes: report.verified_bytes,
            retries: report.retries,
            has_gaps,
            stopped: context.cancel.is_set(),
        };
        Ok((played, failure))
    }

    fn run_on(
        &self,
        context: &Context,
        mounted: &Mounted<'_, '_>,
        file: File,
        sink: Sink,
    ) -> Result<(PlayReport, Result<()>)> {
        let clock = TscClock::new();
        let status = mounted.volume.file_status(file);
        let status = status.map_err(|error| failed(mounted.drive, error))?;
        let verify = status.checksums && !self.no_verify;
        let block_bytes = match verify {
            true => self.block.0.next_multiple_of(CHUNK_BYTES),
            false => self.block.0,
        };
        let mut ring = Vec::new();
        for _ in 0..self.buffers {
            ring.push(Place::new(mounted.memory.allocate(block_bytes as usize)?));
        }
        let options = PlayOptions {
            bytes_per_second: self.rate.map_or(0, |rate| rate.0),
            deadline_us: micros(self.deadline.0),
            verify,
            ..PlayOptions::default()
        };
        let bar = context.console.bytes_bar(Some(status.committed_bytes));
        let player = Player::new(mounted.volume, file, clock, &mut ring, &options);
        let player = player.map_err(|error| self.failure(error))?;
        let sink_failed = AtomicBool::new(false);
        let (full_to, full) = channel();
        let (idle_to, idle) = channel();
        let stop = || context.cancel.is_set() || sink_failed.load(Ordering::Relaxed);
        let (result, written) = std::thread::scope(|scope| {
            let on_failure = || sink_failed.store(true, Ordering::Relaxed);
            let consumer = scope.spawn(move || consume(sink, &full, &idle_to, &on_failure));
            let result = self.pump(&player, clock, &full_to, &idle, &bar, &stop);
            drop(full_to);
            (result, consumer.join())
        });
        while let Ok(buffer) = idle.try_recv() {
            let _ = player.give_back(buffer);
        }
        bar.finish_and_clear();
        let report = player.report();
        for buffer in ring.into_iter().filter_map(Place::into_buffer) {
            mounted.memory.give_back(buffer);
        }
        let written =
            written.unwrap_or_else(|_| Err(Failure::new(Exit::No, "the thread that writes ended")));
        let result = result.map_err(|error| self.failure(error));
        Ok((report, result.and(written)))
    }

    fn pump<D: block::Device>(
        &self,
        player: &Player<'_, '_, D, TscClock>,
        clock: TscClock,
        full: &Sender<Played>,
        idle: &Receiver<block::Buffer>,
        bar: &ProgressBar,
        stop: &dyn Fn() -> bool,
    ) -> std::result::Result<(), StreamError> {
        let mut upkeep = std::pin::pin!(player.upkeep());
        loop {
            if let std::task::Poll::Ready(result) = player.step(upkeep.as_mut(), &mut |_| {}) {
                return result;
            }
            if stop() {
                player.stop();
            }
            let mut happened = false;
            while let Some(played) = player.next() {
                happened = true;
                bar.inc(played.len_bytes as u64);
                // The thread lives until this end of the channel is dropped.
                let _ = full.send(played);
            }
            while let Ok(buffer) = idle.try_recv() {
                happened = true;
                let _ = player.give_back(buffer);
            }
            if happened {
                continue;
            }
            let left = player
                .next_due()
                .map_or(u64::MAX, |due| due.saturating_sub(clock.ticks()));
            let left = stream::us_from_ticks(left, clock.ticks_per_second());
            // Before a block is due there is no sleep.
            let sleep = Duration::from_micros(left)
                .saturating_sub(IDLE / 2)
                .min(IDLE);
            if player.is_working() {
                player.wait(sleep.as_micros() as u32);
            } else if let Ok(buffer) = idle.recv_timeout(sleep.min(WAIT)) {
                let _ = player.give_back(buffer);
            }
        }
    }

    fn failure(&self, error: StreamError) -> Failure {
        let doing = format!("playing `{}`", shown(&self.name));
        crate::stream::failure(&doing, error).unwrap_or_else(|error| {
            Failure::usage(format!("{doing}: {error}"))
                .mend("--block 64K or a multiple, or --no-verify")
        })
    }

    fn say(&self, context: &Context, report: &PlayedFile) {
        let counted = rate_text(report.length_bytes, report.blocks, report.elapsed_us);
        let say = |text: String| context.console.say(text);
        say(format!("played `{}`: {counted}", shown(&self.name)));
        if self.rate.is_some() && report.blocks > 0 {
            let latency = latency_text(
                &report.latencies,
                report.latency_max_us,
                report.misses,
                report.lateness_max_us,
            );
            say(latency);
            say(ring_text(report.buffers, report.smallest_buffers));
        }
        if report.has_gaps {
            let device = &self.device;
            say(format!(
                "the recording has gaps: straightway get {device} '{}.gaps' -",
                self.name
            ));
        }
    }
}
