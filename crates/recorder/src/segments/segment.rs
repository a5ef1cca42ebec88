// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is known of a segment that has ended.

#[cfg(feature = "reports")]
use schemars::JsonSchema;
#[cfg(feature = "reports")]
use serde::Serialize;

/// A file of a recording.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "reports", derive(Serialize, JsonSchema))]
pub struct Segment {
    /// Its name in the volume.
    pub name: String,
    /// Its length.
    pub length_bytes: u64,
    /// Gaps in it: NAME.gaps lists them.
    pub gaps: u64,
    /// Bytes that are missing there.
    #[cfg_attr(feature = "reports", serde(skip))]
    pub lost_bytes: u64,
}
