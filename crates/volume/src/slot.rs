// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file slot: name, size, and the root of the file's map. `FORMAT.md`, "File slot".
//!
//! The header is decoded into a plain value; the map entries stay in the node's bytes.

use crate::bytes::{get_u8, get_u32, get_u64, put, put_u32, put_u64};
use crate::layout::{ENTRY_BYTES, Shape, magic, node, slot as at};
use crate::map::{self, Extent, Index};
use crate::name::{NAME_BYTES, NameRef};
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
    pub entry_count: u32,
    pub attributes: u32,
    pub tail_crc: u32,
    pub app_tag: u64,
    /// The slot's number; not stored. The name stays in the node's bytes.
    pub index: u32,
}

impl Slot {
    /// An empty value to decode into.
    pub(crate) const EMPTY: Slot = Slot::free(0, 0, 0);

    /// A free slot.
    pub(crate) const fn free(index: u32, seq: u64, last_op: u64) -> Self {
        Self {
            index,
            seq,
            last_op,
            file_id: 0,
            size_bytes: 0,
            alloc_units: 0,
            mtime_ns: 0,
            state: State::Free,
            map_level: 0,
            entry_count: 0,
            attributes: 0,
            tail_crc: 0,
            app_tag: 0,
        }
    }

    /// An identity unique among all files the volume ever had: a slot's `seq` only grows.
    pub(crate) const fn new_file_id(slot: u32, seq: u64) -> u64 {
        ((slot as u64) << 44) | (seq & ((1 << 44) - 1))
    }

    pub(crate) const fn has_checksums(&self) -> bool {
        self.attributes & ATTRIBUTE_CHECKSUMS != 0
    }

    /// Writes the header, without the name, and zeroes the entries past `entry_count`; a free slot
    /// is zeroed completely. The checksum is not set.
    pub(crate) fn encode(&self, bytes: &mut [u8]) {
        let used = at::ENTRIES + self.entry_count as usize * ENTRY_BYTES;
        if let Some(rest) = bytes.get_mut(used..) {
            rest.fill(0);
        }
        let name_len = get_u8(bytes, at::NAME_LEN);
        let kept = if self.state == State::Free {
            at::ENTRIES
        } else {
            at::NAME
        };
        if let Some(header) = bytes.get_mut(..kept) {
            header.fill(0);
        }
        if self.state != State::Free {
            put(bytes, at::NAME_LEN, &[name_len]);
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
        };
        put(bytes, at::STATE, &[state]);
        put(bytes, at::MAP_LEVEL, &[self.map_level]);
        put_u32(bytes, at::ENTRY_COUNT, self.entry_count);
        put_u32(bytes, at::ATTRIBUTES, self.attributes);
        put_u32(bytes, at::TAIL_CRC, self.tail_crc);
        put_u64(bytes, at::APP_TAG, self.app_tag);
    }

    /// Decodes a slot whose checksum is valid into this one. The map's root is checked here, once.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if its fields contradict each other or the volume's shape.
    #[inline(never)]
    pub(crate) fn decode(&mut self, bytes: &[u8], index: u32, shape: &Shape) -> Result<(), Error> {
        let (seq, last_op) = (get_u64(bytes, node::SEQ), get_u64(bytes, node::LAST_OP));
        *self = Self::free(index, seq, last_op);
        self.state = match get_u8(bytes, at::STATE) {
            0 => return Ok(()),
            1 => State::Live,
            _ => State::Reap,
        };
        self.file_id = get_u64(bytes, at::FILE_ID);
        self.size_bytes = get_u64(bytes, at::SIZE_BYTES);
        self.alloc_units = get_u64(bytes, at::ALLOC_UNITS);
        self.mtime_ns = get_u64(bytes, at::MTIME_NS);
        self.map_level = get_u8(bytes, at::MAP_LEVEL);
        self.entry_count = get_u32(bytes, at::ENTRY_COUNT);
        self.attributes = get_u32(bytes, at::ATTRIBUTES);
        self.tail_crc = get_u32(bytes, at::TAIL_CRC);
        self.app_tag = get_u64(bytes, at::APP_TAG);
        let sound = get_u8(bytes, at::STATE) <= 2
            && name(bytes).is_some()
            && self.map_level <= 2
            && self.entry_count as usize <= shape.slot_entries()
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
            let end = map::extents_end(self.entries(bytes), 0, shape);
            return end.is_some_and(|end| end == self.alloc_units);
        }
        map::index_is_sound(self.entries(bytes), 0, shape)
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

    /// The raw entries in use.
    pub(crate) fn entries<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let len = self.entry_count as usize * ENTRY_BYTES;
        bytes
            .get(at::ENTRIES..at::ENTRIES + len)
            .unwrap_or_default()
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
    let len = usize::from(get_u8(bytes, at::NAME_LEN)).min(NAME_BYTES + 1);
    let name = bytes.get(at::NAME..at::ENTRIES)?.get(..len)?;
    NameRef::from_bytes(name).ok()
}

/// Whether the slot's bytes have this name.
pub(crate) fn has_name(bytes: &[u8], name: NameRef<'_>) -> bool {
    let name = name.as_bytes();
    usize::from(get_u8(bytes, at::NAME_LEN)) == name.len()
        && bytes.get(at::NAME..at::NAME + name.len()) == Some(name)
}

/// Sets the name in a slot's bytes.
pub(crate) fn set_name(bytes: &mut [u8], name: NameRef<'_>) {
    let name = name.as_bytes();
    if let Some(place) = bytes.get_mut(at::NAME..at::ENTRIES) {
        place.fill(0);
    }
    put(bytes, at::NAME_LEN, &[name.len() as u8]);
    put(bytes, at::NAME, name);
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
        let slot = Slot {
            size_bytes: 9000,
            alloc_units: 3,
            state: State::Live,
            entry_count: 2,
            file_id: Slot::new_file_id(5, 77),
            ..Slot::free(5, 8, 7)
        };
        set_name(&mut bytes, NameRef::new("a file").unwrap());
        slot.encode(&mut bytes);
        (slot, bytes)
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let (slot, bytes) = slot();
        let mut decoded = Slot::EMPTY;
        assert_eq!(decoded.decode(&bytes, 5, &SHAPE), Ok(()));
        assert_eq!(decoded, slot);
        let extents: std::vec::Vec<_> = slot.extents(&bytes).collect();
        assert_eq!(extents[1].logical, 2);
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
                decoded.decode(&bytes, 5, &SHAPE),
                Err(Error::from(Node::Slot(5))),
                "offset {offset} value {value}"
            );
        }
    }
}
