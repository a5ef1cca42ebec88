// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Repairs what a check can prove. Nothing here touches data, a slot that cannot be read, or the
//! only valid copy of anything.

use block::Device;

use crate::bytes::{get_u64, put_u64};
use crate::check::Findings;
use crate::finding::{Finding, Summary};
use crate::io::{SPARE, WORK};
use crate::layout::node;
use crate::map::{Index, Leaf};
use crate::slot::Slot;
use crate::steps::Step;
use crate::superblock::Operation;
use crate::token::{Loaded, SlotNode};
use crate::walk::Visit;
use crate::{Error, Volume, bitmap, error::Node};

impl<D: Device> Volume<'_, D> {
    /// Checks everything as [`Volume::check`] does, and repairs what the scan proves: invalid
    /// copies are rewritten from the valid ones, bitmaps from the files' maps, and slots are freed
    /// in both members ([`Finding::Revived`]). Units that no file
    /// has are freed only when every slot and leaf could be read. No file may be open for writing.
    ///
    /// # Errors
    /// Those of [`Volume::check`]; [`Error::ReadOnly`], [`Error::InUse`].
    pub async fn repair(
        &self,
        scratch: &mut [u8],
        report: &mut dyn FnMut(Finding),
    ) -> Result<Summary, Error> {
        if self.state().files.iter().any(|open| open.writable) {
            return Err(Error::InUse);
        }
        self.check_and_repair(scratch, report, &mut |_| {}, true)
            .await
    }

    pub(crate) async fn repair_superblocks(
        &self,
        findings: &mut Findings<'_>,
    ) -> Result<(), Error> {
        self.perform(|state| {
            for which in [SPARE, WORK] {
                state.steps.push(Step::BARRIER);
                state.put_superblock(which, &Operation::None, false);
            }
            state.steps.push(Step::BARRIER);
        })
        .await?;
        findings.summary.repaired += 1;
        Ok(())
    }

    pub(crate) async fn repair_slot(
        &self,
        loaded: Loaded<'_>,
        header: &mut Slot,
        findings: &mut Findings<'_>,
    ) -> Result<(), Error> {
        self.perform(|state| {
            state.steps.push(Step::BARRIER);
            state.put_slot(loaded, header, false);
        })
        .await?;
        findings.summary.repaired += 1;
        Ok(())
    }

    /// Frees a slot whose file is gone, in both members.
    pub(crate) async fn free_revived(
        &self,
        node: SlotNode<'_>,
        slot: u32,
        findings: &mut Findings<'_>,
    ) -> Result<(), Error> {
        let mut header = Slot::EMPTY;
        // R8: erases the invalid copy.
        let loaded = self.load_slot(node, slot, &mut header).await?;
        header = Slot::free(slot, header.seq, header.last_op);
        self.repair_slot(loaded, &mut header, findings).await?;
        self.repair_slot(loaded, &mut header, findings).await
    }

    /// Rewrites each leaf of which one member is invalid. Each iteration repairs one leaf, so there
    /// is at most one iteration per leaf of the file, and one more.
    pub(crate) async fn repair_leaves(
        &self,
        loaded: Loaded<'_>,
        header: &Slot,
        findings: &mut Findings<'_>,
    ) -> Result<(), Error> {
        loop {
            let mut single = None;
            self.walk(loaded, header, &mut |visit| {
                if let Visit::OneMember { index, level } = visit {
                    single = Some((index, level));
                }
            })
            .await?;
            let Some((index, level)) = single else {
                return Ok(());
            };
            findings.add(Finding::OneCopy(Node::Map(header.index)));
            self.repair_leaf(header, &index, level, findings).await?;
        }
    }

    async fn repair_leaf(
        &self,
        header: &Slot,
        index: &Index,
        level: u32,
        findings: &mut Findings<'_>,
    ) -> Result<(), Error> {
        let leaf = self.load_leaf(index, header, level, true).await?;
        let next = Leaf {
            seq: leaf.seq + 1,
            ..leaf
        };
        self.perform(|state| {
            state.steps.push(Step::BARRIER);
            next.encode(state.node_mut(SPARE));
            state.put_leaf(index.unit);
        })
        .await?;
        findings.summary.repaired += 1;
        Ok(())
    }

    /// Writes both members of a bitmap with the bits of the files' units and, unless everything
    /// could be read, also the bits that were set before.
    pub(crate) async fn repair_bitmap(
        &self,
        group: u32,
        bits: &[u8],
        sound: bool,
        findings: &mut Findings<'_>,
    ) -> Result<(), Error> {
        let shape = self.shape();
        let complete = findings.summary.complete;
        let last_op = self.state().superblock.seq;
        {
            let mut state = self.state();
            let bytes = state.node_mut(WORK);
            let seq = if sound {
                get_u64(bytes, node::SEQ)
            } else {
                2 * last_op
            };
            if !sound || complete {
                bitmap::initialise(bytes, group, &shape);
            }
            for unit in 0..bits.len() as u32 * 8 {
                let owned = bits
                    .get((unit / 8) as usize)
                    .is_some_and(|byte| byte >> (unit % 8) & 1 != 0);
                if owned {
                    bitmap::set(bytes, unit, 1, true);
                }
            }
            put_u64(bytes, node::SEQ, seq);
        }
        for _ in 0..2 {
            self.perform(|state| {
                state.steps.push(Step::BARRIER);
                state.put_bitmap(group, last_op);
                state.steps.push(Step::BARRIER);
            })
            .await?;
        }
        findings.summary.repaired += 1;
        Ok(())
    }
}
