// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The plain drive with contents: a volume must be able to read what it wrote.

use std::cell::{Cell, RefCell};

use block::{Buffer, Clock};
use nvme::{BusRun, Dma, Registers};

use crate::plain::Plain;

const BLOCK: usize = 512;
const WRITE: u32 = 1;
const READ: u32 = 2;
const SUBMISSION_DOORBELL: usize = 0x1008;

/// A drive of 512 MiB.
pub struct Keeping {
    plain: Plain,
    contents: RefCell<Vec<u8>>,
    /// Whether commands are executed when they are submitted, not by the harness.
    at_once: Cell<bool>,
}

impl Keeping {
    /// A drive that answers immediately.
    pub fn new(memory_bytes: usize) -> Self {
        Self {
            plain: Plain::new(memory_bytes),
            contents: RefCell::new(vec![0; BLOCK << 20]),
            at_once: Cell::new(true),
        }
    }

    /// The next `len` bytes of its memory, from a page on.
    pub fn take(&self, len: usize) -> Buffer {
        self.plain.take(len)
    }

    /// Sets whether commands are executed when they are submitted.
    pub fn answer_at_once(&self, at_once: bool) {
        self.at_once.set(at_once);
    }

    /// Executes the submitted commands; completes them newest first if `reversed`.
    pub fn answer(&self, reversed: bool) {
        self.plain
            .answer(reversed, |command| self.carry_out(command));
    }

    /// All buffers are contiguous on this drive's bus, so the first address is sufficient.
    fn carry_out(&self, command: &[u32; 16]) {
        let opcode = command[0] & 0xff;
        if opcode != WRITE && opcode != READ {
            return;
        }
        let bus = u64::from(command[6]) | u64::from(command[7]) << 32;
        let lba = command[10] as usize | (command[11] as usize) << 32;
        let len = ((command[12] & 0xffff) as usize + 1) * BLOCK;
        let mut contents = self.contents.borrow_mut();
        let stored = &mut contents[lba * BLOCK..];
        let memory = self.plain.pointer(bus).cast::<u8>();
        // SAFETY: the driver gives addresses in the plain drive's memory only, and until the
        // command completes the buffer is the device's.
        let memory = unsafe { std::slice::from_raw_parts_mut(memory, len) };
        match opcode {
            WRITE => stored[..len].copy_from_slice(memory),
            _ => memory.copy_from_slice(&stored[..len]),
        }
    }
}

impl Registers for Keeping {
    fn len_bytes(&self) -> usize {
        self.plain.len_bytes()
    }

    #[inline(always)]
    fn read32(&self, offset: usize) -> u32 {
        self.plain.read32(offset)
    }

    #[inline(always)]
    fn write32(&self, offset: usize, value: u32) {
        self.plain.write32(offset, value);
        if offset == SUBMISSION_DOORBELL && self.at_once.get() {
            self.answer(false);
        }
    }

    fn isolate(&self) {}
}

// SAFETY: as the plain drive, whose answers it gives.
unsafe impl Dma for Keeping {
    #[inline(always)]
    fn bus_run(&self, address: usize, len: usize) -> Option<BusRun> {
        self.plain.bus_run(address, len)
    }

    #[inline(always)]
    fn bus_address(&self, address: usize) -> Option<u64> {
        self.plain.bus_address(address)
    }
}

impl Clock for Keeping {
    #[inline(always)]
    fn ticks(&self) -> u64 {
        self.plain.ticks()
    }

    fn ticks_per_second(&self) -> u64 {
        self.plain.ticks_per_second()
    }
}
