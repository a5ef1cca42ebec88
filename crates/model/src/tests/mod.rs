// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The model driven by hand: registers, queue entries and doorbells, without a driver.

mod commands;
mod failures;
mod lifecycle;
mod shadow;

use block::Buffer;
use nvme::Registers;

use crate::command::{admin, io};
use crate::registers::*;
use crate::{BusMemory, Config, Faults, Model, Rule};

const ENTRIES: u32 = 16;

/// A completion queue entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    specific: u32,
    submission_head: u16,
    submission: u16,
    id: u16,
    status: u16,
}

struct Pair {
    submission: Buffer,
    completion: Buffer,
    entries: u32,
    tail: u32,
    head: u32,
    phase: bool,
}

/// The smallest host.
struct Host {
    model: Model,
    memory: BusMemory,
    pairs: Vec<Option<Pair>>,
    /// A page for admin data and small I/O.
    page: Buffer,
    stride: usize,
    next_id: u16,
}

impl Host {
    fn new(config: Config, rules: &[Rule]) -> Self {
        let memory = BusMemory::linear(8 << 20).unwrap();
        Self::on(memory, config, rules)
    }

    fn on(memory: BusMemory, config: Config, rules: &[Rule]) -> Self {
        let stride = 4 << config.doorbell_stride_log2;
        let faults = Faults::new(rules);
        let model = Model::with_faults(config, memory.clone(), faults).unwrap();
        let page = memory.allocate(4096).unwrap();
        Self {
            model,
            memory,
            pairs: (0..4).map(|_| None).collect(),
            page,
            stride,
            next_id: 0x100,
        }
    }

    /// An enabled controller with I/O queue pair 1.
    fn ready(config: Config, rules: &[Rule]) -> Self {
        let mut host = Self::new(config, rules);
        host.enable();
        host.create_pair(1);
        host
    }

    fn bus(&self, buffer: &Buffer) -> u64 {
        self.memory.bus_address(buffer.address()).unwrap()
    }

    fn pair(&self, entries: u32) -> Pair {
        let queue = |len| self.memory.allocate_contiguous(len, 4096).unwrap();
        Pair {
            submission: queue(entries as usize * 64),
            completion: queue(entries as usize * 16),
            entries,
            tail: 0,
            head: 0,
            phase: true,
        }
    }

    fn set_up_admin(&mut self) {
        let pair = self.pair(ENTRIES);
        self.model.write32(AQA, (ENTRIES - 1) * 0x1_0001);
        self.model.write64(ASQ, self.bus(&pair.submission));
        self.model.write64(ACQ, self.bus(&pair.completion));
        self.pairs[0] = Some(pair);
    }

    fn enable(&mut self) {
        self.set_up_admin();
        self.model.write32(CC, 0x0046_0001);
        assert_eq!(self.model.read32(CSTS), CSTS_READY);
    }

    fn create_queues(&mut self, id: u32) -> [Entry; 2] {
        let pair = self.pair(ENTRIES);
        let (sq, cq) = (self.bus(&pair.submission), self.bus(&pair.completion));
        self.pairs[id as usize] = Some(pair);
        let size = (ENTRIES - 1) << 16 | id;
        let vector = id << 16 | 3;
        let cq = self.admin(admin::CREATE_COMPLETION_QUEUE, 0, cq, &[size, vector]);
        let target = id << 16 | 1;
        let sq = self.admin(admin::CREATE_SUBMISSION_QUEUE, 0, sq, &[size, target]);
        [cq, sq]
    }

    fn create_pair(&mut self, id: u32) {
        let [cq, sq] = self.create_queues(id);
        assert_eq!((cq.status, sq.status), (0, 0));
    }

    /// Puts a command into a queue; the caller rings the doorbell.
    fn push(&mut self, queue: usize, opcode: u8, nsid: u32, prp: [u64; 2], dwords: &[u32]) -> u16 {
        let id = self.next_id;
        self.next_id += 1;
        let mut words = [0_u32; 16];
        words[0] = u32::from(opcode) | u32::from(id) << 16;
        words[1] = nsid;
        for (index, value) in prp.iter().enumerate() {
            words[6 + 2 * index] = *value as u32;
            words[7 + 2 * index] = (*value >> 32) as u32;
        }
        words[10..10 + dwords.len()].copy_from_slice(dwords);
        let pair = self.pairs[queue].as_mut().unwrap();
        let place = &mut pair.submission[pair.tail as usize * 64..][..64];
        for (bytes, word) in place.chunks_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        pair.tail = (pair.tail + 1) % pair.entries;
        id
    }

    fn ring(&mut self, queue: usize) {
        let tail = self.pairs[queue].as_ref().unwrap().tail;
        let offset = DOORBELLS + 2 * queue * self.stride;
        self.model.write32(offset, tail);
    }

    /// Looks for a completion, without its doorbell.
    fn peek(&mut self, queue: usize) -> Option<Entry> {
        let pair = self.pairs[queue].as_mut().unwrap();
        let bytes = &pair.completion[pair.head as usize * 16..][..16];
        let word = |index: usize| {
            let bytes = &bytes[index * 4..][..4];
            u32::from_le_bytes(bytes.try_into().unwrap())
        };
        if (word(3) >> 16 & 1 != 0) != pair.phase {
            return None;
        }
        let entry = Entry {
            specific: word(0),
            submission_head: word(2) as u16,
            submission: (word(2) >> 16) as u16,
            id: word(3) as u16,
            status: (word(3) >> 17) as u16,
        };
        pair.head = (pair.head + 1) % pair.entries;
        pair.phase ^= pair.head == 0;
        Some(entry)
    }

    fn poll(&mut self, queue: usize) -> Option<Entry> {
        let entry = self.peek(queue)?;
        let head = self.pairs[queue].as_ref().unwrap().head;
        let offset = DOORBELLS + (2 * queue + 1) * self.stride;
        self.model.write32(offset, head);
        Some(entry)
    }

    fn admin(&mut self, opcode: u8, nsid: u32, prp1: u64, dwords: &[u32]) -> Entry {
        let id = self.push(0, opcode, nsid, [prp1, 0], dwords);
        self.ring(0);
        let entry = self
            .poll(0)
            .expect("an admin command completes immediately");
        assert_eq!((entry.id, entry.submission), (id, 0));
        entry
    }

    fn submit(&mut self, opcode: u8, prp: [u64; 2], lba: u64, count: u32) -> u16 {
        let dwords = [lba as u32, (lba >> 32) as u32, count.wrapping_sub(1)];
        let id = self.push(1, opcode, 1, prp, &dwords);
        self.ring(1);
        id
    }

    /// Runs an I/O command on queue 1 and namespace 1 that completes immediately; returns its
    /// status.
    fn io(&mut self, opcode: u8, prp: [u64; 2], lba: u64, count: u32) -> u16 {
        let id = self.submit(opcode, prp, lba, count);
        let entry = self.poll(1).expect("an I/O command completes immediately");
        assert_eq!((entry.id, entry.submission), (id, 1));
        entry.status
    }

    fn page_bus(&self) -> [u64; 2] {
        [self.bus(&self.page), 0]
    }

    /// Writes a block of `value`.
    fn write(&mut self, lba: u64, value: u8, flags: u32) -> u16 {
        self.page.fill(value);
        let dwords = [lba as u32, 0, flags];
        let prp = self.page_bus();
        self.push(1, io::WRITE, 1, prp, &dwords);
        self.ring(1);
        self.poll(1).unwrap().status
    }

    /// The first byte of a block.
    fn read(&mut self, lba: u64) -> u8 {
        self.page.fill(0xee);
        assert_eq!(self.io(io::READ, self.page_bus(), lba, 1), 0);
        assert!(self.page[..512].iter().all(|&byte| byte == self.page[0]));
        self.page[0]
    }

    fn read_submit(&mut self) -> u16 {
        self.submit(io::READ, self.page_bus(), 0, 1)
    }

    fn is_innocent(&self) {
        assert_eq!(self.model.violations(), []);
        assert!(self.memory.check_guards().is_empty());
    }
}
