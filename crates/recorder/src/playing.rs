// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One playback from a volume mounted by this process: its threads, and the loop between them.

use crate::Streamed;
use crate::sink::{Sink, consume};
use crate::{BUFFERS, WAIT, not_begun};
use block::Clock;
use devices::Bar;
use devices::Context;
use devices::error::Result;
use files::{Mounted, failed};
use linux::TscClock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use stream::{Error as StreamError, PlayOptions, PlayReport, Played as Block, Player, RingPlace};
use volume::layout::CHUNK_BYTES;
use volume::{File, Volume};

/// How long the playback may sleep while the device works or nothing is due.
const IDLE: Duration = Duration::from_micros(200);

/// The results of a playback.
pub struct Played {
    /// The volume's result.
    pub result: std::result::Result<(), StreamError>,
    /// The sink, which must be ended, or its failure.
    pub written: Result<Sink>,
    /// The counters.
    pub report: PlayReport,
}

/// Options of a playback.
pub struct Playing {
    /// Rate, deadline, and whether existing checksums are verified.
    pub options: PlayOptions,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Number of buffers; `None` for the default.
    pub buffers: Option<u16>,
}

/// The thread that writes panicked.
pub fn writer_ended() -> devices::Error {
    devices::Error::other("the writing thread ended")
}

impl Playing {
    /// Bytes of a block: checksums are verified in whole chunks.
    pub const fn block_bytes(&self, verify: bool) -> u64 {
        if verify {
            self.block_bytes.next_multiple_of(CHUNK_BYTES)
        } else {
            self.block_bytes
        }
    }

    /// Plays; see [`VolumeHost::play`](crate::volume_host::VolumeHost::play).
    ///
    /// # Errors
    /// The same as those of that function.
    pub fn run(
        &self,
        context: &Context,
        mounted: &Mounted<'_, '_>,
        sink: Sink,
        file: File,
    ) -> Result<Streamed<Played>> {
        let clock = TscClock::new();
        let status = mounted.volume.file_status(file);
        let status = status.map_err(|error| failed(mounted.drive, error))?;
        let verify = status.checksums && self.options.verify;
        let block_bytes = self.block_bytes(verify);
        let mut ring = Vec::new();
        for _ in 0..self.buffers.unwrap_or(BUFFERS) {
            ring.push(RingPlace::new(
                mounted.memory.allocate(block_bytes as usize)?,
            ));
        }
        let options = PlayOptions {
            verify,
            ..self.options
        };
        let bar = context.bytes_bar(Some(status.committed_bytes));
        let player = Player::new(mounted.volume, file, clock, &mut ring, &options);
        let player = match player {
            Ok(player) => player,
            Err(error) => return Ok(Err(not_begun("playing", error))),
        };
        let sink_failed = AtomicBool::new(false);
        let (full_to, full) = channel();
        let (idle_to, idle) = channel();
        let stop = || context.cancel.is_set() || sink_failed.load(Ordering::Relaxed);
        let (result, written) = std::thread::scope(|scope| {
            let on_failure = || sink_failed.store(true, Ordering::Relaxed);
            let consumer = scope.spawn(move || consume(sink, full, &idle_to, &on_failure));
            let result = Self::pump(&player, mounted.volume, clock, &full_to, &idle, &bar, &stop);
            drop(full_to);
            (result, consumer.join())
        });
        while let Ok(buffer) = idle.try_recv() {
            let _ = player.give_back(buffer);
        }
        bar.finish_and_clear();
        let report = player.report();
        for buffer in ring.into_iter().filter_map(RingPlace::into_buffer) {
            mounted.memory.give_back(buffer);
        }
        let written = written.unwrap_or_else(|_| Err(writer_ended()));
        Ok(Ok(Played {
            result,
            written,
            report,
        }))
    }

    fn pump<D: block::Device>(
        player: &Player<'_, '_, D, TscClock>,
        volume: &Volume<'_, D>,
        clock: TscClock,
        full: &Sender<Block>,
        idle: &Receiver<block::Buffer>,
        bar: &Bar,
        stop: &dyn Fn() -> bool,
    ) -> std::result::Result<(), StreamError> {
        let mut upkeep = std::pin::pin!(player.upkeep());
        loop {
            if let std::task::Poll::Ready(result) = player.step(upkeep.as_mut(), &mut |_| {}) {
                return result;
            }
            if stop() {
                player.stop();
            }
            let mut happened = false;
            while let Some(played) = player.next() {
                happened = true;
                bar.inc(played.len_bytes as u64);
                // The thread lives until this end of the channel is dropped.
                let _ = full.send(played);
            }
            while let Ok(buffer) = idle.try_recv() {
                happened = true;
                let _ = player.give_back(buffer);
            }
            if happened {
                continue;
            }
            let left = player
                .next_due()
                .map_or(u64::MAX, |due| due.saturating_sub(clock.ticks()));
            let left = stream::us_from_ticks(left, clock.ticks_per_second());
            // Before a block is due there is no sleep.
            let sleep = Duration::from_micros(left)
                .saturating_sub(IDLE / 2)
                .min(IDLE);
            if volume.outstanding() > 0 {
                volume.wait(sleep.as_micros() as u32);
            } else if let Ok(buffer) = idle.recv_timeout(sleep.min(WAIT)) {
                let _ = player.give_back(buffer);
            }
        }
    }
}
