// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The owner of the volume during a stream: this process or a coprocessor.

use crate::Streamed;
use crate::playing::{Played, Playing};
use crate::recording::{Recorded, Recording};
use crate::sink::Sink;
use crate::source::Source;
use devices::Context;
use devices::drive::Drive;
use devices::error::Result;
use files::Checksums;

/// A mounted volume, wherever it is mounted. Errors come from the volume or the path to it.
pub trait VolumeHost {
    /// An open file.
    type File: Copy;

    /// The user's name of the device.
    fn drive(&self) -> &Drive;

    /// Whether the machine recalls the drive: it is being unplugged or unbound.
    fn is_recalled(&self) -> bool;

    /// The drive's block.
    ///
    /// # Errors
    /// The volume is not reachable.
    fn block_bytes(&self) -> Result<usize>;

    /// Whether there is a file of this name.
    ///
    /// # Errors
    /// The volume failed.
    fn exists(&mut self, name: &str) -> Result<bool>;

    /// Creates a file for a recording, with this number of an application's, and reserves its
    /// space. A coprocessor's files have no such number.
    ///
    /// # Errors
    /// The volume has no checksums, no space, or already has the name.
    fn create(
        &mut self,
        name: &str,
        reserve_bytes: u64,
        checksums: Checksums,
        app_tag: u64,
    ) -> Result<Self::File>;

    /// Stores a small file, durably, with this number of an application's.
    ///
    /// # Errors
    /// The volume has no space, or already has the name; a coprocessor stores no files for others.
    fn store(&mut self, name: &str, bytes: &[u8], app_tag: u64) -> Result<()>;

    /// Opens a file to play.
    ///
    /// # Errors
    /// The file does not exist, or the volume failed.
    fn open(&mut self, name: &str) -> Result<Self::File>;

    /// Closes a file; its data is durable then.
    ///
    /// # Errors
    /// The volume failed.
    fn close(&mut self, name: &str, file: Self::File) -> Result<()>;

    /// Removes a file that is not open.
    ///
    /// # Errors
    /// The volume failed.
    fn remove(&mut self, name: &str) -> Result<()>;

    /// Records into `file`; if blocks may be dropped, records the gaps in `gap_file`.
    ///
    /// # Errors
    /// Memory is missing, or a thread ended; in the inner result, the stream could not begin.
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
    /// The same as those of [`record`](VolumeHost::record).
    fn play(
        &mut self,
        context: &Context,
        playing: &Playing,
        sink: Sink,
        name: &str,
        file: Self::File,
    ) -> Result<Streamed<Played>>;
}
