// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file slot: name, size, and the root of the file's map. `FORMAT.md`, "File slot".
//!
//! The header is decoded into a plain value; the map entries stay in the node's bytes.

use crate::bytes::{get_u8, get_u32, get_u64, put, put_u32, put_u64};
use crate::layout::{ENTRY_BYTES, Shape, entries_at, magic, node, slot as at};
use crate::map::{self, Extent, Index};
use crate::name::NameRef;
use crate::table::{TABLE_EXTENTS, TABLE_NODE};
use crate::{Error, error::Node};

/// The file has a checksum unit before each span of data units.
pub(crate) const ATTRIBUTE_CHECKSUMS: u32 = 1;

/// The state of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Free,
    Live,
    /// Removed; its units have not been given back yet.
    Reap,
    /// The table node: the buckets that were added to the slot table.
    Table,
}

/// The header of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub seq: u64,
    pub last_op: u64,
    pub file_id: u64,
    pub size_bytes: u64,
    pub alloc_units: u64,
    pub mtime_ns: u64,
    pub state: State,
    pub map_level: u8,
    /// Bytes of the name, which stays in the node's bytes.
    pub name_len: u8,
    pub entry_count: u32,
    pub attributes: u32,
    pub tail_crc: u32,
    pub app_tag: u64,
    /// The slot's number; not stored.
    pub index: u32,
    /// Both members are valid, as far as is known; not stored.
    pub whole: bool,
}

impl Slot {
    /// An empty value to decode into.
    pub(crate) const EMPTY: Slot = Slot::free(0, 0, 0);

    /// A free slot.
    pub(crate) const fn free(index: u32, seq: u64, last_op: u64) -> Self {
        Self {
            index,
            whole: true,
            seq,
            last_op,
            file_id: 0,
            size_bytes: 0,
            alloc_units: 0,
            mtime_ns: 0,
            state: State::Free,
            map_level: 0,
            name_len: 0,
            entry_count: 0,
            attributes: 0,
            tail_crc: 0,
            app_tag: 0,
        }
    }

    /// An identity unique among all files the volume ever had: a slot's `seq` only grows.
    pub(crate) const fn new_file_id(slot: u32, seq: u64) -> u64 {
        if slot >= 1 << 19 {
            return (1 << 63) | ((slot as u64) << 39) | (seq & ((1 << 39) - 1));
        }
        ((slot as u64) << 44) | (seq & ((1 << 44) - 1))
    }

    /// Steps the number back by two, so that the next two writes are first of the older member and
    /// then of the newest, with the numbers that a pair has already: R9.
    ///
    /// # Errors
    /// [`Error::Corrupt`]: no slot that was ever used has so low a number.
    pub(crate) fn rewind(&mut self) -> Result<(), Error> {
        self.seq = self
            .seq
            .checked_sub(2)
            .ok_or(Error::from(Node::Slot(self.index)))?;
        Ok(())
    }

    pub(crate) const fn has_checksums(&self) -> bool {
        self.attributes & ATTRIBUTE_CHECKSUMS != 0
    }

    /// Writes the header, without the name, and zeroes the entries past `entry_count`; a free slot
    /// is zeroed completely. The checksum is not set.
    pub(crate) fn encode(&self, bytes: &mut [u8]) {
        let (kept, used) = if self.state == State::Free {
            (0, 0)
        } else {
            (
                at::NAME,
                self.entries_at() + self.entry_count as usize * ENTRY_BYTES,
            )
        };
        if let Some(rest) = bytes.get_mut(used..) {
            rest.fill(0);
        }
        if let Some(header) = bytes.get_mut(..kept) {
            header.fill(0);
        }
        put(bytes, node::MAGIC, &magic::SLOT);
        put_u64(bytes, node::SEQ, self.seq);
        put_u64(bytes, node::LAST_OP, self.last_op);
        put_u64(bytes, at::FILE_ID, self.file_id);
        put_u64(bytes, at::SIZE_BYTES, self.size_bytes);
        put_u64(bytes, at::ALLOC_UNITS, self.alloc_units);
        put_u64(bytes, at::MTIME_NS, self.mtime_ns);
        let state = match self.state {
            State::Free => 0,
            State::Live => 1,
            State::Reap => 2,
            State::Table => 3,
        };
        put(bytes, at::STATE, &[state]);
        put(bytes, at::MAP_LEVEL, &[self.map_level]);
        put(bytes, at::NAME_LEN, &[self.name_len]);
        put_u32(bytes, at::ENTRY_COUNT, self.entry_count);
        put_u32(bytes, at::ATTRIBUTES, self.attributes);
        put_u32(bytes, at::TAIL_CRC, self.tail_crc);
        put_u64(bytes, at::APP_TAG, self.app_tag);
    }

    /// Decodes a slot whose checksum is valid into this one. The map's root is checked here, once;
    /// and that the name has at most `name_bytes`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if its fields contradict each other or the volume's shape.
    #[inline(never)]
    pub(crate) fn decode(
        &mut self,
        bytes: &[u8],
        index: u32,
        shape: &Shape,
        name_bytes: usize,
    ) -> Result<(), Error> {
        let (seq, last_op) = (get_u64(bytes, node::SEQ), get_u64(bytes, node::LAST_OP));
        *self = Self::free(index, seq, last_op);
        self.state = match get_u8(bytes, at::STATE) {
            0 => return Ok(()),
            1 => State::Live,
            3 => State::Table,
            _ => State::Reap,
        };
        self.file_id = get_u64(bytes, at::FILE_ID);
        self.size_bytes = get_u64(bytes, at::SIZE_BYTES);
        self.alloc_units = get_u64(bytes, at::ALLOC_UNITS);
        self.mtime_ns = get_u64(bytes, at::MTIME_NS);
        self.map_level = get_u8(bytes, at::MAP_LEVEL);
        self.name_len = get_u8(bytes, at::NAME_LEN);
        self.entry_count = get_u32(bytes, at::ENTRY_COUNT);
        self.attributes = get_u32(bytes, at::ATTRIBUTES);
        self.tail_crc = get_u32(bytes, at::TAIL_CRC);
        self.app_tag = get_u64(bytes, at::APP_TAG);
        let is_table = self.state == State::Table;
        let is_named = usize::from(self.name_len) <= name_bytes && name(bytes).is_some();
        let sound = get_u8(bytes, at::STATE) <= 3
            && is_table == (index == TABLE_NODE)
            && is_named != is_table
            && self.map_level <= if is_table { 0 } else { 2 }
            && self.entry_count as usize <= self.most_entries(shape)
            && self.alloc_units <= shape.unit_count()
            && self.size_bytes <= self.capacity_bytes(shape)
            && (self.alloc_units == 0) == (self.entry_count == 0)
            && self.map_is_sound(bytes, shape);
        if sound {
            Ok(())
        } else {
            Err(Error::from(Node::Slot(index)))
        }
    }

    fn map_is_sound(&self, bytes: &[u8], shape: &Shape) -> bool {
        if self.map_level == 0 {
            let end = map::extents_end(self.entries(bytes), 0, shape, u64::MAX);
            return end.is_some_and(|end| end == self.alloc_units);
        }
        map::index_is_sound(self.entries(bytes), 0, shape, self.alloc_units)
            && self
                .indexes(bytes)
                .last()
                .is_some_and(|last| last.first_logical < self.alloc_units)
    }

    /// Bytes of data that the allocated units can hold.
    pub(crate) const fn capacity_bytes(&self, shape: &Shape) -> u64 {
        map::data_units(self.alloc_units, self.has_checksums()) << shape.unit_log2
    }

    /// Units up to the end of the data, with their checksum units; the rest is reservation.
    pub(crate) fn data_end_units(&self, shape: &Shape) -> u64 {
        let data = self.size_bytes.div_ceil(shape.unit_bytes());
        map::file_units(data, self.has_checksums()).min(self.alloc_units)
    }

    /// Where the entries begin.
    pub(crate) const fn entries_at(&self) -> usize {
        entries_at(self.name_len as usize)
    }

    /// Entries for which the slot has room.
    pub(crate) const fn most_entries(&self, shape: &Shape) -> usize {
        let most = shape.slot_entries_behind(self.name_len as usize);
        if self.index == TABLE_NODE && most > TABLE_EXTENTS {
            TABLE_EXTENTS
        } else {
            most
        }
    }

    /// The raw entries in use.
    pub(crate) fn entries<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let (from, len) = (self.entries_at(), self.entry_count as usize * ENTRY_BYTES);
        bytes.get(from..from + len).unwrap_or_default()
    }

    /// Stores entry `place`.
    pub(crate) fn put_entry(&self, bytes: &mut [u8], place: u32, entry: &map::Entry) {
        let entries = bytes.get_mut(self.entries_at()..).unwrap_or_default();
        map::put_entry(entries, place, entry);
    }

    /// Sets the name in a slot's bytes. The entries move to behind it; the caller knows that they
    /// fit there.
    pub(crate) fn set_name(&mut self, bytes: &mut [u8], name: NameRef<'_>) {
        let name = name.as_bytes();
        let (from, len) = (self.entries_at(), self.entry_count as usize * ENTRY_BYTES);
        let to = entries_at(name.len());
        let fits = from.max(to) + len <= bytes.len();
        debug_assert!(fits, "a name without room");
        if fits {
            // `copy_within` would be `memmove`, which small machines have for nothing else.
            for at in 0..len {
                let at = if to > from { len - 1 - at } else { at };
                let byte = bytes.get(from + at).copied().unwrap_or_default();
                put(bytes, to + at, &[byte]);
            }
        }
        if let Some(place) = bytes.get_mut(at::NAME..to) {
            place.fill(0);
        }
        put(bytes, at::NAME, name);
        self.name_len = name.len() as u8;
    }

    /// The extents of a level 0 map.
    pub(crate) fn extents<'b>(&self, bytes: &'b [u8]) -> impl Iterator<Item = Extent> + use<'b> {
        map::extents(self.entries(bytes), 0)
    }

    /// The last extent of a level 0 map.
    pub(crate) fn last_extent(&self, bytes: &[u8]) -> Option<Extent> {
        map::last_extent(self.entries(bytes), 0, u64::MAX).0
    }

    /// The index entries of a level 1 or 2 map.
    pub(crate) fn indexes<'b>(&self, bytes: &'b [u8]) -> impl Iterator<Item = Index> + use<'b> {
        map::indexes(self.entries(bytes))
    }
}

/// The name in a slot's bytes, if it is valid.
pub(crate) fn name(bytes: &[u8]) -> Option<NameRef<'_>> {
    let len = usize::from(get_u8(bytes, at::NAME_LEN));
    NameRef::from_bytes(bytes.get(at::NAME..at::NAME + len)?).ok()
}

/// Whether the slot's bytes have this name.
pub(crate) fn has_name(bytes: &[u8], name: NameRef<'_>) -> bool {
    let name = name.as_bytes();
    usize::from(get_u8(bytes, at::NAME_LEN)) == name.len()
        && bytes.get(at::NAME..at::NAME + name.len()) == Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::put_u32 as poke;

    const SHAPE: Shape = Shape {
        volume_bytes: 1 << 20,
        unit_log2: 12,
        node_log2: 9,
        buckets_log2: 0,
        lba_log2: 9,
        table_groups: 0,
    };

    fn slot() -> (Slot, [u8; 512]) {
        let mut bytes = [0; 512];
        let extents = [(3u64, 2u32), (9, 1)];
        let mut logical = 0;
        for (index, (start, len)) in extents.into_iter().enumerate() {
            let extent = Extent {
                logical,
                start,
                len,
            };
            map::put_entry(
                &mut bytes[at::ENTRIES..],
                index as u32,
                &map::extent_entry(&extent),
            );
            logical += u64::from(len);
        }
        let mut slot = Slot {
            size_bytes: 9000,
            alloc_units: 3,
            state: State::Live,
            entry_count: 2,
            file_id: Slot::new_file_id(5, 77),
            ..Slot::free(5, 8, 7)
        };
        slot.set_name(&mut bytes, NameRef::new("a file").unwrap());
        slot.encode(&mut bytes);
        (slot, bytes)
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let (slot, bytes) = slot();
        let mut decoded = Slot::EMPTY;
        assert_eq!(decoded.decode(&bytes, 5, &SHAPE, 64), Ok(()));
        assert_eq!(decoded, slot);
        let extents: std::vec::Vec<_> = slot.extents(&bytes).collect();
        assert_eq!(extents[1].logical, 2);
    }

    #[test]
    fn the_entries_follow_the_name() {
        let (mut slot, mut bytes) = slot();
        let extents: std::vec::Vec<_> = slot.extents(&bytes).collect();
        for len in [64, 65, 80, 255, 129, 81, 64, 255, 1] {
            let name = "n".repeat(len);
            slot.set_name(&mut bytes, NameRef::new(&name).unwrap());
            slot.encode(&mut bytes);
            let mut decoded = Slot::EMPTY;
            assert_eq!(decoded.decode(&bytes, 5, &SHAPE, 255), Ok(()));
            assert_eq!(decoded, slot);
            assert!(super::name(&bytes).is_some_and(|found| found.as_str() == name));
            let found: std::vec::Vec<_> = decoded.extents(&bytes).collect();
            assert_eq!(found, extents);
            let start = entries_at(len);
            let unused = [&bytes[at::NAME + len..start], &bytes[start + 32..]].concat();
            assert!(unused.iter().all(|byte| *byte == 0), "{len}");
            let short = decoded.decode(&bytes, 5, &SHAPE, 64);
            assert_eq!(short.is_ok(), len <= 64, "{len}");
        }
        Slot::free(5, 9, 8).encode(&mut bytes);
        assert!(bytes[24..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn contradictions_are_corruption() {
        for (offset, value) in [
            (at::SIZE_BYTES, 3 * 4096 + 1),
            (at::ALLOC_UNITS, 4),
            (at::ALLOC_UNITS, 2),
            (at::STATE, 3),
            (at::STATE, 1),
            (at::ENTRY_COUNT, 24),
            (at::ENTRY_COUNT, 0),
            (at::ENTRIES, 300),
            (at::ENTRIES + 8, 0),
            (at::ENTRIES + 12, 1),
        ] {
            let (_, mut bytes) = slot();
            poke(&mut bytes, offset, value);
            let mut decoded = Slot::EMPTY;
            assert_eq!(
                decoded.decode(&bytes, 5, &SHAPE, 255),
                Err(Error::from(Node::Slot(5))),
                "offset {offset} value {value}"
            );
        }
    }
}
