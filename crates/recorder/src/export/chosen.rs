// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files that a pattern chooses, where they are the segments of a recording: in their order,
//! without what only describes them, and with what is missing among them.

use super::lists::{Listed, gaps_of, said_of_unchecked};
use super::metas::{left_out, undescribed};
use super::segments::{MissingSegments, Same, StoredNames, missing_among, sort};
use crate::segments::files::{GAPS, gaps_name};
use crate::segments::numbered::Numbered;
use crate::segments::places::{Contradiction, Places};
use crate::segments::tag::{describes, format_of_one_file, has_gaps, is_recorded};
use devices::error::{Error, ErrorKind, Result};
use files::listing::FileEntry;
use files::shown;
use formats::sigmf::META;
use formats::{Format, gaps};
use live::origin::Origin;
use remedy::{Words, words};
use std::collections::{BTreeMap, BTreeSet};

/// Splits the names that a pattern chose into those of data, segments in the order of their
/// numbers, and companions (`.gaps`, `.sigmf-meta`), which belong into no stream. What has the
/// names of companions is data where nothing else was chosen.
pub fn in_order(chosen: Vec<String>) -> (Vec<String>, Vec<String>) {
    let is_companion = |name: &String| name.ends_with(META) || name.ends_with(GAPS);
    let (companions, mut data): (Vec<String>, Vec<String>) =
        chosen.into_iter().partition(is_companion);
    if data.is_empty() {
        return (companions, data);
    }
    sort(&mut data);
    (data, companions)
}

/// What is missing among the files that patterns chose, and what contradicts what.
#[derive(Clone, Debug, Default)]
pub struct Missing(Vec<(String, MissingSegments)>, Vec<Contradiction>);

impl Missing {
    /// Compares the files that were chosen with what each segment keeps of its place; `all` are the
    /// volume's.
    ///
    /// # Errors
    /// The volume failed.
    pub fn among(
        origin: &Origin<'_, '_>,
        all: &[FileEntry],
        chosen: &[&FileEntry],
    ) -> Result<Self> {
        let stored = StoredNames::of(all.iter());
        let missing = missing_among(&stored, chosen);
        let said = compared(origin, &stored, all, chosen)?;
        Ok(Self(missing, said.contradictions))
    }

    /// Adds what contradicts the lists of gaps of files that were chosen by their names, and which
    /// of them nothing describes any more. Nothing is compared with their neighbours, of which
    /// nothing was asked.
    ///
    /// # Errors
    /// The volume failed.
    pub fn with_lists_of<'f>(
        mut self,
        origin: &Origin<'_, '_>,
        named: impl IntoIterator<Item = &'f FileEntry>,
    ) -> Result<Self> {
        let mut stored = None;
        for file in named.into_iter().filter(|file| file.is_final) {
            self.1.extend(gaps_of(origin, file)?.contradiction);
            if format_of_one_file(file.app_tag.unwrap_or(0)) == Some(Format::Sigmf) {
                let stored = match &stored {
                    Some(stored) => stored,
                    None => stored.insert(StoredNames::of(origin.files()?.iter())),
                };
                self.1.extend(undescribed(origin, stored, file)?);
            }
        }
        Ok(self)
    }

    /// For messages; none if nothing is missing.
    pub fn text(&self) -> Option<Words> {
        let mut text: Option<Words> = None;
        let missing = self.0.iter();
        let missing =
            missing.map(|(name, missing)| words![format!("`{}`: ", shown(name)), missing.text()]);
        let contradictions = self.1.iter().map(|one| Words::from(one.text()));
        for one in missing.chain(contradictions) {
            text = Some(match text {
                Some(text) => words![text, "; ", one],
                None => one,
            });
        }
        text
    }

    /// The failure of a command that has delivered what there is.
    pub fn failure(&self, delivered: &str) -> Option<Error> {
        let rest = if self.0.is_empty() {
            "what is there was"
        } else {
            "the others were"
        };
        let what = words![self.text()?, format!("; {rest} {delivered}")];
        Some(Error::new(ErrorKind::Late, what).hint(words![
            "straightway export ",
            remedy::Device,
            " PATTERN FILE lists what is missing"
        ]))
    }
}

/// What is said of a volume's recordings.
#[derive(Debug, Default)]
pub struct Said {
    /// Files that are not what was recorded, or are missing.
    pub contradictions: Vec<Contradiction>,
    /// Files that only look as if they were of a recording.
    pub notes: Vec<String>,
}

/// What is said of the recordings among a volume's files: of what is missing, is not what was
/// recorded, or was left by an earlier recording.
///
/// # Errors
/// The volume failed.
pub fn said_of(origin: &Origin<'_, '_>, all: &[FileEntry]) -> Result<Said> {
    let names = all.iter().map(|file| file.name.as_str()).collect();
    if !is_any_recorded(all, &names) {
        return Ok(Said::default());
    }
    let stored = StoredNames::of(all.iter());
    let every: Vec<&FileEntry> = all.iter().collect();
    let mut said = compared(origin, &stored, all, &every)?;
    let missing = missing_among(&stored, &every).into_iter();
    said.contradictions
        .extend(missing.map(|(name, missing)| Contradiction {
            name,
            what: missing.text().to_string(),
        }));
    for meta in stored.names().filter(|name| name.ends_with(META)) {
        let name = meta.strip_suffix(META).unwrap_or(meta);
        if stored.has(name) && !describes(stored.app_tag(meta), stored.app_tag(name)) {
            said.notes.push(left_out(meta, name));
        }
    }
    Ok(said)
}

/// Whether a recording made one of the files, or one has a list of gaps, as of an older version's
/// recording, which has no number; a volume without one is not searched.
fn is_any_recorded(all: &[FileEntry], names: &BTreeSet<&str>) -> bool {
    let is_listed = |name: &str| {
        let listed = name.strip_suffix(GAPS);
        listed.is_some_and(|listed| names.contains(listed))
    };
    all.iter()
        .any(|file| is_recorded(file.app_tag.unwrap_or(0)) || is_listed(&file.name))
}

/// Which of these files are not what was recorded; `all` are the volume's.
fn compared(
    origin: &Origin<'_, '_>,
    stored: &StoredNames,
    all: &[FileEntry],
    chosen: &[&FileEntry],
) -> Result<Said> {
    let all_names: BTreeSet<&str> = all.iter().map(|file| file.name.as_str()).collect();
    if !is_any_recorded(all, &all_names) {
        return Ok(Said::default());
    }
    let mut names: Vec<String> = chosen.iter().map(|file| file.name.clone()).collect();
    sort(&mut names);
    let files: BTreeMap<&str, &FileEntry> = chosen
        .iter()
        .map(|file| (file.name.as_str(), *file))
        .collect();
    let mut said = Said::default();
    let mut places = Places::default();
    let mut unchecked = Vec::new();
    let mut recording = None;
    for file in names.iter().filter_map(|name| files.get(name.as_str())) {
        let has_list = all_names.contains(gaps_name(&file.name).as_str());
        // What no recording made contradicts nothing by itself.
        let is_other = file.app_tag.unwrap_or(0) == 0 && Numbered::of(&file.name).is_none();
        if is_other && !has_list {
            continue;
        }
        let own = recording_of(stored, file);
        if recording.as_ref() != Some(&own) && file.is_final {
            said.contradictions
                .extend(undescribed(origin, stored, file)?);
        }
        recording = Some(own);
        if !has_list && !has_gaps(file.app_tag.unwrap_or(0)) {
            places.add(file, 0);
            continue;
        }
        let Listed {
            gaps,
            contradiction,
            note,
            is_unchecked,
        } = gaps_of(origin, file)?;
        unchecked.extend(is_unchecked.then(|| file.name.clone()));
        said.contradictions.extend(contradiction);
        said.notes.extend(note);
        places.add(file, gaps::lost_bytes(&gaps));
    }
    said.contradictions.extend(places.end());
    said.notes.extend(said_of_unchecked(&unchecked));
    Ok(said)
}

/// The recording of a file: what its name has in common with the others, and the number of the
/// first segment.
fn recording_of(stored: &StoredNames, file: &FileEntry) -> (Same, Option<u64>) {
    let numbered = Numbered::of(&file.name);
    let tag = numbered.and_then(|numbered| stored.tag(file, &numbered));
    (stored.recording_of(&file.name), tag.map(|tag| tag.first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_describes_data_is_not_part_of_it() {
        let split =
            |names: &[&str]| in_order(names.iter().map(|name| (*name).to_owned()).collect());
        let (data, companions) = split(&[
            "run.1000000",
            "run.999999",
            "run.999999.gaps",
            "run.sigmf-meta",
        ]);
        assert_eq!(data, ["run.999999", "run.1000000"]);
        assert_eq!(companions, ["run.999999.gaps", "run.sigmf-meta"]);
        // Lists alone are what was asked for.
        assert_eq!(split(&["a.gaps", "b.gaps"]).0, ["a.gaps", "b.gaps"]);
    }
}
