// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests as NVMe commands in io_uring submissions (`struct nvme_uring_cmd`).
#![allow(unsafe_code)]

use super::ring::{Encode, Registered, Scratch};
use crate::single::errno_error;
use block::{Buffer, Error, Operation};
use io_uring::types::{Fd, Fixed};
use io_uring::{cqueue, opcode, squeue};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::ioctl::opcode as request;
use std::sync::Arc;

const NVME_URING_CMD_IO: u32 = request::read_write::<[u8; 72]>(b'N', 0x80);

/// Opcodes of the NVM command set.
const FLUSH: u8 = 0x00;
const WRITE: u8 = 0x01;
const READ: u8 = 0x02;
const WRITE_ZEROES: u8 = 0x08;
const DATASET_MANAGEMENT: u8 = 0x09;
/// Force unit access, in dword 12.
const FUA: u32 = 1 << 30;
/// Attribute "deallocate" of dataset management, in dword 11.
const DEALLOCATE: u32 = 1 << 2;
/// The number of blocks in a command has 16 bits and is zero-based.
pub(crate) const MAX_COMMAND_BLOCKS: u32 = 1 << 16;

/// Writes requests to one namespace.
#[derive(Clone, Debug)]
pub(crate) struct NvmeEncoder {
    pub descriptor: Arc<OwnedFd>,
    pub nsid: u32,
    pub block_size_log2: u8,
    /// The largest range of one Write Zeroes command.
    pub max_zero_blocks: u32,
}

/// The fields of a command that differ.
#[derive(Default)]
struct Command {
    opcode: u8,
    address: usize,
    len: usize,
    cdw10_12: [u32; 3],
}

impl Command {
    fn blocks(opcode: u8, lba: u64, block_count: u32, flags: u32) -> Self {
        Self {
            opcode,
            cdw10_12: [
                lba as u32,
                (lba >> 32) as u32,
                block_count.wrapping_sub(1) | flags,
            ],
            ..Self::default()
        }
    }
}

impl NvmeEncoder {
    fn transfer(&self, opcode: u8, lba: u64, buffer: &Buffer, flags: u32) -> Command {
        let block_count = (buffer.len() >> self.block_size_log2) as u32;
        Command {
            address: buffer.address(),
            len: buffer.len(),
            ..Command::blocks(opcode, lba, block_count, flags)
        }
    }

    /// The part of a range that one stage zeroes; `None` past its end.
    fn zero_part(&self, lba: u64, block_count: u32, stage: u32) -> Option<(u64, u32)> {
        let step = self.max_zero_blocks.clamp(1, MAX_COMMAND_BLOCKS);
        let done = stage.checked_mul(step).filter(|done| *done < block_count)?;
        Some((lba + u64::from(done), step.min(block_count - done)))
    }

    fn command(&self, operation: &Operation, stage: u32, scratch: &mut Scratch) -> Option<Command> {
        Some(match (operation, stage) {
            (Operation::Read { lba, buffer }, 0) => self.transfer(READ, *lba, buffer, 0),
            (Operation::Write { lba, buffer, fua }, 0) => {
                self.transfer(WRITE, *lba, buffer, if *fua { FUA } else { 0 })
            }
            (Operation::Flush, 0) => Command {
                opcode: FLUSH,
                ..Command::default()
            },
            (Operation::Discard { lba, block_count }, 0) => {
                // One range: context attributes, length in blocks, first block.
                let mut bytes = [0; 16];
                let fields = [[0; 4], block_count.to_le_bytes()];
                for (byte, value) in bytes.iter_mut().zip(fields.as_flattened()) {
                    *byte = *value;
                }
                for (byte, value) in bytes.iter_mut().skip(8).zip(lba.to_le_bytes()) {
                    *byte = value;
                }
                scratch.0 = bytes;
                Command {
                    opcode: DATASET_MANAGEMENT,
                    address: &raw const scratch.0 as usize,
                    len: scratch.0.len(),
                    // The number of ranges, zero-based: one.
                    cdw10_12: [0, DEALLOCATE, 0],
                }
            }
            (
                Operation::WriteZeroes {
                    lba,
                    block_count,
                    fua,
                },
                stage,
            ) => {
                let (lba, block_count) = self.zero_part(*lba, *block_count, stage)?;
                Command::blocks(WRITE_ZEROES, lba, block_count, if *fua { FUA } else { 0 })
            }
            _ => return None,
        })
    }

    /// `struct nvme_uring_cmd`, and the rest of the submission's 80 bytes.
    fn bytes(&self, command: &Command) -> [u8; 80] {
        let mut bytes = [0; 80];
        let mut put = |at: usize, value: &[u8]| {
            for (byte, value) in bytes.iter_mut().skip(at).zip(value) {
                *byte = *value;
            }
        };
        put(0, &[command.opcode]);
        put(4, &self.nsid.to_ne_bytes());
        put(24, &(command.address as u64).to_ne_bytes());
        put(36, &(command.len as u32).to_ne_bytes());
        let [cdw10, cdw11, cdw12] = command.cdw10_12.map(u32::to_ne_bytes);
        put(40, &cdw10);
        put(44, &cdw11);
        put(48, &cdw12);
        bytes
    }
}

// SAFETY: a command's data is the operation's buffer or the scratch, whole; its length in blocks is
// computed from the same length that the kernel gets, and dataset management has one range, of 16
// bytes. Only a read writes to memory. The descriptor is open as long as `self`.
unsafe impl Encode for NvmeEncoder {
    type Sqe = squeue::Entry128;
    type Cqe = cqueue::Entry32;

    #[inline]
    fn encode(
        &self,
        operation: &Operation,
        stage: u32,
        registered: Registered,
        scratch: &mut Scratch,
    ) -> Option<squeue::Entry128> {
        let command = self.command(operation, stage, scratch)?;
        let index = match command.len {
            0 => None,
            len => registered.buffer(command.address, len),
        };
        let bytes = self.bytes(&command);
        Some(if registered.file {
            opcode::UringCmd80::new(Fixed(0), NVME_URING_CMD_IO)
                .cmd(bytes)
                .buf_index(index)
                .build()
        } else {
            opcode::UringCmd80::new(Fd(self.descriptor.as_raw_fd()), NVME_URING_CMD_IO)
                .cmd(bytes)
                .buf_index(index)
                .build()
        })
    }

    #[inline]
    fn result(&self, _: &Operation, answer: i32) -> Result<(), Error> {
        match answer {
            0 => Ok(()),
            // The controller's status; the kernel's own errors are negative.
            1.. => Err(Error::Nvme {
                status: (answer & 0x7fff) as u16,
            }),
            errno => Err(errno_error(errno.wrapping_neg())),
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    #[inline]
    fn name(submission: squeue::Entry128, place: u64) -> squeue::Entry128 {
        submission.user_data(place)
    }

    #[inline]
    fn answer(completion: &cqueue::Entry32) -> (u64, i32) {
        (completion.user_data(), completion.result())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoder(max_zero_blocks: u32) -> NvmeEncoder {
        let null = std::fs::File::open("/dev/null").unwrap();
        NvmeEncoder {
            descriptor: Arc::new(null.into()),
            nsid: 3,
            block_size_log2: 9,
            max_zero_blocks,
        }
    }

    #[test]
    fn a_command_has_its_fields_where_the_kernel_reads_them() {
        let encoder = encoder(1);
        let buffer = Buffer::from_static(Box::leak(vec![0; 1024].into_boxed_slice()));
        let address = buffer.address() as u64;
        let operation = Operation::Write {
            lba: 0x1_2345_6789,
            buffer,
            fua: true,
        };
        let command = encoder
            .command(&operation, 0, &mut Scratch::default())
            .unwrap();
        let bytes = encoder.bytes(&command);
        assert_eq!(bytes[0], WRITE);
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!((word(4), word(36)), (3, 1024));
        assert_eq!(word(24), address as u32);
        assert_eq!((word(40), word(44), word(48)), (0x2345_6789, 1, 1 | FUA));
        assert!(
            encoder
                .command(&operation, 1, &mut Scratch::default())
                .is_none()
        );
        if cfg!(target_arch = "x86_64") {
            assert_eq!(NVME_URING_CMD_IO, 0xc048_4e80);
        }
    }

    #[test]
    fn discard_is_one_range_in_the_scratch() {
        let mut scratch = Scratch::default();
        let operation = Operation::Discard {
            lba: 0x0102_0304_0506_0708,
            block_count: 0x1122_3344,
        };
        let command = encoder(1).command(&operation, 0, &mut scratch).unwrap();
        assert_eq!(command.cdw10_12, [0, DEALLOCATE, 0]);
        assert_eq!(
            (command.address, command.len),
            (&raw const scratch as usize, 16)
        );
        assert_eq!(
            scratch.0,
            [0, 0, 0, 0, 0x44, 0x33, 0x22, 0x11, 8, 7, 6, 5, 4, 3, 2, 1]
        );
    }

    #[test]
    fn zeroes_are_written_in_parts_that_cover_the_range_once() {
        for (step, count, parts) in [(8, 20, 3), (8, 16, 2), (u32::MAX, 1 << 17, 2), (0, 2, 2)] {
            let encoder = encoder(step);
            let mut next = 100;
            for stage in 0..parts {
                let (lba, blocks) = encoder.zero_part(100, count, stage).unwrap();
                assert_eq!(lba, next);
                next += u64::from(blocks);
            }
            assert_eq!(next, 100 + u64::from(count));
            assert!(encoder.zero_part(100, count, parts).is_none());
        }
    }
}
