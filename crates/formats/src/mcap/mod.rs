// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MCAP, the container of ROS 2's bags, read as far as a stream goes and written whole.

#[cfg(feature = "mcap")]
mod definitions;
#[cfg(feature = "mcap")]
#[allow(missing_docs, reason = "the names are the specification's")]
mod layout;
#[cfg(feature = "mcap")]
mod rebuild;
#[cfg(feature = "mcap")]
mod search;
#[cfg(feature = "mcap")]
mod unpack;
#[cfg(feature = "mcap")]
mod writer;

#[cfg(test)]
#[cfg(feature = "mcap")]
mod damaged;
#[cfg(test)]
#[cfg(feature = "mcap")]
mod foreign;
#[cfg(test)]
#[cfg(feature = "mcap")]
mod tests;

#[cfg(feature = "mcap")]
pub use definitions::Definitions;
#[cfg(feature = "mcap")]
pub use rebuild::Rebuild;

#[cfg(feature = "mcap")]
use schemars::JsonSchema;
#[cfg(feature = "mcap")]
use serde::Serialize;

/// The first and the last bytes of a file.
pub const MAGIC: [u8; 8] = [0x89, b'M', b'C', b'A', b'P', b'0', b'\r', b'\n'];

/// What became of a stream.
#[cfg(feature = "mcap")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Rebuilt {
    /// Whether the stream had its end.
    pub was_whole: bool,
    /// Whether the file has the stream's header; otherwise it has one without a profile.
    pub has_header: bool,
    /// Messages in the file.
    pub messages: u64,
    /// Those of them that come from a chunk which is not complete, so that its checksum could not
    /// be verified.
    pub recovered_messages: u64,
    /// Schemas in the file.
    pub schemas: u64,
    /// Channels in the file.
    pub channels: u64,
    /// Those of them that were missing before their first message, and were taken from elsewhere in
    /// the recording.
    pub recalled_channels: u64,
    /// Chunks in the file.
    pub chunks: u64,
    /// Attachments in the file.
    pub attachments: u64,
    /// Metadata records in the file.
    pub metadata: u64,
    /// Bytes at the end, of a record that is not complete or not MCAP.
    pub cut_bytes: u64,
    /// Bytes before and behind gaps, of records that are not complete, and those behind damage, up
    /// to the next record that was found.
    pub skipped_bytes: u64,
    /// Bytes behind the end of the stream's own file.
    pub ignored_bytes: u64,
    /// Chunks that do not match their checksum, and were left out.
    pub damaged_chunks: u64,
    /// Headers, attachments and metadata that are damaged, and records that have a wrong length or
    /// an opcode that does not exist; left out.
    pub damaged_records: u64,
    /// Records that were left out because their channel or schema is missing, or they are not of
    /// use where they are.
    pub left_out_records: u64,
    /// Messages, chunks, attachments and metadata that stood behind the end of the data, where no
    /// file has them; they are in the file.
    pub late_records: u64,
    /// Messages that the stream's statistics count, and that were not found, although no bytes are
    /// missing.
    pub missing_messages: u64,
    /// Whether the data matches the checksum that the stream has of all of it; null if it has none,
    /// or bytes are missing.
    pub data_matches: Option<bool>,
}

#[cfg(feature = "mcap")]
impl Rebuilt {
    /// Whether nothing was found that a file could have.
    pub const fn is_empty(&self) -> bool {
        !self.has_header
            && self.messages == 0
            && self.schemas == 0
            && self.channels == 0
            && self.attachments == 0
            && self.metadata == 0
    }

    /// Whether something was damaged, or of no use.
    pub fn has_damage(&self) -> bool {
        let damaged = self.damaged_chunks + self.damaged_records + self.left_out_records;
        damaged + self.missing_messages > 0 || self.data_matches == Some(false)
    }

    /// Whether bytes of the recording are not in the file although it does not end there.
    pub const fn has_loss(&self) -> bool {
        self.skipped_bytes + self.ignored_bytes > 0
    }
}
