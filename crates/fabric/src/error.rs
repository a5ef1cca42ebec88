//! Why a connection or an association failed.

use crate::StreamError;
use core::fmt;
use nvme::Status;

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
    /// A name is longer than the protocol allows, or empty.
    Name,
    /// The buffer for administration has less than 4096 bytes.
    Memory,
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
                Status(status).name()
            ),
            Self::Unusable(error) => error.fmt(f),
            Self::Fatal => f.write_str("the controller reports a fatal error"),
            Self::Name => f.write_str("a qualified name has 1 to 223 bytes"),
            Self::Memory => f.write_str("the buffer for administration has less than 4096 bytes"),
        }
    }
}

impl core::error::Error for FabricError {}
