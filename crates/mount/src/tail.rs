// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The end of a file that is written: what the volume does not have yet.
//!
//! A volume takes whole blocks at a file's end, programs write bytes. The bytes of a last block
//! that is not full stay in memory: the next append rewrites them.

use ::volume::Error;
use files::now_ns;
use std::time::{Duration, Instant};

/// The end of a file that is written.
#[derive(Debug)]
pub struct Writer {
    /// Where the tail begins in the file: at a block.
    start: u64,
    /// The bytes from there on.
    pub(super) tail: Vec<u8>,
    /// Bytes of the tail that the volume has, less than a block.
    held: usize,
    /// Something is not committed.
    pub(super) is_dirty: bool,
    /// Since when something is not durable.
    unsaved_since: Option<Instant>,
    /// When it was last written, in nanoseconds since 1970.
    pub(super) modified_ns: u64,
    /// What failed; nothing more is written then.
    pub(super) failure: Option<Error>,
}

/// A part of the tail that is on its way to the volume.
pub struct Batch {
    pub(super) data: Vec<u8>,
    pub(super) held: usize,
}

impl Writer {
    /// The end of a file of so many bytes; `held` are those of its last block, if it is not full.
    pub(super) fn new(size_bytes: u64, held: Vec<u8>) -> Self {
        Self {
            start: size_bytes - held.len() as u64,
            held: held.len(),
            tail: held,
            is_dirty: false,
            unsaved_since: None,
            modified_ns: 0,
            failure: None,
        }
    }

    /// The file's size, as programs see it.
    pub(super) fn end(&self) -> u64 {
        self.start + self.tail.len() as u64
    }

    /// Adds bytes.
    pub(super) fn push(&mut self, data: &[u8]) {
        self.tail.extend_from_slice(data);
        self.modify(now_ns());
    }

    /// Writes over bytes of the tail that the volume does not have, and past the end; false if it
    /// has one of them.
    pub(super) fn write_over(&mut self, offset: u64, data: &[u8]) -> bool {
        let Some(at) = offset.checked_sub(self.start) else {
            return false;
        };
        let at = at as usize;
        if at < self.held || at > self.tail.len() {
            return false;
        }
        let (over, more) = data.split_at(data.len().min(self.tail.len() - at));
        if let Some(room) = self.tail.get_mut(at..at + over.len()) {
            room.copy_from_slice(over);
        }
        self.push(more);
        true
    }

    /// Notes that the file was modified at this time.
    pub(super) fn modify(&mut self, ns: u64) {
        self.is_dirty = true;
        self.modified_ns = ns;
        self.unsaved_since.get_or_insert_with(Instant::now);
    }

    /// Everything is durable.
    pub(super) fn saved(&mut self) {
        self.unsaved_since = None;
    }

    /// Whether something has not been durable for so long, and still can be.
    pub(super) fn needs_save(&self, age: Duration) -> bool {
        let is_old = |since: Instant| since.elapsed() >= age;
        self.failure.is_none() && self.unsaved_since.is_some_and(is_old)
    }

    /// Takes what can be appended: whole blocks, and the rest of the last one too if `all`.
    pub(super) fn take(&mut self, block_bytes: usize, all: bool) -> Option<Batch> {
        let whole = self.tail.len() - self.tail.len() % block_bytes;
        if self.tail.len() == self.held || (whole == 0 && !all) {
            return None;
        }
        let rest = self.tail.get(whole..).unwrap_or_default().to_vec();
        let mut data = std::mem::replace(&mut self.tail, rest);
        let held = std::mem::take(&mut self.held);
        if all {
            self.held = self.tail.len()
        } else {
            data.truncate(whole)
        }
        self.start += whole as u64;
        Some(Batch { data, held })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_blocks_leave_the_tail_and_the_last_one_is_held() {
        let mut writer = Writer::new(1030, vec![1; 6]);
        assert_eq!((writer.start, writer.held, writer.end()), (1024, 6, 1030));
        // What the volume has is not written again by itself.
        assert!(writer.take(512, true).is_none());
        writer.push(&[2; 10]);
        assert!(writer.take(512, false).is_none(), "no whole block");
        let batch = writer.take(512, true).unwrap();
        assert_eq!((batch.held, batch.data.len()), (6, 16));
        assert_eq!(batch.data, [&[1; 6][..], &[2; 10]].concat());
        assert_eq!((writer.start, writer.held, writer.end()), (1024, 16, 1040));
        writer.push(&[3; 1000]);
        let batch = writer.take(512, false).unwrap();
        assert_eq!((batch.held, batch.data.len()), (16, 512));
        assert_eq!((writer.start, writer.held, writer.end()), (1536, 0, 2040));
        let batch = writer.take(512, true).unwrap();
        assert_eq!((batch.held, batch.data.len()), (0, 504));
        assert_eq!((writer.start, writer.held, writer.end()), (1536, 504, 2040));
        writer.push(&[4; 8]);
        let batch = writer.take(512, true).unwrap();
        assert_eq!((batch.held, batch.data.len()), (504, 512));
        assert_eq!((writer.start, writer.held, writer.end()), (2048, 0, 2048));
        assert!(writer.take(512, true).is_none());
        assert!(writer.is_dirty);
    }

    #[test]
    fn what_the_volume_has_is_not_written_over() {
        let mut writer = Writer::new(1030, vec![1; 6]);
        writer.push(&[2; 10]);
        assert!(!writer.write_over(1023, &[9; 4]), "before the tail");
        assert!(!writer.write_over(1029, &[9; 4]), "what the volume has");
        assert!(!writer.write_over(1041, &[9]), "past the end");
        assert_eq!(writer.tail, [&[1; 6][..], &[2; 10]].concat());
        assert!(writer.write_over(1030, &[3; 2]));
        assert!(writer.write_over(1038, &[4; 5]), "and 3 bytes more");
        let expected = [&[1; 6][..], &[3; 2], &[2; 6], &[4; 5]].concat();
        assert_eq!((&writer.tail, writer.end()), (&expected, 1043));
        assert!(writer.take(512, true).is_some());
        assert!(!writer.write_over(1042, &[9]), "the volume has all now");
    }

    #[test]
    fn only_what_is_durable_needs_no_save() {
        let mut writer = Writer::new(0, Vec::new());
        assert!(!writer.needs_save(Duration::ZERO));
        writer.push(&[1]);
        assert!(!writer.needs_save(Duration::from_secs(3600)), "too new");
        // A commit that is not durable, as a reader or the close of one descriptor requests it.
        let _ = writer.take(512, true);
        writer.is_dirty = false;
        assert!(writer.needs_save(Duration::ZERO));
        writer.saved();
        assert!(!writer.needs_save(Duration::ZERO));
        writer.modify(7);
        writer.failure = Some(Error::NoSpace);
        assert!(!writer.needs_save(Duration::ZERO), "it would fail again");
    }
}
