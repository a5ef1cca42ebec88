// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The path of a verb on a volume, and the memory that it needs.

use crate::store::NODE_MEMORY_BYTES;
use devices::path::OpenOptions;
use devices::transfer::{IoOptions, buffer_bytes};
use volume::layout::CHUNK_BYTES;

/// The longest buffer: no path transfers more with one command.
pub const MAX_BUFFER_BYTES: u64 = 16 << 20;

/// Memory for the slots that the look-ups of many files read.
const CACHE_BYTES: usize = 32 << 20;

/// The options of [`open_options`], and memory: to look a name up reads slots that other names need
/// again.
pub fn options_for_many(io: &IoOptions, write: bool) -> OpenOptions {
    let mut options = open_options(io, write);
    if io.route.cache.is_none() {
        options.cache_bytes = CACHE_BYTES;
    }
    options
}

/// The options for opening the path: memory for the buffers, two additional buffers and the
/// volume's nodes, and queue entries for the volume's own requests.
pub fn open_options(io: &IoOptions, write: bool) -> OpenOptions {
    let options = io.open_options(write);
    // If checksums are verified, a buffer has at least a chunk.
    let bytes = io.block_size.0.clamp(1, MAX_BUFFER_BYTES);
    let bytes = bytes.next_multiple_of(CHUNK_BYTES);
    let depth = io.queue_depth.min(64) + 2;
    OpenOptions {
        buffer_bytes: buffer_bytes(bytes, depth, usize::MAX)
            .saturating_add(NODE_MEMORY_BYTES)
            .saturating_add(1 << 20),
        // One buffer may take several commands, in addition to metadata.
        queue_depth: io.queue_depth.saturating_mul(2).clamp(32, 4096),
        ..options
    }
}
