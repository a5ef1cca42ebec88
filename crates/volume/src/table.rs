// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The slot table: the buckets that the format made, and those that were added since. `FORMAT.md`,
//! "Grown tables".

use crate::layout::{BUCKET_SLOTS, Member, Shape};
use crate::map::Extent;
use crate::name::NameRef;
use crate::{checksum, io::State};

/// The number by which the record and errors name the table node; no volume has this many slots.
pub(crate) const TABLE_NODE: u32 = (1 << 30) - 1;
/// Extents of the table node's map.
pub(crate) const TABLE_EXTENTS: usize = 16;
/// Buckets of a table.
pub(crate) const MOST_BUCKETS: u32 = 1 << 21;
/// No bucket; no volume has this many.
pub(crate) const NO_BUCKET: u32 = u32::MAX;

/// Where the slots are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    /// The first unit and the buckets of each extent.
    extents: [(u32, u32); TABLE_EXTENTS],
    /// Buckets, those of the format included.
    pub buckets: u32,
    /// No file is left in the parent of the last bucket that belongs into the last.
    pub is_split: bool,
    /// The last bucket gets no more names, because it is to be taken away.
    #[cfg(feature = "grow")]
    pub is_shrinking: bool,
}

impl Table {
    /// The table that the format made.
    pub(crate) const fn of_format(shape: &Shape) -> Self {
        Self {
            extents: [(0, 0); TABLE_EXTENTS],
            buckets: 1 << shape.buckets_log2,
            is_split: false,
            #[cfg(feature = "grow")]
            is_shrinking: false,
        }
    }

    /// The table of a table node with these extents and this size; `None` if the extents have no
    /// room for that.
    pub(crate) fn new(
        shape: &Shape,
        extents: impl Iterator<Item = Extent>,
        size_bytes: u64,
    ) -> Option<Self> {
        let mut table = Self::of_format(shape);
        let mut places = table.extents.iter_mut();
        for extent in extents {
            let start = u32::try_from(extent.start).ok()?;
            *places.next()? = (start, buckets_in(extent.len, shape));
        }
        let added = size_bytes >> (shape.node_log2 + 4);
        let buckets = u64::from(table.buckets) + added;
        let fits = added <= table.room() && added << (shape.node_log2 + 4) == size_bytes;
        table.buckets = u32::try_from(buckets).ok()?;
        (fits && table.buckets <= MOST_BUCKETS).then_some(table)
    }

    /// Buckets for which the extents have room.
    pub(crate) fn room(&self) -> u64 {
        self.extents
            .iter()
            .map(|(_, buckets)| u64::from(*buckets))
            .sum()
    }

    /// The buckets that names are put into.
    #[cfg(feature = "grow")]
    pub(crate) fn buckets_to_fill(&self) -> u32 {
        self.buckets - u32::from(self.is_shrinking)
    }

    #[cfg(not(feature = "grow"))]
    pub(crate) const fn buckets_to_fill(&self) -> u32 {
        self.buckets
    }

    /// Slots of all buckets.
    pub(crate) const fn slot_count(&self) -> u32 {
        self.buckets * BUCKET_SLOTS
    }

    /// The address of a slot's member; past the end of any device if there is no such slot.
    #[inline(never)]
    pub(crate) fn slot_address(&self, slot: u32, member: Member, shape: &Shape) -> u64 {
        let base = 1 << shape.buckets_log2;
        let mut bucket = slot / BUCKET_SLOTS;
        if bucket < base {
            return shape.slot_address(slot, member);
        }
        bucket -= base;
        for (start, buckets) in self.extents {
            if bucket < buckets {
                let half = u64::from(BUCKET_SLOTS) << shape.node_log2;
                let within = u64::from(slot % BUCKET_SLOTS) << shape.node_log2;
                let member = if member == Member::A { 0 } else { half };
                return shape.unit_address(start.into())
                    + u64::from(bucket) * 2 * half
                    + member
                    + within;
            }
            bucket -= buckets;
        }
        u64::MAX >> 1
    }

    /// How many slots from `first` on follow one another.
    pub(crate) const fn run_from(&self, first: u32, shape: &Shape) -> u32 {
        let base = shape.slot_count();
        if first < base {
            base - first
        } else {
            BUCKET_SLOTS - first % BUCKET_SLOTS
        }
    }

    /// How many buckets follow one another from slot `first` on, which begins one that was added; 0
    /// if it does not.
    pub(crate) fn buckets_from(&self, first: u32, shape: &Shape) -> u32 {
        let bucket = first / BUCKET_SLOTS;
        let base = 1 << shape.buckets_log2;
        if first % BUCKET_SLOTS != 0 || bucket < base || bucket >= self.buckets {
            return 0;
        }
        let mut within = bucket - base;
        for (_, buckets) in self.extents {
            if within < buckets {
                return (buckets - within).min(self.buckets - bucket);
            }
            within -= buckets;
        }
        0
    }

    /// The bucket whose split made the last one, if the table has grown.
    pub(crate) fn parent(&self, shape: &Shape) -> Option<u32> {
        let last = self.buckets - 1;
        (last >= 1 << shape.buckets_log2).then(|| parent_of(last))
    }

    /// Every bucket that a name may be in, each once: its two and, of the last one, the parent.
    pub(crate) fn places_of(&self, name: NameRef<'_>, shape: &Shape) -> [Option<u32>; 3] {
        let [one, two] = buckets_of(name, self.buckets);
        let last = self.buckets - 1;
        let parent = self.parent(shape);
        let third = parent
            .filter(|parent| (one == last || two == last) && *parent != one && *parent != two);
        [Some(one), (two != one).then_some(two), third]
    }

    /// Whether units belong to the table node's extents.
    pub(crate) fn overlaps(&self, start: u64, len: u64, shape: &Shape) -> bool {
        let mut extents = self.extents.iter().filter(|(_, buckets)| *buckets > 0);
        extents.any(|(first, buckets)| {
            let units = (u64::from(*buckets) << (shape.node_log2 + 4)).div_ceil(shape.unit_bytes());
            let first = u64::from(*first);
            start < first + units && first < start + len
        })
    }
}

/// The two buckets of a name in a table of `buckets`, from the low and the high half of its CRC32C;
/// they may be the same.
pub(crate) fn buckets_of(name: NameRef<'_>, buckets: u32) -> [u32; 2] {
    let hash = checksum::crc32c(0, name.as_bytes());
    [hash, hash.rotate_right(16)].map(|hash| {
        let mask = buckets.next_power_of_two() - 1;
        match hash & mask {
            bucket if bucket < buckets => bucket,
            bucket => bucket & (mask >> 1),
        }
    })
}

/// A bucket without its highest bit.
pub(crate) const fn parent_of(bucket: u32) -> u32 {
    match bucket.checked_ilog2() {
        Some(highest) => bucket & !(1 << highest),
        None => 0,
    }
}

/// Units that a bucket takes, at least.
pub(crate) const fn bucket_units(shape: &Shape) -> u64 {
    match (16 << shape.node_log2 as u64) >> shape.unit_log2 {
        0 => 1,
        units => units,
    }
}

/// Whole buckets in an extent.
fn buckets_in(units: u32, shape: &Shape) -> u32 {
    let bytes = u64::from(units) << shape.unit_log2;
    u32::try_from(bytes >> (shape.node_log2 + 4)).unwrap_or(MOST_BUCKETS)
}

impl<D> State<'_, D> {
    /// Whether units are the table node's, or have its buckets.
    pub(crate) fn is_of_table(&self, start: u64, len: u64) -> bool {
        let shape = &self.superblock.shape;
        let is_node = self.superblock.table_unit.is_some_and(|unit| {
            let unit = u64::from(unit);
            start < unit + shape.pair_units() && unit < start + len
        });
        is_node || self.table.overlaps(start, len, shape)
    }

    /// The address of a slot's member, or of the table node's.
    pub(crate) fn slot_address(&self, slot: u32, member: Member) -> u64 {
        let shape = &self.superblock.shape;
        match self.superblock.table_unit {
            Some(unit) if slot == TABLE_NODE => shape.leaf_address(u64::from(unit), member),
            _ => self.table.slot_address(slot, member, shape),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const SHAPE: Shape = Shape {
        volume_bytes: 1 << 30,
        unit_log2: 12,
        node_log2: 9,
        buckets_log2: 1,
        lba_log2: 9,
        table_groups: 0,
    };

    #[test]
    fn only_the_parent_loses_names_to_a_new_bucket() {
        let names: Vec<_> = (0..2000).map(|number| std::format!("n{number}")).collect();
        for buckets in 1..70 {
            let of = |buckets| {
                let names = names.iter().filter_map(|name| NameRef::new(name).ok());
                names
                    .flat_map(move |name| buckets_of(name, buckets))
                    .collect::<Vec<_>>()
            };
            for (before, after) in of(buckets).into_iter().zip(of(buckets + 1)) {
                let is_split = before == parent_of(buckets) && after == buckets;
                assert!(before == after || is_split, "{buckets}: {before} {after}");
            }
            assert!(of(buckets).into_iter().all(|bucket| bucket < buckets));
        }
    }

    #[test]
    fn slots_of_added_buckets_do_not_overlap() {
        let extent = |start, len| Extent {
            logical: 0,
            start,
            len,
        };
        // A bucket takes two units: the third extent has room for one, and a unit is left.
        let extents = [extent(10, 4), extent(20, 1), extent(30, 3)];
        let table = Table::new(&SHAPE, extents.into_iter(), 3 * 8192).unwrap();
        assert_eq!((table.buckets, table.room()), (5, 3));
        let mut seen = Vec::new();
        for slot in 16..40 {
            for member in Member::BOTH {
                seen.push(table.slot_address(slot, member, &SHAPE));
            }
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 48);
        let unit = |unit| SHAPE.unit_address(unit);
        assert_eq!((seen[0], seen[47]), (unit(10), unit(32) - 512));
        assert!(table.slot_address(40, Member::A, &SHAPE) > 1 << 60);
        assert!(Table::new(&SHAPE, extents.into_iter(), 4 * 8192).is_none());
        assert!(Table::new(&SHAPE, extents.into_iter(), 8191).is_none());
        assert!(table.overlaps(31, 1, &SHAPE) && !table.overlaps(32, 8, &SHAPE));
    }
}
