// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a connection or an association failed.

use crate::StreamError;
use core::fmt;
use nvme::StatusField;

/// Why a connection or an association failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FabricError {
    /// The stream failed.
    Stream(StreamError),
    /// The answer to the connection request is not one of this protocol.
    Initialization(&'static str),
    /// The target violated the protocol, or its data does.
    Protocol(&'static str),
    /// A header's digest does not match.
    HeaderDigest,
    /// The target ended the connection.
    Terminated {
        /// The fatal error status of its TermReq PDU.
        status: u16,
    },
    /// The target did not answer in time.
    TimedOut(&'static str),
    /// A command failed.
    Status {
        /// Which.
        what: &'static str,
        /// The status field.
        status: u16,
    },
    /// The controller or the namespace cannot be used.
    Unusable(nvme::Error),
    /// The controller reports a fatal state.
    Fatal,
    /// After a reconnection another namespace has the name.
    OtherNamespace {
        /// Its identifier (NSID).
        nsid: u32,
        /// What it was known by.
        was: Identifier,
        /// The same of the one that is there now.
        now: Identifier,
    },
    /// A name is longer than the protocol allows, or empty.
    Name,
    /// The buffer for administration has less than 4096 bytes.
    Memory,
}

/// What a namespace is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identifier {
    /// UUID.
    Uuid([u8; 16]),
    /// Globally unique identifier (NGUID).
    Nguid([u8; 16]),
    /// Extended unique identifier (EUI64).
    Eui64([u8; 8]),
    /// Size and logical block.
    Size {
        /// Logical blocks.
        block_count: u64,
        /// A block has `1 << block_size_log2` bytes.
        block_size_log2: u8,
    },
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = |f: &mut fmt::Formatter<'_>, bytes: &[u8]| {
            bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
        };
        match self {
            Self::Uuid(bytes) => {
                f.write_str("UUID ")?;
                for (index, byte) in bytes.iter().enumerate() {
                    if matches!(index, 4 | 6 | 8 | 10) {
                        f.write_str("-")?;
                    }
                    write!(f, "{byte:02x}")?;
                }
                Ok(())
            }
            Self::Nguid(bytes) => {
                f.write_str("NGUID ")?;
                hex(f, bytes)
            }
            Self::Eui64(bytes) => {
                f.write_str("EUI64 ")?;
                hex(f, bytes)
            }
            Self::Size {
                block_count,
                block_size_log2,
            } => write!(
                f,
                "{block_count} blocks of {} bytes",
                1u64 << block_size_log2
            ),
        }
    }
}

/// Status codes of Connect (NVMe over Fabrics, "Connect response").
const INVALID_PARAMETERS: u16 = 0x182;
const INVALID_HOST: u16 = 0x184;

impl FabricError {
    /// The target forbids this host.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Status { what: "connect", status } if *status & 0x7ff == INVALID_HOST)
    }

    /// The target has no such subsystem.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Status { what: "connect", status } if *status & 0x7ff == INVALID_PARAMETERS)
    }
}

impl From<StreamError> for FabricError {
    fn from(error: StreamError) -> Self {
        Self::Stream(error)
    }
}

impl fmt::Display for FabricError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Stream(StreamError::Closed) => f.write_str("the target closed the connection"),
            Self::Stream(StreamError::Os { errno }) => {
                write!(f, "the connection failed with errno {errno}")
            }
            Self::Initialization(what) => write!(f, "not an NVMe/TCP target: {what}"),
            Self::Protocol(what) => write!(f, "the target violated the protocol: {what}"),
            Self::HeaderDigest => f.write_str("a header's digest does not match"),
            Self::Terminated { status } => {
                write!(f, "the target ended the connection with status {status}")
            }
            Self::TimedOut(what) => write!(f, "no answer in time to {what}"),
            Self::Status { .. } if self.is_unknown() => {
                f.write_str("the target has no such subsystem (Connect Invalid Parameters)")
            }
            Self::Status { .. } if self.is_forbidden() => {
                f.write_str("the target forbids this host (Connect Invalid Host)")
            }
            Self::Status { what, status } => write!(
                f,
                "{what} failed with NVMe status {:x}/{:02x} ({})",
                (status >> 8) & 7,
                status & 0xff,
                StatusField(status).name()
            ),
            Self::Unusable(error) => error.fmt(f),
            Self::Fatal => f.write_str("the controller reports a fatal error"),
            Self::OtherNamespace { nsid, was, now } => write!(
                f,
                "namespace {nsid} is another one after the reconnection: it has {now}, and had {was}"
            ),
            Self::Name => f.write_str("a qualified name has 1 to 223 bytes"),
            Self::Memory => f.write_str("the buffer for administration has less than 4096 bytes"),
        }
    }
}

impl core::error::Error for FabricError {}
