//! What the initiator needs from the platform: reliable byte streams that do not block.

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

/// A connected byte stream. Dropping it closes it.
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
}
