// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which pages a store has changed, where the kernel cannot tell: without write protection a thread
//! that has touched a page may have stored to it, so each touch counts as a store, and a page is
//! written only if its content is not what the device has.

use crate::numbers::Numbers;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// What the device has of each page in memory, as a number of 64 bits that depends on the process:
/// a change that goes unseen would need one chance in 2^64.
#[derive(Debug, Default)]
pub(super) struct Contents {
    known: HashMap<u64, u64, Numbers>,
    hasher: RandomState,
}

impl Contents {
    /// The device has this.
    pub(super) fn set(&mut self, page: u64, data: &[u8]) {
        self.known.insert(page, self.hasher.hash_one(data));
    }

    /// What the device has is not known, or not needed.
    pub(super) fn forget(&mut self, page: u64) {
        self.known.remove(&page);
    }

    /// Whether the device has this.
    pub(super) fn is(&self, page: u64, data: &[u8]) -> bool {
        self.known.get(&page) == Some(&self.hasher.hash_one(data))
    }
}
