// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a reader, which does not recover, leaves to the next mount that may write. `FORMAT.md`,
//! "Recovery".

use block::Device;

use crate::io::{NO_SLOT, SPARE};
use crate::layout::{Member, SUPERBLOCK_B, Shape, member_of};
use crate::superblock::{Operation, Runs, Superblock, superblock_len};
use crate::{Error, Volume};

/// The operation that a power cut left in the superblock, on a volume that was mounted without
/// recovery.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unsettled {
    /// Units whose bits recovery sets or clears.
    runs: Runs,
    /// The old slot of a rename that has happened: recovery frees it.
    pub renamed: Option<u32>,
    /// Bits that are to change.
    pub units: u64,
    /// The operation's number.
    seq: u64,
    /// The slot of a release.
    released: Option<u32>,
    /// Files were being removed in a list: recovery clears the bits of those to be reaped, which
    /// may be clear in any bitmap.
    is_removal: bool,
}

impl Unsettled {
    /// Whether recovery sets the bit of a unit of the file in `slot`: the record belongs to the
    /// last operation on it, or of a release that has not happened.
    pub(crate) fn is_of(&self, unit: u64, slot: u32, last_op: u64) -> bool {
        (self.released == Some(slot) || last_op == self.seq) && self.has(unit)
    }

    /// Whether the bits of files to be reaped may be clear.
    pub(crate) const fn is_removal(&self) -> bool {
        cfg!(feature = "grow") && self.is_removal
    }

    /// Whether recovery rewrites the bitmap of a group if one member is not valid.
    pub(crate) fn has_group(&self, group: u32, shape: &Shape) -> bool {
        let mut runs = self.runs.as_slice().iter();
        self.is_removal() || runs.any(|run| shape.group_of(run.start) == group)
    }

    /// Whether recovery sets or clears the bit of a unit.
    pub(crate) fn has(&self, unit: u64) -> bool {
        let mut runs = self.runs.as_slice().iter();
        runs.any(|run| (run.start..run.start + u64::from(run.len)).contains(&unit))
    }
}

impl<D: Device> Volume<'_, D> {
    /// What recovery would change, where it was left out. `FORMAT.md`, "Recovery".
    pub(crate) async fn unsettled(&self) -> Result<Unsettled, Error> {
        let mut unsettled = Unsettled::default();
        let (seq, is_recovered) = {
            let state = self.state();
            let superblock = &state.superblock;
            unsettled.renamed = Some(state.renamed).filter(|slot| *slot != NO_SLOT);
            (
                superblock.seq,
                superblock.clean || !state.superblock.read_only,
            )
        };
        if is_recovered {
            return Ok(unsettled);
        }
        let address = match member_of(seq) {
            Member::A => 0,
            Member::B => SUPERBLOCK_B,
        };
        let len = superblock_len(self.geometry().block_size_log2);
        self.read_bytes(SPARE, address, len).await?;
        let found = Superblock::decode(self.state().memory(SPARE), address);
        unsettled.seq = seq;
        if let Ok(Some((_, operation))) = found {
            match operation {
                Operation::Release { slot, runs } => {
                    unsettled.released = Some(slot);
                    unsettled.runs = runs;
                }
                Operation::Reserve { runs, .. }
                | Operation::Create { runs, .. }
                | Operation::CreateList { runs, .. } => unsettled.runs = runs,
                #[cfg(feature = "grow")]
                Operation::RemoveList { .. } => unsettled.is_removal = true,
                Operation::None | Operation::Rename { .. } => {}
            }
        }
        Ok(unsettled)
    }
}
