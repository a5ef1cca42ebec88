// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A drive whose registers and queues are plain memory, so that only the driver is counted.
//!
//! It answers admin commands immediately. I/O doorbells only store the index: `answer`, called by
//! the harness outside the counted code, completes the submitted commands.

use alloc::vec;
use alloc::vec::Vec;
use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering};

use block::{Buffer, Clock};
use nvme::{BusRun, Dma, LinearDma, Registers};

const PAGE: usize = 4096;

/// The drive. Bus addresses are virtual ones shifted by a constant, as an IOMMU might map them.
pub struct Plain {
    registers: Vec<AtomicU32>,
    memory: LinearDma,
    given: Cell<usize>,
    admin: Cell<(u32, u32, bool)>,
    submission: Cell<(u64, u32, u32)>,
    completion: Cell<(u64, u32, u32, bool)>,
}

impl Plain {
    pub fn new(memory_bytes: usize) -> Self {
        let memory = vec![0_u8; memory_bytes + PAGE].leak();
        let start = (memory.as_ptr() as usize).next_multiple_of(PAGE);
        Self {
            registers: (0..0x2000 / 4).map(|_| AtomicU32::new(0)).collect(),
            memory: LinearDma {
                start,
                len: memory_bytes,
                bus_start: 0x1_0000_0000,
            },
            given: Cell::new(0),
            admin: Cell::new((0, 0, true)),
            submission: Cell::new((0, 1, 0)),
            completion: Cell::new((0, 1, 0, true)),
        }
    }

    /// The next `len` bytes of its memory, from a page on.
    pub fn take(&self, len: usize) -> Buffer {
        let offset = self.given.get();
        self.given.set((offset + len).next_multiple_of(PAGE));
        assert!(offset + len <= self.memory.len, "out of memory");
        let start = (self.memory.start + offset) as *mut u8;
        // SAFETY: inside the leaked memory, and each range is allocated once.
        unsafe { Buffer::from_raw(core::ptr::NonNull::new_unchecked(start), len) }
    }

    /// The memory of a bus address.
    pub fn pointer(&self, bus: u64) -> *mut u32 {
        (bus - self.memory.bus_start + self.memory.start as u64) as *mut u32
    }

    fn read(&self, bus: u64, dword: usize) -> u32 {
        // SAFETY: the driver gives addresses in the leaked memory only.
        unsafe { self.pointer(bus).add(dword).read_volatile() }
    }

    fn complete(&self, bus: u64, index: u32, dword0: u32, identifier: u32, phase: bool) {
        let entry = bus + u64::from(index) * 16;
        // SAFETY: as in `read`.
        unsafe {
            self.pointer(entry).write_volatile(dword0);
            let last = identifier & 0xffff | u32::from(phase) << 16;
            self.pointer(entry).add(3).write_volatile(last);
        }
    }

    fn register(&self, offset: usize) -> u32 {
        self.registers[offset / 4].load(Ordering::Relaxed)
    }

    fn set(&self, offset: usize, value: u32) {
        self.registers[offset / 4].store(value, Ordering::Relaxed);
    }

    /// Completes every I/O command that was submitted, the newest first if `reversed`. Data is
    /// moved only by `carry_out`, which sees each command, oldest first.
    pub fn answer(&self, reversed: bool, mut carry_out: impl FnMut(&[u32; 16])) {
        let (sq, sq_entries, mut head) = self.submission.get();
        let (cq, cq_entries, mut tail, mut phase) = self.completion.get();
        let mut identifiers = Vec::new();
        while head != self.register(0x1008) {
            let entry = sq + u64::from(head) * 64;
            let command = core::array::from_fn(|dword| self.read(entry, dword));
            carry_out(&command);
            identifiers.push(command[0] >> 16);
            head = (head + 1) % sq_entries;
        }
        if reversed {
            identifiers.reverse();
        }
        for identifier in identifiers {
            self.complete(cq, tail, 0, identifier, phase);
            tail = (tail + 1) % cq_entries;
            phase ^= tail == 0;
        }
        self.submission.set((sq, sq_entries, head));
        self.completion.set((cq, cq_entries, tail, phase));
    }

    fn admin(&self, tail: u32) {
        let (sq, cq) = (self.read64(0x28), self.read64(0x30));
        let (mut head, mut cq_tail, mut phase) = self.admin.get();
        while head != tail {
            let entry = sq + u64::from(head) * 64;
            let word = |dword| self.read(entry, dword);
            let prp1 = u64::from(word(6)) | u64::from(word(7)) << 32;
            let entries = (word(10) >> 16) + 1;
            match word(0) & 0xff {
                0x01 => self.submission.set((prp1, entries, 0)),
                0x05 => self.completion.set((prp1, entries, 0, true)),
                0x06 => self.identify(prp1, word(10)),
                _ => {}
            }
            // An event request remains outstanding.
            if word(0) & 0xff != 0x0c {
                self.complete(cq, cq_tail, 0, word(0) >> 16, phase);
                cq_tail = (cq_tail + 1) % 16;
                phase ^= cq_tail == 0;
            }
            head = (head + 1) % 16;
        }
        self.admin.set((head, cq_tail, phase));
    }

    fn identify(&self, bus: u64, cns: u32) {
        let page = self.pointer(bus).cast::<u8>();
        // SAFETY: the driver's data page is a whole page of the leaked memory.
        let page = unsafe { core::slice::from_raw_parts_mut(page, PAGE) };
        if cns == 1 {
            page[77] = 5; // MDTS: 128 KiB.
            page[512] = 0x66;
            page[513] = 0x44;
        } else {
            page[2] = 0x10; // NSZE: 2^20 blocks.
            page[130] = 9; // LBADS.
        }
    }
}

impl Registers for Plain {
    fn len_bytes(&self) -> usize {
        self.registers.len() * 4
    }

    #[inline(always)]
    fn read32(&self, offset: usize) -> u32 {
        match offset {
            0x00 => 1023 | 1 << 24,
            0x04 => 1 << 5,
            _ => self.register(offset),
        }
    }

    #[inline(always)]
    fn write32(&self, offset: usize, value: u32) {
        // SAFETY: the driver stays inside `len_bytes`; a real register write has no check either.
        unsafe { self.registers.get_unchecked(offset / 4) }.store(value, Ordering::Relaxed);
        if offset <= 0x1000 {
            match offset {
                0x14 => self.set(0x1c, value & 1),
                0x1000 => self.admin(value),
                _ => {}
            }
        }
    }

    fn isolate(&self) {}
}

// SAFETY: nothing but this drive uses the addresses, and it turns them back.
unsafe impl Dma for Plain {
    #[inline(always)]
    fn bus_run(&self, address: usize, len: usize) -> Option<BusRun> {
        self.memory.run(address, len)
    }

    #[inline(always)]
    fn bus_address(&self, address: usize) -> Option<u64> {
        self.memory.address(address)
    }
}

impl Clock for Plain {
    #[inline(always)]
    fn ticks(&self) -> u64 {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every x86-64 has a time stamp counter.
        return unsafe { core::arch::x86_64::_rdtsc() };
        #[cfg(not(target_arch = "x86_64"))]
        {
            let ticks: u64;
            // SAFETY: reads a counter that programs may read.
            unsafe {
                #[cfg(target_arch = "aarch64")]
                core::arch::asm!("mrs {0}, cntvct_el0", out(reg) ticks, options(nomem, nostack));
                #[cfg(target_arch = "riscv64")]
                core::arch::asm!("rdtime {0}", out(reg) ticks, options(nomem, nostack));
            }
            ticks
        }
    }

    fn ticks_per_second(&self) -> u64 {
        1_000_000_000
    }
}
