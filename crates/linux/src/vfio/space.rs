// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bus addresses of a function, and the memory behind them, by either of VFIO's two ways.

use super::iova;
use crate::sys::map::Mapping;
use crate::sys::translator::Translator;
use crate::{Error, Result};
use rustix::process::{Resource, getrlimit};
use std::io;
use std::path::PathBuf;

/// Maps memory for a function. Closing it removes all mappings.
#[derive(Debug)]
pub(crate) struct AddressSpace {
    translator: Translator,
    /// The translator's node.
    path: PathBuf,
    usable: Vec<(u64, u64)>,
    /// Start and length of each mapping.
    taken: Vec<(u64, u64)>,
}

impl AddressSpace {
    /// An empty one of the translator at `path`; `usable` has the first and the last of each range
    /// of addresses.
    pub(super) fn new(translator: Translator, path: PathBuf, usable: Vec<(u64, u64)>) -> Self {
        Self {
            translator,
            path,
            usable,
            taken: Vec::new(),
        }
    }

    /// Lets the device access `mapping`; returns its bus address.
    pub(crate) fn map(&mut self, mapping: &Mapping) -> Result<u64> {
        self.map_by(mapping.len(), |translator, start| {
            translator.map(mapping, start)
        })
    }

    /// Lets the device access memory of another owner.
    ///
    /// # Safety
    /// That of [`Translator::map_range`].
    #[allow(unsafe_code)]
    pub(crate) unsafe fn map_range(
        &mut self,
        range: (usize, usize),
        writable: bool,
    ) -> Result<u64> {
        self.map_by(range.1, |translator, start| {
            // SAFETY: the caller's.
            unsafe { translator.map_range(range, start, writable) }
        })
    }

    fn map_by(
        &mut self,
        len: usize,
        map: impl FnOnce(&Translator, u64) -> io::Result<()>,
    ) -> Result<u64> {
        let len = len as u64;
        let Some(start) = iova::place(&self.usable, &self.taken, len) else {
            return Err(Error::NoBusAddresses {
                needed_bytes: len,
                usable: self.usable.clone(),
            });
        };
        map(&self.translator, start).map_err(|source| self.map_failed(len, source))?;
        self.taken.push((start, len));
        Ok(start)
    }

    /// Takes a mapping away from the device.
    pub(crate) fn unmap(&mut self, bus_start: u64) -> Result<()> {
        let found = self.taken.iter().position(|&(start, _)| start == bus_start);
        debug_assert!(found.is_some(), "{bus_start:#x} is not mapped");
        let Some(range) = found.map(|found| self.taken.swap_remove(found)) else {
            return Ok(());
        };
        let unmapped = self.translator.unmap(range);
        unmapped
            .map_err(|source| Error::io("unmapping memory of the device in", &self.path, source))
    }

    /// The kernel returns ENOMEM both at the limit and without memory.
    fn map_failed(&self, len: u64, source: io::Error) -> Error {
        let locked: u64 = self.taken.iter().map(|(_, len)| len).sum();
        let needed_bytes = locked + len;
        match source.raw_os_error() {
            Some(libc::ENOMEM) => match getrlimit(Resource::Memlock).current {
                Some(limit_bytes) if limit_bytes < needed_bytes => Error::LockLimit {
                    needed_bytes,
                    limit_bytes,
                },
                _ => Error::NoMemory {
                    bytes: len as usize,
                },
            },
            _ => Error::io("mapping memory for the device in", &self.path, source),
        }
    }
}

impl Drop for AddressSpace {
    fn drop(&mut self) {
        // Closing does the same; this does it before the owner's other fields are dropped.
        for range in self.taken.drain(..) {
            let _ = self.translator.unmap(range);
        }
    }
}
