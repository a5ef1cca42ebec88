// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Markers that Callgrind understands (Valgrind manual, "Client requests"); on Arm and RISC-V those
//! of QEMU's plug-in (`lab/count/marker.h`). Plain no-ops elsewhere.

/// `CT` in the upper bytes, then the request's number.
const TOOL: u64 = (b'C' as u64) << 24 | (b'T' as u64) << 16;
const DUMP_STATS: u64 = TOOL;
const TOGGLE_COLLECT: u64 = TOOL + 2;

/// Starts counting, from its return on. A call, because Callgrind counts whole basic blocks.
#[inline(never)]
pub fn begin() {
    request(TOGGLE_COLLECT);
    #[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
    mark::<MARKER_BEGIN>();
}

/// Stops counting, from its call on.
#[inline(never)]
pub fn end() {
    request(TOGGLE_COLLECT);
    #[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
    mark::<MARKER_END>();
}

/// Writes the counts since the last dump to a separate file.
#[inline(never)]
pub fn dump() {
    request(DUMP_STATS);
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn request(number: u64) {
    let arguments = [number, 0, 0, 0, 0, 0];
    // SAFETY: the four rotations add up to 128 bits and so change nothing; Valgrind recognises
    // them, reads the arguments and sets rdx.
    unsafe {
        core::arch::asm!(
            "rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") arguments.as_ptr(),
            inout("rdx") 0_u64 => _,
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn request(_number: u64) {}

#[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
const MARKER_BEGIN: u32 = 1;
#[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
const MARKER_END: u32 = 2;

/// An instruction that changes nothing; the plug-in takes its immediate (label 0, and the kind).
#[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
#[inline(always)]
fn mark<const KIND: u32>() {
    // SAFETY: the destination is the register that is always zero.
    unsafe {
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!("movz xzr, #{0}", const 0x5000 + KIND);
        #[cfg(target_arch = "riscv64")]
        core::arch::asm!("lui zero, {0}", const 0x53000 + KIND);
    }
}
