// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a client asks for, whatever its protocol.

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportCommand {
    /// Return bytes.
    Read,
    /// Store the bytes that follow.
    Write,
    /// Make completed writes durable.
    Flush,
    /// Give blocks back to the device.
    Trim,
    /// Zero blocks.
    WriteZeroes,
}

/// A request that is within the device, and permitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The client's name for it, which comes back in the answer.
    pub cookie: u64,
    /// What it does.
    pub command: ExportCommand,
    /// First byte.
    pub offset_bytes: u64,
    /// Number of bytes; 0 only for a flush.
    pub len_bytes: u32,
    /// Complete only when durable.
    pub fua: bool,
}
