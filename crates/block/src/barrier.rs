// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The barriers between a processor, memory, and a device or another processor that is not in its
//! cluster.
//!
//! `core`'s fences order what threads of one system see (on Arm, its inner shareable domain). A
//! PCIe device, or a coprocessor in programmable logic, is outside: it needs the instructions
//! below. Each pair is stated once, here:
//!
//! | this side | barrier | the other side | Arm | RISC-V |
//! | --- | --- | --- | --- | --- |
//! | sees a new entry (phase tag, index), then reads what it announces | [`after_entry`] | writes data, then the entry | `dmb oshld` | `fence r, rw` |
//! | writes commands, lists and data, or reads entries, then writes an index in memory | [`before_index`] | reads the index, then the rest | `dmb osh` | `fence rw, w` |
//! | writes a shadow doorbell, then reads the event index | [`store_then_load`] | writes the event index, then reads the shadow | `dmb osh` | `fence rw, rw` |
//! | writes memory, then a register | [`before_register_write`] | is told by the register, then reads memory | `dmb oshst` | `fence w, o` |
//! | reads a register, then memory | [`after_register_read`] | writes memory, then changes the register | `dmb oshld` | `fence i, r` |
//!
//! x86 keeps all but the third in order by itself, and only the compiler is restrained; other
//! architectures get `core`'s strongest fence.
//!
//! Between threads of this system (a reset that locks doorbells out) `core`'s fences are right, and
//! stay.
//!
//! This module and `buffer` are the crate's only ones with `unsafe`.
#![allow(unsafe_code)]

#[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
use core::sync::atomic::compiler_fence;
#[cfg(not(any(
    target_arch = "aarch64",
    target_arch = "riscv64",
    target_arch = "riscv32"
)))]
use core::sync::atomic::{Ordering, fence};

macro_rules! barrier {
    ($(#[$doc:meta])* $name:ident, $arm:literal, $riscv:literal, $x86:expr) => {
        $(#[$doc])*
        #[inline(always)]
        pub fn $name() {
            // SAFETY: a barrier touches nothing.
            #[cfg(target_arch = "aarch64")]
            unsafe {
                core::arch::asm!($arm, options(nostack, preserves_flags));
            }
            // SAFETY: a barrier touches nothing.
            #[cfg(any(target_arch = "riscv64", target_arch = "riscv32"))]
            unsafe {
                core::arch::asm!($riscv, options(nostack, preserves_flags));
            }
            #[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
            $x86;
            #[cfg(not(any(
                target_arch = "aarch64",
                target_arch = "riscv64",
                target_arch = "riscv32",
                target_arch = "x86_64",
                target_arch = "x86"
            )))]
            fence(Ordering::SeqCst);
        }
    };
}

barrier! {
    /// After a new entry was seen in memory, before what it announces is read.
    after_entry, "dmb oshld", "fence r, rw", compiler_fence(Ordering::Acquire)
}

barrier! {
    /// After everything that an index announces was written or read, before the index is written to
    /// memory.
    before_index, "dmb osh", "fence rw, w", compiler_fence(Ordering::Release)
}

barrier! {
    /// Between a write to memory and a read from memory that the other side does in the opposite
    /// order.
    store_then_load, "dmb osh", "fence rw, rw", fence(Ordering::SeqCst)
}

barrier! {
    /// After memory was written, before a register is.
    before_register_write, "dmb oshst", "fence w, o", compiler_fence(Ordering::SeqCst)
}

barrier! {
    /// After a register was read, before memory is.
    after_register_read, "dmb oshld", "fence i, r", compiler_fence(Ordering::SeqCst)
}
