// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Wakes the other of two harts, and sleeps until this one is woken (RISC-V ACLINT specification,
//! "Machine-level Software Interrupt Device").

use core::arch::asm;
use core::ptr::write_volatile;
use core::sync::atomic::{AtomicUsize, Ordering, fence};

use crate::fdt::Machine;

const SOFTWARE_INTERRUPT: usize = 1 << 3;
const INTERRUPTS_ON: usize = 1 << 3;

static DOORBELLS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Takes the doorbells' addresses from the machine; false if the second hart has none.
pub fn begin(machine: &Machine) -> bool {
    for (place, range) in DOORBELLS.iter().zip([machine.clint, machine.second_clint]) {
        place.store(range.start as usize, Ordering::Relaxed);
    }
    machine.clint.bytes > 0 && machine.second_clint.bytes > 0
}

fn set(hart: usize, value: u32) {
    let address = DOORBELLS
        .get(hart)
        .map_or(0, |place| place.load(Ordering::Relaxed));
    if address != 0 {
        // What was written before is visible to the hart that wakes.
        fence(Ordering::SeqCst);
        // SAFETY: the device tree names the interruptor; its first word is the hart's MSIP.
        unsafe { write_volatile(address as *mut u32, value) };
    }
}

/// Wakes a hart.
pub fn wake(hart: usize) {
    set(hart, 1);
}

/// Sleeps on this hart, unless it was woken since the last call or `is_ready`; other interrupts
/// wake it too.
#[inline(always)]
pub fn sleep(hart: usize, is_ready: impl FnOnce() -> bool) {
    let before: usize;
    // SAFETY: interrupts are off until the end of this function, so the one that wakes is taken by
    // nobody: it only ends the wait.
    unsafe {
        asm!("csrrc {0}, mstatus, {1}", "csrs mie, {2}",
             out(reg) before, in(reg) INTERRUPTS_ON, in(reg) SOFTWARE_INTERRUPT);
        if !is_ready() {
            asm!("wfi");
        }
        asm!("csrc mie, {0}", in(reg) SOFTWARE_INTERRUPT);
    }
    set(hart, 0);
    // SAFETY: as they were.
    unsafe { asm!("csrs mstatus, {0}", in(reg) before & INTERRUPTS_ON) };
}
