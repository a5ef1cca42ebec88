// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One line: a large buffer that gathers writes, or was read ahead.

use block::{Buffer, Error, Lent};

/// What a line holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing.
    Free,
    /// Writes, and more may follow.
    Open,
    /// Writes, and none may follow: it waits to be submitted.
    Closed,
    /// The device is writing it, and has its buffer.
    Writing,
    /// The device failed to write it. The data is kept.
    Failed(Error),
    /// The device is reading it, and has its buffer.
    Reading,
    /// What the device has.
    Clean,
}

/// A line: `blocks` blocks from `lba` on, at the start of its buffer.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) state: State,
    pub(crate) lba: u64,
    pub(crate) blocks: u32,
    /// How many blocks it may grow to: its last block is the last of an aligned range.
    pub(crate) room_blocks: u32,
    /// When it began, in the order of all lines.
    pub(crate) sequence: u64,
    /// The time when it was opened, or submitted.
    pub(crate) since: u64,
    /// With how many commands at once it was submitted.
    pub(crate) beside: u32,
    /// What is being read was overwritten.
    pub(crate) is_stale: bool,
    /// Blocks that were served from it.
    pub(crate) used_blocks: u32,
    buffer: Option<Buffer>,
    lent: Option<Lent>,
}

impl Line {
    pub(crate) const fn new(buffer: Buffer) -> Self {
        Self {
            state: State::Free,
            lba: 0,
            blocks: 0,
            room_blocks: 0,
            sequence: 0,
            since: 0,
            beside: 1,
            is_stale: false,
            used_blocks: 0,
            buffer: Some(buffer),
            lent: None,
        }
    }

    /// Whether it holds data that the device does not have.
    pub(crate) const fn is_dirty(&self) -> bool {
        matches!(
            self.state,
            State::Open | State::Closed | State::Writing | State::Failed(_)
        )
    }

    /// Whether it holds what the device has, or will.
    pub(crate) const fn is_copy(&self) -> bool {
        matches!(self.state, State::Reading | State::Clean) && !self.is_stale
    }

    /// The block after its last one.
    pub(crate) const fn end(&self) -> u64 {
        self.lba + self.blocks as u64
    }

    pub(crate) const fn overlaps(&self, lba: u64, blocks: u32) -> bool {
        lba < self.end() && self.lba < lba + blocks as u64
    }

    pub(crate) const fn covers(&self, lba: u64, blocks: u32) -> bool {
        self.lba <= lba && lba + blocks as u64 <= self.end()
    }

    /// Its data from `lba` on. Empty while the device has the buffer, and past its end.
    pub(crate) fn data(&self, lba: u64, block_size_log2: u8) -> &[u8] {
        let from = (lba.saturating_sub(self.lba) << block_size_log2) as usize;
        let to = (self.blocks as usize) << block_size_log2;
        let buffer = self.buffer.as_deref();
        buffer.and_then(|all| all.get(from..to)).unwrap_or_default()
    }

    /// Copies `data` to `lba`, which is at most its end; the line grows. Whether it had room.
    pub(crate) fn put(&mut self, lba: u64, data: &[u8], block_size_log2: u8) -> bool {
        let from = (lba.saturating_sub(self.lba) << block_size_log2) as usize;
        let to = from + data.len();
        let Some(place) = self.buffer.as_mut().and_then(|all| all.get_mut(from..to)) else {
            return false;
        };
        place.copy_from_slice(data);
        self.blocks = self.blocks.max((to >> block_size_log2) as u32);
        true
    }

    /// The buffer for the device, as long as its blocks.
    pub(crate) fn lend(&mut self, block_size_log2: u8) -> Option<Buffer> {
        let mut lent = Lent::new(self.buffer.take()?);
        let piece = lent.lend((self.blocks as usize) << block_size_log2);
        self.lent = Some(lent);
        Some(piece)
    }

    /// Takes back what [`lend`](Line::lend) gave. Whether it is whole again.
    pub(crate) fn take_back(&mut self, piece: Option<Buffer>) -> bool {
        let Some(mut lent) = self.lent.take() else {
            return false;
        };
        if let Some(piece) = piece {
            // A piece of another buffer stays out; the line is then never used again.
            let _ = lent.give_back(piece);
        }
        self.buffer = lent.into_whole().ok();
        self.buffer.is_some()
    }

    /// The buffer, if the device does not have it.
    pub(crate) fn into_buffer(self) -> Option<Buffer> {
        self.buffer
    }

    /// Whether it can be used for something else.
    pub(crate) const fn is_reusable(&self) -> bool {
        matches!(self.state, State::Free | State::Clean) && self.buffer.is_some()
    }
}
