// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The layout of the shared window (`docs/coprocessor.md`, "The window"). All numbers are
//! little-endian; offsets are in bytes.

/// The first eight bytes: `SWCOPRO` and the major version.
pub const MAGIC: u64 = u64::from_le_bytes(*b"SWCOPRO1");
/// The version of the interface: major in the upper half, minor in the lower.
pub const VERSION: u32 = 1 << 16 | 2;
/// Clients that can be attached at the same time.
pub const CLIENTS: usize = 4;
/// Entries of each ring, a power of two.
pub const RING_ENTRIES: u32 = 32;
/// Commands of one client that may be in flight: its credits.
pub const CREDITS: u32 = 16;
/// A submission entry.
pub const SUBMISSION_BYTES: usize = 32;
/// A completion entry.
pub const COMPLETION_BYTES: usize = 16;
/// A file's entry, as `List` writes it, with the longest name.
pub const ENTRY_BYTES: usize = 304;
/// The same in version 1.1, which had names of at most 64 bytes.
pub const SHORT_ENTRY_BYTES: usize = 112;
/// The table with which a client begins a stream.
pub const ORDER_BYTES: usize = 96;
/// The report that it gets at the end.
pub const REPORT_BYTES: usize = 448;
/// Most places of a stream's ring: one credit is kept for its end.
pub const STREAM_PLACES: usize = 15;
/// Pages of the window.
pub const PAGE_BYTES: usize = 4096;
/// Where data begins, after the header and the clients' pages.
pub const DATA_OFFSET: usize = 64 << 10;
/// The smallest window: a page of data for each client.
pub const MIN_WINDOW_BYTES: usize = DATA_OFFSET + CLIENTS * PAGE_BYTES;

/// The header, at the beginning of the window. The coprocessor writes it, clients read it.
pub mod header {
    /// [`MAGIC`](super::MAGIC); written last when the coprocessor starts.
    pub const MAGIC: usize = 0x00;
    /// [`VERSION`](super::VERSION).
    pub const VERSION: usize = 0x08;
    /// A number that changes with each start.
    pub const BOOT: usize = 0x0c;
    /// See [`State`](crate::State).
    pub const STATE: usize = 0x10;
    /// Why it failed: a status code.
    pub const REASON: usize = 0x14;
    /// How many clients there can be.
    pub const CLIENTS: usize = 0x18;
    /// Entries of each ring.
    pub const ENTRIES: usize = 0x1c;
    /// Length of the window.
    pub const WINDOW_BYTES: usize = 0x20;
    /// A counter that advances while the coprocessor is alive.
    pub const BEAT: usize = 0x28;
    /// Commands of a client that may be in flight.
    pub const CREDITS: usize = 0x2c;
    /// The drive's geometry.
    pub const BLOCK_LOG2: usize = 0x30;
    /// Longest transfer in blocks.
    pub const MAX_BLOCKS: usize = 0x34;
    /// Size in blocks.
    pub const BLOCK_COUNT: usize = 0x38;
    /// The drive's features; see `FEATURE_...`.
    pub const FEATURES: usize = 0x40;
    /// Alignment of data in bytes.
    pub const DATA_ALIGN: usize = 0x44;
    /// The drive's serial number, 20 bytes padded with spaces.
    pub const SERIAL: usize = 0x48;
    /// The drive's model, 40 bytes padded with spaces.
    pub const MODEL: usize = 0x60;
    /// The clients' grants, one after the other.
    pub const GRANTS: usize = 0x100;
    /// Length of a grant: data offset, data length, first block, block count (64 bits each),
    /// rights, reserved (32 bits each).
    pub const GRANT_BYTES: usize = 40;
}

/// Bits of the drive's features.
pub mod feature {
    /// Completed writes may be lost at a power cut until a flush.
    pub const VOLATILE_CACHE: u32 = 1;
    /// A write can be made durable by itself.
    pub const FUA: u32 = 2;
    /// Blocks can be given back.
    pub const DISCARD: u32 = 4;
    /// Blocks can be zeroed.
    pub const WRITE_ZEROES: u32 = 8;
    /// The drive is read-only.
    pub const READ_ONLY: u32 = 16;
    /// The coprocessor offers file operations.
    pub const FILES: u32 = 32;
    /// The coprocessor offers record and play.
    pub const STREAM: u32 = 64;
}

/// A client's page. The client writes the first line, the coprocessor the second.
pub mod client {
    /// The number of the client's session, not zero; written last.
    pub const ATTACH: usize = 0x00;
    /// The requested access; see [`Access`](crate::Access).
    pub const ACCESS: usize = 0x04;
    /// The doorbell: entries submitted so far.
    pub const TAIL: usize = 0x08;
    /// Completions taken so far.
    pub const HEAD: usize = 0x0c;
    /// Changed by the client while it is alive, if it asked for a lease.
    pub const BEAT: usize = 0x10;
    /// Its session ends when `BEAT` has not changed for this many milliseconds; 0: never.
    pub const LEASE_MS: usize = 0x14;
    /// The session that the coprocessor serves.
    pub const ACCEPTED: usize = 0x40;
    /// The session that it last refused or ended.
    pub const ENDED: usize = 0x44;
    /// Why: a status code.
    pub const REASON: usize = 0x48;
    /// The completion ring.
    pub const COMPLETIONS: usize = 0x400;
    /// The submission ring.
    pub const SUBMISSIONS: usize = 0x800;
}

/// The offset of client `index`'s page.
pub const fn client_offset(index: usize) -> usize {
    (1 + index) * PAGE_BYTES
}

const _: () = {
    let ring = RING_ENTRIES as usize;
    assert!(client::COMPLETIONS + ring * COMPLETION_BYTES <= client::SUBMISSIONS);
    assert!(client::SUBMISSIONS + ring * SUBMISSION_BYTES <= PAGE_BYTES);
    assert!(client_offset(CLIENTS) <= DATA_OFFSET);
    assert!(STREAM_PLACES < CREDITS as usize);
    assert!(CREDITS <= RING_ENTRIES && RING_ENTRIES.is_power_of_two());
};

/// One client's part of the data: equal parts, whole pages.
pub const fn data_part(window_bytes: usize, index: usize) -> (usize, usize) {
    let part = ((window_bytes - DATA_OFFSET) / CLIENTS) & !(PAGE_BYTES - 1);
    (DATA_OFFSET + index * part, part)
}
