// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests and completions.

use core::fmt;

use crate::{Buffer, Error};

/// The submitter's name for a request, returned with the completion. Any value; it need not be
/// unique.
pub type Tag = u32;

/// An operation for a device. Addresses and counts are in logical blocks.
#[derive(Debug)]
pub enum Operation {
    /// Fill the buffer from `lba` on.
    Read {
        /// First logical block.
        lba: u64,
        /// Where the data goes; a whole number of blocks.
        buffer: Buffer,
    },
    /// Store the buffer from `lba` on.
    Write {
        /// First logical block.
        lba: u64,
        /// The data; a whole number of blocks.
        buffer: Buffer,
        /// Complete only when the data is durable (force unit access).
        fua: bool,
    },
    /// Make each write that completed before this was submitted durable.
    Flush,
    /// The blocks' contents are no longer needed; what they read as afterwards is up to the device.
    Discard {
        /// First logical block.
        lba: u64,
        /// Number of blocks.
        block_count: u32,
    },
    /// Make the blocks read as zeroes.
    WriteZeroes {
        /// First logical block.
        lba: u64,
        /// Number of blocks.
        block_count: u32,
        /// Complete only when durable.
        fua: bool,
    },
}

impl Operation {
    /// Takes the buffer out, if the operation has one.
    pub fn into_buffer(self) -> Option<Buffer> {
        match self {
            Operation::Read { buffer, .. } | Operation::Write { buffer, .. } => Some(buffer),
            _ => None,
        }
    }
}

/// An operation and the submitter's name for it.
#[derive(Debug)]
pub struct Request {
    /// Comes back with the completion.
    pub tag: Tag,
    /// The operation.
    pub operation: Operation,
}

/// A request that was not accepted, given back whole; nothing was changed.
#[derive(Debug)]
pub struct Refused {
    /// Why.
    pub error: Error,
    /// The request as it was submitted, its buffer included.
    pub request: Request,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl core::error::Error for Refused {}

/// The end of a request. Each accepted request has exactly one.
#[derive(Debug)]
pub struct Completion {
    /// The request's tag.
    pub tag: Tag,
    /// The request's buffer, returned to the submitter.
    pub buffer: Option<Buffer>,
    /// The result.
    pub result: Result<(), Error>,
}
