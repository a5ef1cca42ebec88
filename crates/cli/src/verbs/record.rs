//! `straightway record DEVICE NAME`: records a stream into a volume, at its rate, with deadlines.

mod described;

use crate::drive::Drive;
use crate::failure::{Exit, Failure, Result};
use crate::formats::args::{Format, SigmfArgs};
use crate::formats::sigmf::meta_name;
use crate::live::door::Door;
use crate::live::host;
use crate::path::without_fua;
use crate::stream::chain::{Segments, Target};
use crate::stream::place::{From, Place as End};
use crate::stream::producer::{Message, Plan, Produced, Why};
use crate::stream::recording::{Recorded, Recording};
use crate::stream::remote::RemoteVolume;
use crate::stream::report::{Counted, RecordedFile, Rehearsal, buckets};
use crate::stream::segments::files::{Files, Making, gaps_name};
use crate::stream::segments::template::Template;
use crate::stream::segments::{Limit, SegmentArgs};
use crate::stream::source::Source;
use crate::stream::volume_host::VolumeHost;
use crate::stream::{BUFFERS, Streamed, check_block, no_checksums};
use crate::units::{Size, Time, interval_ms, micros, rate};
use crate::verbs::put::check_name;
use crate::volume::{Access, Checksums, Mounted, Route, Store, failed, now_ns, route, shown};
use crate::{Context, SCHEMA_VERSION};
use block::Buffer;
use clap::{Args, ValueEnum};
use linux::TscClock;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stream::{Error as StreamError, RecordOptions, RecordReport};
use volume::Error;

/// Files that are open at the same time: the current one, the one before and the next one, each with its companion; and one that
/// another process reads.
const OPEN_FILES: usize = 7;
/// The name of a rehearsal, until it is removed.
const REHEARSAL: &str = "rehearsal~";
/// Initially reserved space of the companion file.
const GAPS_BYTES: u64 = 64 << 10;

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
there) or tcp://ADDR:PORT (listens there for one sender). A file and the pattern need a --rate: block
n arrives n block times after the start. Blocks of other sources arrive when they are read, with a
--rate not earlier than it allows. The deadline counts from the arrival, so that a lag is noticed.

The recording ends with --size, --for, the source, or Ctrl-C, and is then durable. It is also
made durable every --commit-bytes and --commit-interval; a power cut loses only data after the last
such commit, and --acknowledge prints each commit.

With --append a recording goes on at the end of NAME, after a power cut for example; --size and --for are
what is added. A NAME that does not exist is made. While it records, ls, stat, df and get in other
processes see what is committed, and get --follow sees it grow.

With --policy drop, NAME.gaps has a line of 64 bytes for each gap: the offset in NAME before which
bytes are missing, their number, the arrival time of the first of them (in us, since the first block
of the recording, or of its continuation), and 1. A gap's line is durable before any byte after it. Exit status 7 means that deadlines were missed or blocks were lost.

In NAME, %Y %m %d %H %M %S are the time (UTC) and %% is a %. With --segment the recording goes on in
another file, without a pause, each time one has this size or took this time. %n is the file's
number; without it, .%n is added: NAME.000001. Numbers continue those of the files that the volume
has. Each file has its own NAME.gaps. With --keep the oldest files of this form, those of earlier
recordings too, are removed so that all of them have at most this size, or when the volume is full:
a ring. If the drive is too busy to make the next file in time, the current one becomes longer.

--rehearse writes at the --rate, with the same blocks, buffers, deadline and commits, and says how many
buffers were enough, how long the drive stalled, and how long the free space lasts. A rehearsal
that is killed leaves rehearsal~ behind.

On a volume that was formatted with --checksums the recording has a checksum for each 64 KiB, unless
--no-checksums is given. NAME.gaps has none.

--format sigmf first stores NAME.sigmf-meta, which describes the samples: a power cut leaves none without
it. --format mcap refuses a stream that is not MCAP. --format pcapng records datagrams as packets with
their senders and arrival times, which Wireshark and tcpdump read; no packet crosses the border of a
block, so every segment, and what a power cut leaves, is whole. straightway export makes files for
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
    /// Size of a block and of a buffer
    #[arg(long, value_name = "SIZE", default_value = "1M")]
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

/// The files of a recording, open for writing.
struct Opened<F> {
    file: F,
    gap_file: Option<F>,
    /// Whether they were made for it.
    is_new: bool,
    gaps_are_new: bool,
    /// Where it begins.
    begin_bytes: u64,
}

impl Record {
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
            ..self.clone()
        };
        if let Some(time) = self.rehearse {
            check_block(self.block)?;
            return named.rehearse(context, time);
        }
        named.check()?;
        match is_one {
            true => named.run_named(context),
            false => self.run_named(context),
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

    fn run_named(&self, context: &Context) -> Result<Exit> {
        let drive = Drive::find(&context.roots, &self.device)?;
        Source::refuse_own(&self.from.0, &context.roots, &drive)?;
        let is_raw = self.format == Format::Raw;
        let remote = match self.no_fua || self.append || !is_raw || self.segments.segment.is_some()
        {
            true => None,
            false => RemoteVolume::open(context, &drive, self.route, self.block, self.buffers)?,
        };
        let (report, failure) = match remote {
            Some(mut remote) => self.record(context, &mut remote, RemoteVolume::NAME)?,
            None => {
                self.record_local(context, drive, |host, path| match self.segments.segment {
                    Some(limit) => self.record_segments(context, limit, host, path),
                    None if self.append && host.exists(&self.name)? => {
                        self.record_on(context, host, path)
                    }
                    None => self.record(context, host, path),
                })?
            }
        };
        match self.json {
            true => context.console.json(&report)?,
            false => {
                let gaps = (self.policy == Policy::Drop).then(|| gaps_name(&self.name));
                report.say(&context.console, gaps.as_deref());
            }
        }
        match failure {
            Some(failure) => Err(failure),
            None if report.is_good() => Ok(Exit::Done),
            None => Ok(Exit::Late),
        }
    }

    /// Makes all checks that need no device.
    fn check(&self) -> Result<()> {
        check_name(&self.name)?;
        self.check_format()?;
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
        context: &Context,
        watch: Arc<Mutex<RecordReport>>,
        produce: impl FnOnce(Receiver<Buffer>, &Sender<Message>) -> Produced + Send,
    ) -> Result<(RecordedFile, Option<Failure>)> {
        self.check()?;
        let drive = Drive::find(&context.roots, &self.device)?;
        let total_bytes = self.size.map_or(0, |size| size.0);
        self.record_local(context, drive, |host, path| {
            self.check_new(host)?;
            let files = self.new_files(host, total_bytes)?;
            self.record_into(
                host,
                path,
                total_bytes,
                files,
                |host, recording, file, gaps| {
                    let watch = Some(watch);
                    let recording = Recording { watch, ..recording };
                    let target = Target::File(file, gaps);
                    recording.run_with(context, host, target, |idle, out, _| produce(idle, out))
                },
            )
        })
    }

    fn record_local(
        &self,
        context: &Context,
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

    fn record(
        &self,
        context: &Context,
        host: &mut impl VolumeHost,
        path: &str,
    ) -> Result<(RecordedFile, Option<Failure>)> {
        self.check_new(host)?;
        let source = self.of_format(self.open_source(context, host)?)?;
        let total_bytes = self.total_bytes(&source);
        self.describe(host)?;
        let files = match self.new_files(host, total_bytes) {
            Ok(files) => files,
            Err(failure) => {
                self.remove_description(host);
                return Err(failure);
            }
        };
        let recorded = self.record_into(
            host,
            path,
            total_bytes,
            files,
            |host, recording, file, gaps| host.record(context, &recording, source, file, gaps),
        )?;
        Ok(self.keep(host, recorded))
    }

    /// Records at the end of a file that exists.
    fn record_on(
        &self,
        context: &Context,
        host: &mut &Mounted<'_, '_>,
        path: &str,
    ) -> Result<(RecordedFile, Option<Failure>)> {
        let block_bytes = host.volume.geometry().block_size_bytes();
        self.check_block(block_bytes)?;
        self.refuse_to_continue(host)?;
        let entry = host.find(&self.name)?;
        let begin_bytes = entry.map_or(0, |entry| entry.size_bytes);
        if begin_bytes % block_bytes as u64 != 0 {
            let what = format!(
                "`{}` has {begin_bytes} bytes; a recording can go on only at a multiple of the device's block of {block_bytes}; nothing was recorded",
                shown(&self.name)
            );
            return Err(Failure::usage(what).hint("record under another NAME"));
        }
        let mut source = self.of_format(self.open_source(context, host)?)?;
        source.skip_to(begin_bytes);
        let total_bytes = self.total_bytes(&source);
        context.say(format_args!(
            "goes on at the end of `{}`, at byte {begin_bytes}",
            shown(&self.name)
        ));
        let open = |name: &str| {
            let doing = format!("continuing `{}`", shown(name));
            host.run(doing, host.volume.open_to_write(name))
        };
        host.volume.set_time(now_ns());
        let file = open(&self.name)?;
        let gaps = gaps_name(&self.name);
        let mut gaps_are_new = true;
        let gap_file = match self.policy {
            Policy::Stop => Ok(None),
            Policy::Drop => match host.find(&gaps) {
                Ok(Some(_)) => {
                    gaps_are_new = false;
                    open(&gaps).map(Some)
                }
                Ok(None) => host.create(&gaps, GAPS_BYTES, Checksums::NONE).map(Some),
                Err(failure) => Err(failure),
            },
        };
        let gap_file = match gap_file {
            Ok(gap_file) => gap_file,
            Err(failure) => {
                let _ = host.close(&self.name, file);
                return Err(failure.and("nothing was recorded"));
            }
        };
        let files = Opened {
            file,
            gap_file,
            is_new: false,
            gaps_are_new,
            begin_bytes,
        };
        self.record_into(
            host,
            path,
            total_bytes,
            files,
            |host, recording, file, gaps| host.record(context, &recording, source, file, gaps),
        )
    }

    fn open_source(&self, context: &Context, host: &impl VolumeHost) -> Result<Source> {
        let stop = || context.cancel.is_set() || host.is_recalled();
        Source::open(&self.from.0, &stop).map_err(|failure| match host.is_recalled() {
            true => Failure::missing(format!(
                "{} is being unplugged or unbound; nothing was recorded",
                host.drive()
            )),
            false => failure,
        })
    }

    /// Records into files of the volume, one after another.
    fn record_segments<'a>(
        &self,
        context: &Context,
        limit: Limit,
        mounted: &&Mounted<'_, 'a>,
        path: &str,
    ) -> Result<(RecordedFile, Option<Failure>)> {
        let host: &Mounted<'_, 'a> = mounted;
        self.check_block(host.volume.geometry().block_size_bytes())?;
        let block_bytes = self.block.0;
        if matches!(limit, Limit::Bytes(bytes) if bytes < block_bytes) {
            let what = format!("a segment is shorter than a block of {}", self.block);
            return Err(Failure::usage(what).hint("a longer --segment, or a smaller --block"));
        }
        if let (Limit::Bytes(bytes), Some(keep)) = (limit, self.segments.keep) {
            if keep.0 < bytes.saturating_mul(2) {
                let what = format!(
                    "--keep {keep} has no room for two segments of {}",
                    Size(bytes)
                );
                return Err(Failure::usage(what).hint("the next one is made before one is full"));
            }
        }
        let has_checksums = self.checksums.on(host.volume.status().checksums);
        let making = Making {
            template: Template::parse(&self.name)?.numbered(),
            checksums: has_checksums.ok_or_else(no_checksums)?,
            has_gaps: self.policy == Policy::Drop,
            keep_bytes: self.segments.keep.map(|keep| keep.0),
        };
        let mut files = Files::new(context.console, host, making)?;
        let source = self.of_format(self.open_source(context, mounted)?)?;
        let total_bytes = self.total_bytes(&source);
        let reserve_bytes = match limit {
            Limit::Bytes(bytes) if total_bytes > 0 => bytes.min(total_bytes),
            Limit::Bytes(bytes) => bytes,
            Limit::Time(_) => 0,
        };
        let nothing = |failure: Failure| failure.and("nothing was recorded");
        let first = files.first(reserve_bytes).map_err(nothing)?;
        let target = Target::Segments(Box::new(Segments {
            files,
            limit,
            first,
        }));
        let recording = self.recording(host.drive, total_bytes);
        let ended = recording.run(context, host, source, target)?;
        let mut ended = ended.map_err(nothing)?;
        let closed = std::mem::replace(&mut ended.closed, Ok(()));
        let failure = self.failure_of(&ended, closed);
        Ok(self.report(host.drive, path, 0, ended, failure))
    }

    /// The names that it makes in the volume.
    fn names(&self) -> Vec<String> {
        let mut names = vec![self.name.clone()];
        if self.policy == Policy::Drop {
            names.insert(0, gaps_name(&self.name));
        }
        if self.format == Format::Sigmf {
            names.push(meta_name(&self.name));
        }
        names
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

    /// Refuses a block that the device does not have, and a name that is taken.
    fn check_new(&self, host: &mut impl VolumeHost) -> Result<()> {
        self.check_block(host.block_bytes()?)?;
        for name in &self.names() {
            if host.exists(name)? {
                let failure = failed(format_args!("`{}`", shown(name)), Error::Exists);
                let hint = format!("another NAME, or: straightway rm {} '{name}'", self.device);
                return Err(failure.and("nothing was recorded").hint(hint));
            }
        }
        Ok(())
    }

    /// Makes the files.
    fn new_files<H: VolumeHost>(&self, host: &mut H, total_bytes: u64) -> Result<Opened<H::File>> {
        let file = host.create(&self.name, total_bytes, self.checksums)?;
        let gap_file = match self.policy {
            Policy::Stop => None,
            Policy::Drop => {
                match host.create(&gaps_name(&self.name), GAPS_BYTES, Checksums::NONE) {
                    Ok(gap_file) => Some(gap_file),
                    Err(failure) => {
                        let _ = host.close(&self.name, file);
                        let _ = host.remove(&self.name);
                        return Err(failure);
                    }
                }
            }
        };
        Ok(Opened {
            file,
            gap_file,
            is_new: true,
            gaps_are_new: true,
            begin_bytes: 0,
        })
    }

    /// Records into the files by `record`, and closes them.
    fn record_into<H: VolumeHost>(
        &self,
        host: &mut H,
        path: &str,
        total_bytes: u64,
        files: Opened<H::File>,
        record: impl FnOnce(&mut H, Recording, H::File, Option<H::File>) -> Result<Streamed<Recorded>>,
    ) -> Result<(RecordedFile, Option<Failure>)> {
        let Opened {
            file,
            gap_file,
            is_new,
            gaps_are_new,
            begin_bytes,
        } = files;
        let recording = self.recording(host.drive(), total_bytes);
        let ended = record(host, recording, file, gap_file);
        let mut closed = Ok(());
        for file in [gap_file, Some(file)].into_iter().flatten() {
            closed = closed.and(host.close(&self.name, file));
        }
        let ended = match ended? {
            Ok(ended) => ended,
            Err(failure) => {
                if is_new {
                    let _ = host.remove(&self.name);
                    self.remove_description(host);
                }
                if gaps_are_new && gap_file.is_some() {
                    let _ = host.remove(&gaps_name(&self.name));
                }
                return Err(failure.and("nothing was recorded"));
            }
        };
        if gaps_are_new && ended.report.gaps == 0 && gap_file.is_some() && closed.is_ok() {
            closed = host.remove(&gaps_name(&self.name));
        }
        let failure = self.failure_of(&ended, closed);
        Ok(self.report(host.drive(), path, begin_bytes, ended, failure))
    }

    /// Why the recording ended early, or could not be closed.
    fn failure_of(&self, ended: &Recorded, closed: Result<()>) -> Option<Failure> {
        match (ended.result, closed) {
            (Err(error), _) => {
                let durable_bytes = ended.report.durable_bytes;
                let remark = format_args!("{durable_bytes} bytes of it are durable");
                let last = ended.segments.last().map(|segment| segment.name.as_str());
                let name = last.unwrap_or(&self.name);
                Some(self.failure(name, error).and(remark))
            }
            (Ok(()), Err(failure)) => Some(failure),
            _ => None,
        }
    }

    fn failure(&self, name: &str, error: StreamError) -> Failure {
        let doing = format!("recording `{}`", shown(name));
        crate::stream::failure(&doing, error).unwrap_or_else(|error| match error {
            StreamError::Overrun { .. } => Failure::new(Exit::Late, format!("{doing}: {error}"))
                .hint("more --buffers, larger ones, a lower --rate, or --policy drop"),
            error => Failure::usage(format!("{doing}: {error}")),
        })
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

    fn recording(&self, drive: &Drive, total_bytes: u64) -> Recording {
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
            watch: None,
            door: Door::open(drive),
        }
    }

    fn report(
        &self,
        drive: &Drive,
        path: &str,
        begin_bytes: u64,
        ended: Recorded,
        failure: Option<Failure>,
    ) -> (RecordedFile, Option<Failure>) {
        let counted = &ended.report;
        let (ended_by, of_source) = match ended.produced.why {
            _ if failure.is_some() => ("failed", None),
            Ok(Why::Length) => ("length", None),
            Ok(Why::Source) => ("source", None),
            Ok(Why::Stopped) => ("stopped", None),
            Err(of_source) => ("failed", Some(of_source)),
        };
        let report = RecordedFile {
            counted: Counted {
                schema_version: SCHEMA_VERSION,
                device: drive.to_string(),
                path: path.to_owned(),
                name: self.name.clone(),
                length_bytes: counted.durable_bytes.saturating_sub(begin_bytes),
                elapsed_us: ended.elapsed_us,
                blocks: counted.blocks,
                misses: counted.misses,
                lateness_max_us: counted.lateness_max_us,
                latency_max_us: counted.latency_max_us,
                latencies: buckets(&counted.latencies),
                buffers: u64::from(ended.buffers),
                smallest_buffers: counted.smallest_ring_blocks(),
                retries: counted.retries,
            },
            ended_by,
            begin_bytes,
            smallest_buffer_bytes: counted.smallest_ring_bytes(),
            lost_blocks: counted.lost_blocks,
            lost_bytes: counted.lost_bytes,
            gaps: counted.gaps,
            abandoned_bytes: counted.abandoned_bytes,
            dropped_datagrams: ended.produced.dropped_datagrams,
            tardy_blocks: ended.produced.tardy_blocks,
            commits: counted.commits,
            reservations: counted.reservations,
            segments: ended.segments,
            removed_segments: ended.removed_segments,
            rehearsal: None,
        };
        (report, failure.or(of_source))
    }
}
