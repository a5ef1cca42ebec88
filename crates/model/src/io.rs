// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The NVM command set (NVMe base specification 1.4, "NVM Command Set").

use nvme::Quirks;

use crate::command::{Command, Outcome, io, status};
use crate::controller::Controller;
use crate::prp;
use crate::violation::Access;

/// Flush for all namespaces.
const BROADCAST: u32 = u32::MAX;

impl Controller {
    pub(crate) fn run_io(&mut self, command: &Command) -> Outcome {
        if command.flags != 0 {
            return Err(status::INVALID_FIELD);
        }
        match command.opcode {
            io::READ | io::WRITE => self.transfer(command),
            io::FLUSH => self.flush(command),
            io::WRITE_ZEROES if self.config.write_zeroes => self.write_zeroes(command),
            io::DATASET_MANAGEMENT if self.config.dataset_management => self.deallocate(command),
            _ => Err(status::INVALID_OPCODE),
        }
    }

    fn namespace_index(&self, id: u32) -> Result<usize, u16> {
        let mut ids = self.namespaces.iter().map(|one| one.config.id);
        ids.position(|one| one == id)
            .ok_or(status::INVALID_NAMESPACE)
    }

    fn transfer(&mut self, command: &Command) -> Outcome {
        let index = self.namespace_index(command.nsid)?;
        let namespace = &self.namespaces[index];
        let len = (command.block_count() << namespace.config.block_size_log2) as usize;
        if self.config.mdts != 0 {
            let shift = u32::from(self.config.mdts) + u32::from(self.config.min_page_shift);
            let most = 1_usize.checked_shl(shift).unwrap_or(usize::MAX);
            if len > most {
                return Err(status::INVALID_FIELD);
            }
        }
        if !namespace.has(command.lba(), command.block_count()) {
            return Err(status::LBA_RANGE);
        }
        self.note_transfer(command, len)?;
        let mut segments = std::mem::take(&mut self.segments);
        let page_shift = self.page_shift();
        let command = &self.spoil_list(command);
        let walked = prp::walk(&mut self.bus, page_shift, command, len, &mut segments);
        self.segments = segments;
        walked?;
        let mut data = std::mem::take(&mut self.scratch);
        if data.len() < len {
            data.resize(len, 0);
        }
        let moved = if command.opcode == io::READ {
            self.read_blocks(index, command, &mut data[..len])
        } else {
            self.write_blocks(index, command, &mut data[..len])
        };
        self.scratch = data;
        moved
    }

    fn read_blocks(&mut self, index: usize, command: &Command, data: &mut [u8]) -> Outcome {
        let namespace = &mut self.namespaces[index];
        let read = namespace.read(command.lba(), data);
        read.map_err(|_| status::READ_ERROR)?;
        let mut done = 0;
        for segment in &self.segments {
            let part = &data[done..done + segment.len];
            let written = self.bus.write(segment.bus, part, Access::Data);
            written.ok_or(status::DATA_TRANSFER)?;
            done += segment.len;
        }
        self.statistics.read_bytes += data.len() as u64;
        Ok(0)
    }

    fn write_blocks(&mut self, index: usize, command: &Command, data: &mut [u8]) -> Outcome {
        let mut done = 0;
        for segment in &self.segments {
            let part = &mut data[done..done + segment.len];
            let read = self.bus.read(segment.bus, part, Access::Data);
            read.ok_or(status::DATA_TRANSFER)?;
            done += segment.len;
        }
        let cached = self.features.write_cache() && !command.fua();
        let written = self.namespaces[index].write(command.lba(), data, cached);
        written.map_err(|_| status::WRITE_FAULT)?;
        self.finish_change(index, command.fua())?;
        self.statistics.written_bytes += data.len() as u64;
        Ok(0)
    }

    /// Force Unit Access on a file: the file's own cache is also volatile.
    fn finish_change(&mut self, index: usize, fua: bool) -> Result<(), u16> {
        if !fua {
            return Ok(());
        }
        let synced = self.namespaces[index].sync();
        synced.map_err(|_| status::WRITE_FAULT)
    }

    fn flush(&mut self, command: &Command) -> Outcome {
        if command.nsid == BROADCAST {
            for namespace in &mut self.namespaces {
                namespace.flush().map_err(|_| status::WRITE_FAULT)?;
            }
            return Ok(0);
        }
        let index = self.namespace_index(command.nsid)?;
        let flushed = self.namespaces[index].flush();
        flushed.map_err(|_| status::WRITE_FAULT)?;
        Ok(0)
    }

    /// Writes back each namespace's cache, as a shutdown does; a failing store loses it.
    pub(crate) fn flush_all(&mut self) {
        for namespace in &mut self.namespaces {
            let _ = namespace.flush();
        }
    }

    fn write_zeroes(&mut self, command: &Command) -> Outcome {
        let index = self.namespace_index(command.nsid)?;
        if !self.namespaces[index].has(command.lba(), command.block_count()) {
            return Err(status::LBA_RANGE);
        }
        if self.has_quirk(Quirks::NO_WRITE_ZEROES) {
            return Ok(0);
        }
        let cached = self.features.write_cache() && !command.fua();
        let zeroed = self.namespaces[index].zero(command.lba(), command.block_count(), cached);
        zeroed.map_err(|_| status::WRITE_FAULT)?;
        self.finish_change(index, command.fua())?;
        Ok(0)
    }

    /// Dataset Management: up to 256 ranges of 16 bytes; only Deallocate does something.
    fn deallocate(&mut self, command: &Command) -> Outcome {
        let index = self.namespace_index(command.nsid)?;
        let count = (command.dword::<10>() & 0xff) as usize + 1;
        let mut data = [0; 256 * 16];
        let data = &mut data[..count * 16];
        self.receive(command, data, Access::Data)?;
        let namespace = &mut self.namespaces[index];
        let ranges = || data.chunks(16).map(range);
        if !ranges().all(|(lba, count)| namespace.has(lba, count)) {
            return Err(status::LBA_RANGE);
        }
        if command.dword::<11>() & 1 << 2 != 0 {
            let cached = self.features.write_cache();
            let excess = u64::from(self.config.quirks.has(Quirks::NO_DEALLOCATE));
            for (lba, count) in ranges() {
                let count = if namespace.has(lba, count + excess) {
                    count + excess
                } else {
                    count
                };
                let zeroed = namespace.zero(lba, count, cached);
                zeroed.map_err(|_| status::WRITE_FAULT)?;
            }
        }
        Ok(0)
    }
}

/// Starting LBA and length of a range; its first word is context attributes.
fn range(bytes: &[u8]) -> (u64, u64) {
    let at = |from: usize, len: usize| {
        let mut value = [0; 8];
        value[..len].copy_from_slice(&bytes[from..from + len]);
        u64::from_le_bytes(value)
    };
    (at(8, 8), at(4, 4))
}
