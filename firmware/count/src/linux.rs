// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the program needs of Linux: to write, to end, and memory. The crate's only module with
//! `unsafe`.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::fmt;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicUsize, Ordering};

const MEMORY_BYTES: usize = 128 << 20;

/// Memory that is only given: the program is short.
struct Memory {
    bytes: UnsafeCell<[u8; MEMORY_BYTES]>,
    given: AtomicUsize,
}

// SAFETY: each byte is given once.
unsafe impl Sync for Memory {}

#[global_allocator]
static MEMORY: Memory = Memory {
    bytes: UnsafeCell::new([0; MEMORY_BYTES]),
    given: AtomicUsize::new(0),
};

// SAFETY: what is given is inside, aligned, zero, and given once.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let start = self.bytes.get() as usize;
        let given = start + self.given.load(Ordering::Relaxed);
        let first = given.next_multiple_of(layout.align()) - start;
        if first + layout.size() > MEMORY_BYTES {
            return core::ptr::null_mut();
        }
        self.given.store(first + layout.size(), Ordering::Relaxed);
        // SAFETY: inside, as just checked.
        unsafe { self.bytes.get().cast::<u8>().add(first) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise; it was never given before, and is zero.
        unsafe { self.alloc(layout) }
    }

    unsafe fn dealloc(&self, _memory: *mut u8, _layout: Layout) {}
}

const WRITE: usize = 64;
const EXIT_GROUP: usize = 94;

/// A system call; the numbers are those of Arm and RISC-V.
#[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
fn call(number: usize, arguments: [usize; 3]) {
    let [first, second, third] = arguments;
    // SAFETY: `write` reads the caller's slice, and `exit_group` nothing.
    unsafe {
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!("svc 0", in("x8") number, inout("x0") first => _, in("x1") second, in("x2") third);
        #[cfg(target_arch = "riscv64")]
        core::arch::asm!("ecall", in("a7") number, inout("a0") first => _, in("a1") second, in("a2") third);
    }
}

/// On another processor the program is only linted.
#[cfg(not(any(target_arch = "aarch64", target_arch = "riscv64")))]
fn call(_number: usize, _arguments: [usize; 3]) {}

/// Ends the program.
pub fn exit(status: usize) -> ! {
    loop {
        call(EXIT_GROUP, [status, 0, 0]);
        core::hint::spin_loop();
    }
}

/// Standard output.
pub struct Output;

impl fmt::Write for Output {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        call(WRITE, [1, text.as_ptr() as usize, text.len()]);
        Ok(())
    }
}

#[panic_handler]
fn panic(information: &PanicInfo<'_>) -> ! {
    let _ = fmt::Write::write_fmt(&mut Output, format_args!("{information}\n"));
    exit(1)
}
