// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file of lines that a verb appends to, each durable when it is added, and reads at its next
//! start. One process has it at a time.

use super::output::{Output, refuse_address};
use crate::error::{Error, ErrorKind, Result, folder_of};
use linux::Roots;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// An open file of lines.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
}

impl Journal {
    /// Opens or makes the file, and locks it: the whole lines that it has. What is behind the last
    /// end of a line was cut off by a kill or a power cut.
    ///
    /// # Errors
    /// It is not a regular file, another process has it, or it cannot be read.
    pub fn open(roots: &Roots, path: &Path) -> Result<(Self, String)> {
        refuse_address(path)?;
        if let Ok(data) = std::fs::metadata(path) {
            if !data.is_file() {
                let what = format!("{} is not a file; nothing was done", path.display());
                return Err(Error::usage(what).hint("name another file"));
            }
        } else {
            // Checks the folder, and that the name may be made.
            Output::check(roots, path, false, None)?;
        }
        let failed = |error: std::io::Error| Error::io("opening", path, &error);
        let mut file = locked(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n');
        // All lines are replaced at once, so that a first one is never cut off.
        let is_other = whole.is_none() && !bytes.is_empty();
        bytes.truncate(whole.map_or(0, |end| end + 1));
        let text = String::from_utf8(bytes).ok().filter(|_| !is_other);
        let text = text.ok_or_else(|| {
            let what = format!("{} does not have lines; nothing was done", path.display());
            Error::usage(what).hint("name another file")
        })?;
        let path = path.to_owned();
        Ok((Self { file, path }, text))
    }

    /// Replaces all lines: a power cut leaves the old ones or the new ones.
    ///
    /// # Errors
    /// It cannot be written; the old lines are there.
    pub fn replace(&mut self, lines: &str) -> Result<()> {
        let failed = |error: std::io::Error| Error::io("writing", &self.path, &error);
        let beside = self.path.with_file_name(format!(
            "{}.new~",
            self.path.file_name().unwrap_or_default().to_string_lossy()
        ));
        let mut options = File::options();
        let options = options.append(true).create(true);
        let mut new = options.open(&beside).map_err(failed)?;
        lock(&new, &self.path)?;
        let written = new
            .set_len(0)
            .and_then(|()| new.write_all(lines.as_bytes()))
            .and_then(|()| new.sync_all())
            .and_then(|()| std::fs::rename(&beside, &self.path));
        written.map_err(failed)?;
        self.file = new;
        sync_folder(&self.path)
    }

    /// Adds a line, which ends with its end, durably.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&mut self, line: &str) -> Result<()> {
        let written = self.file.write_all(line.as_bytes());
        let written = written.and_then(|()| self.file.sync_data());
        written.map_err(|error| Error::io("writing", &self.path, &error))
    }
}

/// Makes the names in a file's folder durable.
///
/// # Errors
/// The folder cannot be opened, or its drive failed.
pub fn sync_folder(path: &Path) -> Result<()> {
    let folder = folder_of(path);
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| Error::io("writing", folder, &error))
}

fn locked(path: &Path) -> Result<File> {
    let failed = |error: std::io::Error| Error::io("opening", path, &error);
    loop {
        let mut options = File::options();
        let options = options.read(true).append(true).create(true);
        let file = options.open(path).map_err(failed)?;
        lock(&file, path)?;
        // Another process may have replaced it in between.
        let now = std::fs::metadata(path);
        let own = file.metadata().map_err(failed)?;
        if now.is_ok_and(|now| (now.dev(), now.ino()) == (own.dev(), own.ino())) {
            return Ok(file);
        }
    }
}

fn lock(file: &File, path: &Path) -> Result<()> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => {
            let what = format!("another process uses {}", path.display());
            Err(Error::new(ErrorKind::Missing, what).hint("each needs a file of its own"))
        }
        Err(error) => Err(Error::io("locking", path, &error.into())),
    }
}
