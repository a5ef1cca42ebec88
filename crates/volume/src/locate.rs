//! From a file's unit to the volume's: at most two leaves under the slot.

use block::Device;

use crate::file::{self, File, WINDOW};
use crate::io::{SLOT, SPARE};
use crate::map::{self, Extent};
use crate::slot::Slot;
use crate::{Error, Volume, error::Node};

impl<D: Device> Volume<'_, D> {
    /// Brings the part of the map that holds `offset` into memory, with the extents that follow
    /// it as far as one leaf and four extents reach. After that, reads there touch no metadata.
    ///
    /// # Errors
    /// [`Error::NotOpen`], [`Error::PastEnd`], [`Error::Corrupt`], [`Error::NeedsMount`], a
    /// device's error.
    pub async fn prepare(&self, file: File, offset: u64) -> Result<(), Error> {
        let turn = self.turn().await?;
        let shape = self.shape();
        let (slot, unit) = {
            let mut state = self.state();
            let open = file::get(state.files, file)?;
            // A failed append lies past what can be read, and is repeated there.
            if offset >= open.readable_end().max(open.appended) {
                return Err(Error::PastEnd);
            }
            (
                open.slot.ok_or(Error::NotOpen)?,
                open.place(offset, &shape).0,
            )
        };
        let header = self.load_slot(slot).await?;
        let window = self.window(slot, &header, unit).await?;
        turn.done();
        let mut state = self.state();
        file::get(state.files, file)?.around = window.map(|extent| extent.on_device(&shape));
        Ok(())
    }

    /// Brings the extents from the append point on into memory. Needed when an append says
    /// [`Error::NeedsMap`]: the reservation then has more pieces than were kept in memory.
    ///
    /// # Errors
    /// As [`Volume::prepare`].
    pub async fn prepare_append(&self, file: File) -> Result<(), Error> {
        let turn = self.turn().await?;
        let shape = self.shape();
        let (slot, unit) = {
            let mut state = self.state();
            let open = file::get(state.files, file)?;
            (
                open.slot.ok_or(Error::NotOpen)?,
                open.place(open.appended, &shape).0,
            )
        };
        let header = self.load_slot(slot).await?;
        if unit < header.alloc_units {
            let window = self.window(slot, &header, unit).await?;
            let mut state = self.state();
            file::get(state.files, file)?.ahead = window.map(|extent| extent.on_device(&shape));
        }
        turn.done();
        Ok(())
    }

    /// The extents of the file whose slot is in node SLOT, from the one with `unit` on.
    pub(crate) async fn window(
        &self,
        slot: u32,
        header: &Slot,
        unit: u64,
    ) -> Result<[Extent; WINDOW], Error> {
        let mut limit = header.alloc_units;
        let bad = Error::from(Node::Slot(slot));
        if unit >= limit {
            return Err(Error::PastEnd);
        }
        if header.map_level == 0 {
            let state = self.state();
            return Ok(fill(header.extents(state.node(SLOT)), unit, limit));
        }
        let (mut index, next) = {
            let state = self.state();
            choose(header.indexes(state.node(SLOT)), unit).ok_or(bad)?
        };
        limit = limit.min(next);
        if header.map_level == 2 {
            let node = self.load_leaf(&index, header, 2, true).await?;
            let state = self.state();
            let entries = node.entries(state.node(SPARE));
            let (leaf, next) = choose(map::indexes(entries), unit).ok_or(bad)?;
            index = leaf;
            limit = limit.min(next);
        }
        let leaf = self.load_leaf(&index, header, 1, true).await?;
        let state = self.state();
        let extents = map::extents(leaf.entries(state.node(SPARE)), leaf.first_logical);
        let window = fill(extents, unit, limit);
        // A leaf that does not reach so far is an old member: the newest one was lost.
        if window.first().is_none_or(|extent| !extent.contains(unit)) {
            return Err(Error::from(Node::Map(slot)));
        }
        Ok(window)
    }

    /// The device address of the start of a unit of the file whose slot is in node SLOT.
    pub(crate) async fn unit_address(
        &self,
        slot: u32,
        header: &Slot,
        unit: u64,
    ) -> Result<u64, Error> {
        let [extent, ..] = self.window(slot, header, unit).await?;
        Ok(self
            .shape()
            .unit_address(extent.start + (unit - extent.logical)))
    }
}

fn fill(extents: impl Iterator<Item = Extent>, unit: u64, limit: u64) -> [Extent; WINDOW] {
    let mut window = [Extent::default(); WINDOW];
    let wanted = extents
        .map_while(|extent| extent.cut(limit))
        .skip_while(|extent| extent.logical_end() <= unit);
    for (place, extent) in window.iter_mut().zip(wanted) {
        *place = extent;
    }
    window
}

/// The last entry that begins at or before `unit`, and where the one after it begins.
fn choose(indexes: impl Iterator<Item = map::Index>, unit: u64) -> Option<(map::Index, u64)> {
    let mut chosen = None;
    for index in indexes {
        if index.first_logical > unit {
            return chosen.map(|chosen| (chosen, index.first_logical));
        }
        chosen = Some(index);
    }
    chosen.map(|chosen| (chosen, u64::MAX))
}
