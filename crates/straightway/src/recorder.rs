// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recording of what a program hands in: messages or blocks with their arrival times, written by
//! a thread of the library.

use super::Error;
use super::gatherer::{Gatherer, Refused};
use super::thread::{Thread, joined, spawn};
use ::stream::RecordReport;
use block::{Buffer, Clock};
use devices::Context;
use formats::Format;
use formats::mcap::MAGIC;
use linux::TscClock;
use recorder::BUFFERS;
use recorder::producer::{Message, Produced, Why};
use recorder::record::RecordSettings;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The least time between two looks at what waits.
const LEAST_WAIT: Duration = Duration::from_millis(1);

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
    /// Begins a recording. Of `settings`, the rate, the source, and what is told of commits are not
    /// used; the name is no template.
    ///
    /// # Errors
    /// There is no such volume, the name is taken, or the settings do not fit it or one another.
    pub fn open(settings: &RecordSettings) -> Result<Self, Error> {
        let settings = settings.of_program()?;
        let block_bytes = usize::try_from(settings.block.0).unwrap_or(usize::MAX);
        let buffers = usize::from(settings.buffers.unwrap_or(BUFFERS));
        let (policy, commit_ms, format) = (settings.policy, settings.commit_ms, settings.format);
        let watch = Arc::new(Mutex::new(RecordReport::default()));
        let (ready_to, ready) = channel();
        let (open, closed) = channel();
        let seen = Arc::clone(&watch);
        let clock = TscClock::new();
        let most_ticks = clock.ticks_from_us(u64::from(commit_ms) * 1_000);
        let most_wait = Duration::from_millis(u64::from(commit_ms)) / 4;
        let thread = spawn("straightway-record", move || {
            let produce = move |idle: Receiver<Buffer>, out: &Sender<Message>| {
                let gatherer = Gatherer::new(block_bytes, buffers, policy, idle, out.clone());
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

fn ended() -> Error {
    Error::usage("the recording has ended").hint("close it")
}
