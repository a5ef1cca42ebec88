//! `straightway record DEVICE NAME`: a stream into a volume, at its rate, with deadlines.

use crate::failure::{Exit, Failure, Result};
use crate::path::without_fua;
use crate::stream::check_block;
use crate::stream::place::{From, Place as End};
use crate::stream::producer::{Plan, Why};
use crate::stream::recording::{Ended, Recording, make};
use crate::stream::report::{Bucket, buckets, latency_text, rate_text, ring_text};
use crate::stream::source::Source;
use crate::units::{Size, Time};
use crate::verbs::put::{check_name, micros};
use crate::volume::{Access, Mounted, Route, Store, failed, now_ns, route, shown};
use crate::{Context, SCHEMA_VERSION};
use clap::{Args, ValueEnum};
use linux::TscClock;
use schemars::JsonSchema;
use serde::Serialize;
use stream::{Error as StreamError, RecordOptions};
use volume::Error;

/// Space for the companion file that is there from the beginning.
const GAPS_BYTES: u64 = 64 << 10;

/// What happens to a block that finds no empty buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Policy {
    /// The recording ends; what came before is kept
    Stop,
    /// The block is dropped, and NAME.gaps says where and how much
    Drop,
}

/// Record a stream into a volume at its rate.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
SOURCE is stdin, a file, pattern (each eight bytes hold their own offset), udp://ADDR:PORT (bound
there) or tcp://ADDR:PORT (listens there for one sender). A file and the pattern need a --rate: block
n arrives n blocks' time after the start. Others arrive as they are read, with a --rate not sooner
than it says. The deadline counts from the arrival, so a recording that lags is seen to lag.

It ends with --size, --for, the source, or Ctrl-C, and is then durable. During the recording it is
made durable every --commit-bytes and --commit-ms; after a power cut everything up to the last such
moment is there, and --acknowledge prints each.

With --policy drop, NAME.gaps has a line of 64 bytes for each gap: the offset in NAME before which
bytes are missing, how many, when the first of them arrived (in us), and 1. A gap's line is durable
before any byte behind it. Exit status 7 says that deadlines were missed or blocks were lost.")]
pub struct Record {
    /// The device that has the volume
    pub device: String,
    /// The recording's name in the volume: 1 to 64 bytes
    pub name: String,
    /// Bytes a second
    #[arg(long, value_name = "SIZE")]
    pub rate: Option<Size>,
    /// A block must be written so long after it arrived
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    pub deadline: Time,
    /// Bytes of a block, and of a buffer
    #[arg(long, value_name = "SIZE", default_value = "1M")]
    pub block: Size,
    /// How many buffers
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(2..=4096))]
    pub buffers: u16,
    /// How long to record
    #[arg(long = "for", value_name = "TIME")]
    pub for_time: Option<Time>,
    /// How much to record; its space is reserved at the beginning
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Size>,
    /// Where it comes from
    #[arg(long, value_name = "SOURCE", default_value = "stdin")]
    pub from: From,
    /// What happens to a block that finds no empty buffer
    #[arg(long, value_enum, default_value = "stop")]
    pub policy: Policy,
    /// Make it durable each time so many bytes are written
    #[arg(long, value_name = "SIZE", default_value = "64M")]
    pub commit_bytes: Size,
    /// Make it durable so many milliseconds after a byte was written
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub commit_ms: u32,
    /// Keep a checksum for each 64 KiB; the volume must have been made with --checksums
    #[arg(long)]
    pub checksums: bool,
    /// Print a line `durable BYTES` to standard output whenever more is durable
    #[arg(long, conflicts_with = "json")]
    pub acknowledge: bool,
    /// Flush where force unit access would do: for drives that take its flag and ignore it
    #[arg(long)]
    pub no_fua: bool,
    /// How to get there
    #[command(flatten)]
    pub route: Route,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What was recorded.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Recorded {
    /// Version of this form: 1.
    pub schema_version: u32,
    /// What the user called it, resolved.
    pub device: String,
    /// The path that was taken.
    pub path: String,
    /// The recording's name in the volume.
    pub name: String,
    /// Why it ended: length, source, stopped (by the user) or failed.
    pub ended_by: &'static str,
    /// Its size, all of it durable.
    pub length_bytes: u64,
    /// From the first block to the last byte's being durable.
    pub elapsed_us: u64,
    /// Blocks that arrived and found a buffer.
    pub blocks: u64,
    /// Blocks that were written after their deadline.
    pub misses: u64,
    /// The longest time after a deadline.
    pub lateness_max_us: u64,
    /// The longest time from a block's arrival until it was written.
    pub latency_max_us: u64,
    /// Those times.
    pub latencies: Vec<Bucket>,
    /// Buffers that there were.
    pub buffers: u64,
    /// How many would have been enough, with the one that the source fills; null: more.
    pub smallest_buffers: Option<u64>,
    /// The same in bytes.
    pub smallest_buffer_bytes: Option<u64>,
    /// Blocks that found no buffer.
    pub lost_blocks: u64,
    /// Their bytes.
    pub lost_bytes: u64,
    /// Runs of them.
    pub gaps: u64,
    /// Bytes that found a buffer and could not be written, because the recording failed.
    pub abandoned_bytes: u64,
    /// Datagrams that the kernel threw away before they could be read.
    pub dropped_datagrams: u64,
    /// Blocks that came from the source later than the rate says.
    pub tardy_blocks: u64,
    /// Writes that failed and were repeated.
    pub retries: u64,
    /// How often it was made durable.
    pub commits: u64,
    /// How often space was reserved while it ran.
    pub reservations: u64,
}

impl Record {
    /// Runs it.
    ///
    /// # Errors
    /// The source, the device, the volume; or the drive did not keep up.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        self.check()?;
        let way = self.route.with_buffers(self.block.0, self.buffers);
        let mut wish = route::wish(&way, true);
        // All of the ring, whatever is in flight.
        wish.buffer_bytes += (self.block.0 as usize + 4096) * usize::from(self.buffers);
        let mut store = Store::open(context, &self.device, &wish)?;
        if self.no_fua {
            without_fua::wrap(&mut store.opened.device);
        }
        context
            .console
            .say(format_args!("path: {}", store.opened.name));
        let report = store.mount(Access::Write, |mounted| self.record(context, mounted));
        let path = store.opened.name.clone();
        let (mut report, failure) = store.close(report)?;
        report.path = path;
        match self.json {
            true => context.console.json(&report)?,
            false => self.say(context, &report),
        }
        match failure {
            Some(failure) => Err(failure),
            None if report.is_good() => Ok(Exit::Done),
            None => Ok(Exit::Late),
        }
    }

    /// What can be refused before anything is opened.
    fn check(&self) -> Result<()> {
        check_name(&self.name)?;
        if self.policy == Policy::Drop {
            check_name(&self.gaps_name()).map_err(|failure| {
                failure.and("with --policy drop, NAME.gaps must be a name too")
            })?;
        }
        let is_scheduled = matches!(self.from.0, End::Pattern | End::File(_));
        if is_scheduled && self.rate.is_none_or(|rate| rate.0 == 0) {
            return Err(
                Failure::usage("a file and the pattern are always there: at which rate?")
                    .mend("--rate 100M, or straightway put for a file at full speed"),
            );
        }
        check_block(self.block)?;
        let has_end = self.size.is_some() || self.for_time.is_some();
        if matches!(self.from.0, End::Pattern) && !has_end {
            return Err(Failure::usage("the pattern has no end").mend("--for TIME or --size SIZE"));
        }
        Ok(())
    }

    fn gaps_name(&self) -> String {
        format!("{}.gaps", self.name)
    }

    fn record(
        &self,
        context: &Context,
        mounted: &Mounted<'_, '_>,
    ) -> Result<(Recorded, Option<Failure>)> {
        let volume = mounted.volume;
        let geometry = volume.geometry();
        let geometry = geometry.map_err(|error| failed(mounted.drive, error))?;
        let device_block = geometry.block_size_bytes();
        if self.block.0 % device_block as u64 != 0 {
            return Err(Failure::usage(format!(
                "--block is {} bytes, no multiple of the device's block of {device_block}",
                self.block.0
            )));
        }
        let mut names = vec![self.name.clone()];
        if self.policy == Policy::Drop {
            names.insert(0, self.gaps_name());
        }
        for name in &names {
            if mounted.find(name)?.is_some() {
                let failure = failed(format_args!("`{}`", shown(name)), Error::Exists);
                let mend = format!("another NAME, or: straightway rm {} '{name}'", self.device);
                return Err(failure.and("nothing was recorded").mend(mend));
            }
        }
        let stop = || context.cancel.is_set();
        let source = Source::open(&self.from.0, &stop)?;
        let total_bytes = self.total_bytes(&source);
        let file = make(mounted, &self.name, total_bytes, self.checksums)?;
        let gap_file = match self.policy {
            Policy::Stop => None,
            Policy::Drop => match make(mounted, &self.gaps_name(), GAPS_BYTES, false) {
                Ok(gap_file) => Some(gap_file),
                Err(failure) => {
                    let _ = mounted.run("closing", volume.close(file));
                    let _ = mounted.remove(&self.name);
                    return Err(failure);
                }
            },
        };
        let recording = self.recording(total_bytes);
        let ended = recording.run(context, mounted, source, file, gap_file);
        volume.set_time(now_ns());
        let mut closed = Ok(());
        for file in [gap_file, Some(file)].into_iter().flatten() {
            let doing = format!("closing `{}`", shown(&self.name));
            closed = closed.and(mounted.run(doing, volume.close(file)));
        }
        let ended = ended?.map_err(|error| self.failure(error))?;
        if ended.report.gaps == 0 && gap_file.is_some() && closed.is_ok() {
            closed = mounted.remove(&self.gaps_name());
        }
        let failure = match (ended.result, &ended.produced.why, closed) {
            (Err(error), ..) => Some(self.failure(error)),
            (Ok(()), _, Err(failure)) => Some(failure),
            _ => None,
        };
        Ok(self.report(mounted, ended, failure))
    }

    fn failure(&self, error: StreamError) -> Failure {
        let doing = format!("recording `{}`", shown(&self.name));
        crate::stream::failure(&doing, error).unwrap_or_else(|error| match error {
            StreamError::Overrun { .. } => Failure::new(Exit::Late, format!("{doing}: {error}"))
                .mend("more --buffers, larger ones, a lower --rate, or --policy drop"),
            error => Failure::usage(format!("{doing}: {error}")),
        })
    }

    /// How much there will be; 0 where that is not known.
    fn total_bytes(&self, source: &Source) -> u64 {
        let by_time = match (self.for_time, self.rate) {
            (Some(time), Some(rate)) => {
                let bytes = time.0.as_nanos() * u128::from(rate.0) / 1_000_000_000;
                Some(u64::try_from(bytes).unwrap_or(u64::MAX))
            }
            _ => None,
        };
        let size = self.size.map(|size| size.0);
        let known = [by_time, size, source.len_bytes()];
        known.into_iter().flatten().min().unwrap_or(0)
    }

    fn recording(&self, total_bytes: u64) -> Recording {
        let clock = TscClock::new();
        let options = RecordOptions {
            deadline_us: micros(self.deadline.0),
            commit_bytes: self.commit_bytes.0,
            commit_us: u64::from(self.commit_ms) * 1_000,
            low_water_bytes: 8 * self.block.0.max(1 << 20),
            reserve_bytes: 64 * self.block.0.max(1 << 20),
            total_bytes: (total_bytes > 0).then_some(total_bytes),
            ..RecordOptions::default()
        };
        let plan = Plan {
            block_bytes: self.block.0 as usize,
            bytes_per_second: self.rate.map(|rate| rate.0),
            total_bytes: self.size.map(|size| size.0),
            total_ticks: self
                .for_time
                .map(|time| block::Clock::ticks_from_us(&clock, micros(time.0))),
        };
        Recording {
            options,
            plan,
            clock,
            buffers: self.buffers,
            acknowledge: self.acknowledge,
        }
    }

    fn report(
        &self,
        mounted: &Mounted<'_, '_>,
        ended: Ended,
        failure: Option<Failure>,
    ) -> (Recorded, Option<Failure>) {
        let counted = &ended.report;
        let (ended_by, of_source) = match ended.produced.why {
            _ if failure.is_some() => ("failed", None),
            Ok(Why::Length) => ("length", None),
            Ok(Why::Source) => ("source", None),
            Ok(Why::Stopped) => ("stopped", None),
            Err(of_source) => ("failed", Some(of_source)),
        };
        let report = Recorded {
            schema_version: SCHEMA_VERSION,
            device: mounted.drive.to_string(),
            path: String::new(),
            name: self.name.clone(),
            ended_by,
            length_bytes: counted.durable_bytes,
            elapsed_us: ended.elapsed_us,
            blocks: counted.blocks,
            misses: counted.misses,
            lateness_max_us: counted.lateness_max_us,
            latency_max_us: counted.latency_max_us,
            latencies: buckets(&counted.latencies),
            buffers: u64::from(self.buffers),
            smallest_buffers: counted.smallest_ring_blocks(),
            smallest_buffer_bytes: counted.smallest_ring_bytes(),
            lost_blocks: counted.lost_blocks,
            lost_bytes: counted.lost_bytes,
            gaps: counted.gaps,
            abandoned_bytes: counted.abandoned_bytes,
            dropped_datagrams: ended.produced.dropped_datagrams,
            tardy_blocks: ended.produced.tardy_blocks,
            retries: counted.retries,
            commits: counted.commits,
            reservations: counted.reservations,
        };
        (report, failure.or(of_source))
    }

    fn say(&self, context: &Context, report: &Recorded) {
        let counted = rate_text(report.length_bytes, report.blocks, report.elapsed_us);
        let say = |text: String| context.console.say(text);
        say(format!("recorded `{}`: {counted}", shown(&self.name)));
        if report.blocks > 0 {
            say(report.latency_text());
            say(ring_text(report.buffers, report.smallest_buffers));
        }
        if report.lost_blocks > 0 {
            let named = match self.policy {
                Policy::Drop => format!("; `{}` names them", shown(&self.gaps_name())),
                Policy::Stop => String::new(),
            };
            say(format!(
                "{} BLOCKS LOST ({} bytes) in {} gaps{named}",
                report.lost_blocks, report.lost_bytes, report.gaps
            ));
        }
        if report.abandoned_bytes > 0 {
            say(format!(
                "{} bytes arrived and COULD NOT BE WRITTEN",
                report.abandoned_bytes
            ));
        }
        if report.dropped_datagrams > 0 {
            say(format!(
                "{} DATAGRAMS LOST in the kernel before they could be read",
                report.dropped_datagrams
            ));
        }
        if report.tardy_blocks > 0 {
            say(format!(
                "{} blocks came later than --rate says",
                report.tardy_blocks
            ));
        }
    }
}

impl Recorded {
    /// Nothing was late and nothing was lost.
    fn is_good(&self) -> bool {
        self.misses == 0 && self.lost_blocks == 0 && self.dropped_datagrams == 0
    }

    fn latency_text(&self) -> String {
        latency_text(
            &self.latencies,
            self.latency_max_us,
            self.misses,
            self.lateness_max_us,
        )
    }
}
