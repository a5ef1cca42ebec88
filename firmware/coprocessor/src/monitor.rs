// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The second hart: runs the contexts in U-mode on their page tables, one at a time, and turns
//! their faults and calls into requests to the first hart.
//!
//! There is no S-mode part: every trap comes here, in machine mode, where addresses are physical. A
//! context runs until it calls [`YIELD`], ends, or is stopped.

use core::arch::{asm, global_asm};
use core::mem::offset_of;

use hardware::{machine, second};
use interface::mapped::{Ask, CONTEXTS, Mailbox, PAGE_BYTES, Reply, Request, WINDOW, WINDOW_PAGES};
use interface::{Code, CompletionStatus};

/// This hart.
pub const HART: usize = 1;
const COPROCESSOR: usize = 0;
const STACK_BYTES: usize = 4096;

/// Calls of an application beside those of [`Ask`]; the number is in a7.
const EXIT: u64 = 5;
const YIELD: u64 = 16;
const HANDLER: u64 = 17;

/// Causes of a trap (RISC-V privileged architecture, "Machine Cause Register").
const FETCH_ACCESS_FAULT: usize = 1;
const LOAD_ACCESS_FAULT: usize = 5;
const STORE_ACCESS_FAULT: usize = 7;
const CALL: usize = 8;
const FETCH_PAGE_FAULT: usize = 12;
const LOAD_PAGE_FAULT: usize = 13;
const STORE_PAGE_FAULT: usize = 15;

const A0: usize = 10;
const A1: usize = 11;
const A2: usize = 12;
const A7: usize = 17;
const SP: usize = 2;

/// What the two harts say to each other.
pub static MAILBOX: Mailbox = Mailbox::new();

/// The second hart's state of a context.
#[repr(C)]
struct Context {
    /// The program counter, then x1 to x31.
    registers: [u64; 32],
    satp: u64,
    /// Where an access that cannot be served continues; 0: it ends the context.
    handler: u64,
    is_runnable: bool,
}

static mut CONTEXT: [Context; CONTEXTS] = [const {
    Context {
        registers: [0; 32],
        satp: 0,
        handler: 0,
        is_runnable: false,
    }
}; CONTEXTS];
static mut CURRENT: usize = 0;
#[unsafe(no_mangle)]
static mut SECOND_STACK: [u128; STACK_BYTES / 16] = [0; STACK_BYTES / 16];

fn all() -> *mut [Context; CONTEXTS] {
    &raw mut CONTEXT
}

const _: () = assert!(offset_of!(Context, registers) == 0);

/// Makes a context ready to run: its tables, its program's entry, the top of its stack, and what it
/// finds in a0 and the registers after it.
///
/// # Safety
/// The second hart does not run yet.
pub unsafe fn prepare(context: usize, satp: u64, entry: u64, stack: u64, arguments: [u64; 5]) {
    // SAFETY: only this hart runs, by the caller's promise.
    let contexts = unsafe { &mut *all() };
    let Some(context) = contexts.get_mut(context) else {
        return;
    };
    let [pc, ..] = &mut context.registers;
    *pc = entry;
    let places = context.registers.iter_mut().skip(A0);
    places
        .zip(arguments)
        .for_each(|(place, argument)| *place = argument);
    if let Some(place) = context.registers.get_mut(SP) {
        *place = stack;
    }
    context.satp = satp;
    context.is_runnable = true;
}

/// Posts a request and waits for its answer.
fn ask(ask: Ask, context: usize, argument: u64, value: u64) -> Reply {
    MAILBOX.post(&Request {
        context: context as u32,
        ask,
        argument,
        value,
    });
    second::wake(COPROCESSOR);
    loop {
        if let Some(reply) = MAILBOX.reply() {
            // SAFETY: withdraws this hart's translations, of every address space: a page of another
            // context may have made space.
            unsafe { asm!("sfence.vma") };
            return reply;
        }
        second::sleep(HART, || MAILBOX.reply().is_some());
    }
}

/// The second hart, when the first one has woken it.
#[unsafe(no_mangle)]
extern "C" fn second_main() -> usize {
    unsafe extern "C" {
        static __mapped_start: u8;
        static __mapped_end: u8;
        static __image_start: u8;
        static __image_end: u8;
    }
    const OFF: usize = 0;
    const RANGE: usize = 1 << 3;
    const READ: usize = 1;
    const WRITE: usize = 2;
    const EXECUTE: usize = 4;
    let bounds = [
        &raw const __mapped_start,
        &raw const __mapped_end,
        &raw const __image_start,
        &raw const __image_end,
    ]
    .map(|place| place as usize >> 2);
    let rules = OFF | (RANGE | READ | WRITE) << 8 | OFF << 16 | (RANGE | READ | EXECUTE) << 24;
    // U-mode, and S-mode's walk of the tables, reach these two ranges and nothing else (RISC-V
    // privileged architecture, "Physical Memory Protection"). Nothing is delegated. An application
    // may read the counters.
    // SAFETY: configures this hart; machine mode is not affected.
    unsafe {
        asm!("csrw pmpaddr0, {0}", "csrw pmpaddr1, {1}", "csrw pmpaddr2, {2}", "csrw pmpaddr3, {3}",
             "csrw pmpcfg0, {4}", "sfence.vma", "csrw medeleg, zero", "csrw mideleg, zero",
             "csrw mcounteren, {5}", "csrw scounteren, {5}", "csrc mstatus, {6}",
             in(reg) bounds[0], in(reg) bounds[1], in(reg) bounds[2], in(reg) bounds[3],
             in(reg) rules, in(reg) 7usize, in(reg) 3usize << 11);
    }
    run_next(CONTEXTS - 1)
}

/// The registers of the next context after `last` that can run.
fn run_next(last: usize) -> usize {
    // SAFETY: only the second hart uses it since it runs, and no other reference is alive.
    let contexts = unsafe { &mut *all() };
    for step in 1..=CONTEXTS {
        let index = (last + step) % CONTEXTS;
        let Some(context) = contexts.get_mut(index) else {
            break;
        };
        if context.is_runnable {
            // SAFETY: as above; and machine mode uses no translation. Each context has an
            // identifier of its own, except on a hart without identifiers, for which the fence is.
            unsafe {
                CURRENT = index;
                asm!("csrw satp, {0}", "sfence.vma", in(reg) context.satp);
            }
            return (&raw mut context.registers) as usize;
        }
    }
    ask(Ask::Done, last, 0, 0);
    loop {
        // SAFETY: waits.
        unsafe { asm!("wfi") };
    }
}

/// A trap of the context that runs: the registers of the one that runs next.
#[unsafe(no_mangle)]
extern "C" fn second_trap(cause: usize, value: u64) -> usize {
    // SAFETY: only the second hart uses the two, and it has no other reference to them now.
    let (index, contexts) = unsafe { (CURRENT, &mut *all()) };
    let Some(context) = contexts.get_mut(index) else {
        machine::restart();
    };
    let registers = &mut context.registers;
    let page = value.wrapping_sub(WINDOW) / PAGE_BYTES as u64;
    let is_window = value >= WINDOW && page < WINDOW_PAGES as u64;
    let status = match cause {
        LOAD_PAGE_FAULT if is_window => ask(Ask::Load, index, page, 0).status,
        STORE_PAGE_FAULT if is_window => ask(Ask::Store, index, page, 0).status,
        CALL => {
            registers[0] += 4;
            let (first, second) = (registers[A0], registers[A1]);
            match registers[A7] {
                EXIT => {
                    ask(Ask::Exit, index, first, 0);
                    context.is_runnable = false;
                    return run_next(index);
                }
                YIELD => return run_next(index),
                HANDLER => context.handler = first,
                number => {
                    let reply = match number {
                        2 => ask(Ask::Sync, index, 0, 0),
                        3 => ask(Ask::Report, index, first, second),
                        4 => ask(Ask::Waited, index, 0, 0),
                        _ => Reply {
                            status: Code::BadOpcode.into(),
                            value: 0,
                        },
                    };
                    registers[A0] = pack(reply.status);
                    registers[A1] = reply.value;
                }
            }
            CompletionStatus::OK
        }
        FETCH_ACCESS_FAULT | LOAD_ACCESS_FAULT | STORE_ACCESS_FAULT | FETCH_PAGE_FAULT
        | LOAD_PAGE_FAULT | STORE_PAGE_FAULT => CompletionStatus {
            code: Code::OutsideGrant as u16,
            detail: cause as u32,
        },
        _ => CompletionStatus {
            code: Code::BadOpcode as u16,
            detail: cause as u32,
        },
    };
    if status != CompletionStatus::OK {
        if context.handler == 0 {
            ask(Ask::Stop, index, pack(status), value);
            context.is_runnable = false;
            return run_next(index);
        }
        registers[A0] = pack(status);
        registers[A1] = value;
        registers[A2] = registers[0];
        registers[0] = context.handler;
        // Once: an error in the handler itself would never end.
        context.handler = 0;
    }
    registers.as_mut_ptr() as usize
}

/// The code in the lower half, the detail in the upper one.
const fn pack(status: CompletionStatus) -> u64 {
    status.code as u64 | (status.detail as u64) << 32
}

global_asm!(
    r#"
    .macro all operation, skip
    .irp number, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30
    \operation x\number, 8*\number(t6)
    .endr
    .endm

    .section .text.second, "ax"
    .global second_start
    .type second_start, @function
second_start:
    csrw mscratch, zero
    la t0, second_entry
    csrw mtvec, t0
    li t0, 8
    csrw mie, t0
    // The first hart clears memory until it wakes this one: nothing but registers is used.
1:  wfi
    csrr t1, mip
    and t1, t1, t0
    beqz t1, 1b
    csrw mie, zero
    fence
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    la sp, SECOND_STACK + {stack}
    call second_main
    j second_resume

    .balign 4
    .global second_entry
    .type second_entry, @function
second_entry:
    csrrw t6, mscratch, t6
    beqz t6, 1f
    all sd
    csrrw t5, mscratch, zero
    sd t5, 248(t6)
    csrr t5, mepc
    sd t5, 0(t6)
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    la sp, SECOND_STACK + {stack}
    csrr a0, mcause
    csrr a1, mtval
    call second_trap
second_resume:
    mv t6, a0
    csrw mscratch, t6
    ld t5, 0(t6)
    csrw mepc, t5
    all ld
    ld t6, 248(t6)
    mret
    // A fault of this code itself: there is no context to blame.
1:  la sp, SECOND_STACK + {stack}
    csrr a0, mcause
    csrr a1, mepc
    csrr a2, mtval
    call firmware_trap
2:  wfi
    j 2b
"#,
    stack = const STACK_BYTES
);
