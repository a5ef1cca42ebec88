// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `get --follow` has taken, kept in a file (`--state`) so that it goes on where it stopped.
//!
//! A line of JSON for each file, appended and flushed to the drive once the file itself is: a line
//! that a kill or a power cut has cut off is of a file that is fetched again. The first line says
//! which volume it is. What the volume does not have any more is left out at the next start, except
//! the last segment of each recording, behind which the next one is expected.

use devices::error::{Error, Result};
use devices::guard::Journal;
use files::listing::FileEntry;
use linux::Roots;
use recorder::export::Finished;
use recorder::segments::numbered::Numbered;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    /// The version of the lines: 1.
    straightway_follow: u32,
    /// The volume's UUID.
    volume: String,
}

/// A file that was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    name: String,
    size_bytes: u64,
    modified_ns: u64,
    /// It is a segment: the form of its recording's names, and its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    segment: Option<(String, u64)>,
}

/// What was taken.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The file.
    file: Option<Journal>,
    taken: BTreeMap<String, Mark>,
    /// The last segment of each recording.
    last: BTreeMap<String, u64>,
    /// The volume was looked at before: what is new on it is expected from its first segment on.
    has_looked: bool,
}

impl Ledger {
    /// Opens the state of an earlier run on the volume `uuid`, or begins one; `all` are the
    /// volume's files. Without a path nothing is kept.
    pub(super) fn open(
        roots: &Roots,
        path: Option<&Path>,
        uuid: &str,
        all: &[FileEntry],
    ) -> Result<Self> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let (mut file, text) = Journal::open(roots, path)?;
        let mut ledger = Self::default();
        ledger.read(path, &text, uuid)?;
        let names: BTreeSet<&str> = all.iter().map(|file| file.name.as_str()).collect();
        let last = ledger.last.clone();
        ledger.taken.retain(|name, mark| {
            let is_last = |(shape, number): &(String, u64)| last.get(shape) == Some(number);
            names.contains(name.as_str()) || mark.segment.as_ref().is_some_and(is_last)
        });
        let mut lines = line(&Head {
            straightway_follow: 1,
            volume: uuid.to_owned(),
        })?;
        for mark in ledger.taken.values() {
            lines += &line(mark)?;
        }
        file.replace(&lines)?;
        ledger.file = Some(file);
        Ok(ledger)
    }

    fn read(&mut self, path: &Path, text: &str, uuid: &str) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.has_looked = true;
        let mut lines = text.lines();
        let head = lines
            .next()
            .and_then(|line| serde_json::from_str(line).ok());
        let Some(Head {
            straightway_follow: 1,
            volume,
        }) = head
        else {
            let what = format!("{} is not a state of get --follow", path.display());
            return Err(Error::usage(what).hint("name another file with --state"));
        };
        if volume != uuid {
            let what = format!(
                "{} is the state of another volume, {volume}; this one is {uuid}",
                path.display()
            );
            return Err(Error::usage(what).hint("name another file with --state"));
        }
        for line in lines {
            let mark: Mark = serde_json::from_str(line).map_err(|error| {
                let what = format!("{}: {error}: {line}", path.display());
                Error::other(what).hint("without it, what the folder has is left as it is")
            })?;
            self.note(mark);
        }
        Ok(())
    }

    fn note(&mut self, mark: Mark) {
        if let Some((shape, number)) = &mark.segment {
            self.last.insert(shape.clone(), *number);
        }
        self.taken.insert(mark.name.clone(), mark);
    }

    /// Whether this file was taken.
    pub(super) fn has(&self, file: &FileEntry) -> bool {
        self.taken.get(&file.name).is_some_and(|mark| {
            (mark.size_bytes, mark.modified_ns) == (file.size_bytes, file.modified_ns)
        })
    }

    /// The names of the segments between the last one that was taken and this one, or before it in
    /// a recording that began after a look: they were removed before.
    pub(super) fn missed_before(&self, one: &Finished) -> Option<(String, String)> {
        let (shape, number) = one.segment.as_ref()?;
        let numbered = Numbered::of(&one.file.name)?;
        let first = match self.last.get(shape) {
            Some(last) => last.checked_add(1)?,
            None => one.first.filter(|_| self.has_looked)?,
        };
        if first >= *number {
            return None;
        }
        Some((numbered.name_of(first), numbered.name_of(number - 1)))
    }

    /// Keeps that this file was taken; it is durable.
    pub(super) fn add(&mut self, file: &FileEntry, segment: Option<&(String, u64)>) -> Result<()> {
        let mark = Mark {
            name: file.name.clone(),
            size_bytes: file.size_bytes,
            modified_ns: file.modified_ns,
            segment: segment.cloned(),
        };
        if let Some(to) = &mut self.file {
            to.add(&line(&mark)?)?;
        }
        self.note(mark);
        Ok(())
    }

    /// All that is final was taken.
    pub(super) fn looked(&mut self) {
        self.has_looked = true;
    }

    /// Whether it is kept in a file.
    pub(super) const fn is_kept(&self) -> bool {
        self.file.is_some()
    }
}

fn line(of: &impl Serialize) -> Result<String> {
    let line = serde_json::to_string(of);
    let line = line.map_err(|error| Error::other(format!("making JSON: {error}")))?;
    Ok(line + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use devices::error::ErrorKind;

    fn entry(name: &str, size_bytes: u64) -> FileEntry {
        FileEntry {
            name: name.to_owned(),
            size_bytes,
            allocated_bytes: None,
            modified_ns: 7,
            checksums: None,
            slot: 0,
            app_tag: None,
            is_final: true,
            unfinished: false,
        }
    }

    fn segment(number: u64) -> Finished {
        Finished {
            file: entry(&format!("cam.{number:06}"), 1),
            companions: Vec::new(),
            segment: Some(("cam.*".to_owned(), number)),
            first: Some(1),
            is_empty: false,
        }
    }

    /// What was removed before the first look may never have been wanted.
    #[test]
    fn what_was_removed_of_a_recording_that_began_after_a_look_is_known() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.missed_before(&segment(3)), None);
        ledger.looked();
        let missed = ledger.missed_before(&segment(3)).unwrap();
        assert_eq!(missed, ("cam.000001".to_owned(), "cam.000002".to_owned()));
        assert_eq!(ledger.missed_before(&segment(1)), None);
        let unknown = Finished {
            first: None,
            ..segment(3)
        };
        assert_eq!(ledger.missed_before(&unknown), None);
    }

    #[test]
    fn a_state_goes_on_behind_a_cut_and_knows_what_was_removed() {
        let folder =
            std::env::temp_dir().join(format!("straightway-ledger-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("state");
        let open = |all: &[FileEntry]| Ledger::open(&Roots::system(), Some(&path), "u", all);
        let all = [entry("cam.000001", 1), entry("cam.000002", 1)];
        let mut ledger = open(&all).unwrap();
        let refused = open(&all).unwrap_err();
        assert!(
            refused.to_string().contains("another process uses"),
            "{refused}"
        );
        for number in [1, 2] {
            let one = segment(number);
            assert!(!ledger.has(&one.file));
            ledger.add(&one.file, one.segment.as_ref()).unwrap();
        }
        drop(ledger);
        // At each byte of the last line a kill leaves the file before it.
        let whole = std::fs::read_to_string(&path).unwrap();
        let last = whole.trim_end().rfind('\n').unwrap() + 1;
        for cut in last..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let ledger = open(&all).unwrap();
            assert!(ledger.has(&all[0]) && !ledger.has(&all[1]), "{cut}");
        }
        std::fs::write(&path, &whole).unwrap();
        // The ring has removed both: the last one stays known.
        let ledger = open(&[]).unwrap();
        assert_eq!(ledger.missed_before(&segment(3)), None);
        let missed = ledger.missed_before(&segment(6)).unwrap();
        assert_eq!(missed, ("cam.000003".to_owned(), "cam.000005".to_owned()));
        // The numbers begin again on a volume from which all were removed.
        assert_eq!(ledger.missed_before(&segment(1)), None);
        assert!(!ledger.has(&entry("cam.000002", 2)) && ledger.has(&all[1]));
        drop(ledger);
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2);
        let other = Ledger::open(&Roots::system(), Some(&path), "v", &[]).unwrap_err();
        assert!(other.to_string().contains("another volume"), "{other}");
        for other in ["something else\n", "\0\0", "\u{ff}\n"] {
            std::fs::write(&path, other).unwrap();
            assert_eq!(open(&[]).unwrap_err().kind(), ErrorKind::Usage);
            assert_eq!(std::fs::read_to_string(&path).unwrap(), other);
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
