// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A volume for programs that are not the command: opens, lists, renames and removes.

use super::{DeviceOptions, Error, VolumeFile, open_options};
use ::volume::layout::RECORD_SLOTS;
use ::volume::{CreateOptions, NewFile, OpenFile, StoredFile, VolumeStatus};
use devices::Context;
use devices::path::{OpenOptions, PathChoice};
use devices::transfer::Route;
use files::consent::Consent;
use files::format::FormatSettings;
use files::resize::ResizeSettings;
use files::store::NODE_MEMORY_BYTES;
use files::{Access, Mount, Store, failed, now_ns, shown};
use units::Size;

/// Files of one operation, and their data, at most.
const BATCH_FILES: usize = 1024;
const BATCH_BYTES: usize = 8 << 20;

/// Options for [`format()`]. `Default` is the command's default, for a plain file or memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct FormatOptions<'a> {
    /// Bytes of the volume, which a plain file that is missing or empty gets; the whole device if
    /// `None`.
    pub volume_bytes: Option<u64>,
    /// Bytes of a unit of allocation.
    pub unit_bytes: Option<u64>,
    /// The most files.
    pub slots: Option<u32>,
    /// Whether files can have checksums.
    pub checksums: bool,
    /// At most 32 bytes.
    pub label: &'a str,
    /// The drive's serial number: its data will be lost. Required for a drive.
    pub destroy_data: Option<&'a str>,
    /// Whether a file that holds data may be formatted.
    pub force: bool,
}

/// Makes an empty volume, as `straightway format` does, and refuses what that refuses.
///
/// # Errors
/// Permission is missing, the parameters do not suit the device, or the device failed.
pub fn format(name: &str, options: &FormatOptions<'_>) -> Result<(), Error> {
    let format = FormatSettings {
        device: name.to_owned(),
        unit: options.unit_bytes.map(Size),
        node: None,
        slots: options.slots,
        label: options.label.to_owned(),
        checksums: options.checksums,
        size: options.volume_bytes.map(Size),
        consent: Consent {
            destroy_data: options.destroy_data.map(str::to_owned),
            force: options.force,
            dry_run: false,
            route: Route {
                path: PathChoice::AUTO,
                mode: None,
                namespace: None,
                hybrid: false,
                cache: None,
                latency_limit: None,
            },
        },
    };
    match format.make(&Context::system()) {
        Ok(_) => Ok(()),
        Err(failure) => Err(failure.on(name)),
    }
}

/// Makes a volume longer or shorter, as `straightway resize` does, and returns its size then.
/// Without a size it gets all of the device. Of `options`, the path, the mode and the namespace are
/// used.
///
/// # Errors
/// Its files do not fit, something else has it open, or the device or the volume failed.
pub fn resize(
    name: &str,
    options: &DeviceOptions<'_>,
    size_bytes: Option<u64>,
) -> Result<u64, Error> {
    let resize = ResizeSettings {
        device: name.to_owned(),
        size: size_bytes.map(Size),
        least: false,
        route: options.route()?,
    };
    match resize.make(&Context::system()) {
        Ok(resized) => Ok(resized.volume_bytes),
        Err(failure) => Err(failure.on(name)),
    }
}

/// An open device with a volume.
pub struct VolumeDevice {
    store: Store,
    access: Access,
}

impl VolumeDevice {
    /// Opens the device that the command calls `name`; nothing is mounted yet.
    ///
    /// # Errors
    /// Something is missing, wrong, in use or refused; nothing was changed then.
    pub fn open(name: &str, options: &DeviceOptions<'_>) -> Result<Self, Error> {
        Self::open_by(name, options).map_err(|failure| failure.on(name))
    }

    fn open_by(name: &str, options: &DeviceOptions<'_>) -> Result<Self, devices::Error> {
        if options.destroy_data.is_some() {
            return Err(devices::Error::usage(
                "destroy_data is given, and opening a volume destroys nothing",
            )
            .hint("omit it; a format needs it"));
        }
        let access = if options.write {
            Access::Write
        } else {
            Access::Read
        };
        let given = open_options(options)?;
        let options = OpenOptions {
            buffer_bytes: given.buffer_bytes.saturating_add(NODE_MEMORY_BYTES),
            queue_depth: given.queue_depth.max(32),
            ..given
        };
        let store = Store::open(&Context::system(), name, &options)?;
        Ok(Self { store, access })
    }

    /// Mounts the volume. `files` has an entry for each file that may be open at the same time.
    ///
    /// # Errors
    /// The device has failed, or is not a volume, or a damaged one.
    pub fn mount<'a>(&'a mut self, files: &'a mut [OpenFile]) -> Result<Volume<'a>, Error> {
        let mount = self.store.mount_with(self.access, files)?;
        Ok(Volume { mount })
    }

    /// Closes the device, and returns a borrowed drive to its driver; an earlier error is reported
    /// in preference.
    ///
    /// # Errors
    /// The earlier error, or the drive could not be returned.
    pub fn close_after<T>(self, result: Result<T, Error>) -> Result<T, Error> {
        let closed = self.store.close(Ok(()));
        result.and_then(|value| closed.map(|()| value))
    }
}

/// A mounted volume. Dropped without [`unmount`](Volume::unmount), it is left as a power cut leaves
/// it.
pub struct Volume<'a> {
    pub(super) mount: Mount<'a>,
}

impl Volume<'_> {
    /// The volume's shape and state.
    pub fn status(&self) -> VolumeStatus {
        self.mount.mounted().volume.status()
    }

    /// Bytes that files can still get.
    ///
    /// # Errors
    /// A bitmap is damaged, or the device failed.
    pub fn free_bytes(&self) -> Result<u64, Error> {
        let mounted = self.mount.mounted();
        let units = mounted.run("counting free space", mounted.volume.free_units())?;
        Ok(units * self.status().shape.unit_bytes())
    }

    /// The first file whose slot is `from` or later.
    ///
    /// # Errors
    /// A slot is damaged, or the device failed.
    pub fn next_file(&self, from: u32) -> Result<Option<StoredFile>, Error> {
        let mounted = self.mount.mounted();
        mounted.run("listing files", mounted.volume.next_file(from))
    }

    /// The file of this name.
    ///
    /// # Errors
    /// There is none, or the volume failed.
    pub fn find(&self, name: &str) -> Result<StoredFile, Error> {
        let mounted = self.mount.mounted();
        let doing = format_args!("looking for `{}`", shown(name));
        mounted.run(doing, mounted.volume.find(name))
    }

    /// Opens a file to read it, or also to append to it.
    ///
    /// # Errors
    /// There is none, another handle may append to it, too many are open, or the volume failed.
    pub fn open(&self, name: &str, appends: bool) -> Result<VolumeFile, Error> {
        let mounted = self.mount.mounted();
        let volume = mounted.volume;
        let doing = format_args!("opening `{}`", shown(name));
        let file = if appends {
            mounted.run(doing, volume.open_to_write(name))?
        } else {
            mounted.run(doing, volume.open(name))?
        };
        Ok(VolumeFile::new(name, file, appends))
    }

    /// Makes an empty file and opens it to append to it. The file is durable when this returns.
    ///
    /// # Errors
    /// The name is taken or invalid, there is no space, or the volume failed.
    pub fn create(&self, name: &str, options: &CreateOptions) -> Result<VolumeFile, Error> {
        let mounted = self.mount.mounted();
        let volume = mounted.volume;
        volume.set_time(now_ns());
        let doing = format_args!("creating `{}`", shown(name));
        let create = volume.with_space(|| volume.create(name, options));
        Ok(VolumeFile::new(name, mounted.run(doing, create)?, true))
    }

    /// Makes whole files, durably, and returns how many: the first ones, up to the first that
    /// failed, whose error is the second value. Up to 1,024 of less than 64 KiB share the flushes
    /// of one operation, and the slots for all are added together. After a power cut each of them
    /// is there, whole, or not at all; a longer one may be there, empty.
    pub fn create_many(
        &self,
        files: &[NewFile<'_>],
        checksums: bool,
    ) -> (usize, Result<(), Error>) {
        let mut done = 0;
        if files.len() > RECORD_SLOTS {
            let mounted = self.mount.mounted();
            let count = u32::try_from(files.len()).unwrap_or(u32::MAX);
            let grow = mounted.volume.grow_table_for(count);
            if let Err(error) = mounted.run("making room for the names", grow) {
                return (0, Err(error));
            }
        }
        while let Some(first) = files.get(done) {
            match self.create_some(files.get(done..).unwrap_or_default(), checksums) {
                Ok(0) => match self.create_whole(first, checksums) {
                    Ok(()) => done += 1,
                    Err(error) => return (done, Err(error)),
                },
                Ok(made) => done += made,
                Err(error) => return (done, Err(error)),
            }
        }
        (done, Ok(()))
    }

    /// Makes the first of these files in one operation; returns how many.
    fn create_some(&self, files: &[NewFile<'_>], checksums: bool) -> Result<usize, Error> {
        let mounted = self.mount.mounted();
        let volume = mounted.volume;
        let name = files.first().map_or("", |file| file.name);
        let doing = format_args!("creating `{}`", shown(name));
        // Few are in the record itself.
        let made = if files.len() > RECORD_SLOTS {
            let mut bytes = 0;
            let fit = files.iter().take(BATCH_FILES).take_while(|file| {
                bytes += file.data.len();
                bytes <= BATCH_BYTES
            });
            let files = files.get(..fit.count().max(1)).unwrap_or(files);
            let create = volume.with_space(|| volume.create_batch::<BATCH_FILES>(files, checksums));
            mounted.run(doing, create)?
        } else {
            let create = volume.with_space(|| volume.create_many(files, checksums));
            mounted.run(doing, create)?
        };
        Ok(made.files)
    }

    /// Makes a file that is too long for an operation with others.
    fn create_whole(&self, file: &NewFile<'_>, checksums: bool) -> Result<(), Error> {
        let options = CreateOptions {
            reserve_bytes: file.data.len() as u64,
            checksums,
            app_tag: file.app_tag,
        };
        let mut open = self.create(file.name, &options)?;
        let appended = open.append(self, file.data);
        let result = appended.and(open.close(self));
        if result.is_err() {
            // No part of it stays.
            let _ = self.remove(file.name);
        }
        result
    }

    /// Renames a file. After a power cut it has either name.
    ///
    /// # Errors
    /// There is none, the new name is taken or invalid, the file is open, or the volume failed.
    pub fn rename(&self, old: &str, new: &str) -> Result<(), Error> {
        let mounted = self.mount.mounted();
        let doing = format_args!("renaming `{}` to `{}`", shown(old), shown(new));
        let volume = mounted.volume;
        let rename = volume.with_space(|| volume.rename(old, new));
        mounted.run(doing, rename)
    }

    /// Removes a file and frees its space.
    ///
    /// # Errors
    /// There is none, it is open, or the volume failed.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        self.mount.mounted().remove(name)
    }

    /// Removes files and frees their space, and returns how many: the first ones, up to the first
    /// that failed, whose error is the second value. Up to 1,024 with one extent each share the
    /// flushes of one operation.
    pub fn remove_many(&self, names: &[&str]) -> (usize, Result<(), Error>) {
        let mounted = self.mount.mounted();
        let volume = mounted.volume;
        let mut done = 0;
        while let Some(rest @ [first, ..]) = names.get(done..) {
            let batch = rest.get(..BATCH_FILES).unwrap_or(rest);
            let doing = format_args!("removing `{}`", shown(first));
            let removed = mounted.run(doing, volume.remove_batch::<BATCH_FILES>(batch));
            let removed = match removed {
                Ok(0) => self.remove(first).map(|()| 1),
                removed => removed,
            };
            match removed {
                Ok(count) => done += count,
                Err(error) => return (done, Err(error)),
            }
        }
        (done, Ok(()))
    }

    /// Unmounts. Files must be closed before: what was appended to an open one since its last sync
    /// is lost.
    ///
    /// # Errors
    /// The volume is then as a power cut leaves it.
    pub fn unmount(self) -> Result<(), Error> {
        self.mount.unmount_after(Ok(()))
    }

    /// The error of an operation on a file.
    pub(super) fn failed(doing: &str, name: &str, error: ::volume::Error) -> Error {
        failed(format_args!("{doing} `{}`", shown(name)), error)
    }
}
