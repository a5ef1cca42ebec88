// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Encodes requests as commands (NVM command set, "I/O Commands").

use block::{Buffer, Error, Geometry, Operation};

use crate::command::{Command, DEALLOCATE, FUA, io};
use crate::memory::{List, Part};
use crate::platform::Dma;
use crate::prp;

/// The most blocks that a 16-bit, zero-based count can express.
pub(crate) const MAX_BLOCKS: u32 = 1 << 16;
/// The page size of [`Dma`] memory: within a page, one bus address is enough.
pub(crate) const PAGE: usize = 4096;

/// The precomputed parts of a transfer within one page, for the length that was requested last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// The length in bytes; while there is no shape, a length that no buffer has.
    pub(crate) len: usize,
    /// Address bits that must be clear so that the buffer does not cross its page.
    pub(crate) misaligned: usize,
    /// The last LBA at which the transfer fits the namespace.
    pub(crate) last_lba: u64,
    /// Its number of blocks, less one.
    pub(crate) last_block: u64,
    /// Command dwords 0 and 1, without the identifier.
    pub(crate) read: u64,
    pub(crate) write: u64,
}

impl Shape {
    pub(crate) const NONE: Self = Self {
        len: usize::MAX,
        misaligned: 0,
        last_lba: 0,
        last_block: 0,
        read: 0,
        write: 0,
    };

    /// The shape of transfers of `len` bytes, a length that the geometry allows and that fits a
    /// page.
    pub(crate) fn of(geometry: &Geometry, nsid: u32, len: usize) -> Self {
        let last_block = (len >> geometry.block_size_log2) as u64 - 1;
        let command = |opcode: u8| u64::from(nsid) << 32 | u64::from(opcode);
        Self {
            len,
            misaligned: if len.is_power_of_two() { len } else { PAGE } - 1,
            last_lba: geometry.block_count - 1 - last_block,
            last_block,
            read: command(io::READ),
            write: command(io::WRITE),
        }
    }
}

/// The inputs of a queue pair's commands other than the request.
#[derive(Debug)]
pub(crate) struct Encoder {
    pub(crate) shape: Shape,
    pub(crate) geometry: Geometry,
    /// A PRP list for each slot, [`list_stride`](Self::list_stride) bytes apart.
    pub(crate) lists: Part,
    pub(crate) list_stride: usize,
    pub(crate) nsid: u32,
    /// The controller's page size (CC.MPS) as a power of two.
    pub(crate) page_shift: u8,
}

impl Encoder {
    /// Makes transfers of `len` bytes the shape for the next requests, if they fit a page.
    #[inline(always)]
    pub(crate) fn learn(&mut self, len: usize) {
        if len <= PAGE {
            self.shape = Shape::of(&self.geometry, self.nsid, len);
        }
    }

    /// The command for `operation` in slot `index`, without its identifier.
    pub(crate) fn encode<D: Dma>(
        &self,
        dma: &D,
        index: usize,
        operation: &Operation,
    ) -> Result<Command, Error> {
        let mut command = Command {
            nsid: self.nsid,
            ..Command::default()
        };
        let flags = |fua: bool| if fua { FUA } else { 0 };
        match operation {
            Operation::Read { lba, buffer } | Operation::Write { lba, buffer, .. } => {
                let (opcode, flags) = match operation {
                    Operation::Write { fua, .. } => (io::WRITE, flags(*fua)),
                    _ => (io::READ, 0),
                };
                command.opcode = opcode;
                self.point_to(dma, &mut command, index, *lba, buffer, flags)?;
            }
            Operation::Flush => command.opcode = io::FLUSH,
            Operation::Discard { lba, block_count } => {
                // One range in the slot's list memory: attributes, length, start.
                let mut list = self.list(index).ok_or(Error::TooLarge)?;
                list.write(0, u64::from(*block_count) << 32);
                list.write(1, *lba);
                command.opcode = io::DATASET_MANAGEMENT;
                command.prp1 = list.bus;
                command.dwords = [0, DEALLOCATE, 0, 0];
            }
            Operation::WriteZeroes {
                lba,
                block_count,
                fua,
            } => {
                if *block_count > MAX_BLOCKS {
                    return Err(Error::TooLarge);
                }
                command.opcode = io::WRITE_ZEROES;
                command.dwords = range(*lba, *block_count, flags(*fua));
            }
        }
        Ok(command)
    }

    fn point_to<D: Dma>(
        &self,
        dma: &D,
        command: &mut Command,
        index: usize,
        lba: u64,
        buffer: &Buffer,
        flags: u32,
    ) -> Result<(), Error> {
        let (address, len) = (buffer.address(), buffer.len());
        let list = || self.list(index);
        (command.prp1, command.prp2) = prp::build(dma, address, len, self.page_shift, list)?;
        let block_count = (len >> self.geometry.block_size_log2) as u32;
        command.dwords = range(lba, block_count, flags);
        Ok(())
    }

    /// Writes what the command in slot `index` reads back from the cache: its buffer, which must
    /// have no dirty line when it is written to either, and its list.
    #[inline(always)]
    pub(crate) fn clean<D: Dma>(&self, dma: &D, index: usize, buffer: Option<&Buffer>) {
        if dma.cache_line_bytes() == 0 {
            return;
        }
        if let Some(buffer) = buffer {
            dma.clean(buffer.address(), buffer.len());
        }
        if let Some(list) = self.list(index) {
            let (address, len) = list.range();
            dma.clean(address, len);
        }
    }

    #[inline(always)]
    pub(crate) fn list(&self, index: usize) -> Option<List> {
        List::of_slot(&self.lists, index, self.list_stride)
    }
}

#[inline(always)]
fn range(lba: u64, block_count: u32, flags: u32) -> [u32; 4] {
    let count = block_count.wrapping_sub(1) & 0xffff;
    [lba as u32, (lba >> 32) as u32, count | flags, 0]
}
