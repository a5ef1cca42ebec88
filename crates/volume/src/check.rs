// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checking a volume: every slot, every leaf, every bit. Reads all metadata.

use block::Device;

use crate::doubt::Claim;
use crate::finding::{Finding, Summary};
use crate::io::SPARE;
use crate::layout::{BUCKET_SLOTS, SUPERBLOCK_B};
use crate::list::{StoredFile, Usage};
use crate::lookup::FoundSlot;
use crate::name::NameRef;
use crate::names::{self, Names};
use crate::run::Table;
use crate::slot::{self, Slot, State as SlotState};
use crate::steps::Step;
use crate::superblock::{Counts, Superblock, is_overwritten, superblock_len};
use crate::table::TABLE_NODE;
use crate::token::{Loaded, SlotNode};
use crate::unsettled::Unsettled;
use crate::walk::Visit;
use crate::{Error, Volume, bitmap, error::Node};

/// Counts findings and passes them on.
pub(crate) struct Findings<'r> {
    pub summary: Summary,
    pub report: &'r mut dyn FnMut(Finding),
    /// Takes each file, as `Volume::files` does.
    pub each: &'r mut dyn FnMut(StoredFile),
    /// What the next writable mount will complete or undo.
    pub unsettled: Unsettled,
    /// Free units according to the bitmaps; `None` if one is damaged.
    pub free_units: Option<u64>,
    /// Units that no file has.
    pub unowned_units: u64,
    /// Files that are gone and show again.
    pub revived: u32,
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
    /// The first pass counts the files, and reports and repairs what it sees there: the others
    /// would do it again.
    is_first: bool,
    repair: bool,
}

/// Marks the units from one to another, counted from the first bit. Returns how many were marked
/// before.
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
    /// scratch full of groups takes one pass over the files. At least one group must fit. With four
    /// bytes a slot more than all groups take, slots are read only once; with less, the buckets of
    /// each name are read again, to find a second slot with that name.
    ///
    /// # Errors
    /// [`Error::Memory`] if `scratch` is too short, [`Error::NeedsMount`], a device's error.
    /// Problems of the volume are not errors but [`Finding`]s.
    pub async fn check(
        &self,
        scratch: &mut [u8],
        report: &mut dyn FnMut(Finding),
    ) -> Result<Summary, Error> {
        self.check_files(scratch, report, &mut |_| {}).await
    }

    /// Like [`Volume::check`], and calls `each` with every file, so that who needs both reads the
    /// slots once.
    ///
    /// # Errors
    /// Those of [`Volume::check`].
    pub async fn check_files(
        &self,
        scratch: &mut [u8],
        report: &mut dyn FnMut(Finding),
        each: &mut dyn FnMut(StoredFile),
    ) -> Result<Summary, Error> {
        self.check_and_repair(scratch, report, each, false).await
    }

    pub(crate) async fn check_and_repair(
        &self,
        scratch: &mut [u8],
        report: &mut dyn FnMut(Finding),
        each: &mut dyn FnMut(StoredFile),
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
            each,
            unsettled: self.unsettled().await?,
            free_units: Some(0),
            unowned_units: 0,
            revived: 0,
        };
        let known = self.known_usage();
        if repair {
            self.state().superblock.counts = Counts::UNKNOWN;
            self.perform(|state| state.put_in_use()).await?;
        }
        self.check_superblocks(&mut findings, repair).await?;
        let mut first = 0;
        let groups = shape.group_count() as u32;
        let (scratch, rest) =
            scratch.split_at_mut(scratch.len().min(groups as usize * group_bytes));
        let mut names = Names::new(rest, self.slot_count());
        while first < groups {
            let count = groups_a_pass.min(groups - first);
            let bits = scratch
                .get_mut(..count as usize * group_bytes)
                .unwrap_or_default();
            bits.fill(0);
            for (group, bits) in (first..).zip(bits.chunks_exact_mut(group_bytes)) {
                mark(bits, 0, shape.bitmap_units(group));
            }
            let pass = Pass {
                first_group: first,
                is_first: first == 0,
                repair,
            };
            self.mark_table(turn.slot.lend(), pass, bits, &mut findings)
                .await?;
            let node = turn.slot.lend();
            self.mark_files(node, pass, bits, &mut names, &mut findings)
                .await?;
            self.check_bitmaps(first, bits, &mut findings, repair)
                .await?;
            first += count;
        }
        let Unsettled { renamed, units, .. } = findings.unsettled;
        if renamed.is_some() || units > 0 {
            findings.add(Finding::Unfinished { units });
        }
        self.check_counts(known, &mut findings, repair);
        if repair {
            self.perform(|state| state.steps.push(Step::BARRIER))
                .await?;
        }
        turn.done();
        Ok(findings.summary)
    }

    /// Compares the counts that the volume had with what the tables have; a repair sets them.
    fn check_counts(&self, known: Option<Usage>, findings: &mut Findings<'_>, repair: bool) {
        let Summary {
            files, complete, ..
        } = findings.summary;
        let files = Some(files as u32).filter(|_| complete);
        if let Some(known) = known {
            let mut found = Usage {
                free_units: findings.free_units.unwrap_or(known.free_units),
                files: files.unwrap_or(known.files),
            };
            if known.files == found.files + findings.revived {
                found.files = known.files;
            }
            if known != found {
                findings.add(Finding::Counts { known, found });
                findings.summary.repaired += u64::from(repair);
            }
        }
        if let (true, Some(files)) = (repair, files) {
            // Every bitmap has the bits of the files' units now, and no others.
            self.state().superblock.counts = Counts::new(findings.unowned_units, files);
        }
    }

    /// Reports what a superblock has that is not valid, as [`Volume::check`] does. A mount to write
    /// writes both of them, after which nothing shows it.
    ///
    /// # Errors
    /// A device's error.
    pub async fn superblock_findings(&self, report: &mut dyn FnMut(Finding)) -> Result<(), Error> {
        let turn = self.turn().await?;
        for address in [0, SUPERBLOCK_B] {
            self.superblock_finding(address).await?.map(&mut *report);
        }
        turn.done();
        Ok(())
    }

    async fn check_superblocks(
        &self,
        findings: &mut Findings<'_>,
        repair: bool,
    ) -> Result<(), Error> {
        for address in [0, SUPERBLOCK_B] {
            let Some(finding) = self.superblock_finding(address).await? else {
                continue;
            };
            findings.add(finding);
            if repair {
                self.repair_superblocks(findings).await?;
            }
        }
        Ok(())
    }

    /// What is wrong with the superblock there.
    async fn superblock_finding(&self, address: u64) -> Result<Option<Finding>, Error> {
        let len = superblock_len(self.geometry().block_size_log2);
        self.read_bytes(SPARE, address, len).await?;
        let state = self.state();
        let bytes = state.memory(SPARE).get(..len).unwrap_or_default();
        let uuid = &state.superblock.uuid;
        let found = Superblock::decode(bytes, address);
        if matches!(&found, Ok(Some((found, _))) if found.uuid == *uuid) {
            return Ok(None);
        }
        let is_other = is_overwritten(bytes, uuid) && matches!(found, Ok(None));
        Ok(Some(if is_other {
            Finding::Overwritten { address }
        } else {
            Finding::OneCopy(Node::Superblock)
        }))
    }

    /// Marks the units of the table node.
    async fn mark_table(
        &self,
        mut node: SlotNode<'_>,
        pass: Pass,
        bits: &mut [u8],
        findings: &mut Findings<'_>,
    ) -> Result<(), Error> {
        let Some(unit) = self.state().superblock.table_unit else {
            return Ok(());
        };
        let shape = self.shape();
        let base = shape.group_start(pass.first_group);
        let end = base + bits.len() as u64 * 8;
        let (from, to) = (
            u64::from(unit).max(base),
            (u64::from(unit) + shape.pair_units()).min(end),
        );
        mark(bits, from.saturating_sub(base), to.saturating_sub(base));
        self.read_slots(TABLE_NODE, 1).await?;
        let both = self.state().both_in_run(Table::Slots, TABLE_NODE, 0);
        let place = FoundSlot {
            slot: TABLE_NODE,
            index: 0,
        };
        let mut header = Slot::EMPTY;
        let mut loaded = match self.load_found(node.lend(), place, &mut header) {
            Ok(loaded) => loaded,
            Err(Error::Corrupt(damage)) => {
                findings.add(Finding::Damaged(damage.node()));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if !both && pass.is_first {
            findings.add(Finding::OneCopy(Node::Slot(TABLE_NODE)));
            if pass.repair {
                // R8: erases the other copy.
                loaded = self.load_slot(node.lend(), TABLE_NODE, &mut header).await?;
                self.repair_slot(loaded, &mut header, findings).await?;
            }
        }
        self.mark_file(loaded, &header, pass, bits, findings).await
    }

    /// Marks the units of every file in `bits`, which are those of the pass's groups. Reads runs of
    /// slots: what is done with a slot of a run, the first node of the run's buffers aside, leaves
    /// the later ones in memory.
    async fn mark_files(
        &self,
        mut node: SlotNode<'_>,
        pass: Pass,
        bits: &mut [u8],
        names: &mut Names<'_>,
        findings: &mut Findings<'_>,
    ) -> Result<(), Error> {
        let slots = self.slot_count();
        let most = if names.know_all() {
            slots
        } else {
            names::SUSPECTS as u32
        };
        let mut slot = 0;
        while slot < slots {
            let count = self.read_slots(slot, most.min(slots - slot)).await?;
            let mut index = 0;
            while index < count && !names.is_full() {
                let mut place = FoundSlot {
                    slot: slot + index,
                    index,
                };
                let is_doubtful = self.state().is_doubtful(slot, index);
                index += 1;
                if !is_doubtful
                    || !self
                        .is_revived(node.lend(), &mut place, pass, findings)
                        .await?
                {
                    self.mark_slot(node.lend(), place, pass, bits, names, findings)
                        .await?;
                }
                if is_doubtful {
                    // Other slots were read.
                    break;
                }
            }
            slot += index;
            while let Some(suspect) = names.next_suspect() {
                self.check_name(node.lend(), suspect, findings).await?;
            }
        }
        Ok(())
    }

    /// Whether a doubtful file is gone; a repair then frees its slot. Otherwise the run in memory
    /// begins with the slot again, and `place` is set so.
    async fn is_revived(
        &self,
        mut node: SlotNode<'_>,
        place: &mut FoundSlot,
        pass: Pass,
        findings: &mut Findings<'_>,
    ) -> Result<bool, Error> {
        let slot = place.slot;
        let is_gone = self.claim(node.lend(), slot).await? == Claim::Gone;
        if is_gone && !pass.is_first {
            return Ok(true);
        }
        self.read_slots(slot, 1).await?;
        place.index = 0;
        if is_gone {
            findings.add(Finding::Revived { slot });
            findings.revived += 1;
            let mut header = Slot::EMPTY;
            let loaded = self.load_found(node.lend(), *place, &mut header)?;
            let entry = {
                let state = self.state();
                StoredFile::new(&header, state.slot(loaded), &state.shape())
            };
            // Its name is of use to whoever reads the finding.
            if let Some(entry) = entry {
                (findings.each)(entry);
            }
            if pass.repair {
                self.free_revived(node, slot, findings).await?;
            }
        }
        Ok(is_gone)
    }

    /// One slot of the run that was read last.
    async fn mark_slot(
        &self,
        mut node: SlotNode<'_>,
        place: FoundSlot,
        pass: Pass,
        bits: &mut [u8],
        names: &mut Names<'_>,
        findings: &mut Findings<'_>,
    ) -> Result<(), Error> {
        let FoundSlot { slot, index } = place;
        let mut header = Slot::EMPTY;
        let mut loaded = match self.load_found(node.lend(), place, &mut header) {
            Ok(loaded) => loaded,
            Err(Error::Corrupt(damage)) => {
                if pass.is_first {
                    findings.add(Finding::Damaged(damage.node()));
                }
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let both = self.state().both_in_run(Table::Slots, slot - index, index);
        let is_unused = header.state == SlotState::Free || findings.unsettled.renamed == Some(slot);
        if !both && pass.is_first {
            findings.add(Finding::OneCopy(Node::Slot(slot)));
        }
        if !both && pass.is_first && pass.repair {
            // R8: erases the other copy.
            loaded = self.load_slot(node.lend(), slot, &mut header).await?;
            // A file of which one copy was lost keeps its reservation.
            self.repair_slot(loaded, &mut header, findings).await?;
        } else if pass.is_first && pass.repair && header.state == SlotState::Free {
            if self.state().frees_half(slot - index, index) {
                self.repair_slot(loaded, &mut header, findings).await?;
            }
        } else if pass.is_first && !is_unused {
            let units = self.abandoned_in_run(slot - index, index)?;
            if units > 0 {
                findings.add(Finding::Reserved { slot, units });
            }
        }
        if is_unused {
            return Ok(());
        }
        if pass.is_first {
            if header.state == SlotState::Live {
                findings.summary.files += 1;
                findings.summary.data_bytes += header.size_bytes;
                let state = self.state();
                let shape = state.shape();
                if let Some(entry) = StoredFile::new(&header, state.slot(loaded), &shape) {
                    (findings.each)(entry);
                }
                if let Some(name) = slot::name(state.slot(loaded)) {
                    let bucket = slot / BUCKET_SLOTS;
                    if state.table.places_of(name, &shape).contains(&Some(bucket)) {
                        names.add(slot, name);
                    } else {
                        findings.add(Finding::WrongBucket { slot });
                    }
                }
            } else {
                findings.summary.to_reap += 1;
            }
        }
        self.mark_file(loaded, &header, pass, bits, findings).await
    }

    /// Looks for other slots with the name of a slot's file. Each pair is reported once: when the
    /// last of them is looked at.
    async fn check_name(
        &self,
        node: SlotNode<'_>,
        slot: u32,
        findings: &mut Findings<'_>,
    ) -> Result<(), Error> {
        let mut header = Slot::EMPTY;
        let loaded = match self.load_slot(node, slot, &mut header).await {
            Ok(loaded) => loaded,
            // It was valid a moment ago.
            Err(Error::Corrupt(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        // Other slots are read now.
        let name = slot::name(self.state().slot(loaded)).map(NameRef::to_name);
        let Some(name) = name else { return Ok(()) };
        let name = NameRef::new(name.as_str())?;
        let mut same = [None; 3 * BUCKET_SLOTS as usize];
        let mut places = same.iter_mut();
        let shape = self.shape();
        let buckets = self.state().table.places_of(name, &shape);
        for bucket in buckets.into_iter().flatten() {
            let base = bucket * BUCKET_SLOTS;
            let mut next = base;
            while next < base + BUCKET_SLOTS {
                let count = self.read_slots(next, base + BUCKET_SLOTS - next).await?;
                for index in 0..count {
                    let is_same = self.slot_in_run(next, index, |found, bytes| {
                        found.state == SlotState::Live && slot::has_name(bytes, name)
                    });
                    // A damaged slot is a separate finding.
                    if let (Ok(Some(true)), Some(place)) = (is_same, places.next()) {
                        *place = Some(next + index);
                    }
                }
                next += count;
            }
        }
        let mut same = same.into_iter().flatten();
        let (Some(opened), Some(last)) = (same.clone().next(), same.clone().max()) else {
            return Ok(());
        };
        if last == slot {
            for slot in same.by_ref().skip(1) {
                let other = opened;
                findings.add(Finding::SameName { slot, other });
            }
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

    /// Compares the bitmaps of the groups from `first` on with the files' units.
    async fn check_bitmaps(
        &self,
        first: u32,
        bits: &mut [u8],
        findings: &mut Findings<'_>,
        repair: bool,
    ) -> Result<(), Error> {
        let group_bytes = self.shape().node_bytes() / 2;
        let end = first + (bits.len() / group_bytes) as u32;
        let mut groups = bits.chunks_exact_mut(group_bytes);
        let mut group = first;
        while group < end {
            let count = self.read_run(Table::Bitmaps, group, end - group).await?;
            for (index, bits) in (0..count).zip(&mut groups) {
                // A repair needs the first node of the run's buffers only.
                self.check_bitmap(group, index, bits, findings, repair)
                    .await?;
            }
            group += count;
        }
        Ok(())
    }

    /// The bitmap at `index` of the run that was read from `run` on.
    async fn check_bitmap(
        &self,
        run: u32,
        index: u32,
        bits: &mut [u8],
        findings: &mut Findings<'_>,
        repair: bool,
    ) -> Result<(), Error> {
        let shape = self.shape();
        let group = run + index;
        let base = shape.group_start(group);
        let (mut leaked, mut not_marked, mut unsettled) = (0, 0, 0);
        let is_torn = findings.unsettled.has_group(group, &shape);
        let (sound, both) = {
            let state = self.state();
            let bytes = state.newest_in_run(Table::Bitmaps, run, index);
            let sound = bytes.filter(|bytes| bitmap::check(bytes, group, &shape).is_ok());
            if let Some(bytes) = sound {
                for unit in 0..bitmap::units_of(bytes, group, &shape) {
                    let owned = bits
                        .get((unit / 8) as usize)
                        .is_some_and(|byte| byte >> (unit % 8) & 1 != 0);
                    match (bitmap::is_used(bytes, unit), owned) {
                        (is_used, owned)
                            if is_used != owned
                                && findings.unsettled.has(base + u64::from(unit)) =>
                        {
                            unsettled += 1;
                        }
                        (true, false) => leaked += 1,
                        // Of a file to be reaped.
                        (false, true) if findings.unsettled.is_removal() => unsettled += 1,
                        (false, true) => not_marked += 1,
                        _ => {}
                    }
                }
            }
            let both = state.both_in_run(Table::Bitmaps, run, index);
            let is_whole = both || is_torn;
            let counted = sound.filter(|_| is_whole).map(bitmap::free_units);
            let before = findings.free_units.zip(counted);
            findings.free_units = before.map(|(sum, free)| sum + u64::from(free));
            (sound.is_some(), both)
        };
        let owned: u32 = bits.iter().map(|byte| byte.count_ones()).sum();
        let units = shape.unit_count().saturating_sub(base);
        let units = units.min(bits.len() as u64 * 8);
        findings.unowned_units += units.saturating_sub(owned.into());
        findings.unsettled.units += unsettled;
        // R7: outside the record, the one valid copy may be out of date.
        if !sound || !both && !is_torn {
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
            if sound {
                self.load_bitmap_pair(group).await?;
            }
            // Of a bitmap in doubt the bits of files that cannot be read are not known.
            if whole || findings.summary.complete {
                self.repair_bitmap(group, bits, sound, findings).await?;
            }
        }
        Ok(())
    }
}
