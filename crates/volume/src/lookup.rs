// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finding a name: its two buckets, eight slots each, as many slots per read as the memory holds.

use block::Device;

use crate::create_many::{Place, is_taken};
use crate::io::{Flags, NO_SLOT, SLOT};
use crate::layout::BUCKET_SLOTS;
use crate::name::NameRef;
use crate::order::Mutation;
use crate::pair::has_numbers;
use crate::run::Table;
use crate::slot::{Slot, State as SlotState, has_name};
use crate::token::{Loaded, SlotNode};
use crate::{Error, Volume, error::Node};

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Search {
    Found(FoundSlot),
    /// The name does not exist; it may take this slot, in the emptier of its buckets.
    Absent(Option<FreeSlot>),
}

/// A slot, and its place in the run that was read last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundSlot {
    pub slot: u32,
    pub index: u32,
}

/// A free slot, and the numbers in its newest member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreeSlot {
    pub slot: u32,
    pub seq: u64,
    pub last_op: u64,
    /// Both members are valid.
    pub whole: bool,
}

impl<D: Device> Volume<'_, D> {
    /// Looks `name` up. Reads both members of up to 16 slots, or 24 in a table that has grown.
    /// Those in `taken` do not count as free.
    pub(crate) async fn search(&self, name: NameRef<'_>, taken: &[Place]) -> Result<Search, Error> {
        let shape = self.shape();
        let buckets = self.state().table.places_of(name, &shape);
        // The third is left by a split: nothing is put there.
        let mut places: [(Option<FreeSlot>, u32); 3] = [(None, 0); 3];
        let mut damaged = None;
        let is_forgotten = self.state().is_mutated(Mutation::ForgetParent);
        let buckets = buckets.into_iter().take(if is_forgotten { 2 } else { 3 });
        for (bucket, place) in buckets.zip(&mut places) {
            let Some(bucket) = bucket else { continue };
            let base = bucket * BUCKET_SLOTS;
            let mut slot = base;
            while slot < base + BUCKET_SLOTS {
                let count = self.read_slots(slot, base + BUCKET_SLOTS - slot).await?;
                for index in 0..count {
                    let seen = self.slot_in_run(slot, index, |found, bytes| {
                        let free = FreeSlot {
                            slot: found.index,
                            seq: found.seq,
                            last_op: found.last_op,
                            whole: found.whole,
                        };
                        (found.state, has_name(bytes, name), free)
                    })?;
                    match seen {
                        Some((SlotState::Free, _, free))
                            if has_numbers(free.seq) && !is_taken(taken, free.slot) =>
                        {
                            place.0 = place.0.or(Some(free));
                            place.1 += 1;
                        }
                        Some((SlotState::Live, true, _)) => {
                            let slot = slot + index;
                            return Ok(Search::Found(FoundSlot { slot, index }));
                        }
                        Some(_) => {}
                        None => damaged = Some(slot + index),
                    }
                }
                slot += count;
            }
        }
        // A damaged slot may be the one that is searched for.
        if let Some(slot) = damaged {
            return Err(Error::from(Node::Slot(slot)));
        }
        let [(one, one_free), (two, two_free), _] = places;
        Ok(Search::Absent(if two_free > one_free { two } else { one }))
    }

    /// Loads the slot that a search has just found into node [`SLOT`], and its header into
    /// `header`: it is in memory.
    pub(crate) fn load_found<'n>(
        &self,
        node: SlotNode<'n>,
        found: FoundSlot,
        header: &mut Slot,
    ) -> Result<Loaded<'n>, Error> {
        let mut state = self.state();
        let FoundSlot { slot, index } = found;
        let from = state.newest_node_in_run(Table::Slots, slot - index, index);
        let (from, whole) = from.ok_or(Error::from(Node::Slot(slot)))?;
        state.cached_slot = NO_SLOT;
        let (from, within) = state.place_in_run(from, index);
        state.copy_node(from, within, SLOT);
        let loaded = Loaded::into(&node);
        let shape = state.shape();
        let names = state.superblock.most_name_bytes();
        header.decode(state.slot(loaded), slot, &shape, names)?;
        state.check_age(SLOT)?;
        state.cached_slot = slot;
        state.flags.set(Flags::SLOT_IS_WHOLE, whole);
        Ok(loaded)
    }
}
