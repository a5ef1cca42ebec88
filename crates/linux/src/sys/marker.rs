// SPDX-License-Identifier: Apache-2.0 OR MIT
//! No-operations that an emulator with the lab's counter knows. On other machines they do nothing.
#![allow(unsafe_code)]

/// The instruction of `lab/count/marker.h` for this label: `nopl DISPLACEMENT(%rax)`.
macro_rules! marker {
    ($kind:literal) => {
        // SAFETY: a no-operation with an operand, which it neither reads nor writes.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            core::arch::asm!(
                concat!("nop dword ptr [rax + 0x5357f0", $kind, "]"),
                options(nostack, preserves_flags)
            );
        }
    };
}

/// Begins a count of label 240.
#[inline(always)]
pub(crate) fn begin() {
    marker!("01");
}

/// Ends it.
#[inline(always)]
pub(crate) fn end() {
    marker!("02");
}
