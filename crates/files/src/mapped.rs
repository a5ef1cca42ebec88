// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file of a volume, or a whole device, as memory that is served until its user drops the map.

use crate::listing::refuse_unfinished;
use crate::{Access, Mounted, Store, shown};
use block::Device;
use devices::error::{Error, ErrorKind, Result};
use devices::path::memory::Memory;
use map::{FileDevice, Map, PagerOptions, Range};
use rustix::io::Errno;
use std::thread;
use volume::layout::CHUNK_BYTES;

/// What a file with checksums answers whose data differs.
const ROT: block::Error = block::Error::Os {
    errno: Errno::BADMSG.raw_os_error(),
};

/// What is mapped, and how.
#[derive(Clone, Copy, Debug)]
pub struct Mapping<'a> {
    /// A file of the volume on the device; the device itself if `None`.
    pub name: Option<&'a str>,
    /// The map's limits, and whether it may be stored to.
    pub options: PagerOptions,
    /// Pages that are read or written at the same time.
    pub queue_depth: u16,
}

/// The memory, for its user.
pub struct Mapped {
    /// It ends when this is dropped.
    pub map: Map,
    /// The file's or the device's size. The map has whole blocks of the device.
    pub size_bytes: u64,
    /// How its data is compared with checksums.
    pub sums: Sums,
}

/// How a map's data is compared with checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    /// There are none.
    None,
    /// Not: pages are smaller than what a checksum is of.
    Ignored,
    /// When a page is read.
    Verified,
}

impl Mapping<'_> {
    /// Maps it, and serves the map until `user`, who has a thread of its own, and whoever was given
    /// it have dropped it. Returns when all that was stored is durable.
    ///
    /// # Errors
    /// It could not be mapped or served; or the user's error.
    pub fn serve<T: Send>(
        &self,
        store: &mut Store,
        user: impl FnOnce(Mapped) -> Result<T> + Send,
    ) -> Result<T> {
        match self.name {
            Some(name) => {
                let access = if self.options.writable {
                    Access::Write
                } else {
                    Access::Read
                };
                store.mount(access, |mounted| self.serve_file(mounted, name, user))
            }
            None => {
                let memory = store.opened.memory.clone();
                let (device, _) = store.opened.parts();
                let size_bytes = device.geometry().size_bytes();
                let mapped = |map| Mapped {
                    map,
                    size_bytes,
                    sums: Sums::None,
                };
                self.serve_device(device, &memory, |map| user(mapped(map)))
            }
        }
    }

    fn serve_file<T: Send>(
        &self,
        mounted: &Mounted<'_, '_>,
        name: &str,
        user: impl FnOnce(Mapped) -> Result<T> + Send,
    ) -> Result<T> {
        let (volume, is_writable) = (mounted.volume, self.options.writable);
        let doing = || format!("mapping `{}`", shown(name));
        let entry = mounted.run(doing(), volume.find(name))?;
        refuse_unfinished(&entry)?;
        let file = if is_writable {
            mounted.run(doing(), volume.open_to_write(name))?
        } else {
            mounted.run(doing(), volume.open(name))?
        };
        let sums = if entry.checksums {
            if (self.options.page_bytes as u64) < CHUNK_BYTES {
                Sums::Ignored
            } else {
                Sums::Verified
            }
        } else {
            Sums::None
        };
        let device = match sums {
            Sums::Verified if !is_writable => FileDevice::verifying(volume, file),
            _ => FileDevice::new(volume, file, is_writable),
        };
        let served = match device {
            Ok(device) => {
                let size_bytes = device.size_bytes();
                let mapped = |map| Mapped {
                    map,
                    size_bytes,
                    sums,
                };
                self.serve_device(device, mounted.memory, |map| user(mapped(map)))
            }
            Err(volume::Error::PastEnd) => Err(Error::usage(format!("`{}` is empty", shown(name)))),
            Err(volume::Error::Unsupported) if is_writable && entry.checksums => {
                let what = format!("`{}` has checksums, so its data cannot change", shown(name));
                Err(Error::usage(what).hint("map it to read, or a file without checksums"))
            }
            Err(error) => Err(crate::failed(doing(), error)),
        };
        let closed = mounted.run(doing(), volume.close(file));
        served.and_then(|value| closed.map(|()| value))
    }

    fn serve_device<D: Device, T: Send>(
        &self,
        device: D,
        memory: &Memory,
        user: impl FnOnce(Map) -> Result<T> + Send,
    ) -> Result<T> {
        let range = Range {
            lba: 0,
            size_bytes: device.geometry().size_bytes(),
        };
        let mut buffers = Vec::new();
        for _ in 0..self.queue_depth {
            buffers.push(memory.allocate(self.options.page_bytes)?);
        }
        let (map, server) =
            map::map(device, range, &self.options, buffers).map_err(crate::mapped::failed)?;
        thread::scope(|scope| {
            let user = scope.spawn(move || user(map));
            let served = server.run().map_err(failed);
            let panicked = || Error::other("the thread with the map panicked");
            let used = user.join().map_err(|_| panicked()).and_then(|used| used);
            let (_, buffers) = served?;
            for buffer in buffers {
                memory.give_back(buffer);
            }
            used
        })
    }
}

/// Whether a page could not be read because its data is not what its checksum is of.
pub fn is_rot(error: block::Error) -> bool {
    error == ROT
}

/// Why a page could not be read or written.
pub fn reason(error: block::Error) -> String {
    if is_rot(error) {
        "the data does not match its checksum".to_owned()
    } else {
        error.to_string()
    }
}

/// The error of a map, as the user reads it.
pub fn failed(error: map::Error) -> Error {
    match error {
            map::Error::Options(_) => Error::usage(error.to_string()).hint(
                "pages from 4K to 2M and at most the device's largest transfer, memory for at least four, and a range within the map",
            ),
            map::Error::NotPermitted(refusal) => {
                let what = format!("the kernel refuses userfaultfd: {refusal}");
                Error::unsupported(what).hint(map::refusal_hint(&refusal))
            }
            map::Error::Exists(_) => Error::new(ErrorKind::Exists, error.to_string())
                .hint("TMPDIR=FOLDER: another folder for the socket"),
            map::Error::Unread {
                offset_bytes,
                error,
            } => {
                let exit = if is_rot(error) { ErrorKind::Rot } else { ErrorKind::Other };
                let reason = reason(error);
                Error::new(exit, format!("byte {offset_bytes} could not be read: {reason}"))
            }
            error => Error::other(error.to_string()),
        }
}
