//! One recording: its files, its threads, the loop between the source and the volume.

use crate::Context;
use crate::failure::{Exit, Failure, Result};
use crate::stream::WAIT;
use crate::stream::producer::{Message, Plan, Produced, idle_from, lend, produce};
use crate::stream::source::Source;
use crate::units::rounded;
use crate::verbs::put::micros;
use crate::volume::{Mounted, failed, now_ns, shown};
use indicatif::ProgressBar;
use linux::TscClock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use stream::{Error as StreamError, GapFile, Place, RecordOptions, RecordReport, Recorder};
use volume::{CreateOptions, Error, File};

/// How long the recording may sleep while the device works, or while it waits for a block.
const IDLE: Duration = Duration::from_micros(200);

/// What a recording ended with.
pub struct Ended {
    /// What the volume said.
    pub result: std::result::Result<(), StreamError>,
    /// What the source said.
    pub produced: Produced,
    /// What was counted.
    pub report: RecordReport,
    /// From the first block to the last byte's being durable.
    pub elapsed_us: u64,
}

/// How to record.
pub struct Recording {
    /// Into the volume.
    pub options: RecordOptions,
    /// From the source.
    pub plan: Plan,
    /// What both go by.
    pub clock: TscClock,
    /// How many buffers there are.
    pub buffers: u16,
    /// Whether each byte that becomes durable is told on standard output.
    pub acknowledge: bool,
}

/// Makes a file of a recording, with its space.
///
/// # Errors
/// The volume has no checksums, no space, or the name already.
pub fn make(
    mounted: &Mounted<'_, '_>,
    name: &str,
    reserve_bytes: u64,
    checksums: bool,
) -> Result<File> {
    let volume = mounted.volume;
    let status = volume.status();
    let status = status.map_err(|error| failed(mounted.drive, error))?;
    if checksums && !status.checksums {
        return Err(
            Failure::usage("the volume was made without checksums; nothing was recorded")
                .mend("go without --checksums, or format with it"),
        );
    }
    volume.set_time(now_ns());
    let options = CreateOptions {
        reserve_bytes,
        checksums,
        app_tag: 0,
    };
    let made = mounted.with_space(|| volume::blocking::run(volume, volume.create(name, &options)));
    made.map_err(|error| {
        let failure = failed(format_args!("making `{}`", shown(name)), error);
        match error {
            Error::NoSpace => failure.and(format_args!(
                "it wants {}; nothing was recorded",
                rounded(reserve_bytes)
            )),
            _ => failure.and("nothing was recorded"),
        }
    })
}

impl Recording {
    /// Records into `file`, and where blocks may be dropped, their gaps into `gap_file`.
    ///
    /// # Errors
    /// There is no memory, or a thread ended; inside, the stream cannot begin.
    pub fn run(
        &self,
        context: &Context,
        mounted: &Mounted<'_, '_>,
        source: Source,
        file: File,
        gap_file: Option<File>,
    ) -> Result<std::result::Result<Ended, StreamError>> {
        let (clock, plan, options) = (self.clock, self.plan, &self.options);
        let mut ring = Vec::new();
        for _ in 0..self.buffers {
            ring.push(Place::new(mounted.memory.allocate(plan.block_bytes)?));
        }
        let gaps = match gap_file {
            Some(file) => {
                let geometry = mounted.volume.geometry();
                let geometry = geometry.map_err(|error| failed(mounted.drive, error))?;
                let buffer = mounted.memory.allocate(geometry.block_size_bytes())?;
                Some(GapFile { file, buffer })
            }
            None => None,
        };
        let bar = context.console.bytes_bar(options.total_bytes);
        let began = Instant::now();
        let ended = {
            let recorder = Recorder::new(mounted.volume, file, clock, &mut ring, gaps, options);
            let recorder = match recorder {
                Ok(recorder) => recorder,
                Err(error) => return Ok(Err(error)),
            };
            let stopped = AtomicBool::new(false);
            let stop = || context.cancel.is_set() || stopped.load(Ordering::Relaxed);
            let (idle_to, idle) = idle_from(|| recorder.take());
            let (out, blocks) = channel();
            let (result, produced) = std::thread::scope(|scope| {
                let stop = &stop;
                let producer = scope.spawn(move || produce(source, plan, clock, idle, &out, stop));
                let result = self.pump(&recorder, &idle_to, &blocks, &bar);
                stopped.store(true, Ordering::Relaxed);
                drop(idle_to);
                (result, producer.join())
            });
            // A block that was under way when the recording failed is lost with it.
            let produced = produced
                .map_err(|_| Failure::new(Exit::No, "the thread that reads the source ended"))?;
            for message in blocks.try_iter() {
                if let Message::Block { buffer, .. } = message {
                    let _ = recorder.give_back(buffer);
                }
            }
            while let Ok(buffer) = produced.idle.try_recv() {
                let _ = recorder.give_back(buffer);
            }
            if let Some(buffer) = recorder.take_gap_buffer() {
                mounted.memory.give_back(buffer);
            }
            Ended {
                result: result?,
                produced,
                report: recorder.report(),
                elapsed_us: micros(began.elapsed()),
            }
        };
        bar.finish_and_clear();
        for buffer in ring.into_iter().filter_map(Place::into_buffer) {
            mounted.memory.give_back(buffer);
        }
        Ok(Ok(ended))
    }

    /// Moves blocks from the producer to the recorder until both are at their end.
    fn pump<D: block::Device>(
        &self,
        recorder: &Recorder<'_, '_, D, TscClock>,
        idle: &Sender<block::Buffer>,
        blocks: &Receiver<Message>,
        bar: &ProgressBar,
    ) -> Result<std::result::Result<(), StreamError>> {
        let mut upkeep = std::pin::pin!(recorder.upkeep());
        let mut told = 0;
        let mut is_ended = false;
        loop {
            if let std::task::Poll::Ready(result) = recorder.step(upkeep.as_mut(), &mut |_| {}) {
                self.acknowledge(recorder.durable_bytes(), &mut told)?;
                return Ok(result);
            }
            self.acknowledge(recorder.durable_bytes(), &mut told)?;
            lend(|| recorder.take(), idle);
            let message = match blocks.try_recv() {
                Ok(message) => Some(message),
                Err(_) if recorder.is_working() => {
                    recorder.wait(IDLE.as_micros() as u32);
                    None
                }
                Err(_) if is_ended => None,
                Err(_) => blocks.recv_timeout(IDLE.min(WAIT)).ok(),
            };
            match message {
                Some(Message::Block {
                    buffer,
                    len,
                    arrival,
                }) => {
                    let refused = match len {
                        0 => Some(buffer),
                        _ => recorder
                            .hand_in(buffer, len, arrival)
                            .err()
                            .map(|(_, buffer)| buffer),
                    };
                    if let Some(buffer) = refused {
                        let _ = recorder.give_back(buffer);
                    }
                    bar.inc(len as u64);
                }
                // The recorder ends by itself, and says why.
                Some(Message::Lost { len, arrival }) => {
                    let _ = recorder.overrun(len as u64, arrival);
                }
                Some(Message::End) => {
                    is_ended = true;
                    recorder.finish();
                }
                None => {}
            }
        }
    }

    fn acknowledge(&self, durable_bytes: u64, told: &mut u64) -> Result<()> {
        if !self.acknowledge || durable_bytes == *told {
            return Ok(());
        }
        *told = durable_bytes;
        let line = format!("durable {durable_bytes}\n");
        crate::console::Console { quiet: true }.print(&line)
    }
}
