// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a plain file has any data.

use devices::cancel::Cancel;
use devices::error::{Error, Result};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// How much is read at once.
const READ_BYTES: usize = 1 << 20;
/// How much is compared at once.
const COMPARED_BYTES: usize = 4096;

/// Whether any byte of the file is not zero. Only what the file system holds is read, so that a
/// long file without data takes no time.
///
/// # Errors
/// It cannot be read, or the user ended the command.
pub fn has_data(path: &Path, cancel: &Cancel) -> Result<bool> {
    let failed = |error: std::io::Error| Error::io("reading", path, &error);
    let file = File::open(path).map_err(failed)?;
    let mut buffer = vec![0; READ_BYTES];
    let mut end = 0;
    loop {
        let start = match seek(&file, SeekFrom::Data(end)) {
            Ok(start) => start,
            // No data from there on.
            Err(Errno::NXIO) => return Ok(false),
            // A file system that does not know: everything is read.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => end,
            Err(error) => return Err(failed(error.into())),
        };
        end = seek(&file, SeekFrom::Hole(start)).unwrap_or(u64::MAX);
        let mut at = start;
        while at < end {
            if cancel.is_set() {
                return Err(Error::interrupted(format!(
                    "{} was not changed",
                    path.display()
                )));
            }
            let most = buffer
                .len()
                .min(usize::try_from(end - at).unwrap_or(usize::MAX));
            let read = file.read_at(&mut buffer[..most], at).map_err(failed)?;
            if read == 0 {
                return Ok(false);
            }
            let mut parts = buffer[..read].chunks(COMPARED_BYTES);
            if parts.any(|part| part.iter().fold(0, |all, byte| all | byte) != 0) {
                return Ok(true);
            }
            at += read as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_anywhere_is_data_and_zeroes_are_none() {
        let path = std::env::temp_dir().join(format!("straightway-data-{}", std::process::id()));
        let has = || has_data(&path, &Cancel::default()).unwrap();
        let file = File::create(&path).unwrap();
        assert!(!has());
        file.set_len(5 << 20).unwrap();
        assert!(!has());
        // Zeroes that were written are data for the file system.
        file.write_all_at(&vec![0; 3 << 20], 1 << 20).unwrap();
        assert!(!has());
        for at in [0, (4 << 20) - 1, (5 << 20) - 1, (1 << 20) + 77] {
            file.write_all_at(&[1], at).unwrap();
            assert!(has(), "{at}");
            file.write_all_at(&[0], at).unwrap();
            assert!(!has(), "{at}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_long_file_without_data_is_not_read() {
        let path = std::env::temp_dir().join(format!("straightway-long-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        if file.set_len(1 << 40).is_err() {
            println!("SKIPPED: this file system has no files of 1 TiB");
        } else {
            assert!(!has_data(&path, &Cancel::default()).unwrap());
            file.write_all_at(&[1], (1 << 40) - 1).unwrap();
            assert!(has_data(&path, &Cancel::default()).unwrap());
        }
        std::fs::remove_file(&path).unwrap();
    }
}
