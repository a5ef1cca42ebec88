// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A sync: the pages that are dirty when it begins are written, then the device is flushed.

use super::{FLUSH, Pager};
use crate::error::{Error, PageError, Result};
use crate::numbers::Numbers;
use crate::pages::State;
use crate::space::Space;
use block::{Completion, Device, Operation, Request, Tag};
use std::collections::{HashSet, VecDeque};
use std::io;

/// A sync that has begun.
#[derive(Debug, Default)]
pub(super) struct Sync {
    /// Pages that must be written, whose write has not begun.
    todo: VecDeque<u64>,
    /// Pages whose write is under way.
    pub(super) awaited: HashSet<u64, Numbers>,
    /// The tag of its flush.
    pub(super) flush: Option<Tag>,
    /// When the device last ended a write of it.
    pub(super) moved_us: u64,
    pub(super) failed: Vec<PageError>,
}

impl<D: Device, S: Space> Pager<'_, D, S> {
    /// Begins to write what threads have stored until now, and to make it durable. Not while
    /// another sync is under way: see [`take_synced`](Self::take_synced).
    pub fn begin_sync(&mut self) {
        debug_assert!(self.core.sync.is_none() && self.core.synced.is_none());
        let mut sync = Sync {
            moved_us: self.shared.now_us(),
            ..Sync::default()
        };
        for page in self.core.pages.stored_pages() {
            // The write that is under way has everything, unless the page was stored to since.
            match self.core.pages.state(page) {
                Some(State::Writing) => sync.awaited.insert(page),
                _ => {
                    sync.todo.push_back(page);
                    true
                }
            };
        }
        self.core.sync = Some(sync);
    }

    /// Whether a sync is under way.
    pub fn is_syncing(&self) -> bool {
        self.core.sync.is_some()
    }

    /// The result of the sync, once.
    pub fn take_synced(&mut self) -> Option<Result<()>> {
        self.core.synced.take()
    }

    /// Begins writes of a sync, and its flush when they have ended.
    pub(super) fn go_on_with_sync(&mut self) -> io::Result<bool> {
        let mut has_moved = false;
        let Some(sync) = &self.core.sync else {
            return Ok(false);
        };
        for _ in 0..sync.todo.len() {
            let Some(slot) = self.free_slot() else {
                return Ok(has_moved);
            };
            let core = &mut *self.core;
            let Some(sync) = &mut core.sync else {
                return Ok(has_moved);
            };
            let Some(page) = sync.todo.pop_front() else {
                break;
            };
            match core.pages.state(page) {
                // What was stored since the write began is written when that has ended, and what is
                // stored to a page that comes when it is there.
                Some(State::Rewritten | State::Reading { .. }) => sync.todo.push_back(page),
                Some(State::Writing) => {
                    sync.awaited.insert(page);
                }
                _ => {
                    if core.pages.begin_write(page) {
                        sync.awaited.insert(page);
                        self.submit_write(slot, page)?;
                    }
                    has_moved = true;
                }
            }
        }
        let has_place =
            self.lane.device.outstanding() < usize::from(self.lane.device.geometry().queue_depth);
        let Some(sync) = &mut self.core.sync else {
            return Ok(has_moved);
        };
        if has_place && sync.flush.is_none() && sync.todo.is_empty() && sync.awaited.is_empty() {
            let tag = FLUSH | self.core.flushes;
            self.core.flushes = (self.core.flushes + 1) % FLUSH;
            if let Some(sync) = &mut self.core.sync {
                (sync.flush, sync.moved_us) = (Some(tag), self.lane.now_us);
            }
            let operation = Operation::Flush;
            if let Err(refused) = self.lane.device.submit(Request { tag, operation }) {
                let completion = Completion {
                    tag,
                    buffer: None,
                    result: Err(refused.error),
                };
                self.end(completion, None)?;
            }
            has_moved = true;
        }
        Ok(has_moved)
    }
}

/// The result of a sync.
pub(super) fn outcome(failed: &[PageError], flushed: Result<(), block::Error>) -> Result<()> {
    let first = failed.iter().min_by_key(|failure| failure.offset_bytes);
    match (first, flushed) {
        (Some(first), _) => Err(Error::Unwritten {
            pages: failed.len(),
            offset_bytes: first.offset_bytes,
            error: first.error,
        }),
        (None, flushed) => flushed.map_err(Error::Flush),
    }
}
