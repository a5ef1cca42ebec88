// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a map's users can ask for without waiting for its pager.

use crate::error::{Error, PageError, Result};
use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Failures that are kept until they are asked for.
const MOST_FAILURES: usize = 1024;

/// Counters since the map was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Faults of threads.
    pub faults: u64,
    /// Pages read.
    pub reads: u64,
    /// Those of them that no thread had touched: read ahead, prefetched or pinned.
    pub reads_ahead: u64,
    /// Pages written.
    pub writes: u64,
    /// Pages whose memory was taken.
    pub evictions: u64,
    /// Accesses and writes that failed.
    pub failures: u64,
}

/// What a map's users can ask for at any time. A failure is here before the access that it ends.
#[derive(Default)]
pub struct Reports {
    kept: Mutex<(Counters, Vec<PageError>)>,
    callback: OnceLock<Box<dyn Fn(PageError) + Send + Sync>>,
}

impl fmt::Debug for Reports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Reports");
        shown.field("kept", &self.kept).finish_non_exhaustive()
    }
}

impl Reports {
    fn with<T>(&self, body: impl FnOnce(&mut (Counters, Vec<PageError>)) -> T) -> T {
        // What it holds is consistent after each statement.
        body(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has `callback` called with each failure from now on.
    ///
    /// # Errors
    /// [`Error::Options`]: there is one.
    pub fn call(&self, callback: impl Fn(PageError) + Send + Sync + 'static) -> Result<()> {
        let set = self.callback.set(Box::new(callback));
        set.map_err(|_| Error::Options("the map has a callback for failures"))
    }

    pub(super) fn publish(&self, now: Counters, failure: Option<PageError>) {
        self.with(|(counters, failures)| {
            *counters = now;
            if failures.len() < MOST_FAILURES {
                failures.extend(failure);
            }
        });
        // Outside the lock: it may ask for the failures.
        if let (Some(failure), Some(callback)) = (failure, self.callback.get()) {
            callback(failure);
        }
    }

    /// The counters after the last turn.
    pub fn counters(&self) -> Counters {
        self.with(|(counters, _)| *counters)
    }

    /// Accesses and writes that failed since the last call.
    pub fn take_failures(&self) -> Vec<PageError> {
        self.with(|(_, failures)| std::mem::take(failures))
    }
}
