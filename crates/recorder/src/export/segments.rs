// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which segments of a recording an export has, and which are missing, by the numbers in their
//! names and by what each keeps of its place in the recording.

use crate::segments::numbered::Numbered;
use crate::segments::tag::{Tag, is_one_file};
use files::listing::FileEntry;
use remedy::{Setting, Words, words};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Why segments are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MissingReason {
    /// The volume does not have all of them.
    NotStored,
    /// The volume has them, but they were not named.
    NotNamed,
    /// They were removed, as a ring does (`--keep`) or by hand.
    RingRemoved,
    /// A segment of a later recording has the number of the first one.
    NumberTaken,
}

impl MissingReason {
    /// Whether the volume has lost something.
    pub const fn is_loss(self) -> bool {
        matches!(self, Self::NotStored | Self::NumberTaken)
    }
}

/// Segments that are missing before one, between two, or behind the last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MissingSegments {
    /// The number of the first.
    pub first: u64,
    /// The number of the last.
    pub last: u64,
    /// Where they are missing in what was read, in bytes.
    pub offset_bytes: u64,
    /// How many bytes they had, those counted that were lost in them; null if unknown.
    pub missing_bytes: Option<u64>,
    /// Why they are missing.
    pub reason: MissingReason,
    /// The recording may have had more behind the last one, which nothing shows.
    pub and_later: bool,
    /// Whether what follows them is of another recording, whose beginning is among them.
    #[serde(skip)]
    pub is_restart: bool,
    /// If the volume has some of them, which were not named: those that it lacks.
    #[serde(skip)]
    pub absent: Option<Absent>,
}

/// Segments that a volume lacks, where it has others beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absent {
    /// The number of the first.
    pub first: u64,
    /// How many.
    pub count: u64,
}

impl MissingSegments {
    /// Whether the volume has lost them.
    pub const fn is_loss(&self) -> bool {
        self.reason.is_loss()
    }

    /// For messages: `segments 2 to 4 are missing`.
    pub fn text(&self) -> Words {
        let which = match self.last - self.first {
            0 => format!("segment {}", self.first),
            _ => format!("segments {} to {}", self.first, self.last),
        };
        let later = if self.and_later {
            ", and any behind it,"
        } else {
            ""
        };
        let verb = if self.first == self.last { "is" } else { "are" };
        if let (MissingReason::NotStored, Some(absent)) = (self.reason, self.absent) {
            let Absent { first, count } = absent;
            let others = match self.last - self.first + 1 - count {
                1 => "the other one is".to_owned(),
                others => format!("the other {others} are"),
            };
            return match count {
                1 => format!(
                    "segment {first} is missing on the volume; of {which}, {others} not named"
                ),
                _ => format!(
                    "{count} of {which} are missing on the volume, the first is segment {first}; \
                     {others} not named"
                ),
            }
            .into();
        }
        let what = match self.reason {
            MissingReason::NotStored => "missing on the volume".into(),
            MissingReason::NotNamed => "not named".into(),
            MissingReason::RingRemoved => {
                words!["removed: by the ring (", Setting::Keep, "), or by hand"]
            }
            MissingReason::NumberTaken => {
                return format!(
                    "segment {} of an earlier recording, and any behind it, is missing: a later \
                     recording has its number",
                    self.first
                )
                .into();
            }
        };
        words![format!("{which}{later} {verb} "), what]
    }
}

/// The names that a volume has.
#[derive(Debug, Default)]
pub struct StoredNames {
    /// With their numbers for applications.
    names: BTreeMap<String, u64>,
    numbers: BTreeMap<String, BTreeMap<u64, (String, Option<Tag>)>>,
}

impl StoredNames {
    /// From a listing.
    pub fn of<'f>(files: impl Iterator<Item = &'f FileEntry>) -> Self {
        let mut all = Self::default();
        for file in files {
            if let Some(numbered) = Numbered::of(&file.name) {
                let number = numbered.number;
                let numbers = all.numbers.entry(numbered.shape()).or_default();
                numbers.insert(number, (file.name.clone(), tag_of(file, number)));
            }
            let app_tag = file.app_tag.unwrap_or(0);
            all.names.insert(file.name.clone(), app_tag);
        }
        for numbers in all.numbers.values_mut() {
            let mut before: Option<Tag> = None;
            for tag in numbers.values_mut().filter_map(|(_, tag)| tag.as_mut()) {
                *tag = before.map_or(*tag, |one| tag.behind(one.first, one.offset_bytes));
                before = Some(*tag);
            }
        }
        all
    }

    /// Whether the volume has a file of this name.
    pub fn has(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// All of them, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// The number for applications of the file of this name; 0 if there is none.
    pub fn app_tag(&self, name: &str) -> u64 {
        self.names.get(name).copied().unwrap_or(0)
    }

    /// What the names of a recording's files have in common. A recording in one file has its own
    /// name, whatever number that has.
    pub fn recording_of(&self, name: &str) -> Same {
        match Numbered::of(name) {
            Some(numbered) if !is_one_file(self.app_tag(name)) => Same::Shape(numbered.shape()),
            _ => Same::Name(name.to_owned()),
        }
    }

    /// Whether a ring has segments of this one's form behind that number: it removed the oldest
    /// ones of the form, whichever recording made them.
    fn has_ring_behind(&self, of: &Numbered, number: u64) -> bool {
        let all = self.numbers.get(&of.shape()).into_iter();
        let mut behind = all.flat_map(|all| all.range(number..));
        behind.any(|(_, (_, tag))| tag.is_some_and(|tag| tag.is_ring))
    }

    /// The place of a segment in its recording, if it keeps one; with those before it, so that the
    /// first number of its recording is known however far behind it the segment is.
    pub fn tag(&self, entry: &FileEntry, of: &Numbered) -> Option<Tag> {
        let stored = self.numbers.get(&of.shape());
        match stored.and_then(|all| all.get(&of.number)) {
            Some((name, Some(tag))) if *name == entry.name => Some(*tag),
            _ => tag_of(entry, of.number),
        }
    }

    /// The stored segments of this one's recording with these numbers.
    pub fn segments(&self, of: &Numbered, numbers: std::ops::RangeInclusive<u64>) -> Vec<&str> {
        if numbers.is_empty() {
            return Vec::new();
        }
        let all = self.numbers.get(&of.shape()).into_iter();
        let all = all.flat_map(|all| all.range(numbers.clone()));
        all.map(|(_, (name, _))| name.as_str()).collect()
    }

    /// Whether the segment of this one's form with this number is of a recording that began behind
    /// this one.
    fn is_taken(&self, of: &Numbered, number: u64) -> bool {
        let stored = self.numbers.get(&of.shape());
        let stored = stored.and_then(|all| all.get(&number)?.1);
        stored.is_some_and(|tag| tag.first > of.number)
    }

    /// Why these segments are missing, and which of them the volume lacks if it has others.
    fn reason(&self, of: &Numbered, first: u64, last: u64) -> (MissingReason, Option<Absent>) {
        let all = self.numbers.get(&of.shape()).into_iter();
        let mut stored = all.flat_map(|all| all.range(first..=last)).peekable();
        if stored.peek().is_none() {
            return (MissingReason::NotStored, None);
        }
        let (mut next, mut count, mut first_absent) = (first, last - first + 1, None);
        for (number, _) in stored {
            if *number != next {
                first_absent.get_or_insert(next);
            }
            next = number.saturating_add(1);
            count -= 1;
        }
        if count == 0 {
            return (MissingReason::NotNamed, None);
        }
        let first = first_absent.unwrap_or(next);
        (MissingReason::NotStored, Some(Absent { first, count }))
    }
}

/// What the names of a recording's files have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Same {
    /// It is one file.
    Name(String),
    /// The form of the names of its segments.
    Shape(String),
}

/// The place of a segment in its recording, if it keeps one.
pub fn tag_of(entry: &FileEntry, number: u64) -> Option<Tag> {
    Tag::of(entry.app_tag.unwrap_or(0), number)
}

/// What is missing before the first segment, as far as the segment itself shows it.
pub fn before_first(stored: &StoredNames, first: &FileEntry) -> Option<MissingSegments> {
    let numbered = Numbered::of(&first.name)?;
    let tag = stored.tag(first, &numbered)?;
    let last = numbered.number.checked_sub(1)?;
    if tag.first > last {
        return None;
    }
    let (reason, absent) = stored.reason(&numbered, tag.first, last);
    Some(MissingSegments {
        first: tag.first,
        last,
        offset_bytes: 0,
        missing_bytes: Some(tag.offset_bytes),
        reason: match reason {
            MissingReason::NotStored if tag.is_ring || stored.has_ring_behind(&numbered, last) => {
                MissingReason::RingRemoved
            }
            reason => reason,
        },
        and_later: false,
        is_restart: false,
        absent,
    })
}

/// What is missing between two segments that follow each other in an export; `lost_bytes` were lost
/// in the first one, and `offset_bytes` is where the second one begins there.
pub fn between(
    stored: &StoredNames,
    (one, lost_bytes): (&FileEntry, u64),
    next: &FileEntry,
    offset_bytes: u64,
) -> Option<MissingSegments> {
    let (before, after) = (Numbered::of(&one.name)?, Numbered::of(&next.name)?);
    if !before.is_of_one_form(&after) || after.number <= before.number {
        return None;
    }
    let own = tag_of(one, before.number);
    let tag = tag_of(next, after.number).map(|tag| match own {
        Some(own) => tag.behind(own.first, own.offset_bytes),
        None => tag,
    });
    if after.number == before.number.saturating_add(1) {
        let is_followed = tag_of(one, before.number).is_some_and(|tag| tag.is_followed);
        let is_other = tag.is_some_and(|tag| tag.first > before.number);
        return (is_followed && is_other).then(|| taken(after.number, offset_bytes));
    }
    let is_restart = tag.is_some_and(|tag| tag.first > before.number);
    let begin_bytes = match tag_of(one, before.number) {
        Some(own) => tag
            .filter(|tag| tag.first == own.first)
            .map(|_| own.offset_bytes),
        None => tag.filter(|tag| tag.first == before.number).map(|_| 0),
    };
    let end_bytes = begin_bytes.map(|begin| begin + one.size_bytes + lost_bytes);
    let missing_bytes = tag
        .zip(end_bytes)
        .and_then(|(tag, end)| tag.offset_bytes.checked_sub(end));
    let (first, last) = (before.number + 1, after.number - 1);
    // A ring keeps what no recording in segments made, and removes what is behind it.
    let is_kept_by_ring = tag_of(one, before.number).is_none()
        && is_restart
        && stored.has_ring_behind(&before, after.number);
    let (reason, absent) = stored.reason(&before, first, last);
    Some(MissingSegments {
        first,
        last,
        offset_bytes,
        missing_bytes,
        reason: match reason {
            MissingReason::NotStored if is_kept_by_ring => MissingReason::RingRemoved,
            reason => reason,
        },
        and_later: false,
        is_restart,
        absent,
    })
}

/// What is missing behind the last segment, as far as the segment itself shows it: each one but the
/// recording's last keeps that another follows. `offset_bytes` is the end of what was read. A
/// segment that is stored and was not named is not missing.
pub fn behind_last(
    stored: &StoredNames,
    last: &FileEntry,
    offset_bytes: u64,
) -> Option<MissingSegments> {
    let numbered = Numbered::of(&last.name)?;
    let tag = tag_of(last, numbered.number)?;
    let next = numbered.number.checked_add(1)?;
    if tag.is_followed && stored.is_taken(&numbered, next) {
        return Some(taken(next, offset_bytes));
    }
    let is_stored = !stored.segments(&numbered, next..=next).is_empty();
    (tag.is_followed && !is_stored).then_some(MissingSegments {
        first: next,
        last: next,
        offset_bytes,
        missing_bytes: None,
        reason: MissingReason::NotStored,
        and_later: true,
        is_restart: false,
        absent: None,
    })
}

/// What is missing where a segment of another recording has the number of the next one.
const fn taken(number: u64, offset_bytes: u64) -> MissingSegments {
    MissingSegments {
        first: number,
        last: number,
        offset_bytes,
        missing_bytes: None,
        reason: MissingReason::NumberTaken,
        and_later: true,
        is_restart: true,
        absent: None,
    }
}

/// What is missing among the files that a pattern chose of a volume's: before, between and behind
/// the segments of each recording, with the name of one of them. What a ring has removed is not
/// missing. Files that no recording made say nothing.
pub(super) fn missing_among(
    stored: &StoredNames,
    chosen: &[&FileEntry],
) -> Vec<(String, MissingSegments)> {
    let mut recordings: BTreeMap<String, BTreeMap<u64, &FileEntry>> = BTreeMap::new();
    for entry in chosen {
        if let Some(numbered) = Numbered::of(&entry.name) {
            let numbers = recordings.entry(numbered.shape()).or_default();
            numbers.insert(numbered.number, entry);
        }
    }
    let mut missing = Vec::new();
    for numbers in recordings.values() {
        let mut before: Option<&FileEntry> = None;
        for (&number, &entry) in numbers {
            let found = match before {
                None => before_first(stored, entry),
                Some(one) => between(stored, (one, 0), entry, 0).filter(|_| {
                    let is_later = tag_of(entry, number).is_some();
                    is_later || is_followed(one)
                }),
            };
            missing.extend(found.map(|found| (entry.name.clone(), found)));
            before = Some(entry);
        }
        let last = before.and_then(|last| Some((last.name.clone(), behind_last(stored, last, 0)?)));
        missing.extend(last);
    }
    missing.retain(|(_, missing)| missing.reason.is_loss());
    missing
}

fn is_followed(entry: &FileEntry) -> bool {
    let number = Numbered::of(&entry.name).map_or(0, |numbered| numbered.number);
    tag_of(entry, number).is_some_and(|tag| tag.is_followed)
}

/// Sorts names so that those of a recording's segments are in the order of their numbers.
pub fn sort(names: &mut [String]) {
    names.sort_by_cached_key(|name| match Numbered::of(name) {
        Some(numbered) => (numbered.shape(), numbered.number, name.clone()),
        None => (name.clone(), 0, name.clone()),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use formats::Format;

    fn entry(name: &str, size_bytes: u64, tag: Option<(u64, u64)>) -> FileEntry {
        let number = |(first, offset_bytes)| {
            let tag = Tag {
                format: Format::Mcap,
                is_ring: false,
                first,
                offset_bytes,
                is_followed: false,
                has_gaps: false,
            };
            tag.to_number()
        };
        FileEntry {
            name: name.to_owned(),
            size_bytes,
            allocated_bytes: None,
            modified_ns: 0,
            checksums: None,
            slot: 0,
            app_tag: Some(tag.map_or(0, number)),
            is_final: true,
            unfinished: false,
        }
    }

    fn stored(names: &[&str]) -> StoredNames {
        let files: Vec<FileEntry> = names.iter().map(|name| entry(name, 0, None)).collect();
        StoredNames::of(files.iter())
    }

    /// The first number is kept modulo 512.
    #[test]
    fn what_is_missing_before_a_late_segment_begins_with_the_first_one() {
        let of = |number: u64| entry(&format!("run.{number:06}"), 9, Some((1, 9 * (number - 1))));
        let mut files: Vec<FileEntry> = (1..=700).map(of).collect();
        let last = files[699].clone();
        let before = |files: &[FileEntry]| {
            let missing = before_first(&StoredNames::of(files.iter()), &last);
            missing.map(|one| (one.first, one.last, one.reason))
        };
        let found = before(&files);
        assert_eq!(found, Some((1, 699, MissingReason::NotNamed)));
        files.remove(3);
        let found = before(&files);
        assert_eq!(found, Some((1, 699, MissingReason::NotStored)));
    }

    #[test]
    fn of_segments_of_which_some_are_stored_the_others_are_missing() {
        let of = |number: u64| entry(&format!("run.{number:06}"), 9, Some((1, 9 * (number - 1))));
        let text = |numbers: &[u64]| {
            let files: Vec<FileEntry> = numbers.iter().map(|number| of(*number)).collect();
            let missing = before_first(&StoredNames::of(files.iter()), &of(9));
            missing.map(|one| one.text().to_string()).unwrap()
        };
        let many = "missing on the volume, the first is segment";
        for (numbers, expected) in [
            (
                &[1, 2, 4, 5, 6, 7, 8, 9][..],
                "segment 3 is missing on the volume; of segments 1 to 8, the other 7 are not named",
            ),
            (
                &[1, 5, 6, 9],
                &format!("5 of segments 1 to 8 are {many} 2; the other 3 are not named"),
            ),
            (
                &[8, 9],
                &format!("7 of segments 1 to 8 are {many} 1; the other one is not named"),
            ),
            (&[9], "segments 1 to 8 are missing on the volume"),
            (
                &[1, 2, 3, 4, 5, 6, 7, 8, 9],
                "segments 1 to 8 are not named",
            ),
        ] {
            assert_eq!(text(numbers), expected);
        }
    }

    #[test]
    fn segments_are_in_the_order_of_their_numbers() {
        let mut names = ["run.1000000", "run.999999", "a"].map(str::to_owned);
        sort(&mut names);
        assert_eq!(names, ["a", "run.999999", "run.1000000"]);
    }

    /// The first number is kept modulo 512.
    #[test]
    fn nothing_is_missing_among_many_segments() {
        for first in [1, 512, 700] {
            let named = |at| format!("run.{:06}", first + at);
            let row = |at| entry(&named(at), 100, Some((first, at * 100)));
            let mut all: Vec<FileEntry> = (0..1600).map(row).collect();
            let missing = |all: &[FileEntry]| {
                let every: Vec<&FileEntry> = all.iter().collect();
                missing_among(&StoredNames::of(all.iter()), &every)
            };
            assert_eq!(missing(&all), [], "{first}");
            // What is behind it has a first number that looks like one of a later recording.
            all.remove(512);
            let found = missing(&all);
            assert_eq!(found.len(), 1, "{found:?}");
            let found = &found[0].1;
            let number = first + 512;
            assert_eq!((found.first, found.last), (number, number));
            assert_eq!((found.missing_bytes, found.is_restart), (Some(100), false));
        }
    }

    #[test]
    fn what_is_missing_between_two_segments_is_counted() {
        let all = stored(&["run.000001", "run.000004"]);
        let one = entry("run.000001", 100, Some((1, 0)));
        let next = |tag| entry("run.000004", 100, tag);
        let found = between(&all, (&one, 10), &next(Some((1, 500))), 100).unwrap();
        assert_eq!((found.first, found.last, found.offset_bytes), (2, 3, 100));
        assert_eq!(found.missing_bytes, Some(390));
        assert_eq!(found.reason, MissingReason::NotStored);
        assert_eq!(
            found.text().to_string(),
            "segments 2 to 3 are missing on the volume"
        );
        // Nothing says how long they were, or another recording began there.
        let unknown = between(&all, (&one, 10), &next(None), 100).unwrap();
        assert_eq!((unknown.missing_bytes, unknown.is_restart), (None, false));
        let other = between(&all, (&one, 10), &next(Some((3, 500))), 100).unwrap();
        assert_eq!((other.missing_bytes, other.is_restart), (None, true));
        // A file that was put under this name.
        let put = entry("run.000002", 100, None);
        let found = between(&all, (&put, 0), &next(Some((1, 500))), 100).unwrap();
        assert_eq!((found.first, found.missing_bytes), (3, None));
        let named = stored(&["run.000001", "run.000002", "run.000003", "run.000004"]);
        let found = between(&named, (&one, 0), &next(None), 0).unwrap();
        assert_eq!(found.reason, MissingReason::NotNamed);
        // They follow each other, are in another order, or are of different recordings.
        for name in [
            "run1.000009",
            "run.000002",
            "run.000001",
            "run.000000",
            "other.000009",
            "run",
        ] {
            assert_eq!(
                between(&all, (&one, 0), &entry(name, 1, None), 0),
                None,
                "{name}"
            );
        }
    }

    #[test]
    fn what_a_ring_has_removed_is_not_missing() {
        let ring = |number: u64, first, offset_bytes| {
            let tag = Tag {
                format: Format::Raw,
                is_ring: true,
                first,
                offset_bytes,
                is_followed: false,
                has_gaps: false,
            };
            FileEntry {
                app_tag: Some(tag.to_number()),
                ..entry(&format!("cam.{number:06}"), 100, None)
            }
        };
        // Behind a file that the ring keeps, which is none of its own.
        let (kept, oldest) = (entry("cam.000002", 9, None), ring(9, 3, 600));
        let stored = StoredNames::of([&kept, &oldest].into_iter());
        let found = between(&stored, (&kept, 0), &oldest, 9).unwrap();
        assert_eq!(found.reason, MissingReason::RingRemoved);
        // Of a recording without a ring, before the one that removed it.
        let (left, next) = (entry("cam.000005", 9, Some((1, 90))), ring(6, 6, 0));
        let stored = StoredNames::of([&left, &next].into_iter());
        let found = before_first(&stored, &left).unwrap();
        assert_eq!(found.reason, MissingReason::RingRemoved);
        // In the middle of a ring it is, also behind one that was put there.
        for one in [ring(6, 6, 0), entry("cam.000006", 9, None)] {
            let other = ring(8, 6, 200);
            let stored = StoredNames::of([&one, &other].into_iter());
            let found = between(&stored, (&one, 0), &other, 9).unwrap();
            assert_eq!(found.reason, MissingReason::NotStored);
        }
    }

    #[test]
    fn a_later_segment_says_what_is_before_it() {
        let third = entry("run.000003", 100, Some((1, 77)));
        let found = before_first(&stored(&["run.000002", "run.000003"]), &third).unwrap();
        assert_eq!(
            (found.first, found.last, found.missing_bytes),
            (1, 2, Some(77))
        );
        assert_eq!(found.reason, MissingReason::NotStored);
        let found = before_first(&stored(&["run.000001", "run.000002"]), &third).unwrap();
        assert_eq!(found.reason, MissingReason::NotNamed);
        assert_eq!(
            before_first(&stored(&[]), &entry("run.000003", 1, Some((3, 0)))),
            None
        );
        assert_eq!(
            before_first(&stored(&[]), &entry("run.000003", 1, None)),
            None
        );
    }
}
