#![doc = include_str!("../README.md")]
// SPDX-License-Identifier: Apache-2.0 OR MIT
#![forbid(unsafe_code)]

mod file;
#[cfg(feature = "recorder")]
mod gatherer;
#[cfg(feature = "map")]
mod map;
#[cfg(feature = "recorder")]
mod player;
#[cfg(feature = "recorder")]
mod recorder;
#[cfg(any(feature = "map", feature = "recorder"))]
mod thread;
mod volume;

pub use ::devices::{Error, ErrorKind};
#[cfg(feature = "recorder")]
pub use ::formats::{
    Format, SigmfOptions,
    samples::{Datatype, Hertz},
};
#[cfg(feature = "recorder")]
pub use ::recorder::{
    MAX_BUFFERS,
    play::PlaySettings,
    record::{Policy, RecordSettings, unknown_format},
    segments::{Limit, Segmentation},
};
pub use ::remedy::{
    Device as NamedDevice, Members, Part, Remedy, Setting, Value, Wording, Words, words,
};
#[cfg(feature = "recorder")]
pub use ::stream::RecordReport;
#[cfg(feature = "recorder")]
pub use ::units::{Size, Time};
pub use ::volume::{CreateOptions, NewFile, OpenFile, StoredFile, VolumeStatus};
pub use file::VolumeFile;
#[cfg(feature = "map")]
pub use map::{Map, MapFailure, MapOptions};
#[cfg(feature = "recorder")]
pub use player::{PlayReport, Player};
#[cfg(feature = "recorder")]
pub use recorder::Recorder;
pub use volume::{FormatOptions, Volume, VolumeDevice, format, resize};

use block::{Buffer, Geometry};
use devices::Context;
#[cfg(feature = "drives")]
use devices::command::{CommandQueue, DriveCommand};
use devices::drive::Drive;
use devices::guard::{Grant, Purpose};
use devices::path::{self, Mode, OpenOptions, Opened, PathChoice};
use devices::transfer::Route;

/// Options for [`Device::open`].
#[derive(Clone, Copy, Debug)]
pub struct DeviceOptions<'a> {
    /// A name of `--path`; the usual path of the drive if `None`.
    pub path: Option<&'a str>,
    /// A name of `--mode`: `poll`, `interrupt` or `hybrid`; the path's own if `None`.
    pub mode: Option<&'a str>,
    /// The namespace of a controller; its only or first one if `None`.
    pub namespace: Option<u32>,
    /// Whether it will be written.
    pub write: bool,
    /// The value of `--destroy-data`, which writing requires: the drive's serial number, or the
    /// path of a file. Memory has none.
    pub destroy_data: Option<&'a str>,
    /// Memory for all buffers, in bytes.
    pub buffer_bytes: usize,
    /// Requests in flight.
    pub queue_depth: u16,
}

impl Default for DeviceOptions<'_> {
    /// The usual path, for reading, with 16 MiB for buffers and 32 requests in flight.
    fn default() -> Self {
        Self {
            path: None,
            mode: None,
            namespace: None,
            write: false,
            destroy_data: None,
            buffer_bytes: 16 << 20,
            queue_depth: 32,
        }
    }
}

#[cfg(feature = "drives")]
/// A command for [`Device::command`].
#[derive(Clone, Copy, Debug)]
pub struct DeviceCommand<'a> {
    /// Whether it goes to an I/O queue, and not to the admin queue.
    pub is_io: bool,
    /// The opcode.
    pub opcode: u8,
    /// The namespace of an admin command, or of an I/O command if it is not the drive's only one.
    pub namespace: Option<u32>,
    /// Command dwords 10 to 13.
    pub dwords: [u32; 4],
    /// The command's name, which allows it: as `straightway command --allow`.
    pub name: Option<&'a str>,
}

impl DeviceOptions<'_> {
    /// The path, the mode and the namespace, for a recording or a playback.
    ///
    /// # Errors
    /// A name is unknown.
    pub fn route(&self) -> Result<Route, Error> {
        let options = open_options(self)?;
        Ok(Route {
            path: options.path,
            mode: options.mode,
            namespace: options.namespace,
            ..Route::default()
        })
    }
}

/// The path that the options ask for.
fn open_options(options: &DeviceOptions<'_>) -> Result<OpenOptions, Error> {
    let path = match options.path {
        Some(name) => PathChoice::by_name(name)?,
        None => PathChoice::AUTO,
    };
    let mode = match options.mode {
        Some(name) => Some(Mode::named(name).ok_or_else(|| {
            Error::usage(format!("`{name}` is no way to wait")).hint("poll, interrupt or hybrid")
        })?),
        None => None,
    };
    Ok(OpenOptions {
        path,
        mode,
        namespace: options.namespace,
        write: options.write,
        ..OpenOptions::reading(options.buffer_bytes, options.queue_depth)
    })
}

/// An open device. Dropping it returns a borrowed drive to its driver, as [`close`](Device::close)
/// does, but without an error.
pub struct Device {
    opened: Opened,
    /// The permission, and the locks that belong to it.
    #[cfg_attr(not(feature = "drives"), expect(dead_code, reason = "it is held"))]
    grant: Grant,
    writes: bool,
}

impl Device {
    /// Opens the device that the command calls `name`.
    ///
    /// # Errors
    /// Something is missing, wrong, in use or refused; nothing was changed then.
    pub fn open(name: &str, options: &DeviceOptions<'_>) -> Result<Self, Error> {
        Self::open_by(name, options).map_err(|failure| failure.on(name))
    }

    fn open_by(name: &str, options: &DeviceOptions<'_>) -> Result<Self, Error> {
        let context = Context::system();
        let drive = Drive::find(&context.roots, name)?;
        let purpose = if options.write {
            Purpose::Destroy(options.destroy_data)
        } else {
            Purpose::Read
        };
        let grant = Grant::of(&context.roots, drive, purpose)?;
        let options = open_options(options)?;
        let opened = path::open(&context, &grant, &options)?;
        if let Err(failure) = grant.confirm(opened.serial().as_deref()) {
            return opened.close_after(Err(failure));
        }
        Ok(Self {
            opened,
            grant,
            writes: options.write,
        })
    }

    /// The device itself.
    pub fn device(&mut self) -> &mut dyn block::Device {
        self.opened.device.as_mut()
    }

    /// Its shape and limits.
    pub fn geometry(&self) -> Geometry {
        *self.opened.device.geometry()
    }

    /// The name of the path: `straightway-hybrid`, `io_uring`, ...
    pub fn path(&self) -> &str {
        &self.opened.name
    }

    /// Allocates a buffer of `bytes` at the start of a page, in memory that the device reaches.
    ///
    /// # Errors
    /// There is not enough contiguous memory of the `buffer_bytes` that it was opened with.
    pub fn allocate(&self, bytes: usize) -> Result<Buffer, Error> {
        self.opened.memory.allocate(bytes)
    }

    /// Whether it was opened to write.
    pub const fn writes(&self) -> bool {
        self.writes
    }

    /// Another handle to the memory of its buffers, which keeps that mapped.
    pub fn memory(&self) -> impl Send + Sync + 'static + use<> {
        self.opened.memory.clone()
    }

    /// Frees a buffer of [`allocate`](Device::allocate).
    pub fn give_back(&self, buffer: Buffer) {
        self.opened.memory.give_back(buffer);
    }

    #[cfg(feature = "drives")]
    /// Sends a command that the driver does not interpret, and waits for its end; requests in
    /// flight stay so. Its data is in `bytes`, before or after, as bits 1:0 of the opcode say.
    /// Returns dword 0 of an admin command's completion.
    ///
    /// # Errors
    /// The path is not a straight one, the command is not the one that is named, it may change the
    /// drive and this was not opened to write, the length does not fit, or the command failed.
    pub fn command(
        &mut self,
        command: &DeviceCommand<'_>,
        bytes: &mut [u8],
    ) -> Result<Option<u32>, Error> {
        let sent = DriveCommand {
            queue: if command.is_io {
                CommandQueue::Io
            } else {
                CommandQueue::Admin
            },
            opcode: command.opcode,
            dwords: command.dwords,
            namespace: command.namespace,
            allow: command.name.map(str::to_owned),
        };
        let drive = self.grant.drive();
        let Some(handle) = self.opened.handle() else {
            let path = &self.opened.name;
            let failure = Error::unsupported(format!(
                "{drive} is reached by {path}, which sends only reads and writes"
            ));
            return Err(failure.hint("open an NVMe drive by a straight path, or model:SIZE"));
        };
        sent.send_to(drive, handle, self.writes, bytes)
    }

    /// Closes the device, and returns a borrowed drive to its driver.
    ///
    /// # Errors
    /// The drive could not be returned.
    pub fn close(self) -> Result<(), Error> {
        self.opened.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::blocking;

    #[test]
    fn what_was_written_is_read() {
        let drive = cfg!(feature = "drives").then_some("model:1M");
        for name in drive.into_iter().chain(["ram:1M"]) {
            let write = true;
            let mut device = Device::open(
                name,
                &DeviceOptions {
                    write,
                    ..DeviceOptions::default()
                },
            )
            .unwrap();
            let mut buffer = device.allocate(4096).unwrap();
            assert_eq!(buffer.address() % 4096, 0);
            buffer.fill(7);
            let written = blocking::write(device.device(), 1, buffer, false);
            written.result.unwrap();
            let mut buffer = written.buffer;
            buffer.fill(0);
            let read = blocking::read(device.device(), 1, buffer);
            read.result.unwrap();
            assert!(read.buffer.iter().all(|&byte| byte == 7));
            device.give_back(read.buffer);
            device.close().unwrap();
        }
    }

    #[cfg(not(feature = "drives"))]
    #[test]
    fn without_the_drive_stack_a_drive_is_refused() {
        for name in ["model:1M", "tcp://127.0.0.1/nqn.2026-11.test:a"] {
            let error = Device::open(name, &DeviceOptions::default()).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains("no drive stack"), "{error}");
            let hint = error.hint_in(&Members).unwrap();
            assert!(hint.contains("the feature `drives`"));
        }
    }

    #[test]
    fn errors_are_the_command_s() {
        let code = |name, options: &DeviceOptions<'_>| {
            let error = Device::open(name, options).err().unwrap();
            assert!(!error.to_string().is_empty());
            error.kind()
        };
        let options = DeviceOptions::default();
        assert_eq!(code("/nonexistent/x", &options), ErrorKind::Missing);
        assert_eq!(code("ram:4q", &options), ErrorKind::Usage);
        let path = Some("nonsense");
        assert_eq!(
            code("ram:1M", &DeviceOptions { path, ..options }),
            ErrorKind::Usage
        );
        let mode = Some("nonsense");
        assert_eq!(
            code("ram:1M", &DeviceOptions { mode, ..options }),
            ErrorKind::Usage
        );
        let path = Some("vfio");
        assert_eq!(
            code("ram:1M", &DeviceOptions { path, ..options }),
            ErrorKind::Unsupported
        );
        // A file is written only if it is named.
        let file = std::env::temp_dir().join(format!("straightway-open-{}", std::process::id()));
        std::fs::write(&file, [1; 4096]).unwrap();
        let write = true;
        assert_eq!(
            code(file.to_str().unwrap(), &DeviceOptions { write, ..options }),
            ErrorKind::Usage
        );
        assert_eq!(std::fs::read(&file).unwrap(), [1; 4096]);
        std::fs::remove_file(&file).unwrap();
    }
}
