// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory that the controller and the host see differently until the host's cache is cleaned or
//! invalidated.
//!
//! The host's buffers are its cache, which holds every line from the start: dirty since it was
//! written, stale since the controller wrote below it. Nothing is written back by itself before it
//! does harm: the controller reads what was last cleaned, and a dirty line is evicted right after
//! the controller wrote to the memory below it, which loses that; a dirty line that is invalidated
//! is lost. So each missing operation shows, and each that is too many.

use std::collections::BTreeMap;
use std::panic::Location;

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

/// A place in the driver's source that cleans or invalidates.
pub type CacheSite = (&'static str, u32);

/// The memory below the cache.
#[derive(Debug)]
pub(crate) struct Cached {
    /// What the controller reads and writes.
    below: Vec<u8>,
    /// The cache's content when each line was last equal to the memory below or filled from it: it
    /// is dirty where it differs.
    clean: Vec<u8>,
    /// How often each place was reached.
    pub(crate) sites: BTreeMap<CacheSite, u64>,
    /// The place whose operations are left out.
    pub(crate) omitted: Option<CacheSite>,
}

impl Cached {
    /// Memory of `len` zeroes, all of it clean.
    pub(crate) fn new(len: usize) -> Self {
        Self {
            below: vec![0; len],
            clean: vec![0; len],
            sites: BTreeMap::new(),
            omitted: None,
        }
    }

    /// Counts an operation; returns whether it is performed.
    pub(crate) fn notes(&mut self, at: &'static Location<'static>) -> bool {
        let site = (at.file(), at.line());
        *self.sites.entry(site).or_default() += 1;
        self.omitted != Some(site)
    }

    fn lines(offset: usize, len: usize) -> impl Iterator<Item = usize> {
        (offset / LINE * LINE..offset + len).step_by(LINE)
    }

    /// Writes the dirty lines of `cache` in the range back.
    pub(crate) fn clean(&mut self, cache: &[u8], offset: usize, len: usize) {
        for at in Self::lines(offset, len) {
            let line = at..at + LINE;
            if cache[line.clone()] != self.clean[line.clone()] {
                self.below[line.clone()].copy_from_slice(&cache[line.clone()]);
                self.clean[line.clone()].copy_from_slice(&cache[line]);
            }
        }
    }

    /// Fills the lines of `cache` in the range from below. What was dirty is lost: whether it was
    /// evicted before is up to the cache.
    pub(crate) fn invalidate(&mut self, cache: &mut [u8], offset: usize, len: usize) {
        for at in Self::lines(offset, len) {
            let line = at..at + LINE;
            cache[line.clone()].copy_from_slice(&self.below[line.clone()]);
            self.clean[line.clone()].copy_from_slice(&self.below[line]);
        }
    }

    /// The controller reads.
    pub(crate) fn read(&self, offset: usize, target: &mut [u8]) {
        target.copy_from_slice(&self.below[offset..offset + target.len()]);
    }

    /// The controller writes, and dirty lines there are evicted.
    pub(crate) fn write(&mut self, cache: &[u8], offset: usize, source: &[u8]) {
        self.below[offset..offset + source.len()].copy_from_slice(source);
        self.clean(cache, offset, source.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dirty_line_is_invisible_below_and_lost_below_when_the_controller_writes() {
        let mut cache = vec![0; 256];
        let mut cached = Cached::new(256);
        cache[70] = 7;
        let mut seen = [0];
        cached.read(70, &mut seen);
        assert_eq!(seen, [0]);
        cached.write(&cache, 100, &[9]);
        cached.read(100, &mut seen);
        assert_eq!(seen, [0]);
        cached.clean(&cache, 70, 1);
        cached.write(&cache, 100, &[9]);
        cached.read(100, &mut seen);
        assert_eq!((seen, cache[100]), ([9], 0));
        cached.invalidate(&mut cache, 100, 1);
        assert_eq!((cache[100], cache[70]), (9, 7));
        cache[70] = 8;
        cached.invalidate(&mut cache, 100, 1);
        assert_eq!(cache[70], 7);
    }
}
