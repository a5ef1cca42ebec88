// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files that a pattern chooses, where they are the segments of a recording: in their order,
//! without what only describes them, and with what is missing among them.

use super::segments::{MissingSegments, StoredNames, missing_among, sort};
use crate::segments::files::GAPS;
use devices::error::{Error, ErrorKind};
use files::listing::FileEntry;
use files::shown;
use formats::sigmf::META;
use remedy::{Words, words};

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

/// What is missing among the files that patterns chose.
#[derive(Clone, Debug, Default)]
pub struct Missing(Vec<(String, MissingSegments)>);

impl Missing {
    /// Compares the files that were chosen with what each segment keeps of its place; `all` are the
    /// volume's.
    pub fn among(all: &[FileEntry], chosen: &[&FileEntry]) -> Self {
        let stored = StoredNames::of(all.iter().map(|file| file.name.clone()));
        Self(missing_among(&stored, chosen))
    }

    /// For messages; none if nothing is missing.
    pub fn text(&self) -> Option<Words> {
        let mut text: Option<Words> = None;
        for (name, missing) in &self.0 {
            let one = words![format!("`{}`: ", shown(name)), missing.text()];
            text = Some(match text {
                Some(text) => words![text, "; ", one],
                None => one,
            });
        }
        text
    }

    /// The failure of a command that has delivered what there is.
    pub fn failure(&self, delivered: &str) -> Option<Error> {
        let what = words![self.text()?, format!("; the others were {delivered}")];
        Some(Error::new(ErrorKind::Late, what).hint(words![
            "straightway export ",
            remedy::Device,
            " PATTERN FILE lists what is missing"
        ]))
    }
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
