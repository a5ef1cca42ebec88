// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads and stores whose SIGBUS is their result: its handler steps over the instruction and says
//! so in a register.
#![allow(unsafe_code)]

use crate::Result;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::{io, ptr};

/// The bytes of the two instructions below.
#[cfg(target_arch = "x86_64")]
const LOAD_AND_STORE: [[u8; 2]; 2] = [[0x8a, 0x07], [0x88, 0x07]];
#[cfg(target_arch = "aarch64")]
const LOAD_AND_STORE: [[u8; 4]; 2] = [0x3940_0002u32.to_le_bytes(), 0x3900_0002u32.to_le_bytes()];

/// Installs the handler. Before any map: theirs passes on to it what they do not serve.
pub fn install() -> Result<()> {
    // SAFETY: all zeroes is a valid action, which is whole then.
    let result = unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void) = step_over;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut())
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error().into()),
    }
}

extern "C" fn step_over(signal: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the third argument of a handler is the context, whole.
    let machine = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    let [at, flag] = [libc::REG_RIP, libc::REG_RSI].map(|number| number as usize);
    #[cfg(target_arch = "x86_64")]
    let (at, flag) = {
        let (low, high) = machine.gregs.split_at_mut(at);
        (&mut high[0], &mut low[flag])
    };
    #[cfg(target_arch = "aarch64")]
    let (at, flag) = (&mut machine.pc, &mut machine.regs[1]);
    // SAFETY: the instruction that was interrupted.
    let instruction = unsafe { ptr::read_unaligned(*at as *const _) };
    if LOAD_AND_STORE.contains(&instruction) {
        *at = at.wrapping_add(size_of_val(&instruction) as _);
        *flag = 1;
    } else {
        // A bug: the instruction is repeated, and ends the process.
        // SAFETY: the default action needs nothing.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Loads a byte; None if that is an error.
///
/// # Safety
/// `byte` is in a map that is alive, and no other thread stores to it.
pub unsafe fn load(byte: *const u8) -> Option<u8> {
    let (value, refused): (u8, usize);
    // SAFETY: the caller's promise, and the handler sets `refused` in place of the load.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("mov al, byte ptr [rdi]", in("rdi") byte, inout("rsi") 0usize => refused,
                        out("al") value, options(nostack));
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("ldrb w2, [x0]", in("x0") byte, inout("x1") 0usize => refused,
                        out("w2") value, options(nostack));
    }
    (refused == 0).then_some(value)
}

/// Stores a byte; None if that is an error.
///
/// # Safety
/// As of [`load`], and the map is writable.
pub unsafe fn store(byte: *mut u8, value: u8) -> Option<()> {
    let refused: usize;
    // SAFETY: as above.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("mov byte ptr [rdi], al", in("rdi") byte, inout("rsi") 0usize => refused,
                        in("al") value, options(nostack));
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("strb w2, [x0]", in("x0") byte, inout("x1") 0usize => refused,
                        in("w2") value, options(nostack));
    }
    (refused == 0).then_some(())
}
