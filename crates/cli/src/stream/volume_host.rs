//! Who keeps the volume while a stream runs: this processor, or a coprocessor.

use crate::Context;
use crate::drive::Drive;
use crate::failure::{Failure, Result};
use crate::stream::playing::{Played, Playing};
use crate::stream::recording::{Recorded, Recording};
use crate::stream::sink::Sink;
use crate::stream::source::Source;
use crate::volume::Checksums;

/// What a stream gave, or why it did not begin: then nothing was moved.
pub type Streamed<T> = std::result::Result<T, Failure>;

/// A mounted volume, wherever it is mounted. Errors are what the volume or the way to it says.
pub trait VolumeHost {
    /// An open file.
    type File: Copy;

    /// What the user named.
    fn drive(&self) -> &Drive;

    /// Whether the machine wants the drive back: it is being unplugged or unbound.
    fn is_recalled(&self) -> bool;

    /// The drive's block.
    ///
    /// # Errors
    /// It is gone; of the following too, as of what they do.
    fn block_bytes(&self) -> Result<usize>;

    /// Whether there is a file of this name.
    ///
    /// # Errors
    /// The volume's.
    fn exists(&mut self, name: &str) -> Result<bool>;

    /// Makes a file to record into, with its space.
    ///
    /// # Errors
    /// The volume has no checksums, no space, or the name already.
    fn create(
        &mut self,
        name: &str,
        reserve_bytes: u64,
        checksums: Checksums,
    ) -> Result<Self::File>;

    /// Opens a file to play.
    ///
    /// # Errors
    /// There is none, or the volume's.
    fn open(&mut self, name: &str) -> Result<Self::File>;

    /// Closes a file; what was written of it is durable then.
    ///
    /// # Errors
    /// The volume's.
    fn close(&mut self, name: &str, file: Self::File) -> Result<()>;

    /// Removes a file that is not open.
    ///
    /// # Errors
    /// The volume's.
    fn remove(&mut self, name: &str) -> Result<()>;

    /// Records into `file`, and where blocks may be dropped, their gaps into `gap_file`.
    ///
    /// # Errors
    /// There is no memory, or a thread ended; inside, the stream cannot begin.
    fn record(
        &mut self,
        context: &Context,
        recording: &Recording,
        source: Source,
        file: Self::File,
        gap_file: Option<Self::File>,
    ) -> Result<Streamed<Recorded>>;

    /// Plays `file`, whose name is `name`.
    ///
    /// # Errors
    /// As of [`record`](VolumeHost::record).
    fn play(
        &mut self,
        context: &Context,
        playing: &Playing,
        sink: Sink,
        name: &str,
        file: Self::File,
    ) -> Result<Streamed<Played>>;
}
