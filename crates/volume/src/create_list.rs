// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The list of the slots of many new files, which their operation writes beside their data, or of
//! removed ones. `FORMAT.md`, "List of files".

use block::Device;

use crate::bytes::{array, get_u32, get_u64, put, put_u32, put_u64};
use crate::create_many::Place;
use crate::io::{NO_GROUP, SPARE, State, WORK};
use crate::layout::{Shape, list as at, magic, node};
use crate::order::{Mutation, Order};
use crate::slot::{Slot, State as SlotState};
use crate::superblock::Run;
use crate::token::SlotNode;
use crate::{Error, Volume, bitmap, checksum};

/// The address of node `index` of the list at the start of `run`.
fn address(run: &Run, index: u32, shape: &Shape) -> u64 {
    shape.unit_address(run.start) + (u64::from(index) << shape.node_log2)
}

/// Slots in node `index` of a list of `count`.
fn slots_in(index: u32, count: u32, shape: &Shape) -> u32 {
    let full = shape.list_slots();
    count.saturating_sub(index * full).min(full)
}

impl<D: Device> Volume<'_, D> {
    /// Writes the list of these files at the start of `run`.
    pub(crate) async fn write_list(
        &self,
        run: &Run,
        places: &[Place],
        op_seq: u64,
    ) -> Result<(), Error> {
        let shape = self.shape();
        for (index, places) in (0..).zip(places.chunks(shape.list_slots() as usize)) {
            self.perform(|state| {
                let bytes = state.node_mut(SPARE);
                bytes.fill(0);
                put(bytes, node::MAGIC, &magic::LIST);
                put_u64(bytes, node::SEQ, op_seq);
                put_u64(bytes, node::LAST_OP, op_seq);
                put_u32(bytes, at::FIRST, index * shape.list_slots());
                put_u32(bytes, at::COUNT, places.len() as u32);
                for (number, place) in places.iter().enumerate() {
                    put_u32(bytes, at::SLOTS + 4 * number, place.slot);
                }
                state.put_list(address(run, index, &shape));
            })
            .await?;
        }
        Ok(())
    }

    /// Reads node `index` of the list of `count` slots at the start of `run` into [`SPARE`]; false
    /// if it is not that of the operation.
    async fn read_list(
        &self,
        run: &Run,
        index: u32,
        count: u32,
        op_seq: u64,
    ) -> Result<bool, Error> {
        let shape = self.shape();
        let address = address(run, index, &shape);
        self.read_bytes(SPARE, address, shape.node_bytes()).await?;
        Ok(self.state().is_list(address, index, count, op_seq))
    }

    /// Whether the list of `count` slots at the start of `run` is whole.
    #[cfg(feature = "grow")]
    pub(crate) async fn is_listed(
        &self,
        run: &Run,
        count: u32,
        op_seq: u64,
    ) -> Result<bool, Error> {
        let mut is_whole = true;
        for index in 0..count.div_ceil(self.shape().list_slots()) {
            is_whole = is_whole && self.read_list(run, index, count, op_seq).await?;
        }
        Ok(is_whole)
    }

    /// Slot `number` of a list that is whole. It is read again for each: the slot's member B takes
    /// its place.
    #[cfg(feature = "grow")]
    pub(crate) async fn slot_of_list(
        &self,
        run: &Run,
        number: u32,
        count: u32,
        op_seq: u64,
    ) -> Result<u32, Error> {
        let full = self.shape().list_slots();
        let (index, within) = (number / full, number % full);
        self.read_list(run, index, count, op_seq).await?;
        let place = at::SLOTS + 4 * within as usize;
        Ok(get_u32(self.state().node(SPARE), place))
    }

    /// Recovery of new files in a list: of the units of `run` those of the files that were made are
    /// in use.
    pub(crate) async fn settle_list(
        &self,
        mut node: SlotNode<'_>,
        run: &Run,
        count: u32,
        op_seq: u64,
    ) -> Result<(), Error> {
        let shape = self.shape();
        let group = shape.group_of(run.start);
        self.perform(|state| state.order(Order::CacheBeforeRecovery))
            .await?;
        // The list was durable before the first node that it governs.
        let mut is_begun = true;
        for index in 0..count.div_ceil(shape.list_slots()) {
            is_begun = is_begun && self.read_list(run, index, count, op_seq).await?;
        }
        self.load_bitmap_pair(group).await?;
        let (torn, before) = {
            let mut state = self.state();
            bitmap::check(state.node(WORK), group, &shape)?;
            let torn = !state.both && !state.is_mutated(Mutation::LeaveTorn);
            let bytes = state.node_mut(WORK);
            let before = bitmap::free_units(bytes);
            bitmap::set_run(bytes, run, &shape, false);
            (torn, before)
        };
        for number in (0..count).take_while(|_| is_begun) {
            let (index, within) = (number / shape.list_slots(), number % shape.list_slots());
            // The slot's member B takes its place.
            self.read_list(run, index, count, op_seq).await?;
            let slot = get_u32(self.state().node(SPARE), at::SLOTS + 4 * within as usize);
            let mut header = Slot::EMPTY;
            let loaded = self.load_slot(node.lend(), slot, &mut header).await?;
            let mut state = self.state();
            let is_made = header.last_op >= op_seq && header.state != SlotState::Free;
            let extent = header.last_extent(state.slot(loaded));
            let extent = extent.filter(|_| is_made && header.map_level == 0);
            if let Some(extent) = extent.filter(|extent| {
                extent.start >= run.start && extent.end() <= run.start + u64::from(run.len)
            }) {
                let own = Run {
                    start: extent.start,
                    len: extent.len,
                };
                bitmap::set_run(state.node_mut(WORK), &own, &shape, true);
            }
        }
        self.put_settled(group, (torn, before), op_seq).await
    }

    /// Writes the bitmap of the group in memory, if it differs from the device's: that was torn, or
    /// had this number of free units.
    pub(crate) async fn put_settled(
        &self,
        group: u32,
        (torn, before): (bool, u32),
        op_seq: u64,
    ) -> Result<(), Error> {
        let is_wrong = {
            let mut state = self.state();
            let bytes = state.node_mut(WORK);
            let (seq, last_op) = (get_u64(bytes, node::SEQ), get_u64(bytes, node::LAST_OP));
            bitmap::stamp(bytes, seq, last_op);
            torn || before != bitmap::free_units(bytes)
        };
        if is_wrong {
            self.perform(|state| state.put_bitmap(group, op_seq))
                .await?;
        }
        self.state().cached_group = NO_GROUP;
        Ok(())
    }
}

impl<D: Device> State<'_, D> {
    /// Whether node [`SPARE`] is node `index` of the list of `count` slots of the operation, read
    /// from `address`.
    fn is_list(&self, address: u64, index: u32, count: u32, op_seq: u64) -> bool {
        let shape = self.shape();
        let bytes = self.node(SPARE);
        let here = slots_in(index, count, &shape);
        let crc = checksum::of_node(
            self.crc32c,
            &self.superblock.uuid,
            address,
            bytes,
            node::CRC,
        );
        array(bytes, node::MAGIC) == magic::LIST
            && get_u32(bytes, node::CRC) == crc
            && get_u64(bytes, node::LAST_OP) == op_seq
            && get_u32(bytes, at::FIRST) == index * shape.list_slots()
            && get_u32(bytes, at::COUNT) == here
            && (0..here as usize)
                .all(|slot| get_u32(bytes, at::SLOTS + 4 * slot) < self.table.slot_count())
    }
}
