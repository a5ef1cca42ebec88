// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Page tables of a context (RISC-V privileged architecture, "Sv39: Page-Based 39-bit
//! Virtual-Memory System").
//!
//! Three ranges of addresses exist in each context: the program, its stack, and the window. The
//! tables of all of them are made once; afterwards only entries of the window's last level change.

use core::sync::atomic::{AtomicU64, Ordering};

/// Bits of an entry.
pub(super) const VALID: u64 = 1;
pub(super) const READ: u64 = 1 << 1;
pub(super) const WRITE: u64 = 1 << 2;
pub(super) const EXECUTE: u64 = 1 << 3;
pub(super) const USER: u64 = 1 << 4;
pub(super) const ACCESSED: u64 = 1 << 6;
pub(super) const DIRTY: u64 = 1 << 7;
const NUMBER_SHIFT: u32 = 10;
const PAGE_SHIFT: u32 = 12;
const ENTRIES: usize = 512;
const SV39: u64 = 8 << 60;

/// The address of a program's first byte.
pub const IMAGE: u64 = 0x4000_0000;
/// The longest program, in pages.
pub const IMAGE_PAGES: usize = 256;
/// The address after the stack's last byte.
pub const STACK_TOP: u64 = IMAGE + (ENTRIES << PAGE_SHIFT) as u64;
/// A context's stack, in pages.
pub const STACK_PAGES: usize = 4;
/// The address of the window's first byte.
pub const WINDOW: u64 = 0x10_0000_0000;
/// Tables of the window's last level.
const LEAVES: usize = 32;
/// The longest window, in pages.
pub const WINDOW_PAGES: usize = LEAVES * ENTRIES;
/// Tables of a context: the root, two for the program and its stack, and those of the window.
pub const CONTEXT_TABLES: usize = 4 + LEAVES;

/// A page table. The hart that walks it may set bits of its entries at any time.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Table([AtomicU64; ENTRIES]);

impl Table {
    /// No entry is valid.
    pub const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; ENTRIES])
    }

    /// Its physical address: the coprocessor's addresses are physical.
    pub fn address(&self) -> u64 {
        core::ptr::from_ref(self) as u64
    }

    pub(super) fn entry(&self, index: usize) -> &AtomicU64 {
        &self.0[index % ENTRIES]
    }
}

impl Default for Table {
    fn default() -> Self {
        Self::new()
    }
}

/// Where a context's program and stack are.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Physical address of the program.
    pub image: u64,
    /// Its length in pages, at most [`IMAGE_PAGES`].
    pub image_pages: usize,
    /// Physical address of [`STACK_PAGES`] pages for the stack.
    pub stack: u64,
    /// A page that becomes readable after the program's last possible one; no context needs it.
    /// For tests of the memory protection below the tables.
    pub leak: Option<u64>,
}

/// An entry for the page at this physical address.
pub(super) const fn leaf(address: u64, rights: u64) -> u64 {
    address >> PAGE_SHIFT << NUMBER_SHIFT | rights | USER | ACCESSED | VALID
}

fn point(table: &Table, index: usize, next: &Table) {
    let entry = next.address() >> PAGE_SHIFT << NUMBER_SHIFT | VALID;
    table.entry(index).store(entry, Ordering::Relaxed);
}

/// The physical address that an entry points to.
pub(super) const fn physical(entry: u64) -> u64 {
    entry >> NUMBER_SHIFT << PAGE_SHIFT
}

/// The index into the table of this level, 2 for the root.
pub(super) const fn index(address: u64, level: u32) -> usize {
    (address >> (PAGE_SHIFT + 9 * level)) as usize % ENTRIES
}

/// Makes a context's tables: its program executable and readable, its stack writable, its window
/// absent. Returns the window's last level.
pub fn build<'t>(tables: &'t [Table; CONTEXT_TABLES], layout: &Layout) -> &'t [Table] {
    let [root, image_middle, image, window_middle, window @ ..] = tables;
    for entry in tables.iter().flat_map(|table| &table.0) {
        entry.store(0, Ordering::Relaxed);
    }
    point(root, index(IMAGE, 2), image_middle);
    point(image_middle, index(IMAGE, 1), image);
    point(root, index(WINDOW, 2), window_middle);
    for (at, table) in window.iter().enumerate() {
        point(window_middle, index(WINDOW, 1) + at, table);
    }
    let set = |at: usize, physical: u64, rights: u64| {
        let entry = leaf(physical, rights);
        image.entry(at).store(entry, Ordering::Relaxed);
    };
    for page in 0..layout.image_pages.min(IMAGE_PAGES) {
        set(
            page,
            layout.image + (page << PAGE_SHIFT) as u64,
            READ | EXECUTE,
        );
    }
    for page in 0..STACK_PAGES {
        let physical = layout.stack + (page << PAGE_SHIFT) as u64;
        set(ENTRIES - STACK_PAGES + page, physical, READ | WRITE | DIRTY);
    }
    if let Some(leak) = layout.leak {
        set(IMAGE_PAGES, leak, READ);
    }
    window
}

/// The value of `satp` for a context's tables: its address space has this identifier.
pub fn satp(tables: &[Table; CONTEXT_TABLES], identifier: u16) -> u64 {
    let [root, ..] = tables;
    SV39 | u64::from(identifier) << 44 | root.address() >> PAGE_SHIFT
}
