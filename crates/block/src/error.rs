//! What can go wrong with a request, and what its owner can do about it.

use core::fmt;

/// Why a request was refused or failed.
///
/// A refused request changed nothing. A failed write may have changed any of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The queue is full: poll, then submit again.
    QueueFull,
    /// The length is zero or no multiple of the block size, or the buffer is not aligned as
    /// [`Geometry::buffer_align_bytes`](crate::Geometry::buffer_align_bytes) says.
    Unaligned,
    /// The transfer is longer than the device's largest: split it.
    TooLarge,
    /// The range ends past the last block.
    OutOfRange,
    /// The buffer is not in memory that the device can reach: take it from the device's own.
    BufferUnreachable,
    /// The device cannot do this operation.
    Unsupported,
    /// The device cannot be changed.
    ReadOnly,
    /// A blocking call found requests of somebody else under way.
    Busy,
    /// An NVMe controller answered with this status field (bits 14:0 of the completion's status:
    /// SC, SCT, CRD, More, Do Not Retry; NVMe base specification, "Status Field").
    Nvme {
        /// The status field, phase tag removed.
        status: u16,
    },
    /// The operating system answered with this error number.
    Os {
        /// A positive `errno`.
        errno: i32,
    },
    /// The request missed its deadline and was ended by recovery. Whether it took effect is not
    /// known: it may be repeated.
    TimedOut,
    /// Another request's recovery ended this one too. Whether it took effect is not known: it may
    /// be repeated.
    Aborted,
    /// The device moved less than was asked.
    ShortTransfer {
        /// Bytes that were moved.
        done_bytes: u32,
    },
    /// The device no longer answers, or is no longer there: close it.
    Gone,
}

impl Error {
    /// Whether repeating the same request can help.
    pub const fn is_retryable(&self) -> bool {
        match self {
            Error::QueueFull
            | Error::Busy
            | Error::TimedOut
            | Error::Aborted
            | Error::ShortTransfer { .. } => true,
            Error::Nvme { status } => *status & 0x4000 == 0,
            _ => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::QueueFull => f.write_str("the queue is full: poll, then submit again"),
            Error::Unaligned => {
                f.write_str("the length or the buffer's address is no multiple of the block size")
            }
            Error::TooLarge => f.write_str("longer than the device's largest transfer: split it"),
            Error::OutOfRange => f.write_str("the range ends past the device's last block"),
            Error::BufferUnreachable => {
                f.write_str("the buffer is not in memory that the device can reach")
            }
            Error::Unsupported => f.write_str("the device does not support this operation"),
            Error::ReadOnly => f.write_str("the device is read-only"),
            Error::Busy => f.write_str("other requests are under way: poll them first"),
            Error::Nvme { status } => {
                let (code_type, code) = ((status >> 8) & 7, status & 0xff);
                write!(
                    f,
                    "the drive answered with NVMe status {code_type:x}/{code:02x}"
                )?;
                if status & 0x4000 != 0 {
                    f.write_str(" (do not retry)")?;
                }
                Ok(())
            }
            Error::Os { errno } => write!(f, "the operating system answered with errno {errno}"),
            Error::TimedOut => f.write_str("the request missed its deadline and was ended"),
            Error::Aborted => f.write_str("recovery from another request's failure ended this one"),
            Error::ShortTransfer { done_bytes } => {
                write!(f, "the device moved only {done_bytes} bytes")
            }
            Error::Gone => f.write_str("the device no longer answers: it failed or was removed"),
        }
    }
}

impl core::error::Error for Error {}
