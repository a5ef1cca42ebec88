// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The labels of a mirror in use: what they say on the members, and what they should say.

use super::{LABEL_TAG, Mirror, bits, label_lba, label_len};
use crate::label::{Label, MirrorState};
use crate::set::SetError;
use crate::watch::{ArrayEvent, Watch};
use crate::{MOST_MEMBERS, alias};
use block::{Buffer, Completion, Device, Error, Geometry, Operation};

/// Where the storing of a label is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Write,
    /// For members without force unit access.
    Flush,
}

#[derive(Debug)]
pub(super) struct Labels {
    /// As it was stored last.
    label: Label,
    /// As it is being stored.
    next: Label,
    buffers: [Option<Buffer>; MOST_MEMBERS],
    phase: Phase,
    unsent: u8,
    outstanding: u8,
    is_wanted: bool,
    /// Until the first of this use is being stored: its least number.
    first: Option<u64>,
    /// Whether the members have one of this use, which says what members it is without.
    has_begun: bool,
    /// Whether the members may differ from now on.
    is_dirty: bool,
    has_failed_write: bool,
    /// Reads wait for the first of this use.
    holds_reads: bool,
    error: Option<Error>,
    has_fua: bool,
    has_cache: bool,
}

impl Labels {
    pub(super) fn new(
        label: Label,
        least_sequence: u64,
        geometry: &Geometry,
        memory: Buffer,
        members: usize,
    ) -> Result<Self, SetError> {
        let len = label_len(geometry);
        if memory.len() < len * members {
            return Err(SetError::Memory);
        }
        let mut buffers = [const { None }; MOST_MEMBERS];
        let mut rest = memory;
        for place in buffers.iter_mut().take(members) {
            let (buffer, after) = rest.split_at(len);
            *place = Some(buffer);
            rest = after;
        }
        Ok(Self {
            label,
            next: label,
            buffers,
            phase: Phase::Idle,
            unsent: 0,
            outstanding: 0,
            is_wanted: false,
            first: Some(least_sequence),
            has_begun: false,
            is_dirty: label.mirror.is_dirty,
            has_failed_write: false,
            holds_reads: false,
            error: None,
            has_fua: geometry.features.fua,
            has_cache: geometry.features.volatile_write_cache,
        })
    }

    pub(super) const fn is_dirty(&self) -> bool {
        self.is_dirty
    }

    /// A change is about to be submitted; labels that could not be stored are tried again.
    pub(super) fn begin_change(&mut self) {
        self.retry();
        self.is_wanted |= !self.is_dirty || self.first.is_some();
        self.is_dirty = true;
    }

    /// Forgets an error, and tries again.
    pub(super) fn retry(&mut self) {
        self.is_wanted |= self.error.take().is_some();
    }

    /// Whether the labels say that the members may differ, and which are used.
    pub(super) fn may_change(&self) -> bool {
        self.has_begun && self.label.mirror.is_dirty && self.is_dirty
    }

    /// Stores them, and has reads wait for it.
    pub(super) const fn hold_reads(&mut self) {
        self.is_wanted = true;
        self.holds_reads = true;
    }

    /// Whether reads wait. They do not if the last member cannot store its label.
    pub(super) const fn holds_reads(&self) -> bool {
        self.holds_reads && !self.has_begun && self.error.is_none()
    }

    pub(super) fn request(&mut self) {
        self.is_wanted = true;
    }

    pub(super) fn set_clean(&mut self) {
        self.is_dirty = false;
        self.is_wanted = true;
    }

    pub(super) fn note_failed_write(&mut self) {
        self.has_failed_write = true;
    }

    pub(super) const fn has_failed_write(&self) -> bool {
        self.has_failed_write
    }

    pub(super) fn are_stored(&self) -> bool {
        !self.is_wanted && self.phase == Phase::Idle
    }

    /// Why the labels could not be stored on the last member.
    pub(super) const fn error(&self) -> Option<Error> {
        self.error
    }
}

impl<D, M, W, const REQUESTS: usize> Mirror<D, M, W, REQUESTS>
where
    D: Device,
    M: AsRef<[Option<D>]> + AsMut<[Option<D>]>,
    W: Watch,
{
    /// Begins to store the labels if they have changed, and submits what the members' queues take.
    pub(super) fn step_labels(&mut self) {
        let (state, in_use): (MirrorState, u8) = (self.state(), self.in_use());
        let labels = &mut self.labels;
        if labels.phase == Phase::Idle && labels.is_wanted && labels.error.is_none() {
            labels.is_wanted = false;
            labels.phase = Phase::Write;
            labels.next.sequence = match labels.first.take() {
                // The copies alternate on the members that are up to date.
                Some(least) => least + u64::from((least ^ labels.label.sequence) & 1 == 0),
                None => labels.next.sequence + 1,
            };
            labels.next.mirror = state;
            for member in bits(in_use) {
                if let Some(seen) = labels.next.seen.get_mut(member) {
                    *seen = labels.next.sequence;
                }
            }
            // A clean label counts from its first copy on.
            labels.label.mirror.is_dirty &= state.is_dirty;
            labels.unsent = in_use;
        }
        labels.unsent &= in_use;
        for member in bits(labels.unsent) {
            let labels = &mut self.labels;
            let next = Label {
                member: member as u8,
                ..labels.next
            };
            let lba = label_lba(&self.geometry, next.data_blocks, next.sequence);
            let operation = match (labels.phase, labels.buffers.get_mut(member)) {
                (Phase::Flush, _) => Operation::Flush,
                (_, Some(Some(buffer))) => {
                    next.encode(buffer);
                    alias::write(buffer, lba, labels.has_fua)
                }
                _ => continue,
            };
            match self.submit_to(member, LABEL_TAG, operation) {
                Ok(()) => self.labels.outstanding |= 1 << member,
                Err(refused) if refused.error == Error::QueueFull => continue,
                Err(refused) => self.label_failed(member, refused.error),
            }
            self.labels.unsent &= !(1 << member);
        }
        self.end_label_phase();
    }

    pub(super) fn label_written(&mut self, member: usize, completion: Completion) {
        self.labels.outstanding &= !(1 << member);
        if let Err(error) = completion.result {
            self.label_failed(member, error);
        }
        self.end_label_phase();
    }

    fn label_failed(&mut self, member: usize, error: Error) {
        self.watch.event(ArrayEvent::LabelFailed { member, error });
        if !self.drop_member(member) {
            self.labels.error = Some(error);
        }
    }

    fn end_label_phase(&mut self) {
        let in_use = self.in_use();
        let labels = &mut self.labels;
        if labels.phase == Phase::Idle || labels.outstanding != 0 || labels.unsent & in_use != 0 {
            return;
        }
        if labels.error.is_some() {
            labels.phase = Phase::Idle;
        } else if labels.phase == Phase::Write && !labels.has_fua && labels.has_cache {
            labels.phase = Phase::Flush;
            labels.unsent = in_use;
        } else {
            labels.phase = Phase::Idle;
            labels.label = labels.next;
            labels.has_begun = true;
        }
    }
}
