//! The end of a file that is written: what the volume does not have yet.
//!
//! A volume takes whole blocks at a file's end, programs write bytes. The bytes of a last block that is not full stay in memory: the
//! next append rewrites them.

use crate::volume::now_ns;
use ::volume::Error;

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
        self.is_dirty = true;
        self.modified_ns = now_ns();
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
        match all {
            true => self.held = self.tail.len(),
            false => data.truncate(whole),
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
}
