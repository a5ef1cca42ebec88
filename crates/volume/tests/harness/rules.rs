// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The orders that `FORMAT.md` requires, checked at each write: by address (`rules`), and by
//! content where the address is not enough (`ContentRules`).

use std::collections::HashMap;
use std::ops::Range;

use crash::{CrashDisk, Medium, OrderRules, Pair};

use super::independent::{Regions, u32_at, u64_at};

/// Rules for a volume with these regions, on a device with blocks of `1 << lba_log2` bytes.
pub fn rules(r: &Regions, lba_log2: u8) -> OrderRules {
    let blocks = move |from: u64, len: u64| from >> lba_log2..(from + len) >> lba_log2;
    let node = r.node as u64;
    let tables = |at: [u64; 2], count: u64| at.map(|at| blocks(at, count * node));
    let slots = tables(r.slots_at, r.slots);
    let bitmaps = tables(r.bitmaps_at, r.table_groups);
    let superblocks = [blocks(0, node), blocks(65_536, node)];
    let everything = 0..u64::MAX;
    let mut order = OrderRules::new();
    for (index, regions) in [superblocks.clone(), slots.clone(), bitmaps.clone()]
        .into_iter()
        .enumerate()
    {
        let per_node = (node >> lba_log2).max(1);
        order = order.pairs(everything.clone(), move |lba| {
            let member = regions.iter().position(|region| region.contains(&lba))?;
            let place = (lba - regions[member].start) / per_node;
            Some(Pair {
                id: (index as u64) << 32 | place,
                member: member as u8,
            })
        });
    }
    let nodes: Vec<Range<u64>> = slots.into_iter().chain(bitmaps).collect();
    let name = "the record is durable before a node that it governs";
    order.durable_first(
        name,
        move |first| superblocks.iter().any(|region| first.touches(region)),
        move |later| nodes.iter().any(|region| later.touches(region)),
    )
}

/// Rules that depend on the written bytes: leaves, which can be anywhere, and sizes.
pub struct ContentRules {
    regions: Regions,
    lba_log2: u8,
    /// By file: the size that the newest slot has.
    sizes: HashMap<u64, u64>,
    pub violations: Vec<String>,
}

impl ContentRules {
    pub fn new(regions: Regions, lba_log2: u8) -> Self {
        Self {
            regions,
            lba_log2,
            sizes: HashMap::new(),
            violations: Vec::new(),
        }
    }

    /// Checks a write that is about to be submitted.
    pub fn write(&mut self, lba: u64, bytes: &[u8], disk: &CrashDisk) {
        if bytes.len() < self.regions.node {
            return;
        }
        match &bytes[..4] {
            b"SWlf" => self.leaf(lba, bytes, disk),
            b"SWsl" => self.slot(bytes, disk),
            _ => {}
        }
    }

    /// Of a leaf that the file uses, the other member is durable. A fresh pair (both members by
    /// one operation) is not named yet.
    fn leaf(&mut self, lba: u64, bytes: &[u8], disk: &CrashDisk) {
        let half = (self.regions.pair_units * self.regions.unit / 2) >> self.lba_log2;
        let other = if u64_at(bytes, 8) % 2 == 0 {
            lba + half
        } else {
            lba - half
        };
        let pending = disk.pending();
        let touches = pending
            .iter()
            .any(|pending| pending.command.touches(&(other..other + 1)));
        if !touches {
            return;
        }
        let mut before = vec![0; bytes.len()];
        let _ = disk.current().read(other, &mut before);
        let same_op = before[..4] == *b"SWlf" && u64_at(&before, 16) == u64_at(bytes, 16);
        if !same_op {
            self.violations.push(format!(
                "leaf at block {lba}: its other member is not durable"
            ));
        }
    }

    /// All data that a slot's size adds is durable before the slot is written.
    fn slot(&mut self, bytes: &[u8], disk: &CrashDisk) {
        let (id, size) = (u64_at(bytes, 24), u64_at(bytes, 32));
        if bytes[56] != 1 {
            self.sizes.remove(&id);
            return;
        }
        let known = self.sizes.insert(id, size);
        // With leaves the address of the data is not in the slot; the crash search covers that.
        let (Some(known), 0) = (known, bytes[57]) else {
            return;
        };
        let has_sums = u64::from(u32_at(bytes, 64) & 1);
        let (durable, current) = (disk.durable(), disk.current());
        let mut from = 0;
        let name_bytes = usize::from(bytes[58]).next_multiple_of(16).max(64);
        for entry in bytes[80 + name_bytes..]
            .chunks(16)
            .take(u32_at(bytes, 60) as usize)
        {
            let (start, len) = (u64_at(entry, 0), u64::from(u32_at(entry, 8)));
            for index in 0..len {
                // A file here has one checksum unit at most: its first.
                let at = (from + index).saturating_sub(has_sums) * self.regions.unit;
                let (begin, end) = (at.max(known), (at + self.regions.unit).min(size));
                if begin >= end || from + index < has_sums {
                    continue;
                }
                let place = self.regions.data_start + (start + index) * self.regions.unit;
                let within = (begin - at) as usize..(end - at) as usize;
                // An append to a part of a block writes the same bytes again: that may pend.
                let read = |medium: &Medium| {
                    let mut unit = vec![0; self.regions.unit as usize];
                    let _ = medium.read(place >> self.lba_log2, &mut unit);
                    unit[within.clone()].to_vec()
                };
                if read(&durable) != read(&current) {
                    self.violations.push(format!(
                        "a size of {size} is written before its data is durable"
                    ));
                    return;
                }
            }
            from += len;
        }
    }
}
