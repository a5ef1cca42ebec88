// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file's map: extents, index entries and the leaves that hold them. `FORMAT.md`, "File map".
//!
//! Units of a file are counted from 0, checksum units included. An entry may be longer than what
//! the file owns, when an operation was undone after its leaf was written: code that walks a map
//! cuts it at a limit (the next leaf's first unit, or the file's `alloc_units`).

use crate::bytes::{get_u32, get_u64, put, put_u32, put_u64};
use crate::layout::{ENTRY_BYTES, SPAN_UNITS, Shape, leaf as at, magic, node};

/// A run of units of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    /// First unit, counted in the file.
    pub logical: u64,
    /// First unit, counted in the volume.
    pub start: u64,
    /// Units; 0 in an unused entry of a window.
    pub len: u32,
}

impl Extent {
    pub(crate) const fn logical_end(&self) -> u64 {
        self.logical + self.len as u64
    }

    pub(crate) const fn end(&self) -> u64 {
        self.start + self.len as u64
    }

    pub(crate) const fn contains(&self, unit: u64) -> bool {
        unit >= self.logical && unit < self.logical_end()
    }

    /// The extent with `start` counted from the device's byte 0: unit 0 begins at a multiple of U.
    pub(crate) const fn on_device(self, shape: &Shape) -> Self {
        Self {
            start: self.start + (shape.data_start() >> shape.unit_log2),
            ..self
        }
    }

    /// The extent without what lies at or past `limit`.
    pub(crate) fn cut(self, limit: u64) -> Option<Self> {
        if self.logical >= limit {
            return None;
        }
        let len = u64::from(self.len).min(limit - self.logical) as u32;
        Some(Self { len, ..self })
    }

    /// Takes the first run of data from this extent and returns it with `logical` counted without
    /// checksum units, if the file has them. Its length is 0 where the extent ends with such a
    /// unit.
    pub(crate) fn take_data(&mut self, checksums: bool) -> Self {
        let at = self.logical % (SPAN_UNITS + 1);
        let skipped = u64::from(checksums && at == 0);
        let to_the_next = if checksums {
            SPAN_UNITS + 1 - at
        } else {
            u64::MAX
        };
        let end = u64::from(self.len).min(to_the_next);
        let taken = Self {
            logical: data_units(self.logical, checksums),
            start: self.start + skipped,
            len: (end - skipped) as u32,
        };
        *self = Self {
            logical: self.logical + end,
            start: self.start + end,
            len: self.len - end as u32,
        };
        taken
    }
}

/// An entry of a level above the extents, which names a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Index {
    /// First file unit below this entry.
    pub first_logical: u64,
    /// Where the leaf pair starts.
    pub unit: u64,
}

pub(crate) fn extents(
    entries: &[u8],
    first: u64,
) -> impl Iterator<Item = Extent> + Clone + use<'_> {
    let mut logical = first;
    entries.chunks_exact(ENTRY_BYTES).map(move |entry| {
        let extent = Extent {
            logical,
            start: get_u64(entry, 0),
            len: get_u32(entry, 8),
        };
        logical = logical.saturating_add(u64::from(extent.len));
        extent
    })
}

pub(crate) fn indexes(entries: &[u8]) -> impl Iterator<Item = Index> + Clone + use<'_> {
    entries.chunks_exact(ENTRY_BYTES).map(|entry| Index {
        first_logical: get_u64(entry, 0),
        unit: get_u64(entry, 8),
    })
}

/// Checks extents and returns the file unit after the last; `None` if one is invalid. What is at
/// or past `limit` is not the file's: it may name units that the volume has no more. A file has no
/// more units than the volume, so entries past that are forged.
pub(crate) fn extents_end(entries: &[u8], first: u64, shape: &Shape, limit: u64) -> Option<u64> {
    let units = shape.unit_count();
    if first > units {
        return None;
    }
    let mut end = first;
    for (extent, entry) in extents(entries, first).zip(entries.chunks_exact(ENTRY_BYTES)) {
        let owned = u64::from(extent.len).min(limit.saturating_sub(end));
        let sound = extent.len > 0
            && (owned == 0 || extent.start < units && owned <= units - extent.start)
            && owned <= units.saturating_sub(end)
            && get_u32(entry, 12) == end as u32;
        if !sound {
            return None;
        }
        end += u64::from(extent.len);
    }
    Some(end)
}

/// Checks index entries: they begin at `first`, grow, and, below `limit`, point at whole pairs.
pub(crate) fn index_is_sound(entries: &[u8], first: u64, shape: &Shape, limit: u64) -> bool {
    let pair = shape.pair_units();
    let units = shape.unit_count();
    let mut previous = None;
    indexes(entries).all(|index| {
        let grows = match previous {
            None => index.first_logical == first,
            Some(previous) => index.first_logical > previous,
        };
        previous = Some(index.first_logical);
        let is_within = index.first_logical < units && index.unit < units;
        let is_owned = index.first_logical < limit;
        grows && index.unit % pair == 0 && (!is_owned || is_within && pair <= units - index.unit)
    })
}

/// An entry of a map as it is stored.
pub(crate) type Entry = [u8; ENTRY_BYTES];

pub(crate) fn extent_entry(extent: &Extent) -> Entry {
    let mut entry = [0; ENTRY_BYTES];
    put_u64(&mut entry, 0, extent.start);
    put_u32(&mut entry, 8, extent.len);
    put_u32(&mut entry, 12, extent.logical as u32);
    entry
}

/// An extent's entry without its unit in the file, whose high half is not stored.
pub(crate) fn start_and_len(entry: &Entry) -> (u64, u32) {
    (get_u64(entry, 0), get_u32(entry, 8))
}

pub(crate) fn index_entry(first_logical: u64, unit: u64) -> Entry {
    let mut entry = [0; ENTRY_BYTES];
    put_u64(&mut entry, 0, first_logical);
    put_u64(&mut entry, 8, unit);
    entry
}

/// Stores entry `place` of `entries`.
pub(crate) fn put_entry(entries: &mut [u8], place: u32, entry: &Entry) {
    put(entries, place as usize * ENTRY_BYTES, entry);
}

/// The last index entry below `limit`, and how many there are up to it.
#[inline(never)]
pub(crate) fn last_index(entries: &[u8], limit: u64) -> Option<(Index, u32)> {
    let mut last = None;
    for (index, count) in indexes(entries).zip(1..) {
        if index.first_logical < limit {
            last = Some((index, count));
        }
    }
    last
}

/// The last extent, cut at `limit`, and how many lie before that.
#[inline(never)]
pub(crate) fn last_extent(entries: &[u8], first: u64, limit: u64) -> (Option<Extent>, u32) {
    let mut last = (None, 0);
    for (extent, count) in extents(entries, first).zip(1..) {
        let Some(extent) = extent.cut(limit) else {
            break;
        };
        last = (Some(extent), count);
    }
    last
}

/// The header of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub seq: u64,
    pub last_op: u64,
    pub file_id: u64,
    pub first_logical: u64,
    pub count: u32,
    /// 1: extents; 2: index entries.
    pub level: u32,
}

impl Leaf {
    /// Writes the header and zeroes unused entries; the checksum is not set.
    pub(crate) fn encode(&self, bytes: &mut [u8]) {
        let used = at::ENTRIES + self.count as usize * ENTRY_BYTES;
        if let Some(rest) = bytes.get_mut(used..) {
            rest.fill(0);
        }
        if let Some(header) = bytes.get_mut(..at::ENTRIES) {
            header.fill(0);
        }
        put(bytes, node::MAGIC, &magic::LEAF);
        put_u64(bytes, node::SEQ, self.seq);
        put_u64(bytes, node::LAST_OP, self.last_op);
        put_u64(bytes, at::FILE_ID, self.file_id);
        put_u64(bytes, at::FIRST_LOGICAL, self.first_logical);
        put_u32(bytes, at::COUNT, self.count);
        put_u32(bytes, at::LEVEL, self.level);
    }

    /// Decodes a leaf whose checksum is valid; `None` if it is inconsistent.
    #[inline(never)]
    pub(crate) fn decode(bytes: &[u8], shape: &Shape, limit: u64) -> Option<Self> {
        let leaf = Self {
            seq: get_u64(bytes, node::SEQ),
            last_op: get_u64(bytes, node::LAST_OP),
            file_id: get_u64(bytes, at::FILE_ID),
            first_logical: get_u64(bytes, at::FIRST_LOGICAL),
            count: get_u32(bytes, at::COUNT),
            level: get_u32(bytes, at::LEVEL),
        };
        let sound = leaf.count > 0
            && leaf.count as usize <= shape.leaf_entries()
            && match leaf.level {
                1 => extents_end(leaf.entries(bytes), leaf.first_logical, shape, limit).is_some(),
                _ => index_is_sound(leaf.entries(bytes), leaf.first_logical, shape, limit),
            };
        sound.then_some(leaf)
    }

    /// The last extent of a leaf at level 1, cut at `limit`, and how many lie before that.
    pub(crate) fn live_extents(&self, bytes: &[u8], limit: u64) -> (Option<Extent>, u32) {
        last_extent(self.entries(bytes), self.first_logical, limit)
    }

    /// The last of them.
    pub(crate) fn last_extent(&self, bytes: &[u8], limit: u64) -> Option<Extent> {
        self.live_extents(bytes, limit).0
    }

    /// The raw entries in use.
    pub(crate) fn entries<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let len = self.count as usize * ENTRY_BYTES;
        bytes
            .get(at::ENTRIES..at::ENTRIES + len)
            .unwrap_or_default()
    }
}

/// How many of a file's `units` hold data: all, or all except each span's checksum unit.
pub(crate) const fn data_units(units: u64, checksums: bool) -> u64 {
    if checksums {
        units - units.div_ceil(SPAN_UNITS + 1)
    } else {
        units
    }
}

/// How many units a file needs to hold `data` units of data.
pub(crate) const fn file_units(data: u64, checksums: bool) -> u64 {
    if checksums {
        data + data.div_ceil(SPAN_UNITS)
    } else {
        data
    }
}

/// The file unit of a data unit.
pub(crate) const fn file_unit(data: u64, checksums: bool) -> u64 {
    if checksums {
        data + data / SPAN_UNITS + 1
    } else {
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_units_are_counted_alike_in_each_direction() {
        for data in [1, 2, SPAN_UNITS, SPAN_UNITS + 1, 3 * SPAN_UNITS] {
            let units = file_units(data, true);
            assert_eq!(data_units(units, true), data);
            assert_eq!(
                file_unit(data - 1, true),
                units - 1,
                "the last one is the last"
            );
        }
        assert_eq!(data_units(0, true), 0);
        assert_eq!(
            data_units(1, true),
            0,
            "a checksum unit alone holds no data"
        );
        assert_eq!(file_unit(SPAN_UNITS, true), SPAN_UNITS + 2);
    }

    #[test]
    fn the_data_of_an_extent_is_all_but_its_checksum_units() {
        for (logical, len) in [(0, 1), (0, 2), (1, 40_000), (SPAN_UNITS, 3), (40_000, 7)] {
            let extent = Extent {
                logical,
                start: 7,
                len,
            };
            for checksums in [false, true] {
                let mut rest = extent;
                let mut data = data_units(logical, checksums);
                let mut owned = 0;
                while rest.len > 0 {
                    let part = rest.take_data(checksums);
                    assert_eq!(part.logical, data);
                    for unit in data..data + u64::from(part.len) {
                        let at = part.start + (unit - data);
                        assert_eq!(file_unit(unit, checksums), logical + at - extent.start);
                    }
                    data += u64::from(part.len);
                    owned += u64::from(part.len);
                }
                let end = extent.logical_end();
                let expected = data_units(end, checksums) - data_units(logical, checksums);
                assert_eq!(owned, expected);
            }
        }
    }

    #[test]
    fn an_extent_is_cut_at_the_limit() {
        let extent = Extent {
            logical: 4,
            start: 100,
            len: 8,
        };
        assert_eq!(extent.cut(4), None);
        assert_eq!(extent.cut(6).map(|cut| cut.len), Some(2));
        assert_eq!(extent.cut(99), Some(extent));
    }

    #[test]
    fn a_map_that_goes_past_the_volume_s_units_is_unsound() {
        let shape = Shape {
            volume_bytes: 1 << 24,
            unit_log2: 9,
            node_log2: 8,
            buckets_log2: 0,
            lba_log2: 6,
            table_groups: 0,
        };
        let units = shape.unit_count();
        let extent = |logical| Extent {
            logical,
            start: 0,
            len: 1,
        };
        let ends = |first| extents_end(&extent_entry(&extent(first)), first, &shape, u64::MAX);
        assert_eq!(ends(0), Some(1));
        assert_eq!(ends(units - 1), Some(units));
        for first in [units, units + 1, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(ends(first), None, "{first}");
        }
        let sound = |first_logical| {
            let entry = index_entry(first_logical, 0);
            index_is_sound(&entry, first_logical, &shape, u64::MAX)
        };
        assert!(sound(units - 1));
        assert!(!sound(units) && !sound(u64::MAX - 1));
        // A file of one unit, on a volume that was shortened since: the rest is not its own.
        let entries = [
            extent_entry(&Extent {
                logical: 0,
                start: units - 1,
                len: 5,
            }),
            extent_entry(&Extent {
                logical: 5,
                start: units + 9,
                len: 3,
            }),
        ];
        let entries = entries.as_flattened();
        assert_eq!(extents_end(entries, 0, &shape, 1), Some(8));
        assert_eq!(extents_end(entries, 0, &shape, 2), None);
        assert_eq!(extents_end(entries, 0, &shape, 6), None);
        let nodes = [index_entry(0, 0), index_entry(1, 2 * units)];
        let nodes = nodes.as_flattened();
        assert!(index_is_sound(nodes, 0, &shape, 1));
        assert!(!index_is_sound(nodes, 0, &shape, 2));
    }
}
