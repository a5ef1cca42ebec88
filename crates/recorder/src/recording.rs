// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One recording on a volume mounted by this process: its threads, and the loop between them.

use crate::Streamed;
use crate::chain::{Chain, Target};
use crate::exchange::{Exchange, Turned};
use crate::losses::{Losses, Noted, Tally};
use crate::manager::{Manager, Told};
use crate::producer::{Message, Plan, Produced, idle_from, lend, produce};
use crate::report::status;
use crate::segments::segment::Segment;
use crate::segments::tag;
use crate::source::Source;
use crate::{BUFFERS, WAIT, not_begun};
use block::Buffer;
use devices::Bar;
use devices::Context;
use devices::Progress;
use devices::error::Result;
use files::{Mounted, failed};
use linux::TscClock;
use live::RecordingStatus;
use live::door::{Door, End};
use live::events::{Events, Happened};
use live::host::{Answers, Host};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use stream::{Error as StreamError, GapFile, RecordOptions, RecordReport, Recorder, RingPlace};
use units::{micros, rounded};
use volume::{File, blocking};

/// The results of a recording.
pub struct Recorded {
    /// The volume's result.
    pub result: std::result::Result<(), StreamError>,
    /// The source's result.
    pub produced: Produced,
    /// The counters.
    pub report: RecordReport,
    /// Number of buffers.
    pub buffers: u16,
    /// Duration from the first block until the last byte is durable.
    pub elapsed_us: u64,
    /// The segments that the volume has; none for a recording in one file.
    pub segments: Vec<Segment>,
    /// Segments that were removed to keep the others.
    pub removed_segments: u64,
    /// Those of them that had to be removed although the others had less than is kept.
    pub removed_early_segments: u64,
    /// Whether the segments were made and closed.
    pub closed: Result<()>,
}

/// Options of a recording.
pub struct Recording {
    /// Its name, as the user gave it.
    pub name: String,
    /// Options of the recorder.
    pub options: RecordOptions,
    /// Options of the producer.
    pub plan: Plan,
    /// The clock of both.
    pub clock: TscClock,
    /// Number of buffers; `None` for the default.
    pub buffers: Option<u16>,
    /// Whether durable bytes are reported on standard output.
    pub acknowledge: Option<Acknowledge>,
    /// The service manager that is told how it goes.
    pub manager: Option<Arc<Manager>>,
    /// Where another thread sees the counters.
    pub watch: Option<Arc<Mutex<RecordReport>>>,
    /// What the thread that reads the source counts.
    pub tally: Arc<Tally>,
    /// Whether nothing is lost if the source waits.
    pub can_wait: bool,
    /// The number for applications of the recording's only file; 0 for segments.
    pub app_tag: u64,
}

/// The channels to and from the thread that reads the source.
struct Threads<'e>(&'e Sender<Buffer>, &'e Receiver<Message>);

impl Exchange for Threads<'_> {
    fn lend(&mut self, take: impl FnMut() -> Option<Buffer>) {
        lend(take, self.0);
    }

    fn next(&mut self) -> Option<Message> {
        self.1.try_recv().ok()
    }

    fn wait(&mut self, most: Duration) -> Option<Message> {
        self.1.recv_timeout(most).ok()
    }

    fn sleep(&mut self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// Is told how many bytes are durable.
pub type Acknowledge = fn(durable_bytes: u64) -> Result<()>;

/// What the loop of a recording exchanges with its threads.
struct Ends<'e, 'h, 'm, 'a> {
    idle: &'e Sender<Buffer>,
    blocks: &'e Receiver<Message>,
    answers: Answers<'h, 'm, 'a>,
    progress: Progress,
    events: &'e Events,
}

impl Recording {
    /// Records; see [`VolumeHost::record`](crate::volume_host::VolumeHost::record).
    ///
    /// # Errors
    /// The same as those of that function.
    pub fn run<'a>(
        &self,
        context: &Context,
        mounted: &Mounted<'_, 'a>,
        source: Source,
        target: Target<'_, 'a>,
    ) -> Result<Streamed<Recorded>> {
        let (clock, plan) = (self.clock, self.plan);
        let source = source.with_tally(&self.tally);
        self.run_with(context, mounted, target, |idle, out, stop| {
            produce(source, plan, clock, idle, out, stop, &self.tally)
        })
    }

    /// Records what `produce` sends: it fills the buffers that it is given, in a thread of its own,
    /// until it ends or the stop is requested.
    ///
    /// # Errors
    /// As [`run`](Recording::run).
    pub fn run_with<'a>(
        &self,
        context: &Context,
        mounted: &Mounted<'_, 'a>,
        target: Target<'_, 'a>,
        produce: impl FnOnce(Receiver<Buffer>, &Sender<Message>, &dyn Fn() -> bool) -> Produced + Send,
    ) -> Result<Streamed<Recorded>> {
        let (clock, plan) = (self.clock, self.plan);
        let mut ring = Vec::new();
        for _ in 0..self.buffers.unwrap_or(BUFFERS) {
            ring.push(RingPlace::new(mounted.memory.allocate(plan.block_bytes)?));
        }
        let mut vacant: Vec<RingPlace> = ring.iter().map(|_| RingPlace::vacant()).collect();
        let (turn, file, gaps, options) = target.begin(mounted, &self.options)?;
        let has_list = gaps.is_some();
        let door = Door::open(mounted.drive, &context.progress);
        let bar = context.stream_bar(self.options.total_bytes);
        let began = Instant::now();
        let ended = {
            let first = Recorder::new(mounted.volume, file, clock, &mut ring, gaps, &options);
            let pair = first.and_then(|first| {
                let second = first.partner(clock, &mut vacant)?;
                Ok((first, second))
            });
            let (first, second) = match pair {
                Ok(pair) => pair,
                Err(error) => return Ok(Err(not_begun("recording", error))),
            };
            let mut chain = Chain::new(mounted, clock, &first, &second, turn);
            // Without a list the recording ends at a loss.
            if has_list && tag::with_gaps(self.app_tag) != self.app_tag {
                chain.keep_losses_of(file, tag::with_gaps(self.app_tag));
            }
            let host = Host::new(mounted)?;
            let (letters_to, letters) = channel();
            let answers = Answers::new(&host, letters);
            let events = chain.events();
            let name = self.name.clone();
            events.add((mounted.wall_ns)(), Happened::Started { name });
            let (ended, readers) = (End::new()?, AtomicUsize::new(0));
            let stopped = AtomicBool::new(false);
            let stop = || context.cancel.is_set() || stopped.load(Ordering::Relaxed);
            let (idle_to, idle) = idle_from(|| chain.take());
            let (out, blocks) = channel();
            let woken = out.clone();
            let post =
                move |letter| letters_to.send(letter).is_ok() && woken.send(Message::Asked).is_ok();
            let (result, produced, counted, kept) = std::thread::scope(|scope| {
                let stop = &stop;
                let producer = scope.spawn(move || produce(idle, &out, stop));
                if let Some(door) = &door {
                    let (post, ended, readers) = (&post, &ended, &readers);
                    let events = events.as_ref();
                    scope.spawn(move || door.attend(scope, post, events, ended, readers));
                }
                let mut ends = Ends {
                    idle: &idle_to,
                    blocks: &blocks,
                    answers,
                    progress: context.progress.clone(),
                    events: &events,
                };
                let result = self.pump(mounted, &mut chain, &mut ends, &bar, &stopped);
                // However it ended: a read under way has memory that the device writes.
                ends.answers.end();
                stopped.store(true, Ordering::Relaxed);
                drop(idle_to);
                // A block in flight when the recording failed is lost too.
                let produced = producer.join();
                chain.release_held();
                for message in blocks.try_iter() {
                    if let Message::Block { buffer, .. } = message {
                        chain.give_back(buffer);
                    }
                }
                let unused = || produced.as_ref().ok()?.idle.try_recv().ok();
                while let Some(buffer) = unused() {
                    chain.give_back(buffer);
                }
                let (counted, durable_bytes) = (chain.report(), chain.durable_bytes());
                let kept = chain.end();
                let failed = match &result {
                    Ok(Ok(())) => kept.2.as_ref().err().map(ToString::to_string),
                    Ok(Err(error)) => Some(error.to_string()),
                    Err(failure) => Some(failure.to_string()),
                };
                let last = Happened::Ended {
                    durable_bytes,
                    lost_bytes: counted.lost_bytes,
                    failure: failed,
                };
                events.add((mounted.wall_ns)(), last);
                // Readers have all of it before they see the end.
                ended.call();
                (result, produced, counted, kept)
            });
            let produced =
                produced.map_err(|_| devices::Error::other("the reading thread ended"))?;
            let (report, (segments, removed, closed)) = (counted, kept);
            Recorded {
                result: result?,
                produced,
                report,
                buffers: self.buffers.unwrap_or(BUFFERS),
                elapsed_us: micros(began.elapsed()),
                segments,
                removed_segments: removed.all,
                removed_early_segments: removed.early,
                closed,
            }
        };
        bar.finish_and_clear();
        let places = ring.into_iter().chain(vacant);
        for buffer in places.filter_map(RingPlace::into_buffer) {
            mounted.memory.give_back(buffer);
        }
        Ok(Ok(ended))
    }

    /// Moves blocks from the producer to the recorders until both have ended.
    fn pump(
        &self,
        mounted: &Mounted<'_, '_>,
        chain: &mut Chain<'_, '_, '_, '_>,
        ends: &mut Ends<'_, '_, '_, '_>,
        bar: &Bar,
        stopped: &AtomicBool,
    ) -> Result<std::result::Result<(), StreamError>> {
        let buffers = u64::from(self.buffers.unwrap_or(BUFFERS));
        let mut reported_bytes = 0;
        let mut is_ended = false;
        let mut is_recalled = false;
        let began = Instant::now();
        let (mut shown, mut looked) = (began, began);
        let began_ns = (mounted.wall_ns)();
        let mut losses = Losses::default();
        let mut noted = Noted::default();
        let mut told = self.manager.as_deref().map(Told::new);
        loop {
            // The source may be silent: without a block to write, no request would report a recall.
            if !is_recalled && mounted.recall.is_requested() {
                is_recalled = true;
                stopped.store(true, Ordering::Relaxed);
                chain.finish();
            }
            // A commit records its time in the file.
            mounted.volume.set_time((mounted.wall_ns)());
            let step = chain.step(&mut |event| ends.answers.take_back(event));
            if let Some(watch) = &self.watch {
                *watch.lock().unwrap_or_else(PoisonError::into_inner) = chain.report();
            }
            let durable_bytes = chain.durable_bytes();
            self.acknowledge(durable_bytes, &mut reported_bytes)?;
            let how = || Some(self.status(chain, began_ns, began.elapsed()));
            let is_pressed = || chain.waiting_blocks() * 2 > buffers;
            ends.answers.step(durable_bytes, is_pressed, how);
            if let std::task::Poll::Ready(result) = step {
                noted.note(ends.events, &chain.report(), &self.tally, mounted.wall_ns);
                let gone = StreamError::Device {
                    offset_bytes: durable_bytes,
                    error: block::Error::Gone,
                };
                return Ok(if is_recalled {
                    result.and(Err(gone))
                } else {
                    result
                });
            }
            if looked.elapsed() >= WAIT {
                looked = Instant::now();
                if let Some(told) = &mut told {
                    let report = chain.report();
                    let moved = [report.bytes, chain.waiting_blocks(), durable_bytes];
                    let how = || {
                        let status = status(&report, self.buffers.unwrap_or(BUFFERS));
                        format!("{} durable, {status}", rounded(durable_bytes))
                    };
                    told.look(began.elapsed(), chain.is_working(), moved, how);
                }
                noted.note(ends.events, &chain.report(), &self.tally, mounted.wall_ns);
                let line = losses.line(began.elapsed(), &chain.report(), &self.tally);
                if let Some(line) = line {
                    ends.progress.say(line);
                }
            }
            if !bar.is_hidden() && shown.elapsed() >= WAIT {
                shown = Instant::now();
                bar.set_message(status(&chain.report(), self.buffers.unwrap_or(BUFFERS)));
            }
            let turn = Turned {
                block_bytes: self.plan.block_bytes as u64,
                can_wait: self.can_wait,
            };
            let was_ended = is_ended;
            let bytes = chain.exchange(&mut Threads(ends.idle, ends.blocks), turn, &mut is_ended);
            if is_ended && !was_ended {
                ends.events.add((mounted.wall_ns)(), Happened::Stopping);
            }
            bar.inc(bytes);
        }
    }

    /// How it goes, for another process.
    fn status(
        &self,
        chain: &Chain<'_, '_, '_, '_>,
        began_ns: u64,
        elapsed: Duration,
    ) -> RecordingStatus {
        let report = chain.report();
        let [dropped_datagrams, cut_datagrams] = self.tally.counts();
        let [finished_segments, removed_segments] = chain.segments();
        RecordingStatus {
            name: self.name.clone(),
            began_ns,
            elapsed_us: micros(elapsed),
            bytes: report.bytes,
            durable_bytes: chain.durable_bytes(),
            blocks: report.blocks,
            lost_blocks: report.lost_blocks,
            lost_bytes: report.lost_bytes,
            gaps: report.gaps,
            dropped_datagrams,
            cut_datagrams,
            misses: report.misses,
            lateness_max_us: report.lateness_max_us,
            buffers: u64::from(self.buffers.unwrap_or(BUFFERS)),
            waiting_blocks: chain.waiting_blocks(),
            waiting_max_blocks: report.waiting_max_blocks,
            retries: report.retries,
            commits: report.commits,
            finished_segments,
            removed_segments,
            free_bytes: chain.free_bytes(),
        }
    }

    /// Reports durable bytes if requested.
    ///
    /// # Errors
    /// Whoever is told cannot be.
    pub fn acknowledge(&self, durable_bytes: u64, reported_bytes: &mut u64) -> Result<()> {
        match self.acknowledge {
            Some(acknowledge) if durable_bytes != *reported_bytes => {
                *reported_bytes = durable_bytes;
                acknowledge(durable_bytes)
            }
            _ => Ok(()),
        }
    }
}

/// A companion, to go on at its end.
///
/// # Errors
/// It cannot be read.
pub fn gap_file_at_its_end(mounted: &Mounted<'_, '_>, file: File) -> Result<GapFile> {
    let bytes = mounted.volume.geometry().block_size_bytes();
    let mut buffer = mounted.memory.allocate(bytes)?;
    let failed = |error| failed(format_args!("reading the gaps on {}", mounted.drive), error);
    let status = mounted.volume.file_status(file).map_err(failed)?;
    let filled_bytes = (status.appended_bytes % bytes as u64) as usize;
    if filled_bytes > 0 {
        let offset = status.appended_bytes - filled_bytes as u64;
        let outcome = blocking::read(mounted.volume, file, offset, buffer);
        outcome.result.map_err(failed)?;
        buffer = outcome.buffer;
    }
    Ok(GapFile {
        file,
        buffer,
        filled_bytes,
    })
}
