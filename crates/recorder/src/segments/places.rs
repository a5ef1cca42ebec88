// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether the segments of a recording are what it recorded, by what each keeps of its place: where
//! one ends, the next one begins.
//!
//! A segment that was stored again under its name (`put`) keeps no place. Its length is known to be
//! right if the next one begins where it ends, its bytes are not: it is named. Where two segments
//! contradict one another, what was recorded is not there any more, although every file can be
//! read.

use super::numbered::Numbered;
use super::tag::{Tag, has_no_place, is_made};
use files::listing::FileEntry;
use files::shown;
#[cfg(feature = "reports")]
use schemars::JsonSchema;
#[cfg(feature = "reports")]
use serde::Serialize;

/// A file that is not what was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "reports", derive(Serialize, JsonSchema))]
pub struct Contradiction {
    /// The file's name.
    pub name: String,
    /// What contradicts it.
    pub what: String,
}

impl Contradiction {
    /// For messages.
    pub fn text(&self) -> String {
        format!("`{}`: {}", shown(&self.name), self.what)
    }
}

/// A segment, as far as the next one is compared with it.
#[derive(Debug)]
struct Place {
    name: String,
    numbered: Numbered,
    /// The number of its recording's first segment, if it is known.
    first: Option<u64>,
    /// Where it begins in its recording, if that is known.
    begin_bytes: Option<u64>,
    /// Its length, and what was lost in it.
    own_bytes: u64,
    is_followed: bool,
    /// A recording made it, without a place.
    is_made: bool,
    is_final: bool,
    /// It was put where a segment was, and nothing has confirmed its length yet.
    is_doubtful: bool,
}

/// Compares segments that are named in the order of their numbers.
#[derive(Debug, Default)]
pub struct Places {
    last: Option<Place>,
    found: Vec<Contradiction>,
}

impl Places {
    /// Compares another segment, in which `lost_bytes` were lost, with the one before it.
    pub fn add(&mut self, entry: &FileEntry, lost_bytes: u64) {
        let before = self.last.take();
        let Some(numbered) = Numbered::of(&entry.name) else {
            return self.pass(before);
        };
        let number = numbered.number;
        let own = entry.app_tag.unwrap_or(0);
        let joined = before
            .as_ref()
            .filter(|one| one.numbered.is_of_one_form(&numbered));
        let joined = joined.and_then(|one| Some((one.first?, one.begin_bytes?)));
        let tag = Tag::of(own, number).map(|tag| match joined {
            Some((first, begin_bytes)) => tag.behind(first, begin_bytes),
            None => tag,
        });
        if tag.is_none() && is_made(own) && !has_no_place(own) {
            let what = "has a number before that of its recording's first segment";
            self.say(&entry.name, what.to_owned());
        }
        let mut place = Place {
            name: entry.name.clone(),
            numbered,
            first: tag.map(|tag| tag.first),
            begin_bytes: tag.map(|tag| tag.offset_bytes),
            own_bytes: entry.size_bytes.saturating_add(lost_bytes),
            is_followed: tag.is_some_and(|tag| tag.is_followed),
            is_made: has_no_place(own),
            is_final: entry.is_final,
            is_doubtful: false,
        };
        match (before, tag) {
            (Some(before), Some(tag)) if before.is_before(&place, tag.first) => {
                self.compare(&before, &place, tag);
            }
            (before, Some(tag)) => {
                self.pass(before);
                if tag.first == number && tag.offset_bytes > 0 {
                    let what = format!(
                        "has the number of its recording's first segment, and is from byte {} of it",
                        tag.offset_bytes
                    );
                    self.say(&place.name, what);
                }
            }
            // Without a place: a segment without a byte, or one far behind; or what was put where
            // one was.
            (Some(before), None)
                if before.is_right_before(&place)
                    && (place.is_made || before.is_doubtful || before.is_followed) =>
            {
                place.first = before.first;
                place.begin_bytes = before.end_bytes();
                place.is_doubtful = !place.is_made;
            }
            (before, None) => self.pass(before),
        }
        self.last = Some(place);
    }

    /// What contradicts what.
    pub fn end(mut self) -> Vec<Contradiction> {
        let last = self.last.take();
        self.pass(last);
        self.found
    }

    /// Compares the end of a segment with the beginning of the next one of the same recording.
    fn compare(&mut self, before: &Place, next: &Place, tag: Tag) {
        let follows = before.is_right_before(next);
        let end_bytes = match before.first {
            Some(first) if first != tag.first => {
                let what = format!("is of another recording than `{}`", shown(&next.name));
                return self.say(&before.name, what);
            }
            // It was put as the recording's first one.
            None if before.numbered.number == tag.first && !before.is_made => {
                Some(before.own_bytes)
            }
            _ => before.end_bytes(),
        };
        let is_put = before.is_doubtful || before.first.is_none() && !before.is_made;
        match end_bytes {
            Some(end)
                if before.is_final
                    && (end > tag.offset_bytes || follows && end != tag.offset_bytes) =>
            {
                let what = format!(
                    "ends at byte {end} of its recording, and `{}` begins at byte {}",
                    shown(&next.name),
                    tag.offset_bytes
                );
                self.say(&before.name, what);
            }
            Some(_) if follows && is_put => {
                let what = "was put where a segment was: its length is right, and nothing shows \
                            that its bytes are";
                self.say(&before.name, what.to_owned());
            }
            Some(_) if !is_put => {}
            None if before.is_made || !follows => {}
            _ => self.doubt(before),
        }
    }

    /// Nothing behind this segment is compared with it.
    fn pass(&mut self, last: Option<Place>) {
        if let Some(last) = last.filter(|last| last.is_doubtful) {
            self.doubt(&last);
        }
    }

    fn doubt(&mut self, place: &Place) {
        let what = "was put where a segment was, and nothing shows that it is the same";
        self.say(&place.name, what.to_owned());
    }

    fn say(&mut self, name: &str, what: String) {
        self.found.push(Contradiction {
            name: name.to_owned(),
            what,
        });
    }
}

impl Place {
    fn end_bytes(&self) -> Option<u64> {
        self.begin_bytes?.checked_add(self.own_bytes)
    }

    /// Whether this segment is before the other one, of a recording whose first one is `first`, and
    /// has a number of that recording.
    fn is_before(&self, next: &Self, first: u64) -> bool {
        let number = self.numbered.number;
        self.numbered.is_of_one_form(&next.numbered)
            && (first..next.numbered.number).contains(&number)
    }

    fn is_right_before(&self, next: &Self) -> bool {
        self.numbered.is_of_one_form(&next.numbered)
            && self.numbered.number.checked_add(1) == Some(next.numbered.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segments::tag::MADE;
    use formats::Format;

    /// A segment's number, length, bytes lost in it, and number for applications.
    type Row = (u64, u64, u64, u64);

    fn tag(first: u64, offset_bytes: u64, is_followed: bool) -> u64 {
        let tag = Tag {
            format: Format::Raw,
            is_ring: false,
            first,
            offset_bytes,
            is_followed,
            has_gaps: false,
        };
        tag.to_number()
    }

    /// What is said of segments.
    fn said(rows: &[Row], is_final: bool) -> Vec<String> {
        let mut places = Places::default();
        for (number, size_bytes, lost_bytes, app_tag) in rows {
            let entry = FileEntry {
                name: format!("run.{number:06}"),
                size_bytes: *size_bytes,
                allocated_bytes: None,
                modified_ns: 0,
                checksums: None,
                slot: 0,
                app_tag: Some(*app_tag),
                is_final,
                unfinished: false,
            };
            places.add(&entry, *lost_bytes);
        }
        places.end().iter().map(Contradiction::text).collect()
    }

    /// The first number is kept modulo 512.
    #[test]
    fn nothing_is_said_of_many_segments_of_one_recording() {
        let rows = |first: u64| -> Vec<Row> {
            let row = |at| (first + at, 100, 0, tag(first, at * 100, true));
            (0..1600).map(row).collect()
        };
        for first in [1, 511, 512, 700] {
            assert_eq!(said(&rows(first), true), [""; 0], "{first}");
        }
        // A recording of the same name that began 512 numbers later.
        let mut both = rows(1);
        both.truncate(512);
        both.extend(rows(513));
        assert_eq!(said(&both, true), [""; 0]);
        let mut hole = rows(1);
        hole.remove(700);
        assert_eq!(said(&hole, true), [""; 0]);
    }

    #[test]
    fn where_a_segment_ends_the_next_one_begins() {
        let whole = [
            (1, 100, 0, tag(1, 0, true)),
            (2, 90, 10, tag(1, 100, true)),
            (3, 50, 0, tag(1, 200, true)),
            // It was made, and the power failed; another recording began behind it.
            (4, 0, 0, MADE),
            (5, 70, 0, tag(5, 0, false)),
        ];
        assert_eq!(said(&whole, true), [""; 0]);
        let with = |at: usize, row: Row| {
            let mut rows = whole;
            rows[at] = row;
            said(&rows, true)
        };
        let (put, what) = (0, "`run.000002`: ends at byte 199 of its recording");
        for row in [
            (2, 89, 10, tag(1, 100, true)),
            (2, 90, 9, tag(1, 100, true)),
            (2, 99, 0, put),
        ] {
            assert!(with(1, row)[0].starts_with(what), "{row:?}");
        }
        // One that still grows is not whole yet.
        let grows = [(1, 40, 0, tag(1, 0, false)), (2, 0, 0, tag(1, 100, false))];
        assert_eq!(said(&grows, false), [""; 0]);
        assert_eq!(said(&grows, true).len(), 1);
        let moved = with(0, (1, 100, 0, tag(1, 7, true)));
        assert!(moved[0].contains("is from byte 7 of it"), "{moved:?}");
        let earlier = with(4, (5, 70, 0, tag(6, 0, false)));
        assert!(
            earlier[0].contains("has a number before that of"),
            "{earlier:?}"
        );
        let other = with(1, (2, 100, 0, tag(2, 0, true)));
        assert!(
            other[0].contains("is of another recording than"),
            "{other:?}"
        );
    }

    #[test]
    fn what_was_put_is_named_whatever_its_length() {
        let put = 0;
        let mut rows = vec![
            (1, 100, 0, put),
            (2, 100, 0, tag(1, 100, true)),
            (3, 100, 0, put),
            (4, 100, 0, tag(1, 300, true)),
        ];
        let found = said(&rows, true);
        assert_eq!(found.len(), 2);
        assert!(found[1].contains("its length is right"), "{found:?}");
        // Nothing is behind it, or what is behind it is of another recording.
        rows.push((5, 100, 0, put));
        assert_eq!(said(&rows, true).len(), 3);
        rows.push((6, 100, 0, tag(6, 0, false)));
        assert_eq!(said(&rows, true).len(), 3);
        // Files that no recording made, and those of older versions, say nothing.
        let shots: Vec<Row> = (1..5).map(|number| (number, 7, 0, put)).collect();
        assert_eq!(said(&shots, true), [""; 0]);
        let older = [
            (1, 100, 0, tag(1, 0, false)),
            (2, 100, 0, tag(1, 100, false)),
            (3, 9, 0, put),
        ];
        assert_eq!(said(&older, true), [""; 0]);
    }
}
