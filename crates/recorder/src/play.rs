// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A playback from its settings: a file of a volume, at a rate, each block when it is due.

use crate::place::{Place as End, To};
use crate::playing::Playing;
use crate::record::described::read_small;
use crate::remote::RemoteVolume;
use crate::report::{Counted, PlayedFile, buckets};
use crate::segments::files::gaps_name;
use crate::sink::{Hand, Sink};
use crate::volume_host::VolumeHost;
use crate::{BUFFERS, check_block, check_buffers};
use devices::drive::Drive;
use devices::error::Result;
use devices::guard::{Output, output_of};
use devices::{Context, SCHEMA_VERSION};
use files::listing::refuse_unfinished;
use files::names::check_name;
use files::{Access, Mounted, Route, Store, failed, route, shown};
use formats::gaps::{self, MAX_GAPS_BYTES};
use remedy::{Remedy, Setting, Value, words};
use std::time::{Duration, Instant};
use stream::{Error as StreamError, Gap, PlayOptions};
use units::{Size, Time, micros};
use volume::Error;
use volume::layout::CHUNK_BYTES;

/// What is played, where to, and how.
#[derive(Clone, Debug)]
pub struct PlaySettings {
    /// The name of the device with the volume.
    pub device: String,
    /// The file's name in the volume.
    pub name: String,
    /// Bytes per second; as fast as the sink accepts them if not given.
    pub rate: Option<Size>,
    /// Time limit for delivering a block after it is due.
    pub deadline: Time,
    /// Size of a block and of a buffer; a multiple of 64 KiB if checksums are verified.
    pub block: Size,
    /// Number of buffers, 1 to 4096, if the user gave one.
    pub buffers: Option<u16>,
    /// Where to play to.
    pub to: To,
    /// Whether recorded datagrams are sent at the distances at which they arrived.
    pub replay: bool,
    /// Whether a file that exists is replaced.
    pub force: bool,
    /// Whether checksums are verified.
    pub verify: bool,
    /// The path to the device.
    pub route: Route,
}

/// Where the blocks go.
enum Goal {
    /// To what `to` names: the checked output, if it is a file.
    Place(Option<Output>),
    Program(Hand),
}

impl PlaySettings {
    /// The file `name` on the volume of `device`, to standard output: as fast as it is taken, 16
    /// blocks of 1 MiB, a deadline of 100 ms, and checksums verified.
    pub fn new(device: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            device: device.into(),
            name: name.into(),
            rate: None,
            deadline: Time(Duration::from_millis(100)),
            block: Size(1 << 20),
            buffers: None,
            to: To(End::Standard),
            replay: false,
            force: false,
            verify: true,
            route: Route::default(),
        }
    }

    /// Plays until the file ends, or the context is cancelled.
    ///
    /// # Errors
    /// The playback did not begin. The inner failure: it ended early.
    pub fn play(&self, context: &Context) -> Result<(PlayedFile, Option<devices::Error>)> {
        check_name(&self.name)?;
        check_block(self.block)?;
        check_buffers(self.buffers, 1)?;
        if self.replay && !matches!(self.to.0, End::Udp(_)) {
            return Err(
                devices::Error::usage(words![Setting::Replay, " sends datagrams"])
                    .hint(Setting::To.to(Value::choice("udp://ADDR:PORT"))),
            );
        }
        let drive = Drive::find(&context.roots, &self.device)?;
        let path = match &self.to.0 {
            End::File(path) => Some(path.as_path()),
            _ => None,
        };
        let output = if self.to.0 == End::Standard || path.is_some() {
            output_of(&context.roots, Some(&drive), path, self.force)?
        } else {
            None
        };
        self.play_from(context, drive, Goal::Place(output))
    }

    /// Plays to a program, for which `to` is ignored; returns the counters.
    ///
    /// # Errors
    /// The playback did not begin. The inner failure: it ended early.
    pub fn play_blocks(
        &self,
        context: &Context,
        hand: Hand,
    ) -> Result<(PlayedFile, Option<devices::Error>)> {
        check_name(&self.name)?;
        check_block(self.block)?;
        check_buffers(self.buffers, 1)?;
        let drive = Drive::find(&context.roots, &self.device)?;
        self.play_from(context, drive, Goal::Program(hand))
    }

    /// From a coprocessor that plays, or from a volume that this process mounts.
    fn play_from(
        &self,
        context: &Context,
        drive: Drive,
        goal: Goal,
    ) -> Result<(PlayedFile, Option<devices::Error>)> {
        let remote = RemoteVolume::open(context, &drive, self.route, self.block, self.buffers)?;
        match remote {
            Some(mut remote) => {
                self.play_on(context, &mut remote, RemoteVolume::NAME, goal, Vec::new())
            }
            None => self.play_local(context, drive, goal),
        }
    }

    fn play_local(
        &self,
        context: &Context,
        drive: Drive,
        goal: Goal,
    ) -> Result<(PlayedFile, Option<devices::Error>)> {
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
            let gaps = match self.to.0 {
                End::Pattern => gaps_beside(context, mounted, &self.name)?,
                _ => Vec::new(),
            };
            self.play_on(context, &mut { mounted }, &path, goal, gaps)
        });
        store.close(report)
    }

    fn play_on(
        &self,
        context: &Context,
        host: &mut impl VolumeHost,
        path: &str,
        goal: Goal,
        gaps: Vec<Gap>,
    ) -> Result<(PlayedFile, Option<devices::Error>)> {
        let doing = || format!("playing `{}`", shown(&self.name));
        if !host.exists(&self.name)? {
            return Err(failed(doing(), Error::NotFound));
        }
        let companion = gaps_name(&self.name);
        let has_gaps = check_name(&companion).is_ok() && host.exists(&companion)?;
        let file = host.open(&self.name)?;
        let sink = match (goal, &self.to.0) {
            (Goal::Program(hand), _) => Sink::Program(hand),
            (Goal::Place(_), End::Udp(address)) if self.replay => {
                Sink::replay(address, context.cancel.clone())?
            }
            (Goal::Place(output), place) => {
                let sink = Sink::open(place, output, &context.cancel)?;
                sink.at_rate(self.rate.map(|rate| rate.0)).over(gaps)
            }
        };
        let playing = Playing {
            options: PlayOptions {
                bytes_per_second: self.rate.map_or(0, |rate| rate.0),
                deadline_us: micros(self.deadline.0),
                verify: self.verify,
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
                // A short file fills no more than it has blocks.
                smallest_buffers: report
                    .smallest_ring_blocks()
                    .map(|most| most.min(report.blocks.max(1))),
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

    fn failure(&self, error: StreamError) -> devices::Error {
        let doing = format!("playing `{}`", shown(&self.name));
        crate::failure(&doing, error).unwrap_or_else(|error| {
            devices::Error::usage(format!("{doing}: {error}")).hint(Remedy::one_of([
                Setting::Block.to(Value::choice("64K or a multiple")),
                Remedy::agree(Setting::NoVerify),
            ]))
        })
    }
}

/// The gaps that a recording's companion lists.
fn gaps_beside(context: &Context, mounted: &Mounted<'_, '_>, name: &str) -> Result<Vec<Gap>> {
    let companion = gaps_name(name);
    let Some(entry) = mounted
        .find(name)?
        .filter(|_| check_name(&companion).is_ok())
    else {
        return Ok(Vec::new());
    };
    let lines = read_small(context, mounted, &companion, MAX_GAPS_BYTES)?;
    gaps::parse(&companion, &lines, entry.size_bytes).map_err(crate::format_failed)
}
