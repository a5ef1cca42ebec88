// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A volume mounted by a storage coprocessor, and its streams: this processor fills and empties
//! blocks in the shared memory. The coprocessor handles deadlines, commits and the drive.

use crate::Streamed;
use crate::losses::Tally;
use crate::manager::Told;
use crate::playing::{Played, Playing, writer_ended};
use crate::producer::{Message, Plan, idle_from, lend, produce};
use crate::recording::{Recorded, Recording};
use crate::sink::{Sink, consume};
use crate::source::Source;
use crate::volume_host::VolumeHost;
use crate::{WAIT, no_checksums, not_made};
use block::Buffer;
use coprocessor::layout::STREAM_PLACES;
use coprocessor::{
    Access, FileNumber, FilesClient, PlayingOptions, Recording as RemoteRecording, RecordingOptions,
};
use devices::Bar;
use devices::Context;
use devices::drive::Drive;
use devices::error::{Error, Result};
use files::{Checksums, Route, failed, shown};
use linux::{HostMemory, TscClock};
use remedy::{Remedy, Setting};
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use units::Size;
use units::{micros, rounded};
use volume::layout::CHUNK_BYTES;

/// Interval between checks of the ring: there is no interrupt.
const NAP: Duration = Duration::from_micros(200);
/// Memory for names, tables and a companion's block, in addition to a stream's ring.
const SPARE_BYTES: usize = 64 << 10;
/// Memory for names and tables.
const SCRATCH_BYTES: usize = 4096;

/// A session for files of a coprocessor's volume.
pub struct RemoteVolume {
    client: FilesClient<TscClock>,
    memory: HostMemory,
    drive: Drive,
    _file: File,
}

impl RemoteVolume {
    /// The name of the path.
    pub const NAME: &str = "coprocessor, its own volume";

    /// Begins a session for a stream, and reports it. `None`: the drive is not behind a
    /// coprocessor, the coprocessor does not run streams, or the user's options exclude it.
    ///
    /// # Errors
    /// The coprocessor is in use, has no volume, does not answer, or shares too little memory.
    pub fn open(
        context: &Context,
        drive: &Drive,
        route: Route,
        block: Size,
        buffers: Option<u16>,
    ) -> Result<Option<Self>> {
        let has_places = buffers.is_none_or(|buffers| usize::from(buffers) <= STREAM_PLACES);
        let Drive::Coprocessor(path) = drive else {
            return Ok(None);
        };
        if !route.is_auto() || !has_places || !linux::coprocessor::header(path)?.stream {
            return Ok(None);
        }
        let session = linux::coprocessor::attach(path, Access::Files, 0)?;
        let scratch = session.memory.allocate(SCRATCH_BYTES)?;
        let client = FilesClient::new(session.client, scratch);
        let remote = Self {
            client: client.map_err(|failure| refused(&drive.to_string(), failure))?,
            memory: session.memory,
            drive: drive.clone(),
            _file: session.file,
        };
        // Before a file is created.
        remote.buffers(block.0, buffers)?;
        context.say(format_args!("path: {}", Self::NAME));
        Ok(Some(remote))
    }

    /// Number of buffers of this size: as many as fit unless the user gives a number.
    fn buffers(&self, block_bytes: u64, buffers: Option<u16>) -> Result<u16> {
        let (_, lent) = self.client.client().data();
        let fit = lent.saturating_sub(SPARE_BYTES) as u64 / block_bytes.max(1);
        let wanted = buffers.map_or((STREAM_PLACES as u64).min(fit).max(2), u64::from);
        if wanted <= fit {
            return Ok(wanted as u16);
        }
        let what = format!(
            "{wanted} buffers of {} do not fit into the {} that the coprocessor shares",
            Size(block_bytes),
            Size(lent as u64)
        );
        let hint = Remedy::one_of([
            Remedy::Less(Setting::Block),
            Remedy::Less(Setting::Buffers),
            Setting::Path.to("coprocessor"),
        ]);
        Err(Error::usage(what).hint(hint))
    }

    /// Memory for a ring, and its number of blocks.
    fn ring(&self, block_bytes: u64, buffers: Option<u16>) -> Result<(Buffer, u16)> {
        let buffers = self.buffers(block_bytes, buffers)?;
        let ring_bytes = usize::from(buffers) * block_bytes as usize;
        Ok((self.memory.allocate(ring_bytes)?, buffers))
    }

    /// Whether a file has checksums, found by a search through all entries.
    fn has_checksums(&mut self, name: &str) -> Result<bool> {
        let mut from = 0;
        loop {
            let entry = self.client.list(from);
            match entry.map_err(|failure| refused("listing", failure))? {
                Some(entry) if entry.name.as_str() == name => return Ok(entry.checksums),
                Some(entry) => from = entry.slot + 1,
                None => return Ok(false),
            }
        }
    }
}

/// The coprocessor's error.
fn refused(doing: &str, failure: coprocessor::Error) -> Error {
    match failure {
        coprocessor::Error::Volume(error) => failed(doing, error),
        coprocessor::Error::Block(error) => Error::request(doing, error),
        other => Error::missing(format!("{doing}: {other}")),
    }
}

impl VolumeHost for RemoteVolume {
    type File = FileNumber;

    fn drive(&self) -> &Drive {
        &self.drive
    }

    /// The kernel never recalls a coprocessor's window.
    fn is_recalled(&self) -> bool {
        false
    }

    fn block_bytes(&self) -> Result<usize> {
        Ok(self.client.block_bytes())
    }

    fn exists(&mut self, name: &str) -> Result<bool> {
        match self.client.open(name, false) {
            Ok(file) => self.close(name, file).map(|()| true),
            Err(coprocessor::Error::Volume(volume::Error::NotFound)) => Ok(false),
            Err(failure) => Err(refused(&format!("looking for `{}`", shown(name)), failure)),
        }
    }

    fn create(
        &mut self,
        name: &str,
        reserve_bytes: u64,
        checksums: Checksums,
        _: u64,
    ) -> Result<FileNumber> {
        let unsupported = coprocessor::Error::Volume(volume::Error::Unsupported);
        // The coprocessor does not report the volume's features; it refuses what is not supported.
        let mut made = self
            .client
            .create(name, reserve_bytes, !checksums.no_checksums);
        if made.as_ref().err() == Some(&unsupported) && checksums.on(false) == Some(false) {
            made = self.client.create(name, reserve_bytes, false);
        }
        made.map_err(|failure| match failure {
            failure if failure == unsupported && checksums.checksums => no_checksums(),
            coprocessor::Error::Volume(error) => not_made(name, reserve_bytes, error),
            other => refused(&format!("making `{}`", shown(name)), other),
        })
    }

    fn store(&mut self, name: &str, _: &[u8], _: u64) -> Result<()> {
        let what = format!(
            "a coprocessor does not store `{}` for a recording",
            shown(name)
        );
        Err(Error::unsupported(what).hint(Setting::Path.to("coprocessor")))
    }

    fn open(&mut self, name: &str) -> Result<FileNumber> {
        let opened = self.client.open(name, false);
        opened.map_err(|failure| refused(&format!("playing `{}`", shown(name)), failure))
    }

    fn close(&mut self, name: &str, file: FileNumber) -> Result<()> {
        let closed = self.client.close(file);
        closed.map_err(|failure| refused(&format!("closing `{}`", shown(name)), failure))
    }

    fn remove(&mut self, name: &str) -> Result<()> {
        let removed = self.client.delete(name);
        removed.map_err(|failure| refused(&format!("removing `{}`", shown(name)), failure))
    }

    fn record(
        &mut self,
        context: &Context,
        recording: &Recording,
        source: Source,
        file: FileNumber,
        gap_file: Option<FileNumber>,
    ) -> Result<Streamed<Recorded>> {
        // A coprocessor takes whole blocks.
        let plan = Plan {
            most_wait_ticks: None,
            ..recording.plan
        };
        let clock = recording.clock;
        let (ring, buffers) = self.ring(plan.block_bytes as u64, recording.buffers)?;
        let gaps = match gap_file {
            Some(file) => Some((file, self.memory.allocate(self.client.block_bytes())?)),
            None => None,
        };
        // Blocks of a source that is always ready arrive by the rate; others when they are
        // submitted.
        let rate = plan.bytes_per_second.filter(|_| source.is_always_ready());
        let options = RecordingOptions {
            block_bytes: plan.block_bytes as u32,
            bytes_per_second: rate.unwrap_or(0),
            record: recording.options,
        };
        let doing = |failure| refused("recording", failure);
        let begun = RemoteRecording::begin(&mut self.client, file, ring, gaps, &options);
        let mut stream = match begun {
            Ok(stream) => stream,
            Err(failure) => return Ok(Err(doing(failure))),
        };
        let bar = context.bytes_bar(recording.options.total_bytes);
        let began = Instant::now();
        let stopped = AtomicBool::new(false);
        let stop = || context.cancel.is_set() || stopped.load(Ordering::Relaxed);
        let (idle_to, idle) = idle_from(|| stream.take());
        let (out, blocks) = channel();
        let mut pump = RecordPump {
            recording,
            stream: &mut stream,
            client: &mut self.client,
            bar: &bar,
            reported_bytes: 0,
        };
        let (pumped, produced) = std::thread::scope(|scope| {
            let stop = &stop;
            let producer = scope
                .spawn(move || produce(source, plan, clock, idle, &out, stop, &Tally::default()));
            let pumped = pump.run(&idle_to, &blocks);
            stopped.store(true, Ordering::Relaxed);
            drop(idle_to);
            (pumped, producer.join())
        });
        let mut reported_bytes = pump.reported_bytes;
        let produced = produced.map_err(|_| Error::other("the reading thread ended"))?;
        let ended = stream.finish(&mut self.client).map_err(doing);
        bar.finish_and_clear();
        let failed = pumped?;
        let (result, report) = ended?;
        if let (Ok(()), Some(failure)) = (result, failed) {
            return Err(doing(failure));
        }
        recording.acknowledge(report.durable_bytes, &mut reported_bytes)?;
        Ok(Ok(Recorded {
            result,
            produced,
            report,
            buffers,
            elapsed_us: micros(began.elapsed()),
            segments: Vec::new(),
            removed_segments: 0,
            removed_early_segments: 0,
            closed: Ok(()),
        }))
    }

    fn play(
        &mut self,
        context: &Context,
        playing: &Playing,
        sink: Sink,
        name: &str,
        file: FileNumber,
    ) -> Result<Streamed<Played>> {
        let is_whole = playing.block_bytes % CHUNK_BYTES == 0;
        let verify = playing.options.verify && (is_whole || self.has_checksums(name)?);
        let block_bytes = playing.block_bytes(verify);
        let (ring, _) = self.ring(block_bytes, playing.buffers)?;
        let options = PlayingOptions {
            block_bytes: block_bytes as u32,
            play: stream::PlayOptions {
                verify,
                ..playing.options
            },
        };
        let doing = |failure| refused("playing", failure);
        let begun = coprocessor::Playing::begin(&mut self.client, file, ring, &options);
        let mut stream = match begun {
            Ok(stream) => stream,
            Err(failure) => return Ok(Err(doing(failure))),
        };
        let bar = context.bytes_bar(Some(stream.size_bytes()));
        let sink_failed = AtomicBool::new(false);
        let (full_to, full) = channel();
        let (idle_to, idle) = channel();
        let stop = || context.cancel.is_set() || sink_failed.load(Ordering::Relaxed);
        let client = &mut self.client;
        let (failed, written) = std::thread::scope(|scope| {
            let on_failure = || sink_failed.store(true, Ordering::Relaxed);
            let consumer = scope.spawn(move || consume(sink, full, &idle_to, &on_failure));
            let pumped = pump_play(&mut stream, client, &full_to, &idle, &bar, &stop);
            drop(full_to);
            (pumped.err(), consumer.join())
        });
        let ended = stream.finish(&mut self.client).map_err(doing);
        bar.finish_and_clear();
        let (result, report) = ended?;
        if let (Ok(()), Some(failure)) = (result, failed) {
            return Err(doing(failure));
        }
        Ok(Ok(Played {
            result,
            written: written.unwrap_or_else(|_| Err(writer_ended())),
            report,
        }))
    }
}

/// Moves blocks from the producer to the coprocessor.
struct RecordPump<'p> {
    recording: &'p Recording,
    stream: &'p mut RemoteRecording,
    client: &'p mut FilesClient<TscClock>,
    bar: &'p Bar,
    reported_bytes: u64,
}

impl RecordPump<'_> {
    /// Runs until the producer or the recording ends; returns the recording's failure, if any.
    fn run(
        &mut self,
        idle: &Sender<Buffer>,
        blocks: &Receiver<Message>,
    ) -> Result<Option<coprocessor::Error>> {
        let mut told = self.recording.manager.as_deref().map(Told::new);
        let began = Instant::now();
        let mut looked = began;
        let (mut handed_in, mut written_blocks, mut durable_bytes) = (0, 0, 0);
        loop {
            if let Some(told) = told.as_mut().filter(|_| looked.elapsed() >= WAIT) {
                looked = Instant::now();
                let moved = [handed_in, written_blocks, durable_bytes];
                let how = || format!("{} durable", rounded(durable_bytes));
                told.look(began.elapsed(), handed_in > written_blocks, moved, how);
            }
            loop {
                match self.stream.poll(self.client) {
                    Ok(Some(written)) => {
                        (written_blocks, durable_bytes) =
                            (written_blocks + 1, written.durable_bytes);
                        self.recording
                            .acknowledge(written.durable_bytes, &mut self.reported_bytes)?
                    }
                    Ok(None) => break,
                    Err(failure) => return Ok(Some(failure)),
                }
            }
            lend(|| self.stream.take(), idle);
            match blocks.recv_timeout(NAP) {
                Ok(Message::Block { buffer, len, .. }) if len > 0 => {
                    if let Err((failure, _)) = self.stream.hand_in(self.client, buffer, len) {
                        return Ok(Some(failure));
                    }
                    handed_in += 1;
                    self.bar.inc(len as u64);
                }
                Ok(Message::Lost { .. }) => self.stream.overrun(1),
                Ok(Message::End) => return Ok(None),
                // An empty block is the last, and its buffer is no longer needed.
                Ok(Message::Block { .. } | Message::Asked) | Err(_) => {}
            }
        }
    }
}

/// Moves blocks from the coprocessor to the consumer until the last, or until the user stops.
///
/// # Errors
/// The coprocessor's error instead of a block.
fn pump_play(
    stream: &mut coprocessor::Playing,
    client: &mut FilesClient<TscClock>,
    full: &Sender<stream::Played>,
    idle: &Receiver<Buffer>,
    bar: &Bar,
    stop: &dyn Fn() -> bool,
) -> std::result::Result<(), coprocessor::Error> {
    while !stop() {
        let mut happened = false;
        match stream.next(client)? {
            Some(block) => {
                happened = true;
                bar.inc(block.len_bytes as u64);
                // The thread lives until this end of the channel is dropped.
                let _ = full.send(stream::Played {
                    buffer: block.buffer,
                    len_bytes: block.len_bytes,
                    offset_bytes: block.offset_bytes,
                    due: 0,
                });
            }
            None if stream.is_over() => return Ok(()),
            None => {}
        }
        let mut back = idle.try_recv().ok();
        if back.is_none() && !happened {
            back = idle.recv_timeout(NAP).ok();
        }
        while let Some(buffer) = back {
            stream.give_back(client, buffer)?;
            back = idle.try_recv().ok();
        }
    }
    Ok(())
}
