//! The firmware's memory: sections whose sizes are fixed here, each lent once.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use block::Buffer;
use nvme::{controller_memory_bytes, queue_memory_bytes};

/// Commands in the drive's queue.
pub const DEPTH: usize = 16;
/// The longest transfer of one command.
pub const MAX_TRANSFER_BYTES: usize = 256 << 10;
/// The controller's page.
pub const PAGE_BYTES: usize = 4096;
/// A volume's node; one with longer nodes cannot be mounted here.
pub const NODE_BYTES: usize = 4096;
/// Data of the self-test and the benchmark: a buffer for each of eight commands.
pub const CHECK_BYTES: usize = 8 * (128 << 10);

#[repr(C, align(4096))]
struct Pages<const BYTES: usize>([u8; BYTES]);

#[unsafe(link_section = ".queues")]
static mut CONTROLLER: Pages<{ controller_memory_bytes(PAGE_BYTES) }> =
    Pages([0; controller_memory_bytes(PAGE_BYTES)]);
#[unsafe(link_section = ".queues")]
static mut QUEUE: Pages<{ queue_memory_bytes(DEPTH, MAX_TRANSFER_BYTES, PAGE_BYTES) }> =
    Pages([0; queue_memory_bytes(DEPTH, MAX_TRANSFER_BYTES, PAGE_BYTES)]);
#[cfg(feature = "files")]
#[unsafe(link_section = ".nodes")]
static mut NODES: Pages<{ 3 * NODE_BYTES }> = Pages([0; 3 * NODE_BYTES]);
#[cfg(feature = "check")]
#[unsafe(link_section = ".buffers")]
static mut CHECK: Pages<CHECK_BYTES> = Pages([0; CHECK_BYTES]);

/// What was lent, a bit each.
static LENT: AtomicU32 = AtomicU32::new(0);

fn once(bit: u32, start: *mut u8, len: usize) -> Buffer {
    let is_first = LENT.fetch_or(1 << bit, Ordering::Relaxed) & 1 << bit == 0;
    match NonNull::new(start) {
        // SAFETY: a static of this length that nothing else names, lent once. Its bytes may be
        // anything, as those of any memory are after a reset; they are initialised all the same.
        Some(start) if is_first => unsafe { Buffer::from_raw(start, len) },
        _ => Buffer::from_static(&mut []),
    }
}

/// The controller's memory.
pub fn controller() -> Buffer {
    once(0, (&raw mut CONTROLLER).cast(), controller_memory_bytes(PAGE_BYTES))
}

/// The queue's memory.
pub fn queue() -> Buffer {
    once(1, (&raw mut QUEUE).cast(), queue_memory_bytes(DEPTH, MAX_TRANSFER_BYTES, PAGE_BYTES))
}

/// A volume's three nodes.
#[cfg(feature = "files")]
pub fn nodes() -> [Buffer; 3] {
    let all = once(2, (&raw mut NODES).cast(), 3 * NODE_BYTES);
    let (first, rest) = all.split_at(NODE_BYTES);
    let (second, third) = rest.split_at(NODE_BYTES);
    [first, second, third]
}

/// The data of the self-test and the benchmark.
#[cfg(feature = "check")]
pub fn check() -> Buffer {
    once(3, (&raw mut CHECK).cast(), CHECK_BYTES)
}
