// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes members equal, one piece at a time.

use super::{COPY_TAG, Mirror, bits};
use crate::alias;
use crate::set::SetError;
use crate::watch::{ArrayEvent, Watch};
use block::{Buffer, Completion, Device, Error, Geometry, Lent, Operation};

/// The position is stored after each of this many parts of the whole.
const CHECKPOINTS: u64 = 64;

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Phase {
    Idle,
    Read,
    Write,
    /// What was copied becomes durable, before its position is stored.
    Checkpoint,
    /// The same at the end.
    Flush,
}

#[derive(Debug)]
pub(super) struct Rebuild {
    /// Blocks before this are equal.
    position: u64,
    /// Blocks before this are equal whatever the members' caches lose.
    durable_position: u64,
    all_blocks: u64,
    stored_position: u64,
    piece_blocks: u64,
    block_size_log2: u8,
    phase: Phase,
    buffer: Option<Buffer>,
    lent: Option<Lent>,
    count: u64,
    /// Live members that could not read the piece.
    tried: u8,
    unsent: u8,
    outstanding: u8,
    is_paused: bool,
    restarts: bool,
    /// The piece waits for changes under way, and later ones for the piece.
    is_due: bool,
}

impl Rebuild {
    pub(super) fn new(
        buffer: Buffer,
        geometry: &Geometry,
        position: u64,
    ) -> Result<Self, SetError> {
        let blocks = (buffer.len() >> geometry.block_size_log2) as u64;
        let piece_blocks = blocks.min(u64::from(geometry.max_transfer_blocks));
        if piece_blocks == 0 {
            return Err(SetError::Memory);
        }
        let position = position.min(geometry.block_count);
        Ok(Self {
            position,
            durable_position: position,
            all_blocks: geometry.block_count,
            stored_position: position,
            piece_blocks,
            block_size_log2: geometry.block_size_log2,
            phase: Phase::Idle,
            buffer: Some(buffer),
            lent: None,
            count: 0,
            tried: 0,
            unsent: 0,
            outstanding: 0,
            is_paused: false,
            restarts: false,
            is_due: false,
        })
    }

    pub(super) const fn position(&self) -> u64 {
        self.position
    }

    pub(super) const fn durable_position(&self) -> u64 {
        self.durable_position
    }

    /// All members were flushed, and nothing is being copied.
    pub(super) const fn was_flushed(&mut self) {
        self.durable_position = self.position;
    }

    pub(super) fn pause(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
    }

    pub(super) fn is_copying(&self) -> bool {
        self.phase != Phase::Idle
    }

    /// Begins again, from another member; the piece being copied does not count.
    pub(super) fn restart(&mut self) {
        self.position = 0;
        self.durable_position = 0;
        self.stored_position = 0;
        self.restarts = true;
    }

    /// The piece being copied, or next: first block and length.
    pub(super) fn window(&self) -> Option<(u64, u64)> {
        // After a restart the position is not the piece's, so nothing may begin until it has ended.
        match (self.is_copying(), self.restarts) {
            (true, true) => Some((0, self.all_blocks)),
            (true, false) => Some((self.position, self.count)),
            (false, _) if self.is_due => Some((self.position, self.count)),
            _ => None,
        }
    }

    const fn bytes(&self) -> usize {
        (self.count as usize) << self.block_size_log2
    }
}

impl<D, M, W, const REQUESTS: usize> Mirror<D, M, W, REQUESTS>
where
    D: Device,
    M: AsRef<[Option<D>]> + AsMut<[Option<D>]>,
    W: Watch,
{
    /// Does what can be done for the rebuild now.
    pub(super) fn step_rebuild(&mut self) {
        match self.rebuild.phase {
            Phase::Idle => self.begin_piece(),
            Phase::Read => {}
            Phase::Write | Phase::Checkpoint | Phase::Flush => self.send_copies(),
        }
    }

    fn begin_piece(&mut self) {
        let rebuild = &mut self.rebuild;
        (rebuild.restarts, rebuild.is_due) = (false, false);
        if self.targets == 0 || rebuild.is_paused {
            return;
        }
        rebuild.count = rebuild
            .piece_blocks
            .min(rebuild.all_blocks - rebuild.position);
        if rebuild.count == 0 {
            rebuild.phase = Phase::Flush;
            rebuild.unsent = self.targets;
            return self.send_copies();
        }
        let (lba, count) = (rebuild.position, rebuild.count);
        rebuild.is_due = true;
        if self.is_changing(lba, count) {
            return;
        }
        let Some(member) = bits(self.live & !self.rebuild.tried).next() else {
            return self.give_up();
        };
        let rebuild = &mut self.rebuild;
        let Some(mut lent) = rebuild.buffer.take().map(Lent::new) else {
            return;
        };
        let buffer = lent.lend(rebuild.bytes());
        match self.submit_to(member, COPY_TAG, Operation::Read { lba, buffer }) {
            Ok(()) => {
                self.rebuild.lent = Some(lent);
                self.rebuild.phase = Phase::Read;
                self.rebuild.is_due = false;
            }
            Err(refused) => {
                if let Some(buffer) = refused.request.operation.into_buffer() {
                    let _ = lent.give_back(buffer);
                }
                self.rebuild.buffer = lent.into_whole().ok();
                if refused.error != Error::QueueFull {
                    self.rebuild.tried |= 1 << member;
                    let error = refused.error;
                    self.watch.event(ArrayEvent::Failed { member, error });
                }
            }
        }
    }

    /// No live member can read the piece.
    fn give_up(&mut self) {
        self.rebuild.tried = 0;
        if self.resync != 0 {
            // The member that is read has it no longer; another one becomes the source.
            for member in bits(self.live) {
                self.drop_member(member);
            }
        } else {
            for member in bits(self.targets) {
                self.drop_member(member);
            }
        }
    }

    /// Submits the piece, or a flush, to the members being rebuilt.
    fn send_copies(&mut self) {
        self.rebuild.unsent &= self.targets;
        for member in bits(self.rebuild.unsent) {
            let rebuild = &self.rebuild;
            let bytes = rebuild
                .buffer
                .as_ref()
                .and_then(|b| b.get(..rebuild.bytes()));
            let operation = match (rebuild.phase, bytes) {
                (Phase::Write, Some(bytes)) => alias::write(bytes, rebuild.position, false),
                _ => Operation::Flush,
            };
            match self.submit_to(member, COPY_TAG, operation) {
                Ok(()) => self.rebuild.outstanding |= 1 << member,
                Err(refused) if refused.error == Error::QueueFull => continue,
                Err(refused) => {
                    let error = refused.error;
                    self.watch.event(ArrayEvent::Failed { member, error });
                    self.drop_member(member);
                }
            }
            self.rebuild.unsent &= !(1 << member);
        }
        self.end_piece();
    }

    pub(super) fn copied(&mut self, member: usize, completion: Completion) {
        if let Err(error) = completion.result {
            self.watch.event(ArrayEvent::Failed { member, error });
        }
        let rebuild = &mut self.rebuild;
        if rebuild.phase != Phase::Read {
            rebuild.outstanding &= !(1 << member);
            if completion.result.is_err() {
                self.drop_member(member);
            }
            return self.end_piece();
        }
        if let (Some(mut lent), Some(buffer)) = (rebuild.lent.take(), completion.buffer) {
            let _ = lent.give_back(buffer);
            rebuild.buffer = lent.into_whole().ok();
        }
        rebuild.phase = Phase::Idle;
        if completion.result.is_err() {
            rebuild.tried |= 1 << member;
        } else if !rebuild.restarts {
            rebuild.phase = Phase::Write;
            rebuild.unsent = self.targets;
            self.send_copies();
        }
    }

    fn end_piece(&mut self) {
        let rebuild = &mut self.rebuild;
        if rebuild.outstanding != 0 || rebuild.unsent & self.targets != 0 {
            return;
        }
        let phase = core::mem::replace(&mut rebuild.phase, Phase::Idle);
        if self.targets == 0 || rebuild.restarts {
            return;
        }
        let all_blocks = rebuild.all_blocks;
        if phase == Phase::Flush {
            self.live |= self.targets;
            self.targets = 0;
            self.resync = 0;
            self.labels.request();
            self.watch.event(ArrayEvent::Equal);
        } else if phase == Phase::Checkpoint {
            rebuild.was_flushed();
            self.labels.request();
        } else if phase == Phase::Write {
            rebuild.position += rebuild.count;
            rebuild.tried = 0;
            let done_blocks = rebuild.position;
            if done_blocks - rebuild.stored_position >= all_blocks.div_ceil(CHECKPOINTS) {
                rebuild.stored_position = done_blocks;
                // After a change the position would not count.
                if !self.labels.is_dirty() {
                    rebuild.phase = Phase::Checkpoint;
                    rebuild.unsent = self.targets;
                }
                self.watch.event(ArrayEvent::Rebuilt {
                    done_blocks,
                    all_blocks,
                });
            }
        }
    }
}
