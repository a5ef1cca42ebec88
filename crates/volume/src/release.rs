// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Giving units back, from the end of a file's map. `FORMAT.md`, "Operations".

use block::Device;

use crate::grow::{Tail, TailNode};
use crate::io::{NO_SLOT, SLOT, SPARE, WORK};
use crate::layout::Shape;
use crate::map;
use crate::order::{Mutation, Order};
use crate::slot::{Slot, State as SlotState};
use crate::superblock::{Operation, Run, Runs};
use crate::token::Loaded;
use crate::{Error, Volume, bitmap, error::Node};

impl<D: Device> Volume<'_, D> {
    /// One release operation on the loaded slot: gives units back until `keep` are left or the
    /// operation record is full. A slot to be reaped becomes free with its last unit.
    pub(crate) async fn release_once(
        &self,
        loaded: Loaded<'_>,
        header: &mut Slot,
        keep: u64,
    ) -> Result<(), Error> {
        let slot = header.index;
        let shape = self.shape();
        let runs = if header.map_level == 0 {
            let mut state = self.state();
            // The slot in memory changes here, before its record is durable.
            state.cached_slot = NO_SLOT;
            release_from_slot(header, state.slot_mut(loaded), keep, &shape)
        } else {
            self.state().cached_slot = NO_SLOT;
            self.release_from_leaf(loaded, header, keep).await?
        };
        if header.alloc_units == 0 {
            header.map_level = 0;
            header.entry_count = 0;
            if header.state == SlotState::Reap {
                *header = Slot::free(slot, header.seq, header.last_op);
            }
        }
        // A damaged bitmap is found before the record is written: after that, recovery would
        // mistake its invalid member for one torn by a power cut, and rebuild it from the old one.
        // The first one last: it is in memory when the changes begin.
        for run in runs.as_slice().iter().rev() {
            self.load_bitmap(shape.group_of(run.start)).await?;
            // They were given back before: the slot is older than that.
            if !bitmap::has_run(self.state().node(WORK), run, &shape) {
                return Err(Error::from(Node::Slot(slot)));
            }
        }
        let op_seq = self.state().superblock.seq + 1;
        let becomes_free = header.state == SlotState::Free;
        if becomes_free {
            header.rewind()?;
        }
        self.perform(|state| {
            state.order(Order::NodesBeforeRelease);
            if becomes_free {
                // R9. Until the newest member is overwritten that one is in force.
                state.put_older_free(SLOT, header);
            }
            let operation = Operation::Release { slot, runs };
            state.put_superblock(SPARE, &operation, false);
            // The record is durable before any node it governs: otherwise recovery could not undo
            // them.
            state.order(Order::ReleaseBeforeNodes);
        })
        .await?;
        let group_of = |run: &Run| shape.group_of(run.start);
        for (index, run) in runs.as_slice().iter().enumerate() {
            let group = group_of(run);
            let mut before = runs.as_slice().iter().take(index);
            if before.any(|earlier| group_of(earlier) == group) {
                continue;
            }
            self.load_bitmap(group).await?;
            self.perform(|state| {
                let bytes = state.node_mut(WORK);
                for run in runs.as_slice().iter().filter(|run| group_of(run) == group) {
                    bitmap::set_run(bytes, run, &shape, false);
                }
                state.put_bitmap(group, op_seq);
            })
            .await?;
        }
        self.perform(|state| {
            if !state.is_mutated(Mutation::NoOpNumber) {
                header.last_op = op_seq;
            }
            state.put_slot(loaded, header, false);
        })
        .await
    }

    /// At levels 1 and 2: part of the last extent, with the leaf and the index node that hold
    /// nothing else.
    async fn release_from_leaf(
        &self,
        loaded: Loaded<'_>,
        header: &mut Slot,
        keep: u64,
    ) -> Result<Runs, Error> {
        let shape = self.shape();
        let mut tail = Tail::default();
        self.tail(loaded, header, &mut tail).await?;
        let mut runs = Runs::default();
        let Some(last) = tail.last else {
            return Ok(runs);
        };
        let run = tail_run(&last, keep, &shape);
        runs.push(run);
        header.alloc_units -= u64::from(run.len);
        let pair = |node: TailNode| Run {
            start: node.index.unit,
            len: shape.pair_units() as u32,
        };
        // An entry at or past `alloc_units` is ignored; in the slot it is also removed.
        let dead = |node: Option<TailNode>| {
            node.filter(|node| node.index.first_logical == header.alloc_units)
        };
        let (leaf, node) = (dead(tail.leaf), dead(tail.node));
        if let Some(leaf) = leaf {
            runs.push(pair(leaf));
        }
        if let Some(node) = node {
            runs.push(pair(node));
        }
        if node.is_some() || (header.map_level == 1 && leaf.is_some()) {
            header.entry_count -= 1;
        }
        Ok(runs)
    }
}

/// The end of an extent: as much of it as lies in its last group, down to file unit `keep`.
fn tail_run(extent: &map::Extent, keep: u64, shape: &Shape) -> Run {
    let end = extent.end();
    let group_start = shape.group_start(shape.group_of(end - 1));
    let keep_start = extent.start + keep.saturating_sub(extent.logical);
    let start = extent.start.max(group_start).max(keep_start);
    Run {
        start,
        len: (end - start) as u32,
    }
}

/// At level 0: as many runs as the record holds.
fn release_from_slot(header: &mut Slot, bytes: &mut [u8], keep: u64, shape: &Shape) -> Runs {
    let mut runs = Runs::default();
    while runs.room() > 0 && header.alloc_units > keep {
        let Some(last) = header.last_extent(bytes) else {
            break;
        };
        let run = tail_run(&last, keep, shape);
        runs.push(run);
        header.alloc_units -= u64::from(run.len);
        let len = last.len - run.len;
        if len == 0 {
            header.entry_count -= 1;
        } else {
            let entry = map::extent_entry(&map::Extent { len, ..last });
            header.put_entry(bytes, header.entry_count - 1, &entry);
        }
    }
    runs
}
