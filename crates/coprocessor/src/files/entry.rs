// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The coprocessor's file entries (`docs/coprocessor.md`, "Entries").

use block::fields::{u32_at, u64_at};
use volume::Name;

/// An open file's sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSizes {
    /// Size as last committed.
    pub committed: u64,
    /// Written so far, whatever is in flight after it.
    pub completed: u64,
    /// The offset of the next append.
    pub appended: u64,
    /// Bytes reserved after that.
    pub reserved: u64,
}

/// A file of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedFile {
    /// Its name.
    pub name: Name,
    /// Its slot.
    pub slot: u32,
    /// Bytes of data.
    pub size_bytes: u64,
    /// Bytes that it occupies.
    pub allocated_bytes: u64,
    /// When it was last committed, in nanoseconds since 1970; 0 where no clock was set.
    pub mtime_ns: u64,
    /// The application's number.
    pub app_tag: u64,
    /// Whether it has checksums.
    pub checksums: bool,
}

/// A file's entry as the coprocessor wrote it.
pub(super) fn entry(bytes: &[u8]) -> Option<ListedFile> {
    let len = u32_at(bytes, 0x28) as usize;
    let name = bytes.get(0x30..0x30_usize.checked_add(len)?)?;
    Some(ListedFile {
        name: Name::new(core::str::from_utf8(name).ok()?).ok()?,
        slot: u32_at(bytes, 0),
        checksums: u32_at(bytes, 4) & 1 != 0,
        size_bytes: u64_at(bytes, 8),
        allocated_bytes: u64_at(bytes, 16),
        mtime_ns: u64_at(bytes, 24),
        app_tag: u64_at(bytes, 32),
    })
}
