// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The processor's time counter and its properties.
#![allow(unsafe_code)]

/// The counter's value now.
pub(crate) use events::counter as read;

/// The counter's ticks per second, if the processor reports them.
#[cfg(target_arch = "aarch64")]
pub(crate) fn stated_frequency() -> Option<u64> {
    let value: u64;
    // SAFETY: as for the counter.
    unsafe {
        core::arch::asm!("mrs {}, cntfrq_el0", out(reg) value, options(nomem, nostack));
    }
    (value >= 1000).then_some(value)
}

/// The counter's ticks per second, if the processor reports them.
#[cfg(not(target_arch = "aarch64"))]
pub(crate) fn stated_frequency() -> Option<u64> {
    None
}

/// Whether the processor reports that the counter runs at one rate in every state.
#[cfg(target_arch = "x86_64")]
pub(crate) fn is_invariant() -> bool {
    use core::arch::x86_64::__cpuid;
    __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
}

/// Whether the processor reports that the counter runs at one rate in every state.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn is_invariant() -> bool {
    cfg!(target_arch = "aarch64")
}

/// Whether this processor is emulated by QEMU's TCG.
#[cfg(target_arch = "x86_64")]
pub(crate) fn is_tcg() -> bool {
    use core::arch::x86_64::__cpuid;
    let has_hypervisor = __cpuid(1).ecx & (1 << 31) != 0;
    if !has_hypervisor {
        return false;
    }
    let leaf = __cpuid(0x4000_0000);
    let name = [leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes);
    name.as_flattened() == b"TCGTCGTCGTCG"
}

/// Whether this processor is emulated by QEMU's TCG.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn is_tcg() -> bool {
    false
}
