// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a stream ended early.

use core::fmt;

/// Why a stream ended. Everything before the error's offset is good: written and durable for a
/// recording, delivered for a playback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A block arrived while every buffer was occupied: the drive did not keep up.
    Overrun {
        /// The offset in the file that the block would have had.
        offset_bytes: u64,
        /// When it arrived, counted from the first block's arrival.
        at_us: u64,
    },
    /// The device failed, and so did the repeated transfers.
    Device {
        /// The offset in the file.
        offset_bytes: u64,
        /// The last error.
        error: block::Error,
    },
    /// The volume refused: it is full, it needs a mount, or a checksum does not match.
    Volume {
        /// The offset in the file.
        offset_bytes: u64,
        /// Why.
        error: volume::Error,
    },
    /// The ring has no places, a place has no buffer, or a buffer is not a whole number of device
    /// blocks (of 64 KiB where checksums are to be compared).
    BadRing,
    /// More buffers were handed in than were taken, or more bytes than the buffer has.
    NotTaken,
    /// The stream has ended: it accepts no more blocks.
    Ended,
}

impl Error {
    /// The outcome for a piece of the file.
    pub(crate) fn at(offset_bytes: u64, error: volume::Error) -> Self {
        match error {
            volume::Error::Device(error) => Error::Device {
                offset_bytes,
                error: error.error(),
            },
            error => Error::Volume {
                offset_bytes,
                error,
            },
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Overrun {
                offset_bytes,
                at_us,
            } => write!(
                f,
                "the drive did not keep up: at offset {offset_bytes}, {at_us} us after the start, \
                 a block arrived and no buffer was empty"
            ),
            Error::Device {
                offset_bytes,
                error,
            } => write!(f, "at offset {offset_bytes}: {error}"),
            Error::Volume {
                offset_bytes,
                error,
            } => write!(f, "at offset {offset_bytes}: {error}"),
            Error::BadRing => f.write_str(
                "the ring's buffers are missing or not a whole number of device blocks (of \
                 64 KiB to compare checksums)",
            ),
            Error::NotTaken => f.write_str("this buffer was not taken from the ring"),
            Error::Ended => f.write_str("the stream has ended"),
        }
    }
}

impl core::error::Error for Error {}
