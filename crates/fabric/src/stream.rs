// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the initiator needs from the platform: reliable byte streams that do not block.

use crate::{FabricError, KeepAlive, Keeper};

/// Why a stream failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamError {
    /// The other side closed it.
    Closed,
    /// The operating system's error number.
    Os {
        /// A positive `errno`.
        errno: i32,
    },
}

/// A connected byte stream.
///
/// Dropping it, and the end of the process, must discard what has not been sent (`SO_LINGER` with a
/// time of 0, RFC 9293 "ABORT"): bytes that are sent later are commands of an association that was
/// given up.
pub trait ByteStream {
    /// Reads what has arrived, at most `bytes.len()`; 0 if nothing has.
    ///
    /// # Errors
    /// The stream is closed or failed.
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, StreamError>;

    /// Writes what it has room for; 0 if it has none.
    ///
    /// # Errors
    /// The stream is closed or failed.
    fn write(&mut self, bytes: &[u8]) -> Result<usize, StreamError>;

    /// Sleeps until something has arrived, or there is room if `for_room`, or about
    /// `timeout_us` microseconds have passed.
    fn wait(&mut self, timeout_us: u32, for_room: bool);
}

/// Opens streams to one target.
pub trait Connect {
    /// Its streams.
    type Stream: ByteStream;

    /// Connects, for at most `timeout_us`.
    ///
    /// # Errors
    /// No connection.
    fn connect(&mut self, timeout_us: u64) -> Result<Self::Stream, StreamError>;

    /// Sleeps for about `us` microseconds, before the next attempt.
    fn pause(&mut self, us: u64);

    /// Who tends the administration connections of its target.
    type Keeper: Keeper;

    /// Hands over the administration connection of a new association.
    fn keep(&mut self, admin: KeepAlive<Self::Stream>) -> Self::Keeper;

    /// Something happened to the association. It must not block.
    fn event(&mut self, event: RemoteEvent) {
        let _ = event;
    }
}

/// Something that happened to an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RemoteEvent {
    /// It was lost, and is made again.
    Lost {
        /// Why.
        error: FabricError,
    },
    /// It was made again.
    Connected {
        /// Changing commands wait for so long, until the commands of the lost one have ended at the
        /// target.
        writes_wait_us: u64,
    },
    /// It was made again, and changes that the lost one had acknowledged are not covered by a
    /// flush. If the target has lost its volatile cache, at a restart or a power cut, they are
    /// gone, and nothing in the protocol tells it: the next flush succeeds.
    CacheInDoubt,
    /// It could not be made again: the device is gone.
    GivenUp {
        /// Why.
        error: FabricError,
        /// For so long commands that were not answered may still be executed; 0 if there are none,
        /// `u64::MAX` if that is not known.
        in_doubt_us: u64,
    },
    /// The device is closed, which waits until commands that were not answered cannot be executed
    /// any more.
    Closing {
        /// For so long.
        wait_us: u64,
    },
    /// A changing command that was not answered ended with an unknown outcome.
    InDoubt {
        /// For so long it may still be executed; `u64::MAX` if that is not known.
        in_doubt_us: u64,
    },
}
