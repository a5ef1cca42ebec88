// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The other files that belong to one: for verbs that take one file of a recording, and leave the
//! others.

use super::metas::other_half;
use super::segments::StoredNames;
use crate::segments::files::{GAPS, gaps_name};
use crate::segments::numbered::Numbered;
use crate::segments::tag;
use files::listing::FileEntry;
use formats::sigmf::{DATA, META};
use live::origin::Origin;
use std::collections::BTreeMap;

/// The files of a volume that belong to the one of this name: the list of gaps and the description
/// of a recording, or the recording of a list or of a description.
pub fn companions_of(origin: &Origin<'_, '_>, files: &[FileEntry], name: &str) -> Vec<String> {
    let by_name: BTreeMap<&str, &FileEntry> = files
        .iter()
        .map(|file| (file.name.as_str(), file))
        .collect();
    let Some(entry) = by_name.get(name) else {
        return Vec::new();
    };
    let list_of = |of: &str| {
        let (list, of) = (by_name.get(gaps_name(of).as_str())?, by_name.get(of)?);
        let (list_tag, tag) = (list.app_tag.unwrap_or(0), of.app_tag.unwrap_or(0));
        let is_segment = Numbered::of(&of.name).is_some();
        tag::belongs(list_tag, tag, is_segment).then(|| list.name.clone())
    };
    let mut companions = Vec::new();
    companions.extend(list_of(name));
    let listed = name.strip_suffix(GAPS);
    companions.extend(listed.filter(|of| list_of(of).is_some()).map(str::to_owned));
    let stored = StoredNames::of(files.iter());
    let of = |name: &str| by_name.get(name).map(|file| (*file).clone());
    // What is not SigMF describes nothing.
    companions.extend(other_half(origin, &stored, entry, of).unwrap_or_default());
    companions
}

/// The name that a companion gets where the file that it belongs to is called `new` and no longer
/// `old`; none if it cannot follow the name of the file, or belongs to others too.
pub fn companion_renamed(companion: &str, old: &str, new: &str) -> Option<String> {
    if let Some(behind) = companion.strip_prefix(old) {
        return Some(format!("{new}{behind}"));
    }
    if let Some(behind) = old.strip_prefix(companion) {
        return new.strip_suffix(behind).map(str::to_owned);
    }
    [(DATA, META), (META, DATA)]
        .into_iter()
        .find_map(|(own, others)| {
            let is_pair = old.strip_suffix(own) == Some(companion.strip_suffix(others)?);
            is_pair.then(|| format!("{}{others}", new.strip_suffix(own).unwrap_or(new)))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_companion_follows_the_name_of_its_file() {
        for (companion, old, new, expected) in [
            ("a.gaps", "a", "b", Some("b.gaps")),
            ("a.sigmf-meta", "a", "b", Some("b.sigmf-meta")),
            ("a", "a.sigmf-meta", "b.sigmf-meta", Some("b")),
            // Nothing says how the recording is to be called.
            ("a", "a.sigmf-meta", "b", None),
            (
                "a.sigmf-meta",
                "a.sigmf-data",
                "b.sigmf-data",
                Some("b.sigmf-meta"),
            ),
            (
                "a.sigmf-data",
                "a.sigmf-meta",
                "b.sigmf-meta",
                Some("b.sigmf-data"),
            ),
            ("a.sigmf-data", "a.sigmf-meta", "b", Some("b.sigmf-data")),
            // Of all segments, and a dataset that its metadata names.
            ("a.sigmf-meta", "a.000001", "b.000001", None),
            ("a.sigmf-meta", "a.bin", "b.bin", None),
        ] {
            let found = companion_renamed(companion, old, new);
            assert_eq!(found.as_deref(), expected, "{companion} {old} {new}");
        }
    }
}
