// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an application asks of the coprocessor (`docs/coprocessor.md`, "Mapped storage"); the only
//! `unsafe`.

use core::arch::global_asm;

/// The values that a call returns in two registers.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// The status: its code in the lower half, its detail in the upper one.
    pub status: u64,
    /// A number.
    pub value: u64,
}

unsafe extern "C" {
    fn application_call(argument: u64, value: u64, number: u64) -> Answer;
    fn application_load(address: u64) -> Answer;
    fn application_store(address: u64, value: u64) -> Answer;
    fn application_jump(address: u64) -> Answer;
    fn application_privileged(unused: u64) -> Answer;
    fn application_count() -> u64;
}

global_asm!(
    r#"
    .section .text.calls, "ax"
    .global start
    .type start, @function
start:
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    call application_main
    li a7, 5
    ecall

    .global application_call
application_call:
    mv a7, a2
    ecall
    ret

    // Each of these has no frame, so the handler returns from it, with the status that it was
    // given.
    .macro guard
    mv a4, a0
    la a0, 9f
    li a7, 17
    ecall
    mv a0, a4
    .endm
    .global application_load
application_load:
    guard
    ld a1, 0(a0)
    li a0, 0
    ret
    .global application_store
application_store:
    guard
    sd a1, 0(a0)
    li a0, 0
    ret
    .global application_privileged
application_privileged:
    guard
    csrr a1, satp
    li a0, 0
    ret
    .global application_jump
application_jump:
    guard
    jr a0
9:  ret

    .global application_count
application_count:
    rdinstret a0
    ret
"#
);

/// Ends the context's use of the hart until all others have had it.
pub fn yields() {
    // SAFETY: an environment call changes a0, a1 and a7 at most.
    let _ = unsafe { application_call(0, 0, 16) };
}

/// Makes what was stored durable: the status.
pub fn sync() -> u64 {
    // SAFETY: as in `yields`.
    unsafe { application_call(0, 0, 2) }.status
}

/// Writes a line to the coprocessor's log.
pub fn report(text: &[u8; 8], value: u64) {
    // SAFETY: as in `yields`.
    let _ = unsafe { application_call(u64::from_le_bytes(*text), value, 3) };
}

/// The instructions that the coprocessor has spent waiting for the drive.
pub fn waited() -> u64 {
    // SAFETY: as in `yields`.
    unsafe { application_call(0, 0, 4) }.value
}

/// The instructions that were executed.
pub fn instructions() -> u64 {
    // SAFETY: reads a counter.
    unsafe { application_count() }
}

/// Loads eight bytes.
///
/// # Errors
/// The status of an address that cannot be loaded from.
pub fn load(address: u64) -> Result<u64, u64> {
    // SAFETY: only loads, and an error ends in the handler.
    let answer = unsafe { application_load(address) };
    match answer.status {
        0 => Ok(answer.value),
        status => Err(status),
    }
}

/// Stores eight bytes to the window, or anywhere that this context cannot store to.
///
/// # Errors
/// The status of an address that cannot be stored to.
pub fn store(address: u64, value: u64) -> Result<(), u64> {
    // SAFETY: the callers give addresses of the window, in which no Rust object is, or ones that
    // must fault.
    match unsafe { application_store(address, value) }.status {
        0 => Ok(()),
        status => Err(status),
    }
}

/// Continues at an address that must not be executable: the status.
pub fn jump(address: u64) -> u64 {
    // SAFETY: the tests fail if this does not fault.
    unsafe { application_jump(address) }.status
}

/// Reads a register of the supervisor: the status.
pub fn privileged() -> u64 {
    // SAFETY: it is not permitted in U-mode.
    unsafe { application_privileged(0) }.status
}
