// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The requests of all connections on one device's queue.
//!
//! Each client may hold a fixed share of the buffers, so one that does not read its answers stops
//! only itself. A request takes all its buffers at once: it never waits for some while it holds
//! others.
//!
//! A client that has lost its connection sends what was not answered again, on another connection.
//! Its old changes must have ended before newer ones of the same blocks: a change that overlaps one
//! of a client that is gone waits for its end, and what such a client had not begun is not begun.

use crate::job::{Answer, Job, Key, Piece, Stage};
use crate::{ExportCommand, Request};
use block::{Buffer, Completion, Device, Error, Geometry, Refused, Tag};
use std::collections::VecDeque;

/// Bits of a tag for the number of a buffer in its request.
const PIECE_BITS: u32 = 12;

/// What each client may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a buffer: whole blocks, and at most the device's largest transfer.
    pub piece_bytes: usize,
    /// Buffers of a client; at least 3.
    pub pieces: usize,
    /// Requests of a client.
    pub jobs: usize,
}

impl Limits {
    /// Limits for a device with this much memory for each client, and commands of about
    /// `piece_bytes`.
    pub fn new(geometry: &Geometry, piece_bytes: usize, share_bytes: usize, jobs: usize) -> Self {
        let block = geometry.block_size_bytes();
        let most = geometry.max_transfer_bytes();
        let piece_bytes = (piece_bytes.min(most) / block * block).max(block);
        let pieces = (share_bytes / piece_bytes).clamp(3, 1 << PIECE_BITS);
        Self {
            piece_bytes,
            pieces,
            jobs: jobs.max(1),
        }
    }

    /// The longest read or write whose buffers a client may hold, wherever in a block it begins.
    pub fn max_payload_bytes(&self) -> u32 {
        let bytes = (self.pieces - 2).saturating_mul(self.piece_bytes);
        bytes.min(32 << 20) as u32
    }
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
    /// It was accepted. A write waits for its payload: [`Engine::space`].
    Accepted(Key),
    /// The client holds as much as it may: try again when it has got an answer.
    Later,
}

#[derive(Clone, Copy, Debug, Default)]
struct Share {
    pieces: usize,
    jobs: usize,
}

/// The requests under way.
#[derive(Debug)]
pub struct Engine {
    limits: Limits,
    geometry: Geometry,
    free: Vec<Buffer>,
    shares: Vec<Share>,
    jobs: Vec<Option<Job>>,
    /// Jobs with a command to submit.
    ready: VecDeque<usize>,
    done: VecDeque<Answer>,
    /// Empty lists, kept from requests that have ended.
    spare: Vec<Vec<Piece>>,
    /// Changes under way whose clients are gone.
    abandoned_changes: usize,
}

impl Engine {
    /// An engine for a device of this geometry, with `clients * limits.pieces` buffers of
    /// `limits.piece_bytes` in memory that the device reaches.
    pub fn new(geometry: &Geometry, limits: Limits, clients: usize, buffers: Vec<Buffer>) -> Self {
        Self {
            limits,
            geometry: *geometry,
            free: buffers,
            shares: vec![Share::default(); clients],
            jobs: Vec::new(),
            ready: VecDeque::new(),
            done: VecDeque::new(),
            spare: Vec::new(),
            abandoned_changes: 0,
        }
    }

    /// Takes a valid request of a client.
    pub fn begin(&mut self, client: usize, request: Request) -> Started {
        let block_bytes = self.geometry.block_size_bytes() as u64;
        let count = match request.command {
            ExportCommand::Read | ExportCommand::Write => {
                let (_, bytes) = Job::span(&request, block_bytes);
                bytes.div_ceil(self.limits.piece_bytes as u64) as usize
            }
            _ => 0,
        };
        let Some(share) = self.shares.get_mut(client) else {
            return Started::Later;
        };
        let has_room = share.jobs < self.limits.jobs && share.pieces + count <= self.limits.pieces;
        if !has_room || count > self.free.len() {
            return Started::Later;
        }
        share.jobs += 1;
        share.pieces += count;
        let mut pieces = self.spare.pop().unwrap_or_default();
        let taken = self.free.drain(self.free.len() - count..);
        pieces.extend(taken.map(Piece::Here));
        let mut job = Job::new(client, request, block_bytes, pieces);
        let is_native = self.geometry.features.fua && request.command != ExportCommand::Trim;
        job.flushes = request.fua && !is_native;
        let is_ready = job.stage != Stage::Filling;
        let index = self.jobs.iter().position(Option::is_none);
        let index = index.unwrap_or_else(|| {
            self.jobs.push(None);
            self.jobs.len() - 1
        });
        self.jobs[index] = Some(job);
        if is_ready {
            self.ready.push_back(index);
        }
        Started::Accepted(Key(index))
    }

    /// Where the next bytes of a write's payload go; empty if it is complete.
    pub fn space(&mut self, key: Key) -> &mut [u8] {
        let piece_bytes = self.limits.piece_bytes;
        match self.jobs.get_mut(key.0) {
            Some(Some(job)) if job.stage == Stage::Filling => job.space(piece_bytes),
            _ => &mut [],
        }
    }

    /// Reports that `bytes` of [`space`](Self::space) were filled.
    pub fn filled(&mut self, key: Key, bytes: usize) {
        if let Some(Some(job)) = self.jobs.get_mut(key.0) {
            if job.stage == Stage::Filling && job.fill(bytes) {
                job.stage = Stage::Running;
                self.ready.push_back(key.0);
            }
        }
    }

    /// Ends a write whose payload does not come: it is not begun, and has no answer.
    pub fn cancel(&mut self, key: Key) {
        if let Some(Some(job)) = self.jobs.get_mut(key.0) {
            if job.stage == Stage::Filling {
                job.abandoned = true;
                self.abandoned_changes += 1;
                self.finish(key.0);
            }
        }
    }

    /// Submits what the device's queue holds, and takes its completions. Returns whether anything
    /// happened.
    pub fn turn<D: Device + ?Sized>(&mut self, device: &mut D) -> bool {
        let mut happened = self.submit(device);
        while let Some(completion) = device.poll() {
            self.complete(completion);
            happened = true;
        }
        happened
    }

    /// The next answer.
    pub fn answer(&mut self) -> Option<Answer> {
        self.done.pop_front()
    }

    /// Takes the buffers of an answer back.
    pub fn give_back(&mut self, answer: Answer) {
        self.free_pieces(answer.client, answer.pieces);
    }

    /// Frees what the device returned of a client's buffers.
    fn free_pieces(&mut self, client: usize, mut pieces: Vec<Piece>) {
        let before = self.free.len();
        self.free
            .extend(pieces.drain(..).filter_map(Piece::into_buffer));
        let count = self.free.len() - before;
        if let Some(share) = self.shares.get_mut(client) {
            share.pieces = share.pieces.saturating_sub(count);
        }
        if pieces.capacity() > 0 {
            self.spare.push(pieces);
        }
    }

    /// Ends the requests of a client that is gone: those that are not begun are not begun, the
    /// others are completed without an answer. The client's number can be used again.
    pub fn abandon(&mut self, client: usize) {
        for index in 0..self.jobs.len() {
            let Some(Some(job)) = self.jobs.get_mut(index) else {
                continue;
            };
            if job.client != client || job.abandoned {
                continue;
            }
            job.abandoned = true;
            let is_begun = job.in_flight > 0;
            self.abandoned_changes += usize::from(job.changes());
            if !is_begun {
                self.ready.retain(|ready| *ready != index);
                self.finish(index);
            }
        }
        let done = std::mem::take(&mut self.done);
        for answer in done {
            if answer.client == client {
                self.give_back(answer)
            } else {
                self.done.push_back(answer)
            }
        }
    }

    /// Number of requests under way, those without their payload included.
    pub fn outstanding(&self) -> usize {
        self.jobs.iter().flatten().count()
    }

    /// Number of a client's requests under way.
    pub fn outstanding_of(&self, client: usize) -> usize {
        self.shares.get(client).map_or(0, |share| share.jobs)
    }

    /// All buffers, once no request is under way and each answer was given back.
    pub fn into_buffers(self) -> Vec<Buffer> {
        self.free
    }

    fn submit<D: Device + ?Sized>(&mut self, device: &mut D) -> bool {
        let mut submitted = false;
        let mut waiting = 0;
        while let Some(&index) = self.ready.front() {
            if self.abandoned_changes != 0 && self.must_wait(index) {
                self.ready.rotate_left(1);
                waiting += 1;
                if waiting >= self.ready.len() {
                    break;
                }
                continue;
            }
            match self.submit_next(index, device) {
                Ok(true) => submitted = true,
                Ok(false) => {
                    self.ready.pop_front();
                    self.end_if_over(index);
                }
                Err(()) => break,
            }
        }
        if submitted {
            device.kick();
        }
        submitted
    }

    /// Whether a change has to wait for one of a client that is gone.
    fn must_wait(&self, index: usize) -> bool {
        let Some(Some(job)) = self.jobs.get(index) else {
            return false;
        };
        let mut jobs = self.jobs.iter().flatten();
        let is_old = |old: &Job| old.abandoned && old.changes() && old.overlaps(job);
        !job.abandoned && job.changes() && jobs.any(is_old)
    }

    /// Submits a job's next command; false: it has none. An error: the queue is full.
    fn submit_next<D: Device + ?Sized>(
        &mut self,
        index: usize,
        device: &mut D,
    ) -> Result<bool, ()> {
        let log2 = self.geometry.block_size_log2;
        let native_fua = self.geometry.features.fua;
        let Some(Some(job)) = self.jobs.get_mut(index) else {
            return Ok(false);
        };
        if !job.has_next() {
            return Ok(false);
        }
        let Some((piece, operation)) = job.next(self.limits.piece_bytes, log2, native_fua) else {
            job.error = Some(Error::Gone);
            return Ok(false);
        };
        let tag = (index as u32) << PIECE_BITS | piece as u32;
        match device.submit(block::Request { tag, operation }) {
            Ok(()) => {
                job.in_flight += 1;
                Ok(true)
            }
            Err(Refused { error, request }) => {
                job.undo(piece, request.operation, log2);
                if error == Error::QueueFull {
                    return Err(());
                }
                job.error = job.error.or(Some(error));
                Ok(false)
            }
        }
    }

    fn complete(&mut self, completion: Completion) {
        let tag: Tag = completion.tag;
        let index = (tag >> PIECE_BITS) as usize;
        let Some(Some(job)) = self.jobs.get_mut(index) else {
            return;
        };
        let piece = tag & ((1 << PIECE_BITS) - 1);
        job.take_back(piece as usize, completion.buffer);
        job.in_flight = job.in_flight.saturating_sub(1);
        if let Err(error) = completion.result {
            job.error = job.error.or(Some(error));
        }
        if job.stage == Stage::Flushing && job.in_flight == 0 {
            self.ready.retain(|ready| *ready != index);
            self.finish(index);
            return;
        }
        self.end_if_over(index);
    }

    /// Ends a job whose commands are all completed, or lets its flush follow.
    fn end_if_over(&mut self, index: usize) {
        let Some(Some(job)) = self.jobs.get_mut(index) else {
            return;
        };
        if job.in_flight > 0 || (job.error.is_none() && job.has_next()) {
            return;
        }
        if job.error.is_none() && job.flushes {
            job.flushes = false;
            job.stage = Stage::Flushing;
            self.ready.push_back(index);
            return;
        }
        self.ready.retain(|ready| *ready != index);
        self.finish(index);
    }

    fn finish(&mut self, index: usize) {
        let Some(job) = self.jobs.get_mut(index).and_then(Option::take) else {
            return;
        };
        if let Some(share) = self.shares.get_mut(job.client) {
            share.jobs = share.jobs.saturating_sub(1);
        }
        let abandoned = job.abandoned;
        self.abandoned_changes -= usize::from(abandoned && job.changes());
        let mut answer = job.end();
        if abandoned {
            self.give_back(answer);
            return;
        }
        if answer.data_bytes() == 0 {
            let pieces = std::mem::take(&mut answer.pieces);
            self.free_pieces(answer.client, pieces);
        }
        self.done.push_back(answer);
    }
}
