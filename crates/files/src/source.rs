// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The source of a put: a file, standard input, or a file in an archive, read directly into the
//! caller's buffers.

use crate::{ns_of, shown};
use devices::drive::Drive;
use devices::error::{Error, Result};
use devices::guard::refuse_source;
use linux::Roots;
use remedy::words;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// O_NONBLOCK. Each read of a stream is preceded by a poll.
const NO_WAIT: i32 = rustix::fs::OFlags::NONBLOCK.bits() as i32;

/// How long one wait for a stream may last before cancellation is checked.
const WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// Standard input as a file, without an intermediate buffer.
///
/// # Errors
/// It was closed when the command started, and is not an empty input; or there is no descriptor.
pub fn standard_input() -> std::io::Result<File> {
    if linux::was_closed(0) {
        return Err(rustix::io::Errno::BADF.into());
    }
    let owned = std::io::stdin().as_fd().try_clone_to_owned();
    owned.map(File::from)
}

/// An open source.
pub struct FileSource<'a> {
    data: Data<'a>,
    /// Its name.
    pub name: PathBuf,
    /// Known only for plain files, and those of archives.
    pub len_bytes: Option<u64>,
    /// When it was last modified, in nanoseconds since 1970, if the new file shall keep that.
    pub modified_ns: Option<u64>,
    /// Bytes that were read.
    taken_bytes: u64,
}

enum Data<'a> {
    File(File),
    /// What is left of it.
    Memory(std::io::Cursor<Vec<u8>>),
    /// And its bytes that are left.
    Member(&'a mut FileSource<'static>, u64),
}

impl<'a> FileSource<'a> {
    /// A file in an archive.
    pub fn member(
        archive: &'a mut FileSource<'static>,
        name: PathBuf,
        len_bytes: u64,
        modified_ns: u64,
    ) -> Self {
        Self {
            data: Data::Member(archive, len_bytes),
            name,
            len_bytes: Some(len_bytes),
            modified_ns: Some(modified_ns),
            taken_bytes: 0,
        }
    }

    /// Bytes that are in memory.
    pub fn of_bytes(bytes: Vec<u8>, name: PathBuf, modified_ns: Option<u64>) -> Self {
        Self {
            len_bytes: Some(bytes.len() as u64),
            data: Data::Memory(std::io::Cursor::new(bytes)),
            name,
            modified_ns,
            taken_bytes: 0,
        }
    }

    /// Opens a file, or standard input where `path` is `-`.
    ///
    /// # Errors
    /// It cannot be opened, or is a directory.
    pub fn open(path: &Path) -> Result<Self> {
        let is_stdin = path == Path::new("-");
        let name = if is_stdin {
            PathBuf::from("standard input")
        } else {
            path.to_owned()
        };
        let opened = if is_stdin {
            // The descriptor itself: the library's buffer would copy.
            standard_input()
        } else {
            // A FIFO's writer is waited for as its bytes are, not in open(2), which no signal ends.
            File::options().read(true).custom_flags(NO_WAIT).open(path)
        };
        let file = opened.map_err(|error| Error::io("opening", &name, &error))?;
        let data = file
            .metadata()
            .map_err(|error| Error::io("opening", &name, &error))?;
        if data.is_dir() {
            return Err(
                Error::usage(format!("{} is a directory", name.display())).hint(words![
                    "put its files one by one, or: tar c DIR | straightway put ",
                    remedy::Device,
                    " - NAME"
                ]),
            );
        }
        // Standard input may be at any offset of a file, so the file's length is not usable.
        let len_bytes = (data.is_file() && !is_stdin).then_some(data.len());
        Ok(Self {
            data: Data::File(file),
            name,
            len_bytes,
            modified_ns: len_bytes.and(data.modified().ok()).map(ns_of),
            taken_bytes: 0,
        })
    }

    /// Refuses a source that is the drive itself.
    ///
    /// # Errors
    /// The source is the drive.
    pub fn refuse_own(&self, roots: &Roots, drive: &Drive) -> Result<()> {
        match &self.data {
            Data::File(file) => refuse_source(roots, drive, file.metadata(), &self.name),
            Data::Memory(_) | Data::Member(..) => Ok(()),
        }
    }

    /// Whether it is a device, which has no end of its own.
    pub fn is_device(&self) -> bool {
        let Data::File(file) = &self.data else {
            return false;
        };
        file.metadata().is_ok_and(|data| {
            let kind = data.file_type();
            kind.is_block_device() || kind.is_char_device()
        })
    }

    /// Whether a stream ended without a byte, as the output of a command that failed does.
    pub fn has_given_nothing(&self) -> bool {
        self.taken_bytes == 0 && self.len_bytes.is_none() && !self.is_device()
    }

    /// Leaves `len` bytes of a plain file out, without reading them. False: it is none, or has
    /// fewer.
    ///
    /// # Errors
    /// The file cannot be positioned.
    pub fn pass(&mut self, len: u64) -> Result<bool> {
        let (Data::File(file), Some(all)) = (&mut self.data, self.len_bytes) else {
            return Ok(false);
        };
        let (Some(end), Ok(step)) = (self.taken_bytes.checked_add(len), i64::try_from(len)) else {
            return Ok(false);
        };
        if end > all {
            return Ok(false);
        }
        let passed = file.seek(SeekFrom::Current(step));
        passed.map_err(|error| Error::io("reading", &self.name, &error))?;
        self.taken_bytes = end;
        Ok(true)
    }

    /// Fills `data`, completely or up to the end of the source.
    ///
    /// # Errors
    /// The source cannot be read, or `stop` was set before the end of a stream arrived.
    pub fn fill(&mut self, data: &mut [u8], stop: &AtomicBool) -> Result<usize> {
        let file = match &mut self.data {
            Data::File(file) => file,
            Data::Memory(bytes) => {
                let read = bytes.read(data);
                return read.map_err(|error| Error::io("reading", &self.name, &error));
            }
            Data::Member(archive, left) => {
                let want = data.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                let filled = archive.fill(data.get_mut(..want).unwrap_or_default(), stop)?;
                *left -= filled as u64;
                return if filled == want {
                    Ok(filled)
                } else {
                    Err(Error::other(format!(
                        "{} ends in the middle of `{}`",
                        archive.name.display(),
                        shown(&self.name.to_string_lossy())
                    )))
                };
            }
        };
        let mut filled = 0;
        while let Some(rest) = data.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            if self.len_bytes.is_none() && !is_ready(file, &self.name, stop)? {
                continue;
            }
            match file.read(rest) {
                // Ctrl-C ends the producer of a pipe too, and closes it: such an end is not the
                // stream's own.
                Ok(0) if self.len_bytes.is_none() && stop.load(Ordering::Relaxed) => {
                    return Err(Error::interrupted("interrupted"));
                }
                Ok(0) => {
                    let has = self.taken_bytes + filled as u64;
                    refuse_shortened(file, &self.name, self.len_bytes, has)?;
                    break;
                }
                Ok(more) => filled += more,
                // Another reader of the stream was faster.
                Err(error)
                    if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Err(error) => return Err(Error::io("reading", &self.name, &error)),
            }
        }
        self.taken_bytes += filled as u64;
        Ok(filled)
    }
}

/// Refuses a plain file that ends earlier than it did when it was opened. Files of the kernel can
/// have less than they say, but keep saying so.
fn refuse_shortened(file: &File, name: &Path, len_bytes: Option<u64>, has: u64) -> Result<()> {
    let Some(had) = len_bytes.filter(|had| has < *had) else {
        return Ok(());
    };
    let now = file
        .metadata()
        .map_err(|error| Error::io("reading", name, &error))?;
    if now.len() < had {
        let what = format!(
            "{} got shorter while it was read: it had {had} bytes, and {has} were there",
            name.display()
        );
        return Err(Error::other(what).hint("store it again when nothing changes it"));
    }
    Ok(())
}

/// Whether a read would not wait. A stream can be silent indefinitely.
fn is_ready(file: &File, name: &Path, stop: &AtomicBool) -> Result<bool> {
    if stop.load(Ordering::Relaxed) {
        return Err(Error::interrupted("interrupted"));
    }
    let mut wanted = [PollFd::new(file, PollFlags::IN)];
    match poll(&mut wanted, Some(&WAIT)) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(Error::io("reading", name, &error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Folder;

    #[test]
    fn a_file_that_gets_shorter_while_it_is_read_is_refused() {
        let folder = Folder::new();
        let path = folder.0.join("file");
        let stop = AtomicBool::new(false);
        for (left, is_refused) in [
            (0, true),
            (150, true),
            (250, true),
            (300, false),
            (999, false),
        ] {
            std::fs::write(&path, [7; 300]).unwrap();
            let mut source = FileSource::open(&path).unwrap();
            let mut data = [0; 100];
            assert_eq!(source.fill(&mut data, &stop).unwrap(), 100);
            let file = File::options().write(true).open(&path).unwrap();
            file.set_len(left).unwrap();
            let mut rest = vec![0; 2000];
            let filled = source.fill(&mut rest, &stop);
            match filled {
                Ok(bytes) => assert_eq!((bytes as u64, is_refused), (left - 100, false)),
                Err(error) => {
                    assert!(
                        is_refused && error.to_string().contains("got shorter"),
                        "{error}"
                    )
                }
            }
        }
    }

    #[test]
    fn bytes_of_a_plain_file_can_be_left_out() {
        let folder = Folder::new();
        let path = folder.0.join("file");
        let bytes: Vec<u8> = (0..=255).collect();
        std::fs::write(&path, bytes).unwrap();
        let mut source = FileSource::open(&path).unwrap();
        let stop = AtomicBool::new(false);
        let mut data = [0; 2];
        for (len, is_passed, next) in [(100, true, 100), (0, true, 102), (153, false, 104)] {
            assert_eq!(source.pass(len).unwrap(), is_passed);
            assert_eq!(source.fill(&mut data, &stop).unwrap(), 2);
            assert_eq!(data, [next, next + 1]);
        }
        assert!(!source.pass(u64::MAX).unwrap() && source.pass(150).unwrap());
        assert_eq!(source.fill(&mut data, &stop).unwrap(), 0);
        let mut memory = FileSource::of_bytes(vec![7; 9], path, None);
        assert!(!memory.pass(1).unwrap());
    }

    #[test]
    fn a_file_of_the_kernel_that_has_less_than_it_says_is_whole() {
        let path = Path::new("/sys/kernel/mm/transparent_hugepage/enabled");
        let Ok(mut source) = FileSource::open(path) else {
            println!("SKIPPED: {} is not here", path.display());
            return;
        };
        let mut data = [0; 8192];
        let filled = source.fill(&mut data, &AtomicBool::new(false)).unwrap();
        assert!((filled as u64) < source.len_bytes.unwrap());
    }
}
