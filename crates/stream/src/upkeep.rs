//! What a recording does beside its data: reserving ahead, finding the map, naming gaps, making
//! the size durable. One thing at a time, in one future.

use core::future::poll_fn;
use core::task::Poll;

use block::{Clock, Device};
use volume::File;

use crate::record_state::Need;
use crate::{Error, Recorder};

/// How much is reserved for the companion file at a time: 1,024 gaps.
const GAP_RESERVE_BYTES: u64 = 64 << 10;
/// How often a line is written before it is given up.
const GAP_ATTEMPTS: u32 = 4;
/// Gaps that wait before a commit is brought forward for them.
const GAPS_URGENT: usize = 16;

/// What is to be done next.
#[derive(Clone, Copy, Debug)]
enum Job {
    Map,
    MapAt(u64),
    Reserve(u64),
    Commit,
    End,
}

impl<D: Device, C: Clock> Recorder<'_, '_, D, C> {
    /// The recording's upkeep. Pin it once and pass it to each [`step`](Recorder::step).
    ///
    /// # Errors
    /// What ended the recording.
    pub async fn upkeep(&self) -> Result<(), Error> {
        if let Err(error) = self.keep_up().await {
            let mut state = self.state();
            let offset_bytes = state.report.durable_bytes;
            state.fail(Error::Volume {
                offset_bytes,
                error,
            });
        }
        poll_fn(|_| match self.state().in_flight {
            0 => Poll::Ready(()),
            _ => Poll::Pending,
        })
        .await;
        let broken = self.state().broken;
        if broken {
            // What was written before the failure stays; the rest is given up.
            if self.volume.rewind(self.file).is_ok() {
                let _ = self.commit().await;
            }
        }
        let mut state = self.state();
        state.reclaim();
        let unwritten = state.next_offset.saturating_sub(state.report.durable_bytes);
        state.report.abandoned_bytes = unwritten;
        state.failure.map_or(Ok(()), Err)
    }

    async fn keep_up(&self) -> Result<(), volume::Error> {
        loop {
            match poll_fn(|_| self.next_job()).await {
                Job::Map => {
                    self.volume.prepare_append(self.file).await?;
                    self.state().need = None;
                }
                Job::MapAt(offset) => {
                    self.volume.prepare(self.file, offset).await?;
                    self.state().need = None;
                }
                Job::Reserve(bytes) => {
                    let reserved = self.volume.reserve(self.file, bytes).await;
                    let mut state = self.state();
                    state.report.reservations += 1;
                    match reserved {
                        Ok(_) => {}
                        // All that is left is used up before the recording ends.
                        Err(volume::Error::NoSpace | volume::Error::MapFull) => {
                            state.reserve_most = bytes / 2;
                            state.full = bytes < self.limits.device_block as u64;
                        }
                        Err(error) => return Err(error),
                    }
                    if state.need == Some(Need::Space) {
                        state.need = None;
                    }
                }
                Job::Commit => {
                    self.commit().await?;
                    let mut state = self.state();
                    if state.need == Some(Need::Commit) {
                        state.need = None;
                    }
                }
                Job::End => return self.commit().await,
            }
        }
    }

    fn next_job(&self) -> Poll<Job> {
        let status = match self.volume.file_status(self.file) {
            Ok(status) => status,
            // The commit will say why.
            Err(_) => return Poll::Ready(Job::End),
        };
        let limits = &self.limits;
        let mut state = self.state();
        if state.broken {
            return match state.in_flight {
                0 => Poll::Ready(Job::End),
                _ => Poll::Pending,
            };
        }
        let to_come = limits.end_offset.saturating_sub(status.appended_bytes);
        let want = limits.low_water_bytes.saturating_add(limits.reserve_bytes);
        let waiting = state.next_offset.saturating_sub(status.appended_bytes);
        let want = match state.ending {
            true => waiting,
            false => want.min(to_come).max(waiting),
        };
        let want = want.min(state.reserve_most);
        match state.need {
            Some(Need::Map) => return Poll::Ready(Job::Map),
            Some(Need::MapAt(offset)) => return Poll::Ready(Job::MapAt(offset)),
            Some(Need::Space) => return Poll::Ready(Job::Reserve(want)),
            Some(Need::Commit) => return Poll::Ready(Job::Commit),
            None => {}
        }
        if state.ending && state.done == state.handed {
            return Poll::Ready(Job::End);
        }
        let low = limits.low_water_bytes.min(to_come).min(state.reserve_most);
        if !state.ending && !state.full && status.reserved_bytes < low {
            return Poll::Ready(Job::Reserve(want));
        }
        let now = self.clock.ticks();
        let uncovered = status
            .completed_bytes
            .saturating_sub(state.report.durable_bytes);
        let is_due = uncovered >= limits.commit_bytes
            || uncovered > 0 && now.saturating_sub(state.last_commit) >= limits.commit_ticks
            || state.gaps.waiting() >= GAPS_URGENT;
        if is_due {
            return Poll::Ready(Job::Commit);
        }
        if uncovered == 0 && state.gaps.waiting() == 0 {
            // The time counts from the first byte that is not covered.
            state.last_commit = now;
        }
        Poll::Pending
    }

    /// Makes durable what is written, the gaps before it first.
    async fn commit(&self) -> Result<(), volume::Error> {
        self.state().committing = true;
        let result = self.commit_held().await;
        let mut state = self.state();
        state.committing = false;
        state.last_commit = self.clock.ticks();
        state.report.durable_bytes = result?;
        state.report.commits += 1;
        Ok(())
    }

    async fn commit_held(&self) -> Result<u64, volume::Error> {
        let gap_file = self.state().gaps.file;
        if let Some(gap_file) = gap_file {
            while self.state().gaps.waiting() > 0 {
                self.write_gaps(gap_file).await?;
            }
        }
        match self.volume.sync(self.file).await {
            // All before the failure is durable. The piece is repeated, or the recording ends.
            Err(volume::Error::AppendFailed) => {
                Ok(self.volume.file_status(self.file)?.committed_bytes)
            }
            result => result,
        }
    }

    /// Writes lines for the oldest gaps.
    async fn write_gaps(&self, file: File) -> Result<(), volume::Error> {
        let (lines, filled) = {
            let mut state = self.state();
            let lines = state.gaps.fill();
            (lines, state.gaps.filled)
        };
        let mut attempts = 0;
        loop {
            let Some(buffer) = self.state().gaps.buffer.take() else {
                return Err(volume::Error::from(block::Error::Gone));
            };
            let submitted = self.volume.append_merged(file, buffer, filled, 0);
            if let Err(refused) = submitted {
                self.state().gaps.buffer = Some(refused.buffer);
                match refused.error {
                    volume::Error::NeedsReservation => {
                        self.volume.reserve(file, GAP_RESERVE_BYTES).await?;
                    }
                    volume::Error::NeedsMap => self.volume.prepare_append(file).await?,
                    volume::Error::NeedsCommit => {
                        self.volume.sync(file).await?;
                    }
                    volume::Error::Busy => yield_once().await,
                    error => return Err(error),
                }
                continue;
            }
            self.volume.kick();
            let written = poll_fn(|_| match self.state().gaps.written.take() {
                Some(result) => Poll::Ready(result),
                None => Poll::Pending,
            })
            .await;
            match written {
                Ok(()) => break,
                Err(error) => {
                    attempts += 1;
                    self.volume.rewind(file)?;
                    if attempts == GAP_ATTEMPTS {
                        return Err(error);
                    }
                }
            }
        }
        self.volume.sync(file).await?;
        self.state().gaps.are_durable(lines);
        Ok(())
    }
}

/// Lets the device's completions in before going on.
async fn yield_once() {
    let mut first = true;
    poll_fn(|_| match core::mem::replace(&mut first, false) {
        true => Poll::Pending,
        false => Poll::Ready(()),
    })
    .await;
}
