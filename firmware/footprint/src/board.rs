// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A board: registers and a timer at fixed addresses, identity-mapped memory.

use core::ptr::{NonNull, read_volatile, write_volatile};

use block::{Buffer, Clock};
use nvme::{BusRun, Controller, Dma, LinearDma, Registers};

const REGISTERS: usize = 0x4000_0000;
const TIMER: usize = 0x0200_bff8;
const MEMORY: usize = 0x8000_0000;

/// The board.
pub struct Board;

impl Registers for Board {
    fn len_bytes(&self) -> usize {
        0x4000
    }

    #[inline(always)]
    fn read32(&self, offset: usize) -> u32 {
        // SAFETY: never run; the driver keeps offsets inside the space.
        unsafe { read_volatile((REGISTERS + offset) as *const u32) }
    }

    #[inline(always)]
    fn write32(&self, offset: usize, value: u32) {
        // SAFETY: as in `read32`.
        unsafe { write_volatile((REGISTERS + offset) as *mut u32, value) }
    }

    fn isolate(&self) {
        self.write32(0, 0);
    }

    #[inline(always)]
    fn is_any_drive(&self) -> bool {
        false
    }
}

// SAFETY: never run.
unsafe impl Dma for Board {
    #[inline(always)]
    fn bus_run(&self, address: usize, len: usize) -> Option<BusRun> {
        let all = LinearDma {
            start: MEMORY,
            len: 1 << 20,
            bus_start: MEMORY as u64,
        };
        all.run(address, len)
    }
}

impl Clock for Board {
    #[inline(always)]
    fn ticks(&self) -> u64 {
        // SAFETY: never run.
        unsafe { u64::from(read_volatile(TIMER as *const u32)) }
    }

    fn ticks_per_second(&self) -> u64 {
        10_000_000
    }
}

/// One of several 64 KiB ranges.
pub fn memory(index: usize) -> Buffer {
    let start = core::hint::black_box(MEMORY + (index << 16));
    // SAFETY: never run; a firmware would have a linker section here.
    unsafe { Buffer::from_raw(NonNull::new_unchecked(start as *mut u8), 1 << 16) }
}

/// Stores the controller permanently.
pub fn keep(controller: Controller<Board>) -> &'static Controller<Board> {
    let place = core::hint::black_box(MEMORY + (1 << 24)) as *mut Controller<Board>;
    // SAFETY: never run; as in `memory`.
    unsafe {
        place.write(controller);
        &*place
    }
}
