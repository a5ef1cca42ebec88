// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The recording that is exported: its segments, and what is missing within and between them.

use super::lists::{Listed, gaps_of, said_of_unchecked};
use super::segments::{MissingSegments, StoredNames, before_first, behind_last, between};
use crate::segments::places::{Contradiction, Places};
use devices::Bar;
use devices::error::Result;
use files::listing::FileEntry;
use files::names::check_name;
use files::{failed, shown};
use formats::gaps;
use live::origin::Origin;
use stream::Gap;
use volume::Error;

/// A recording, and what is missing in it.
#[derive(Default)]
pub struct Recording {
    /// Its segments, at least one.
    pub segments: Vec<FileEntry>,
    /// The bytes of all of them.
    pub size_bytes: u64,
    /// Gaps, segments between others among them if it is known how long they were.
    pub gaps: Vec<Gap>,
    /// Whether one of them is within a segment: something was lost while it was recorded.
    pub has_own_gaps: bool,
    /// How many gaps there are before the end of each segment.
    pub gaps_until: Vec<usize>,
    /// Where the stream of another recording begins.
    pub restarts: Vec<u64>,
    /// Segments that are missing before the first one, as far as that shows them.
    pub missing_before: Option<MissingSegments>,
    /// Segments that are missing between the others.
    pub missing: Vec<MissingSegments>,
    /// Segments that are missing behind the last one, as far as that shows them.
    pub missing_behind: Option<MissingSegments>,
    /// Files that are not what was recorded.
    pub contradictions: Vec<Contradiction>,
    /// What else is said of it.
    pub notes: Vec<String>,
}

impl Recording {
    /// Finds the segments of these names, and what is missing.
    ///
    /// # Errors
    /// A file does not exist, or its companion was not written by a recording.
    pub fn find(origin: &Origin<'_, '_>, stored: &StoredNames, names: &[String]) -> Result<Self> {
        let mut recording = Self::default();
        // The bytes that were lost in the segment before.
        let mut lost_bytes = 0;
        let mut places = Places::default();
        let mut unchecked = Vec::new();
        for name in names {
            let missing = || failed(format_args!("opening `{}`", shown(name)), Error::NotFound);
            let entry = origin.find(name)?.ok_or_else(missing)?;
            entry.refuse_unfinished()?;
            let begin_bytes = recording.size_bytes;
            match recording.segments.last() {
                None => recording.missing_before = before_first(stored, &entry),
                Some(last) => {
                    let missing = between(stored, (last, lost_bytes), &entry, begin_bytes);
                    recording.miss(missing);
                }
            }
            let Listed {
                gaps,
                contradiction,
                note,
                is_unchecked,
            } = gaps_of(origin, &entry)?;
            unchecked.extend(is_unchecked.then(|| name.clone()));
            recording.contradictions.extend(contradiction);
            recording.notes.extend(note);
            lost_bytes = gaps::lost_bytes(&gaps);
            recording.has_own_gaps |= lost_bytes > 0;
            places.add(&entry, lost_bytes);
            for gap in gaps {
                let offset_bytes = begin_bytes + gap.offset_bytes;
                match gap.lost_bytes {
                    0 => recording.restarts.push(offset_bytes),
                    _ => recording.gaps.push(Gap {
                        offset_bytes,
                        ..gap
                    }),
                }
            }
            recording.gaps_until.push(recording.gaps.len());
            recording.size_bytes += entry.size_bytes;
            recording.segments.push(entry);
        }
        recording.contradictions.extend(places.end());
        recording.notes.extend(said_of_unchecked(&unchecked));
        let last = recording.segments.last();
        recording.missing_behind =
            last.and_then(|last| behind_last(stored, last, recording.size_bytes));
        Ok(recording)
    }

    /// The name of the recording, or of its first segment.
    pub fn name(&self) -> &str {
        self.segments
            .first()
            .map_or("", |entry| entry.name.as_str())
    }

    /// What is missing right before the segment of this number, which begins at this byte. Segments
    /// that lost all of their blocks begin where the next one does.
    pub fn missing_before(&self, number: u64, offset_bytes: u64) -> Option<&MissingSegments> {
        let is_it = |missing: &&MissingSegments| {
            missing.offset_bytes == offset_bytes && missing.last.checked_add(1) == Some(number)
        };
        self.missing.iter().find(is_it)
    }

    /// Adds segments that are missing at the end of the others: a gap, if it is known how long they
    /// were.
    fn miss(&mut self, missing: Option<MissingSegments>) {
        let Some(missing) = missing else { return };
        self.gaps
            .extend(missing.missing_bytes.map(|lost_bytes| Gap {
                offset_bytes: missing.offset_bytes,
                lost_bytes,
                at_us: 0,
                count: 1,
            }));
        self.missing.push(missing);
    }
}

/// A small file beside the recording, if there is one.
///
/// # Errors
/// It is longer than `max_bytes`, or cannot be read.
pub fn companion_of(
    origin: &Origin<'_, '_>,
    name: &str,
    max_bytes: u64,
) -> Result<Option<Vec<u8>>> {
    // A name that is too long is one that no recording could make.
    if check_name(name).is_err() {
        return Ok(None);
    }
    let Some(entry) = origin.find(name)? else {
        return Ok(None);
    };
    if entry.size_bytes > max_bytes {
        let what = format!(
            "`{}` has {} bytes, more than {max_bytes}",
            shown(name),
            entry.size_bytes
        );
        return Err(devices::Error::other(what).hint("straightway get fetches the recording alone"));
    }
    let mut bytes = Vec::new();
    let bar = Bar::hidden();
    origin.read(&entry, entry.size_bytes, &bar, &mut |data| {
        bytes.extend_from_slice(data);
        Ok(())
    })?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::segments::MissingReason;

    #[test]
    fn what_is_missing_before_a_segment_without_blocks_is_not_missing_before_the_next_one() {
        let missing = |number| MissingSegments {
            first: number,
            last: number,
            offset_bytes: 100,
            missing_bytes: Some(64),
            reason: MissingReason::NotStored,
            and_later: false,
            is_restart: false,
            absent: None,
        };
        let recording = Recording {
            missing: vec![missing(2), missing(4)],
            ..Recording::default()
        };
        // 1 has 100 bytes, 3 and 5 have none.
        for (number, expected) in [(1, None), (3, Some(2)), (5, Some(4)), (6, None)] {
            let found = recording.missing_before(number, 100);
            assert_eq!(found.map(|missing| missing.first), expected, "{number}");
        }
        assert_eq!(recording.missing_before(3, 0), None);
    }
}
