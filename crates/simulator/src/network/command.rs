// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What each command does at the target (NVMe base specification 2.1, NVM command set 1.1).

use super::target::Target;

const BLOCK_BYTES: usize = 512;
const PAGE_BYTES: usize = 4096;

/// A little-endian number.
pub fn le(bytes: &[u8], at: usize, len: usize) -> u64 {
    let bytes = bytes.get(at..at + len).unwrap_or_default();
    let number = bytes.iter().rev();
    number.fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// A submission queue entry.
#[derive(Clone, Debug)]
pub struct Command {
    pub opcode: u8,
    pub cid: u16,
    /// Bytes of its data, and whether they are in the capsule.
    pub len: usize,
    pub is_inside: bool,
    pub lba: u64,
    /// Of a flush: what it covers.
    pub mark: u64,
    entry: Vec<u8>,
}

/// How a command ended.
#[derive(Debug, Default)]
pub struct Done {
    pub status: u16,
    pub value: u64,
    pub data: Option<Vec<u8>>,
}

impl Command {
    pub fn parse(entry: &[u8]) -> Self {
        Self {
            opcode: entry[0],
            cid: le(entry, 2, 2) as u16,
            len: le(entry, 32, 4) as usize,
            is_inside: entry[39] == 1,
            lba: le(entry, 40, 8),
            mark: 0,
            entry: entry.to_vec(),
        }
    }

    fn is_fabrics(&self, kind: u8) -> bool {
        self.opcode == 0x7f && self.entry[4] == kind
    }

    /// Whether it has data of the host. The low bits of an opcode say so (base specification 2.1,
    /// "Opcode"), those of a Fabrics command type too.
    pub fn takes_data(&self) -> bool {
        let bits = if self.opcode == 0x7f {
            self.entry[4]
        } else {
            self.opcode
        };
        bits & 3 == 1 && self.len > 0
    }

    /// Whether a command of a queue for requests changes blocks.
    pub const fn changes(&self) -> bool {
        matches!(self.opcode, 0x01 | 0x08 | 0x09)
    }

    pub const fn is_keep_alive(&self) -> bool {
        self.opcode == 0x18
    }

    /// Connect of an administration queue: its Keep Alive Timeout.
    pub fn connects_controller(&self) -> Option<u64> {
        let is_it = self.is_fabrics(1) && le(&self.entry, 42, 2) == 0;
        is_it.then(|| le(&self.entry, 48, 4))
    }

    /// Connect of another queue: its number, and the controller.
    pub fn connects_queue(&self, data: &[u8]) -> Option<(u16, usize)> {
        let queue = le(&self.entry, 42, 2) as u16;
        let is_it = self.is_fabrics(1) && queue != 0;
        is_it.then(|| (queue, le(data, 16, 2) as usize))
    }

    fn dword(&self, index: usize) -> u64 {
        le(&self.entry, 4 * index, 4)
    }

    /// Executes it on a queue.
    pub fn execute(
        &self,
        target: &Target,
        queue: u16,
        controller: u16,
        ana: u8,
        data: &[u8],
    ) -> Done {
        if self.opcode == 0x7f {
            let value = match self.entry[4] {
                1 => u64::from(controller),
                // CAP: 128 entries, 10 s; CSTS: ready.
                4 if self.entry[40] & 7 == 1 => 20 << 24 | 127,
                4 => 1,
                _ => 0,
            };
            return Done {
                value,
                ..Done::default()
            };
        }
        if queue == 0 {
            return self.administer(target, ana);
        }
        // "Path Related Status": inaccessible, persistent loss, transition.
        let status = match ana {
            3 => 0x302,
            4 => 0x301,
            15 => 0x303,
            _ => 0,
        };
        if status != 0 {
            return Done {
                status,
                ..Done::default()
            };
        }
        self.move_blocks(target, data)
    }

    fn administer(&self, target: &Target, ana: u8) -> Done {
        let mut done = Done::default();
        match self.opcode {
            0x06 => {
                let mut page = vec![0; PAGE_BYTES];
                self.identify(target, &mut page);
                done.data = Some(page);
            }
            // The ANA log: one group with the namespace.
            0x02 => {
                let mut page = vec![0; PAGE_BYTES];
                (page[8], page[20], page[32], page[48]) = (1, 1, ana, 1);
                done.data = Some(page);
            }
            // Set Features: two queues.
            0x09 => done.value = 1 << 16 | 1,
            _ => {}
        }
        done
    }

    fn identify(&self, target: &Target, page: &mut [u8]) {
        let shape = &target.shape;
        match self.dword(10) {
            1 => {
                page[4..14].copy_from_slice(b"simulated ");
                page[76] = 8;
                page[80..84].copy_from_slice(&0x0002_0100u32.to_le_bytes());
                page[96] = u8::from(shape.traffic_based) << 6;
                // KAS: 100 ms.
                page[320] = 1;
                if shape.reports_quiesce {
                    page[386..388].copy_from_slice(&shape.quiesce_ms.to_le_bytes());
                }
                (page[512], page[513]) = (0x66, 0x44);
                // Dataset Management and Write Zeroes.
                page[520] = 0x0c;
                page[525] = u8::from(shape.has_cache);
                let capsule = (64 + shape.capsule_bytes) / 16;
                page[1792..1796].copy_from_slice(&(capsule as u32).to_le_bytes());
            }
            2 => page[0] = 1,
            3 => {
                page[0..2].copy_from_slice(&[3, 16]);
                page[4..20].copy_from_slice(b"simulated volume");
            }
            _ => {
                let blocks = shape.block_count.to_le_bytes();
                page[0..8].copy_from_slice(&blocks);
                page[8..16].copy_from_slice(&blocks);
                page[130] = 9;
            }
        }
    }

    fn move_blocks(&self, target: &Target, data: &[u8]) -> Done {
        let mut done = Done::default();
        let count = (self.dword(12) & 0xffff) + 1;
        let zeroes = |count: u64| std::iter::repeat_n(&[0; BLOCK_BYTES][..], count as usize);
        let is_durable = !target.shape.loses_cache || self.dword(12) >> 30 & 1 == 1;
        match self.opcode {
            0x00 => target.drive.flush(self.mark),
            0x01 => {
                let blocks = data.chunks_exact(BLOCK_BYTES);
                target.drive.poke(self.lba, blocks, is_durable);
            }
            0x02 => {
                let mut data = vec![0; count as usize * BLOCK_BYTES];
                for (lba, block) in (self.lba..).zip(data.chunks_exact_mut(BLOCK_BYTES)) {
                    target.drive.peek(lba, block);
                }
                done.data = Some(data);
            }
            0x08 => target.drive.poke(self.lba, zeroes(count), is_durable),
            0x09 => {
                let (count, first) = (le(data, 4, 4), le(data, 8, 8));
                let is_durable = !target.shape.loses_cache;
                target.drive.poke(first, zeroes(count), is_durable);
            }
            _ => {}
        }
        done
    }
}
