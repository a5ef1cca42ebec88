// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes to pipes, terminals and sockets that a signal ends, although the other end is not read.
//!
//! A write of a blocking descriptor returns when all of it is taken, and signal handlers restart
//! it. So every descriptor that can wait is used without waiting:
//!
//! | output | how |
//! | --- | --- |
//! | a file, `/dev/null`, another device | as it is: it takes what it is given |
//! | a pipe, a terminal | its own open file description with `O_NONBLOCK`; the one that other processes share stays as it is |
//! | a pipe that cannot be opened again | poll(2), then at most `PIPE_BUF` bytes, for which there is room then (pipe(7)) |
//! | a socket | `MSG_DONTWAIT` |

use crate::cancel::Cancel;
use crate::error::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::fs::File;
use std::io::{ErrorKind, IsTerminal, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// How long one wait lasts before the user's request to end is checked.
const WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
/// How long the wait for a FIFO's reader sleeps: there is no event for it.
const NO_READER: Duration = Duration::from_millis(50);
/// Bytes that a pipe has room for when it polls as ready: `PIPE_BUF` of Linux.
const ROOM_BYTES: usize = 4096;

/// Without waiting, and without taking a controlling terminal.
const NO_WAIT: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY);

/// How a write is kept from waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// It does not wait.
    Never,
    /// The open file description is our own, and returns `EAGAIN`.
    NonBlocking,
    /// The open file description is shared.
    Shared,
    Socket,
}

/// An output that waits for its reader until the user requests an end.
#[derive(Debug)]
pub struct Writer {
    file: File,
    waiting: Waiting,
    cancel: Cancel,
}

impl Writer {
    /// Writes to a descriptor that other processes may have too, such as standard output.
    pub fn shared(descriptor: OwnedFd, cancel: &Cancel) -> Self {
        let file = File::from(descriptor);
        let kind = file.metadata().map(|data| data.file_type());
        let (file, waiting) = match kind {
            Ok(kind) if kind.is_socket() => (file, Waiting::Socket),
            Ok(kind) if kind.is_fifo() || file.is_terminal() => match again(&file) {
                Some(own) => (own, Waiting::NonBlocking),
                None => (file, Waiting::Shared),
            },
            _ => (file, Waiting::Never),
        };
        Self {
            file,
            waiting,
            cancel: cancel.clone(),
        }
    }

    /// Writes to a regular file.
    pub fn of_file(file: File, cancel: &Cancel) -> Self {
        Self {
            file,
            waiting: Waiting::Never,
            cancel: cancel.clone(),
        }
    }

    /// Opens a FIFO, a terminal or another character device. A FIFO's reader is waited for.
    ///
    /// # Errors
    /// It cannot be opened, or the user requested an end before a reader came.
    pub fn open(path: &Path, cancel: &Cancel) -> Result<Self> {
        let failed = |error: std::io::Error| Error::io("opening", path, &error);
        let is_fifo = std::fs::metadata(path)
            .map_err(failed)?
            .file_type()
            .is_fifo();
        let mut options = File::options();
        let options = options.write(true).custom_flags(NO_WAIT.bits() as i32);
        loop {
            match options.open(path) {
                Ok(file) => {
                    return Ok(Self {
                        file,
                        waiting: Waiting::NonBlocking,
                        cancel: cancel.clone(),
                    });
                }
                // fifo(7): no process has opened it for reading.
                Err(error)
                    if is_fifo && error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) =>
                {
                    interrupted(cancel)?;
                    std::thread::sleep(NO_READER);
                }
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// The file, to set its attributes.
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Writes all of `data`. `failed` makes the error of a write that failed.
    ///
    /// # Errors
    /// It could not be written, or the user requested an end while the output took nothing.
    pub fn take(
        &mut self,
        mut data: &[u8],
        failed: impl Fn(&std::io::Error) -> Error,
    ) -> Result<()> {
        if self.waiting == Waiting::Never {
            return self.file.write_all(data).map_err(|error| failed(&error));
        }
        while !data.is_empty() {
            if self.waiting == Waiting::Shared
                && !self.is_ready().map_err(|error| failed(&error))?
            {
                interrupted(&self.cancel)?;
                continue;
            }
            match self.write_some(data) {
                Ok(0) => return Err(failed(&ErrorKind::WriteZero.into())),
                Ok(written) => data = data.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    interrupted(&self.cancel)?;
                    self.is_ready().map_err(|error| failed(&error))?;
                }
                Err(error) => return Err(failed(&error)),
            }
        }
        Ok(())
    }

    fn write_some(&mut self, data: &[u8]) -> std::io::Result<usize> {
        match self.waiting {
            Waiting::Never | Waiting::NonBlocking => self.file.write(data),
            Waiting::Shared => {
                let part = data.get(..ROOM_BYTES).unwrap_or(data);
                self.file.write(part)
            }
            Waiting::Socket => {
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                Ok(send(&self.file, data, flags)?)
            }
        }
    }

    /// Waits until the output takes something, or has failed: the write reports how.
    fn is_ready(&self) -> std::io::Result<bool> {
        let mut wanted = [PollFd::new(&self.file, PollFlags::OUT)];
        match poll(&mut wanted, Some(&WAIT)) {
            Ok(count) => Ok(count > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

fn interrupted(cancel: &Cancel) -> Result<()> {
    if cancel.is_set() {
        Err(Error::interrupted("interrupted"))
    } else {
        Ok(())
    }
}

/// The same pipe or terminal as a new open file description: `O_NONBLOCK` belongs to the
/// description (open(2)), and the shell and the other programs on it do not expect it. `None`: it
/// may not be opened, as after a change of the user, or has no reader.
fn again(file: &File) -> Option<File> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let append = fcntl_getfl(file.as_fd()).ok()? & OFlags::APPEND;
    let mut options = File::options();
    let flags = (NO_WAIT | append).bits() as i32;
    let options = options.write(true).custom_flags(flags);
    options.open(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::Ordering;

    /// More than any pipe or socket here takes.
    const LEN: usize = 8 << 20;

    fn outcome(writer: &mut Writer, len: usize) -> Result<()> {
        writer.take(&vec![7; len], Error::stdout)
    }

    /// A pipe's writer in each way that it can have.
    fn pipes(cancel: &Cancel) -> [(File, Writer); 2] {
        let pair = || std::io::pipe().unwrap();
        let (own, shared) = (pair(), pair());
        let writer = Writer::shared(own.1.into(), cancel);
        assert_eq!(writer.waiting, Waiting::NonBlocking);
        let other = Writer {
            waiting: Waiting::Shared,
            ..Writer::of_file(File::from(OwnedFd::from(shared.1)), cancel)
        };
        let file = |reader: std::io::PipeReader| File::from(OwnedFd::from(reader));
        [(file(own.0), writer), (file(shared.0), other)]
    }

    #[test]
    fn an_output_that_nobody_reads_ends_when_the_user_requests_it() {
        let cancel = Cancel::default();
        let (reader, socket) = UnixStream::pair().unwrap();
        let socket = Writer::shared(OwnedFd::from(socket), &cancel);
        assert_eq!(socket.waiting, Waiting::Socket);
        let [first, second] = pipes(&cancel);
        let mut writers = [first.1, second.1, socket];
        std::thread::scope(|scope| {
            let writing: Vec<_> = writers
                .iter_mut()
                .map(|writer| scope.spawn(|| outcome(writer, LEN)))
                .collect();
            cancel.flag().store(true, Ordering::Relaxed);
            for thread in writing {
                let failure = thread.join().unwrap().unwrap_err();
                assert_eq!(failure.kind(), crate::error::ErrorKind::Interrupted);
            }
        });
        drop((first.0, second.0, reader));
    }

    #[test]
    fn all_bytes_arrive_in_their_order_at_a_slow_reader() {
        let data: Vec<u8> = (0..1_000_000_u32)
            .flat_map(|i| (i * 7).to_le_bytes())
            .collect();
        for (mut reader, mut writer) in pipes(&Cancel::default()) {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    writer.take(&data, Error::stdout).unwrap();
                    drop(writer);
                });
                let mut got = Vec::new();
                let mut part = [0; 777];
                while let Ok(more @ 1..) = reader.read(&mut part) {
                    got.extend_from_slice(&part[..more]);
                }
                assert!(got == data);
            });
        }
    }

    /// The flag would reach every program that has the same pipe.
    #[test]
    fn the_shared_description_keeps_its_flags() {
        let (_reader, pipe) = std::io::pipe().unwrap();
        let copy = OwnedFd::from(pipe.try_clone().unwrap());
        let _writer = Writer::shared(copy, &Cancel::default());
        assert!(!fcntl_getfl(&pipe).unwrap().contains(OFlags::NONBLOCK));
    }

    #[test]
    fn a_closed_pipe_is_the_end_in_each_way() {
        for (reader, mut writer) in pipes(&Cancel::default()) {
            drop(reader);
            let failure = outcome(&mut writer, 10).unwrap_err();
            assert!(failure.is_silent(), "{failure}");
        }
    }
}
