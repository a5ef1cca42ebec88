// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Maps a file's units to the volume's: at most two leaves under the slot.

use core::future::Future;

use block::Device;

use crate::file::{self, File, WINDOW};
use crate::io::SPARE;
use crate::map::{self, Extent};
use crate::slot::Slot;
use crate::token::Loaded;
use crate::{Error, Volume, error::Node};

impl<D: Device> Volume<'_, D> {
    /// Loads the part of the map that holds `offset` into memory: the extent there and those that
    /// follow it in the same leaf, four in all. After that, reads there touch no metadata.
    ///
    /// # Errors
    /// [`Error::NotOpen`], [`Error::PastEnd`], [`Error::Corrupt`], [`Error::NeedsMount`], a
    /// device's error.
    pub fn prepare(&self, file: File, offset: u64) -> impl Future<Output = Result<(), Error>> {
        self.bring(file, Some(offset))
    }

    /// Loads the extents from the append point on into memory. Needed when an append fails with
    /// [`Error::NeedsMap`]: the reservation then has more pieces than were kept in memory.
    ///
    /// # Errors
    /// Those of [`Volume::prepare`].
    pub fn prepare_append(&self, file: File) -> impl Future<Output = Result<(), Error>> {
        self.bring(file, None)
    }

    /// Loads the map around `offset`, or from the append point on, into memory.
    async fn bring(&self, file: File, offset: Option<u64>) -> Result<(), Error> {
        let mut turn = self.turn().await?;
        let shape = self.shape();
        let (slot, unit) = {
            let mut state = self.state();
            let open = file::find(state.files, file)?;
            // A failed append is past what can be read, and is retried there.
            let end = open.readable_end().max(open.appended);
            if offset.is_some_and(|offset| offset >= end) {
                return Err(Error::PastEnd);
            }
            (
                open.slot.ok_or(Error::NotOpen)?,
                open.place(offset.unwrap_or(open.appended), &shape).0,
            )
        };
        let mut header = Slot::EMPTY;
        let loaded = self.load_slot(turn.slot.lend(), slot, &mut header).await?;
        if offset.is_some() || unit < header.alloc_units {
            let mut window = [Extent::default(); WINDOW];
            self.window(loaded, &header, unit, &mut window).await?;
            let mut state = self.state();
            let open = file::find(state.files, file)?;
            let known = match offset {
                Some(_) => &mut open.around,
                None => &mut open.ahead,
            };
            for (place, extent) in known.iter_mut().zip(&window) {
                *place = extent.on_device(&shape);
            }
        }
        turn.done();
        Ok(())
    }

    /// The extents of the loaded slot's file, from the one with `unit` on.
    pub(crate) async fn window(
        &self,
        loaded: Loaded<'_>,
        header: &Slot,
        unit: u64,
        window: &mut [Extent; WINDOW],
    ) -> Result<(), Error> {
        let mut limit = header.alloc_units;
        if unit >= limit {
            return Err(Error::PastEnd);
        }
        let mut level = u32::from(header.map_level);
        let mut chosen = {
            let state = self.state();
            let entries = header.entries(state.slot(loaded));
            if level == 0 {
                fill(window, entries, 0, unit, limit);
                return Ok(());
            }
            choose(entries, unit)
        };
        loop {
            let (index, next) = chosen.ok_or(Error::from(Node::Slot(header.index)))?;
            limit = limit.min(next);
            let leaf = self.load_leaf(&index, header, level, true).await?;
            let state = self.state();
            let entries = leaf.entries(state.node(SPARE));
            if level == 2 {
                chosen = choose(entries, unit);
                level = 1;
                continue;
            }
            // A leaf that does not reach so far is an old member: the newest one was lost.
            if !fill(window, entries, leaf.first_logical, unit, limit) {
                return Err(Error::from(Node::Map(header.index)));
            }
            return Ok(());
        }
    }
}

/// The extents from the one with `unit` on, cut at `limit`; false if none has it.
#[inline(never)]
fn fill(window: &mut [Extent; WINDOW], entries: &[u8], first: u64, unit: u64, limit: u64) -> bool {
    let wanted = map::extents(entries, first)
        .map_while(|extent| extent.cut(limit))
        .skip_while(|extent| extent.logical_end() <= unit);
    for (place, extent) in window.iter_mut().zip(wanted) {
        *place = extent;
    }
    window.first().is_some_and(|extent| extent.contains(unit))
}

/// The last entry that begins at or before `unit`, and where the one after it begins.
#[inline(never)]
fn choose(entries: &[u8], unit: u64) -> Option<(map::Index, u64)> {
    let mut chosen = None;
    for index in map::indexes(entries) {
        if index.first_logical > unit {
            return chosen.map(|chosen| (chosen, index.first_logical));
        }
        chosen = Some(index);
    }
    chosen.map(|chosen| (chosen, u64::MAX))
}
