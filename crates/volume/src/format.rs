// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Making a volume.

use block::{Buffer, Device, Geometry};

use crate::layout::{BUCKET_SLOTS, Member, SUPERBLOCK_B, Shape, TABLES, node};
use crate::mount::{flush, write_from};
use crate::slot::Slot;
use crate::superblock::{Counts, Operation, Superblock, superblock_len};
use crate::{Error, bitmap, bytes, checksum, label};

/// A volume gets a slot for each of these.
const BYTES_PER_SLOT: u64 = 16 << 20;

/// The parameters of a new volume; `None` means a default chosen for the device.
#[derive(Clone, Copy, Debug, Default)]
pub struct FormatOptions<'o> {
    /// Size of the volume in bytes; the whole device.
    pub volume_bytes: Option<u64>,
    /// Allocation unit in bytes, a power of two from 64 to 2^30: about 1/32,768 of the volume,
    /// between 4 KiB and 1 MiB.
    pub unit_bytes: Option<u64>,
    /// Node in bytes, a power of two from 256 to 16,384: the device's block, at least 512.
    pub node_bytes: Option<u32>,
    /// Slots for files, rounded up to 8 times a power of two: one for each 16 MiB of the volume, up
    /// to 524,288, but at least 1,024, or fewer on a small device.
    pub slots: Option<u32>,
    /// Files may have checksums; readers without them then refuse the volume.
    pub checksums: bool,
    /// A label for people; at most 32 bytes are kept.
    pub label: &'o str,
    /// The volume's identity. It must differ from that of every earlier volume on this device: use
    /// 16 random bytes.
    pub uuid: [u8; 16],
}

impl FormatOptions<'_> {
    /// The shape of a new volume on a device of `geometry`.
    ///
    /// # Errors
    /// [`Error::BadParameters`] if the numbers are out of range, not powers of two, too large for
    /// the device or smaller than its blocks.
    pub fn shape(&self, geometry: &Geometry) -> Result<Shape, Error> {
        let lba_log2 = geometry.block_size_log2;
        let block = geometry.block_size_bytes() as u64;
        let device = geometry.size_bytes();
        let volume_bytes = self.volume_bytes.unwrap_or(device) / block * block;
        let unit = self.unit_bytes.unwrap_or_else(|| {
            let fitting = (volume_bytes >> 15).max(1).next_power_of_two();
            fitting.clamp(4096, 1 << 20).max(block)
        });
        let node = self.node_bytes.map_or(block.max(512), u64::from);
        if !unit.is_power_of_two() || !node.is_power_of_two() || volume_bytes > device {
            return Err(Error::BadParameters);
        }
        let buckets = |slots: u64| slots.div_ceil(u64::from(BUCKET_SLOTS)).next_power_of_two();
        let buckets = match self.slots {
            Some(slots) => buckets(u64::from(slots.max(1))),
            // Both tables together take at most 1/32 of a small device.
            None if volume_bytes <= 1024 * BYTES_PER_SLOT => {
                buckets((volume_bytes / 64 / node).clamp(8, 1024) / 2 + 1).min(128)
            }
            None => buckets(volume_bytes / BYTES_PER_SLOT).min(1 << 16),
        };
        let shape = Shape {
            volume_bytes,
            unit_log2: unit.trailing_zeros() as u8,
            node_log2: node.trailing_zeros() as u8,
            buckets_log2: buckets.trailing_zeros().min(255) as u8,
            lba_log2,
            table_groups: 0,
        };
        shape.validate()?;
        if geometry.max_transfer_bytes() < shape.node_bytes() {
            return Err(Error::Unsuitable);
        }
        Ok(shape)
    }
}

/// Makes an empty volume on `device`; what was on it is lost. `memory` is at least one node long;
/// with more memory there are fewer, longer writes. It is given back.
///
/// Afterwards the area in front of the tables holds only the two superblocks: what other file
/// systems and partition tables wrote there is zeroed first. What they keep at the device's end is
/// not touched.
///
/// The device holds no volume until everything except the superblocks is durable: a format that is
/// interrupted or fails before that leaves nothing that could be mistaken for a volume. One that
/// fails later may leave the new, empty volume.
///
/// # Errors
/// Those of [`FormatOptions::shape`], [`Error::Memory`], or a device's error.
pub fn format<D: Device>(
    device: &mut D,
    memory: Buffer,
    options: &FormatOptions<'_>,
) -> (Result<Shape, Error>, Option<Buffer>) {
    let mut place = Some(memory);
    let result = run(device, &mut place, options);
    (result, place)
}

fn run(
    device: &mut dyn Device,
    memory: &mut Option<Buffer>,
    options: &FormatOptions<'_>,
) -> Result<Shape, Error> {
    let shape = options.shape(device.geometry())?;
    let len = superblock_len(shape.lba_log2);
    let align = device.geometry().buffer_align_bytes as usize;
    let suits = memory.as_deref().is_some_and(|buffer| {
        buffer.len() >= shape.node_bytes().max(len) && buffer.as_ptr() as usize % align == 0
    });
    if !suits {
        return Err(Error::Memory);
    }
    // An old volume's superblocks are zeroed first, so that it is never mounted over half a new
    // table; and with them anything else that begins here, such as a file system's superblock or a
    // partition table, so that no tool mistakes the volume for that.
    let whole_nodes = memory.as_deref().map_or(0, <[u8]>::len) / shape.node_bytes();
    if let Some(buffer) = memory.as_deref_mut() {
        buffer.fill(0);
    }
    let mut address = 0;
    // Each iteration writes at least one node.
    while address < TABLES {
        let piece = (whole_nodes * shape.node_bytes()).min((TABLES - address) as usize);
        write_from(device, address, piece, memory)?;
        address += piece as u64;
    }
    flush(device)?;
    let slots = u64::from(shape.slot_count());
    for member in Member::BOTH {
        let seq = u64::from(member == Member::B);
        fill(device, memory, options, &shape, slots, &|index, bytes| {
            Slot::free(index as u32, seq, 0).encode(bytes);
            shape.slot_address(index as u32, member)
        })?;
        let groups = shape.group_count();
        fill(device, memory, options, &shape, groups, &|group, bytes| {
            bitmap::initialise(bytes, group as u32, &shape);
            bytes::put_u64(bytes, node::SEQ, seq);
            shape.bitmap_address(group as u32, member)
        })?;
    }
    flush(device)?;
    let label = label::padded(options.label);
    for (seq, address) in [(0, 0), (1, SUPERBLOCK_B)] {
        let superblock = Superblock {
            shape,
            uuid: options.uuid,
            label,
            seq,
            clean: true,
            mount_count: 0,
            checksums: options.checksums,
            long_names: false,
            table_unit: None,
            read_only: false,
            compat_features: 0,
            group_hint: 0,
            counts: Counts::new(shape.unit_count(), 0),
        };
        if let Some(bytes) = memory.as_mut().and_then(|buffer| buffer.get_mut(..len)) {
            superblock.encode(bytes, address, &Operation::None);
        }
        write_from(device, address, len, memory)?;
        flush(device)?;
    }
    Ok(shape)
}

/// Writes `count` nodes, as many per request as the memory holds. `make` fills a node and returns
/// its address; the addresses are consecutive.
fn fill(
    device: &mut dyn Device,
    memory: &mut Option<Buffer>,
    options: &FormatOptions<'_>,
    shape: &Shape,
    count: u64,
    make: &dyn Fn(u64, &mut [u8]) -> u64,
) -> Result<(), Error> {
    let mut index = 0;
    while index < count {
        let mut address = None;
        let mut len = 0;
        let nodes = memory.as_deref_mut().unwrap_or_default();
        for bytes in nodes.chunks_exact_mut(shape.node_bytes()) {
            if index == count {
                break;
            }
            let at = make(index, bytes);
            let crc = checksum::of_node(checksum::crc32c, &options.uuid, at, bytes, node::CRC);
            bytes::put_u32(bytes, node::CRC, crc);
            address = address.or(Some(at));
            len += bytes.len();
            index += 1;
        }
        write_from(device, address.ok_or(Error::Memory)?, len, memory)?;
    }
    Ok(())
}
