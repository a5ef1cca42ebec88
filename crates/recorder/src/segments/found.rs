// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of a form that a volume has before a recording in segments begins.

use super::files::GAPS;
use super::segment::Segment;
use super::tag::is_made;
use super::template::Template;
use devices::Progress;
use devices::error::Result;
use files::Mounted;
use files::tree::some;
use formats::sigmf::META;
use remedy::words;

/// A file of the form.
pub(super) struct FoundSegment {
    pub number: u64,
    pub segment: Segment,
    /// The file's number for applications.
    pub app_tag: u64,
}

/// A companion of a file of the form, whether that exists or not.
pub(super) struct FoundCompanion {
    pub name: String,
    /// The file's name.
    pub of: String,
    pub number: u64,
    /// It is a list of gaps, not a description.
    pub is_gaps: bool,
    /// Whether a recording made it.
    pub is_made: bool,
}

/// What a volume has.
pub(super) struct Found {
    /// In the order of their numbers.
    pub segments: Vec<FoundSegment>,
    pub companions: Vec<FoundCompanion>,
}

impl Found {
    /// What the volume has of this form.
    ///
    /// # Errors
    /// The volume failed.
    pub(super) fn on(mounted: &Mounted<'_, '_>, template: &Template) -> Result<Self> {
        let mut segments = Vec::new();
        let mut companions = Vec::new();
        let mut from = 0;
        let next = |from| mounted.run("listing the recordings", mounted.volume.next_file(from));
        while let Some(entry) = next(from)? {
            from = entry.slot + 1;
            let name = entry.name.as_str();
            let is_made = is_made(entry.app_tag);
            for (end, is_gaps) in [(GAPS, true), (META, false)] {
                let Some(of) = name.strip_suffix(end) else {
                    continue;
                };
                if let Some(number) = template.number_of(of) {
                    companions.push(FoundCompanion {
                        name: name.to_owned(),
                        of: of.to_owned(),
                        number,
                        is_gaps,
                        is_made,
                    });
                }
            }
            if let Some(number) = template.number_of(name) {
                let segment = Segment {
                    name: name.to_owned(),
                    length_bytes: entry.size_bytes,
                    gaps: 0,
                    lost_bytes: 0,
                };
                let found = FoundSegment {
                    number,
                    segment,
                    app_tag: entry.app_tag,
                };
                segments.push((entry.mtime_ns, found));
            }
        }
        Ok(Self {
            segments: oldest_first(segments),
            companions,
        })
    }
}

/// Orders files by their numbers, and by their times where these are the same. Not by time alone:
/// clocks are set back.
fn oldest_first(mut segments: Vec<(u64, FoundSegment)>) -> Vec<FoundSegment> {
    segments.sort_by_key(|(mtime_ns, found)| (found.number, *mtime_ns));
    segments.into_iter().map(|(_, found)| found).collect()
}

/// Leaves a ring the segments that a recording made. Others have names of its form, were put or
/// recorded by an older version, and are named.
pub(super) fn keep_those_of_others(segments: &mut Vec<FoundSegment>, progress: &Progress) {
    let others = segments.iter().filter(|found| !is_made(found.app_tag));
    let others: Vec<&str> = others.map(|found| found.segment.name.as_str()).collect();
    if others.is_empty() {
        return;
    }
    progress.say(words![
        format!("not of this ring, which keeps them: {} (hint: they were put, or recorded by an older version; straightway rm ", some(others.into_iter())),
        remedy::Device,
        " NAME removes one)"
    ]);
    segments.retain(|found| is_made(found.app_tag));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_older_by_their_numbers_whatever_the_clock_said() {
        let found = |mtime_ns, number, name: &str| {
            let segment = Segment {
                name: name.to_owned(),
                length_bytes: 1,
                gaps: 0,
                lost_bytes: 0,
            };
            let app_tag = 0;
            (
                mtime_ns,
                FoundSegment {
                    number,
                    segment,
                    app_tag,
                },
            )
        };
        // The clock was set forward after the first one, and back after the third.
        let order = oldest_first(vec![
            found(1_000, 4, "d"),
            found(2_100, 3, "c"),
            found(2_000, 1, "a"),
            found(2_050, 3, "b"),
        ]);
        let names: Vec<&str> = order.iter().map(|one| one.segment.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c", "d"]);
    }
}
