// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The firmware's memory: sections whose sizes are fixed here, each handed out once.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use block::Buffer;
use nvme::controller_memory_bytes_without_shadows;

const CONTROLLER_BYTES: usize = controller_memory_bytes_without_shadows(drive::PAGE_BYTES);
/// A volume's node; one with longer nodes cannot be mounted here.
#[cfg(feature = "files")]
pub const NODE_BYTES: usize = 4096;
/// Files that can be open at the same time.
#[cfg(feature = "files")]
pub const FILES: usize = 4;
/// Data of the self-test and the benchmark: a buffer for each of eight commands.
#[cfg(feature = "check")]
pub const CHECK_BYTES: usize = 8 * (128 << 10);

#[repr(C, align(4096))]
struct Pages<const BYTES: usize>([u8; BYTES]);

#[unsafe(link_section = ".queues")]
static mut CONTROLLER: Pages<CONTROLLER_BYTES> = Pages([0; CONTROLLER_BYTES]);
#[unsafe(link_section = ".queues")]
static mut QUEUE: Pages<{ drive::MEMORY_BYTES }> = Pages([0; drive::MEMORY_BYTES]);
#[cfg(feature = "files")]
#[unsafe(link_section = ".nodes")]
static mut NODES: Pages<{ 3 * NODE_BYTES }> = Pages([0; 3 * NODE_BYTES]);
#[cfg(feature = "check")]
#[unsafe(link_section = ".buffers")]
static mut CHECK: Pages<CHECK_BYTES> = Pages([0; CHECK_BYTES]);

/// What was handed out, one bit each.
static LENT: AtomicU32 = AtomicU32::new(0);

fn once(bit: u32, start: *mut u8, len: usize) -> Buffer {
    let is_first = LENT.fetch_or(1 << bit, Ordering::Relaxed) & 1 << bit == 0;
    match NonNull::new(start) {
        // SAFETY: a static of this length that nothing else names, handed out once. Its bytes have
        // arbitrary values after a reset, but they are initialised.
        Some(start) if is_first => unsafe { Buffer::from_raw(start, len) },
        _ => Buffer::from_static(&mut []),
    }
}

/// The controller's memory.
pub fn controller() -> Buffer {
    once(0, (&raw mut CONTROLLER).cast(), CONTROLLER_BYTES)
}

/// The queue's memory.
pub fn queue() -> Buffer {
    once(1, (&raw mut QUEUE).cast(), drive::MEMORY_BYTES)
}

/// A volume's three nodes.
#[cfg(feature = "files")]
pub fn nodes() -> [Buffer; 3] {
    let all = once(2, (&raw mut NODES).cast(), 3 * NODE_BYTES);
    let (first, rest) = all.split_at(NODE_BYTES);
    let (second, third) = rest.split_at(NODE_BYTES);
    [first, second, third]
}

#[cfg(feature = "files")]
static mut OPEN_FILES: [volume::OpenFile; FILES] = [const { volume::OpenFile::new() }; FILES];

/// The table of open files; empty on the second call.
#[cfg(feature = "files")]
pub fn open_files() -> &'static mut [volume::OpenFile] {
    let is_first = LENT.fetch_or(1 << 4, Ordering::Relaxed) & 1 << 4 == 0;
    let files = &raw mut OPEN_FILES;
    if is_first {
        // SAFETY: nothing else names it, and it is handed out once.
        unsafe { &mut *files }
    } else {
        &mut []
    }
}

/// The data of the self-test and the benchmark.
#[cfg(feature = "check")]
pub fn check() -> Buffer {
    once(3, (&raw mut CHECK).cast(), CHECK_BYTES)
}

/// The memory of the contexts of the second hart.
#[cfg(feature = "mapped")]
pub mod mapped {
    use block::Buffer;
    use interface::mapped::{CONTEXT_TABLES, CONTEXTS, Frame, PAGE_BYTES, STACK_PAGES, Table};

    use super::{LENT, Ordering, Pages, once};

    /// The most pages that can be in memory at once.
    pub const FRAMES: usize = 64;
    const STACK_BYTES: usize = STACK_PAGES * PAGE_BYTES;

    /// Their page tables: not initialised; `build` writes every entry.
    #[unsafe(link_section = ".mapped")]
    pub static TABLES: [[Table; CONTEXT_TABLES]; CONTEXTS] =
        [const { [const { Table::new() }; CONTEXT_TABLES] }; CONTEXTS];
    #[unsafe(link_section = ".mapped")]
    static mut STACKS: [Pages<STACK_BYTES>; CONTEXTS] =
        [const { Pages([0; STACK_BYTES]) }; CONTEXTS];
    #[unsafe(link_section = ".mapped")]
    static mut DATA: Pages<{ FRAMES * PAGE_BYTES }> = Pages([0; FRAMES * PAGE_BYTES]);
    static mut RECORDS: [Frame; FRAMES] = [const { Frame::new() }; FRAMES];

    /// The frames, at most `count` of them; none on the second call.
    pub fn frames(count: usize) -> (&'static mut [Frame], Buffer) {
        let is_first = LENT.fetch_or(1 << 5, Ordering::Relaxed) & 1 << 5 == 0;
        let records = &raw mut RECORDS;
        let records: &mut [Frame] = if is_first {
            // SAFETY: nothing else names it, and it is handed out once.
            unsafe { &mut *records }
        } else {
            &mut []
        };
        let count = count.min(records.len());
        let (records, _) = records.split_at_mut(count);
        let data = once(6, (&raw mut DATA).cast(), FRAMES * PAGE_BYTES);
        (records, data)
    }

    /// The address of a context's stack, which is zeroed: an earlier program's data was in it.
    pub fn stack(context: usize) -> u64 {
        let start = (&raw mut STACKS).cast::<Pages<STACK_BYTES>>();
        let stack = start.wrapping_add(context.min(CONTEXTS - 1));
        // SAFETY: one of the stacks, which no hart uses yet.
        unsafe { stack.write_bytes(0, 1) };
        stack as u64
    }
}
