// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine as a platform for `nvme`: a drive's registers, identity-mapped memory, a timer; and
//! the watchdog.

use core::arch::asm;
use core::ptr::{read_volatile, write_volatile};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use block::{Clock, barrier};
use nvme::{BusRun, Dma, LinearDma, PciId, Registers};

use crate::fdt::{Machine, Range};
use crate::log;
use crate::pci::{Address, Drive, Ecam};

/// The main loop must complete an iteration in this time, or the machine is restarted. Only the
/// driver's slow paths take longer; they have their own deadlines and count as progress.
const WATCHDOG_SECONDS: u32 = 4;

static CLINT: AtomicUsize = AtomicUsize::new(0);
static RESET: AtomicUsize = AtomicUsize::new(0);
static TICKS_A_SECOND: AtomicU32 = AtomicU32::new(10_000_000);
/// Counts progress.
static PROGRESS: AtomicU32 = AtomicU32::new(0);
static SEEN: AtomicU32 = AtomicU32::new(0);
static STUCK: AtomicU32 = AtomicU32::new(0);
const MTIMECMP: usize = 0x4000;
const MTIME: usize = 0xbff8;
const TIMER_INTERRUPT: usize = 7;
const RESET_VALUE: u32 = 0x7777;
const POWEROFF_VALUE: u32 = 0x5555;

/// The timer.
#[derive(Clone, Copy, Debug)]
pub struct Timer;

/// One drive and the machine around it.
#[derive(Clone, Copy, Debug)]
pub struct Platform {
    ecam: Ecam,
    address: Address,
    registers: usize,
    register_bytes: usize,
    /// The first one is checked first.
    memory: [LinearDma; RUNS],
}

/// The most ranges of memory that a drive may reach.
pub const RUNS: usize = 4;

/// Takes the timer, the watchdog's period and the reset register from the machine.
pub fn begin(machine: &Machine) {
    CLINT.store(machine.clint.start as usize, Ordering::Relaxed);
    RESET.store(machine.reset.start as usize, Ordering::Relaxed);
    TICKS_A_SECOND.store(machine.timebase_hz.max(1000), Ordering::Relaxed);
    arm();
    // SAFETY: the trap is set up by the start code, and the timer is armed.
    unsafe {
        asm!("csrs mie, {0}", "csrs mstatus, {1}", in(reg) 1usize << TIMER_INTERRUPT, in(reg) 1usize << 3);
    }
}

/// Reports an iteration of the main loop.
#[inline(always)]
pub fn progress() {
    PROGRESS.store(
        PROGRESS.load(Ordering::Relaxed).wrapping_add(1),
        Ordering::Relaxed,
    );
}

/// Schedules the next check of the watchdog, in a second.
fn arm() {
    let clint = CLINT.load(Ordering::Relaxed);
    if clint == 0 {
        return;
    }
    let next = Timer.ticks() + Timer.ticks_per_second();
    let compare = clint + MTIMECMP;
    // SAFETY: the device tree names the interruptor; hart 0's words. The high half is first set to
    // its maximum, so that no interrupt fires in between (RISC-V ACLINT specification, "MTIMECMP").
    unsafe {
        write_volatile((compare + 4) as *mut u32, u32::MAX);
        write_volatile(compare as *mut u32, next as u32);
        write_volatile((compare + 4) as *mut u32, (next >> 32) as u32);
    }
}

/// Every trap: the watchdog's timer, or a fault.
#[cold]
pub fn trap(cause: usize, at: usize, value: usize) {
    let is_interrupt = cause >> (usize::BITS - 1) != 0;
    if is_interrupt && cause & 0xff == TIMER_INTERRUPT {
        let progress = PROGRESS.load(Ordering::Relaxed);
        if progress != SEEN.swap(progress, Ordering::Relaxed) {
            STUCK.store(0, Ordering::Relaxed);
        } else if STUCK.fetch_add(1, Ordering::Relaxed) >= WATCHDOG_SECONDS {
            log!("watchdog: no progress at 0x#; restarting", at as u64);
            restart();
        }
        arm();
        return;
    }
    log!(
        "fault # at 0x#, value 0x#; restarting",
        cause as u64,
        at as u64,
        value as u64
    );
    restart();
}

/// Restarts the machine.
pub fn restart() -> ! {
    finish(RESET_VALUE)
}

/// Switches the machine off.
pub fn power_off() -> ! {
    finish(POWEROFF_VALUE)
}

fn finish(value: u32) -> ! {
    let reset = RESET.load(Ordering::Relaxed);
    loop {
        if reset != 0 {
            // SAFETY: the device tree names the word that does this.
            unsafe { write_volatile(reset as *mut u32, value) };
        }
        core::hint::spin_loop();
    }
}

impl Clock for Timer {
    #[inline(always)]
    fn ticks(&self) -> u64 {
        let time = CLINT.load(Ordering::Relaxed) + MTIME;
        // SAFETY: the device tree names the interruptor, and `begin` ran first.
        #[cfg(target_pointer_width = "64")]
        return unsafe { read_volatile(time as *const u64) };
        #[cfg(target_pointer_width = "32")]
        // At most twice in practice: the upper half changes every seven minutes.
        loop {
            // SAFETY: as above.
            let (high, low, again) = unsafe {
                (
                    read_volatile((time + 4) as *const u32),
                    read_volatile(time as *const u32),
                    read_volatile((time + 4) as *const u32),
                )
            };
            if high == again {
                return u64::from(high) << 32 | u64::from(low);
            }
        }
    }

    fn ticks_per_second(&self) -> u64 {
        u64::from(TICKS_A_SECOND.load(Ordering::Relaxed))
    }
}

impl Platform {
    /// The drive's platform; `memory` is what it may reach, the range with most data first.
    pub fn new(ecam: Ecam, drive: &Drive, memory: [Range; RUNS]) -> Self {
        Self {
            ecam,
            address: drive.address,
            registers: drive.registers,
            register_bytes: drive.register_bytes,
            memory: memory.map(|range| LinearDma {
                start: range.start as usize,
                len: usize::try_from(range.bytes).unwrap_or(usize::MAX),
                bus_start: range.start,
            }),
        }
    }

    #[cold]
    #[inline(never)]
    fn elsewhere(&self, address: usize, len: usize) -> Option<BusRun> {
        self.memory
            .iter()
            .find_map(|memory| memory.run(address, len))
    }
}

impl Registers for Platform {
    fn len_bytes(&self) -> usize {
        self.register_bytes
    }

    #[inline(always)]
    fn read32(&self, offset: usize) -> u32 {
        // SAFETY: the driver keeps offsets inside the space that was placed for it.
        let value = unsafe { read_volatile((self.registers + offset) as *const u32) };
        barrier::after_register_read();
        u32::from_le(value)
    }

    #[inline(always)]
    fn write32(&self, offset: usize, value: u32) {
        barrier::before_register_write();
        // SAFETY: as in `read32`.
        unsafe { write_volatile((self.registers + offset) as *mut u32, value.to_le()) };
    }

    fn isolate(&self) {
        self.ecam.connect(self.address, false);
    }

    fn connect(&self) {
        self.ecam.connect(self.address, true);
    }

    fn relax(&self) {
        progress();
    }

    fn pci_id(&self) -> Option<PciId> {
        let id = self.ecam.read(self.address, 0);
        Some(PciId {
            vendor: id as u16,
            device: (id >> 16) as u16,
        })
    }
}

// SAFETY: memory has the same address on the bus (the machine has no IOMMU before its root
// complex), consists of whole pages, and always exists.
unsafe impl Dma for Platform {
    #[inline(always)]
    fn bus_run(&self, address: usize, len: usize) -> Option<BusRun> {
        let [first, ..] = &self.memory;
        first
            .run(address, len)
            .or_else(|| self.elsewhere(address, len))
    }

    #[inline(always)]
    fn bus_address(&self, address: usize) -> Option<u64> {
        self.memory
            .iter()
            .find_map(|memory| memory.address(address))
    }
}

impl Clock for Platform {
    #[inline(always)]
    fn ticks(&self) -> u64 {
        Timer.ticks()
    }

    fn ticks_per_second(&self) -> u64 {
        Timer.ticks_per_second()
    }
}

/// Instructions that this hart has retired; wraps.
#[inline(always)]
pub fn instructions() -> u32 {
    let count: usize;
    // SAFETY: reads a counter.
    unsafe { asm!("csrr {0}, minstret", out(reg) count) };
    count as u32
}
