// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recording's metadata work: reserving ahead, looking up the map, writing gap lines, making the
//! size durable. One operation at a time, in one future.

use core::future::poll_fn;
use core::task::Poll;

use block::{Clock, Device};
use volume::{File, Need};

use crate::gaps::GAP_LINE_BYTES;
use crate::record_state::{Held, Space};
use crate::{Error, Recorder};

/// How much is reserved for the companion file at a time: 1,024 gaps.
const GAP_RESERVE_BYTES: u64 = 64 << 10;
/// How often the write of a line is tried.
const GAP_ATTEMPTS: u32 = 4;
/// Gaps that wait before a commit is brought forward for them.
const GAPS_URGENT: usize = 16;

/// The next operation.
#[derive(Clone, Copy, Debug)]
enum Job {
    Provide(Need),
    Reserve {
        want_bytes: u64,
        least_bytes: u64,
        /// Nothing can be written before more is reserved.
        is_needed: bool,
    },
    Commit,
    End,
}

impl<D: Device, C: Clock> Recorder<'_, '_, D, C> {
    /// The recording's metadata work. Pin it once and pass it to each [`step`](Recorder::step).
    ///
    /// # Errors
    /// The error that ended the recording.
    pub async fn upkeep(&self) -> Result<(), Error> {
        if let Err(error) = self.keep_up().await {
            let mut state = self.state();
            let offset_bytes = state.report.durable_bytes;
            state.ring.fail(Error::Volume {
                offset_bytes,
                error,
            });
        }
        poll_fn(|_| {
            let state = self.state();
            match state.ring.in_flight {
                // Not before the end of the file before this one.
                0 if state.held != Held::Yes => Poll::Ready(()),
                _ => Poll::Pending,
            }
        })
        .await;
        let broken = self.state().ring.stopped;
        if broken {
            // What was written before the failure stays; the rest is discarded.
            if self.volume.rewind(self.file()).is_ok() {
                let _ = self.commit().await;
            }
        }
        let mut state = self.state();
        state.ring.reclaim();
        let unwritten = state.next_offset.saturating_sub(state.report.durable_bytes);
        state.report.abandoned_bytes = unwritten;
        state.ring.failure.map_or(Ok(()), Err)
    }

    async fn keep_up(&self) -> Result<(), volume::Error> {
        loop {
            match poll_fn(|_| self.next_job()).await {
                Job::Provide(need) => {
                    match self.volume.provide(self.file(), need).await {
                        // There is room once the piece that failed was repeated.
                        Ok(()) | Err(volume::Error::AppendFailed) => self.state().ring.need = None,
                        Err(error) => return Err(error),
                    }
                }
                Job::Reserve {
                    want_bytes,
                    least_bytes,
                    is_needed,
                } => {
                    let may_ask = is_needed && self.state().space == Space::Enough;
                    let reserved = if self.has_line().await? || !may_ask {
                        let volume = self.volume;
                        let reserve = volume.reserve_ahead(self.file(), want_bytes, least_bytes);
                        reserve.await
                    } else {
                        Err(volume::Error::NoSpace)
                    };
                    self.reserved(reserved, is_needed)?;
                }
                Job::Commit => self.commit().await?,
                Job::End => return self.commit().await,
            }
        }
    }

    /// Reserves a block of the companion, before more is for the data: what is lost later has its
    /// line. Whether it has one, or needs none.
    async fn has_line(&self) -> Result<bool, volume::Error> {
        let gap_file = self.state().gaps.file;
        let Some(gap_file) = gap_file.filter(|_| self.limits.waits_for_space) else {
            return Ok(true);
        };
        if self.volume.file_status(gap_file)?.reserved_bytes > 0 {
            return Ok(true);
        }
        let block_bytes = self.limits.device_block as u64;
        let reserved = self
            .volume
            .reserve_ahead(gap_file, block_bytes, block_bytes);
        match reserved.await {
            Ok(_) => Ok(true),
            Err(volume::Error::NoSpace | volume::Error::MapFull) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Processes the result of a reservation.
    fn reserved(
        &self,
        reserved: Result<u64, volume::Error>,
        is_needed: bool,
    ) -> Result<(), volume::Error> {
        let appended = self.volume.file_status(self.file())?.appended_bytes;
        let mut state = self.state();
        state.report.reservations += 1;
        match reserved {
            Ok(_) => {
                // There may be more space since it ended.
                state.full &= !is_needed;
                if state.space == Space::UsedUp {
                    state.space = Space::Enough;
                }
                if matches!(state.ring.need, Some(Need::Space(_))) {
                    state.ring.need = None;
                }
            }
            // All that is left is used up before the recording ends.
            Err(volume::Error::NoSpace | volume::Error::MapFull) if !is_needed => {
                state.full = true;
            }
            // The need remains, and is tried again with the caller's answer.
            Err(volume::Error::NoSpace)
                if self.limits.waits_for_space && state.space == Space::Enough =>
            {
                state.space = Space::Wanted;
            }
            Err(error @ (volume::Error::NoSpace | volume::Error::MapFull)) => {
                state.ring.fail(Error::Volume {
                    offset_bytes: appended,
                    error,
                });
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn next_job(&self) -> Poll<Job> {
        let status = match self.volume.file_status(self.file()) {
            Ok(status) => status,
            // The commit will report why.
            Err(_) => return Poll::Ready(Job::End),
        };
        let limits = &self.limits;
        let mut state = self.state();
        if state.ring.stopped {
            return match state.ring.in_flight {
                0 if state.held != Held::Yes => Poll::Ready(Job::End),
                _ => Poll::Pending,
            };
        }
        let to_come = state.end_offset.saturating_sub(status.appended_bytes);
        let want = limits.low_water_bytes.saturating_add(limits.reserve_bytes);
        let waiting = state.next_offset.saturating_sub(status.appended_bytes);
        let want = if state.ending {
            waiting
        } else if limits.waits_for_space {
            // What arrived beyond the expected end is followed by more.
            want.min(to_come).max(2 * waiting)
        } else {
            want.min(to_come).max(waiting)
        };
        match state.ring.need {
            // Until the caller has freed some; commits go on.
            Some(Need::Space(_)) if state.space == Space::Wanted => {}
            Some(Need::Space(_)) => {
                return Poll::Ready(Job::Reserve {
                    want_bytes: want,
                    least_bytes: limits.device_block as u64,
                    is_needed: true,
                });
            }
            Some(need) => return Poll::Ready(Job::Provide(need)),
            None => {}
        }
        if state.ending && state.done == state.handed && state.held == Held::No {
            return Poll::Ready(Job::End);
        }
        let low = if limits.waits_for_space {
            limits.low_water_bytes.min(to_come).max(waiting)
        } else {
            limits.low_water_bytes.min(to_come)
        };
        if !state.ending && !state.full && status.reserved_bytes < low {
            return Poll::Ready(Job::Reserve {
                want_bytes: want,
                least_bytes: low,
                is_needed: false,
            });
        }
        let now = self.clock.ticks();
        let uncovered = status
            .completed_bytes
            .saturating_sub(state.report.durable_bytes);
        // Only then may what is older be removed to free space.
        let is_waited_for = limits.waits_for_space
            && state.report.durable_bytes == 0
            && (state.full || state.space == Space::Wanted);
        let is_late = now.saturating_sub(state.last_commit) >= limits.commit_ticks;
        let is_due = uncovered >= limits.commit_bytes
            || uncovered > 0 && (is_late || is_waited_for)
            || state.gaps.waiting() >= GAPS_URGENT;
        if is_due && state.held == Held::No {
            return Poll::Ready(Job::Commit);
        }
        if uncovered == 0 && state.gaps.waiting() == 0 {
            // The time counts from the first byte that is not covered.
            state.last_commit = now;
        }
        Poll::Pending
    }

    /// How long a caller may sleep between two [`step`](Recorder::step)s, in microseconds, while
    /// the device has nothing to do and no block comes: until the size is to be made durable;
    /// `u64::MAX` if all of it is.
    pub fn idle_us(&self) -> u64 {
        let state = self.state();
        let status = self.volume.file_status(self.file());
        let is_covered =
            status.is_ok_and(|status| status.completed_bytes <= state.report.durable_bytes);
        if is_covered {
            return u64::MAX;
        }
        let passed = self.clock.ticks().saturating_sub(state.last_commit);
        let left = self.limits.commit_ticks.saturating_sub(passed);
        crate::us_from_ticks(left, self.limits.ticks_per_second)
    }

    /// Makes durable what is written, the gaps before it first.
    async fn commit(&self) -> Result<(), volume::Error> {
        if self.state().held == Held::Forever {
            return Ok(());
        }
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
        match self.volume.sync(self.file()).await {
            // Everything before the failure is durable. The piece is retried, or the recording
            // ends.
            Err(volume::Error::AppendFailed) => {
                Ok(self.volume.file_status(self.file())?.committed_bytes)
            }
            result => result,
        }
    }

    /// Provides what a companion's lines need; waits for the caller to free space if it can.
    async fn provide_for_lines(&self, file: File, need: Need) -> Result<(), volume::Error> {
        loop {
            let result = match need {
                // One block of lines is the least; more is taken if there is space.
                Need::Space(want_bytes) => {
                    let least_bytes = self.limits.device_block as u64;
                    let reserved = self.volume.reserve_ahead(file, want_bytes, least_bytes);
                    reserved.await.map(|_| ())
                }
                need => self.volume.provide(file, need).await,
            };
            if result != Err(volume::Error::NoSpace) || !self.limits.waits_for_space {
                return result;
            }
            if self.state().space == Space::UsedUp || self.state().ring.stopped {
                return result;
            }
            self.state().space = Space::Wanted;
            poll_fn(|_| {
                let state = self.state();
                if state.space == Space::Wanted && !state.ring.stopped {
                    Poll::Pending
                } else {
                    Poll::Ready(())
                }
            })
            .await;
        }
    }

    /// Writes lines for the oldest gaps.
    async fn write_gaps(&self, file: File) -> Result<(), volume::Error> {
        let (lines, filled) = {
            let number = self.volume.file_status(file)?.appended_bytes / GAP_LINE_BYTES as u64;
            let mut state = self.state();
            let lines = state.gaps.fill(number);
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
                match Need::of_append(refused.error, GAP_RESERVE_BYTES) {
                    Some(need) => self.provide_for_lines(file, need).await?,
                    None if refused.error == volume::Error::Busy => yield_once().await,
                    None => return Err(refused.error),
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

/// Yields once, so that the device's completions are processed first.
async fn yield_once() {
    let mut first = true;
    poll_fn(|_| {
        if core::mem::replace(&mut first, false) {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
}
