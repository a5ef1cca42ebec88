// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From reset to `main`: one hart runs, the others wait forever (with the feature `mapped` the
//! second one waits to be woken, see `monitor`); sets up the stack, cleared memory, and the trap
//! handler for the watchdog's timer and every fault.

use core::arch::global_asm;

/// Bytes of stack by enabled features: what `make figures ONLY=firmware` computes from the code,
/// rounded up to half a KiB. With record and play it also holds the state of two streams.
pub const STACK_BYTES: usize = match (
    usize::BITS,
    cfg!(feature = "stream"),
    cfg!(feature = "files"),
) {
    _ if cfg!(feature = "mapped") => 32 << 10,
    (32, true, _) => 92 << 9,
    (32, false, true) if cfg!(feature = "check") => 29 << 10,
    (32, false, true) => 57 << 9,
    (32, false, false) => 13 << 10,
    (_, true, _) => 105 << 9,
    (_, false, true) => 61 << 9,
    (_, false, false) => 29 << 9,
};

/// The stack, in its own section so that the build prints its size.
#[unsafe(link_section = ".stack")]
#[used]
static mut STACK: [u8; STACK_BYTES] = [0; STACK_BYTES];

#[cfg(target_pointer_width = "32")]
global_asm!(
    ".macro push register, at",
    "sw \\register, 4*\\at(sp)",
    ".endm",
    ".macro pull register, at",
    "lw \\register, 4*\\at(sp)",
    ".endm"
);
#[cfg(target_pointer_width = "64")]
global_asm!(
    ".macro push register, at",
    "sd \\register, 8*\\at(sp)",
    ".endm",
    ".macro pull register, at",
    "ld \\register, 8*\\at(sp)",
    ".endm"
);

#[cfg(feature = "mapped")]
global_asm!(
    ".macro others",
    "li t1, 1",
    "bne t0, t1, 8f",
    "j second_start",
    "8:",
    ".endm"
);
#[cfg(not(feature = "mapped"))]
global_asm!(".macro others", ".endm");

global_asm!(
    r#"
    .section .text.start, "ax"
    .global _start
    .type _start, @function
_start:
    csrw mie, zero
    csrr t0, mhartid
    others
    bnez t0, 9f
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    la sp, __stack_top
    la t0, trap_entry
    csrw mtvec, t0
    la t0, __bss_start
    la t1, __bss_end
1:  bgeu t0, t1, 2f
    sw zero, 0(t0)
    addi t0, t0, 4
    j 1b
2:  mv a0, a1
    call firmware_main
9:  wfi
    j 9b

    .balign 4
    .type trap_entry, @function
trap_entry:
    addi sp, sp, -128
    push ra, 0
    push t0, 1
    push t1, 2
    push t2, 3
    push t3, 4
    push t4, 5
    push t5, 6
    push t6, 7
    push a0, 8
    push a1, 9
    push a2, 10
    push a3, 11
    push a4, 12
    push a5, 13
    push a6, 14
    push a7, 15
    csrr a0, mcause
    csrr a1, mepc
    csrr a2, mtval
    call firmware_trap
    pull ra, 0
    pull t0, 1
    pull t1, 2
    pull t2, 3
    pull t3, 4
    pull t4, 5
    pull t5, 6
    pull t6, 7
    pull a0, 8
    pull a1, 9
    pull a2, 10
    pull a3, 11
    pull a4, 12
    pull a5, 13
    pull a6, 14
    pull a7, 15
    addi sp, sp, 128
    mret
"#
);

// What functions begin and end with, once instead of in each (the psABI's save and restore
// routines; the compiler calls them with the feature `save-restore`): the return address and the
// first N saved registers, from the top of the caller's frame down. A routine that keeps more
// registers than it was asked for does no harm.
#[cfg(target_arch = "riscv32")]
global_asm!(
    r#"
    .macro routine kind, numbers:vararg
    .irp number, \numbers
    .global __riscv_\kind\()_\number
    .type __riscv_\kind\()_\number, @function
__riscv_\kind\()_\number:
    .endr
    .endm
    .macro each operation, frame, registers:vararg
    .set at, \frame
    .irp register, \registers
    .set at, at - 4
    \operation \register, at(sp)
    .endr
    .endm
    .macro keep frame, registers:vararg
    addi sp, sp, -\frame
    each sw, \frame, \registers
    jr t0
    .endm
    .macro give_back frame, registers:vararg
    each lw, \frame, \registers
    addi sp, sp, \frame
    ret
    .endm

    .section .text.routines, "ax"
    routine save, 12
    keep 64, ra, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11
    routine save, 11, 10, 9, 8
    keep 48, ra, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10
    routine save, 7, 6, 5, 4
    keep 32, ra, s0, s1, s2, s3, s4, s5, s6
    routine save, 3, 2, 1, 0
    keep 16, ra, s0, s1, s2
    routine restore, 12
    give_back 64, ra, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11
    routine restore, 11, 10, 9, 8
    give_back 48, ra, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10
    routine restore, 7, 6, 5, 4
    give_back 32, ra, s0, s1, s2, s3, s4, s5, s6
    routine restore, 3, 2, 1, 0
    give_back 16, ra, s0, s1, s2
"#
);
