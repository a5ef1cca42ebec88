// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The descriptions of a recording's segments.
//!
//! A description holds for its segment and those behind it, up to the next one that has one. Before
//! a segment is removed the next one gets its description, so that at every moment, and after a
//! power cut, each segment that is there is described. A full volume is the exception: there the
//! segment's data are removed first, to make room for the next description.

use super::segment::Segment;
use formats::sigmf::{Metadata, meta_name, segment_meta_name};
use std::collections::BTreeMap;

/// What describes the segments, by the names of those that have a description of their own.
#[derive(Clone, Debug, Default)]
pub struct Descriptions(BTreeMap<String, Metadata>);

impl Descriptions {
    /// Whether any segment is described.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the description of a segment.
    pub fn add(&mut self, segment: &str, metadata: Metadata) {
        self.0.insert(segment.to_owned(), metadata);
    }

    /// What must be stored, and under which name, before the oldest segment is removed and `next`
    /// becomes it.
    pub fn pass_on(&mut self, oldest: &Segment, next: &str) -> Option<(String, Vec<u8>)> {
        let metadata = self.0.remove(&oldest.name)?;
        if self.0.contains_key(next) {
            return None;
        }
        let sample_bytes = metadata.sample_bytes;
        let (samples, lost) = (
            oldest.length_bytes / sample_bytes,
            oldest.lost_bytes / sample_bytes,
        );
        let metadata = metadata.behind(samples, lost);
        let bytes = metadata.to_bytes();
        self.0.insert(next.to_owned(), metadata);
        Some((segment_meta_name(next), bytes))
    }
}

/// The names that the description of a segment may have.
pub fn names(segment: &str) -> [String; 2] {
    [meta_name(segment), segment_meta_name(segment)]
}
