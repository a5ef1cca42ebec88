// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file of a volume, or a device, as memory of a program that is not the command: served by a
//! thread of the library.

use super::thread::{Thread, joined, spawn};
use super::{DeviceOptions, Error, open_options};
use devices::Context;
use devices::drive::Drive;
use devices::error::ErrorKind;
use devices::guard::{Grant, Purpose};
use devices::path::OpenOptions;
use devices::transfer::buffer_bytes;
use files::Store;
use files::mapped::{Mapped, Mapping, is_rot, reason};
use files::store::NODE_MEMORY_BYTES;
use linux::Roots;
use std::collections::VecDeque;
use std::ops::{Range, RangeInclusive};
use std::ptr::NonNull;
use std::sync::mpsc::channel;

/// The possible lengths of a page.
const PAGE_BYTES: RangeInclusive<usize> = 4 << 10..=2 << 20;

/// How to map. `Default` is what `straightway map` does.
#[derive(Clone, Copy, Debug)]
pub struct MapOptions {
    /// Bytes that are read when one is touched: a power of two from 4 KiB to 2 MiB.
    pub page_bytes: usize,
    /// The most memory that holds content.
    pub memory_bytes: usize,
    /// Bytes that are read behind what is touched, for accesses in order.
    pub read_ahead_bytes: usize,
}

impl Default for MapOptions {
    /// Pages of 64 KiB in 64 MiB of memory, without read-ahead.
    fn default() -> Self {
        Self {
            page_bytes: 64 << 10,
            memory_bytes: 64 << 20,
            read_ahead_bytes: 0,
        }
    }
}

/// A map. The device belongs to its thread until it is closed; dropped, it is closed without an
/// error.
///
/// An access that cannot be served ends in SIGBUS, as with `mmap`, and
/// [`take_failure`](Map::take_failure) has the reason; [`pin`](Map::pin) returns it instead. A
/// child process does not inherit the memory.
pub struct Map {
    /// None once it is closed.
    running: Option<(::map::Map, Thread<()>)>,
    size_bytes: u64,
    device: String,
    failures: VecDeque<::map::PageError>,
}

/// An access that could not be served, or data that could not be written.
pub struct MapFailure {
    /// The first byte of the page.
    pub offset: u64,
    /// Whether its write failed, and is tried again by the next sync; its read otherwise.
    pub is_write: bool,
    /// Why.
    pub error: Error,
}

impl Map {
    /// Maps `file_name`, a file of the volume on the device that the command calls `name`, or the
    /// device itself. With `write` in `options` the memory may be stored to: a file's data changes
    /// in place, without checksums and with the size that it has; a device needs `destroy_data`.
    /// The queue depth is how many pages are read or written at the same time.
    ///
    /// # Errors
    /// Something is missing, in use, refused or not possible; or the kernel does not let this
    /// process serve page faults.
    pub fn open(
        name: &str,
        file_name: Option<&str>,
        options: &DeviceOptions<'_>,
        map: &MapOptions,
    ) -> Result<Self, Error> {
        let (grant, path) =
            granted(name, file_name, options, map).map_err(|failure| failure.on(name))?;
        let (device, file_name) = (name.to_owned(), file_name.map(str::to_owned));
        let map_options = ::map::PagerOptions {
            writable: options.write,
            page_bytes: map.page_bytes,
            resident_bytes: map.memory_bytes,
            dirty_bytes: map.memory_bytes / 2,
            read_ahead_bytes: map.read_ahead_bytes,
            ..::map::PagerOptions::default()
        };
        let queue_depth = pages_at_once(options);
        let (ready_to, ready) = channel();
        let thread = spawn("straightway-map", move || {
            let mapping = Mapping {
                name: file_name.as_deref(),
                options: map_options,
                queue_depth,
            };
            let served = Store::granted(&Context::system(), grant, &path).and_then(|mut store| {
                let served = mapping.serve(&mut store, move |mapped| {
                    // A program that no longer waits has dropped the other end, and so ends the
                    // map.
                    let _ = ready_to.send(mapped);
                    Ok(())
                });
                store.close(served)
            });
            served.map_err(|failure| failure.on(&device))
        })?;
        match ready.recv() {
            Ok(Mapped {
                map, size_bytes, ..
            }) => Ok(Self {
                running: Some((map, thread)),
                size_bytes,
                device: name.to_owned(),
                failures: VecDeque::new(),
            }),
            Err(_) => Err(joined(thread).err().unwrap_or_else(closed)),
        }
    }

    /// The first byte. Until the map is closed, any thread can load from `size_bytes` bytes from
    /// there on, and store to them if it was opened to write.
    ///
    /// # Errors
    /// It is closed.
    pub fn start(&self) -> Result<NonNull<u8>, Error> {
        Ok(self.map()?.as_ptr())
    }

    /// The size of the file or the device.
    pub const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// What was done so far.
    ///
    /// # Errors
    /// It is closed.
    pub fn counters(&self) -> Result<::map::Counters, Error> {
        Ok(self.map()?.counters())
    }

    /// Reads a range soon, without waiting: as much of it as there is memory for.
    ///
    /// # Errors
    /// It is not within the map, or the map has ended.
    pub fn prefetch(&self, bytes: Range<u64>) -> Result<(), Error> {
        let map = self.map()?;
        self.done(map.prefetch(self.within(bytes)?))
    }

    /// Reads a range, and keeps it in memory until it is unpinned: accesses to it neither wait nor
    /// fail.
    ///
    /// # Errors
    /// It cannot be read, is not within the map, or would leave no memory for other pages.
    pub fn pin(&self, bytes: Range<u64>) -> Result<(), Error> {
        let map = self.map()?;
        self.done(map.pin(self.within(bytes)?))
    }

    /// Lets the memory of a pinned range be used for others again.
    ///
    /// # Errors
    /// It is not within the map, or the map has ended.
    pub fn unpin(&self, bytes: Range<u64>) -> Result<(), Error> {
        let map = self.map()?;
        self.done(map.unpin(self.within(bytes)?))
    }

    /// Writes what was stored until now, and makes it durable.
    ///
    /// # Errors
    /// It could not be written: it stays in memory, for the next sync.
    pub fn sync(&self) -> Result<(), Error> {
        let map = self.map()?;
        self.done(map.sync())
    }

    /// The next access that could not be served, or page that could not be written: the oldest
    /// first.
    pub fn take_failure(&mut self) -> Option<MapFailure> {
        if let (true, Some((map, _))) = (self.failures.is_empty(), &self.running) {
            self.failures.extend(map.take_failures());
        }
        let failure = self.failures.pop_front()?;
        let offset = failure.offset_bytes;
        let what = format!("byte {offset}: {}", reason(failure.error));
        let error = if is_rot(failure.error) {
            devices::Error::new(ErrorKind::Rot, what)
        } else {
            devices::Error::request(format_args!("byte {offset}"), failure.error)
        };
        let error = error.on(&self.device);
        Some(MapFailure {
            offset,
            is_write: failure.write,
            error,
        })
    }

    /// Ends the map: makes durable what was stored, and returns a borrowed drive to its driver. The
    /// memory is gone.
    ///
    /// # Errors
    /// What was stored could not be written, or the device could not be closed.
    pub fn close(&mut self) -> Result<(), Error> {
        let (map, thread) = self.running.take().ok_or_else(closed)?;
        self.failures.extend(map.take_failures());
        drop(map);
        joined(thread)
    }

    fn map(&self) -> Result<&::map::Map, Error> {
        let (map, thread) = self.running.as_ref().ok_or_else(closed)?;
        thread.check()?;
        Ok(map)
    }

    /// The range, if the file has it: the map may have more.
    fn within(&self, bytes: Range<u64>) -> Result<Range<u64>, Error> {
        if bytes.start <= bytes.end && bytes.end <= self.size_bytes {
            Ok(bytes)
        } else {
            let (start, size) = (bytes.start, self.size_bytes);
            let what = format!("the range from byte {start} does not fit: it has {size}");
            Err(Error::usage(what).hint("a range within its size"))
        }
    }

    fn done(&self, result: ::map::Result<()>) -> Result<(), Error> {
        result.map_err(|error| files::mapped::failed(error).on(&self.device))
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        if self.running.is_some() {
            let _ = self.close();
        }
    }
}

/// The permission to use the device, and how it is opened.
fn granted(
    name: &str,
    file_name: Option<&str>,
    options: &DeviceOptions<'_>,
    map: &MapOptions,
) -> Result<(Grant, OpenOptions), devices::Error> {
    let purpose = match (file_name, options.write) {
        (Some(_), _) if options.destroy_data.is_some() => {
            let failure =
                devices::Error::usage("destroy_data is given, and a file destroys nothing");
            return Err(failure.hint("omit it; a map of a device needs it"));
        }
        (_, false) => Purpose::Read,
        (Some(_), true) => Purpose::Change,
        (None, true) => Purpose::Destroy(options.destroy_data),
    };
    // Before memory is set aside for them.
    if !map.page_bytes.is_power_of_two() || !PAGE_BYTES.contains(&map.page_bytes) {
        let failure = devices::Error::usage(format!("pages of {} bytes", map.page_bytes));
        return Err(failure.hint("a power of two from 4K to 2M"));
    }
    let queue_depth = pages_at_once(options);
    let path = open_options(options)?;
    let path = OpenOptions {
        buffer_bytes: buffer_bytes(map.page_bytes as u64, queue_depth, usize::MAX)
            .saturating_add(NODE_MEMORY_BYTES)
            .saturating_add(1 << 20),
        // A page may take several commands, in addition to metadata.
        queue_depth: queue_depth.saturating_mul(2).max(32),
        ..path
    };
    let roots = Roots::system();
    let drive = Drive::find(&roots, name)?;
    Ok((Grant::of(&roots, drive, purpose)?, path))
}

fn pages_at_once(options: &DeviceOptions<'_>) -> u16 {
    options.queue_depth.clamp(1, 64)
}

fn closed() -> Error {
    Error::usage("the map is closed").hint("open it again")
}
