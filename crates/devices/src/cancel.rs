// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How an operation is asked to end early.

use std::sync::Arc;
#[cfg(feature = "signals")]
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set when the user requests an end.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    pub(crate) is_set: Arc<AtomicBool>,
    /// The last one that arrived; 0 for none.
    #[cfg(feature = "signals")]
    pub(crate) signal: Arc<AtomicUsize>,
}

impl Cancel {
    /// Whether the user requested an end.
    pub fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }

    /// The underlying flag.
    pub fn flag(&self) -> &AtomicBool {
        &self.is_set
    }
}
