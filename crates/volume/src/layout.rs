// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The on-disk layout: the offsets of `FORMAT.md`, and the arithmetic of a volume's regions. A test
//! compares these constants with the table in that document.

use crate::Error;
use crate::name::NAME_BYTES;

/// The format's major version, which a reader must know.
pub const MAJOR: u16 = 1;
/// The format's minor version.
pub const MINOR: u16 = 0;

/// Bytes of a superblock.
pub const SUPERBLOCK_BYTES: usize = 256;
/// The offset of the second superblock.
pub const SUPERBLOCK_B: u64 = 65_536;
/// The offset where the slot tables begin.
pub const TABLES: u64 = 131_072;
/// Slots in a bucket.
pub const BUCKET_SLOTS: u32 = 8;
/// Bytes of data that one checksum covers.
pub const CHUNK_BYTES: u64 = 65_536;
/// Data units that follow each checksum unit of a file with checksums: `U / 4` checksums of
/// 64 KiB each are 16,384 units, whatever U is.
pub const SPAN_UNITS: u64 = 16_384;

/// Sequence numbers end here, those of superblocks at half of it: no volume ever reaches them, and
/// values computed from them cannot overflow.
pub const SEQ_END: u64 = 1 << 62;
/// Numbers before the end from which on nothing is changed any more: more than a mount can use.
pub const SEQ_RESERVE: u64 = 1 << 40;

/// The feature bit (incompatible): files may carry checksum units in their map.
pub const FEATURE_CHECKSUMS: u32 = 1;
/// The feature bit (incompatible): the operation record is that of several new files.
pub const FEATURE_CREATE_MANY: u32 = 2;
/// The feature bit (incompatible): the tables have another number of bitmaps than the size needs.
pub const FEATURE_RESIZED: u32 = 4;
/// The feature bit (incompatible): the operation record is that of new files in a list.
pub const FEATURE_CREATE_LIST: u32 = 8;

/// The feature bit (incompatible): slots may have names of more than [`SHORT_NAME_BYTES`].
pub const FEATURE_LONG_NAMES: u32 = 16;

/// The feature bit (incompatible): the slot table has grown past the one that the format made.
pub const FEATURE_GROWN: u32 = 32;

/// The feature bit (incompatible): the operation record is that of removed files in a list.
pub const FEATURE_REMOVE_LIST: u32 = 64;

/// The longest name of a volume without [`FEATURE_LONG_NAMES`], in bytes.
pub const SHORT_NAME_BYTES: usize = 64;

/// Magic numbers, as the first bytes of each structure.
pub mod magic {
    /// A superblock.
    pub const SUPERBLOCK: [u8; 8] = *b"STRTWAY1";
    /// A file slot.
    pub const SLOT: [u8; 4] = *b"SWsl";
    /// A leaf or index node of a file's map.
    pub const LEAF: [u8; 4] = *b"SWlf";
    /// An allocation bitmap.
    pub const BITMAP: [u8; 4] = *b"SWbm";
    /// A list of files.
    pub const LIST: [u8; 4] = *b"SWnf";
}

/// Offsets in a superblock.
pub mod superblock {
    #![allow(missing_docs)]
    pub const MAGIC: usize = 0;
    pub const CRC: usize = 8;
    pub const MAJOR: usize = 12;
    pub const MINOR: usize = 14;
    pub const SEQ: usize = 16;
    pub const UUID: usize = 24;
    pub const VOLUME_BYTES: usize = 40;
    pub const UNIT_LOG2: usize = 48;
    pub const NODE_LOG2: usize = 49;
    pub const BUCKETS_LOG2: usize = 50;
    pub const LBA_LOG2: usize = 51;
    pub const STATE: usize = 52;
    pub const INCOMPAT: usize = 56;
    pub const RO_COMPAT: usize = 60;
    pub const COMPAT: usize = 64;
    pub const MOUNT_COUNT: usize = 68;
    pub const SLOTS_A: usize = 72;
    pub const SLOTS_B: usize = 80;
    pub const BITMAP_A: usize = 88;
    pub const BITMAP_B: usize = 96;
    pub const DATA_START: usize = 104;
    pub const UNIT_COUNT: usize = 112;
    pub const GROUP_HINT: usize = 120;
    pub const TABLE_GROUPS: usize = 124;
    pub const OP_KIND: usize = 128;
    pub const OP_SLOT: usize = 132;
    pub const OP_SLOT2: usize = 136;
    pub const OP_RUN_COUNT: usize = 140;
    pub const OP_RUNS: usize = 144;
    pub const OP_SLOTS: usize = 160;
    pub const LABEL: usize = 208;
    pub const FREE_UNITS: usize = 240;
    pub const FILE_COUNT: usize = 248;
    pub const TABLE_UNIT: usize = 252;
}

/// Offsets that slots, leaves and bitmaps share.
pub mod node {
    #![allow(missing_docs)]
    pub const MAGIC: usize = 0;
    pub const CRC: usize = 4;
    pub const SEQ: usize = 8;
    pub const LAST_OP: usize = 16;
}

/// Offsets in a file slot.
pub mod slot {
    #![allow(missing_docs)]
    pub const FILE_ID: usize = 24;
    pub const SIZE_BYTES: usize = 32;
    pub const ALLOC_UNITS: usize = 40;
    pub const MTIME_NS: usize = 48;
    pub const STATE: usize = 56;
    pub const MAP_LEVEL: usize = 57;
    pub const NAME_LEN: usize = 58;
    pub const ENTRY_COUNT: usize = 60;
    pub const ATTRIBUTES: usize = 64;
    pub const TAIL_CRC: usize = 68;
    pub const APP_TAG: usize = 72;
    pub const NAME: usize = 80;
    pub const ENTRIES: usize = 144;
}

/// Offsets in a leaf or index node.
pub mod leaf {
    #![allow(missing_docs)]
    pub const FILE_ID: usize = 24;
    pub const FIRST_LOGICAL: usize = 32;
    pub const COUNT: usize = 40;
    pub const LEVEL: usize = 44;
    pub const ENTRIES: usize = 64;
}

/// Offsets in a bitmap; the bits fill the node's upper half.
pub mod bitmap {
    #![allow(missing_docs)]
    pub const GROUP: usize = 24;
    pub const FREE_UNITS: usize = 32;
}

/// Offsets in a list of files.
pub mod list {
    #![allow(missing_docs)]
    pub const FIRST: usize = 24;
    pub const COUNT: usize = 28;
    pub const SLOTS: usize = 64;
}

/// Where the entries of a slot begin, behind a name of `name_bytes`: a multiple of 16.
pub(crate) const fn entries_at(name_bytes: usize) -> usize {
    if name_bytes > SHORT_NAME_BYTES {
        slot::NAME + name_bytes.next_multiple_of(ENTRY_BYTES)
    } else {
        slot::ENTRIES
    }
}

/// Bytes of a map entry, extent or index.
pub const ENTRY_BYTES: usize = 16;
/// Bytes of a run in the operation record.
pub const RUN_BYTES: usize = 16;
/// Runs in the operation record.
pub const RUNS: usize = 4;
/// Slots of new files in the operation record, behind one run.
pub const RECORD_SLOTS: usize = 12;
/// Slots of new files in a list, at most.
pub const LISTED_SLOTS: u32 = 4096;

/// Which member of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Member {
    A,
    B,
}

impl Member {
    pub(crate) const BOTH: [Member; 2] = [Member::A, Member::B];
}

/// The member that a sequence number belongs to: even ones are in A, odd ones in B.
pub(crate) const fn member_of(seq: u64) -> Member {
    if seq & 1 == 0 { Member::A } else { Member::B }
}

/// The shape of a volume, from which its regions follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of the volume; a multiple of the device's block size.
    pub volume_bytes: u64,
    /// An allocation unit is `1 << unit_log2` bytes; 6 to 30.
    pub unit_log2: u8,
    /// A node is `1 << node_log2` bytes; 8 to 14.
    pub node_log2: u8,
    /// The slot table has `8 << buckets_log2` slots; 0 to 16.
    pub buckets_log2: u8,
    /// The device's block is `1 << lba_log2` bytes; 6 to 14.
    pub lba_log2: u8,
    /// Bitmaps in each of the two tables, if the volume was resized so that its size needs another
    /// number; otherwise 0. At most 2^30.
    pub table_groups: u32,
}

impl Shape {
    /// Bytes of a node, N.
    pub const fn node_bytes(&self) -> usize {
        1 << self.node_log2
    }

    /// Bytes of an allocation unit, U.
    pub const fn unit_bytes(&self) -> u64 {
        1 << self.unit_log2
    }

    /// File slots that the format made; a table may have grown since.
    pub const fn slot_count(&self) -> u32 {
        BUCKET_SLOTS << self.buckets_log2
    }

    /// Files that the volume takes before its table grows, whatever their names are: they are
    /// spread by a hash, so that a full table is out of reach of any but chosen ones. Each has a
    /// unit at least, if it is not empty, and one more with checksums.
    pub const fn promised_files(&self, checksums: bool) -> u32 {
        let slots = self.slot_count();
        // FORMAT.md, "Trade-offs", with room to spare.
        let named = match slots {
            // One bucket: every slot can hold every name.
            8 => slots,
            // Eight names that may be in one bucket only fit.
            ..=63 => slots / 2,
            64..=255 => slots / 4 * 3,
            256..=1023 => slots / 10 * 9,
            _ => slots / 20 * 19,
        };
        let stored = self.unit_count() >> checksums as u32;
        if stored < named as u64 {
            stored as u32
        } else {
            named
        }
    }

    /// Units that one bitmap covers.
    pub const fn group_units(&self) -> u64 {
        1 << self.group_log2()
    }

    const fn group_log2(&self) -> u8 {
        self.node_log2 + 2
    }

    /// The group of a unit of the volume; there are at most 2^30.
    pub(crate) const fn group_of(&self, unit: u64) -> u32 {
        (unit >> self.group_log2()) as u32
    }

    /// The number of a unit in its group, which has at most 2^16.
    pub(crate) const fn unit_in_group(&self, unit: u64) -> u32 {
        unit as u32 & ((1 << self.group_log2()) - 1)
    }

    /// The first unit of a group.
    pub(crate) const fn group_start(&self, group: u32) -> u64 {
        (group as u64) << self.group_log2()
    }

    /// Extents or index entries in a slot whose name has at most 64 bytes.
    pub const fn slot_entries(&self) -> usize {
        self.slot_entries_behind(SHORT_NAME_BYTES)
    }

    /// Extents or index entries in a slot with a name of `name_bytes`.
    pub const fn slot_entries_behind(&self, name_bytes: usize) -> usize {
        self.node_bytes().saturating_sub(entries_at(name_bytes)) / ENTRY_BYTES
    }

    /// The longest name that a slot can have, in bytes.
    pub const fn longest_name_bytes(&self) -> usize {
        if self.node_log2 < 9 {
            SHORT_NAME_BYTES
        } else {
            NAME_BYTES
        }
    }

    /// Entries in a leaf.
    pub const fn leaf_entries(&self) -> usize {
        (self.node_bytes() - leaf::ENTRIES) / ENTRY_BYTES
    }

    /// Units that a leaf pair takes: a power of two.
    pub const fn pair_units(&self) -> u64 {
        match (2u32 << self.node_log2) >> self.unit_log2 {
            0 => 1,
            units => units as u64,
        }
    }

    /// Slots in a node of a list.
    pub(crate) const fn list_slots(&self) -> u32 {
        ((self.node_bytes() - list::SLOTS) / 4) as u32
    }

    /// Units that a list of `count` slots takes at the start of its run.
    pub(crate) const fn list_units(&self, count: u32) -> u32 {
        let nodes = count.div_ceil(self.list_slots()) as u64;
        (nodes << self.node_log2).div_ceil(self.unit_bytes()) as u32
    }

    /// The groups that the size needs, as if the tables took no space.
    pub(crate) const fn natural_groups(&self) -> u64 {
        (self.volume_bytes >> self.unit_log2).div_ceil(self.group_units())
    }

    /// The groups that have a unit.
    pub(crate) const fn filled_groups(&self) -> u64 {
        self.unit_count().div_ceil(self.group_units())
    }

    /// Groups, each with a bitmap.
    pub const fn group_count(&self) -> u64 {
        match self.table_groups {
            0 => self.natural_groups(),
            _ => self.filled_groups(),
        }
    }

    /// Bitmaps in each table. Those of later groups are in their own groups.
    pub const fn table_group_count(&self) -> u64 {
        match self.table_groups {
            0 => self.natural_groups(),
            groups => groups as u64,
        }
    }

    /// Units at the start of a group that hold its bitmap.
    pub const fn bitmap_units(&self, group: u32) -> u64 {
        if (group as u64) < self.table_group_count() {
            0
        } else {
            self.pair_units()
        }
    }

    /// Where member A of the slot table begins.
    pub const fn slots_a(&self) -> u64 {
        TABLES
    }

    /// Where member A of the bitmaps begins.
    pub const fn bitmap_a(&self) -> u64 {
        self.slots_a() + ((self.slot_count() as u64) << self.node_log2)
    }

    /// Where member B of the slot table begins.
    pub const fn slots_b(&self) -> u64 {
        self.bitmap_a() + (self.table_group_count() << self.node_log2)
    }

    /// Where member B of the bitmaps begins.
    pub const fn bitmap_b(&self) -> u64 {
        self.slots_b() + ((self.slot_count() as u64) << self.node_log2)
    }

    /// Where unit 0 begins: a multiple of U and of N.
    pub const fn data_start(&self) -> u64 {
        let end = self.bitmap_b() + (self.table_group_count() << self.node_log2);
        end.next_multiple_of(self.unit_bytes())
    }

    /// Allocation units.
    pub const fn unit_count(&self) -> u64 {
        self.volume_bytes.saturating_sub(self.data_start()) >> self.unit_log2
    }

    pub(crate) const fn slot_address(&self, slot: u32, member: Member) -> u64 {
        let table = match member {
            Member::A => self.slots_a(),
            Member::B => self.slots_b(),
        };
        table + ((slot as u64) << self.node_log2)
    }

    pub(crate) const fn bitmap_address(&self, group: u32, member: Member) -> u64 {
        if self.bitmap_units(group) > 0 {
            return self.leaf_address(self.group_start(group), member);
        }
        let table = match member {
            Member::A => self.bitmap_a(),
            Member::B => self.bitmap_b(),
        };
        table + ((group as u64) << self.node_log2)
    }

    pub(crate) const fn unit_address(&self, unit: u64) -> u64 {
        self.data_start() + (unit << self.unit_log2)
    }

    /// The members of a leaf pair are half its allocation apart.
    pub(crate) const fn leaf_address(&self, unit: u64, member: Member) -> u64 {
        let start = self.unit_address(unit);
        match member {
            Member::A => start,
            Member::B => start + ((self.pair_units() << self.unit_log2) >> 1),
        }
    }

    /// Checks that the numbers are in range and leave at least one unit.
    ///
    /// # Errors
    /// [`Error::BadParameters`].
    pub const fn validate(&self) -> Result<(), Error> {
        let in_range = self.unit_log2 >= 6
            && self.unit_log2 <= 30
            && self.node_log2 >= 8
            && self.node_log2 <= 14
            && self.buckets_log2 <= 16
            && self.lba_log2 >= 6
            && self.lba_log2 <= 14
            && self.lba_log2 <= self.node_log2
            && self.lba_log2 <= self.unit_log2
            && self.volume_bytes <= u64::MAX >> 1
            && self.natural_groups() <= 1 << 30
            && self.table_groups <= 1 << 30
            && self.volume_bytes & ((1 << self.lba_log2) - 1) == 0;
        if !in_range || self.unit_count() == 0 {
            return Err(Error::BadParameters);
        }
        // The last group has a unit besides its bitmap.
        let last = self.group_of(self.unit_count() - 1);
        if self.unit_count() - self.group_start(last) <= self.bitmap_units(last) {
            return Err(Error::BadParameters);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(volume_bytes: u64, unit_log2: u8, node_log2: u8) -> Shape {
        Shape {
            volume_bytes,
            unit_log2,
            node_log2,
            buckets_log2: 0,
            lba_log2: 6,
            table_groups: 0,
        }
    }

    #[test]
    fn a_leaf_pair_never_overlaps_and_stays_in_its_units() {
        for unit_log2 in 6..=30 {
            for node_log2 in 8..=14 {
                let shape = shape(1 << 40, unit_log2, node_log2);
                let node = shape.node_bytes() as u64;
                let (a, b) = (
                    shape.leaf_address(3, Member::A),
                    shape.leaf_address(3, Member::B),
                );
                assert!(a + node <= b, "U 2^{unit_log2} N 2^{node_log2}");
                assert!(b + node <= shape.unit_address(3 + shape.pair_units()));
                assert!(shape.pair_units().is_power_of_two());
                assert!(shape.pair_units() <= shape.group_units());
            }
        }
    }

    #[test]
    fn regions_follow_one_another_and_fit() {
        for bytes in [200_000, 1 << 20, 1 << 33] {
            let shape = shape(bytes & !511, 9, 9);
            assert_eq!(shape.validate(), Ok(()));
            assert!(shape.unit_address(shape.unit_count()) <= shape.volume_bytes);
            assert!(shape.group_count() * shape.group_units() >= shape.unit_count());
        }
        assert_eq!(shape(131_072, 9, 9).validate(), Err(Error::BadParameters));
    }

    #[test]
    fn capacities_are_those_of_the_document() {
        for (node_log2, slot, leaf) in [(8, 7, 12), (9, 23, 28), (12, 247, 252)] {
            let shape = shape(1 << 30, 12, node_log2);
            assert_eq!((shape.slot_entries(), shape.leaf_entries()), (slot, leaf));
        }
        for (name, small, large) in [(1, 23, 247), (128, 19, 243), (255, 11, 235)] {
            let entries = |node_log2| shape(1 << 30, 12, node_log2).slot_entries_behind(name);
            assert_eq!((entries(9), entries(12)), (small, large), "{name} bytes");
        }
        assert_eq!([64, 65, 80, 81].map(entries_at), [144, 160, 160, 176]);
    }
}
