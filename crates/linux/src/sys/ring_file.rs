// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests to a file or a block device, as io_uring submissions.
#![allow(unsafe_code)]

use super::ring::{Encode, Registered, Scratch};
use crate::single::errno_error;
use crate::target::Target;
use block::{Buffer, Error, Operation};
use io_uring::types::{Fd, Fixed, FsyncFlags};
use io_uring::{cqueue, opcode, squeue};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

/// Writes requests to one file.
#[derive(Clone, Debug)]
pub(crate) struct FileEncoder(pub Arc<Target>);

/// Builds an entry on the registered file or on the descriptor: the library has a type for each.
macro_rules! entry {
    ($self:ident, $registered:ident, $file:ident => $entry:expr) => {
        if $registered.file {
            let $file = Fixed(0);
            $entry
        } else {
            let $file = Fd($self.0.descriptor.as_raw_fd());
            $entry
        }
    };
}

impl FileEncoder {
    fn offset(&self, lba: u64) -> u64 {
        lba << self.0.geometry.block_size_log2
    }

    fn read(&self, lba: u64, buffer: &Buffer, registered: Registered) -> squeue::Entry {
        let (start, len, offset) = (buffer.address(), buffer.len() as u32, self.offset(lba));
        entry!(self, registered, file => match registered.buffer(start, buffer.len()) {
            Some(index) => opcode::ReadFixed::new(file, start as *mut u8, len, index)
                .offset(offset)
                .build(),
            None => opcode::Read::new(file, start as *mut u8, len).offset(offset).build(),
        })
    }

    fn write(&self, lba: u64, buffer: &Buffer, fua: bool, registered: Registered) -> squeue::Entry {
        let (start, len, offset) = (buffer.address(), buffer.len() as u32, self.offset(lba));
        let flags = if fua { libc::RWF_DSYNC } else { 0 };
        entry!(self, registered, file => match registered.buffer(start, buffer.len()) {
            Some(index) => opcode::WriteFixed::new(file, start as *const u8, len, index)
                .offset(offset)
                .rw_flags(flags)
                .build(),
            None => opcode::Write::new(file, start as *const u8, len)
                .offset(offset)
                .rw_flags(flags)
                .build(),
        })
    }

    fn flush(&self, registered: Registered) -> squeue::Entry {
        entry!(self, registered, file => {
            opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build()
        })
    }

    fn allocate(
        &self,
        mode: i32,
        lba: u64,
        block_count: u32,
        registered: Registered,
    ) -> squeue::Entry {
        let (offset, len) = (self.offset(lba), self.offset(u64::from(block_count)));
        entry!(self, registered, file => {
            opcode::Fallocate::new(file, len)
                .offset(offset)
                .mode(mode | libc::FALLOC_FL_KEEP_SIZE)
                .build()
        })
    }
}

// SAFETY: reads and writes name the operation's buffer, whole, and nothing else names memory; none
// asks for several completions. The descriptor is open as long as `self`.
unsafe impl Encode for FileEncoder {
    type Sqe = squeue::Entry;
    type Cqe = cqueue::Entry;

    #[inline]
    fn encode(
        &self,
        operation: &Operation,
        stage: u32,
        registered: Registered,
        _: &mut Scratch,
    ) -> Option<squeue::Entry> {
        Some(match (operation, stage) {
            (Operation::Read { lba, buffer }, 0) => self.read(*lba, buffer, registered),
            (Operation::Write { lba, buffer, fua }, 0) => {
                self.write(*lba, buffer, *fua, registered)
            }
            (Operation::Flush, 0) => self.flush(registered),
            (Operation::Discard { lba, block_count }, 0) => {
                self.allocate(libc::FALLOC_FL_PUNCH_HOLE, *lba, *block_count, registered)
            }
            (
                Operation::WriteZeroes {
                    lba, block_count, ..
                },
                0,
            ) => {
                let mode = if self.0.zero_by_hole {
                    libc::FALLOC_FL_PUNCH_HOLE
                } else {
                    libc::FALLOC_FL_ZERO_RANGE
                };
                self.allocate(mode, *lba, *block_count, registered)
            }
            (Operation::WriteZeroes { fua: true, .. }, 1) => self.flush(registered),
            _ => return None,
        })
    }

    #[inline]
    fn result(&self, operation: &Operation, answer: i32) -> Result<(), Error> {
        let Ok(moved) = usize::try_from(answer) else {
            return Err(self.0.cause(errno_error(-answer)));
        };
        let asked = match operation {
            Operation::Read { buffer, .. } | Operation::Write { buffer, .. } => buffer.len(),
            _ => return Ok(()),
        };
        if moved == asked {
            Ok(())
        } else {
            Err(self.0.cause(Error::ShortTransfer {
                done_bytes: moved as u32,
            }))
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.descriptor.as_fd()
    }

    #[inline]
    fn name(submission: squeue::Entry, place: u64) -> squeue::Entry {
        submission.user_data(place)
    }

    #[inline]
    fn answer(completion: &cqueue::Entry) -> (u64, i32) {
        (completion.user_data(), completion.result())
    }
}
