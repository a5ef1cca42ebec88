// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Visiting every unit that a file owns, its leaves included.

use block::Device;

use crate::io::SPARE;
use crate::map::{self, Index};
use crate::slot::Slot;
use crate::token::Loaded;
use crate::{Error, Volume};

/// An item that a walk visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visit {
    /// Units that the file owns, possibly in several groups.
    Units { start: u64, len: u64 },
    /// A leaf pair of which only one member is valid.
    OneMember { index: Index, level: u32 },
    /// A leaf pair that cannot be read, or that ends too early.
    Lost,
}

impl<D: Device> Volume<'_, D> {
    /// Walks the map of the loaded slot's file. Uses the other two nodes. Reads each leaf once, and
    /// an index node once for each of its leaves.
    pub(crate) async fn walk(
        &self,
        loaded: Loaded<'_>,
        header: &Slot,
        visit: &mut dyn FnMut(Visit),
    ) -> Result<(), Error> {
        let shape = self.shape();
        let limit = header.alloc_units;
        if header.map_level == 0 {
            let state = self.state();
            for extent in header.extents(state.slot(loaded)) {
                visit(Visit::Units {
                    start: extent.start,
                    len: u64::from(extent.len),
                });
            }
            return Ok(());
        }
        let pair = |unit| Visit::Units {
            start: unit,
            len: shape.pair_units(),
        };
        for place in 0..header.entry_count as usize {
            let (index, end) = {
                let state = self.state();
                let mut rest = header.indexes(state.slot(loaded)).skip(place);
                let Some(index) = rest.next() else { break };
                let next = rest.next().map_or(limit, |next| next.first_logical);
                (index, next.min(limit))
            };
            visit(pair(index.unit));
            if header.map_level == 1 {
                self.walk_leaf(header, &index, end, visit).await?;
                continue;
            }
            let mut turn = 0;
            // At most as many iterations as a leaf has entries.
            while turn < shape.leaf_entries() {
                let Some(node) = self.try_leaf(header, &index, 2, turn == 0, visit).await? else {
                    break;
                };
                let (leaf, leaf_end) = {
                    let state = self.state();
                    let entries = node.entries(state.node(SPARE));
                    let mut rest = map::indexes(entries).skip(turn);
                    match rest.next().filter(|leaf| leaf.first_logical < end) {
                        Some(leaf) => {
                            let next = rest.next().map_or(end, |next| next.first_logical);
                            (leaf, next.min(end))
                        }
                        None => break,
                    }
                };
                visit(pair(leaf.unit));
                self.walk_leaf(header, &leaf, leaf_end, visit).await?;
                turn += 1;
            }
        }
        Ok(())
    }

    async fn walk_leaf(
        &self,
        header: &Slot,
        index: &Index,
        end: u64,
        visit: &mut dyn FnMut(Visit),
    ) -> Result<(), Error> {
        let Some(leaf) = self.try_leaf(header, index, 1, true, visit).await? else {
            return Ok(());
        };
        let state = self.state();
        let mut reached = index.first_logical;
        let extents = map::extents(leaf.entries(state.node(SPARE)), leaf.first_logical);
        for extent in extents.map_while(|extent| extent.cut(end)) {
            reached = extent.logical_end();
            visit(Visit::Units {
                start: extent.start,
                len: u64::from(extent.len),
            });
        }
        if reached != end {
            visit(Visit::Lost);
        }
        Ok(())
    }

    async fn try_leaf(
        &self,
        header: &Slot,
        index: &Index,
        level: u32,
        first: bool,
        visit: &mut dyn FnMut(Visit),
    ) -> Result<Option<map::Leaf>, Error> {
        match self.load_leaf(index, header, level, true).await {
            Ok(leaf) => {
                if !self.state().both && first {
                    visit(Visit::OneMember {
                        index: *index,
                        level,
                    });
                }
                Ok(Some(leaf))
            }
            Err(Error::Corrupt(_)) => {
                visit(Visit::Lost);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
