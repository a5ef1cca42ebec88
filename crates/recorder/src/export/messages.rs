// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MCAP: the messages of a recording's segments, in one file.

use super::ExportSettings;
use super::recording::Recording;
use super::report::Exported;
use super::segments::{MissingReason, MissingSegments, StoredNames, tag_of};
use super::targets::Targets;
use crate::format_failed;
use crate::segments::numbered::Numbered;
use devices::Context;
use devices::error::{Error, ErrorKind, Result};
use files::shown;
use formats::FormatError;
use formats::mcap::{Definitions, MAGIC, Rebuild};
use live::origin::Origin;
use std::iter::Peekable;
use std::vec::IntoIter;

/// What is at a place of the segments' bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    /// Bytes are missing, which the recording dropped.
    Gap,
    /// Segments are missing.
    Missing,
    /// Another stream begins.
    Restart,
    /// Another stream has begun in segments that are missing.
    MissingRestart,
}

/// A stream's bytes on their way into a [`Rebuild`], with what is missing between them.
struct Feed {
    marks: Peekable<IntoIter<(u64, Mark)>>,
    /// Where each stream ends.
    ends: Vec<u64>,
    at_bytes: u64,
}

impl Feed {
    fn of(recording: &Recording) -> Self {
        let size_bytes = recording.size_bytes;
        let mut restarts: Vec<u64> = recording.restarts.clone();
        restarts.retain(|restart| (1..size_bytes).contains(restart));
        let mut marks: Vec<(u64, Mark)> = Vec::new();
        marks.extend(restarts.iter().map(|at| (*at, Mark::Restart)));
        let missing = recording.missing.iter().map(|missing| {
            let mark = if missing.is_restart {
                Mark::MissingRestart
            } else {
                Mark::Missing
            };
            (missing.offset_bytes, mark)
        });
        // What is missing where another stream begins was of the one before.
        marks.extend(missing.filter(|(at, _)| !restarts.contains(at)));
        let gaps = recording
            .gaps
            .iter()
            .map(|gap| (gap.offset_bytes, Mark::Gap));
        let known: Vec<u64> = marks.iter().map(|(at, _)| *at).collect();
        marks.extend(gaps.filter(|(at, _)| !known.contains(at)));
        marks.sort_unstable();
        marks.dedup();
        let begins = marks.iter().filter(|(_, mark)| *mark >= Mark::Restart);
        let mut ends: Vec<u64> = begins.map(|(at, _)| *at).collect();
        ends.push(size_bytes);
        Self {
            marks: marks.into_iter().peekable(),
            ends,
            at_bytes: 0,
        }
    }

    /// Bytes up to the end of the stream that begins here.
    fn stream_bytes(&self, from: u64) -> u64 {
        let end = self.ends.iter().find(|end| **end > from);
        end.map_or(0, |end| end - from)
    }

    /// Takes the next bytes. `said` gets each place where a record is broken off.
    fn take<S: FnMut(&[u8]) -> formats::Result<()>>(
        &mut self,
        rebuild: &mut Rebuild<S>,
        mut data: &[u8],
        said: &mut dyn FnMut(u64),
    ) -> formats::Result<()> {
        let at = self.at_bytes;
        let is_here = |(mark, _): &(u64, Mark)| mark - at <= data.len() as u64;
        let mut here = Vec::new();
        while let Some(mark) = self.marks.next_if(is_here) {
            here.push(mark);
        }
        for (place, mark) in here {
            let (before, rest) = data.split_at((place - self.at_bytes) as usize);
            rebuild.feed(before)?;
            (self.at_bytes, data) = (place, rest);
            match mark {
                Mark::Gap | Mark::Missing => {
                    if rebuild.gap(mark == Mark::Missing)? {
                        said(place);
                    }
                }
                Mark::Restart => rebuild.next_stream(self.stream_bytes(place))?,
                Mark::MissingRestart => {
                    rebuild.next_stream(self.stream_bytes(place))?;
                    rebuild.begin_inside();
                }
            }
        }
        self.at_bytes += data.len() as u64;
        rebuild.feed(data)
    }
}

impl ExportSettings {
    /// Whether the first segment begins in the middle of a stream: it is a later one.
    fn begins_inside(
        &self,
        context: &Context,
        origin: &Origin<'_, '_>,
        recording: &Recording,
    ) -> Result<bool> {
        let is_later = Numbered::of(recording.name()).is_some_and(|numbered| numbered.number > 1);
        if !is_later || recording.restarts.contains(&0) {
            return Ok(false);
        }
        let begin = self.begin_of(context, origin, recording)?;
        Ok(!begin.starts_with(&MAGIC))
    }

    pub(super) fn mcap(
        &self,
        context: &Context,
        origin: &Origin<'_, '_>,
        (stored, recording): (&StoredNames, &Recording),
        targets: Targets,
        exported: &mut Exported,
    ) -> Result<()> {
        let name = recording.name();
        let nothing = || {
            let what = format!("`{}` has no whole record yet", shown(name));
            Error::other(what).hint("straightway get fetches its bytes, if any")
        };
        if recording.size_bytes < MAGIC.len() as u64 {
            return Err(nothing());
        }
        let is_inside = self.begins_inside(context, origin, recording)?;
        if is_inside && recording.missing_before.is_none() {
            exported
                .missing_segments
                .splice(0..0, all_before(stored, name));
        }
        let is_whole = !is_inside && recording.missing.is_empty() && recording.gaps.is_empty();
        let known = if is_whole {
            Vec::new()
        } else {
            self.definitions(context, origin, (stored, recording), is_inside)?
        };
        let mut feed = Feed::of(recording);
        let mut files = targets.open(&context.cancel)?;
        let sink = |data: &[u8]| files.data.take(data).map_err(FormatError::of_sink);
        let mut rebuild = Rebuild::new(name, feed.stream_bytes(0), sink).knowing(known);
        if is_inside {
            rebuild.begin_inside();
        }
        let mut said = |place: u64| {
            context.say(format_args!(
                "`{}` has a gap at byte {place}, inside a record, which is left out",
                shown(name)
            ));
        };
        self.read_all(
            context,
            origin,
            recording,
            recording.size_bytes,
            &mut |data| {
                feed.take(&mut rebuild, data, &mut said)
                    .map_err(format_failed)
            },
        )?;
        let rebuilt = rebuild.finish().map_err(format_failed)?;
        if is_inside && rebuilt.messages + rebuilt.attachments + rebuilt.metadata == 0 {
            return Err(Error::new(
                ErrorKind::Late,
                format!(
                    "nothing shows what the messages of `{}` are: the recording has no channel for them, as segments before it had",
                    shown(name)
                ),
            )
            .hint("straightway get fetches the bytes"));
        }
        if rebuilt.is_empty() && !rebuilt.has_damage() {
            return Err(nothing());
        }
        exported.mcap = Some(rebuilt);
        exported.files = files.finish(None)?;
        Ok(())
    }

    /// The schemas and channels of each stream, from the segments themselves, or, if these lack
    /// some, from all of the recording.
    fn definitions(
        &self,
        context: &Context,
        origin: &Origin<'_, '_>,
        (stored, recording): (&StoredNames, &Recording),
        is_inside: bool,
    ) -> Result<Vec<Definitions>> {
        let (definitions, lacks) = self.scan(context, origin, recording, is_inside)?;
        let Some(first) = Numbered::of(recording.name()).filter(|_| is_inside && lacks) else {
            return Ok(definitions);
        };
        let tag = recording
            .segments
            .first()
            .and_then(|entry| tag_of(entry, first.number));
        let from = tag.map_or(1, |tag| tag.first);
        let last = recording
            .segments
            .last()
            .and_then(|last| Numbered::of(&last.name));
        let last = last.map_or(first.number, |last| last.number);
        let mut names: Vec<String> = Vec::new();
        let earlier = stored.segments(&first, from..=first.number - 1);
        names.extend(earlier.into_iter().map(str::to_owned));
        names.extend(recording.segments.iter().map(|entry| entry.name.clone()));
        let later = stored.segments(&first, last + 1..=u64::MAX);
        names.extend(later.into_iter().map(str::to_owned));
        let all = Recording::find(origin, stored, &names)?;
        let is_inside = self.begins_inside(context, origin, &all)?;
        Ok(self.scan(context, origin, &all, is_inside)?.0)
    }

    /// The schemas and channels of each stream, and whether messages lack some.
    fn scan(
        &self,
        context: &Context,
        origin: &Origin<'_, '_>,
        recording: &Recording,
        is_inside: bool,
    ) -> Result<(Vec<Definitions>, bool)> {
        let mut feed = Feed::of(recording);
        let size_bytes = feed.stream_bytes(0);
        let nowhere = |_: &[u8]| Ok(());
        let mut scan = Rebuild::new(recording.name(), size_bytes, nowhere).collecting();
        if is_inside {
            scan.begin_inside();
        }
        self.read_all(
            context,
            origin,
            recording,
            recording.size_bytes,
            &mut |data| {
                feed.take(&mut scan, data, &mut |_| {})
                    .map_err(format_failed)
            },
        )?;
        scan.into_definitions().map_err(format_failed)
    }
}

/// All segments before this one, of a recording that does not keep their places.
fn all_before(stored: &StoredNames, name: &str) -> Option<MissingSegments> {
    let numbered = Numbered::of(name)?;
    let last = numbered.number.checked_sub(1)?;
    let are_stored = stored.segments(&numbered, 1..=last).len() as u64 == last;
    Some(MissingSegments {
        first: 1,
        last,
        offset_bytes: 0,
        missing_bytes: None,
        reason: if are_stored {
            MissingReason::NotNamed
        } else {
            MissingReason::NotStored
        },
        and_later: false,
        is_restart: false,
        absent: None,
    })
}
