// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A playback of a file to a program: blocks at their time, read ahead by a thread of the library.

use super::Error;
use super::thread::{Thread, joined, spawn};
use ::stream::Played;
use block::Buffer;
use devices::Context;
use recorder::BUFFERS;
use recorder::place::{Place, To};
use recorder::play::PlaySettings;
use recorder::sink::Hand;
use std::sync::mpsc::{Receiver, Sender, channel};

/// A playback's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlayReport {
    /// Bytes of the blocks that were delivered.
    pub bytes: u64,
    /// Blocks that were delivered after their deadline.
    pub misses: u64,
    /// The longest by which a deadline was missed, in microseconds.
    pub lateness_max_us: u64,
    /// The longest time from a block's due time until it was delivered, in microseconds.
    pub latency_max_us: u64,
    /// Blocks that had not been read when they were due, or for which the program left no memory.
    pub underruns: u64,
    /// Reads that failed and were repeated.
    pub retries: u64,
}

/// A playback in progress. Dropped, it ends.
pub struct Player {
    running: Option<Running>,
    /// The block that the program has.
    current: Option<Played>,
    report: PlayReport,
}

/// The thread that plays, and the channels to it.
struct Running {
    full: Receiver<Played>,
    idle: Sender<Buffer>,
    /// Takes the channel of blocks back, which ends the playback.
    back: Sender<Receiver<Played>>,
    thread: Thread<(PlayReport, Option<Error>)>,
}

impl Player {
    /// Begins to play. Of `settings`, the sink and what concerns it are not used.
    ///
    /// # Errors
    /// There is no such volume or file, or the settings do not fit it.
    pub fn open(settings: &PlaySettings) -> Result<Self, Error> {
        let settings = PlaySettings {
            // Not those of a coprocessor, which does not play to a program.
            buffers: Some(settings.buffers.unwrap_or(BUFFERS)),
            to: To(Place::Null),
            replay: false,
            force: false,
            ..settings.clone()
        };
        let (ready, begun) = channel();
        let (back, returned) = channel();
        let hand = Hand { ready, returned };
        let thread = spawn("straightway-play", move || {
            let played = settings.play_blocks(&Context::system(), hand);
            let (file, failure) = played.map_err(|failure| failure.on(&settings.device))?;
            let report = PlayReport {
                bytes: file.counted.length_bytes,
                misses: file.counted.misses,
                lateness_max_us: file.counted.lateness_max_us,
                latency_max_us: file.counted.latency_max_us,
                underruns: file.underruns,
                retries: file.counted.retries,
            };
            let failure = failure.map(|failure| failure.on(&settings.device));
            Ok((report, failure))
        })?;
        let Ok((full, idle)) = begun.recv() else {
            return Err(joined(thread).err().unwrap_or_else(ended));
        };
        Ok(Self {
            running: Some(Running {
                full,
                idle,
                back,
                thread,
            }),
            current: None,
            report: PlayReport::default(),
        })
    }

    /// Waits until the next block is due and there: [`current`](Player::current) has it until the
    /// next call, and none after the last. While the program has a block, its memory reads none
    /// ahead.
    ///
    /// # Errors
    /// The playback ended early, with its reason: the blocks before are what the file has.
    pub fn advance(&mut self) -> Result<(), Error> {
        let Some(running) = &self.running else {
            return Ok(());
        };
        running.thread.check()?;
        give_back(running, &mut self.current);
        match running.full.recv() {
            Ok(played) => {
                self.current = Some(played);
                Ok(())
            }
            Err(_) => self.finish(),
        }
    }

    /// The block that the program has, and where in the file it is.
    pub fn current(&self) -> Option<(u64, &[u8])> {
        let played = self.current.as_ref()?;
        let data = played.buffer.get(..played.len_bytes)?;
        Some((played.offset_bytes, data))
    }

    /// The counters, once it has ended.
    pub const fn report(&self) -> PlayReport {
        self.report
    }

    /// Ends the playback, wherever it is, and closes the device.
    ///
    /// # Errors
    /// It ended early, or the device could not be closed. A second call has none.
    pub fn finish(&mut self) -> Result<(), Error> {
        let Some(running) = self.running.take() else {
            return Ok(());
        };
        give_back(&running, &mut self.current);
        let _ = running.back.send(running.full);
        let (report, failure) = joined(running.thread)?;
        self.report = report;
        failure.map_or(Ok(()), Err)
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

/// Its buffer is read into again.
fn give_back(running: &Running, current: &mut Option<Played>) {
    if let Some(played) = current.take() {
        let _ = running.idle.send(played.buffer);
    }
}

fn ended() -> Error {
    Error::other("the playback has ended")
}
