//! `straightway record DEVICE NAME`: records a stream into a volume, at its rate, with deadlines.

mod described;
mod feed;
mod files;
mod outcome;
mod segmented;
mod senders;

use crate::Context;
use crate::console::Console;
use crate::formats::args::{Format, SigmfArgs};
use devices::drive::Drive;
use devices::failure::{Exit, Failure, Result};
use devices::path::without_fua;
use live::host;

use crate::stream::place::{From, Place as End};
use crate::stream::producer::Plan;
use crate::stream::recording::{Acknowledge, Recording};
use crate::stream::remote::RemoteVolume;
use crate::stream::report::{RecordedFile, Rehearsal, network_stall_text};
use crate::stream::segments::SegmentArgs;
use crate::stream::segments::files::gaps_name;
use crate::stream::segments::template::Template;
use crate::stream::senders::Sender;
use crate::stream::source::{Source, next_sender};
use crate::stream::volume_host::VolumeHost;
use crate::stream::{BUFFERS, check_block};
use crate::verbs::put::check_name;
use ::files::{Access, Checksums, Mounted, Route, Store, now_ns, route, warn_of_misfit};
use clap::{Args, ValueEnum};
use feed::{Feed, Produce};
use linux::TscClock;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stream::{RecordOptions, RecordReport};
use units::{Size, Time, interval_ms, micros, rate};

/// Files that are open at the same time: the current one, the one before and the next one, each with its companion; and one that
/// another process reads.
const OPEN_FILES: usize = 7;
/// The name of a rehearsal, until it is removed.
const REHEARSAL: &str = "rehearsal~";

/// What happens to a block if no buffer is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Policy {
    /// The recording ends; the blocks before it are kept
    Stop,
    /// The block is dropped, and NAME.gaps records where and how much
    Drop,
}

/// Record a stream into a volume at its rate.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
SOURCE is stdin, a file, pattern (each eight bytes hold their own offset), udp://ADDR:PORT (bound
there) or tcp://ADDR:PORT (listens there for one sender, and for another when it has left; with --once it ends
then). With --format sigmf or mcap another sender is another recording: with --segment it begins the next segment, with
a report of its own and --acknowledge from 0, and until it comes the volume is free for other processes; without,
the first one ends the recording. A file and the pattern need a --rate: block
n arrives n block times after the start. Blocks of other sources arrive when they are read, with a
--rate not earlier than it allows. The deadline counts from the arrival, so that a lag is noticed.

The recording ends with --size, --for, the source, or Ctrl-C, and is then durable. It is also
made durable every --commit-bytes and --commit-interval; a power cut loses only data after the last
such commit, and --acknowledge prints each commit. A block that is not full after --commit-interval
is written as far as it is, in multiples of 4 KiB, so a slow stream is durable within two intervals,
but for its last bytes; not with a --rate, on a coprocessor, or for samples with --policy drop.

With --append a recording goes on at the end of NAME, after a power cut for example; --size and --for are
what is added. A NAME that does not exist is made. While it records, ls, stat, df, get, cat and
export in other processes see what is committed, and get --follow sees it grow.

With --policy drop, NAME.gaps has a line of 64 bytes for each gap: the offset in NAME before which
bytes are missing, their number, the arrival time of the first of them (in us, since the first block
of the recording, or of its continuation), and 1. A gap's line is durable before any byte after it. With 0
missing bytes it says that the recording goes on there; lines before it with a larger offset are of bytes
that a power cut took. Exit status 7 means that deadlines were missed, or blocks or datagrams were lost; the first loss is
said at once, others at most once a minute.

In NAME, %Y %m %d %H %M %S are the time (UTC) and %% is a %. With --segment the recording goes on in
another file, without a pause, each time one has this size or took this time. %n is the file's
number; without it, .%n is added: NAME.000001. Numbers continue those of the files that the volume
has. Each file has its own NAME.gaps. With --keep the oldest files of this form, those of earlier
recordings too, are removed so that all of them have at most this size, or when the volume is full:
a ring. If the drive is too busy to make the next file in time, the current one becomes longer. --keep may be
more than is free: a ring ends for want of space only if none of its files is left to remove.

--rehearse writes at the --rate, with the same blocks, buffers, deadline and commits, and says how many
buffers were enough, how long the drive stalled, and how long the free space lasts. A rehearsal
that is killed leaves rehearsal~ behind.

On a volume that was formatted with --checksums the recording has a checksum for each 64 KiB, unless
--no-checksums is given. NAME.gaps has none.

--format sigmf first stores NAME.sigmf-meta, which describes the samples: a power cut leaves none without
it. With --append it has another capture, with the time and the --frequency of what is added; the other
options may be left out. --format mcap refuses a stream that is not MCAP. With --append, or in further segments,
another stream begins, and NAME.gaps has a line with 0 missing bytes there. Both describe all segments of a
--segment together: export DEVICE 'NAME.0*' FILE, or one segment. With --keep the segment that is now the oldest gets
the description before the one in front of it is removed, as NAME.000002.sigmf-meta. MCAP has no --keep: its channels
are named once, at the beginning, which a ring removes. --format pcapng records datagrams as packets with
their senders, destinations and the kernel's arrival times, which Wireshark and tcpdump read; no packet crosses the
border of a block, so every segment, and what a power cut leaves, is whole. A datagram that is longer than a block is cut.
What was dropped by the kernel is counted in the file. straightway export makes files for
other tools.

A coprocessor records streams itself, with at most 15 buffers in the shared memory; with
--path coprocessor, a --mode, --no-fua or more buffers this processor records them, by writing blocks.")]
pub struct Record {
    /// The device with the volume
    pub device: String,
    /// The recording's name in the volume: 1 to 64 bytes; %Y%m%d-%H%M%S is the time
    pub name: String,
    /// Bytes per second
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate: Option<Size>,
    /// Time limit for writing a block after its arrival
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    pub deadline: Time,
    /// Size of a block and of a buffer [default: 1M, or the most below it that has whole samples]
    #[arg(long = "block", value_name = "SIZE")]
    pub given_block: Option<Size>,
    /// The same, of the recording.
    #[arg(skip = Self::USUAL_BLOCK)]
    pub block: Size,
    /// Number of buffers [default: 16, or 15 if a coprocessor records]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=4096))]
    pub buffers: Option<u16>,
    /// How long to record
    #[arg(long = "for", value_name = "TIME")]
    pub for_time: Option<Time>,
    /// How much to record; its space is reserved at the beginning
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Size>,
    /// Go on at the end of NAME, if the volume has it
    #[arg(long, conflicts_with_all = ["segment", "rehearse"])]
    pub append: bool,
    /// Where to record from
    #[arg(long, value_name = "SOURCE", default_value = "stdin")]
    pub from: From,
    /// End when the sender of a tcp:// source leaves, instead of listening again; for samples and messages without --segment it does
    #[arg(long)]
    pub once: bool,
    /// What happens to a block if no buffer is empty
    #[arg(long, value_enum, default_value = "stop")]
    pub policy: Policy,
    /// Make the recording durable each time this many bytes are written
    #[arg(long, value_name = "SIZE", default_value = "64M")]
    pub commit_bytes: Size,
    /// Make the recording durable this long after a byte was written: 200ms, 1s
    #[arg(long = "commit-interval", alias = "commit-ms", value_name = "TIME", default_value = "1s", value_parser = interval_ms)]
    pub commit_ms: u32,
    /// Record the pattern for this time instead, remove it, and tell whether the drive holds the rate
    #[arg(long, value_name = "TIME", conflicts_with = "acknowledge")]
    pub rehearse: Option<Time>,
    /// What it is for other tools, for `export`; the stream itself is stored unchanged
    #[arg(long, value_enum, default_value = "raw")]
    pub format: Format,
    /// What SigMF says of samples
    #[command(flatten)]
    pub sigmf: SigmfArgs,
    /// Segments
    #[command(flatten)]
    pub segments: SegmentArgs,
    /// Checksums of the recording
    #[command(flatten)]
    pub checksums: Checksums,
    /// Print a line `durable BYTES` to standard output whenever more is durable
    #[arg(long, conflicts_with = "json")]
    pub acknowledge: bool,
    /// Flush instead of using force unit access: for drives that accept its flag and ignore it
    #[arg(long)]
    pub no_fua: bool,
    /// The path
    #[command(flatten)]
    pub route: Route,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl Record {
    const USUAL_BLOCK: Size = Size(1 << 20);

    /// Runs the verb.
    ///
    /// # Errors
    /// The source, the device or the volume failed, or the drive did not keep up.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let template = Template::parse(&self.name)?;
        let is_one = self.segments.segment.is_none();
        if is_one && template.has_number() {
            return Err(Failure::usage("%n is the number of a segment")
                .hint("record in segments with --segment SIZE, or write %%n"));
        }
        let example = match is_one {
            true => template.name(Duration::from_nanos(now_ns()), 0),
            // The longest number for a long time.
            false => template
                .numbered()
                .name(Duration::from_nanos(now_ns()), 9_999_999),
        };
        let named = Self {
            name: example,
            block: self.given_block.unwrap_or(Self::USUAL_BLOCK),
            ..self.clone()
        };
        let named = named.with_whole_samples();
        if let Some(time) = self.rehearse {
            check_block(named.block)?;
            return named.rehearse(context, time);
        }
        named.check(false)?;
        warn_of_misfit(context, &named.name);
        match is_one {
            true => named.run_named(context),
            // Each segment has its own name.
            false => Self {
                name: self.name.clone(),
                ..named
            }
            .run_named(context),
        }
    }

    /// Records the pattern as the recording would be, and removes it again.
    fn rehearse(&self, context: &Context, time: Time) -> Result<Exit> {
        let rate = self.rate.filter(|rate| rate.0 > 0).ok_or_else(|| {
            Failure::usage("--rehearse needs the --rate of the recording").hint("--rate 100M")
        })?;
        let rehearsal = Self {
            name: REHEARSAL.to_owned(),
            from: From(End::Pattern),
            for_time: Some(time),
            size: None,
            // To see how much would be lost.
            policy: Policy::Drop,
            format: Format::Raw,
            segments: SegmentArgs::NONE,
            ..self.clone()
        };
        let drive = Drive::find(&context.roots, &self.device)?;
        let network_stall_s = drive.longest_stall_s();
        let mut free_bytes = 0;
        let recorded = rehearsal.record_local(context, drive, |host, path| {
            let recorded = rehearsal.record(context, host, path)?;
            for name in rehearsal.names() {
                if host.exists(&name)? {
                    VolumeHost::remove(host, &name)?;
                }
            }
            let free = host.run("reading the free space", host.volume.free_units())?;
            free_bytes = free * host.volume.status().shape.unit_bytes();
            Ok(recorded)
        });
        let (mut report, failure) = recorded?;
        if let Some(failure) = failure {
            return Err(failure);
        }
        let found = Rehearsal {
            holds: report.is_good(),
            bytes_per_second: rate.0,
            free_bytes,
            lasts_s: free_bytes / rate.0,
            network_stall_s,
            network_stall_buffers: self.buffers_for(network_stall_s, rate.0),
        };
        match self.json {
            true => {
                report.rehearsal = Some(found);
                context.console.json(&report)?;
            }
            false => {
                let verdict = report.verdict(&found);
                context.console.print_outcome(&format!("{verdict}\n"))?;
            }
        }
        Ok(match report.is_good() {
            true => Exit::Done,
            false => Exit::Late,
        })
    }

    /// Buffers that hold what arrives in a time, and one that is being filled.
    const fn buffers_for(&self, time_s: u64, bytes_per_second: u64) -> u64 {
        match time_s {
            0 => 0,
            _ => {
                time_s
                    .saturating_mul(bytes_per_second)
                    .div_ceil(self.block.0)
                    + 1
            }
        }
    }

    /// Warns if a loss of the network would overrun the buffers.
    fn warn_of_stalls(&self, context: &Context, drive: &Drive) {
        let Some(rate) = self.rate.filter(|rate| rate.0 > 0) else {
            return;
        };
        let stall_s = drive.longest_stall_s();
        let needed = self.buffers_for(stall_s, rate.0);
        let buffers = u64::from(self.buffers.unwrap_or(BUFFERS));
        if let Some(text) = network_stall_text(stall_s, needed, buffers) {
            context.console.say(format_args!("warning: {text}"));
        }
    }

    fn run_named(&self, context: &Context) -> Result<Exit> {
        let drive = Drive::find(&context.roots, &self.device)?;
        self.warn_of_stalls(context, &drive);
        Source::refuse_own(&self.from.0, &context.roots, &drive)?;
        if let Some(address) = self.address_of_senders() {
            return self.run_each_sender(context, address);
        }
        let is_raw = self.format == Format::Raw;
        let remote = match self.no_fua || self.append || !is_raw || self.segments.segment.is_some()
        {
            true => None,
            false => RemoteVolume::open(context, &drive, self.route, self.block, self.buffers)?,
        };
        let (report, failure) = match remote {
            Some(mut remote) => self.record(context, &mut remote, RemoteVolume::NAME)?,
            None => self.record_here(context, drive, Feed::Named)?,
        };
        self.print(context, &report)?;
        if report.ended_by == "source" && self.ends_with_sender() {
            context.say(
                "the sender left, which ends a recording with --format in one file (hint: with --segment SIZE|TIME the next sender begins the next segment)",
            );
        }
        match failure {
            Some(failure) => Err(failure),
            None if report.is_good() => Ok(Exit::Done),
            None => Ok(Exit::Late),
        }
    }

    fn print(&self, context: &Context, report: &RecordedFile) -> Result<()> {
        match self.json {
            true => context.console.json(report),
            false => {
                let gaps = (self.policy == Policy::Drop).then(|| gaps_name(&self.name));
                report.say(&context.progress, gaps.as_deref());
                Ok(())
            }
        }
    }

    /// Makes all checks that need no device.
    fn check(&self, drops_messages: bool) -> Result<()> {
        check_name(&self.name)?;
        self.check_format(drops_messages)?;
        if self.policy == Policy::Drop {
            check_name(&gaps_name(&self.name)).map_err(|failure| {
                failure.and("with --policy drop, NAME.gaps must also be a valid name")
            })?;
        }
        let is_scheduled = match &self.from.0 {
            End::Pattern => true,
            // A FIFO or a terminal has its own pace.
            End::File(path) => std::fs::metadata(path).is_ok_and(|data| data.is_file()),
            _ => false,
        };
        if is_scheduled && self.rate.is_none_or(|rate| rate.0 == 0) {
            return Err(
                Failure::usage("--rate is required for a file and for the pattern")
                    .hint("--rate 100M, or straightway put for a file at full speed"),
            );
        }
        check_block(self.block)?;
        Ok(())
    }

    /// Records the blocks that `produce` sends, for a program that is not the command; `watch` has the counters.
    ///
    /// # Errors
    /// The recording did not begin. The inner failure: it ended early.
    pub fn record_blocks(
        &self,
        context: &devices::Context,
        watch: Arc<Mutex<RecordReport>>,
        produce: Produce<'_>,
    ) -> Result<(RecordedFile, Option<Failure>)> {
        self.check(true)?;
        let drive = Drive::find(&context.roots, &self.device)?;
        self.record_here(context, drive, Feed::Program(watch, produce))
    }

    /// Records on a volume that this process mounts: in segments, at the end of a file, or a new file.
    fn record_here(
        &self,
        context: &devices::Context,
        drive: Drive,
        feed: Feed<'_>,
    ) -> Result<(RecordedFile, Option<Failure>)> {
        self.record_local(context, drive, |host, path| match self.segments.segment {
            Some(limit) => self.record_segments(context, limit, host, path, feed),
            None if self.append && host.exists(&self.name)? => {
                let fitted = self.with_blocks_of(context, host)?;
                fitted.record_on(context, host, path, feed)
            }
            None => self.record_new(context, host, path, feed),
        })
    }

    fn record_local(
        &self,
        context: &devices::Context,
        drive: Drive,
        record: impl FnOnce(&mut &Mounted<'_, '_>, &str) -> Result<(RecordedFile, Option<Failure>)>,
    ) -> Result<(RecordedFile, Option<Failure>)> {
        let buffers = self.buffers.unwrap_or(BUFFERS);
        let io = self.route.with_buffers(self.block.0, buffers);
        let mut options = route::open_options(&io, true);
        // The whole ring, whatever is in flight.
        options.buffer_bytes += (self.block.0 as usize + 4096) * usize::from(buffers);
        options.buffer_bytes += host::BUFFER_BYTES;
        let mut store = Store::of(context, drive, &options)?;
        if self.no_fua {
            store.opened.device = without_fua::wrap(store.opened.device);
        }
        let path = store.opened.name.clone();
        context.say(format_args!("path: {path}"));
        let mut recorded = None;
        let unmounted = store.mount_for(Access::Write, OPEN_FILES, |mounted| {
            recorded = Some(record(&mut { mounted }, &path)?);
            Ok(())
        });
        let closed = store.close(unmounted);
        match recorded {
            // The first failure is the cause: the volume and the drive fail again when they are
            // closed.
            Some((report, Some(failure))) => Ok((report, Some(failure))),
            Some(recorded) => closed.map(|()| recorded),
            None => Err(closed
                .err()
                .unwrap_or_else(|| Failure::other("the recording did not begin"))),
        }
    }

    /// Waits until the source has bytes, or has ended.
    fn wait_for_first(
        &self,
        context: &devices::Context,
        host: &impl VolumeHost,
        source: &Source,
    ) -> Result<()> {
        let stop = || context.cancel.is_set() || host.is_recalled();
        match source.wait_ready(&stop)? {
            true => Ok(()),
            false if host.is_recalled() => Err(unplugged(host)),
            false => Err(Failure::interrupted(
                "interrupted before the first sample came; nothing was recorded",
            )),
        }
    }

    fn open_source(&self, context: &devices::Context, host: &impl VolumeHost) -> Result<Source> {
        let stop = || context.cancel.is_set() || host.is_recalled();
        // What another sender sent would begin inside a sample, or as another stream: in segments each begins its own.
        let is_once = self.once || self.format != Format::Raw;
        Source::open(&self.from.0, is_once, &stop).map_err(|failure| match host.is_recalled() {
            true => unplugged(host),
            false => failure,
        })
    }

    fn first_sender(
        &self,
        context: &devices::Context,
        host: &impl VolumeHost,
        listener: &TcpListener,
    ) -> Result<TcpStream> {
        let stop = || context.cancel.is_set() || host.is_recalled();
        let address = self.address_of_senders().unwrap_or_default();
        let sender = next_sender(listener, address, &stop);
        sender.map_err(|failure| match host.is_recalled() {
            true => unplugged(host),
            false => failure,
        })
    }

    fn sender(&self, stream: TcpStream) -> Source {
        let address = self.address_of_senders().unwrap_or_default();
        Source::Stream(Box::new(Sender(stream)), address.to_owned())
    }

    /// Refuses a block that the device does not have.
    fn check_block(&self, device_block: usize) -> Result<()> {
        if self.block.0 % device_block as u64 == 0 {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "--block is {} bytes, not a multiple of the device's block of {device_block}",
            self.block.0
        )))
    }

    /// The expected length; 0 if unknown.
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

    /// `ring_bytes`: what a ring may take of the volume.
    fn recording(&self, total_bytes: u64, ring_bytes: Option<u64>) -> Recording {
        let clock = TscClock::new();
        let (low_water_bytes, reserve_bytes) = match ring_bytes {
            // Enough for what is in the buffers when all space is used up; the oldest segments are removed for it.
            Some(ring_bytes) => {
                let buffers = u64::from(self.buffers.unwrap_or(BUFFERS));
                let most = (ring_bytes / 4).max(self.block.0);
                let low_water_bytes = (buffers + 8).saturating_mul(self.block.0).min(most);
                (low_water_bytes, (32 * self.block.0).min(most))
            }
            None => {
                let block = self.block.0.max(1 << 20);
                (8 * block, 64 * block)
            }
        };
        let options = RecordOptions {
            deadline_us: micros(self.deadline.0),
            commit_bytes: self.commit_bytes.0,
            commit_us: u64::from(self.commit_ms) * 1_000,
            low_water_bytes,
            reserve_bytes,
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
            // A dropped block behind the rest of another would begin inside a sample.
            most_wait_ticks: match (self.format, self.policy) {
                (Format::Sigmf, Policy::Drop) => None,
                _ => Some(block::Clock::ticks_from_us(&clock, options.commit_us)),
            },
        };
        Recording {
            options,
            plan,
            clock,
            buffers: self.buffers,
            acknowledge: self.acknowledge.then_some(print_durable as Acknowledge),
            watch: None,
            tally: Arc::default(),
            can_wait: false,
        }
    }
}

fn unplugged(host: &impl VolumeHost) -> Failure {
    Failure::missing(format!(
        "{} is being unplugged or unbound; nothing was recorded",
        host.drive()
    ))
}

/// `--acknowledge`: a line for each commit.
///
/// # Errors
/// Standard output was closed.
fn print_durable(durable_bytes: u64) -> Result<()> {
    Console::default().print(&format!("durable {durable_bytes}\n"))
}
