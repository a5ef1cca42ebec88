// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a driver sees: the features (5.2.3), and the configuration space (5.2.4), whose integers
//! are little-endian.

use block::Geometry;
use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_F_BLK_SIZE, VIRTIO_BLK_F_DISCARD, VIRTIO_BLK_F_FLUSH, VIRTIO_BLK_F_MQ,
    VIRTIO_BLK_F_RO, VIRTIO_BLK_F_SEG_MAX, VIRTIO_BLK_F_SIZE_MAX, VIRTIO_BLK_F_TOPOLOGY,
    VIRTIO_BLK_F_WRITE_ZEROES,
};
use virtio_bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};

/// Bytes of the protocol's sector, whatever the device's block.
pub const SECTOR_BYTES: u64 = 512;
/// Bytes of the identifier that a driver asks for (5.2.6, VIRTIO_BLK_T_GET_ID).
pub const ID_BYTES: usize = 20;
/// Bytes of the configuration space up to `write_zeroes_may_unmap` and its padding.
const CONFIG_BYTES: usize = 60;
/// Data segments of a request: with its head and its status they fit a queue of 128 without
/// indirect descriptors.
const SEGMENTS: u32 = 126;
/// Sectors that one request discards or zeroes: 2 GiB.
const RANGE_SECTORS: u32 = 1 << 22;
/// The unit of a segment's limit.
const PAGE_BYTES: u32 = 4096;

/// A range of the disk, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub offset_bytes: u64,
    pub len_bytes: u32,
}

/// A device as a driver sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Its size in bytes; what does not fill a sector of 512 bytes at its end is not seen.
    pub size_bytes: u64,
    /// The unit of writes: the device's logical block, at least a sector.
    pub block_bytes: u32,
    /// The longest read or write in bytes.
    pub max_payload_bytes: u32,
    /// Nothing may be changed.
    pub read_only: bool,
    /// Ranges can be given back to the device.
    pub discard: bool,
    /// Ranges can be zeroed without their bytes.
    pub write_zeroes: bool,
    /// Queues that a driver may use.
    pub queues: u16,
    /// The identifier, padded with zeroes.
    pub id: [u8; ID_BYTES],
}

impl Disk {
    /// A device as a disk with one queue. Of `id` the first 20 bytes are used.
    pub fn of(geometry: &Geometry, write: bool, max_payload_bytes: u32, id: &str) -> Self {
        let read_only = !write || geometry.features.read_only;
        let mut bytes = [0; ID_BYTES];
        for (to, from) in bytes.iter_mut().zip(id.bytes()) {
            *to = from;
        }
        Self {
            size_bytes: geometry.size_bytes(),
            block_bytes: (1u32 << geometry.block_size_log2).max(SECTOR_BYTES as u32),
            max_payload_bytes,
            read_only,
            discard: !read_only && geometry.features.discard,
            write_zeroes: !read_only && geometry.features.write_zeroes,
            queues: 1,
            id: bytes,
        }
    }

    /// The feature bits that are offered.
    pub fn features(&self) -> u64 {
        let mut bits = 1 << VIRTIO_F_VERSION_1
            | 1 << VIRTIO_RING_F_INDIRECT_DESC
            | 1 << VIRTIO_RING_F_EVENT_IDX
            | 1 << VIRTIO_BLK_F_SIZE_MAX
            | 1 << VIRTIO_BLK_F_SEG_MAX
            | 1 << VIRTIO_BLK_F_BLK_SIZE
            | 1 << VIRTIO_BLK_F_TOPOLOGY
            | 1 << VIRTIO_BLK_F_FLUSH;
        for (has, bit) in [
            (self.read_only, VIRTIO_BLK_F_RO),
            (self.queues > 1, VIRTIO_BLK_F_MQ),
            (self.discard, VIRTIO_BLK_F_DISCARD),
            (self.write_zeroes, VIRTIO_BLK_F_WRITE_ZEROES),
        ] {
            bits |= u64::from(has) << bit;
        }
        bits
    }

    /// `len` bytes of the configuration space from `offset` on; zeroes behind its end.
    pub fn config(&self, offset: usize, len: usize) -> Vec<u8> {
        let size_max =
            (self.max_payload_bytes / SEGMENTS / PAGE_BYTES * PAGE_BYTES).max(PAGE_BYTES);
        let segments = (self.max_payload_bytes / size_max).clamp(1, SEGMENTS);
        let alignment = self.block_bytes / SECTOR_BYTES as u32;
        let mut all = Vec::with_capacity(CONFIG_BYTES);
        all.extend((self.size_bytes / SECTOR_BYTES).to_le_bytes());
        all.extend(size_max.to_le_bytes());
        all.extend(segments.to_le_bytes());
        all.extend([0; 4]); // cylinders, heads, sectors
        all.extend(self.block_bytes.to_le_bytes());
        all.extend([0, 0]); // a physical block is a logical one, and is aligned
        all.extend(1u16.to_le_bytes()); // the least that is worth a request, in blocks
        all.extend(0u32.to_le_bytes()); // no best size
        all.extend([0, 0]); // writeback, and a gap
        all.extend(self.queues.to_le_bytes());
        for has in [self.discard, self.write_zeroes] {
            let (sectors, ranges) = if has { (RANGE_SECTORS, 1u32) } else { (0, 0) };
            all.extend(sectors.to_le_bytes());
            all.extend(ranges.to_le_bytes());
            if all.len() == CONFIG_BYTES - 16 {
                all.extend(alignment.to_le_bytes()); // discard_sector_alignment
            }
        }
        all.resize(offset.saturating_add(len).max(CONFIG_BYTES), 0);
        all.split_off(offset).into_iter().take(len).collect()
    }

    /// Whether a read, or a change in whole blocks, is within the disk.
    pub(crate) fn holds(&self, range: Range, changes: bool) -> bool {
        let end = range.offset_bytes.checked_add(u64::from(range.len_bytes));
        let is_inside = end.is_some_and(|end| end <= self.size_bytes) && range.len_bytes > 0;
        let misaligned =
            (range.offset_bytes | u64::from(range.len_bytes)) & (u64::from(self.block_bytes) - 1);
        is_inside && (!changes || misaligned == 0)
    }

    /// Whether a discard or a zeroing has no more sectors than the driver was told.
    pub(crate) const fn may_change_at_once(&self, sectors: u32) -> bool {
        sectors <= RANGE_SECTORS
    }
}
