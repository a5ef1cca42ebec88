// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One more level for a map whose entries do not fit behind a longer name. `FORMAT.md`,
//! "Operations".

use block::Device;

use crate::io::{NO_GROUP, SPARE, WORK};
use crate::layout::ENTRY_BYTES;
use crate::map::{self, Leaf};
use crate::name::NameRef;
use crate::order::{Mutation, Order};
use crate::slot::Slot;
use crate::superblock::{Operation, Run, Runs};
use crate::token::{Loaded, SlotNode};
use crate::{Error, Volume, bitmap};

impl<D: Device> Volume<'_, D> {
    /// Moves the entries of a slot to a leaf, unless they fit behind `name`. The file is otherwise
    /// as it was.
    ///
    /// # Errors
    /// [`Error::MapFull`] if the map has all its levels, [`Error::NoSpace`]; [`Error::Corrupt`], a
    /// device's error.
    pub(crate) async fn make_entries_fit(
        &self,
        node: SlotNode<'_>,
        slot: u32,
        name: NameRef<'_>,
    ) -> Result<(), Error> {
        let shape = self.shape();
        let room = shape.slot_entries_behind(name.as_bytes().len());
        if room == shape.slot_entries() {
            // No slot has more.
            return Ok(());
        }
        let mut header = Slot::EMPTY;
        let loaded = self.load_slot(node, slot, &mut header).await?;
        if header.entry_count as usize > room {
            self.deepen(loaded, &mut header).await?;
            // This operation is complete: a failure of the next one changes nothing.
            self.state().changing = false;
        }
        Ok(())
    }

    /// A reserve operation without data: its one run is the new leaf's pair.
    async fn deepen(&self, loaded: Loaded<'_>, header: &mut Slot) -> Result<(), Error> {
        if header.map_level == 2 {
            return Err(Error::MapFull);
        }
        let shape = self.shape();
        let run = self.find_pair().await?;
        let group = shape.group_of(run.start);
        let mut runs = Runs::default();
        runs.push(run);
        let op_seq = self.state().superblock.seq + 1;
        let mut last: map::Entry = [0; ENTRY_BYTES];
        {
            let state = self.state();
            let entries = header.entries(state.slot(loaded));
            for (place, byte) in last.iter_mut().zip(entries.rchunks(ENTRY_BYTES).flatten()) {
                *place = *byte;
            }
        }
        // R3: the nodes written below were last written before this.
        self.perform(|state| state.order(Order::NodesBeforeReserve))
            .await?;
        let leaf = Leaf {
            seq: op_seq * 2,
            last_op: op_seq,
            file_id: header.file_id,
            first_logical: 0,
            count: header.entry_count,
            level: u32::from(header.map_level) + 1,
        };
        self.write_fresh(&leaf, run.start, Some((loaded, header)), &last)
            .await?;
        header.map_level += 1;
        header.entry_count = 1;
        let slot = header.index;
        self.perform(|state| {
            header.put_entry(state.slot_mut(loaded), 0, &map::index_entry(0, run.start));
            state.put_superblock(SPARE, &Operation::Reserve { slot, runs }, false);
            state.order(Order::ReserveBeforeNodes);
            state.put_bitmap(group, op_seq);
            if !state.is_mutated(Mutation::NoOpNumber) {
                header.last_op = op_seq;
            }
            state.put_slot(loaded, header, false);
        })
        .await
    }

    /// Free units for a leaf pair, whose bits are set in node [`WORK`], in memory only.
    async fn find_pair(&self) -> Result<Run, Error> {
        let shape = self.shape();
        let pair = shape.pair_units() as u32;
        let groups = shape.group_count() as u32;
        let first = self.state().superblock.group_hint % groups;
        let mut refused = Error::NoSpace;
        for turn in 0..groups {
            let group = (first + turn) % groups;
            match self.load_bitmap(group).await {
                Ok(()) => {}
                // A damaged group is skipped: it is unknown which of its units are free.
                Err(error @ Error::Corrupt(_)) => {
                    refused = error;
                    continue;
                }
                Err(error) => return Err(error),
            }
            let mut state = self.state();
            let bytes = state.node_mut(WORK);
            if let Some(start) = bitmap::find(bytes, pair, pair) {
                bitmap::set(bytes, start, pair, true);
                // The bitmap in memory is ahead of the device.
                state.cached_group = NO_GROUP;
                state.changing = true;
                return Ok(Run {
                    start: shape.group_start(group) + u64::from(start),
                    len: pair,
                });
            }
        }
        Err(refused)
    }
}
