// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong with a controller, and what its owner can do about it.

use core::fmt;

use crate::status::StatusField;

/// Why the controller could not be set up or an admin command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The device is no longer on the bus, or recovery has given it up.
    Gone,
    /// The controller reports a fatal error (CSTS.CFS): reset or power-cycle it.
    Fatal,
    /// CSTS.RDY did not reach the requested value within CAP.TO.
    NotReady {
        /// The requested value.
        enable: bool,
        /// How long the driver waited, in milliseconds.
        waited_ms: u32,
    },
    /// An admin command did not complete within its deadline.
    TimedOut {
        /// The command's opcode.
        opcode: u8,
    },
    /// An admin command completed with an error.
    Status {
        /// The command's opcode.
        opcode: u8,
        /// Its status.
        status: StatusField,
    },
    /// The controller lacks something that the driver needs.
    Unsupported(Unsupported),
    /// A namespace is of a kind, or has a format, that the driver cannot use.
    Namespace {
        /// The identifier (NSID).
        nsid: u32,
        /// Why it cannot be used.
        why: Unsupported,
    },
    /// The memory given is shorter than this, not aligned to a page, or not contiguous on the bus.
    Memory {
        /// The length that is needed, in bytes.
        needed_bytes: usize,
    },
    /// No active namespace has this identifier.
    NoNamespace {
        /// The identifier (NSID).
        nsid: u32,
    },
    /// The controller granted no more I/O queues.
    NoQueueLeft,
    /// Another thread is using the admin queue: try again.
    Busy,
    /// Interrupts are not available for this queue: poll.
    NoInterrupt,
    /// A generic command was not sent.
    Generic {
        /// Its opcode.
        opcode: u8,
        /// Why not.
        why: GenericRefusal,
    },
}

/// Why a generic command is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GenericRefusal {
    /// It would change the driver's own queues, events or doorbells.
    Owned,
    /// Its data is missing, or has another direction than its opcode (bits 1:0).
    Direction,
    /// Its data is empty, longer than 4 KiB, or has another length than its dwords say.
    Length,
    /// The controller is known to stop on it
    /// ([`Quirks::NO_TEMPERATURE_THRESHOLD`](crate::Quirks::NO_TEMPERATURE_THRESHOLD)).
    Quirk,
}

impl fmt::Display for GenericRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            GenericRefusal::Owned => "it would change what the driver owns",
            GenericRefusal::Direction => {
                "its data does not have the direction of its opcode (bits 1:0)"
            }
            GenericRefusal::Quirk => "this controller is known to stop on it",
            GenericRefusal::Length => {
                "its data must have 1 to 4096 bytes, as many as its dwords say"
            }
        })
    }
}

/// What the controller lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsupported {
    /// CAP.CSS has no NVM command set.
    NvmCommandSet,
    /// CAP.MPSMIN is above 64 KiB, or above CAP.MPSMAX.
    PageSize,
    /// Queues of fewer than two entries (CAP.MQES = 0).
    QueueEntries,
    /// Queue entries are not 64 and 16 bytes (SQES, CQES).
    EntrySize,
    /// The doorbells end past the register space.
    DoorbellStride,
    /// The LBA size is not 512 B to 64 KiB.
    BlockSize,
    /// The LBA format has metadata.
    Metadata,
    /// The namespace has no blocks.
    EmptyNamespace,
    /// Its submission queue entries are not of 64 bytes, or its queues share command identifiers
    /// ([`Quirks::WIDE_ENTRIES`](crate::Quirks::WIDE_ENTRIES),
    /// [`Quirks::SHARED_TAGS`](crate::Quirks::SHARED_TAGS)).
    Quirk,
    /// The namespace belongs to this command set, not to the NVM command set.
    CommandSet(u8),
    /// MDTS or the queue's memory does not even hold one block.
    TransferSize,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Unsupported::NvmCommandSet => "it does not offer the NVM command set (CAP.CSS)",
            Unsupported::PageSize => {
                "its smallest page is above 64 KiB or its largest (CAP.MPSMIN)"
            }
            Unsupported::QueueEntries => "its queues have fewer than two entries (CAP.MQES)",
            Unsupported::EntrySize => "its queue entries are not 64 and 16 bytes (SQES, CQES)",
            Unsupported::DoorbellStride => "its doorbells end past its registers (CAP.DSTRD)",
            Unsupported::BlockSize => "its blocks are not of 512 B to 64 KiB (LBADS)",
            Unsupported::Quirk => {
                "it is known to need submission entries of 128 bytes, or one tag space for all queues"
            }
            Unsupported::Metadata => "it is formatted with metadata (MS is not 0)",
            Unsupported::EmptyNamespace => "it has no blocks (NSZE = 0)",
            Unsupported::CommandSet(1) => "it is a key-value namespace (command set 1)",
            Unsupported::CommandSet(2) => "it is a zoned namespace (command set 2)",
            Unsupported::CommandSet(set) => {
                return write!(f, "it has the unknown command set {set}");
            }
            Unsupported::TransferSize => "its largest transfer is smaller than a block (MDTS)",
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Gone => f.write_str("the controller failed for good or was removed"),
            Error::Fatal => f.write_str("the controller reports a fatal error (CSTS.CFS)"),
            Error::NotReady { enable, waited_ms } => {
                let (verb, bit) = if *enable {
                    ("enable", 1)
                } else {
                    ("disable", 0)
                };
                write!(
                    f,
                    "the controller did not {verb}: CSTS.RDY was not {bit} within {waited_ms} ms"
                )
            }
            Error::TimedOut { opcode } => {
                write!(f, "admin command {opcode:#04x} got no answer in time")
            }
            Error::Status { opcode, status } => {
                write!(f, "admin command {opcode:#04x} failed: {status}")
            }
            Error::Unsupported(what) => write!(f, "the controller cannot be used: {what}"),
            Error::Namespace { nsid, why } => {
                write!(f, "namespace {nsid} cannot be used: {why}")
            }
            Error::Memory { needed_bytes } => write!(
                f,
                "the driver needs {needed_bytes} bytes of contiguous, page-aligned DMA memory"
            ),
            Error::NoNamespace { nsid } => write!(f, "there is no namespace {nsid}"),
            Error::NoQueueLeft => f.write_str("the controller has no I/O queue left"),
            Error::Busy => f.write_str("the admin queue is in use by another thread: try again"),
            Error::NoInterrupt => f.write_str("this queue has no interrupt: poll it"),
            Error::Generic { opcode, why } => {
                write!(f, "command {opcode:#04x} was not sent: {why}")
            }
        }
    }
}

impl core::error::Error for Error {}

impl From<Error> for block::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Status { status, .. } => block::Error::Nvme { status: status.0 },
            Error::TimedOut { .. } => block::Error::TimedOut,
            Error::Busy => block::Error::Busy,
            Error::Gone | Error::Fatal | Error::NotReady { .. } => block::Error::Gone,
            _ => block::Error::Unsupported,
        }
    }
}
