// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of a volume that a verb only reads: mounted here, or answered by the process that
//! records on it.
//!
//! What is read of a file ends where the file ended when it was found. When the recording ends, the
//! rest is read from the volume.

use super::reader::Live;
use super::{Answer, Ask, RecordingStatus};
use devices::Bar;
use devices::Context;
use devices::drive::Drive;
use devices::error::{Error, ErrorKind, Result};
use devices::path::OpenOptions;
use devices::transfer::IoOptions;
use devices::transfer::pump::Sink;
use files::drain::{Part, drain};
use files::flow::Sums;
use files::listing::{FileEntry, Listing};
use files::reports::VolumeReport;
use files::{Access, Mounted, Store, pace, shown};
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// How long to sleep when a recording has nothing new, or has just ended.
const LOOK: Duration = Duration::from_millis(50);
/// How long a recording that has ended may take to give the drive back.
pub const HANDOVER: Duration = Duration::from_secs(30);

/// A volume's files.
pub struct Origin<'o, 'a> {
    context: &'o Context,
    device: &'o str,
    io: &'o IoOptions,
    options: OpenOptions,
    /// The device, if it has a name while another process has it.
    pub drive: Option<&'o Drive>,
    place: Place<'o, 'a>,
}

/// Who has the volume.
enum Place<'o, 'a> {
    Here(&'o Mounted<'o, 'a>),
    /// The recording, until it ends.
    There(RefCell<Option<Live>>),
}

impl<'o, 'a> Origin<'o, 'a> {
    /// The files of a volume that is mounted here.
    pub fn here(context: &'o Context, io: &'o IoOptions, mounted: &'o Mounted<'o, 'a>) -> Self {
        Self {
            context,
            device: mounted.path,
            io,
            options: OpenOptions::reading(1 << 16, 1),
            drive: Some(mounted.drive),
            place: Place::Here(mounted),
        }
    }
}

impl Origin<'_, '_> {
    /// Mounts the volume, or finds the process that records on it, and runs `body`.
    ///
    /// # Errors
    /// The device or the volume failed, or `body`.
    pub fn with<T>(
        context: &Context,
        device: &str,
        io: &IoOptions,
        options: OpenOptions,
        body: impl FnOnce(&Origin<'_, '_>) -> Result<T>,
    ) -> Result<T> {
        if let Some(live) = Live::find(context, device)? {
            // One that its recording has taken from the kernel has no name.
            let drive = Drive::find(&context.roots, device).ok();
            return body(&Origin {
                context,
                device,
                io,
                options,
                drive: drive.as_ref(),
                place: Place::There(RefCell::new(Some(live))),
            });
        }
        let drive = Drive::find(&context.roots, device)?;
        let mut store = Store::of(context, drive, &options)?;
        let result = store.mount(Access::Read, |mounted| {
            body(&Origin {
                context,
                device,
                io,
                options,
                drive: Some(mounted.drive),
                place: Place::Here(mounted),
            })
        });
        store.close(result)
    }

    /// For a report: the device.
    pub fn device(&self) -> String {
        self.drive
            .map_or_else(|| self.device.to_owned(), Drive::to_string)
    }

    /// For a report: the path.
    pub fn path(&self) -> &str {
        match &self.place {
            Place::Here(mounted) => mounted.path,
            Place::There(_) => Live::PATH,
        }
    }

    /// How the recording goes, while one goes on.
    ///
    /// # Errors
    /// The user cancelled, or the process is one of another version.
    pub fn status(&self) -> Result<Option<RecordingStatus>> {
        let Place::There(place) = &self.place else {
            return Ok(None);
        };
        let mut live = place.borrow_mut();
        let Some(open) = &mut *live else {
            return Ok(None);
        };
        match open.try_ask(&Ask::Status)? {
            None => {
                *live = None;
                Ok(None)
            }
            Some(Answer::Status(status)) => Ok(Some(status)),
            Some(other) => Err(other.failure()),
        }
    }

    /// Whether the volume is mounted here.
    pub const fn is_here(&self) -> bool {
        matches!(self.place, Place::Here(_))
    }

    /// The volume.
    ///
    /// # Errors
    /// The volume failed.
    pub fn volume(&self) -> Result<VolumeReport> {
        let ask = |live: &mut Live| match live.try_ask(&Ask::Volume)? {
            None => Ok(None),
            Some(Answer::Volume(report)) => Ok(Some(*report)),
            Some(other) => Err(other.failure()),
        };
        self.each(ask, VolumeReport::read)
    }

    /// All files.
    ///
    /// # Errors
    /// The volume failed.
    pub fn files(&self) -> Result<Vec<FileEntry>> {
        let ask = |live: &mut Live| match live.try_ask(&Ask::List)? {
            None => Ok(None),
            Some(Answer::List(listing)) => Ok(Some(listing)),
            Some(other) => Err(other.failure()),
        };
        Ok(self.each(ask, Listing::read)?.files)
    }

    /// A file, by name.
    ///
    /// # Errors
    /// The volume failed.
    pub fn find(&self, name: &str) -> Result<Option<FileEntry>> {
        let ask = |live: &mut Live| match live.try_ask(&Ask::File(name.to_owned()))? {
            None => Ok(None),
            Some(Answer::File(report)) => Ok(Some(Some(report.entry))),
            Some(other) => match other.failure() {
                failure if failure.kind() == ErrorKind::NotFound => Ok(Some(None)),
                failure => Err(failure),
            },
        };
        self.each(ask, |mounted| {
            let found = mounted.find(name)?;
            Ok(found.map(|entry| FileEntry::new(&entry)))
        })
    }

    /// Reads the first `len` bytes of a file, and compares what has checksums: the number of
    /// requests.
    ///
    /// # Errors
    /// The volume or the sink failed, the data does not match its checksums, or the user cancelled.
    pub fn read(&self, entry: &FileEntry, len: u64, bar: &Bar, sink: &mut Sink<'_>) -> Result<u64> {
        let name = entry.name.as_str();
        let mut data = Vec::new();
        let (mut at, mut requests) = (0, 0);
        while at < len {
            data.clear();
            let ask = |live: &mut Live| {
                let found = live.read(name, at, len - at, &mut data)?;
                Ok(found.map(|found| (found.length_bytes, 1)))
            };
            let (read, of_it) = self.each(ask, |mounted| {
                let part = Part {
                    name,
                    offset_bytes: at,
                    length_bytes: len - at,
                    size_bytes: entry.size_bytes,
                    sums: if entry.has_checksums() {
                        Sums::Stored
                    } else {
                        Sums::Ignored
                    },
                    past_rot: false,
                    pace: pace(mounted, self.io)?,
                };
                let drained = drain(mounted, &part, sink, bar, &self.context.cancel)?;
                Ok((drained.bytes, drained.requests))
            })?;
            if read == 0 {
                let what = format!("`{}` is now shorter than it was", shown(name));
                return Err(Error::other(what).hint("once more"));
            }
            if !data.is_empty() {
                sink(&data)?;
                bar.inc(read);
            }
            at += read;
            requests += of_it;
            if self.context.cancel.is_set() {
                return Err(Error::interrupted("interrupted"));
            }
        }
        Ok(requests)
    }

    /// What the recording answers, or, once it has ended, what the volume has.
    fn each<T>(
        &self,
        mut ask: impl FnMut(&mut Live) -> Result<Option<T>>,
        mut here: impl FnMut(&Mounted<'_, '_>) -> Result<T>,
    ) -> Result<T> {
        let place = match &self.place {
            Place::Here(mounted) => return here(mounted),
            Place::There(place) => place,
        };
        let began = Instant::now();
        loop {
            let mut live = place.borrow_mut();
            if let Some(open) = &mut *live {
                if let Some(answer) = ask(open)? {
                    return Ok(answer);
                }
                *live = None;
            }
            match Store::with(self.context, self.device, &self.options, &mut here) {
                Err(failure)
                    if failure.kind() == ErrorKind::Missing && began.elapsed() < HANDOVER => {}
                result => return result,
            }
            pause(self.context)?;
            *live = Live::find(self.context, self.device)?;
        }
    }
}

/// A moment for the recording, or for its end.
///
/// # Errors
/// The user cancelled.
pub fn pause(context: &Context) -> Result<()> {
    std::thread::sleep(LOOK);
    if context.cancel.is_set() {
        Err(Error::interrupted("interrupted"))
    } else {
        Ok(())
    }
}
