// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Violations by the host: recorded, never performed.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Why the controller wanted to reach memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Fetching a submission queue entry.
    Submission,
    /// Posting a completion queue entry.
    Completion,
    /// Reading a PRP list.
    List,
    /// An admin command's data.
    Admin,
    /// An I/O command's data.
    Data,
    /// Shadow doorbells and event indices.
    Shadow,
}

/// Something that the host did against the specification, or outside its buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The controller was given a bus address outside every allocated (or permitted) buffer.
    Bus {
        /// The bus address.
        address: u64,
        /// How many bytes were requested from there.
        len: usize,
        /// The purpose of the access.
        access: Access,
    },
    /// A register access outside the register space, or not aligned.
    RegisterAddress {
        /// Byte offset.
        offset: usize,
    },
    /// A write to a register that is read-only, or must not be written in this state.
    RegisterWrite {
        /// Byte offset.
        offset: usize,
        /// The value.
        value: u32,
    },
    /// The controller was enabled with settings that it does not support.
    Enable {
        /// The value written to CC.
        cc: u32,
    },
    /// A doorbell was rung while the controller was not ready, or was shut down.
    DoorbellNotReady {
        /// Byte offset.
        offset: usize,
    },
    /// A doorbell of a queue that does not exist.
    DoorbellUnknown {
        /// Byte offset.
        offset: usize,
    },
    /// A doorbell value at or past the queue's size, or past what the queue holds.
    DoorbellValue {
        /// The queue's identifier.
        queue: u16,
        /// A completion queue's head doorbell.
        completion: bool,
        /// The value.
        value: u32,
    },
    /// A command with the identifier of one that is outstanding on the same queue.
    CommandIdInUse {
        /// The submission queue.
        queue: u16,
        /// The command identifier.
        id: u16,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Bus {
                address,
                len,
                access,
            } => write!(f, "{access:?} access to {len} bytes at bus {address:#x}"),
            Self::RegisterAddress { offset } => write!(f, "no register at {offset:#x}"),
            Self::RegisterWrite { offset, value } => {
                write!(f, "register {offset:#x} written with {value:#x}")
            }
            Self::Enable { cc } => write!(f, "enabled with bad settings, CC {cc:#010x}"),
            Self::DoorbellNotReady { offset } => {
                write!(f, "doorbell {offset:#x} of a controller that is not ready")
            }
            Self::DoorbellUnknown { offset } => write!(f, "doorbell {offset:#x} without a queue"),
            Self::DoorbellValue {
                queue,
                completion,
                value,
            } => {
                let kind = if completion {
                    "completion"
                } else {
                    "submission"
                };
                write!(f, "{kind} queue {queue}: bad doorbell value {value}")
            }
            Self::CommandIdInUse { queue, id } => {
                write!(f, "queue {queue}: command identifier {id:#x} is in use")
            }
        }
    }
}

/// How many violations are kept; all are counted.
const KEPT: usize = 1024;

/// The violations of one memory and the controllers on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Violations(Arc<Mutex<(Vec<Violation>, u64)>>);

impl Violations {
    fn lock(&self) -> MutexGuard<'_, (Vec<Violation>, u64)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn record(&self, violation: Violation) {
        let mut books = self.lock();
        if books.0.len() < KEPT {
            books.0.push(violation);
        }
        books.1 += 1;
    }

    pub(crate) fn list(&self) -> Vec<Violation> {
        self.lock().0.clone()
    }

    pub(crate) fn count(&self) -> u64 {
        self.lock().1
    }
}
