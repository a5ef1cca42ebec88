// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The metadata of a part of the samples: of a later segment, or of those beside segments that are
//! missing.

use super::{Base, HEADER, Metadata, annotations, begin_of, index_of, place, start_of};
use serde_json::json;

impl Metadata {
    /// The metadata of the samples behind the first `samples`, before which `lost` more are
    /// missing.
    #[must_use]
    pub fn behind(&self, samples: u64, lost: u64) -> Self {
        let captures = self.capture_list();
        let bases = self.bases(&captures);
        let sample = self.offset.saturating_add(samples);
        let mut place = (None, None);
        if let Some(base) = bases.iter().rfind(|base| base.start <= sample) {
            let first = bases.first();
            let before = first.and_then(|first| Some((first.index?, first.start)));
            let counted = before.zip(base.index).map_or(0, |((index, start), own)| {
                own.saturating_sub(index)
                    .saturating_sub(base.start.saturating_sub(start))
            });
            place = base.at(sample, lost.saturating_sub(counted), self.sample_rate);
        }
        self.beginning_at(samples, place)
    }

    /// The index of the first sample in the stream that was recorded.
    pub fn first_index(&self) -> u64 {
        let captures = self.capture_list();
        let first = captures.first().and_then(index_of);
        first.unwrap_or(self.offset)
    }

    /// The metadata of samples of which the first one has this number in the stream, and nothing
    /// says how many were stored before it; captures behind its first one, and annotations, are of
    /// samples whose place is not known.
    #[must_use]
    pub fn at_index(&self, index: u64) -> Self {
        let captures = self.capture_list();
        let bases = self.bases(&captures);
        let base = bases
            .iter()
            .rfind(|base| base.index.is_some_and(|own| own <= index));
        let at_ns = base.and_then(|base| {
            let passed = index - base.index.unwrap_or(index);
            base.time_behind(passed, self.sample_rate)
        });
        self.alone().beginning_at(0, (Some(index), at_ns))
    }

    /// The metadata of samples of which nothing says which ones they are.
    #[must_use]
    pub fn somewhere(&self) -> Self {
        let mut metadata = self.alone().beginning_at(0, (None, None));
        metadata.unplaced = vec![metadata.offset];
        metadata
    }

    /// What holds for all samples, and for the first one.
    fn alone(&self) -> Self {
        let mut metadata = self.clone();
        metadata.set_captures(self.capture_list().into_iter().take(1).collect());
        metadata.set_annotations(Vec::new());
        metadata
    }

    /// The metadata of the samples behind the first `samples`; the index and the time of the next
    /// one.
    fn beginning_at(&self, samples: u64, (index, at_ns): (Option<u64>, Option<u64>)) -> Self {
        let captures = self.capture_list();
        let sample = self.offset.saturating_add(samples);
        let mut behind = self.clone();
        // Where samples are numbered, the numbers stay.
        let less = match self.offset {
            0 => samples,
            _ => {
                behind.offset = sample;
                behind.global_mut(|global| global.insert("core:offset".into(), json!(sample)));
                0
            }
        };
        let first = captures.iter().rfind(|one| start_of(one) <= sample);
        let mut first = first.cloned().unwrap_or_default();
        place(&mut first, index, at_ns);
        first.insert("core:sample_start".into(), json!(sample - less));
        let later = captures.iter().filter(|one| start_of(one) > sample);
        let later = later.cloned().map(|mut one| {
            let start = start_of(&one) - less;
            one.insert("core:sample_start".into(), json!(start));
            one
        });
        let all = std::iter::once(first).chain(later).collect();
        behind.set_captures(all);
        let left_out = self.offset..sample;
        let annotations = self.annotations().iter();
        let annotations =
            annotations.filter_map(|one| annotations::without(one, &left_out, less, &captures));
        behind.set_annotations(annotations.collect());
        behind.global_mut(|global| global.remove("core:sha512"));
        behind
    }

    /// Leaves out `count` samples behind the first `samples`, which are in a segment that is
    /// missing. A gap there says how many samples that were.
    pub fn leave_out(&mut self, samples: u64, count: u64) {
        let from = self.offset.saturating_add(samples);
        let to = from.saturating_add(count);
        let captures = self.capture_list();
        let (mut changed, rest): (Vec<_>, Vec<_>) = captures
            .iter()
            .cloned()
            .partition(|one| start_of(one) < from);
        let last = rest.iter().rfind(|one| start_of(one) <= to).cloned();
        if let Some(mut last) = last {
            // The gap's index and time are those of the capture before it, unless this one has its
            // own.
            let passed = to - start_of(&last);
            let base = Base {
                start: start_of(&last),
                index: index_of(&last),
                begin_ns: begin_of(&last),
            };
            let (index, at_ns) = base.at(to, 0, self.sample_rate);
            if passed > 0 {
                place(&mut last, index, at_ns);
                last.remove(HEADER);
            }
            last.insert("core:sample_start".into(), json!(from));
            changed.push(last);
        }
        let later = rest.into_iter().filter(|one| start_of(one) > to);
        changed.extend(later.map(|mut one| {
            let start = start_of(&one) - count;
            one.insert("core:sample_start".into(), json!(start));
            one
        }));
        let left_out = from..to;
        let annotations = self.annotations().iter();
        let annotations =
            annotations.filter_map(|one| annotations::without(one, &left_out, count, &captures));
        let annotations = annotations.collect();
        self.set_captures(changed);
        self.set_annotations(annotations);
    }
}
