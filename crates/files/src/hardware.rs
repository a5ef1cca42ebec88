// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `hwfs:PATH`: a volume that a file system in hardware serves.
//!
//! Such a drive has files and no blocks. The verbs that it supports call [`path_of`] with their
//! device; [`Drive::find`](devices::drive::Drive::find) refuses it for all others.

use crate::chunks::Chunks;
use crate::source::FileSource;
use crate::{Access, shown};
use ::hwfs::{Board, CoreStatus, Error, Front, Shape, Simulation};
use devices::Bar;
use devices::cancel::Cancel;
use devices::error::{ErrorKind, Result};
use devices::transfer::{IoOptions, Route};
use remedy::{Setting, Words, words};
use std::fmt::Display;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use volume::layout::CHUNK_BYTES;

/// The name of the path to such a drive in reports.
pub const PATH: &str = "hwfs";

/// The path in `device` if it is `hwfs:PATH`.
pub fn path_of(device: &str) -> Option<&Path> {
    device.strip_prefix("hwfs:").map(Path::new)
}

/// Refuses options that need blocks or that the hardware does not support; each is paired with
/// whether it is given.
///
/// # Errors
/// One of them is given.
pub fn refuse(options: &[(Words, bool)]) -> Result<()> {
    match options.iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(devices::Error::usage(words![
            "a file system in hardware does not support ",
            option.clone(),
            "; nothing was done"
        ])
        .hint(words!["omit ", option.clone()])),
        None => Ok(()),
    }
}

/// [`refuse`] for the options of every verb on a volume.
///
/// # Errors
/// One of them is given.
pub fn refuse_route(route: &Route) -> Result<()> {
    refuse(&[
        (
            words![Setting::Path, " and ", Setting::Mode],
            !route.is_auto(),
        ),
        (words![Setting::Namespace], route.namespace.is_some()),
        (words![Setting::Hybrid], route.hybrid),
        (words![Setting::Cache], route.cache.is_some()),
    ])
}

/// [`refuse`] for the options of verbs that move data.
///
/// # Errors
/// One of them is given.
pub fn refuse_io(io: &IoOptions) -> Result<()> {
    refuse_route(&io.route)?;
    refuse(&[(
        words![Setting::BlockSize, " and ", Setting::QueueDepth],
        !io.is_default(),
    )])
}

/// What the front at `path` reports about itself and its device. Mounts nothing.
///
/// # Errors
/// There is no front, or another user's command is in progress.
pub fn shape(device: &str, path: &Path) -> Result<Shape> {
    let front = Front::new(connect(path)?);
    let shape = front.and_then(|mut front| front.shape());
    shape.map_err(|error| failed(device, error))
}

/// A volume in hardware while it is mounted.
pub struct Files<'a> {
    front: Front<Box<dyn Board>>,
    device: &'a str,
    slots: u64,
}

impl Files<'_> {
    /// Connects, mounts, runs `body`, and unmounts.
    ///
    /// # Errors
    /// The error of the connection, the mount, `body`, or the unmount, in this order.
    pub fn with<T>(
        device: &str,
        path: &Path,
        access: Access,
        body: impl FnOnce(&mut Files<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut front = Front::new(connect(path)?).map_err(|error| failed(device, error))?;
        let slots = front
            .mount(access == Access::Read)
            .map_err(|error| failed(device, error))?;
        let mut files = Files {
            front,
            device,
            slots,
        };
        let result = body(&mut files);
        let unmounted = files.front.unmount();
        match (result, unmounted) {
            (Err(failure), _) => Err(failure),
            (Ok(_), Err(error)) => Err(failed(format_args!("unmounting {device}"), error)),
            (Ok(value), Ok(())) => Ok(value),
        }
    }

    /// The most files that the volume can have.
    pub const fn slots(&self) -> u64 {
        self.slots
    }

    /// What the front reports about itself and its device.
    ///
    /// # Errors
    /// The hardware failed.
    pub fn shape(&mut self) -> Result<Shape> {
        let shape = self.front.shape();
        shape.map_err(|error| failed(format_args!("querying {}", self.device), error))
    }

    /// A file by its name.
    ///
    /// # Errors
    /// The hardware failed, or the file does not exist.
    pub fn find(&mut self, name: &str) -> Result<::hwfs::CoreFile> {
        let found = self.list()?.into_iter().find(|entry| entry.name == name);
        found.ok_or_else(|| {
            let missing = Error::Status(CoreStatus::NOT_FOUND, 0);
            failed(format_args!("querying `{}`", shown(name)), missing)
        })
    }

    /// All files, in the order of the volume's table.
    ///
    /// # Errors
    /// The hardware failed.
    pub fn list(&mut self) -> Result<Vec<::hwfs::CoreFile>> {
        let listed = self.front.list();
        listed.map_err(|error| failed(format_args!("listing {}", self.device), error))
    }

    /// Removes a file; whether it existed.
    ///
    /// # Errors
    /// The hardware failed.
    pub fn remove(&mut self, name: &str) -> Result<bool> {
        match self.front.delete(name) {
            Ok(()) => Ok(true),
            Err(Error::Status(CoreStatus::NOT_FOUND, _)) => Ok(false),
            Err(error) => Err(failed(format_args!("removing `{}`", shown(name)), error)),
        }
    }

    /// Renames a file.
    ///
    /// # Errors
    /// The hardware failed.
    pub fn rename(&mut self, old: &str, new: &str) -> Result<()> {
        let doing = format!("renaming `{}` to `{}`", shown(old), shown(new));
        let renamed = self.front.rename(old, new);
        renamed.map_err(|error| failed(doing, error))
    }

    /// Stores all of `source` as a file and adds its data to `sums`, if given; returns its length
    /// and the number of transfers.
    ///
    /// # Errors
    /// The source or the hardware failed, or the user cancelled: the incomplete file is removed.
    pub fn put(
        &mut self,
        name: &str,
        source: &mut FileSource<'_>,
        sums: Option<&mut Chunks>,
        stop: &Stop<'_>,
    ) -> Result<(u64, u64)> {
        let length = source.len_bytes;
        let mut data = Moving::new(source, stop);
        data.sums = sums;
        let put = match length {
            Some(length) => self.front.put(name, length, &mut data).map(|()| length),
            None => self.front.put_stream(name, &mut data),
        };
        data.ended(put, || format!("storing `{}`", shown(name)))
    }

    /// Reads a file back and compares it with the checksums of the data that was stored. A file
    /// that differs or cannot be read is removed.
    ///
    /// # Errors
    /// The hardware failed, the data differs, or the user cancelled.
    pub fn verify(
        &mut self,
        name: &str,
        length: u64,
        expected: &[u32],
        stop: &Stop<'_>,
    ) -> Result<()> {
        let mut sums = Chunks::default();
        let mut data = Moving::new(&mut sums, stop);
        let read = self.front.get_part(name, 0, length, &mut data);
        let doing = || format!("verifying `{}`", shown(name));
        let read = data.ended(read.map(|()| length), doing);
        let sums = sums.end();
        let wrong = sums.iter().zip(expected).position(|(sum, one)| sum != one);
        let failure = match (read, wrong) {
            (Ok(_), None) => return Ok(()),
            (Err(failure), _) => failure,
            (Ok(_), Some(chunk)) => {
                let offset = chunk as u64 * CHUNK_BYTES;
                let what = format!("{}: the 64 KiB at byte {offset} differ", doing());
                devices::Error::new(ErrorKind::Rot, what)
                    .and("the device does not hold what was written to it")
            }
        };
        Err(match self.front.delete(name) {
            Ok(()) => failure,
            Err(_) => failure.and(format_args!("it is left as `{}`", shown(name))),
        })
    }

    /// A file's size in bytes.
    ///
    /// # Errors
    /// The hardware failed, or the file does not exist.
    pub fn size(&mut self, name: &str) -> Result<u64> {
        let size = self.front.size(name);
        size.map_err(|error| failed(format_args!("opening `{}`", shown(name)), error))
    }

    /// A file's size in bytes; None if it does not exist.
    ///
    /// # Errors
    /// The hardware failed.
    pub fn size_of(&mut self, name: &str) -> Result<Option<u64>> {
        match self.front.size(name) {
            Ok(size) => Ok(Some(size)),
            Err(Error::Status(CoreStatus::NOT_FOUND, _)) => Ok(None),
            Err(error) => Err(failed(format_args!("opening `{}`", shown(name)), error)),
        }
    }

    /// Passes a part of a file, which must be within the file, to `take` in order; returns its
    /// length and the number of transfers.
    ///
    /// # Errors
    /// The hardware or `take` failed, or the user cancelled.
    pub fn get(
        &mut self,
        name: &str,
        part: Range<u64>,
        mut take: Taker<'_>,
        stop: &Stop<'_>,
    ) -> Result<(u64, u64)> {
        let length = part.end - part.start;
        let mut data = Moving::new(&mut take, stop);
        let got = self.front.get_part(name, part.start, length, &mut data);
        data.ended(got.map(|()| length), || {
            format!("fetching `{}`", shown(name))
        })
    }
}

/// What becomes of data that is read.
pub type Taker<'a> = &'a mut dyn FnMut(&[u8]) -> Result<()>;

/// A transfer's progress bar and its cancellation flag.
pub struct Stop<'a> {
    /// The progress bar.
    pub bar: &'a Bar,
    /// Set when the user cancels.
    pub cancel: &'a Cancel,
}

/// One end of a transfer. It keeps its failure, because the library can only return an
/// [`io::Error`].
struct Moving<'a, T> {
    end: &'a mut T,
    stop: &'a Stop<'a>,
    sums: Option<&'a mut Chunks>,
    transfers: u64,
    failure: Option<devices::Error>,
}

impl<'a, T> Moving<'a, T> {
    fn new(end: &'a mut T, stop: &'a Stop<'a>) -> Self {
        Self {
            end,
            stop,
            sums: None,
            transfers: 0,
            failure: None,
        }
    }

    fn step(
        &mut self,
        move_all: impl FnOnce(&mut T, &Stop<'_>) -> Result<usize>,
    ) -> io::Result<usize> {
        let moved = if self.stop.cancel.is_set() {
            Err(devices::Error::interrupted("interrupted"))
        } else {
            move_all(self.end, self.stop)
        };
        match moved {
            Ok(bytes) => {
                self.transfers += u64::from(bytes > 0);
                self.stop.bar.inc(bytes as u64);
                Ok(bytes)
            }
            Err(failure) => {
                self.failure = Some(failure);
                Err(io::Error::other("the other end failed"))
            }
        }
    }

    /// The bytes that were moved and the transfers that it took, or the first failure.
    fn ended(
        self,
        result: std::result::Result<u64, Error>,
        doing: impl FnOnce() -> String,
    ) -> Result<(u64, u64)> {
        match (self.failure, result) {
            (Some(failure), _) => Err(failure),
            (None, Err(error)) => Err(failed(doing(), error)),
            (None, Ok(bytes)) => Ok((bytes, self.transfers)),
        }
    }
}

impl Read for Moving<'_, FileSource<'_>> {
    fn read(&mut self, data: &mut [u8]) -> io::Result<usize> {
        let filled = self.step(|source, stop| {
            let filled = source.fill(data, stop.cancel.flag())?;
            if filled < data.len() && source.len_bytes.is_some() {
                Err(devices::Error::other(format!(
                    "reading {}: the file became shorter",
                    source.name.display()
                )))
            } else {
                Ok(filled)
            }
        })?;
        if let Some(sums) = &mut self.sums {
            sums.add(data.get(..filled).unwrap_or_default());
        }
        Ok(filled)
    }
}

impl Write for Moving<'_, Chunks> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.step(|sums, _| {
            sums.add(data);
            Ok(data.len())
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for Moving<'_, Taker<'_>> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.step(|take, _| take(data).map(|()| data.len()))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The board at `path`: a UIO device, or a simulation behind a socket.
fn connect(path: &Path) -> Result<Box<dyn Board>> {
    if path.as_os_str().is_empty() {
        return Err(
            devices::Error::usage("`hwfs:` lacks the path of a board").hint(
                "hwfs:PATH, a UIO device (/dev/uio0) or the socket of a simulation of rtl/hwfs_axi",
            ),
        );
    }
    let opening = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            devices::Error::io("connecting to", path, &error)
                .with_kind(ErrorKind::Missing)
                .hint(
                    "load uio_pdrv_genirq, or start the simulation of rtl/hwfs_axi on this socket",
                )
        }
        _ => devices::Error::io("connecting to", path, &error),
    };
    let kind = std::fs::metadata(path).map_err(opening)?.file_type();
    if kind.is_socket() {
        Ok(Box::new(Simulation::connect(path).map_err(opening)?))
    } else if kind.is_char_device() {
        Ok(Box::new(linux::Uio::open(path)?))
    } else {
        Err(devices::Error::unsupported(format!(
            "{} is neither a UIO device nor the socket of a simulation of rtl/hwfs_axi",
            path.display()
        )))
    }
}

/// The hardware's error while `doing`, with the exit code of the same error in software.
fn failed(doing: impl Display, error: Error) -> devices::Error {
    let what = format!("{doing}: {error}");
    match error {
        Error::Status(status, _) => match status {
            CoreStatus::NOT_FOUND => devices::Error::new(ErrorKind::NotFound, what)
                .hint(words!["straightway ls ", remedy::Device]),
            CoreStatus::EXISTS => devices::Error::new(ErrorKind::Exists, what)
                .hint("another name, or straightway rm removes that file"),
            CoreStatus::NO_SPACE | CoreStatus::TABLE_FULL | CoreStatus::MAP_FULL => {
                devices::Error::new(ErrorKind::Full, what).hint("remove files with straightway rm")
            }
            CoreStatus::BAD_NAME => devices::Error::usage(what),
            CoreStatus::GONE
            | CoreStatus::NOT_A_VOLUME
            | CoreStatus::READ_ONLY
            | CoreStatus::IN_USE => devices::Error::missing(what),
            CoreStatus::NEWER_VERSION | CoreStatus::UNSUITABLE | CoreStatus::UNSUPPORTED => {
                devices::Error::unsupported(what)
            }
            _ => devices::Error::other(what),
        },
        Error::NoFront(_) | Error::Busy | Error::OutOfStep(_) => devices::Error::missing(what),
        Error::Version(_) => devices::Error::unsupported(what),
        Error::Io(_) => devices::Error::other(what),
    }
}

#[cfg(test)]
mod tests;
