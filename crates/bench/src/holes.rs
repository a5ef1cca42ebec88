// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file with holes cannot measure the drive: the file system answers reads of a hole without the
//! drive, and allocates space when a hole is written.

use devices::drive::Drive;
use devices::error::{Error, Result};
use rustix::fs::{SeekFrom, seek};
use std::fs::File;

/// Refuses a file that has a hole in the first `span_bytes`, which are measured.
///
/// # Errors
/// The file has a hole, or cannot be opened.
pub fn refuse(drive: &Drive, span_bytes: u64) -> Result<()> {
    let Drive::File(path) = drive else {
        return Ok(());
    };
    let file = File::open(path).map_err(|error| Error::io("opening", path, &error))?;
    // A file system without this information reports the end of the file as the first hole.
    let Ok(hole) = seek(&file, SeekFrom::Hole(0)) else {
        return Ok(());
    };
    if hole >= span_bytes {
        return Ok(());
    }
    let name = path.display();
    Err(Error::usage(format!(
        "{name} has a hole at byte {hole}: the file system would answer instead of the drive; nothing was measured"
    ))
    .hint(format!(
        "cp --sparse=never {name} {name}.full; measure {name}.full"
    )))
}
