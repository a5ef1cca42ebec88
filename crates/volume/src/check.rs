// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checking a volume: every slot, every leaf, every bit. Reads all metadata.

use block::Device;

use crate::io::{NO_SLOT, SPARE, WORK};
use crate::layout::{Member, SUPERBLOCK_B, member_of};
use crate::lookup::Search;
use crate::name::NameRef;
use crate::slot::{self, Slot, State as SlotState};
use crate::steps::Step;
use crate::superblock::{Operation, Runs, Superblock, is_overwritten, superblock_len};
use crate::token::{Loaded, SlotNode};
use crate::walk::Visit;
use crate::{Error, Volume, bitmap, error::Node};

/// Something that a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// One copy of this structure is invalid, the other is in force. After a power cut this is the
    /// copy that was being written; otherwise it is bit rot that lost nothing. A repair rewrites
    /// the copy.
    OneCopy(Node),
    /// The block of the superblock at this address holds something of another owner: the device was
    /// given to it, and nothing of the volume may be changed ([`Error::Overwritten`]).
    Overwritten {
        /// The address in bytes.
        address: u64,
    },
    /// Neither copy is valid, or the valid one contradicts itself. With a slot its file is lost,
    /// with a leaf a part of a file; a repair rebuilds a bitmap when every slot and leaf can be
    /// read.
    Damaged(Node),
    /// A slot's name belongs in another bucket: the file cannot be opened.
    WrongBucket {
        /// The slot.
        slot: u32,
    },
    /// Two slots have the same name; only one can be opened.
    SameName {
        /// The slot that cannot be opened.
        slot: u32,
        /// The slot that is opened.
        other: u32,
    },
    /// Units belong to two files, or to an existing file and one that no longer exists.
    Shared {
        /// The slot whose map names them too.
        slot: u32,
        /// First unit.
        start: u64,
        /// Number of units.
        len: u64,
    },
    /// Units are in use but not marked so. A repair marks them.
    NotMarked {
        /// The group.
        group: u64,
        /// How many.
        units: u64,
    },
    /// Units are marked as used, but belong to no file. A repair frees them when every slot and
    /// leaf can be read.
    Leaked {
        /// The group.
        group: u64,
        /// How many.
        units: u64,
    },
    /// A writer reserved these units past the end of a file's data and never closed the file.
    /// [`Volume::reclaim`] gives them back.
    Reserved {
        /// The file's slot.
        slot: u32,
        /// How many.
        units: u64,
    },
    /// The volume was not unmounted, and its last operation may be half done. The next mount that
    /// may write completes or undoes it; until then this many units, or an old name, disagree with
    /// the files.
    Unfinished {
        /// How many; 0 for a rename.
        units: u64,
    },
}

impl Finding {
    /// Whether no data is affected: a single copy, which the next write completes, or what a power
    /// cut or a killed program leaves and the next write cleans up.
    pub const fn is_harmless(&self) -> bool {
        matches!(
            self,
            Finding::OneCopy(_) | Finding::Reserved { .. } | Finding::Unfinished { .. }
        )
    }
}

impl core::fmt::Display for Finding {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Finding::OneCopy(node) => write!(f, "one copy of {node} is invalid; the other is used"),
            Finding::Overwritten { address } => {
                write!(
                    f,
                    "another owner has written over the superblock at byte {address}"
                )
            }
            Finding::Damaged(node) => write!(f, "{node} is damaged"),
            Finding::WrongBucket { slot } => {
                write!(
                    f,
                    "the name in slot {slot} belongs elsewhere: the file cannot be opened"
                )
            }
            Finding::SameName { slot, other } => {
                write!(f, "slot {slot} has the same name as slot {other}")
            }
            Finding::Shared { slot, start, len } => {
                write!(
                    f,
                    "{len} units from {start} on belong to slot {slot} and to another file"
                )
            }
            Finding::NotMarked { group, units } => {
                write!(
                    f,
                    "{units} units in group {group} are in use but not marked"
                )
            }
            Finding::Leaked { group, units } => {
                write!(
                    f,
                    "{units} units in group {group} are marked but belong to no file"
                )
            }
            Finding::Reserved { slot, units } => {
                write!(
                    f,
                    "the file in slot {slot} has {units} units reserved by a writer that never \
                     closed it"
                )
            }
            Finding::Unfinished { units: 0 } => f.write_str("a rename was cut short"),
            Finding::Unfinished { units } => {
                write!(f, "an operation on {units} units was cut short")
            }
        }
    }
}

/// The counters of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Files.
    pub files: u64,
    /// Removed files whose units have not been given back yet.
    pub to_reap: u64,
    /// Bytes of data in files.
    pub data_bytes: u64,
    /// Units in use, leaves included.
    pub used_units: u64,
    /// Findings that affect data.
    pub damages: u64,
    /// Findings that do not affect data.
    pub harmless: u64,
    /// Nodes that a repair wrote.
    pub repaired: u64,
    /// Every slot and leaf could be read, so units that belong to no file are free.
    pub complete: bool,
}

/// Counts findings and passes them on.
pub(crate) struct Findings<'r> {
    pub summary: Summary,
    pub report: &'r mut dyn FnMut(Finding),
    /// What the next writable mount will complete or undo.
    pub unsettled: Unsettled,
}

/// The operation that a power cut left in the superblock, on a volume that was mounted without
/// recovery.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unsettled {
    /// Units whose bits recovery sets or clears.
    runs: Runs,
    /// The old slot of a rename that has happened: recovery frees it.
    renamed: Option<u32>,
    /// Bits that are to change.
    units: u64,
}

impl Unsettled {
    fn has(&self, unit: u64) -> bool {
        let mut runs = self.runs.as_slice().iter();
        runs.any(|run| (run.start..run.start + u64::from(run.len)).contains(&unit))
    }
}

impl Findings<'_> {
    pub(crate) fn add(&mut self, finding: Finding) {
        if matches!(finding, Finding::Damaged(Node::Slot(_) | Node::Map(_))) {
            self.summary.complete = false;
        }
        if finding.is_harmless() {
            self.summary.harmless += 1;
        } else {
            self.summary.damages += 1;
        }
        (self.report)(finding);
    }
}

/// A pass over the files: each marks the units of as many groups as the scratch memory holds.
#[derive(Clone, Copy)]
struct Pass {
    first_group: u32,
    /// The first pass counts the files, and reports and repairs what it sees there: the others would do it again.
    is_first: bool,
    repair: bool,
}

/// Marks the units from one to another, counted from the first bit. Returns how many were marked before.
fn mark(bits: &mut [u8], from: u64, to: u64) -> u64 {
    let mut shared = 0;
    for unit in from..to {
        if let Some(byte) = bits.get_mut((unit / 8) as usize) {
            let mask = 1 << (unit % 8);
            shared += u64::from(*byte & mask != 0);
            *byte |= mask;
        }
    }
    shared
}

impl<D: Device> Volume<'_, D> {
    /// Checks everything. `scratch` holds the bits of as many groups as fit, N/2 bytes each; each
    /// scratch full of groups takes one pass over the files. At least one group must fit.
    ///
    /// # Errors
    /// [`Error::Memory`] if `scratch` is too short, [`Error::NeedsMount`], a device's error.
    /// Problems of the volume are not errors but [`Finding`]s.
    pub async fn check(
        &self,
        scratch: &mut [u8],
        report: &mut dyn FnMut(Finding),
    ) -> Result<Summary, Error> {
        self.check_and_repair(scratch, report, false).await
    }

    pub(crate) async fn check_and_repair(
        &self,
        scratch: &mut [u8],
        report: &mut dyn FnMut(Finding),
        repair: bool,
    ) -> Result<Summary, Error> {
        let mut turn = if repair {
            self.turn_to_change().await?
        } else {
            self.turn().await?
        };
        let shape = self.shape();
        let group_bytes = shape.node_bytes() / 2;
        let groups_a_pass = (scratch.len() / group_bytes) as u32;
        if groups_a_pass == 0 {
            return Err(Error::Memory);
        }
        let mut findings = Findings {
            summary: Summary {
                complete: true,
                ..Summary::default()
            },
            report,
            unsettled: self.unsettled().await?,
        };
        if repair {
            self.perform(|state| state.put_in_use()).await?;
        }
        self.check_superblocks(&mut findings, repair).await?;
        let mut first = 0;
        let groups = shape.group_count() as u32;
        while first < groups {
            let count = groups_a_pass.min(groups - first);
            let bits = scratch
                .get_mut(..count as usize * group_bytes)
                .unwrap_or_default();
            bits.fill(0);
            for (group, bits) in (first..).zip(bits.chunks_exact_mut(group_bytes)) {
                mark(bits, 0, shape.bitmap_units(group));
            }
            let node = turn.slot.lend();
            let pass = Pass {
                first_group: first,
                is_first: first == 0,
                repair,
            };
            self.mark_files(node, pass, bits, &mut findings).await?;
            for (group, bits) in (first..).zip(bits.chunks_exact_mut(group_bytes)) {
                self.check_bitmap(group, bits, &mut findings, repair)
                    .await?;
            }
            first += count;
        }
        let Unsettled { renamed, units, .. } = findings.unsettled;
        if renamed.is_some() || units > 0 {
            findings.add(Finding::Unfinished { units });
        }
        if repair {
            self.perform(|state| state.steps.push(Step::BARRIER))
                .await?;
        }
        turn.done();
        Ok(findings.summary)
    }

    /// What recovery would change, where it was left out. `FORMAT.md`, "Recovery".
    async fn unsettled(&self) -> Result<Unsettled, Error> {
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
        if let Ok(Some((
            _,
            Operation::Reserve { runs, .. }
            | Operation::Release { runs, .. }
            | Operation::Create { runs, .. },
        ))) = found
        {
            unsettled.runs = runs;
        }
        Ok(unsettled)
    }

    async fn check_superblocks(
        &self,
        findings: &mut Findings<'_>,
        repair: bool,
    ) -> Result<(), Error> {
        let len = superblock_len(self.geometry().block_size_log2);
        for address in [0, SUPERBLOCK_B] {
            self.read_bytes(SPARE, address, len).await?;
            let (sound, overwritten) = {
                let state = self.state();
                let bytes = state.memory(SPARE).get(..len).unwrap_or_default();
                let uuid = &state.superblock.uuid;
                let found = Superblock::decode(bytes, address);
                let sound = matches!(&found, Ok(Some((found, _))) if found.uuid == *uuid);
                (
                    sound,
                    is_overwritten(bytes, uuid) && matches!(found, Ok(None)),
                )
            };
            if sound {
                continue;
            }
            findings.add(if overwritten {
                Finding::Overwritten { address }
            } else {
                Finding::OneCopy(Node::Superblock)
            });
            if repair {
                self.repair_superblocks(findings).await?;
            }
        }
        Ok(())
    }

    /// Marks the units of every file in `bits`, which are those of the pass's groups.
    async fn mark_files(
        &self,
        mut node: SlotNode<'_>,
        pass: Pass,
        bits: &mut [u8],
        findings: &mut Findings<'_>,
    ) -> Result<(), Error> {
        let shape = self.shape();
        for slot in 0..shape.slot_count() {
            let mut header = Slot::EMPTY;
            let loaded = match self.read_slot(node.lend(), slot, &mut header).await {
                Ok(loaded) => loaded,
                Err(Error::Corrupt(damage)) => {
                    if pass.is_first {
                        findings.add(Finding::Damaged(damage.node()));
                    }
                    continue;
                }
                Err(error) => return Err(error),
            };
            let both = self.state().both;
            if !both && pass.is_first {
                findings.add(Finding::OneCopy(Node::Slot(slot)));
                if pass.repair {
                    self.repair_slot(loaded, &mut header, findings).await?;
                }
            }
            if header.state == SlotState::Free || findings.unsettled.renamed == Some(slot) {
                continue;
            }
            if pass.is_first {
                self.check_reservation(&header, findings).await?;
                self.check_name(loaded, &header, findings).await?;
                if header.state == SlotState::Live {
                    findings.summary.files += 1;
                    findings.summary.data_bytes += header.size_bytes;
                } else {
                    findings.summary.to_reap += 1;
                }
            }
            self.mark_file(loaded, &header, pass, bits, findings)
                .await?;
        }
        Ok(())
    }

    /// Whether a writer that died reserved space for the file. The slot stays loaded.
    async fn check_reservation(
        &self,
        header: &Slot,
        findings: &mut Findings<'_>,
    ) -> Result<(), Error> {
        let slot = header.index;
        let is_live = header.state == SlotState::Live;
        if is_live && header.alloc_units > header.data_end_units(&self.shape()) {
            self.read_slots(slot, 1).await?;
            let units = self.abandoned_in_run(slot, 0)?;
            if units > 0 {
                findings.add(Finding::Reserved { slot, units });
            }
        }
        Ok(())
    }

    async fn check_name(
        &self,
        loaded: Loaded<'_>,
        header: &Slot,
        findings: &mut Findings<'_>,
    ) -> Result<(), Error> {
        let slot = header.index;
        // The search reads other slots.
        let name = slot::name(self.state().slot(loaded)).map(NameRef::to_name);
        let (Some(name), SlotState::Live) = (name, header.state) else {
            return Ok(());
        };
        let name = NameRef::new(name.as_str())?;
        let buckets = name.buckets(&self.shape());
        if !buckets.contains(&(slot / crate::layout::BUCKET_SLOTS)) {
            findings.add(Finding::WrongBucket { slot });
            return Ok(());
        }
        match self.search(name, &[]).await {
            Ok(Search::Found(found)) if found.slot != slot => {
                let other = found.slot;
                findings.add(Finding::SameName { slot, other });
            }
            // A damaged slot in the bucket is a separate finding.
            Ok(_) | Err(Error::Corrupt(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn mark_file(
        &self,
        loaded: Loaded<'_>,
        header: &Slot,
        pass: Pass,
        bits: &mut [u8],
        findings: &mut Findings<'_>,
    ) -> Result<(), Error> {
        let shape = self.shape();
        let base = shape.group_start(pass.first_group);
        let end = base + bits.len() as u64 * 8;
        let slot = header.index;
        if pass.repair && pass.is_first {
            self.repair_leaves(loaded, header, findings).await?;
        }
        self.walk(loaded, header, &mut |visit| match visit {
            Visit::Units { start, len } => {
                let (from, to) = (start.max(base), (start + len).min(end));
                let shared = mark(bits, from.saturating_sub(base), to.saturating_sub(base));
                if pass.is_first {
                    findings.summary.used_units += len;
                }
                if shared > 0 {
                    let len = shared;
                    findings.add(Finding::Shared { slot, start, len });
                }
            }
            Visit::OneMember { .. } if pass.is_first => {
                findings.add(Finding::OneCopy(Node::Map(slot)));
            }
            Visit::Lost if pass.is_first => findings.add(Finding::Damaged(Node::Map(slot))),
            Visit::OneMember { .. } | Visit::Lost => {}
        })
        .await
    }

    /// Compares a group's bitmap with the files' units.
    async fn check_bitmap(
        &self,
        group: u32,
        bits: &mut [u8],
        findings: &mut Findings<'_>,
        repair: bool,
    ) -> Result<(), Error> {
        let shape = self.shape();
        let found = match self.load_bitmap_pair(group).await {
            Ok(()) => true,
            Err(Error::Corrupt(_)) => false,
            Err(error) => return Err(error),
        };
        let both = self.state().both;
        let sound = found && bitmap::check(self.state().node(WORK), group, &shape).is_ok();
        let (mut leaked, mut not_marked, mut unsettled) = (0, 0, 0);
        let base = shape.group_start(group);
        if sound {
            let units = bitmap::units_of(self.state().node(WORK), group, &shape);
            let state = self.state();
            for unit in 0..units {
                let owned = bits
                    .get((unit / 8) as usize)
                    .is_some_and(|byte| byte >> (unit % 8) & 1 != 0);
                match (bitmap::is_used(state.node(WORK), unit), owned) {
                    (is_used, owned)
                        if is_used != owned && findings.unsettled.has(base + u64::from(unit)) =>
                    {
                        unsettled += 1;
                    }
                    (true, false) => leaked += 1,
                    (false, true) => not_marked += 1,
                    _ => {}
                }
            }
        }
        findings.unsettled.units += unsettled;
        if !sound {
            findings.add(Finding::Damaged(Node::Bitmap(group)));
        } else if !both {
            findings.add(Finding::OneCopy(Node::Bitmap(group)));
        }
        if not_marked > 0 {
            findings.add(Finding::NotMarked {
                group: u64::from(group),
                units: not_marked,
            });
        }
        if leaked > 0 {
            findings.add(Finding::Leaked {
                group: u64::from(group),
                units: leaked,
            });
        }
        let whole = sound && both;
        if repair && (!whole || leaked + not_marked > 0) {
            self.repair_bitmap(group, bits, sound, findings).await?;
        }
        Ok(())
    }
}
