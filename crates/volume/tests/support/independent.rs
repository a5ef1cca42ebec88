// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An independent reader: decodes a volume from the offsets of `FORMAT.md`, without any code of the
//! library (not even its checksum), so that what the library writes is compared with the document
//! and not with itself. It reads everything (maps, bitmaps, leaves) and reports contradictions.
#![allow(dead_code)]

use std::collections::BTreeMap;

use ::crc32c::crc32c_append;

/// CRC32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    ::crc32c::crc32c(bytes)
}

/// The checksum of a node: identity, address, and the node without its checksum field.
pub fn node_crc(uuid: &[u8], address: u64, node: &[u8], field: usize) -> u32 {
    let parts = [
        uuid,
        &address.to_le_bytes(),
        &node[..field],
        &node[field + 4..],
    ];
    parts.into_iter().fold(0, crc32c_append)
}

pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// The offsets of a volume's regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regions {
    pub node: usize,
    pub unit: u64,
    pub slots: u64,
    pub slots_at: [u64; 2],
    pub bitmaps_at: [u64; 2],
    /// Bytes of the volume.
    pub bytes: u64,
    pub groups: u64,
    /// Bitmaps in each table; those of later groups begin their groups.
    pub table_groups: u64,
    pub group_units: u64,
    pub data_start: u64,
    pub units: u64,
    pub pair_units: u64,
    pub uuid: [u8; 16],
    /// Slots may have names of more than 64 bytes.
    pub long_names: bool,
    /// The table node's first unit.
    pub table_unit: Option<u64>,
}

impl Regions {
    /// The addresses of the two members of the leaf pair at `unit`.
    pub fn leaf_at(&self, unit: u64) -> [u64; 2] {
        let start = self.data_start + unit * self.unit;
        [start, start + self.pair_units * self.unit / 2]
    }

    /// The addresses of the two members of a group's bitmap.
    pub fn bitmap_at(&self, group: u64) -> [u64; 2] {
        if group < self.table_groups {
            self.bitmaps_at.map(|at| at + group * self.node as u64)
        } else {
            self.leaf_at(group * self.group_units)
        }
    }
}

/// A file as its slot and its leaves describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub slot: u64,
    pub name: String,
    pub removed: bool,
    pub size_bytes: u64,
    pub alloc_units: u64,
    pub app_tag: u64,
    pub level: u8,
    pub checksums: bool,
    /// First unit and length, in the order of the file; cut at `alloc_units`.
    pub extents: Vec<(u64, u64)>,
    /// First units of leaf pairs.
    pub pairs: Vec<u64>,
}

/// The contents of a volume.
#[derive(Clone, Debug)]
pub struct Scan {
    pub regions: Regions,
    pub seq: u64,
    pub clean: bool,
    pub files: Vec<File>,
    /// Bitmap members that are invalid.
    pub torn_bitmaps: u64,
    /// Slot and leaf members that are invalid.
    pub torn_others: u64,
    /// Names of files with units past their data and two slot members that differ.
    pub abandoned: Vec<String>,
    /// Free slots that would have a file with units again if their newest member rotted.
    pub half_free: Vec<u64>,
    /// Where the buckets are that were added to the slot table: members A, then B.
    pub added: Vec<[u64; 2]>,
    /// Extents of the table node.
    table_extents: Vec<(u64, u64)>,
    /// The table node's members are not valid or not equal.
    pub half_a_table: bool,
    used: Vec<bool>,
}

fn newest<'b>(
    bytes: &'b [u8],
    uuid: &[u8],
    at: [u64; 2],
    node: usize,
    magic: &[u8],
    fits: impl Fn(&[u8]) -> bool,
) -> (Option<&'b [u8]>, u64) {
    let mut best: Option<&[u8]> = None;
    let mut invalid = 0;
    for (member, address) in at.into_iter().enumerate() {
        let Some(found) = bytes.get(address as usize..address as usize + node) else {
            continue;
        };
        let valid = found[..4] == *magic
            && u64_at(found, 8) % 2 == member as u64
            && u32_at(found, 4) == node_crc(uuid, address, found, 4)
            && fits(found);
        if !valid {
            invalid += 1;
        } else if best.is_none_or(|best| u64_at(found, 8) > u64_at(best, 8)) {
            best = Some(found);
        }
    }
    (best, invalid)
}

/// The regions, the sequence number and whether it is clean, of the newest valid superblock.
pub fn superblock(bytes: &[u8]) -> Result<(Regions, u64, bool), String> {
    let mut best: Option<&[u8]> = None;
    for address in [0u64, 65_536] {
        let found = &bytes[address as usize..address as usize + 256];
        let valid = found[..8] == *b"STRTWAY1"
            && u32_at(found, 8) == node_crc(&[], address, found, 8)
            && u64_at(found, 16) % 2 == u64::from(address != 0);
        if valid && best.is_none_or(|best| u64_at(found, 16) > u64_at(best, 16)) {
            best = Some(found);
        }
    }
    let found = best.ok_or("no valid superblock")?;
    let (node, unit) = (1usize << found[49], 1u64 << found[48]);
    let group_units = 4 * node as u64;
    let natural = (u64_at(found, 40) / unit).div_ceil(group_units);
    let resized = u64::from(u32_at(found, 124));
    if (u32_at(found, 56) & 4 != 0) != (resized > 0) {
        return Err("bit 2 of INCOMPAT and TABLE_GROUPS disagree".into());
    }
    let (groups, table_groups) = match resized {
        0 => (natural, natural),
        tables => (u64_at(found, 112).div_ceil(group_units), tables),
    };
    let regions = Regions {
        node,
        unit,
        slots: 8 << found[50],
        slots_at: [u64_at(found, 72), u64_at(found, 80)],
        bitmaps_at: [u64_at(found, 88), u64_at(found, 96)],
        bytes: u64_at(found, 40),
        groups,
        table_groups,
        group_units,
        data_start: u64_at(found, 104),
        units: u64_at(found, 112),
        pair_units: (2 * node as u64 / unit).max(1),
        uuid: found[24..40].try_into().unwrap(),
        long_names: u32_at(found, 56) & 16 != 0,
        table_unit: (u32_at(found, 56) & 32 != 0).then_some(u64::from(u32_at(found, 252))),
    };
    if regions.table_unit.is_none() && u32_at(found, 252) != 0 {
        return Err("TABLE_UNIT without bit 5 of INCOMPAT".into());
    }
    if regions.long_names && node < 512 {
        return Err("bit 4 of INCOMPAT with nodes of 256 bytes".into());
    }
    let table = regions.slots * node as u64;
    let maps = regions.table_groups * node as u64;
    let expected = [131_072, 131_072 + table, 131_072 + table + maps];
    let stored = [
        regions.slots_at[0],
        regions.bitmaps_at[0],
        regions.slots_at[1],
    ];
    if stored != expected || regions.bitmaps_at[1] != expected[2] + table {
        return Err("the regions do not follow one another".into());
    }
    let end = regions.bitmaps_at[1] + maps;
    let units = (regions.bytes - regions.data_start) / unit;
    if regions.data_start != end.next_multiple_of(unit) || regions.units != units {
        return Err("the units do not follow the tables".into());
    }
    let clean = u32_at(found, 52) & 1 != 0;
    Ok((regions, u64_at(found, 16), clean))
}

/// The slots in the list that the newest superblock's record names, of new files or of removed
/// ones; empty if the list is not valid, `None` if the record is another.
///
/// # Errors
/// The record contradicts the page.
pub fn listed(bytes: &[u8]) -> Result<Option<Vec<u32>>, String> {
    let (r, seq, _) = superblock(bytes)?;
    let found = &bytes[if seq % 2 == 0 { 0 } else { 65_536 }..][..256];
    let bits = [(8, 5), (64, 6)].map(|(bit, kind)| (u32_at(found, 56) & bit != 0, kind));
    if bits
        .iter()
        .any(|(has_bit, kind)| *has_bit != (u32_at(found, 128) == *kind))
    {
        return Err("bit 3 or 6 of INCOMPAT and the record disagree".into());
    }
    let has_bit = bits.iter().any(|(has_bit, _)| *has_bit);
    if !has_bit {
        return Ok(None);
    }
    let count = u32_at(found, 132) as usize;
    let (start, len) = (u64_at(found, 144), u64::from(u32_at(found, 152)));
    let full = (r.node - 64) / 4;
    let nodes = count.div_ceil(full);
    let units = (nodes * r.node).div_ceil(r.unit as usize) as u64;
    if !(1..=4096).contains(&count) || u32_at(found, 140) != 1 || len < units {
        return Err("a list that does not fit its run".into());
    }
    let mut slots = Vec::new();
    for index in 0..nodes {
        let address = r.data_start + start * r.unit + (index * r.node) as u64;
        let node = &bytes[address as usize..][..r.node];
        let here = full.min(count - index * full);
        let valid = node[..4] == *b"SWnf"
            && u32_at(node, 4) == node_crc(&r.uuid, address, node, 4)
            && [u64_at(node, 8), u64_at(node, 16)] == [seq; 2]
            && u32_at(node, 24) as usize == index * full
            && u32_at(node, 28) as usize == here;
        if !valid {
            return Ok(Some(Vec::new()));
        }
        slots.extend((0..here).map(|slot| u32_at(node, 64 + 4 * slot)));
    }
    Ok(Some(slots))
}

impl Scan {
    /// Reads everything.
    ///
    /// # Errors
    /// The first contradiction, in words.
    pub fn new(bytes: &[u8]) -> Result<Self, String> {
        let (regions, seq, clean) = superblock(bytes)?;
        let mut scan = Self {
            regions,
            seq,
            clean,
            files: Vec::new(),
            torn_bitmaps: 0,
            torn_others: 0,
            abandoned: Vec::new(),
            half_free: Vec::new(),
            added: Vec::new(),
            table_extents: Vec::new(),
            half_a_table: false,
            used: Vec::new(),
        };
        scan.table(bytes)?;
        for slot in 0..regions.slots + 8 * scan.added.len() as u64 {
            scan.slot(bytes, slot)?;
        }
        for group in 0..regions.groups {
            scan.bitmap(bytes, group)?;
        }
        Ok(scan)
    }

    /// The page's "Grown tables".
    fn table(&mut self, bytes: &[u8]) -> Result<(), String> {
        let r = self.regions;
        let Some(unit) = r.table_unit else {
            return Ok(());
        };
        if unit % r.pair_units != 0 {
            return Err("a table node that is not aligned".into());
        }
        let at = r.leaf_at(unit);
        let (found, torn) = newest(bytes, &r.uuid, at, r.node, b"SWsl", |_| true);
        let found = found.ok_or("no valid table node")?;
        let members = at.map(|at| &bytes[at as usize + 16..at as usize + r.node]);
        self.half_a_table = torn > 0 || members[0] != members[1];
        if u64_at(found, 16) > self.seq {
            return Err("the table node is newer than the superblock".into());
        }
        let fixed = [24, 48, 72].map(|at| u64_at(found, at));
        if found[56..59] != [3, 0, 0] || fixed != [0; 3] || u64_at(found, 64) != 0 {
            return Err("a table node with fields of a file".into());
        }
        let bucket = 16 * r.node as u64;
        let (mut logical, count) = (0, u32_at(found, 60) as usize);
        for entry in found[144..].chunks(16).take(count) {
            let (start, len) = (u64_at(entry, 0), u64::from(u32_at(entry, 8)));
            if u64::from(u32_at(entry, 12)) != logical || start >= 1 << 32 {
                return Err("the table node: an extent out of place".into());
            }
            logical += len;
            self.table_extents.push((start, len));
            for index in 0..len * r.unit / bucket {
                let at = r.data_start + start * r.unit + index * bucket;
                self.added.push([at, at + bucket / 2]);
            }
        }
        let size = u64_at(found, 32);
        if logical != u64_at(found, 40) || count > 16 || size % bucket != 0 {
            return Err("a table node with another size".into());
        }
        if size / bucket > self.added.len() as u64 {
            return Err("more buckets than fit the table node's extents".into());
        }
        self.added.truncate((size / bucket) as usize);
        Ok(())
    }

    /// The buckets that a name may be in, by the page.
    pub fn buckets_of(&self, name: &str) -> Vec<u64> {
        let n = self.regions.slots / 8 + self.added.len() as u64;
        let h = crc32c(name.as_bytes());
        let mut buckets: Vec<u64> = [h, h.rotate_right(16)]
            .into_iter()
            .map(|x| {
                let mut m = 1;
                while m < n {
                    m *= 2;
                }
                let bucket = u64::from(x) % m;
                if bucket >= n { bucket - m / 2 } else { bucket }
            })
            .collect();
        if !self.added.is_empty() && buckets.contains(&(n - 1)) {
            let mut highest = 1;
            while highest * 2 < n {
                highest *= 2;
            }
            buckets.push(n - 1 - highest);
        }
        buckets
    }

    fn slot(&mut self, bytes: &[u8], slot: u64) -> Result<(), String> {
        let r = self.regions;
        let at = match slot.checked_sub(r.slots) {
            None => r.slots_at.map(|table| table + slot * r.node as u64),
            Some(more) => {
                self.added[(more / 8) as usize].map(|half| half + more % 8 * r.node as u64)
            }
        };
        let (found, torn) = newest(bytes, &r.uuid, at, r.node, b"SWsl", |_| true);
        self.torn_others += torn;
        let found = found.ok_or(format!("slot {slot}: no valid member"))?;
        if u64_at(found, 16) > self.seq {
            return Err(format!("slot {slot} is newer than the superblock"));
        }
        if found[56] == 0 {
            // R9: neither member of a free slot has a file that once had units.
            let members = at.map(|at| &bytes[at as usize..][..r.node]);
            if torn == 0 && members.iter().any(|member| u64_at(member, 40) > 0) {
                self.half_free.push(slot);
            }
            return Ok(());
        }
        let name_len = usize::from(found[58]);
        if name_len == 0 || name_len > 64 && !r.long_names {
            return Err(format!(
                "slot {slot}: a name of {name_len} bytes without bit 4"
            ));
        }
        // The page's table: a name of up to 64 bytes has 64, a longer one a multiple of 16.
        let entries_at = match name_len {
            ..=64 => 144,
            _ => 80 + 16 * name_len.div_ceil(16),
        };
        let name = String::from_utf8(found[80..80 + name_len].to_vec());
        let name = name.map_err(|_| format!("slot {slot}: a name that is not UTF-8"))?;
        if found[80 + name_len..entries_at]
            .iter()
            .any(|byte| *byte != 0)
        {
            return Err(format!("slot {slot}: its name is not padded with zeroes"));
        }
        if found[56] == 1 && !self.buckets_of(&name).contains(&(slot / 8)) {
            return Err(format!("slot {slot}: {name:?} is in another bucket"));
        }
        let mut file = File {
            slot,
            name,
            removed: found[56] == 2,
            size_bytes: u64_at(found, 32),
            alloc_units: u64_at(found, 40),
            app_tag: u64_at(found, 72),
            level: found[57],
            checksums: u32_at(found, 64) & 1 != 0,
            extents: Vec::new(),
            pairs: Vec::new(),
        };
        let id = u64_at(found, 24);
        let count = u32_at(found, 60) as usize;
        let entries = &found[entries_at..entries_at + 16 * count];
        let mut logical = 0;
        self.entries(bytes, &mut file, id, found[57], entries, &mut logical)?;
        if logical != file.alloc_units {
            let alloc = file.alloc_units;
            return Err(format!("slot {slot}: {alloc} units, its map has {logical}"));
        }
        let data = file.size_bytes.div_ceil(r.unit);
        let sums = u64::from(file.checksums) * data.div_ceil(16_384);
        let members = at.map(|at| &bytes[at as usize + 16..at as usize + r.node]);
        let is_closed = torn == 0 && members[0] == members[1];
        if !file.removed && file.alloc_units > data + sums && !is_closed {
            self.abandoned.push(file.name.clone());
        }
        self.files.push(file);
        Ok(())
    }

    /// Follows entries of a level down to the extents.
    fn entries(
        &mut self,
        bytes: &[u8],
        file: &mut File,
        id: u64,
        level: u8,
        entries: &[u8],
        logical: &mut u64,
    ) -> Result<(), String> {
        let r = self.regions;
        let starts: Vec<u64> = entries.chunks(16).map(|entry| u64_at(entry, 0)).collect();
        for (index, entry) in entries.chunks(16).enumerate() {
            if level == 0 {
                if *logical >= file.alloc_units {
                    break;
                }
                if u32_at(entry, 12) != *logical as u32 {
                    return Err(format!("slot {}: an extent out of place", file.slot));
                }
                let len = u64::from(u32_at(entry, 8)).min(file.alloc_units - *logical);
                file.extents.push((u64_at(entry, 0), len));
                *logical += len;
                continue;
            }
            let (first, unit) = (u64_at(entry, 0), u64_at(entry, 8));
            if first >= file.alloc_units {
                break;
            }
            if first != *logical {
                return Err(format!("slot {}: a leaf out of place", file.slot));
            }
            let of_file = |leaf: &[u8]| u64_at(leaf, 24) == id;
            let (leaf, torn) = newest(bytes, &r.uuid, r.leaf_at(unit), r.node, b"SWlf", of_file);
            self.torn_others += torn;
            let leaf = leaf.ok_or(format!("slot {}: no valid leaf at {unit}", file.slot))?;
            if u32_at(leaf, 44) != u32::from(level) || u64_at(leaf, 32) != first {
                return Err(format!("slot {}: another leaf at {unit}", file.slot));
            }
            if u64_at(leaf, 16) > self.seq {
                return Err(format!("the leaf at {unit} is newer than the superblock"));
            }
            file.pairs.push(unit);
            // What lies past the next entry's first unit belongs to that entry.
            let next = starts.get(index + 1).copied().unwrap_or(u64::MAX);
            let alloc = file.alloc_units;
            file.alloc_units = alloc.min(next);
            let inner = &leaf[64..64 + 16 * u32_at(leaf, 40) as usize];
            let done = self.entries(bytes, file, id, level - 1, inner, logical);
            file.alloc_units = alloc;
            done?;
        }
        Ok(())
    }

    fn bitmap(&mut self, bytes: &[u8], group: u64) -> Result<(), String> {
        let r = self.regions;
        let at = r.bitmap_at(group);
        let (found, invalid) = newest(bytes, &r.uuid, at, r.node, b"SWbm", |_| true);
        self.torn_bitmaps += invalid;
        let found = found.ok_or(format!("bitmap {group}: no valid member"))?;
        if u64_at(found, 24) != group || u64_at(found, 16) > self.seq {
            return Err(format!("bitmap {group}: of another group or time"));
        }
        let bits = &found[r.node / 2..];
        let free: u32 = bits.iter().map(|byte| byte.count_zeros()).sum();
        if free != u32_at(found, 32) {
            return Err(format!("bitmap {group}: {free} free bits, not as counted"));
        }
        let units = (0..8 * bits.len()).map(|unit| bits[unit / 8] >> (unit % 8) & 1 != 0);
        self.used.extend(units);
        Ok(())
    }

    /// Compares the maps with the bitmaps: no unit is used twice, lost, or both used and free.
    ///
    /// # Errors
    /// The first difference, in words.
    pub fn check_space(&self) -> Result<(), String> {
        let r = &self.regions;
        let mut owners: BTreeMap<u64, u64> = BTreeMap::new();
        for file in &self.files {
            let pairs = file.pairs.iter().map(|unit| (*unit, r.pair_units));
            for (start, len) in file.extents.iter().copied().chain(pairs) {
                for unit in start..start + len {
                    if let Some(other) = owners.insert(unit, file.slot) {
                        let slot = file.slot;
                        return Err(format!("unit {unit} is of slots {other} and {slot}"));
                    }
                }
            }
        }
        let pair = r.table_unit.map(|unit| (unit, r.pair_units));
        for (start, len) in self.table_extents.iter().copied().chain(pair) {
            for unit in start..start + len {
                if let Some(other) = owners.insert(unit, u64::MAX) {
                    return Err(format!("unit {unit} is of slot {other} and of the table"));
                }
            }
        }
        for (unit, used) in self.used.iter().enumerate() {
            let unit = unit as u64;
            let (group, within) = (unit / r.group_units, unit % r.group_units);
            let is_bitmap = group >= r.table_groups && within < r.pair_units;
            if is_bitmap && owners.contains_key(&unit) {
                return Err(format!("unit {unit} is of a bitmap and of a file"));
            }
            let owned = unit >= r.units || is_bitmap || owners.contains_key(&unit);
            if owned && !used {
                return Err(format!("unit {unit} is used and marked free"));
            }
            if !owned && *used {
                return Err(format!("unit {unit} is leaked"));
            }
        }
        Ok(())
    }

    /// The first `size_bytes` of a file without looking at checksums.
    pub fn data(&self, bytes: &[u8], file: &File) -> Vec<u8> {
        let r = &self.regions;
        let mut data = Vec::new();
        let mut logical = 0;
        for (start, len) in &file.extents {
            for unit in *start..start + len {
                // A checksum unit precedes each 16,384 data units.
                if !file.checksums || logical % 16_385 != 0 {
                    let at = (r.data_start + unit * r.unit) as usize;
                    data.extend_from_slice(&bytes[at..at + r.unit as usize]);
                }
                logical += 1;
                if data.len() as u64 >= file.size_bytes {
                    data.truncate(file.size_bytes as usize);
                    return data;
                }
            }
        }
        data
    }
}
