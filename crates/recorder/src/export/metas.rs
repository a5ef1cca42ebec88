// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which file describes the samples of which: SigMF's pairs, and the segments of a recording.

use super::recording::companion_of;
use super::segments::StoredNames;
use crate::format_failed;
use crate::segments::files::GAPS;
use crate::segments::numbered::Numbered;
use crate::segments::places::Contradiction;
use crate::segments::tag::{describes, format_of_one_file, is_one_file};
use devices::error::{Error, ErrorKind, Result};
use files::listing::FileEntry;
use files::names::unfinished_name;
use files::shown;
use formats::Format;
use formats::gaps::{GapList, MAX_GAPS_BYTES};
use formats::sigmf::{DATA, MAX_META_BYTES, META, Metadata, meta_name, segment_meta_name};
use live::origin::Origin;
use std::path::Path;
use stream::GAP_LINE_BYTES;

/// The name of the file that describes a file's samples, if there is one; while `record --append`
/// replaces it, its replacement. One that another recording made does not describe those of
/// `entry`, and is noted.
pub(super) fn described_by(
    origin: &Origin<'_, '_>,
    stored: &StoredNames,
    (name, entry): (&str, &FileEntry),
    notes: &mut Vec<String>,
) -> Result<Option<String>> {
    let own = entry.app_tag.unwrap_or(0);
    let mut is_own = |meta: &str| {
        let is_own = describes(stored.app_tag(meta), own);
        let note = left_out(meta, &entry.name);
        if !is_own && !notes.contains(&note) {
            notes.push(note);
        }
        is_own
    };
    let mut metas = vec![meta_name(name), segment_meta_name(name)];
    metas.extend(name.strip_suffix(DATA).map(meta_name));
    let metas = metas
        .iter()
        .flat_map(|meta| [meta.clone(), unfinished_name(meta)]);
    let mut metas = metas.into_iter().filter(|meta| stored.has(meta));
    if let Some(meta) = metas.find(|meta| is_own(meta)) {
        return Ok(Some(meta));
    }
    // A non-conforming dataset, whose metadata names it.
    if Numbered::of(name).is_some() {
        return Ok(None);
    }
    let stem = Path::new(name).with_extension("");
    let meta = stem.to_str().map(meta_name).filter(|meta| stored.has(meta));
    let meta = meta.filter(|meta| !name.ends_with(META) && describes(stored.app_tag(meta), own));
    let Some(meta) = meta else {
        return Ok(None);
    };
    let dataset = dataset_of(origin, &meta)?;
    let file = Path::new(name).file_name().and_then(|name| name.to_str());
    Ok((file.is_some() && dataset.as_deref() == file).then_some(meta))
}

/// What is said of a description that is not that of its file.
pub(super) fn left_out(meta: &str, name: &str) -> String {
    format!(
        "`{}` does not describe `{}`, which is of another recording: left out",
        shown(meta),
        shown(name)
    )
}

/// The name of the file that metadata gives its samples, if it is not `NAME.sigmf-data`. Metadata
/// is empty where the power failed before its first commit.
///
/// # Errors
/// It is not SigMF, or cannot be read.
fn dataset_of(origin: &Origin<'_, '_>, meta: &str) -> Result<Option<String>> {
    let bytes = companion_of(origin, meta, MAX_META_BYTES)?;
    let bytes = bytes.filter(|bytes| !bytes.is_empty());
    let metadata = bytes
        .map(|bytes| Metadata::parse(meta, &bytes))
        .transpose()
        .map_err(format_failed)?;
    Ok(metadata.and_then(|metadata| metadata.dataset().map(str::to_owned)))
}

/// The name of the file that has the samples, where the volume has SigMF's pair of files and this
/// name is that of the pair, or of the metadata.
pub(super) fn samples_of(
    origin: &Origin<'_, '_>,
    stored: &StoredNames,
    name: &str,
) -> Result<String> {
    let base = name.strip_suffix(META).unwrap_or(name);
    if stored.has(name) && base == name {
        return Ok(name.to_owned());
    }
    let pair = format!("{base}{DATA}");
    if stored.has(&pair) {
        return Ok(pair);
    }
    let meta = meta_name(base);
    let dataset = if stored.has(&meta) {
        dataset_of(origin, &meta)?
    } else {
        None
    };
    let folder = base.rfind('/').map_or("", |end| &base[..=end]);
    let dataset = dataset.map(|dataset| format!("{folder}{dataset}"));
    Ok(match dataset.filter(|dataset| stored.has(dataset)) {
        Some(dataset) => dataset,
        None if stored.has(base) => base.to_owned(),
        None => name.to_owned(),
    })
}

/// The file that describes a recording's first segment.
pub(super) struct Found {
    /// Its name.
    pub meta: String,
    /// It is of the segment with this number, before the one of these.
    pub earlier: Option<(Numbered, u64)>,
}

/// The file that describes a segment, if there is one: its own, or that of the last segment of its
/// recording before it which has one.
pub(super) fn description_of(
    origin: &Origin<'_, '_>,
    stored: &StoredNames,
    first: &FileEntry,
    notes: &mut Vec<String>,
) -> Result<Option<Found>> {
    if let Some(meta) = described_by(origin, stored, (&first.name, first), notes)? {
        return Ok(Some(Found {
            meta,
            earlier: None,
        }));
    }
    let Some(numbered) = Numbered::of(&first.name) else {
        return Ok(None);
    };
    let from = stored.tag(first, &numbered).map_or(1, |tag| tag.first);
    let found = earlier(origin, stored, (&numbered, first), from, notes)?;
    Ok(found.map(|(number, meta)| Found {
        meta,
        earlier: Some((numbered, number)),
    }))
}

/// The last description of a segment from number `from` on and before this one, which describes it
/// too.
pub(super) fn earlier(
    origin: &Origin<'_, '_>,
    stored: &StoredNames,
    (before, entry): (&Numbered, &FileEntry),
    from: u64,
    notes: &mut Vec<String>,
) -> Result<Option<(u64, String)>> {
    for number in (from..before.number).rev() {
        // Its name may have a time of its own.
        let name = stored.segments(before, number..=number).first().copied();
        let name = name.map_or_else(|| before.name_of(number), str::to_owned);
        if let Some(meta) = described_by(origin, stored, (&name, entry), notes)? {
            return Ok(Some((number, meta)));
        }
    }
    Ok(None)
}

/// What is said of a recording of samples that nothing describes any more; `first` is its first
/// file of those that were chosen.
///
/// # Errors
/// The volume failed.
pub fn undescribed(
    origin: &Origin<'_, '_>,
    stored: &StoredNames,
    first: &FileEntry,
) -> Result<Option<Contradiction>> {
    let own = first.app_tag.unwrap_or(0);
    let tag = Numbered::of(&first.name).and_then(|numbered| stored.tag(first, &numbered));
    let format = tag.map_or_else(|| format_of_one_file(own), |tag| Some(tag.format));
    // Lists and descriptions have the number of their recording.
    let is_companion = [META, GAPS].iter().any(|end| first.name.ends_with(end));
    if format != Some(Format::Sigmf) || is_companion || first.size_bytes == 0 {
        return Ok(None);
    }
    match description_of(origin, stored, first, &mut Vec::new()) {
        Ok(Some(_)) => return Ok(None),
        // What is not SigMF describes nothing.
        Ok(None) => {}
        Err(failure) if is_of_all(&failure) => return Err(failure),
        Err(_) => {}
    }
    if is_renamed_companion(origin, first)? {
        return Ok(None);
    }
    Ok(Some(Contradiction {
        name: match tag {
            Some(_) => segment_meta_name(&first.name),
            None => meta_name(&first.name),
        },
        what: format!(
            "is missing: `{}` was recorded as {}, and nothing describes its samples",
            shown(&first.name),
            Format::Sigmf.name()
        ),
    }))
}

/// The file that describes the file of this name, or that the description of this name describes.
///
/// # Errors
/// The volume failed, or what may be a description is not SigMF.
pub(super) fn other_half(
    origin: &Origin<'_, '_>,
    stored: &StoredNames,
    entry: &FileEntry,
    of: impl Fn(&str) -> Option<FileEntry>,
) -> Result<Option<String>> {
    let name = entry.name.as_str();
    if !name.ends_with(META) {
        let found = description_of(origin, stored, entry, &mut Vec::new())?;
        return Ok(found.map(|found| found.meta));
    }
    let mut data = samples_of(origin, stored, name)?;
    if data == name {
        let mut segments = stored
            .names()
            .filter(|segment| segment_meta_name(segment) == name);
        data = segments.next().unwrap_or(name).to_owned();
    }
    let Some(other) = of(&data).filter(|_| data != name) else {
        return Ok(None);
    };
    let meta = described_by(origin, stored, (&data, &other), &mut Vec::new())?;
    Ok((meta.as_deref() == Some(name)).then_some(data))
}

/// Whether a file has the bytes of a list or a description, which has another name now.
fn is_renamed_companion(origin: &Origin<'_, '_>, file: &FileEntry) -> Result<bool> {
    let is_small = file.size_bytes <= MAX_META_BYTES.min(MAX_GAPS_BYTES);
    if !is_one_file(file.app_tag.unwrap_or(0)) || !is_small {
        return Ok(false);
    }
    let bytes = match companion_of(origin, &file.name, MAX_META_BYTES) {
        Err(failure) if is_of_all(&failure) => return Err(failure),
        bytes => bytes.ok().flatten().unwrap_or_default(),
    };
    let is_list = || {
        bytes.len() % GAP_LINE_BYTES == 0
            && GapList::read(&bytes, u64::MAX).damaged_lines.is_empty()
    };
    Ok(Metadata::parse(&file.name, &bytes).is_ok() || is_list())
}

/// Whether the failure is of more than one file.
fn is_of_all(failure: &Error) -> bool {
    matches!(
        failure.kind(),
        ErrorKind::Interrupted | ErrorKind::Missing | ErrorKind::Unread
    )
}
