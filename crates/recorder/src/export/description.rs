// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What describes the samples of a recording, and of which of them which file has what.

use super::lists::gaps_of;
use super::metas::{described_by, description_of, earlier};
use super::recording::{Recording, companion_of};
use super::segments::{MissingReason, MissingSegments, StoredNames, tag_of};
use crate::format_failed;
use crate::segments::files::gaps_name;
use crate::segments::numbered::Numbered;
use devices::error::{Error, Result};
use files::listing::FileEntry;
use files::shown;
use formats::gaps::{self, MAX_GAPS_BYTES};
use formats::sigmf::{Completed, MAX_META_BYTES, Metadata};
use live::origin::Origin;
use remedy::{Part, Setting, words};
use std::ops::{Range, RangeInclusive};
use stream::Gap;

/// What describes a recording's first sample and those behind it.
pub struct Description {
    /// SigMF's metadata.
    pub metadata: Metadata,
    /// Segments that it describes and that are missing before the first one, if the segment itself
    /// does not show them.
    pub missing: Option<MissingSegments>,
    /// Bytes of the first segment that belong to a sample which began in the segment before it.
    pub skipped_bytes: u64,
}

fn read(origin: &Origin<'_, '_>, meta: &str) -> Result<Metadata> {
    let bytes = companion_of(origin, meta, MAX_META_BYTES)?;
    Metadata::parse(meta, &bytes.unwrap_or_default()).map_err(format_failed)
}

/// What describes the first segment, if anything does: its own description, or that of an earlier
/// segment. What is left out is noted.
///
/// # Errors
/// The volume failed, or the description is not SigMF.
pub fn describe(
    origin: &Origin<'_, '_>,
    stored: &StoredNames,
    recording: &Recording,
    notes: &mut Vec<String>,
) -> Result<Option<Description>> {
    let Some(first) = recording.segments.first() else {
        return Ok(None);
    };
    let Some(found) = description_of(origin, stored, first, notes)? else {
        return Ok(None);
    };
    let metadata = read(origin, &found.meta)?;
    let Some((numbered, number)) = found.earlier else {
        return Ok(Some(Description {
            metadata,
            missing: None,
            skipped_bytes: 0,
        }));
    };
    let last = numbered.number - 1;
    let (metadata, skipped_bytes) = placed(origin, stored, &metadata, (number, first, &numbered))?;
    let are_stored = stored.segments(&numbered, number..=last).len() as u64 > last - number;
    let missing = (!are_stored).then_some(MissingSegments {
        first: number,
        last,
        offset_bytes: 0,
        missing_bytes: None,
        reason: MissingReason::NotStored,
        and_later: false,
        is_restart: false,
        absent: None,
    });
    Ok(Some(Description {
        metadata,
        missing,
        skipped_bytes,
    }))
}

/// The description of segment `number` for the samples of a later segment, and bytes of that before
/// its first whole sample.
fn placed(
    origin: &Origin<'_, '_>,
    stored: &StoredNames,
    metadata: &Metadata,
    (number, entry, numbered): (u64, &FileEntry, &Numbered),
) -> Result<(Metadata, u64)> {
    let sample_bytes = metadata.sample_bytes;
    let before = Before::of(origin, stored, numbered, number..=numbered.number - 1)?;
    let Some(tag) = stored.tag(entry, numbered) else {
        // A segment of an older version: all of those before it must be there.
        return Ok(if before.are_stored {
            before.skip(metadata)
        } else {
            (metadata.somewhere(), 0)
        });
    };
    let begin_bytes = match before.begin_bytes {
        _ if number == tag.first => 0,
        Some(begin_bytes) => begin_bytes,
        // A ring has passed its description on, with the index of its first sample.
        None => metadata.first_index().saturating_mul(sample_bytes),
    };
    let all_bytes = tag.offset_bytes.checked_sub(begin_bytes);
    let all_bytes = all_bytes.filter(|all_bytes| {
        if before.are_stored {
            *all_bytes == before.size_bytes + before.lost_bytes
        } else {
            *all_bytes >= before.size_bytes + before.lost_bytes
        }
    });
    Ok(match all_bytes {
        Some(all_bytes) => Before {
            size_bytes: all_bytes - before.lost_bytes,
            ..before
        }
        .skip(metadata),
        // One of them was changed since.
        None => {
            let index = tag.offset_bytes.div_ceil(sample_bytes);
            let skipped = index * sample_bytes - tag.offset_bytes;
            (metadata.at_index(index), skipped)
        }
    })
}

/// Segments of a recording before another one.
struct Before {
    /// Where the first of them begins in the recording, if it is stored and says so.
    begin_bytes: Option<u64>,
    /// Whether the volume has all of them.
    are_stored: bool,
    /// Bytes of those that it has.
    size_bytes: u64,
    /// Bytes that were lost in all of them; of those that are not stored, as far as their
    /// companions are.
    lost_bytes: u64,
}

impl Before {
    fn of(
        origin: &Origin<'_, '_>,
        stored: &StoredNames,
        of: &Numbered,
        numbers: RangeInclusive<u64>,
    ) -> Result<Self> {
        let (first, last) = (*numbers.start(), *numbers.end());
        let names = stored.segments(of, numbers);
        let mut before = Self {
            begin_bytes: None,
            are_stored: names.len() as u64 == (last + 1).saturating_sub(first),
            size_bytes: 0,
            lost_bytes: 0,
        };
        for name in &names {
            let Some(entry) = origin.find(name)? else {
                before.are_stored = false;
                continue;
            };
            let number = Numbered::of(name).map_or(0, |own| own.number);
            if number == first {
                let tag = tag_of(&entry, number);
                before.begin_bytes = tag.map(|tag| tag.offset_bytes);
            }
            before.size_bytes += entry.size_bytes;
            before.lost_bytes += gaps::lost_bytes(&gaps_of(origin, &entry)?.gaps);
        }
        let others = (first..=last).map(|number| of.name_of(number));
        for segment in others.filter(|_| !before.are_stored) {
            let companion = gaps_name(&segment);
            if !stored.has(&segment) && stored.has(&companion) {
                let lines = companion_of(origin, &companion, MAX_GAPS_BYTES)?;
                let gaps = gaps::parse(&companion, &lines.unwrap_or_default(), u64::MAX)
                    .map_err(format_failed)?;
                before.lost_bytes += gaps::lost_bytes(&gaps);
            }
        }
        Ok(before)
    }

    /// The metadata of the samples behind them, and bytes before the first whole one.
    fn skip(&self, metadata: &Metadata) -> (Metadata, u64) {
        let sample_bytes = metadata.sample_bytes;
        let samples = self.size_bytes.div_ceil(sample_bytes);
        let skipped = samples * sample_bytes - self.size_bytes;
        let lost = self.lost_bytes / sample_bytes;
        (metadata.behind(samples, lost), skipped)
    }
}

/// Samples to export: these bytes of each segment, and their gaps.
pub struct Samples {
    metadata: Metadata,
    /// Bytes of each segment: what is before or behind them is a part of a sample.
    pub parts: Vec<Range<u64>>,
    gaps: Vec<Gap>,
    /// Samples.
    pub count: u64,
    /// Whether the stored digest is of just these bytes.
    is_stored_file: bool,
}

impl Samples {
    /// The samples of the segments. A recording that ends inside a sample loses that part, so that
    /// the next one's begin where they are described.
    ///
    /// # Errors
    /// The segments have different samples, or bytes that are no samples and cannot be where they
    /// are.
    pub fn of(
        origin: &Origin<'_, '_>,
        stored: &StoredNames,
        recording: &Recording,
        described: Description,
        notes: &mut Vec<String>,
    ) -> Result<Self> {
        let other_bytes = described.metadata.other_bytes();
        let is_one = recording.segments.len() == 1 && recording.gaps.is_empty();
        let mut samples = Self {
            metadata: described.metadata,
            parts: Vec::new(),
            gaps: Vec::new(),
            count: 0,
            is_stored_file: is_one,
        };
        if other_bytes > 0 {
            samples.keep_other_bytes(recording, other_bytes, is_one)?;
            return Ok(samples);
        }
        let sample_bytes = samples.metadata.sample_bytes;
        // Bytes of the recording that goes on in the segments, those of its parts of samples, and
        // those of the segments.
        let (mut own_bytes, mut cut_bytes, mut at_bytes) = (0, 0, 0);
        let mut gaps = recording.gaps.iter();
        let segments = recording.segments.iter().zip(&recording.gaps_until);
        for (at, (entry, &gaps_until)) in segments.enumerate() {
            let mut skipped_bytes = if at == 0 { described.skipped_bytes } else { 0 };
            let other = match at {
                0 => None,
                _ => samples.another((origin, stored, recording), (entry, at_bytes), notes)?,
            };
            if let Some((other, skipped)) = other {
                let part = own_bytes % sample_bytes;
                if let Some(last) = samples.parts.last_mut() {
                    last.end = last.end.saturating_sub(part).max(last.start);
                }
                cut_bytes += part;
                own_bytes = 0;
                skipped_bytes = skipped;
                let sample = samples.length_bytes() / sample_bytes;
                samples
                    .metadata
                    .join(&other, sample, samples.gaps.len())
                    .map_err(format_failed)?;
            }
            let begin_bytes = samples.length_bytes();
            skipped_bytes = skipped_bytes.min(entry.size_bytes);
            own_bytes += entry.size_bytes - skipped_bytes;
            cut_bytes += skipped_bytes;
            at_bytes += entry.size_bytes;
            samples.parts.push(skipped_bytes..entry.size_bytes);
            let own_gaps = gaps.by_ref().take(gaps_until - samples.gaps.len());
            let moved = own_gaps.map(|gap| Gap {
                offset_bytes: gap.offset_bytes.saturating_sub(cut_bytes).max(begin_bytes),
                ..*gap
            });
            samples.gaps.extend(moved);
        }
        if let Some(last) = samples.parts.last_mut() {
            let part = own_bytes % sample_bytes;
            last.end = last.end.saturating_sub(part).max(last.start);
        }
        samples.count = samples.length_bytes() / sample_bytes;
        Ok(samples)
    }

    /// What describes a segment that the descriptions before it do not: one that has its own, or
    /// behind segments that are missing. Where it is known how long these were, the descriptions go
    /// on without their samples.
    fn another(
        &mut self,
        (origin, stored, recording): (&Origin<'_, '_>, &StoredNames, &Recording),
        (entry, at_bytes): (&FileEntry, u64),
        notes: &mut Vec<String>,
    ) -> Result<Option<(Metadata, u64)>> {
        if let Some(meta) = described_by(origin, stored, (&entry.name, entry), notes)? {
            return Ok(Some((read(origin, &meta)?, 0)));
        }
        let Some(numbered) = Numbered::of(&entry.name) else {
            return Ok(None);
        };
        let Some(missing) = recording.missing_before(numbered.number, at_bytes) else {
            return Ok(None);
        };
        let numbers = missing.first..=missing.last;
        if let Some(missing_bytes) = missing.missing_bytes {
            // A gap, too.
            let before = Before::of(origin, stored, &numbered, numbers)?;
            let sample_bytes = self.metadata.sample_bytes;
            let at = self.length_bytes() / sample_bytes;
            let count = missing_bytes.saturating_sub(before.lost_bytes) / sample_bytes;
            self.metadata.leave_out(at, count);
            return Ok(None);
        }
        match earlier(origin, stored, (&numbered, entry), missing.first, notes)? {
            Some((number, meta)) => {
                let metadata = read(origin, &meta)?;
                placed(origin, stored, &metadata, (number, entry, &numbered)).map(Some)
            }
            None => Ok(Some((self.metadata.somewhere(), 0))),
        }
    }

    /// A non-conforming dataset, all of whose bytes are kept where they are.
    fn keep_other_bytes(
        &mut self,
        recording: &Recording,
        other_bytes: u64,
        is_one: bool,
    ) -> Result<()> {
        let refused = |why: &str| {
            let what = format!(
                "`{}` has bytes that are no samples, {why}",
                shown(recording.name())
            );
            Err(Error::other(what).hint(words![
                "straightway export ",
                Part::Option(Setting::Format),
                " raw"
            ]))
        };
        if !is_one {
            return refused("which cannot be in several segments or beside gaps");
        }
        let Some(bytes) = recording.size_bytes.checked_sub(other_bytes) else {
            return refused("more than it has bytes");
        };
        self.parts.push(0..recording.size_bytes);
        self.count = bytes / self.metadata.sample_bytes;
        Ok(())
    }

    /// Bytes to export.
    pub fn length_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.end - part.start).sum()
    }

    /// Bytes before a segment's first whole sample, which are not exported.
    pub fn skipped_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.start).sum()
    }

    /// Samples that are missing behind the last one.
    pub fn lost_at_end(&self) -> u64 {
        let end_bytes = self.length_bytes();
        let behind = self
            .gaps
            .iter()
            .filter(|gap| gap.offset_bytes >= end_bytes.max(1));
        let lost = behind.map(|gap| gap.lost_bytes / self.metadata.sample_bytes);
        lost.sum()
    }

    /// Whether the stored description has the digest of other bytes than these.
    pub fn differ_from(&self, sha512: &str) -> bool {
        let stored = self.metadata.sha512().filter(|_| self.is_stored_file);
        stored.is_some_and(|stored| !stored.eq_ignore_ascii_case(sha512))
    }

    /// The whole metadata, and what it has. `dataset` is the name of the file.
    ///
    /// # Errors
    /// A gap is in the middle of a sample.
    pub fn complete(
        &self,
        name: &str,
        dataset: &str,
        sha512: &str,
    ) -> Result<(Metadata, Completed)> {
        let mut metadata = self.metadata.clone();
        let completed = metadata
            .complete(name, &self.gaps, self.count, (dataset, sha512))
            .map_err(format_failed)?;
        Ok((metadata, completed))
    }
}
