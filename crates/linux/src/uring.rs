// SPDX-License-Identifier: Apache-2.0 OR MIT
//! io_uring on a file or a block device, bypassing the page cache.
//!
//! Each `kick` starts everything that was submitted with one system call; completions are read from
//! memory. With polling, each `poll` that finds nothing is a system call that polls the drive, and
//! a transfer is limited to one command.

use crate::lanes::Lanes;
use crate::memory::HostMemory;
use crate::sys::ring::{MAX_FIXED_BYTES, Setup};
use crate::sys::ring_file::FileEncoder;
use crate::target::{Target, one_command_bytes, queue_folder};
use crate::{Claim, Error, Result, Roots, sysfs};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Options of a ring.
#[derive(Clone, Debug)]
pub struct RingOptions {
    /// How many requests may be outstanding, 1 to 4096.
    pub queue_depth: u16,
    /// Poll the drive instead of using interrupts (`IORING_SETUP_IOPOLL`). The kernel's NVMe driver
    /// must have been loaded with `poll_queues`.
    pub poll: bool,
    /// Register the file, which saves looking it up for each request.
    pub register_file: bool,
    /// Register this memory, which saves pinning its pages for each request. At most 1 GiB; other
    /// buffers still work. It counts against RLIMIT_MEMLOCK.
    pub fixed_memory: Option<HostMemory>,
    /// Register it in pieces of this many bytes, a multiple of 4 KiB, rather than in the longest
    /// that work. Passthrough costs the kernel time for each page of a piece, so pieces as long as
    /// the transfers are the quickest; a transfer across two of them is not registered.
    pub fixed_piece_bytes: Option<usize>,
    /// Limit a request to one command of the drive, as polling requires. A request that must be
    /// split may not wait, and the kernel gives it to a worker thread, which costs several times
    /// the request.
    pub one_command: bool,
}

impl Default for RingOptions {
    fn default() -> Self {
        Self {
            queue_depth: 32,
            poll: false,
            register_file: true,
            fixed_memory: None,
            fixed_piece_bytes: None,
            one_command: false,
        }
    }
}

impl RingOptions {
    pub(crate) fn setup(&self) -> Result<Setup> {
        let wrong = |why| Error::BadName {
            name: "ring options".into(),
            why,
        };
        if !(1..=4096).contains(&self.queue_depth) {
            return Err(wrong("the queue depth is 1 to 4096"));
        }
        let fixed = self.fixed_memory.as_ref();
        if fixed.is_some_and(|memory| memory.len_bytes() > MAX_FIXED_BYTES) {
            return Err(wrong("at most 1 GiB of memory can be registered"));
        }
        Ok(Setup {
            depth: self.queue_depth,
            poll: self.poll,
            register_file: self.register_file,
            memory: self.fixed_memory.clone(),
            piece_bytes: self.fixed_piece_bytes.unwrap_or(MAX_FIXED_BYTES),
        })
    }

    /// The error for a failed ring setup.
    pub(crate) fn failed(&self, path: &Path, source: io::Error) -> Error {
        let unsupported = |why: &str, hint: &str| Error::Unsupported {
            what: "io_uring",
            why: why.into(),
            hint: Some(hint.into()),
        };
        match source.raw_os_error() {
            Some(libc::ENOSYS) => unsupported(
                "this kernel has none",
                "use a kernel with CONFIG_IO_URING, or the synchronous path",
            ),
            Some(libc::EPERM) => unsupported(
                "it is switched off or forbidden to this process",
                "sysctl kernel.io_uring_disabled=0; in a container, allow it in the seccomp profile",
            ),
            Some(libc::ENOMEM) => {
                let fixed = self.fixed_memory.as_ref().map_or(0, HostMemory::len_bytes);
                let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock);
                match limit.current {
                    Some(limit_bytes) if limit_bytes < fixed as u64 => Error::LockLimit {
                        needed_bytes: fixed as u64,
                        limit_bytes,
                    },
                    _ => Error::NoMemory { bytes: fixed },
                }
            }
            _ => Error::io("setting up io_uring for", path, source),
        }
    }
}

/// Polling needs a queue without interrupts; otherwise the drive would never be polled.
pub(crate) fn check_polling(queue: Option<&Path>) -> Result<()> {
    let enabled = queue.and_then(|folder| sysfs::text(&folder.join("io_poll")));
    match enabled.as_deref() {
        Some("1") => Ok(()),
        _ => Err(Error::Unsupported {
            what: "polling",
            why: "the drive has no queue without interrupts".into(),
            hint: Some(
                "an NVMe drive: boot with nvme.poll_queues=1, or: modprobe -r nvme; modprobe nvme poll_queues=1"
                    .into(),
            ),
        }),
    }
}

/// A file or a block device behind an io_uring.
#[derive(Debug)]
pub struct Uring {
    lanes: Lanes<FileEncoder>,
}

impl Uring {
    /// Opens a file or a block device with `O_DIRECT` and the claim's access.
    ///
    /// # Errors
    /// [`Error::InUse`], [`Error::NotPermitted`], [`Error::Unsupported`], [`Error::LockLimit`] and
    /// others, each for a specific cause.
    pub fn open(claim: &Claim, options: &RingOptions) -> Result<Self> {
        let path = claim.path();
        let mut target = Target::open(claim, true)?;
        let setup = options.setup()?;
        let mut chunk_bytes = u64::MAX;
        if target.is_block_device {
            let queue = queue_folder(&Roots::system(), &target.descriptor);
            if options.poll {
                check_polling(queue.as_deref())?;
            }
            if options.poll || options.one_command {
                let geometry = &mut target.geometry;
                let bytes = one_command_bytes(queue.as_deref(), "max_sectors_kb");
                let blocks = (bytes >> geometry.block_size_log2).max(1);
                geometry.max_transfer_blocks = geometry.max_transfer_blocks.min(blocks as u32);
                let chunk = queue.as_ref().map(|queue| queue.join("chunk_sectors"));
                if let Some(sectors @ 1..) = chunk.and_then(|file| sysfs::number::<u64>(&file)) {
                    chunk_bytes = sectors << 9;
                }
            }
            // A ring discards by punching holes, which the kernel does with Write Zeroes.
            let limit = queue.and_then(|queue| sysfs::text(&queue.join("write_zeroes_max_bytes")));
            target.geometry.features.discard &= limit.is_some_and(|limit| limit != "0");
        } else if options.poll {
            check_polling(None)?;
        }
        let geometry = target.geometry;
        let encoder = FileEncoder(Arc::new(target));
        let lanes = Lanes::new(encoder, geometry, &setup, chunk_bytes);
        let lanes = lanes.map_err(|source| options.failed(path, source))?;
        Ok(Self { lanes })
    }
}

block::forward_device!(Uring, lanes);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::fake::Tree;
    use block::{Device, Request};
    use block::{Operation, blocking};

    /// A ring on a file of 256 blocks, or `None` if the host forbids it.
    fn ring(tree: &Tree, options: &RingOptions) -> Option<Uring> {
        let path = tree.path().join("disk");
        std::fs::File::create(&path)
            .unwrap()
            .set_len(1 << 20)
            .unwrap();
        match Uring::open(&Claim::to_write(&tree.roots(), &path).unwrap(), options) {
            Ok(ring) => Some(ring),
            Err(error @ Error::Unsupported { .. }) => {
                eprintln!("skipped: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn write(tag: u32, lba: u64, buffer: block::Buffer) -> Request {
        let operation = Operation::Write {
            lba,
            buffer,
            fua: tag & 1 != 0,
        };
        Request { tag, operation }
    }

    #[test]
    fn each_request_completes_once_with_its_buffer() {
        let tree = Tree::new();
        let memory = HostMemory::new(1 << 20).unwrap();
        for fixed_memory in [None, Some(memory.clone())] {
            let options = RingOptions {
                queue_depth: 8,
                register_file: fixed_memory.is_some(),
                fixed_memory,
                ..RingOptions::default()
            };
            let Some(mut ring) = ring(&tree, &options) else {
                return;
            };
            let block = ring.geometry().block_size_bytes();
            for tag in 0..8 {
                let mut buffer = memory.allocate(block).unwrap();
                buffer.fill(tag as u8 + 1);
                ring.submit(write(tag, u64::from(tag), buffer)).unwrap();
            }
            let ninth = write(9, 9, memory.allocate(block).unwrap());
            let refused = ring.submit(ninth).unwrap_err();
            assert_eq!(refused.error, block::Error::QueueFull);
            memory
                .give_back(refused.request.operation.into_buffer().unwrap())
                .unwrap();
            ring.kick();
            let mut seen = [false; 8];
            while ring.outstanding() > 0 {
                let Some(completion) = ring.poll() else {
                    ring.wait(1_000_000);
                    continue;
                };
                assert_eq!(completion.result, Ok(()));
                let buffer = completion.buffer.unwrap();
                assert_eq!(u32::from(buffer[0]), completion.tag + 1);
                assert!(!std::mem::replace(&mut seen[completion.tag as usize], true));
                memory.give_back(buffer).unwrap();
            }
            assert!(ring.poll().is_none());
            let read = blocking::read(&mut ring, 0, memory.allocate(8 * block).unwrap());
            assert_eq!(read.result, Ok(()));
            assert!((0..8).all(|index| read.buffer[index * block] as usize == index + 1));
            memory.give_back(read.buffer).unwrap();
        }
        assert_eq!(memory.buffers_out(), 0);
    }

    #[test]
    fn zeroes_discard_and_flush_work_or_say_that_they_cannot() {
        let tree = Tree::new();
        let Some(mut ring) = ring(&tree, &RingOptions::default()) else {
            return;
        };
        let memory = HostMemory::new(1 << 16).unwrap();
        let block = ring.geometry().block_size_bytes();
        let mut buffer = memory.allocate(2 * block).unwrap();
        buffer.fill(5);
        let written = blocking::write(&mut ring, 4, buffer, true);
        assert_eq!(written.result, Ok(()));
        let zeroes = Operation::WriteZeroes {
            lba: 4,
            block_count: 1,
            fua: true,
        };
        let zeroed = blocking::command(&mut ring, zeroes);
        assert!(
            matches!(zeroed, Ok(()) | Err(block::Error::Unsupported)),
            "{zeroed:?}"
        );
        blocking::flush(&mut ring).unwrap();
        let read = blocking::read(&mut ring, 4, written.buffer);
        let first = if zeroed.is_ok() { 0 } else { 5 };
        assert_eq!((read.buffer[0], read.buffer[block]), (first, 5));
    }

    #[test]
    fn a_file_that_shrank_gives_a_short_transfer() {
        let tree = Tree::new();
        let Some(mut ring) = ring(&tree, &RingOptions::default()) else {
            return;
        };
        let path = tree.path().join("disk");
        let shorter = std::fs::File::options().write(true).open(path).unwrap();
        let block = ring.geometry().block_size_bytes();
        shorter.set_len(block as u64).unwrap();
        let memory = HostMemory::new(1 << 16).unwrap();
        let read = blocking::read(&mut ring, 0, memory.allocate(2 * block).unwrap());
        let short = block::Error::ShortTransfer {
            done_bytes: block as u32,
        };
        assert_eq!(read.result, Err(short));
    }

    #[test]
    fn a_ring_that_is_dropped_waits_for_its_requests() {
        let tree = Tree::new();
        let Some(mut ring) = ring(&tree, &RingOptions::default()) else {
            return;
        };
        let memory = HostMemory::new(1 << 16).unwrap();
        let block = ring.geometry().block_size_bytes();
        let mut buffer = memory.allocate(block).unwrap();
        buffer.fill(6);
        ring.submit(write(1, 3, buffer)).unwrap();
        drop(ring);
        let bytes = std::fs::read(tree.path().join("disk")).unwrap();
        assert_eq!(bytes[3 * block], 6);
        // The completion was dropped with the ring, so the buffer was not given back.
        assert_eq!(memory.buffers_out(), 1);
    }

    #[test]
    fn polling_a_file_is_refused() {
        let tree = Tree::new();
        let path = tree.path().join("disk");
        std::fs::File::create(&path)
            .unwrap()
            .set_len(1 << 20)
            .unwrap();
        let options = RingOptions {
            poll: true,
            ..RingOptions::default()
        };
        let claim = Claim::to_read(&tree.roots(), &path).unwrap();
        let error = Uring::open(&claim, &options).unwrap_err();
        assert_eq!(error.kind(), crate::error::ErrorKind::Unsupported);
    }
}
