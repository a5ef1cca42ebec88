// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recording of what a program hands in: messages or blocks with their arrival times, written by
//! a thread of the library.

use super::gatherer::{Full, Gatherer, Refused};
use super::thread::{Thread, joined, spawn};
use super::{Error, Options, open_options, route_of};
use ::stream::RecordReport;
use block::{Buffer, Clock};
use devices::Context;
use files::Checksums;
use formats::mcap::MAGIC;
use formats::samples::{Datatype, Hertz};
use formats::{Format, SigmfOptions};
use linux::TscClock;
use recorder::place::{From as Source, Place};
use recorder::producer::{Message, Produced, Why};
use recorder::record::{Policy, Settings};
use recorder::segments::{Limit, Segmentation};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use units::{Size, Time};

/// The least time between two looks at what waits.
const LEAST_WAIT: Duration = Duration::from_millis(1);

/// How to record.
#[derive(Clone, Copy, Debug)]
pub struct RecordOptions<'a> {
    /// Bytes of a block, which the drive gets at once: messages are gathered into blocks.
    pub block_bytes: u64,
    /// Blocks of memory between the program and the drive; from 2.
    pub buffers: u16,
    /// Whether a message that finds no memory is dropped, and its gap listed in `NAME.gaps`;
    /// otherwise the recording ends.
    pub drops: bool,
    /// Whether the program waits for memory, so that nothing is ever dropped.
    pub waits: bool,
    /// How long after its arrival a block must be written, in microseconds.
    pub deadline_us: u64,
    /// How long after it was written a block is made durable, in milliseconds.
    pub commit_ms: u32,
    /// Expected length, whose space is set aside at the beginning; 0 if unknown.
    pub total_bytes: u64,
    /// Whether it goes on at the end of the file, if there is one.
    pub appends: bool,
    /// The recording goes on in another file each time one has this size; 0: one file.
    pub segment_bytes: u64,
    /// The same each time one has gone on for so long, in microseconds; 0: one file.
    pub segment_us: u64,
    /// The oldest segments are removed so that all have at most this size; 0: none is.
    pub keep_bytes: u64,
    /// `raw`, `sigmf` or `mcap`.
    pub format: &'a str,
    /// What SigMF says of samples: their type, as in `ci16_le`,
    pub datatype: Option<&'a str>,
    /// their rate and their centre frequency, in hertz; 0 if unknown,
    pub sample_rate: f64,
    /// as the rate,
    pub frequency: f64,
    /// channels whose samples alternate; 0: as 1,
    pub channels: u16,
    /// and the receiver.
    pub hardware: Option<&'a str>,
}

impl Default for RecordOptions<'_> {
    /// 16 blocks of 1 MiB, a deadline of 100 ms, durable within a second after a block is full;
    /// ends at the first message that finds no memory.
    fn default() -> Self {
        Self {
            block_bytes: 1 << 20,
            buffers: 16,
            drops: false,
            waits: false,
            deadline_us: 100_000,
            commit_ms: 1_000,
            total_bytes: 0,
            appends: false,
            segment_bytes: 0,
            segment_us: 0,
            keep_bytes: 0,
            format: Format::Raw.name(),
            datatype: None,
            sample_rate: 0.0,
            frequency: 0.0,
            channels: 0,
            hardware: None,
        }
    }
}

/// A recording in progress. Dropped without [`finish`](Recorder::finish), it ends when its thread
/// notices.
pub struct Recorder {
    running: Option<Running>,
    gatherer: Arc<Mutex<Gatherer>>,
    watch: Arc<Mutex<RecordReport>>,
    clock: TscClock,
    /// What the recording still has to begin with.
    expected: &'static [u8],
}

/// The thread that records.
struct Running {
    /// Dropped, it ends the recording.
    _open: Sender<()>,
    thread: Thread<()>,
}

impl Recorder {
    /// Begins a recording `file_name` on the volume of the device that the command calls `name`. Of
    /// `options`, the path, the mode and the namespace are used.
    ///
    /// # Errors
    /// There is no such volume, the name is taken, or the options do not fit it.
    pub fn open(
        name: &str,
        file_name: &str,
        options: &Options<'_>,
        record: &RecordOptions<'_>,
    ) -> Result<Self, Error> {
        let path = open_options(options)?;
        let record = RecordOptions {
            buffers: record.buffers.clamp(2, 4096),
            ..*record
        };
        let segments = segments_of(&record)?;
        let format = format_of(&record)?;
        let settings = Settings {
            device: name.to_owned(),
            // A name is no template here.
            name: match segments.segment {
                Some(_) => file_name.replace('%', "%%"),
                None => file_name.to_owned(),
            },
            rate: None,
            deadline: Time(Duration::from_micros(record.deadline_us)),
            given_block: Some(Size(record.block_bytes)),
            block: Size(record.block_bytes),
            buffers: Some(record.buffers),
            for_time: None,
            size: (record.total_bytes > 0).then_some(Size(record.total_bytes)),
            from: Source(Place::Standard),
            once: false,
            policy: if record.drops {
                Policy::Drop
            } else {
                Policy::Stop
            },
            commit_bytes: Size(64 << 20),
            commit_ms: record.commit_ms,
            append: record.appends,
            format,
            sigmf: sigmf_of(&record)?,
            segments,
            checksums: Checksums {
                checksums: false,
                no_checksums: false,
            },
            acknowledge: None,
            no_fua: false,
            route: route_of(&path),
        };
        let block_bytes = usize::try_from(record.block_bytes).unwrap_or(usize::MAX);
        let buffers = usize::from(record.buffers);
        let full = match (record.waits, record.drops) {
            (true, _) => Full::Waits,
            (_, true) => Full::Drops,
            _ => Full::Ends,
        };
        let watch = Arc::new(Mutex::new(RecordReport::default()));
        let (ready_to, ready) = channel();
        let (open, closed) = channel();
        let seen = Arc::clone(&watch);
        let clock = TscClock::new();
        let most_ticks = clock.ticks_from_us(u64::from(record.commit_ms) * 1_000);
        let most_wait = Duration::from_millis(u64::from(record.commit_ms)) / 4;
        let thread = spawn("straightway-record", move || {
            let produce = move |idle: Receiver<Buffer>, out: &Sender<Message>| {
                let gatherer = Gatherer::new(block_bytes, buffers, full, idle, out.clone());
                let gatherer = Arc::new(Mutex::new(gatherer));
                let _ = ready_to.send(Arc::clone(&gatherer));
                // The program fills the buffers until it closes the recording, or has ended itself.
                loop {
                    let left = locked(&gatherer).hand_in_units(most_ticks, clock.ticks());
                    let left_us = ::stream::us_from_ticks(left, clock.ticks_per_second());
                    // A block may begin while this waits.
                    let wait = Duration::from_micros(left_us)
                        .min(most_wait)
                        .max(LEAST_WAIT);
                    if closed.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected) {
                        break;
                    }
                }
                Produced {
                    why: Ok(Why::Source),
                    tardy_blocks: 0,
                    dropped_datagrams: 0,
                    cut_datagrams: 0,
                    idle: locked(&gatherer).end(),
                }
            };
            match settings.record_blocks(&Context::system(), seen, Box::new(produce)) {
                Ok((_, None)) => Ok(()),
                Ok((_, Some(failure))) | Err(failure) => Err(failure.on(&settings.device)),
            }
        })?;
        let Ok(gatherer) = ready.recv() else {
            return Err(joined(thread).err().unwrap_or_else(ended));
        };
        Ok(Self {
            running: Some(Running {
                _open: open,
                thread,
            }),
            gatherer,
            watch,
            clock,
            expected: match format {
                Format::Mcap => &MAGIC,
                _ => &[],
            },
        })
    }

    /// Hands in a message that arrived `age_us` microseconds ago, and returns whether there was
    /// memory for it: it is recorded whole or not at all. Never waits for the drive, unless the
    /// options say so.
    ///
    /// # Errors
    /// The recording has ended, with its reason; or the message is longer than its memory.
    pub fn append(&mut self, data: &[u8], age_us: u64) -> Result<bool, Error> {
        let age = self.clock.ticks_from_us(age_us);
        let now = self.clock.ticks();
        let begin = data.len().min(self.expected.len());
        let (expected, rest) = self.expected.split_at(begin);
        if data.get(..begin) != Some(expected) {
            return Err(Error::usage("the recording does not begin as MCAP does")
                .hint("hand in a stream of MCAP, or choose another format"));
        }
        let running = self.running.as_ref().ok_or_else(ended)?;
        let mut gatherer = match self.gatherer.try_lock() {
            Ok(gatherer) => gatherer,
            // In a child of the process, what held it does not exist.
            Err(_) => {
                running.thread.check()?;
                locked(&self.gatherer)
            }
        };
        if gatherer.asks_for_memory(data.len()) {
            running.thread.check()?;
        }
        let appended = gatherer.append(data, now.saturating_sub(age), now);
        drop(gatherer);
        match appended {
            Ok(is_kept) => {
                if is_kept {
                    self.expected = rest;
                }
                Ok(is_kept)
            }
            Err(Refused::Message(error)) => Err(error),
            Err(Refused::Ended) => Err(self.stop().err().unwrap_or_else(ended)),
        }
    }

    /// The counters so far, and the messages that were dropped.
    ///
    /// # Errors
    /// This is a child of the process that records.
    pub fn report(&self) -> Result<(RecordReport, u64), Error> {
        if let Some(running) = &self.running {
            running.thread.check()?;
        }
        let mut report = *self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        let gatherer = locked(&self.gatherer);
        report.lost_bytes += gatherer.waiting_lost_bytes();
        Ok((report, gatherer.lost_messages()))
    }

    /// Ends the recording, and returns when all of it is durable.
    ///
    /// # Errors
    /// Why it ended early; what the report calls durable is in the file.
    pub fn finish(&mut self) -> Result<(), Error> {
        let running = self.running.as_ref().ok_or_else(ended)?;
        running.thread.check()?;
        self.stop()
    }

    fn stop(&mut self) -> Result<(), Error> {
        let Running {
            _open: open,
            thread,
        } = self.running.take().ok_or_else(ended)?;
        drop(open);
        joined(thread)
    }
}

fn locked(gatherer: &Mutex<Gatherer>) -> MutexGuard<'_, Gatherer> {
    gatherer.lock().unwrap_or_else(PoisonError::into_inner)
}

fn format_of(record: &RecordOptions<'_>) -> Result<Format, Error> {
    match Format::named(record.format) {
        Some(format) if format != Format::Pcapng => Ok(format),
        _ => Err(
            Error::usage(format!("`{}` is no format to record in", record.format))
                .hint("raw, sigmf or mcap"),
        ),
    }
}

fn segments_of(record: &RecordOptions<'_>) -> Result<Segmentation, Error> {
    let segment = match (record.segment_bytes, record.segment_us) {
        (0, 0) => None,
        (bytes, 0) => Some(Limit::Bytes(bytes)),
        (0, us) => Some(Limit::Time(Time(Duration::from_micros(us)))),
        _ => {
            return Err(
                Error::usage("a segment ends at a size or at a time").hint("give one of them")
            );
        }
    };
    match (segment, record.keep_bytes, record.appends) {
        (None, 1.., _) => Err(Error::usage("only segments can be a ring")
            .hint("give their size, or how long one goes on")),
        (Some(_), _, true) => Err(Error::usage("segments go on in another file")
            .hint("do not append; the numbers of the segments continue")),
        (segment, keep, _) => Ok(Segmentation {
            segment,
            keep: (keep > 0).then_some(Size(keep)),
        }),
    }
}

fn sigmf_of(record: &RecordOptions<'_>) -> Result<SigmfOptions, Error> {
    let hertz = |hertz: f64| (hertz != 0.0).then_some(Hertz(hertz));
    for number in [record.sample_rate, record.frequency] {
        if !number.is_finite() || number < 0.0 {
            return Err(Error::usage(format!("{number} is not a frequency")).hint("in hertz"));
        }
    }
    let datatype = record.datatype.map(str::parse::<Datatype>).transpose();
    Ok(SigmfOptions {
        datatype: datatype.map_err(|why| Error::usage(why).hint("as SigMF names it"))?,
        sample_rate: hertz(record.sample_rate),
        frequency: hertz(record.frequency),
        channels: (record.channels > 0).then_some(record.channels),
        hardware: record.hardware.map(str::to_owned),
    })
}

fn ended() -> Error {
    Error::usage("the recording has ended").hint("close it")
}
