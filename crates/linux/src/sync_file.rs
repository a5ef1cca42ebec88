// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The plainest path: pread and pwrite on a file or a block device.
//!
//! One request at a time; it runs inside `kick` or `poll`, which therefore sleep as long as the
//! drive takes. This is the baseline that the other paths are compared with.

use crate::single::{Single, io_error, os_error};
use crate::sys::ioctl;
use crate::target::Target;
use crate::{Claim, Result};
use block::{Completion, Device, Geometry, Operation, Refused, Request};
use rustix::fs::FallocateFlags;
use rustix::io::{Errno, ReadWriteFlags};
use std::io::IoSlice;

/// A file or a block device, read and written by blocking system calls.
#[derive(Debug)]
pub struct SyncFile {
    target: Target,
    pub(crate) request: Single,
}

impl SyncFile {
    /// Opens a file or a block device with the claim's access. Blocks of a file have 512 bytes; a
    /// partial one at its end is left unused.
    ///
    /// # Errors
    /// [`Error::NotPermitted`](crate::Error::NotPermitted) and others, each for a specific cause.
    pub fn open(claim: &Claim) -> Result<Self> {
        Self::new(claim, false)
    }

    /// The same, bypassing the page cache (`O_DIRECT`).
    ///
    /// # Errors
    /// Those of [`open`](SyncFile::open), and if the file system does not support it.
    pub fn open_direct(claim: &Claim) -> Result<Self> {
        Self::new(claim, true)
    }

    fn new(claim: &Claim, direct: bool) -> Result<Self> {
        Ok(Self {
            target: Target::open(claim, direct)?,
            request: Single::default(),
        })
    }

    /// The same open file for another thread: each has its own request, and a claim on a block
    /// device is shared.
    ///
    /// # Errors
    /// If the process may open no more files.
    pub fn twin(&self) -> std::io::Result<Self> {
        Ok(Self {
            target: Target {
                descriptor: self.target.descriptor.try_clone()?,
                claim: self.target.claim.clone(),
                ..self.target
            },
            request: Single::default(),
        })
    }

    fn run(&self, request: Request) -> Completion {
        let Request { tag, operation } = request;
        let (result, buffer) = match operation {
            Operation::Read { lba, mut buffer } => {
                let result = self.read(self.offset(lba), &mut buffer);
                (result, Some(buffer))
            }
            Operation::Write { lba, buffer, fua } => {
                let result = self.write(self.offset(lba), &buffer, fua);
                (result, Some(buffer))
            }
            Operation::Flush => (self.flush(), None),
            Operation::Discard { lba, block_count } => (self.discard(lba, block_count), None),
            Operation::WriteZeroes {
                lba,
                block_count,
                fua,
            } => {
                let zeroed = self.write_zeroes(lba, block_count);
                let result = if fua {
                    zeroed.and_then(|()| self.flush())
                } else {
                    zeroed
                };
                (result, None)
            }
        };
        Completion {
            tag,
            buffer,
            result: result.map_err(|error| self.target.cause(error)),
        }
    }

    fn offset(&self, lba: u64) -> u64 {
        lba << self.target.geometry.block_size_log2
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> std::result::Result<(), block::Error> {
        let mut done = 0;
        // Each iteration moves at least one byte, or ends the loop.
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let moved = rustix::io::pread(&self.target.descriptor, rest, offset + done as u64);
            done += moved_bytes(moved, done)?;
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8], fua: bool) -> std::result::Result<(), block::Error> {
        let mut done = 0;
        while let Some(rest) = data.get(done..).filter(|rest| !rest.is_empty()) {
            let at = offset + done as u64;
            let moved = if fua {
                let slices = [IoSlice::new(rest)];
                let flags = ReadWriteFlags::DSYNC;
                rustix::io::pwritev2(&self.target.descriptor, &slices, at, flags)
            } else {
                // For the kernel it costs less than a vector of one part.
                rustix::io::pwrite(&self.target.descriptor, rest, at)
            };
            done += moved_bytes(moved, done)?;
        }
        Ok(())
    }

    fn flush(&self) -> std::result::Result<(), block::Error> {
        rustix::fs::fdatasync(&self.target.descriptor).map_err(os_error)
    }

    fn discard(&self, lba: u64, block_count: u32) -> std::result::Result<(), block::Error> {
        let (offset, len) = (self.offset(lba), self.offset(u64::from(block_count)));
        if self.target.is_block_device {
            ioctl::discard(&self.target.descriptor, offset, len).map_err(io_error)
        } else {
            self.allocate(FallocateFlags::PUNCH_HOLE, offset, len)
        }
    }

    fn write_zeroes(&self, lba: u64, block_count: u32) -> std::result::Result<(), block::Error> {
        let (offset, len) = (self.offset(lba), self.offset(u64::from(block_count)));
        if self.target.is_block_device {
            return ioctl::zero_out(&self.target.descriptor, offset, len).map_err(io_error);
        }
        let how = if self.target.zero_by_hole {
            FallocateFlags::PUNCH_HOLE
        } else {
            FallocateFlags::ZERO_RANGE
        };
        self.allocate(how, offset, len)
    }

    fn allocate(
        &self,
        how: FallocateFlags,
        offset: u64,
        len: u64,
    ) -> std::result::Result<(), block::Error> {
        let flags = how | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&self.target.descriptor, flags, offset, len).map_err(os_error)
    }
}

impl Device for SyncFile {
    fn geometry(&self) -> &Geometry {
        &self.target.geometry
    }

    fn submit(&mut self, request: Request) -> std::result::Result<(), Refused> {
        self.request.submit(&self.target.geometry, request)
    }

    fn kick(&mut self) {
        if let Some(request) = self.request.start() {
            let completion = self.run(request);
            self.request.finish(completion);
        }
    }

    fn poll(&mut self) -> Option<Completion> {
        self.kick();
        self.request.poll()
    }

    fn outstanding(&self) -> usize {
        self.request.outstanding()
    }
}

/// The progress after a system call, when `done` bytes were moved before.
fn moved_bytes(
    moved: std::result::Result<usize, Errno>,
    done: usize,
) -> std::result::Result<usize, block::Error> {
    match moved {
        Ok(0) => Err(block::Error::ShortTransfer {
            done_bytes: done as u32,
        }),
        Ok(moved) => Ok(moved),
        Err(Errno::INTR) => Ok(0),
        Err(error) => Err(os_error(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::fake::Tree;
    use crate::{Error, HostMemory};
    use block::blocking;
    use std::path::Path;

    fn file(tree: &Tree, len: u64, write: bool) -> SyncFile {
        let path = tree.path().join("disk");
        std::fs::File::create(&path).unwrap().set_len(len).unwrap();
        let claim = if write {
            Claim::to_write(&tree.roots(), &path)
        } else {
            Claim::to_read(&tree.roots(), &path)
        };
        SyncFile::open(&claim.unwrap()).unwrap()
    }

    #[test]
    fn what_is_written_is_read_and_zeroes_are_zeroes() {
        let tree = Tree::new();
        let mut file = file(&tree, 64 * 512 + 100, true);
        assert_eq!(file.geometry().block_count, 64);
        let memory = HostMemory::new(1 << 16).unwrap();
        let mut buffer = memory.allocate(4096).unwrap();
        buffer.fill(7);
        let written = blocking::write(&mut file, 8, buffer, true);
        assert_eq!(written.result, Ok(()));
        let zeroes = Operation::WriteZeroes {
            lba: 8,
            block_count: 1,
            fua: true,
        };
        blocking::command(&mut file, zeroes).unwrap();
        let discard = Operation::Discard {
            lba: 9,
            block_count: 1,
        };
        blocking::command(&mut file, discard).unwrap();
        blocking::flush(&mut file).unwrap();
        let read = blocking::read(&mut file, 8, written.buffer);
        assert_eq!(read.result, Ok(()));
        assert!(read.buffer[..1024].iter().all(|&byte| byte == 0));
        assert!(read.buffer[1024..].iter().all(|&byte| byte == 7));
        memory.give_back(read.buffer).unwrap();
    }

    #[test]
    fn a_file_that_shrank_gives_a_short_transfer() {
        let tree = Tree::new();
        let mut file = file(&tree, 16 * 512, false);
        let path = tree.path().join("disk");
        let shorter = std::fs::File::options().write(true).open(path).unwrap();
        shorter.set_len(3 * 512).unwrap();
        let memory = HostMemory::new(1 << 16).unwrap();
        let read = blocking::read(&mut file, 2, memory.allocate(2048).unwrap());
        let short = block::Error::ShortTransfer { done_bytes: 512 };
        assert_eq!(read.result, Err(short));
    }

    #[test]
    fn it_is_read_only_unless_asked_and_holds_one_request() {
        let tree = Tree::new();
        let mut file = file(&tree, 16 * 512, false);
        let memory = HostMemory::new(1 << 16).unwrap();
        let operation = Operation::Write {
            lba: 0,
            buffer: memory.allocate(512).unwrap(),
            fua: false,
        };
        let refused = file.submit(Request { tag: 3, operation }).unwrap_err();
        assert_eq!(refused.error, block::Error::ReadOnly);
        let flush = |tag| Request {
            tag,
            operation: Operation::Flush,
        };
        file.submit(flush(1)).unwrap();
        assert_eq!(
            file.submit(flush(2)).unwrap_err().error,
            block::Error::QueueFull
        );
        assert_eq!(file.poll().unwrap().tag, 1);
        assert!(file.poll().is_none());
    }

    #[test]
    fn what_is_no_disk_is_refused() {
        let tree = Tree::new();
        let roots = tree.roots();
        let open = |path: &Path| SyncFile::open(&Claim::to_read(&roots, path)?);
        assert!(matches!(open(tree.path()), Err(Error::BadName { .. })));
        let missing = open(&tree.path().join("none")).unwrap_err();
        assert!(missing.to_string().contains("none"));
        tree.file("empty", "x");
        let error = open(&tree.path().join("empty")).unwrap_err();
        assert!(matches!(error, Error::TooShort { .. }));
    }
}
