// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From one file to the next without a pause: two recorders take turns, and share one set of
//! buffers.
//!
//! While the old recorder's last blocks are written and made durable, the new one's first blocks
//! are already submitted. What comes later is never durable first: the new file's commits wait
//! until the old file is whole.

use block::{Clock, Device};
use volume::File;

use crate::gaps::{GapFile, Gaps};
use crate::place::{self, RingPlace};
use crate::record;
use crate::record_state::{Held, Space};
use crate::{Error, RecordReport, Recorder};

impl<'r, D: Device, C: Clock> Recorder<'r, '_, D, C> {
    /// Prepares a recorder to take turns with this one. It has no buffers and no file yet:
    /// [`restart`](Recorder::restart) gives it a file, [`hand_over`](Recorder::hand_over) the
    /// buffers. There must be as many `places` as this one has, each of them
    /// [vacant](RingPlace::vacant).
    ///
    /// # Errors
    /// [`Error::BadRing`].
    pub fn partner(&self, clock: C, places: &'r mut [RingPlace]) -> Result<Self, Error> {
        if !place::are_vacant(places) || places.len() != self.state().ring.places.len() {
            return Err(Error::BadRing);
        }
        let limits = self.limits;
        Ok(Self::ended(self.volume, self.file(), clock, limits, places))
    }

    /// Prepares this recorder, which has ended without an error and has passed its buffers on, for
    /// another file, and returns the counters of the one before. Its `upkeep` has ended too: pin a
    /// new one.
    ///
    /// # Errors
    /// [`Error::Ended`] if it has not ended like this; those of [`new`](Recorder::new). Nothing has
    /// changed then.
    pub fn restart(
        &self,
        file: File,
        gaps: Option<GapFile>,
        total_bytes: Option<u64>,
    ) -> Result<RecordReport, Error> {
        let status = record::checked(self.volume, file, gaps.as_ref())?;
        let mut state = self.state();
        let is_over = state.ending && state.ring.failure.is_none() && state.done == state.taken;
        if !is_over || !place::are_vacant(state.ring.places) {
            return Err(Error::Ended);
        }
        state.gaps = Gaps::new(gaps);
        state.ring.need = None;
        state.held = Held::No;
        state.ending = false;
        state.full = false;
        state.space = Space::Enough;
        state.last_commit = self.clock.ticks();
        state.start = None;
        state.next_offset = status.appended_bytes;
        state.end_offset = record::end_of(&status, total_bytes);
        self.set_file(file);
        let next = RecordReport {
            durable_bytes: status.committed_bytes,
            ..RecordReport::default()
        };
        Ok(core::mem::replace(&mut state.report, next))
    }

    /// Ends the input of this file, as [`finish`](Recorder::finish) does: the blocks that follow
    /// are handed in to `next`, those in buffers that the producer has now too. Until this recorder
    /// has ended, call [`pass_buffers`](Recorder::pass_buffers) in each iteration; then
    /// [`follow_on`](Recorder::follow_on), or, if it failed, [`give_up`](Recorder::give_up) on
    /// `next`.
    pub fn hand_over(&self, next: &Self) {
        self.finish();
        let lent = {
            let mut state = self.state();
            let lent = state.taken - state.handed;
            state.taken = state.handed;
            lent
        };
        {
            let mut state = next.state();
            debug_assert!(state.handed == state.taken, "it has not begun");
            state.taken += lent;
            state.held = Held::Yes;
        }
        self.pass_buffers(next);
    }

    /// Gives `next` the buffers of the blocks that are written.
    pub fn pass_buffers(&self, next: &Self) {
        let mut state = self.state();
        let mut next = next.state();
        while let Some(buffer) = state.take_free() {
            if let Err(buffer) = next.put_free(buffer) {
                debug_assert!(false, "the next ring is shorter");
                let _ = state.put_free(buffer);
                break;
            }
        }
        let bytes = state.report.bytes - state.report.written_bytes;
        next.before = (state.handed - state.done, bytes);
    }

    /// The file before this one is whole and durable: this one's commits begin.
    pub fn follow_on(&self) {
        let mut state = self.state();
        state.held = Held::No;
        state.before = (0, 0);
    }

    /// The recording ended with `error` in the file before this one. Nothing of this file is
    /// committed, because the end of the other is missing.
    pub fn give_up(&self, error: Error) {
        let mut state = self.state();
        state.held = Held::Forever;
        state.ring.fail(error);
    }
}
