// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory of an open device's buffers: what C may give to a request.
//!
//! `unsafe` is only in [`Memory::lend`]: it hands out part of a buffer, and the list of lent parts
//! keeps each byte with one request.
#![allow(unsafe_code)]

use crate::error::{Fault, usage};
use block::Buffer;
use std::ptr::NonNull;

/// A buffer that C has, and its parts that requests have.
struct Region {
    start: NonNull<u8>,
    len: usize,
    /// Address and length of each part in flight.
    lent: Vec<(usize, usize)>,
}

/// All buffers of a device, by address.
#[derive(Default)]
pub struct Memory {
    regions: Vec<Region>,
    /// The one that was used last: usually the next.
    last: usize,
}

impl Memory {
    /// Adds a buffer and returns its address.
    pub fn add(&mut self, buffer: Buffer) -> NonNull<u8> {
        let (start, len) = buffer.into_raw();
        let address = start.as_ptr() as usize;
        let at = self
            .regions
            .partition_point(|one| one.start.as_ptr() as usize <= address);
        let lent = Vec::new();
        self.regions.insert(at, Region { start, len, lent });
        start
    }

    /// Takes the buffer that starts at `address` out.
    ///
    /// # Errors
    /// There is none, or a request has part of it.
    pub fn remove(&mut self, address: usize) -> Result<Buffer, Fault> {
        let at = self
            .regions
            .iter()
            .position(|one| one.start.as_ptr() as usize == address);
        let Some(at) = at else {
            return Err(not_allocated());
        };
        if !self.regions[at].lent.is_empty() {
            return Err(usage(
                "a request in flight has part of this buffer",
                "poll until it completes, then free it",
            ));
        }
        let region = self.regions.remove(at);
        self.last = 0;
        // SAFETY: of `add`'s buffer, and no part of it is lent.
        Ok(unsafe { Buffer::from_raw(region.start, region.len) })
    }

    /// Any buffer that has no part in flight, for closing.
    pub fn pop(&mut self) -> Option<Buffer> {
        let at = self.regions.iter().position(|one| one.lent.is_empty())?;
        let address = self.regions[at].start.as_ptr() as usize;
        self.remove(address).ok()
    }

    /// The `len` bytes at `address` for a request.
    ///
    /// # Errors
    /// They are not within one buffer, or a request in flight has some of them.
    pub fn lend(&mut self, address: usize, len: usize) -> Result<Buffer, Fault> {
        let at = self.find(address).ok_or_else(not_allocated)?;
        let region = &mut self.regions[at];
        let offset = address - region.start.as_ptr() as usize;
        if len > region.len - offset {
            return Err(usage(
                format!(
                    "{len} bytes do not fit: {} are left of this buffer",
                    region.len - offset
                ),
                "allocate more, or transfer less",
            ));
        }
        if region
            .lent
            .iter()
            .any(|&(other, bytes)| address < other + bytes && other < address + len)
        {
            return Err(usage(
                "a request in flight has some of these bytes",
                "give each request memory of its own",
            ));
        }
        region.lent.push((address, len));
        self.last = at;
        // SAFETY: within a buffer that this owns, and no other part in flight overlaps. C promises
        // in the header not to touch it until the completion.
        Ok(unsafe { Buffer::from_raw(region.start.add(offset), len) })
    }

    /// Takes a part back.
    pub fn take_back(&mut self, part: Buffer) {
        let (start, len) = part.into_raw();
        let part = (start.as_ptr() as usize, len);
        let Some(at) = self.find(part.0) else { return };
        let lent = &mut self.regions[at].lent;
        if let Some(place) = lent.iter().position(|one| *one == part) {
            lent.swap_remove(place);
        }
    }

    /// The index of the region with this address.
    fn find(&self, address: usize) -> Option<usize> {
        let has =
            |region: &Region| address.wrapping_sub(region.start.as_ptr() as usize) < region.len;
        if self.regions.get(self.last).is_some_and(has) {
            return Some(self.last);
        }
        let after = self
            .regions
            .partition_point(|one| one.start.as_ptr() as usize <= address);
        let at = after.checked_sub(1)?;
        has(&self.regions[at]).then_some(at)
    }
}

fn not_allocated() -> Fault {
    usage(
        "this memory is not a buffer of this device",
        "allocate it with straightway_alloc",
    )
}
