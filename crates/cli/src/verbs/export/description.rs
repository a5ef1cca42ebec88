//! What describes the samples of a recording, and of which of them which file has what.

use super::recording::{Recording, companion_of, gaps_of};
use super::segments::{MissingReason, MissingSegments, Numbered, StoredNames, tag_of};
use crate::failure::{Failure, Result};
use crate::formats::gaps;
use crate::formats::sigmf::{
    Completed, DATA, MAX_META_BYTES, META, Metadata, meta_name, segment_meta_name,
};
use crate::live::origin::Origin;
use crate::verbs::put::unfinished_name;
use crate::volume::listing::FileEntry;
use crate::volume::shown;
use std::path::Path;
use stream::Gap;

/// What describes a recording's first sample and those behind it.
pub struct Description {
    /// SigMF's metadata.
    pub metadata: Metadata,
    /// Segments that it describes and that are missing before the first one, if the segment itself does not show them.
    pub missing: Option<MissingSegments>,
}

/// The name of the file that describes a file's samples, if there is one; while `record --append` replaces it, its replacement.
fn described_by(
    origin: &Origin<'_, '_>,
    stored: &StoredNames,
    name: &str,
) -> Result<Option<String>> {
    let mut metas = vec![meta_name(name), segment_meta_name(name)];
    metas.extend(name.strip_suffix(DATA).map(meta_name));
    let metas = metas
        .iter()
        .flat_map(|meta| [meta.clone(), unfinished_name(meta)]);
    if let Some(meta) = metas.into_iter().find(|meta| stored.has(meta)) {
        return Ok(Some(meta));
    }
    // A non-conforming dataset, whose metadata names it.
    if Numbered::of(name).is_some() {
        return Ok(None);
    }
    let stem = Path::new(name).with_extension("");
    let meta = stem.to_str().map(meta_name).filter(|meta| stored.has(meta));
    let Some(meta) = meta.filter(|_| !name.ends_with(META)) else {
        return Ok(None);
    };
    let dataset = dataset_of(origin, &meta)?;
    let file = Path::new(name).file_name().and_then(|name| name.to_str());
    Ok((file.is_some() && dataset.as_deref() == file).then_some(meta))
}

fn read(origin: &Origin<'_, '_>, meta: &str) -> Result<Metadata> {
    let bytes = companion_of(origin, meta, MAX_META_BYTES)?;
    Metadata::parse(meta, &bytes.unwrap_or_default())
}

/// The name of the file that metadata gives its samples, if it is not `NAME.sigmf-data`. Metadata is empty where the power failed before
/// its first commit.
///
/// # Errors
/// It is not SigMF, or cannot be read.
pub fn dataset_of(origin: &Origin<'_, '_>, meta: &str) -> Result<Option<String>> {
    let bytes = companion_of(origin, meta, MAX_META_BYTES)?;
    let bytes = bytes.filter(|bytes| !bytes.is_empty());
    let metadata = bytes
        .map(|bytes| Metadata::parse(meta, &bytes))
        .transpose()?;
    Ok(metadata.and_then(|metadata| metadata.dataset().map(str::to_owned)))
}

/// What describes the first segment, if anything does: its own description, or that of an earlier segment.
///
/// # Errors
/// The volume failed, or the description is not SigMF.
pub fn describe(
    origin: &Origin<'_, '_>,
    stored: &StoredNames,
    recording: &Recording,
) -> Result<Option<Description>> {
    let Some(first) = recording.segments.first() else {
        return Ok(None);
    };
    if let Some(meta) = described_by(origin, stored, &first.name)? {
        let metadata = read(origin, &meta)?;
        let missing = None;
        return Ok(Some(Description { metadata, missing }));
    }
    let Some(numbered) = Numbered::of(&first.name) else {
        return Ok(None);
    };
    let from = tag_of(first, numbered.number).map_or(1, |tag| tag.first);
    let found = earlier(origin, stored, &numbered, from)?;
    let Some((number, metadata)) = found else {
        return Ok(None);
    };
    let last = numbered.number - 1;
    let metadata = placed(origin, stored, &metadata, (number, first, &numbered))?;
    let are_stored = stored.segments(&numbered, number..=last).len() as u64 > last - number;
    let missing = (!are_stored).then_some(MissingSegments {
        first: number,
        last,
        offset_bytes: 0,
        missing_bytes: None,
        reason: MissingReason::NotStored,
        is_restart: false,
    });
    Ok(Some(Description { metadata, missing }))
}

/// The last description of a segment from number `from` on and before this one.
fn earlier(
    origin: &Origin<'_, '_>,
    stored: &StoredNames,
    before: &Numbered,
    from: u64,
) -> Result<Option<(u64, Metadata)>> {
    for number in (from..before.number).rev() {
        if let Some(meta) = described_by(origin, stored, &before.name_of(number))? {
            return Ok(Some((number, read(origin, &meta)?)));
        }
    }
    Ok(None)
}

/// The description of segment `number` for the samples of a later segment.
fn placed(
    origin: &Origin<'_, '_>,
    stored: &StoredNames,
    metadata: &Metadata,
    (number, entry, numbered): (u64, &FileEntry, &Numbered),
) -> Result<Metadata> {
    if let Some(tag) = tag_of(entry, numbered.number) {
        return Ok(metadata.at_index(tag.offset_bytes / metadata.sample_bytes));
    }
    // Segments of an older version: all of those before it must be there.
    let before = stored.segments(numbered, number..=numbered.number - 1);
    if before.len() as u64 != numbered.number - number {
        return Ok(metadata.somewhere());
    }
    let mut metadata = metadata.clone();
    for name in before {
        let Some(entry) = origin.find(name)? else {
            return Ok(metadata.somewhere());
        };
        let lost = gaps::lost_bytes(&gaps_of(origin, &entry)?);
        let sample_bytes = metadata.sample_bytes;
        metadata = metadata.behind(entry.size_bytes / sample_bytes, lost / sample_bytes);
    }
    Ok(metadata)
}

/// Samples to export: as many bytes of each segment, and their gaps.
pub struct Samples {
    metadata: Metadata,
    /// Bytes of each segment.
    pub lengths: Vec<u64>,
    gaps: Vec<Gap>,
    /// Samples.
    pub count: u64,
    /// Whether the stored digest is of just these bytes.
    is_stored_file: bool,
}

impl Samples {
    /// The samples of the segments. A recording that ends inside a sample loses that part, so that the next one's begin where they
    /// are described.
    ///
    /// # Errors
    /// The segments have different samples, or bytes that are no samples and cannot be where they are.
    pub fn of(
        origin: &Origin<'_, '_>,
        stored: &StoredNames,
        recording: &Recording,
        metadata: Metadata,
    ) -> Result<Self> {
        let other_bytes = metadata.other_bytes();
        let is_one = recording.segments.len() == 1 && recording.gaps.is_empty();
        let mut samples = Self {
            metadata,
            lengths: Vec::new(),
            gaps: Vec::new(),
            count: 0,
            is_stored_file: is_one,
        };
        if other_bytes > 0 {
            samples.keep_other_bytes(recording, other_bytes, is_one)?;
            return Ok(samples);
        }
        let sample_bytes = samples.metadata.sample_bytes;
        // Bytes of the recording that goes on in the segments, those of its parts of samples, and those of the segments.
        let (mut own_bytes, mut cut_bytes, mut at_bytes) = (0, 0, 0);
        let mut gaps = recording.gaps.iter();
        let segments = recording.segments.iter().zip(&recording.gaps_until);
        for (at, (entry, &gaps_until)) in segments.enumerate() {
            let other = match at {
                0 => None,
                _ => samples.another(origin, stored, recording, (entry, at_bytes))?,
            };
            if let Some(other) = other {
                let part = own_bytes % sample_bytes;
                if let Some(last) = samples.lengths.last_mut() {
                    *last = last.saturating_sub(part);
                }
                cut_bytes += part;
                own_bytes = 0;
                let sample = samples.length_bytes() / sample_bytes;
                samples.metadata.join(&other, sample, samples.gaps.len())?;
            }
            own_bytes += entry.size_bytes;
            at_bytes += entry.size_bytes;
            samples.lengths.push(entry.size_bytes);
            let own_gaps = gaps.by_ref().take(gaps_until - samples.gaps.len());
            let moved = own_gaps.map(|gap| Gap {
                offset_bytes: gap.offset_bytes - cut_bytes,
                ..*gap
            });
            samples.gaps.extend(moved);
        }
        if let Some(last) = samples.lengths.last_mut() {
            *last = last.saturating_sub(own_bytes % sample_bytes);
        }
        samples.count = samples.length_bytes() / sample_bytes;
        Ok(samples)
    }

    /// What describes a segment that the descriptions before it do not: one that has its own, or behind segments that are missing.
    fn another(
        &self,
        origin: &Origin<'_, '_>,
        stored: &StoredNames,
        recording: &Recording,
        (entry, at_bytes): (&FileEntry, u64),
    ) -> Result<Option<Metadata>> {
        if let Some(meta) = described_by(origin, stored, &entry.name)? {
            return Ok(Some(read(origin, &meta)?));
        }
        let Some(missing) = recording.missing_at(at_bytes) else {
            return Ok(None);
        };
        if missing.missing_bytes.is_some() {
            // A gap.
            return Ok(None);
        }
        let numbered = Numbered::of(&entry.name);
        let found = match &numbered {
            Some(numbered) => earlier(origin, stored, numbered, missing.first)?.zip(Some(numbered)),
            None => None,
        };
        match found {
            Some(((number, metadata), numbered)) => {
                placed(origin, stored, &metadata, (number, entry, numbered)).map(Some)
            }
            None => Ok(Some(self.metadata.somewhere())),
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
            Err(Failure::other(what).hint("straightway export --format raw"))
        };
        if !is_one {
            return refused("which cannot be in several segments or beside gaps");
        }
        let Some(bytes) = recording.size_bytes.checked_sub(other_bytes) else {
            return refused("more than it has bytes");
        };
        self.lengths.push(recording.size_bytes);
        self.count = bytes / self.metadata.sample_bytes;
        Ok(())
    }

    /// Bytes to export.
    pub fn length_bytes(&self) -> u64 {
        self.lengths.iter().sum()
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
        let completed = metadata.complete(name, &self.gaps, self.count, (dataset, sha512))?;
        Ok((metadata, completed))
    }
}
