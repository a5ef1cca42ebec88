//! The end of a file's map, and adding an extent to it.

use block::Device;

use crate::io::{SLOT, SPARE, State};
use crate::layout::{ENTRY_BYTES, leaf as leaf_at, slot as slot_at};
use crate::map::{self, Extent, Index, Leaf};
use crate::order::Mutation;
use crate::slot::Slot;
use crate::{Error, Volume, error::Node};

/// A leaf or index node at the end of a map, and how many of its entries the file owns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TailNode {
    pub index: Index,
    pub live: u32,
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

/// What adding one more extent to a map takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addition {
    /// A place in the slot, or a longer last extent there.
    InSlot,
    /// A place in the last leaf, or a longer last extent there.
    InLeaf,
    /// The slot's extents move to a first leaf.
    FirstLeaf,
    /// A new leaf, named by the slot.
    Leaf,
    /// A new leaf, named by the last index node.
    LeafInNode,
    /// The slot's index entries move to a first index node, with a new leaf.
    FirstNode,
    /// A new index node with a new leaf.
    NodeAndLeaf,
}

impl Addition {
    /// Whether a leaf or index node that the file has is written.
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
    /// Finds the end of the map whose slot is in node SLOT. Uses the other two nodes.
    pub(crate) async fn tail(&self, slot: u32, header: &Slot) -> Result<Tail, Error> {
        let limit = header.alloc_units;
        if limit == 0 {
            return Ok(Tail::default());
        }
        if header.map_level == 0 {
            let state = self.state();
            return Ok(Tail {
                last: header.extents(state.node(SLOT)).last(),
                ..Tail::default()
            });
        }
        let bad = Error::from(Node::Slot(slot));
        let mut index = {
            let state = self.state();
            header.indexes(state.node(SLOT)).last().ok_or(bad)?
        };
        let mut node = None;
        if header.map_level == 2 {
            let leaf = self.load_leaf(&index, header, 2, true).await?;
            let state = self.state();
            let entries = leaf.entries(state.node(SPARE));
            let live = map::indexes(entries).take_while(|entry| entry.first_logical < limit);
            let count = live.clone().count() as u32;
            node = Some(TailNode { index, live: count });
            index = live.last().ok_or(bad)?;
        }
        let leaf = self.load_leaf(&index, header, 1, true).await?;
        let state = self.state();
        let entries = leaf.entries(state.node(SPARE));
        let live = map::extents(entries, index.first_logical).map_while(|extent| extent.cut(limit));
        let count = live.clone().count() as u32;
        // A leaf that ends too early is an old member: the newest one was lost.
        let last = live
            .last()
            .filter(|last| last.logical_end() == limit)
            .ok_or(Error::from(Node::Map(slot)))?;
        Ok(Tail {
            last: Some(last),
            leaf: Some(TailNode { index, live: count }),
            node,
        })
    }

    /// What it takes to add an extent that does, or does not, continue the last one.
    pub(crate) fn addition(
        &self,
        header: &Slot,
        tail: &Tail,
        contiguous: bool,
    ) -> Result<Addition, Error> {
        let shape = self.shape();
        let slot_has_room = (header.entry_count as usize) < shape.slot_entries();
        let has_room = |node: Option<TailNode>| {
            node.is_some_and(|node| (node.live as usize) < shape.leaf_entries())
        };
        if header.map_level == 0 {
            return Ok(if contiguous || slot_has_room {
                Addition::InSlot
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

    /// Writes the leaves that the addition needs, and changes the slot in node SLOT, in memory
    /// only. The leaves hold nothing yet that the file owns: what lies past `alloc_units` is
    /// ignored, and new pairs are named by nobody. So they need no order among themselves, only
    /// to be durable with the operation record.
    pub(crate) async fn add_extent(
        &self,
        header: &mut Slot,
        tail: &Tail,
        extent: &Extent,
        addition: Addition,
        pairs: [u64; 2],
        op_seq: u64,
    ) -> Result<(), Error> {
        let [first_pair, second_pair] = pairs;
        let fresh = Leaf {
            // Newer than any left-over of this file at the same place: see FORMAT.md.
            seq: op_seq * 2,
            last_op: op_seq,
            file_id: header.file_id,
            first_logical: extent.logical,
            count: 1,
            level: 1,
        };
        let new_leaf = Index {
            first_logical: extent.logical,
            unit: first_pair,
        };
        match addition {
            Addition::InSlot => {
                let mut state = self.state();
                put_in_slot(&mut state, header, extent);
            }
            Addition::InLeaf => self.rewrite_leaf(header, tail.leaf, extent, op_seq).await?,
            Addition::FirstLeaf => {
                let count = header.entry_count;
                let leaf = Leaf {
                    first_logical: 0,
                    count: count + 1,
                    ..fresh
                };
                self.state().copy_entries();
                self.write_fresh(&leaf, first_pair, |entries| {
                    map::put_extent(entries, count as usize, extent);
                })
                .await?;
                let index = Index {
                    first_logical: 0,
                    unit: first_pair,
                };
                header.map_level = 1;
                header.entry_count = 1;
                put_index_in_slot(&mut *self.state(), 0, &index);
            }
            Addition::Leaf => {
                self.write_first_extent(&fresh, first_pair, extent).await?;
                put_index_in_slot(&mut *self.state(), header.entry_count, &new_leaf);
                header.entry_count += 1;
            }
            Addition::LeafInNode => {
                self.write_first_extent(&fresh, first_pair, extent).await?;
                self.rewrite_index(header, tail.node, &new_leaf, op_seq)
                    .await?;
            }
            Addition::FirstNode => {
                self.write_first_extent(&fresh, first_pair, extent).await?;
                let count = header.entry_count;
                let node = Leaf {
                    first_logical: 0,
                    count: count + 1,
                    level: 2,
                    ..fresh
                };
                self.state().copy_entries();
                self.write_fresh(&node, second_pair, |entries| {
                    map::put_index(entries, count as usize, &new_leaf);
                })
                .await?;
                let index = Index {
                    first_logical: 0,
                    unit: second_pair,
                };
                header.map_level = 2;
                header.entry_count = 1;
                put_index_in_slot(&mut *self.state(), 0, &index);
            }
            Addition::NodeAndLeaf => {
                self.write_first_extent(&fresh, first_pair, extent).await?;
                let node = Leaf { level: 2, ..fresh };
                self.write_fresh(&node, second_pair, |entries| {
                    map::put_index(entries, 0, &new_leaf);
                })
                .await?;
                let index = Index {
                    unit: second_pair,
                    ..new_leaf
                };
                put_index_in_slot(&mut *self.state(), header.entry_count, &index);
                header.entry_count += 1;
            }
        }
        Ok(())
    }

    async fn write_first_extent(
        &self,
        leaf: &Leaf,
        unit: u64,
        extent: &Extent,
    ) -> Result<(), Error> {
        self.write_fresh(leaf, unit, |entries| map::put_extent(entries, 0, extent))
            .await
    }

    /// Writes both members of a new pair, so that no left-over of an earlier use can win.
    async fn write_fresh(
        &self,
        leaf: &Leaf,
        unit: u64,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Error> {
        {
            let mut state = self.state();
            let bytes = state.node_mut(SPARE);
            if let Some(entries) = bytes.get_mut(leaf_at::ENTRIES..) {
                fill(entries);
            }
            leaf.encode(bytes);
        }
        self.write_leaf(unit).await?;
        if self.is_mutated(Mutation::HalfAPair) {
            return Ok(());
        }
        let second = Leaf {
            seq: leaf.seq + 1,
            ..*leaf
        };
        second.encode(self.state().node_mut(SPARE));
        self.write_leaf(unit).await
    }

    async fn rewrite_leaf(
        &self,
        header: &Slot,
        tail: Option<TailNode>,
        extent: &Extent,
        op_seq: u64,
    ) -> Result<(), Error> {
        let tail = tail.ok_or(Error::MapFull)?;
        let limit = header.alloc_units;
        let step = self.seq_step(Mutation::LeafInPlace);
        let leaf = self.load_leaf(&tail.index, header, 1, false).await?;
        {
            let mut state = self.state();
            let live = map::extents(leaf.entries(state.node(SPARE)), leaf.first_logical);
            let last = live.map_while(|extent| extent.cut(limit)).last();
            let bytes = state.node_mut(SPARE);
            let entries = bytes.get_mut(leaf_at::ENTRIES..).unwrap_or_default();
            let count = put_after(entries, tail.live, last, extent);
            next(&leaf, count, op_seq, step).encode(bytes);
        }
        self.write_leaf(tail.index.unit).await
    }

    async fn rewrite_index(
        &self,
        header: &Slot,
        tail: Option<TailNode>,
        index: &Index,
        op_seq: u64,
    ) -> Result<(), Error> {
        let tail = tail.ok_or(Error::MapFull)?;
        let step = self.seq_step(Mutation::LeafInPlace);
        let node = self.load_leaf(&tail.index, header, 2, false).await?;
        {
            let mut state = self.state();
            let bytes = state.node_mut(SPARE);
            if let Some(entries) = bytes.get_mut(leaf_at::ENTRIES..) {
                map::put_index(entries, tail.live as usize, index);
            }
            next(&node, tail.live + 1, op_seq, step).encode(bytes);
        }
        self.write_leaf(tail.index.unit).await
    }
}

fn next(leaf: &Leaf, count: u32, op_seq: u64, step: u64) -> Leaf {
    Leaf {
        seq: leaf.seq + step,
        last_op: op_seq,
        count,
        ..*leaf
    }
}

/// Puts `extent` behind the first `live` entries, of which `last` is the last, joining the two
/// where they are contiguous. Gives the new count.
fn put_after(entries: &mut [u8], live: u32, last: Option<Extent>, extent: &Extent) -> u32 {
    let Some(last) = last.filter(|_| live > 0) else {
        map::put_extent(entries, live as usize, extent);
        return live + 1;
    };
    let joined = (last.end() == extent.start)
        .then(|| last.len.checked_add(extent.len))
        .flatten();
    match joined {
        Some(len) => {
            map::put_extent(entries, live as usize - 1, &Extent { len, ..last });
            live
        }
        None => {
            // The last entry may be longer on the device than what the file owns of it.
            map::put_extent(entries, live as usize - 1, &last);
            map::put_extent(entries, live as usize, extent);
            live + 1
        }
    }
}

fn put_in_slot<D: Device>(state: &mut State<'_, D>, header: &mut Slot, extent: &Extent) {
    let last = header.extents(state.node(SLOT)).last();
    let bytes = state.node_mut(SLOT);
    let entries = bytes.get_mut(slot_at::ENTRIES..).unwrap_or_default();
    header.entry_count = put_after(entries, header.entry_count, last, extent);
}

fn put_index_in_slot<D: Device>(state: &mut State<'_, D>, place: u32, index: &Index) {
    if let Some(entries) = state.node_mut(SLOT).get_mut(slot_at::ENTRIES..) {
        map::put_index(entries, place as usize, index);
    }
}

impl<D: Device> State<'_, D> {
    /// Copies the slot's entries to where a leaf has its own.
    fn copy_entries(&mut self) {
        let shape = self.shape();
        let len = shape.slot_entries() * ENTRY_BYTES;
        let [Some(slot), _, Some(spare)] = &mut self.nodes else {
            return;
        };
        let source = slot.get(slot_at::ENTRIES..slot_at::ENTRIES + len);
        let target = spare.get_mut(leaf_at::ENTRIES..leaf_at::ENTRIES + len);
        if let (Some(source), Some(target)) = (source, target) {
            target.copy_from_slice(source);
        }
    }
}
