// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of a map that another device reaches by itself, by DMA.

use crate::error::{Error, Result};
use crate::map::Map;
use std::ops;
use std::ptr::NonNull;

/// A range of a map that another device reaches: pinned, and granted to the device by `G`, which is
/// dropped before the memory is unpinned. Made by [`Map::window`].
#[derive(Debug)]
pub struct Window<'m, G> {
    // Dropped in this order.
    grant: G,
    pin: Pin<'m>,
}

/// The pinned range.
#[derive(Debug)]
struct Pin<'m> {
    map: &'m Map,
    bytes: ops::Range<u64>,
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        // What a device stored last is not lost when its user forgets to say so.
        if self.map.is_writable() {
            let _ = self.map.stored(self.bytes.clone());
        }
        // It fails only when the map has ended.
        let _ = self.map.unpin(self.bytes.clone());
    }
}

impl<'m, G> Window<'m, G> {
    pub(crate) fn new<E: From<Error>>(
        map: &'m Map,
        bytes: ops::Range<u64>,
        grant: impl FnOnce(NonNull<u8>, usize) -> std::result::Result<G, E>,
    ) -> std::result::Result<Self, E> {
        map.pin(bytes.clone())?;
        let pin = Pin { map, bytes };
        // A page that is only loaded from is protected, and the kernel refuses a device that
        // stores.
        if map.is_writable() {
            map.stored(pin.bytes.clone())?;
        }
        let (start, len) = pin.memory();
        let grant = grant(start, len)?;
        Ok(Self { grant, pin })
    }

    /// What the grant has returned: a bus address, for instance.
    pub const fn grant(&self) -> &G {
        &self.grant
    }

    /// The range in the map.
    pub fn bytes(&self) -> ops::Range<u64> {
        self.pin.bytes.clone()
    }

    /// The device has stored to `bytes` of the map: the next sync writes what is there now. The
    /// kernel sees no store of a device, so what it stores after this call needs another one.
    ///
    /// # Errors
    /// [`Error::Options`]: the bytes are not in the window, or the map cannot be stored to;
    /// [`Error::Ended`].
    pub fn written(&self, bytes: ops::Range<u64>) -> Result<()> {
        let own = &self.pin.bytes;
        if !self.pin.map.is_writable() {
            return Err(Error::Options("the map cannot be stored to"));
        }
        if bytes.start < own.start || bytes.end > own.end {
            return Err(Error::Options("the range is not in the window"));
        }
        self.pin.map.stored(bytes)
    }
}

impl Pin<'_> {
    fn memory(&self) -> (NonNull<u8>, usize) {
        let (first, range) = (self.map.as_ptr(), &self.bytes);
        let start = first.as_ptr().wrapping_add(range.start as usize);
        let len = range.end - range.start;
        (NonNull::new(start).unwrap_or(first), len as usize)
    }
}
