// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The end of a file's map, and adding an extent to it.

use block::Device;

use crate::io::{SPARE, State};
use crate::layout::{ENTRY_BYTES, leaf as leaf_at};
use crate::map::{self, Extent, Index, Leaf};
use crate::order::Mutation;
use crate::reserve::Allocation;
use crate::slot::Slot;
use crate::table::TABLE_NODE;
use crate::token::Loaded;
use crate::{Error, Volume, error::Node};

/// A leaf or index node at the end of a map, and how many of its entries the file owns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TailNode {
    pub index: Index,
    pub live: u32,
    /// It has more entries than the file owns.
    pub has_dead: bool,
}

/// The end of a map.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tail {
    /// The last extent, cut at what the file owns.
    pub last: Option<Extent>,
    /// The leaf with the last extent, at levels 1 and 2.
    pub leaf: Option<TailNode>,
    /// The index node with the last leaf, at level 2.
    pub node: Option<TailNode>,
}

/// What has to change to add one more extent to a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addition {
    /// Add an entry to the slot, or extend its last one.
    InSlot,
    /// Add an entry to the last leaf, or extend its last one.
    InLeaf,
    /// Move the slot's extents to a first leaf.
    FirstLeaf,
    /// Add a leaf, named by the slot.
    Leaf,
    /// Add a leaf, named by the last index node.
    LeafInNode,
    /// Move the slot's index entries to a first index node, and add a leaf.
    FirstNode,
    /// Add an index node with a new leaf.
    NodeAndLeaf,
}

impl Addition {
    /// Whether an existing leaf or index node of the file is written.
    pub(crate) const fn rewrites(self) -> bool {
        matches!(self, Addition::InLeaf | Addition::LeafInNode)
    }

    /// Leaf pairs to be allocated.
    pub(crate) const fn pairs(self) -> usize {
        match self {
            Addition::InSlot | Addition::InLeaf => 0,
            Addition::FirstLeaf | Addition::Leaf | Addition::LeafInNode => 1,
            Addition::FirstNode | Addition::NodeAndLeaf => 2,
        }
    }
}

impl<D: Device> Volume<'_, D> {
    /// Finds the end of the loaded slot's map, for an empty `tail`. Uses the other two nodes.
    pub(crate) async fn tail(
        &self,
        loaded: Loaded<'_>,
        header: &Slot,
        tail: &mut Tail,
    ) -> Result<(), Error> {
        let limit = header.alloc_units;
        if header.map_level == 0 {
            tail.last = header.last_extent(self.state().slot(loaded));
            return Ok(());
        }
        let damage = Error::from(Node::Slot(header.index));
        let mut index = map::last_index(header.entries(self.state().slot(loaded)), limit);
        let mut level = u32::from(header.map_level);
        loop {
            let (found, _) = index.ok_or(damage)?;
            let leaf = self.load_leaf(&found, header, level, true).await?;
            let state = self.state();
            let bytes = state.node(SPARE);
            if level == 2 {
                let below = map::last_index(leaf.entries(bytes), limit);
                let live = below.map_or(0, |(_, live)| live);
                let has_dead = leaf.count > live;
                tail.node = Some(TailNode {
                    index: found,
                    live,
                    has_dead,
                });
                index = below;
                level = 1;
                continue;
            }
            let (last, live) = leaf.live_extents(bytes, limit);
            // A leaf that ends too early is an old member: the newest one was lost.
            if last.is_none_or(|last| last.logical_end() != limit) {
                return Err(Error::from(Node::Map(header.index)));
            }
            tail.last = last;
            let has_dead = leaf.count > live;
            tail.leaf = Some(TailNode {
                index: found,
                live,
                has_dead,
            });
            return Ok(());
        }
    }

    /// The change that adds an extent that does, or does not, continue the last one.
    pub(crate) fn addition(
        &self,
        header: &Slot,
        tail: &Tail,
        contiguous: bool,
    ) -> Result<Addition, Error> {
        let shape = self.shape();
        let slot_has_room = (header.entry_count as usize) < header.most_entries(&shape);
        let has_room = |node: Option<TailNode>| {
            node.is_some_and(|node| (node.live as usize) < shape.leaf_entries())
        };
        if header.map_level == 0 {
            return Ok(if contiguous || slot_has_room {
                Addition::InSlot
            } else if header.index == TABLE_NODE {
                return Err(Error::MapFull);
            } else {
                Addition::FirstLeaf
            });
        }
        if contiguous || has_room(tail.leaf) {
            return Ok(Addition::InLeaf);
        }
        match (header.map_level, slot_has_room) {
            (1, true) => Ok(Addition::Leaf),
            (1, false) => Ok(Addition::FirstNode),
            (_, _) if has_room(tail.node) => Ok(Addition::LeafInNode),
            (_, true) => Ok(Addition::NodeAndLeaf),
            (_, false) => Err(Error::MapFull),
        }
    }

    /// Writes the leaves that the addition needs, and changes the loaded slot, in memory only. The
    /// leaves hold nothing yet that the file owns: what lies past `alloc_units` is ignored, and
    /// nothing names new pairs. So they need no order among themselves, only to be durable with the
    /// operation record.
    pub(crate) async fn add_extent(
        &self,
        loaded: Loaded<'_>,
        header: &mut Slot,
        tail: &Tail,
        extent: &Extent,
        allocation: &Allocation,
        op_seq: u64,
    ) -> Result<(), Error> {
        let (addition, pairs) = (allocation.addition, allocation.pairs);
        let entry = map::extent_entry(extent);
        match addition {
            Addition::InSlot => {
                put_in_slot(&mut self.state(), loaded, header, extent);
                return Ok(());
            }
            Addition::InLeaf => {
                // Otherwise an entry above that is past the limit now would be within it, and name
                // a leaf that was given back.
                if tail.node.is_some_and(|node| node.has_dead) {
                    self.rewrite(header, tail, 2, None, op_seq).await?;
                }
                return self.rewrite(header, tail, 1, Some(&entry), op_seq).await;
            }
            _ => {}
        }
        // From the bottom up: each pair is named by an entry in the node above it. Above a first
        // leaf or index node is the slot, whose entries move down.
        let [leaf_unit, node_unit] = pairs;
        let mut moved = addition == Addition::FirstLeaf;
        let fresh = |level, moved| Leaf {
            // Newer than any left-over of this file at the same address: see FORMAT.md.
            seq: op_seq * 2,
            last_op: op_seq,
            file_id: header.file_id,
            first_logical: if moved { 0 } else { extent.logical },
            count: if moved { header.entry_count + 1 } else { 1 },
            level,
        };
        let leaf = fresh(1, moved);
        let from = moved.then_some((loaded, &*header));
        self.write_fresh(&leaf, leaf_unit, from, &entry).await?;
        let mut entry = map::index_entry(leaf.first_logical, leaf_unit);
        match addition {
            Addition::LeafInNode => {
                return self.rewrite(header, tail, 2, Some(&entry), op_seq).await;
            }
            Addition::FirstNode | Addition::NodeAndLeaf => {
                moved = addition == Addition::FirstNode;
                let node = fresh(2, moved);
                let from = moved.then_some((loaded, &*header));
                self.write_fresh(&node, node_unit, from, &entry).await?;
                entry = map::index_entry(node.first_logical, node_unit);
            }
            _ => {}
        }
        if moved {
            header.map_level += 1;
            header.entry_count = 0;
        }
        let mut state = self.state();
        header.put_entry(state.slot_mut(loaded), header.entry_count, &entry);
        header.entry_count += 1;
        Ok(())
    }

    /// Writes both members of a new pair, so that no left-over of an earlier use can win. `entry`
    /// is its last; the entries of a slot that is `moved` come first.
    pub(crate) async fn write_fresh(
        &self,
        leaf: &Leaf,
        unit: u64,
        moved: Option<(Loaded<'_>, &Slot)>,
        entry: &map::Entry,
    ) -> Result<(), Error> {
        {
            let mut state = self.state();
            if let Some((slot, header)) = moved {
                state.copy_entries(slot, header);
            }
            let entries = state.node_mut(SPARE).get_mut(leaf_at::ENTRIES..);
            map::put_entry(entries.unwrap_or_default(), leaf.count - 1, entry);
        }
        let mut leaf = *leaf;
        let last = leaf.seq + u64::from(!self.state().is_mutated(Mutation::HalfAPair));
        while leaf.seq <= last {
            self.perform(|state| {
                leaf.encode(state.node_mut(SPARE));
                state.put_leaf(unit);
            })
            .await?;
            leaf.seq += 1;
        }
        Ok(())
    }

    /// Adds `entry` to the last leaf or, at level 2, to the last index node; entries past the limit
    /// are dropped.
    async fn rewrite(
        &self,
        header: &Slot,
        tail: &Tail,
        level: u32,
        entry: Option<&map::Entry>,
        op_seq: u64,
    ) -> Result<(), Error> {
        let tail = if level == 1 { tail.leaf } else { tail.node };
        let tail = tail.ok_or(Error::MapFull)?;
        let mut leaf = self.load_leaf(&tail.index, header, level, false).await?;
        let limit = header.alloc_units;
        self.perform(|state| {
            leaf.seq += state.seq_step(Mutation::LeafInPlace);
            leaf.last_op = op_seq;
            leaf.count = tail.live;
            let bytes = state.node_mut(SPARE);
            let last = leaf.last_extent(bytes, limit).filter(|_| level == 1);
            let entries = bytes.get_mut(leaf_at::ENTRIES..).unwrap_or_default();
            if let Some(entry) = entry {
                leaf.count = put_after(entries, tail.live, last, entry);
            }
            leaf.encode(bytes);
            state.put_leaf(tail.index.unit);
        })
        .await
    }
}

/// Puts `entry` after the first `live` entries. If `last` is the last of them and an extent, the
/// two are joined if they are contiguous. Returns the new count.
#[inline(never)]
fn put_after(entries: &mut [u8], live: u32, last: Option<Extent>, entry: &map::Entry) -> u32 {
    if let Some(mut last) = last.filter(|_| live > 0) {
        let (start, len) = map::start_and_len(entry);
        let joined = last.len.checked_add(len).filter(|_| last.end() == start);
        last.len = joined.unwrap_or(last.len);
        // The last entry may be longer on the device than what the file owns of it.
        map::put_entry(entries, live - 1, &map::extent_entry(&last));
        if joined.is_some() {
            return live;
        }
    }
    map::put_entry(entries, live, entry);
    live + 1
}

#[inline(never)]
fn put_in_slot<D: Device>(
    state: &mut State<'_, D>,
    loaded: Loaded<'_>,
    header: &mut Slot,
    extent: &Extent,
) {
    let last = header.last_extent(state.slot(loaded));
    let bytes = state.slot_mut(loaded);
    let entries = bytes.get_mut(header.entries_at()..).unwrap_or_default();
    let entry = map::extent_entry(extent);
    header.entry_count = put_after(entries, header.entry_count, last, &entry);
}

impl<D: Device> State<'_, D> {
    /// Copies the slot's entries to where a leaf has its own.
    fn copy_entries(&mut self, _: Loaded<'_>, header: &Slot) {
        let len = header.entry_count as usize * ENTRY_BYTES;
        let from = header.entries_at();
        let [Some(slot), _, Some(spare)] = &mut self.nodes else {
            return;
        };
        let source = slot.get(from..from + len);
        let target = spare.get_mut(leaf_at::ENTRIES..leaf_at::ENTRIES + len);
        if let (Some(source), Some(target)) = (source, target) {
            target.copy_from_slice(source);
        }
    }
}
