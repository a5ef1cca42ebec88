// SPDX-License-Identifier: Apache-2.0 OR MIT
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
    /// The length is zero or not a multiple of the block size, or the buffer is not aligned to
    /// [`Geometry::buffer_align_bytes`](crate::Geometry::buffer_align_bytes).
    Unaligned,
    /// The transfer is longer than the device's largest: split it.
    TooLarge,
    /// The range ends past the last block.
    OutOfRange,
    /// The buffer is not in memory that the device can reach: take it from the device's own.
    BufferUnreachable,
    /// The device cannot do this operation.
    Unsupported,
    /// The device is read-only.
    ReadOnly,
    /// A blocking call found another caller's requests outstanding.
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
    /// The device no longer responds, or was removed: close it.
    Gone,
    /// The connection to the device was lost before it answered. The request may have taken effect,
    /// and may still do so later, so it must not be repeated, and its blocks not be written by
    /// another path, before the device says so or the time that it names has passed.
    OutcomeUnknown,
    /// Another device is there now: close it.
    Replaced,
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

/// An [`Error`] in 32 bits, so that the error of a layer above, which contains it, fits two
/// registers of a small machine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PackedError(u32);

/// The remaining bits, for the number that some errors carry.
const DETAIL_BITS: u32 = 28;

impl PackedError {
    /// The error. A [`Error::ShortTransfer`] of 256 MiB or more has lost what was above that.
    pub const fn error(self) -> Error {
        let detail = self.0 & ((1 << DETAIL_BITS) - 1);
        match self.0 >> DETAIL_BITS {
            0 => Error::QueueFull,
            1 => Error::Unaligned,
            2 => Error::TooLarge,
            3 => Error::OutOfRange,
            4 => Error::BufferUnreachable,
            5 => Error::Unsupported,
            6 => Error::ReadOnly,
            7 => Error::Busy,
            8 => Error::Nvme {
                status: detail as u16,
            },
            9 => Error::Os {
                errno: detail as i32,
            },
            10 => Error::TimedOut,
            11 => Error::Aborted,
            12 => Error::ShortTransfer { done_bytes: detail },
            14 => Error::OutcomeUnknown,
            15 => Error::Replaced,
            _ => Error::Gone,
        }
    }
}

impl From<Error> for PackedError {
    #[inline(never)]
    fn from(error: Error) -> Self {
        let (kind, detail) = match error {
            Error::QueueFull => (0, 0),
            Error::Unaligned => (1, 0),
            Error::TooLarge => (2, 0),
            Error::OutOfRange => (3, 0),
            Error::BufferUnreachable => (4, 0),
            Error::Unsupported => (5, 0),
            Error::ReadOnly => (6, 0),
            Error::Busy => (7, 0),
            Error::Nvme { status } => (8, u32::from(status)),
            Error::Os { errno } => (9, errno.unsigned_abs()),
            Error::TimedOut => (10, 0),
            Error::Aborted => (11, 0),
            Error::ShortTransfer { done_bytes } => (12, done_bytes),
            Error::Gone => (13, 0),
            Error::OutcomeUnknown => (14, 0),
            Error::Replaced => (15, 0),
        };
        Self(kind << DETAIL_BITS | detail.min((1 << DETAIL_BITS) - 1))
    }
}

impl fmt::Debug for PackedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.error(), f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::QueueFull => f.write_str("the queue is full: poll, then submit again"),
            Error::Unaligned => {
                f.write_str("length or buffer address is not a multiple of the block size")
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
            Error::OutcomeUnknown => f.write_str(
                "the connection was lost before the device answered: the outcome is unknown, and the request may still take effect",
            ),
            Error::Replaced => f.write_str("another device is there now"),
        }
    }
}

impl core::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        for error in [
            Error::QueueFull,
            Error::Unaligned,
            Error::TooLarge,
            Error::OutOfRange,
            Error::BufferUnreachable,
            Error::Unsupported,
            Error::ReadOnly,
            Error::Busy,
            Error::Nvme { status: 0x7fff },
            Error::Os { errno: 4095 },
            Error::TimedOut,
            Error::Aborted,
            Error::ShortTransfer { done_bytes: 4096 },
            Error::Gone,
            Error::OutcomeUnknown,
            Error::Replaced,
        ] {
            assert_eq!(PackedError::from(error).error(), error);
        }
    }
}
