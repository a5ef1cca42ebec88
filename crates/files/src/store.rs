// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A device with a volume, opened by its name; and the mount.
//!
//! A store owns the path and its lock. Each [`Store::mount`] lends the volume its device, its nodes
//! and its table of files for one closure, and takes everything back in all cases.

use crate::found::Signature;
use crate::listing::Listing;
use crate::names::check_name;
use crate::naming::{folders_of, warn_of_clash};
use crate::tree::{in_folder, is_folder};
use crate::{crc32c, failed, now_ns, owners, shown};
use block::{Buffer, Device};
use devices::Context;
use devices::cancel::Cancel;
use devices::drive::Drive;
use devices::error::{ErrorKind, Result};
use devices::guard::{Grant, Purpose};
use devices::path::cached;
use devices::path::handle::Recall;
use devices::path::memory::Memory;
use devices::path::{self, OpenOptions, Opened};
use std::fmt;
use volume::{Error, MountOptions, OpenFile, StoredFile, Volume, blocking};

/// Files that may be open at the same time: as many as a volume has tokens for.
pub const OPEN_FILES: usize = 128;

/// The longest node that a volume may have.
const NODE_BYTES: usize = 16 << 10;
/// Nodes in each of the three pieces of memory: whole buckets are read together.
const NODES: [usize; 3] = [1, 8, 8];
/// Memory that a volume needs in addition to data buffers.
pub const NODE_MEMORY_BYTES: usize = 17 * NODE_BYTES + (64 << 10);
/// Maximum number of open files, if a caller needs no more.
const FILES: usize = 4;

/// A volume on any device.
pub type AnyVolume<'a> = Volume<'a, &'a mut (dyn Device + 'static)>;

/// The intended access to a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing is changed, not even an operation that a power cut interrupted.
    Read,
    /// Files are made, changed or removed.
    Write,
}

/// A device that has a volume, or will get one.
pub struct Store {
    /// What the user named.
    pub drive: Drive,
    /// The path to it. Data buffers come from the path's memory.
    pub opened: Opened,
    grant: Grant,
    /// No other owner's signature was found.
    is_ours: bool,
}

/// A volume that stays mounted until [`Mount::unmount_after`]. Dropped, it is left as a power cut
/// leaves it.
pub struct Mount<'a> {
    volume: AnyVolume<'a>,
    memory: Memory,
    drive: &'a Drive,
    path: String,
    recall: Recall<'a>,
    wall_ns: fn() -> u64,
}

/// What a volume is mounted on.
pub struct MountPoint<'a> {
    /// The device.
    pub device: &'a mut (dyn Device + 'static),
    /// Memory for buffers that the device can access.
    pub memory: Memory,
    /// What the user named, for messages.
    pub drive: &'a Drive,
    /// The description of the path.
    pub path: String,
    /// Whether the machine recalls the drive.
    pub recall: Recall<'a>,
    /// The time of day, in nanoseconds since 1970.
    pub wall_ns: fn() -> u64,
}

/// A mounted volume, for as long as the closure of [`Store::mount`] runs.
pub struct Mounted<'m, 'a> {
    /// The volume.
    pub volume: &'m AnyVolume<'a>,
    /// Memory for buffers that the device can access.
    pub memory: &'m Memory,
    /// What the user named, for messages.
    pub drive: &'m Drive,
    /// The description of the path.
    pub path: &'m str,
    /// Whether the machine recalls the drive.
    pub recall: Recall<'m>,
    /// The time of day, in nanoseconds since 1970.
    pub wall_ns: fn() -> u64,
}

impl Store {
    /// Finds and opens the device that `name` means, if it may be used.
    ///
    /// # Errors
    /// The name has no meaning, or the device is in use or cannot be opened.
    pub fn open(context: &Context, name: &str, options: &OpenOptions) -> Result<Self> {
        Self::of(context, Drive::find(&context.roots, name)?, options)
    }

    /// Opens a resolved drive, if it may be used.
    ///
    /// # Errors
    /// The drive is in use, or cannot be opened.
    pub fn of(context: &Context, drive: Drive, options: &OpenOptions) -> Result<Self> {
        let purpose = if options.write {
            Purpose::Change
        } else {
            Purpose::Read
        };
        Self::granted(context, Grant::of(&context.roots, drive, purpose)?, options)
    }

    /// Opens a drive with a grant.
    ///
    /// # Errors
    /// The drive cannot be opened, or is not the drive that was named.
    pub fn granted(context: &Context, grant: Grant, options: &OpenOptions) -> Result<Self> {
        let opened = path::open(context, &grant, options)?;
        let store = Self {
            drive: grant.drive().clone(),
            opened,
            grant,
            is_ours: false,
        };
        let serial = store.opened.serial();
        match store.grant.confirm(serial.as_deref()) {
            Ok(()) => Ok(store),
            Err(failure) => store.close(Err(failure)),
        }
    }

    /// Reads the tables of names and free space in long pieces, so that a path with a cache has
    /// them in memory: each name's look-up and change would else wait for short reads of its own.
    /// What cannot be read is left to whom it concerns.
    ///
    /// # Errors
    /// The volume cannot be mounted.
    pub fn read_tables(&mut self, most_bytes: usize) -> Result<()> {
        if most_bytes == 0 {
            return Ok(());
        }
        let shape = self.mount(Access::Read, |mounted| Ok(mounted.volume.status().shape))?;
        let (device, memory) = (self.opened.device.as_mut(), &self.opened.memory);
        let geometry = *device.geometry();
        let block_bytes = geometry.block_size_bytes();
        let piece_bytes =
            cached::MOST_BYTES.min(geometry.max_transfer_bytes()) / block_bytes * block_bytes;
        if shape.data_start() > most_bytes as u64 || piece_bytes == 0 {
            return Ok(());
        }
        let mut buffer = memory.allocate(piece_bytes)?;
        let blocks = (piece_bytes / block_bytes) as u64;
        let end = shape.data_start() / block_bytes as u64;
        for lba in (0..end.min(geometry.block_count - blocks)).step_by(blocks as usize) {
            let read = block::blocking::read(device, lba, buffer);
            buffer = read.buffer;
            if read.result.is_err() {
                break;
            }
        }
        memory.give_back(buffer);
        Ok(())
    }

    /// Mounts the volume, runs `body`, and unmounts. After a power cut or a kill, the space of
    /// removed files and of unfinished writes is freed first.
    ///
    /// # Errors
    /// The error of the mount, `body`, or the unmount, in this order.
    pub fn mount<T>(
        &mut self,
        access: Access,
        body: impl FnOnce(&Mounted<'_, '_>) -> Result<T>,
    ) -> Result<T> {
        self.mount_for(access, FILES, body)
    }

    /// The same, with room for so many open files.
    ///
    /// # Errors
    /// Those of [`mount`](Self::mount).
    pub fn mount_for<T>(
        &mut self,
        access: Access,
        files: usize,
        body: impl FnOnce(&Mounted<'_, '_>) -> Result<T>,
    ) -> Result<T> {
        let mut files: Vec<OpenFile> = (0..files).map(|_| OpenFile::new()).collect();
        let mount = self.mount_with(access, &mut files)?;
        let result = body(&mount.mounted());
        mount.unmount_after(result)
    }

    /// Mounts the volume, with this table of open files, as [`mount`](Store::mount) does.
    ///
    /// # Errors
    /// The error of the mount.
    pub fn mount_with<'a>(
        &'a mut self,
        access: Access,
        files: &'a mut [OpenFile],
    ) -> Result<Mount<'a>> {
        if access == Access::Write && !self.is_ours {
            let found = self.other_owners(&Cancel::default())?;
            owners::refuse(&self.drive, &found)?;
            self.is_ours = true;
        }
        let memory = self.opened.memory.clone();
        let path = self.opened.name.clone();
        let (device, recall) = self.opened.parts();
        let point = MountPoint {
            device,
            memory,
            drive: &self.drive,
            path,
            recall,
            wall_ns: now_ns,
        };
        Mount::new(point, access, files)
    }

    /// The signatures of other owners on the device, which has a volume; see `owners`.
    ///
    /// # Errors
    /// The volume cannot be mounted, or the device failed.
    pub fn other_owners(&mut self, cancel: &Cancel) -> Result<Vec<Signature>> {
        let shape = self.mount(Access::Read, |mounted| Ok(mounted.volume.status().shape))?;
        owners::signatures(self, &shape, cancel)
    }

    /// Opens, mounts, runs `body`, unmounts and closes.
    ///
    /// # Errors
    /// One of these steps failed.
    pub fn with<T>(
        context: &Context,
        name: &str,
        options: &OpenOptions,
        body: impl FnOnce(&Mounted<'_, '_>) -> Result<T>,
    ) -> Result<T> {
        let access = if options.write {
            Access::Write
        } else {
            Access::Read
        };
        let mut store = Self::open(context, name, options)?;
        let result = store.mount(access, body);
        store.close(result)
    }

    /// Closes the path; an earlier error is reported in preference to one of closing.
    ///
    /// # Errors
    /// The earlier error, or that of closing.
    pub fn close<T>(self, result: Result<T>) -> Result<T> {
        self.opened.close_after(result)
    }
}

impl<'a> Mount<'a> {
    /// Mounts the volume, and frees what a power cut or a kill left unused.
    ///
    /// # Errors
    /// The error of the mount.
    pub fn new(point: MountPoint<'a>, access: Access, files: &'a mut [OpenFile]) -> Result<Self> {
        let MountPoint {
            device,
            memory,
            drive,
            path,
            recall,
            wall_ns,
        } = point;
        let nodes = allocate_nodes(&memory)?;
        let options = MountOptions {
            read_only: access == Access::Read,
            crc32c,
            now_ns: wall_ns(),
        };
        let volume = match Volume::mount(device, nodes, files, &options) {
            Ok(volume) => volume,
            Err(unmounted) => {
                give_back(&memory, unmounted.memory);
                let error = unmounted.result.err().unwrap_or(Error::NotAVolume);
                return Err(failed(drive, error));
            }
        };
        let mount = Self {
            volume,
            memory,
            drive,
            path,
            recall,
            wall_ns,
        };
        match mount.mounted().recover(access) {
            Ok(()) => Ok(mount),
            Err(failure) => mount.unmount_after(Err(failure)),
        }
    }

    /// The volume, and what belongs to it.
    pub fn mounted(&self) -> Mounted<'_, 'a> {
        Mounted {
            volume: &self.volume,
            memory: &self.memory,
            drive: self.drive,
            path: &self.path,
            recall: self.recall,
            wall_ns: self.wall_ns,
        }
    }

    /// Unmounts; an earlier error is reported in preference to one of unmounting.
    ///
    /// # Errors
    /// The earlier error, or that of unmounting.
    pub fn unmount_after<T>(self, result: Result<T>) -> Result<T> {
        let unmounted = self.volume.unmount();
        give_back(&self.memory, unmounted.memory);
        let ended = unmounted
            .result
            .map_err(|error| failed(format_args!("unmounting {}", self.drive), error));
        match (result, ended) {
            // A volume that failed in the middle reports this again at the unmount.
            (Err(failure), _) | (Ok(_), Err(failure)) => Err(failure),
            (Ok(value), Ok(())) => Ok(value),
        }
    }
}

impl Mounted<'_, '_> {
    /// Runs a future of the volume to completion. No data may be in flight.
    ///
    /// # Errors
    /// The future's error, reported as a failure while `doing`.
    pub fn run<T>(
        &self,
        doing: impl fmt::Display,
        future: impl Future<Output = std::result::Result<T, Error>>,
    ) -> Result<T> {
        blocking::run(self.volume, future).map_err(|error| failed(doing, error))
    }

    /// The file of this name, if it exists.
    ///
    /// # Errors
    /// The volume failed.
    pub fn find(&self, name: &str) -> Result<Option<StoredFile>> {
        match blocking::run(self.volume, self.volume.find(name)) {
            Ok(entry) => Ok(Some(entry)),
            Err(Error::NotFound) => Ok(None),
            Err(error) => Err(failed(format_args!("looking for `{}`", shown(name)), error)),
        }
    }

    /// The same failure of an operation on `name`, with what to give instead if no file but a
    /// folder is called so.
    pub fn or_folder(&self, name: &str, failure: devices::Error) -> devices::Error {
        let is_folder = failure.kind() == ErrorKind::NotFound
            && Listing::read(self).is_ok_and(|listing| {
                let names = listing.files.iter().map(|file| file.name.as_str());
                is_folder(name, names)
            });
        if is_folder {
            failure.hint(in_folder(name.trim_end_matches('/')))
        } else {
            failure
        }
    }

    /// Warns if a new file of this name would be in a folder that is called like a file.
    ///
    /// # Errors
    /// The volume failed.
    pub fn warn_of_clash(&self, context: &Context, name: &str) -> Result<()> {
        for folder in folders_of(name).filter(|folder| check_name(folder).is_ok()) {
            if self.find(folder)?.is_some() {
                warn_of_clash(context, name, folder);
                break;
            }
        }
        Ok(())
    }

    /// Removes a file and frees its units.
    ///
    /// # Errors
    /// The volume failed.
    pub fn remove(&self, name: &str) -> Result<()> {
        let doing = || format!("removing `{}`", shown(name));
        self.run(doing(), self.volume.remove_whole(name))
    }

    /// Frees the units of every removed file, and the reservations of dead writers.
    ///
    /// # Errors
    /// The volume failed.
    pub fn reclaim(&self) -> std::result::Result<(), Error> {
        blocking::run(self.volume, self.volume.reclaim_all())
    }

    /// Counts the files and the free units if their numbers are not known, so that the unmount
    /// stores them. Damage is left to whom it concerns.
    ///
    /// # Errors
    /// The device failed.
    pub fn count(&self) -> std::result::Result<(), Error> {
        match blocking::run(self.volume, self.volume.usage()) {
            Ok(_) | Err(Error::Corrupt(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Frees unused space after an unclean unmount: removed files and unfinished writes may still
    /// hold units.
    fn recover(&self, access: Access) -> Result<()> {
        let doing = || format!("freeing unused space on {}", self.drive);
        let status = self.volume.status();
        if access == Access::Write && status.read_only {
            return Err(failed(self.drive, Error::ReadOnly));
        }
        if access == Access::Write && !status.clean {
            self.reclaim().map_err(|error| failed(doing(), error))?;
            self.count().map_err(|error| failed(doing(), error))
        } else {
            Ok(())
        }
    }
}

fn allocate_nodes(memory: &Memory) -> Result<[Buffer; 3]> {
    let [one, two, three] = NODES.map(|nodes| memory.allocate(nodes * NODE_BYTES));
    match (one, two, three) {
        (Ok(one), Ok(two), Ok(three)) => Ok([one, two, three]),
        (one, two, three) => {
            let mut failure = devices::Error::unsupported("no memory for the volume's nodes");
            for result in [one, two, three] {
                match result {
                    Ok(buffer) => memory.give_back(buffer),
                    Err(error) => failure = error,
                }
            }
            Err(failure)
        }
    }
}

fn give_back(memory: &Memory, nodes: [Option<Buffer>; 3]) {
    for buffer in nodes.into_iter().flatten() {
        memory.give_back(buffer);
    }
}
