// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A wrapper's own tags, by which it recognises each completion; the submitter's tags are restored.

use block::Tag;

/// What a wrapper remembers of each request in flight.
#[derive(Debug)]
pub(crate) struct Tags<T> {
    places: Vec<Option<T>>,
    free: Vec<Tag>,
}

impl<T> Tags<T> {
    pub(crate) fn new() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Remembers `value` under the tag returned.
    pub(crate) fn put(&mut self, value: T) -> Tag {
        if let Some(tag) = self.free.pop() {
            self.places[tag as usize] = Some(value);
            return tag;
        }
        self.places.push(Some(value));
        // A device's queue holds at most 65,535 requests.
        (self.places.len() - 1) as Tag
    }

    /// The value stored under `tag`, which becomes free again.
    pub(crate) fn take(&mut self, tag: Tag) -> Option<T> {
        let value = self.places.get_mut(tag as usize)?.take()?;
        self.free.push(tag);
        Some(value)
    }
}
