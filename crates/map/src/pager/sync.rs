//! A sync: the pages that are dirty when it begins are written, then the device is flushed.

use super::{FLUSH, Pager};
use crate::error::{Error, Failure, Result};
use crate::pages::State;
use crate::space::Space;
use block::{Completion, Device, Operation, Request};
use std::collections::{HashSet, VecDeque};
use std::io;

/// A sync that has begun.
#[derive(Debug, Default)]
pub(super) struct Sync {
    /// Pages that must be written, whose write has not begun.
    todo: VecDeque<u64>,
    /// Pages whose write is under way.
    pub(super) awaited: HashSet<u64>,
    is_flushing: bool,
    pub(super) failed: Vec<Failure>,
}

impl<D: Device, S: Space> Pager<D, S> {
    /// Begins to write what threads have stored until now, and to make it durable. Not while
    /// another sync is under way: see [`take_synced`](Self::take_synced).
    pub fn begin_sync(&mut self) {
        debug_assert!(self.sync.is_none() && self.synced.is_none());
        let mut sync = Sync::default();
        for page in self.pages.dirty_pages() {
            // The write that is under way has everything, unless the page was stored to since.
            match self.pages.state(page) {
                Some(State::Writing) => sync.awaited.insert(page),
                _ => {
                    sync.todo.push_back(page);
                    true
                }
            };
        }
        self.sync = Some(sync);
    }

    /// Whether a sync is under way.
    pub const fn is_syncing(&self) -> bool {
        self.sync.is_some()
    }

    /// The result of the sync, once.
    pub fn take_synced(&mut self) -> Option<Result<()>> {
        self.synced.take()
    }

    /// Begins writes of a sync, and its flush when they have ended.
    pub(super) fn go_on_with_sync(&mut self) -> io::Result<bool> {
        let mut has_moved = false;
        let Some(sync) = &self.sync else {
            return Ok(false);
        };
        for _ in 0..sync.todo.len() {
            let Some(slot) = self.free_slot() else {
                return Ok(has_moved);
            };
            let Some(sync) = &mut self.sync else {
                return Ok(has_moved);
            };
            let Some(page) = sync.todo.pop_front() else {
                break;
            };
            match self.pages.state(page) {
                // What was stored since the write began is written when that has ended.
                Some(State::Rewritten) => sync.todo.push_back(page),
                Some(State::Writing) => {
                    sync.awaited.insert(page);
                }
                _ => {
                    if self.pages.begin_write(page) {
                        sync.awaited.insert(page);
                        self.submit_write(slot, page)?;
                    }
                    has_moved = true;
                }
            }
        }
        let has_place = self.device.outstanding() < usize::from(self.device.geometry().queue_depth);
        let Some(sync) = &mut self.sync else {
            return Ok(has_moved);
        };
        if has_place && !sync.is_flushing && sync.todo.is_empty() && sync.awaited.is_empty() {
            sync.is_flushing = true;
            let operation = Operation::Flush;
            if let Err(refused) = self.device.submit(Request {
                tag: FLUSH,
                operation,
            }) {
                let result = Err(refused.error);
                self.end(Completion {
                    tag: FLUSH,
                    buffer: None,
                    result,
                })?;
            }
            has_moved = true;
        }
        Ok(has_moved)
    }
}

/// The result of a sync.
pub(super) fn outcome(failed: &[Failure], flushed: Result<(), block::Error>) -> Result<()> {
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
