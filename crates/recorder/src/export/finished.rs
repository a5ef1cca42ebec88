// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which of a volume's files are final: no recording writes them any more, and they have data.

use super::segments::{StoredNames, sort};
use crate::segments::files::{GAPS, gaps_name};
use crate::segments::numbered::Numbered;
use crate::segments::tag::{is_made, is_recorded};
use devices::error::{Error, ErrorKind};
use files::listing::FileEntry;
use files::tree::some;
use formats::sigmf::{META, meta_name};
use remedy::Words;
use std::collections::{BTreeMap, BTreeSet};

/// What a pattern leaves out.
#[derive(Clone, Debug, Default)]
pub struct LeftOut {
    /// Files that are being written, and what belongs to them.
    pub written: Vec<String>,
    /// Files in which a recording that was killed has nothing.
    pub empty: Vec<FileEntry>,
}

impl LeftOut {
    /// Takes it out of the `files` that patterns, or words that are names, have chosen of `all`:
    /// what a word names stays.
    pub fn of(all: &[FileEntry], files: &mut Vec<FileEntry>, words: &[String]) -> Self {
        let written = written(all);
        let mut left_out = Self::default();
        files.retain(|file| {
            let is_named = words.contains(&file.name);
            let is_written = !is_named && is_of(&written, file);
            let is_empty = !is_named && has_nothing(file);
            if is_written {
                left_out.written.push(file.name.clone());
            } else if is_empty {
                left_out.empty.push(file.clone());
            }
            !is_written && !is_empty
        });
        left_out
    }

    /// The same for the names of files.
    pub fn of_names(all: &[FileEntry], names: &mut Vec<String>, words: &[String]) -> Self {
        let chosen: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        let is_chosen = |file: &&FileEntry| chosen.contains(file.name.as_str());
        let mut files: Vec<FileEntry> = all.iter().filter(is_chosen).cloned().collect();
        let left_out = Self::of(all, &mut files, words);
        let empty = left_out.empty.iter().map(|file| file.name.as_str());
        let out: BTreeSet<&str> = left_out
            .written
            .iter()
            .map(String::as_str)
            .chain(empty)
            .collect();
        names.retain(|name| !out.contains(name.as_str()));
        left_out
    }

    /// Whether this file is left out because it has nothing.
    pub fn has_empty(&self, name: &str) -> bool {
        self.empty.iter().any(|file| file.name == name)
    }

    /// For messages; none if it is nothing.
    pub fn text(&self) -> Option<String> {
        let some_of = |what: &str, names: Vec<&str>| {
            (!names.is_empty()).then(|| format!("{what}: {}", some(names.into_iter())))
        };
        let written = self.written.iter().map(String::as_str).collect();
        let empty = self.empty.iter().map(|file| file.name.as_str()).collect();
        let parts = [
            some_of("being written", written),
            some_of("without data, as its recorder was killed", empty),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// The failure of a command for which nothing else is left; `delivered`: what it does, `hint`:
    /// how the rest is had.
    pub fn failure(&self, delivered: &str, hint: Words) -> Option<Error> {
        let what = format!("{}; nothing was {delivered}", self.text()?);
        Some(Error::new(ErrorKind::NotFound, what).hint(hint))
    }
}

/// The names of the files that are being written.
fn written(all: &[FileEntry]) -> BTreeSet<&str> {
    let written = all.iter().filter(|file| !file.is_final);
    written.map(|file| file.name.as_str()).collect()
}

/// Whether a file is being written, or belongs to one that is: a list of gaps is closed before its
/// segment, and removed if it lists nothing.
fn is_of(written: &BTreeSet<&str>, file: &FileEntry) -> bool {
    let of = [GAPS, META]
        .iter()
        .find_map(|end| file.name.strip_suffix(end));
    !file.is_final || of.is_some_and(|of| written.contains(of))
}

/// Whether a recording made this file and stored nothing in it: it was killed, or the power failed,
/// before the first commit. A segment is made ahead of its first byte.
fn has_nothing(file: &FileEntry) -> bool {
    file.is_final && file.size_bytes == 0 && is_recorded(file.app_tag.unwrap_or(0))
}

/// A file that a follower of patterns takes, and what belongs to it.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The file.
    pub file: FileEntry,
    /// Its list of gaps and its description, where it has them.
    pub companions: Vec<FileEntry>,
    /// What the names of its recording's segments have in common, and its number, if it is one.
    pub segment: Option<(String, u64)>,
    /// The number of its recording's first segment, if it keeps that.
    pub first: Option<u64>,
    /// A recording that was killed has nothing in it.
    pub is_empty: bool,
}

/// The final files of these names among `all`, segments in the order of their numbers, each with
/// its companions, which stand for themselves where the volume has no file that they belong to.
pub fn finished(all: &[FileEntry], chosen: &BTreeSet<&str>) -> Vec<Finished> {
    let written = written(all);
    let by_name: BTreeMap<&str, &FileEntry> =
        all.iter().map(|file| (file.name.as_str(), file)).collect();
    let is_companion = |name: &str| {
        let of = [GAPS, META].iter().find_map(|end| name.strip_suffix(end));
        of.is_some_and(|of| by_name.contains_key(of) && chosen.contains(of))
    };
    let chosen = chosen.iter().filter(|name| !is_companion(name));
    let mut names: Vec<String> = chosen.map(|name| (*name).to_owned()).collect();
    sort(&mut names);
    let stored = StoredNames::of(all.iter());
    let files = names.iter().filter_map(|name| by_name.get(name.as_str()));
    let finals = files.filter(|file| !is_of(&written, file));
    finals
        .map(|file| {
            let own = [gaps_name(&file.name), meta_name(&file.name)];
            let found = own.iter().filter_map(|name| by_name.get(name.as_str()));
            let is_segment = is_made(file.app_tag.unwrap_or(0));
            let numbered = Numbered::of(&file.name).filter(|_| is_segment);
            Finished {
                file: (*file).clone(),
                companions: found
                    .filter(|one| one.size_bytes > 0)
                    .map(|one| (*one).clone())
                    .collect(),
                first: numbered
                    .as_ref()
                    .and_then(|numbered| Some(stored.tag(file, numbered)?.first)),
                segment: numbered.map(|numbered| (numbered.shape(), numbered.number)),
                is_empty: has_nothing(file),
            }
        })
        .collect()
}
