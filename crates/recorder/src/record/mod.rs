// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recording from its settings: which files it makes, from what, and what became of it.
//!
//! | module | contents |
//! | --- | --- |
//! | `feed` | what the blocks come from |
//! | `files` | the files of a recording: made or continued, recorded into, closed |
//! | `segmented` | a recording in segments |
//! | `senders` | senders one after another, each with segments of its own |
//! | `described` | what is stored beside it for other tools |
//! | `rehearsal` | the same with the pattern, to learn whether the drive holds the rate |
//! | `outcome` | what became of it |

pub(crate) mod described;
mod feed;
mod files;
mod outcome;
mod rehearsal;
mod segmented;
mod senders;

pub use feed::Produce;

use crate::manager::Manager;
use crate::place::{From, Place as End};
use crate::producer::Plan;
use crate::recording::{Acknowledge, Recording};
use crate::remote::RemoteVolume;
use crate::report::{RecordedFile, network_stall_text};
use crate::segments::files::{GAPS, gaps_name};
use crate::segments::template::Template;
use crate::segments::{Limit, Segmentation};
use crate::senders::Sender;
use crate::source::{Source, next_sender};
use crate::volume_host::VolumeHost;
use crate::{BUFFERS, check_block, check_buffers};
use ::files::names::check_name;
use ::files::{Access, Checksums, Mounted, Route, Store, now_ns, route, shown, warn_of_misfit};
use devices::Context;
use devices::drive::Drive;
use devices::error::{Error, ErrorKind, Result};
use devices::path::without_fua;
use feed::Feed;
use formats::sigmf::META;
use formats::{Format, SigmfOptions};
use linux::TscClock;
use live::host;
use remedy::{Remedy, Setting, Value, words};
use std::cell::Cell;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use stream::{RecordOptions, RecordReport};
use units::{Size, Time, micros};

/// Files that are open at the same time: the current one, the one before and the next one, each
/// with its companion; and one that another process reads.
const OPEN_FILES: usize = 7;

/// What happens to a block if no buffer is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The recording ends; the blocks before it are kept.
    Stop,
    /// The block is dropped, and `NAME.gaps` records where and how much.
    Drop,
    /// A program that hands messages in waits for a buffer. Other sources do not.
    Wait,
}

/// What is recorded, from where, and how. A program that hands its messages in needs neither a rate
/// nor a place to record from.
#[derive(Clone, Debug)]
pub struct RecordSettings {
    /// The name of the device with the volume.
    pub device: String,
    /// The recording's name in the volume, or a template of names.
    pub name: String,
    /// Bytes per second, if the source has no rate of its own.
    pub rate: Option<Size>,
    /// Time limit for writing a block after its arrival.
    pub deadline: Time,
    /// Whether the user gave the deadline, so that a rehearsal that misses it does not hold.
    pub has_deadline: bool,
    /// Size of a block and of a buffer, if the user gave one.
    pub given_block: Option<Size>,
    /// Size of a block and of a buffer: as given, or determined when the recording begins.
    pub block: Size,
    /// Number of buffers, 2 to 4096, if the user gave one.
    pub buffers: Option<u16>,
    /// How long to record.
    pub for_time: Option<Time>,
    /// How much to record; its space is reserved at the beginning.
    pub size: Option<Size>,
    /// Whether it goes on at the end of the file, if the volume has it.
    pub append: bool,
    /// Where to record from.
    pub from: From,
    /// Whether it ends when the sender of a connection leaves.
    pub once: bool,
    /// What happens to a block if no buffer is empty.
    pub policy: Policy,
    /// It is made durable each time this many bytes are written.
    pub commit_bytes: Size,
    /// It is made durable this long after a byte was written, in milliseconds.
    pub commit_ms: u32,
    /// What it is for other tools.
    pub format: Format,
    /// What SigMF says of samples.
    pub sigmf: SigmfOptions,
    /// Segments.
    pub segments: Segmentation,
    /// Whether the recording has checksums.
    pub checksums: Checksums,
    /// Is told whenever more is durable.
    pub acknowledge: Option<Acknowledge>,
    /// The service manager that is told how the recording goes.
    pub manager: Option<Arc<Manager>>,
    /// Whether the drive is flushed instead of trusting its force unit access.
    pub no_fua: bool,
    /// The path to the device.
    pub route: Route,
}

impl RecordSettings {
    /// The usual size of a block.
    pub const USUAL_BLOCK: Size = Size(1 << 20);

    /// A recording `name` on the volume of `device`, from standard input: 16 blocks of 1 MiB, a
    /// deadline of 100 ms, durable every 64 MiB and every second. It is one new file of bytes, and
    /// ends at the first block that finds no buffer.
    pub fn new(device: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            device: device.into(),
            name: name.into(),
            rate: None,
            deadline: Time(Duration::from_millis(100)),
            has_deadline: false,
            given_block: None,
            block: Self::USUAL_BLOCK,
            buffers: None,
            for_time: None,
            size: None,
            append: false,
            from: From(End::Standard),
            once: false,
            policy: Policy::Stop,
            commit_bytes: Size(64 << 20),
            commit_ms: 1_000,
            format: Format::Raw,
            sigmf: SigmfOptions::default(),
            segments: Segmentation::NONE,
            checksums: Checksums::default(),
            acknowledge: None,
            manager: None,
            no_fua: false,
            route: Route::default(),
        }
    }

    /// The same with the names of its files and the size of its blocks determined, after all checks
    /// that need no device.
    ///
    /// # Errors
    /// The settings are invalid or contradict one another.
    pub fn named(&self) -> Result<Self> {
        let template = Template::parse(&self.name)?;
        let is_one = self.segments.segment.is_none();
        if is_one && template.has_number() {
            return Err(Error::usage("%n is the number of a segment").hint(words![
                "record in segments with ",
                Setting::Segment.to(Value::choice("SIZE")),
                ", or write %%n"
            ]));
        }
        let example = if is_one {
            template.name(Duration::from_nanos(now_ns()), 0)
        } else {
            // The longest number for a long time.
            template
                .numbered()
                .name(Duration::from_nanos(now_ns()), 9_999_999)
        };
        let named = Self {
            name: example,
            block: self.given_block.unwrap_or(Self::USUAL_BLOCK),
            rate: self
                .rate
                .or_else(|| self.rate_of_samples().filter(|_| self.is_scheduled())),
            ..self.clone()
        };
        Ok(named.with_whole_samples())
    }

    /// Records until the source ends, or the length or the time is reached, or the context is
    /// cancelled. `each` gets what became of each recording: of the only one, or of each sender's.
    /// Returns whether all was in time and whole.
    ///
    /// # Errors
    /// A recording did not begin, or ended early.
    pub fn record(
        &self,
        context: &Context,
        each: &mut dyn FnMut(&RecordedFile) -> Result<()>,
    ) -> Result<bool> {
        let named = self.named()?;
        named.check(false)?;
        warn_of_misfit(context, &named.name);
        if [GAPS, META].iter().any(|end| named.name.ends_with(end)) {
            context.say(format_args!(
                "warning: commands take `{0}` for what belongs to the recording whose name is before `.`; \
                 straightway mv renames it",
                shown(&named.name)
            ));
        }
        match self.segments.segment {
            None => named.record_named(context, each),
            // Each segment has its own name.
            Some(_) => Self {
                name: self.name.clone(),
                ..named
            }
            .record_named(context, each),
        }
    }

    fn record_named(
        &self,
        context: &Context,
        each: &mut dyn FnMut(&RecordedFile) -> Result<()>,
    ) -> Result<bool> {
        let drive = Drive::find(&context.roots, &self.device)?;
        self.warn_of_stalls(context, &drive);
        Source::refuse_own(&self.from.0, &context.roots, &drive)?;
        if let Some(address) = self.address_of_senders() {
            return self.record_each_sender(context, address, each);
        }
        let is_raw = self.format == Format::Raw;
        let remote = if self.no_fua || self.append || !is_raw || self.segments.segment.is_some() {
            None
        } else {
            RemoteVolume::open(context, &drive, self.route, self.block, self.buffers)?
        };
        let (report, failure) = match remote {
            Some(mut remote) => self.record_bytes(context, &mut remote, RemoteVolume::NAME)?,
            None => self.record_here(context, drive, Feed::Named)?,
        };
        each(&report)?;
        if let Some(failure) = failure {
            return Err(failure);
        }
        if report.nothing_came {
            let what = words![
                format!("nothing came from {}; nothing was ", self.from),
                if self.append { "added" } else { "recorded" }
            ];
            if report.ended_by == "stopped" {
                context.say(what);
                return Ok(true);
            }
            return Err(Error::other(what).hint(self.hint_of_silence()));
        }
        let is_short = match self.size {
            Some(size) => report.counted.length_bytes < size.0,
            None => self.for_time.is_some(),
        };
        if report.ended_by == "source" && is_short {
            context.say("the source ended before what was to be recorded was reached");
        }
        if report.ended_by == "source" && self.ends_with_sender() {
            context.say(words![
                "the sender left, which ends a recording with ",
                Setting::Format,
                " in one file (hint: with ",
                Setting::Segment.to(Value::choice("SIZE|TIME")),
                " the next sender begins the next segment)"
            ]);
        }
        Ok(report.is_good())
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
        let rate = self.rate.or_else(|| self.rate_of_samples());
        let Some(rate) = rate.filter(|rate| rate.0 > 0) else {
            return;
        };
        let stall_s = drive.longest_stall_s();
        let needed = self.buffers_for(stall_s, rate.0);
        let buffers = u64::from(self.buffers.unwrap_or(BUFFERS));
        if let Some(text) = network_stall_text(stall_s, needed, buffers) {
            context.say(words!["warning: ", text]);
        }
    }

    /// Makes all checks that need no device.
    fn check(&self, drops_messages: bool) -> Result<()> {
        check_name(&self.name)?;
        check_buffers(self.buffers, 2)?;
        self.check_segments()?;
        for hertz in [self.sigmf.sample_rate, self.sigmf.frequency] {
            if let Some(wrong) = hertz.filter(|hertz| !(hertz.0.is_finite() && hertz.0 >= 0.0)) {
                let what = format!("{} is not a frequency", wrong.0);
                return Err(Error::usage(what).hint("in hertz"));
            }
        }
        self.check_format(drops_messages)?;
        if self.policy == Policy::Drop {
            check_name(&gaps_name(&self.name)).map_err(|failure| {
                failure.and(words![
                    "with ",
                    Setting::Policy.to("drop"),
                    ", NAME.gaps must also be a valid name"
                ])
            })?;
        }
        if self.is_scheduled() && self.rate.is_none_or(|rate| rate.0 == 0) {
            return Err(Error::usage(words![
                Setting::Rate,
                " is required for a file and for the pattern"
            ])
            .hint(words![
                Setting::Rate.to(Value::Bytes(100 << 20)),
                ", or straightway put for a file at full speed"
            ]));
        }
        check_block(self.block)?;
        Ok(())
    }

    /// Whether blocks come at the rate, as the source has no pace of its own.
    fn is_scheduled(&self) -> bool {
        match &self.from.0 {
            End::Pattern => true,
            // A FIFO or a terminal has its own pace.
            End::File(path) => std::fs::metadata(path).is_ok_and(|data| data.is_file()),
            _ => false,
        }
    }

    fn check_segments(&self) -> Result<()> {
        match (self.segments.segment, self.segments.keep) {
            (None, Some(_)) => Err(Error::usage("only segments can be a ring")
                .hint("give their size, or how long one goes on")),
            (Some(_), _) if self.append => Err(Error::usage("segments go on in another file")
                .hint("do not append; the numbers of the segments continue")),
            (Some(Limit::Bytes(0)), _) => Err(Error::usage("a segment has at least a block")),
            (Some(Limit::Time(time)), _) if time.0.is_zero() => {
                Err(Error::usage("a segment takes some time"))
            }
            _ => Ok(()),
        }
    }

    /// The same for a program, whose name is no template: it has its size of a block.
    ///
    /// # Errors
    /// The settings are invalid or contradict one another.
    pub fn of_program(&self) -> Result<Self> {
        if self.format == Format::Pcapng {
            return Err(unknown_format(self.format.name()));
        }
        let block = self.given_block.unwrap_or(Self::USUAL_BLOCK);
        let settings = Self {
            name: match self.segments.segment {
                Some(_) => self.name.replace('%', "%%"),
                None => self.name.clone(),
            },
            given_block: Some(block),
            block,
            ..self.clone()
        };
        settings.check(true)?;
        Ok(settings)
    }

    /// Records the blocks that `produce` sends, for a program that is not the command; `watch` has
    /// the counters. These settings are those of [`of_program`](Self::of_program).
    ///
    /// # Errors
    /// The recording did not begin. The inner failure: it ended early.
    pub fn record_blocks(
        &self,
        context: &Context,
        watch: Arc<Mutex<RecordReport>>,
        produce: Produce<'_>,
    ) -> Result<(RecordedFile, Option<Error>)> {
        let drive = Drive::find(&context.roots, &self.device)?;
        self.record_here(context, drive, Feed::Program(watch, produce))
    }

    /// Records on a volume that this process mounts: in segments, at the end of a file, or a new
    /// file.
    fn record_here(
        &self,
        context: &Context,
        drive: Drive,
        feed: Feed<'_>,
    ) -> Result<(RecordedFile, Option<Error>)> {
        self.record_local(context, drive, |host, path| match self.segments.segment {
            Some(limit) => self.record_segments(context, limit, host, path, feed),
            None if self.append && host.exists(&self.name)? => {
                let fitted = self.with_blocks_of(context, host)?;
                let drops_messages = matches!(feed, Feed::Program(..));
                let fitted = fitted.in_format_of(context, host, drops_messages)?;
                fitted.record_on(context, host, path, feed)
            }
            None => {
                if self.append {
                    context.say(format_args!(
                        "`{}` does not exist: a new recording begins",
                        shown(&self.name)
                    ));
                }
                self.record_new(context, host, path, feed)
            }
        })
    }

    fn record_local(
        &self,
        context: &Context,
        drive: Drive,
        record: impl FnOnce(&mut &Mounted<'_, '_>, &str) -> Result<(RecordedFile, Option<Error>)>,
    ) -> Result<(RecordedFile, Option<Error>)> {
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
                .unwrap_or_else(|| Error::other("the recording did not begin"))),
        }
    }

    /// What may help where a source gave nothing.
    fn hint_of_silence(&self) -> Remedy {
        let rate = self.rate.map_or(0, |rate| rate.0);
        match self.for_time {
            Some(time)
                if rate > 0 && time.0.as_secs_f64() * (rate as f64) < self.block.0 as f64 =>
            {
                words![
                    format!("a block of {} takes longer at this rate: ", self.block),
                    Remedy::one_of([
                        Remedy::Less(Setting::Block),
                        Remedy::from("a longer recording"),
                    ])
                ]
                .into()
            }
            _ => "does the source run? a command before | may have failed".into(),
        }
    }

    /// Waits until the source has bytes, or has ended.
    fn wait_for_first(
        &self,
        context: &Context,
        host: &impl VolumeHost,
        source: &Source,
    ) -> Result<()> {
        let is_over = self.silence_ends();
        let stop = || {
            self.waits();
            context.cancel.is_set() || host.is_recalled() || is_over()
        };
        if source.wait_ready(&stop)? {
            Ok(())
        } else if host.is_recalled() {
            Err(unplugged(host))
        } else if is_over() && !context.cancel.is_set() {
            Err(self.was_silent("nothing came from"))
        } else {
            Err(Error::interrupted(
                "interrupted before the first sample came; nothing was recorded",
            ))
        }
    }

    fn open_source(&self, context: &Context, host: &impl VolumeHost) -> Result<Source> {
        let (is_over, is_said) = (self.silence_ends(), Cell::new(false));
        let stop = || {
            self.waits();
            self.say_waits(context, &is_said);
            context.cancel.is_set() || host.is_recalled() || is_over()
        };
        // What another sender sent would begin inside a sample, or as another stream: in segments
        // each begins its own.
        let is_once = self.once || self.format != Format::Raw;
        Source::open(&self.from.0, is_once, &stop).map_err(|failure| {
            if host.is_recalled() {
                unplugged(host)
            } else if is_over()
                && failure.kind() == ErrorKind::Interrupted
                && !context.cancel.is_set()
            {
                self.was_silent("no sender came to")
            } else {
                failure
            }
        })
    }

    /// Whether the time that it may last is over, from now on, for a source of which nothing came.
    fn silence_ends(&self) -> impl Fn() -> bool {
        let (began, most) = (Instant::now(), self.for_time);
        move || most.is_some_and(|most| began.elapsed() >= most.0)
    }

    /// Nothing came from the source as long as the recording may last.
    fn was_silent(&self, what: &str) -> Error {
        let time = self.for_time.map_or(Duration::ZERO, |time| time.0);
        let what = format!(
            "{what} {} within {}; nothing was recorded",
            self.from,
            humantime::format_duration(time)
        );
        Error::other(what).hint("is it running, and does it send there?")
    }

    /// Called while the source is awaited: it is open, and nothing has come.
    pub(super) fn waits(&self) {
        if let Some(manager) = &self.manager {
            manager.waits();
        }
    }

    /// Says once that a sender is waited for; the source listens by now.
    fn say_waits(&self, context: &Context, is_said: &Cell<bool>) {
        if matches!(self.from.0, End::Tcp(_)) && !is_said.replace(true) {
            context.say(format_args!("waits for a sender at {}", self.from));
        }
    }

    fn first_sender(
        &self,
        context: &Context,
        host: &impl VolumeHost,
        listener: &TcpListener,
    ) -> Result<TcpStream> {
        let (is_over, is_said) = (self.silence_ends(), Cell::new(false));
        let stop = || {
            self.waits();
            self.say_waits(context, &is_said);
            context.cancel.is_set() || host.is_recalled() || is_over()
        };
        let address = self.address_of_senders().unwrap_or_default();
        let sender = next_sender(listener, address, &stop);
        sender.map_err(|failure| {
            if host.is_recalled() {
                unplugged(host)
            } else if is_over()
                && failure.kind() == ErrorKind::Interrupted
                && !context.cancel.is_set()
            {
                self.was_silent("no sender came to")
            } else {
                failure
            }
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
        Err(Error::usage(words![
            Setting::Block,
            format!(
                " is {} bytes, not a multiple of the device's block of {device_block}",
                self.block.0
            )
        ]))
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

    /// The options of the recorders. `ring_bytes`: what a ring may take of the volume; a total of 0
    /// is not known.
    pub fn options(&self, total_bytes: u64, ring_bytes: Option<u64>) -> RecordOptions {
        let (low_water_bytes, reserve_bytes) = match ring_bytes {
            // Enough for what is in the buffers when all space is used up; the oldest segments are
            // removed for it.
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
        RecordOptions {
            deadline_us: micros(self.deadline.0),
            commit_bytes: self.commit_bytes.0,
            commit_us: u64::from(self.commit_ms) * 1_000,
            low_water_bytes,
            reserve_bytes,
            total_bytes: (total_bytes > 0).then_some(total_bytes),
            ..RecordOptions::default()
        }
    }

    fn recording(&self, total_bytes: u64, ring_bytes: Option<u64>) -> Recording {
        let clock = TscClock::new();
        let options = self.options(total_bytes, ring_bytes);
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
            name: self.name.clone(),
            options,
            plan,
            clock,
            buffers: self.buffers,
            acknowledge: self.acknowledge,
            manager: self.manager.clone(),
            watch: None,
            tally: Arc::default(),
            can_wait: false,
            app_tag: 0,
        }
    }
}

/// No program can record in a format of this name.
pub fn unknown_format(name: &str) -> Error {
    Error::usage(format!("`{name}` is not a format of recordings")).hint("raw, sigmf or mcap")
}

fn unplugged(host: &impl VolumeHost) -> Error {
    Error::missing(format!(
        "{} is being unplugged or unbound; nothing was recorded",
        host.drive()
    ))
}
