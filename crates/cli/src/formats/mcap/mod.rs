//! MCAP, the container of ROS 2's bags, read as far as a stream goes and written whole.

#[allow(missing_docs, reason = "the names are the specification's")]
mod layout;
mod rebuild;
mod unpack;
mod writer;

#[cfg(test)]
mod tests;

pub use layout::MAGIC;
pub use rebuild::Rebuild;

use schemars::JsonSchema;
use serde::Serialize;

/// What became of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Rebuilt {
    /// Whether the stream had its end.
    pub was_whole: bool,
    /// Messages in the file.
    pub messages: u64,
    /// Those of them that come from a chunk at the end which is not complete, so that its checksum could not be verified.
    pub recovered_messages: u64,
    /// Chunks in the file.
    pub chunks: u64,
    /// Bytes at the end, of a record that is not complete or not MCAP.
    pub cut_bytes: u64,
    /// Bytes behind the end of the stream's own file.
    pub ignored_bytes: u64,
    /// Chunks that do not match their checksum, and were left out.
    pub damaged_chunks: u64,
    /// Attachments that do not match their checksum, and were left out.
    pub damaged_records: u64,
    /// Records that were left out because their channel or schema is missing.
    pub left_out_records: u64,
}
