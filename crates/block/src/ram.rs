// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A RAM disk: the simplest device, and the one to compare others with.

use crate::{Completion, Device, Error, Features, Geometry, Operation, Refused, Request};

/// A device over caller-supplied memory, with room for `DEPTH` requests.
#[derive(Debug)]
pub struct RamDisk<M, const DEPTH: usize> {
    memory: M,
    geometry: Geometry,
    /// A ring: the oldest at `first`, `count` of them.
    requests: [Option<Request>; DEPTH],
    first: usize,
    count: usize,
}

impl<M: AsRef<[u8]> + AsMut<[u8]>, const DEPTH: usize> RamDisk<M, DEPTH> {
    /// A disk over `memory` with blocks of `1 << block_size_log2` bytes; a part of a block at the
    /// end is left unused.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the block size is not 2^6 to 2^16 bytes, the memory is shorter
    /// than a block, or `DEPTH` is not 1 to 65,535.
    pub fn new(memory: M, block_size_log2: u8) -> Result<Self, Error> {
        let depth = u16::try_from(DEPTH).unwrap_or(0);
        let len = memory.as_ref().len();
        if !(6..=16).contains(&block_size_log2) || depth == 0 || len >> block_size_log2 == 0 {
            return Err(Error::Unsupported);
        }
        let block_count = (len >> block_size_log2) as u64;
        let geometry = Geometry {
            block_size_log2,
            block_count,
            max_transfer_blocks: u32::try_from(block_count).unwrap_or(u32::MAX),
            queue_depth: depth,
            buffer_align_bytes: 1,
            features: Features {
                fua: true,
                discard: true,
                write_zeroes: true,
                ..Features::default()
            },
        };
        Ok(Self {
            memory,
            geometry,
            requests: [const { None }; DEPTH],
            first: 0,
            count: 0,
        })
    }

    /// The bytes of `[lba, lba + len)`; the range was checked when the request was accepted.
    fn bytes(&mut self, lba: u64, len: usize) -> &mut [u8] {
        let start = (lba << self.geometry.block_size_log2) as usize;
        self.memory
            .as_mut()
            .get_mut(start..start + len)
            .unwrap_or_default()
    }

    fn run(&mut self, request: Request) -> Completion {
        let shift = self.geometry.block_size_log2;
        let buffer = match request.operation {
            Operation::Read { lba, mut buffer } => {
                let stored = self.bytes(lba, buffer.len());
                buffer.copy_from_slice(stored);
                Some(buffer)
            }
            Operation::Write { lba, buffer, .. } => {
                self.bytes(lba, buffer.len()).copy_from_slice(&buffer);
                Some(buffer)
            }
            Operation::Discard { lba, block_count }
            | Operation::WriteZeroes {
                lba, block_count, ..
            } => {
                self.bytes(lba, (block_count as usize) << shift).fill(0);
                None
            }
            Operation::Flush => None,
        };
        Completion {
            tag: request.tag,
            buffer,
            result: Ok(()),
        }
    }
}

impl<M: AsRef<[u8]> + AsMut<[u8]>, const DEPTH: usize> Device for RamDisk<M, DEPTH> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        if let Err(error) = self.geometry.check(&request.operation) {
            return Err(Refused { error, request });
        }
        let free = (self.first + self.count) % DEPTH;
        match self.requests.get_mut(free) {
            Some(place @ None) => *place = Some(request),
            _ => {
                let error = Error::QueueFull;
                return Err(Refused { error, request });
            }
        }
        self.count += 1;
        Ok(())
    }

    fn kick(&mut self) {}

    fn poll(&mut self) -> Option<Completion> {
        let request = self.requests.get_mut(self.first)?.take()?;
        self.first = (self.first + 1) % DEPTH;
        self.count -= 1;
        Some(self.run(request))
    }

    fn outstanding(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buffer, blocking};
    use std::boxed::Box;
    use std::vec;
    use std::vec::Vec;

    fn buffer(len: usize, value: u8) -> Buffer {
        Buffer::from_static(Box::leak(vec![value; len].into_boxed_slice()))
    }

    fn disk() -> RamDisk<Vec<u8>, 4> {
        RamDisk::new(vec![0; 16 * 512 + 100], 9).unwrap()
    }

    fn refusal(disk: &mut RamDisk<Vec<u8>, 4>, operation: Operation) -> Error {
        disk.submit(Request { tag: 1, operation })
            .unwrap_err()
            .error
    }

    #[test]
    fn geometry_ignores_a_partial_block() {
        assert_eq!(disk().geometry().block_count, 16);
        assert!(RamDisk::<_, 4>::new(vec![0; 511], 9).is_err());
        assert!(RamDisk::<_, 4>::new(vec![0; 4096], 5).is_err());
    }

    #[test]
    fn requests_complete_once_and_in_the_queue_s_bounds() {
        let mut disk = disk();
        for tag in 0..4 {
            let operation = Operation::Write {
                lba: u64::from(tag),
                buffer: buffer(512, tag as u8 + 1),
                fua: false,
            };
            disk.submit(Request { tag, operation }).unwrap();
        }
        assert_eq!(refusal(&mut disk, Operation::Flush), Error::QueueFull);
        for tag in 0..4 {
            assert_eq!(disk.poll().unwrap().tag, tag);
        }
        assert!(disk.poll().is_none());
        let read = blocking::read(&mut disk, 0, buffer(2048, 0));
        assert_eq!(read.result, Ok(()));
        assert_eq!((read.buffer[0], read.buffer[2047]), (1, 4));
    }

    #[test]
    fn bad_requests_are_refused_with_their_buffer() {
        let mut disk = disk();
        let write = |lba, len| Operation::Write {
            lba,
            buffer: buffer(len, 0),
            fua: false,
        };
        assert_eq!(refusal(&mut disk, write(0, 511)), Error::Unaligned);
        assert_eq!(refusal(&mut disk, write(0, 0)), Error::Unaligned);
        assert_eq!(refusal(&mut disk, write(16, 512)), Error::OutOfRange);
        assert_eq!(refusal(&mut disk, write(u64::MAX, 512)), Error::OutOfRange);
        assert_eq!(refusal(&mut disk, write(0, 17 * 512)), Error::TooLarge);
        let zeroes = Operation::WriteZeroes {
            lba: 15,
            block_count: 2,
            fua: false,
        };
        assert_eq!(refusal(&mut disk, zeroes), Error::OutOfRange);
        assert_eq!(disk.outstanding(), 0);
    }

    #[test]
    fn discard_and_write_zeroes_clear() {
        let mut disk = disk();
        let _ = blocking::write(&mut disk, 0, buffer(1024, 9), true);
        let discard = Operation::Discard {
            lba: 1,
            block_count: 1,
        };
        blocking::command(&mut disk, discard).unwrap();
        let read = blocking::read(&mut disk, 0, buffer(1024, 1));
        assert_eq!((read.buffer[511], read.buffer[512]), (9, 0));
    }

    #[test]
    fn a_blocking_call_refuses_to_mix_with_others() {
        let mut disk = disk();
        let operation = Operation::Flush;
        disk.submit(Request { tag: 5, operation }).unwrap();
        assert_eq!(blocking::flush(&mut disk), Err(Error::Busy));
        assert_eq!(disk.poll().unwrap().tag, 5);
        assert_eq!(blocking::flush(&mut disk), Ok(()));
    }
}
